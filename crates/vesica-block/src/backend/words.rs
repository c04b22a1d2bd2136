//! Words of 32 bits side by side: 8 of them with AVX2, 16 with AVX-512.

use super::{WordKernel, Words};
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Clone, Copy)]
struct W32x8(__m256i);

/// Sixteen lanes.
#[derive(Clone, Copy)]
struct W32x16(__m512i);

// SAFETY of every block below: the functions that this file shows run only through a `Ready`, which exists only where the
// CPU has these instructions, and all other code is called by them. Loads and stores are of arrays of 16 words.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: through a `Ready` only.
        unsafe { $call }
    }};
}

pub(super) fn eight<K: WordKernel>(kernel: K) {
    #[target_feature(enable = "avx2")]
    unsafe fn enter<K: WordKernel>(kernel: K) {
        kernel.run::<W32x8>();
    }
    intrinsic!(enter(kernel));
}

pub(super) fn sixteen<K: WordKernel>(kernel: K) {
    #[target_feature(enable = "avx512f")]
    unsafe fn enter<K: WordKernel>(kernel: K) {
        kernel.run::<W32x16>();
    }
    intrinsic!(enter(kernel));
}

impl Words for W32x8 {
    const WIDTH: usize = 8;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        Self(intrinsic!(_mm256_set1_epi32(word as i32)))
    }
    #[inline(always)]
    fn load(words: &[u32; 16]) -> Self {
        Self(intrinsic!(_mm256_loadu_si256(words.as_ptr().cast())))
    }
    #[inline(always)]
    fn store(self, words: &mut [u32; 16]) {
        intrinsic!(_mm256_storeu_si256(words.as_mut_ptr().cast(), self.0));
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_add_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_xor_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn rotate_right<const BITS: i32, const REST: i32>(self) -> Self {
        Self(intrinsic!(_mm256_or_si256(_mm256_srli_epi32::<BITS>(self.0), _mm256_slli_epi32::<REST>(self.0))))
    }
}

impl Words for W32x16 {
    const WIDTH: usize = 16;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        Self(intrinsic!(_mm512_set1_epi32(word as i32)))
    }
    #[inline(always)]
    fn load(words: &[u32; 16]) -> Self {
        Self(intrinsic!(_mm512_loadu_si512(words.as_ptr().cast())))
    }
    #[inline(always)]
    fn store(self, words: &mut [u32; 16]) {
        intrinsic!(_mm512_storeu_si512(words.as_mut_ptr().cast(), self.0));
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_add_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_xor_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn rotate_right<const BITS: i32, const REST: i32>(self) -> Self {
        Self(intrinsic!(_mm512_ror_epi32::<BITS>(self.0)))
    }
}
