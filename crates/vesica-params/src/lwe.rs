//! Learning with errors: which parameters are safe, how noisy an answer may be, and which shape a table takes.
//!
//! Two questions are answered here for SimplePIR with structured matrices (`docs/src/protocols/simple-pir.md` has the whole
//! scheme, and `docs/src/protocols/simple-pir-without-hint.md` the one without a hint). How hard is it to read a query? [`Strength`] holds what the published estimator says of all attacks, [`Estimate`] what three
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
/// `flips` random bits, less `flips`/2. There is no field for a ternary secret, because at degree 1024 and this modulus it would have
/// 116 bits by the first model.
#[derive(Clone, Copy, Debug)]
pub struct LweSet {
    /// The set's name, as agreements and reports hold it. Never reused for other numbers.
    pub id: &'static str,
    /// n: the degree of the ring Z[X]/(X^n + 1).
    pub degree: u32,
    /// Random bits a coefficient of secret or error; its variance is a quarter of them.
    pub flips: u32,
    /// Bits that are kept of each word of what a client copies: the rows of a hint, or the masks.
    pub hint_bits: u32,
    /// The most columns; the bits that are kept of each word of a query to so many, and of an answer.
    pub bits: &'static [(u32, [u32; 2])],
    /// By what answers are packed; none if a client has a row of a hint for each row of the table.
    pub packing: Option<Packing>,
    /// How hard it is to tell a query from random words, by uSVP alone.
    pub estimate: Estimate,
    /// The same by all attacks, as the published estimator has them.
    pub strength: Strength,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// A set is known by its name.
impl PartialEq for LweSet {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for LweSet {}

/// How the rows of a block are packed into one element of the ring, which takes a key of the client's in each query.
///
/// The gadget writes a word of 32 bits as Σ_t g_t·2^(low_bits + digit_bits·t) and a rest below 2^(low_bits - 1), with `digits` signed digits
/// of `digit_bits` bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    /// γ: rows of a block, half the degree.
    pub rows: u32,
    /// Digits of a word, and elements of a key.
    pub digits: u32,
    /// Bits of a digit.
    pub digit_bits: u32,
    /// Low bits of a word that have no digit.
    pub low_bits: u32,
}

impl Packing {
    /// The weight of digit t.
    pub fn weight(&self, t: usize) -> u32 {
        1 << (self.low_bits + self.digit_bits * t as u32)
    }
}

/// The set with a hint.
pub const SIMPLE: LweSet = LweSet {
    id: "simple-pir-rlwe-1024-cbd256-v2",
    degree: 1024,
    flips: 512,
    hint_bits: 21,
    bits: &[
        (1 << 12, [24, 12]),
        (1 << 14, [25, 12]),
        (1 << 16, [26, 12]),
        (1 << 17, [27, 12]),
        (3 << 16, [28, 12]),
        (1 << 18, [30, 12]),
    ],
    packing: None,
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

/// The set without one: answers are packed under a key that each query brings.
///
/// A query is at most M/2048 + 3 samples of ring-LWE under one secret s. That the key is safe is an assumption beyond ring-LWE: it
/// encrypts s(X^5) under s (circular security), as the keys of BFV's automorphisms do.
pub const PACKED: LweSet = LweSet {
    id: "simple-pir-rlwe-2048-cbd4-packed-v1",
    degree: 2048,
    flips: 4,
    hint_bits: 18,
    bits: &[
        (1 << 11, [24, 10]),
        (1 << 12, [24, 11]),
        (1 << 13, [25, 10]),
        (1 << 14, [25, 11]),
        (1 << 15, [26, 10]),
        (1 << 16, [26, 11]),
        (1 << 17, [27, 10]),
        (1 << 18, [27, 11]),
    ],
    packing: Some(Packing { rows: 1024, digits: 3, digit_bits: 8, low_bits: 8 }),
    estimate: Estimate { he_standard: 221.7, gates: 212.3, core_svp: 190.4 },
    strength: Strength {
        usvp: 214.7,
        bdd: 212.9,
        bdd_hybrid: 212.9,
        bdd_mitm_hybrid: 374.7,
        dual: 219.1,
        dual_hybrid: 210.5,
    },
    source: "scheme: as simple-pir-rlwe-1024-cbd256-v2; packing: InsPIRe, eprint 2025/1352, section 3.3, gadget in appendix G.1, and its compiled form in ReinsPIRe, eprint 2026/1934; model of the estimate: as that set's; strength: vesica_params::strength; noise: docs/src/protocols/simple-pir-without-hint.md",
    date: "2026-11-25",
};

/// Bits of a byte's place in a word of 32 bits: a plaintext byte is multiplied by 2^24.
const SCALE: i32 = 24;

/// Squared norms of what the noise of one row of an answer is made of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Norms {
    /// |D_r|²: of the row's bytes, each read as -128 to 127. They meet the errors of a query, and what was rounded off it.
    pub row: f64,
    /// |P_r|²: of what packs the row. It meets the errors of the key; 0 if there is none.
    pub keys: f64,
    /// |R_r|²: of what was rounded off what the client copied for the row. It meets the secret.
    pub copied: f64,
}

impl LweSet {
    fn of_columns(&self, columns: u32) -> Option<[u32; 2]> {
        self.bits.iter().find(|(most, _)| columns <= *most).map(|(_, bits)| *bits)
    }

    /// The bits that are kept of each word of a query to so many columns, or `None` if they are too many.
    pub fn query_bits(&self, columns: u32) -> Option<u32> {
        self.of_columns(columns).map(|[query, _]| query)
    }

    /// The bits that are kept of each word of an answer from so many columns, or `None` if they are too many.
    pub fn answer_bits(&self, columns: u32) -> Option<u32> {
        self.of_columns(columns).map(|[_, answer]| answer)
    }

    /// σ² of a coefficient of secret or error.
    pub fn variance(&self) -> f64 {
        f64::from(self.flips) / 4.0
    }

    /// The variance of one word of an answer, before that word itself is rounded.
    ///
    /// It is |D_r|²·(σ² + (4^k + 2)/12) + σ²·|P_r|² + σ²·|R_r|², where a query's words lose k bits. Rounding to the nearest multiple of 2^k
    /// with ties to even has mean zero and variance (4^k + 2)/12.
    pub fn noise(&self, columns: u32, Norms { row, keys, copied }: Norms) -> Option<f64> {
        let lost = 32 - self.query_bits(columns)? as i32;
        let rounding = (libm::ldexp(1.0, 2 * lost) + 2.0) / 12.0;
        Some(row * (self.variance() + rounding) + self.variance() * (keys + copied))
    }

    /// The greatest squared norms of a row of so many columns that a shape allows for: 0x80 in all of them, and 1.2 times the means of the
    /// other two ([`LweSet::mean_keys`], [`LweSet::mean_copied`]). A shape that is safe with these is safe with nearly every seed, and who
    /// prepares a table sees whether a seed is worse.
    pub fn worst(&self, columns: u32) -> Norms {
        let row = Self::worst_row(columns);
        Norms { row, keys: 1.2 * self.mean_keys(), copied: 1.2 * self.mean_copied() }
    }

    /// The mean of |P_r|²: digits·n·(γ - 1)·4^digit_bits/12, because column i of P adds up γ - 1 uniform digits with signs.
    pub fn mean_keys(&self) -> f64 {
        self.packing.map_or(0.0, |packing| {
            let digits = f64::from(packing.digits * self.degree) * f64::from(packing.rows - 1);
            digits * libm::ldexp(1.0, 2 * packing.digit_bits as i32) / 12.0
        })
    }

    /// The mean of |R_r|². With a hint it is n·4^k/12, where a word of the hint loses k bits: n uniform numbers are squared, so that one row
    /// in 2^35 has 1.2 times as much (Chernoff; a test computes it). With packing a coefficient adds up the low bits of γ - 1 words, the
    /// 4^k/12 of the mask's word and γ fractions: n·((γ - 1)·4^low_bits + 4^k + γ)/12.
    pub fn mean_copied(&self) -> f64 {
        let lost = libm::ldexp(1.0, 2 * (32 - self.hint_bits as i32));
        let low = self.packing.map_or(0.0, |packing| {
            f64::from(packing.rows - 1) * libm::ldexp(1.0, 2 * packing.low_bits as i32) + f64::from(packing.rows)
        });
        f64::from(self.degree) * (low + lost) / 12.0
    }

    /// Whether all answers to [`QUERIES_A_CLIENT`] queries, each for a record of `bytes` bytes, are right but for 2^-σ, where a word of an
    /// answer has this noise. Each query has a secret and errors of its own, and the failures of all bytes of all of them are added up.
    pub fn holds(&self, columns: u32, noise: f64, bytes: f64, level: Level) -> bool {
        self.log2_failure(columns, noise, bytes * QUERIES_A_CLIENT as f64) <= -f64::from(level.sigma)
    }

    /// log2 of a bound on the probability that any of `bytes` bytes is decoded wrongly, for the noise given.
    ///
    /// All parts of the noise are sub-Gaussian with their own variance as the proxy: binomials about their mean, and uniform
    /// rounding errors. So one byte fails with probability at most 2·exp(-z²/2) for z = (2^23 - 2^(31 - answer bits))/sd, because rounding
    /// the answer's word moves it by the second term at most.
    pub fn log2_failure(&self, columns: u32, noise: f64, bytes: f64) -> f64 {
        let bits = self.answer_bits(columns).unwrap_or(0) as i32;
        let room = (libm::ldexp(1.0, SCALE - 1) - libm::ldexp(1.0, 31 - bits)).max(0.0);
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
    /// Chunks of a record, a power of two. With [`PACKED`] it is 1: each chunk would take a key.
    pub chunks: u32,
    /// The parameters: with a hint or without.
    pub set: &'static LweSet,
}

/// Bytes of the table that a server scans in the time in which a byte of a message travels, where shapes are compared: at 66 Mbit/s and
/// 25 GB/s, which two cores do (docs/src/benchmarks/README.md).
const SCANNED: u64 = 3000;

impl Shape {
    /// The most rows.
    pub const MOST_ROWS: u64 = 1 << 20;
    /// The most bytes of a record.
    pub const MOST_WIDTH: u32 = 1 << 17;
    /// The most chunks of a record.
    pub const MOST_CHUNKS: u32 = 64;

    /// The shape with a hint that has these numbers.
    ///
    /// # Errors
    /// A sentence for the user, if a number is out of its bounds, or if of [`QUERIES_A_CLIENT`] answers one would be wrong with probability
    /// above 2^-40.
    pub fn new(records: u64, width: u32, columns: u32, chunks: u32) -> Result<Self, String> {
        Self::of(&SIMPLE, [records, width.into(), columns.into(), chunks.into()])
    }

    /// The shape without a hint that has these numbers.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn packed(records: u64, width: u32, columns: u32) -> Result<Self, String> {
        Self::of(&PACKED, [records, width.into(), columns.into(), 1])
    }

    fn of(set: &'static LweSet, [records, width, columns, chunks]: [u64; 4]) -> Result<Self, String> {
        let [width, columns, chunks] = [width, columns, chunks].map(|number| number as u32);
        let shape = Self { records, width, columns, chunks, set };
        if records == 0 || width == 0 || width > Self::MOST_WIDTH {
            return Err(format!(
                "{records} records of {width} bytes; at least one, of 1 to {} bytes",
                Self::MOST_WIDTH
            ));
        }
        let degree = set.degree;
        if columns == 0 || !columns.is_multiple_of(degree) || set.query_bits(columns).is_none() {
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
        if !shape.holds(set.worst(columns)) {
            return Err(format!(
                "records of {width} bytes in {columns} columns: of 2^20 answers one would be wrong with probability above 2^-40; take fewer columns"
            ));
        }
        Ok(shape)
    }

    /// Whether answers are right as often as [`LweSet::holds`] asks for, whatever is in the table, where the rest of a row's noise has these
    /// norms. A client decodes the bytes of its record alone.
    pub fn holds(&self, norms: Norms) -> bool {
        let norms = Norms { row: LweSet::worst_row(self.columns), ..norms };
        let noise = self.set.noise(self.columns, norms).unwrap_or(f64::INFINITY);
        self.set.holds(self.columns, noise, f64::from(self.chunks * self.chunk_bytes()), Level::STANDARD)
    }

    /// The shape with a hint and the fewest bytes in all for a client that asks `queries` times, or `None` if no shape can hold the table.
    pub fn cheapest(records: u64, width: u32, queries: u64) -> Option<Self> {
        let all = (10..=18).flat_map(|columns| (0..=6).map(move |chunks| (1 << columns, 1 << chunks)));
        let shapes = all.filter_map(|(columns, chunks)| Self::new(records, width, columns, chunks).ok());
        shapes.min_by_key(|shape| shape.cost(queries))
    }

    /// The same without a hint. What the server scans counts too: columns that pack answers are beside every row.
    pub fn cheapest_packed(records: u64, width: u32, queries: u64) -> Option<Self> {
        let shapes = (11..=18).filter_map(|columns| Self::packed(records, width, 1 << columns).ok());
        shapes.min_by_key(|shape| shape.cost(queries))
    }

    /// What a client that asks `queries` times costs, in bytes of messages. Without a hint, bytes of the table that are scanned for it are
    /// added as the messages that travel in their time.
    pub fn cost(&self, queries: u64) -> u128 {
        let scanned = if self.set.packing.is_some() { self.bytes() / SCANNED } else { 0 };
        let query = self.query_bytes() as u128 + self.answer_bytes() as u128 + u128::from(scanned);
        self.hint_bytes() as u128 + u128::from(queries) * query
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

    /// Columns beside those of the records, which pack answers: two bytes for each coefficient of a key.
    pub fn extra_columns(&self) -> usize {
        self.set.packing.map_or(0, |packing| (2 * packing.digits * self.set.degree) as usize)
    }

    /// Bytes of the database, which every query reads once for each of its chunks.
    pub fn bytes(&self) -> u64 {
        self.rows() as u64 * (u64::from(self.columns) + self.extra_columns() as u64)
    }

    /// Bytes of one packed element of what a client copies: a row of the hint, or the mask of a block.
    pub fn hint_row_bytes(&self) -> usize {
        (self.set.degree * self.set.hint_bits / 8) as usize
    }

    /// How many of these there are: rows, or blocks of rows.
    pub fn hint_rows(&self) -> usize {
        self.set.packing.map_or(self.rows(), |packing| self.rows().div_ceil(packing.rows as usize))
    }

    /// Bytes of the packed words of a hint, or of all masks.
    pub fn hint_bytes(&self) -> usize {
        self.hint_rows() * self.hint_row_bytes()
    }

    /// Bytes of the key in a query.
    pub fn key_bytes(&self) -> usize {
        self.set.packing.map_or(0, |packing| (4 * packing.digits * self.set.degree) as usize)
    }

    /// Bytes of the packed words of a query, for all chunks of a record, and of the key behind each.
    pub fn query_bytes(&self) -> usize {
        let bits = self.set.query_bits(self.columns).unwrap_or(32);
        self.chunks as usize * ((u64::from(self.columns) * u64::from(bits) / 8) as usize + self.key_bytes())
    }

    /// Bits that are kept of each word of an answer.
    pub fn answer_bits(&self) -> u32 {
        self.set.answer_bits(self.columns).unwrap_or(32)
    }

    /// Bytes of the packed words of an answer, for all chunks of a record.
    pub fn answer_bytes(&self) -> usize {
        self.chunks as usize * self.rows() * self.answer_bits() as usize / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimates that the set claims are those of the formulas, and so are the ones that the literature has for others.
    #[test]
    fn estimates_are_as_written_down() {
        let near = |is: f64, written: f64| assert!((is - written).abs() < 1.0, "{is}, {written}");
        for set in [SIMPLE, PACKED] {
            let sd = libm::sqrt(set.variance());
            let own = estimate(set.degree, 32.0, sd, sd).expect("an attack");
            near(own.he_standard, set.estimate.he_standard);
            near(own.gates, set.estimate.gates);
            near(own.core_svp, set.estimate.core_svp);
            assert!(set.estimate.he_standard >= 128.0 && own.he_standard >= 128.0);
        }
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
            let mean = Norms { copied: SIMPLE.mean_copied(), ..SIMPLE.worst(columns) };
            let noise = SIMPLE.noise(columns, mean).expect("few columns");
            let is = (8_388_608.0 - 524_288.0) / libm::sqrt(noise);
            assert!((is - z).abs() < 0.06, "{columns}: {is}");
            let is = SIMPLE.log2_failure(columns, noise, libm::ldexp(1.0, 30));
            assert!((is - failure).abs() < 1.1, "{columns}: {is}");
            assert!(SIMPLE.holds(columns, noise, 1024.0, Level::STANDARD));
        }
        assert_eq!(SIMPLE.query_bits((1 << 18) + 1), None);
    }

    /// The tables of docs/src/protocols/simple-pir-without-hint.md: z for the worst database, log2 of the failure of 2^20 records of 2^10 bytes and of 2^17,
    /// and the norms.
    #[test]
    fn noise_without_a_hint_is_as_written_down() {
        assert!((PACKED.mean_keys() / 3.43e10 - 1.0).abs() < 0.005, "{}", PACKED.mean_keys());
        assert!((PACKED.mean_copied() / 5.73e10 - 1.0).abs() < 0.005, "{}", PACKED.mean_copied());
        for (log, query, answer, z, failures) in [
            (11, 24, 10, 11.6, [-66.0, -59.0]),
            (12, 24, 11, 10.6, [-51.0, -44.0]),
            (13, 25, 10, 11.6, [-66.0, -59.0]),
            (14, 25, 11, 10.6, [-51.0, -44.0]),
            (15, 26, 10, 11.6, [-66.0, -59.0]),
            (16, 26, 11, 10.6, [-50.0, -43.0]),
            (17, 27, 10, 11.6, [-66.0, -59.0]),
            (18, 27, 11, 10.6, [-50.0, -43.0]),
        ] {
            let columns = 1u32 << log;
            assert_eq!((PACKED.query_bits(columns), PACKED.answer_bits(columns)), (Some(query), Some(answer)));
            let noise = PACKED.noise(columns, PACKED.worst(columns)).expect("few columns");
            let is = (8_388_608.0 - libm::ldexp(1.0, 31 - answer as i32)) / libm::sqrt(noise);
            assert!((is - z).abs() < 0.06, "{columns}: {is}");
            for (bytes, failure) in [10, 17].into_iter().zip(failures) {
                let is = PACKED.log2_failure(columns, noise, libm::ldexp(1.0, 20 + bytes));
                assert!((is - failure).abs() < 1.0, "{columns}: {is}");
                assert!(PACKED.holds(columns, noise, libm::ldexp(1.0, bytes), Level::STANDARD));
            }
            // The widest records.
            assert!(Shape::packed(1, Shape::MOST_WIDTH, columns).is_ok(), "{columns}");
        }
        assert_eq!(PACKED.query_bits((1 << 18) + 1), None);
        assert_eq!(PACKED.log2_failure((1 << 18) + 1, 1.0, 1.0), 1.0);
    }

    /// Each size by hand: records, columns, and then rows; bytes up, down, of masks, and what is scanned.
    #[test]
    fn shapes_without_a_hint_have_the_sizes_that_are_written_down() {
        for (records, width, log, rows, up, down, masks) in [
            (1 << 11, 512, 11, 1 << 9, 30_720, 640, 4_608),
            (1 << 12, 1 << 12, 12, 1 << 12, 36_864, 5_632, 18_432),
            (1 << 14, 1 << 12, 13, 1 << 13, 50_176, 10_240, 36_864),
            (1 << 18, 1 << 10, 14, 1 << 14, 75_776, 22_528, 73_728),
            (1 << 20, 1 << 10, 15, 1 << 15, 131_072, 40_960, 147_456),
            (1 << 20, 1 << 10, 16, 1 << 14, 237_568, 22_528, 73_728),
            (1 << 22, 1 << 10, 16, 1 << 16, 237_568, 90_112, 294_912),
            (1 << 23, 1 << 10, 17, 1 << 16, 466_944, 81_920, 294_912),
        ] {
            let shape = Shape::packed(records, width, 1 << log).expect("a shape");
            assert_eq!((shape.rows(), shape.extra_columns(), shape.key_bytes()), (rows, 12_288, 24_576));
            assert_eq!((shape.query_bytes(), shape.answer_bytes(), shape.hint_bytes()), (up, down, masks));
            assert_eq!(shape.bytes(), rows as u64 * ((1 << log) + 12_288));
        }
        // Rows are a multiple of 64 and not of a block.
        let small = Shape::packed(100, 65, 2048).expect("a shape");
        assert_eq!((small.rows(), small.hint_rows()), (128, 1));
        let why = Shape::packed(1, 1, 1024).expect_err("half a column of the ring");
        assert!(why.contains("a multiple of 2048"), "{why}");
        // What is scanned is weighed. Messages alone are fewer in half as many columns.
        for (log_rows, log) in [(16, 13), (18, 14), (20, 15), (22, 16)] {
            for queries in [10, 100, 100_000] {
                let shape = Shape::cheapest_packed(1 << log_rows, 1 << 10, queries).expect("a shape");
                assert_eq!(shape.columns, 1 << log, "{log_rows}, {queries}");
            }
        }
        assert_eq!(Shape::cheapest_packed(1 << 40, 1 << 17, 1), None);
    }

    /// Shapes are refused from where 2^20 answers together are wrong too often, though each of them is right but for 2^-40.
    #[test]
    fn a_shape_is_safe_for_all_queries_of_a_client() {
        let log2 = |width: f64| {
            let noise = SIMPLE.noise(1 << 18, SIMPLE.worst(1 << 18)).expect("few columns");
            SIMPLE.log2_failure(1 << 18, noise, width)
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

    /// From how many queries of an epoch on a hint costs less than masks, each in the shape that is best for so many, with bytes that are scanned
    /// as messages that travel in their time; and by messages alone. The page has the numbers.
    #[test]
    fn a_hint_pays_from_some_queries_on() {
        let page = std::fs::read_to_string("../../docs/src/protocols/simple-pir-without-hint.md").expect("the page");
        for (records, table) in [(1 << 16, "64 MiB"), (1 << 18, "256 MiB"), (1 << 20, "1 GiB"), (1 << 22, "4 GiB")] {
            let pays = |weight: u64| {
                let all = (10..=18).flat_map(|columns| (0..=6).map(move |chunks| (1 << columns, 1 << chunks)));
                let hinted: Vec<Shape> =
                    all.filter_map(|(columns, chunks)| Shape::new(records, 1024, columns, chunks).ok()).collect();
                let masked: Vec<Shape> =
                    (11..=18).filter_map(|columns| Shape::packed(records, 1024, 1 << columns).ok()).collect();
                let cost = |shape: &Shape, queries: u64| {
                    let scanned = shape.bytes() * u64::from(shape.chunks) * weight / SCANNED;
                    let messages = (shape.query_bytes() + shape.answer_bytes()) as u64;
                    shape.hint_bytes() as u64 + queries * (messages + scanned)
                };
                let least = |shapes: &[Shape], queries| shapes.iter().map(|shape| cost(shape, queries)).min();
                (1..1_000_000).find(|&queries| least(&hinted, queries) < least(&masked, queries))
            };
            let shown = |number: Option<u64>| number.map_or("never".to_owned(), |number| number.to_string());
            let row = format!("| {table} | {} | {} |", shown(pays(1)), shown(pays(0)));
            assert!(page.contains(&row), "{row}");
        }
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
