//! Four lanes: AVX2, with the 52-bit products taken from the floating-point unit.
//!
//! A double holds 53 bits, and a fused multiply-add rounds once. With `a, b < 2^52` as exact doubles,
//!
//! - `h = fma(a, b, 2^104)` rounds `ab` to the nearest multiple of 2^52, because doubles in `[2^104, 2^105)` are those
//!   multiples; the integer `h / 2^52 - 2^52` stands in the low bits of `h`'s representation;
//! - `l = fma(a, b, 2^104 - h)` is the rest, exactly: an integer in `[-2^51, 2^51]`.
//!
//! N. Emmart, F. Zheng, C. Weems, "Faster Modular Exponentiation Using Double Precision Floating Point Arithmetic on the
//! GPU", ARITH 2018, round towards zero; the rounding mode here is the default (changing it is not allowed in Rust), so
//! the low part is signed, and where it is negative the high part was rounded up by one.
//!
//! Where only the sum of both parts matters ([`Lanes::wide_lo`], [`Lanes::wide_hi`]) the correction is left out, and the
//! exponents' bits are taken off the sums instead of each product. There the split is at bit 51: `h = fma(a, b, 2^103)`
//! rounds to a multiple of 2^51, `2^103 + 3·2^51 - h` is a double exactly, and so `fma(a, b, 2^103 + 3·2^51 - h)` is the low
//! part, in `[-2^50, 2^50]`, plus `3·2^51`: an integer in `[2^52, 2^53)`, which shows in its low bits.
//!
//! Larger products are split at bit 52 ([`Lanes::part_lo`], [`Lanes::part_hi`]). `h = fma(a, b, 2^104)` as above: a multiple
//! of 2^52 in `[2^104, 2^105)`. There `2^104 + 3·2^51` is no double, but `2^104 - 3·2^51` is one, since below 2^104 doubles
//! are the multiples of 2^51. So is `2^104 - 3·2^51 - h`, such a multiple and not below -2^104, and
//! `fma(a, b, 2^104 - 3·2^51 - h)` is the low part, in `[-2^51, 2^51]`, minus `3·2^51`: an integer in `[-2^53, -2^52]`. In the
//! low bits of its representation, sign and size, stands minus the low part.

use crate::field::{Formula, Lanes};
use std::arch::asm;
use std::arch::x86_64::*;
use zeroize::Zeroize;

/// Four lanes.
#[derive(Clone, Copy, Zeroize)]
#[repr(transparent)]
pub(super) struct U64x4(__m256i);

/// The one function compiled for these instructions; everything generic is inlined into its instances.
///
/// # Safety
/// The CPU must have the instructions.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
unsafe fn enter<F: Formula<U64x4>>(formula: F) -> F::Out {
    formula.run()
}

// SAFETY of every block below: `U64x4` is private to `backend`, and code that is instantiated with it runs only
// underneath `run_on`, which has checked that the CPU has these instructions. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: beneath `run_on`, which has checked the CPU.
        unsafe { $call }
    }};
}

/// The word, in a register at this place: what the compiler knows nothing of, it can neither join with its neighbours nor put off.
///
/// # Safety
/// The CPU must have the instructions.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn pin(mut word: __m256i) -> __m256i {
    // SAFETY: the text is a comment, so nothing is done.
    unsafe { asm!("/* {0} */", inout(ymm_reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

const LOW_52: u64 = (1 << 52) - 1;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const TWO_104: f64 = TWO_52 * TWO_52;
/// Adding this to an integer of at most 51 bits and a sign leaves it, in two's complement, in the low bits.
const SIGNED: f64 = 1.5 * TWO_52;

const TWO_103: f64 = TWO_104 / 2.0;

impl U64x4 {
    /// A word below 2^52 as an exact double.
    #[inline(always)]
    fn small_double(self) -> __m256d {
        let bits = self.or(Self::splat(TWO_52.to_bits()));
        intrinsic!(_mm256_sub_pd(_mm256_castsi256_pd(bits.0), _mm256_set1_pd(TWO_52)))
    }

    /// The low 52 bits as an exact double: under the exponent of 2^52 they are the number 2^52 + x.
    #[inline(always)]
    fn double(self) -> __m256d {
        let bits = self.and(Self::splat(LOW_52)).or(Self::splat(TWO_52.to_bits()));
        intrinsic!(_mm256_sub_pd(_mm256_castsi256_pd(bits.0), _mm256_set1_pd(TWO_52)))
    }

    /// The product of the low 52 bits, as the rounded high part (`h` of the module's comment) and the signed low part.
    #[inline(always)]
    fn product(a: Self, b: Self) -> (__m256d, Self) {
        let (a, b) = (a.double(), b.double());
        let base = intrinsic!(_mm256_set1_pd(TWO_104));
        let high = intrinsic!(_mm256_fmadd_pd(a, b, base));
        let low = intrinsic!(_mm256_fmadd_pd(a, b, _mm256_sub_pd(base, high)));
        let low = intrinsic!(_mm256_castpd_si256(_mm256_add_pd(low, _mm256_set1_pd(SIGNED))));
        (high, Self(low).sub(Self::splat(SIGNED.to_bits())))
    }
}

impl Lanes for U64x4 {
    const WIDTH: usize = 4;

    // Never inlined itself: whether `enter` is, the compiler decides, for all that its attribute says.
    #[inline(never)]
    fn call<F: Formula<Self>>(formula: F) -> F::Out {
        intrinsic!(enter(formula))
    }

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
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_and_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_or_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_xor_si256(self.0, other.0)))
    }
    // With a constant count these become the shifts by an immediate.
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(_mm256_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(_mm256_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }

    #[inline(always)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        let (_, low) = Self::product(a, b);
        self.add(low.and(Self::splat(LOW_52)))
    }
    #[inline(always)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        let (high, low) = Self::product(a, b);
        let high = Self(intrinsic!(_mm256_castpd_si256(high))).sub(Self::splat(TWO_104.to_bits()));
        // A negative low part means that the high part was rounded up; the comparison is -1 there.
        let up = Self(intrinsic!(_mm256_cmpgt_epi64(_mm256_setzero_si256(), low.0)));
        self.add(high).add(up)
    }

    const MADD: bool = false;
    const INLINE: bool = false;
    const SPLIT: u32 = 51;
    const LO_ORIGIN: u64 = SIGNED.to_bits();
    const HI_ORIGIN: u64 = TWO_103.to_bits();
    #[inline(always)]
    fn wide_lo(self, a: Self, b: Self) -> Self {
        let (a, b) = (a.small_double(), b.small_double());
        let high = intrinsic!(_mm256_fmadd_pd(a, b, _mm256_set1_pd(TWO_103)));
        let rest = intrinsic!(_mm256_sub_pd(_mm256_set1_pd(TWO_103 + SIGNED), high));
        self.add(Self(intrinsic!(_mm256_castpd_si256(_mm256_fmadd_pd(a, b, rest)))))
    }
    #[inline(always)]
    fn wide_hi(self, a: Self, b: Self) -> Self {
        // The compiler finds that wide_lo has computed this already.
        let high = intrinsic!(_mm256_fmadd_pd(a.small_double(), b.small_double(), _mm256_set1_pd(TWO_103)));
        self.add(Self(intrinsic!(_mm256_castpd_si256(high))))
    }
    const PART_LO_ORIGIN: u64 = (-SIGNED).to_bits().wrapping_neg();
    const PART_HI_ORIGIN: u64 = TWO_104.to_bits();
    #[inline(always)]
    fn part_lo(self, a: Self, b: Self) -> Self {
        let (a, b) = (a.double(), b.double());
        let high = intrinsic!(_mm256_fmadd_pd(a, b, _mm256_set1_pd(TWO_104)));
        let rest = intrinsic!(_mm256_sub_pd(_mm256_set1_pd(TWO_104 - SIGNED), high));
        self.sub(Self(intrinsic!(_mm256_castpd_si256(_mm256_fmadd_pd(a, b, rest)))))
    }
    #[inline(always)]
    fn part_hi(self, a: Self, b: Self) -> Self {
        // The compiler finds that part_lo has computed this already.
        let high = intrinsic!(_mm256_fmadd_pd(a.double(), b.double(), _mm256_set1_pd(TWO_104)));
        self.add(Self(intrinsic!(_mm256_castpd_si256(high))))
    }
    #[inline(always)]
    fn madd_small(self, a: Self, b: Self) -> Self {
        self.add(Self(intrinsic!(_mm256_mul_epu32(a.0, b.0))))
    }

    #[inline(always)]
    fn pin(self) -> Self {
        Self(intrinsic!(pin(self.0)))
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_cmpeq_epi64(self.0, other.0)))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        // AVX2 compares signed words; flipping the sign bits makes that the unsigned order.
        let flip = Self::splat(1 << 63);
        Self(intrinsic!(_mm256_cmpgt_epi64(other.xor(flip).0, self.xor(flip).0)))
    }
    #[inline(always)]
    fn select(self, on: Self, off: Self) -> Self {
        Self(intrinsic!(_mm256_blendv_epi8(off.0, on.0, self.0)))
    }
    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_andnot_si256(other.0, self.0)))
    }

    #[inline(always)]
    fn lookup(table: &[u64; 16], index: Self) -> Self {
        // The instruction moves halves of words, within four words; then bits 2 and 3 choose among four of its results.
        let double = index.add(index);
        let halves = double.or(double.add(Self::splat(1)).shl(32));
        let [bit2, bit3] = [61, 60].map(|bits| intrinsic!(_mm256_castsi256_pd(index.shl(bits).0)));
        let quarter = |at: usize| -> __m256d {
            let words = Self::load(&table[at..]);
            intrinsic!(_mm256_castsi256_pd(_mm256_permutevar8x32_epi32(words.0, halves.0)))
        };
        let low = intrinsic!(_mm256_blendv_pd(quarter(0), quarter(4), bit2));
        let high = intrinsic!(_mm256_blendv_pd(quarter(8), quarter(12), bit2));
        Self(intrinsic!(_mm256_castpd_si256(_mm256_blendv_pd(low, high, bit3))))
    }
}
