//! Radix 2^51, five limbs to 255 bits: for back ends without 52-bit multiply-add instructions. They split products at
//! bit 51 or 52, whichever is cheaper.
//!
//! Every limb of an element is below 2^51 + 2^17, so a product of two is below 2^103. One pass of carries, all five at
//! once, makes such limbs of columns below 2^62: a column hands less than 2^11 to the next one, and the topmost 19·2^11 < 2^17
//! to the lowest.
//!
//! A product has columns 0 to 9 of weight 2^(51k); column k + 5 counts 19 times in column k. Split at
//! bit 51, low parts are in [-2^50, 2^50] and high parts in [0, 2^51]; split at bit 52, low parts are below 2^52 and high
//! parts, which count twice, below 2^50.1. So a column of the result is above -2^50·(5 + 19·4) > -2^57 and below
//! 2^52·(1 + 19·4) + 2·2^50.1·19·5 < 2^59. The digits of [`BIAS`] are all above 2^59.2.

use super::{Lanes, crosses, double, pairs, squares};

const MASK: u64 = (1 << 51) - 1;

/// The digits of p.
const P: [u64; 5] = [MASK - 18, MASK, MASK, MASK, MASK];

/// 304·p, by digits: 304 = 19·16, so that the lowest digit can be added before its column is multiplied by 19, and even
/// sixteen times, so that all can be added before a doubling or two.
pub(super) const BIAS: [u64; 5] = [304 * P[0], 304 * P[1], 304 * P[2], 304 * P[3], 304 * P[4]];

/// 19^-1 modulo 2^64.
const INVERSE_OF_19: u64 = 0x86bc_a1af_286b_ca1b;

/// What each pair adds beside its parts, for a column of `hi` high and `lo` low parts of the same weight.
const fn origins<V: Lanes>(hi: u64, lo: u64) -> u64 {
    V::HI_ORIGIN.wrapping_mul(hi << (V::SPLIT - 51)).wrapping_add(V::LO_ORIGIN.wrapping_mul(lo))
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
    let mut start = origin.wrapping_sub(origins::<V>(if k == 0 { 0 } else { pairs(k - 1) }, pairs(k)));
    let mut doublings = 0;
    if split_52 {
        doublings += (k > 0) as u32;
        doublings += (k > 0 && crosses(k - 1) > 0) as u32;
    } else {
        doublings += (crosses(k) > 0 || (k > 0 && crosses(k - 1) > 0)) as u32;
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
            if crosses(k - 1) > 0 {
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
    let weigh = |high: V| if V::SPLIT == 52 { double(high) } else { high };
    let lows = V::LO_ORIGIN.wrapping_neg();
    // The origin of the low part enters with the high part below it: for column 0, with that of limb 4, 19 times.
    let wrapped = V::splat(lows.wrapping_mul(INVERSE_OF_19).wrapping_sub(V::HI_ORIGIN)).wide_hi(x[4], small);
    let mut out = columns;
    out[0] = out[0].add(times_19(weigh(wrapped))).wide_lo(x[0], small);
    for k in 1..5 {
        let high = V::splat(lows.wrapping_sub(V::HI_ORIGIN)).wide_hi(x[k - 1], small);
        out[k] = out[k].add(weigh(high)).wide_lo(x[k], small);
    }
    out
}

/// `a·b + bias`.
#[inline(always)]
pub(super) fn product<V: Lanes>(a: &[V; 5], b: &[V; 5], bias: [u64; 5]) -> [V; 5] {
    fold(bias, Product(a, b))
}

/// `a² + bias`.
#[inline(always)]
pub(super) fn square<V: Lanes>(a: &[V; 5], bias: [u64; 5]) -> [V; 5] {
    fold(bias, Square(a))
}
