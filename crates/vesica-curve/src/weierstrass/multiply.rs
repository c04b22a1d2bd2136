//! Multiplication by a secret scalar. All points of a block take the steps together that the digits of the scalar name.

use super::Curve;
use super::invert::{Quad, enter, invert_chains, leave, ones};
use super::layout::{Cell, GROUP, Points, blocks, load, place, store, vectors};
use super::scalar::{Digit, Scalar};
use super::work::{Work, ordinate, tangent, twice_difference};
use crate::backend::Kernel;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;

/// A digit, ready for all lanes.
struct Choice<V> {
    entry: [V; 8],
    negative: V,
    turn: Limbs<V>,
}

impl<V: Lanes> Choice<V> {
    #[inline(always)]
    fn new<C: Curve>(digit: &Digit) -> Self {
        let is = |value: u8, wanted: usize| (u64::from(value) ^ wanted as u64).wrapping_sub(1) >> 63;
        let mut entry = [V::zero(); 8];
        for (j, mask) in entry.iter_mut().enumerate() {
            *mask = V::mask_of(is(digit.entry, j));
        }
        let mut turn = splat(Held::<C>::ONE);
        if let Some(beta) = C::BETA {
            let beta = splat(Held::<C>::of(beta));
            let square = mul_tight::<C, V>(&beta, &beta);
            turn = select(V::mask_of(is(digit.turn, 1)), &beta, &turn);
            turn = select(V::mask_of(is(digit.turn, 2)), &square, &turn);
        }
        Self { entry, negative: V::mask_of(u64::from(digit.negative)), turn }
    }

    /// A coordinate of the table's entry that the digit names: every entry is read.
    #[inline(always)]
    fn pick<C: Curve>(&self, table: &[[Limbs<V>; 2]], vector: usize, coordinate: usize) -> Limbs<V> {
        let table = &table[vector * C::TABLE..(vector + 1) * C::TABLE];
        let mut out = [V::zero(); 5];
        for (entry, mask) in table.iter().zip(self.entry) {
            for (out, limb) in out.iter_mut().zip(&entry[coordinate]) {
                *out = out.or(limb.and(mask));
            }
        }
        out
    }

    /// X of the multiple, turned: tight.
    #[inline(always)]
    fn x<C: Curve>(&self, table: &[[Limbs<V>; 2]], vector: usize) -> Limbs<V> {
        let x = self.pick::<C>(table, vector, 0);
        if C::BETA.is_some() { mul_tight::<C, V>(&x, &self.turn) } else { x }
    }

    /// -W of the multiple, negated if the digit is negative: raw, below 2^257.
    #[inline(always)]
    fn minus_w<C: Curve>(&self, table: &[[Limbs<V>; 2]], vector: usize) -> Limbs<V> {
        let w = self.pick::<C>(table, vector, 1);
        select(self.negative, &w, &minus::<C, V>(&w))
    }
}

/// One step over the block: it takes the inverses of the denominators that the pass before it left, going the other way.
struct Pass<'a, C, V> {
    work: &'a mut Work<V>,
    /// The inverses of the chains.
    rest: Quad<V>,
    down: bool,
    step: Step<'a, V>,
    curve: PhantomData<C>,
}

enum Step<'a, V> {
    /// Double; another doubling comes next.
    Double,
    /// Double; an addition of this digit comes next.
    DoubleThen(&'a Choice<V>),
    /// The first half of 2P + Q: the slope of P + Q, and its x.
    Add(&'a Choice<V>),
    /// The second half: P + (P + Q). A doubling comes next.
    AddAgain,
}

impl<C: Curve, V: Lanes> Formula<V> for Pass<'_, C, V> {
    /// The chains' products for the next inversion.
    type Out = Quad<V>;
    #[inline(always)]
    fn run(self) -> Quad<V> {
        let Self { work, mut rest, down, step, .. } = self;
        let Work { x, w, a, den, pre, slope, table, .. } = work;
        let mut chain = ones::<Hot<C>, V>();
        let n = den.len();
        for i in (0..n).step_by(GROUP) {
            let at = if down { n - GROUP - i } else { i };
            let inverse = enter::<Hot<C>, V>(den, pre, &mut rest, at);
            let mut next = inverse;
            match step {
                Step::Double | Step::DoubleThen(_) => {
                    let mut line = inverse;
                    for c in 0..GROUP {
                        let a = if C::A_IS_ZERO { None } else { Some(&a[at + c]) };
                        line[c] = tangent::<Hot<C>, V>(&x[at + c], a);
                    }
                    for c in 0..GROUP {
                        line[c] = mul_loose::<Hot<C>, V>(&line[c], &inverse[c]);
                    }
                    let mut to = inverse;
                    for c in 0..GROUP {
                        // x' = slope^2 - 2x.
                        to[c] = tight::<Hot<C>, V>(square_add_twice::<Hot<C>, V>(
                            &line[c],
                            &minus::<Hot<C>, V>(&x[at + c]),
                        ));
                    }
                    for c in 0..GROUP {
                        let step = twice_difference::<Hot<C>, V>(&x[at + c], &to[c]);
                        next[c] = ordinate::<Hot<C>, V>(&line[c], &step, &w[at + c]);
                        x[at + c] = to[c];
                        w[at + c] = next[c];
                    }
                    if let Step::DoubleThen(choice) = step {
                        for c in 0..GROUP {
                            let q = choice.x::<C>(table, at + c);
                            next[c] = twice_difference::<Hot<C>, V>(&to[c], &q);
                            slope[at + c] = q;
                        }
                    }
                }
                Step::Add(choice) => {
                    let mut line = inverse;
                    for c in 0..GROUP {
                        // (w - w_q) / 2(x - x_q); the sum is below 2^257.7.
                        let rise = ripple(add(&w[at + c], &choice.minus_w::<C>(table, at + c)));
                        line[c] = mul::<Hot<C>, V>(&rise, &inverse[c]);
                    }
                    for c in 0..GROUP {
                        // x of the sum, less x: slope^2 - 2x - x_q.
                        let square = square_add_twice::<Hot<C>, V>(&line[c], &minus::<Hot<C>, V>(&x[at + c]));
                        next[c] = tight::<Hot<C>, V>(add(&square, &minus::<Hot<C>, V>(&slope[at + c])));
                        slope[at + c] = line[c];
                    }
                }
                Step::AddAgain => {
                    let mut line = inverse;
                    for c in 0..GROUP {
                        // Minus the slope of the line through P and P + Q: slope + w / (x of the sum - x).
                        line[c] = ripple(mul_add::<Hot<C>, V>(&w[at + c], &inverse[c], &slope[at + c]));
                    }
                    let mut to = inverse;
                    for c in 0..GROUP {
                        // x' = slope^2 - 2x - (x of the sum - x).
                        let square = square_add_twice::<Hot<C>, V>(&line[c], &minus::<Hot<C>, V>(&x[at + c]));
                        to[c] = tight::<Hot<C>, V>(add(&square, &minus::<Hot<C>, V>(&den[at + c])));
                    }
                    for c in 0..GROUP {
                        // The slope has the other sign, and so has the step.
                        let step = twice_difference::<Hot<C>, V>(&to[c], &x[at + c]);
                        next[c] = ordinate::<Hot<C>, V>(&line[c], &step, &w[at + c]);
                        x[at + c] = to[c];
                        w[at + c] = next[c];
                    }
                }
            }
            leave::<Hot<C>, V>(den, pre, &mut chain, at, &next);
        }
        chain
    }
}

pub(super) struct Multiply<'a, C> {
    pub(super) points: Points<C>,
    pub(super) k: &'a Scalar<C>,
}

impl<C: Curve> Kernel for Multiply<'_, C> {
    type Out = Points<C>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Points<C> {
        let mut points = self.points;
        let digits = C::recode(&self.k.words);
        let mut choices = Vec::with_capacity(digits.0.len());
        for digit in &digits.0 {
            choices.push(Choice::<V>::new::<C>(digit));
        }
        let mut work = None;
        for (start, size) in blocks(vectors::<V>(points.len)) {
            let work = match &mut work {
                Some(work) => work,
                None => work.insert(Work::<V>::new::<C>(size, C::TABLE)),
            };
            work.resize(size);
            multiply_block::<C, V>(&mut points.cells, start, work, &choices);
        }
        points
    }
}

#[inline(always)]
fn multiply_block<C: Curve, V: Lanes>(cells: &mut [Cell], start: usize, work: &mut Work<V>, choices: &[Choice<V>]) {
    let n = work.den.len();
    for i in 0..n {
        let (cell, part) = place::<V>(start + i);
        work.x[i] = load(&cells[cell].x, part);
        work.w[i] = load(&cells[cell].w, part);
        if !C::A_IS_ZERO {
            // a·s^2 = -3·s^2.
            let s = load(&cells[cell].s, part);
            let square = tight::<C, V>(add(&square_raw::<C, V>(&s), &splat(Held::<C>::BIAS)));
            let thrice = add(&add(&square, &square), &square);
            work.a[i] = tight::<C, V>(sub(&splat(Held::<C>::BIAS_3), &thrice));
        }
        work.table[i * C::TABLE] = [work.x[i], work.w[i]];
    }
    C::table(work);
    // The first digit, and the denominators of the first doubling.
    let (first, others) = choices.split_first().expect("a scalar has digits");
    let mut chain = ones::<C, V>();
    for at in (0..n).step_by(GROUP) {
        for i in at..at + GROUP {
            work.x[i] = first.x::<C>(&work.table, i);
            work.w[i] = tight::<C, V>(add(&first.minus_w::<C>(&work.table, i), &splat(Held::<C>::BIAS)));
            // It was -W; turn it over.
            work.w[i] = tight::<C, V>(minus::<C, V>(&work.w[i]));
        }
        let next = [work.w[at], work.w[at + 1], work.w[at + 2], work.w[at + 3]];
        leave::<C, V>(&mut work.den, &mut work.pre, &mut chain, at, &next);
    }
    let mut down = true;
    let mut pass = |work: &mut Work<V>, step: Step<V>| {
        let rest = invert_chains::<C, V>(&chain);
        chain = V::call(Pass::<C, V> { work, rest, down, step, curve: PhantomData });
        down = !down;
    };
    for choice in others {
        for _ in 1..C::DOUBLINGS {
            pass(work, Step::Double);
        }
        pass(work, Step::DoubleThen(choice));
        pass(work, Step::Add(choice));
        pass(work, Step::AddAgain);
    }
    for i in 0..n {
        let (cell, part) = place::<V>(start + i);
        store(&mut cells[cell].x, part, &work.x[i]);
        store(&mut cells[cell].w, part, &work.w[i]);
    }
}
