//! The back ends: private types of lanes, and the `#[target_feature]` functions that run code written for them.
//!
//! This folder is the only one of the crate with `unsafe` in it. What makes it sound is one invariant: **code that is
//! instantiated with a back end's lanes runs only through a [`Ready`], which exists only for a back end that this CPU
//! has.** The types cannot be named outside this folder.

#![allow(unsafe_code)]

mod pages;
mod portable;
mod rijndael;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rounds;
#[cfg(target_arch = "x86_64")]
mod words;
#[cfg(target_arch = "aarch64")]
mod words_neon;

pub(crate) use pages::prefer_large;
pub(crate) use rijndael::{Keys as RijndaelKeys, expand as expand_rijndael};

use crate::Block;
use vesica_cpu::Backend;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zeroize::Zeroize;

/// Blocks side by side in a vector register.
pub(crate) trait Lanes: Copy {
    /// How many: at most four.
    const WIDTH: usize;
    /// Every bit zero.
    const ZERO: Self;

    /// One block in all lanes.
    fn splat(block: Block) -> Self;
    /// The first [`Self::WIDTH`] blocks, or all if there are fewer; the other lanes are zero.
    fn load(blocks: &[Block]) -> Self;
    /// Writes the first [`Self::WIDTH`] blocks, or as many as there are.
    fn store(self, blocks: &mut [Block]);

    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Shifts each 64-bit half towards its high end.
    fn shl(self, bits: u32) -> Self;
    /// Shifts each 64-bit half towards its low end.
    fn shr(self, bits: u32) -> Self;
    /// The first 2·[`Self::WIDTH`] words, or all if there are fewer, low halves first; the other halves are zero.
    fn load_words(words: &[u64]) -> Self;
    /// The halves whose bits are set, the low half of the first lane by bit 0; the others become zero.
    fn keep(self, bits: u64) -> Self;
    /// Lane by lane: the low half of `self`, and above it the low half of `other`.
    fn low_halves(self, other: Self) -> Self;
    /// Lane by lane: the high half of `self`, and above it the high half of `other`.
    fn high_halves(self, other: Self) -> Self;
}

/// Lanes that multiply polynomials over GF(2).
pub(crate) trait Clmul: Lanes {
    /// The first [`Self::WIDTH`] words, or all if there are fewer, in the low halves; all else zero.
    fn load_low(words: &[u64]) -> Self;
    /// Lane by lane: the low half of `self` times the low half of `other`.
    fn clmul_ll(self, other: Self) -> Self;
    /// Lane by lane: the low half of `self` times the high half of `other`.
    fn clmul_lh(self, other: Self) -> Self;
    /// Lane by lane: the high half of `self` times the high half of `other`.
    fn clmul_hh(self, other: Self) -> Self;
}

/// A computation written once for all types of lanes. Implementations of `run` are `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What it computes.
    type Out;
    /// Computes it, with lanes of type `V`.
    fn run<V: Lanes>(self) -> Self::Out;
}

/// A [`Kernel`] that multiplies.
pub(crate) trait Products {
    /// What it computes.
    type Out;
    /// Computes it, with lanes of type `V`.
    fn run<V: Clmul>(self) -> Self::Out;
}

/// Words of 32 bits side by side in a vector register.
pub(crate) trait Words: Copy {
    /// How many: at most 16.
    const WIDTH: usize;

    /// One word in all lanes.
    fn splat(word: u32) -> Self;
    /// The first [`Self::WIDTH`] words.
    fn load(words: &[u32; 16]) -> Self;
    /// Writes the first [`Self::WIDTH`] words.
    fn store(self, words: &mut [u32; 16]);
    /// Lane by lane, modulo 2^32.
    fn add(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Lane by lane; the two add up to 32.
    fn rotate_right<const BITS: i32, const REST: i32>(self) -> Self;

    /// The words of the first [`Self::WIDTH`] rows, a lane a row.
    #[inline(always)]
    fn columns(rows: &[[u32; 16]; 16]) -> [Self; 16] {
        std::array::from_fn(|word| Self::load(&std::array::from_fn(|lane| rows[lane][word])))
    }

    /// The first [`Self::WIDTH`] rows of words, of which each lane has one.
    #[inline(always)]
    fn rows(columns: [Self; 8]) -> [[u32; 8]; 16] {
        let mut words = [[0; 16]; 8];
        words.iter_mut().zip(columns).for_each(|(words, column)| column.store(words));
        std::array::from_fn(|lane| words.map(|words| words[lane]))
    }
}

/// A computation on [`Words`], written once for all of them. Implementations of `run` are `#[inline(always)]`.
pub(crate) trait WordKernel {
    /// Computes it, with lanes of type `W`.
    fn run<W: Words>(self);
}

/// A back end that this CPU has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ready(Backend);

impl Ready {
    /// The one that this process has chosen.
    #[inline]
    pub(crate) fn chosen() -> Self {
        // `Backend::chosen` returns available ones only: this is what all `unsafe` in this folder rests on.
        Self(Backend::chosen())
    }

    /// Whether it has instructions for AES.
    pub(crate) fn has_aes(self) -> bool {
        self.0 != Backend::Portable
    }

    /// All that this CPU has, the portable one first.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        Backend::available().into_iter().map(Self).collect()
    }

    /// Runs a kernel on the widest lanes of the back end.
    pub(crate) fn wide<K: Kernel>(self, kernel: K) -> K::Out {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => ifma::wide(kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => avx2::wide(kernel),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => neon::wide(kernel),
            _ => kernel.run::<portable::B128x1>(),
        }
    }

    /// Runs a kernel on the lanes of the back end that multiply.
    pub(crate) fn products<K: Products>(self, kernel: K) -> K::Out {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => ifma::products(kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => avx2::products(kernel),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => neon::products(kernel),
            _ => kernel.run::<portable::B128x1>(),
        }
    }

    /// Encrypts or decrypts states of Rijndael with 256-bit blocks.
    pub(crate) fn rijndael<const FORWARD: bool>(self, keys: &RijndaelKeys, states: &mut [[Block; 2]]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma | Backend::Avx2 => rijndael::x86::rounds::<FORWARD>(keys, states),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => neon::rijndael::<FORWARD>(keys, states),
            _ => rijndael::rounds::<Block, FORWARD>(keys, states),
        }
    }

    /// Runs a kernel on the words of the back end.
    pub(crate) fn words<K: WordKernel>(self, kernel: K) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma => words::sixteen(kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => words::eight(kernel),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => words_neon::four(kernel),
            _ => kernel.run::<u32>(),
        }
    }
}

/// Asks the CPU to bring `slice[at]` into the cache; does nothing where it cannot be asked, or beyond the slice.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = slice.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // Every cache line that it begins.
        for byte in (0..size_of::<T>()).step_by(64) {
            // SAFETY: SSE is part of every x86-64 CPU, and the pointer is to a byte of an element of the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().add(byte)) }
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(value) = slice.get(at) {
        for byte in (0..size_of::<T>()).step_by(64) {
            let line = std::ptr::from_ref(value).cast::<u8>().wrapping_add(byte);
            // SAFETY: every ARM CPU has the instruction, which changes nothing that a program sees, whatever the address is.
            unsafe {
                std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags))
            }
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (slice, at);
}

/// An expanded key of AES-128, as the back end that expanded it wants it.
pub(crate) enum Key {
    /// For any CPU.
    Portable(Box<portable::Aes>),
    /// For the CPU's own instructions: the eleven round keys.
    #[cfg(target_arch = "x86_64")]
    Rounds(Ready, [Block; 11]),
    /// The same on ARM.
    #[cfg(target_arch = "aarch64")]
    Neon([Block; 11]),
}

impl Key {
    pub(crate) fn new(ready: Ready, key: Block) -> Self {
        match ready.0 {
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma | Backend::Avx2 => Self::Rounds(ready, avx2::expand(key)),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon => Self::Neon(neon::expand(key)),
            _ => Self::Portable(Box::new(portable::Aes::new(key))),
        }
    }

    pub(crate) fn encrypt(&self, blocks: &mut [Block]) {
        match self {
            Self::Portable(aes) => aes.encrypt(blocks),
            #[cfg(target_arch = "x86_64")]
            Self::Rounds(Ready(Backend::Ifma), keys) => ifma::encrypt(keys, blocks),
            #[cfg(target_arch = "x86_64")]
            Self::Rounds(_, keys) => avx2::encrypt(keys, blocks),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(keys) => neon::encrypt(keys, blocks),
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // The portable one wipes itself.
        match self {
            Self::Portable(_) => {}
            #[cfg(target_arch = "x86_64")]
            Self::Rounds(_, keys) => keys.zeroize(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(keys) => keys.zeroize(),
        }
    }
}
