//! FourQ against a slow reference that knows nothing but the curve equation, and against other people's values.

use super::affine::inverse_or_zero;
use super::curve::{Extended, Tau, TauDual, phi, psi};
use super::map::{J_OVER_K, ONE_OVER_K, ONE_OVER_K2, ROOT_OF_MINUS_5, Z};
use super::scalar::{BASIS, FRACTIONS, OFFSET, ORDER, decompose};
use super::short::{Affine as Short, divisor};
use super::*;
use crate::SecretScalar;
use crate::field::p127::P;
use num_bigint::{BigInt, BigUint};

/// Arithmetic from the definitions: the field, the affine addition law, square roots, RFC 9380's steps.
mod slow {
    use super::P;
    use num_bigint::BigUint;

    pub type Fp2 = (BigUint, BigUint);
    pub type Affine = (Fp2, Fp2);

    pub fn p() -> BigUint {
        BigUint::from(P)
    }
    pub fn of((re, im): (u128, u128)) -> Fp2 {
        (BigUint::from(re) % p(), BigUint::from(im) % p())
    }
    pub fn add(a: &Fp2, b: &Fp2) -> Fp2 {
        ((&a.0 + &b.0) % p(), (&a.1 + &b.1) % p())
    }
    pub fn neg(a: &Fp2) -> Fp2 {
        ((p() - &a.0) % p(), (p() - &a.1) % p())
    }
    pub fn sub(a: &Fp2, b: &Fp2) -> Fp2 {
        add(a, &neg(b))
    }
    pub fn mul(a: &Fp2, b: &Fp2) -> Fp2 {
        let minus = p() - &a.1 * &b.1 % p();
        ((&a.0 * &b.0 + minus) % p(), (&a.0 * &b.1 + &a.1 * &b.0) % p())
    }
    pub fn norm(a: &Fp2) -> BigUint {
        (&a.0 * &a.0 + &a.1 * &a.1) % p()
    }
    pub fn inv(a: &Fp2) -> Fp2 {
        let n = norm(a).modpow(&(p() - 2u8), &p());
        (&a.0 * &n % p(), neg(a).1 * n % p())
    }
    pub fn is_square(a: &Fp2) -> bool {
        // a^((p² - 1)/2) is the Legendre symbol of the norm.
        norm(a).modpow(&((p() - 1u8) / 2u8), &p()) != p() - 1u8
    }
    /// By trial of every candidate: with x = x0 + x1·i, x0² is (a0 + n)/2 for a root n of the norm, and 2·x0·x1 = a1.
    pub fn sqrt(a: &Fp2) -> Option<Fp2> {
        let inverse = |x: &BigUint| x.modpow(&(p() - 2u8), &p());
        let root = |x: &BigUint| x.modpow(&((p() + 1u8) / 4u8), &p());
        let half = inverse(&BigUint::from(2u8));
        let n = root(&norm(a));
        let mut candidates = vec![(BigUint::ZERO, root(&(p() - &a.0)))];
        for n in [n.clone(), p() - n] {
            let x0 = root(&((&a.0 + n) * &half % p()));
            let x1 = &a.1 * &half * inverse(&x0) % p();
            candidates.push((x0, x1));
        }
        candidates.into_iter().find(|x| mul(x, x) == *a)
    }

    pub fn neutral() -> Affine {
        (of((0, 0)), of((1, 0)))
    }
    pub fn on_curve((x, y): &Affine) -> bool {
        let (xx, yy) = (mul(x, x), mul(y, y));
        sub(&yy, &xx) == add(&of((1, 0)), &mul(&of(super::curve::D), &mul(&xx, &yy)))
    }
    pub fn sum((x1, y1): &Affine, (x2, y2): &Affine) -> Affine {
        let one = of((1, 0));
        let t = mul(&of(super::curve::D), &mul(&mul(x1, x2), &mul(y1, y2)));
        let x = mul(&add(&mul(x1, y2), &mul(x2, y1)), &inv(&add(&one, &t)));
        let y = mul(&add(&mul(y1, y2), &mul(x1, x2)), &inv(&sub(&one, &t)));
        (x, y)
    }
    pub fn times(k: &BigUint, point: &Affine) -> Affine {
        let mut out = neutral();
        for i in (0..k.bits()).rev() {
            out = sum(&out, &out);
            if k.bit(i) {
                out = sum(&out, point);
            }
        }
        out
    }
    pub fn encode((x, y): &Affine) -> [u8; 32] {
        let upper = if x.0 == BigUint::ZERO { &x.1 } else { &x.0 }.bit(126);
        let number: BigUint = &y.0 + (&y.1 << 128) + (BigUint::from(u8::from(upper)) << 255);
        let mut out = [0; 32];
        let bytes = number.to_bytes_le();
        out[..bytes.len()].copy_from_slice(&bytes);
        out
    }
}
use slow::Affine;

fn generator() -> Affine {
    let x = (0x1a34_7223_7c2f_b305_2865_92ad_7b38_33aa, 0x1e1f_553f_2878_aa9c_9686_9fb3_60ac_77f6);
    let y = (0x0e3f_ee9b_a120_785a_b924_a246_2bcb_b287, 0x6e1c_4af8_630e_0242_49a7_c344_844c_8b5c);
    (slow::of(x), slow::of(y))
}

fn order() -> BigUint {
    ORDER.iter().rev().fold(BigUint::ZERO, |n, &word| (n << 64) + word)
}

fn big(words: &[u64]) -> BigUint {
    words.iter().rev().fold(BigUint::ZERO, |n, &word| (n << 64) + word)
}

fn scalar(k: &BigUint) -> FourQScalar {
    let digits = k.to_u64_digits();
    FourQScalar::from_words(std::array::from_fn(|i| digits.get(i).copied().unwrap_or(0)))
}

/// A stream of words, the same on every run.
fn stream(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed;
    move || {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn random_scalar(next: &mut impl FnMut() -> u64) -> BigUint {
    big(&[next(), next(), next(), next()]) % (order() - 1u8) + 1u8
}

fn digests(n: usize) -> Vec<Digest> {
    let mut next = stream(n as u64);
    (0..n)
        .map(|_| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&next().to_le_bytes());
            bytes[8..].copy_from_slice(&next().to_le_bytes());
            Digest(bytes)
        })
        .collect()
}

/// What to do with points, underneath the public interface.
#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    Double,
    Add,
    Phi,
    Psi,
    ClearCofactor,
    /// To the short model of Ê and back to E: four times the point.
    Short,
    /// The same with φ or ψ of the short model between.
    ShortPhi,
    ShortPsi,
}

/// The inverse of what a formula of the short model divides by.
#[inline(always)]
fn over<V: Lanes>((conj, norm): (Fp2<V>, Fp<V>)) -> Fp2<V> {
    conj.scale(inverse_or_zero(norm))
}

#[inline(always)]
fn to_short<V: Lanes>(p: &Point<V>) -> Short<V> {
    let hat = V::call(Tau(*p));
    Short::hat(&hat, over(divisor(&hat)))
}

#[inline(always)]
fn from_short<V: Lanes>(p: Short<V>) -> Extended<V> {
    V::call(TauDual(p.edwards_hat()))
}

/// A batch from affine points, after a step repeated some times.
struct Apply<'a>(&'a [Affine], Step, usize);

impl Kernel for Apply<'_> {
    type Out = Vec<u64>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Vec<u64> {
        let Apply(points, step, times) = self;
        let mut words = Vec::new();
        let fp = |at: &dyn Fn(&Affine) -> &BigUint, chunk: &[Affine]| {
            let mut words = [[0; MAX_LANES]; 2];
            for (lane, point) in chunk.iter().enumerate() {
                for (i, digit) in at(point).to_u64_digits().into_iter().enumerate() {
                    words[i][lane] = digit;
                }
            }
            Fp::from_words([V::load(&words[0]), V::load(&words[1])])
        };
        for chunk in points.chunks(V::WIDTH) {
            let x = Fp2 { re: fp(&|p| &p.0.0, chunk), im: fp(&|p| &p.0.1, chunk) };
            let y = Fp2 { re: fp(&|p| &p.1.0, chunk), im: fp(&|p| &p.1.1, chunk) };
            let start = Extended { x, y, z: Fp2::splat((1, 0)), ta: x, tb: y };
            let mut p = start;
            for _ in 0..times {
                p = match step {
                    Step::Nothing => p,
                    Step::Double => p.point().double_called(),
                    Step::Add => p.add_called(&start.summand()),
                    Step::Phi => phi(&p.point()),
                    Step::Psi => psi(&p.point()),
                    Step::ClearCofactor => p.clear_cofactor(),
                    Step::Short => from_short(to_short(&p.point())),
                    Step::ShortPhi => {
                        let p = to_short(&p.point());
                        from_short(p.phi(over(p.divisor_of_phi())))
                    }
                    Step::ShortPsi => {
                        let p = to_short(&p.point());
                        from_short(p.psi(over(p.divisor_of_psi())))
                    }
                };
            }
            push(&mut words, &p.point());
        }
        words
    }
}
use crate::field::p127::{Fp, Fp2};

fn apply(backend: Backend, points: &[Affine], step: Step, times: usize) -> Vec<[u8; 32]> {
    let words = backend::run_on(backend, Apply(points, step, times));
    encoded(&FourQPoints { backend, len: points.len(), cleared: false, words })
}

fn batch(backend: Backend, points: &[Affine]) -> FourQPoints {
    let words = backend::run_on(backend, Apply(points, Step::Nothing, 0));
    FourQPoints { backend, len: points.len(), cleared: false, words }
}

fn encoded(points: &FourQPoints) -> Vec<[u8; 32]> {
    let mut wire = Vec::new();
    points.encode(&mut wire);
    assert_eq!(wire.len(), 32 * points.len());
    wire.as_chunks::<32>().0.to_vec()
}

fn hex(text: &str) -> [u8; 32] {
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// Some points of order N and some that are not.
fn points(n: usize) -> Vec<Affine> {
    let mut next = stream(7);
    let mut out = vec![];
    while out.len() < n {
        let y =
            slow::of((u128::from(next()) << 64 | u128::from(next()), u128::from(next()) << 64 | u128::from(next())));
        let yy = slow::mul(&y, &y);
        let one = slow::of((1, 0));
        let v = slow::add(&slow::mul(&yy, &slow::of(curve::D)), &one);
        if let Some(x) = slow::sqrt(&slow::mul(&slow::sub(&yy, &one), &slow::inv(&v))) {
            assert!(slow::on_curve(&(x.clone(), y.clone())));
            out.push((x, y));
        }
    }
    out
}

fn lambda() -> (BigUint, BigUint) {
    // Solved from three rows of the basis, as linear equations in λφ, λψ and λφλψ modulo N.
    let phi = BigUint::parse_bytes(b"6d9069dc876c883c18f03c13d737624874f0b5e4daa9bcdf0e63ce8997864", 16).unwrap();
    let psi = BigUint::parse_bytes(b"18c475353519268c4c2510ab53b51ecb3688ca09ef0e885dc7f2b7cdfd2a88", 16).unwrap();
    (phi, psi)
}

#[test]
fn the_reference_knows_the_curve() {
    assert!(slow::on_curve(&generator()));
    assert_eq!(slow::times(&order(), &generator()), slow::neutral());
    // FourQlib, tests/ecc_tests.c, "Point doubling": 1000 doublings of the generator.
    let p = slow::times(&(BigUint::from(1u8) << 1000), &generator());
    let x = (0x2c3f_d882_2c82_270f_c909_9c54_8558_59d6, 0x4da5_b9e8_3aa7_a1b2_a7b3_f6e2_043e_8e68);
    let y = (0x2001_eb3a_5768_8396_3ee0_89f0_eb49_aa14, 0x0ffd_b0d7_6142_1f50_1fee_5617_a7e9_54cd);
    assert_eq!(p, (slow::of(x), slow::of(y)));
}

#[test]
fn fourqlib_values() {
    // FourQlib, tests/ecc_tests.c: what a thousand steps make of the generator, as x0, x1, y0, y1.
    let want = |x: (u128, u128), y: (u128, u128)| vec![slow::encode(&(slow::of(x), slow::of(y)))];
    let doubled = want(
        (0x2c3f_d882_2c82_270f_c909_9c54_8558_59d6, 0x4da5_b9e8_3aa7_a1b2_a7b3_f6e2_043e_8e68),
        (0x2001_eb3a_5768_8396_3ee0_89f0_eb49_aa14, 0x0ffd_b0d7_6142_1f50_1fee_5617_a7e9_54cd),
    );
    // "Point addition", second part: the generator added 1000 times to twice itself.
    let added = want(
        (0x3e24_3958_590c_4d90_6480_b1ef_0a15_1db0, 0x5327_af7d_8423_8cd0_aa27_0f64_4a65_d473),
        (0x3ef6_9a49_cb7e_0237_5e06_003d_73c4_3eb1, 0x293e_b1e2_6dd2_3b4e_4e75_2648_ac2e_f0ab),
    );
    let psi = want(
        (0x75af_54ed_b41a_2b93_d8f3_c8c2_4a2b_c7e2, 0x0652_49f9_ede0_c798_4de2_4667_01f0_09a9),
        (0x06db_b85b_ffb7_c21e_1c6e_119a_dd60_8104, 0x060a_3090_3424_bf13_fd23_4d6c_4cfa_3ec1),
    );
    let phi = want(
        (0x5550_aab9_e7a6_20ee_d5b5_a306_1287_db16, 0x3e61_ebb9_a1cb_0210_ec32_1e6c_f336_10fc),
        (0x5474_bf8e_c556_03ae_7e28_51d5_a8e8_3fb9, 0x5476_093d_bf8b_f6bf_a507_7613_4917_88d5),
    );
    for backend in Backend::available() {
        let g = [generator()];
        assert_eq!(apply(backend, &g, Step::Double, 1000), doubled, "{backend}");
        assert_eq!(apply(backend, &g, Step::Add, 1001), added, "{backend}");
        assert_eq!(apply(backend, &g, Step::Psi, 1000), psi, "{backend}");
        assert_eq!(apply(backend, &g, Step::Phi, 1000), phi, "{backend}");
    }
}

#[test]
fn fourqlib_scalar_multiplications() {
    // FourQlib, tests/ecc_tests.c, "Scalar multiplication", first part (the points have order N).
    let want = (
        (0x257c_122b_bfc9_4a1b_dfd2_b477_bd49_4bef, 0x469b_f80c_b5b1_1f01_7695_9354_7237_c459),
        (0x0901_b381_7c0e_936c_281c_5067_996f_3344, 0x570b_948e_acac_e210_4fe8_c429_915f_1245),
    );
    let want = vec![slow::encode(&(slow::of(want.0), slow::of(want.1)))];
    for backend in Backend::available() {
        let mut k = [0x3ad4_57ab_5545_6230, 0x3a8b_3c2c_6fd8_6e0c, 0x7e38_f7c9_cfbb_9166, 0x0028_fd6c_bda4_58f0u64];
        let mut points = batch(backend, &[generator()]);
        for _ in 0..1000 {
            k[1] = k[2];
            k[2] = k[2].wrapping_add(k[0]);
            points = points.mul(&FourQScalar::from_words(k));
        }
        assert_eq!(encoded(&points), want, "{backend}");
    }
}

/// k, \[k\]G, l, \[392·k·l\]G, all little-endian: made with CIRCL (github.com/cloudflare/circl, ecc/fourq: ScalarBaseMult,
/// Marshal, ScalarMult), whose ScalarMult clears the cofactor, and equal to its dh/curve4q.
const CIRCL: [[&str; 4]; 6] = [
    [
        "000b16212c37424d58636e79848f9aa5b0bbc6d1dce7f2fd08131e29343f0100",
        "ec26e87bf6f96f6e1b02ddf2fa518900eda7a0285750ce4b0e788b7c309b5f69",
        "fff2e5d8cbbeb1a4978a7d706356493c2f221508fbeee1d4c7baada093861900",
        "9b4f27ea69b65c462f95b7fae2586e12d4a80fc936cb5210dda59eca072bbfdd",
    ],
    [
        "25313d4955616d727e8a96a2aebabfcbd7e3effb070c1824303c485459650200",
        "e292eef7a95430b4f96ee93f7fb39661f2092fca4c8e2d1b83d99a5e094a11d8",
        "e2d5c8bbaea194877a6d605346392c1f1205f8ebded1c4b7aa9d908376691c00",
        "1b463041f7abd42111aeb71fff90d30c8f9cd7888bf496f6eec75f7a23341c57",
    ],
    [
        "4a57647177849197a4b1bec4d1dee4f1fe0b111e2b313e4b585e6b787e8b0300",
        "41b0349ae08ab9e18466cdca0f7ff959579a7b9416ff47e2b057e34436133f52",
        "c5b8ab9e9184776a5d504336291c0f02f5e8dbcec1b4a79a8d807366594c1f00",
        "d1812f36bc449043db7b56f556a539172d6dc2b9d746dfbf3dd1225b7c0e9c83",
    ],
    [
        "6f7d8b92a0a7b5bccad8dfedf4020917252c3a414f56647279878e9ca3b10400",
        "8ad8b1dea289bcb53458c921625ece0d51d87186aae4f2c568b53940ef2d4f12",
        "a89b8e8174675a4d403326190cfff2e5d8cbbeb1a4978a7d706356493c2f0200",
        "e6d2f3eb1fd0fc2ee6b842e641249a3f32e1c38f4c142a4da0b42ccf6ec515c5",
    ],
    [
        "94a3abbac2d1d9e1f0f8070f1e262e3d45545c6b737b8a92a1a9b8c0c8d70500",
        "cdde4a9ce7294c5b9b5896045dd59175af7e246cef8783d8380c4aeede93df29",
        "8b7e7164574a3d30231609fcefe2d5c8bbaea194877a6d605346392c1f120500",
        "83e6781d09adcef6e52b8ac3566d7455a4017aa3e5d659d342e6e74cb4f8cfee",
    ],
    [
        "b9c9d2dbebf4fd06161f2838414a53636c75858e97a0b0b9c2d2dbe4edfd0600",
        "0df229f12520df8e63e9248e2e4aa511995e7df7902c673318c520ca6a651493",
        "6e6154473a2d201306f9ecdfd2c5b8ab9e9184776a5d504336291c0f02f50800",
        "09eea9eb54e7f025efb238f47d91c040fd77d13fd911ad840250d57e08e0f90e",
    ],
];

#[test]
fn circl_values() {
    for [k, kg, l, klg] in CIRCL.map(|row| row.map(hex)) {
        let (k, l) = (BigUint::from_bytes_le(&k), BigUint::from_bytes_le(&l));
        assert_eq!(slow::encode(&slow::times(&k, &generator())), kg);
        let cofactor_times_l = l.clone() * 392u32 % order();
        for backend in Backend::available() {
            assert_eq!(encoded(&batch(backend, &[generator()]).mul(&scalar(&k))), [kg]);
            let received = decode(backend, &kg).unwrap();
            assert_eq!(encoded(&received.mul(&scalar(&cofactor_times_l))), [klg]);
        }
    }
}

#[test]
fn steps_agree_with_the_reference() {
    let mut list = points(11);
    list.push(slow::neutral());
    list.push((slow::of((0, 0)), slow::of((P - 1, 0))));
    list.push(generator());
    let k392 = BigUint::from(392u32);
    for backend in Backend::available() {
        for (step, k) in [(Step::Nothing, 1u32), (Step::Double, 2), (Step::Add, 2), (Step::ClearCofactor, 392)] {
            let want: Vec<_> = list.iter().map(|p| slow::encode(&slow::times(&BigUint::from(k), p))).collect();
            assert_eq!(apply(backend, &list, step, 1), want, "{backend} {step:?}");
        }
        // The endomorphisms are multiplications on points of order N.
        let inner: Vec<_> = list[..8].iter().map(|p| slow::times(&k392, p)).collect();
        let steps = [
            (Step::Phi, lambda().0),
            (Step::Psi, lambda().1),
            (Step::Short, BigUint::from(4u8)),
            (Step::ShortPhi, lambda().0),
            (Step::ShortPsi, lambda().1),
        ];
        for (step, k) in steps {
            let want: Vec<_> = inner.iter().map(|p| slow::encode(&slow::times(&k, p))).collect();
            assert_eq!(apply(backend, &inner, step, 1), want, "{backend} {step:?}");
        }
    }
}

#[test]
fn scalars_are_reduced() {
    let mut next = stream(3);
    for _ in 0..50 {
        let words: [u64; 8] = std::array::from_fn(|_| next());
        let mut bytes = [0; 64];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(b, w)| *b = w.to_le_bytes());
        let k = FourQScalar::from_uniform(&bytes);
        let want = big(&words) % order();
        assert_eq!(big(&*k.words()), want);
        assert_eq!(big(&*k.over_cofactor().words()) * 392u32 % order(), want);
    }
    assert_eq!(FourQScalar::from_uniform(&[0; 64]).words()[..], [1, 0, 0, 0]);
    let mut multiple = [0; 64];
    let bytes = (order() * 5u8).to_bytes_le();
    multiple[..bytes.len()].copy_from_slice(&bytes);
    assert_eq!(FourQScalar::from_uniform(&multiple).words()[..], [1, 0, 0, 0]);
}

#[test]
fn decomposition_and_digits_name_the_scalar() {
    let n = order();
    // The eigenvalues on Ê.
    let quarter = BigUint::from(4u8).modpow(&(&n - 2u8), &n);
    let (phi, psi) = lambda();
    let (phi, psi) = (phi * &quarter % &n, psi * &quarter % &n);
    // The basis is one of the lattice.
    for row in BASIS {
        let eigen = [BigUint::from(1u8), phi.clone(), psi.clone(), &phi * &psi];
        let value: BigInt = row.iter().zip(eigen).map(|(&b, e)| BigInt::from(b) * BigInt::from(e)).sum();
        assert_eq!(value % BigInt::from(n.clone()), BigInt::ZERO);
    }
    let mut next = stream(1);
    let mut scalars: Vec<_> = (0..2000).map(|_| random_scalar(&mut next)).collect();
    scalars.extend([1u32, 2, 3, 4, 7, 392].map(BigUint::from));
    scalars.extend([1u32, 2, 3].map(|i| &n - i));
    scalars.extend((1..246).map(|i| BigUint::from(1u8) << i).filter(|k| *k < n));
    scalars.extend([phi.clone(), psi.clone(), &n - &phi, &n - &psi, &phi * &psi % &n]);
    scalars.extend(corners().map(|v| {
        let [a, b, c, d] = v.map(BigInt::from);
        let (phi, psi, n) = (BigInt::from(phi.clone()), BigInt::from(psi.clone()), BigInt::from(n.clone()));
        let k = (a + b * &phi + c * &psi + d * phi * psi) % &n;
        ((k + &n) % n).to_biguint().expect("not negative")
    }));
    for k in scalars {
        let value = |a: [BigInt; 4]| {
            let [a, b, c, d] = a;
            let (phi, psi) = (BigInt::from(phi.clone()), BigInt::from(psi.clone()));
            let sum = a + b * &phi + c * &psi + d * phi * psi;
            let n = BigInt::from(n.clone());
            ((sum % &n) + &n) % n
        };
        let a = decompose(&scalar(&k));
        assert_eq!(a[0] & 1, 1);
        assert!(a[0] >> 63 == 1 && a[1..].iter().all(|a| a >> 63 == 0));
        let a = a.map(BigInt::from);
        assert_eq!(value(a.clone()), BigInt::from(k.clone()));
        let digits = Digits::of(&scalar(&(4u8 * &k % &n)));
        let (first, rest) = digits.masks();
        let mut sum = [(); 4].map(|()| BigInt::ZERO);
        for masks in std::iter::once(first).chain(rest) {
            assert!(masks.iter().all(|&m| m == 0 || m == u64::MAX));
            let named: Vec<usize> = (1..8).filter(|j| masks[j - 1] != 0).collect();
            assert!(named.len() <= 1);
            let j = named.first().copied().unwrap_or(0);
            let sign = if masks[7] == 0 { 1 } else { -1 };
            let bits = [1, j & 1, j >> 1 & 1, j >> 2];
            for (sum, bit) in sum.iter_mut().zip(bits) {
                *sum = &*sum * 2 + sign * bit as i32;
            }
        }
        assert_eq!(sum, a);
    }
}

/// Vectors close to the corners of the cell of the lattice in which [`decompose`] leaves the scalar, before the offset: the
/// coefficients are just above what cutting off the fractions can take away, or so small that it takes them away.
fn corners() -> impl Iterator<Item = [i128; 4]> {
    (0..16 * 8).map(|i| {
        let mut v = [0; 4];
        for (place, row) in BASIS.iter().enumerate() {
            let coefficient = if i >> place & 1 == 0 { (1 << 60) / 1560 + i } else { i << 20 };
            for (v, &b) in v.iter_mut().zip(row) {
                *v += i128::from(b) * coefficient;
            }
        }
        v.map(|v| v >> 60)
    })
}

/// For every scalar the words of [`decompose`] are what it says, without a wrap modulo 2^64.
#[test]
fn decomposition_stays_in_its_bounds() {
    let n = BigInt::from(order());
    let one = BigInt::from(1) << 256;
    let fractions = FRACTIONS.map(|words| BigInt::from(big(&words)));
    // The numerators α of the fractions, rounded up again. The sum of α times the basis is (N, 0, 0, 0).
    let alphas = fractions.each_ref().map(|fraction| (fraction * &n + &one - 1) / &one);
    for (fraction, alpha) in fractions.iter().zip(&alphas) {
        assert_eq!(*fraction, (alpha << 256) / &n);
    }
    for place in 0..4 {
        let sum: BigInt = alphas.iter().zip(&BASIS).map(|(alpha, row)| alpha * row[place]).sum();
        assert_eq!(sum, if place == 0 { n.clone() } else { BigInt::ZERO });
    }
    // So a scalar is left as the offset and multiples of the basis from 0 to 1 + N/2^256, and b4 or nothing.
    for place in 0..4 {
        let (mut least, mut most) = (BigInt::from(OFFSET[place]) << 256, BigInt::from(OFFSET[place]) << 256);
        for row in BASIS {
            let to = BigInt::from(row[place]) * (&one + &n);
            *if row[place] < 0 { &mut least } else { &mut most } += to;
        }
        let b4 = BigInt::from(BASIS[3][place]) << 256;
        *if BASIS[3][place] < 0 { &mut least } else { &mut most } += b4;
        let bound = |bits: usize| BigInt::from(1) << (256 + bits);
        let (from, to) = if place == 0 { (bound(63), bound(64)) } else { (BigInt::ZERO, bound(63)) };
        assert!(least >= from && most < to, "{place}");
    }
    assert_eq!(BASIS[3][0] & 1, 1);
}

/// No scalar is zero. If it were, the last step of a block would be an exception, and the complete formulas give the neutral
/// element.
#[test]
fn an_exception_in_the_last_step_is_seen() {
    let inner: Vec<_> = points(4).iter().map(|p| slow::times(&BigUint::from(392u32), p)).collect();
    let inner = vec![inner; MAX_LANES * LEAST / 4].concat();
    let zero = scalar(&BigUint::ZERO);
    for backend in Backend::available() {
        let points = batch(backend, &inner);
        assert!(!backend::run_on(backend, Together(&points, &Digits::of(&zero))));
        let neutral = slow::encode(&slow::neutral());
        assert!(encoded(&points.mul(&zero)).iter().all(|got| *got == neutral), "{backend}");
    }
}

#[test]
fn mul_agrees_with_the_reference() {
    let mut next = stream(2);
    let inner: Vec<_> = points(9).iter().map(|p| slow::times(&BigUint::from(392u32), p)).collect();
    let mut scalars: Vec<_> = (0..4).map(|_| random_scalar(&mut next)).collect();
    scalars.extend([1u32, 2, 3, 392].map(BigUint::from));
    scalars.extend([order() - 1u8, order() - 2u8, lambda().0, order() - lambda().1]);
    for k in scalars {
        let want: Vec<_> = inner.iter().map(|p| slow::encode(&slow::times(&k, p))).collect();
        for backend in Backend::available() {
            assert_eq!(encoded(&batch(backend, &inner).mul(&scalar(&k))), want, "{backend} {k}");
        }
    }
}

/// Whether the points of a batch can be multiplied together.
struct Together<'a>(&'a FourQPoints, &'a Digits);

impl Kernel for Together<'_> {
    type Out = bool;
    #[inline(always)]
    fn run<V: Lanes>(self) -> bool {
        let points: Vec<_> = self.0.words.chunks_exact(VECTORS * V::WIDTH).map(Point::<V>::load).collect();
        V::call(MultiplyBlock(&points, self.1, &mut Room::new(points.len()))).is_some()
    }
}

#[test]
fn points_are_multiplied_together_as_they_are_alone() {
    let dst = Dst::new(b"FourQ_XMD:SHA-512_ELL2_RO_");
    // One vector fewer than a block takes, one block, and of the widest lanes two blocks, not of the same length.
    let most = MAX_LANES * (MOST + 1) - 3;
    let inputs = digests(most);
    let mut next = stream(5);
    let mut scalars: Vec<_> = (0..3).map(|_| random_scalar(&mut next)).collect();
    scalars.extend([BigUint::from(392u32), order() - 1u8]);
    for backend in Backend::available() {
        for k in &scalars {
            let k = scalar(k);
            // Eight points are too few for a block on every back end.
            let alone: Vec<_> =
                inputs.chunks(8).flat_map(|few| encoded(&hash(backend, &dst, Inputs::Digests(few)).mul(&k))).collect();
            for n in [MAX_LANES * (LEAST - 1), MAX_LANES * LEAST, most] {
                let together = encoded(&hash(backend, &dst, Inputs::Digests(&inputs[..n])).mul(&k));
                assert!(together == alone[..n], "{backend} {n}");
            }
        }
    }
}

/// What stands in the last vector behind the last point has order N too.
#[test]
fn a_batch_that_does_not_fill_its_last_vector_is_multiplied_together() {
    let inputs = digests(MAX_LANES * LEAST - 3);
    let digits = Digits::of(&scalar(&random_scalar(&mut stream(8))));
    for backend in Backend::available() {
        let hashed = hash(backend, &Dst::new(b"FourQ_XMD:SHA-512_ELL2_RO_"), Inputs::Digests(&inputs));
        let decoded = decode(backend, &encoded(&hashed).concat()).unwrap();
        for points in [hashed, decoded] {
            assert!(backend::run_on(backend, Together(&points, &digits)), "{backend}");
        }
    }
}

#[test]
fn points_that_the_affine_formulas_fail_for_are_multiplied_all_the_same() {
    let inner: Vec<_> = points(LEAST).iter().map(|p| slow::times(&BigUint::from(392u32), p)).collect();
    let good = vec![inner.clone(); MAX_LANES].concat();
    let mut with_neutral = good.clone();
    with_neutral[11] = slow::neutral();
    let k = scalar(&random_scalar(&mut stream(6)));
    for backend in Backend::available() {
        let (good, bad) = (batch(backend, &good), batch(backend, &with_neutral));
        assert!(backend::run_on(backend, Together(&good, &Digits::of(&k))));
        assert!(!backend::run_on(backend, Together(&bad, &Digits::of(&k))));
        let mut want = encoded(&good.mul(&k));
        want[11] = slow::encode(&slow::neutral());
        assert!(encoded(&bad.mul(&k)) == want, "{backend}");
    }
}

#[test]
fn decoding_is_the_inverse_of_encoding() {
    let inner: Vec<_> = points(21).iter().map(|p| slow::times(&BigUint::from(392u32), p)).collect();
    let encodings: Vec<_> = inner.iter().map(slow::encode).collect();
    for backend in Backend::available() {
        let received = decode(backend, &encodings.concat()).unwrap();
        assert_eq!(encoded(&received), encodings, "{backend}");
        assert_eq!(encoded(&received.mul(&FourQScalar::one())), encodings, "{backend}");
    }
}

#[test]
fn points_outside_the_subgroup_are_moved_into_it() {
    // [392/392·k]P of a point with a part of small order is [k] of its other part.
    let outside = points(9);
    let encodings: Vec<_> = outside.iter().map(slow::encode).collect();
    let k = random_scalar(&mut stream(4));
    let inverse = BigUint::from(392u32).modpow(&(order() - 2u8), &order());
    let want: Vec<_> = outside
        .iter()
        .map(|p| slow::encode(&slow::times(&(&k * &inverse % order()), &slow::times(&BigUint::from(392u32), p))))
        .collect();
    for backend in Backend::available() {
        assert_eq!(encoded(&decode(backend, &encodings.concat()).unwrap().mul(&scalar(&k))), want, "{backend}");
    }
}

/// A point of order 56: CIRCL, dh/curve4q/curve4Q_test.go, "lowOrderPoint".
fn order_56() -> Affine {
    let number = |text: &str| BigUint::parse_bytes(text.as_bytes(), 16).unwrap();
    let x = (number("748646d65442509bd893e1aa0421e5c0"), number("56d2ea1302fd3da228ad8fda9a4d2521"));
    let y = (number("58e501570267ba12ef4121223be471af"), number("2c8e320769c4c3ede09c24b8e5f51a0e"));
    (x, y)
}

#[test]
fn decode_refuses_every_kind_of_bad_point() {
    let good = slow::encode(&generator());
    let p = BigUint::from(P);
    let bytes = |re: &BigUint, im: &BigUint, sign: bool| {
        let number: BigUint = re + (im << 128) + (BigUint::from(u8::from(sign)) << 255);
        let mut out = [0; 32];
        let bytes = number.to_bytes_le();
        out[..bytes.len()].copy_from_slice(&bytes);
        out
    };
    let (zero, one) = (BigUint::ZERO, BigUint::from(1u8));
    let mut bad = vec![];
    for sign in [false, true] {
        for (re, im) in [(&p, &zero), (&zero, &p), (&p, &p), (&(&p + 1u8), &zero), (&(&p + 5u8), &one)] {
            bad.push((bytes(re, im, sign), "is not a canonical encoding"));
        }
        // (0, 1), (0, -1) with either sign of x, and (±i, 0).
        for re in [&one, &(&p - 1u8), &zero] {
            bad.push((bytes(re, &zero, sign), "is of small order"));
        }
    }
    let low = order_56();
    assert!(slow::on_curve(&low));
    for k in 1u32..56 {
        bad.push((slow::encode(&slow::times(&BigUint::from(k), &low)), "is of small order"));
    }
    // Points of all orders that divide 392.
    for point in points(3) {
        bad.push((slow::encode(&slow::times(&order(), &point)), "is of small order"));
    }
    let (mut next, mut off) = (stream(9), 0);
    while off < 40 {
        let y = (u128::from(next()) << 63 ^ u128::from(next()), u128::from(next()) << 63 ^ u128::from(next()));
        // Half of them in the prime field or purely imaginary, where w1 = 0 has its own case.
        let y = slow::of([y, (y.0, 0), (0, y.1), y][off % 4]);
        let yy = slow::mul(&y, &y);
        let v = slow::add(&slow::mul(&yy, &slow::of(curve::D)), &slow::of((1, 0)));
        let xx = slow::mul(&slow::sub(&yy, &slow::of((1, 0))), &slow::inv(&v));
        if !slow::is_square(&xx) {
            bad.push((bytes(&y.0, &y.1, off % 3 == 0), "is not on the curve"));
            off += 1;
        }
    }
    for backend in Backend::available() {
        for (i, (element, why)) in bad.iter().enumerate() {
            for (index, len) in [(0, 1), (i % 17, 17), (16, 17)] {
                let mut wire = good.repeat(len);
                wire[32 * index..32 * index + 32].copy_from_slice(element);
                // A later fault of any kind does not hide it.
                wire.extend(bad[(i * 7) % bad.len()].0);
                assert_eq!(decode(backend, &wire).err(), Some(BadElement { index, why }), "{backend} {i}");
            }
        }
        for cut in [1, 31] {
            let mut wire = good.repeat(3);
            wire.truncate(96 - cut);
            assert_eq!(decode(backend, &wire).err(), Some(BadElement { index: 2, why: "is cut short" }));
        }
        assert!(decode(backend, &good.repeat(3)).is_ok());
    }
}

#[test]
fn decode_takes_roots_of_every_form() {
    // y in the prime field or purely imaginary, small and large: x may be of either form too.
    let one = slow::of((1, 0));
    let mut list = vec![];
    for i in 2..40u128 {
        for y in [(i, 0), (0, i), (P - i, 0), (0, P - i), (i, P - i), (i, 1)] {
            let y = slow::of(y);
            let yy = slow::mul(&y, &y);
            let v = slow::add(&slow::mul(&yy, &slow::of(curve::D)), &one);
            if let Some(x) = slow::sqrt(&slow::mul(&slow::sub(&yy, &one), &slow::inv(&v))) {
                list.push((x.clone(), y.clone()));
                list.push((slow::neg(&x), y));
            }
        }
    }
    assert!(list.len() > 100);
    let want: Vec<_> = list.iter().map(|p| slow::encode(&slow::times(&BigUint::from(392u32), p))).collect();
    let wire: Vec<_> = list.iter().map(slow::encode).collect();
    for backend in Backend::available() {
        let received = decode(backend, &wire.concat()).unwrap();
        assert_eq!(encoded(&FourQPoints { cleared: false, ..received }), want, "{backend}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Hashing

/// RFC 9380, section 6.7.1 and appendix D.1, step by step.
fn slow_map(u: &slow::Fp2) -> Affine {
    use slow::{add, inv, mul, neg, of, sub};
    let minus_one = neg(&of((1, 0)));
    let d = of(curve::D);
    let j = mul(&mul(&of((2, 0)), &add(&minus_one, &d)), &inv(&sub(&minus_one, &d)));
    let k = mul(&of((4, 0)), &inv(&sub(&minus_one, &d)));
    let c1 = mul(&j, &inv(&k));
    let c2 = inv(&mul(&k, &k));
    let tv1 = mul(&of(Z), &mul(u, u));
    let x1 = mul(&neg(&c1), &inv(&add(&tv1, &of((1, 0)))));
    let g = |x: &slow::Fp2| mul(&add(&mul(&add(x, &c1), x), &c2), x);
    let sgn0 = |x: &slow::Fp2| if x.0 == BigUint::ZERO { x.1.bit(0) } else { x.0.bit(0) };
    let (x, sign) = if slow::is_square(&g(&x1)) { (x1, true) } else { (sub(&neg(&x1), &c1), false) };
    let mut y = slow::sqrt(&g(&x)).unwrap();
    if sgn0(&y) != sign {
        y = neg(&y);
    }
    let (s, t) = (mul(&x, &k), mul(&y, &k));
    let one = of((1, 0));
    (mul(&s, &inv(&t)), mul(&sub(&s, &one), &inv(&add(&s, &one))))
}

/// `expand_message_xmd` with SHA-512, 128 bytes: RFC 9380, section 5.3.1.
fn slow_expand(dst: &Dst, message: &[u8]) -> Vec<u8> {
    use sha2::{Digest as _, Sha512};
    let prime = [dst.as_bytes(), &[dst.as_bytes().len() as u8]].concat();
    let b0 = Sha512::digest([&[0; 128], message, &[0, 128, 0], &prime].concat());
    let b1 = Sha512::digest([&b0[..], &[1], &prime].concat());
    let mixed: Vec<u8> = b0.iter().zip(&b1).map(|(a, b)| a ^ b).collect();
    let b2 = Sha512::digest([&mixed[..], &[2], &prime].concat());
    [&b1[..], &b2].concat()
}

fn slow_hash(dst: &Dst, digest: &Digest) -> Affine {
    let uniform = slow_expand(dst, &digest.0);
    let e: Vec<_> = uniform.chunks(32).map(|bytes| BigUint::from_bytes_be(bytes) % slow::p()).collect();
    let [a, b, c, d] = e.try_into().unwrap();
    let q = slow::sum(&slow_map(&(a, b)), &slow_map(&(c, d)));
    slow::times(&BigUint::from(392u32), &q)
}

#[test]
fn constants_are_those_of_the_rfc() {
    use slow::{add, inv, is_square, mul, neg, of, sub};
    let minus_one = neg(&of((1, 0)));
    let d = of(curve::D);
    let j = mul(&mul(&of((2, 0)), &add(&minus_one, &d)), &inv(&sub(&minus_one, &d)));
    let k = mul(&of((4, 0)), &inv(&sub(&minus_one, &d)));
    assert_eq!(of(J_OVER_K), mul(&j, &inv(&k)));
    assert_eq!(of(ONE_OVER_K), inv(&k));
    assert_eq!(of(ONE_OVER_K2), inv(&mul(&k, &k)));
    // find_z_ell2, RFC 9380, appendix H.3: ctr = i, i + 1, ..., each with its negative.
    let z = (0..).map(|n| of((n, 1))).flat_map(|z| [z.clone(), neg(&z)]).find(|z| !is_square(z)).unwrap();
    assert_eq!(of(Z), z);
    assert_eq!(slow::norm(&z), BigUint::from(5u8));
    assert_eq!(BigUint::from(ROOT_OF_MINUS_5).modpow(&BigUint::from(2u8), &slow::p()), slow::p() - 5u8);
    // The curve is complete.
    assert!(!is_square(&d) && is_square(&minus_one));
}

#[test]
fn hash_follows_the_rfc() {
    for tag in [&b"QUUX-V01-CS02-with-FourQ_XMD:SHA-512_ELL2_RO_"[..], b"x"] {
        let dst = Dst::new(tag);
        let inputs = digests(19);
        let want: Vec<_> = inputs.iter().map(|digest| slow::encode(&slow_hash(&dst, digest))).collect();
        for backend in Backend::available() {
            assert_eq!(encoded(&hash(backend, &dst, Inputs::Digests(&inputs))), want, "{backend}");
        }
    }
}

#[test]
fn hash_is_pinned() {
    // Vesica's own suite: these bytes change only with a new wire version.
    let dst = Dst::new(b"FourQ_XMD:SHA-512_ELL2_RO_");
    let got =
        encoded(&hash(Backend::Portable, &dst, Inputs::Digests(&[Digest([0; 16]), Digest(*b"0123456789abcdef")])));
    assert_eq!(got, PINNED.map(hex));
}
const PINNED: [&str; 2] = [
    "a2c6083be453e3bd63558654d4e7952bed118f487e3200b0802c64b788f3b5d0",
    "44b7a6de8bf29e0e9d2080422e7f4019d5e59bac04654d37c774d51d6573ea88",
];

/// The map on field elements that hashing never meets.
struct MapEdges<'a>(&'a [[(u128, u128); 2]]);

impl Kernel for MapEdges<'_> {
    type Out = Vec<u64>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Vec<u64> {
        let mut words = Vec::new();
        let mut points = Vec::new();
        let elements: Vec<_> = self.0.iter().map(|pair| [Fp2::splat(pair[0]), Fp2::splat(pair[1])]).collect();
        V::call(Map(&elements, &mut points));
        for p in &points {
            push::<V>(&mut words, p);
        }
        words
    }
}

#[test]
fn map_on_edges() {
    let edges = [(0, 0), (1, 0), (0, 1), (P - 1, 0), (0, P - 1), (P - 1, P - 1), (P, P), (2, 1), (1 << 126, 1 << 43)];
    let pairs: Vec<_> = edges.iter().flat_map(|&a| edges.map(|b| [a, b])).collect();
    for backend in Backend::available() {
        let words = backend::run_on(backend, MapEdges(&pairs));
        let width = words.len() / pairs.len() / VECTORS;
        let points = FourQPoints { backend, len: pairs.len() * width, cleared: false, words };
        for (pair, got) in pairs.iter().zip(encoded(&points).chunks(width)) {
            let [a, b] = pair.map(|u| slow_map(&slow::of(u)));
            let want = slow::encode(&slow::times(&BigUint::from(392u32), &slow::sum(&a, &b)));
            assert!(got.iter().all(|got| *got == want), "{backend} {pair:?}");
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Back ends

#[test]
fn every_back_end_does_what_the_portable_one_does() {
    let dst = Dst::new(b"FourQ_XMD:SHA-512_ELL2_RO_");
    let (a, b) = (FourQScalar::from_uniform(&[3; 64]), FourQScalar::from_uniform(&[200; 64]));
    for n in [0, 1, 3, 4, 5, 7, 8, 9, 17, 31, 255, 256, 257, 1000] {
        let inputs = digests(n);
        let run = |backend| {
            let once = encoded(&hash(backend, &dst, Inputs::Digests(&inputs)).mul(&a));
            let twice = encoded(&decode(backend, &once.concat()).unwrap().mul(&b));
            (once, twice)
        };
        let want = run(Backend::Portable);
        assert_eq!(want.0.len(), n);
        for backend in Backend::available() {
            assert!(run(backend) == want, "{backend} {n}");
        }
    }
}

#[test]
fn masks_commute() {
    let dst = Dst::new(b"FourQ_XMD:SHA-512_ELL2_RO_");
    let inputs = digests(10);
    let (a, b) = (FourQScalar::from_uniform(&[1; 64]), FourQScalar::from_uniform(&[2; 64]));
    let both = |first: &FourQScalar, second: &FourQScalar| {
        let mut wire = vec![];
        FourQ::hash(&dst, &inputs).mul(first).encode(&mut wire);
        encoded(&FourQ::decode(&wire, &[0; 32]).unwrap().mul(second))
    };
    let ab = both(&a, &b);
    assert_eq!(ab, both(&b, &a));
    assert_eq!(ab, encoded(&FourQ::hash(&dst, &inputs).mul(&a).mul(&b)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Blinding

/// Random bytes that make these digits, by element and window.
fn digits_of(digit: impl Fn(usize, usize) -> u64) -> impl FnMut(&mut [u8]) {
    let mut word = 0;
    move |bytes| {
        for (lane, bytes) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let digits = (0..12).map(|i| digit(8 * (word / 5) + lane, 12 * (word % 5) + i) << (5 * i));
            *bytes = digits.sum::<u64>().to_le_bytes();
        }
        word += 1;
    }
}

/// The multiplier of these digits, from the lowest.
fn multiplier(digit: impl Fn(usize) -> u64) -> BigUint {
    let n = BigInt::from(order());
    let r = (0..blind::BITS / 5).rev().fold(BigInt::ZERO, |r, window| r * 32 + 2 * digit(window) - 31u8);
    (((r % &n) + &n) % &n).to_biguint().unwrap()
}

/// The affine point of an own encoding.
fn affine(encoding: &[u8; 32]) -> Affine {
    let number = BigUint::from_bytes_le(encoding);
    let (mask, one) = (BigUint::from(P), slow::of((1, 0)));
    let y = (&number & &mask, (&number >> 128) & &mask);
    let yy = slow::mul(&y, &y);
    let v = slow::add(&slow::mul(&yy, &slow::of(curve::D)), &one);
    let x = slow::sqrt(&slow::mul(&slow::sub(&yy, &one), &slow::inv(&v))).unwrap();
    [(x.clone(), y.clone()), (slow::neg(&x), y)].into_iter().find(|p| slow::encode(p) == *encoding).unwrap()
}

#[test]
fn unblinding_undoes_blinding() {
    let dst = Dst::new(b"vesica test of blinding");
    let bases: Vec<_> = Backend::available().into_iter().map(|backend| (backend, blind::base(backend))).collect();
    for n in [0, 1, 3, 4, 5, 7, 8, 9, 17, 31, 1000] {
        let inputs = digests(n);
        let k = scalar(&random_scalar(&mut stream(n as u64)));
        let want = encoded(&hash(Backend::Portable, &dst, Inputs::Digests(&inputs)).mul(&k));
        let blinded = |backend, base| {
            let mut bytes = blake3::Hasher::new().update(b"blinds").finalize_xof();
            let digits = blind::Digits::draw(n, &mut |out| bytes.fill(out));
            let mut wire = Vec::new();
            (blind::blind(backend, base, &dst, &inputs, digits, &mut wire), wire)
        };
        let (_, sent) = blinded(Backend::Portable, &bases[0].1);
        for (backend, base) in &bases {
            let (blinds, wire) = blinded(*backend, base);
            assert!(wire == sent, "{n} elements, {backend}");
            let (mut evaluated, mut out) = (Vec::new(), Vec::new());
            blind::evaluate(*backend, &k, &wire, &mut evaluated).unwrap();
            let key = blind::key(*backend, &blind::public(*backend, &k)).unwrap();
            blind::unblind(*backend, &key, &blinds, &evaluated, &mut out).unwrap();
            assert!(out == want.concat(), "{n} elements, {backend}");
        }
    }
}

/// Digits at their bounds and in between, and k/392 of what they make.
#[test]
fn blinding_is_what_it_says() {
    let dst = Dst::new(b"vesica test of blinding");
    let inputs = digests(35);
    // The same digit in all windows, for the first 32; then one that is lowest among highest; then any.
    let digit = |element: usize, window: usize| match element {
        0..32 => element as u64,
        32 => 31 * u64::from(window != 7),
        33 => 31 * u64::from(window == 7),
        _ => (window as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59,
    };
    let inverse = BigUint::from(392u32).modpow(&(order() - 2u8), &order());
    let k = random_scalar(&mut stream(11));
    let mut wanted: Option<[Vec<[u8; 32]>; 2]> = None;
    for backend in Backend::available() {
        let base = blind::base(backend);
        let digits = blind::Digits::draw(inputs.len(), &mut digits_of(digit));
        let (mut wire, mut evaluated) = (Vec::new(), Vec::new());
        blind::blind(backend, &base, &dst, &inputs, digits, &mut wire);
        blind::evaluate(backend, &scalar(&k), &wire, &mut evaluated).unwrap();
        // The reference is slow, and asked once.
        let [blinded, products] = wanted.get_or_insert_with(|| {
            let hashed = encoded(&hash(backend, &dst, Inputs::Digests(&inputs)));
            let points: Vec<Affine> = hashed
                .iter()
                .enumerate()
                .map(|(i, h)| slow::sum(&affine(h), &slow::times(&multiplier(|w| digit(i, w)), &generator())))
                .collect();
            let by = &k * &inverse % order();
            let products = points[30..].iter().map(|p| slow::encode(&slow::times(&by, p))).collect();
            [points.iter().map(slow::encode).collect(), products]
        });
        assert!(wire == blinded.concat(), "{backend}");
        assert!(evaluated[30 * 32..] == products.concat(), "{backend}");
        let public = blind::public(backend, &scalar(&k));
        assert_eq!(public, slow::encode(&slow::times(&k, &generator())));
        assert_eq!(blind::public(backend, &FourQScalar::one()), slow::encode(&generator()));
    }
}

#[test]
fn unblind_refuses() {
    let dst = Dst::new(b"vesica test of blinding");
    let inputs = digests(19);
    let k = BigUint::from(7u8);
    let inverse = BigUint::from(392u32).modpow(&(order() - 2u8), &order());
    let small = slow::encode(&order_56());
    let missing = "is missing, or one too many";
    let public = slow::encode(&slow::times(&k, &generator()));
    // What a peer sends so that nothing is left: r·K/392, with digits that are all 9.
    let mask = multiplier(|_| 9) * &k * inverse % order();
    let mask = slow::encode(&slow::times(&mask, &generator()));
    for backend in Backend::available() {
        assert_eq!(blind::key(backend, &small).err(), Some(BadElement { index: 0, why: "is of small order" }));
        for (wrong, index, why) in [
            (&[][..], 0, missing),
            (&[public, public].concat(), 1, missing),
            (&public[..31], 0, "is cut short"),
            (&[&public[..], &[0]].concat(), 1, "is cut short"),
        ] {
            assert_eq!(blind::key(backend, wrong).err(), Some(BadElement { index, why }));
        }
        let (base, key) = (blind::base(backend), blind::key(backend, &public).unwrap());
        let mut wire = Vec::new();
        let digits = blind::Digits::draw(19, &mut digits_of(|_, _| 9));
        let blinds = blind::blind(backend, &base, &dst, &inputs, digits, &mut wire);
        let mut good = Vec::new();
        blind::evaluate(backend, &scalar(&k), &wire, &mut good).unwrap();
        let unblind = |evaluated: &[u8]| {
            let mut out = Vec::new();
            blind::unblind(backend, &key, &blinds, evaluated, &mut out).map(|()| out)
        };
        let want = unblind(&good).unwrap();
        assert_eq!(unblind(&good[..18 * 32]), Err(BadElement { index: 18, why: missing }));
        assert_eq!(unblind(&good[..18 * 32 + 5]), Err(BadElement { index: 18, why: "is cut short" }));
        assert_eq!(unblind(&[&good[..], &public].concat()), Err(BadElement { index: 19, why: missing }));
        for index in [0, 7, 18] {
            let with = |element: &[u8]| [&good[..32 * index], element, &good[32 * (index + 1)..]].concat();
            assert_eq!(unblind(&with(&small)), Err(BadElement { index, why: "is of small order" }), "{backend}");
            // Who sent the mask guessed the input right, and is not told.
            let out = unblind(&with(&mask)).unwrap();
            for (element, (got, want)) in out.chunks(32).zip(want.chunks(32)).enumerate() {
                assert_eq!(got == want, element != index, "{backend} {element}");
            }
        }
    }
}

/// The statistical distance of r from uniform is b·(n - b)/(n·2^w), b = 2^w modulo n.
#[test]
fn multipliers_are_uniform() {
    let (n, all) = (order(), BigUint::from(1u8) << blind::BITS);
    let b = &all % &n;
    assert!((&b * (&n - &b)) << 125 < n * all);
}
