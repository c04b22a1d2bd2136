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
    #[inline(always)]
    fn columns(rows: &[[u32; 16]; 16]) -> [Self; 16] {
        let half = |half: usize| -> [Self; 8] {
            let row = |lane: usize| intrinsic!(_mm256_loadu_si256(rows[lane].as_chunks::<8>().0[half].as_ptr().cast()));
            transposed8(std::array::from_fn(row)).map(Self)
        };
        let halves = [half(0), half(1)];
        std::array::from_fn(|word| halves[word / 8][word % 8])
    }
    #[inline(always)]
    fn rows(columns: [Self; 8]) -> [[u32; 8]; 16] {
        let mut rows = [[0; 8]; 16];
        for (row, words) in rows.iter_mut().zip(transposed8(columns.map(|column| column.0))) {
            intrinsic!(_mm256_storeu_si256(row.as_mut_ptr().cast(), words));
        }
        rows
    }
}

/// Eight rows of eight words, turned about the diagonal: by pairs of words, of double words, and of halves.
#[inline(always)]
fn transposed8(rows: [__m256i; 8]) -> [__m256i; 8] {
    let pairs: [__m256i; 8] = std::array::from_fn(|i| {
        let (a, b) = (rows[i & !1], rows[i | 1]);
        if i & 1 == 0 { intrinsic!(_mm256_unpacklo_epi32(a, b)) } else { intrinsic!(_mm256_unpackhi_epi32(a, b)) }
    });
    // Columns c and c + 4, of rows 0 to 3 and of rows 4 to 7.
    let fours: [__m256i; 8] = std::array::from_fn(|i| {
        let (quad, column) = (i & 4, i & 3);
        let (a, b) = (pairs[quad + (column >> 1)], pairs[quad + 2 + (column >> 1)]);
        if column & 1 == 0 { intrinsic!(_mm256_unpacklo_epi64(a, b)) } else { intrinsic!(_mm256_unpackhi_epi64(a, b)) }
    });
    std::array::from_fn(|column| {
        let (a, b) = (fours[column & 3], fours[4 + (column & 3)]);
        if column < 4 {
            intrinsic!(_mm256_permute2x128_si256::<0x20>(a, b))
        } else {
            intrinsic!(_mm256_permute2x128_si256::<0x31>(a, b))
        }
    })
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
        transposed16(std::array::from_fn(|row| Self::load(&rows[row]).0)).map(Self)
    }
    #[inline(always)]
    fn rows(columns: [Self; 8]) -> [[u32; 8]; 16] {
        let mut rows = [[0; 8]; 16];
        let whole = transposed16(std::array::from_fn(|i| columns[i % 8].0));
        for (row, words) in rows.iter_mut().zip(whole) {
            let words = intrinsic!(_mm512_castsi512_si256(words));
            intrinsic!(_mm256_storeu_si256(row.as_mut_ptr().cast(), words));
        }
        rows
    }
}

/// Sixteen rows of sixteen words, turned about the diagonal: by pairs of words, of double words, and twice of quarters.
#[inline(always)]
fn transposed16(rows: [__m512i; 16]) -> [__m512i; 16] {
    let pairs: [__m512i; 16] = std::array::from_fn(|i| {
        let (a, b) = (rows[i & !1], rows[i | 1]);
        if i & 1 == 0 { intrinsic!(_mm512_unpacklo_epi32(a, b)) } else { intrinsic!(_mm512_unpackhi_epi32(a, b)) }
    });
    // Columns c, c + 4, c + 8 and c + 12 of four rows: a column a quarter.
    let fours: [__m512i; 16] = std::array::from_fn(|i| {
        let (quad, column) = (i & 12, i & 3);
        let (a, b) = (pairs[quad + (column >> 1)], pairs[quad + 2 + (column >> 1)]);
        if column & 1 == 0 { intrinsic!(_mm512_unpacklo_epi64(a, b)) } else { intrinsic!(_mm512_unpackhi_epi64(a, b)) }
    });
    // Of eight rows: columns c and c + 8, then columns c + 4 and c + 12.
    let eights = |rows: usize, column: usize| {
        let (a, b) = (fours[8 * rows + (column & 3)], fours[8 * rows + 4 + (column & 3)]);
        if column & 4 == 0 {
            intrinsic!(_mm512_shuffle_i32x4::<0x88>(a, b))
        } else {
            intrinsic!(_mm512_shuffle_i32x4::<0xdd>(a, b))
        }
    };
    let halves: [[__m512i; 8]; 2] = std::array::from_fn(|rows| std::array::from_fn(|column| eights(rows, column)));
    std::array::from_fn(|column| {
        let (a, b) = (halves[0][column & 7], halves[1][column & 7]);
        if column < 8 {
            intrinsic!(_mm512_shuffle_i32x4::<0x88>(a, b))
        } else {
            intrinsic!(_mm512_shuffle_i32x4::<0xdd>(a, b))
        }
    })
}
