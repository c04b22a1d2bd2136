//! Bins of four slots, two of them for each key: how many bins n keys need, except with probability 2^-σ a job.

use crate::Level;
use crate::bounds::{least, log2_factorials};

/// Slots of a bin.
pub const SLOTS: usize = 4;

/// A family of tables in which each key has two different bins of [`SLOTS`] slots.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BinSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// From how many keys on there are as many bins as `of_a_key` says; for fewer, [`bins`] looks for the least number.
    pub large: u64,
    /// Bins a key of large tables, rounded down to whole bins.
    pub of_a_key: f64,
    /// -log2 of the probability that a large table does not exist, at least.
    pub certainty: f64,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// The set in use: 1.36 slots a key.
pub const BINS: BinSet = BinSet {
    id: "bins-h2-s4-v1",
    large: 1 << 12,
    of_a_key: 0.34,
    certainty: 69.5,
    source: "the union bound in vesica_params::bins::bins over the sets of Hall's theorem; bins of slots for polynomials: Bui, Couteau, PKC 2023, eprint 2022/334",
    date: "2026-11-23",
};

/// The most keys that a table may hold.
pub const MOST_KEYS: u64 = 1 << 24;

/// The bins of each of a job's `tables` tables for `n` keys, or `None` above [`MOST_KEYS`].
///
/// A table exists unless, for some k, more than 4·k keys have both their bins among k bins (Hall). Each key has two different bins, all
/// pairs alike, so by the union bound it fails with probability at most the sum over k of
/// T_k = C(m, k) · C(n, 4k+1) · (C(k, 2) / C(m, 2))^(4k+1). Below [`BinSet::large`] keys the answer is the least m for which this is
/// at most 2^-σ / tables.
///
/// From there on the answer is m = ⌊0.34·n⌋, which is proven for all n, and for as many tables as there can be:
/// - T_k <= 2^(n·G(k/m)), where G(κ) = c·H(κ) + H(4cκ) + 8cκ·log2 κ for c = m/n, and H is the entropy of a bit. From κ = 0.1 on G is
///   below -0.1. At 2^12 keys these terms are below 2^-390 together, and they vanish as n grows.
/// - Each of the others falls as n grows, T_2 as n^-7. At 2^12 keys the sum is below 2^-69.5, and nearly all of it is T_2.
pub fn bins(n: u64, tables: u32, level: Level) -> Option<u32> {
    if n > MOST_KEYS {
        return None;
    }
    let sigma = f64::from(level.sigma) + libm::log2(f64::from(tables.max(1)));
    if n >= BINS.large && sigma <= BINS.certainty {
        return Some((BINS.of_a_key * n as f64) as u32);
    }
    let n = n as usize;
    let most = 2 * n + (1 << 13);
    let factorials = log2_factorials(most);
    Some(least(2, most as u64, |bins| log2_no_table(n, bins as usize, &factorials) <= -sigma) as u32)
}

/// log2 of the sum in [`bins`].
fn log2_no_table(n: usize, m: usize, factorials: &[f64]) -> f64 {
    let choose = |n: usize, k: usize| factorials[n] - factorials[k] - factorials[n - k];
    // More keys than there are cannot be inside of any bins.
    let most = m.min(n.saturating_sub(1) / SLOTS);
    let terms = (2..=most).map(|k| {
        let keys = SLOTS * k + 1;
        libm::exp2(choose(m, k) + choose(n, keys) + keys as f64 * (choose(k, 2) - choose(m, 2)))
    });
    libm::log2(terms.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_names_its_source() {
        assert!(BINS.id.starts_with("bins-h2-s4-") && BINS.source.contains("2022/334") && BINS.date.len() == 10);
    }

    #[test]
    fn bins_are_as_many_as_stated() {
        for (n, low, high) in
            [(1u64 << 8, 1.37, 1.38), (1 << 10, 1.28, 1.30), (1 << 12, 1.359, 1.36), (1 << 24, 1.3599, 1.36)]
        {
            let slots = SLOTS as f64 * f64::from(bins(n, 1, Level::STANDARD).expect("few keys")) / n as f64;
            assert!((low..high).contains(&slots), "{n}: {slots} slots a key");
        }
        assert_eq!(bins(MOST_KEYS + 1, 1, Level::STANDARD), None);
        // Eight keys fit into two bins whatever they are; nine may all be told to.
        assert!((0..=8).all(|n| bins(n, 1 << 16, Level::STANDARD) == Some(2)));
        assert_eq!([1, 1 << 16].map(|tables| bins(9, tables, Level::STANDARD)), [Some(9), Some(17)]);
    }

    #[test]
    fn every_number_of_tables_has_its_bins() {
        for n in [9, 100, 1000, 4095] {
            let few = bins(n, 1, Level::STANDARD);
            assert!(few < bins(n, 1 << 16, Level::STANDARD), "{n}");
            let many = bins(n, u32::MAX, Level::STANDARD).expect("few keys") as usize;
            assert!(log2_no_table(n as usize, many, &log2_factorials(many.max(n as usize))) <= -72.0, "{n}");
        }
        // More than units of a job.
        assert!(bins(5000, u32::MAX, Level::STANDARD).expect("few keys") > 1701);
    }

    fn large_tables_exist(logs: std::ops::RangeInclusive<u32>) {
        let mut before = -BINS.certainty;
        let factorials = log2_factorials(1 << logs.end());
        for log in logs {
            let n = 1usize << log;
            let m = bins(n as u64, 1, Level::STANDARD).expect("up to 2^24") as usize;
            let sum = log2_no_table(n, m, &factorials);
            // T_2 alone, and seven bits less for each doubling.
            let two = factorials[n] - factorials[9] - factorials[n - 9] - 8.0 * libm::log2((m * (m - 1) / 2) as f64);
            assert!(sum <= before && sum < two + 0.01, "2^{log}: 2^{sum}");
            before = sum - 6.9;
        }
    }

    #[test]
    fn large_tables_exist_with_the_certainty_that_is_stated() {
        large_tables_exist(12..=17);
    }

    #[test]
    #[ignore = "takes a minute and 200 MB"]
    fn the_largest_tables_exist_too() {
        large_tables_exist(12..=24);
    }

    /// The exponent of [`bins`]' proof.
    #[test]
    fn large_sets_of_bins_are_never_too_full() {
        let entropy = |x: f64| if x <= 0.0 || x >= 1.0 { 0.0 } else { -x * x.log2() - (1.0 - x) * (1.0 - x).log2() };
        let c = BINS.of_a_key;
        let exponent = |k: f64| c * entropy(k) + entropy((4.0 * c * k).min(1.0)) + 8.0 * c * k * k.log2();
        let last = 1.0 / (4.0 * c);
        let worst = (1000..=(10_000.0 * last) as u32).map(|i| exponent(f64::from(i) / 10_000.0));
        let worst = worst.fold(f64::NEG_INFINITY, f64::max);
        assert!((-0.12..-0.1).contains(&worst), "{worst}");
    }
}
