//! Keys that carry ciphertexts from one secret to another.

use super::{Ciphertext, Rlwe, Secret};
use crate::sample::PublicStream;
use crate::wire::HeError;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// A key that carries ciphertexts under one secret to another: a pair for each prime of Q, over Q and the special prime.
pub struct SwitchKey {
    /// In Montgomery's form ([`vesica_ring::Ntt::to_montgomery`]).
    digits: Vec<Ciphertext>,
}

/// Memory that a key switch works in. It is asked for once and used for many, because new memory costs a page fault for
/// each 4096 bytes, and all those of one switch would cost as much as the switch itself.
pub(crate) struct Scratch {
    /// The coefficients of a modulo each prime of Q.
    digits: Vec<u64>,
    /// The digits as values modulo one other prime.
    values: Vec<u64>,
    /// What is divided away, of b and of a.
    tails: [Vec<u64>; 2],
    /// A polynomial modulo one prime.
    rest: Vec<u64>,
}

impl Scratch {
    /// Memory for switches in this ring.
    pub fn new(ring: &Rlwe) -> Self {
        let (one, all) = (vec![0; ring.n()], vec![0; ring.limbs * ring.n()]);
        Self { digits: all.clone(), values: all, tails: [one.clone(), one.clone()], rest: one }
    }
}

impl Rlwe {
    /// The b of each pair of a key that carries ciphertexts under s(X^g) to s.
    ///
    /// # Panics
    /// If the set has no special prime.
    pub fn galois_key(&self, key: &Secret, g: usize, public: &mut PublicStream, rng: &mut SessionRng) -> Vec<Vec<u64>> {
        let mut moved = key.values.clone();
        self.basis.permute(&self.basis.automorphism(g), &key.values, &mut moved);
        self.switch_key(key, moved, public, rng)
    }

    /// The b of each pair of a key that carries ciphertexts under s² to s.
    ///
    /// # Panics
    /// If the set has no special prime.
    pub fn square_key(&self, key: &Secret, public: &mut PublicStream, rng: &mut SessionRng) -> Vec<Vec<u64>> {
        let mut square = key.values.clone();
        self.basis.mul(&mut square, &key.values);
        self.switch_key(key, square, public, rng)
    }

    /// The b of each pair of a key that carries ciphertexts under the secret `from` to s. Pair j holds P·from modulo prime
    /// j, and zero modulo the others.
    fn switch_key(
        &self,
        key: &Secret,
        mut from: Zeroizing<Vec<u64>>,
        public: &mut PublicStream,
        rng: &mut SessionRng,
    ) -> Vec<Vec<u64>> {
        let special = self.special.expect("a set with a special prime");
        let (n, all) = (self.n(), self.basis.limbs());
        for (ntt, limb) in self.basis.each(&mut from[..self.limbs * n]) {
            ntt.scale(limb, ntt.modulus().factor(special));
        }
        let zero = vec![0; all * n];
        let pair = |j: usize| {
            let mut b = self.encrypt(key, &zero, public, rng);
            self.basis.limb(j).add(&mut b[j * n..(j + 1) * n], &from[j * n..(j + 1) * n]);
            b
        };
        (0..self.limbs).map(pair).collect()
    }

    /// Bytes of a key that is switched with, on the wire.
    pub fn key_bytes(&self) -> usize {
        self.limbs * self.bytes(self.limbs + 1)
    }

    /// A key from the b of its pairs and the stream.
    ///
    /// # Errors
    /// As [`Rlwe::read`].
    pub fn read_key(&self, bytes: &[u8], public: &mut PublicStream) -> Result<SwitchKey, HeError> {
        let all = self.basis.limbs();
        let digit = |bytes| {
            let mut pair = Ciphertext { b: self.read(all, bytes)?, a: self.uniform(all, public) };
            self.basis.to_montgomery(&mut pair.b);
            self.basis.to_montgomery(&mut pair.a);
            Ok(pair)
        };
        Ok(SwitchKey { digits: bytes.chunks(self.bytes(all)).map(digit).collect::<Result<_, HeError>>()? })
    }

    /// A ciphertext under s whose phase is a·s', where the key carries s' to s, into `out`.
    ///
    /// Digit j of a is a modulo prime j, centred. The sum Σ digit_j·pair_j over Q and the special prime P holds P·a·s',
    /// and dividing it by P leaves a·s'. The sum modulo P comes first, because it is what the division takes from all
    /// others.
    pub(crate) fn switch(&self, a: &[u64], key: &SwitchKey, scratch: &mut Scratch, out: &mut Ciphertext) {
        let (n, special) = (self.n(), self.limbs);
        let Scratch { digits, values, tails: [b_tail, a_tail], rest } = scratch;
        digits.copy_from_slice(a);
        self.basis.inverse(digits);
        self.digits_times_key(special, a, key, digits, values, [b_tail, a_tail]);
        self.basis.remainder(special, b_tail);
        self.basis.remainder(special, a_tail);
        for (i, (b, a_out)) in out.b.chunks_exact_mut(n).zip(out.a.chunks_exact_mut(n)).enumerate() {
            self.digits_times_key(i, a, key, digits, values, [&mut *b, &mut *a_out]);
            self.basis.divide(special, i, b_tail, rest, b);
            self.basis.divide(special, i, a_tail, rest, a_out);
        }
    }

    /// Σ digit_j·pair_j modulo prime `i`, where `a` is in evaluation form and `digits` are its coefficients.
    fn digits_times_key(
        &self,
        i: usize,
        a: &[u64],
        key: &SwitchKey,
        digits: &[u64],
        values: &mut [u64],
        [b_out, a_out]: [&mut [u64]; 2],
    ) {
        let (n, ntt) = (self.n(), self.basis.limb(i));
        for (j, (digit, value)) in digits.chunks_exact(n).zip(values.chunks_exact_mut(n)).enumerate() {
            if j != i {
                ntt.lift(self.basis.limb(j).modulus(), digit, value);
                ntt.forward(value);
            }
        }
        let limb = i * n..(i + 1) * n;
        let mut terms = Vec::with_capacity(self.limbs);
        for (j, (pair, value)) in key.digits.iter().zip(values.chunks_exact(n)).enumerate() {
            // A digit's values modulo its own prime are those of a.
            let value = if j == i { &a[limb.clone()] } else { value };
            terms.push([&pair.b[limb.clone()], &pair.a[limb.clone()], value]);
        }
        ntt.dot2(&terms, b_out, a_out);
    }
}
