//! Points as bytes. x is written and read here, and a received x that belongs to the twist is found and refused.

use super::Curve;
use super::invert::{InvertAll, Quad};
use super::layout::{BLOCK, Cell, Eight, GROUP, Points, load, place, store, vectors};
use crate::BadElement;
use crate::backend::Kernel;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;

/// The least representatives of elements.
#[inline(always)]
fn rows<F: Prime, V: Lanes>(x: &Limbs<V>) -> Eight {
    let mut rows = [[0u64; 8]; 5];
    store(&mut rows, 0, &plain::<F, V>(x));
    rows
}

/// Appends one of them.
fn push(wire: &mut Vec<u8>, x: &Eight, lane: usize) {
    for word in words(x.map(|row| row[lane])).iter().rev() {
        wire.extend_from_slice(&word.to_be_bytes());
    }
}

/// The lowest bit of y, as a word, from W = 2y: y is W/2 or (W + p)/2, whose lowest bit is the second of W, p being 3 modulo 4.
#[inline(always)]
pub(super) fn bit_of_half(plain_w: u64) -> u64 {
    plain_w >> 1 & 1
}

pub(super) struct Encode<'a, C> {
    pub(super) points: &'a Points<C>,
    pub(super) wire: &'a mut Vec<u8>,
    /// Whether 2, or 3 if y/s is odd, comes before each x: Y/s of the isomorphic curve is y times the root of s.
    pub(super) with_bit: bool,
}

impl<C: Curve> Kernel for Encode<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { points, wire, with_bit } = self;
        let total = vectors::<V>(points.len);
        let mut left = points.len;
        wire.reserve((WIRE + usize::from(with_bit)) * left);
        let room = total.min(BLOCK);
        let (mut den, mut pre) = (vec![[V::zero(); 5]; room], vec![[V::zero(); 5]; room]);
        for start in (0..total).step_by(BLOCK) {
            let n = (total - start).min(BLOCK);
            for (i, den) in den[..n].iter_mut().enumerate() {
                let (cell, part) = place::<V>(start + i);
                *den = load(&points.cells[cell].s, part);
            }
            V::call(InvertAll::<C, V> { den: &mut den[..n], pre: &mut pre[..n], field: PhantomData });
            for (i, den) in den[..n].iter().enumerate() {
                let (cell, part) = place::<V>(start + i);
                let x = rows::<C, V>(&mul::<C, V>(&load(&points.cells[cell].x, part), den));
                let w = with_bit.then(|| rows::<C, V>(&mul::<C, V>(&load(&points.cells[cell].w, part), den)));
                for lane in 0..left.min(V::WIDTH) {
                    if let Some(w) = w {
                        wire.push(2 | bit_of_half(w[0][lane]) as u8);
                    }
                    push(wire, &x, lane);
                }
                left -= left.min(V::WIDTH);
            }
        }
    }
}

/// Bytes of an element.
pub(crate) const WIRE: usize = 32;

/// The numbers on the wire, if they are below p, as x of a batch.
pub(super) fn read<C: Curve>(wire: &[u8]) -> Result<Points<C>, BadElement> {
    let (elements, rest) = wire.as_chunks::<WIRE>();
    let mut points = Points::new(elements.len());
    for (index, element) in elements.iter().enumerate() {
        points.put(index, element)?;
    }
    if !rest.is_empty() {
        return Err(BadElement { index: elements.len(), why: CUT_OFF });
    }
    points.fill(|cell| &mut cell.x);
    Ok(points)
}

impl<C: Curve> Points<C> {
    /// Sets x of an element to what was received.
    pub(super) fn put(&mut self, index: usize, received: &[u8; WIRE]) -> Result<(), BadElement> {
        let (bytes, _) = received.as_chunks::<8>();
        let x = [3, 2, 1, 0].map(|i: usize| u64::from_be_bytes(bytes[i]));
        if !less(x, C::P) {
            return Err(BadElement { index, why: NOT_BELOW_P });
        }
        for (row, limb) in self.cells[index / 8].x.iter_mut().zip(limbs(x)) {
            row[index % 8] = limb;
        }
        Ok(())
    }
}

/// g = x·(x^2 + a) + b, tight.
#[inline(always)]
pub(super) fn right_side<C: Curve, V: Lanes>(x: &Limbs<V>) -> Limbs<V> {
    let mut square = square_raw::<C, V>(x);
    if !C::A_IS_ZERO {
        square = add(&square, &splat(const { Held::<C>::small(-3) }));
    }
    let b = splat(const { Held::<C>::of(C::B) });
    tight::<C, V>(add(&mul_add::<C, V>(x, &ripple(square), &b), &splat(Held::<C>::BIAS)))
}

/// How many random products of a batch are tested: a batch with a bad element passes with probability 2^-64.
const TESTS: usize = 64;

/// Why an element is refused.
pub(super) const OFF_CURVE: &str = "is not the x of a point on the curve";
const NOT_BELOW_P: &str = "is not below the field's prime";
pub(super) const CUT_OFF: &str = "is cut off";

pub(super) struct Decode<'a, C> {
    pub(super) points: Points<C>,
    pub(super) wire: &'a [u8],
    pub(super) coins: &'a [u8; 32],
}

impl<C: Curve> Kernel for Decode<'_, C> {
    type Out = Result<Points<C>, BadElement>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let Self { mut points, wire, coins } = self;
        let total = vectors::<V>(points.len);
        for i in 0..total {
            let (cell, part) = place::<V>(i);
            let cell = &mut points.cells[cell];
            let x = held::<C, V>(&load(&cell.x, part));
            let g = right_side::<C, V>(&x);
            let y = square_raw::<C, V>(&g);
            store(&mut cell.x, part, &mul_tight::<C, V>(&g, &x));
            store(&mut cell.w, part, &tight::<C, V>(add(&add(&y, &y), &splat(Held::<C>::BIAS))));
            store(&mut cell.s, part, &g);
        }
        // Testing each costs one power a vector, testing products costs TESTS powers and about 19 products a vector.
        if (total <= 2 * TESTS || !products_are_squares::<C, V>(&points.cells, total, wire, coins))
            && let Some(index) = find_non_square::<C, V>(&points.cells, total)
        {
            // The copies behind the last element are bad if it is.
            let index = index.min(points.len - 1);
            return Err(BadElement { index, why: OFF_CURVE });
        }
        Ok(points)
    }
}

/// Euler's criterion: the mask of the lanes that hold a non-zero square, for elements that are factors.
struct AreSquares<'a, F, V>(&'a [Limbs<V>; 8], PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for AreSquares<'_, F, V> {
    type Out = [V; 8];
    #[inline(always)]
    fn run(self) -> [V; 8] {
        // (p - 1)/2 = 2·(p - 3)/4 + 1.
        let roots = power_chain::<F, V, 8>(self.0);
        let one = splat(Held::<F>::ONE);
        let mut out = [V::zero(); 8];
        for i in 0..8 {
            out[i] = equal::<F, V>(&mul_tight::<F, V>(&square_loose::<F, V>(&roots[i]), &self.0[i]), &one);
        }
        out
    }
}

/// The first lane in which a mask is not set.
#[inline(always)]
pub(super) fn first_unset<V: Lanes>(mask: V) -> Option<usize> {
    let mut lanes = [0; 8];
    mask.store(&mut lanes);
    lanes[..V::WIDTH].iter().position(|&lane| lane == 0)
}

#[inline(always)]
fn find_non_square<C: Curve, V: Lanes>(cells: &[Cell], total: usize) -> Option<usize> {
    for start in (0..total).step_by(8) {
        let mut g = [[V::zero(); 5]; 8];
        for (i, g) in g.iter_mut().enumerate() {
            let (cell, part) = place::<V>((start + i).min(total - 1));
            *g = load(&cells[cell].s, part);
        }
        let masks = V::call(AreSquares::<C, V>(&g, PhantomData));
        for (i, mask) in masks.into_iter().enumerate() {
            if let Some(lane) = first_unset(mask) {
                return Some((start + i).min(total - 1) * V::WIDTH + lane);
            }
        }
    }
    None
}

/// Tests, in each lane, random products of the g of all elements: if one g is not a square, each product is not with
/// probability 1/2. Four vectors at a time, whose 16 products are made once.
#[inline(always)]
fn products_are_squares<C: Curve, V: Lanes>(cells: &[Cell], total: usize, wire: &[u8], coins: &[u8; 32]) -> bool {
    // The masks depend on what they test, too, so that coins known early do not help who chooses the elements later.
    let mut masks = blake3::Hasher::new_keyed(coins).update(wire).finalize_xof();
    let mut products = [splat::<V>(Held::<C>::ONE); TESTS];
    for start in (0..total).step_by(GROUP) {
        let mut bits = [0; TESTS / 2];
        masks.fill(&mut bits);
        let mut g = [[V::zero(); 5]; GROUP];
        for (i, g) in g.iter_mut().enumerate() {
            let (cell, part) = place::<V>(start + i);
            *g = load(&cells[cell].s, part);
        }
        V::call(Gather::<C, V> { g: &g, bits: &bits, products: &mut products, field: PhantomData });
    }
    let mut all = true;
    for eight in products.as_chunks::<8>().0 {
        for mask in V::call(AreSquares::<C, V>(eight, PhantomData)) {
            all &= first_unset(mask).is_none();
        }
    }
    all
}

struct Gather<'a, F, V> {
    g: &'a Quad<V>,
    bits: &'a [u8; TESTS / 2],
    products: &'a mut [Limbs<V>; TESTS],
    field: PhantomData<F>,
}

impl<F: Prime, V: Lanes> Formula<V> for Gather<'_, F, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut subsets = [splat::<V>(Held::<F>::ONE); 16];
        for i in 0..GROUP {
            subsets[1 << i] = self.g[i];
            for j in 1..1 << i {
                subsets[1 << i | j] = mul_loose::<F, V>(&subsets[j], &self.g[i]);
            }
        }
        for (products, byte) in self.products.as_chunks_mut::<2>().0.iter_mut().zip(self.bits) {
            for (product, nibble) in products.iter_mut().zip([byte & 15, byte >> 4]) {
                *product = mul_loose::<F, V>(product, &subsets[usize::from(nibble)]);
            }
        }
    }
}
