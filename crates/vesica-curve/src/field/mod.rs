//! Field arithmetic by the lane: what an instruction set must offer, and the fields built on it.

pub(crate) mod f25519;
pub(crate) mod invert;
pub(crate) mod p127;
pub(crate) mod prime256;

use zeroize::Zeroize;

/// `WIDTH` independent 64-bit words, on which every operation acts lane by lane.
///
/// Lanes hold *different inputs*, never parts of one, so no operation moves a word from a lane to another, and the
/// portable type (one lane) runs the same program as the widest one. A type of lanes is private to its back end: generic
/// code is instantiated with it only underneath [`crate::backend::run_on`], which has asked the CPU first.
///
/// Every function that is generic over `Lanes` and does arithmetic must be `#[inline(always)]`: it has to end up inside
/// the back end's `#[target_feature]` function, or the intrinsics in it become calls. Where a formula is too large to be
/// copied into each caller, [`Lanes::call`] enters that function anew, as a call.
///
/// A *mask* is all ones or all zeros in each lane.
pub(crate) trait Lanes: Copy + Send + Sync + Zeroize + 'static {
    /// How many lanes there are.
    const WIDTH: usize;

    /// Runs a formula as a call of its own (not inlined), compiled for this type's instructions.
    fn call<F: Formula<Self>>(formula: F) -> F::Out;

    /// Runs a formula of the hottest loops: in its place, or as a call where registers are few.
    #[inline(always)]
    fn hot<F: Formula<Self>>(formula: F) -> F::Out {
        if Self::INLINE { formula.run() } else { Self::call(formula) }
    }

    /// The same word in every lane.
    fn splat(word: u64) -> Self;
    /// The first `WIDTH` words of a slice.
    ///
    /// # Panics
    /// If there are fewer.
    fn load(words: &[u64]) -> Self;
    /// Writes the lanes to the first `WIDTH` words of a slice.
    ///
    /// # Panics
    /// If there are fewer.
    fn store(self, words: &mut [u64]);

    /// Sum modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Difference modulo 2^64.
    fn sub(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Logical shift left by a constant below 64.
    fn shl(self, bits: u32) -> Self;
    /// Logical shift right by a constant below 64.
    fn shr(self, bits: u32) -> Self;
    /// Rotation right by a constant in 1..64.
    #[inline(always)]
    fn rotr(self, bits: u32) -> Self {
        self.shr(bits).or(self.shl(64 - bits))
    }

    /// `self` plus the low 52 bits of `(a mod 2^52)·(b mod 2^52)`, modulo 2^64.
    fn madd_lo(self, a: Self, b: Self) -> Self;
    /// `self` plus bits 52 to 103 of `(a mod 2^52)·(b mod 2^52)`, modulo 2^64.
    fn madd_hi(self, a: Self, b: Self) -> Self;

    /// Whether [`Lanes::madd_lo`] and [`Lanes::madd_hi`] are instructions, rather than several.
    const MADD: bool;
    /// Whether the hottest loops hold their products inline. Where registers are too few, a formula of several products
    /// spills most of what they compute, and calls are faster.
    const INLINE: bool;
    /// Where [`Lanes::wide_lo`] and [`Lanes::wide_hi`] split a product: 52 where [`Lanes::MADD`], and else 51.
    const SPLIT: u32;
    /// What [`Lanes::wide_lo`] adds beside the low part; the sum is to start from minus this, once per product.
    const LO_ORIGIN: u64;
    /// What [`Lanes::wide_hi`] adds beside the high part.
    const HI_ORIGIN: u64;
    /// `self + l + LO_ORIGIN` where `a·b = l + 2^SPLIT·h`, `0 <= a, b < 2^52`, `a·b < 2^103` and `-2^51 <= l < 2^52`.
    ///
    /// How a product is split is the back end's business, so these two serve where only the sum of all parts matters;
    /// that is cheaper than [`Lanes::madd_lo`] where there is no instruction for it. A sum may be negative, in two's
    /// complement.
    fn wide_lo(self, a: Self, b: Self) -> Self;
    /// `self + h + HI_ORIGIN`: the other part; `0 <= h <= 2^(103 - SPLIT)`.
    fn wide_hi(self, a: Self, b: Self) -> Self;
    /// What [`Lanes::part_lo`] adds beside the low part; the sum is to start from minus this, once per product.
    const PART_LO_ORIGIN: u64 = 0;
    /// What [`Lanes::part_hi`] adds beside the high part.
    const PART_HI_ORIGIN: u64 = 0;
    /// `self + l + PART_LO_ORIGIN` where `(a mod 2^52)·(b mod 2^52) = l + 2^52·h` and `-2^51 <= l < 2^52`: as
    /// [`Lanes::wide_lo`], but for any factors, and always split at bit 52.
    #[inline(always)]
    fn part_lo(self, a: Self, b: Self) -> Self {
        self.madd_lo(a, b)
    }
    /// `self + h + PART_HI_ORIGIN`: the other part; `0 <= h < 2^52`.
    #[inline(always)]
    fn part_hi(self, a: Self, b: Self) -> Self {
        self.madd_hi(a, b)
    }
    /// `self + a·b` modulo 2^64, for `a, b < 2^32` with `a·b < 2^52`.
    fn madd_small(self, a: Self, b: Self) -> Self;
    /// The same word, which the compiler has to have in a register at this place. Left alone, it joins and reorders the sums
    /// of a product, and has more words at hand than there are registers.
    #[inline(always)]
    fn pin(self) -> Self {
        self
    }

    /// The mask of the lanes in which the words are equal.
    fn eq(self, other: Self) -> Self;
    /// The mask of the lanes in which `self < other`, as unsigned words.
    fn lt(self, other: Self) -> Self;
    /// `on` where the mask is all ones, `off` where it is zero: `self` is the mask.
    fn select(self, on: Self, off: Self) -> Self;
    /// The bits of `on` where `self` has ones, and those of `off` where it has zeros: a select by any word.
    #[inline(always)]
    fn choose(self, on: Self, off: Self) -> Self {
        off.xor(self.and(on.xor(off)))
    }

    /// The word of a table at an index below 16 of its own for each lane. All of the table is read, whatever the index.
    fn lookup(table: &[u64; 16], index: Self) -> Self;

    /// The same of several rows of 32 words, for an index below 32.
    #[inline(always)]
    fn lookups<const N: usize>(rows: &[[u64; 32]; N], index: Self) -> [Self; N] {
        let upper = Self::zero().lt(index.shr(4));
        let index = index.and(Self::splat(15));
        let mut found = [Self::zero(); N];
        for n in 0..N {
            let (halves, _) = rows[n].as_chunks::<16>();
            found[n] = upper.select(Self::lookup(&halves[1], index), Self::lookup(&halves[0], index));
        }
        found
    }

    /// Zero in every lane.
    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0)
    }
    /// The mask that is all ones in every lane if `bit` is 1, and zero if it is 0: for a bit of the secret that all lanes
    /// share.
    #[inline(always)]
    fn mask_of(bit: u64) -> Self {
        debug_assert!(bit <= 1);
        Self::splat(std::hint::black_box(bit).wrapping_neg())
    }
    /// The bits of `self` that are not in `other`.
    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        self.and(other.xor(Self::splat(u64::MAX)))
    }
}

/// A computation on one type of lanes, for [`Lanes::call`]. Implementations of `run` are `#[inline(always)]`.
pub(crate) trait Formula<V: Lanes> {
    /// What it computes.
    type Out;
    /// Computes it.
    fn run(self) -> Self::Out;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{self, Kernel};
    use vesica_cpu::Backend;

    /// Every operation on every pair of the words, each pair in every lane.
    struct Operations<'a>(&'a [u64]);

    impl Kernel for Operations<'_> {
        type Out = Vec<[u64; 19]>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Out {
            let words = self.0;
            let mut out = Vec::new();
            let table = std::array::from_fn(|i| !words[i]);
            let rows = [std::array::from_fn(|i| !words[i]), std::array::from_fn(|i| words[i].wrapping_mul(3))];
            // Neighbouring lanes hold different pairs, so that a lane that leaks into another is seen.
            let pairs: Vec<(u64, u64)> = words.iter().flat_map(|&a| words.iter().map(move |&b| (a, b))).collect();
            for chunk in pairs.chunks(V::WIDTH) {
                let (mut a, mut b) = (vec![0; V::WIDTH], vec![0; V::WIDTH]);
                for (i, pair) in chunk.iter().enumerate() {
                    (a[i], b[i]) = *pair;
                }
                let (a, b) = (V::load(&a), V::load(&b));
                let c = a.xor(V::splat(0x0123_4567_89ab_cdef));
                let [first, second] = V::lookups(&rows, b.and(V::splat(31)));
                let results = [
                    a.add(b),
                    a.sub(b),
                    a.and(b),
                    a.or(b),
                    a.xor(b),
                    a.and_not(b),
                    a.shl(13),
                    a.shr(51),
                    a.rotr(41),
                    c.madd_lo(a, b),
                    c.madd_hi(a, b),
                    a.eq(b),
                    a.lt(b),
                    a.lt(b).select(a, b),
                    a.choose(b, c),
                    c.madd_small(a.shr(38), b.shr(40)),
                    V::lookup(&table, b.and(V::splat(15))),
                    first,
                    second,
                ];
                let mut words = [(); 19].map(|()| vec![0; V::WIDTH]);
                for (row, result) in words.iter_mut().zip(results) {
                    result.store(row);
                }
                out.extend((0..chunk.len()).map(|i| std::array::from_fn(|k| words[k][i])));
            }
            out
        }
    }

    #[test]
    fn every_back_end_does_what_the_portable_one_does() {
        let mut words: Vec<u64> = vec![0, 1, 2, 19, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
        for bits in [25, 26, 27, 50, 51, 52, 53] {
            words.extend([(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        }
        words.push(0x000a_aaaa_aaaa_aaaa);
        words.push(0x0005_5555_5555_5555);
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..80 {
            x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9);
            words.extend([x, x >> 12]);
        }
        let want = backend::run_on(Backend::Portable, Operations(&words));
        for backend in Backend::available() {
            assert!(backend::run_on(backend, Operations(&words)) == want, "{backend}");
        }
    }

    #[test]
    fn the_portable_multiply_add_is_the_definition() {
        let mask = (1u128 << 52) - 1;
        let mut words = vec![0u64, 1, (1 << 52) - 1, 1 << 52, u64::MAX, 0xdead_beef_0bad_cafe];
        words.extend(2..30);
        for out in backend::run_on(Backend::Portable, Operations(&words)).iter().zip(0..) {
            let (a, b) = (words[out.1 / words.len()], words[out.1 % words.len()]);
            let c = a ^ 0x0123_4567_89ab_cdef;
            let product = (u128::from(a) & mask) * (u128::from(b) & mask);
            assert_eq!(out.0[9], c.wrapping_add((product & mask) as u64));
            assert_eq!(out.0[10], c.wrapping_add((product >> 52) as u64));
            assert_eq!(out.0[16], !words[b as usize & 15]);
            assert_eq!(out.0[17], !words[b as usize & 31]);
            assert_eq!(out.0[18], words[b as usize & 31].wrapping_mul(3));
        }
    }

    /// The parts of every product of two of the words.
    struct Parts<'a>(&'a [u64]);

    impl Kernel for Parts<'_> {
        type Out = Vec<(i64, i64)>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Out {
            let mut out = Vec::new();
            for &a in self.0 {
                for words in self.0.chunks(V::WIDTH) {
                    let mut b = [0; 8];
                    b[..words.len()].copy_from_slice(words);
                    let (a, b) = (V::splat(a), V::load(&b));
                    let (mut low, mut high) = ([0; 8], [0; 8]);
                    V::splat(V::PART_LO_ORIGIN.wrapping_neg()).part_lo(a, b).store(&mut low);
                    V::splat(V::PART_HI_ORIGIN.wrapping_neg()).part_hi(a, b).store(&mut high);
                    out.extend((0..words.len()).map(|i| (low[i] as i64, high[i] as i64)));
                }
            }
            out
        }
    }

    #[test]
    fn parts_make_the_product_at_every_bound() {
        let mut words: Vec<u64> = vec![0, 1, 2, 3, u64::MAX, 1 << 52, 0xfff0_0000_0000_0001];
        for bits in [25, 26, 50, 51, 52] {
            words.extend([(1u64 << bits) - 2, (1 << bits) - 1, 1 << bits, (1 << bits) + 1, 3 << (bits - 1)]);
        }
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200 {
            x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9);
            words.push(x);
        }
        let mask = (1i128 << 52) - 1;
        for backend in Backend::available() {
            let parts = backend::run_on(backend, Parts(&words));
            let pairs = words.iter().flat_map(|&a| words.iter().map(move |&b| (a, b)));
            for ((a, b), (low, high)) in pairs.zip(parts) {
                let product = (i128::from(a) & mask) * (i128::from(b) & mask);
                assert_eq!(i128::from(low) + (i128::from(high) << 52), product, "{backend}: {a:x}, {b:x}");
                assert!((-(1 << 51)..1 << 52).contains(&low), "{backend}: {a:x}, {b:x}");
                assert!((0..1 << 52).contains(&high), "{backend}: {a:x}, {b:x}");
            }
        }
    }
}
