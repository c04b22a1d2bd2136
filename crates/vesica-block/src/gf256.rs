//! GF(2^256) = GF(2)[x] / (x^256 + x^10 + x^5 + x^2 + 1); bit i of an element's first [`Block`] is the coefficient of x^i, of its
//! second that of x^(128 + i).
//!
//! The polynomial is the first irreducible pentanomial of this degree (Seroussi, "Table of low-weight binary irreducible
//! polynomials", HPL-98-135). Products are the same sequence of instructions whatever the elements.

use crate::Block;
use crate::backend::{Clmul, Products, Ready};

/// Elements side by side: of each its first block, and its second.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Elements {
    /// The first blocks.
    pub low: Vec<Block>,
    /// The second blocks.
    pub high: Vec<Block>,
}

impl FromIterator<[Block; 2]> for Elements {
    fn from_iter<I: IntoIterator<Item = [Block; 2]>>(elements: I) -> Self {
        let (low, high) = elements.into_iter().map(|[low, high]| (low, high)).unzip();
        Self { low, high }
    }
}

impl Elements {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.low.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.low.is_empty()
    }

    /// The element at a place.
    pub fn get(&self, at: usize) -> [Block; 2] {
        [self.low[at], self.high[at]]
    }

    /// Replaces the element at a place.
    pub fn set(&mut self, at: usize, [low, high]: [Block; 2]) {
        (self.low[at], self.high[at]) = (low, high);
    }

    /// From `from` on, self[i] ← self[i]·(of[i] + k).
    ///
    /// # Panics
    /// If they differ in length.
    pub fn mul_shifted(&mut self, from: usize, of: &Elements, k: [Block; 2]) {
        Ready::chosen().products(MulShifted { to: self, from, of, k });
    }

    /// From `from` on, self[i] ← self[i] + of[i]·k.
    ///
    /// # Panics
    /// If they differ in length.
    pub fn mul_add(&mut self, from: usize, of: &Elements, k: [Block; 2]) {
        Ready::chosen().products(MulAdd { to: self, from, of, k });
    }

    /// The polynomial with these coefficients, from the constant one on, at each of the points.
    pub fn evaluate(&self, points: &Elements) -> Elements {
        Ready::chosen().products(Evaluate { coefficients: self, points })
    }
}

/// The product of two elements. Many products are faster together: [`Elements`].
pub fn mul(a: [Block; 2], b: [Block; 2]) -> [Block; 2] {
    Ready::chosen().products(Mul(a, b))
}

/// 1/a, and 0 for 0: a^(2^256 - 2).
pub fn invert(a: [Block; 2]) -> [Block; 2] {
    let (mut square, mut inverse) = (a, ONE);
    for _ in 1..256 {
        square = mul(square, square);
        inverse = mul(inverse, square);
    }
    inverse
}

/// The one of the field.
pub const ONE: [Block; 2] = [Block::ONE, Block::ZERO];

/// x^10 + x^5 + x^2 + 1, which is x^256.
const TAIL: Block = Block(0x425);

/// An element a lane.
#[derive(Clone, Copy)]
struct Lane<V>([V; 2]);

impl<V: Clmul> Lane<V> {
    #[inline(always)]
    fn splat([low, high]: [Block; 2]) -> Self {
        Self([V::splat(low), V::splat(high)])
    }

    /// Those from `at` on.
    #[inline(always)]
    fn load(elements: &Elements, at: usize) -> Self {
        Self([V::load(&elements.low[at..]), V::load(&elements.high[at..])])
    }

    #[inline(always)]
    fn store(self, elements: &mut Elements, at: usize) {
        let Self([low, high]) = self;
        low.store(&mut elements.low[at..]);
        high.store(&mut elements.high[at..]);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (Self([a, b]), Self([c, d])) = (self, other);
        Self([a.xor(c), b.xor(d)])
    }

    /// By Karatsuba's three products of halves.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let (Self([a, b]), Self([c, d])) = (self, other);
        let [p0, p1] = product(a, c);
        let [p2, p3] = product(b, d);
        let [m0, m1] = product(a.xor(b), c.xor(d));
        let (m0, m1) = (m0.xor(p0).xor(p2), m1.xor(p1).xor(p3));
        reduce([p0, p1.xor(m0), p2.xor(m1), p3])
    }
}

/// The product of polynomials of degree below 128, the lower half first.
#[inline(always)]
fn product<V: Clmul>(a: V, b: V) -> [V; 2] {
    let middle = a.clmul_lh(b).xor(b.clmul_lh(a));
    [a.clmul_ll(b).xor(V::ZERO.low_halves(middle)), a.clmul_hh(b).xor(middle.high_halves(V::ZERO))]
}

/// The remainder of a polynomial of degree below 512: each word above x^256 is taken times x^10 + x^5 + x^2 + 1 to where it stands
/// 256 bits lower, and what the last one carries beyond x^256 once more.
#[inline(always)]
fn reduce<V: Clmul>([low, high, above, top]: [V; 4]) -> Lane<V> {
    let q = V::splat(TAIL);
    let [w1, w2, w3] = [q.clmul_lh(above), q.clmul_ll(top), q.clmul_lh(top)];
    let over = w3.high_halves(V::ZERO);
    let low = low.xor(q.clmul_ll(above)).xor(V::ZERO.low_halves(w1)).xor(q.clmul_ll(over));
    let high = high.xor(w1.high_halves(V::ZERO)).xor(w2).xor(V::ZERO.low_halves(w3));
    Lane([low, high])
}

struct Mul([Block; 2], [Block; 2]);

impl Products for Mul {
    type Out = [Block; 2];
    #[inline(always)]
    fn run<V: Clmul>(self) -> [Block; 2] {
        let mut out = [[Block::ZERO; 4]; 2];
        let Lane([low, high]) = Lane::<V>::splat(self.0).mul(Lane::splat(self.1));
        low.store(&mut out[0][..V::WIDTH]);
        high.store(&mut out[1][..V::WIDTH]);
        [out[0][0], out[1][0]]
    }
}

struct MulShifted<'a> {
    to: &'a mut Elements,
    from: usize,
    of: &'a Elements,
    k: [Block; 2],
}

impl Products for MulShifted<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        let Self { to, from, of, k } = self;
        assert_eq!(to.len(), of.len(), "pairs of factors");
        let k = Lane::<V>::splat(k);
        for at in (from..to.len()).step_by(V::WIDTH) {
            Lane::load(to, at).mul(Lane::load(of, at).add(k)).store(to, at);
        }
    }
}

struct MulAdd<'a> {
    to: &'a mut Elements,
    from: usize,
    of: &'a Elements,
    k: [Block; 2],
}

impl Products for MulAdd<'_> {
    type Out = ();
    #[inline(always)]
    fn run<V: Clmul>(self) {
        let Self { to, from, of, k } = self;
        assert_eq!(to.len(), of.len(), "one factor for each sum");
        let k = Lane::<V>::splat(k);
        for at in (from..to.len()).step_by(V::WIDTH) {
            Lane::load(to, at).add(Lane::load(of, at).mul(k)).store(to, at);
        }
    }
}

struct Evaluate<'a> {
    coefficients: &'a Elements,
    points: &'a Elements,
}

impl Products for Evaluate<'_> {
    type Out = Elements;
    /// Horner's rule, at several vectors of points at once: a product waits long for the one before it.
    #[inline(always)]
    fn run<V: Clmul>(self) -> Elements {
        const DEPTH: usize = 4;
        let Self { coefficients, points } = self;
        let mut values = Elements { low: vec![Block::ZERO; points.len()], high: vec![Block::ZERO; points.len()] };
        let mut at = 0;
        while at < points.len() {
            // The last vectors may be the same ones again.
            let places: [usize; DEPTH] =
                std::array::from_fn(|i| if at + i * V::WIDTH < points.len() { at + i * V::WIDTH } else { at });
            let points = places.map(|at| Lane::<V>::load(points, at));
            let mut sums = [Lane([V::ZERO; 2]); DEPTH];
            for (&low, &high) in coefficients.low.iter().zip(&coefficients.high).rev() {
                let coefficient = Lane::splat([low, high]);
                for (sum, point) in sums.iter_mut().zip(points) {
                    *sum = sum.mul(point).add(coefficient);
                }
            }
            for (sum, at) in sums.into_iter().zip(places) {
                sum.store(&mut values, at);
            }
            at += DEPTH * V::WIDTH;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, SIZES};

    type Element = [Block; 2];

    fn add(a: Element, b: Element) -> Element {
        [a[0] ^ b[0], a[1] ^ b[1]]
    }

    /// a·x.
    fn shifted([low, high]: Element) -> Element {
        let carry = if high.0 >> 127 == 1 { TAIL.0 } else { 0 };
        [Block(low.0 << 1 ^ carry), Block(high.0 << 1 | low.0 >> 127)]
    }

    /// The definition, bit by bit.
    fn naive(mut a: Element, b: Element) -> Element {
        let mut sum = [Block::ZERO; 2];
        for i in 0..256 {
            if b[i / 128].0 >> (i % 128) & 1 == 1 {
                sum = add(sum, a);
            }
            a = shifted(a);
        }
        sum
    }

    fn elements(n: usize, seed: u128) -> Elements {
        Elements { low: checks::blocks(n, seed), high: checks::blocks(n, seed + 100) }
    }

    /// Rabin's test: x^(2^256) = x, and x^(2^128) - x is a unit, because 2 is the only prime that divides 256.
    #[test]
    fn the_polynomial_is_irreducible() {
        let x = [Block(2), Block::ZERO];
        let squared = |times: usize| (0..times).fold(x, |a, _| naive(a, a));
        assert_eq!(squared(256), x);
        let difference = add(squared(128), x);
        assert_eq!(naive(difference, invert(difference)), ONE);
    }

    #[test]
    fn products_are_the_definition_on_every_back_end() {
        for n in SIZES.into_iter().filter(|&n| n < 100) {
            let (a, b) = (elements(n, 1), elements(n, 2));
            let k = [Block(0xdead_beef << 90 | 7), Block(u128::MAX << 3)];
            for ready in Ready::all() {
                for from in [0, 1.min(n), n / 2] {
                    let (mut shifted, mut added) = (a.clone(), a.clone());
                    ready.products(MulShifted { to: &mut shifted, from, of: &b, k });
                    ready.products(MulAdd { to: &mut added, from, of: &b, k });
                    for i in 0..n {
                        let (a, b) = (a.get(i), b.get(i));
                        let want = if i < from { [a; 2] } else { [naive(a, add(b, k)), add(a, naive(b, k))] };
                        assert_eq!([shifted.get(i), added.get(i)], want, "{ready:?}, {n}, {i}");
                    }
                }
                let coefficients = elements(5, 3);
                let values = ready.products(Evaluate { coefficients: &coefficients, points: &b });
                for i in 0..n {
                    let horner = |sum, k| add(naive(sum, b.get(i)), coefficients.get(k));
                    assert_eq!(values.get(i), (0..5).rev().fold([Block::ZERO; 2], horner), "{ready:?}, {n}, {i}");
                    assert_eq!(
                        ready.products(Mul(a.get(i), b.get(i))),
                        naive(a.get(i), b.get(i)),
                        "{ready:?}, {n}, {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_inverse_is_one() {
        for a in [ONE, [Block(2), Block::ZERO], [Block(3), Block(1 << 127)], [Block(u128::MAX); 2]] {
            assert_eq!(mul(a, invert(a)), ONE);
        }
        assert_eq!(invert([Block::ZERO; 2]), [Block::ZERO; 2]);
    }
}
