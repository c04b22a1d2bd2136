//! One lane of plain Rust: the specification of the others.

use crate::lanes::{Kernel, Lanes};

/// One lane.
#[derive(Clone, Copy)]
pub(super) struct U64x1(u64);

const LOW_52: u64 = (1 << 52) - 1;

#[inline(never)]
pub(super) fn enter<K: Kernel>(kernel: K) -> K::Out {
    kernel.run::<U64x1>()
}

impl Lanes for U64x1 {
    const WIDTH: usize = 1;

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
    fn low52(self) -> Self {
        Self(self.0 & LOW_52)
    }
    #[inline(always)]
    fn high12(self) -> Self {
        Self(self.0 >> 52)
    }
    #[inline(always)]
    fn reduce_once(self, bound: Self) -> Self {
        let less = self.0.wrapping_sub(bound.0);
        // All ones if the difference is negative. The compiler is kept from making a branch of it.
        let negative = std::hint::black_box(less >> 63).wrapping_neg();
        Self(less.wrapping_add(bound.0 & negative))
    }
    #[inline(always)]
    fn mul(self, factor: Self, quotient: Self, p: Self) -> Self {
        let times = (u128::from(self.0) * u128::from(quotient.0)) >> 52;
        Self(self.0.wrapping_mul(factor.0).wrapping_sub((times as u64).wrapping_mul(p.0)))
    }
    #[inline(always)]
    fn madd(lo: Self, hi: Self, a: Self, b: Self) -> (Self, Self) {
        let product = u128::from(a.0) * u128::from(b.0);
        (Self(lo.0.wrapping_add(product as u64 & LOW_52)), Self(hi.0.wrapping_add((product >> 52) as u64)))
    }
    #[inline(always)]
    fn transpose(block: &mut [u64; 64]) {
        for i in 0..8 {
            for j in 0..i {
                block.swap(8 * i + j, 8 * j + i);
            }
        }
    }
}
