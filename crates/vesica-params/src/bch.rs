//! Binary codes whose words are far apart, for oblivious transfers of many bits at once.
//!
//! Folded transfers hide `fold` bits of the sender at each place of a word (Roy, SoftSpokenOT, eprint 2022/192). Two words that
//! differ in d places are then told apart by d·fold unknown bits, so that d = κ/fold = 32 is enough at a fold of 4.
//!
//! The words are the multiples of g(x) = (x + 1)·∏ of the minimal polynomials of α, …, α^30, for a primitive α of GF(2^field): 31
//! zeros in a row, 1 to α^30, so d >= 32 (the BCH bound: Bose, Ray-Chaudhuri 1960; Hocquenghem 1959). They have even weight.
//! A code of length 2^field - 1 is cut short by words whose first places are zero, which keeps d.

use crate::Level;
use crate::bounds::ceil_log2;

/// A code, named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BchSet {
    /// The set's name, as agreements and reports hold it. Never reused for another code.
    pub id: &'static str,
    /// The field of α is GF(2^field).
    pub field: u32,
    /// The primitive polynomial of which α is a root.
    pub polynomial: u32,
    /// The least number of places at which two words differ.
    pub distance: u32,
    /// Bits of a word.
    pub length: usize,
    /// Bits of what a word says.
    pub dimension: usize,
    /// Where the numbers come from.
    pub source: &'static str,
    /// When the set was written down.
    pub date: &'static str,
}

impl BchSet {
    /// Bits that a word has beyond what it says.
    pub fn redundancy(&self) -> usize {
        self.length - self.dimension
    }
}

/// For parties that follow the protocol, with up to 2^35 keys.
pub const NARROW: BchSet = BchSet {
    id: "bch-192-75-32-v1",
    field: 8,
    polynomial: 0x11d,
    distance: 32,
    length: 192,
    dimension: 75,
    source: "the even words of the BCH code [255, 139, 31] (MacWilliams, Sloane, The Theory of Error-Correcting Codes, chapters 7 and 9), shortened by 63 places",
    date: "2026-11-23",
};

/// For all others.
pub const WIDE: BchSet = BchSet {
    id: "bch-384-248-32-v1",
    field: 9,
    polynomial: 0x211,
    distance: 32,
    length: 384,
    dimension: 248,
    source: "the even words of the BCH code [511, 376, 31] (MacWilliams, Sloane, chapters 7 and 9), shortened by 127 places",
    date: "2026-11-23",
};

/// The code for stores of digests of keys, which a sender evaluates at `m` keys in the whole job.
///
/// The receiver can test guesses of a key y that it does not hold if its store decodes to y's digest by chance: once in 2^ℓ for
/// each, m·2^-ℓ <= 2^-σ in all (Pinkas, Rosulek, Trieu, Yanai, eprint 2020/193, section 5: ℓ = σ + log2 m). A receiver that deviates may
/// search for digests, and then a longer one leaves it fewer keys: [`crate::okvs::most_fitting`].
pub fn code(m: u64, malicious: bool, level: Level) -> &'static BchSet {
    let enough = level.sigma + ceil_log2(m) <= NARROW.dimension as u32;
    if enough && !malicious { &NARROW } else { &WIDE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_name_their_source_and_fit_their_field() {
        for set in [NARROW, WIDE] {
            assert!(set.id.starts_with("bch-") && set.id.ends_with("-v1") && set.date.len() == 10);
            assert!(set.source.contains("MacWilliams") && set.length < 1 << set.field);
            assert!(set.id.contains(&format!("{}-{}-{}", set.length, set.dimension, set.distance)));
        }
    }

    #[test]
    fn short_digests_serve_while_guesses_by_chance_are_rare() {
        let dimension = |m, malicious| code(m, malicious, Level::STANDARD).dimension;
        assert_eq!([dimension(0, false), dimension(1 << 35, false), dimension((1 << 35) + 1, false)], [75, 75, 248]);
        assert_eq!(dimension(1, true), 248);
    }
}
