//! Adds to each of many points its own multiple of one fixed point, as blinding needs it.
//!
//! **Sums of table entries**, affine, with inversions shared by a block: 5M + 1S each, where the best complete formulas
//! take 11M and more (J. Renes, C. Costello, L. Batina, EUROCRYPT 2016, mixed). The windows are summed up in two halves,
//! which are added at the end: it halves the inversions, and it makes it plain that no addition fails.
//!
//! **No exceptional case** depends on what anybody sends. Digits d are odd, |d| <= 31, and a half has at most 32 of them.
//! Within a half, m = Σ_{j<i} d_j·32^j is not zero, and |m| < 32^i <= |d_i·32^i|, all below 2^160: so d_i·32^i is neither m
//! nor -m modulo the order n > 2^255, and the point that they multiply has order n. The sum of the lower half is that of the
//! upper, or its negative, for at most two values of the upper digits: with probability below 2^-128, since no half has
//! fewer than 26. H(x) is ±r·G with about probability 2^-254, because r is drawn after x. Only E may be ±r·K by somebody's
//! wish. A block is not spoilt by it, since a denominator of zero is replaced by one, and the element that comes out is
//! any: it makes a tag that matches nothing. It must not be refused, see [`crate::Blind::unblind`].

use super::Curve;
use super::invert::{InvertAll, Quad, enter, invert_chains, leave, ones};
use super::layout::{EMPTY, GROUP, Points, blocks, load, place, store, vectors};
use super::work::{OddMultiples, Work, call_table, ordinate, twice_difference};
use crate::backend::Kernel;
use crate::blind::{self, MULTIPLES, signed};
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;

/// The multipliers of a batch.
pub(super) type Digits = blind::Digits<6>;

/// The multiples of a point.
pub struct Table<C> {
    pub(super) windows: Vec<Window>,
    pub(super) curve: PhantomData<C>,
}

/// X and W of a point's odd multiples, limb by limb.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Window {
    pub(super) x: [[u64; MULTIPLES]; 5],
    pub(super) w: [[u64; MULTIPLES]; 5],
}

/// The digits in a half.
const fn half<C: Curve>() -> usize {
    C::WINDOWS / 2
}

/// The multiples of one affine point.
pub(super) struct MakeTable<C>(pub(super) Points<C>);

impl<C: Curve> Kernel for MakeTable<C> {
    type Out = Table<C>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Table<C> {
        let cell = self.0.cells[0];
        let a = splat(const { Held::<C>::small(-3) });
        // The place values, one after the other, in all lanes.
        let mut work = Work::<V>::new::<C>(GROUP, 0);
        work.x.fill(splat(cell.x.map(|row| row[0])));
        work.w.fill(splat(cell.w.map(|row| row[0])));
        work.a.fill(a);
        let mut places = Points::<C>::new(C::WINDOWS);
        for window in 0..C::WINDOWS {
            if window > 0 {
                for _ in 0..5 {
                    work.double::<C>();
                }
            }
            let cell = &mut places.cells[window / 8];
            let mut copies = EMPTY;
            store(&mut copies.x, 0, &work.x[0]);
            store(&mut copies.w, 0, &work.w[0]);
            for limb in 0..5 {
                cell.x[limb][window % 8] = copies.x[limb][0];
                cell.w[limb][window % 8] = copies.w[limb][0];
            }
        }
        places.fill(|cell| &mut cell.x);
        places.fill(|cell| &mut cell.w);
        // Their multiples, all windows at once.
        let n = vectors::<V>(C::WINDOWS);
        let mut work = Work::<V>::new::<C>(n, MULTIPLES);
        work.a.fill(a);
        for i in 0..n {
            let (cell, part) = place::<V>(i);
            work.x[i] = load(&places.cells[cell].x, part);
            work.w[i] = load(&places.cells[cell].w, part);
            work.table[i * MULTIPLES] = [work.x[i], work.w[i]];
        }
        call_table::<C, V, OddMultiples>(&mut work);
        let mut windows = vec![Window { x: [[0; MULTIPLES]; 5], w: [[0; MULTIPLES]; 5] }; C::WINDOWS];
        for (window, out) in windows.iter_mut().enumerate() {
            let (vector, lane) = (window / V::WIDTH, window % V::WIDTH);
            for multiple in 0..MULTIPLES {
                let [x, w] = &work.table[vector * MULTIPLES + multiple];
                let mut copies = EMPTY;
                store(&mut copies.x, 0, x);
                store(&mut copies.w, 0, w);
                for limb in 0..5 {
                    out.x[limb][multiple] = copies.x[limb][lane];
                    out.w[limb][multiple] = copies.w[limb][lane];
                }
            }
        }
        Table { windows, curve: PhantomData }
    }
}

/// Where a block's summands come from. Its sums are in the first half of a workspace for the lower windows, and in the second
/// for the upper ones.
#[derive(Clone, Copy)]
struct Summands<'a, C> {
    table: &'a Table<C>,
    digits: &'a Digits,
    /// The block's first vector, and how many it has.
    start: usize,
    vectors: usize,
    /// The last vector that has digits of its own.
    last: usize,
}

/// One window's multiple for a vector of sums.
struct Summand<'a, V> {
    window: &'a Window,
    index: V,
    negative: V,
}

impl<'a, C: Curve> Summands<'a, C> {
    /// What is added to a sum at a step, 0 to `half - 1`.
    #[inline(always)]
    fn at<V: Lanes>(&self, sum: usize, step: usize) -> Summand<'a, V> {
        let (vector, window) = if sum < self.vectors { (sum, step) } else { (sum - self.vectors, step + half::<C>()) };
        let place = place::<V>((self.start + vector).min(self.last));
        let (index, negative) = signed(self.digits.digit::<V>(place, window));
        Summand { window: &self.table.windows[window], index, negative }
    }
}

impl<V: Lanes> Summand<'_, V> {
    #[inline(always)]
    fn pick(&self, coordinate: &[[u64; MULTIPLES]; 5]) -> Limbs<V> {
        let mut out = [V::zero(); 5];
        for (out, limb) in out.iter_mut().zip(coordinate) {
            *out = V::lookup(limb, self.index);
        }
        out
    }

    /// X: tight.
    #[inline(always)]
    fn x(&self) -> Limbs<V> {
        self.pick(&self.window.x)
    }

    /// -W: raw, below 2^257.
    #[inline(always)]
    fn minus_w<C: Curve>(&self) -> Limbs<V> {
        let w = self.pick(&self.window.w);
        select(self.negative, &w, &minus::<C, V>(&w))
    }
}

/// One addition to each sum of a block: it takes the inverses of the denominators that the step before it left, going the
/// other way.
struct AddStep<'a, C, V> {
    work: &'a mut Work<V>,
    /// The inverses of the chains.
    rest: Quad<V>,
    down: bool,
    summands: Summands<'a, C>,
    step: usize,
}

impl<C: Curve, V: Lanes> Formula<V> for AddStep<'_, C, V> {
    /// The chains' products for the next inversion.
    type Out = Quad<V>;
    #[inline(always)]
    fn run(self) -> Quad<V> {
        let Self { work, mut rest, down, summands, step } = self;
        let Work { x, w, den, pre, slope, .. } = work;
        let mut chain = ones::<Hot<C>, V>();
        let n = den.len();
        for i in (0..n).step_by(GROUP) {
            let at = if down { n - GROUP - i } else { i };
            let inverse = enter::<Hot<C>, V>(den, pre, &mut rest, at);
            let mut line = inverse;
            for c in 0..GROUP {
                // (w - w_q) / 2(x - x_q).
                let rise = ripple(add(&w[at + c], &summands.at(at + c, step).minus_w::<C>()));
                line[c] = mul_loose::<Hot<C>, V>(&rise, &inverse[c]);
            }
            let mut to = inverse;
            for c in 0..GROUP {
                // x' = slope^2 - x - x_q.
                let others = add(&minus::<Hot<C>, V>(&x[at + c]), &minus::<Hot<C>, V>(&slope[at + c]));
                to[c] = tight::<Hot<C>, V>(add(&square_raw::<Hot<C>, V>(&line[c]), &others));
            }
            for c in 0..GROUP {
                let step = twice_difference::<Hot<C>, V>(&x[at + c], &to[c]);
                w[at + c] = ordinate::<Hot<C>, V>(&line[c], &step, &w[at + c]);
                x[at + c] = to[c];
            }
            if step + 1 < half::<C>() {
                let mut next = to;
                for c in 0..GROUP {
                    slope[at + c] = summands.at(at + c, step + 1).x();
                    next[c] = twice_difference::<Hot<C>, V>(&to[c], &slope[at + c]);
                }
                leave::<Hot<C>, V>(den, pre, &mut chain, at, &next);
            }
        }
        chain
    }
}

/// The multiples of a block, one for each vector of elements, in the first half of the workspace.
#[inline(always)]
fn sum_up<C: Curve, V: Lanes>(work: &mut Work<V>, summands: Summands<C>) {
    // The first summands, and the denominators of the first additions.
    let mut chain = ones::<C, V>();
    for at in (0..work.den.len()).step_by(GROUP) {
        let mut next = ones::<C, V>();
        for c in 0..GROUP {
            let first = summands.at::<V>(at + c, 0);
            work.x[at + c] = first.x();
            let minus_w = tight::<C, V>(add(&first.minus_w::<C>(), &splat(Held::<C>::BIAS)));
            work.w[at + c] = tight::<C, V>(minus::<C, V>(&minus_w));
            work.slope[at + c] = summands.at(at + c, 1).x();
            next[c] = twice_difference::<C, V>(&work.x[at + c], &work.slope[at + c]);
        }
        leave::<C, V>(&mut work.den, &mut work.pre, &mut chain, at, &next);
    }
    let mut down = true;
    for step in 1..half::<C>() {
        let rest = invert_chains::<C, V>(&chain);
        chain = V::call(AddStep { work, rest, down, summands, step });
        down = !down;
    }
    V::call(Fold { work, curve: PhantomData::<C> });
}

/// Adds the second half of the sums to the first. Where the two are the same point but for the sign, any element comes out.
struct Fold<'a, C, V> {
    work: &'a mut Work<V>,
    curve: PhantomData<C>,
}

impl<C: Curve, V: Lanes> Formula<V> for Fold<'_, C, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Work { x, w, den, pre, .. } = self.work;
        let n = x.len() / 2;
        let (x, others) = x.split_at_mut(n);
        for i in 0..n {
            let same = equal::<C, V>(&x[i], &others[i]);
            den[i] = select(same, &splat(Held::<C>::ONE), &twice_difference::<C, V>(&x[i], &others[i]));
        }
        V::call(InvertAll::<C, V> { den: &mut den[..n], pre: &mut pre[..n], field: PhantomData });
        for i in 0..n {
            let rise = ripple(add(&w[i], &minus::<C, V>(&w[n + i])));
            let line = mul_loose::<C, V>(&rise, &den[i]);
            let minuses = add(&minus::<C, V>(&x[i]), &minus::<C, V>(&others[i]));
            let to = tight::<C, V>(add(&square_raw::<C, V>(&line), &minuses));
            w[i] = ordinate::<C, V>(&line, &twice_difference::<C, V>(&x[i], &to), &w[i]);
            x[i] = to;
        }
    }
}

/// Adds to each of the affine points its own multiple of the table's.
pub(super) struct AddMultiples<'a, C> {
    pub(super) points: &'a mut Points<C>,
    pub(super) table: &'a Table<C>,
    pub(super) digits: &'a Digits,
}

impl<C: Curve> Kernel for AddMultiples<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { points: Points { len, cells, .. }, table, digits } = self;
        let mut room = None;
        for (start, vectors) in blocks(vectors::<V>(*len)) {
            let work = match &mut room {
                Some(work) => work,
                None => room.insert(Work::<V>::new::<C>(2 * vectors, 0)),
            };
            work.resize(2 * vectors);
            let last = len.div_ceil(8) * 8 / V::WIDTH - 1;
            sum_up(work, Summands { table, digits, start, vectors, last });
            for i in 0..vectors {
                let (cell, part) = place::<V>(start + i);
                work.x[vectors + i] = load(&cells[cell].x, part);
                work.w[vectors + i] = load(&cells[cell].w, part);
            }
            V::call(Fold { work, curve: PhantomData::<C> });
            for i in 0..vectors {
                let (cell, part) = place::<V>(start + i);
                store(&mut cells[cell].x, part, &work.x[i]);
                store(&mut cells[cell].w, part, &work.w[i]);
            }
        }
    }
}
