//! The back ends: a private type of lanes each, and the one `#[target_feature]` function that runs code written for it.
//!
//! Of the arithmetic on polynomials, only this folder has `unsafe` in it. What makes it sound is one invariant: **code that
//! is instantiated with a back end's lanes runs only underneath [`run_on`], which has checked that the CPU has the
//! instructions.** The types cannot be named outside this folder, and `run_on` is the only way to reach them.

#![allow(unsafe_code)]

pub(crate) mod panels;
mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::lanes::Kernel;
use vesica_cpu::Backend;

/// Runs a kernel on a given back end.
///
/// # Panics
/// If this CPU does not have it.
pub(crate) fn run_on<K: Kernel>(backend: Backend, kernel: K) -> K::Out {
    // This is the check that all `unsafe` in this folder rests on.
    assert!(backend.is_available(), "the back end {backend} is not available on this CPU");
    match backend {
        // SAFETY: the CPU has the instructions, as checked above.
        #[cfg(target_arch = "x86_64")]
        Backend::Ifma => unsafe { ifma::enter(kernel) },
        // SAFETY: the CPU has the instructions, as checked above.
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => unsafe { avx2::enter(kernel) },
        #[cfg(target_arch = "aarch64")]
        Backend::Neon => neon::enter(kernel),
        _ => portable::enter(kernel),
    }
}
