//! Radix 2^52, five limbs to 260 bits, of which an element fills 255 and a little: for back ends with 52-bit multiply-add
//! instructions.
//!
//! Low and high parts of products then fall into the same columns, and since the instructions read no more than 52 bits of
//! an operand, the carries need not be masked off: of limbs 0 to 3 only the low 52 bits count. In exchange a carry has
//! to ripple from limb to limb, because no limb has room for a part of one.
//!
//! Limb 4 is below 2^47 + 2^13. A product has columns 0 to 9 of weight 2^(52k), each the sum of at most 9 parts below
//! 2^52; 2^260 = 608, so column k + 5 counts 608 times in column k. What column k + 5 has above its low 52 bits, less than
//! 2^4, is first handed on to column k + 6; the rest is counted by two multiply-adds, of its low and its high part. Column 9
//! is the high part of the square of limb 4 at most, below (2^47 + 2^13)^2/2^52 < 2^42.1, and with what is handed on to it
//! 608 times that is below 2^52. A column of the result is below 2^52·(9 + 1) + 2^10, so below 11·2^52. The digits of [`BIAS`]
//! are above 13·2^52 and below 2^56.1.

use super::{Lanes, double, splat};

/// A multiple of p by its digits, which are even.
pub(super) const BIAS: [u64; 5] =
    [0x00ff_ffff_ffff_da00, 0x00ff_ffff_ffff_fff0, 0x00ff_ffff_ffff_fff0, 0x00ff_ffff_ffff_fff0, 0x00ff_ffff_ffff_fff0];

/// 2^260 modulo p.
const FOLD: u64 = 608;

/// Adds columns 5 to 9 to columns 0 to 4.
#[inline(always)]
fn fold<V: Lanes>(mut low: [V; 5], mut high: [V; 5]) -> [V; 5] {
    let factor = V::splat(FOLD);
    for k in 0..4 {
        // The multiply-adds read the low 52 bits of a column and no more.
        high[k + 1] = high[k + 1].add(high[k].shr(52));
        low[k] = low[k].madd_lo(high[k], factor);
        low[k + 1] = low[k + 1].madd_hi(high[k], factor);
    }
    low[4] = low[4].madd_lo(high[4], factor);
    low
}

/// `a·b + bias`.
#[inline(always)]
pub(super) fn product<V: Lanes>(a: &[V; 5], b: &[V; 5], bias: [u64; 5]) -> [V; 5] {
    let mut low: [V; 5] = splat(bias);
    let mut high = [V::zero(); 5];
    for i in 0..5 {
        for j in 0..5 {
            let k = i + j;
            if k < 5 {
                low[k] = low[k].madd_lo(a[i], b[j]);
            } else {
                high[k - 5] = high[k - 5].madd_lo(a[i], b[j]);
            }
            if k < 4 {
                low[k + 1] = low[k + 1].madd_hi(a[i], b[j]);
            } else {
                high[k - 4] = high[k - 4].madd_hi(a[i], b[j]);
            }
        }
    }
    fold(low, high)
}

/// `a² + bias`.
#[inline(always)]
pub(super) fn square<V: Lanes>(a: &[V; 5], bias: [u64; 5]) -> [V; 5] {
    // Pairs i < j, then everything twice, then the squares. Column 0 has no pairs.
    let mut columns = [V::zero(); 10];
    columns[0] = V::splat(bias[0]);
    for k in 1..5 {
        columns[k] = V::splat(bias[k] / 2);
    }
    for i in 0..5 {
        for j in i + 1..5 {
            let k = i + j;
            columns[k] = columns[k].madd_lo(a[i], a[j]);
            columns[k + 1] = columns[k + 1].madd_hi(a[i], a[j]);
        }
    }
    for k in 1..9 {
        columns[k] = double(columns[k]);
    }
    for i in 0..5 {
        columns[2 * i] = columns[2 * i].madd_lo(a[i], a[i]);
        columns[2 * i + 1] = columns[2 * i + 1].madd_hi(a[i], a[i]);
    }
    let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9] = columns;
    fold([c0, c1, c2, c3, c4], [c5, c6, c7, c8, c9])
}

/// Carries: first what is above bit 255, which counts 19 times at the bottom, then from limb to limb. Columns below 2^62
/// hand on less than 2^10 + 1, and less than 2^15 around.
#[inline(always)]
pub(super) fn carry<V: Lanes>(columns: [V; 5]) -> [V; 5] {
    let [c0, c1, c2, c3, c4] = columns;
    let l0 = c0.madd_small(c4.shr(47), V::splat(19));
    let l1 = c1.add(l0.shr(52));
    let l2 = c2.add(l1.shr(52));
    let l3 = c3.add(l2.shr(52));
    let l4 = c4.and(V::splat((1 << 47) - 1)).add(l3.shr(52));
    [l0, l1, l2, l3, l4]
}

/// `columns + small·x`, for a constant below 2^20.
#[inline(always)]
pub(super) fn plus_small<V: Lanes>(columns: [V; 5], x: &[V; 5], small: u64) -> [V; 5] {
    let small = V::splat(small);
    let mut out = columns;
    for k in 0..5 {
        out[k] = out[k].madd_lo(x[k], small);
        if k < 4 {
            out[k + 1] = out[k + 1].madd_hi(x[k], small);
        }
    }
    // Of limb 4, which has 47 bits, the high part is below 2^15.
    out[0] = out[0].madd_small(V::zero().madd_hi(x[4], small), V::splat(FOLD));
    out
}
