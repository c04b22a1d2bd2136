//! The back ends: a private type of lanes each, and the one `#[target_feature]` function that runs code written for it.
//!
//! This folder is the only one of the crate with `unsafe` in it. What makes it sound is one invariant: **code that is
//! instantiated with a back end's lanes runs only underneath [`run_on`], which has checked that the CPU has the
//! instructions.** The types cannot be named outside this folder, and `run_on` is the only way to reach them.

#![allow(unsafe_code)]

mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::field::{Formula, Lanes};
use vesica_cpu::Backend;

/// A computation written once for all types of lanes. Implementations of `run` are `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What it computes.
    type Out;
    /// Computes it, with lanes of type `V`.
    fn run<V: Lanes>(self) -> Self::Out;
}

/// Runs a kernel on the back end that this process has chosen.
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Out {
    run_on(Backend::chosen(), kernel)
}

/// Runs a kernel on a given back end.
///
/// # Panics
/// If this CPU does not have it.
pub(crate) fn run_on<K: Kernel>(backend: Backend, kernel: K) -> K::Out {
    // This is the check that all `unsafe` in this folder rests on.
    assert!(backend.is_available(), "the back end {backend} is not available on this CPU");
    match backend {
        #[cfg(target_arch = "x86_64")]
        Backend::Ifma => ifma::U64x8::call(Entry(kernel)),
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => avx2::U64x4::call(Entry(kernel)),
        #[cfg(target_arch = "aarch64")]
        Backend::Neon => neon::U64x2::call(Entry(kernel)),
        _ => portable::U64x1::call(Entry(kernel)),
    }
}

/// A kernel, as a formula on one type of lanes.
struct Entry<K>(K);

impl<V: Lanes, K: Kernel> Formula<V> for Entry<K> {
    type Out = K::Out;
    #[inline(always)]
    fn run(self) -> K::Out {
        self.0.run::<V>()
    }
}
