//! The workspace of a block, and the steps on it that fill the tables of multiples. All points of a block take a step together.

use super::Curve;
use super::invert::InvertAll;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;

/// The workspace of a block.
pub(crate) struct Work<V> {
    /// How many entries each table has.
    pub(super) entries: usize,
    /// The points: X and W.
    pub(crate) x: Vec<Limbs<V>>,
    pub(crate) w: Vec<Limbs<V>>,
    /// a·s^2, if a is not zero.
    pub(super) a: Vec<Limbs<V>>,
    /// What is to be inverted, and the products of the denominators before it in its chain (loose).
    pub(super) den: Vec<Limbs<V>>,
    pub(super) pre: Vec<Limbs<V>>,
    /// X of the multiple that is being added, then the slope.
    pub(super) slope: Vec<Limbs<V>>,
    /// The tables, one after the other: X and W of each entry.
    pub(crate) table: Vec<[Limbs<V>; 2]>,
}

impl<V: Lanes> Work<V> {
    /// Room for so many vectors, with tables of so many entries.
    /// Room for so many vectors, with tables of so many entries.
    #[inline(always)]
    pub(super) fn new<C: Curve>(vectors: usize, entries: usize) -> Self {
        let room = || vec![[V::zero(); 5]; vectors];
        Self {
            entries,
            x: room(),
            w: room(),
            a: if C::A_IS_ZERO { Vec::new() } else { room() },
            den: room(),
            pre: room(),
            slope: room(),
            table: vec![[[V::zero(); 5]; 2]; vectors * entries],
        }
    }

    #[inline(always)]
    pub(crate) fn invert_all<F: Prime>(&mut self) {
        V::call(InvertAll::<F, V> { den: &mut self.den, pre: &mut self.pre, field: PhantomData });
    }

    /// Doubles every point, for tables.
    #[inline(always)]
    pub(crate) fn double<C: Curve>(&mut self) {
        self.den.copy_from_slice(&self.w);
        self.invert_all::<C>();
        for i in 0..self.den.len() {
            let (x, w) = (self.x[i], self.w[i]);
            let a = if C::A_IS_ZERO { None } else { Some(&self.a[i]) };
            let line = mul_loose::<C, V>(&tangent::<C, V>(&x, a), &self.den[i]);
            let to = tight::<C, V>(square_add_twice::<C, V>(&line, &minus::<C, V>(&x)));
            self.w[i] = ordinate::<C, V>(&line, &twice_difference::<C, V>(&x, &to), &w);
            self.x[i] = to;
        }
    }

    /// Sets the denominators for [`Work::chord`] of the table's `entry` and the points, their X times `turn`.
    #[inline(always)]
    pub(crate) fn open_chord<C: Curve>(&mut self, entry: usize, turn: Option<&Limbs<V>>) {
        for i in 0..self.den.len() {
            let x = match turn {
                Some(turn) => mul_tight::<C, V>(&self.x[i], turn),
                None => self.x[i],
            };
            self.slope[i] = x;
            self.den[i] = twice_difference::<C, V>(&self.table[i * self.entries + entry][0], &x);
        }
        self.invert_all::<C>();
    }

    /// Sets the table's `to` to the sum, or difference, of the table's `entry` and the points of [`Work::open_chord`].
    #[inline(always)]
    pub(crate) fn chord<C: Curve>(&mut self, entry: usize, negative: bool, to: usize) {
        for i in 0..self.den.len() {
            let [x, w] = self.table[i * self.entries + entry];
            let q = if negative { self.w[i] } else { minus::<C, V>(&self.w[i]) };
            let line = mul_loose::<C, V>(&ripple(add(&w, &q)), &self.den[i]);
            let others = add(&minus::<C, V>(&x), &minus::<C, V>(&self.slope[i]));
            let sum = tight::<C, V>(add(&square_raw::<C, V>(&line), &others));
            let w = ordinate::<C, V>(&line, &twice_difference::<C, V>(&x, &sum), &w);
            self.table[i * self.entries + to] = [sum, w];
        }
    }

    /// Leaves room for so many vectors, at most as many as before.
    pub(super) fn resize(&mut self, vectors: usize) {
        for part in [&mut self.x, &mut self.w, &mut self.den, &mut self.pre, &mut self.slope] {
            part.truncate(vectors);
        }
        self.a.truncate(vectors);
    }
}

/// 2·(a - b), loose, for tight a and b.
#[inline(always)]
pub(super) fn twice_difference<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    let d = add(a, &minus::<F, V>(b));
    ripple(add(&d, &d))
}

/// The numerator of the tangent's slope, 3x^2 + a, loose. For tight x it is below 3·(2^256 + 2^253) + 2^257 < 2^258.2.
#[inline(always)]
pub(super) fn tangent<F: Prime, V: Lanes>(x: &Limbs<V>, a: Option<&Limbs<V>>) -> Limbs<V> {
    let square = square_raw::<F, V>(x);
    let thrice = add(&add(&square, &square), &square);
    ripple(a.map_or(thrice, |a| add(&thrice, a)))
}

/// The next W on a line of the given slope through (x, w): 2·slope·(x - to) - w, where `step` is 2(x - to); tight.
#[inline(always)]
pub(super) fn ordinate<F: Prime, V: Lanes>(slope: &Limbs<V>, step: &Limbs<V>, w: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(mul_add::<F, V>(slope, step, &minus::<F, V>(w)))
}

/// What fills a table.
pub(crate) trait FillTable<C> {
    /// Sets every entry but the first, which is the point itself.
    fn fill<V: Lanes>(work: &mut Work<V>);
}

struct CallTable<'a, C, V, T>(&'a mut Work<V>, PhantomData<(C, T)>);

impl<C: Curve, V: Lanes, T: FillTable<C>> Formula<V> for CallTable<'_, C, V, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        T::fill::<V>(self.0);
    }
}

/// Fills a table in a call of its own.
#[inline(always)]
pub(crate) fn call_table<C: Curve, V: Lanes, T: FillTable<C>>(work: &mut Work<V>) {
    V::call(CallTable::<C, V, T>(work, PhantomData));
}

/// The odd multiples 1, 3, 5, ...: sums with the double, none of which fails below the order.
pub(crate) struct OddMultiples;

impl<C: Curve> FillTable<C> for OddMultiples {
    #[inline(always)]
    fn fill<V: Lanes>(work: &mut Work<V>) {
        work.double::<C>();
        for entry in 1..work.entries {
            work.open_chord::<C>(entry - 1, None);
            work.chord::<C>(entry - 1, false, entry);
        }
    }
}
