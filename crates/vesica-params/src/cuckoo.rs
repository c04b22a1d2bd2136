//! Cuckoo tables with three hashes and no stash: how many bins n keys need, except with probability 2^-σ a job.

use crate::Level;
use crate::bounds::{least, log2_factorials, log2_tail};

/// A family of cuckoo tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CuckooSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// From how many keys on the fit below is used; for fewer, [`bins`] proves what it says.
    pub fitted_from: u64,
    /// Bins a key at which the fit begins.
    pub threshold: f64,
    /// Bits gained per unit of expansion above.
    pub slope: f64,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// The set in use.
pub const CUCKOO: CuckooSet = CuckooSet {
    id: "cuckoo-h3-exact-v1",
    fitted_from: 1 << 12,
    threshold: 1.1,
    slope: 256.0,
    source: "own simulation of 2^9 to 2^12 keys (docs/src/design/10-okvs.md has the counts, crates/vesica-okvs/tests/failure.rs repeats some), above the orientability threshold of 1.0895: Dietzfelbinger, Goerdt, Mitzenmacher, Montanari, Pagh, Rink, Tight Thresholds for Cuckoo Hashing via XORSAT, ICALP 2010; below 2^12 keys the union bound in vesica_params::cuckoo::bins",
    date: "2026-11-22",
};

/// The most keys that a table may hold.
pub const MOST_KEYS: u64 = 1 << 24;

/// The bins of each of a job's `tables` tables for `n` keys, or `None` above [`MOST_KEYS`].
///
/// A table exists unless, for some k, some k+1 keys have all their bins among k bins (Hall). Each key has three different
/// bins, all triples alike, so by the union bound it fails with probability at most
/// Σ_k C(n, k+1) · C(m, k) · (C(k, 3) / C(m, 3))^(k+1). Below 2^12 keys the answer is the least m for which this is at most
/// 2^-σ / tables: a proof, at 1.57 to 1.68 bins a key from 2^8 keys on.
///
/// From there on the sum is not tight. What is left of it, small k, is below 2^-59; large k are ever less likely, as this
/// is above the threshold at which almost all tables exist. The answer is that of the fit λ = 256·(m/n - 1.1): in
/// simulation λ is larger at 2^10 keys, and its slope grows with n: 197 at 2^9, 288, 400, 535 at 2^12.
pub fn bins(n: u64, tables: u32, level: Level) -> Option<u32> {
    if n > MOST_KEYS {
        return None;
    }
    let sigma = f64::from(level.sigma) + libm::log2(f64::from(tables.max(1)));
    if n >= CUCKOO.fitted_from {
        let expansion = CUCKOO.threshold + sigma / CUCKOO.slope;
        return Some(libm::ceil(expansion * n as f64) as u32);
    }
    let n = n as usize;
    let most = 2 * n + 4096;
    let factorials = log2_factorials(most);
    let holds = |bins| log2_no_table(n, bins as usize, &factorials) <= -sigma;
    Some(least(n.max(3) as u64, most as u64, holds) as u32)
}

/// log2 of the sum in [`bins`].
fn log2_no_table(n: usize, m: usize, factorials: &[f64]) -> f64 {
    let choose = |n: usize, k: usize| factorials[n] - factorials[k] - factorials[n - k];
    let terms = (3..n).map(|k| {
        let inside = choose(k, 3) - choose(m, 3);
        libm::exp2(choose(n, k + 1) + choose(m, k) + (k + 1) as f64 * inside)
    });
    libm::log2(terms.sum())
}

/// The most of `n` keys that fall into one of `bins` bins when each is put into three of them, in any of a job's `tables`
/// tables, except with probability 2^-σ.
///
/// A key is in a given bin with probability p = 3/bins, independently of others: the Chernoff-Hoeffding bound, as in
/// [`unit_capacity`](crate::unit_capacity), for all bins of all tables.
pub fn simple_load(n: u64, bins: u32, tables: u32, level: Level) -> u64 {
    let p = (3.0 / f64::from(bins)).min(1.0);
    let budget = -f64::from(level.sigma) - libm::log2(f64::from(bins)) - libm::log2(f64::from(tables.max(1)));
    least((n as f64 * p) as u64, n, |load| log2_tail(n, p, (load + 1) as f64) <= budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_names_its_source() {
        assert!(CUCKOO.id.starts_with("cuckoo-h3-") && CUCKOO.source.contains("ICALP") && CUCKOO.date.len() == 10);
    }

    #[test]
    fn bins_are_as_many_as_stated() {
        for (n, low, high) in
            [(1u64 << 8, 1.66, 1.68), (1 << 10, 1.58, 1.60), (1 << 12, 1.256, 1.257), (1 << 24, 1.256, 1.257)]
        {
            let expansion = f64::from(bins(n, 1, Level::STANDARD).expect("few keys")) / n as f64;
            assert!((low..high).contains(&expansion), "{n}: {expansion}");
        }
        assert_eq!(bins(MOST_KEYS + 1, 1, Level::STANDARD), None);
        assert!((0..4).all(|n| bins(n, 1, Level::STANDARD) == Some(3)));
    }

    #[test]
    fn more_tables_need_more_bins() {
        for n in [10, 1000, 1 << 14] {
            assert!(bins(n, 1000, Level::STANDARD) > bins(n, 1, Level::STANDARD));
        }
    }

    #[test]
    fn loads_are_between_the_mean_and_all() {
        for (n, bins) in [(0u64, 3u32), (1, 3), (10, 3), (1000, 1300), (1 << 20, 1_380_000)] {
            let most = simple_load(n, bins, 1, Level::STANDARD);
            assert!(most <= n && most as f64 >= (3 * n) as f64 / f64::from(bins) - 1.0, "{n} in {bins}: {most}");
        }
    }
}
