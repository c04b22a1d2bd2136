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

use crate::rlwe::{Ciphertext, Rlwe, SwitchKey};
use vesica_params::rlwe::{DIGIT_BITS, DIGITS};

/// An encrypted bit.
pub struct Bit {
    /// First those of the bit, then those of the bit times s.
    rows: Vec<Ciphertext>,
}

impl Bit {
    /// The bit of which `rows` are the first five ciphertexts, given the key that carries s² to s.
    ///
    /// # Panics
    /// If there are not five, or the ring has more than one prime.
    pub fn new(ring: &Rlwe, rows: &[Ciphertext], square: &SwitchKey) -> Self {
        assert!(rows.len() == DIGITS && ring.limbs() == 1);
        let times_secret = |row: &Ciphertext| {
            let mut product = ring.switch(&row.a, square);
            ring.basis().add(&mut product.a, &row.b);
            product
        };
        Self { rows: rows.iter().cloned().chain(rows.iter().map(times_secret)).collect() }
    }

    /// x if the bit is 0, and y if it is 1: x + bit·(y - x).
    pub fn choose(&self, ring: &Rlwe, mut x: Ciphertext, mut y: Ciphertext) -> Ciphertext {
        ring.basis().sub(&mut y.b, &x.b);
        ring.basis().sub(&mut y.a, &x.a);
        let digits: Vec<Vec<u64>> = [y.b, y.a].into_iter().flat_map(|words| digits(ring, words)).collect();
        let terms: Vec<[&[u64]; 3]> =
            self.rows.iter().zip(&digits).map(|(row, digit)| [&row.b[..], &row.a[..], &digit[..]]).collect();
        let (mut b, mut a) = (vec![0; ring.n()], vec![0; ring.n()]);
        ring.basis().limb(0).dot2(&terms, &mut b, &mut a);
        ring.basis().add(&mut x.b, &b);
        ring.basis().add(&mut x.a, &a);
        x
    }
}

/// A polynomial in evaluation form as five with small coefficients, in evaluation form, of which it is Σ d_r·2^(10r).
fn digits(ring: &Rlwe, mut words: Vec<u64>) -> Vec<Vec<u64>> {
    let ntt = ring.basis().limb(0);
    let (q, half) = (ntt.modulus().p(), 1 << (DIGIT_BITS - 1));
    ntt.inverse(&mut words);
    // With half of the base added to every digit, digits of centred numbers are not negative and need no carries. Only the
    // last may then reach the base itself.
    let halves: u64 = (0..DIGITS).map(|r| half << (DIGIT_BITS as usize * r)).sum();
    let digit = |r: usize| {
        let mask = if r + 1 == DIGITS { u64::MAX } else { (1 << DIGIT_BITS) - 1 };
        let one = |&word: &u64| {
            let centred = if word > q / 2 { word.wrapping_sub(q) } else { word };
            ((centred.wrapping_add(halves) >> (DIGIT_BITS as usize * r)) & mask) as i64 - half as i64
        };
        let signed: Vec<i64> = words.iter().map(one).collect();
        let mut digit = ring.basis().signed(1, &signed);
        ntt.forward(&mut digit);
        digit
    };
    (0..DIGITS).map(digit).collect()
}
