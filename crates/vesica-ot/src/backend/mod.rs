//! The back ends: symbols of W blocks in registers, and the `#[target_feature]` functions that run code written for them.
//!
//! This folder is the only one of the crate with `unsafe` in it. What makes it sound is one invariant: **code that is
//! instantiated with a back end's symbols runs only through [`run_on`], which asks what this CPU has.** The types cannot be
//! named outside this folder.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::code::{STEP, Window};
use vesica_block::Block;
use vesica_cpu::Backend;

/// W blocks that are added together.
pub(crate) trait Symbol<const W: usize>: Copy {
    /// Every bit zero.
    const ZERO: Self;
    /// What a convolution remembers.
    type Memory: Memory<W>;
    /// Reads one.
    fn load(blocks: &[Block; W]) -> Self;
    /// Writes one.
    fn store(self, blocks: &mut [Block; W]);
    /// The sum.
    fn add(self, other: Self) -> Self;
    /// Asks for the cache lines of some, which will be read soon.
    fn prefetch(symbols: &[[Block; W]; 4]);
    /// The sums of four neighbouring symbols at a place of each part.
    #[inline(always)]
    fn gather<const L: usize>(parts: &[&[[[Block; W]; 4]]; L], places: &[u32; L]) -> [[Block; W]; 4] {
        let mut sums = [Self::ZERO; 4];
        for (part, &place) in parts.iter().zip(places) {
            for (sum, symbol) in sums.iter_mut().zip(&part[place as usize]) {
                *sum = sum.add(Self::load(symbol));
            }
        }
        let mut run = [[Block::ZERO; W]; 4];
        run.iter_mut().zip(sums).for_each(|(symbol, sum)| sum.store(symbol));
        run
    }
}

/// What a convolution remembers, in the form that suits a back end.
pub(crate) trait Memory<const W: usize> {
    /// Nothing yet.
    fn new() -> Self;
    /// Some steps, in place, each with its taps ([`crate::code::taps_of`]).
    fn steps(&mut self, steps: &mut [[[Block; W]; STEP]], taps: &[[Block; 2]]);
}

/// The portable symbols, for any CPU.
impl<const W: usize> Symbol<W> for [Block; W] {
    const ZERO: Self = [Block::ZERO; W];
    type Memory = Window<Self>;
    #[inline(always)]
    fn load(blocks: &[Block; W]) -> Self {
        *blocks
    }
    #[inline(always)]
    fn store(self, blocks: &mut [Block; W]) {
        *blocks = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] ^ other[i])
    }
    #[inline(always)]
    fn prefetch(_: &[[Block; W]; 4]) {}
}

/// A computation written once for all types of symbols. Implementations of `run` are `#[inline(always)]`.
pub(crate) trait Kernel<const W: usize> {
    /// Computes, with symbols of type `S`.
    fn run<S: Symbol<W>>(self);
}

/// Runs a kernel on a given back end, or on the portable one if this CPU lacks it or it has no symbols of W blocks.
pub(crate) fn run_on<const W: usize>(backend: Backend, kernel: impl Kernel<W>) {
    match (backend, W) {
        #[cfg(target_arch = "x86_64")]
        (Backend::Ifma, 1 | 2) if backend.is_available() => ifma::run(kernel),
        #[cfg(target_arch = "x86_64")]
        (Backend::Avx2, 1 | 2) if backend.is_available() => avx2::run(kernel),
        #[cfg(target_arch = "aarch64")]
        (Backend::Neon, _) => neon::run(kernel),
        _ => kernel.run::<[Block; W]>(),
    }
}
