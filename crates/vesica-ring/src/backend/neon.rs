//! Two lanes: NEON, with the 52-bit products taken from the floating-point unit, as on AVX2: the head of the module `avx2` says
//! what is rounded where.
//!
//! Every 64-bit ARM CPU has these instructions, so no function here needs the CPU to be asked.

use crate::lanes::{Kernel, Lanes};
use std::arch::aarch64::*;

/// Two lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct U64x2(uint64x2_t);

#[inline(never)]
pub(super) fn enter<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<U64x2>()
}

// SAFETY of every block below: NEON is part of every 64-bit ARM CPU that Rust compiles for. Loads and stores are of as many words as
// the slices or arrays have that they borrow.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: every CPU of this kind has NEON.
        unsafe { $call }
    }};
}

const LOW_52: u64 = (1 << 52) - 1;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const TWO_104: f64 = TWO_52 * TWO_52;
/// Adding this to an integer of at most 51 bits and a sign leaves it, in two's complement, in the low bits.
const SIGNED: f64 = 1.5 * TWO_52;

impl U64x2 {
    /// A word below 2^52 as an exact double: under the exponent of 2^52 it is the number 2^52 + x.
    #[inline(always)]
    fn double(self) -> float64x2_t {
        let bits = intrinsic!(vorrq_u64(self.0, vdupq_n_u64(TWO_52.to_bits())));
        intrinsic!(vsubq_f64(vreinterpretq_f64_u64(bits), vdupq_n_f64(TWO_52)))
    }
    /// The words that two doubles are written as.
    #[inline(always)]
    fn of(doubles: float64x2_t) -> Self {
        Self(intrinsic!(vreinterpretq_u64_f64(doubles)))
    }
    /// All ones where the word is negative, in two's complement or as a double.
    #[inline(always)]
    fn negative(self) -> uint64x2_t {
        intrinsic!(vcltzq_s64(vreinterpretq_s64_u64(self.0)))
    }
}

impl Lanes for U64x2 {
    const WIDTH: usize = 2;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(intrinsic!(vdupq_n_u64(word)))
    }
    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        let words: &[u64; 2] = words[..2].try_into().expect("two words");
        // The pointer is to two initialised words.
        Self(intrinsic!(vld1q_u64(words.as_ptr())))
    }
    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        let words: &mut [u64; 2] = (&mut words[..2]).try_into().expect("two words");
        // The pointer is to two words that are borrowed mutably.
        intrinsic!(vst1q_u64(words.as_mut_ptr(), self.0));
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(vaddq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(intrinsic!(vsubq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn low52(self) -> Self {
        Self(intrinsic!(vandq_u64(self.0, vdupq_n_u64(LOW_52))))
    }
    #[inline(always)]
    fn high12(self) -> Self {
        Self(intrinsic!(vshrq_n_u64::<52>(self.0)))
    }
    #[inline(always)]
    fn reduce_once(self, bound: Self) -> Self {
        let less = self.sub(bound);
        Self(intrinsic!(vbslq_u64(less.negative(), self.0, less.0)))
    }
    #[inline(always)]
    fn mul(self, factor: Self, quotient: Self, p: Self) -> Self {
        let (y, w, wq, p) = (self.double(), factor.double(), quotient.double(), p.double());
        // q is y·quotient / 2^52 rounded to the nearest integer. That quotient is too small by less than one, so
        // y·factor - q·p is in [-p/2, 3p/2): a negative one gets p more, and all are below 2p.
        let base = intrinsic!(vdupq_n_f64(TWO_104));
        let q = intrinsic!(vmulq_f64(vsubq_f64(vfmaq_f64(base, y, wq), base), vdupq_n_f64(1.0 / TWO_52)));
        // The product in two doubles, the second with its sign changed. Subtracting q·p from the first is exact: the result is
        // an integer below 2^52.
        let high = intrinsic!(vmulq_f64(y, w));
        let minus_low = intrinsic!(vfmsq_f64(high, y, w));
        let rest = intrinsic!(vsubq_f64(vfmsq_f64(high, q, p), minus_low));
        let rest = intrinsic!(vbslq_f64(Self::of(rest).negative(), vaddq_f64(rest, p), rest));
        Self::of(intrinsic!(vaddq_f64(rest, vdupq_n_f64(TWO_52)))).low52()
    }
    #[inline(always)]
    fn madd(lo: Self, hi: Self, a: Self, b: Self) -> (Self, Self) {
        let (a, b) = (a.double(), b.double());
        let base = intrinsic!(vdupq_n_f64(TWO_104));
        let high = intrinsic!(vfmaq_f64(base, a, b));
        let low = intrinsic!(vfmaq_f64(vsubq_f64(base, high), a, b));
        let low = Self::of(intrinsic!(vaddq_f64(low, vdupq_n_f64(SIGNED)))).sub(Self::splat(SIGNED.to_bits()));
        let high = Self::of(high).sub(Self::splat(TWO_104.to_bits()));
        // A negative low part means that the high part was rounded up; the mask is -1 there.
        (lo.add(low.low52()), hi.add(high).add(Self(low.negative())))
    }
    #[inline(always)]
    fn transpose(block: &mut [u64; 64]) {
        // Squares of 2 x 2 words. One on the diagonal is turned in its place, two beside it change places too.
        for i in (0..8).step_by(2) {
            for j in (0..=i).step_by(2) {
                let [here, there] = [8 * i + j, 8 * j + i].map(|at| {
                    let (above, below) = (Self::load(&block[at..]).0, Self::load(&block[at + 8..]).0);
                    [intrinsic!(vtrn1q_u64(above, below)), intrinsic!(vtrn2q_u64(above, below))]
                });
                for (at, square) in [(8 * j + i, here), (8 * i + j, there)] {
                    Self(square[0]).store(&mut block[at..]);
                    Self(square[1]).store(&mut block[at + 8..]);
                }
            }
        }
    }
}
