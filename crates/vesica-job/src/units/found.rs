//! What the units of a run found.

use crate::input::keys::KeyId;
use crate::output::groups::GroupTotal;
use vesica_table::Spilled;

/// A key that all parties hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    /// The key's number on this side.
    pub key: KeyId,
    /// Rows that this side has for it.
    pub rows: u64,
    /// How often each of these rows stands in the output: once for each row that the peer has for the key, and once where
    /// rows are not multiplied and that stays unknown.
    pub times: u64,
}

impl Match {
    /// Bytes of a match in a spill.
    pub const BYTES: usize = 24;

    /// The match as it is spilled.
    pub fn to_bytes(self) -> [u8; Match::BYTES] {
        let words = [self.key.0, self.rows, self.times].map(u64::to_le_bytes);
        words.as_flattened().try_into().expect("three words")
    }

    /// The match that was spilled as `bytes`.
    pub fn from_bytes(bytes: &[u8; Match::BYTES]) -> Self {
        let word = |i: usize| u64::from_le_bytes(*bytes[8 * i..].first_chunk().expect("three words"));
        Self { key: KeyId(word(0)), rows: word(1), times: word(2) }
    }
}

/// How much is common, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Common {
    /// Distinct keys.
    pub keys: u64,
    /// Rows of this side that have one of them.
    pub rows: u64,
}

/// What the units found.
pub struct Found<'a> {
    /// The common keys ([`Match`]), a bucket a part of this side's keys.
    pub matches: &'a Spilled,
    /// Rows of this side that have one of them.
    pub rows: u64,
    /// The pairs of rows of both sides that those of each part make; no more than fit in 64 bits, whatever a peer claims.
    pub pairs: &'a [u64],
    /// What they come to by group, where that is what is learned.
    pub groups: Option<&'a [GroupTotal]>,
    /// A hash of the common keys' digests and numbers of rows: the same on both sides, if both learned.
    pub digest: [u8; 32],
}

/// The matches at `places` of a unit, whose peer's row counts stay unknown.
pub fn matches(rows: &[(KeyId, u64)], places: &[u32]) -> impl Iterator<Item = Match> {
    places.iter().map(|&place| rows[place as usize]).map(|(key, rows)| Match { key, rows, times: 1 })
}
