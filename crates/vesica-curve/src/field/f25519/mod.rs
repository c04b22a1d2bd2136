//! The field of 2^255 - 19 elements, by the lane.
//!
//! An element is five limbs, in one of two radices: 2^52 where the back end has the 52-bit multiply-add instructions, for
//! which it saves work (module `radix52`), and 2^51 where it does not (module `radix51`). [`Lanes::MADD`] says which.
//! Either way there are two kinds of bounds, and a type for each:
//!
//! - [`Fe`]: limbs that can be multiplied;
//! - [`Wide`]: the columns of a product, or of sums and differences of products, before their carries.
//!
//! Sums and differences are taken between columns, so that one pass of carries ([`Wide::carry`]) serves both the products
//! and the sum. A column is an unsigned word, so what is subtracted from must be the larger: a product comes with a *bias*,
//! a multiple of p whose digits are larger than any column of a product without it, [`Raw`].

// Loops over limbs by their index: closures given to `array::map` or `from_fn` are not certain to be inlined, and here
// everything must be (see `Lanes`).
#![allow(clippy::needless_range_loop)]

pub(crate) mod block;
mod radix51;
mod radix52;

use super::{Formula, Lanes};
use zeroize::{Zeroize, Zeroizing};

/// A field element that can be multiplied.
///
/// In radix 2^52, limbs 0 to 3 have any bits above their lowest 52, which do not count, and limb 4 is below 2^47 + 2^13. In
/// radix 2^51, every limb is below 2^51 + 2^17. So the number that counts is below 2p.
#[derive(Clone, Copy, Zeroize)]
pub(crate) struct Fe<V>([V; 5]);

/// A field element as columns below 2^62, not negative.
#[derive(Clone, Copy, Zeroize)]
pub(crate) struct Wide<V>([V; 5]);

/// The columns of a product without bias, to be added to or subtracted from those of one with it.
#[derive(Clone, Copy)]
pub(crate) struct Raw<V>([V; 5]);

/// How many bits a limb has.
const fn radix<V: Lanes>() -> u32 {
    if V::MADD { 52 } else { 51 }
}

/// A square root of -1: 2^((p - 1)/4).
pub(crate) const ROOT_OF_MINUS_1: [u64; 4] =
    [0xc4ee_1b27_4a0e_a0b0, 0x2f43_1806_ad2f_e478, 0x2b4d_0099_3dfb_d7a7, 0x2b83_2480_4fc1_df0b];

/// Digits of a number below 2^255 in the radix of a back end.
const fn digits<V: Lanes>(words: [u64; 4]) -> [u64; 5] {
    let [w0, w1, w2, w3] = words;
    let r = radix::<V>();
    let mask = (1 << r) - 1;
    [
        w0 & mask,
        (w0 >> r | w1 << (64 - r)) & mask,
        (w1 >> (2 * r - 64) | w2 << (128 - 2 * r)) & mask,
        (w2 >> (3 * r - 128) | w3 << (192 - 3 * r)) & mask,
        w3 >> (4 * r - 192),
    ]
}

#[inline(always)]
fn splat<V: Lanes>(digits: [u64; 5]) -> [V; 5] {
    let [d0, d1, d2, d3, d4] = digits;
    [V::splat(d0), V::splat(d1), V::splat(d2), V::splat(d3), V::splat(d4)]
}

/// The bias, by digits.
const fn bias<V: Lanes>() -> [u64; 5] {
    if V::MADD { radix52::BIAS } else { radix51::BIAS }
}

#[inline(always)]
fn double<V: Lanes>(x: V) -> V {
    x.add(x)
}

/// How many pairs `i + j = k` of limbs there are.
const fn pairs(k: usize) -> u64 {
    if k > 8 { 0 } else { (if k < 5 { k + 1 } else { 9 - k }) as u64 }
}

impl<V: Lanes> Fe<V> {
    /// The same number below 2^255 in every lane, given as four words in little-endian order.
    #[inline(always)]
    pub(crate) fn splat(words: [u64; 4]) -> Self {
        Self(splat(digits::<V>(words)))
    }

    /// Zero.
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self::splat([0; 4])
    }

    /// One.
    #[inline(always)]
    pub(crate) fn one() -> Self {
        Self::splat([1, 0, 0, 0])
    }

    /// A number below 2^256, as four words in little-endian order.
    #[inline(always)]
    pub(crate) fn from_words(words: [V; 4]) -> Self {
        let [w0, w1, w2, w3] = words;
        let r = radix::<V>();
        let mask = V::splat((1 << r) - 1);
        let limbs = [
            w0.and(mask),
            w0.shr(r).or(w1.shl(64 - r)).and(mask),
            w1.shr(2 * r - 64).or(w2.shl(128 - 2 * r)).and(mask),
            w2.shr(3 * r - 128).or(w3.shl(192 - 3 * r)).and(mask),
            w3.shr(4 * r - 192),
        ];
        Wide(limbs).carry()
    }

    /// A canonical number, as four words in little-endian order.
    #[inline(always)]
    pub(crate) fn from_canonical(words: [V; 4]) -> Self {
        let [w0, w1, w2, w3] = words;
        let r = radix::<V>();
        let limbs = [
            w0,
            w0.shr(r).or(w1.shl(64 - r)),
            w1.shr(2 * r - 64).or(w2.shl(128 - 2 * r)),
            w2.shr(3 * r - 128).or(w3.shl(192 - 3 * r)),
            w3.shr(4 * r - 192),
        ];
        // In radix 2^52 what is above the lowest 52 bits does not count.
        let [l0, l1, l2, l3, l4] = limbs;
        let mask = V::splat((1 << r) - 1);
        Self(if V::MADD { limbs } else { [l0.and(mask), l1.and(mask), l2.and(mask), l3.and(mask), l4] })
    }

    /// `2·self`, with the bias: a sum that a product may be added to or subtracted from.
    #[inline(always)]
    pub(crate) fn twice(&self) -> Wide<V> {
        let bias = const { bias::<V>() };
        let mut out = self.masked();
        for k in 0..5 {
            out[k] = double(out[k]).add(V::splat(bias[k]));
        }
        Wide(out)
    }

    /// The canonical representative, in `0..p`, as four words in little-endian order.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [V; 4] {
        let [l0, l1, l2, l3, l4] = self.freeze();
        let r = radix::<V>();
        [
            l0.or(l1.shl(r)),
            l1.shr(64 - r).or(l2.shl(2 * r - 64)),
            l2.shr(128 - 2 * r).or(l3.shl(3 * r - 128)),
            l3.shr(192 - 3 * r).or(l4.shl(4 * r - 192)),
        ]
    }

    /// The limbs without the bits that do not count.
    #[inline(always)]
    fn masked(&self) -> [V; 5] {
        let mut limbs = self.0;
        if V::MADD {
            for limb in &mut limbs[..4] {
                *limb = limb.and(V::splat((1 << 52) - 1));
            }
        }
        limbs
    }

    /// The digits of the canonical representative, by a call.
    #[inline(always)]
    fn freeze(self) -> [V; 5] {
        V::call(Freeze(self))
    }

    /// `self·other`, with the bias. This and the next three are for the loops in which all time is spent: see [`Fe::mul`].
    #[inline(always)]
    pub(crate) fn times(&self, other: &Self) -> Wide<V> {
        Wide(product::<V, true>(self, other))
    }

    /// `self·other`, without it.
    #[inline(always)]
    pub(crate) fn times_raw(&self, other: &Self) -> Raw<V> {
        Raw(product::<V, false>(self, other))
    }

    /// `self²`, with the bias.
    #[inline(always)]
    pub(crate) fn squared(&self) -> Wide<V> {
        Wide(square::<V, true>(self))
    }

    /// `self²`, without it.
    #[inline(always)]
    pub(crate) fn squared_raw(&self) -> Raw<V> {
        Raw(square::<V, false>(self))
    }

    /// `self·other`, by a call: whatever is written once and runs a few times an element should not be a copy of the
    /// product's hundred instructions, for each back end, at each place.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        V::call(Mul(self, other))
    }

    /// `self²`, by a call.
    #[inline(always)]
    pub(crate) fn square(&self) -> Self {
        let [square] = squarings([*self], 1);
        square
    }

    /// `self + other`.
    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        let (mut out, other) = (self.masked(), other.masked());
        for k in 0..5 {
            out[k] = out[k].add(other[k]);
        }
        Wide(out).carry()
    }

    /// `self - other`.
    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        let bias = const { bias::<V>() };
        let (mut out, other) = (self.masked(), other.masked());
        for k in 0..5 {
            out[k] = out[k].add(V::splat(bias[k])).sub(other[k]);
        }
        Wide(out).carry()
    }

    /// `-self`.
    #[inline(always)]
    pub(crate) fn neg(&self) -> Self {
        Self::zero().sub(self)
    }

    /// `small·self`, for a constant below 2^20.
    #[inline(always)]
    pub(crate) fn small(&self, small: u64) -> Self {
        Wide(splat(const { bias::<V>() })).plus_small(self, small).carry()
    }

    /// `on` where the mask is all ones, `off` where it is zero.
    #[inline(always)]
    pub(crate) fn select(mask: V, on: &Self, off: &Self) -> Self {
        let mut out = off.0;
        for k in 0..5 {
            out[k] = mask.select(on.0[k], off.0[k]);
        }
        Self(out)
    }

    /// The mask of the lanes that hold zero.
    #[inline(always)]
    pub(crate) fn is_zero(self) -> V {
        let [l0, l1, l2, l3, l4] = self.freeze();
        l0.or(l1).or(l2).or(l3).or(l4).eq(V::zero())
    }

    /// The mask of the lanes whose canonical representative is odd: `sgn0` of RFC 9380, section 4.1.
    #[inline(always)]
    pub(crate) fn is_odd(self) -> V {
        self.freeze()[0].and(V::splat(1)).eq(V::splat(1))
    }
}

/// The columns of `a·b`.
#[inline(always)]
fn product<V: Lanes, const BIASED: bool>(a: &Fe<V>, b: &Fe<V>) -> [V; 5] {
    V::hot(Product::<V, BIASED>(a, b))
}

/// The columns of `a²`.
#[inline(always)]
fn square<V: Lanes, const BIASED: bool>(a: &Fe<V>) -> [V; 5] {
    V::hot(Square::<V, BIASED>(a))
}

struct Product<'a, V, const BIASED: bool>(&'a Fe<V>, &'a Fe<V>);

impl<V: Lanes, const BIASED: bool> Formula<V> for Product<'_, V, BIASED> {
    type Out = [V; 5];
    #[inline(always)]
    fn run(self) -> [V; 5] {
        let Product(a, b) = self;
        let bias = const { if BIASED { bias::<V>() } else { [0; 5] } };
        if V::MADD { radix52::product(&a.0, &b.0, bias) } else { radix51::product(&a.0, &b.0, bias) }
    }
}

struct Square<'a, V, const BIASED: bool>(&'a Fe<V>);

impl<V: Lanes, const BIASED: bool> Formula<V> for Square<'_, V, BIASED> {
    type Out = [V; 5];
    #[inline(always)]
    fn run(self) -> [V; 5] {
        let Square(a) = self;
        let bias = const { if BIASED { bias::<V>() } else { [0; 5] } };
        if V::MADD { radix52::square(&a.0, bias) } else { radix51::square(&a.0, bias) }
    }
}

struct Mul<'a, V>(&'a Fe<V>, &'a Fe<V>);

impl<V: Lanes> Formula<V> for Mul<'_, V> {
    type Out = Fe<V>;
    #[inline(always)]
    fn run(self) -> Fe<V> {
        Raw(Product::<V, false>(self.0, self.1).run()).carry()
    }
}

struct Freeze<V>(Fe<V>);

impl<V: Lanes> Formula<V> for Freeze<V> {
    type Out = [V; 5];
    #[inline(always)]
    fn run(self) -> [V; 5] {
        let r = radix::<V>();
        let top = 255 - 4 * r;
        let mut limbs = self.0.masked();
        // The number is below 2p, so p is to be subtracted once at most: if, and only if, x + 19 carries out of bit 255. Then
        // x - p = x + 19 - 2^255.
        let mut carry = V::splat(19);
        for k in 0..5 {
            carry = limbs[k].add(carry).shr(if k < 4 { r } else { top });
        }
        // 0 or 1; times 19.
        carry = carry.add(double(carry)).add(carry.shl(4));
        for k in 0..5 {
            let bits = if k < 4 { r } else { top };
            let sum = limbs[k].add(carry);
            limbs[k] = sum.and(V::splat((1 << bits) - 1));
            carry = sum.shr(bits);
        }
        limbs
    }
}

impl<V: Lanes> Wide<V> {
    /// Carries.
    #[inline(always)]
    pub(crate) fn carry(self) -> Fe<V> {
        Fe(if V::MADD { radix52::carry(self.0) } else { radix51::carry(self.0) })
    }

    /// `self + other`.
    #[inline(always)]
    pub(crate) fn plus(self, other: Raw<V>) -> Self {
        let mut out = self.0;
        for k in 0..5 {
            out[k] = out[k].add(other.0[k]);
        }
        Self(out)
    }

    /// Twice one product, with the bias twice.
    #[inline(always)]
    pub(crate) fn twice(self) -> Self {
        let mut out = self.0;
        for k in 0..5 {
            out[k] = double(out[k]);
        }
        Self(out)
    }

    /// `self - other`, for `self` one product, or twice one.
    #[inline(always)]
    pub(crate) fn minus(self, other: Raw<V>) -> Self {
        let mut out = self.0;
        for k in 0..5 {
            out[k] = out[k].sub(other.0[k]);
        }
        Self(out)
    }

    /// `self + small·x`, for a constant below 2^20.
    #[inline(always)]
    pub(crate) fn plus_small(self, x: &Fe<V>, small: u64) -> Self {
        Self(if V::MADD { radix52::plus_small(self.0, &x.0, small) } else { radix51::plus_small(self.0, &x.0, small) })
    }
}

impl<V: Lanes> Raw<V> {
    /// Carries.
    #[inline(always)]
    pub(crate) fn carry(self) -> Fe<V> {
        // In radix 2^52 all parts of a product are positive. In radix 2^51 they need not be: there it is the sum with the
        // bias that is positive.
        if V::MADD { Wide(self.0).carry() } else { Wide(splat(radix51::BIAS)).plus(self).carry() }
    }
}

/// `x^(2^250 - 1)` and `x^11` for several `x`, whose chains of squarings overlap; see [`powers`].
struct Powers<V, const N: usize>([Fe<V>; N]);

impl<V: Lanes, const N: usize> Formula<V> for Powers<V, N> {
    type Out = [[Fe<V>; N]; 2];
    #[inline(always)]
    fn run(self) -> Self::Out {
        // The usual chain, of 249 squarings and 11 multiplications.
        let z = self.0;
        let z2 = squarings(z, 1);
        let z9 = products(&squarings(z2, 2), &z);
        let z11 = products(&z9, &z2);
        let z_5 = products(&squarings(z11, 1), &z9);
        let z_10 = products(&squarings(z_5, 5), &z_5);
        let z_20 = products(&squarings(z_10, 10), &z_10);
        let z_40 = products(&squarings(z_20, 20), &z_20);
        let z_50 = products(&squarings(z_40, 10), &z_10);
        let z_100 = products(&squarings(z_50, 50), &z_50);
        let z_200 = products(&squarings(z_100, 100), &z_100);
        [products(&squarings(z_200, 50), &z_50), z11]
    }
}

/// `x^(2^n)` for each.
struct Squarings<V, const N: usize>([Fe<V>; N], u32);

impl<V: Lanes, const N: usize> Formula<V> for Squarings<V, N> {
    type Out = [Fe<V>; N];
    #[inline(always)]
    fn run(self) -> Self::Out {
        let mut x = self.0;
        for _ in 0..self.1 {
            for i in 0..N {
                x[i] = Raw(Square::<V, false>(&x[i]).run()).carry();
            }
        }
        x
    }
}

#[inline(always)]
fn squarings<V: Lanes, const N: usize>(x: [Fe<V>; N], n: u32) -> [Fe<V>; N] {
    V::call(Squarings(x, n))
}

#[inline(always)]
fn products<V: Lanes, const N: usize>(x: &[Fe<V>; N], y: &[Fe<V>; N]) -> [Fe<V>; N] {
    let mut out = *x;
    for i in 0..N {
        out[i] = x[i].mul(&y[i]);
    }
    out
}

/// `x^((p - 5) / 8)` for each: exponent 2^252 - 3.
#[inline(always)]
pub(crate) fn powers_p58<V: Lanes, const N: usize>(x: [Fe<V>; N]) -> [Fe<V>; N] {
    let [high, _] = V::call(Powers(x));
    products(&squarings(high, 2), &x)
}

/// The mask of the lanes in which `x` is a square other than zero, by Euler's criterion: exponent 2^254 - 10.
#[inline(always)]
pub(crate) fn are_squares<V: Lanes, const N: usize>(x: [Fe<V>; N]) -> [V; N] {
    let [high, _] = V::call(Powers(x));
    let x2 = squarings(x, 1);
    let x6 = products(&squarings(x2, 1), &x2);
    let symbols = products(&squarings(high, 4), &x6);
    let mut out = [V::zero(); N];
    for i in 0..N {
        out[i] = symbols[i].sub(&Fe::one()).is_zero();
    }
    out
}

/// `1/x`, and 0 for 0: exponent 2^255 - 21.
#[inline(always)]
pub(crate) fn invert<V: Lanes>(x: Fe<V>) -> Fe<V> {
    let [high, [x11]] = V::call(Powers([x]));
    let [high] = squarings(high, 5);
    high.mul(&x11)
}

/// Replaces each element, in each lane, by its inverse, and 0 by 0: one inversion and three multiplications an element, by
/// Montgomery's trick. Its memory is wiped: denominators of a secret multiple tell some bits of the scalar (Naccache, Smart, Stern,
/// EUROCRYPT 2004).
#[inline(always)]
pub(crate) fn invert_all<V: Lanes>(elements: &mut [Fe<V>]) {
    // A zero stands aside as a one, in its lane.
    let mut before: Zeroizing<Vec<(Fe<V>, V)>> = Zeroizing::new(Vec::with_capacity(elements.len()));
    let mut product = Fe::one();
    for x in elements.iter_mut() {
        let zero = x.is_zero();
        *x = Fe::select(zero, &Fe::one(), x);
        before.push((product, zero));
        product = product.mul(x);
    }
    let mut inverse = invert(product);
    for (x, (before, zero)) in elements.iter_mut().zip(before.iter()).rev() {
        let own = inverse.mul(before);
        inverse = inverse.mul(x);
        *x = Fe::select(*zero, &Fe::zero(), &own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{self, Kernel};
    use num_bigint::BigUint;
    use vesica_cpu::Backend;

    /// Every operation on the elements with these limbs, in pairs: the operands' values, then the results'.
    struct Operations<F>(F);

    impl<F: Fn(u32) -> Vec<[u64; 5]>> Kernel for Operations<F> {
        type Out = ();
        #[inline(always)]
        fn run<V: Lanes>(self) {
            let r = radix::<V>();
            let p = (BigUint::from(1u8) << 255) - 19u8;
            let all = (self.0)(r);
            let number = |limbs: &[u64; 5]| {
                let mask = if r == 52 { (1 << 52) - 1 } else { u64::MAX };
                limbs[..4].iter().enumerate().fold(BigUint::from(limbs[4]) << (4 * r), |sum, (k, limb)| {
                    sum + (BigUint::from(limb & mask) << (r * k as u32))
                }) % &p
            };
            for a in &all {
                for b in &all {
                    let (x, y) = (Fe::<V>(splat(*a)), Fe::<V>(splat(*b)));
                    let (na, nb) = (number(a), number(b));
                    let is = |got: Fe<V>, want: BigUint, what: &str| {
                        let mut words = [[0; 8]; 4];
                        for (words, word) in words.iter_mut().zip(got.to_words()) {
                            word.store(words);
                        }
                        for lane in 0..V::WIDTH {
                            let got = words.iter().rev().fold(BigUint::ZERO, |sum, word| (sum << 64) + word[lane]);
                            assert_eq!(got, &want % &p, "{what}, {a:x?}, {b:x?}");
                        }
                        // The bounds that are promised.
                        for (k, limb) in got.0.iter().enumerate() {
                            let mut lanes = [0; 8];
                            limb.store(&mut lanes);
                            let bound = if r == 51 { (1 << 51) + (1 << 17) } else { (1 << 47) + (1 << 13) };
                            assert!(lanes[0] < bound || (r == 52 && k < 4), "{what}, {a:x?}, {b:x?}");
                        }
                    };
                    is(x.mul(&y), &na * &nb, "a·b");
                    is(x.times(&y).carry(), &na * &nb, "a·b with bias");
                    is(x.times(&y).plus(y.squared_raw()).carry(), &na * &nb + &nb * &nb, "a·b + b²");
                    is(x.squared().minus(x.times_raw(&y)).carry(), &na * &na + &na * (&p - &nb), "a² - a·b");
                    is(x.square(), &na * &na, "a²");
                    is(x.squared().plus_small(&y, 121_665).carry(), &na * &na + &nb * 121_665u32, "a² + c·b");
                    is(x.small((1 << 20) - 1), &na * ((1u32 << 20) - 1), "c·a");
                    is(x.add(&y), &na + &nb, "a + b");
                    is(x.sub(&y), &na + &p - &nb, "a - b");
                    is(x.neg(), &p - &na, "-a");
                    is(x.twice().plus(y.squared_raw()).carry(), &na + &na + &nb * &nb, "2a + b²");
                    is(x.twice().minus(y.squared_raw()).carry(), &na + &na + (&p - &nb) * &nb, "2a - b²");
                    let raw = y.squared_raw();
                    let sums = x.times(&y).minus(raw).plus(raw).plus(raw);
                    is(sums.carry(), &na * &nb + &nb * &nb, "a·b - b² + 2b²");
                    let twice = x.times(&y).twice().plus(raw).plus(raw);
                    is(twice.carry(), (&na * &nb + &nb * &nb) * 2u8, "2·a·b + 2b²");
                    is(x.times(&y).twice().minus(raw).carry(), &na * &nb * 2u8 + (&p - &nb) * &nb, "2·a·b - b²");
                    is(Fe::from_canonical(x.to_words()), na, "a by its words");
                }
                is_inverse(&Fe::<V>(splat(*a)));
            }
        }
    }

    #[inline(always)]
    fn is_inverse<V: Lanes>(x: &Fe<V>) {
        let mut pair = [*x, Fe::zero(), x.add(&Fe::one())];
        invert_all(&mut pair);
        let truth = |mask: V| {
            let mut lanes = [0; 8];
            mask.store(&mut lanes);
            lanes[..V::WIDTH].iter().all(|&lane| lane == u64::MAX)
        };
        assert!(truth(pair[1].is_zero()));
        assert!(truth(x.is_zero()) || truth(pair[0].mul(x).sub(&Fe::one()).is_zero()));
        assert!(truth(pair[0].sub(&invert(*x)).is_zero()));
        let [root] = powers_p58([x.square()]);
        // x^2 to the (p-5)/8 is x^((p-5)/4), and its fourth power times x^5 is x^p = x.
        let x5 = x.square().square().mul(x);
        assert!(truth(root.square().square().mul(&x5).sub(x).is_zero()));
        let [square, not] = are_squares([x.square(), x.square().small(2)]);
        assert!(truth(x.is_zero()) || (truth(square) && !truth(not)));
    }

    /// Limbs at their bounds: all of them, each of them, and those of numbers next to 0 and p.
    fn extremes(r: u32) -> Vec<[u64; 5]> {
        let (top, last) = if r == 52 { (u64::MAX, (1 << 47) + (1 << 13) - 1) } else { ((1 << 51) + (1 << 17) - 1, 0) };
        let last = if r == 52 { last } else { top };
        let p = if r == 52 {
            [(1 << 52) - 19, (1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, (1 << 47) - 1]
        } else {
            [(1 << 51) - 19, (1 << 51) - 1, (1 << 51) - 1, (1 << 51) - 1, (1 << 51) - 1]
        };
        let mut out = vec![[top, top, top, top, last], p, [0; 5]];
        // Split at bit 51, the low parts of products of these and odd limbs are halfway between two multiples of 2^51; next to
        // them they are least and largest.
        for half in [(1 << 50) - 1, 1 << 50, (1 << 50) + 1] {
            out.push([half, half, half, half, if r == 52 { half >> 4 } else { half }]);
        }
        for k in 0..5 {
            for value in [1, if k == 4 { last } else { top }] {
                let mut one = [0; 5];
                one[k] = value;
                out.push(one);
            }
        }
        for near in [1u64, 2, 18, 19, 20] {
            out.push([near, 0, 0, 0, 0]);
            out.push([p[0] - near, p[1], p[2], p[3], p[4]]);
            if near < 19 {
                out.push([p[0] + near, p[1], p[2], p[3], p[4]]);
            }
        }
        let mut x = 1u64;
        for _ in 0..20 {
            let mut limb = |bound: u64| {
                x = x.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
                (x ^ (x >> 31)) % bound
            };
            out.push([limb(top), limb(top), limb(top), limb(top), limb(last)]);
        }
        out
    }

    #[test]
    fn operations_hold_at_the_bounds_of_their_operands() {
        for backend in Backend::available() {
            backend::run_on(backend, Operations(extremes));
        }
    }
}
