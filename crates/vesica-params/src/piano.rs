//! The numbers of Piano: how the table is cut, how many hints a client keeps, and how many queries they are for.
//!
//! Zhou, Park, Zheng, Shi, "Piano: Extremely Simple, Single-Server PIR with Sublinear Server Computation", eprint 2023/452, section 3.
//! The paper chooses the numbers of hints by Chernoff bounds and names constants. Here both are the least numbers for which the exact
//! probability is small enough, computed when a window begins.

use crate::{Level, QUERIES_A_CLIENT};

/// The most records of a table: a chunk then has 2^16 records, and an offset in it takes 16 bits.
pub const MOST_RECORDS: u64 = 1 << 30;

/// How a table is cut, and how many hints one window of queries takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piano {
    /// Records of a chunk, a power of two: the least that is at least 2√N.
    pub chunk: u64,
    /// Chunks. The last one may be filled up with zeros.
    pub chunks: u64,
    /// Queries of a window: √N·ln N, at least 64. Then the client makes new hints.
    pub queries: u64,
    /// Backups of a chunk, and replacements of a chunk: how many queries of a window may fall into one chunk.
    pub spares: u64,
    /// Primary hints.
    pub primaries: u64,
}

impl Piano {
    /// The numbers for a table of `records`; none if there are no records or more than [`MOST_RECORDS`].
    ///
    /// Of [`QUERIES_A_CLIENT`] queries some query fails with probability at most 2^-σ, where records are asked for that do not follow the
    /// chunks. These queries are W windows, and each of them may fail with probability 2^-σ/W:
    ///
    /// - A chunk gets more queries than it has spares. Each of Q queries falls into a given one of S chunks with probability C/N at most:
    ///   the last chunk may have fewer records than C, so that is a little more than 1/S. So this is at most S·Pr[Bin(Q, C/N) > spares],
    ///   which is at most half of it. Queries for different records are drawn without putting back, which only makes the tail lighter
    ///   (Hoeffding 1963, section 6).
    /// - No hint holds the record. A hint holds it with probability 1/C, unless it was programmed in its chunk (at most `spares`).
    ///   So it is at most Q·(1 - 1/C)^(primaries - spares), the other half.
    pub fn new(records: u64, level: Level) -> Option<Self> {
        if !(1..=MOST_RECORDS).contains(&records) {
            return None;
        }
        let root = libm::sqrt(records as f64);
        let mut chunk = 2u64;
        while chunk * chunk < 4 * records {
            chunk *= 2;
        }
        let chunks = records.div_ceil(chunk);
        let queries = ((root * libm::log(records as f64)) as u64).max(64);
        let windows = QUERIES_A_CLIENT.div_ceil(queries);
        let half = -f64::from(level.sigma + 1) * core::f64::consts::LN_2 - libm::log(windows as f64);
        let share = (chunk as f64 / records as f64).min(1.0);
        let holds = |spares: &u64| libm::log(chunks as f64) + ln_tail(queries, share, *spares) <= half;
        let spares = (queries / chunks..=queries).find(holds).unwrap_or(queries);
        let misses = libm::log1p(-1.0 / chunk as f64);
        let free = libm::ceil((half - libm::log(queries as f64)) / misses) as u64;
        Some(Self { chunk, chunks, queries, spares, primaries: free + spares })
    }
}

/// ln Pr[X > m] for X the sum of `n` independent bits that are 1 with probability `p`, added up term by term.
fn ln_tail(n: u64, p: f64, m: u64) -> f64 {
    if m >= n {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return 0.0;
    }
    let (count, k) = (n as f64, (m + 1) as f64);
    let choose = libm::lgamma(count + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(count - k + 1.0);
    let first = choose + k * libm::log(p) + (count - k) * libm::log1p(-p);
    // The terms behind the first one, divided by it.
    let (mut sum, mut term) = (1.0, 1.0);
    for k in m + 1..n {
        term *= (n - k) as f64 / (k + 1) as f64 * (p / (1.0 - p));
        sum += term;
        if term < sum * 1e-18 {
            break;
        }
    }
    first + libm::log(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tables of the same numbers, computed apart: for N, C, S, Q, spares, and primaries without what is on its way.
    #[test]
    fn the_numbers_are_those_of_the_exact_tails() {
        for (log, chunk, chunks, queries, spares, primaries) in [
            (10, 64, 16, 221, 53, 2_738),
            (12, 128, 32, 532, 60, 5_451),
            (16, 512, 128, 2_839, 72, 21_701),
            (20, 2048, 512, 14_195, 83, 86_659),
            (24, 8192, 2048, 68_139, 93, 346_765),
            (28, 32768, 8192, 317_982, 102, 1_391_905),
        ] {
            let found = Piano::new(1 << log, Level::STANDARD).unwrap();
            assert_eq!(found, Piano { chunk, chunks, queries, spares, primaries }, "2^{log}");
        }
    }

    /// Tables whose last chunk has one record: the queries fall into the other chunks.
    #[test]
    fn chunks_that_are_whole_have_spares_for_their_share() {
        for records in [65u64, 4097, 5377, 1_093_633] {
            let Piano { chunk, chunks, queries, spares, .. } = Piano::new(records, Level::STANDARD).unwrap();
            let in_whole_chunks =
                libm::log((chunks - 1) as f64) + ln_tail(queries, chunk as f64 / records as f64, spares);
            let windows = QUERIES_A_CLIENT as f64 / queries as f64;
            let half = -41.0 * core::f64::consts::LN_2 - libm::log(windows);
            assert!(records % chunk == 1 && in_whole_chunks <= half, "{records}");
        }
    }

    /// The tail against all terms of a small sum, added up exactly in integers.
    #[test]
    fn tails_are_exact() {
        let choose = |n: u64, k: u64| (0..k).fold(1u64, |c, i| c * (n - i) / (i + 1));
        for (n, m) in [(20u64, 3u64), (20, 10), (12, 0), (12, 11)] {
            // p = 1/4: the sum has 4^n as its denominator.
            let above: f64 = (m + 1..=n).map(|k| choose(n, k) as f64 * 3f64.powi((n - k) as i32)).sum();
            let exact = (above / 4f64.powi(n as i32)).ln();
            assert!((ln_tail(n, 0.25, m) - exact).abs() < 1e-12, "{n} {m}");
        }
        assert_eq!(ln_tail(5, 0.5, 5), f64::NEG_INFINITY);
        assert_eq!(ln_tail(5, 1.0, 4), 0.0);
    }

    #[test]
    fn every_size_has_numbers() {
        for records in (1..70).chain([100, 1000, 12_345, 999_999, 1 << 30]) {
            let found = Piano::new(records, Level::STANDARD).unwrap();
            assert!(found.chunk * found.chunks >= records && found.chunk <= 1 << 16, "{records}: {found:?}");
            assert!(
                found.chunk * (found.chunks - 1) < records && found.spares <= found.queries,
                "{records}: {found:?}"
            );
        }
        assert!(Piano::new(0, Level::STANDARD).is_none());
        assert!(Piano::new((1 << 30) + 1, Level::STANDARD).is_none());
    }

    /// At a level of no bits, where half of a failure is granted to the chunks in 2^20 queries, they overflow no more often than that, and often
    /// enough to see that the bound is near.
    #[test]
    fn chunks_overflow_as_seldom_as_stated() {
        let numbers = Piano::new(1 << 20, Level { kappa: 0, sigma: 0 }).unwrap();
        let (mut state, mut overflows, windows) = (1u64, 0u64, 1000);
        for _ in 0..windows {
            let mut load = vec![0u64; numbers.chunks as usize];
            for _ in 0..numbers.queries {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                load[(state >> 32) as usize % numbers.chunks as usize] += 1;
            }
            overflows += u64::from(load.iter().any(|&load| load > numbers.spares));
        }
        let bound = windows * numbers.queries / (2 * QUERIES_A_CLIENT);
        assert!((1..=bound * 13 / 10).contains(&overflows), "{overflows} of {windows}, bound {bound}");
    }
}
