//! Chance with given probabilities, from integers: nothing here is a floating-point number.
//!
//! A run that is broken and goes on draws its noise again, from coins that it keeps, so it is the same noise. A peer that breaks a run many
//! times sees nothing new in what it is sent, but it can measure many times how long the same draw takes. So no branch depends on a number that
//! is drawn, but only on whether a draw has to be repeated, which says nothing of the one that is kept.

use std::fmt;
use std::ops::Deref;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Noise that a party drew, modulo 2^64. Whoever reads it takes it off: so it is not shown, and memory is cleared of it.
#[derive(Clone)]
pub struct Draws(Zeroizing<Vec<u64>>);

impl Draws {
    /// These numbers, of which there are `len`: memory is taken once, so that no copy of them is left behind.
    pub fn new(len: usize, numbers: impl Iterator<Item = u64>) -> Self {
        let mut all = Zeroizing::new(Vec::with_capacity(len));
        all.extend(numbers.take(len));
        Self(all)
    }
}

impl Deref for Draws {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl fmt::Debug for Draws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Draws(..)")
    }
}

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

/// A number k with a probability in proportion to e^(-|k|·s/t), modulo 2^64, exactly: Canonne, Kamath, Steinke, "The Discrete Gaussian for
/// Differential Privacy", NeurIPS 2020, arXiv 2004.00010, Algorithm 2.
///
/// Differs from the paper: its loops, which end when something did not happen, go on to a length that is always the same. Only a draw that
/// is longer than that takes longer, once in 2^54 times. So how long a draw takes tells nothing of k.
pub fn laplace(s: u64, t: u128, rng: &mut SessionRng) -> u64 {
    draw(s, t, LEAST, &mut || u128::from_le_bytes(rng.bytes()))
}

/// How long loops are at least.
#[derive(Clone, Copy)]
struct Least {
    /// Steps of V, the larger part of k. V is longer with probability e^-steps.
    steps: u32,
    /// Terms of the series behind each chance e^(-u/t). A series is longer with probability 1/terms! at most.
    terms: u32,
}

/// A draw has some 42 series. One of its loops is longer than this with probability 42/20! + e^-40 at most. At most half of all draws are
/// repeated.
const LEAST: Least = Least { steps: 40, terms: 20 };

fn draw(s: u64, t: u128, least: Least, random: &mut impl FnMut() -> u128) -> u64 {
    loop {
        let u = below(t, random);
        if !decays(u, t, least.terms, random) {
            continue;
        }
        let v = in_a_row(least.steps, || decays(1, 1, least.terms, random));
        let (size, negative) = (quotient(u + t * u128::from(v), s), below(2, random) as u64);
        // Zero has one sign.
        if negative & u64::from(size == 0) == 0 {
            return (size ^ negative.wrapping_neg()).wrapping_add(negative);
        }
    }
}

/// Whether something happens that does so with probability e^(-u/t), for u <= t: Algorithm 1 there.
fn decays(u: u128, t: u128, least: u32, random: &mut impl FnMut() -> u128) -> bool {
    let mut k = 0;
    let happened = in_a_row(least, || {
        k += 1;
        below(t * k, random).overflowing_sub(u).1
    });
    happened & 1 == 0
}

/// How many times in a row something happens. It is tried `least` times, whatever comes of it, and again only if it happened all these times.
fn in_a_row(least: u32, mut happens: impl FnMut() -> bool) -> u64 {
    let (mut always, mut times) = (1, 0);
    for _ in 0..least {
        always &= u64::from(happens());
        times += always;
    }
    while always == 1 {
        always = u64::from(happens());
        times += always;
    }
    times
}

/// ⌊n/d⌋ modulo 2^64, bit by bit: instructions that divide take longer for some numbers than for others.
fn quotient(n: u128, d: u64) -> u64 {
    let (mut rest, mut quotient) = (0u128, 0u64);
    for bit in (0..128).rev() {
        rest = rest << 1 | n >> bit & 1;
        let (less, below) = rest.overflowing_sub(d.into());
        // All ones if d goes into what is left. The compiler would make a branch of what it knows to be a mask.
        let mask = std::hint::black_box(u128::from(below).wrapping_sub(1));
        rest ^= (rest ^ less) & mask;
        quotient = quotient << 1 | mask as u64 & 1;
    }
    quotient
}

/// A number below n, each as often.
fn below(n: u128, random: &mut impl FnMut() -> u128) -> u128 {
    // As many bits as the largest has: more than half of the draws are below n.
    let mask = u128::MAX.checked_shr((n - 1).leading_zeros()).unwrap_or(0);
    loop {
        let drawn = random() & mask;
        if drawn < n {
            return drawn;
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

    /// Loops that end as in the paper, which is what 10^5 draws have time for.
    const PAPER: Least = Least { steps: 0, terms: 0 };

    fn random(seed: u8) -> impl FnMut() -> u128 {
        let mut rng = fixed_rng(seed);
        move || u128::from_le_bytes(rng.bytes())
    }

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

    /// What e^(-u/t) is, for the whole range of u.
    #[test]
    fn what_decays_does_so_as_an_exponential() {
        for (seed, u, t) in [(30, 0, 5), (31, 1, 1), (32, 3, 10), (33, 7, 8)] {
            let mut random = random(seed);
            let yes = (0..DRAWS).filter(|_| decays(u, t, 0, &mut random)).count() as u64;
            let p = (-(u as f64) / t as f64).exp();
            if u == 0 {
                assert_eq!(yes, DRAWS);
                continue;
            }
            let at = |p: f64| statistic(&[DRAWS - yes, yes], &[1.0 - p, p]);
            assert!(at(p) < ONE && at(p * 0.9) > ONE && at((p * 1.1).min(0.999)) > ONE, "{u}/{t}: {}", at(p));
        }
    }

    #[test]
    fn a_number_below_another_is_uniform() {
        let mut random = random(34);
        assert!((0..100).all(|_| below(1, &mut random) == 0));
        let mut counted = [0u64; 3];
        (0..DRAWS).for_each(|_| counted[below(3, &mut random) as usize] += 1);
        assert!(statistic(&counted, &[1.0 / 3.0; 3]) < TWO, "{counted:?}");
        assert!((0..100).all(|_| below((1 << 100) + 1, &mut random) <= 1 << 100));
    }

    /// The algorithm's own probabilities, added up over all that it may draw, are those of the distribution: Y = y comes from X with
    /// y·s <= X < (y + 1)·s, and X has a probability in proportion to e^(-X/t).
    #[test]
    fn the_algorithm_has_the_distribution_exactly() {
        for (s, t) in [(1u64, 1u128), (3, 2), (2, 7), (5, 4)] {
            // X = U + t·V, where U is below t and kept with probability e^(-U/t), and V is v with probability (1 - 1/e)·e^(-v).
            let of_x = |x: u64| {
                let (u, v) = (x % t as u64, x / t as u64);
                (-(u as f64) / t as f64).exp() * (-(v as f64)).exp()
            };
            let of_y = |y: u64| (y * s..(y + 1) * s).map(of_x).sum::<f64>();
            let rate = s as f64 / t as f64;
            for y in 0..20 {
                assert!((of_y(y + 1) / of_y(y) - (-rate).exp()).abs() < 1e-9, "{s}/{t} {y}");
            }
        }
    }

    /// How many random numbers a draw takes, for noise near zero and for noise far from it, on average over 4,000 draws; and how far these
    /// two are apart, in standard deviations.
    fn apart(least: Least) -> f64 {
        let (of, mut random) = (dp::Laplace::new(0.5, 1), random(44));
        let mut taken: [Vec<f64>; 2] = Default::default();
        for _ in 0..4000 {
            let mut numbers = 0;
            let mut counted = || {
                numbers += 1;
                random()
            };
            let k = draw(of.s, of.t, least, &mut counted) as i64;
            // Half of all draws are within ±1.
            taken[usize::from(k.unsigned_abs() > 1)].push(f64::from(numbers));
        }
        let [near, far] = taken.map(|numbers| {
            let n = numbers.len() as f64;
            assert!(n > 1000.0, "{n} draws");
            let mean = numbers.iter().sum::<f64>() / n;
            (mean, numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
        });
        (near.0 - far.0).abs() / (near.1 + far.1).sqrt()
    }

    #[test]
    fn how_long_a_draw_takes_tells_nothing_of_it() {
        let (same, other) = (apart(LEAST), apart(PAPER));
        assert!(same < 4.0, "{same}");
        // As the paper has it, it shows at once.
        assert!(other > 10.0, "{other}");
    }

    #[test]
    fn a_number_divided_bit_by_bit_is_the_quotient() {
        let mut random = random(45);
        for bits in 0..128 {
            let (n, d) = (random() >> bits, (random() as u64 >> (bits / 2)).max(1));
            assert_eq!(quotient(n, d), (n / u128::from(d)) as u64, "{n}/{d}");
        }
        assert_eq!([quotient(0, 1), quotient(u128::MAX, u64::MAX), quotient(7, 7)], [0, 1, 1]);
    }

    /// Loops of at least some length give what loops give that end at once: draws as a run makes them, from few numbers.
    #[test]
    fn longer_loops_draw_the_same_numbers() {
        for (times, least) in [(0, 0), (3, 0), (0, 5), (3, 5), (5, 5), (7, 5)] {
            let mut left = times;
            let mut tried = 0;
            let happens = || {
                tried += 1;
                left -= 1;
                left >= 0
            };
            assert_eq!(in_a_row(least, happens), times as u64);
            assert_eq!(tried, (times as u32 + 1).max(least), "{times} {least}");
        }
        let (of, mut rng) = (dp::Laplace::new(1.0, 1), fixed_rng(46));
        let zeros = (0..2000).filter(|_| laplace(of.s, of.t, &mut rng) == 0).count() as u64;
        let p = off_by(1.0);
        assert!(statistic(&[2000 - zeros, zeros], &[1.0 - p, p]) < ONE, "{zeros}");
    }

    /// Noise as it is drawn, against the distribution; and a distribution that is off by a tenth is noticed.
    #[test]
    fn noise_has_its_distribution() {
        for (seed, epsilon, sensitivity) in [(40, 1.0, 1), (41, 0.5, 1), (42, 3.0, 2), (43, 1.0, 3)] {
            let (of, mut random) = (dp::Laplace::new(epsilon, sensitivity), random(seed));
            let drawn: Vec<i64> = (0..DRAWS).map(|_| draw(of.s, of.t, PAPER, &mut random) as i64).collect();
            // Every number from -3 to 3, and what is beyond, below and above.
            let mut counted = [0u64; 9];
            drawn.iter().for_each(|&k| counted[(k.clamp(-4, 4) + 4) as usize] += 1);
            let probabilities = |rate: f64| -> [f64; 9] {
                let q = (-rate).exp();
                let zero = (1.0 - q) / (1.0 + q);
                std::array::from_fn(|i| match (i as i32 - 4).abs() {
                    4 => q.powi(4) / (1.0 + q),
                    k => zero * q.powi(k),
                })
            };
            let rate = epsilon / sensitivity as f64;
            // 8 degrees of freedom: above 31.8 once in 10^4.
            assert!(statistic(&counted, &probabilities(rate)) < 31.8, "{epsilon}: {counted:?}");
            for off in [0.9, 1.1] {
                assert!(statistic(&counted, &probabilities(rate * off)) > 31.8, "{epsilon} {off}");
            }
            // A single probability that is off by a tenth, with 10^4 draws of it or more.
            let mut off = probabilities(rate);
            off.iter_mut().for_each(|p| *p *= (1.0 - 0.9 * off_by(rate)) / (1.0 - off_by(rate)));
            off[4] = 0.9 * off_by(rate);
            assert!(statistic(&counted, &off) > 31.8, "{epsilon}");
        }
    }

    /// The probability of no noise.
    fn off_by(rate: f64) -> f64 {
        let q = (-rate).exp();
        (1.0 - q) / (1.0 + q)
    }

    /// Where one key more is common the number is one higher, and what is told of it is at most e^ε times as probable, and e^-ε at least: for
    /// every outcome, from the distributions of both. The noise of two draws, of which one is known, is that of the other.
    #[test]
    fn a_noisy_count_hides_one_key() {
        for epsilon in [0.1, 1.0, 3.0] {
            let of = dp::Laplace::new(epsilon, 1);
            let rate = of.s as f64 / of.t as f64;
            assert!(rate <= epsilon && rate > 0.999 * epsilon);
            for told in -20i32..20 {
                let weight = |common: i32| (-rate * f64::from((told - common).abs())).exp();
                assert!((weight(7) / weight(8)).ln().abs() <= epsilon + 1e-9);
            }
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
