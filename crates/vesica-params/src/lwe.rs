//! Learning with errors: which parameters are safe, how noisy an answer may be, and which shape a table takes.
//!
//! Two questions are answered here for SimplePIR with structured matrices (`docs/src/protocols/simple-pir.md` has the whole
//! scheme). How hard is it to read a query? [`Strength`] holds what the published estimator says of all attacks, [`Estimate`] what three
//! models say of one of them, and [`estimate`] computes these. How likely is it that an answer decodes to a wrong byte? [`LweSet::log2_failure`] bounds it, and [`LweSet::holds`] says
//! whether that suffices for all queries of a client.

use crate::strength::Strength;
use crate::{Level, QUERIES_A_CLIENT};

/// log2 of the steps that the primal attack by unique short vectors (uSVP) takes, by three models that are in use. It is not the cheapest
/// attack: [`LweSet::strength`] has that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The model of the HE standard's tables: 0.292·β + 16.4 + log2(8·d).
    pub he_standard: f64,
    /// Gates of a quantum-free sieve with dimensions for free: log2(5.46·(d - β)) + 0.2961·β' + 20.39. The published estimator has the
    /// factor 5.46 in the cost of a call of the sieve too, so that it says log2(5.46) = 2.45 bits more.
    pub gates: f64,
    /// One call of the sieve, with nothing added: 0.292·β. It is the least that anybody counts.
    pub core_svp: f64,
}

/// What uSVP costs on LWE with a secret of `degree` coefficients modulo 2^`log_modulus`, by standard deviations, or
/// `None` if this search, which goes up to blocks of 3000, finds no attack.
///
/// The attack looks for the short vector (e, s·σ_e/σ_s, 1) in a lattice of dimension d = m + n + 1 with the best number m of
/// samples. Blocks of β find it when σ_e·√β <= δ^(2β - d - 1)·vol^(1/d) (Alkim, Ducas, Pöppelmann, Schwabe, USENIX Security 2016,
/// section 6.3), with δ as in Chen's thesis (2013). Bounded distance decoding, dual and hybrid attacks are not computed here.
pub fn estimate(degree: u32, log_modulus: f64, secret_sd: f64, error_sd: f64) -> Option<Estimate> {
    use core::f64::consts::{E, PI};
    let n = f64::from(degree);
    let found = |beta: f64, m: f64| {
        let d = m + n + 1.0;
        let log_delta = (libm::log2(PI * beta) / beta + libm::log2(beta / (2.0 * PI * E))) / (2.0 * (beta - 1.0));
        let log_volume = (m * log_modulus + n * libm::log2(error_sd / secret_sd)) / d;
        libm::log2(beta) / 2.0 + libm::log2(error_sd) <= (2.0 * beta - d - 1.0) * log_delta + log_volume
    };
    let samples = |beta: f64| (1..=400).map(|i| n * f64::from(i) / 100.0).find(|&m| found(beta, m));
    let (beta, m) = (60..3000).map(f64::from).find_map(|beta| Some((beta, samples(beta)?)))?;
    let d = m + n + 1.0;
    let free = beta - beta * libm::log(4.0 / 3.0) / libm::log(beta / (2.0 * PI * E));
    Some(Estimate {
        he_standard: 0.292 * beta + 16.4 + libm::log2(8.0 * d),
        gates: libm::log2(5.46 * (d - beta)) + 0.2961 * free + 20.39,
        core_svp: 0.292 * beta,
    })
}

/// Parameters of ring-LWE modulo 2^32 for SimplePIR, named. Secret and error have the same distribution: the number of ones among
/// `flips` random bits, less `flips`/2. There is no field for a ternary secret, because at this degree and modulus it would have
/// 116 bits by the first model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LweSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// n: the degree of the ring Z[X]/(X^n + 1).
    pub degree: u32,
    /// Random bits a coefficient of secret or error; its variance is a quarter of them.
    pub flips: u32,
    /// Bits that are kept of each word of the hint.
    pub hint_bits: u32,
    /// Bits that are kept of each word of an answer.
    pub answer_bits: u32,
    /// The most columns, and the bits that are kept of each word of a query to so many.
    pub query_bits: &'static [(u32, u32)],
    /// How hard it is to tell a query from random words, by uSVP alone.
    pub estimate: Estimate,
    /// The same by all attacks, as the published estimator has them.
    pub strength: Strength,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// The set in use.
pub const SIMPLE: LweSet = LweSet {
    id: "simple-pir-rlwe-1024-cbd256-v2",
    degree: 1024,
    flips: 512,
    hint_bits: 21,
    answer_bits: 12,
    query_bits: &[(1 << 12, 24), (1 << 14, 25), (1 << 16, 26), (1 << 17, 27), (3 << 16, 28), (1 << 18, 30)],
    estimate: Estimate { he_standard: 133.3, gates: 128.0, core_svp: 102.8 },
    strength: Strength {
        usvp: 130.4,
        bdd: 128.8,
        bdd_hybrid: 128.8,
        bdd_mitm_hybrid: 245.0,
        dual: 133.3,
        dual_hybrid: 134.6,
    },
    source: "scheme: Henzinger, Hong, Corrigan-Gibbs, Meiklejohn, Vaikuntanathan, USENIX Security 2023, eprint 2022/949; ring: Menon, Wu, USENIX Security 2024, eprint 2024/270, section 4.1; model of the estimate: Albrecht et al., Homomorphic Encryption Standard, 2018, as vesica_params::lwe::estimate computes it; strength: vesica_params::strength; noise: docs/src/protocols/simple-pir.md",
    date: "2026-11-23",
};

/// Bits of a byte's place in a word of 32 bits: a plaintext byte is multiplied by 2^24.
const SCALE: i32 = 24;

impl LweSet {
    /// The bits that are kept of each word of a query to so many columns, or `None` if they are too many.
    pub fn query_bits(&self, columns: u32) -> Option<u32> {
        self.query_bits.iter().find(|(most, _)| columns <= *most).map(|(_, bits)| *bits)
    }

    /// σ² of a coefficient of secret or error.
    pub fn variance(&self) -> f64 {
        f64::from(self.flips) / 4.0
    }

    /// The variance of one word of an answer, before that word itself is rounded, for a row of D with squared norm `row` and a row
    /// of the hint whose rounding errors have squared norm `hint`.
    ///
    /// It is |D_r|²·(σ² + (4^k + 2)/12) + σ²·|dH_r|², where a query's words lose k bits. Rounding to the nearest multiple of 2^k
    /// with ties to even has mean zero and variance (4^k + 2)/12.
    pub fn noise(&self, columns: u32, row: f64, hint: f64) -> Option<f64> {
        let lost = 32 - self.query_bits(columns)? as i32;
        let rounding = (libm::ldexp(1.0, 2 * lost) + 2.0) / 12.0;
        Some(row * (self.variance() + rounding) + self.variance() * hint)
    }

    /// The squared norm that the rounding errors of a row of the hint have at most, but for one row in 2^35: 1.2 times their mean, which is
    /// n·4^k/12 where a word loses k bits. A shape that is safe with it is safe with nearly every seed. The tail is Chernoff's, for a sum of
    /// squares of n uniform numbers; a test computes it.
    pub fn hint_rounding(&self) -> f64 {
        1.2 * f64::from(self.degree) * libm::ldexp(1.0, 2 * (32 - self.hint_bits as i32)) / 12.0
    }

    /// Whether all answers to [`QUERIES_A_CLIENT`] queries, each for a record of `bytes` bytes, are right but for 2^-σ, where a word of an
    /// answer has this noise. Each query has a secret and errors of its own, and the failures of all bytes of all of them are added up.
    pub fn holds(&self, noise: f64, bytes: f64, level: Level) -> bool {
        self.log2_failure(noise, bytes * QUERIES_A_CLIENT as f64) <= -f64::from(level.sigma)
    }

    /// log2 of a bound on the probability that any of `bytes` bytes is decoded wrongly, for the noise given.
    ///
    /// All parts of the noise are sub-Gaussian with their own variance as the proxy: binomials about their mean, and uniform
    /// rounding errors. So one byte fails with probability at most 2·exp(-z²/2) for z = (2^23 - 2^19)/sd, because rounding the
    /// answer's word moves it by 2^19 at most.
    pub fn log2_failure(&self, noise: f64, bytes: f64) -> f64 {
        let room = libm::ldexp(1.0, SCALE - 1) - libm::ldexp(1.0, 31 - self.answer_bits as i32);
        1.0 + libm::log2(bytes) - room * room / noise / 2.0 * core::f64::consts::LOG2_E
    }

    /// The greatest squared norm of a row of so many bytes, each read as -128 to 127.
    pub fn worst_row(columns: u32) -> f64 {
        f64::from(columns) * 16384.0
    }
}

/// How a table of records is laid out as a matrix of bytes: both sides compute it from the same numbers.
///
/// Example: 2^20 records of 1000 bytes over 2^17 columns. Record 0 is the first 1000 rows of column 0, record 1 those of column 1.
/// Record 2^17 is the next 1000 rows of column 0. A column of bytes is what an answer holds, so rows cost hint and answer, and
/// columns cost query. Records that are so wide that there would be too many rows are cut into chunks, in different columns of the
/// same rows; a client sends a query for each chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Records.
    pub records: u64,
    /// Bytes of a record.
    pub width: u32,
    /// M: columns, a multiple of the ring's degree.
    pub columns: u32,
    /// Chunks of a record, a power of two.
    pub chunks: u32,
}

impl Shape {
    /// The most rows.
    pub const MOST_ROWS: u64 = 1 << 20;
    /// The most bytes of a record.
    pub const MOST_WIDTH: u32 = 1 << 17;
    /// The most chunks of a record.
    pub const MOST_CHUNKS: u32 = 64;

    /// The shape with these numbers.
    ///
    /// # Errors
    /// A sentence for the user, if a number is out of its bounds, or if of [`QUERIES_A_CLIENT`] answers one would be wrong with probability
    /// above 2^-40.
    pub fn new(records: u64, width: u32, columns: u32, chunks: u32) -> Result<Self, String> {
        let shape = Self { records, width, columns, chunks };
        if records == 0 || width == 0 || width > Self::MOST_WIDTH {
            return Err(format!(
                "{records} records of {width} bytes; at least one, of 1 to {} bytes",
                Self::MOST_WIDTH
            ));
        }
        let degree = SIMPLE.degree;
        if columns == 0 || !columns.is_multiple_of(degree) || SIMPLE.query_bits(columns).is_none() {
            return Err(format!("{columns} columns; a multiple of {degree} up to {}", 1 << 18));
        }
        if !chunks.is_power_of_two() || chunks > Self::MOST_CHUNKS || chunks > width {
            return Err(format!(
                "{chunks} chunks a record of {width} bytes; a power of two, at most {}",
                Self::MOST_CHUNKS
            ));
        }
        if records.div_ceil(shape.group()).saturating_mul(u64::from(shape.chunk_bytes())) > Self::MOST_ROWS {
            return Err(format!(
                "{records} records of {width} bytes in {columns} columns and {chunks} chunks make more than {} rows; take more columns or chunks, or cut the table",
                Self::MOST_ROWS
            ));
        }
        if !shape.holds(SIMPLE.hint_rounding()) {
            return Err(format!(
                "records of {width} bytes in {columns} columns: of 2^20 answers one would be wrong with probability above 2^-40; take fewer columns"
            ));
        }
        Ok(shape)
    }

    /// Whether answers are right as often as [`LweSet::holds`] asks for, whatever the table, where the rounding errors of a row of the hint
    /// have squared norm `hint`. A client decodes the bytes of its record alone.
    pub fn holds(&self, hint: f64) -> bool {
        let noise = SIMPLE.noise(self.columns, LweSet::worst_row(self.columns), hint).unwrap_or(f64::INFINITY);
        SIMPLE.holds(noise, f64::from(self.chunks * self.chunk_bytes()), Level::STANDARD)
    }

    /// The shape with the fewest bytes in all for a client that asks `queries` times, or `None` if no shape can hold the table.
    pub fn cheapest(records: u64, width: u32, queries: u64) -> Option<Self> {
        let all = (10..=18).flat_map(|columns| (0..=6).map(move |chunks| (1 << columns, 1 << chunks)));
        let cost = |shape: &Self| {
            let query = (shape.query_bytes() + shape.answer_bytes()) as u128;
            shape.hint_bytes() as u128 + u128::from(queries) * query
        };
        all.filter_map(|(columns, chunks)| Self::new(records, width, columns, chunks).ok()).min_by_key(cost)
    }

    /// Records whose chunks lie in the same rows.
    pub fn group(&self) -> u64 {
        u64::from(self.columns / self.chunks)
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u32 {
        self.width.div_ceil(self.chunks)
    }

    /// L: rows, a multiple of 64.
    pub fn rows(&self) -> usize {
        (self.records.div_ceil(self.group()) as usize * self.chunk_bytes() as usize).next_multiple_of(64)
    }

    /// How many records the rows have room for.
    pub fn capacity(&self) -> u64 {
        (self.rows() as u64 / u64::from(self.chunk_bytes())) * self.group()
    }

    /// Bytes of the database, which every query reads once for each of its chunks.
    pub fn bytes(&self) -> u64 {
        self.rows() as u64 * u64::from(self.columns)
    }

    /// Bytes of one packed row of the hint.
    pub fn hint_row_bytes() -> usize {
        (SIMPLE.degree * SIMPLE.hint_bits / 8) as usize
    }

    /// Bytes of the packed words of a hint.
    pub fn hint_bytes(&self) -> usize {
        self.rows() * Self::hint_row_bytes()
    }

    /// Bytes of the packed words of a query, for all chunks of a record.
    pub fn query_bytes(&self) -> usize {
        let bits = SIMPLE.query_bits(self.columns).unwrap_or(32);
        self.chunks as usize * (u64::from(self.columns) * u64::from(bits) / 8) as usize
    }

    /// Bytes of the packed words of an answer, for all chunks of a record.
    pub fn answer_bytes(&self) -> usize {
        self.chunks as usize * self.rows() * SIMPLE.answer_bits as usize / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimates that the set claims are those of the formulas, and so are the ones that the literature has for others.
    #[test]
    fn estimates_are_as_written_down() {
        let sd = libm::sqrt(SIMPLE.variance());
        let own = estimate(SIMPLE.degree, 32.0, sd, sd).expect("an attack");
        let near = |is: f64, written: f64| assert!((is - written).abs() < 1.0, "{is}, {written}");
        near(own.he_standard, SIMPLE.estimate.he_standard);
        near(own.gates, SIMPLE.estimate.gates);
        near(own.core_svp, SIMPLE.estimate.core_svp);
        assert!(SIMPLE.estimate.he_standard >= 128.0 && own.he_standard >= 128.0);
        // SimplePIR's own parameters, and the ternary secret that this set has no field for: both below 128 bits.
        let simple = estimate(1024, 32.0, 6.4, 6.4).expect("an attack").he_standard;
        let ternary = estimate(1024, 32.0, libm::sqrt(2.0 / 3.0), 11.0).expect("an attack").he_standard;
        near(simple, 125.7);
        near(ternary, 116.5);
        // Four rows of the standard's table for ternary secrets, whose moduli are meant to leave 128 bits.
        for (degree, log_modulus) in [(1024, 27.0), (2048, 54.0), (4096, 109.0), (8192, 218.0)] {
            let bits = estimate(degree, log_modulus, libm::sqrt(2.0 / 3.0), 3.2).expect("an attack").he_standard;
            assert!((127.0..132.5).contains(&bits), "{degree}: {bits}");
        }
    }

    /// The table of docs/src/protocols/simple-pir.md: z for the worst database, and log2 of the failure of 2^20 records of 2^10 bytes.
    #[test]
    fn noise_is_as_written_down() {
        let hint = 1024.0 * libm::ldexp(1.0, 22) / 12.0;
        for (columns, z, failure) in [
            (1u32 << 12, 12.1, -75.0),
            (1 << 13, 15.8, -150.0),
            (1 << 14, 11.8, -69.0),
            (1 << 15, 14.4, -119.0),
            (1 << 16, 10.6, -50.0),
            (1 << 17, 11.1, -57.0),
            (3 << 16, 10.8, -54.0),
            (1 << 18, 10.1, -43.0),
        ] {
            let noise = SIMPLE.noise(columns, LweSet::worst_row(columns), hint).expect("few columns");
            let is = (8_388_608.0 - 524_288.0) / libm::sqrt(noise);
            assert!((is - z).abs() < 0.06, "{columns}: {is}");
            let is = SIMPLE.log2_failure(noise, libm::ldexp(1.0, 30));
            assert!((is - failure).abs() < 1.1, "{columns}: {is}");
            assert!(SIMPLE.holds(noise, 1024.0, Level::STANDARD));
        }
        assert_eq!(SIMPLE.query_bits((1 << 18) + 1), None);
    }

    /// Shapes are refused from where 2^20 answers together are wrong too often, though each of them is right but for 2^-40.
    #[test]
    fn a_shape_is_safe_for_all_queries_of_a_client() {
        let log2 = |width: f64| {
            let noise = SIMPLE.noise(1 << 18, LweSet::worst_row(1 << 18), SIMPLE.hint_rounding()).expect("few columns");
            SIMPLE.log2_failure(noise, width)
        };
        assert!(Shape::new(1 << 18, 4000, 1 << 18, 1).is_ok() && log2(4000.0) + 20.0 <= -40.0);
        let why = Shape::new(1 << 18, 4200, 1 << 18, 1).expect_err("too wide");
        assert!(why.contains("4200 bytes in 262144 columns") && why.contains("fewer columns"), "{why}");
        assert!(log2(4200.0) <= -40.0 && log2(4200.0) + 20.0 > -40.0);
        // In chunks it is the same record.
        assert!(Shape::new(1 << 16, 4200, 1 << 18, 4).is_err());
        // The widest records, in any fewer columns.
        for columns in [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 17, 3 << 16] {
            assert!(Shape::new(1, Shape::MOST_WIDTH, columns, 1).is_ok(), "{columns}");
        }
        let wide = Shape::cheapest(1 << 20, 5000, 1).expect("a shape");
        assert_eq!(wide.columns, 1 << 17, "{wide:?}");
    }

    /// Chernoff's bound for a sum of squares of n numbers that are uniform from -1 to 1, whose mean is n/3: the least of
    /// exp(-t·1.2·n/3)·E[exp(t·u²)]^n over t.
    #[test]
    fn rows_of_hints_are_rarely_rounded_worse() {
        let steps = 2000;
        let mean_exp = |t: f64| {
            let at = |i: i32| libm::exp(t * libm::pow((f64::from(i) + 0.5) / f64::from(steps), 2.0));
            (0..steps).map(at).sum::<f64>() / f64::from(steps)
        };
        let bound =
            |t: f64| f64::from(SIMPLE.degree) * (libm::log2(mean_exp(t)) - t * 1.2 / 3.0 / core::f64::consts::LN_2);
        let least = (1..40).map(|i| bound(f64::from(i) * 0.05)).fold(0.0, f64::min);
        assert!((-36.0..-35.0).contains(&least), "{least}");
    }

    #[test]
    fn shapes_have_the_sizes_that_are_written_down() {
        let gib = Shape::new(1 << 20, 1024, 1 << 17, 1).expect("a shape");
        assert_eq!((gib.rows(), gib.bytes(), gib.capacity()), (8192, 1 << 30, 1 << 20));
        assert_eq!((gib.hint_bytes(), gib.query_bytes(), gib.answer_bytes()), (21 << 20, 432 << 10, 12 << 10));
        let wide = Shape::new(10_000, 65536, 1 << 15, 8).expect("a shape");
        assert_eq!((wide.group(), wide.chunk_bytes(), wide.rows()), (4096, 8192, 3 * 8192));
    }

    #[test]
    fn bad_shapes_are_refused_in_a_sentence() {
        let why = |records, width, columns, chunks| Shape::new(records, width, columns, chunks).expect_err("bad");
        assert!(why(0, 1, 1024, 1).contains("0 records"));
        assert!(why(1, 0, 1024, 1).contains("0 bytes"));
        assert!(why(1, 1, 1000, 1).contains("1000 columns"));
        assert!(why(1, 1, 1 << 19, 1).contains("524288 columns"));
        assert!(why(1, 4, 1024, 3).contains("3 chunks"));
        assert!(why(1, 1, 1024, 2).contains("2 chunks"));
        assert!(why(1 << 40, 1, 1 << 18, 1).contains("rows"));
    }

    #[test]
    fn the_cheapest_shape_grows_wide_for_few_queries_and_tall_for_many() {
        let few = Shape::cheapest(1 << 20, 1024, 10).expect("a shape");
        let many = Shape::cheapest(1 << 20, 1024, 1000).expect("a shape");
        assert!(few.columns > many.columns && few.hint_bytes() < many.hint_bytes());
        assert_eq!(Shape::cheapest(1 << 40, 1 << 17, 1), None);
        let wide = Shape::cheapest(1 << 14, 1 << 16, 10).expect("a shape");
        assert!(wide.chunks > 1, "{wide:?}");
    }
}
