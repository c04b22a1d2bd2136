//! Numbers modulo a group's order: secret scalars and public weights. Montgomery's arithmetic on four words (P. Montgomery,
//! "Modular multiplication without trial division", Math. Comp. 44, 1985), in constant time.

use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A number below a group's order, in little-endian words. It may be public or secret; it is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Residue(pub(crate) [u64; 4]);

/// It may be secret, so it does not print.
impl fmt::Debug for Residue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Residue(..)")
    }
}

/// A prime order above 2^192, and what Montgomery's method needs of it, with R = 2^256.
pub struct Order {
    n: [u64; 4],
    /// -1/n modulo 2^64.
    minus_inverse: u64,
    /// R^2 mod n.
    r2: [u64; 4],
}

impl Order {
    pub(crate) const fn new(n: [u64; 4]) -> Self {
        // Newton's iteration: n is its own inverse modulo 8.
        let mut inverse = n[0];
        let mut i = 0;
        while i < 5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(n[0].wrapping_mul(inverse)));
            i += 1;
        }
        let mut r2 = [1, 0, 0, 0];
        let mut i = 0;
        while i < 512 {
            let top = r2[3] >> 63;
            let twice = [r2[0] << 1, r2[1] << 1 | r2[0] >> 63, r2[2] << 1 | r2[1] >> 63, r2[3] << 1 | r2[2] >> 63];
            r2 = subtract_if_above(twice, top, &n);
            i += 1;
        }
        Self { n, minus_inverse: inverse.wrapping_neg(), r2 }
    }

    /// a·b/R mod n, for a below R and b below n.
    fn montgomery(&self, a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
        // Below 2n after each round, and five words with the top one below 2.
        let mut t = [0u64; 5];
        for a in a {
            let mut carry = 0;
            for j in 0..4 {
                (t[j], carry) = multiply_add(*a, b[j], t[j], carry);
            }
            let (top, over) = t[4].overflowing_add(carry);
            t[4] = top;
            let q = t[0].wrapping_mul(self.minus_inverse);
            let (_, mut carry) = multiply_add(q, self.n[0], t[0], 0);
            for j in 1..4 {
                (t[j - 1], carry) = multiply_add(q, self.n[j], t[j], carry);
            }
            let (low, more) = t[4].overflowing_add(carry);
            t[3] = low;
            t[4] = u64::from(over) + u64::from(more);
        }
        subtract_if_above([t[0], t[1], t[2], t[3]], t[4], &self.n)
    }

    /// a·b mod n, for a below R and b below n.
    pub(crate) fn product(&self, a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
        self.montgomery(&self.montgomery(a, &self.r2), b)
    }

    /// The number of 64 bytes in little-endian order, modulo n.
    pub(crate) fn reduce(&self, bytes: &[u8; 64]) -> [u64; 4] {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let low = self.product(&[word(0), word(1), word(2), word(3)], &[1, 0, 0, 0]);
        let high = self.montgomery(&[word(4), word(5), word(6), word(7)], &self.r2);
        let mut sum = [0; 4];
        let mut carry = false;
        for i in 0..4 {
            (sum[i], carry) = low[i].carrying_add(high[i], carry);
        }
        subtract_if_above(sum, u64::from(carry), &self.n)
    }

    /// a - b mod n, both below n.
    pub(crate) fn difference(&self, a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
        let (less, borrow) = subtract(a, b);
        let add = black_box(borrow).wrapping_neg();
        let mut out = [0; 4];
        let mut carry = false;
        for i in 0..4 {
            (out[i], carry) = less[i].carrying_add(self.n[i] & add, carry);
        }
        out
    }

    /// 1/a mod n: a^(n - 2), by the bits of n - 2, which are public.
    pub(crate) fn inverse(&self, a: &[u64; 4]) -> [u64; 4] {
        let (exponent, _) = subtract(&self.n, &[2, 0, 0, 0]);
        let base = Zeroizing::new(self.montgomery(a, &self.r2));
        let mut power = Zeroizing::new(self.montgomery(&[1, 0, 0, 0], &self.r2));
        for i in (0..256).rev() {
            *power = self.montgomery(&power, &power);
            if exponent[i / 64] >> (i % 64) & 1 == 1 {
                *power = self.montgomery(&power, &base);
            }
        }
        self.montgomery(&power, &[1, 0, 0, 0])
    }

    /// The number itself, if it is below n.
    pub(crate) fn checked(&self, words: [u64; 4]) -> Option<Residue> {
        let (_, below) = subtract(&words, &self.n);
        (below == 1).then_some(Residue(words))
    }
}

/// a·b + c + d, as low and high word.
const fn multiply_add(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let wide = a as u128 * b as u128 + c as u128 + d as u128;
    (wide as u64, (wide >> 64) as u64)
}

/// a - b modulo 2^256, and 1 if a < b.
pub(crate) const fn subtract(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], u64) {
    let mut out = [0; 4];
    let mut borrow = false;
    let mut i = 0;
    while i < 4 {
        let (d, b1) = a[i].overflowing_sub(b[i]);
        let (d, b2) = d.overflowing_sub(borrow as u64);
        (out[i], borrow) = (d, b1 | b2);
        i += 1;
    }
    (out, borrow as u64)
}

/// `top·2^256 + r` modulo n, if that is below 2n.
const fn subtract_if_above(mut r: [u64; 4], top: u64, n: &[u64; 4]) -> [u64; 4] {
    let (less, borrow) = subtract(&r, n);
    let keep = black_box(borrow & (top ^ 1)).wrapping_neg();
    let mut i = 0;
    while i < 4 {
        r[i] = (r[i] & keep) | (less[i] & !keep);
        i += 1;
    }
    r
}

/// A word whose value the compiler must not reason about.
const fn black_box(word: u64) -> u64 {
    std::hint::black_box(word)
}

/// The number itself, or 1 in place of 0 (which has probability 2^-252).
pub(crate) fn not_zero(mut words: [u64; 4]) -> [u64; 4] {
    let any = words[0] | words[1] | words[2] | words[3];
    // The top bit of x | -x is set unless x = 0.
    words[0] |= (black_box(any | any.wrapping_neg()) >> 63) ^ 1;
    words
}

/// Digits of [`radix_16`].
pub(crate) const DIGITS: usize = 65;

/// The digits of a number below 2^256 in radix 16, from the lowest, each from -8 to 8; the last is 0 or 1. Constant time.
pub(crate) fn radix_16(words: &[u64; 4]) -> [i8; DIGITS] {
    let mut digits = [0; DIGITS];
    let mut carry = 0;
    for (i, digit) in digits[..64].iter_mut().enumerate() {
        let nibble = (words[i / 16] >> (4 * (i % 16)) & 15) as i8 + carry;
        // 9 to 16 become -7 to 0 and a carry.
        carry = (nibble + 7) >> 4;
        *digit = nibble - (carry << 4);
    }
    digits[64] = carry;
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;

    const ORDERS: [[u64; 4]; 4] = [
        crate::x25519::ORDER,
        <crate::p256::Field as crate::weierstrass::Curve>::ORDER,
        <crate::secp256k1::Field as crate::weierstrass::Curve>::ORDER,
        crate::fourq::ORDER,
    ];

    fn big(words: &[u64]) -> BigUint {
        words.iter().rev().fold(BigUint::ZERO, |sum, word| (sum << 64) + word)
    }

    /// Edges and random numbers, of eight words.
    fn numbers() -> Vec<[u64; 8]> {
        let mut numbers = vec![[0; 8], [u64::MAX; 8], [1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0]];
        let mut stream = blake3::Hasher::new().update(b"scalars").finalize_xof();
        for _ in 0..40 {
            let mut bytes = [0; 64];
            stream.fill(&mut bytes);
            numbers.push(std::array::from_fn(|i| u64::from_le_bytes(bytes.as_chunks::<8>().0[i])));
        }
        numbers
    }

    #[test]
    fn arithmetic_is_that_of_integers() {
        for n in ORDERS {
            let order = Order::new(n);
            let n = big(&n);
            let mut residues = vec![subtract(&order.n, &[1, 0, 0, 0]).0];
            for number in numbers() {
                let mut bytes = [0; 64];
                for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(number) {
                    *bytes = word.to_le_bytes();
                }
                let reduced = order.reduce(&bytes);
                assert_eq!(big(&reduced), big(&number) % &n);
                residues.push(reduced);
            }
            for a in &residues {
                if *a != [0; 4] {
                    assert_eq!(big(&order.product(&order.inverse(a), a)), BigUint::from(1u8));
                }
                for b in &residues {
                    assert_eq!(big(&order.product(a, b)), big(a) * big(b) % &n);
                    assert_eq!(big(&order.difference(a, b)), (big(a) + &n - big(b)) % &n);
                }
                assert_eq!(big(&order.product(&[u64::MAX; 4], a)), big(&[u64::MAX; 4]) * big(a) % &n);
            }
            assert!(order.checked(order.n).is_none() && order.checked([u64::MAX; 4]).is_none());
            assert!(residues.iter().all(|residue| order.checked(*residue) == Some(Residue(*residue))));
        }
    }

    #[test]
    fn digits_sum_up_to_the_number() {
        for number in numbers() {
            let words = [number[0], number[1], number[2], number[3]];
            let digits = radix_16(&words);
            assert!(digits.iter().all(|digit| (-8..=8).contains(digit)));
            let sum = digits.iter().rev().fold(num_bigint::BigInt::ZERO, |sum, digit| sum * 16 + *digit);
            assert_eq!(sum, big(&words).into());
        }
    }
}
