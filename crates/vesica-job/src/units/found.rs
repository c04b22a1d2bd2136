//! What the units of a run found.

use crate::error::JobError;
use crate::input::keys::KeyId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vesica_session::Error;
use vesica_table::Spilled;
use vesica_types::UnitId;

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
    /// Bytes of a match in a ledger.
    pub const BYTES: usize = 24;

    /// The match as it is kept.
    pub fn to_bytes(self) -> [u8; Match::BYTES] {
        let words = [self.key.0, self.rows, self.times].map(u64::to_le_bytes);
        words.as_flattened().try_into().expect("three words")
    }

    /// The match that was kept as `bytes`.
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

/// What the common keys come to in one group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GroupTotal {
    /// What the group is called, in each of the columns of `shared.groups.by` and then of `shared.groups.other.by`.
    pub by: Vec<String>,
    /// Its distinct keys that the other party has too.
    pub keys: u64,
    /// What their values add up to, for each of `shared.sums` that is told.
    pub sums: Vec<i64>,
}

impl GroupTotal {
    /// The sum by key, for each of them.
    pub fn means(&self) -> impl Iterator<Item = f64> {
        self.sums.iter().map(|&sum| sum as f64 / self.keys as f64)
    }
}

/// What the units found.
pub struct Found<'a> {
    /// The places of the common keys, a bucket a unit: a bit each, the first in the lowest bit, as far as there are common ones.
    pub bits: &'a Spilled,
    /// Those whose rows do not stand in the output once, a bucket a unit, in any order, as [`repeats`] has them.
    pub repeats: &'a Spilled,
    /// Rows of this side that have one of them.
    pub rows: u64,
    /// The pairs of rows of both sides that those of each unit make; no more than fit in 64 bits, whatever a peer claims.
    pub pairs: &'a [u64],
    /// What they come to by group, where that is what is learned.
    pub groups: Option<&'a [GroupTotal]>,
    /// A hash of the common keys' digests and numbers of rows: the same on both sides, if both learned.
    pub digest: [u8; 32],
}

/// Bytes of a key whose rows do not stand in the output once: its place, its rows on this side, and how often each stands there.
pub const REPEAT: usize = 20;

/// Such a key.
pub fn repeats(place: u32, [rows, times]: [u64; 2]) -> [u8; REPEAT] {
    let mut record = [0; REPEAT];
    record[..4].copy_from_slice(&place.to_le_bytes());
    record[4..12].copy_from_slice(&rows.to_le_bytes());
    record[12..].copy_from_slice(&times.to_le_bytes());
    record
}

/// The common keys of a unit. The memory is used again.
#[derive(Default)]
pub struct OfUnit {
    bits: Vec<u8>,
    bytes: Vec<u8>,
    /// Ascending by place.
    repeats: Vec<(u32, [u64; 2])>,
    /// The first of them that has not been asked for.
    next: usize,
}

impl OfUnit {
    /// Takes those of a unit, in the place of what is there.
    ///
    /// # Errors
    /// Those of reading what was spilled.
    pub fn read(&mut self, found: &Found<'_>, unit: UnitId) -> Result<(), JobError> {
        found.bits.read_into(unit.0 as usize, &mut self.bits)?;
        found.repeats.read_into(unit.0 as usize, &mut self.bytes)?;
        let (repeats, _) = self.bytes.as_chunks::<REPEAT>();
        self.repeats.clear();
        self.repeats.extend(repeats.iter().map(|repeat| {
            let (place, words) = repeat.split_first_chunk().expect("a record begins with a place");
            (u32::from_le_bytes(*place), std::array::from_fn(|i| u64::from_le_bytes(words.as_chunks().0[i])))
        }));
        self.repeats.sort_unstable();
        self.next = 0;
        Ok(())
    }

    /// The rows of the key at `place` on this side, and how often each stands in the output; none if it is not common. What stands
    /// there once is given as one row, however many there are. Asked for in ascending order.
    #[inline]
    pub fn times(&mut self, place: u64) -> Option<[u64; 2]> {
        let byte = *self.bits.get((place / 8) as usize)?;
        if byte >> (place % 8) & 1 == 0 {
            return None;
        }
        match self.repeats.get(self.next) {
            Some(&(at, times)) if u64::from(at) == place => {
                self.next += 1;
                Some(times)
            }
            _ => Some([1; 2]),
        }
    }

    /// Sees that all of them are among the first `keys` of the unit.
    ///
    /// # Errors
    /// [`Error::Bug`].
    pub fn are_below(&self, keys: u64) -> Result<(), Error> {
        let end = self.bits.last().map_or(0, |last| 8 * self.bits.len() as u64 - u64::from(last.leading_zeros()));
        if end > keys { Err(Error::Bug("a common key is none of this side's".into())) } else { Ok(()) }
    }

    /// Whether no key is common.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }
}

/// How many rows the keys of a unit have on this side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    unit: UnitId,
    /// By the keys' places; nothing where each has one.
    rows: Vec<u64>,
}

impl Counts {
    /// One of each key of `unit`.
    pub fn alone(unit: UnitId) -> Self {
        Self { unit, rows: Vec::new() }
    }

    /// So many of the keys of `unit`, by their places.
    pub fn of(unit: UnitId, rows: Vec<u64>) -> Self {
        Self { unit, rows }
    }

    /// The number of the key at `place`, and how many rows it has.
    pub fn at(&self, place: u32) -> (KeyId, u64) {
        let rows = if self.rows.is_empty() { 1 } else { self.rows[place as usize] };
        (KeyId::new(self.unit, place.into()), rows)
    }
}

/// The matches at `places` of a unit, whose peer's row counts stay unknown.
pub fn matches(counts: &Counts, places: &[u32]) -> impl Iterator<Item = Match> {
    places.iter().map(|&place| counts.at(place)).map(|(key, rows)| Match { key, rows, times: 1 })
}
