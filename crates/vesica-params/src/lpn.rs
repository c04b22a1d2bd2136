//! Codes for learning parity with noise in its dual form, and how much noise each needs.
//!
//! A silent VOLE turns a sparse vector e of length N = 2n into n outputs G·e, for a public matrix G over the base field B. The
//! outputs look random if nobody can tell G·e from random: dual LPN with regular noise (e is cut into t blocks with one
//! uniform element of B each, which may be zero). `docs/src/design/08-silent-vole.md` has the argument in full; in short:
//!
//! - A linear test is a vector v over B; it sees nothing unless vᵀG·e is zero because every noise position misses vᵀG. If
//!   vᵀG has relative weight at least d, the chance is at most (1 - d)^t. So t = ⌈κ / -log2(1 - d)⌉, where d is the weight
//!   that an attacker can *find*, not the least that exists (the pseudo-distance of Raghuraman, Rindal, Tanguy).
//! - Whatever the code, Gaussian elimination finds weight 1/2 at rate 1/2 over a large field: d never counts for more.
//! - Expand-convolute codes have words of weight (ℓ·m/n)^(1/ℓ) that are easy to find ([`CodeSet::distance`]). We know no
//!   better ones; a fifth of d is given away in case there are.
//! - What t blocks give depends on d: -t·log2(1 - d) bits. With our d every set gives 128 bits or more. If words of weight 0.15
//!   (0.20 for the second set) could be found, the fewest blocks, 280 (200), would give 280·0.2345 = 65.7 (64.4) bits, and 128
//!   bits would take 546 (398).
//! - Each set has a floor besides: what libOTe takes over large fields since it put lower estimates in its code, d = 0.15 for
//!   ExConv7x24 and 0.20 for ExConv21x24 with 64 bits of the test above, in whole eights.
//! - The matrix must be over B, not over GF(2): a binary G makes outputs over B = GF(2^s) into s words with the *same*
//!   error positions, an interleaved code, which is solved by linear algebra alone if t <= s (Metzner, Kapturowski 1990) and
//!   needs t >= (κ + s) / -log2(3/4) at rate 1/2, 617 for s = 128. So our codes multiply every symbol by an element of B
//!   between the two stages.

use crate::Level;

/// An expand-convolute code, named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeSet {
    /// The set's name, as agreements and reports hold it. Never reused for another code.
    pub id: &'static str,
    /// ℓ: how many symbols each output adds up, one from each of ℓ equal parts.
    pub weight: u32,
    /// m: how many symbols the convolution remembers.
    pub state: u32,
    /// The least t, whatever d.
    pub floor: usize,
    /// Whether B is GF(2): then noise is 1 at every position, and symbols are not multiplied by anything.
    pub binary: bool,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

/// Every set; the first is the usual one, the second the conservative one.
pub const SETS: &[CodeSet] = &[
    CodeSet {
        id: "lpn-ec7x24-scaled-v3",
        weight: 7,
        state: 24,
        floor: 280,
        binary: false,
        source: "Raghuraman, Rindal, Tanguy, Expand-Convolute Codes for PCGs from LPN, CRYPTO 2023, eprint 2023/882 (ExConv7x24); noise (128 bits against the attacks known, 65.7 against linear tests of weight 0.15) and scaling: docs/src/design/08-silent-vole.md",
        date: "2026-11-22",
    },
    CodeSet {
        id: "lpn-ec21x24-scaled-v3",
        weight: 21,
        state: 24,
        floor: 200,
        binary: false,
        source: "the same paper's conservative choice (ExConv21x24); noise (128 bits against the attacks known, 64.4 against linear tests of weight 0.20) and scaling: docs/src/design/08-silent-vole.md",
        date: "2026-11-22",
    },
];

/// The set for bits: correlated oblivious transfer, many at a time.
///
/// Over GF(2) noise is 1 where it is, and a test of relative weight d is off by (1 - 2d)^t at most: each of t regular positions meets
/// it with probability d_i, (1/t)·Σ d_i = d, and E[(-1)^(v·e)] = Π (1 - 2·d_i), which is no more than that if no d_i is above 1/2. So a position counts for more than twice what it does over a
/// large field, and the fewest, 256, give 131.7 bits even against d = 0.15, what libOTe takes for this code.
pub const BINARY: CodeSet = CodeSet {
    id: "lpn-ec7x24-binary-v1",
    weight: 7,
    state: 24,
    floor: 256,
    binary: true,
    source: "Raghuraman, Rindal, Tanguy, Expand-Convolute Codes for PCGs from LPN, CRYPTO 2023, eprint 2023/882 (ExConv7x24 over GF(2)); noise: 128 bits against linear tests of weight 0.15, as libOTe takes for it; docs/src/design/08-silent-vole.md",
    date: "2026-11-23",
};

/// The set of this name.
pub fn set(id: &str) -> Option<&'static CodeSet> {
    SETS.iter().find(|s| s.id == id)
}

/// A sparse vector: `trees` blocks of 2^`depth` positions, one of them noise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noise {
    /// t: how many blocks.
    pub trees: usize,
    /// log2 of a block's length.
    pub depth: u32,
}

impl Noise {
    /// N: the length of the vector.
    pub fn len(&self) -> usize {
        self.trees << self.depth
    }

    /// Whether there are no positions: never.
    pub fn is_empty(&self) -> bool {
        self.trees == 0
    }
}

/// The fewest outputs that a code is used for; a caller that needs fewer makes this many. Below, blocks of noise would be so
/// short that their regularity tells too much (Briaud, Øygarden, EUROCRYPT 2023).
pub const LEAST: usize = 1 << 13;

impl CodeSet {
    /// d: the least relative weight that we grant an attacker to find, for n outputs.
    ///
    /// Of the n outputs, x^ℓ·n read only from the first part x of each of the ℓ equal parts. A combination of ℓ·m + 1 of them
    /// can make the convolution's state zero at the end of each of the ℓ intervals (m equations each), so its word is zero
    /// outside them: it has weight x if x^ℓ·n = ℓ·m. Beyond 1/2 elimination is the better attack. Four fifths of that.
    pub fn distance(&self, n: usize) -> f64 {
        let (weight, state) = (f64::from(self.weight), f64::from(self.state));
        let confined = libm::exp(libm::log(weight * state / n as f64) / weight);
        0.8 * confined.min(0.5)
    }

    /// t for n outputs, before it is rounded up to fill N: κ / -log2(1 - d), over GF(2) κ / -log2(1 - 2d), and no less than the floor.
    fn least(&self, n: usize, level: Level) -> usize {
        let missed = if self.binary { 1.0 - 2.0 * self.distance(n) } else { 1.0 - self.distance(n) };
        let against_tests = libm::ceil(f64::from(level.kappa) / -libm::log2(missed));
        self.floor.max(against_tests as usize)
    }

    /// The noise for n >= [`LEAST`] outputs: the deepest trees with N >= 2n and t as it must be.
    ///
    /// # Panics
    /// If n is less than [`LEAST`].
    pub fn noise(&self, n: usize, level: Level) -> Noise {
        assert!(n >= LEAST, "{n} outputs of a code for {LEAST} or more");
        let depth = (2 * n / self.least(n, level)).ilog2();
        Noise { trees: (2 * n).div_ceil(1 << depth), depth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_a_source_and_a_date_and_a_name_of_its_own() {
        for (i, s) in SETS.iter().enumerate() {
            assert!(s.source.len() > 20 && s.date.len() == 10, "{}", s.id);
            assert!(SETS[..i].iter().all(|other| other.id != s.id), "{} twice", s.id);
            assert_eq!(set(s.id), Some(s));
        }
    }

    #[test]
    fn noise_is_enough_and_fills_twice_the_outputs() {
        for s in SETS {
            for n in [LEAST, LEAST + 1, 100_000, 356_000, 1 << 20, 1_424_000, 1 << 24, 1 << 30] {
                let noise = s.noise(n, Level::STANDARD);
                assert!(noise.len() >= 2 * n && noise.len() - 2 * n < 1 << noise.depth, "{} {n}", s.id);
                assert!(noise.trees as f64 * -libm::log2(1.0 - s.distance(n)) >= 128.0, "{} {n}", s.id);
                // Elimination alone (Prange): each noise position is missed with probability 1/2.
                assert!(noise.trees >= s.floor.max(128) && noise.depth >= 5, "{} {n}: {noise:?}", s.id);
            }
        }
    }

    /// What the comment of [`BINARY`] claims.
    #[test]
    fn the_binary_set_gives_its_bits() {
        assert!(256.0 * -libm::log2(1.0 - 2.0 * 0.15) > 131.6);
        for n in [LEAST, 100_000, 1 << 19, 700_000, 1 << 20] {
            let noise = BINARY.noise(n, Level::STANDARD);
            assert!(noise.len() >= 2 * n && noise.len().is_multiple_of(8) && noise.trees >= 256, "{n} {noise:?}");
            assert!(noise.trees as f64 * -libm::log2(1.0 - 2.0 * BINARY.distance(n)) >= 128.0, "{n}");
        }
        assert_eq!(BINARY.noise(1 << 20, Level::STANDARD), Noise { trees: 256, depth: 13 });
    }

    /// What the design page claims: -t·log2(1 - d) bits for the d that libOTe's code had for the two codes.
    #[test]
    fn bits_against_linear_tests_are_as_written_down() {
        let bits = |blocks: usize, d: f64| (blocks as f64 * -libm::log2(1.0 - d) * 10.0).round() / 10.0;
        let trees = |set: usize, n| SETS[set].noise(n, Level::STANDARD).trees;
        assert_eq!([trees(0, 8960), trees(1, 12_800)], [280, 200], "the fewest");
        assert_eq!([bits(280, 0.15), bits(200, 0.20)], [65.7, 64.4]);
        assert_eq!([176_000, 1 << 14, 1 << 18, 1 << 22].map(|n| trees(0, n)), [344, 512, 512, 512]);
        assert_eq!([bits(344, 0.15), bits(512, 0.15)], [80.7, 120.0]);
        assert!(bits(546, 0.15) >= 128.0 && bits(545, 0.15) < 128.0);
        assert!(bits(398, 0.20) >= 128.0 && bits(397, 0.20) < 128.0);
    }

    /// The numbers of the design page.
    #[test]
    fn noise_weights_are_as_written_down() {
        let trees = |set: usize, n| SETS[set].least(n, Level::STANDARD);
        assert_eq!([1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22].map(|n| trees(0, n)), [280, 280, 280, 341, 426]);
        assert_eq!([1 << 14, 1 << 18, 1 << 20, 1 << 24].map(|n| trees(1, n)), [200; 4]);
        // What the tests alone would ask for.
        let tests = |set: usize, n| libm::ceil(128.0 / -libm::log2(1.0 - SETS[set].distance(n)));
        assert_eq!([1 << 14, 1 << 16, 1 << 18].map(|n| tests(0, n)), [174.0, 213.0, 271.0]);
        assert_eq!(tests(1, 1 << 20), 174.0);
    }
}
