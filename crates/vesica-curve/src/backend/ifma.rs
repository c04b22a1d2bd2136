//! Eight lanes: AVX-512 with the 52-bit multiply-add instructions.

use crate::field::{Formula, Lanes};
use std::arch::x86_64::*;
use zeroize::Zeroize;

/// Eight lanes.
#[derive(Clone, Copy, Zeroize)]
#[repr(transparent)]
pub(super) struct U64x8(__m512i);

/// The one function compiled for these instructions; everything generic is inlined into its instances.
///
/// # Safety
/// The CPU must have the instructions.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512ifma,avx2,fma,bmi2")]
unsafe fn enter<F: Formula<U64x8>>(formula: F) -> F::Out {
    formula.run()
}

// SAFETY of every block below: `U64x8` is private to `backend`, and code that is instantiated with it runs only
// underneath `run_on`, which has checked that the CPU has these instructions. Loads and stores check the length first.
macro_rules! intrinsic {
    ($call:expr) => {{
        // SAFETY: see above: beneath `run_on`, which has checked the CPU.
        unsafe { $call }
    }};
}

impl Lanes for U64x8 {
    const WIDTH: usize = 8;

    #[inline(always)]
    fn call<F: Formula<Self>>(formula: F) -> F::Out {
        intrinsic!(enter(formula))
    }

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
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_and_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_or_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_xor_si512(self.0, other.0)))
    }
    // With a constant count these become the shifts by an immediate.
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(_mm512_sll_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(_mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits as i32))))
    }

    #[inline(always)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        Self(intrinsic!(_mm512_madd52lo_epu64(self.0, a.0, b.0)))
    }
    #[inline(always)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        Self(intrinsic!(_mm512_madd52hi_epu64(self.0, a.0, b.0)))
    }

    const MADD: bool = true;
    const INLINE: bool = true;
    const SPLIT: u32 = 52;
    const LO_ORIGIN: u64 = 0;
    const HI_ORIGIN: u64 = 0;
    #[inline(always)]
    fn wide_lo(self, a: Self, b: Self) -> Self {
        self.madd_lo(a, b)
    }
    #[inline(always)]
    fn wide_hi(self, a: Self, b: Self) -> Self {
        self.madd_hi(a, b)
    }
    #[inline(always)]
    fn madd_small(self, a: Self, b: Self) -> Self {
        self.madd_lo(a, b)
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_movm_epi64(_mm512_cmpeq_epu64_mask(self.0, other.0))))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_movm_epi64(_mm512_cmplt_epu64_mask(self.0, other.0))))
    }
    #[inline(always)]
    fn select(self, on: Self, off: Self) -> Self {
        // One instruction: for each bit, if self then on else off.
        Self(intrinsic!(_mm512_ternarylogic_epi64::<0b1100_1010>(self.0, on.0, off.0)))
    }
    #[inline(always)]
    fn choose(self, on: Self, off: Self) -> Self {
        self.select(on, off)
    }
    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_andnot_si512(other.0, self.0)))
    }

    #[inline(always)]
    fn lookup(table: &[u64; 16], index: Self) -> Self {
        let (low, high) = table.split_at(8);
        Self(intrinsic!(_mm512_permutex2var_epi64(Self::load(low).0, index.0, Self::load(high).0)))
    }
}
