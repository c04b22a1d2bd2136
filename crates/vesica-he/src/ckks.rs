//! CKKS: approximate numbers. The phase is round(scale·z) + error, and what is decrypted has the error in its low digits.
//!
//! **Decrypted numbers must never go back** to the server or to anybody who knows the ciphertext: with the error in them
//! they tell the secret (B. Li, D. Micciancio, "On the Security of Homomorphic Encryption on Approximate Numbers", eprint
//! 2020/1533). The remedy there is a fresh secret for each query, or noise on what is passed on.
//!
//! A polynomial with n real coefficients is n/2 complex numbers: slot j is its value at ζ^(4j + 1), for ζ = exp(iπ/n). With
//! u_k = m_k + i·m_(k + n/2), that is Σ u_k·ζ^k·exp(2πi·jk/(n/2)): a twist and a discrete Fourier transform of n/2 points.
//!
//! Source: J. Cheon, A. Kim, M. Kim, Y. Song, "Homomorphic Encryption for Arithmetic of Approximate Numbers", eprint
//! 2016/421. Slots stand in the order of j, not of powers of 5, for nothing rotates them here.

use std::hint::black_box;
use zeroize::Zeroizing;

/// A complex number: real and imaginary part.
pub type Complex = [f64; 2];

/// Polynomials with n coefficients as n/2 complex numbers.
pub struct Embedding {
    /// ζ^k for k < n/2.
    twist: Vec<Complex>,
}

fn mul([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

fn conjugate([a, b]: Complex) -> Complex {
    [a, -b]
}

impl Embedding {
    /// For polynomials with n coefficients, a power of two.
    pub fn new(n: usize) -> Self {
        let root = |k| {
            let angle = std::f64::consts::PI * k as f64 / n as f64;
            [angle.cos(), angle.sin()]
        };
        Self { twist: (0..n / 2).map(root).collect() }
    }

    /// Slots of a polynomial.
    pub fn slots(&self) -> usize {
        self.twist.len()
    }

    /// Σ x_k·exp(2πi·jk/h) at j, of h numbers: Cooley and Tukey's algorithm.
    fn transform(&self, x: &mut [Complex]) {
        let h = x.len();
        for i in 0..h {
            let j = i.reverse_bits() >> (usize::BITS - h.ilog2());
            if i < j {
                x.swap(i, j);
            }
        }
        let mut half = 1;
        while half < h {
            for block in x.chunks_exact_mut(2 * half) {
                let (left, right) = block.split_at_mut(half);
                for (k, (a, b)) in left.iter_mut().zip(right).enumerate() {
                    // exp(πi·k/half) = ζ^(2h·k/half), which is beyond the first quarter in the upper half of k.
                    let at = 2 * h / half * k;
                    let w = if at < h { self.twist[at] } else { mul([0.0, 1.0], self.twist[at - h]) };
                    let product = mul(*b, w);
                    (*a, *b) = ([a[0] + product[0], a[1] + product[1]], [a[0] - product[0], a[1] - product[1]]);
                }
            }
            half *= 2;
        }
    }

    /// The coefficients, times `scale` and rounded, of the polynomial with these numbers in its slots.
    ///
    /// A coefficient is at most the largest of the numbers in absolute value, so `scale` times that is below 2^63. The numbers
    /// may be secret: what is left of them on the way is wiped.
    pub fn encode(&self, slots: &[Complex], scale: f64) -> Vec<i64> {
        assert_eq!(slots.len(), self.slots());
        // The inverse transform is the conjugate of the transform of the conjugate.
        let mut u = Zeroizing::new(slots.iter().map(|&z| conjugate(z)).collect::<Vec<Complex>>());
        self.transform(&mut u);
        let part = scale / self.slots() as f64;
        u.iter_mut().zip(&self.twist).for_each(|(u, &w)| *u = mul(conjugate(*u), conjugate(w)));
        let round = |x: f64| nearest(x * part);
        u.iter().map(|u| round(u[0])).chain(u.iter().map(|u| round(u[1]))).collect()
    }

    /// The numbers in the slots of the polynomial with these coefficients, over `scale`. They have an answer's error in their low
    /// digits, so they are wiped.
    pub fn decode(&self, coefficients: &[f64], scale: f64) -> Zeroizing<Vec<Complex>> {
        let (real, imaginary) = coefficients.split_at(self.slots());
        let part = |(&m, &n): (&f64, &f64)| [m / scale, n / scale];
        let twisted = real.iter().zip(imaginary).map(part).zip(&self.twist).map(|(u, &w)| mul(u, w));
        let mut u = Zeroizing::new(twisted.collect::<Vec<Complex>>());
        self.transform(&mut u);
        u
    }
}

/// The nearest integer to a number between -2^63 and 2^63, the even one of two, in a time that does not depend on it: what the standard library
/// has for this branches on how large it is.
fn nearest(x: f64) -> i64 {
    let bits = x.to_bits();
    // x is ±m·2^e, or too small to matter.
    let m = bits & ((1 << 52) - 1) | 1 << 52;
    let e = (bits >> 52 & 0x7ff) as i64 - 1075;
    let sign = |number: i64| black_box(number >> 63);
    // Bits to add or to cut off: one of the two is zero, and of 53 bits no more than 63 need to be cut off.
    let (left, right) = (e & !sign(e), -e & sign(e));
    let right = right + ((63 - right) & sign(63 - right));
    // The compiler would test the bit where it is; Valgrind takes that for an address.
    let (half, odd) = ((1 << right) >> 1, black_box(m >> right) & 1);
    // Where nothing is cut off, `half` is zero, and what is added is to be too.
    let cut = sign(-right) as u64;
    let size = ((m + ((half + odd).wrapping_sub(1) & cut)) >> right << left) as i64;
    let sign = sign(bits as i64);
    (size ^ sign).wrapping_sub(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> Vec<Complex> {
        (0..count).map(|i| [(i as f64 * 0.7).sin(), (i as f64 * 1.3).cos()]).collect()
    }

    fn distance(a: &[Complex], b: &[Complex]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a[0] - b[0]).hypot(a[1] - b[1])).fold(0.0, f64::max)
    }

    #[test]
    fn numbers_are_rounded_as_the_standard_library_does() {
        let near = (0..2000).flat_map(|i| [f64::from(i) / 8.0, f64::from(i) + 0.5, f64::from(i) * 0.37]);
        let powers = (-80..63).map(|e| 2f64.powi(e));
        let wide = powers.flat_map(|p| [p, p * 1.5, p * 1.25, p * (1.0 + f64::EPSILON), p * (2.0 - f64::EPSILON)]);
        for x in near.chain(wide).chain([0.0, f64::MIN_POSITIVE, 0.49999999999999994]).flat_map(|x| [x, -x]) {
            assert_eq!(nearest(x), x.round_ties_even() as i64, "{x:e}");
        }
    }

    #[test]
    fn slots_are_values_of_the_polynomial() {
        let (n, scale) = (64, 2_f64.powi(40));
        let embedding = Embedding::new(n);
        let slots = numbers(n / 2);
        let m = embedding.encode(&slots, scale);
        let value = |j: usize| {
            m.iter().enumerate().fold([0.0, 0.0], |sum: Complex, (k, &m)| {
                let angle = std::f64::consts::PI * ((4 * j + 1) * k % (2 * n)) as f64 / n as f64;
                [sum[0] + m as f64 / scale * angle.cos(), sum[1] + m as f64 / scale * angle.sin()]
            })
        };
        let values: Vec<Complex> = (0..n / 2).map(value).collect();
        assert!(distance(&values, &slots) < 1e-9);
        let back: Vec<f64> = m.iter().map(|&m| m as f64).collect();
        assert!(distance(&embedding.decode(&back, scale), &slots) < 1e-9);
    }

    /// Rounding at scale 2^40 leaves ten digits at n = 8192.
    #[test]
    fn rounding_is_all_that_is_lost() {
        let embedding = Embedding::new(8192);
        let slots = numbers(4096);
        let back: Vec<f64> = embedding.encode(&slots, 2_f64.powi(40)).into_iter().map(|m| m as f64).collect();
        let error = distance(&embedding.decode(&back, 2_f64.powi(40)), &slots);
        assert!(error < 2_f64.powi(-32) && error > 2_f64.powi(-36), "{error:e}");
    }
}
