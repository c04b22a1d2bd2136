//! Short Weierstrass curves of prime order, y^2 = x^3 + ax + b with a = 0 or a = -3: one program for secp256k1, SM2 and
//! P-256, batches through and through.
//!
//! **Only x travels.** Diffie-Hellman compares x([ab]P), and x([k]P) = x([k](-P)) for every k, so the sign of y changes
//! nothing that anybody looks at: not the tags, not what a peer can test, and H(x) and -H(x) are equally unknown multiples
//! of everything. An element is 32 bytes, x in big-endian order: the compressed point of SEC 1 without its first byte.
//!
//! **No square root.** Given x, let g = x^3 + ax + b. If g is a square, x belongs to a point, and (g·x, g^2) is its image on
//! the isomorphic curve y^2 = x^3 + a·g^2·x + b·g^3, whose coordinates need no root of g; the formulas below never use b,
//! and take a from the element. So an element is held as (X, W, s): W = 2Y, (X, Y) on the curve with a·s^2 and b·s^3, and
//! x = X/s. A decoded element has s = g, a hashed one s = Z^2 of its Jacobian form, and multiplication leaves s alone.
//!
//! **Affine, all together.** All elements take the same steps, because the scalar is the same for all; so the inversion
//! that an affine step needs is shared by a block of some thousand elements (P. Montgomery, "Speeding the Pollard and
//! elliptic curve methods", Math. Comp. 48, 1987): three multiplications each. A doubling then costs 5M + 2S, and 2P + Q
//! (without the y of P + Q: K. Eisentraeger, K. Lauter, P. Montgomery, CT-RSA 2003) 9M + 2S, where Jacobian coordinates
//! take 4M + 4S and 12M + 9S. The pass over the block that uses one step's inverses also multiplies up the next step's.
//!
//! **No exceptional case.** Affine formulas fail where a denominator is zero, and one zero would spoil its block. All
//! elements have the prime order n (decoding refuses the twist), so the denominators of a step vanish together, for all
//! elements or none, whatever a peer sends; and the recodings of scalars are such that they never do: see
//! [`Curve::recode`]. A hashed element would have to be a zero of a fixed map, which takes a preimage of SHA-256 to find.
//!
//! **Constant time.** The sequence of steps is fixed; a digit of the scalar picks its multiple from the table by reading
//! all of it under masks that all lanes share.

// `Curve` is the crate's own: the types that are generic over it are reached through their curves' names.
#![allow(private_bounds)]

mod bytes;
mod combine;
mod hash;
mod invert;
mod layout;
mod multiply;
mod scalar;
mod work;

pub(crate) mod blind;
pub(crate) mod sec1;
pub(crate) mod sums;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use bytes::WIRE;
pub(crate) use layout::Points;
pub(crate) use scalar::{Digit, Digits, Scalar, odd_digits};
pub(crate) use work::{FillTable, OddMultiples, Work, call_table};

use crate::backend;
use crate::field::Lanes;
use crate::field::prime256::*;
use crate::hash_to_curve::Inputs;
use crate::messages::Messages;
use crate::{BadElement, Dst, Order};
use bytes::{Decode, Encode, read};
use hash::Hash;
use multiply::Multiply;
use std::marker::PhantomData;
use vesica_cpu::Backend;

/// A curve over the field that it also names.
pub(crate) trait Curve: Prime {
    /// Whether a = 0; otherwise a = -3.
    const A_IS_ZERO: bool;
    /// b.
    const B: [u64; 4];
    /// The prime order, above 2^255.
    const ORDER: [u64; 4];
    /// Numbers modulo it.
    const SCALARS: &'static Order = &const { Order::new(Self::ORDER) };
    /// The base point of the standard: 2 or 3, as the lowest bit of y is, and x.
    const BASE: (u8, [u64; 4]);
    /// How many digits the multipliers that blind have: an even number, and enough for [`sums`].
    const WINDOWS: usize;
    /// A non-trivial cube root of one in the field, if multiplying x by it is an endomorphism that is used.
    const BETA: Option<[u64; 4]> = None;
    /// How many multiples of an element the table holds.
    const TABLE: usize;
    /// How many doublings stand between two digits, the one that is part of 2P + Q not counted: at least one.
    const DOUBLINGS: usize;
    /// The curve that is hashed to: this one, or one with an isogeny to it, where neither a nor b is zero.
    const MAP: Map;

    /// The digits of a scalar in `1..n`, most significant first, in constant time.
    ///
    /// With m the multiple of the element that has been reached, a digit d takes it to 2^(DOUBLINGS + 1)·m + d, by
    /// doublings to m' and one step 2P + Q. That step fails if m' = ±d or 2m' + d = 0 modulo n; implementations say why
    /// this does not happen.
    fn recode(k: &[u64; 4]) -> Digits;

    /// Fills the table: the element itself, and the other multiples that digits name.
    fn table<V: Lanes>(work: &mut Work<V>);

    /// Takes a hashed point, in Jacobian form (X, 2Y, Z), from the curve that is hashed to, to this one.
    fn leave<V: Lanes>(x: Limbs<V>, w: Limbs<V>, z: Limbs<V>) -> [Limbs<V>; 3];

    /// Multiplies on the chosen back end; by [`entries`].
    fn mul(points: Points<Self>, k: &Scalar<Self>) -> Points<Self>;

    /// Encodes on the chosen back end; by [`entries`].
    fn encode(points: &Points<Self>, wire: &mut Vec<u8>);

    /// The base point's multiples, made once; by [`entries`].
    fn base_table() -> &'static sums::Table<Self>;
}

/// What makes of a curve's kernels functions of this crate: code that is generic over the curve would be compiled again, for
/// every back end, in each crate that uses it.
macro_rules! entries {
    () => {
        fn mul(points: Points<Self>, k: &Scalar<Self>) -> Points<Self> {
            points.mul_on(Backend::chosen(), k)
        }

        fn encode(points: &Points<Self>, wire: &mut Vec<u8>) {
            points.encode_on(Backend::chosen(), wire);
        }

        fn base_table() -> &'static weierstrass::sums::Table<Self> {
            static TABLE: std::sync::OnceLock<weierstrass::sums::Table<Field>> = std::sync::OnceLock::new();
            TABLE.get_or_init(|| weierstrass::sums::Table::base_on(Backend::chosen()))
        }
    };
}
pub(crate) use entries;

/// What makes of a curve a group for RFC 9497's construction, elements as x.
macro_rules! oblivious {
    ($group:ty) => {
        impl crate::Oblivious for $group {
            const NUMBERS: crate::Numbers = crate::Numbers::Big;

            fn hash_bytes(dst: &Dst, inputs: &[u8], each: usize) -> Self::Points {
                Points::hash_on(Backend::chosen(), dst, Inputs::Bytes(inputs, each))
            }

            fn generator() -> Self::Points {
                Points::base_on(Backend::chosen())
            }
        }
    };
}
pub(crate) use oblivious;

/// The simplified map of Shallue, van de Woestijne and Ulas: RFC 9380, section 6.6.2.
pub(crate) struct Map {
    /// a of the curve that is hashed to.
    pub(crate) a: [u64; 4],
    /// b of it.
    pub(crate) b: [u64; 4],
    /// Z.
    pub(crate) z: i64,
    /// A square root of -Z.
    pub(crate) root: [u64; 4],
}

impl<C: Curve> Points<C> {
    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: Inputs) -> Self {
        let mut messages = Messages::new(dst, inputs);
        Self::map_on(backend, inputs.len(), |i| messages.expand(i))
    }

    /// Points from the bytes that `hash_to_field` makes two elements of: RFC 9380, section 5.2, with L = 48.
    fn map_on(backend: Backend, len: usize, uniform: impl FnMut(usize) -> [u8; 96]) -> Self {
        backend::run_on(backend, Hash { len, uniform, jacobian: false, curve: PhantomData })
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8], coins: &[u8; 32]) -> Result<Self, BadElement> {
        let points = read::<C>(wire)?;
        backend::run_on(backend, Decode { points, wire, coins })
    }

    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar<C>) -> Self {
        backend::run_on(backend, Multiply { points: self, k })
    }

    pub(crate) fn encode_on(&self, backend: Backend, wire: &mut Vec<u8>) {
        backend::run_on(backend, Encode { points: self, wire, with_bit: false });
    }
}

impl<C: Curve> crate::Points for Points<C> {
    type Scalar = Scalar<C>;

    fn len(&self) -> usize {
        self.len
    }

    fn mul(self, k: &Scalar<C>) -> Self {
        C::mul(self, k)
    }

    fn encode(&self, wire: &mut Vec<u8>) {
        C::encode(self, wire);
    }
}
