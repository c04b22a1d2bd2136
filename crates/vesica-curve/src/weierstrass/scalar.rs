//! Secret scalars, and the signed digits by which they multiply.

use super::Curve;
use crate::scalar::subtract;
use crate::{Order, SecretScalar};
use std::marker::PhantomData;
use zeroize::{Zeroize, Zeroizing};

/// One digit of a scalar.
#[derive(Clone, Copy, Default, Zeroize)]
pub(crate) struct Digit {
    /// Its place in the table.
    pub(crate) entry: u8,
    /// 1 if it is to be negated.
    pub(crate) negative: u8,
    /// How many times the endomorphism is to be applied: 0, 1 or 2.
    pub(crate) turn: u8,
}

/// Secret digits.
pub(crate) struct Digits(pub(crate) Vec<Digit>);

impl Drop for Digits {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A secret scalar in `1..n`.
pub struct Scalar<C> {
    pub(super) words: [u64; 4],
    curve: PhantomData<C>,
}

impl<C> Drop for Scalar<C> {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl<C: Curve> SecretScalar for Scalar<C> {
    const ORDER: &'static Order = C::SCALARS;

    fn from_uniform(bytes: &[u8; 64]) -> Self {
        // 1 + (a number modulo n - 1): never zero.
        let mut less = C::ORDER;
        less[0] -= 1; // an odd order
        let mut words = remainder(bytes, &less);
        let mut carry = true;
        for word in &mut words {
            let (sum, over) = word.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over);
        }
        Self { words, curve: PhantomData }
    }

    fn from_words(words: [u64; 4]) -> Self {
        Self { words, curve: PhantomData }
    }

    fn words(&self) -> Zeroizing<[u64; 4]> {
        Zeroizing::new(self.words)
    }
}

/// The number of 64 bytes in little-endian order, modulo a number above 2^255. Bit by bit: it runs once per key.
fn remainder(bytes: &[u8; 64], modulus: &[u64; 4]) -> [u64; 4] {
    let mut r = [0u64; 4];
    for i in (0..512).rev() {
        let mut carry = u64::from(bytes[i / 8] >> (i % 8) & 1);
        for word in &mut r {
            (*word, carry) = (*word << 1 | carry, *word >> 63);
        }
        let (less, borrow) = subtract(&r, modulus);
        // Subtract if the shift went over 2^256 or nothing had to be borrowed.
        let keep = std::hint::black_box(borrow & (carry ^ 1)).wrapping_neg();
        for k in 0..4 {
            r[k] = (r[k] & keep) | (less[k] & !keep);
        }
    }
    r
}

/// Signed digits of four bits for an order n below 2^256: 64 odd digits between -15 and 15.
///
/// Of k and n - k the odd one is taken, and if that is n - k, every digit with the other sign. An odd k is 16·k' + d with d odd and k' odd: d is
/// (k mod 32) - 16. By induction every prefix m is odd and positive.
///
/// No step fails. Before the last digit, 8m and 16m + d are positive and below n, and 8m = ±d cannot be, since d is odd.
/// At the last, k = 16m + d < n, so 2m' + d = k is not zero modulo n, 8m = ±d is excluded as before, and 8m = n ± d would
/// make 16m = 2n ± 2d, while 16m = k - d < n + 16.
pub(crate) fn odd_digits(k: &[u64; 4], order: &[u64; 4]) -> Digits {
    let (other, _) = subtract(order, k);
    let odd = std::hint::black_box(k[0] & 1).wrapping_neg();
    let mut k: [u64; 4] = std::array::from_fn(|i| (k[i] & odd) | (other[i] & !odd));
    let mut digits = Digits(vec![Digit::default(); 64]);
    for i in (0..64).rev() {
        // The last to be taken is what is left, 1 to 15: the same rule, with 16 added.
        let d = if i == 0 { k[0] as i64 } else { (k[0] & 31) as i64 - 16 };
        let sign = std::hint::black_box(d >> 63);
        let size = (d ^ sign) - sign;
        digits.0[i] = Digit { entry: (size >> 1) as u8, negative: ((sign as u64 ^ !odd) & 1) as u8, turn: 0 };
        // (k - d)/16 = k/16 rounded down, made odd: the bit that is shifted out was the fifth of k - d.
        k = [k[0] >> 4 | k[1] << 60, k[1] >> 4 | k[2] << 60, k[2] >> 4 | k[3] << 60, k[3] >> 4];
        k[0] |= 1;
    }
    k.zeroize();
    digits
}
