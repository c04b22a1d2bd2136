//! One lane of plain Rust: the specification of the others.

use crate::field::{Formula, Lanes};
use zeroize::Zeroize;

/// One lane.
#[derive(Clone, Copy, Zeroize)]
pub(super) struct U64x1(u64);

const LOW_51: u64 = (1 << 51) - 1;
const LOW_52: u64 = (1 << 52) - 1;

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a & LOW_52) * u128::from(b & LOW_52)
}

impl Lanes for U64x1 {
    const WIDTH: usize = 1;

    #[inline(never)]
    fn call<F: Formula<Self>>(formula: F) -> F::Out {
        formula.run()
    }

    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(word)
    }
    #[inline(always)]
    fn load(words: &[u64]) -> Self {
        Self(words[0])
    }
    #[inline(always)]
    fn store(self, words: &mut [u64]) {
        words[0] = self.0;
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(self.0 << bits)
    }
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(self.0 >> bits)
    }

    #[inline(always)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        Self(self.0.wrapping_add(product(a.0, b.0) as u64 & LOW_52))
    }
    #[inline(always)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        Self(self.0.wrapping_add((product(a.0, b.0) >> 52) as u64))
    }

    const MADD: bool = false;
    const INLINE: bool = true;
    const SPLIT: u32 = 51;
    const LO_ORIGIN: u64 = 0;
    const HI_ORIGIN: u64 = 0;
    #[inline(always)]
    fn wide_lo(self, a: Self, b: Self) -> Self {
        Self(self.0.wrapping_add(a.0.wrapping_mul(b.0) & LOW_51))
    }
    #[inline(always)]
    fn wide_hi(self, a: Self, b: Self) -> Self {
        Self(self.0.wrapping_add(((u128::from(a.0) * u128::from(b.0)) >> 51) as u64))
    }
    #[inline(always)]
    fn madd_small(self, a: Self, b: Self) -> Self {
        Self(self.0.wrapping_add(a.0.wrapping_mul(b.0)))
    }

    // The comparisons avoid Rust's own, which the compiler is free to turn into branches. It must not know either that what comes out is a
    // mask, or it makes branches of what is done with it.
    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        let x = self.0 ^ other.0;
        // The top bit of x | -x is set unless x = 0.
        Self(std::hint::black_box(((x | x.wrapping_neg()) >> 63).wrapping_sub(1)))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        // The borrow of a - b.
        let borrow = (!a & b) | ((!a | b) & a.wrapping_sub(b));
        Self(std::hint::black_box((borrow >> 63).wrapping_neg()))
    }
    #[inline(always)]
    fn select(self, on: Self, off: Self) -> Self {
        Self(off.0 ^ (self.0 & (on.0 ^ off.0)))
    }

    #[inline(always)]
    fn lookup(table: &[u64; 16], index: Self) -> Self {
        let mut found = Self(0);
        for (i, &word) in (0..).zip(table) {
            found = found.or(index.eq(Self(i)).and(Self(word)));
        }
        found
    }
    #[inline(always)]
    fn lookups<const N: usize>(rows: &[[u64; 32]; N], index: Self) -> [Self; N] {
        let mut found = [Self(0); N];
        for i in 0..32 {
            let mask = index.eq(Self(i as u64));
            for n in 0..N {
                found[n] = found[n].or(mask.and(Self(rows[n][i])));
            }
        }
        found
    }
}
