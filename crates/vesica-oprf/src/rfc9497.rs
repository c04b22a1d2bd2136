//! OPRF and VOPRF of RFC 9497 by the batch, and the same construction on other curves.
//!
//! \[RFC 9497\] Davidson, Faz-Hernandez, Sullivan, Wood, "Oblivious pseudorandom functions (OPRFs) using prime-order groups",
//! 2023, sections 3.3.1 and 3.3.2; \[JKK14\] Jarecki, Kiayias, Krawczyk, ASIACRYPT 2014 (2HashDH); one-more gap Diffie-Hellman in
//! the random-oracle model.
//!
//!   G, H   generator, and hash to the group     `G: Suite`   k, K   the server's scalar, and k·G     scalar, public
//!   r      the client's, one for each request   inverse      T      hash of input and element        Context::hash
//!
//! 1. S, once for all clients: k from a seed and what it is for; K to everybody.
//! 2. C -> S: { r·H(x) }.   S -> C: { k·r·H(x) }, and a proof of k where that was agreed on (`dleq`).
//! 3. F(y) = T(y, k·H(y)) for S;  F(x) = T(x, 1/r·k·r·H(x)) for C.
//!
//! Reveals: how many keys, to S. Under the decisional Diffie-Hellman assumption the r·H(x) of distinct x look like random
//! elements, although they share r (docs/src/design/13-oblivious-function.md). C gets F at no more keys than it sent elements.
//! Cost: a multiple a key for S, two for C, all of a request by one scalar; S another one for each key of its own.
//! Rounds: 1.   Bytes: WIRE of the group a key each way, and 64 for a proof.
//! Differs from the RFC: one r serves a request, instead of one for each input; every r has the distribution that the RFC asks
//! for, so servers and elements are the RFC's. The weights of the batched proof hash more (`dleq`). Of T's output the first 32 bytes are used. POPRF (mode 0x02) is not here.

use crate::dleq::{self, Sum};
use crate::function::{BATCH, BadAnswer, Blinded, ClientFunction, Output, ServerFunction, Unusable};
use sha2::{Digest as _, Sha256, Sha512};
use std::sync::Arc;
use vesica_curve::{BadElement, Curve25519, Dst, FourQ, Oblivious, P256Sec1, Provable};
use vesica_curve::{Points as _, Ristretto255, Secp256k1, SecretScalar, Sm2};
use vesica_session::SessionRng;
use vesica_types::{KeyDigest, Secret};
use zeroize::Zeroizing;

/// A group with what RFC 9497, section 4, asks of a cipher suite.
pub trait Suite: Oblivious {
    /// What the contexts of the suite start with: "OPRFV1-" where the suite is the RFC's, or a word of our own.
    const FAMILY: &'static str;
    /// Its name in them.
    const IDENTIFIER: &'static str;
    /// Whether T is SHA-512, or SHA-256.
    const LONG: bool;
    /// How its elements are summed up, if its answers can be proved.
    const SUM: Option<Sum<Self>>;
}

macro_rules! suite {
    ($group:ty, $family:literal, $identifier:literal, $long:literal, $sum:expr) => {
        impl Suite for $group {
            const FAMILY: &'static str = $family;
            const IDENTIFIER: &'static str = $identifier;
            const LONG: bool = $long;
            const SUM: Option<Sum<Self>> = $sum;
        }
    };
}

// RFC 9497, sections 4.1 and 4.3.
suite!(Ristretto255, "OPRFV1-", "ristretto255-SHA512", true, Some(<Ristretto255 as Provable>::sum));
suite!(P256Sec1, "OPRFV1-", "P256-SHA256", false, Some(<P256Sec1 as Provable>::sum));
// Ours: elements as one coordinate, which has no sign, so that they cannot be summed up.
suite!(Curve25519, "VesicaOPRFV1-", "curve25519-SHA256", false, None);
suite!(FourQ, "VesicaOPRFV1-", "FourQ-SHA256", false, None);
suite!(Secp256k1, "VesicaOPRFV1-", "secp256k1-SHA256", false, None);
suite!(Sm2, "VesicaOPRFV1-", "SM2-SHA256", false, None);

/// The server's side for the key that a seed and `info` name. What `info` says is public, and has fewer than 2^16 bytes; functions of one
/// seed and different `info` have nothing to do with each other.
///
/// # Errors
/// [`Unusable::NotVerifiable`] if that is asked of a group without proofs.
pub fn server<G: Suite>(
    verifiable: bool,
    seed: &Secret<[u8; 32]>,
    info: &[u8],
) -> Result<Box<dyn ServerFunction>, Unusable> {
    let context = Context::<G>::new(verifiable)?;
    let scalar = context.derive(seed.expose(), info);
    Ok(Box::new(Server::new(context, scalar)))
}

/// A client's side: for answers that are proved by `published`, a server's public key, or for answers that are not proved.
///
/// # Errors
/// [`Unusable::NotVerifiable`] if the group has no proofs; [`Unusable::PublicKey`] if the key is not one element of the group.
pub fn client<G: Suite>(published: Option<&[u8]>) -> Result<Box<dyn ClientFunction>, Unusable> {
    let context = Context::<G>::new(published.is_some())?;
    if let Some(public) = published {
        let elements = G::decode(public, &[0; 32]).map_err(Unusable::PublicKey)?;
        if elements.len() != 1 {
            return Err(Unusable::PublicKey(BadElement { index: elements.len().min(1), why: MISCOUNTED }));
        }
    }
    Ok(Box::new(Client { inner: Arc::new(Asker { context, public: published.unwrap_or_default().to_vec() }) }))
}

const MISCOUNTED: &str = "is missing, or one too many";

/// Keys that are hashed together when a store is prepared: a group shares some work among them.
const CHUNK: usize = 2048;

/// What the protocol's hashes are bound to: RFC 9497, section 3.1.
pub(crate) struct Context<G: Suite> {
    string: Vec<u8>,
    hash_to_group: Dst,
    /// If answers are proved.
    pub(crate) sum: Option<Sum<G>>,
    /// Whether a proof's weights hash all elements, see [`dleq`]. Only the RFC's vectors are made without.
    pub(crate) binds_all: bool,
}

impl<G: Suite> Context<G> {
    fn new(verifiable: bool) -> Result<Self, Unusable> {
        if verifiable && G::SUM.is_none() {
            return Err(Unusable::NotVerifiable(G::NAME));
        }
        let string = [G::FAMILY.as_bytes(), &[u8::from(verifiable)], b"-", G::IDENTIFIER.as_bytes()].concat();
        let hash_to_group = Dst::new(&[b"HashToGroup-", &string[..]].concat());
        Ok(Self { string, hash_to_group, sum: G::SUM.filter(|_| verifiable), binds_all: true })
    }

    /// A tag of this context.
    pub(crate) fn tag(&self, purpose: &str) -> Vec<u8> {
        [purpose.as_bytes(), &self.string].concat()
    }

    /// DeriveKeyPair: section 3.2.1.
    fn derive(&self, seed: &[u8; 32], info: &[u8]) -> G::Scalar {
        let dst = Dst::new(&self.tag("DeriveKeyPair"));
        let length = u16::try_from(info.len()).expect("what a key is for is short").to_be_bytes();
        let scalars = (0..=255u8).map(|counter| G::hash_to_number(&dst, &[seed, &length, info, &[counter]]));
        let scalar = scalars.into_iter().find_map(|number| G::Scalar::new(&number));
        scalar.expect("of 256 hashes not all are zero")
    }

    /// The suite's hash of parts.
    pub(crate) fn hash(parts: &[&[u8]]) -> Vec<u8> {
        match G::LONG {
            true => parts.iter().fold(Sha512::new(), |hash, part| hash.chain_update(part)).finalize().to_vec(),
            false => parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().to_vec(),
        }
    }

    /// T of inputs of `each` bytes and their elements: section 3.3.1, Finalize.
    fn finalize<'a>(inputs: &'a [u8], each: usize, elements: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
        inputs.chunks_exact(each).zip(elements.chunks_exact(G::WIRE)).map(move |(input, element)| {
            let lengths = [each, G::WIRE].map(|length| (length as u16).to_be_bytes());
            Self::hash(&[&lengths[0], input, &lengths[1], element, b"Finalize"])
        })
    }
}

fn output(hash: Vec<u8>) -> Output {
    Output(hash.as_chunks().0[0])
}

fn flat(keys: &[KeyDigest]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.0).collect()
}

struct Server<G: Suite> {
    context: Context<G>,
    scalar: G::Scalar,
    public: Vec<u8>,
}

impl<G: Suite> Server<G> {
    fn new(context: Context<G>, scalar: G::Scalar) -> Self {
        let mut public = Vec::new();
        G::generator().mul(&scalar).encode(&mut public);
        Self { context, scalar, public }
    }
}

impl<G: Suite> ServerFunction for Server<G> {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn element_bytes(&self) -> usize {
        G::WIRE
    }

    /// 3. F(y) = T(y, k·H(y))
    fn eval(&self, keys: &[KeyDigest], out: &mut Vec<Output>) {
        let mut elements = Vec::new();
        for keys in keys.chunks(CHUNK) {
            let inputs = flat(keys);
            elements.clear();
            G::hash_bytes(&self.context.hash_to_group, &inputs, KeyDigest::BYTES)
                .mul(&self.scalar)
                .encode(&mut elements);
            out.extend(Context::<G>::finalize(&inputs, KeyDigest::BYTES, &elements).map(output));
        }
    }

    /// 2. <- { B := r·H(x) };  -> { k·B }: nothing is computed on elements that are not of the group
    fn evaluate(&self, blinded: &[u8], coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
        match blinded.len().div_ceil(G::WIRE) {
            0 => return Err(BadElement { index: 0, why: "is missing" }),
            n if n > BATCH => return Err(BadElement { index: BATCH, why: "is one too many" }),
            _ => G::decode(blinded, coins)?.mul(&self.scalar).encode(out),
        }
        Ok(())
    }

    fn proof_bytes(&self) -> Option<usize> {
        self.context.sum.map(|_| dleq::PROOF)
    }

    fn prove(&self, blinded: &[u8], evaluated: &[u8], rng: &mut SessionRng) -> Vec<u8> {
        let mut coins = Zeroizing::new([0; 64]);
        rng.fill(coins.as_mut());
        let r = G::Scalar::from_uniform(&coins);
        dleq::prove(&self.context, &self.scalar, &self.public, blinded, evaluated, &r)
    }
}

struct Client<G: Suite> {
    inner: Arc<Asker<G>>,
}

struct Asker<G: Suite> {
    context: Context<G>,
    /// Empty if answers are not proved.
    public: Vec<u8>,
}

impl<G: Suite> ClientFunction for Client<G> {
    fn element_bytes(&self) -> usize {
        G::WIRE
    }

    fn proof_bytes(&self) -> Option<usize> {
        self.inner.context.sum.map(|_| dleq::PROOF)
    }

    fn blind(&self, keys: &[KeyDigest], rng: &mut SessionRng, wire: &mut Vec<u8>) -> Box<dyn Blinded> {
        assert!((1..=BATCH).contains(&keys.len()), "a request has 1 to {BATCH} keys");
        let mut coins = Zeroizing::new([0; 64]);
        rng.fill(coins.as_mut());
        let r = G::Scalar::from_uniform(&coins);
        Box::new(Request::new(Arc::clone(&self.inner), flat(keys), KeyDigest::BYTES, &r, wire))
    }
}

struct Request<G: Suite> {
    asker: Arc<Asker<G>>,
    inputs: Vec<u8>,
    each: usize,
    blinded: G::Points,
    inverse: G::Scalar,
}

impl<G: Suite> Request<G> {
    /// 2. -> { r·H(x) }
    fn new(asker: Arc<Asker<G>>, inputs: Vec<u8>, each: usize, r: &G::Scalar, wire: &mut Vec<u8>) -> Self {
        let blinded = G::hash_bytes(&asker.context.hash_to_group, &inputs, each).mul(r);
        blinded.encode(wire);
        Self { asker, inputs, each, blinded, inverse: r.inverse() }
    }

    /// 3. F(x) = T(x, 1/r·k·r·H(x)), whole
    fn finish(self, evaluated: &[u8], proof: Option<&[u8]>, coins: &[u8; 32]) -> Result<Vec<Vec<u8>>, BadAnswer> {
        let n = self.blinded.len();
        if evaluated.len() != n * G::WIRE {
            let index = n.min(evaluated.len() / G::WIRE);
            return Err(BadAnswer::Element(BadElement { index, why: MISCOUNTED }));
        }
        let answer = G::decode(evaluated, coins).map_err(BadAnswer::Element)?;
        let Asker { context, public } = &*self.asker;
        match (context.sum, proof) {
            (None, None) => {}
            (Some(sum), Some(proof)) => {
                if !dleq::verify(context, sum, public, &self.blinded, &answer, evaluated, proof) {
                    return Err(BadAnswer::Proof);
                }
            }
            _ => return Err(BadAnswer::Presence),
        }
        let mut elements = Vec::with_capacity(evaluated.len());
        answer.mul(&self.inverse).encode(&mut elements);
        Ok(Context::<G>::finalize(&self.inputs, self.each, &elements).collect())
    }
}

impl<G: Suite> Blinded for Request<G> {
    fn finalize(
        self: Box<Self>,
        evaluated: &[u8],
        proof: Option<&[u8]>,
        coins: &[u8; 32],
    ) -> Result<Vec<Output>, BadAnswer> {
        Ok(self.finish(evaluated, proof, coins)?.into_iter().map(output).collect())
    }
}

#[cfg(test)]
mod tests;
