//! Eight lanes: AVX-512 with the 52-bit multiply-add instructions.

use crate::lanes::{Kernel, Lanes};
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct U64x8(__m512i);

/// The one function compiled for these instructions; everything generic is inlined into its instances.
///
/// # Safety
/// The CPU must have the instructions.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512ifma,avx2,fma,bmi2")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<U64x8>()
}

// SAFETY of every block below: `U64x8` is private to `backend`, and code that is instantiated with it runs only
// underneath `run_on`, which has checked that the CPU has these instructions. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: beneath `run_on`, which has checked the CPU.
        unsafe { $call }
    }};
}

const LOW_52: u64 = (1 << 52) - 1;

impl Lanes for U64x8 {
    const WIDTH: usize = 8;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(intrinsic!(_mm512_set1_epi64(word as i64)))
    }
    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        let words: &[u64; 8] = words[..8].try_into().expect("eight words");
        // The pointer is to eight initialised words and needs no alignment.
        Self(intrinsic!(_mm512_loadu_si512(words.as_ptr().cast())))
    }
    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        let words: &mut [u64; 8] = (&mut words[..8]).try_into().expect("eight words");
        // The pointer is to eight words that are borrowed mutably, and needs no alignment.
        intrinsic!(_mm512_storeu_si512(words.as_mut_ptr().cast(), self.0));
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_add_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_sub_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn low52(self) -> Self {
        Self(intrinsic!(_mm512_and_si512(self.0, _mm512_set1_epi64(LOW_52 as i64))))
    }
    #[inline(always)]
    fn high12(self) -> Self {
        Self(intrinsic!(_mm512_srli_epi64::<52>(self.0)))
    }
    #[inline(always)]
    fn reduce_once(self, bound: Self) -> Self {
        // A negative difference is larger than every word below 2^63, as an unsigned word.
        Self(intrinsic!(_mm512_min_epu64(self.0, _mm512_sub_epi64(self.0, bound.0))))
    }
    #[inline(always)]
    fn mul(self, factor: Self, quotient: Self, p: Self) -> Self {
        let zero = intrinsic!(_mm512_setzero_si512());
        let times = intrinsic!(_mm512_madd52hi_epu64(zero, self.0, quotient.0));
        let product = intrinsic!(_mm512_madd52lo_epu64(zero, self.0, factor.0));
        // Subtracting times·p is adding times·(2^52 - p), modulo 2^52. The compiler takes 2^52 - p out of loops.
        let minus_p = Self::splat(1 << 52).sub(p);
        Self(intrinsic!(_mm512_madd52lo_epu64(product, times, minus_p.0))).low52()
    }
    #[inline(always)]
    fn madd(lo: Self, hi: Self, a: Self, b: Self) -> (Self, Self) {
        let lo = intrinsic!(_mm512_madd52lo_epu64(lo.0, a.0, b.0));
        (Self(lo), Self(intrinsic!(_mm512_madd52hi_epu64(hi.0, a.0, b.0))))
    }
    #[inline(always)]
    fn transpose(block: &mut [u64; 64]) {
        let mut rows = [intrinsic!(_mm512_setzero_si512()); 8];
        for i in 0..8 {
            rows[i] = Self::load(&block[8 * i..]).0;
        }
        // Words change places in pairs, which leaves the words of even columns in the first result of each unpacking and of
        // odd columns in the second. Then pairs of words, and then fours.
        for odd in 0..2 {
            let mut pairs = [intrinsic!(_mm512_setzero_si512()); 4];
            for i in 0..4 {
                let (above, below) = (rows[2 * i], rows[2 * i + 1]);
                pairs[i] = match odd {
                    0 => intrinsic!(_mm512_unpacklo_epi64(above, below)),
                    _ => intrinsic!(_mm512_unpackhi_epi64(above, below)),
                };
            }
            let columns = intrinsic!({
                let s0 = _mm512_shuffle_i64x2::<0x88>(pairs[0], pairs[1]);
                let s1 = _mm512_shuffle_i64x2::<0xdd>(pairs[0], pairs[1]);
                let s2 = _mm512_shuffle_i64x2::<0x88>(pairs[2], pairs[3]);
                let s3 = _mm512_shuffle_i64x2::<0xdd>(pairs[2], pairs[3]);
                [
                    _mm512_shuffle_i64x2::<0x88>(s0, s2),
                    _mm512_shuffle_i64x2::<0x88>(s1, s3),
                    _mm512_shuffle_i64x2::<0xdd>(s0, s2),
                    _mm512_shuffle_i64x2::<0xdd>(s1, s3),
                ]
            });
            for i in 0..4 {
                Self(columns[i]).store(&mut block[8 * (2 * i + odd)..]);
            }
        }
    }
}
