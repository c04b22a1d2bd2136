//! The field of 2^255 - 19 elements, by the lane.
//!
//! An element is five limbs in radix 2^51. There are two kinds of bounds, and a type for each:
//!
//! - [`Fe`], *tight*: every limb is below 2^51 + 2^17. Only these are multiplied; a limb fits the 52 bits that the
//!   multiply-add instructions read, and the product of two is below the 2^103 that [`Lanes::wide_lo`] asks for.
//! - [`Wide`], the columns of a product or a sum before their carries: every limb is below 2^62, and not negative.
//!
//! One pass of carries, all five at once, makes a tight element of a wide one ([`Wide::carry`]): a column below 2^62 hands
//! less than 2^11 to the next one, and the topmost 19·2^11 < 2^17 to the lowest. Sums and differences are taken between
//! columns, so that they share that pass.
//!
//! A product has columns 0 to 9 of weight 2^(51k); column k + 5 counts 19 times in column k. With tight operands the low
//! parts of the partial products are below 2^52 and the high parts below 2^50.1 (both are smaller where products split
//! at bit 51), and no column k of the result adds more than 1 + 19·4 low and 2·(4 + 19·5) high parts: it is below
//! 2^52·(77 + 2·99/3.7) < 2^59.1. [`BIAS`], a multiple of p whose digits are all above 2^59.2, is added to a product so
//! that another one can be subtracted from it; [`Raw`] is a product without it. Bias and product are below 2^60.3, the sum
//! of two such below 2^61.3.

// Loops over limbs by their index: closures given to `array::map` or `from_fn` are not certain to be inlined, and here
// everything must be (see `Lanes`).
#![allow(clippy::needless_range_loop)]

use super::{Formula, Lanes};

/// A field element with tight limbs.
#[derive(Clone, Copy)]
pub(crate) struct Fe<V>(pub(crate) [V; 5]);

/// A field element as columns below 2^62, not negative.
#[derive(Clone, Copy)]
pub(crate) struct Wide<V>([V; 5]);

/// The columns of a product, fit only to be added to or subtracted from a [`Wide`]: below 2^59.1 and above -2^57.
#[derive(Clone, Copy)]
pub(crate) struct Raw<V>([V; 5]);

const MASK: u64 = (1 << 51) - 1;

/// The digits of p.
const P: [u64; 5] = [MASK - 18, MASK, MASK, MASK, MASK];

/// 304·p, by digits: 304 = 19·16, so that the lowest digit can be added before its column is multiplied by 19, and even
/// sixteen times, so that all can be added before a doubling or two.
const BIAS: [u64; 5] = [304 * P[0], 304 * P[1], 304 * P[2], 304 * P[3], 304 * P[4]];

/// 19^-1 modulo 2^64.
const INVERSE_OF_19: u64 = 0x86bc_a1af_286b_ca1b;

/// How many pairs `i + j = k` of limbs there are.
const fn pairs(k: usize) -> u64 {
    if k > 8 { 0 } else { (if k < 5 { k + 1 } else { 9 - k }) as u64 }
}

/// How many of them are squares, `i = j`.
const fn squares(k: usize) -> u64 {
    (k.is_multiple_of(2) && k <= 8) as u64
}

/// What each pair adds beside its parts, for a column of `hi` high and `lo` low parts of the same weight.
const fn origins<V: Lanes>(hi: u64, lo: u64) -> u64 {
    V::HI_ORIGIN.wrapping_mul(hi << (V::SPLIT - 51)).wrapping_add(V::LO_ORIGIN.wrapping_mul(lo))
}

#[inline(always)]
fn double<V: Lanes>(x: V) -> V {
    x.add(x)
}

#[inline(always)]
fn times_19<V: Lanes>(x: V) -> V {
    x.add(double(x)).add(x.shl(4))
}

/// A product whose columns 0 to 9 can be asked for.
trait Columns<V> {
    /// Column `k` in units of 2^(51k), plus `origin`: a multiple of 4 if k > 0, and 0 if k = 0.
    fn column(&self, k: usize, origin: u64) -> V;
}

/// `a·b`.
struct Product<'a, V>(&'a [V; 5], &'a [V; 5]);

/// `a²`.
struct Square<'a, V>(&'a [V; 5]);

impl<V: Lanes> Columns<V> for Product<'_, V> {
    #[inline(always)]
    fn column(&self, k: usize, origin: u64) -> V {
        column(self.0, self.1, k, origin)
    }
}

impl<V: Lanes> Columns<V> for Square<'_, V> {
    #[inline(always)]
    fn column(&self, k: usize, origin: u64) -> V {
        square_column(self.0, k, origin)
    }
}

/// Column `k` of `a·b`: the low parts of the pairs with `i + j = k` and the high parts of those with `i + j = k - 1`.
#[inline(always)]
fn column<V: Lanes>(a: &[V; 5], b: &[V; 5], k: usize, origin: u64) -> V {
    let origin = origin.wrapping_sub(origins::<V>(if k == 0 { 0 } else { pairs(k - 1) }, pairs(k)));
    // A high part weighs 2^SPLIT: where that is 2^52, twice the radix.
    let mut sum = V::splat(if V::SPLIT == 52 && k > 0 { origin >> 1 } else { origin });
    if k > 0 {
        for i in 0..5 {
            if i < k && k - 1 - i < 5 {
                sum = sum.wide_hi(a[i], b[k - 1 - i]);
            }
        }
        if V::SPLIT == 52 {
            sum = double(sum);
        }
    }
    for i in 0..5 {
        if i <= k && k - i < 5 {
            sum = sum.wide_lo(a[i], b[k - i]);
        }
    }
    sum
}

/// Column `k` of `a²`.
#[inline(always)]
fn square_column<V: Lanes>(a: &[V; 5], k: usize, origin: u64) -> V {
    // Pairs i < j count twice. With products split at bit 52: 2·(2·cross high + square high + cross low) + square low;
    // split at bit 51: 2·(cross high + cross low) + square high + square low.
    let split_52 = V::SPLIT == 52;
    let cross = |k: usize| (pairs(k) - squares(k)) / 2;
    let mut start = origin.wrapping_sub(origins::<V>(if k == 0 { 0 } else { pairs(k - 1) }, pairs(k)));
    let mut doublings = 0;
    if split_52 {
        doublings += (k > 0) as u32;
        doublings += (k > 0 && cross(k - 1) > 0) as u32;
    } else {
        doublings += (cross(k) > 0 || (k > 0 && cross(k - 1) > 0)) as u32;
    }
    // What leaves at the top is of no account modulo 2^64.
    start >>= doublings;
    let mut sum = V::splat(start);
    if k > 0 {
        for i in 0..5 {
            if i < k && k - 1 - i < 5 && i < k - 1 - i {
                sum = sum.wide_hi(a[i], a[k - 1 - i]);
            }
        }
        if split_52 {
            if cross(k - 1) > 0 {
                sum = double(sum);
            }
            if squares(k - 1) > 0 {
                sum = sum.wide_hi(a[(k - 1) / 2], a[(k - 1) / 2]);
            }
        }
    }
    for i in 0..5 {
        if i < k && k - i < 5 && i < k - i {
            sum = sum.wide_lo(a[i], a[k - i]);
        }
    }
    if split_52 {
        if k > 0 {
            sum = double(sum);
        }
    } else {
        if doublings > 0 {
            sum = double(sum);
        }
        if k > 0 && squares(k - 1) > 0 {
            sum = sum.wide_hi(a[(k - 1) / 2], a[(k - 1) / 2]);
        }
    }
    if squares(k) > 0 {
        sum = sum.wide_lo(a[k / 2], a[k / 2]);
    }
    sum
}

/// Folds columns 5 to 9 into 0 to 4.
#[inline(always)]
fn fold<V: Lanes>(bias: [u64; 5], product: impl Columns<V>) -> [V; 5] {
    // Column 0 has no high parts to start from, so its origin enters through column 5.
    let start = bias[0].wrapping_mul(INVERSE_OF_19);
    [
        product.column(0, 0).add(times_19(product.column(5, start))),
        product.column(1, bias[1]).add(times_19(product.column(6, 0))),
        product.column(2, bias[2]).add(times_19(product.column(7, 0))),
        product.column(3, bias[3]).add(times_19(product.column(8, 0))),
        product.column(4, bias[4]).add(times_19(product.column(9, 0))),
    ]
}

impl<V: Lanes> Fe<V> {
    /// The same element in every lane, given by its digits in radix 2^51.
    #[inline(always)]
    pub(crate) fn splat(digits: [u64; 5]) -> Self {
        let [d0, d1, d2, d3, d4] = digits;
        Self([V::splat(d0), V::splat(d1), V::splat(d2), V::splat(d3), V::splat(d4)])
    }

    /// Zero.
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self::splat([0; 5])
    }

    /// One.
    #[inline(always)]
    pub(crate) fn one() -> Self {
        Self::splat([1, 0, 0, 0, 0])
    }

    /// A number below 2^256, as four words in little-endian order.
    #[inline(always)]
    pub(crate) fn from_words(words: [V; 4]) -> Self {
        let [w0, w1, w2, w3] = words;
        let mask = V::splat(MASK);
        let limbs = [
            w0.and(mask),
            w0.shr(51).or(w1.shl(13)).and(mask),
            w1.shr(38).or(w2.shl(26)).and(mask),
            w2.shr(25).or(w3.shl(39)).and(mask),
            w3.shr(12),
        ];
        Wide(limbs).carry()
    }

    /// The canonical representative, in `0..p`, as four words in little-endian order.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [V; 4] {
        let [l0, l1, l2, l3, l4] = self.freeze();
        [l0.or(l1.shl(51)), l1.shr(13).or(l2.shl(38)), l2.shr(26).or(l3.shl(25)), l3.shr(39).or(l4.shl(12))]
    }

    /// The digits of the canonical representative.
    #[inline(always)]
    pub(crate) fn freeze(self) -> [V; 5] {
        let mask = V::splat(MASK);
        let mut l = self.0;
        // A tight number is below 2p, so it is to be reduced by p at most once: if, and only if, x + 19 carries out of
        // bit 255. Then x - p = x + 19 - 2^255.
        let mut carry = V::splat(19);
        for limb in l {
            carry = limb.add(carry).shr(51);
        }
        // 0 or 1; times 19.
        carry = times_19(carry);
        for limb in &mut l {
            let sum = limb.add(carry);
            *limb = sum.and(mask);
            carry = sum.shr(51);
        }
        l
    }

    /// `self·other`, with the bias.
    #[inline(always)]
    pub(crate) fn times(&self, other: &Self) -> Wide<V> {
        Wide(fold(BIAS, Product(&self.0, &other.0)))
    }

    /// `self·other`, to be subtracted.
    #[inline(always)]
    pub(crate) fn times_raw(&self, other: &Self) -> Raw<V> {
        Raw(fold([0; 5], Product(&self.0, &other.0)))
    }

    /// `self²`, with the bias.
    #[inline(always)]
    pub(crate) fn squared(&self) -> Wide<V> {
        Wide(fold(BIAS, Square(&self.0)))
    }

    /// `self²`, to be subtracted.
    #[inline(always)]
    pub(crate) fn squared_raw(&self) -> Raw<V> {
        Raw(fold([0; 5], Square(&self.0)))
    }

    /// `self·other`.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        self.times(other).carry()
    }

    /// `self²`.
    #[inline(always)]
    pub(crate) fn square(&self) -> Self {
        self.squared().carry()
    }

    /// `self + other`.
    #[inline(always)]
    pub(crate) fn add(&self, other: &Self) -> Self {
        let mut out = self.0;
        for k in 0..5 {
            out[k] = out[k].add(other.0[k]);
        }
        Wide(out).carry()
    }

    /// `self - other`.
    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        // 4p has digits above any tight limb.
        let mut out = self.0;
        for k in 0..5 {
            out[k] = out[k].add(V::splat(4 * P[k])).sub(other.0[k]);
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
        Wide(Self::splat(BIAS).0).plus_small(self, small).carry()
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

impl<V: Lanes> Wide<V> {
    /// Carries once, everywhere at the same time.
    #[inline(always)]
    pub(crate) fn carry(self) -> Fe<V> {
        let mask = V::splat(MASK);
        let [l0, l1, l2, l3, l4] = self.0;
        Fe([
            l0.and(mask).madd_small(l4.shr(51), V::splat(19)),
            l1.and(mask).add(l0.shr(51)),
            l2.and(mask).add(l1.shr(51)),
            l3.and(mask).add(l2.shr(51)),
            l4.and(mask).add(l3.shr(51)),
        ])
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

    /// `self - other`, for `self` a single product with its bias.
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
        let small = V::splat(small);
        let weigh = |high: V| if V::SPLIT == 52 { double(high) } else { high };
        let lows = V::LO_ORIGIN.wrapping_neg();
        // The origin of the low part enters with the high part below it: for column 0, with that of limb 4, 19 times.
        let wrapped = V::splat(lows.wrapping_mul(INVERSE_OF_19).wrapping_sub(V::HI_ORIGIN)).wide_hi(x.0[4], small);
        let mut out = self.0;
        out[0] = out[0].add(times_19(weigh(wrapped))).wide_lo(x.0[0], small);
        for k in 1..5 {
            let high = V::splat(lows.wrapping_sub(V::HI_ORIGIN)).wide_hi(x.0[k - 1], small);
            out[k] = out[k].add(weigh(high)).wide_lo(x.0[k], small);
        }
        Self(out)
    }
}

impl<V: Lanes> Raw<V> {
    /// The product as an element.
    #[inline(always)]
    pub(crate) fn carry(self) -> Fe<V> {
        // Where products split at bit 52 all parts are positive; elsewhere the bias makes their sum so.
        if V::SPLIT == 52 { Wide(self.0).carry() } else { Wide(Fe::splat(BIAS).0).plus(self).carry() }
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
                x[i] = x[i].square();
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
/// Montgomery's trick.
#[inline(always)]
pub(crate) fn invert_all<V: Lanes>(elements: &mut [Fe<V>]) {
    // A zero stands aside as a one, in its lane.
    let mut before = Vec::with_capacity(elements.len());
    let mut product = Fe::one();
    for x in elements.iter_mut() {
        let zero = x.is_zero();
        *x = Fe::select(zero, &Fe::one(), x);
        before.push((product, zero));
        product = product.mul(x);
    }
    let mut inverse = invert(product);
    for (x, (before, zero)) in elements.iter_mut().zip(&before).rev() {
        let own = inverse.mul(before);
        inverse = inverse.mul(x);
        *x = Fe::select(*zero, &Fe::zero(), &own);
    }
}
