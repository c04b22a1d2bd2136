//! Inversion of a whole block. The denominators are multiplied up in four chains, and all chains share one inversion.

use super::layout::{GROUP, store};
use crate::field::invert::invert;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use std::marker::PhantomData;

/// A group's worth of elements.
pub(super) type Quad<V> = [Limbs<V>; GROUP];

#[inline(always)]
pub(super) fn ones<F: Prime, V: Lanes>() -> Quad<V> {
    [splat(Held::<F>::ONE); GROUP]
}

/// The inverses at a group: `rest` holds, for each of the chains, the inverse of the product up to and with this group, and
/// then of the product before it.
#[inline(always)]
pub(super) fn enter<F: Prime, V: Lanes>(den: &[Limbs<V>], pre: &[Limbs<V>], rest: &mut Quad<V>, at: usize) -> Quad<V> {
    let mut inverse = *rest;
    for c in 0..GROUP {
        inverse[c] = mul_loose::<F, V>(&rest[c], &pre[at + c]);
    }
    for c in 0..GROUP {
        rest[c] = mul_loose::<F, V>(&rest[c], &den[at + c]);
    }
    inverse
}

/// Adds a group's denominators to the chains.
#[inline(always)]
pub(super) fn leave<F: Prime, V: Lanes>(
    den: &mut [Limbs<V>],
    pre: &mut [Limbs<V>],
    chain: &mut Quad<V>,
    at: usize,
    next: &Quad<V>,
) {
    for c in 0..GROUP {
        pre[at + c] = chain[c];
        den[at + c] = next[c];
        chain[c] = mul_loose::<F, V>(&chain[c], &next[c]);
    }
}

/// The lanes moved round by `by`, through memory: only the batch inversion mixes lanes.
#[inline(always)]
fn rotated<V: Lanes>(x: &Limbs<V>, by: usize) -> Limbs<V> {
    let mut twice = [0u64; 16];
    let mut out = *x;
    for limb in &mut out {
        limb.store(&mut twice);
        limb.store(&mut twice[V::WIDTH..]);
        *limb = V::load(&twice[by..]);
    }
    out
}

/// The inverses of the chains' products: all lanes of all chains are multiplied together, in a tree, for one inversion.
struct InvertChains<'a, F, V>(&'a Quad<V>, PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for InvertChains<'_, F, V> {
    type Out = Quad<V>;
    #[inline(always)]
    fn run(self) -> Quad<V> {
        let chain = self.0;
        let left = mul_loose::<F, V>(&chain[0], &chain[1]);
        let right = mul_loose::<F, V>(&chain[2], &chain[3]);
        let mut product = mul::<F, V>(&left, &right);
        // At each level a lane takes its partner's product; the partners are kept for the way back.
        let mut partners = [product; 3];
        let mut depth = 0;
        while V::WIDTH >> depth > 1 {
            partners[depth] = rotated(&product, V::WIDTH >> (depth + 1));
            product = mul::<F, V>(&product, &partners[depth]);
            depth += 1;
        }
        let one = plain::<F, V>(&product);
        let mut row = [[0u64; 8]; 5];
        store(&mut row, 0, &one);
        let inverse = invert(words(row.map(|lanes| lanes[0])), F::P, F::INVERSE_62);
        let mut inverse = held::<F, V>(&splat(limbs(inverse)));
        while depth > 0 {
            depth -= 1;
            inverse = mul_loose::<F, V>(&inverse, &partners[depth]);
        }
        let (left, right) = (mul_loose::<F, V>(&inverse, &right), mul_loose::<F, V>(&inverse, &left));
        [
            mul_loose::<F, V>(&left, &chain[1]),
            mul_loose::<F, V>(&left, &chain[0]),
            mul_loose::<F, V>(&right, &chain[3]),
            mul_loose::<F, V>(&right, &chain[2]),
        ]
    }
}

#[inline(always)]
pub(super) fn invert_chains<F: Prime, V: Lanes>(chain: &Quad<V>) -> Quad<V> {
    V::call(InvertChains::<F, V>(chain, PhantomData))
}

/// Replaces every `den` by its inverse (loose).
pub(super) struct InvertAll<'a, F, V> {
    pub(super) den: &'a mut [Limbs<V>],
    pub(super) pre: &'a mut [Limbs<V>],
    pub(super) field: PhantomData<F>,
}

impl<F: Prime, V: Lanes> Formula<V> for InvertAll<'_, F, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Self { den, pre, .. } = self;
        let mut chain = ones::<F, V>();
        for at in (0..den.len()).step_by(GROUP) {
            for c in 0..GROUP {
                pre[at + c] = chain[c];
                chain[c] = mul_loose::<F, V>(&chain[c], &den[at + c]);
            }
        }
        let mut rest = invert_chains::<F, V>(&chain);
        for at in (0..den.len()).step_by(GROUP).rev() {
            let inverse = enter::<F, V>(den, pre, &mut rest, at);
            den[at..at + GROUP].copy_from_slice(&inverse);
        }
    }
}
