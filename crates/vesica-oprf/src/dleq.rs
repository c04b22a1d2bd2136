//! That one scalar took many elements to many others: the batched proof of RFC 9497, section 2.2.
//!
//! \[CP92\] Chaum, Pedersen, "Wallet databases with observers", CRYPTO 1992, made non-interactive; batched as in Henry's thesis,
//! "Efficient zero-knowledge proofs and applications", 2014: equal logarithms of all pairs (C_i, D_i) and (G, K) show in one
//! pair of sums with weights d_i that hash all of them.
//!
//!   M, Z      Σ d_i·C_i, and k·M = Σ d_i·D_i        c, s   challenge, and r - c·k: the proof
//!   t2, t3    r·G and r·M
//!
//! **Differs from the RFC**: its seed of the weights is a hash of K alone, and so d_i one of the pair i alone. Then a server can
//! prove what is false. It answers D_i = k·C_i + e_i·G and is believed if Σ d_i·e_i = 0. As d_i hangs on e_i and on no other, it
//! can make a list of d_i·e_i for every i, and look for one entry of each that add up to 0: a generalized birthday problem
//! (D. Wagner, CRYPTO 2002), with 2^w lists 2^(w + 252/(w + 1)) work; for 2^16 pairs, 2^31. Here the seed hashes all elements,
//! so that nothing can be chosen once a weight is known. Section 7 of the RFC says that its batching has no analysis.
//!
//! The sums are of public elements with public weights, so their time may depend on them. What is multiplied by k or r is
//! multiplied in constant time.

use crate::rfc9497::{Context, Suite};
use vesica_curve::{Dst, Points as _, Residue, SecretScalar};

/// How a group sums up elements with public weights.
pub type Sum<G> = fn(&<G as vesica_curve::Group>::Points, &[Residue]) -> <G as vesica_curve::Group>::Points;

/// Bytes of a proof: c and s.
pub(crate) const PROOF: usize = 64;

/// GenerateProof, section 2.2.1, with the random scalar that it draws.
///
/// # Panics
/// If the function is not verifiable, or the elements are not the ones that were evaluated.
pub(crate) fn prove<G: Suite>(
    context: &Context<G>,
    k: &G::Scalar,
    public: &[u8],
    blinded: &[u8],
    evaluated: &[u8],
    r: &G::Scalar,
) -> Vec<u8> {
    let sum = context.sum.expect("proofs are asked of verifiable functions");
    let weights = weights(context, public, blinded, evaluated);
    let elements = decode::<G>(blinded).expect("elements that were evaluated");
    // ComputeCompositesFast: Z is k·M.
    let m = encoded::<G>(&sum(&elements, &weights));
    let times =
        |k: &G::Scalar| encoded::<G>(&decode::<G>(&m).expect("a sum with random weights is not neutral").mul(k));
    let (z, t3) = (times(k), times(r));
    let t2 = encoded::<G>(&G::generator().mul(r));
    let c = challenge(context, public, &m, &z, &t2, &t3);
    let s = r.minus(&c, k);
    [G::encode_number(&c), G::encode_number(&s)].concat()
}

/// VerifyProof, section 2.2.2: whether `answer`, as it was sent in `evaluated`, is `blinded` times the scalar of `public`.
pub(crate) fn verify<G: Suite>(
    context: &Context<G>,
    sum: Sum<G>,
    public: &[u8],
    blinded: &G::Points,
    answer: &G::Points,
    evaluated: &[u8],
    proof: &[u8],
) -> bool {
    let ([c, s], []) = proof.as_chunks::<32>() else { return false };
    let (Some(c), Some(s)) = (G::decode_number(c), G::decode_number(s)) else { return false };
    let weights = weights(context, public, &encoded::<G>(blinded), evaluated);
    // ComputeComposites.
    let m = encoded::<G>(&sum(blinded, &weights));
    let z = encoded::<G>(&sum(answer, &weights));
    // t2 = s·G + c·K, t3 = s·M + c·Z. A neutral sum has no encoding: with random weights no right answer makes one.
    let pair = |first: &[u8], second: &[u8]| {
        let elements = decode::<G>(&[first, second].concat())?;
        Some(encoded::<G>(&sum(&elements, &[s.clone(), c.clone()])))
    };
    let (Some(t2), Some(t3)) = (pair(&encoded::<G>(&G::generator()), public), pair(&m, &z)) else { return false };
    challenge(context, public, &m, &z, &t2, &t3) == c
}

/// d_i of each pair: a hash of its place and the pair, under a seed.
pub(crate) fn weights<G: Suite>(context: &Context<G>, public: &[u8], blinded: &[u8], evaluated: &[u8]) -> Vec<Residue> {
    let tag = context.tag("Seed-");
    let length = |part: &[u8]| (part.len() as u16).to_be_bytes();
    let all: &[&[u8]] = if context.binds_all { &[blinded, evaluated] } else { &[] };
    let seed = Context::<G>::hash(&[&[&length(public), public, &length(&tag), &tag], all].concat());
    let dst = scalar_tag(context);
    let pairs = blinded.chunks_exact(G::WIRE).zip(evaluated.chunks_exact(G::WIRE));
    (0..=u16::MAX)
        .zip(pairs)
        .map(|(i, (c, d))| {
            let number = i.to_be_bytes();
            let pair: [&[u8]; 8] = [&length(&seed), &seed, &number, &length(c), c, &length(d), d, b"Composite"];
            G::hash_to_number(&dst, &pair)
        })
        .collect()
}

pub(crate) fn challenge<G: Suite>(
    context: &Context<G>,
    public: &[u8],
    m: &[u8],
    z: &[u8],
    t2: &[u8],
    t3: &[u8],
) -> Residue {
    let mut transcript = Vec::new();
    for part in [public, m, z, t2, t3] {
        transcript.extend((part.len() as u16).to_be_bytes());
        transcript.extend(part);
    }
    G::hash_to_number(&scalar_tag(context), &[&transcript, b"Challenge"])
}

fn scalar_tag<G: Suite>(context: &Context<G>) -> Dst {
    Dst::new(&context.tag("HashToScalar-"))
}

fn encoded<G: Suite>(elements: &G::Points) -> Vec<u8> {
    let mut wire = Vec::new();
    elements.encode(&mut wire);
    wire
}

/// Elements of a group with proofs, each of which is checked for itself, so there is nothing to toss coins for.
fn decode<G: Suite>(wire: &[u8]) -> Option<G::Points> {
    G::decode(wire, &[0; 32]).ok()
}
