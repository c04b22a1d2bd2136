//! The group against RFC 9496, RFC 9497 and curve25519-dalek, on every back end.

use super::hash::FromUniform;
use super::*;
use crate::backend::Kernel;
use crate::blind::{self, Blind, Digits};
use crate::edwards::NEUTRAL;
use crate::field::Lanes;
use crate::{Points as _, hash_to_curve};
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use serde_json::Value;
use sha2::Digest as _;

fn encoded(backend: Backend, points: &Points) -> Vec<[u8; 32]> {
    let mut wire = Vec::new();
    points.encode_on(backend, &mut wire);
    wire.as_chunks().0.to_vec()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn text(value: &Value) -> Vec<u8> {
    hex(value.as_str().unwrap())
}

fn bytes<const N: usize>(seed: u64) -> [u8; N] {
    let mut out = [0; N];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

fn digests(n: usize) -> Vec<Digest> {
    (0..n as u64).map(|i| Digest(bytes(i))).collect()
}

/// The scalar with these bytes, if they are below the order.
fn scalar(bytes: &[u8]) -> Scalar {
    let mut wide = [0; 64];
    wide[..bytes.len()].copy_from_slice(bytes);
    Scalar::from_uniform(&wide)
}

/// Derives the same element in every lane of one vector, from bytes that were expanded elsewhere.
struct Derive<'a>(&'a [u8]);

impl Kernel for Derive<'_> {
    type Out = Points;
    fn run<V: Lanes>(self) -> Points {
        let word = |i: usize| V::splat(u64::from_be_bytes(self.0[8 * i..8 * i + 8].try_into().unwrap()));
        let mut blocks = vec![NEUTRAL];
        V::call(FromUniform(std::array::from_fn(word))).store(&mut blocks[0], 0);
        Points { len: 1, blocks }
    }
}

const SIZES: [usize; 11] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 31];

fn rfc_9496() -> Value {
    serde_json::from_str(include_str!("../../../../vectors/rfc/rfc9496_ristretto255.json")).unwrap()
}

#[test]
fn multiples_follow_rfc_9496() {
    let file = rfc_9496();
    let multiples: Vec<_> = file["multiples"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(multiples.len(), 16);
    for backend in Backend::available() {
        for (k, want) in multiples.iter().enumerate().skip(1) {
            let generator = Points::decode_on(backend, &multiples[1]).unwrap();
            let product = generator.mul_on(backend, &scalar(&[k as u8]));
            assert_eq!(encoded(backend, &product)[0][..], want[..], "{backend}, {k}");
        }
        assert_eq!(encoded(backend, &Points { len: 9, blocks: vec![NEUTRAL; 2] }), [[0; 32]; 9]);
    }
}

#[test]
fn invalid_encodings_of_rfc_9496_are_refused_by_index() {
    let generator =
        encoded(Backend::Portable, &Points::hash_on(Backend::Portable, &Dst::new(b"x"), Inputs::Digests(&digests(1))))
            [0];
    for backend in Backend::available() {
        let file = rfc_9496();
        let mut bad: Vec<_> = file["invalid"].as_array().unwrap().iter().map(text).collect();
        bad.push(vec![0; 32]);
        for bad in bad {
            for (n, index) in [(1, 0), (12, 0), (12, 3), (12, 11)] {
                let mut wire = vec![generator; n];
                wire[index].copy_from_slice(&bad);
                let error = Points::decode_on(backend, wire.as_flattened()).err().map(|error| error.index);
                assert_eq!(error, Some(index), "{backend} {bad:x?}");
            }
        }
        let error = Points::decode_on(backend, &[generator; 3].as_flattened()[..90]).err();
        assert_eq!(error, Some(BadElement { index: 2, why: "is cut short" }));
    }
}

#[test]
fn derivation_follows_rfc_9496() {
    for vector in rfc_9496()["from_uniform"].as_array().unwrap() {
        for backend in Backend::available() {
            let points = backend::run_on(backend, Derive(&text(&vector["input"])));
            assert_eq!(encoded(backend, &points)[0][..], text(&vector["output"])[..], "{backend}");
        }
    }
}

#[test]
fn oprf_of_rfc_9497() {
    let file: Value = serde_json::from_str(include_str!("../../../../vectors/rfc/rfc9497_ristretto255.json")).unwrap();
    let suite = file["suites"].as_array().unwrap().iter().find(|suite| suite["mode"] == 0).unwrap();
    let dst = Dst::new(&text(&suite["groupDST"]));
    let key = scalar(&text(&suite["skSm"]));
    for vector in suite["vectors"].as_array().unwrap() {
        let input = text(&vector["Input"]);
        let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&[&input], &dst, 64);
        for backend in Backend::available() {
            let hashed = || backend::run_on(backend, Derive(&uniform));
            let blinded = encoded(backend, &hashed().mul_on(backend, &scalar(&text(&vector["Blind"]))));
            assert_eq!(blinded[0][..], text(&vector["BlindedElement"])[..], "{backend}");
            let evaluated = Points::decode_on(backend, &blinded[0]).unwrap().mul_on(backend, &key);
            assert_eq!(encoded(backend, &evaluated)[0][..], text(&vector["EvaluationElement"])[..], "{backend}");
            // What unblinding gives.
            let issued = encoded(backend, &hashed().mul_on(backend, &key));
            let mut hash = sha2::Sha512::new();
            for part in [&input[..], &issued[0]] {
                hash.update((part.len() as u16).to_be_bytes());
                hash.update(part);
            }
            hash.update(b"Finalize");
            assert_eq!(hash.finalize()[..], text(&vector["Output"])[..], "{backend}");
        }
    }
}

#[test]
fn every_back_end_agrees_with_dalek_at_every_size() {
    let dst = Dst::new(b"ristretto255_XMD:SHA-512_R255MAP_RO_");
    let digests = digests(31);
    let hashed: Vec<RistrettoPoint> = digests
        .iter()
        .map(|digest| {
            let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&[&digest.0], &dst, 64);
            RistrettoPoint::from_uniform_bytes(&uniform.try_into().unwrap())
        })
        .collect();
    for seed in 0..4 {
        let uniform = if seed == 0 { [255; 64] } else { bytes(seed) };
        let k = Scalar::from_uniform(&uniform);
        let dalek = curve25519_dalek::Scalar::from_bytes_mod_order_wide(&uniform);
        let want: Vec<_> = hashed.iter().map(|point| (point * dalek).compress().to_bytes()).collect();
        for backend in Backend::available() {
            for n in SIZES {
                let points = Points::hash_on(backend, &dst, Inputs::Digests(&digests[..n]));
                assert_eq!(points.len(), n);
                assert_eq!(encoded(backend, &points.mul_on(backend, &k)), want[..n], "{backend}, {n}");
                let again = Points::decode_on(backend, want[..n].as_flattened()).unwrap();
                assert_eq!(encoded(backend, &again), want[..n], "{backend}, {n}");
            }
        }
    }
    assert!(hashed.iter().all(|point| CompressedRistretto(point.compress().to_bytes()).decompress().is_some()));
}

#[test]
fn scalars_have_signed_digits() {
    for seed in 0..50 {
        let uniform = if seed == 0 { [255; 64] } else { bytes(seed) };
        let k = Scalar::from_uniform(&uniform);
        assert!(k.digits.iter().all(|digit| (-8..=8).contains(digit)));
        let sum = k.digits.iter().rev().fold(curve25519_dalek::Scalar::ZERO, |sum, &digit| {
            let size = curve25519_dalek::Scalar::from(digit.unsigned_abs());
            sum * curve25519_dalek::Scalar::from(16u8) + if digit < 0 { -size } else { size }
        });
        assert_eq!(sum, curve25519_dalek::Scalar::from_bytes_mod_order_wide(&uniform));
    }
    assert_eq!(Scalar::from_uniform(&[0; 64]).digits[0], 1);
}

#[test]
fn blinding_agrees_with_dalek_on_every_back_end() {
    use curve25519_dalek::Scalar as Dalek;
    let dst = Dst::new(b"ristretto255_XMD:SHA-512_R255MAP_RO_");
    let digests = digests(31);
    let uniform = [9; 64];
    let (k, dalek_k) = (Scalar::from_uniform(&uniform), Dalek::from_bytes_mod_order_wide(&uniform));
    let key = Ristretto255::key(&Ristretto255::public(&k)).unwrap();
    // Random digits, and all of them at either bound.
    for fill in [None, Some(0), Some(255)] {
        let mut stream = blake3::Hasher::new().update(b"digits").finalize_xof();
        let mut random = |bytes: &mut [u8]| match fill {
            None => stream.fill(bytes),
            Some(byte) => bytes.fill(byte),
        };
        let digits = Digits::draw(digests.len(), &mut random);
        let mut want = [Vec::new(), Vec::new(), Vec::new()];
        for (i, digest) in digests.iter().enumerate() {
            let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&[&digest.0], &dst, 64);
            let hashed = RistrettoPoint::from_uniform_bytes(&uniform.try_into().unwrap());
            let r = blind::tests::digits_of(&digits, i, 51).into_iter().rev().fold(Dalek::ZERO, |sum, digit| {
                let size = Dalek::from(digit.unsigned_abs());
                sum * Dalek::from(32u8) + if digit < 0 { -size } else { size }
            });
            let blinded = hashed + RistrettoPoint::mul_base(&r);
            for (want, point) in want.iter_mut().zip([blinded, blinded * dalek_k, hashed * dalek_k]) {
                want.extend(point.compress().to_bytes());
            }
        }
        for backend in Backend::available() {
            let (mut blinded, mut evaluated, mut got) = (Vec::new(), Vec::new(), Vec::new());
            Ristretto255::blind_on(backend, &dst, &digests, &digits, &mut blinded);
            Ristretto255::evaluate_on(backend, &k, &blinded, &mut evaluated).unwrap();
            Ristretto255::unblind_on(backend, &key, &digits, &evaluated, &mut got).unwrap();
            assert!([blinded, evaluated, got] == want, "{backend} {fill:?}");
        }
    }
}
