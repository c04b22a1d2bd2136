//! Words of 32 bits side by side: 8 of them with AVX2, 16 with AVX-512.

#![allow(clippy::needless_range_loop)] // Loops over several arrays at once; closures lose the instructions, see below.

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
    #[inline(always)]
    fn columns(rows: &[[u32; 16]; 16]) -> [Self; 16] {
        let mut columns = [Self::splat(0); 16];
        for half in 0..2 {
            let mut words = [columns[0].0; 8];
            for lane in 0..8 {
                let row = &rows[lane].as_chunks::<8>().0[half];
                words[lane] = intrinsic!(_mm256_loadu_si256(row.as_ptr().cast()));
            }
            let words = transposed8(words);
            for word in 0..8 {
                columns[8 * half + word] = Self(words[word]);
            }
        }
        columns
    }
    #[inline(always)]
    fn rows(columns: [Self; 8]) -> [[u32; 8]; 16] {
        let [a, b, c, d, e, f, g, h] = columns;
        let words = transposed8([a.0, b.0, c.0, d.0, e.0, f.0, g.0, h.0]);
        let mut rows = [[0; 8]; 16];
        for lane in 0..8 {
            intrinsic!(_mm256_storeu_si256(rows[lane].as_mut_ptr().cast(), words[lane]));
        }
        rows
    }
}

// What follows are loops and no closures: a closure is a function of its own, without the instructions of the one that it
// stands in, and calls them one by one.

/// Eight rows of eight words, turned about the diagonal: by pairs of words, of double words, and of halves.
#[inline(always)]
fn transposed8(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut pairs = rows;
    for i in 0..4 {
        let (a, b) = (rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i] = intrinsic!(_mm256_unpacklo_epi32(a, b));
        pairs[2 * i + 1] = intrinsic!(_mm256_unpackhi_epi32(a, b));
    }
    // Columns c and c + 4, of rows 0 to 3 and of rows 4 to 7.
    let mut fours = pairs;
    for i in 0..4 {
        let at = 4 * (i / 2) + i % 2;
        let (a, b) = (pairs[at], pairs[at + 2]);
        fours[4 * (i / 2) + 2 * (i % 2)] = intrinsic!(_mm256_unpacklo_epi64(a, b));
        fours[4 * (i / 2) + 2 * (i % 2) + 1] = intrinsic!(_mm256_unpackhi_epi64(a, b));
    }
    let mut columns = fours;
    for column in 0..4 {
        let (a, b) = (fours[column], fours[4 + column]);
        columns[column] = intrinsic!(_mm256_permute2x128_si256::<0x20>(a, b));
        columns[4 + column] = intrinsic!(_mm256_permute2x128_si256::<0x31>(a, b));
    }
    columns
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
    #[inline(always)]
    fn columns(rows: &[[u32; 16]; 16]) -> [Self; 16] {
        let mut columns = [Self::splat(0); 16];
        let mut words = [columns[0].0; 16];
        for lane in 0..16 {
            words[lane] = Self::load(&rows[lane]).0;
        }
        let words = transposed16(words);
        for word in 0..16 {
            columns[word] = Self(words[word]);
        }
        columns
    }
    #[inline(always)]
    fn rows(columns: [Self; 8]) -> [[u32; 8]; 16] {
        let mut words = [columns[0].0; 16];
        for word in 0..8 {
            words[word] = columns[word].0;
        }
        let words = transposed16(words);
        let mut rows = [[0; 8]; 16];
        for lane in 0..16 {
            let row = intrinsic!(_mm512_castsi512_si256(words[lane]));
            intrinsic!(_mm256_storeu_si256(rows[lane].as_mut_ptr().cast(), row));
        }
        rows
    }
}

/// Sixteen rows of sixteen words, turned about the diagonal: by pairs of words, of double words, and twice of quarters.
#[inline(always)]
fn transposed16(rows: [__m512i; 16]) -> [__m512i; 16] {
    let mut pairs = rows;
    for i in 0..8 {
        let (a, b) = (rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i] = intrinsic!(_mm512_unpacklo_epi32(a, b));
        pairs[2 * i + 1] = intrinsic!(_mm512_unpackhi_epi32(a, b));
    }
    // Columns c, c + 4, c + 8 and c + 12 of four rows: a column a quarter.
    let mut fours = pairs;
    for i in 0..8 {
        let at = 4 * (i / 2) + i % 2;
        let (a, b) = (pairs[at], pairs[at + 2]);
        fours[4 * (i / 2) + 2 * (i % 2)] = intrinsic!(_mm512_unpacklo_epi64(a, b));
        fours[4 * (i / 2) + 2 * (i % 2) + 1] = intrinsic!(_mm512_unpackhi_epi64(a, b));
    }
    // Of eight rows: columns c and c + 8, and columns c + 4 and c + 12.
    let mut eights = fours;
    for i in 0..8 {
        let (half, column) = (8 * (i / 4), i % 4);
        let (a, b) = (fours[half + column], fours[half + 4 + column]);
        eights[half + column] = intrinsic!(_mm512_shuffle_i32x4::<0x88>(a, b));
        eights[half + 4 + column] = intrinsic!(_mm512_shuffle_i32x4::<0xdd>(a, b));
    }
    let mut columns = eights;
    for column in 0..8 {
        let (a, b) = (eights[column], eights[8 + column]);
        columns[column] = intrinsic!(_mm512_shuffle_i32x4::<0x88>(a, b));
        columns[8 + column] = intrinsic!(_mm512_shuffle_i32x4::<0xdd>(a, b));
    }
    columns
}
