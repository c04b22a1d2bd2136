//! A query as bytes: the seed of its uniform polynomials, and the ciphertexts. The keys of a session are written alike.

use super::encode::{equal, selector_bits};
use super::shape::Plan;
use super::{Ciphertext, HeError, Key, RlwePir, Scheme};
use crate::PirError;
use vesica_he::rlwe::SwitchKey;
use vesica_he::sample::{PublicStream, SEED_BYTES};
use vesica_he::{bfv, bgv};
use vesica_params::rlwe::{DIGIT_BITS, DIGITS};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// The query for a record.
pub(super) fn write(pir: &RlwePir, key: &Key, index: u64, rng: &mut SessionRng) -> Vec<u8> {
    let RlwePir { shape, ring, .. } = pir;
    let seed = PublicStream::seed(rng);
    let mut public = PublicStream::new(seed);
    let mut out = Vec::with_capacity(shape.query_bytes());
    out.extend(seed);
    let (block, at) = shape.place(index);
    for message in messages(pir, block, at) {
        ring.write(&ring.encrypt(key, &message, &mut public, rng), &mut out);
    }
    debug_assert_eq!(out.len(), shape.query_bytes());
    out
}

/// The keys of a session: one for each level of the expansion, and for two dimensions the one that carries s² to s.
pub(super) fn write_keys(pir: &RlwePir, key: &Key, rng: &mut SessionRng) -> Vec<u8> {
    let RlwePir { shape, ring, .. } = pir;
    let seed = PublicStream::seed(rng);
    let mut public = PublicStream::new(seed);
    let mut out = Vec::with_capacity(shape.keys_bytes());
    out.extend(seed);
    for g in ring.expansion_exponents(shape.leaves()) {
        ring.galois_key(key, g, &mut public, rng).iter().for_each(|b| ring.write(b, &mut out));
    }
    if shape.plan == Plan::Fold {
        ring.square_key(key, &mut public, rng).iter().for_each(|b| ring.write(b, &mut out));
    }
    debug_assert_eq!(out.len(), shape.keys_bytes());
    out
}

/// What the ciphertexts of a query encrypt, as residues. The time does not depend on the record's place.
fn messages(pir: &RlwePir, block: usize, at: usize) -> Vec<Zeroizing<Vec<u64>>> {
    let RlwePir { shape, ring, encoding } = pir;
    if shape.plan == Plan::Slots || shape.plan == Plan::Turn {
        let selector = |k| message(pir, &encoding.selector(shape, equal(k, block), at), 1);
        return (0..shape.blocks).map(selector).collect();
    }
    // The columns are a power of two if there is more than one row, so that this takes the same time for every block.
    let (row, column) = match shape.bits() {
        0 => (0, block),
        _ => (block >> shape.columns.ilog2(), block & (shape.columns - 1)),
    };
    let parts = 1 << shape.levels();
    let one = Zeroizing::new((0..shape.set.n).map(|k| (equal(k, column) & 1) as i64).collect::<Vec<i64>>());
    let mut message = message(pir, &one, parts);
    // A bit's powers are constants modulo q, and not in a message's place.
    let q = ring.basis().limb(0).modulus();
    for i in 0..shape.bits() {
        for r in 0..DIGITS {
            let power = q.mul(1 << (DIGIT_BITS as usize * r), q.inverse(parts));
            message[shape.columns + DIGITS * i + r] = power & ((row >> i & 1) as u64).wrapping_neg();
        }
    }
    vec![message]
}

/// Signed numbers, times what a one stands for over `divisor`, modulo each prime.
fn message(pir: &RlwePir, numbers: &[i64], divisor: u64) -> Zeroizing<Vec<u64>> {
    let RlwePir { shape, ring, .. } = pir;
    let mut words = Zeroizing::new(ring.basis().signed(shape.limbs, numbers));
    for (ntt, limb) in ring.basis().each(&mut words) {
        let q = ntt.modulus();
        let unit = match shape.scheme {
            Scheme::Bfv => bfv::unit(q, shape.set.plain),
            Scheme::Bgv => bgv::UNIT,
            // In slots the scale is in the numbers.
            Scheme::Ckks if shape.plan == Plan::Slots => 1,
            Scheme::Ckks => q.pow(2, selector_bits(shape) as u64),
        };
        ntt.scale(limb, q.factor(q.mul(unit, q.inverse(divisor))));
    }
    words
}

/// The ciphertexts of a query as it came, checked.
///
/// # Errors
/// [`PirError::Message`] if it has another length, or a number in it is no residue.
pub(super) fn read(pir: &RlwePir, query: &[u8]) -> Result<Vec<Ciphertext>, PirError> {
    let RlwePir { shape, ring, .. } = pir;
    due(query, shape.query_bytes())?;
    let (seed, rest) = query.split_first_chunk::<SEED_BYTES>().expect("a query is longer than its seed");
    let mut public = PublicStream::new(*seed);
    let one = |bytes: &[u8]| ring.read_ciphertext(bytes, &mut public);
    rest.chunks(ring.bytes(shape.limbs)).map(one).collect::<Result<_, _>>().map_err(wrong)
}

/// The keys of a session as they came, checked; none where queries need none.
///
/// # Errors
/// As [`read`].
pub(super) fn read_keys(pir: &RlwePir, keys: &[u8]) -> Result<Vec<SwitchKey>, PirError> {
    let RlwePir { shape, ring, .. } = pir;
    due(keys, shape.keys_bytes())?;
    let Some((seed, rest)) = keys.split_first_chunk::<SEED_BYTES>() else { return Ok(vec![]) };
    let mut public = PublicStream::new(*seed);
    let one = |bytes: &[u8]| ring.read_key(bytes, &mut public);
    rest.chunks(ring.key_bytes()).map(one).collect::<Result<_, _>>().map_err(wrong)
}

/// Fails for a message of another length.
pub(super) fn due(bytes: &[u8], expected: usize) -> Result<(), PirError> {
    if bytes.len() == expected { Ok(()) } else { Err(wrong(HeError::Length { got: bytes.len(), expected })) }
}

/// What is wrong with a message.
pub(super) fn wrong(why: HeError) -> PirError {
    PirError::Message(why.to_string())
}
