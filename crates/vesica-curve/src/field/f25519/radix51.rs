//! Radix 2^51, five limbs to 255 bits: for back ends without 52-bit multiply-add instructions. They split products at
//! bit 51 ([`Lanes::SPLIT`]).
//!
//! Every limb of an element is below 2^51 + 2^17, so a product of two is below 2^102 + 2^70. One pass of carries, all five at
//! once, makes such limbs of columns below 2^62: a column hands less than 2^11 to the next one, and the topmost 19·2^11 < 2^17
//! to the lowest.
//!
//! A product has columns 0 to 9 of weight 2^(51k); column k + 5 counts 19 times in column k. Low parts are in [-2^50, 2^51) and
//! high parts in [0, 2^51 + 2^19). So a column of the result is above -2^50·(1 + 19·4) > -2^57 and below
//! 2^51·(1 + 19·4) + (2^51 + 2^19)·19·5 < 2^59. The digits of [`BIAS`] are all above 2^59.2.
//!
//! Products go row by row: a row adds one limb times the limbs of the other factor. Then the ten sums, the limb, the parts of one
//! product and two constants fit sixteen registers, if the compiler keeps that order ([`Lanes::pin`]).

use super::{Lanes, double, pairs};

const MASK: u64 = (1 << 51) - 1;

/// The digits of p.
const P: [u64; 5] = [MASK - 18, MASK, MASK, MASK, MASK];

/// 304·p, by digits: even sixteen times, so that all can be added before a doubling or two.
pub(super) const BIAS: [u64; 5] = [304 * P[0], 304 * P[1], 304 * P[2], 304 * P[3], 304 * P[4]];

#[inline(always)]
fn times_19<V: Lanes>(x: V) -> V {
    // Without the pin the compiler makes a multiplication of it, of more instructions.
    x.add(double(x).pin()).add(x.shl(4))
}

/// The sums of columns 0 to 9.
type Sums<V> = [V; 10];

/// Adds both parts of `a·b` to columns `k` and `k + 1`.
#[inline(always)]
fn add_product<V: Lanes>(sums: &mut Sums<V>, k: usize, a: V, b: V) {
    sums[k + 1] = sums[k + 1].wide_hi(a, b);
    sums[k] = sums[k].wide_lo(a, b);
}

/// Row `I` of `a·b`. Loops over pins are unrolled only if their bounds are constants; else sums go through memory, at half the
/// speed.
#[inline(always)]
fn row<V: Lanes, const I: usize>(sums: &mut Sums<V>, a: &[V; 5], b: &[V; 5]) {
    for j in 0..5 {
        add_product(sums, I + j, a[I], b[j]);
    }
    for k in I..I + 6 {
        sums[k] = sums[k].pin();
    }
}

/// Row `I` of the pairs `i < j` of `a²`.
#[inline(always)]
fn cross_row<V: Lanes, const I: usize>(sums: &mut Sums<V>, a: &[V; 5]) {
    for j in I + 1..5 {
        add_product(sums, I + j, a[I], a[j]);
    }
    for k in 2 * I + 1..I + 6 {
        sums[k] = sums[k].pin();
    }
}

/// Folds columns 5 to 9 of a product into 0 to 4, takes off what was added beside the parts, and adds the bias.
#[inline(always)]
fn fold<V: Lanes>(sums: Sums<V>, bias: [u64; 5]) -> [V; 5] {
    let beside = |k: usize| {
        let high = if k == 0 { 0 } else { pairs(k - 1) };
        V::HI_ORIGIN.wrapping_mul(high).wrapping_add(V::LO_ORIGIN.wrapping_mul(pairs(k)))
    };
    let mut out = [V::zero(); 5];
    for k in 0..5 {
        let start = bias[k].wrapping_sub(beside(k)).wrapping_sub(beside(k + 5).wrapping_mul(19));
        out[k] = sums[k].add(V::splat(start)).add(times_19(sums[k + 5]));
    }
    out
}

/// Carries once, everywhere at the same time.
#[inline(always)]
pub(super) fn carry<V: Lanes>(columns: [V; 5]) -> [V; 5] {
    let mask = V::splat(MASK);
    let [l0, l1, l2, l3, l4] = columns;
    [
        l0.and(mask).madd_small(l4.shr(51), V::splat(19)),
        l1.and(mask).add(l0.shr(51)),
        l2.and(mask).add(l1.shr(51)),
        l3.and(mask).add(l2.shr(51)),
        l4.and(mask).add(l3.shr(51)),
    ]
}

/// `columns + small·x`.
#[inline(always)]
pub(super) fn plus_small<V: Lanes>(columns: [V; 5], x: &[V; 5], small: u64) -> [V; 5] {
    let small = V::splat(small);
    let wrapped = V::splat(V::HI_ORIGIN.wrapping_neg()).wide_hi(x[4], small);
    let mut out = columns;
    out[0] = out[0].add(V::splat(V::LO_ORIGIN.wrapping_neg())).add(times_19(wrapped)).wide_lo(x[0], small);
    for k in 1..5 {
        let start = V::splat(V::HI_ORIGIN.wrapping_add(V::LO_ORIGIN).wrapping_neg());
        out[k] = out[k].add(start.wide_hi(x[k - 1], small)).wide_lo(x[k], small);
    }
    out
}

/// `a·b + bias`.
#[inline(always)]
pub(super) fn product<V: Lanes>(a: &[V; 5], b: &[V; 5], bias: [u64; 5]) -> [V; 5] {
    let mut sums = [V::zero(); 10];
    row::<V, 0>(&mut sums, a, b);
    row::<V, 1>(&mut sums, a, b);
    row::<V, 2>(&mut sums, a, b);
    row::<V, 3>(&mut sums, a, b);
    row::<V, 4>(&mut sums, a, b);
    fold(sums, bias)
}

/// `a² + bias`: the pairs `i < j` twice, and the squares.
#[inline(always)]
pub(super) fn square<V: Lanes>(a: &[V; 5], bias: [u64; 5]) -> [V; 5] {
    let mut sums = [V::zero(); 10];
    cross_row::<V, 0>(&mut sums, a);
    cross_row::<V, 1>(&mut sums, a);
    cross_row::<V, 2>(&mut sums, a);
    cross_row::<V, 3>(&mut sums, a);
    for k in 1..9 {
        sums[k] = double(sums[k]);
    }
    for i in 0..5 {
        add_product(&mut sums, 2 * i, a[i], a[i]);
    }
    fold(sums, bias)
}
