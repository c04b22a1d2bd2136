//! Words of 32 bits side by side: four of them with NEON, which every 64-bit ARM CPU has.

use super::{WordKernel, Words};
use std::arch::aarch64::*;

/// Four lanes.
#[derive(Clone, Copy)]
struct W32x4(uint32x4_t);

// SAFETY of every block below: NEON is part of every 64-bit ARM CPU that Rust compiles for. Loads and stores are of as many words as
// the slices or arrays have that they borrow.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: every CPU of this kind has NEON.
        unsafe { $call }
    }};
}

pub(super) fn four<K: WordKernel>(kernel: K) {
    kernel.run::<W32x4>();
}

impl W32x4 {
    #[inline(always)]
    fn of(words: &[u32; 4]) -> Self {
        // The pointer is to four initialised words.
        Self(intrinsic!(vld1q_u32(words.as_ptr())))
    }
    #[inline(always)]
    fn to(self, words: &mut [u32; 4]) {
        // The pointer is to four words that are borrowed mutably.
        intrinsic!(vst1q_u32(words.as_mut_ptr(), self.0))
    }
}

impl Words for W32x4 {
    const WIDTH: usize = 4;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        Self(intrinsic!(vdupq_n_u32(word)))
    }
    #[inline(always)]
    fn load(words: &[u32; 16]) -> Self {
        Self::of(words.first_chunk().expect("16 words"))
    }
    #[inline(always)]
    fn store(self, words: &mut [u32; 16]) {
        self.to(words.first_chunk_mut().expect("16 words"));
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(vaddq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(veorq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn rotate_right<const BITS: i32, const REST: i32>(self) -> Self {
        Self(match BITS {
            // The halves of each word change places.
            16 => intrinsic!(vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(self.0)))),
            // The second instruction inserts the high bits below those that the first one has moved.
            _ => intrinsic!(vsriq_n_u32::<BITS>(vshlq_n_u32::<REST>(self.0), self.0)),
        })
    }
    #[inline(always)]
    fn columns(rows: &[[u32; 16]; 16]) -> [Self; 16] {
        let mut columns = [Self::splat(0); 16];
        for (quarter, columns) in columns.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let mut four = [intrinsic!(vdupq_n_u32(0)); 4];
            for (lane, four) in four.iter_mut().enumerate() {
                *four = Self::of(&rows[lane].as_chunks().0[quarter]).0;
            }
            *columns = transposed(four);
        }
        columns
    }
    #[inline(always)]
    fn rows(columns: [Self; 8]) -> [[u32; 8]; 16] {
        let mut rows = [[0; 8]; 16];
        for (half, columns) in columns.as_chunks::<4>().0.iter().enumerate() {
            for (row, words) in rows.iter_mut().zip(transposed(columns.map(|column| column.0))) {
                words.to(&mut row.as_chunks_mut().0[half]);
            }
        }
        rows
    }
}

/// Four rows of four words, turned about the diagonal: by words, and by pairs of them.
#[inline(always)]
fn transposed(rows: [uint32x4_t; 4]) -> [W32x4; 4] {
    let [a, b, c, d] = rows;
    let double = |words: uint32x4_t| intrinsic!(vreinterpretq_u64_u32(words));
    // Columns 0 and 2, and 1 and 3, of two rows.
    let [even, odd] = [double(intrinsic!(vtrn1q_u32(a, b))), double(intrinsic!(vtrn2q_u32(a, b)))];
    let [even2, odd2] = [double(intrinsic!(vtrn1q_u32(c, d))), double(intrinsic!(vtrn2q_u32(c, d)))];
    [
        intrinsic!(vtrn1q_u64(even, even2)),
        intrinsic!(vtrn1q_u64(odd, odd2)),
        intrinsic!(vtrn2q_u64(even, even2)),
        intrinsic!(vtrn2q_u64(odd, odd2)),
    ]
    .map(|words| W32x4(intrinsic!(vreinterpretq_u32_u64(words))))
}
