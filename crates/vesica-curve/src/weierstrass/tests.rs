//! What holds for each of the three curves, against the RustCrypto crates and big integers.

use super::layout::{load, store};
use super::*;
use crate::backend::Kernel;
use crate::hash_to_curve::expand_message_xmd;
use crate::scalar::subtract as difference;
use crate::{Points as _, SecretScalar, field::prime256};
use num_bigint::BigUint;
use vesica_types::Digest;

/// Another implementation of a curve.
pub(crate) trait Oracle: Curve {
    /// x of k·(the point with this x), if there is one.
    fn multiply(x: &[u8; 32], k: &[u8; 32]) -> Option<[u8; 32]>;
    /// x of the base point.
    fn base() -> [u8; 32];
    /// The sum of two compressed points, if there is one.
    fn sum(a: &[u8; 33], b: &[u8; 33]) -> Option<[u8; 33]>;
    /// The product of a compressed point.
    fn product(point: &[u8; 33], k: &[u8; 32]) -> [u8; 33];
    /// The compressed base point, and y of a compressed point.
    fn generator() -> [u8; 33];
    fn ordinate(point: &[u8; 33]) -> [u8; 32];
}

macro_rules! oracle {
    ($field:ty, $crate_:ident) => {
        impl Oracle for $field {
            fn multiply(x: &[u8; 32], k: &[u8; 32]) -> Option<[u8; 32]> {
                use $crate_::elliptic_curve::ff::PrimeField;
                use $crate_::elliptic_curve::point::{AffineCoordinates, DecompressPoint};
                let point = $crate_::AffinePoint::decompress(&(*x).into(), 0.into()).into_option()?;
                let k = $crate_::Scalar::from_repr((*k).into()).into_option().expect("a scalar below the order");
                Some(($crate_::ProjectivePoint::from(point) * k).to_affine().x().into())
            }
            fn base() -> [u8; 32] {
                use $crate_::elliptic_curve::point::AffineCoordinates;
                $crate_::AffinePoint::GENERATOR.x().into()
            }
            fn sum(a: &[u8; 33], b: &[u8; 33]) -> Option<[u8; 33]> {
                use $crate_::elliptic_curve::group::{Group, GroupEncoding};
                let [a, b] = [a, b].map(|p| $crate_::ProjectivePoint::from_bytes(&(*p).into()).unwrap());
                let sum = a + b;
                (!bool::from(sum.is_identity())).then(|| sum.to_bytes().into())
            }
            fn product(point: &[u8; 33], k: &[u8; 32]) -> [u8; 33] {
                use $crate_::elliptic_curve::{ff::PrimeField, group::GroupEncoding};
                let k = $crate_::Scalar::from_repr((*k).into()).into_option().expect("a scalar below the order");
                ($crate_::ProjectivePoint::from_bytes(&(*point).into()).unwrap() * k).to_bytes().into()
            }
            fn generator() -> [u8; 33] {
                use $crate_::elliptic_curve::group::GroupEncoding;
                $crate_::ProjectivePoint::GENERATOR.to_bytes().into()
            }
            fn ordinate(point: &[u8; 33]) -> [u8; 32] {
                use $crate_::elliptic_curve::{group::GroupEncoding, point::AffineCoordinates};
                $crate_::AffinePoint::from_bytes(&(*point).into()).unwrap().y().into()
            }
        }
    };
}
oracle!(crate::secp256k1::Field, k256);
oracle!(crate::sm2::Field, sm2);
oracle!(crate::p256::Field, p256);

/// A stream of numbers that is the same on every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next() as u8)
    }
    fn below(&mut self, bound: &[u64; 4]) -> [u64; 4] {
        loop {
            let x = [self.next(), self.next(), self.next(), self.next()];
            if x != [0; 4] && less(x, *bound) {
                return x;
            }
        }
    }
}

fn big(x: [u64; 4]) -> BigUint {
    BigUint::from_bytes_be(&bytes(x))
}

fn bytes(x: [u64; 4]) -> [u8; 32] {
    let mut out = [0; 32];
    for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(x.iter().rev()) {
        *bytes = word.to_be_bytes();
    }
    out
}

fn encoded<C: Curve>(points: &Points<C>, backend: Backend) -> Vec<u8> {
    let mut wire = Vec::new();
    points.encode_on(backend, &mut wire);
    wire
}

fn digests(n: usize) -> Vec<Digest> {
    let mut numbers = Numbers(n as u64);
    (0..n).map(|_| Digest(numbers.bytes())).collect()
}

const SIZES: [usize; 9] = [0, 1, 3, 4, 5, 9, 17, 31, 1000];
const COINS: [u8; 32] = [7; 32];

// ---- The field.

/// Arithmetic on pairs of values at their bounds: for each pair the limbs of what each operation gives, in plain form.
struct FieldOps<'a, F>(&'a [[u64; 5]], PhantomData<F>);

impl<F: Prime> Kernel for FieldOps<'_, F> {
    type Out = Vec<[[u64; 5]; 10]>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let mut out = Vec::new();
        let values = self.0;
        for (i, a) in values.iter().enumerate() {
            for at in (0..values.len()).step_by(V::WIDTH) {
                let mut rows = [[0u64; 8]; 5];
                for lane in 0..V::WIDTH {
                    for (row, limb) in rows.iter_mut().zip(values[(at + lane) % values.len()]) {
                        row[lane] = limb;
                    }
                }
                let (a, b): (Limbs<V>, Limbs<V>) = (splat(*a), load(&rows, 0));
                let tight_a = prime256::tight::<F, V>(prime256::add(&a, &splat(Held::<F>::BIAS)));
                let tight_b = prime256::tight::<F, V>(prime256::add(&b, &splat(Held::<F>::BIAS)));
                let product = mul_raw::<F, V>(&a, &b);
                let square = square_raw::<F, V>(&tight_b);
                let thrice = ripple(prime256::add(&prime256::add(&square, &square), &square));
                let minuses = prime256::add(&minus::<F, V>(&tight_a), &minus::<F, V>(&tight_b));
                let twice = mul_add::<F, V>(&a, &b, &product);
                let results = [
                    mul::<F, V>(&a, &b),
                    carry(mul_loose::<F, V>(&mul_loose::<F, V>(&a, &b), &b).map(|limb| limb.and(V::splat(LOW_52)))),
                    carry(square_raw::<F, V>(&b)),
                    carry(square_add_twice::<F, V>(&b, &minus::<F, V>(&tight_a))),
                    prime256::tight::<F, V>(mul_add::<F, V>(&a, &b, &minus::<F, V>(&tight_b))),
                    prime256::tight::<F, V>(prime256::add(&tight_a, &minus::<F, V>(&tight_b))),
                    prime256::tight::<F, V>(prime256::add(&product, &minuses)),
                    prime256::tight::<F, V>(prime256::add(&twice, &splat(Held::<F>::BIAS))),
                    mul::<F, V>(&thrice, &ripple(product)),
                    carry(product),
                ];
                let results = results.map(|result| {
                    let mut rows = [[0u64; 8]; 5];
                    store(&mut rows, 0, &plain::<F, V>(&result));
                    rows
                });
                for lane in 0..V::WIDTH.min(values.len() - at) {
                    out.push(results.map(|rows| rows.map(|row| row[lane])));
                }
                let _ = i;
            }
        }
        out
    }
}

fn field_at_its_bounds<F: Prime>() {
    // Values below 2^258.8, the bound of the module: limbs of all ones, of zeros, of single bits, multiples of p.
    let top = (1 << 50) + (1 << 49) + (1 << 48) - 1; // 1.75 · 2^258, a little above 2^258.8
    let both = (1 << 52) - (1 << 26) + 1;
    let mut values: Vec<[u64; 5]> = vec![
        [0; 5],
        [1, 0, 0, 0, 0],
        [LOW_52, LOW_52, LOW_52, LOW_52, top],
        [LOW_52, 0, 0, 0, 0],
        [0, 0, 0, 0, top],
        [0, LOW_52, 0, LOW_52, 0],
        [LOW_52, 0, LOW_52, 0, top],
        [LOW_52, LOW_52, LOW_52, LOW_52, LOW_48 + (1 << 26)],
        // With limbs of all ones, these have the least low parts (-2^51 + 1) and the largest (2^51 - 1).
        [(1 << 51) - 1, (1 << 51) - 1, (1 << 51) - 1, (1 << 51) - 1, (1 << 50) - 1],
        [(1 << 51) + 1, (1 << 51) + 1, (1 << 51) + 1, (1 << 51) + 1, (1 << 50) + 1],
        // With odd limbs, all low parts of these are halfway between two multiples of 2^52.
        [1 << 51, 1 << 51, 1 << 51, 1 << 51, 1 << 50],
        // Of this one's square, both parts are near 2^52: column 4 is the largest there is.
        [both, both, both, both, (1 << 26) + 2],
        // The sum of one's products is negative in column 4 alone.
        [3 << 50, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
        limbs(F::P),
        Held::<F>::ONE,
        Held::<F>::of([F::P[0] - 1, F::P[1], F::P[2], F::P[3]]),
    ];
    let mut numbers = Numbers(1);
    for i in 0..30 {
        let mut x: [u64; 5] = std::array::from_fn(|_| numbers.next() & LOW_52);
        x[4] %= if i % 2 == 0 { top } else { LOW_48 };
        x[i % 5] &= if i % 3 == 0 { 0 } else { LOW_48 };
        values.push(x);
    }
    let p = big(F::P);
    // Montgomery's reduction makes about 2^208 of the product of these and 1: the last column of the raw result is negative.
    for i in 9..30u64 {
        let quotient = (BigUint::from(i) << 208) + (BigUint::from(numbers.next()) << (3 * i));
        let multiple = &quotient * &p;
        let x: BigUint = (((&multiple >> 260) + 1u8) << 260) - multiple;
        let mut digits = x.to_u64_digits();
        digits.resize(5, 0);
        let mut x = limbs([digits[0], digits[1], digits[2], digits[3]]);
        x[4] |= digits[4] << 48;
        if x[4] < top {
            values.push(x);
        }
    }
    let value = |x: [u64; 5]| x.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 52) + limb);
    let one = BigUint::from(1u8);
    let r_inverse = (one.clone() << F::DOMAIN).modinv(&p).unwrap();
    for backend in Backend::available() {
        let out = backend::run_on(backend, FieldOps::<F>(&values, PhantomData));
        let pairs = values.iter().flat_map(|a| values.iter().map(move |b| (a, b)));
        for ((a, b), results) in pairs.zip(out) {
            // As integers outside of the domain.
            let (a, b) = (value(*a) * &r_inverse % &p, value(*b) * &r_inverse % &p);
            let want = [
                &a * &b % &p,
                &a * &b * &b % &p,
                &b * &b % &p,
                (&b * &b + (&p - &a) * 2u8) % &p,
                (&a * &b + (&p - &b)) % &p,
                (&a + (&p - &b)) % &p,
                (&a * &b + (&p - &a) + (&p - &b)) % &p,
                &a * &b * 2u8 % &p,
                &b * &b * 3u8 * &a * &b % &p,
                &a * &b % &p,
            ];
            for (i, (result, want)) in results.iter().zip(want).enumerate() {
                assert_eq!(value(*result), want, "{backend}, operation {i}");
            }
        }
    }
}

#[test]
fn fields_at_their_bounds() {
    field_at_its_bounds::<crate::secp256k1::Field>();
    field_at_its_bounds::<crate::sm2::Field>();
    field_at_its_bounds::<crate::p256::Field>();
}

fn constants_hold<C: Curve>() {
    let (p, n) = (big(C::P), big(C::ORDER));
    let one = BigUint::from(1u8);
    let z = BigUint::from(C::MAP.z.unsigned_abs());
    assert!(C::MAP.z < 0);
    assert_eq!(big(C::MAP.root).modpow(&BigUint::from(2u8), &p), z, "the root of -Z");
    // The chain's exponent is (p - 3)/4: it is walked with integers.
    let mut registers = vec![one.clone(); 8];
    let mut last = one.clone();
    for step in C::CHAIN {
        last = (&registers[step.from] << step.squarings) + &registers[step.by];
        registers[step.to] = last.clone();
    }
    assert_eq!(last, (&p - 3u8) >> 2);
    if let Some(beta) = C::BETA {
        assert!(big(beta) != one && big(beta).modpow(&BigUint::from(3u8), &p) == one);
    }
    assert!(n.bit(0) && p.bit(0) && p.bit(1));
}

#[test]
fn constants() {
    constants_hold::<crate::secp256k1::Field>();
    constants_hold::<crate::sm2::Field>();
    constants_hold::<crate::p256::Field>();
}

// ---- The group.

/// Points that the oracle knows, on the wire: small multiples of the base point, and small x that have one.
fn known<C: Oracle>() -> Vec<[u8; 32]> {
    let mut out: Vec<[u8; 32]> = (1..=8u8)
        .map(|k| {
            let mut scalar = [0; 32];
            scalar[31] = k;
            C::multiply(&C::base(), &scalar).unwrap()
        })
        .collect();
    let one = bytes([1, 0, 0, 0]);
    let mut edges: Vec<[u8; 32]> = (0..10).map(|x| bytes([x, 0, 0, 0])).collect();
    let p = big(C::P);
    edges.extend((1..10u8).map(|x| <[u8; 32]>::try_from((&p - x).to_bytes_be()).unwrap()));
    // Limbs at their bounds.
    edges.push(bytes([u64::MAX, 0, 0, 0]));
    edges.push(bytes([0, 0, 0, 1 << 63]));
    edges.push(bytes([(1 << 52) - 1, 0, 0, 0]));
    out.extend(edges.into_iter().filter(|x| C::multiply(x, &one).is_some()));
    // Eight multiples, and of the 22 edges those that are on the curve: five on SM2, more on the others.
    assert!(out.len() >= 13);
    out
}

fn agrees_with_the_oracle<C: Oracle>() {
    let points = known::<C>();
    let wire = points.concat();
    let mut numbers = Numbers(2);
    let n = C::ORDER;
    let mut scalars = vec![[1, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0], [16, 0, 0, 0], [u64::MAX; 4]];
    scalars[4] = difference(&n, &[1, 0, 0, 0]).0;
    scalars.extend([2, 3, 8, 16, 93].map(|d| difference(&n, &[d, 0, 0, 0]).0));
    // The middle of the range, where k and n - k change places; a run of ones; one bit.
    scalars.push([n[0] >> 1 | n[1] << 63, n[1] >> 1 | n[2] << 63, n[2] >> 1 | n[3] << 63, n[3] >> 1]);
    scalars.push([u64::MAX, u64::MAX, 0, 0]);
    scalars.push([0, 0, 0, 1 << 63]);
    scalars.extend((0..5).map(|_| numbers.below(&n)));
    for backend in Backend::available() {
        for k in &scalars {
            let product = Points::<C>::decode_on(backend, &wire, &COINS).unwrap();
            assert_eq!(encoded(&product, backend), wire, "decode and encode, {backend}");
            let product = product.mul_on(backend, &Scalar::from_words(*k));
            let want: Vec<u8> = points.iter().flat_map(|x| C::multiply(x, &bytes(*k)).unwrap()).collect();
            assert!(encoded(&product, backend) == want, "{k:x?}, {backend}");
        }
    }
}

#[test]
fn secp256k1_agrees_with_k256() {
    agrees_with_the_oracle::<crate::secp256k1::Field>();
}

#[test]
fn sm2_agrees_with_sm2() {
    agrees_with_the_oracle::<crate::sm2::Field>();
}

#[test]
fn p256_agrees_with_p256() {
    agrees_with_the_oracle::<crate::p256::Field>();
}

/// Every digit of every small scalar and its opposite: where accumulator and table come closest.
fn small_scalars<C: Oracle>() {
    let backend = Backend::chosen();
    let base = C::base();
    for k in 1..200 {
        let words = [k, 0, 0, 0];
        let want = C::multiply(&base, &bytes(words)).unwrap();
        for words in [words, difference(&C::ORDER, &words).0] {
            let points = Points::<C>::decode_on(backend, &base, &COINS).unwrap();
            assert_eq!(encoded(&points.mul_on(backend, &Scalar::from_words(words)), backend), want, "{words:?}");
        }
    }
}

#[test]
fn small_scalars_have_no_exception() {
    small_scalars::<crate::secp256k1::Field>();
    small_scalars::<crate::sm2::Field>();
    small_scalars::<crate::p256::Field>();
}

fn back_ends_agree<C: Oracle>() {
    let dst = Dst::new(b"vesica test of back ends");
    let mut numbers = Numbers(3);
    for n in SIZES {
        let inputs = digests(n);
        let k = Scalar::<C>::from_uniform(&numbers.bytes());
        let run = |backend| {
            let hashed = Points::<C>::hash_on(backend, &dst, Inputs::Digests(&inputs));
            let plain = encoded(&hashed, backend);
            let masked = encoded(&hashed.mul_on(backend, &k), backend);
            let decoded = Points::<C>::decode_on(backend, &plain, &COINS).unwrap();
            assert_eq!(decoded.len(), n);
            assert_eq!(encoded(&decoded.mul_on(backend, &k), backend), masked);
            (plain, masked)
        };
        let want = run(Backend::Portable);
        assert_eq!(want.0.len(), n * 32);
        for (x, y) in want.0.as_chunks().0.iter().zip(want.1.as_chunks::<32>().0).step_by(97) {
            assert_eq!(C::multiply(x, &bytes(k.words)).as_ref(), Some(y));
        }
        for backend in Backend::available() {
            assert!(run(backend) == want, "{n} elements, {backend}");
        }
    }
}

#[test]
fn back_ends_agree_on_secp256k1() {
    back_ends_agree::<crate::secp256k1::Field>();
}

#[test]
fn back_ends_agree_on_sm2() {
    back_ends_agree::<crate::sm2::Field>();
}

#[test]
fn back_ends_agree_on_p256() {
    back_ends_agree::<crate::p256::Field>();
}

fn masks_commute<C: Oracle>() {
    let dst = Dst::new(b"vesica test of masks");
    let backend = Backend::chosen();
    let (a, b) = (Scalar::<C>::from_uniform(&[1; 64]), Scalar::<C>::from_uniform(&[255; 64]));
    let inputs = digests(2100); // more than a block
    let hash = || Points::<C>::hash_on(backend, &dst, Inputs::Digests(&inputs));
    let ab = hash().mul(&a).mul(&b);
    let wire = encoded(&hash().mul(&b), backend);
    let ba = Points::<C>::decode_on(backend, &wire, &COINS).unwrap().mul(&a);
    assert!(encoded(&ab, backend) == encoded(&ba, backend));
}

#[test]
fn masks_commute_over_blocks() {
    masks_commute::<crate::secp256k1::Field>();
    masks_commute::<crate::sm2::Field>();
    masks_commute::<crate::p256::Field>();
}

fn decode_refuses<C: Oracle>() {
    let dst = Dst::new(b"vesica test of refusals");
    let one = bytes([1, 0, 0, 0]);
    let p: [u8; 32] = bytes(C::P);
    let not_square = (0..).map(|x| bytes([x, 0, 0, 0])).find(|x| C::multiply(x, &one).is_none()).unwrap();
    for backend in Backend::available() {
        // Few elements are tested one by one, many by products.
        let many = if backend == Backend::Ifma { 1500 } else { 700 };
        for n in [1, 9, many] {
            let good = encoded(&Points::<C>::hash_on(backend, &dst, Inputs::Digests(&digests(n))), backend);
            for index in [0, n / 2, n - 1] {
                for (bad, why) in [
                    (&p, "is not below the field's prime"),
                    (&[255; 32], "is not below the field's prime"),
                    (&not_square, "is not the x of a point on the curve"),
                ] {
                    let mut wire = good.clone();
                    wire[32 * index..][..32].copy_from_slice(bad);
                    let error = Points::<C>::decode_on(backend, &wire, &COINS).err();
                    assert_eq!(error, Some(BadElement { index, why }), "{backend}, {n} elements");
                }
            }
            let error = Points::<C>::decode_on(backend, &good[..good.len() - 1], &COINS).err();
            assert_eq!(error, Some(BadElement { index: n - 1, why: "is cut off" }));
            // Two bad ones in the same lane do not hide each other.
            if n == many {
                let mut wire = good.clone();
                for index in [40, 40 + 64] {
                    wire[32 * index..][..32].copy_from_slice(&not_square);
                }
                let error = Points::<C>::decode_on(backend, &wire, &COINS).err().unwrap();
                assert_eq!(error.index, 40);
            }
        }
    }
}

#[test]
fn bad_elements_are_refused() {
    decode_refuses::<crate::secp256k1::Field>();
    decode_refuses::<crate::sm2::Field>();
    decode_refuses::<crate::p256::Field>();
}

// ---- Hashing.

fn hashes_as_the_rfc_says<C: Curve>(json: &str) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let dst = Dst::new(json["dst"].as_str().unwrap().as_bytes());
    let vectors = json["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 5);
    let uniform: Vec<[u8; 96]> = vectors
        .iter()
        .map(|v| {
            let message = v["msg"].as_str().unwrap().as_bytes();
            expand_message_xmd::<sha2::Sha256>(&[message], &dst, 96).try_into().unwrap()
        })
        .collect();
    for backend in Backend::available() {
        let points = Points::<C>::map_on(backend, vectors.len(), |i| uniform[i]);
        for (x, v) in encoded(&points, backend).as_chunks::<32>().0.iter().zip(vectors) {
            assert_eq!(BigUint::from_bytes_be(x).to_str_radix(16), v["x"].as_str().unwrap().trim_start_matches('0'));
        }
        // One of the messages is as long as a digest.
        let sixteen = vectors.iter().position(|v| v["msg"].as_str().unwrap().len() == 16).unwrap();
        let message = vectors[sixteen]["msg"].as_str().unwrap().as_bytes();
        let point = Points::<C>::hash_on(backend, &dst, Inputs::Digests(&[Digest(message.try_into().unwrap())]));
        assert_eq!(encoded(&point, backend), encoded(&points, backend)[32 * sixteen..][..32]);
    }
}

#[test]
fn secp256k1_hashes_as_the_rfc_says() {
    hashes_as_the_rfc_says::<crate::secp256k1::Field>(include_str!("../../../../vectors/rfc/rfc9380_secp256k1.json"));
}

#[test]
fn p256_hashes_as_the_rfc_says() {
    hashes_as_the_rfc_says::<crate::p256::Field>(include_str!("../../../../vectors/rfc/rfc9380_p256.json"));
}

// ---- SM2.

/// (x, y) on y^2 = x^3 - 3x + b.
type Affine = (BigUint, BigUint);

fn chord(p: &BigUint, (x1, y1): &Affine, (x2, y2): &Affine) -> Affine {
    let minus = |a: &BigUint, b: &BigUint| ((a + p) - b % p) % p;
    let slope = minus(y2, y1) * minus(x2, x1).modinv(p).unwrap() % p;
    let x = minus(&minus(&(&slope * &slope), x1), x2);
    let y = minus(&(&slope * minus(x1, &x)), y1);
    (x, y)
}

/// `map_to_curve_simple_swu` as RFC 9380, section 6.6.2, defines it, with inversions and powers.
fn simple_swu_by_definition<C: Curve>(u: &BigUint) -> Affine {
    let p = big(C::P);
    let one = BigUint::from(1u8);
    let inverse = |x: &BigUint| x.modinv(&p).unwrap_or(BigUint::ZERO);
    let (a, b, z) = (big(C::MAP.a), big(C::MAP.b), &p - C::MAP.z.unsigned_abs());
    let g = |x: &BigUint| (x * x * x + &a * x + &b) % &p;
    let root = |x: &BigUint| x.modpow(&((&p + 1u8) >> 2), &p);
    let zu2 = &z * u * u % &p;
    let tv1 = inverse(&((&zu2 * &zu2 + &zu2) % &p));
    let x1 = match tv1 == BigUint::ZERO {
        true => &b * inverse(&(&z * &a % &p)) % &p,
        false => (&p - &b) * inverse(&a) % &p * (&one + &tv1) % &p,
    };
    let x2 = &zu2 * &x1 % &p;
    let x = if &root(&g(&x1)) * &root(&g(&x1)) % &p == g(&x1) { x1 } else { x2 };
    let y = root(&g(&x));
    assert_eq!(&y * &y % &p, g(&x));
    let y = if y.bit(0) == u.bit(0) { y } else { &p - y };
    (x, y)
}

/// There are no published vectors for SM2, so the whole hash is computed again from the definitions.
#[test]
fn sm2_hashes_by_the_definitions() {
    type C = crate::sm2::Field;
    let p = big(C::P);
    let dst = Dst::new(b"vesica-V01-CS01-with-SM2_XMD:SHA-256_SSWU_RO_");
    let inputs = digests(20);
    let want: Vec<BigUint> = inputs
        .iter()
        .map(|input| {
            let uniform = expand_message_xmd::<sha2::Sha256>(&[&input.0], &dst, 96);
            let [q0, q1] =
                [0, 48].map(|at| simple_swu_by_definition::<C>(&(BigUint::from_bytes_be(&uniform[at..at + 48]) % &p)));
            chord(&p, &q0, &q1).0
        })
        .collect();
    for backend in Backend::available() {
        let wire = encoded(&Points::<C>::hash_on(backend, &dst, Inputs::Digests(&inputs)), backend);
        let got: Vec<BigUint> = wire.chunks(32).map(BigUint::from_bytes_be).collect();
        assert!(got == want, "{backend}");
    }
}

/// The map's exceptional inputs: u = 0, and u with Z^2 u^4 + Z u^2 = 0, which has no other root since -1/Z is no square.
#[test]
fn zero_maps_as_the_rfc_says() {
    fn check<C: Curve>() {
        let p = big(C::P);
        let mut uniform = [0; 96];
        uniform[95] = 5;
        let want =
            chord(&p, &simple_swu_by_definition::<C>(&BigUint::ZERO), &simple_swu_by_definition::<C>(&5u8.into()));
        for backend in Backend::available() {
            let wire = encoded(&Points::<C>::map_on(backend, 1, |_| uniform), backend);
            assert_eq!(BigUint::from_bytes_be(&wire), want.0);
        }
    }
    check::<crate::sm2::Field>();
    check::<crate::p256::Field>();
}

/// `find_z_sswu` of RFC 9380, appendix H.2, in the order that it tries candidates: 1, -1, 2, -2, ...
#[test]
fn z_of_sm2_is_the_first_that_will_do() {
    type C = crate::sm2::Field;
    let p = big(C::P);
    let (a, b) = (&p - 3u8, big(C::B));
    let one = BigUint::from(1u8);
    let is_square = |x: &BigUint| x.modpow(&(&p >> 1), &p) <= one;
    let g = |x: &BigUint| (x * x * x + &a * x + &b) % &p;
    let will_do = |z: &BigUint| {
        // 1. not a square; 2. not -1; 3. g(x) - Z is irreducible: a cubic without a root; 4. g(b/(Za)) is a square.
        !is_square(z)
            && *z != &p - 1u8
            && !has_root(&p, &((&b + &p - z) % &p))
            && is_square(&g(&(&b * (z * &a % &p).modinv(&p).unwrap() % &p)))
    };
    let candidates = (1..20i64).flat_map(|i| [i, -i]);
    let found = candidates.into_iter().find(|&z| {
        let size = BigUint::from(z.unsigned_abs());
        will_do(&if z < 0 { &p - size } else { size })
    });
    assert_eq!(found, Some(C::MAP.z));
}

/// Whether x^3 - 3x + c has a root modulo p: whether it has a factor in common with x^p - x.
fn has_root(p: &BigUint, c: &BigUint) -> bool {
    type Cubic = [BigUint; 3];
    // x^3 = 3x - c, so x^4 = 3x^2 - cx.
    let times = |f: &Cubic, g: &Cubic| -> Cubic {
        let mut r: [BigUint; 5] = Default::default();
        for i in 0..3 {
            for j in 0..3 {
                r[i + j] += &f[i] * &g[j];
            }
        }
        let minus_c = p - c;
        let [r0, r1, r2, r3, r4] = r;
        [(r0 + &r3 * &minus_c) % p, (r1 + &r3 * 3u8 + &r4 * &minus_c) % p, (r2 + r4 * 3u8) % p]
    };
    let x: Cubic = [BigUint::ZERO, 1u8.into(), BigUint::ZERO];
    let mut power: Cubic = [1u8.into(), BigUint::ZERO, BigUint::ZERO];
    for i in (0..p.bits()).rev() {
        power = times(&power, &power);
        if p.bit(i) {
            power = times(&power, &x);
        }
    }
    power[1] = (&power[1] + p - 1u8) % p;
    // Euclid on polynomials, lowest coefficient first, without trailing zeros.
    let trim = |mut f: Vec<BigUint>| {
        while f.last() == Some(&BigUint::ZERO) {
            f.pop();
        }
        f
    };
    let (mut f, mut g) = (vec![c.clone(), p - 3u8, BigUint::ZERO, 1u8.into()], trim(power.to_vec()));
    while !g.is_empty() {
        let inverse = g.last().unwrap().modinv(p).unwrap();
        while f.len() >= g.len() {
            let factor = f.last().unwrap() * &inverse % p;
            let shift = f.len() - g.len();
            for (i, coefficient) in g.iter().enumerate() {
                f[shift + i] = (&f[shift + i] + p - coefficient * &factor % p) % p;
            }
            f = trim(f);
        }
        (f, g) = (g, f);
    }
    f.len() > 1
}

/// GM/T 0003.5-2012 (GB/T 32918.5-2017), appendix A: the key pair and the signature's point of the example.
#[test]
fn sm2_multiplies_as_the_standard_says() {
    type C = crate::sm2::Field;
    let number =
        |hex: &str| -> [u8; 32] { BigUint::parse_bytes(hex.as_bytes(), 16).unwrap().to_bytes_be().try_into().unwrap() };
    let base = number("32C4AE2C1F1981195F9904466A39C9948FE30BBFF2660BE1715A4589334C74C7");
    assert_eq!(base, C::base());
    for (k, x) in [
        (
            "3945208F7B2144B13F36E38AC6D39F95889393692860B51A42FB81EF4DF7C5B8",
            "09F9DF311E5421A150DD7D161E4BC5C672179FAD1833FC076BB08FF356F35020",
        ),
        (
            "59276E27D506861A16680F3AD9C02DCCEF3CC1FA3CDBE4CE6D54B80DEAC1BC21",
            "04EBFC718E8D1798620432268E77FEB6415E2EDE0E073C0F4F640ECD2E149A73",
        ),
    ] {
        let k = number(k);
        let words = [3, 2, 1, 0].map(|i: usize| u64::from_be_bytes(k[8 * i..][..8].try_into().unwrap()));
        for backend in Backend::available() {
            let points = Points::<C>::decode_on(backend, &base, &COINS).unwrap();
            let product = points.mul_on(backend, &Scalar::from_words(words));
            assert_eq!(encoded(&product, backend), number(x));
        }
    }
}

// ---- Blinding.

use super::blind::EVALUATED;
use super::sums::Table;
use num_bigint::BigInt;

/// Random bytes that make these digits, by element and window.
fn digits_of(digit: impl Fn(usize, usize) -> u64) -> impl FnMut(&mut [u8]) {
    let mut word = 0;
    move |bytes| {
        for (lane, bytes) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let digits = (0..12).map(|i| digit(8 * (word / 6) + lane, 12 * (word % 6) + i) << (5 * i));
            *bytes = digits.sum::<u64>().to_le_bytes();
        }
        word += 1;
    }
}

/// The multiplier of these digits, from the lowest.
fn multiplier<C: Curve>(digit: impl Fn(usize) -> u64) -> [u8; 32] {
    let n = BigInt::from(big(C::ORDER));
    let r = (0..C::WINDOWS).rev().fold(BigInt::ZERO, |r, window| r * 32 + 2 * digit(window) - 31u8);
    let r = (((r % &n) + &n) % &n).to_biguint().unwrap();
    let words = r.to_u64_digits();
    bytes(std::array::from_fn(|i| words.get(i).copied().unwrap_or(0)))
}

fn with_first(first: u8, x: &[u8; 32]) -> [u8; 33] {
    std::array::from_fn(|i| if i == 0 { first } else { x[i - 1] })
}

fn x_of(point: &[u8; 33]) -> [u8; 32] {
    point[1..].try_into().unwrap()
}

/// Blinds the digests with a stream of bytes that is the same for every back end.
fn blinded<C: Curve>(backend: Backend, base: &Table<C>, inputs: &[Digest]) -> (blind::Blinds<C>, Vec<u8>) {
    let mut bytes = blake3::Hasher::new().update(b"blinds").finalize_xof();
    let digits = crate::blind::Digits::draw(inputs.len(), &mut |out| bytes.fill(out));
    let mut wire = Vec::new();
    (Points::<C>::blind_on(backend, base, &dst(), inputs, digits, &mut wire), wire)
}

fn dst() -> Dst {
    Dst::new(b"vesica test of blinding")
}

fn unblinding_undoes_blinding<C: Oracle>() {
    let mut numbers = Numbers(5);
    let bases: Vec<_> =
        Backend::available().into_iter().map(|backend| (backend, Table::<C>::base_on(backend))).collect();
    for n in SIZES {
        let inputs = digests(n);
        let k = Scalar::<C>::from_uniform(&numbers.bytes());
        let hashed = Points::<C>::hash_on(Backend::Portable, &dst(), Inputs::Digests(&inputs));
        let want = encoded(&hashed.mul_on(Backend::Portable, &k), Backend::Portable);
        let (_, sent) = blinded(Backend::Portable, &bases[0].1, &inputs);
        for (backend, base) in &bases {
            let backend = *backend;
            let (blinds, wire) = blinded(backend, base, &inputs);
            assert!(wire == sent, "{n} elements, {backend}");
            let mut evaluated = Vec::new();
            Points::evaluate_on(backend, &k, &wire, &COINS, &mut evaluated).unwrap();
            assert_eq!(evaluated.len(), n * EVALUATED);
            let key = Table::<C>::key_on(backend, &Points::public_on(backend, &k)).unwrap();
            let mut out = Vec::new();
            Points::unblind_on(backend, &key, blinds, &evaluated, &mut out).unwrap();
            assert!(out == want, "{n} elements, {backend}");
        }
    }
}

#[test]
fn unblinding_undoes_blinding_on_secp256k1() {
    unblinding_undoes_blinding::<crate::secp256k1::Field>();
}

#[test]
fn unblinding_undoes_blinding_on_sm2() {
    unblinding_undoes_blinding::<crate::sm2::Field>();
}

#[test]
fn unblinding_undoes_blinding_on_p256() {
    unblinding_undoes_blinding::<crate::p256::Field>();
}

/// Blinded and evaluated elements and public keys, against the oracle: digits at their bounds and in between.
fn blinding_is_what_it_says<C: Oracle>() {
    let inputs = digests(35);
    // The same digit in all windows, for the first 32; then one that is lowest among highest; then any.
    let digit = |element: usize, window: usize| match element {
        0..32 => element as u64,
        32 => 31 * u64::from(window != 7),
        33 => 31 * u64::from(window == 7),
        _ => (window as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59,
    };
    let keys = [[1, 0, 0, 0], [6, 0, 0, 0], difference(&C::ORDER, &[1, 0, 0, 0]).0, Numbers(6).below(&C::ORDER)];
    let run = |backend| {
        let hashed = encoded(&Points::<C>::hash_on(backend, &dst(), Inputs::Digests(&inputs)), backend);
        let digits = crate::blind::Digits::draw(inputs.len(), &mut digits_of(digit));
        let mut wire = Vec::new();
        Points::<C>::blind_on(backend, &Table::base_on(backend), &dst(), &inputs, digits, &mut wire);
        let products = keys.map(|k| {
            let (k, mut out) = (Scalar::from_words(k), Points::public_on(backend, &Scalar::<C>::from_words(k)));
            Points::<C>::evaluate_on(backend, &k, &wire, &COINS, &mut out).unwrap();
            out
        });
        (hashed, wire, products)
    };
    let want = run(Backend::Portable);
    for backend in Backend::available() {
        assert!(run(backend) == want, "{backend}");
    }
    let (hashed, wire, products) = want;
    for (element, (h, b)) in hashed.as_chunks().0.iter().zip(wire.as_chunks::<32>().0).enumerate() {
        let mask = C::product(&C::generator(), &multiplier::<C>(|window| digit(element, window)));
        let sums = [2, 3].map(|first| x_of(&C::sum(&with_first(first, h), &mask).unwrap()));
        assert!(sums.contains(b), "element {element}");
    }
    let p = big(C::P);
    for (k, products) in keys.into_iter().zip(products) {
        let (public, evaluated) = products.split_at(EVALUATED);
        assert_eq!(public, C::product(&C::generator(), &bytes(k)), "{k:x?}");
        let pairs = wire.as_chunks::<32>().0.iter().zip(evaluated.as_chunks::<EVALUATED>().0);
        for (b, [bit, x @ ..]) in pairs.step_by(4) {
            let b = with_first(2, b);
            let kb = C::product(&b, &bytes(k));
            let [y, ky] = [b, kb].map(|point| BigUint::from_bytes_be(&C::ordinate(&point)));
            assert_eq!((x_of(&kb), u8::from((y * ky % &p).bit(0)) + 2), (*x, *bit), "{k:x?}");
        }
    }
}

#[test]
fn secp256k1_blinds_as_k256() {
    blinding_is_what_it_says::<crate::secp256k1::Field>();
}

#[test]
fn sm2_blinds_as_sm2() {
    blinding_is_what_it_says::<crate::sm2::Field>();
}

#[test]
fn p256_blinds_as_p256() {
    blinding_is_what_it_says::<crate::p256::Field>();
}

fn unblind_refuses<C: Oracle>() {
    let one = bytes([1, 0, 0, 0]);
    let not_square = (0..).map(|x| bytes([x, 0, 0, 0])).find(|x| C::multiply(x, &one).is_none()).unwrap();
    let off_curve = "is not the x of a point on the curve";
    for backend in Backend::available() {
        let base = Table::base_on(backend);
        let public = C::product(&C::generator(), &bytes([7, 0, 0, 0]));
        let key = |public: &[u8]| Table::<C>::key_on(backend, public);
        for (bad, why) in [
            (with_first(2, &bytes(C::P)), "is not below the field's prime"),
            (with_first(3, &not_square), off_curve),
            (with_first(4, &x_of(&public)), "has neither 2 nor 3 as its first byte"),
            (with_first(0, &x_of(&public)), "has neither 2 nor 3 as its first byte"),
        ] {
            assert_eq!(key(&bad).err(), Some(BadElement { index: 0, why }), "{backend}");
            let inputs = digests(21);
            for index in [0, 3, 20] {
                let (blinds, _) = blinded(backend, &base, &inputs);
                let mut evaluated = [public; 21];
                evaluated[index] = bad;
                let got = Points::unblind_on(backend, &base, blinds, evaluated.as_flattened(), &mut Vec::new());
                assert_eq!(got, Err(BadElement { index, why }), "{backend}");
            }
        }
        for (wrong, index, why) in [
            (&[][..], 0, "is missing, or one too many"),
            (&[public, public].concat(), 1, "is missing, or one too many"),
            (&public[..32], 0, "is cut off"),
            (&[&public[..], &[2]].concat(), 1, "is cut off"),
        ] {
            assert_eq!(key(wrong).err(), Some(BadElement { index, why }));
        }
        // What would leave nothing, r·K or its negative, is not told from any other wrong answer, and spoils no other element.
        let key = key(&public).unwrap();
        let inputs = digests(19);
        let hashed = Points::<C>::hash_on(backend, &dst(), Inputs::Digests(&inputs));
        let want = encoded(&hashed.mul_on(backend, &Scalar::from_words([7, 0, 0, 0])), backend);
        for (index, of, first) in [(0, 0, 2), (6, 6, 3), (18, 18, 2), (18, 18, 3), (18, 16, 2)] {
            let draw = || crate::blind::Digits::draw(19, &mut digits_of(|element, _| element as u64));
            let mut wire = Vec::new();
            let blinds = Points::<C>::blind_on(backend, &base, &dst(), &inputs, draw(), &mut wire);
            let mut evaluated = Vec::new();
            Points::<C>::evaluate_on(backend, &Scalar::from_words([7, 0, 0, 0]), &wire, &COINS, &mut evaluated)
                .unwrap();
            let mask = C::product(&public, &multiplier::<C>(|_| of));
            evaluated[index * EVALUATED..][..EVALUATED].copy_from_slice(&with_first(first, &x_of(&mask)));
            let mut out = Vec::new();
            Points::unblind_on(backend, &key, blinds, &evaluated, &mut out).unwrap();
            for (element, (got, want)) in out.chunks(32).zip(want.chunks(32)).enumerate() {
                assert_eq!(got == want, element != index, "{backend} {element}");
            }
        }
    }
}

#[test]
fn unblind_refuses_every_kind_of_bad_element() {
    unblind_refuses::<crate::secp256k1::Field>();
    unblind_refuses::<crate::sm2::Field>();
    unblind_refuses::<crate::p256::Field>();
}

/// The statistical distance of r from uniform is b·(n - b)/(n·32^w), b = 32^w modulo n.
#[test]
fn multipliers_are_uniform() {
    fn check<C: Curve>() {
        let (n, all) = (big(C::ORDER), BigUint::from(1u8) << (5 * C::WINDOWS));
        let b = &all % &n;
        assert!((&b * (&n - &b)) << 80 < n * all);
        assert!(C::WINDOWS.is_multiple_of(2) && (52..=64).contains(&C::WINDOWS));
    }
    check::<crate::secp256k1::Field>();
    check::<crate::sm2::Field>();
    check::<crate::p256::Field>();
}
