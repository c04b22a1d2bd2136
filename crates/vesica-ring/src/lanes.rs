//! What a vector of words can do. Each kernel is written once over this, and runs on every back end.

/// Words side by side. A back end is a type of lanes; the one of plain words is the specification of the others.
pub(crate) trait Lanes: Copy {
    /// How many words: a divisor of 8.
    const WIDTH: usize;

    /// The same word in every lane.
    fn splat(word: u64) -> Self;
    /// The first `WIDTH` of `words`.
    fn load(words: &[u64]) -> Self;
    /// To the first `WIDTH` of `words`.
    fn store(self, words: &mut [u64]);

    /// Sum modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Difference modulo 2^64.
    fn sub(self, other: Self) -> Self;
    /// The low 52 bits.
    fn low52(self) -> Self;
    /// What is above the low 52 bits, shifted down.
    fn high12(self) -> Self;
    /// `self - bound` where that is not negative, else `self`. Both are below 2^63. The time does not depend on which.
    fn reduce_once(self, bound: Self) -> Self;
    /// `self·factor` modulo p in `[0, 2p)`, for `self < 2^52`, a [`crate::Factor`] in two words, and p < 2^50.
    fn mul(self, factor: Self, quotient: Self, p: Self) -> Self;
    /// Adds the low 52 bits of the product `a·b` to `lo` and the rest to `hi`; `a` and `b` are below 2^52.
    fn madd(lo: Self, hi: Self, a: Self, b: Self) -> (Self, Self);
    /// Swaps word 8i + j with word 8j + i, for all i and j.
    fn transpose(block: &mut [u64; 64]);
}

/// A computation written once for all types of lanes. Implementations of `run` are `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What it computes.
    type Out;
    /// Computes it, with lanes of type `V`.
    fn run<V: Lanes>(self) -> Self::Out;
}
