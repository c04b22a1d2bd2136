//! Parameters of the lattice schemes over polynomials (BFV, BGV, CKKS), their security, and their noise.
//!
//! **Security** is that of ring learning with errors with a ternary secret and the error below, by the tables of the
//! homomorphic encryption standard ([`ceiling`]). The special prime of key switching counts, because keys are encrypted
//! under it as well. Every set stays at least 4 bits below the ceiling: the standard's table of 2018 does not count hybrid
//! attacks on ternary secrets. [`Strength`] has what the published estimator says of each set, hybrid attacks included.
//!
//! **Noise** is computed as a variance of each coefficient, and for the worst table: every coefficient is as large as it can
//! be, and signs are where they hurt most. A sum of very many small independent terms is taken for normal, so that it exceeds B with
//! probability at most 2·exp(-B²/2σ²) ([`RlweSet::failure`]).

use crate::strength::Strength;

/// The variance of a coefficient of the error: a binomial of 21 pairs of coins, whose standard deviation is 3.24. The
/// standard asks for 3.19 or more.
pub const ERROR_VARIANCE: f64 = 10.5;

/// Digits that a ciphertext is cut into where a bit chooses between two: five of ten bits are a residue below 2^50, exactly.
pub const DIGITS: usize = 5;

/// Bits of such a digit.
pub const DIGIT_BITS: u32 = 10;

/// What a coefficient's rounding to an integer adds.
const ROUNDING: f64 = 1.0 / 12.0;

/// A ring, its modulus, and what it encrypts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RlweSet {
    /// The set's name, as messages hold it. Never reused for other numbers.
    pub id: &'static str,
    /// Coefficients of a polynomial.
    pub n: usize,
    /// The primes of the modulus. A plan that needs less uses the first of them.
    pub primes: &'static [u64],
    /// The prime under which keys are switched, if the set has switching keys.
    pub special: Option<u64>,
    /// t: plaintexts are modulo t, and every prime of the modulus is 1 modulo t. Zero for CKKS.
    pub plain: u64,
    /// How many bits of each coefficient of the answer's two polynomials, b and a, travel.
    pub answer_bits: [u32; 2],
    /// How hard it is to tell a ciphertext from random polynomials, under all primes.
    pub strength: Strength,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// One limb, no keys: small tables, one product.
pub const RLWE_2048: RlweSet = RlweSet {
    id: "rlwe-2048x1-v1",
    n: 2048,
    primes: &[1125899904679937],
    special: None,
    plain: 1 << 16,
    answer_bits: [20, 24],
    strength: Strength {
        usvp: 138.3,
        bdd: 137.1,
        bdd_hybrid: 137.1,
        bdd_mitm_hybrid: 197.2,
        dual: 140.2,
        dual_hybrid: 137.1,
    },
    source: "homomorphic encryption standard 2018, table 1 (54 bits at n = 2048); the prime is the largest below 2^50 that is 1 modulo 2^16",
    date: "2026-11-23",
};

/// One limb and a special prime: expanded queries.
pub const RLWE_4096: RlweSet = RlweSet {
    id: "rlwe-4096x1-v1",
    n: 4096,
    primes: &[1125899903991809],
    special: Some(1125899904679937),
    plain: 1 << 12,
    answer_bits: [16, 21],
    strength: Strength {
        usvp: 137.7,
        bdd: 137.2,
        bdd_hybrid: 137.2,
        bdd_mitm_hybrid: 197.9,
        dual: 139.3,
        dual_hybrid: 137.6,
    },
    source: "homomorphic encryption standard 2018, table 1 (109 bits at n = 4096)",
    date: "2026-11-23",
};

/// Three limbs and a special prime, t = 65537: the parameters of the library kctsb. Its primes are not known; these are 1
/// modulo 2^15 and modulo t.
pub const RLWE_8192: RlweSet = RlweSet {
    id: "rlwe-8192x3-v1",
    n: 8192,
    primes: &[1125889168998401, 1125874136383489, 1125818300956673],
    special: Some(1125899904679937),
    plain: 65537,
    answer_bits: [21, 26],
    strength: Strength {
        usvp: 138.0,
        bdd: 137.7,
        bdd_hybrid: 137.7,
        bdd_mitm_hybrid: 191.0,
        dual: 139.3,
        dual_hybrid: 138.4,
    },
    source: "homomorphic encryption standard 2018, table 1 (218 bits at n = 8192)",
    date: "2026-11-23",
};

/// The same for CKKS.
pub const CKKS_8192: RlweSet = RlweSet {
    id: "ckks-8192x3-v1",
    n: 8192,
    primes: &[1125899903991809, 1125899903827969, 1125899903795201],
    special: Some(1125899904679937),
    plain: 0,
    answer_bits: [50, 50],
    strength: Strength {
        usvp: 138.0,
        bdd: 137.7,
        bdd_hybrid: 137.7,
        bdd_mitm_hybrid: 191.0,
        dual: 139.3,
        dual_hybrid: 138.4,
    },
    source: "homomorphic encryption standard 2018, table 1 (218 bits at n = 8192)",
    date: "2026-11-23",
};

/// Every set.
pub const SETS: &[RlweSet] = &[RLWE_2048, RLWE_4096, RLWE_8192, CKKS_8192];

/// The most bits that a modulus may have, special primes counted, for 128 bits of classical security with a ternary secret:
/// M. Albrecht and others, "Homomorphic Encryption Security Standard", 2018, table 1. `None` for an n that it does not list.
pub fn ceiling(n: usize) -> Option<f64> {
    Some(match n {
        1024 => 27.0,
        2048 => 54.0,
        4096 => 109.0,
        8192 => 218.0,
        16384 => 438.0,
        32768 => 881.0,
        _ => return None,
    })
}

/// The same for 128 bits of security against quantum computers, by the same table's columns for them. It claims no more than those:
/// a secret of -1, 0 and 1, and the costs of lattice reduction that were thought of in 2018.
pub fn quantum_ceiling(n: usize) -> Option<f64> {
    Some(match n {
        1024 => 25.0,
        2048 => 51.0,
        4096 => 101.0,
        8192 => 202.0,
        16384 => 411.0,
        32768 => 827.0,
        _ => return None,
    })
}

impl RlweSet {
    /// Bits of the modulus, special prime included.
    pub fn modulus_bits(&self) -> f64 {
        self.primes.iter().chain(&self.special).map(|&p| libm::log2(p as f64)).sum()
    }

    /// The Hamming weight of a secret, on average.
    fn weight(&self) -> f64 {
        2.0 * self.n as f64 / 3.0
    }

    /// What rounding both polynomials of a ciphertext to integers adds: the error of a is multiplied by the secret.
    pub fn rounding(&self) -> f64 {
        (1.0 + self.weight()) * ROUNDING
    }

    /// The noise of a fresh ciphertext: the error, and the rounding of the message to the modulus.
    pub fn fresh(&self) -> f64 {
        ERROR_VARIANCE + ROUNDING
    }

    /// What one key switch over `limbs` primes adds: each limb is a digit, uniform between -q/2 and q/2, times n errors over
    /// the special prime; then the rounding.
    pub fn switched(&self, limbs: usize) -> f64 {
        let special = self.special.map_or(f64::INFINITY, |p| p as f64);
        let digit = |&q: &u64| self.n as f64 * (q as f64 / special) * (q as f64 / special) * ROUNDING * ERROR_VARIANCE;
        self.primes[..limbs].iter().map(digit).sum::<f64>() + self.rounding()
    }

    /// The noise of each of `leaves` ciphertexts that one query is expanded to, as the mean over coefficients: with
    /// m = 2^⌈log2 leaves⌉, every level doubles the variance and adds a key switch, m·E + (m - 1)·V. It is what counts where
    /// the other factor looks random.
    pub fn expanded(&self, limbs: usize, leaves: usize) -> f64 {
        let m = leaves.next_power_of_two() as f64;
        m * self.fresh() + (m - 1.0) * self.switched(limbs)
    }

    /// The same for the worst table: a bound on the variance of Σ leaf_k·P_k over the sum of the squares of all coefficients of
    /// the P_k.
    ///
    /// Noise that a node has before a level reaches both of its children, as e + τ(e) and e - τ(e) up to a turn. As τ only
    /// moves coefficients, the squares of the two add up to four times that of e. So after r levels the squares over all
    /// leaves are at most 4^r of it, and Cauchy and Schwarz give the bound, whatever is correlated. Noise of a key switch
    /// enters both children once: 2·(1 + 4 + … + m²/4)·V.
    pub fn expanded_at_worst(&self, limbs: usize, leaves: usize) -> f64 {
        let m = leaves.next_power_of_two() as f64;
        m * m * self.fresh() + 2.0 * (m * m - 1.0) / 3.0 * self.switched(limbs)
    }

    /// The noise of a sum of `terms` products of ciphertexts with noise `each` and plaintexts whose coefficients are all
    /// `largest`, with any sign.
    pub fn products(&self, terms: usize, each: f64, largest: f64) -> f64 {
        terms as f64 * self.n as f64 * each * largest * largest
    }

    /// What choosing between two ciphertexts by an encrypted bit adds, where the bit's rows are leaves of noise `each`: ten
    /// products of digits, uniform between -B/2 and B/2, with five rows of that noise, and with five of which the noise is
    /// multiplied by the secret and switched once.
    pub fn choice(&self, each: f64) -> f64 {
        let times_secret = each * self.weight() + self.switched(1);
        let digit = libm::exp2(2.0 * f64::from(DIGIT_BITS)) * ROUNDING;
        DIGITS as f64 * self.n as f64 * digit * (each + times_secret)
    }

    /// log2 of a bound on the probability that any of `coefficients` coefficients of an answer is wrong, whose noise under
    /// the first `limbs` primes is `noise`. The answer is switched to one prime, then to [`RlweSet::answer_bits`], and a
    /// coefficient is right if its error is below half of the distance between two messages.
    pub fn failure(&self, limbs: usize, noise: f64, coefficients: usize) -> f64 {
        let [b_bits, a_bits] = self.answer_bits;
        let answer = libm::exp2(f64::from(a_bits));
        // One prime after another divides the variance by its square, and adds a rounding.
        let mut variance = noise;
        for &q in self.primes[1..limbs].iter().rev() {
            variance = variance / (q as f64) / (q as f64) + self.rounding();
        }
        let shrink = answer / self.primes[0] as f64;
        let cut = libm::exp2(f64::from(a_bits - b_bits));
        variance = variance * shrink * shrink + self.rounding() + cut * cut * ROUNDING;
        let limit = answer / (2.0 * self.plain as f64);
        1.0 - limit * limit / (2.0 * variance) * std::f64::consts::LOG2_E + libm::log2(coefficients as f64)
    }

    /// For CKKS: log2 of a bound on the probability that any of `reals` real numbers of an answer is off by more than `off`. The
    /// answer's noise under the first `limbs` primes is `noise`, and after the switch to one prime its scale is `scale`. A real number
    /// is half of a slot, which is a sum of all n coefficients with weights of absolute value 1.
    pub fn strays(&self, limbs: usize, noise: f64, scale: f64, reals: usize, off: f64) -> f64 {
        let mut variance = noise;
        for &q in self.primes[1..limbs].iter().rev() {
            variance = variance / (q as f64) / (q as f64) + self.rounding();
        }
        let real = variance * self.n as f64 / 2.0 / scale / scale;
        1.0 - off * off / (2.0 * real) * std::f64::consts::LOG2_E + libm::log2(reals as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_stays_below_its_ceiling() {
        for set in SETS {
            let ceiling = ceiling(set.n).expect("an n of the standard");
            assert!(set.modulus_bits() + 3.99 <= ceiling, "{}: {:.1} bits of {ceiling}", set.id, set.modulus_bits());
        }
    }

    /// What docs/src/protocols/bfv-pir.md says of quantum computers.
    #[test]
    fn every_set_stays_below_its_quantum_ceiling() {
        for set in SETS {
            let ceiling = quantum_ceiling(set.n).expect("an n of the standard");
            assert!(set.modulus_bits() <= ceiling, "{}: {:.1} bits of {ceiling}", set.id, set.modulus_bits());
        }
        // The margins are small, and the page says how small.
        let margin = |set: &RlweSet| quantum_ceiling(set.n).unwrap_or_default() - set.modulus_bits();
        for (set, bits) in [(RLWE_2048, 1.0), (RLWE_4096, 1.0), (RLWE_8192, 2.0), (CKKS_8192, 2.0)] {
            assert!((margin(&set) - bits).abs() < 0.01, "{}: {:.3}", set.id, margin(&set));
        }
    }

    #[test]
    fn primes_are_as_the_transform_and_the_plaintexts_need_them() {
        for set in SETS {
            let all: Vec<u64> = set.primes.iter().copied().chain(set.special).collect();
            for (i, p) in all.iter().enumerate() {
                assert_eq!(p % (2 * set.n as u64), 1, "{}: {p}", set.id);
                assert!(*p < 1 << 50 && *p > 1 << 49 && !all[..i].contains(p), "{}: {p}", set.id);
            }
            for p in set.primes {
                assert!(set.plain == 0 || p % set.plain == 1, "{}: {p} is not 1 modulo t", set.id);
            }
            // A digit is at most the special prime, or a key switch adds more noise than `switched` says.
            assert!(set.special.is_none_or(|p| set.primes.iter().all(|&q| q <= p)), "{}", set.id);
        }
    }

    /// Figures of the design, which were simulated there with the average plaintext (a variance of t²/12).
    #[test]
    fn noise_is_as_simulated() {
        let log = |variance: f64| libm::log2(variance) / 2.0;
        let near = |got: f64, expected: f64| assert!((got - expected).abs() < 0.1, "2^{got:.2} for 2^{expected}");
        near(log(RLWE_2048.fresh()), 1.7);
        near(log(RLWE_4096.switched(1)), 5.9);
        near(log(RLWE_8192.switched(3)), 7.2);
        near(log(RLWE_4096.expanded(1, 256)), 9.93);
        let mean = |set: &RlweSet| set.plain as f64 / libm::sqrt(12.0);
        near(log(RLWE_4096.products(256, RLWE_4096.expanded(1, 256), mean(&RLWE_4096))), 30.1);
        near(log(RLWE_8192.products(157, RLWE_8192.expanded(3, 157), mean(&RLWE_8192))), 35.6);
        near(log(RLWE_2048.products(1, RLWE_2048.fresh(), mean(&RLWE_2048))), 21.4);
    }

    #[test]
    fn failure_is_rare_and_grows() {
        let noise = |blocks| RLWE_4096.products(blocks, RLWE_4096.expanded_at_worst(1, blocks), 2048.0);
        assert!(RLWE_4096.failure(1, noise(64), 4096) < -40.0);
        assert!(RLWE_4096.failure(1, noise(4096), 4096) > -40.0);
        assert!(RLWE_4096.failure(1, noise(512), 8) > RLWE_4096.failure(1, noise(256), 8));
        // One leaf is as it came.
        assert_eq!(RLWE_4096.expanded_at_worst(1, 1), RLWE_4096.fresh());
    }
}
