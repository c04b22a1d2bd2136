//! AVX2 with AES-NI and PCLMULQDQ: two lanes for logic, one where AES and products need it.

use super::rounds::{self, Rounds};
use super::{Clmul, Kernel, Lanes, Products};
use crate::Block;
use std::arch::x86_64::*;

/// One lane.
#[derive(Clone, Copy)]
struct B128x1(__m128i);

/// Two lanes.
#[derive(Clone, Copy)]
struct B128x2(__m256i);

// SAFETY of every block below: the functions that this file shows run only through a `Ready`, which exists only where the
// CPU has these instructions, and all other code is called by them. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: through a `Ready` only.
        unsafe { $call }
    }};
}

pub(super) fn wide<K: Kernel>(kernel: K) -> K::Out {
    #[target_feature(enable = "avx2,aes,pclmulqdq")]
    unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
        kernel.run::<B128x2>()
    }
    intrinsic!(enter(kernel))
}

pub(super) fn products<K: Products>(kernel: K) -> K::Out {
    #[target_feature(enable = "avx2,aes,pclmulqdq")]
    unsafe fn enter<K: Products>(kernel: K) -> K::Out {
        kernel.run::<B128x1>()
    }
    intrinsic!(enter(kernel))
}

pub(super) fn encrypt(keys: &[Block; 11], blocks: &mut [Block]) {
    #[target_feature(enable = "avx2,aes,pclmulqdq")]
    unsafe fn enter(keys: &[Block; 11], blocks: &mut [Block]) {
        rounds::encrypt::<B128x1>(keys, blocks);
    }
    intrinsic!(enter(keys, blocks));
}

/// The round keys of FIPS 197, section 5.2.
pub(super) fn expand(key: Block) -> [Block; 11] {
    #[target_feature(enable = "avx2,aes,pclmulqdq")]
    unsafe fn enter(key: Block) -> [Block; 11] {
        let mut keys = [key; 11];
        macro_rules! round {
            ($($i:literal $rcon:literal),*) => {$(
                let previous = B128x1::splat(keys[$i - 1]).0;
                // RotWord(SubWord(w3)) ^ Rcon in all four words, and the running sum of the previous key's words.
                let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$rcon>(previous));
                let sum = _mm_xor_si128(previous, _mm_slli_si128::<4>(previous));
                let sum = _mm_xor_si128(sum, _mm_slli_si128::<8>(sum));
                B128x1(_mm_xor_si128(sum, word)).store(&mut keys[$i..]);
            )*};
        }
        round!(1 0x01, 2 0x02, 3 0x04, 4 0x08, 5 0x10, 6 0x20, 7 0x40, 8 0x80, 9 0x1b, 10 0x36);
        keys
    }
    intrinsic!(enter(key))
}

impl Lanes for B128x1 {
    const WIDTH: usize = 1;
    // All zero bits are a valid vector.
    const ZERO: Self = Self(intrinsic!(std::mem::zeroed()));

    #[inline(always)]
    fn splat(block: Block) -> Self {
        Self::load(&[block])
    }
    #[inline(always)]
    fn load(blocks: &[Block]) -> Self {
        let block: &Block = &blocks[0];
        // The pointer is to an initialised block.
        Self(intrinsic!(_mm_loadu_si128(std::ptr::from_ref(block).cast())))
    }
    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        let block: &mut Block = &mut blocks[0];
        // The pointer is to a block that is borrowed mutably.
        intrinsic!(_mm_storeu_si128(std::ptr::from_mut(block).cast(), self.0));
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm_xor_si128(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(_mm_and_si128(self.0, other.0)))
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(_mm_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(_mm_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn load_words(words: &[u64]) -> Self {
        let words = [words[0], words.get(1).copied().unwrap_or_default()];
        Self(intrinsic!(_mm_set_epi64x(words[1] as i64, words[0] as i64)))
    }
    #[inline(always)]
    fn keep(self, bits: u64) -> Self {
        Self(intrinsic!({
            let places = _mm_set_epi64x(2, 1);
            let chosen = _mm_and_si128(_mm_set1_epi64x(bits as i64), places);
            _mm_and_si128(self.0, _mm_cmpeq_epi64(chosen, places))
        }))
    }
    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        Self(intrinsic!(_mm_unpacklo_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        Self(intrinsic!(_mm_unpackhi_epi64(self.0, other.0)))
    }
}

impl Clmul for B128x1 {
    #[inline(always)]
    fn load_low(words: &[u64]) -> Self {
        Self(intrinsic!(_mm_cvtsi64_si128(words[0] as i64)))
    }
    #[inline(always)]
    fn clmul_ll(self, other: Self) -> Self {
        Self(intrinsic!(_mm_clmulepi64_si128::<0x00>(self.0, other.0)))
    }
    #[inline(always)]
    fn clmul_lh(self, other: Self) -> Self {
        Self(intrinsic!(_mm_clmulepi64_si128::<0x10>(self.0, other.0)))
    }
    #[inline(always)]
    fn clmul_hh(self, other: Self) -> Self {
        Self(intrinsic!(_mm_clmulepi64_si128::<0x11>(self.0, other.0)))
    }
}

impl Rounds for B128x1 {
    #[inline(always)]
    fn round(self, key: Self) -> Self {
        Self(intrinsic!(_mm_aesenc_si128(self.0, key.0)))
    }
    #[inline(always)]
    fn last_round(self, key: Self) -> Self {
        Self(intrinsic!(_mm_aesenclast_si128(self.0, key.0)))
    }
}

impl Lanes for B128x2 {
    const WIDTH: usize = 2;
    // All zero bits are a valid vector.
    const ZERO: Self = Self(intrinsic!(std::mem::zeroed()));

    #[inline(always)]
    fn splat(block: Block) -> Self {
        Self(intrinsic!(_mm256_broadcastsi128_si256(B128x1::splat(block).0)))
    }
    #[inline(always)]
    fn load(blocks: &[Block]) -> Self {
        match blocks.first_chunk::<2>() {
            // The pointer is to two initialised blocks.
            Some(two) => Self(intrinsic!(_mm256_loadu_si256(two.as_ptr().cast()))),
            None => Self(intrinsic!(_mm256_zextsi128_si256(B128x1::load(blocks).0))),
        }
    }
    #[inline(always)]
    fn store(self, blocks: &mut [Block]) {
        match blocks.first_chunk_mut::<2>() {
            // The pointer is to two blocks that are borrowed mutably.
            Some(two) => intrinsic!(_mm256_storeu_si256(two.as_mut_ptr().cast(), self.0)),
            None => B128x1(intrinsic!(_mm256_castsi256_si128(self.0))).store(blocks),
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_xor_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_and_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(_mm256_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(_mm256_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn load_words(words: &[u64]) -> Self {
        let mut room = [0; 4];
        // A function that calls itself is not inlined.
        let four = words.first_chunk::<4>().unwrap_or_else(|| {
            room[..words.len()].copy_from_slice(words);
            &room
        });
        // The pointer is to four initialised words.
        Self(intrinsic!(_mm256_loadu_si256(four.as_ptr().cast())))
    }
    #[inline(always)]
    fn keep(self, bits: u64) -> Self {
        Self(intrinsic!({
            let places = _mm256_set_epi64x(8, 4, 2, 1);
            let chosen = _mm256_and_si256(_mm256_set1_epi64x(bits as i64), places);
            _mm256_and_si256(self.0, _mm256_cmpeq_epi64(chosen, places))
        }))
    }
    #[inline(always)]
    fn low_halves(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_unpacklo_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn high_halves(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_unpackhi_epi64(self.0, other.0)))
    }
}
