//! Bits that choose between ciphertexts: the encryption of C. Gentry, A. Sahai, B. Waters (eprint 2013/340) over polynomials,
//! for rings with one prime q below 2^50.
//!
//! An encrypted bit is ten ciphertexts: five of bit·2^(10r), and five of bit·2^(10r)·s, for r = 0 to 4. A ciphertext (b, a)
//! in digits of ten bits, b = Σ u_r·2^(10r) and a = Σ v_r·2^(10r), is multiplied by the bit as Σ u_r·row_r + Σ v_r·row'_r,
//! whose phase is bit·(b + a·s) and small multiples of the rows' errors. Digits are exact, so that BGV's errors stay
//! multiples of t.
//!
//! The rows are made from five ciphertexts of bit·2^(10r), which come out of an expanded query: if (b, a) holds x, then the
//! switch of (0, b) + a·s² to s holds x·s (H. Chen, I. Chillotti, L. Ren, "Onion Ring ORAM", eprint 2019/736, section 4.3).

use crate::rlwe::{Ciphertext, Rlwe, Scratch, SwitchKey};
use vesica_params::rlwe::{DIGIT_BITS, DIGITS};

/// An encrypted bit.
pub struct Bit {
    /// First those of the bit, then those of the bit times s. In Montgomery's form
    /// ([`vesica_ring::Ntt::to_montgomery`]).
    rows: Vec<Ciphertext>,
}

impl Bit {
    /// The bit of which `rows` are the first five ciphertexts, given the key that carries s² to s.
    ///
    /// # Panics
    /// If there are not five, or the ring has more than one prime.
    pub fn new(ring: &Rlwe, rows: &[Ciphertext], square: &SwitchKey) -> Self {
        assert!(rows.len() == DIGITS && ring.limbs() == 1);
        let mut scratch = Scratch::new(ring);
        let mut times_secret = |row: &Ciphertext| {
            let mut product = ring.zero();
            ring.switch(&row.a, square, &mut scratch, &mut product);
            ring.basis().add(&mut product.a, &row.b);
            product
        };
        let others: Vec<Ciphertext> = rows.iter().map(&mut times_secret).collect();
        let mut rows: Vec<Ciphertext> = rows.iter().cloned().chain(others).collect();
        for row in &mut rows {
            ring.basis().to_montgomery(&mut row.b);
            ring.basis().to_montgomery(&mut row.a);
        }
        Self { rows }
    }

    /// Of each pair of ciphertexts the first if the bit is 0, and the second if it is 1: x + bit·(y - x). The last one
    /// of an odd number stays.
    pub fn choose(&self, ring: &Rlwe, ciphertexts: Vec<Ciphertext>) -> Vec<Ciphertext> {
        let mut digits = vec![0; 2 * DIGITS * ring.n()];
        let mut rest = ciphertexts.into_iter();
        let pair = || {
            let mut x = rest.next()?;
            if let Some(y) = rest.next() {
                self.choose_one(ring, &mut digits, &mut x, y);
            }
            Some(x)
        };
        std::iter::from_fn(pair).collect()
    }

    /// x + bit·(y - x), into x. `digits` is memory for ten polynomials.
    fn choose_one(&self, ring: &Rlwe, digits: &mut [u64], x: &mut Ciphertext, mut y: Ciphertext) {
        let (basis, ntt) = (ring.basis(), ring.basis().limb(0));
        basis.sub(&mut y.b, &x.b);
        basis.sub(&mut y.a, &x.a);
        for (words, digits) in [&mut y.b, &mut y.a].into_iter().zip(digits.chunks_exact_mut(DIGITS * ring.n())) {
            ntt.inverse(words);
            for (r, digit) in digits.chunks_exact_mut(ring.n()).enumerate() {
                ntt.digit(words, DIGIT_BITS, r, DIGITS, digit);
                ntt.forward(digit);
            }
        }
        let terms = self.rows.iter().zip(digits.chunks_exact(ring.n()));
        let terms: Vec<[&[u64]; 3]> = terms.map(|(row, digit)| [&row.b[..], &row.a[..], digit]).collect();
        ntt.dot2(&terms, &mut y.b, &mut y.a);
        basis.add(&mut x.b, &y.b);
        basis.add(&mut x.a, &y.a);
    }
}
