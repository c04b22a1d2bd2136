//! Chance with given probabilities, from integers: nothing here is a floating-point number, and no branch depends on what is drawn but
//! on whether a draw has to be repeated.

use vesica_session::SessionRng;

/// A bit that is 1 with probability `of`/2^128.
pub fn bit(of: u128, rng: &mut SessionRng) -> bool {
    let (_, less) = u128::from_le_bytes(rng.bytes()).overflowing_sub(of);
    less
}

/// A number below `weights.len()`, with the probabilities that the weights are in. They add up to less than 2^127.
pub fn number(weights: &[u128], rng: &mut SessionRng) -> u64 {
    let total: u128 = weights.iter().sum();
    // As many bits as the total has: more than half of the draws are below it. That one is not says nothing of the next.
    let mask = u128::MAX >> total.leading_zeros();
    loop {
        let drawn = u128::from_le_bytes(rng.bytes()) & mask;
        let (mut number, mut below) = (0, 0);
        for &weight in weights {
            below += weight;
            number += u64::from(drawn >= below);
        }
        if drawn < total {
            return number;
        }
    }
}

/// A generator of its own for each purpose, from one seed.
pub fn chance(what: &str, seed: &[u8; 32]) -> SessionRng {
    SessionRng::from_seed(zeroize::Zeroizing::new(blake3::derive_key(what, seed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_params::dp;
    use vesica_testkit::fixed_rng;

    /// Pearson's statistic of what was counted against these probabilities.
    fn statistic(counted: &[u64], probabilities: &[f64]) -> f64 {
        let all = counted.iter().sum::<u64>() as f64;
        counted.iter().zip(probabilities).map(|(&n, p)| (n as f64 - all * p).powi(2) / (all * p)).sum()
    }

    const DRAWS: u64 = 100_000;

    /// What a statistic of 1 and of 2 degrees of freedom exceeds once in 10^4 times.
    const ONE: f64 = 15.14;
    const TWO: f64 = 18.42;

    #[test]
    fn bits_have_their_probability() {
        for (seed, p) in [(1, 0.5), (2, 0.047_425_873), (3, 0.9), (4, 0.268_941_421)] {
            let (mut rng, of) = (fixed_rng(seed), dp::fraction(p));
            let ones = (0..DRAWS).filter(|_| bit(of, &mut rng)).count() as u64;
            let at = |p: f64| statistic(&[DRAWS - ones, ones], &[1.0 - p, p]);
            assert!(at(p) < ONE, "{p}: {}", at(p));
            // A probability that is off by a tenth would be noticed.
            assert!(at(p * 0.9) > ONE && at((p * 1.1).min(0.999)) > ONE, "{p}");
        }
        assert!(!bit(0, &mut fixed_rng(5)));
    }

    /// The middle of the distribution of Z is drawn often enough to be counted; what is farther out is counted together.
    #[test]
    fn dummies_match_as_often_as_the_table_says() {
        for (seed, epsilon) in [(11, 1.0), (12, 3.0), (13, 0.3)] {
            let (pool, mut rng) = (dp::Pool::new(epsilon), fixed_rng(seed));
            let c = pool.keys() / 2;
            let drawn: Vec<u64> = (0..DRAWS).map(|_| number(&pool.weights, &mut rng)).collect();
            assert!(drawn.iter().all(|&z| z <= 2 * c));
            let counted =
                [0, 1].map(|above| drawn.iter().filter(|&&z| if above == 1 { z == c } else { z < c }).count() as u64);
            let counted = [counted[0], counted[1], DRAWS - counted[0] - counted[1]];
            let total = pool.total() as f64;
            let at = |from: u64, to: u64| pool.weights[from as usize..to as usize].iter().sum::<u128>() as f64 / total;
            let expected = [at(0, c), at(c, c + 1), at(c + 1, 2 * c + 1)];
            assert!(statistic(&counted, &expected) < TWO, "{epsilon}: {counted:?} {expected:?}");
            let off = [expected[0] * 0.9, 1.0 - (expected[0] + expected[2]) * 0.9, expected[2] * 0.9];
            assert!(statistic(&counted, &off) > TWO, "{epsilon}");
        }
    }

    /// Small tables exactly: every number that can be drawn, by which draws give it.
    #[test]
    fn a_number_is_as_frequent_as_its_weight() {
        let mut rng = fixed_rng(20);
        let mut counted = [0u64; 4];
        (0..DRAWS).for_each(|_| counted[number(&[1, 0, 3, 2], &mut rng) as usize] += 1);
        assert_eq!(counted[1], 0);
        let [a, _, b, c] = counted;
        assert!(statistic(&[a, b, c], &[1.0 / 6.0, 3.0 / 6.0, 2.0 / 6.0]) < TWO, "{counted:?}");
    }
}
