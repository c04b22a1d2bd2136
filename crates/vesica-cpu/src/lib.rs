//! The one place that asks the CPU what it can do.
//!
//! A [`Backend`] is a set of instructions that the kernels are compiled for. All are in every binary; which one runs is
//! decided once per process: the best that this CPU has, or a lesser one named by `VESICA_CPU`.

#![forbid(unsafe_code)]

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use std::arch::is_aarch64_feature_detected;
use std::fmt;
use std::sync::OnceLock;

/// An instruction set that kernels are compiled for, from the plainest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Backend {
    /// Plain Rust on 64-bit words: any CPU. The specification that the others are tested against.
    Portable,
    /// Two 64-bit lanes: NEON, which every 64-bit ARM CPU has, with the instructions for AES and for products over GF(2). Few
    /// lack those; the Raspberry Pi 4 does.
    Neon,
    /// Four 64-bit lanes: AVX2 with FMA, AES-NI and PCLMULQDQ. Every x86 CPU with AVX2 has the rest, except in a virtual
    /// machine that hides them.
    Avx2,
    /// Eight 64-bit lanes: AVX-512 F, DQ, BW, VL, IFMA, VBMI and VNNI, with VAES, VPCLMULQDQ and GFNI: Intel's since Ice
    /// Lake, AMD's since Zen 4.
    Ifma,
}

impl Backend {
    /// Every back end, from the plainest to the widest.
    pub const ALL: [Backend; 4] = [Backend::Portable, Backend::Neon, Backend::Avx2, Backend::Ifma];

    /// The name, as `VESICA_CPU` and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Portable => "portable",
            Backend::Neon => "neon",
            Backend::Avx2 => "avx2",
            Backend::Ifma => "ifma",
        }
    }

    /// The back ends that this CPU can run, from the plainest to the widest.
    pub fn available() -> Vec<Backend> {
        Self::ALL.into_iter().filter(|b| b.is_available()).collect()
    }

    /// Whether this CPU has the instructions.
    pub fn is_available(self) -> bool {
        match self {
            Backend::Portable => true,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Backend::Neon => is_aarch64_feature_detected!("aes") && is_aarch64_feature_detected!("pmull"),
            #[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
            Backend::Neon => false,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("aes")
                    && is_x86_feature_detected!("pclmulqdq")
            }
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => {
                Backend::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512ifma")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("vaes")
                    && is_x86_feature_detected!("vpclmulqdq")
                    && is_x86_feature_detected!("gfni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Backend::Avx2 | Backend::Ifma => false,
        }
    }

    /// The back end that this process runs: the widest available, or the one that `VESICA_CPU` names.
    ///
    /// # Panics
    /// If `VESICA_CPU` is not the name of an available back end; a program should say so first, through [`requested`].
    pub fn chosen() -> Backend {
        static CHOSEN: OnceLock<Backend> = OnceLock::new();
        *CHOSEN.get_or_init(|| match requested() {
            Ok(Some(backend)) => backend,
            Ok(None) => *Self::available().last().expect("the portable back end is always available"),
            Err(why) => panic!("{why}"),
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What `VESICA_CPU` asks for, if it is set.
///
/// # Errors
/// A sentence for the user, if it names no back end or one that this CPU cannot run.
pub fn requested() -> Result<Option<Backend>, String> {
    match std::env::var("VESICA_CPU") {
        Err(_) => Ok(None),
        Ok(name) => parse(&name).map(Some),
    }
}

fn parse(name: &str) -> Result<Backend, String> {
    let names = |list: &[Backend]| list.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
    match Backend::ALL.into_iter().find(|b| b.name() == name) {
        Some(backend) if backend.is_available() => Ok(backend),
        Some(_) => Err(format!(
            "VESICA_CPU={name}: this CPU does not have it; available here: {}",
            names(&Backend::available())
        )),
        None => Err(format!("VESICA_CPU={name}: no such back end; known: {}", names(&Backend::ALL))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_always_there_and_first() {
        assert_eq!(Backend::available()[0], Backend::Portable);
    }

    #[test]
    fn names_parse_back() {
        for backend in Backend::available() {
            assert_eq!(parse(backend.name()), Ok(backend));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        assert_eq!(parse("sse"), Err("VESICA_CPU=sse: no such back end; known: portable, neon, avx2, ifma".to_owned()));
    }
}
