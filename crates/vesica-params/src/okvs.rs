//! Oblivious key-value stores: how many slots hold n pairs, except with probability 2^-σ a job.
//!
//! Both parties compute the shapes from the same integers and must get the same answer; so, as in `bounds`, logarithms are
//! `libm`'s.

use crate::Level;
use crate::bounds::{least, log2_tail};

/// A family of stores by triangulation: three sparse columns a key, a few dense ones for all (PaXoS).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PaxosSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// Columns per key below which peeling leaves a core of linear size.
    pub threshold: f64,
    /// The slope is 2^(`slope_log`·log2 n + `slope_base`) bits per unit of expansion above the threshold.
    pub slope_log: f64,
    /// See `slope_log`.
    pub slope_base: f64,
    /// Bits lost before the slope begins.
    pub offset: f64,
    /// Dense columns, binary, shared by all bins.
    pub dense: u32,
    /// The most keys, in all bins together, that may be left to the dense columns.
    pub gap: u32,
    /// log2 of the keys that a bin has at least on average, if there is more than one bin.
    pub bin_log: u32,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// A family of stores by random bands (RB-OKVS).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BandSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// Columns per key, less one.
    pub epsilon: f64,
    /// log2 of the factor before n·ε²·2^(-a·w).
    pub offset: f64,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// The set in use for fast stores.
pub const PAXOS: PaxosSet = PaxosSet {
    id: "okvs-paxos-w3-bin14-v1",
    threshold: 1.223,
    slope_log: 0.555,
    slope_base: 2.336,
    offset: 9.2,
    dense: 48,
    gap: 8,
    bin_log: 14,
    source: "Raghuraman, Rindal, Blazing Fast PSI, CCS 2022, eprint 2022/320, section 4 (the fit for weight 3, also in its authors' code); bins, gap and dense columns: docs/src/design/10-okvs.md",
    date: "2026-11-22",
};

/// The set in use for small stores.
pub const BAND_3: BandSet = BandSet {
    id: "okvs-band-3-v1",
    epsilon: 0.03,
    offset: 4.0,
    source: "Bienstock, Patel, Seo, Yeo, Near-Optimal Oblivious Key-Value Stores, USENIX Security 2023, eprint 2023/903, section 4; the formula for the width: docs/src/design/10-okvs.md",
    date: "2026-11-22",
};

/// As [`BAND_3`], with narrower bands in a longer store.
pub const BAND_5: BandSet = BandSet { id: "okvs-band-5-v1", epsilon: 0.05, ..BAND_3 };

/// The most pairs that a store may hold.
pub const MOST_PAIRS: u64 = 1 << 24;

/// The shape of a store by triangulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaxosShape {
    /// Bins, each with columns of its own.
    pub bins: u32,
    /// Sparse columns of a bin: at least 3, and with the gap at most 2^16.
    pub columns: u32,
    /// Dense columns, shared by all bins.
    pub dense: u32,
    /// The most keys that may be left to the dense columns.
    pub gap: u32,
}

impl PaxosShape {
    /// How many values the store consists of.
    pub fn slots(&self) -> usize {
        self.bins as usize * self.columns as usize + self.dense as usize
    }
}

/// The shape of a store by random bands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BandShape {
    /// How many values the store consists of.
    pub slots: u32,
    /// Bits of a band.
    pub width: u32,
}

/// The shape of each of a job's `stores` stores for `n` pairs by triangulation, or `None` above [`MOST_PAIRS`].
///
/// Encoding fails in two ways, and a job gives 2^-(σ+1) to the first.
///
/// *Peeling* leaves more than `gap` keys. A bin with l keys in m columns does so with probability at most
/// 2^-(s(l)·(m/l - e*) - c), s(l) = 2^(0.555·log2 l + 2.336), e* = 1.223, c = 9.2 (the paper's fit; its gap is smaller than ours).
/// The keys of a bin are binomial, so m is the least with bins · Σ Pr[l_i <= load] · 2^-λ(l_(i+1), m) <= 2^-(σ+1) / stores,
/// the sum over steps l_0 < l_1 < … from the mean upwards, λ at least 0.
///
/// *The dense part* of d keys left over is linearly dependent: at most (2^d - 1)·2^-48. Keys are left over where two of a
/// bin have the same three columns: 3·l²/m³ pairs a bin are expected. So this adds up to less than 2^-41 for a job of 2^30
/// keys in stores of 2^12 and more, or of 2^12 stores of any size.
pub fn paxos(n: u64, stores: u32, level: Level) -> Option<PaxosShape> {
    if n > MOST_PAIRS {
        return None;
    }
    let set = &PAXOS;
    let bins = if n < 2 << set.bin_log { 1 } else { n >> set.bin_log };
    let budget = -f64::from(level.sigma + 1) - libm::log2(f64::from(stores.max(1)));
    let holds = |columns: u64| set.log2_unpeeled(n, bins, columns) <= budget;
    let columns = least(3, (1 << 16) - u64::from(set.gap), holds);
    Some(PaxosShape { bins: bins as u32, columns: columns as u32, dense: set.dense, gap: set.gap })
}

impl PaxosSet {
    /// log2 of the bound on leaving more than the gap of `n` keys in `bins` bins of `columns` columns each.
    pub fn log2_unpeeled(&self, n: u64, bins: u64, columns: u64) -> f64 {
        if bins <= 1 {
            return self.log2_unpeeled_bin(n as f64, columns as f64);
        }
        /// Steps a standard deviation of the load is cut into, and deviations above the mean that are looked at.
        const STEPS: u32 = 4;
        const DEVIATIONS: u32 = 14;
        let p = 1.0 / bins as f64;
        let mean = n as f64 * p;
        let load = |step: u32| mean + libm::sqrt(mean) * f64::from(step) / f64::from(STEPS);
        let last = STEPS * DEVIATIONS;
        let sum: f64 = (0..=last)
            .map(|step| {
                let tail = log2_tail(n, p, load(step));
                let fail = if step == last { 0.0 } else { self.log2_unpeeled_bin(load(step + 1), columns as f64) };
                libm::exp2(tail + fail)
            })
            .sum();
        libm::log2(bins as f64) + libm::log2(sum)
    }

    fn log2_unpeeled_bin(&self, keys: f64, columns: f64) -> f64 {
        // Whatever the columns, so few keys all fit into the gap.
        if keys <= f64::from(self.gap) {
            return f64::NEG_INFINITY;
        }
        let slope = libm::exp2(self.slope_log * libm::log2(keys) + self.slope_base);
        (self.offset - slope * (columns / keys - self.threshold)).min(0.0)
    }
}

/// The shape of each of a job's `stores` stores for `n` pairs by random bands, or `None` above [`MOST_PAIRS`].
///
/// Rows sorted by their start, elimination is a queue: in each column 1/(1+ε) rows arrive on average and one is served; it
/// fails when a row waits for w columns. The queue's length has the tail z^-k with ln z = θ, the positive root of
/// (e^θ - 1)/(1+ε) = θ (Cramér-Lundberg), so all n rows are served in time except with probability about
/// n·ε²·2^(4 - a·w), a = θ/ln 2; the prefactor ε²·2^4 is a bound on what simulation and the paper's measured widths
/// show. A row is lost to the randomness of the bits themselves with probability below 2^(queue - w), which is far less.
///
/// The store has ⌈(1+ε)·n⌉ + w slots, so that the load stays 1/(1+ε) up to the last start.
pub fn band(set: &BandSet, n: u64, stores: u32, level: Level) -> Option<BandShape> {
    if n > MOST_PAIRS {
        return None;
    }
    let budget = -f64::from(level.sigma) - libm::log2(f64::from(stores.max(1)));
    let width = (set.log2_late(n, 0) - budget) / set.bits_a_column();
    // However few the rows, bands this wide are independent.
    let width = libm::ceil(width).max(f64::from(level.sigma) + 64.0) as u32;
    let columns = libm::ceil((1.0 + set.epsilon) * n as f64) as u32;
    Some(BandShape { slots: columns + width, width })
}

impl BandSet {
    /// log2 of the bound on any of `n` rows waiting for more than `width` columns.
    pub fn log2_late(&self, n: u64, width: u32) -> f64 {
        let prefactor = 2.0 * libm::log2(self.epsilon) + self.offset;
        libm::log2(n.max(1) as f64) + prefactor - f64::from(width) * self.bits_a_column()
    }

    /// θ/ln 2: the bits of certainty that a column of width adds.
    pub fn bits_a_column(&self) -> f64 {
        // Newton's steps from above converge downwards.
        let mut theta = 2.0 * self.epsilon;
        for _ in 0..20 {
            let value = (libm::exp(theta) - 1.0) / (1.0 + self.epsilon) - theta;
            let slope = libm::exp(theta) / (1.0 + self.epsilon) - 1.0;
            theta -= value / slope;
        }
        theta / core::f64::consts::LN_2
    }
}

/// The most keys that a store of `slots` slots of `bits` bits can be right for, of 2^`log_d` keys whose values were computed, except
/// with probability 2^-40: how many guesses a receiver that deviates can fit into one store.
///
/// There are 2^(bits·slots) stores, and at most (e·2^log_d/n')^n' choices of n' keys; a store is right for given n' keys with
/// probability 2^(-bits·n') (Pinkas, Rosulek, Trieu, Yanai, eprint 2020/193, section 5). So n' is the solution of
/// n'·(bits - log2 e - log_d + log2 n') = bits·(slots + 1) + 40, which is on both sides. It is infinite where the values are so short
/// that the search never ends.
pub fn most_fitting(slots: f64, bits: u32, log_d: f64) -> f64 {
    let bits = f64::from(bits);
    let next = |n: f64| {
        let each = bits - core::f64::consts::LOG2_E - log_d + libm::log2(n);
        if each > 0.0 { (bits * (slots + 1.0) + 40.0) / each } else { f64::INFINITY }
    };
    (0..100).fold(slots, |n, _| next(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_names_its_source() {
        for (id, source, date) in [
            (PAXOS.id, PAXOS.source, PAXOS.date),
            (BAND_3.id, BAND_3.source, BAND_3.date),
            (BAND_5.id, BAND_5.source, BAND_5.date),
        ] {
            assert!(id.starts_with("okvs-") && id.ends_with("-v1") && source.contains("eprint") && date.len() == 10);
        }
    }

    #[test]
    fn paxos_is_as_short_as_promised() {
        for (log, most) in [(12, 1.42), (14, 1.28), (16, 1.35), (18, 1.35), (20, 1.35), (24, 1.36)] {
            let n = 1u64 << log;
            let shape = paxos(n, 1, Level::STANDARD).expect("up to 2^24");
            let expansion = shape.slots() as f64 / n as f64;
            assert!(expansion <= most && expansion > 1.223, "2^{log}: {expansion}, {shape:?}");
        }
    }

    #[test]
    fn paxos_has_a_shape_for_every_size() {
        for n in (0..300).chain((300..70_000).step_by(977)).chain([MOST_PAIRS - 1, MOST_PAIRS]) {
            for stores in [1, 1000] {
                let shape = paxos(n, stores, Level::STANDARD).expect("up to 2^24");
                assert!((3..1 << 16).contains(&shape.columns), "{n}: {shape:?}");
                assert!(n <= 8 || u64::from(shape.bins) * u64::from(shape.columns) > n, "{n}: {shape:?}");
            }
        }
        assert_eq!(paxos(MOST_PAIRS + 1, 1, Level::STANDARD), None);
    }

    #[test]
    fn more_stores_need_more_columns() {
        let one = paxos(1 << 20, 1, Level::STANDARD).expect("a shape");
        let many = paxos(1 << 20, 1 << 10, Level::STANDARD).expect("a shape");
        assert!(many.columns > one.columns && many.slots() < one.slots() * 102 / 100);
    }

    /// The paper's own widths for 40 bits, as its table's fits give them, within the offset.
    #[test]
    fn bands_are_as_wide_as_the_paper_says() {
        let band_10 = BandSet { epsilon: 0.1, ..BAND_3 };
        for (set, log, width) in [
            (BAND_3, 20, 613),
            (BAND_5, 20, 377),
            (band_10, 20, 206),
            (BAND_3, 24, 663),
            (BAND_5, 24, 413),
            (band_10, 24, 218),
        ] {
            let ours = band(&set, 1 << log, 1, Level::STANDARD).expect("up to 2^24").width;
            assert!(ours >= width && ours <= width * 11 / 10, "{} at 2^{log}: {ours}", set.epsilon);
        }
    }

    /// The table of that page, and of rows R11 and R12 of SECURITY.md: keys in so many units; slots a key, then guesses a key
    /// for 2^20, 2^33, 2^48, 2^64 and 2^80 hashed keys.
    #[test]
    fn guesses_are_as_written_down() {
        let jobs = [(1u64 << 20, 8u32), (1 << 20, 64), (1 << 12, 1), (1 << 10, 1)];
        let fast = [
            [1.31, 1.35, 1.51, 1.74, 2.08, 2.58],
            [1.28, 1.35, 1.51, 1.75, 2.10, 2.63],
            [1.33, 1.43, 1.61, 1.87, 2.25, 2.84],
            [1.48, 1.62, 1.82, 2.12, 2.57, 3.26],
        ];
        let low_comm = [
            [1.03, 1.07, 1.20, 1.38, 1.65, 2.05],
            [1.07, 1.13, 1.26, 1.46, 1.76, 2.21],
            [1.16, 1.25, 1.40, 1.63, 1.97, 2.48],
            [1.54, 1.68, 1.88, 2.19, 2.66, 3.38],
        ];
        for (i, (n, units)) in jobs.into_iter().enumerate() {
            let keys = crate::unit_capacity(n, units, 2, Level::STANDARD);
            let paxos = paxos(keys, units, Level::STANDARD).expect("up to 2^24").slots() as f64;
            let band = f64::from(band(&BAND_3, keys, units, Level::STANDARD).expect("up to 2^24").slots);
            for (slots, written) in [(paxos, fast[i]), (band, low_comm[i])] {
                let hashed = [20.0, 33.0, 48.0, 64.0, 80.0].map(|log_d| most_fitting(slots, 128, log_d));
                for (is, written) in core::iter::once(slots).chain(hashed).zip(written) {
                    assert!((is / keys as f64 - written).abs() < 0.007, "{keys} keys, {slots} slots: {is}, {written}");
                }
            }
        }
    }

    /// A receiver chooses how small units are, down to 2^12 keys, by what it says of its memory, and to fewer by how many keys it has. What
    /// rows R11, R12 and O10 of SECURITY.md say of such units, rounded up: slots a key, then guesses a key for 2^33, 2^64 and 2^80 hashed keys.
    #[test]
    fn guesses_in_small_units_are_as_written_down() {
        type Written = [f64; 4];
        let written: [(u64, [Written; 3]); 2] = [
            (1 << 12, [[1.36, 1.65, 2.31, 2.91], [1.21, 1.46, 2.05, 2.59], [1.36, 1.50, 1.74, 1.89]]),
            (100, [[2.73, 3.45, 4.92, 6.29], [7.70, 9.55, 13.54, 17.23], [2.73, 3.07, 3.56, 3.89]]),
        ];
        for (keys, [fast, low_comm, ot]) in written {
            // As many units as there can be.
            let paxos = paxos(keys, 1 << 16, Level::STANDARD).expect("up to 2^24").slots() as f64;
            let band = f64::from(band(&BAND_3, keys, 1 << 16, Level::STANDARD).expect("up to 2^24").slots);
            for (slots, bits, written) in [(paxos, 128, fast), (band, 128, low_comm), (paxos, 248, ot)] {
                let hashed = [33.0, 64.0, 80.0].map(|log_d| most_fitting(slots, bits, log_d));
                for (is, written) in core::iter::once(slots).chain(hashed).zip(written) {
                    let of_a_key = is / keys as f64;
                    assert!(
                        of_a_key <= written + 0.005 && of_a_key > written - 0.01,
                        "{keys} keys: {of_a_key}, {written}"
                    );
                }
            }
        }
    }
}
