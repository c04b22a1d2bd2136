//! Mini-PSI: how the receiver's keys of a unit are encoded. The parties compute it from the same sizes and must get the same answer.

use crate::Level;
use crate::okvs::{self, BandShape};

/// Up to where a set is encoded as a polynomial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MiniSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// The most keys: interpolation takes twice their square in products.
    pub keys: u64,
    /// The most products of the receiver's keys with the sender's: evaluation takes as many.
    pub products: u64,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// The set in use. A product takes 5 to 10 ns, so the polynomial costs each side some ten milliseconds a unit at most.
pub const MINI: MiniSet = MiniSet {
    id: "mini-psi-v1",
    keys: 1 << 10,
    products: 1 << 20,
    source: "Rosulek, Trieu, CCS 2021, eprint 2021/1159, for the polynomial; where a store of bands is cheaper: docs/src/protocols/mini-psi.md",
    date: "2026-11-23",
};

/// How the receiver's keys of a unit are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// As a polynomial with so many coefficients, one a key.
    Polynomial {
        /// How many.
        coefficients: u32,
    },
    /// In a store by random bands.
    Band(BandShape),
}

impl Encoding {
    /// How many values of 32 bytes it consists of.
    pub fn slots(&self) -> usize {
        match self {
            Encoding::Polynomial { coefficients } => *coefficients as usize,
            Encoding::Band(shape) => shape.slots as usize,
        }
    }
}

/// How the receiver's `n` keys of a unit are encoded for a sender with `m` keys, in a job of so many units, or `None` above
/// [`okvs::MOST_PAIRS`].
pub fn encoding(n: u64, m: u64, units: u32, level: Level) -> Option<Encoding> {
    if n <= MINI.keys && n.saturating_mul(m) <= MINI.products {
        return Some(Encoding::Polynomial { coefficients: n as u32 });
    }
    okvs::band(&okvs::BAND_3, n, units, level).map(Encoding::Band)
}

/// How many keys an encoding of `slots` values of 256 bits may be right for at most, if its maker tried 2^`log_tried` keys and as
/// many messages with any seeds, except with probability 2^-40.
///
/// There are 2^(256·slots) encodings. Each pairing of n' of the tried keys with messages, at most (e·q/n')^n'·q^n' of them, is held
/// by an encoding with probability 2^(-256·n'). So none holds n' keys once
/// 256·(n' - slots) >= n'·(2·log2 q + log2 e - log2 n') + log2 q + 40.
pub fn most_guesses(slots: f64, log_tried: f64) -> f64 {
    let next = |n: f64| {
        let bits = 256.0 - core::f64::consts::LOG2_E - 2.0 * log_tried + libm::log2(n);
        (256.0 * slots + log_tried + 40.0) / bits
    };
    (0..100).fold(slots.max(1.0), |n, _| next(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sets_are_polynomials() {
        let polynomial = |n, m| matches!(encoding(n, m, 1, Level::STANDARD).expect("it is small"), Encoding::Polynomial { coefficients } if u64::from(coefficients) == n);
        for (n, m) in [(0, 0), (0, 1 << 30), (1, 1 << 20), (1 << 8, 1 << 8), (1 << 10, 1 << 10), (100, 10_000)] {
            assert!(polynomial(n, m), "{n} {m}");
        }
        for (n, m) in [(1025, 1), (1 << 10, 1 << 11), (100, 11_000), (1 << 20, 1 << 20)] {
            assert!(!polynomial(n, m), "{n} {m}");
        }
        assert_eq!(encoding(okvs::MOST_PAIRS + 1, 1, 1, Level::STANDARD), None);
        let many = encoding(u64::MAX, u64::MAX, u32::MAX, Level::STANDARD);
        assert_eq!(many, None);
    }

    /// The numbers of docs/src/protocols/mini-psi.md, and of row M3 of SECURITY.md, also for the smallest units that a receiver can ask for: keys
    /// of a unit, slots a key, then guesses a key for 2^20, 2^33, 2^48, 2^64 and 2^80 tried keys.
    #[test]
    fn guesses_are_as_written_down() {
        for (n, units, written) in [
            (133_724u64, 8u32, [1.03, 1.14, 1.29, 1.50, 1.83, 2.35]),
            (4096, 1, [1.16, 1.31, 1.48, 1.74, 2.13, 2.75]),
            (4096, 1 << 16, [1.21, 1.36, 1.54, 1.80, 2.21, 2.86]),
            (1 << 10, 1, [1.00, 1.14, 1.29, 1.51, 1.86, 2.42]),
            (1 << 8, 1, [1.00, 1.15, 1.30, 1.53, 1.89, 2.47]),
            (100, 1 << 16, [7.70, 8.79, 9.93, 11.69, 14.39, 18.71]),
        ] {
            // In the last case the sender has far more keys, which is what makes the units of a receiver so small.
            let m = n.max(if n == 100 { 1 << 17 } else { 0 });
            let slots = encoding(n, m, units, Level::STANDARD).expect("up to 2^24").slots() as f64;
            let tried = [20.0, 33.0, 48.0, 64.0, 80.0].map(|log| most_guesses(slots, log));
            for (is, written) in core::iter::once(slots).chain(tried).zip(written) {
                assert!(
                    (is / n as f64 - written).abs() < 0.007,
                    "{n} keys, {slots} slots: {}, {written}",
                    is / n as f64
                );
            }
        }
    }
}
