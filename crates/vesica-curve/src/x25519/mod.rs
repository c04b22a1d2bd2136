//! Curve25519 by its Montgomery u: v^2 = u^3 + 486662·u^2 + u over the field of 2^255 - 19 elements.
//!
//! RFC 7748 for the ladder, RFC 9380 for the hash (suite `curve25519_XMD:SHA-512_ELL2_NU_`). Elements are the
//! u of points of the curve; u and -v are not told apart, which Diffie-Hellman does not mind. The group has cofactor 8: a
//! secret scalar is 8k with k uniform below the prime order, so any torsion in a received point is cleared by the
//! multiplication that uses it, and so is the cofactor of a hashed one.
//!
//! Not every u is on the curve: about half belong to its twist, and a multiple of a point of the twist is one too. A hash
//! that takes any u would brand half of all items with a bit that survives every masking; this one does not, and
//! [`Curve25519::decode`] refuses the twist.

mod blind;
mod bytes;
mod hash;
mod ladder;
#[cfg(test)]
mod tests;
mod uniform;

use crate::backend;
use crate::field::f25519::block::Block;
use crate::hash_to_curve::Inputs;
use crate::{BadElement, Dst, Group, Numbers, Oblivious, Order, SecretScalar, scalar};
use bytes::{Masks, OnTwist, read};
use hash::Hash;
use ladder::{Bits, Multiply};
pub use uniform::{Message, Secrets};
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::{Zeroize, Zeroizing};

/// Curve25519, elements as Montgomery u on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Curve25519;

/// 8k, for a secret k below the order of the prime subgroup.
pub struct Scalar {
    /// k, as bytes in little-endian order.
    k: [u8; 32],
}

impl Drop for Scalar {
    fn drop(&mut self) {
        self.k.zeroize();
    }
}

/// The order of the prime subgroup: 2^252 + 27742317777372353535851937790883648493.
pub(crate) const ORDER: [u64; 4] = [0x5812_631a_5cf5_d3ed, 0x14de_f9de_a2f7_9cd6, 0, 0x1000_0000_0000_0000];
/// Numbers modulo it.
pub(crate) static SCALARS: Order = Order::new(ORDER);

impl SecretScalar for Scalar {
    const ORDER: &'static Order = &SCALARS;

    fn from_uniform(bytes: &[u8; 64]) -> Self {
        Self::from_words(*Zeroizing::new(scalar::not_zero(SCALARS.reduce(bytes))))
    }

    fn from_words(words: [u64; 4]) -> Self {
        let words = Zeroizing::new(words);
        let mut k = [0; 32];
        for (bytes, word) in k.as_chunks_mut::<8>().0.iter_mut().zip(*words) {
            *bytes = word.to_le_bytes();
        }
        Self { k }
    }

    fn words(&self) -> Zeroizing<[u64; 4]> {
        let (words, _) = self.k.as_chunks::<8>();
        Zeroizing::new(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }

    /// 8j with 8j·8k = 1: j = 1/64k.
    fn inverse(&self) -> Self {
        let all = Zeroizing::new(SCALARS.product(&[64, 0, 0, 0], &self.words()));
        Self::from_words(*Zeroizing::new(SCALARS.inverse(&all)))
    }
}

/// Eight times u = 9, the base point: what fills the last block of a batch.
const FILLER: Block = Block::filled(9);

/// A batch of points of Curve25519.
pub struct Points {
    len: usize,
    /// u of each point.
    blocks: Vec<Block>,
}

/// For a batch whose points are secret.
impl Zeroize for Points {
    fn zeroize(&mut self) {
        self.blocks.zeroize();
        self.len = 0;
    }
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
        bytes::write(self, wire);
    }
}

impl Group for Curve25519 {
    const NAME: &'static str = "curve25519";
    const WIRE: usize = 32;
    type Scalar = Scalar;
    type Points = Points;

    /// Hashes by the suite `curve25519_XMD:SHA-512_ELL2_NU_`, onto about half of the curve.
    ///
    /// For Diffie-Hellman masking that is as good as the uniform suite: a simulator that wants an input to hash to a given
    /// element of the prime-order group divides it by 8, adds a random torsion point, and takes a preimage under the
    /// map, which exists every other time; since every point of the image has two preimages, the preimage is a
    /// uniform field element, as the hash's output should be. The book's design page 6 has the argument in full.
    fn hash(dst: &Dst, inputs: &[Digest]) -> Points {
        Points::hash_on(Backend::chosen(), dst, Inputs::Digests(inputs))
    }

    fn decode(wire: &[u8], coins: &[u8; 32]) -> Result<Points, BadElement> {
        Points::decode_on(Backend::chosen(), wire, coins)
    }
}

impl Oblivious for Curve25519 {
    const NUMBERS: Numbers = Numbers::Little;

    fn hash_bytes(dst: &Dst, inputs: &[u8], each: usize) -> Points {
        Points::hash_on(Backend::chosen(), dst, Inputs::Bytes(inputs, each))
    }

    /// u = 9, the base point.
    fn generator() -> Points {
        Points { len: 1, blocks: vec![FILLER] }
    }
}

/// The same, on a given back end: for tests and benches.
impl Points {
    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: Inputs) -> Self {
        backend::run_on(backend, Hash { dst, inputs })
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8], coins: &[u8; 32]) -> Result<Self, BadElement> {
        let points = read(wire)?;
        match backend::run_on(backend, OnTwist { points: &points, masks: &mut Masks::new(wire, coins) }) {
            Some(index) => Err(BadElement { index, why: "is not on the curve" }),
            None => Ok(points),
        }
    }

    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar) -> Self {
        let bits = Bits { bytes: &k.k, top: 252, doublings: 3 };
        backend::run_on(backend, Multiply { points: self, bits })
    }
}
