//! Four lanes: AVX2, with the 52-bit products taken from the floating-point unit.
//!
//! A double holds 53 bits, and a fused multiply-add rounds once, to the nearest double. With integers a, b < 2^52 as exact
//! doubles, `h = fma(a, b, 2^104)` rounds the product to the nearest multiple of 2^52, because doubles in
//! `[2^104, 2^105)` are those multiples, and `fma(a, b, 2^104 - h)` is the rest, exactly: an integer in `[-2^51, 2^51]`.
//! (N. Emmart, F. Zheng, C. Weems, "Faster Modular Exponentiation Using Double Precision Floating Point Arithmetic on the
//! GPU", ARITH 2018, with the default rounding mode, which Rust does not allow to be changed.)

use crate::lanes::{Kernel, Lanes};
use std::arch::x86_64::*;

/// Four lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct U64x4(__m256i);

/// The one function compiled for these instructions; everything generic is inlined into its instances.
///
/// # Safety
/// The CPU must have the instructions.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn enter<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<U64x4>()
}

// SAFETY of every block below: `U64x4` is private to `backend`, and code that is instantiated with it runs only
// underneath `run_on`, which has checked that the CPU has these instructions. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: beneath `run_on`, which has checked the CPU.
        unsafe { $call }
    }};
}

const LOW_52: u64 = (1 << 52) - 1;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const TWO_104: f64 = TWO_52 * TWO_52;
/// Adding this to an integer of at most 51 bits and a sign leaves it, in two's complement, in the low bits.
const SIGNED: f64 = 1.5 * TWO_52;

impl U64x4 {
    /// A word below 2^52 as an exact double: under the exponent of 2^52 it is the number 2^52 + x.
    #[inline(always)]
    fn double(self) -> __m256d {
        intrinsic!({
            let bits = _mm256_or_si256(self.0, _mm256_set1_epi64x(TWO_52.to_bits() as i64));
            _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_set1_pd(TWO_52))
        })
    }
}

impl Lanes for U64x4 {
    const WIDTH: usize = 4;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(intrinsic!(_mm256_set1_epi64x(word as i64)))
    }
    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        let words: &[u64; 4] = words[..4].try_into().expect("four words");
        // The pointer is to four initialised words and needs no alignment.
        Self(intrinsic!(_mm256_loadu_si256(words.as_ptr().cast())))
    }
    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        let words: &mut [u64; 4] = (&mut words[..4]).try_into().expect("four words");
        // The pointer is to four words that are borrowed mutably, and needs no alignment.
        intrinsic!(_mm256_storeu_si256(words.as_mut_ptr().cast(), self.0));
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_add_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_sub_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn low52(self) -> Self {
        Self(intrinsic!(_mm256_and_si256(self.0, _mm256_set1_epi64x(LOW_52 as i64))))
    }
    #[inline(always)]
    fn high12(self) -> Self {
        Self(intrinsic!(_mm256_srli_epi64::<52>(self.0)))
    }
    #[inline(always)]
    fn reduce_once(self, bound: Self) -> Self {
        let less = intrinsic!(_mm256_castsi256_pd(self.sub(bound).0));
        // The instruction chooses by the sign bit.
        let kept = intrinsic!(_mm256_blendv_pd(less, _mm256_castsi256_pd(self.0), less));
        Self(intrinsic!(_mm256_castpd_si256(kept)))
    }
    #[inline(always)]
    fn mul(self, factor: Self, quotient: Self, p: Self) -> Self {
        let (y, w, wq, p) = (self.double(), factor.double(), quotient.double(), p.double());
        intrinsic!({
            // q is y·quotient / 2^52 rounded to the nearest integer. That quotient is too small by less than one, so
            // y·factor - q·p is in [-p/2, 3p/2): a negative one gets p more, and all are below 2p.
            let base = _mm256_set1_pd(TWO_104);
            let q = _mm256_mul_pd(_mm256_sub_pd(_mm256_fmadd_pd(y, wq, base), base), _mm256_set1_pd(1.0 / TWO_52));
            // The product in two doubles. Subtracting q·p from the first is exact: the result is an integer below 2^52.
            let high = _mm256_mul_pd(y, w);
            let low = _mm256_fmsub_pd(y, w, high);
            let rest = _mm256_add_pd(_mm256_fnmadd_pd(q, p, high), low);
            let rest = _mm256_blendv_pd(rest, _mm256_add_pd(rest, p), rest);
            Self(_mm256_castpd_si256(_mm256_add_pd(rest, _mm256_set1_pd(TWO_52)))).low52()
        })
    }
    #[inline(always)]
    fn madd(lo: Self, hi: Self, a: Self, b: Self) -> (Self, Self) {
        let (a, b) = (a.double(), b.double());
        let base = intrinsic!(_mm256_set1_pd(TWO_104));
        let high = intrinsic!(_mm256_fmadd_pd(a, b, base));
        let low = intrinsic!(_mm256_fmadd_pd(a, b, _mm256_sub_pd(base, high)));
        let low = intrinsic!(_mm256_castpd_si256(_mm256_add_pd(low, _mm256_set1_pd(SIGNED))));
        let low = Self(low).sub(Self::splat(SIGNED.to_bits()));
        let high = Self(intrinsic!(_mm256_castpd_si256(high))).sub(Self::splat(TWO_104.to_bits()));
        // A negative low part means that the high part was rounded up; the comparison is -1 there.
        let up = Self(intrinsic!(_mm256_cmpgt_epi64(_mm256_setzero_si256(), low.0)));
        (lo.add(low.low52()), hi.add(high).add(up))
    }
    #[inline(always)]
    fn transpose(block: &mut [u64; 64]) {
        // The four quarters of 4 x 4 words. The word at row i and column j of one stands at 8i + j from its first.
        let mut quarters = [[Self::splat(0); 4]; 4];
        for (quarter, at) in quarters.iter_mut().zip([0, 32, 4, 36]) {
            let mut rows = [intrinsic!(_mm256_setzero_si256()); 4];
            for i in 0..4 {
                rows[i] = Self::load(&block[at + 8 * i..]).0;
            }
            *quarter = intrinsic!({
                let (a, b) = (_mm256_unpacklo_epi64(rows[0], rows[1]), _mm256_unpackhi_epi64(rows[0], rows[1]));
                let (c, d) = (_mm256_unpacklo_epi64(rows[2], rows[3]), _mm256_unpackhi_epi64(rows[2], rows[3]));
                [
                    Self(_mm256_permute2x128_si256::<0x20>(a, c)),
                    Self(_mm256_permute2x128_si256::<0x20>(b, d)),
                    Self(_mm256_permute2x128_si256::<0x31>(a, c)),
                    Self(_mm256_permute2x128_si256::<0x31>(b, d)),
                ]
            });
        }
        // The two quarters off the diagonal change places.
        for (quarter, at) in quarters.iter().zip([0, 4, 32, 36]) {
            for i in 0..4 {
                quarter[i].store(&mut block[at + 8 * i..]);
            }
        }
    }
}
