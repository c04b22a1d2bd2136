//! BFV, BGV and CKKS against Microsoft SEAL 4.4.3: its keys, its ciphertexts and its results on one circuit, in
//! `tests/vectors/seal.txt`. What SEAL computes without noise of its own, we compute word for word; what it decrypts, we decrypt.

use super::*;
use crate::bfv::{Slots, centred};
use crate::ckks::Embedding;
use crate::{bfv, bgv};
use std::collections::HashMap;

const N: usize = 128;
const T: u64 = 65537;
/// The ring of the vectors. It is too small to be secure, and holds nothing.
const RING: RlweSet = RlweSet {
    id: "seal",
    n: N,
    primes: &[1125889168998401, 1125874136383489],
    special: None,
    plain: T,
    answer_bits: [26, 26],
    // That of any set: nobody asks how strong this one is.
    strength: vesica_params::rlwe::RLWE_2048.strength,
    source: "tests/vectors/seal.cpp",
    date: "2026-11-23",
};

/// What SEAL wrote of one scheme.
struct Seal(HashMap<&'static str, Vec<u64>>);

impl Seal {
    fn of(scheme: &str) -> Self {
        let text = include_str!("../../tests/vectors/seal.txt");
        let from = text.lines().skip_while(|line| *line != format!("scheme {scheme}")).skip(1);
        let lines = from.take_while(|line| !line.starts_with("scheme")).map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            (name, words.map(|word| u64::from_str_radix(word, 16).unwrap()).collect())
        });
        Self(lines.collect())
    }

    fn words(&self, name: &str) -> Vec<u64> {
        self.0[name].clone()
    }

    /// A ciphertext, which stands there in coefficient form.
    fn ciphertext(&self, ring: &Rlwe, name: &str) -> Ciphertext {
        let part = |which: &str| {
            let mut words = self.words(&format!("{name}.{which}"));
            ring.basis.forward(&mut words);
            words
        };
        Ciphertext { b: part("b"), a: part("a") }
    }

    fn secret(&self, ring: &Rlwe) -> Secret {
        let small = signed(&self.words("secret"), RING.primes[0]);
        assert!(small.iter().all(|c| (-1..=1).contains(c)) && small.contains(&1) && small.contains(&-1));
        let mut values = Zeroizing::new(ring.basis.signed(ring.limbs, &small));
        ring.basis.forward(&mut values);
        Secret { values }
    }

    /// x·p + y·w as we compute it, for p and w with these coefficients.
    fn sum(&self, ring: &Rlwe, coefficients: impl Fn(&str) -> Vec<i64>) -> Ciphertext {
        let plain = ["p", "w"].map(|name| ring.plaintext(&coefficients(name)));
        tests::dot(ring, &[self.ciphertext(ring, "x"), self.ciphertext(ring, "y")], &plain)
    }
}

/// Residues as the numbers next to zero.
fn signed(words: &[u64], p: u64) -> Vec<i64> {
    words.iter().map(|&c| if c > p / 2 { c as i64 - p as i64 } else { c as i64 }).collect()
}

/// The message of a ciphertext of BFV: t times the phase over the first prime, rounded, by integers of 128 bits.
fn message(ring: &Rlwe, key: &Secret, mut ciphertext: Ciphertext) -> Vec<u64> {
    ring.switch_to_one(&mut ciphertext);
    let p = u128::from(RING.primes[0]);
    let round = |&c: &u64| ((u128::from(c) * u128::from(T) + p / 2) / p % u128::from(T)) as u64;
    ring.phase(key, &ciphertext).iter().map(round).collect()
}

fn same(ours: &Ciphertext, theirs: &Ciphertext) {
    assert!(ours.b == theirs.b && ours.a == theirs.a, "the ciphertexts differ");
}

#[test]
fn bfv_is_seals() {
    let (seal, ring) = (Seal::of("bfv"), Rlwe::new(&RING, 2, bfv::STEP));
    let key = seal.secret(&ring);
    assert_eq!(message(&ring, &key, seal.ciphertext(&ring, "x")), seal.words("x.plain"));
    let ours = seal.sum(&ring, |name| seal.words(name).into_iter().map(|m| centred(m, T)).collect());
    same(&ours, &seal.ciphertext(&ring, "sum"));
    assert_eq!(message(&ring, &key, ours), seal.words("sum.plain"));
}

#[test]
fn bgv_is_seals() {
    let (seal, ring) = (Seal::of("bgv"), Rlwe::new(&RING, 2, bgv::step(T)));
    let key = seal.secret(&ring);
    let ours = seal.sum(&ring, |name| seal.words(name).into_iter().map(|m| centred(m, T)).collect());
    same(&ours, &seal.ciphertext(&ring, "sum"));
    // By BGV's own definition: the phase next to zero, modulo t.
    for (name, ciphertext) in [("x.plain", seal.ciphertext(&ring, "x")), ("sum.plain", ours)] {
        let mut one = ciphertext.clone();
        ring.switch_to_one(&mut one);
        let low = signed(&ring.phase(&key, &one), RING.primes[0]).into_iter().map(|c| c.rem_euclid(T as i64) as u64);
        assert_eq!(low.collect::<Vec<_>>(), seal.words(name), "{name}");
        // As our answers are decoded: by way of BFV.
        let mut crossed = ciphertext;
        bgv::to_bfv(&ring, &mut crossed, T);
        let as_bfv = Rlwe::new(&RING, 2, bfv::STEP);
        assert_eq!(message(&as_bfv, &key, crossed), seal.words(name), "{name}, by way of BFV");
    }
}

/// SEAL puts word i of the first half at ψ^(3^i), and of the second half at the inverse of that, for a root ψ.
#[test]
fn slots_and_rotations_are_seals() {
    let seal = Seal::of("bfv");
    let mut ours = seal.words("x.plain");
    Slots::new(N).to_slots(&mut ours);
    let ntt = vesica_ring::Ntt::new(vesica_ring::Modulus::new(T), N);
    let mut at = vec![0; 2 * N];
    ours.iter().enumerate().for_each(|(k, &word)| at[ntt.exponent(k)] = word);
    let slots = seal.words("x.slots");
    // Its ψ is the least root, and ours is a power of that.
    let power = (1..2 * N).step_by(2).find(|power| at[*power] == slots[0]).expect("a power of SEAL's root");
    let mut exponent = power;
    for (i, &word) in slots[..N / 2].iter().enumerate() {
        assert_eq!(at[exponent], word, "slot {i}");
        assert_eq!(at[2 * N - exponent], slots[N / 2 + i], "slot {i} of the second half");
        exponent = exponent * 3 % (2 * N);
    }
    // X to X^3 in the plaintext of the rotated ciphertext.
    let (plain, turned) = (seal.words("x.plain"), seal.words("turned.plain"));
    for (k, &c) in plain.iter().enumerate() {
        let place = 3 * k % (2 * N);
        let wanted = if place < N { c } else { (T - c) % T };
        assert_eq!(turned[place % N], wanted, "coefficient {k}");
    }
    // Our automorphism is the same one.
    let ring = Rlwe::new(&RING, 2, bfv::STEP);
    let (key, x) = (seal.secret(&ring), seal.ciphertext(&ring, "x"));
    let map = ring.basis.automorphism(3);
    let permute = |words: &[u64]| {
        let mut out = vec![0; words.len()];
        ring.basis.permute(&map, words, &mut out);
        out
    };
    let permuted = Ciphertext { b: permute(&x.b), a: permute(&x.a) };
    let key = Secret { values: Zeroizing::new(permute(&key.values)) };
    assert_eq!(message(&ring, &key, permuted), turned);
}

#[test]
fn ckks_is_seals() {
    let (seal, ring, scale) = (Seal::of("ckks"), Rlwe::new(&RING, 2, bfv::STEP), 2_f64.powi(40));
    let (key, embedding) = (seal.secret(&ring), Embedding::new(N));
    let numbers = |i: usize| -> Vec<f64> { seal.words(&format!("slots{i}")).into_iter().map(f64::from_bits).collect() };
    // The exponents that SEAL's slots stand at: powers of 3. Ours stand at 4j + 1; what is elsewhere is a conjugate's.
    let place = |i: usize| {
        let exponent = (0..i).fold(1, |e, _| e * 3 % (2 * N));
        if exponent % 4 == 1 { exponent / 4 } else { (2 * N - exponent) / 4 }
    };
    let check = |ciphertext: &Ciphertext, scale: f64, wanted: Vec<f64>| {
        let p = RING.primes[0];
        let phase = ring.phase(&key, ciphertext);
        let coefficients: Vec<f64> = signed(&phase[..N], p).into_iter().map(|c| c as f64).collect();
        let slots = embedding.decode(&coefficients, scale);
        for (i, number) in wanted.into_iter().enumerate() {
            let error = (slots[place(i)][0] - number).abs();
            assert!(error < 1e-7 * number.abs().max(1000.0), "slot {i}: {} for {number}", slots[place(i)][0]);
        }
    };
    let mut x = seal.ciphertext(&ring, "x");
    check(&Ciphertext { b: x.b[..N].to_vec(), a: x.a[..N].to_vec() }, scale, numbers(0));

    let p = |name: &str| signed(&seal.words(name), RING.primes[0]);
    let mut ours = seal.sum(&ring, p);
    same(&ours, &seal.ciphertext(&ring, "sum"));
    ring.switch_to_one(&mut ours);
    let rescaled = |which: &str| {
        let mut words = seal.words(&format!("rescaled.{which}"));
        ring.basis.forward(&mut words);
        words
    };
    same(&ours, &Ciphertext { b: rescaled("b"), a: rescaled("a") });
    let all: Vec<_> = (0..4).map(numbers).collect();
    let sums = (0..N / 2).map(|j| all[0][j] * all[2][j] + all[1][j] * all[3][j]).collect();
    check(&ours, scale * scale / RING.primes[1] as f64, sums);

    // The check sees a wrong number.
    x.b[0] ^= 1 << 48;
    let wrong = Ciphertext { b: x.b[..N].to_vec(), a: x.a[..N].to_vec() };
    assert!(std::panic::catch_unwind(|| check(&wrong, scale, numbers(0))).is_err());
}
