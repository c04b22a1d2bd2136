//! Blinding on short Weierstrass curves, for [`crate::Blind`].
//!
//! **The sign.** A blinded B travels as x alone, and the evaluator takes B or -B, whichever its formulas make of x. That
//! says nothing of k·B, which is wanted with its sign: E - r·K and -E - r·K are different. But with g = y(B)^2 the evaluator's
//! isomorphic curve holds y(k·B)·y(B)^3, and so y(k·B)·y(B) costs it no root, and is the same for B and -B. Its lowest bit
//! travels with x(k·B), and the receiver, who kept y(B), tells the two roots from one another by it. A public key is k·G
//! with 1 in the place of y(B): the compressed point of SEC 1.

use super::Curve;
use super::bytes::{CUT_OFF, Encode, OFF_CURVE, WIRE, first_unset, right_side};
use super::hash::{Hash, ToAffine};
use super::layout::{Eight, Points, load, place, store, vectors};
use super::scalar::Scalar;
use super::sums::{AddMultiples, Digits, MakeTable, Table};
use crate::backend::{self, Kernel};
use crate::blind;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use crate::hash_to_curve::Inputs;
use crate::messages::Messages;
use crate::{BadElement, Dst};
use std::marker::PhantomData;
use vesica_cpu::Backend;
use vesica_types::Digest;

/// Bytes of an evaluated element: 2, or 3 if the bit is set, and x.
pub(crate) const EVALUATED: usize = 1 + WIRE;

/// What undoes the blinding of a batch.
pub struct Blinds<C> {
    digits: Digits,
    /// W of the blinded elements.
    w: Vec<Eight>,
    curve: PhantomData<C>,
}

impl<C: Curve> Table<C> {
    /// The multiples of the base point.
    pub(crate) fn base_on(backend: Backend) -> Self {
        backend::run_on(backend, MakeTable(Points::base_on(backend)))
    }

    /// The multiples of a public key.
    pub(crate) fn key_on(backend: Backend, public: &[u8]) -> Result<Self, BadElement> {
        let key = Points::decode_affine_on(backend, public)?;
        blind::match_len(key.len, 1)?;
        Ok(backend::run_on(backend, MakeTable(key)))
    }
}

impl<C: Curve> Points<C> {
    /// The base point, affine.
    pub(crate) fn base_on(backend: Backend) -> Self {
        let (first, x) = C::BASE;
        let mut points = Self::new(1);
        for cell in &mut points.cells {
            cell.x = limbs(x).map(|limb| [limb; 8]);
        }
        let odd = vec![[u64::from(first & 1); 8]; points.cells.len()];
        let base = backend::run_on(backend, Lift { points, odd: &odd, others: None });
        base.expect("a point of the standard")
    }

    /// Compressed points, affine.
    pub(super) fn decode_affine_on(backend: Backend, wire: &[u8]) -> Result<Self, BadElement> {
        let (points, odd) = read_evaluated::<C>(wire)?;
        backend::run_on(backend, Lift { points, odd: &odd, others: None })
    }

    /// Appends affine points, compressed.
    pub(super) fn encode_affine_on(&self, backend: Backend, wire: &mut Vec<u8>) {
        backend::run_on(backend, Encode { points: self, wire, with_bit: true });
    }

    /// The compressed point k·G.
    pub(crate) fn public_on(backend: Backend, k: &Scalar<C>) -> Vec<u8> {
        let mut out = Vec::new();
        Self::base_on(backend).mul_on(backend, k).encode_affine_on(backend, &mut out);
        out
    }

    /// Hashed points, affine: with their sign.
    pub(super) fn hash_affine_on(backend: Backend, dst: &Dst, inputs: Inputs) -> Self {
        let mut messages = Messages::new(dst, inputs);
        let uniform = |i: usize| messages.expand(i);
        let hash = Hash { len: inputs.len(), uniform, jacobian: true, curve: PhantomData };
        let mut points = backend::run_on(backend, hash);
        backend::run_on(backend, ToAffine(&mut points));
        points
    }

    /// Appends the blinded elements: H(x) + r·G.
    pub(crate) fn blind_on(
        backend: Backend,
        base: &Table<C>,
        dst: &Dst,
        inputs: &[Digest],
        digits: Digits,
        wire: &mut Vec<u8>,
    ) -> Blinds<C> {
        let mut points = Self::hash_affine_on(backend, dst, Inputs::Digests(inputs));
        backend::run_on(backend, AddMultiples { points: &mut points, table: base, digits: &digits });
        points.encode_on(backend, wire);
        Blinds { digits, w: points.cells.iter().map(|cell| cell.w).collect(), curve: PhantomData }
    }

    /// Appends the products of blinded elements and k.
    pub(crate) fn evaluate_on(
        backend: Backend,
        k: &Scalar<C>,
        wire: &[u8],
        coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let points = Self::decode_on(backend, wire, coins)?.mul_on(backend, k);
        backend::run_on(backend, Encode { points: &points, wire: out, with_bit: true });
        Ok(())
    }

    /// Appends what is left of evaluated elements without r·K.
    pub(crate) fn unblind_on(
        backend: Backend,
        key: &Table<C>,
        blinds: Blinds<C>,
        wire: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let (points, mut odd) = read_evaluated::<C>(wire)?;
        blind::match_len(points.len, blinds.digits.len())?;
        // r·K - E has the x of E - r·K.
        odd.as_flattened_mut().iter_mut().for_each(|bit| *bit ^= 1);
        let mut points = backend::run_on(backend, Lift { points, odd: &odd, others: Some(&blinds.w) })?;
        backend::run_on(backend, AddMultiples { points: &mut points, table: key, digits: &blinds.digits });
        points.encode_on(backend, out);
        Ok(())
    }
}

/// Reads evaluated elements: x as a batch, and the bits.
fn read_evaluated<C: Curve>(wire: &[u8]) -> Result<(Points<C>, Vec<[u64; 8]>), BadElement> {
    let (elements, rest) = wire.as_chunks::<EVALUATED>();
    if !rest.is_empty() {
        return Err(BadElement { index: elements.len(), why: CUT_OFF });
    }
    let mut points = Points::new(elements.len());
    let mut odd = vec![[0; 8]; points.cells.len()];
    for (index, [first, x @ ..]) in elements.iter().enumerate() {
        if first & !1 != 2 {
            return Err(BadElement { index, why: "has neither 2 nor 3 as its first byte" });
        }
        points.put(index, x)?;
        odd[index / 8][index % 8] = u64::from(first & 1);
    }
    points.fill(|cell| &mut cell.x);
    Ok((points, odd))
}

/// Affine points from their x, which are integers yet: y is the root that makes y·y' even or odd, as the bit says.
struct Lift<'a, C> {
    points: Points<C>,
    odd: &'a [[u64; 8]],
    /// 2y', or 2 for all.
    others: Option<&'a [Eight]>,
}

impl<C: Curve> Kernel for Lift<'_, C> {
    type Out = Result<Points<C>, BadElement>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let Self { mut points, odd, others } = self;
        let total = vectors::<V>(points.len);
        for start in (0..total).step_by(8) {
            let place = |i: usize| place::<V>((start + i).min(total - 1));
            let mut x = [[V::zero(); 5]; 8];
            let mut other = [splat(const { Held::<C>::small(2) }); 8];
            let mut bits = [V::zero(); 8];
            for i in 0..8 {
                let (cell, part) = place(i);
                x[i] = held::<C, V>(&load(&points.cells[cell].x, part));
                bits[i] = V::load(&odd[cell][part * V::WIDTH..]);
                if let Some(others) = others {
                    other[i] = load(&others[cell], part);
                }
            }
            let (w, found) = V::call(Roots::<C, V> { x: &x, other: &other, odd: &bits, curve: PhantomData });
            for i in 0..(total - start).min(8) {
                if let Some(lane) = first_unset(found[i]) {
                    // What stands behind the last element is bad if it is.
                    let index = ((start + i) * V::WIDTH + lane).min(points.len - 1);
                    return Err(BadElement { index, why: OFF_CURVE });
                }
                let (cell, part) = place(i);
                let cell = &mut points.cells[cell];
                store(&mut cell.x, part, &x[i]);
                store(&mut cell.w, part, &w[i]);
                store(&mut cell.s, part, &splat::<V>(Held::<C>::ONE));
            }
        }
        Ok(points)
    }
}

/// W of the points with these x, and the masks of the lanes in which there is a point.
struct Roots<'a, C, V> {
    x: &'a [Limbs<V>; 8],
    other: &'a [Limbs<V>; 8],
    odd: &'a [V; 8],
    curve: PhantomData<C>,
}

impl<C: Curve, V: Lanes> Formula<V> for Roots<'_, C, V> {
    type Out = ([Limbs<V>; 8], [V; 8]);
    #[inline(always)]
    fn run(self) -> Self::Out {
        let Self { x, other, odd, .. } = self;
        let mut g = *x;
        for g in &mut g {
            *g = right_side::<C, V>(g);
        }
        let (mut w, mut found) = (power_chain::<C, V, 8>(&g), *odd);
        for i in 0..8 {
            let y = mul_tight::<C, V>(&w[i], &g[i]);
            found[i] = equal::<C, V>(&mul_tight::<C, V>(&y, &y), &g[i]);
            let product = plain::<C, V>(&mul::<C, V>(&y, &other[i]))[0];
            // See bit_of_half.
            let wrong = product.shr(1).xor(odd[i]).and(V::splat(1));
            let twice = tight::<C, V>(add(&add(&y, &y), &splat(Held::<C>::BIAS)));
            let minus = tight::<C, V>(minus::<C, V>(&twice));
            w[i] = select(V::zero().sub(wrong), &minus, &twice);
        }
        (w, found)
    }
}

/// Makes of a curve's blinding functions of this crate, as `entries` does.
macro_rules! blinding {
    ($group:ty) => {
        impl crate::Blind for $group {
            const EVALUATED: usize = weierstrass::blind::EVALUATED;
            type Key = weierstrass::sums::Table<Field>;
            type Blinds = weierstrass::blind::Blinds<Field>;

            fn public(k: &Self::Scalar) -> Vec<u8> {
                Points::public_on(Backend::chosen(), k)
            }

            fn key(public: &[u8]) -> Result<Self::Key, BadElement> {
                Self::Key::key_on(Backend::chosen(), public)
            }

            fn blind(
                dst: &Dst,
                inputs: &[Digest],
                random: &mut dyn FnMut(&mut [u8]),
                wire: &mut Vec<u8>,
            ) -> Self::Blinds {
                let digits = crate::blind::Digits::draw(inputs.len(), random);
                Points::blind_on(Backend::chosen(), Field::base_table(), dst, inputs, digits, wire)
            }

            fn evaluate(k: &Self::Scalar, wire: &[u8], coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
                Points::evaluate_on(Backend::chosen(), k, wire, coins, out)
            }

            fn unblind(
                key: &Self::Key,
                blinds: Self::Blinds,
                wire: &[u8],
                _coins: &[u8; 32],
                out: &mut Vec<u8>,
            ) -> Result<(), BadElement> {
                Points::unblind_on(Backend::chosen(), key, blinds, wire, out)
            }
        }
    };
}
pub(crate) use blinding;
