//! Closed-form bounds, one function each.
//!
//! Both parties compute these from the same integers and must get the same answer, so the logarithms are `libm`'s:
//! plain IEEE arithmetic in software, the same on every platform.

use crate::Level;

/// The length in bits of a comparison tag, for a whole job that compares `n` tags of one side with `m` of the other; for a
/// service, which answers at most `n` queries in its life and holds at most `m` tags.
///
/// A false match is one of n·m pairs of different keys with equal tags, so its probability is at most n·m·2^-L, and
/// L = σ + ⌈log2 n⌉ + ⌈log2 m⌉ bits keep it below 2^-σ (Pinkas, Schneider, Zohner, "Scalable PSI based on OT extension",
/// section 3.2). Count padding too: a dummy's tag can collide like any other.
pub fn tag_bits(n: u64, m: u64, level: Level) -> u32 {
    level.sigma + ceil_log2(n) + ceil_log2(m)
}

/// As [`tag_bits`], in whole bytes.
pub fn tag_bytes(n: u64, m: u64, level: Level) -> usize {
    tag_bits(n, m, level).div_ceil(8) as usize
}

/// Bytes of a value that is compared with one other, for each of `n` keys of a whole job: n·2^-ℓ <= 2^-σ for values of ℓ bits.
pub fn zero_test_bytes(n: u64, level: Level) -> usize {
    (level.sigma + ceil_log2(n)).div_ceil(8) as usize
}

/// ⌈log2 x⌉, with 0 for x = 0.
pub(crate) fn ceil_log2(x: u64) -> u32 {
    x.max(1).next_power_of_two().trailing_zeros()
}

/// log2 of the size of the base field B that an OPRF from vector OLE needs, 64 or 128, where the key is evaluated at `m` keys in
/// the whole job.
///
/// The receiver can test guesses of a key y of the sender's that it does not hold if its store happens to decode to H_B(y),
/// which is so with probability 1/|B| for each: m/|B| <= 2^-σ in all (Raghuraman, Rindal, eprint 2022/320, Theorem 1, the term for
/// the receiver; the hash of y is independent of a store that y is not in). Against a receiver that deviates, and may search
/// for such keys at leisure, it takes 2^128.
pub fn vole_base_bits(m: u64, malicious: bool, level: Level) -> u32 {
    if !malicious && level.sigma + ceil_log2(m) <= 64 { 64 } else { 128 }
}

/// Bits of a bin's target, for a job that compares two of them in each of `bins` bins.
///
/// Targets of a bin without a common key are equal with probability 2^-l, so l = σ + ⌈log2 bins⌉ keeps any of the job from it but for
/// 2^-σ (Pinkas, Schneider, Tkachenko, Yanai, eprint 2019/241, section 3.2). Count the bins of all units.
pub fn target_bits(bins: u64, level: Level) -> u32 {
    level.sigma + ceil_log2(bins)
}

/// Bits of a codeword of the pseudorandom code of an OPRF from oblivious transfer at a fold of 4, where `pairs` of them meet in the whole
/// job.
///
/// At each place where two codewords differ, four unknown bits of the sender's set them apart (Roy, SoftSpokenOT, eprint 2022/192), so
/// they must differ in κ/4 = 32 places. Two codewords look like random strings of w bits and differ in fewer with probability
/// Σ_(i<32) C(w, i) / 2^w: 2^-72.9 for w = 192, 2^-123.1 for w = 256 (Kolesnikov, Kumaresan, Rosulek, Trieu, eprint 2016/799,
/// section 5.1, with the sum for 128 places).
pub fn code_width(pairs: u64, level: Level) -> usize {
    if level.sigma + ceil_log2(pairs) <= 72 { 192 } else { 256 }
}

/// The public size that each of `units` units is padded to, for a party with `n` distinct keys, in a job of `parties` parties.
///
/// A key falls into a given unit with probability p = 1/units, independently of the others, so a unit's load is
/// binomial. By the Chernoff-Hoeffding bound, Pr[load >= k] <= exp(-n·D(k/n ‖ p)) for k > n·p, where
/// D(a ‖ p) = a·ln(a/p) + (1-a)·ln((1-a)/(1-p)) (Hoeffding 1963, Theorem 1, (2.1)). The answer is the least c for which
/// units · Pr[load >= c+1] <= 2^-(σ + ⌈log2 parties⌉): over the units of all parties, at most 2^-σ a job.
pub fn unit_capacity(n: u64, units: u32, parties: u32, level: Level) -> u64 {
    if units <= 1 {
        return n;
    }
    let p = 1.0 / f64::from(units);
    let bits = level.sigma + ceil_log2(u64::from(parties));
    let budget = -(f64::from(bits) * core::f64::consts::LN_2) - libm::log(f64::from(units));
    let holds = |c: u64| c >= n || -(n as f64) * divergence((c + 1) as f64 / n as f64, p) <= budget;
    least((n as f64 * p) as u64, n, holds)
}

/// log2 of a bound on the probability that any of `groups` groups gets more than `capacity` of `n` keys, which fall into them at random: the
/// bound of [`unit_capacity`].
pub fn log2_overflow(n: u64, groups: u64, capacity: u64) -> f64 {
    libm::log2(groups as f64) + log2_tail(n, 1.0 / groups as f64, (capacity + 1) as f64)
}

/// The least number from `low` to `high` that `holds`, where all numbers behind one that holds do too; `high` if no smaller one does.
pub(crate) fn least(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let mid = low + (high - low) / 2;
        if holds(mid) { high = mid } else { low = mid + 1 }
    }
    low
}

/// log2 of i! for i up to `most`.
pub(crate) fn log2_factorials(most: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let mut all = vec![0.0];
    all.extend((1..=most).map(|i| {
        sum += libm::log2(i as f64);
        sum
    }));
    all
}

/// log2 of a bound on Pr[X >= k], X the sum of `n` independent bits that are 1 with probability `p`: 0 up to the mean, and
/// above it by the Chernoff-Hoeffding bound, as in [`unit_capacity`].
pub(crate) fn log2_tail(n: u64, p: f64, k: f64) -> f64 {
    let n = n as f64;
    if k > n { f64::NEG_INFINITY } else { -n * divergence(k / n, p) / core::f64::consts::LN_2 }
}

/// D(a ‖ p) for 0 < p < a <= 1, and 0 for a <= p.
fn divergence(a: f64, p: f64) -> f64 {
    if a <= p {
        return 0.0;
    }
    let rest = 1.0 - a;
    a * libm::log(a / p) + if rest > 0.0 { rest * libm::log(rest / (1.0 - p)) } else { 0.0 }
}

/// How many units a job of at most `n` keys a side is cut into, when `in_flight` of them run at once, each of at most
/// `mean` keys on average.
///
/// Large units waste least on padding, many units keep all cores busy to the end: two a worker, if that leaves them 2^12
/// keys. At most 2^16 units, whatever the size.
pub fn units(n: u64, in_flight: u32, mean: u64) -> u32 {
    let for_memory = n.div_ceil(mean.max(1));
    let for_cores = u64::from(in_flight.max(1)) * 2;
    let most = (n >> 12).max(1);
    for_memory.max(for_cores.min(most)).clamp(1, 1 << 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_as_long_as_the_literature_says() {
        // 2^16: 72 bits, 2^20: 80, 2^24: 88, 2^28: 96, 2^30: 100.
        for (log, bytes) in [(16, 9), (20, 10), (24, 11), (28, 12), (30, 13)] {
            assert_eq!(tag_bytes(1 << log, 1 << log, Level::STANDARD), bytes, "2^{log}");
        }
        assert_eq!(tag_bytes(0, 0, Level::STANDARD), 5);
        assert_eq!(tag_bytes(1, 3, Level::STANDARD), 6);
    }

    /// 2^20 keys in 8 units: 61 bits; 2^36 in 2^16: 77.
    #[test]
    fn targets_grow_with_the_job_and_not_with_a_unit() {
        assert_eq!([1, 3, 8 * 173_000, 65_536 * 1_407_000].map(|n| target_bits(n, Level::STANDARD)), [40, 42, 61, 77]);
    }

    #[test]
    fn the_small_base_field_serves_sixteen_million_keys() {
        let bits = |m, malicious| vole_base_bits(m, malicious, Level::STANDARD);
        assert_eq!([bits(0, false), bits(1 << 24, false), bits((1 << 24) + 1, false)], [64, 64, 128]);
        assert_eq!(bits(1, true), 128);
    }

    #[test]
    fn values_that_are_tested_once_a_key_are_as_long_as_that_asks() {
        let cases = [(0, 5), (1, 5), (2, 6), (1 << 16, 7), ((1 << 16) + 1, 8), (1 << 24, 8), (1 << 36, 10)];
        assert_eq!(cases.map(|(n, _)| zero_test_bytes(n, Level::STANDARD)), cases.map(|(_, bytes)| bytes));
    }

    #[test]
    fn codewords_are_close_as_seldom_as_stated() {
        for (width, bits) in [(192u64, 72.9), (256, 123.1)] {
            let (mut term, mut sum) = (1.0, 1.0);
            for i in 0..31u64 {
                term *= (width - i) as f64 / (i + 1) as f64;
                sum += term;
            }
            assert!(width as f64 - libm::log2(sum) > bits, "{width}");
        }
        assert_eq!([1, 1 << 32, (1 << 32) + 1, 1 << 60].map(|n| code_width(n, Level::STANDARD)), [192, 192, 256, 256]);
    }

    #[test]
    fn one_unit_is_not_padded() {
        assert_eq!(unit_capacity(12345, 1, 2, Level::STANDARD), 12345);
        assert_eq!(unit_capacity(0, 1, 16, Level::STANDARD), 0);
    }

    #[test]
    fn capacities_are_between_the_mean_and_all() {
        for n in [0u64, 1, 2, 100, 65536, 1 << 20, 1_000_000_000] {
            for units in [2u32, 3, 16, 1000, 65536] {
                let c = unit_capacity(n, units, 2, Level::STANDARD);
                assert!(c <= n && c * u64::from(units) >= n, "{n} in {units}: {c}");
            }
        }
    }

    /// Each party's units have a share of what the job may fail by. The bound on one party's stays below it, and one key less would not do.
    #[test]
    fn more_parties_share_what_a_job_may_fail_by() {
        let (n, units) = (1u64 << 20, 8u32);
        let over = |c: u64| log2_tail(n, 1.0 / f64::from(units), (c + 1) as f64) + libm::log2(f64::from(units));
        for (parties, bits) in [(2, 41.0), (3, 42.0), (4, 42.0), (5, 43.0), (16, 44.0)] {
            let capacity = unit_capacity(n, units, parties, Level::STANDARD);
            assert!(over(capacity) <= -bits && over(capacity - 1) > -bits, "{parties} parties, {capacity}");
        }
    }

    #[test]
    fn padding_is_what_the_design_states() {
        // 2^20 keys a unit at 10^9 keys: 0.8 %; 2^18: 1.6 %; 2^16: 3.4 % (rounded up here).
        for (log, percent) in [(20, 0.9), (18, 1.7), (16, 3.5)] {
            let units = (1_000_000_000u64 >> log) as u32;
            let mean = 1e9 / f64::from(units);
            let padding = (unit_capacity(1_000_000_000, units, 2, Level::STANDARD) as f64 / mean - 1.0) * 100.0;
            assert!(padding < percent && padding > percent - 0.5, "2^{log}: {padding} %");
        }
    }

    /// At a toy level the bound must hold in simulation, and not be so loose that it says nothing.
    #[test]
    fn overflow_stays_under_its_bound_in_simulation() {
        let level = Level { kappa: 0, sigma: 4 };
        let (n, units, trials) = (2000u64, 8u32, 20_000u64);
        let capacity = unit_capacity(n, units, 2, level);
        let mut state = 1u64;
        let mut overflows = 0u64;
        for _ in 0..trials {
            let mut load = [0u64; 8];
            for _ in 0..n {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                load[(state >> 61) as usize] += 1;
            }
            overflows += u64::from(load.iter().any(|&l| l > capacity));
        }
        let bound = trials as f64 * 2f64.powi(-5);
        assert!((overflows as f64) < bound, "{overflows} of {trials}, bound {bound}");
        assert!(overflows > 0, "a bound that is never approached says nothing");
        assert!(capacity < 2 * n / u64::from(units), "{capacity}");
    }

    #[test]
    fn unit_counts_follow_size_and_cores() {
        assert_eq!(units(0, 2, 1 << 18), 1);
        assert_eq!(units(4095, 2, 1 << 18), 1);
        assert_eq!(units(1 << 20, 4, 1 << 18), 8);
        assert_eq!(units(1 << 20, 64, 1 << 18), 128);
        assert_eq!(units(1_000_000_000, 2, 1 << 18), 3815);
        assert_eq!(units(1 << 40, 2, 1 << 18), 1 << 16);
        assert_eq!(units(1 << 20, 2, 1 << 14), 64);
    }
}
