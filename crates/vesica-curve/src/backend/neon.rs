//! Two lanes: NEON, with the 52-bit products taken from the floating-point unit.
//!
//! The vectors of ARM multiply words of 32 bits at most. So a product of 52 bits is made of two fused multiply-adds, as on
//! AVX2: what is rounded where, and why the parts come out exactly, stands at the head of the module `avx2`. Rust rounds to
//! nearest here too.
//!
//! Every 64-bit ARM CPU has these instructions, so no function here needs the CPU to be asked.

use crate::field::{Formula, Lanes};
use std::arch::aarch64::*;
use zeroize::Zeroize;

/// Two lanes.
#[derive(Clone, Copy, Zeroize)]
#[repr(transparent)]
pub(super) struct U64x2(uint64x2_t);

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
const TWO_103: f64 = TWO_104 / 2.0;
const TWO_104: f64 = TWO_52 * TWO_52;
/// Adding this to an integer of at most 51 bits and a sign leaves it, in two's complement, in the low bits.
const SIGNED: f64 = 1.5 * TWO_52;

impl U64x2 {
    /// A word below 2^52 as an exact double: under the exponent of 2^52 it is the number 2^52 + x.
    #[inline(always)]
    fn small_double(self) -> float64x2_t {
        let bits = self.or(Self::splat(TWO_52.to_bits()));
        intrinsic!(vsubq_f64(vreinterpretq_f64_u64(bits.0), vdupq_n_f64(TWO_52)))
    }

    /// The low 52 bits as an exact double.
    #[inline(always)]
    fn double(self) -> float64x2_t {
        self.and(Self::splat(LOW_52)).small_double()
    }

    /// The product of the low 52 bits: the high part, rounded and over 2^104, and the signed low part.
    #[inline(always)]
    fn product(a: Self, b: Self) -> (float64x2_t, Self) {
        let (a, b) = (a.double(), b.double());
        let base = intrinsic!(vdupq_n_f64(TWO_104));
        let high = intrinsic!(vfmaq_f64(base, a, b));
        let low = intrinsic!(vfmaq_f64(vsubq_f64(base, high), a, b));
        (high, Self::of(intrinsic!(vaddq_f64(low, vdupq_n_f64(SIGNED)))).sub(Self::splat(SIGNED.to_bits())))
    }

    /// The words that two doubles are written as.
    #[inline(always)]
    fn of(doubles: float64x2_t) -> Self {
        Self(intrinsic!(vreinterpretq_u64_f64(doubles)))
    }
}

impl Lanes for U64x2 {
    const WIDTH: usize = 2;

    #[inline(never)]
    fn call<F: Formula<Self>>(formula: F) -> F::Out {
        formula.run()
    }

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
    fn and(self, other: Self) -> Self {
        Self(intrinsic!(vandq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(intrinsic!(vorrq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(intrinsic!(veorq_u64(self.0, other.0)))
    }
    // With a constant count these become the shifts by an immediate. A negative count shifts to the right.
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(intrinsic!(vshlq_u64(self.0, vdupq_n_s64(i64::from(bits)))))
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(intrinsic!(vshlq_u64(self.0, vdupq_n_s64(-i64::from(bits)))))
    }

    #[inline(always)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        let (_, low) = Self::product(a, b);
        self.add(low.and(Self::splat(LOW_52)))
    }
    #[inline(always)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        let (high, low) = Self::product(a, b);
        let high = Self::of(high).sub(Self::splat(TWO_104.to_bits()));
        // A negative low part means that the high part was rounded up; the comparison is -1 there.
        let up = Self(intrinsic!(vcltzq_s64(vreinterpretq_s64_u64(low.0))));
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
        let high = intrinsic!(vfmaq_f64(vdupq_n_f64(TWO_103), a, b));
        let rest = intrinsic!(vsubq_f64(vdupq_n_f64(TWO_103 + SIGNED), high));
        self.add(Self::of(intrinsic!(vfmaq_f64(rest, a, b))))
    }
    #[inline(always)]
    fn wide_hi(self, a: Self, b: Self) -> Self {
        // The compiler finds that wide_lo has computed this already.
        self.add(Self::of(intrinsic!(vfmaq_f64(vdupq_n_f64(TWO_103), a.small_double(), b.small_double()))))
    }
    const PART_LO_ORIGIN: u64 = (-SIGNED).to_bits().wrapping_neg();
    const PART_HI_ORIGIN: u64 = TWO_104.to_bits();
    #[inline(always)]
    fn part_lo(self, a: Self, b: Self) -> Self {
        let (a, b) = (a.double(), b.double());
        let high = intrinsic!(vfmaq_f64(vdupq_n_f64(TWO_104), a, b));
        let rest = intrinsic!(vsubq_f64(vdupq_n_f64(TWO_104 - SIGNED), high));
        self.sub(Self::of(intrinsic!(vfmaq_f64(rest, a, b))))
    }
    #[inline(always)]
    fn part_hi(self, a: Self, b: Self) -> Self {
        // The compiler finds that part_lo has computed this already.
        self.add(Self::of(intrinsic!(vfmaq_f64(vdupq_n_f64(TWO_104), a.double(), b.double()))))
    }
    #[inline(always)]
    fn madd_small(self, a: Self, b: Self) -> Self {
        Self(intrinsic!(vmlal_u32(self.0, vmovn_u64(a.0), vmovn_u64(b.0))))
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        Self(intrinsic!(vceqq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        Self(intrinsic!(vcltq_u64(self.0, other.0)))
    }
    #[inline(always)]
    fn select(self, on: Self, off: Self) -> Self {
        // One instruction: for each bit, if self then on else off.
        Self(intrinsic!(vbslq_u64(self.0, on.0, off.0)))
    }
    #[inline(always)]
    fn choose(self, on: Self, off: Self) -> Self {
        self.select(on, off)
    }
    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        Self(intrinsic!(vbicq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn lookup(table: &[u64; 16], index: Self) -> Self {
        // The instruction chooses bytes of four registers, by numbers below 64. The second one leaves those of other numbers.
        // Byte i of word x is byte 8x + i.
        const FIRST: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8];
        const PLACES: u64 = 0x0706_0504_0302_0100;
        // The pointer is to 16 initialised bytes.
        let first = intrinsic!(vld1q_u8(FIRST.as_ptr()));
        let words = intrinsic!(vqtbl1q_u8(vreinterpretq_u8_u64(index.shl(3).0), first));
        let bytes = intrinsic!(vaddq_u8(words, vreinterpretq_u8_u64(vdupq_n_u64(PLACES))));
        let registers = |at: usize| {
            let load = |at: usize| intrinsic!(vreinterpretq_u8_u64(Self::load(&table[at..]).0));
            uint8x16x4_t(load(at), load(at + 2), load(at + 4), load(at + 6))
        };
        let low = intrinsic!(vqtbl4q_u8(registers(0), bytes));
        let both = intrinsic!(vqtbx4q_u8(low, registers(8), vsubq_u8(bytes, vdupq_n_u8(64))));
        Self(intrinsic!(vreinterpretq_u64_u8(both)))
    }
}
