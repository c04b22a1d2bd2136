//! Blinding on FourQ, for [`crate::Blind`].
//!
//! r has 255 bits: 2^255 is so close to a multiple of the order, which is about 2^254/392, that r is within 2^-125 of uniform.
//! Its multiples are sums of a table's entries ([`super::sums`]).
//!
//! **The cofactor.** Who decodes an element multiplies it by 392, the evaluator as well as the receiver. So the evaluator sends
//! k/392 times the blinded element, and what the receiver decodes is k times it, of prime order, at no cost to anybody.

#[cfg(test)]
pub(super) use super::sums::BITS;
pub(super) use super::sums::Digits;
use super::sums::{AddMultiples, MakeTable, Table};
use super::*;
use crate::blind;
use std::sync::OnceLock;

/// y of the generator, whose x has the sign 0: \[CL15\], section 2.2.
const GENERATOR: [u128; 2] = [0x0e3f_ee9b_a120_785a_b924_a246_2bcb_b287, 0x6e1c_4af8_630e_0242_49a7_c344_844c_8b5c];

/// The multiples of a point.
pub struct FourQKey(Table);

/// What undoes the blinding of a batch.
pub struct FourQBlinds(pub(super) Digits);

impl Blind for FourQ {
    const EVALUATED: usize = WIRE;
    type Key = FourQKey;
    type Blinds = FourQBlinds;

    fn public(k: &FourQScalar) -> Vec<u8> {
        public(Backend::chosen(), k)
    }

    fn key(public: &[u8]) -> Result<FourQKey, BadElement> {
        key(Backend::chosen(), public)
    }

    fn blind(dst: &Dst, inputs: &[Digest], random: &mut dyn FnMut(&mut [u8]), wire: &mut Vec<u8>) -> FourQBlinds {
        static BASE: OnceLock<FourQKey> = OnceLock::new();
        let base = BASE.get_or_init(|| base(Backend::chosen()));
        blind(Backend::chosen(), base, dst, inputs, Digits::draw(inputs.len(), random), wire)
    }

    fn evaluate(k: &FourQScalar, wire: &[u8], _coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
        evaluate(Backend::chosen(), k, wire, out)
    }

    fn unblind(
        key: &FourQKey,
        blinds: FourQBlinds,
        wire: &[u8],
        _coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        unblind(Backend::chosen(), key, &blinds, wire, out)
    }
}

pub(super) fn generator(backend: Backend) -> FourQPoints {
    let encoding = GENERATOR.map(u128::to_le_bytes);
    decode(backend, encoding.as_flattened()).expect("the curve's generator")
}

pub(super) fn base(backend: Backend) -> FourQKey {
    make_table(generator(backend))
}

pub(super) fn public(backend: Backend, k: &FourQScalar) -> Vec<u8> {
    let mut out = Vec::new();
    generator(backend).mul(k).encode(&mut out);
    out
}

pub(super) fn key(backend: Backend, public: &[u8]) -> Result<FourQKey, BadElement> {
    let points = decode(backend, public)?;
    blind::match_len(points.len, 1)?;
    Ok(make_table(points))
}

pub(super) fn blind(
    backend: Backend,
    base: &FourQKey,
    dst: &Dst,
    inputs: &[Digest],
    digits: Digits,
    wire: &mut Vec<u8>,
) -> FourQBlinds {
    let mut points = hash(backend, dst, Inputs::Digests(inputs));
    backend::run_on(
        backend,
        AddMultiples { words: &mut points.words, table: &base.0, digits: &digits, negative: false },
    );
    points.encode(wire);
    FourQBlinds(digits)
}

pub(super) fn evaluate(backend: Backend, k: &FourQScalar, wire: &[u8], out: &mut Vec<u8>) -> Result<(), BadElement> {
    decode(backend, wire)?.mul(&k.over_cofactor()).encode(out);
    Ok(())
}

pub(super) fn unblind(
    backend: Backend,
    key: &FourQKey,
    FourQBlinds(digits): &FourQBlinds,
    wire: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BadElement> {
    let mut points = decode(backend, wire)?;
    blind::match_len(points.len, digits.len())?;
    // What was decoded is 392 times what was sent: k times the blinded elements.
    points.cleared = false;
    backend::run_on(backend, AddMultiples { words: &mut points.words, table: &key.0, digits, negative: true });
    points.encode(out);
    Ok(())
}

/// The multiples of the only point of a batch.
fn make_table(point: FourQPoints) -> FourQKey {
    let point = point.mul(&FourQScalar::one());
    FourQKey(backend::run_on(point.backend, MakeTable(point.words)))
}
