//! ristretto255: the group of prime order that RFC 9496 makes of edwards25519, and its hash of RFC 9497
//! (`ristretto255_XMD:SHA-512_R255MAP_RO_` of RFC 9380, appendix B).
//!
//! An element is a coset of four points of the curve `-x^2 + y^2 = 1 + d·x^2·y^2`; any of them stands for it, in extended
//! coordinates (X : Y : Z : T) with x = X/Z, y = Y/Z, xy = T/Z. Encodings are unique, nothing is of small order and there is
//! no cofactor: what a protocol can get wrong with plain Curve25519 cannot be said here. It costs a square root at each
//! end.

mod blind;
mod bytes;
mod combine;
mod hash;
mod multiply;
#[cfg(test)]
mod tests;

use crate::hash_to_curve::Inputs;
use crate::x25519::SCALARS;
use crate::{
    BadElement, Dst, Group, Numbers, Oblivious, Order, Provable, Residue, SecretScalar, backend, edwards, scalar,
};
use bytes::{Decode, Encode};
use combine::Combine;
use hash::Hash;
use multiply::Multiply;
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::{Zeroize, Zeroizing};

/// ristretto255 of RFC 9496.
#[derive(Clone, Copy, Debug)]
pub struct Ristretto255;

/// A secret scalar below the order of the group.
pub struct Scalar {
    words: [u64; 4],
    /// In radix 16, from the lowest; each from -8 to 8. The order has 253 bits, so 64 digits hold any scalar and its last
    /// carry.
    digits: [i8; 64],
}

impl Drop for Scalar {
    fn drop(&mut self) {
        self.words.zeroize();
        self.digits.zeroize();
    }
}

impl SecretScalar for Scalar {
    const ORDER: &'static Order = &SCALARS;

    fn from_uniform(bytes: &[u8; 64]) -> Self {
        Self::from_words(*Zeroizing::new(scalar::not_zero(SCALARS.reduce(bytes))))
    }

    fn from_words(words: [u64; 4]) -> Self {
        let all = Zeroizing::new(scalar::radix_16(&words));
        Self { words, digits: std::array::from_fn(|i| all[i]) }
    }

    fn words(&self) -> Zeroizing<[u64; 4]> {
        Zeroizing::new(self.words)
    }
}

/// A batch of elements.
pub struct Points {
    len: usize,
    /// X, Y, Z and T.
    blocks: Vec<edwards::Points>,
}

impl crate::Points for Points {
    type Scalar = Scalar;

    fn len(&self) -> usize {
        self.len
    }

    fn mul(self, k: &Scalar) -> Self {
        self.mul_on(Backend::chosen(), k)
    }

    fn encode(&self, wire: &mut Vec<u8>) {
        self.encode_on(Backend::chosen(), wire);
    }
}

impl Group for Ristretto255 {
    const NAME: &'static str = "ristretto255";
    const WIRE: usize = 32;
    type Scalar = Scalar;
    type Points = Points;

    fn hash(dst: &Dst, inputs: &[Digest]) -> Points {
        Points::hash_on(Backend::chosen(), dst, Inputs::Digests(inputs))
    }

    /// Every encoding is checked for itself, as the square root that reads it shows whether it is one, so there is nothing to
    /// toss coins for.
    fn decode(wire: &[u8], _coins: &[u8; 32]) -> Result<Points, BadElement> {
        Points::decode_on(Backend::chosen(), wire)
    }
}

impl Oblivious for Ristretto255 {
    const NUMBERS: Numbers = Numbers::Little;

    fn hash_bytes(dst: &Dst, inputs: &[u8], each: usize) -> Points {
        Points::hash_on(Backend::chosen(), dst, Inputs::Bytes(inputs, each))
    }

    fn generator() -> Points {
        Points::decode_on(Backend::chosen(), &blind::GENERATOR).expect("the generator is an element")
    }
}

impl Provable for Ristretto255 {
    fn sum(elements: &Points, weights: &[Residue]) -> Points {
        elements.sum_on(Backend::chosen(), weights)
    }
}

/// The same, on a given back end: for tests and benches.
impl Points {
    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: Inputs) -> Self {
        backend::run_on(backend, Hash { dst, inputs })
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8]) -> Result<Self, BadElement> {
        backend::run_on(backend, Decode { wire })
    }

    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar) -> Self {
        backend::run_on(backend, Multiply { points: self, k })
    }

    pub(crate) fn sum_on(&self, backend: Backend, weights: &[Residue]) -> Self {
        assert_eq!(self.len, weights.len(), "every element has a weight");
        Self { len: 1, blocks: vec![backend::run_on(backend, Combine { points: &self.blocks, weights })] }
    }

    pub(crate) fn encode_on(&self, backend: Backend, wire: &mut Vec<u8>) {
        backend::run_on(backend, Encode { points: self, wire });
    }
}
