//! The numbers of differentially private intersection: how often an answer is untrue, how many dummies a pool has and how many of
//! them match, how much noise a total has, and what all of these guarantee.
//!
//! A mechanism is (ε, δ)-private if no output set has more than e^ε times the probability, plus δ, for one of two tables that differ in
//! one key than for the other (Dwork, Roth, "The Algorithmic Foundations of Differential Privacy", 2014, definition 2.4). What is drawn
//! from are integers, and they are rounded to the side on which the guarantee holds exactly: no floating-point number is drawn or
//! compared when a run draws its noise (Mironov, CCS 2012, says what goes wrong otherwise). Exponentials are `libm`'s, so that both
//! parties get the same pool.

/// The least and the largest ε for which there are numbers: below, a pool would have more than five thousand dummies; above, noise
/// would hide nothing that anyone could see.
pub const EPSILONS: std::ops::RangeInclusive<f64> = 0.01..=16.0;

/// The largest ε, ln 19 = 2.944 rounded down, with which who chose what is told is wrong about a key once in 20 times at least: 1/(1 + e^ε)
/// is the least probability of a wrong guess between two equally likely tables.
pub const HIDES: f64 = 2.9;

/// δ of a pool is at most 2 to the power of minus this.
pub const SIGMA: u32 = 40;

/// The probability that an answer about a key is untrue, as a number of 2^128ths: q = 1/(1 + e^ε), rounded up by 2^-50 of itself.
///
/// Randomised response (Warner 1965): a bit is told truly with probability 1 - q. One bit changes the probability of any answer by a
/// factor of at most (1 - q)/q <= e^ε, and δ is 0.
pub fn flip(epsilon: f64) -> u128 {
    fraction((1.0 + f64::EPSILON * 4.0) / (1.0 + libm::exp(epsilon)))
}

/// A probability below 1 as a number of 2^128ths.
pub fn fraction(probability: f64) -> u128 {
    (probability * 2f64.powi(64)) as u128 * (1 << 64) + ((probability * 2f64.powi(64)).fract() * 2f64.powi(64)) as u128
}

/// A number of 2^128ths as a probability.
pub fn probability(fraction: u128) -> f64 {
    fraction as f64 / 2f64.powi(128)
}

/// A pool of 2c dummy keys, of which Z match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// How often each Z from 0 to 2c occurs, of all that they add up to.
    pub weights: Vec<u128>,
}

/// The weight of the rarest Z. What follows from it by rounding down differs from a geometric sequence by less than 2^-32.
const RAREST: u128 = 1 << 48;

impl Pool {
    /// The pool for ε: Z = c + L, where L has the discrete Laplace distribution of parameter ε (Ghosh, Roughgarden, Sundararajan, STOC
    /// 2009, the geometric mechanism) conditioned on [-c, c]. c is the least number for which δ <= 2^-40.
    ///
    /// Who sees I + Z for an unknown number I sees any value of it at most e^ε times as often, or as seldom, as for I + 1; but for the
    /// two values that one of them cannot give, and these have probability δ each.
    pub fn new(epsilon: f64) -> Self {
        // e^ε in 2^32ths, rounded down: from one weight to the next the factor is never larger than e^ε.
        let factor = (libm::exp(epsilon) * (1.0 - f64::EPSILON * 4.0) * 2f64.powi(32)) as u128;
        let mut rising = vec![RAREST];
        loop {
            let next = times(rising[rising.len() - 1], factor);
            let total = 2 * rising.iter().sum::<u128>() + next;
            if RAREST << SIGMA <= total {
                let falling = rising.iter().rev();
                return Self { weights: rising.iter().chain([&next]).chain(falling).copied().collect() };
            }
            rising.push(next);
        }
    }

    /// 2c: how many keys it has.
    pub fn keys(&self) -> u64 {
        self.weights.len() as u64 - 1
    }

    /// δ: the probability of the rarest Z.
    pub fn delta(&self) -> f64 {
        self.weights[0] as f64 / self.total() as f64
    }

    /// What the weights add up to.
    pub fn total(&self) -> u128 {
        self.weights.iter().sum()
    }
}

/// By how much one key may change the numbers of a column, times the columns that share ε: for a noisy sum, the largest absolute value of a key.
/// With ε = 0.01 and the largest of these, noise is beyond 2^60 with probability less than 2^-50.
pub const LARGEST: std::ops::RangeInclusive<u64> = 1..=1 << 48;

/// The discrete Laplace distribution: k and -k have probabilities in proportion to e^(-k·s/t), for all whole numbers k.
///
/// Noise of it on a number hides a change of the number by up to t/s·ε: no outcome is more than e^ε times as probable with the change as
/// without it, and δ is 0 (Ghosh, Roughgarden, Sundararajan, STOC 2009; Canonne, Kamath, Steinke, NeurIPS 2020, arXiv 2004.00010, section 2).
/// That holds modulo 2^64 too, as does for whatever is computed from what is private.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Laplace {
    /// s.
    pub s: u64,
    /// t.
    pub t: u128,
}

impl Laplace {
    /// Noise that hides changes by up to `sensitivity`: s/t is ε over that, with ε rounded down to a multiple of 2^-20.
    pub fn new(epsilon: f64, sensitivity: u64) -> Self {
        Self { s: (epsilon * 2f64.powi(20)) as u64, t: u128::from(sensitivity) << 20 }
    }

    fn rate(&self) -> f64 {
        self.s as f64 / self.t as f64
    }

    /// The standard deviation of the sum of this many draws: of one draw the variance is 2q/(1 - q)², q = e^(-s/t).
    pub fn deviation(&self, draws: u32) -> f64 {
        let rate = self.rate();
        libm::sqrt(f64::from(draws) * 2.0 * libm::exp(-rate)) / -libm::expm1(-rate)
    }

    /// The probability that one draw, or the sum of two, is beyond ±`width`.
    ///
    /// Of one draw it is 2·q^(w + 1)/(1 + q). Two draws add up to k with probability ((1 - q)/(1 + q))²·q^k·(k + (1 + q²)/(1 - q²)).
    pub fn beyond(&self, width: u64, draws: u32) -> f64 {
        let rate = self.rate();
        let (q, rest) = (libm::exp(-rate), -libm::expm1(-rate));
        let first = width as f64 + 1.0;
        let tail = libm::exp(-rate * first);
        if draws == 1 {
            return 2.0 * tail / (1.0 + q);
        }
        // Σ (k + c)·q^k for k from w + 1 on, times what is in front.
        let c = (1.0 + q * q) / (rest * (1.0 + q));
        2.0 * tail * rest * (first + c + q / rest) / ((1.0 + q) * (1.0 + q))
    }

    /// The probability that one draw, or the sum of two, is `number` or more, for `number` from 1 on.
    pub fn reaches(&self, number: u64, draws: u32) -> f64 {
        self.beyond(number - 1, draws) / 2.0
    }

    /// The least w so that one draw, or the sum of two, is within ±w at least 19 times in 20.
    pub fn width(&self, draws: u32) -> u64 {
        let (mut below, mut within) = (0, 1 << 62);
        while below < within {
            let middle = below + (within - below) / 2;
            if self.beyond(middle, draws) <= 0.05 { within = middle } else { below = middle + 1 }
        }
        within
    }
}

/// ⌊x·y / 2^32⌋ for y < 2^64 where that fits.
fn times(x: u128, y: u128) -> u128 {
    let low = u128::from(u64::MAX);
    (((x >> 64) * y) << 32) + (((x & low) * y) >> 32)
}

/// δ for ε of a party that keeps each of its keys with probability `keep` and fills up with keys that nobody has, towards one who sees
/// only how many of `common` or of one more common keys are kept.
///
/// That number is binomial: δ is the larger of Σ max(0, P(k) - e^ε·P'(k)) over both orders of the two distributions. It is at least
/// keep^(common + 1), the probability that all are kept, which one key fewer never gives.
pub fn sampled_delta(keep: f64, epsilon: f64, common: u64) -> f64 {
    let (fewer, more) = (binomial(keep, common), binomial(keep, common + 1));
    let at = |of: &[f64], k: usize| of.get(k).copied().unwrap_or(0.0);
    let over = |of: &[f64], than: &[f64]| {
        (0..more.len()).map(|k| (at(of, k) - libm::exp(epsilon) * at(than, k)).max(0.0)).sum::<f64>()
    };
    over(&more, &fewer).max(over(&fewer, &more))
}

/// The probabilities of 0 to n of n keys being kept, each with probability p.
fn binomial(p: f64, n: u64) -> Vec<f64> {
    let (yes, no) = (libm::log(p), libm::log(1.0 - p));
    let mut choose = 0.0;
    (0..=n)
        .map(|k| {
            if k > 0 {
                choose += libm::log((n - k + 1) as f64) - libm::log(k as f64);
            }
            libm::exp(choose + k as f64 * yes + (n - k) as f64 * no)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, part: f64) -> bool {
        (a - b).abs() <= part * b.abs()
    }

    /// Whether the fraction a/b is at most e^ε, with nothing rounded but e^ε, and that up by 2^-51 of itself at most.
    fn within(a: u128, b: u128, epsilon: f64) -> bool {
        // a/b in 2^60ths: ⌊a/b⌋ and then bit by bit.
        let (mut quotient, mut rest) = (a / b, a % b);
        for _ in 0..60 {
            let over = rest >> 127 == 1 || rest << 1 >= b;
            quotient = quotient << 1 | u128::from(over);
            rest = if over { (rest << 1).wrapping_sub(b) } else { rest << 1 };
        }
        (quotient as f64) < libm::exp(epsilon) * 2f64.powi(60)
    }

    /// The probabilities of more-PSI's page, computed there by hand from e^ε/(1 + e^ε).
    #[test]
    fn answers_are_untrue_as_often_as_the_formula_says() {
        for (epsilon, q) in [(1.0, 0.268_941_421), (2.0, 0.119_202_922), (3.0, 0.047_425_873), (4.0, 0.017_986_210)] {
            assert!(near(probability(flip(epsilon)), q, 1e-8), "{epsilon}");
        }
    }

    /// With nothing rounded the wrong way: what is told for one bit is at most e^ε times as probable as for the other.
    #[test]
    fn an_answer_holds_its_epsilon_exactly() {
        for epsilon in [0.01, 0.3, 1.0, 2.5, 3.0, 7.0, 16.0] {
            let q = flip(epsilon);
            assert!(within(u128::MAX - q + 1, q, epsilon), "{epsilon}");
            assert!(near(libm::log((u128::MAX - q) as f64 / q as f64), epsilon, 1e-12), "{epsilon}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        for (p, halves) in [(0.5, 1u128 << 127), (0.25, 1 << 126), (0.75, 3 << 126)] {
            assert_eq!(fraction(p), halves);
        }
        for p in [0.9, 1e-3, 1e-9, 0.999_999] {
            assert!(near(probability(fraction(p)), p, 1e-15), "{p}");
        }
    }

    /// Widths and deviations by summation, of one draw and of two.
    #[test]
    fn noise_is_as_wide_as_it_is_said_to_be() {
        for (epsilon, sensitivity) in [(1.0, 1), (0.3, 1), (3.0, 4), (0.01, 1), (16.0, 1), (2.0, 50)] {
            let noise = Laplace::new(epsilon, sensitivity);
            let rate = noise.rate();
            assert!(near(rate, epsilon / sensitivity as f64, 1e-4) && rate <= epsilon / sensitivity as f64);
            let most = (60.0 / rate) as i64 + 10;
            let weights: Vec<f64> = (-most..=most).map(|k| libm::exp(-rate * k.abs() as f64)).collect();
            let total: f64 = weights.iter().sum();
            let at = |k: i64| weights.get((k + most) as usize).map_or(0.0, |weight| weight / total);
            let two = |k: i64| (-most..=most).map(|j| at(j) * at(k - j)).sum::<f64>();
            let variance: f64 = (-most..=most).map(|k| (k * k) as f64 * at(k)).sum();
            assert!(
                near(noise.deviation(1), variance.sqrt(), 1e-4)
                    && near(noise.deviation(2), (2.0 * variance).sqrt(), 1e-4)
            );
            for (draws, at) in [(1, &at as &dyn Fn(i64) -> f64), (2, &two)] {
                // A sum of two is summed up where that takes no minute.
                if draws == 2 && most > 1000 {
                    continue;
                }
                let width = noise.width(draws) as i64;
                let beyond = |width: i64| 1.0 - (-width..=width).map(at).sum::<f64>();
                assert!(
                    beyond(width) <= 0.05 + 1e-6 && (width == 0 || beyond(width - 1) > 0.05 - 1e-6),
                    "{epsilon} {draws} {width}"
                );
                assert!((noise.beyond(width as u64, draws) - beyond(width)).abs() < 1e-6, "{epsilon} {draws}");
                let reaches = (width + 1..=2 * most).map(at).sum::<f64>();
                assert!((noise.reaches(width as u64 + 1, draws) - reaches).abs() < 1e-6, "{epsilon} {draws}");
            }
        }
        // What the page says of ε = 1.
        assert_eq!([1, 2].map(|draws| Laplace::new(1.0, 1).width(draws)), [3, 4]);
        let most = Laplace::new(*EPSILONS.start(), *LARGEST.end());
        assert!([1, 2].iter().all(|&draws| most.beyond(1 << 60, draws) < 2f64.powi(-50)));
        assert!(most.s > 10_000, "ε is rounded by less than a ten-thousandth of it");
    }

    /// Sizes of pools, and deviations, from the closed form δ = e^{-εc}·(1 - e^{-ε})/(1 + e^{-ε} - 2e^{-ε(c+1)}).
    #[test]
    fn pools_are_as_large_as_the_closed_form_says() {
        for (epsilon, c, deviation) in
            [(0.1, 248, 14.1), (0.5, 53, 2.8), (1.0, 27, 1.36), (2.0, 14, 0.60), (3.0, 10, 0.33)]
        {
            let pool = Pool::new(epsilon);
            assert_eq!(pool.keys(), 2 * c, "{epsilon}");
            let e = |x: f64| libm::exp(-epsilon * x);
            let delta = |c: f64| e(c) * (1.0 - e(1.0)) / (1.0 + e(1.0) - 2.0 * e(c + 1.0));
            assert!(near(pool.delta(), delta(c as f64), 1e-6), "{epsilon}");
            assert!(pool.delta() <= 2f64.powi(-40) && delta(c as f64 - 1.0) > 2f64.powi(-40), "{epsilon}");
            let total = pool.total() as f64;
            let square = |(z, w): (usize, &u128)| (z as f64 - c as f64).powi(2) * *w as f64 / total;
            let variance: f64 = pool.weights.iter().enumerate().map(square).sum();
            assert!(near(variance.sqrt(), deviation, 0.02), "{epsilon}: {}", variance.sqrt());
        }
    }

    /// All that can be seen is enumerated: I + Z for a number of common keys and for one more. The ratio of no value is above e^ε, and
    /// what one of them alone can give has probability δ.
    #[test]
    fn a_pool_holds_its_epsilon_exactly() {
        for epsilon in [0.01, 0.1, 0.7, 1.0, 3.0, 5.5, 16.0] {
            let Pool { weights } = Pool::new(epsilon);
            // What has weight weights[k] for I has weight weights[k - 1] for I + 1.
            let (mut only_here, mut only_there) = (0, 0);
            for k in 0..=weights.len() {
                match (weights.get(k), k.checked_sub(1).and_then(|k| weights.get(k))) {
                    (Some(&a), Some(&b)) => assert!(within(a, b, epsilon) && within(b, a, epsilon), "{epsilon} {k}"),
                    (Some(a), None) => only_here += a,
                    (None, b) => only_there += b.unwrap(),
                }
            }
            let total: u128 = weights.iter().sum();
            assert_eq!((only_here, only_there), (weights[0], weights[0]));
            assert!(only_here << SIGMA <= total);
        }
    }

    /// The numbers of two programs: this one, and lgamma in double precision.
    #[test]
    fn sampling_guarantees_what_the_two_distributions_say() {
        let known = [
            (0.95, 0.5, 10, 0.568_800),
            (0.95, 3.0, 10, 0.568_800),
            (0.95, 0.5, 100, 0.055_877_2),
            (0.5, 0.5, 100, 1.153_902e-6),
            (0.95, 1.0, 100, 0.019_429_5),
            (0.95, 0.5, 1000, 6.341_85e-5),
            (0.9, 3.0, 100, 2.390_526e-5),
            (0.9, 3.0, 0, 0.9),
        ];
        for (keep, epsilon, common, delta) in known {
            let got = sampled_delta(keep, epsilon, common);
            assert!(near(got, delta, 1e-5), "{keep} {epsilon} {common}: {got}");
            assert!(got >= libm::pow(keep, common as f64 + 1.0) * 0.99);
        }
    }

    /// By hand: of no common key none is kept, and of one it is kept with probability p. Who sees it kept knows that there is one.
    #[test]
    fn sampling_hides_nothing_where_little_is_common() {
        for p in [0.1, 0.5, 0.9, 0.99] {
            assert!(near(sampled_delta(p, libm::log(2.0), 0), p, 1e-9), "{p}");
        }
    }
}
