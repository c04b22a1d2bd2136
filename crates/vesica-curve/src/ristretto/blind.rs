//! Blinding: a party multiplies elements for another party, which does not show them.

use super::{Points, Ristretto255, Scalar};
use crate::backend;
use crate::blind::{self, Blind, Digits};
use crate::edwards::{self, AddMultiples, Multiples, NegativeMultiples};
use crate::hash_to_curve::Inputs;
use crate::{BadElement, Dst, Group};
use vesica_cpu::Backend;
use vesica_types::Digest;

impl Blind for Ristretto255 {
    /// Encodings are unique here, and an element's negative has another: there is no bit to add.
    const EVALUATED: usize = Self::WIRE;
    type Key = Multiples;
    type Blinds = Digits<{ edwards::WORDS }>;

    fn public(k: &Scalar) -> Vec<u8> {
        let mut public = Vec::new();
        Self::evaluate_on(Backend::chosen(), k, &GENERATOR, &mut public).expect("the generator is an element");
        public
    }

    fn key(public: &[u8]) -> Result<Multiples, BadElement> {
        let points = Points::decode_on(Backend::chosen(), public)?;
        blind::match_len(points.len, 1)?;
        Ok(backend::dispatch(NegativeMultiples(&points.blocks[0])))
    }

    fn blind(dst: &Dst, inputs: &[Digest], random: &mut dyn FnMut(&mut [u8]), wire: &mut Vec<u8>) -> Self::Blinds {
        let digits = Digits::draw(inputs.len(), random);
        Self::blind_on(Backend::chosen(), dst, inputs, &digits, wire);
        digits
    }

    fn evaluate(k: &Scalar, wire: &[u8], _coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
        Self::evaluate_on(Backend::chosen(), k, wire, out)
    }

    fn unblind(
        key: &Multiples,
        blinds: Self::Blinds,
        wire: &[u8],
        _coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        Self::unblind_on(Backend::chosen(), key, &blinds, wire, out)
    }
}

/// The same, on a given back end.
impl Ristretto255 {
    pub(super) fn blind_on(
        backend: Backend,
        dst: &Dst,
        inputs: &[Digest],
        digits: &Digits<{ edwards::WORDS }>,
        wire: &mut Vec<u8>,
    ) {
        let mut points = Points::hash_on(backend, dst, Inputs::Digests(inputs));
        let windows = edwards::generator().of_prime_order();
        backend::run_on(backend, AddMultiples { points: &mut points.blocks, windows, digits });
        points.encode_on(backend, wire);
    }

    pub(super) fn evaluate_on(backend: Backend, k: &Scalar, wire: &[u8], out: &mut Vec<u8>) -> Result<(), BadElement> {
        Points::decode_on(backend, wire)?.mul_on(backend, k).encode_on(backend, out);
        Ok(())
    }

    pub(super) fn unblind_on(
        backend: Backend,
        key: &Multiples,
        digits: &Digits<{ edwards::WORDS }>,
        wire: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let mut points = Points::decode_on(backend, wire)?;
        blind::match_len(points.len, digits.len())?;
        backend::run_on(backend, AddMultiples { points: &mut points.blocks, windows: key.all(), digits });
        points.encode_on(backend, out);
        Ok(())
    }
}

/// The encoding of the generator: RFC 9496, section 4.3.
pub(super) const GENERATOR: [u8; 32] = [
    0xe2, 0xf2, 0xae, 0x0a, 0x6a, 0xbc, 0x4e, 0x71, 0xa8, 0x84, 0xa9, 0x61, 0xc5, 0x00, 0x51, 0x5f, 0x58, 0xe3, 0x0b,
    0x6a, 0xa5, 0x82, 0xdd, 0x8d, 0xb6, 0xa6, 0x59, 0x45, 0xe0, 0x8d, 0x2d, 0x76,
];
