//! Ciphertexts over polynomials: what BFV, BGV and CKKS have in common.
//!
//! A ciphertext under the secret s is a pair (b, a) of polynomials modulo Q, and what it holds is its *phase*
//! b + a·s = message + step·error. The message's place in the phase is what tells the three schemes apart: BFV and CKKS have
//! step 1, BGV has step t. The uniform a is drawn from a public seed, which travels in its place.
//!
//! Source: J. Fan, F. Vercauteren, eprint 2012/144 (BFV); Z. Brakerski, C. Gentry, V. Vaikuntanathan, eprint 2011/277 (BGV);
//! J. Cheon, A. Kim, M. Kim, Y. Song, eprint 2016/421 (CKKS). Key switching with a special prime: C. Gentry, S. Halevi,
//! N. Smart, eprint 2012/099, with one digit for each prime. Expansion: S. Angel, H. Chen, K. Laine, S. Setty, SealPIR,
//! eprint 2017/1142, figure 3.
//!
//! Key switching assumes that encryptions of functions of the secret under itself are safe, as all of these schemes do.

use crate::sample::{PublicStream, errors, ternary};
use crate::wire::HeError;
use vesica_params::rlwe::RlweSet;
use vesica_ring::Basis;
use vesica_ring::bits::{pack, packed_bytes, unpack};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Bits of a residue on the wire: every prime is below 2^50.
const RESIDUE_BITS: u32 = 50;

/// A ring and its modulus.
pub struct Rlwe {
    /// The primes of Q, and after them the special one.
    basis: Basis,
    limbs: usize,
    step: u64,
    special: Option<u64>,
}

/// A secret polynomial with coefficients -1, 0 and 1, wiped when it is dropped.
pub struct Secret {
    /// Its values modulo every prime of the basis.
    values: Zeroizing<Vec<u64>>,
}

/// A pair (b, a) in evaluation form, over the first primes of Q.
#[derive(Clone)]
pub struct Ciphertext {
    /// b.
    pub b: Vec<u64>,
    /// a.
    pub a: Vec<u64>,
}

/// A key that carries ciphertexts under one secret to another: a pair for each prime of Q, over Q and the special prime.
pub struct SwitchKey {
    digits: Vec<Ciphertext>,
}

impl Rlwe {
    /// The ring of a set, with the first `limbs` of its primes. Errors are multiplied by `step`: t for BGV, else 1.
    ///
    /// # Panics
    /// If the set has fewer primes.
    pub fn new(set: &RlweSet, limbs: usize, step: u64) -> Self {
        let primes: Vec<u64> = set.primes[..limbs].iter().copied().chain(set.special).collect();
        Self { basis: Basis::new(&primes, set.n, step), limbs, step, special: set.special }
    }

    /// Coefficients of a polynomial.
    pub fn n(&self) -> usize {
        self.basis.n()
    }

    /// Primes of Q.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The primes of Q, and after them the special one.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// A fresh secret.
    pub fn secret(&self, rng: &mut SessionRng) -> Secret {
        let small = ternary(rng, self.n());
        let mut values = Zeroizing::new(self.basis.signed(self.basis.limbs(), &small));
        self.basis.forward(&mut values);
        Secret { values }
    }

    /// Uniform values over the first `limbs` primes of the basis.
    fn uniform(&self, limbs: usize, public: &mut PublicStream) -> Vec<u64> {
        let mut a = vec![0; limbs * self.n()];
        self.basis.each(&mut a).for_each(|(ntt, limb)| public.uniform(ntt, limb));
        a
    }

    /// b of a fresh ciphertext of `message`, which is in coefficient form over as many primes as the ciphertext has. Its a is
    /// the stream's next.
    pub fn encrypt(&self, key: &Secret, message: &[u64], public: &mut PublicStream, rng: &mut SessionRng) -> Vec<u64> {
        let mut error = errors(rng, self.n());
        error.iter_mut().for_each(|e| *e *= self.step as i64);
        let mut b = self.basis.signed(message.len() / self.n(), &error);
        self.basis.add(&mut b, message);
        self.basis.forward(&mut b);
        // a·s tells s to whoever has a, so it is wiped.
        let mut mask = Zeroizing::new(self.uniform(message.len() / self.n(), public));
        self.basis.mul(&mut mask, &key.values);
        self.basis.sub(&mut b, &mask);
        b
    }

    /// The phase b + a·s in coefficient form.
    pub fn phase(&self, key: &Secret, ciphertext: &Ciphertext) -> Zeroizing<Vec<u64>> {
        let mut phase = Zeroizing::new(ciphertext.a.clone());
        self.basis.mul(&mut phase, &key.values);
        self.basis.add(&mut phase, &ciphertext.b);
        self.basis.inverse(&mut phase);
        phase
    }

    /// Bytes of a polynomial over `limbs` primes on the wire.
    pub fn bytes(&self, limbs: usize) -> usize {
        limbs * packed_bytes(self.n(), RESIDUE_BITS)
    }

    /// Appends a polynomial.
    pub fn write(&self, words: &[u64], out: &mut Vec<u8>) {
        pack(words.iter().copied(), RESIDUE_BITS, out);
    }

    /// A polynomial over the first `limbs` primes of the basis.
    ///
    /// # Errors
    /// [`HeError`] if there are more or fewer bytes, or a number is no residue.
    pub fn read(&self, limbs: usize, bytes: &[u8]) -> Result<Vec<u64>, HeError> {
        if bytes.len() != self.bytes(limbs) {
            return Err(HeError::Length { got: bytes.len(), expected: self.bytes(limbs) });
        }
        let mut words: Vec<u64> = unpack(bytes, RESIDUE_BITS, limbs * self.n()).collect();
        for (ntt, limb) in self.basis.each(&mut words) {
            let modulus = ntt.modulus().p();
            if limb.iter().any(|&word| word >= modulus) {
                return Err(HeError::Residue { modulus });
            }
        }
        Ok(words)
    }

    /// A ciphertext over Q as [`Rlwe::encrypt`] made it: b from the wire, a from the stream.
    ///
    /// # Errors
    /// As [`Rlwe::read`].
    pub fn read_ciphertext(&self, bytes: &[u8], public: &mut PublicStream) -> Result<Ciphertext, HeError> {
        Ok(Ciphertext { b: self.read(self.limbs, bytes)?, a: self.uniform(self.limbs, public) })
    }

    /// The b of each pair of a key that carries ciphertexts under s(X^g) to s.
    ///
    /// # Panics
    /// If the set has no special prime.
    pub fn galois_key(&self, key: &Secret, g: usize, public: &mut PublicStream, rng: &mut SessionRng) -> Vec<Vec<u64>> {
        let moved = Zeroizing::new(self.basis.permute(&self.basis.automorphism(g), &key.values));
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
        let digit = |bytes| Ok(Ciphertext { b: self.read(all, bytes)?, a: self.uniform(all, public) });
        Ok(SwitchKey { digits: bytes.chunks(self.bytes(all)).map(digit).collect::<Result<_, HeError>>()? })
    }

    /// A ciphertext under s whose phase is a·s', where the key carries s' to s.
    pub(crate) fn switch(&self, a: &[u64], key: &SwitchKey) -> Ciphertext {
        let (n, all) = (self.n(), self.basis.limbs());
        // Digit j is a modulo prime j, centred, as a polynomial over all primes.
        let mut digits = vec![vec![0; all * n]; self.limbs];
        let mut coefficients = vec![0; n];
        for (j, digit) in digits.iter_mut().enumerate() {
            let from = self.basis.limb(j);
            coefficients.copy_from_slice(&a[j * n..(j + 1) * n]);
            from.inverse(&mut coefficients);
            for (i, (ntt, limb)) in self.basis.each(digit).enumerate() {
                if i == j {
                    limb.copy_from_slice(&a[j * n..(j + 1) * n]);
                } else {
                    ntt.lift(from.modulus(), &coefficients, limb);
                    ntt.forward(limb);
                }
            }
        }
        let (mut b_out, mut a_out) = (vec![0; all * n], vec![0; all * n]);
        for i in 0..all {
            let limb = i * n..(i + 1) * n;
            let terms: Vec<[&[u64]; 3]> = digits
                .iter()
                .zip(&key.digits)
                .map(|(digit, pair)| [&pair.b[limb.clone()], &pair.a[limb.clone()], &digit[limb.clone()]])
                .collect();
            self.basis.limb(i).dot2(&terms, &mut b_out[limb.clone()], &mut a_out[limb.clone()]);
        }
        self.basis.drop_last(&mut b_out);
        self.basis.drop_last(&mut a_out);
        Ciphertext { b: b_out, a: a_out }
    }

    /// Encrypts the message's image under X -> X^g, given the key for g and the map of [`Basis::automorphism`].
    fn automorphism(&self, ciphertext: &Ciphertext, map: &[u32], key: &SwitchKey) -> Ciphertext {
        let mut out = self.switch(&self.basis.permute(map, &ciphertext.a), key);
        self.basis.add(&mut out.b, &self.basis.permute(map, &ciphertext.b));
        out
    }

    /// The exponents g of the keys that expanding to `leaves` ciphertexts needs: n/2^j + 1 for every level j.
    pub fn expansion_exponents(&self, leaves: usize) -> Vec<usize> {
        (0..leaves.next_power_of_two().ilog2()).map(|level| (self.n() >> level) + 1).collect()
    }

    /// One ciphertext into `leaves`: the constant of number i is 2^levels times coefficient i of what was encrypted, and
    /// whoever encrypts divides by that. Their other coefficients are zero if all coefficients from `leaves` on are.
    ///
    /// There is a key for each of [`Rlwe::expansion_exponents`].
    pub fn expand(&self, ciphertext: Ciphertext, keys: &[SwitchKey], leaves: usize) -> Vec<Ciphertext> {
        assert!(leaves >= 1 && leaves <= self.n());
        let mut nodes = vec![ciphertext];
        for (level, (g, key)) in self.expansion_exponents(leaves).into_iter().zip(keys).enumerate() {
            let map = self.basis.automorphism(g);
            // X^-(2^level) is -X^(n - 2^level).
            let mut shift = vec![0; self.n()];
            shift[self.n() - (1 << level)] = -1;
            let mut shift = self.basis.signed(self.limbs, &shift);
            self.basis.forward(&mut shift);
            let mut rights = vec![];
            for (i, node) in nodes.iter_mut().enumerate() {
                if i + (1 << level) < leaves {
                    let image = self.automorphism(node, &map, key);
                    rights.push(Ciphertext {
                        b: self.basis.split(&mut node.b, &image.b, &shift),
                        a: self.basis.split(&mut node.a, &image.a, &shift),
                    });
                } else {
                    // The right half would be zero, so the left half is twice the node.
                    let twice = node.clone();
                    self.basis.add(&mut node.b, &twice.b);
                    self.basis.add(&mut node.a, &twice.a);
                }
            }
            nodes.append(&mut rights);
        }
        nodes
    }

    /// The sum of the products of ciphertexts and plaintexts. A plaintext is in evaluation form over the primes of Q.
    pub fn dot(&self, ciphertexts: &[Ciphertext], plaintexts: &[Vec<u64>]) -> Ciphertext {
        let n = self.n();
        let (mut b, mut a) = (vec![0; self.limbs * n], vec![0; self.limbs * n]);
        for i in 0..self.limbs {
            let limb = i * n..(i + 1) * n;
            let term = ciphertexts.iter().zip(plaintexts);
            let terms: Vec<[&[u64]; 3]> =
                term.map(|(c, p)| [&c.b[limb.clone()], &c.a[limb.clone()], &p[limb.clone()]]).collect();
            self.basis.limb(i).dot2(&terms, &mut b[limb.clone()], &mut a[limb]);
        }
        Ciphertext { b, a }
    }

    /// Switches a ciphertext to the first prime of Q.
    pub fn switch_to_one(&self, ciphertext: &mut Ciphertext) {
        while ciphertext.b.len() > self.n() {
            self.basis.drop_last(&mut ciphertext.b);
            self.basis.drop_last(&mut ciphertext.a);
        }
    }

    /// Switches a polynomial over one prime, in evaluation form, to 2^`bits` by rounding: its coefficients, and bytes for the
    /// first `count` of them. It belongs to an answer, and no secret is in it.
    pub fn shorten(&self, mut words: Vec<u64>, bits: u32, count: usize, out: &mut Vec<u8>) {
        let ntt = self.basis.limb(0);
        ntt.inverse(&mut words);
        // A double holds a residue exactly. The product is off by 2^-52 of itself, which moves the result only where it is
        // within that of the middle between two integers.
        let ratio = (1_u64 << bits) as f64 / ntt.modulus().p() as f64;
        // A coefficient that rounds up to 2^bits is 0: only the low bits are packed.
        pack(words[..count].iter().map(|&c| (c as f64 * ratio + 0.5) as u64), bits, out);
    }

    /// The first coefficients of b·2^(bits of a - bits of b) + a·s modulo 2^`a_bits`, of a pair as [`Rlwe::shorten`] made it.
    /// a·s is computed over the integers: it is below n·2^(a_bits - 1), which is far below the prime.
    pub fn short_phase(&self, key: &Secret, b: &[u64], a: &[u64], [b_bits, a_bits]: [u32; 2]) -> Zeroizing<Vec<u64>> {
        let ntt = self.basis.limb(0);
        let p = ntt.modulus().p();
        let half = 1_i64 << (a_bits - 1);
        let centred: Vec<i64> = a.iter().map(|&a| (a as i64 ^ half) - half).collect();
        let mut product = Zeroizing::new(self.basis.signed(1, &centred));
        ntt.forward(&mut product);
        ntt.mul(&mut product, &key.values[..self.n()]);
        ntt.inverse(&mut product);
        let phase = b.iter().zip(product.iter()).map(|(&b, &product)| {
            // Residues above p/2 are negative numbers.
            let negative = ((p / 2).wrapping_sub(product) as i64 >> 63) as u64;
            let product = product.wrapping_sub(p & negative);
            (b << (a_bits - b_bits)).wrapping_add(product) & ((1 << a_bits) - 1)
        });
        Zeroizing::new(phase.collect())
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
