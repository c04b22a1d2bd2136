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
//!
//! Which is where: this file has ciphertexts, their bytes and their sums; `switch.rs` has keys and key switching;
//! `expand.rs` makes many ciphertexts of one.

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
    /// How many primes Q has.
    limbs: usize,
    /// What errors are multiplied by.
    step: u64,
    /// The prime under which keys are switched; none if the set has no such keys.
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

    /// Polynomials modulo Q that are zero.
    pub fn zero(&self) -> Ciphertext {
        let zero = vec![0; self.limbs * self.n()];
        Ciphertext { b: zero.clone(), a: zero }
    }

    /// A plaintext, as signed coefficients, in the form that [`Rlwe::add_product`] takes: in evaluation form over the
    /// primes of Q, and in Montgomery's form.
    pub fn plaintext(&self, coefficients: &[i64]) -> Vec<u64> {
        let mut words = self.basis.signed(self.limbs, coefficients);
        self.basis.forward(&mut words);
        self.basis.to_montgomery(&mut words);
        words
    }

    /// Adds the product of a ciphertext and a plaintext to `sum`.
    pub fn add_product(&self, sum: &mut Ciphertext, ciphertext: &Ciphertext, plaintext: &[u64]) {
        self.basis.add_products([&mut sum.b, &mut sum.a], [&ciphertext.b, &ciphertext.a], plaintext);
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

mod expand;
mod switch;

pub(crate) use switch::Scratch;
pub use switch::SwitchKey;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
