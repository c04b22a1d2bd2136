//! AVX-512 with VAES and VPCLMULQDQ: four lanes.

use super::rounds::{self, Rounds};
use super::{Clmul, Kernel, Lanes, Products};
use crate::Block;
use std::arch::x86_64::*;

/// Four lanes.
#[derive(Clone, Copy)]
struct B128x4(__m512i);

// SAFETY of every block below: the functions that this file shows run only through a `Ready`, which exists only where the
// CPU has these instructions, and all other code is called by them. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: through a `Ready` only.
        unsafe { $call }
    }};
}

pub(super) fn wide<K: Kernel>(kernel: K) -> K::Out {
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,vaes,vpclmulqdq")]
    unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
        kernel.run::<B128x4>()
    }
    intrinsic!(enter(kernel))
}

pub(super) fn products<K: Products>(kernel: K) -> K::Out {
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,vaes,vpclmulqdq")]
    unsafe fn enter<K: Products>(kernel: K) -> K::Out {
        kernel.run::<B128x4>()
    }
    intrinsic!(enter(kernel))
}

pub(super) fn encrypt(keys: &[Block; 11], blocks: &mut [Block]) {
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,vaes,vpclmulqdq")]
    unsafe fn enter(keys: &[Block; 11], blocks: &mut [Block]) {
        rounds::encrypt::<B128x4>(keys, blocks);
    }
    intrinsic!(enter(keys, blocks));
}

impl Lanes for B128x4 {
    const WIDTH: usize = 4;
    // All zero bits are a valid vector.
    const ZERO: Self = Self(intrinsic!(std::mem::zeroed()));

    #[inline(always)]
    fn splat(block: Block) -> Self {
        // The pointer is to an initialised block.
        Self(intrinsic!(_mm512_broadcast_i32x4(_mm_loadu_si128((&raw const block).cast()))))
    }
    #[inline(always)]
    fn load(blocks: &[Block]) -> Self {
        match blocks.first_chunk::<4>() {
            // The pointer is to four initialised blocks.
            Some(four) => Self(intrinsic!(_mm512_loadu_si512(four.as_ptr().cast()))),
            None => {
                let words = (1 << (2 * blocks.len())) - 1;
                // The mask keeps the load to the words of these at most three blocks.
                Self(intrinsic!(_mm512_maskz_loadu_epi64(words, blocks.as_ptr().cast())))
            }
        }
    }
    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        match blocks.first_chunk_mut::<4>() {
            // The pointer is to four blocks that are borrowed mutably.
            Some(four) => intrinsic!(_mm512_storeu_si512(four.as_mut_ptr().cast(), self.0)),
            None => {
                let words = (1 << (2 * blocks.len())) - 1;
                // The mask keeps the store to the words of these at most three blocks.
                intrinsic!(_mm512_mask_storeu_epi64(blocks.as_mut_ptr().cast(), words, self.0));
            }
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_xor_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_and_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(_mm512_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(_mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn load_words(words: &[u64]) -> Self {
        match words.first_chunk::<8>() {
            // The pointer is to eight initialised words.
            Some(eight) => Self(intrinsic!(_mm512_loadu_si512(eight.as_ptr().cast()))),
            // The mask keeps the load to these at most seven words.
            None => Self(intrinsic!(_mm512_maskz_loadu_epi64((1 << words.len()) - 1, words.as_ptr().cast()))),
        }
    }
    #[inline(always)]
    fn keep(self, bits: u64) -> Self {
        Self(intrinsic!(_mm512_maskz_mov_epi64(bits as u8, self.0)))
    }
    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_unpacklo_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_unpackhi_epi64(self.0, other.0)))
    }
}

impl Clmul for B128x4 {
    #[inline(always)]
    fn load_low(words: &[u64]) -> Self {
        let n = words.len().min(4);
        // The mask keeps the load to these at most four words; then word i moves to the low half of lane i.
        Self(intrinsic!({
            let words = _mm512_maskz_loadu_epi64((1 << n) - 1, words.as_ptr().cast());
            _mm512_maskz_permutexvar_epi64(0b0101_0101, _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0), words)
        }))
    }
    #[inline(always)]
    fn clmul_ll(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_clmulepi64_epi128::<0x00>(self.0, other.0)))
    }
    #[inline(always)]
    fn clmul_lh(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_clmulepi64_epi128::<0x10>(self.0, other.0)))
    }
    #[inline(always)]
    fn clmul_hh(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_clmulepi64_epi128::<0x11>(self.0, other.0)))
    }
}

impl Rounds for B128x4 {
    #[inline(always)]
    fn round(self, key: Self) -> Self {
        Self(intrinsic!(_mm512_aesenc_epi128(self.0, key.0)))
    }
    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        Self(intrinsic!(_mm512_aesenclast_epi128(self.0, key.0)))
    }
}
