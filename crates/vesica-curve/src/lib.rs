//! Prime-order groups by the batch.
//!
//! A batch of elements is multiplied by one secret scalar. Eight (or four, or one) *different* elements stand in the lanes
//! of a vector register and walk through the same steps together, because the scalar is the same for all of them; see
//! [`Group`] for the verbs, and `field` and `backend` for how one program serves every CPU.
//!
//! ```text
//! G::hash(&dst, &digests).mul(&k).encode(&mut wire);        // mask one's own items
//! G::decode(&wire, &coins)?.mul(&k).encode(&mut out);       // mask the peer's a second time
//! ```
//!
//! [`Blind`] has what else it takes to multiply an element for somebody who does not show it, and [`Oblivious`] what it takes
//! where one key serves many, by RFC 9497.

#![allow(clippy::needless_range_loop, reason = "limb arithmetic reads like its formula, index by index")]

mod backend;
mod blind;
mod edwards;
mod field;
mod fourq;
mod hash_to_curve;
mod messages;
mod oblivious;
mod p256;
mod ristretto;
mod scalar;
mod secp256k1;
mod sm2;
mod weierstrass;
mod x25519;

pub use blind::Blind;
pub use fourq::FourQ;
pub use oblivious::{Numbers, Oblivious, Provable};
pub use p256::{P256, P256Sec1};
pub use ristretto::Ristretto255;
pub use secp256k1::Secp256k1;
pub use sm2::Sm2;
pub use x25519::{Curve25519, Message, Secrets};

pub use scalar::{Order, Residue};

use std::fmt;
use vesica_types::Digest;
use zeroize::Zeroizing;

/// A group in which Diffie-Hellman is hard, with batches of its elements.
pub trait Group: Copy + Send + Sync + 'static {
    /// What the agreement and the report call it.
    const NAME: &'static str;
    /// Bytes of one encoded element.
    const WIRE: usize;
    /// Its secret scalars.
    type Scalar: SecretScalar;
    /// Its batches of elements.
    type Points: Points<Scalar = Self::Scalar>;

    /// Hashes each input to an element of which nobody knows the discrete logarithm, by a method of RFC 9380 or one
    /// of its kind, in time that does not depend on the inputs.
    fn hash(dst: &Dst, inputs: &[Digest]) -> Self::Points;

    /// Reads elements that a peer sent: `WIRE` bytes each, canonical, in the group and not of small order.
    ///
    /// `coins` are fresh random bytes that the peer does not know: some checks are made on random combinations of the
    /// batch, and a peer who could predict them could pass a bad element.
    ///
    /// # Errors
    /// The first element found bad. Bytes after the last whole element are a bad element too.
    fn decode(wire: &[u8], coins: &[u8; 32]) -> Result<Self::Points, BadElement>;
}

/// A batch of group elements. How it is laid out belongs to the group; elements leave it only as canonical bytes.
pub trait Points: Sized + Send {
    /// The scalars of the group.
    type Scalar;

    /// How many elements there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Multiplies every element by `k`: constant time in `k` and in the elements; the length is public.
    #[must_use]
    fn mul(self, k: &Self::Scalar) -> Self;

    /// Appends the canonical encoding of every element, in order.
    fn encode(&self, wire: &mut Vec<u8>);
}

/// A secret scalar: wiped when dropped, with neither `Debug` nor `Clone`, and never zero.
pub trait SecretScalar: Send + Sync + Sized {
    /// The order of the group.
    #[doc(hidden)]
    const ORDER: &'static Order;

    /// The scalar that 64 uniform bytes name: within 2^-128 of uniform over the non-zero scalars.
    fn from_uniform(bytes: &[u8; 64]) -> Self;

    /// The scalar of this number, which is not zero.
    #[doc(hidden)]
    fn from_words(words: [u64; 4]) -> Self;

    /// The scalar's number.
    #[doc(hidden)]
    fn words(&self) -> Zeroizing<[u64; 4]>;

    /// The scalar of a number; none if that is zero.
    fn new(number: &Residue) -> Option<Self> {
        (number.0 != [0; 4]).then(|| Self::from_words(number.0))
    }

    /// The scalar that takes `element.mul(self)` back to `element`, in the group: constant time.
    #[must_use]
    fn inverse(&self) -> Self {
        let inverse = Zeroizing::new(Self::ORDER.inverse(&self.words()));
        Self::from_words(*inverse)
    }

    /// `self - factor·other`: constant time.
    fn minus(&self, factor: &Residue, other: &Self) -> Residue {
        let product = Zeroizing::new(Self::ORDER.product(&factor.0, &other.words()));
        Residue(Self::ORDER.difference(&self.words(), &product))
    }
}

/// A domain separation tag of RFC 9380, section 3.1: two uses of a hash to a group with different tags are independent.
///
/// Up to 45 bytes, hashing with SHA-512 takes the fewest compressions.
#[derive(Clone, PartialEq, Eq)]
pub struct Dst {
    /// The tag, then its length in one byte: the `DST_prime` of RFC 9380, section 5.3.
    prime: Vec<u8>,
}

impl Dst {
    /// The most bytes that a tag may have; the RFC hashes longer ones, which nothing here needs.
    pub const MAX: usize = 255;

    /// The tag of these bytes.
    ///
    /// # Panics
    /// If there are none (the RFC forbids it), or more than [`Dst::MAX`].
    pub fn new(tag: &[u8]) -> Self {
        assert!(!tag.is_empty() && tag.len() <= Self::MAX, "a domain separation tag has 1 to 255 bytes");
        let mut prime = tag.to_vec();
        prime.push(tag.len() as u8);
        Self { prime }
    }

    /// The bytes of the tag.
    pub fn as_bytes(&self) -> &[u8] {
        &self.prime[..self.prime.len() - 1]
    }

    /// `DST_prime` of RFC 9380, section 5.3.
    #[allow(dead_code)]
    pub(crate) fn prime(&self) -> &[u8] {
        &self.prime
    }
}

impl fmt::Debug for Dst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dst({})", self.as_bytes().escape_ascii())
    }
}

/// What is wrong with a received element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadElement {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// What an element must be that this one is not, as in "element 3 is not a canonical encoding".
    pub why: &'static str,
}

impl fmt::Display for BadElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element {} {}", self.index, self.why)
    }
}

impl std::error::Error for BadElement {}
