//! Prime moduli below 2^50, and arithmetic with public numbers modulo one.
//!
//! Everything here is for set-up: roots of unity, inverses, constants. It divides, which takes a time that depends on the
//! operands, so no secret may come here. Secrets go through the kernels of [`crate::Ntt`].

/// One more than the largest modulus. Sums of four residues then fit the 52 bits of the vector multiplier.
pub const MODULUS_LIMIT: u64 = 1 << 50;

/// A constant that many words are multiplied by modulo p (V. Shoup's method): for any Y < 2^52 the number
/// `Y·factor - floor(Y·quotient / 2^52)·p` is `Y·factor` modulo p and lies in `[0, 2p)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    /// The constant, below p.
    pub factor: u64,
    /// `floor(factor·2^52 / p)`.
    pub quotient: u64,
}

/// An odd prime below 2^50.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modulus(u64);

impl Modulus {
    /// The modulus p.
    ///
    /// # Panics
    /// If p is not an odd prime below 2^50. Moduli are parameters of this program, never a peer's.
    pub fn new(p: u64) -> Self {
        assert!((3..MODULUS_LIMIT).contains(&p) && is_prime(p), "{p} is not an odd prime below 2^50");
        Self(p)
    }

    /// p.
    pub fn p(self) -> u64 {
        self.0
    }

    /// `x` modulo p.
    pub fn reduce(self, x: u128) -> u64 {
        (x % u128::from(self.0)) as u64
    }

    /// `a + b` modulo p, for residues.
    pub fn add(self, a: u64, b: u64) -> u64 {
        self.reduce(u128::from(a) + u128::from(b))
    }

    /// `a - b` modulo p, for residues.
    pub fn sub(self, a: u64, b: u64) -> u64 {
        self.reduce(u128::from(a) + u128::from(self.0 - b))
    }

    /// `a·b` modulo p.
    pub fn mul(self, a: u64, b: u64) -> u64 {
        self.reduce(u128::from(a) * u128::from(b))
    }

    /// `a^e` modulo p.
    pub fn pow(self, a: u64, e: u64) -> u64 {
        power(a, e, self.0)
    }

    /// The inverse of `a`, which p does not divide.
    pub fn inverse(self, a: u64) -> u64 {
        assert!(!a.is_multiple_of(self.0), "zero has no inverse modulo {}", self.0);
        self.pow(a, self.0 - 2)
    }

    /// The constant `a`, made ready for many products.
    pub fn factor(self, a: u64) -> Factor {
        let factor = a % self.0;
        Factor { factor, quotient: ((u128::from(factor) << 52) / u128::from(self.0)) as u64 }
    }

    /// A primitive root of unity of order `order`, a power of two: the power of the least number that gives one.
    ///
    /// # Panics
    /// If `order` is no power of two or does not divide p - 1.
    pub fn root(self, order: u64) -> u64 {
        assert!(
            order.is_power_of_two() && (self.0 - 1).is_multiple_of(order),
            "{} - 1 is no multiple of {order}",
            self.0
        );
        // r has order `order` exactly if r^(order/2) = -1, because the order divides a power of two.
        (2..)
            .map(|base| self.pow(base, (self.0 - 1) / order))
            .find(|&r| order == 1 || self.pow(r, order / 2) == self.0 - 1)
            .expect("half of all numbers are no squares, and each of them gives such a root")
    }
}

fn power(mut a: u64, mut e: u64, p: u64) -> u64 {
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(p)) as u64;
    let mut product = 1;
    a %= p;
    while e > 0 {
        if e & 1 == 1 {
            product = mul(product, a);
        }
        a = mul(a, a);
        e >>= 1;
    }
    product
}

/// Miller and Rabin's test with the first twelve primes as bases, which decides every number below 3.3·10^24 (J. Sorenson,
/// J. Webster, "Strong pseudoprimes to twelve prime bases", Mathematics of Computation 86, 2017).
pub fn is_prime(p: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if p < 2 || BASES.iter().any(|&base| p.is_multiple_of(base) && p != base) {
        return false;
    }
    let twos = (p - 1).trailing_zeros();
    BASES.iter().filter(|&&base| base != p).all(|&base| {
        let mut x = power(base, (p - 1) >> twos, p);
        if x == 1 || x == p - 1 {
            return true;
        }
        (1..twos).any(|_| {
            x = power(x, 2, p);
            x == p - 1
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_agrees_with_trial_division() {
        for p in 0..3000_u64 {
            assert_eq!(is_prime(p), p >= 2 && (2..p).all(|d| p % d != 0), "{p}");
        }
        // A strong pseudoprime to the first nine bases, and the prime of SimplePIR's hint.
        assert!(!is_prime(3_825_123_056_546_413_051));
        assert!(is_prime((1 << 50) - 16383));
    }

    #[test]
    fn roots_have_their_order() {
        let m = Modulus::new((1 << 50) - 16383);
        for log in 1..=14 {
            let root = m.root(1 << log);
            assert_eq!(m.pow(root, 1 << log), 1);
            assert_eq!(m.pow(root, 1 << (log - 1)), m.p() - 1);
        }
        assert_eq!(m.mul(m.inverse(12345), 12345), 1);
        assert_eq!(m.add(m.p() - 1, 5), 4);
        assert_eq!(m.sub(3, 5), m.p() - 2);
    }

    #[test]
    #[should_panic(expected = "is no multiple of")]
    fn an_order_that_does_not_divide_is_refused() {
        Modulus::new((1 << 50) - 16383).root(1 << 15);
    }
}
