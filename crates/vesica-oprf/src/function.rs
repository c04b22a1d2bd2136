//! One key that answers many: an oblivious function without a channel, as a service needs it.
//!
//! A *server* holds a key for months. It evaluates the function at its own keys when it prepares its store, and at the keys
//! of others, which it does not see, when they ask. [`crate::rfc9497`] makes both sides for every curve. What stands here is
//! the same for all of them, so that no caller is generic over a curve.

use std::fmt;
use vesica_curve::BadElement;
use vesica_session::SessionRng;
use vesica_types::KeyDigest;

/// The most keys of a request: the batched proof counts its elements in 16 bits (RFC 9497, section 2.2.1).
pub const BATCH: usize = 65_535;

/// The function at one key. Whoever holds it can open what is sealed for that key, so it does not print.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Output(pub [u8; 32]);

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output(..)")
    }
}

/// The side that holds the secret scalar, which is wiped when it is dropped.
pub trait ServerFunction: Send + Sync {
    /// The public key K, in the encoding of the suite.
    fn public(&self) -> &[u8];

    /// Bytes of an element, blinded or evaluated.
    fn element_bytes(&self) -> usize;

    /// Appends the function at each key: constant time in the keys and in the scalar.
    fn eval(&self, keys: &[KeyDigest], out: &mut Vec<Output>);

    /// Appends an evaluated element for each blinded one, up to [`BATCH`]. `coins` are fresh random bytes that the client does
    /// not know: some checks are made on random combinations of the batch.
    ///
    /// # Errors
    /// The first element that is none of the group, is neutral or of small order; the first of more than [`BATCH`]. They
    /// depend on what was sent alone.
    fn evaluate(&self, blinded: &[u8], coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement>;

    /// Bytes of a proof; `None` if this function is not verifiable.
    fn proof_bytes(&self) -> Option<usize>;

    /// Proves that one scalar, the one of [`ServerFunction::public`], took all of `blinded` to `evaluated`: what one call of
    /// [`ServerFunction::evaluate`] was given and appended.
    ///
    /// # Panics
    /// If the function is not verifiable, or `blinded` is not what `evaluate` accepted, or is empty.
    fn prove(&self, blinded: &[u8], evaluated: &[u8], rng: &mut SessionRng) -> Vec<u8>;
}

/// The side that asks.
pub trait ClientFunction: Send + Sync {
    /// Bytes of an element, blinded or evaluated.
    fn element_bytes(&self) -> usize;

    /// Bytes of a proof; `None` if this function is not verifiable.
    fn proof_bytes(&self) -> Option<usize>;

    /// Appends a blinded element for each key. The keys must be distinct: the same key twice is the same element twice, and
    /// the server sees that.
    ///
    /// # Panics
    /// If there are more than [`BATCH`] keys.
    fn blind(&self, keys: &[KeyDigest], rng: &mut SessionRng, wire: &mut Vec<u8>) -> Box<dyn Blinded>;
}

/// A request that was sent, with the secret that hid its keys, which is wiped when it is dropped.
pub trait Blinded: Send {
    /// The function at the keys, in their order, from the server's answer and, if the function is verifiable, its proof.
    /// `coins` are fresh random bytes that the server does not know.
    ///
    /// # Errors
    /// What is wrong with the answer. It depends on what was sent alone, never on the keys or on what hid them.
    fn finalize(
        self: Box<Self>,
        evaluated: &[u8],
        proof: Option<&[u8]>,
        coins: &[u8; 32],
    ) -> Result<Vec<Output>, BadAnswer>;
}

/// What is wrong with a server's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadAnswer {
    /// An element is none, or is missing.
    Element(BadElement),
    /// There is a proof where none belongs, or none where one belongs.
    Presence,
    /// The proof fails: the answer is not by the key that was published.
    Proof,
}

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadAnswer::Element(bad) => bad.fmt(f),
            BadAnswer::Presence => {
                f.write_str("a proof must come with the answer of a verifiable function, and with no other")
            }
            BadAnswer::Proof => f.write_str("the proof that the answer is by the published key fails"),
        }
    }
}

impl std::error::Error for BadAnswer {}

/// Why there is no such function, or no client of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The group has no proofs.
    NotVerifiable(&'static str),
    /// What was given as the public key is none.
    PublicKey(BadElement),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::NotVerifiable(group) => write!(
                f,
                "an answer on {group} cannot be proved: RFC 9497 defines the proof for ristretto255 and p256; take one of them, \
                 or leave `verifiable` out"
            ),
            Unusable::PublicKey(bad) => write!(f, "the public key is none: {bad}"),
        }
    }
}

impl std::error::Error for Unusable {}
