//! How a part begins, and where its sections stand.
//!
//! ```text
//! bytes    what
//!  0.. 16  "vesica part", then zeros
//! 16.. 20  the number of the format
//! 20.. 24  bits of a tag
//! 24.. 28  the padded length of a value; 2^32 - 1 if there are no values
//! 28.. 32  zeros
//! 32.. 40  entries
//! 40.. 48  tags of entries of older parts that are removed
//! 48.. 80  salt of the values' keys
//! 80.. 96  zeros
//! 96..128  BLAKE3 of the 96 bytes before
//! ```
//!
//! Numbers are little-endian. Behind the header stand the tags of the entries ([`Code`]), their sealed values in the order of the
//! tags, and the removed tags. Each section begins at a multiple of 64 bytes. Its place follows from the header's numbers, so no
//! offset is written that could contradict them.

use crate::elias_fano::Code;
use crate::error::{Error, Result};
use crate::shape::{MOST_TAGS, MOST_VALUE};
use crate::value;
use std::path::Path;

/// Bytes of the header.
pub(crate) const BYTES: usize = 128;

/// The number of the format of parts.
const FORMAT: u32 = 1;

const MAGIC: &[u8; 16] = b"vesica part\0\0\0\0\0";

/// What stands for no values.
const NO_VALUES: u32 = u32::MAX;

/// The header of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) tag_bits: u32,
    pub(crate) value: Option<u32>,
    pub(crate) entries: u64,
    pub(crate) removed: u64,
    pub(crate) salt: [u8; 32],
}

/// Where the sections of a part begin, and how long the whole is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) tags: u64,
    pub(crate) values: u64,
    pub(crate) removed: u64,
    pub(crate) bytes: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.tag_bits.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.value.unwrap_or(NO_VALUES).to_le_bytes());
        bytes[32..40].copy_from_slice(&self.entries.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.removed.to_le_bytes());
        bytes[48..80].copy_from_slice(&self.salt);
        let sum = blake3::hash(&bytes[..96]);
        bytes[96..].copy_from_slice(sum.as_bytes());
        bytes
    }

    /// The header that `bytes`, a file at `path`, begin with.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Version`].
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |why: String| Error::damaged(path, why);
        let header: &[u8; BYTES] =
            bytes.first_chunk().ok_or_else(|| damaged(format!("it has {} bytes and no whole header", bytes.len())))?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if &header[..16] != MAGIC {
            return Err(damaged("it does not begin as a part of a store".into()));
        }
        if word(16) != FORMAT {
            return Err(Error::Version { path: path.into(), found: word(16), known: FORMAT });
        }
        if header[96..] != blake3::hash(&header[..96]).as_bytes()[..] {
            return Err(damaged("its header is not what was written".into()));
        }
        let value = Some(word(24)).filter(|&value| value != NO_VALUES);
        let salt = std::array::from_fn(|i| header[48 + i]);
        let decoded = Header { tag_bits: word(20), value, entries: long(32), removed: long(40), salt };
        if !(1..=128).contains(&decoded.tag_bits)
            || value.is_some_and(|value| value > MOST_VALUE)
            || decoded.entries > MOST_TAGS
            || decoded.removed > MOST_TAGS
            || decoded.encode() != *header
        {
            return Err(damaged("its header has numbers that no part has".into()));
        }
        Ok(decoded)
    }

    /// The code of the entries' tags.
    pub(crate) fn tags(&self) -> Code {
        Code::new(self.entries, self.tag_bits)
    }

    /// The code of the removed tags.
    pub(crate) fn removed(&self) -> Code {
        Code::new(self.removed, self.tag_bits)
    }

    /// Bytes of a sealed value; 0 if there are none.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.value.map_or(0, value::sealed_bytes)
    }

    /// Where the sections stand. At most 2^40 tags of 128 bits and values of 2^20 bytes are below 2^61 bytes, so nothing overflows.
    pub(crate) fn layout(&self) -> Layout {
        let aligned = |at: u64| at.next_multiple_of(64);
        let tags = BYTES as u64;
        let values = aligned(tags + self.tags().bytes());
        let removed = aligned(values + self.entries * self.sealed_bytes() as u64);
        Layout { tags, values, removed, bytes: removed + self.removed().bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { tag_bits: 84, value: Some(10), entries: 5, removed: 3, salt: [7; 32] }
    }

    fn why(bytes: &[u8]) -> String {
        Header::decode(bytes, Path::new("f")).unwrap_err().to_string()
    }

    #[test]
    fn a_header_comes_back_and_no_other_does() {
        let none = Header { value: None, ..header() };
        for header in [header(), none] {
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes, Path::new("f")).unwrap(), header);
            for place in 0..BYTES {
                let mut flipped = bytes;
                flipped[place] ^= 1;
                let why = why(&flipped);
                assert_eq!(why.contains("has format"), (16..20).contains(&place), "{place}: {why}");
                assert!(self::why(&bytes[..place]).contains("no whole header"));
            }
        }
    }

    /// A hostile server computes the checksum of what it likes.
    #[test]
    fn numbers_that_no_part_has_are_refused_under_a_right_checksum() {
        for absurd in [
            Header { tag_bits: 0, ..header() },
            Header { tag_bits: 129, ..header() },
            Header { value: Some(MOST_VALUE + 1), ..header() },
            Header { entries: MOST_TAGS + 1, ..header() },
            Header { removed: u64::MAX, ..header() },
        ] {
            assert!(why(&absurd.encode()).contains("numbers that no part has"));
        }
        let mut bytes = header().encode();
        bytes[90] = 1;
        let sum = blake3::hash(&bytes[..96]);
        bytes[96..].copy_from_slice(sum.as_bytes());
        assert!(why(&bytes).contains("numbers that no part has"));
    }

    #[test]
    fn the_largest_part_has_a_layout() {
        let largest =
            Header { tag_bits: 128, value: Some(MOST_VALUE), entries: MOST_TAGS, removed: MOST_TAGS, ..header() };
        let Layout { tags, values, removed, bytes } = largest.layout();
        assert!(tags < values && values < removed && removed < bytes && bytes < 1 << 61);
        let empty = Header { entries: 0, removed: 0, ..header() };
        assert_eq!(empty.layout(), Layout { tags: 128, values: 128, removed: 128, bytes: 128 });
    }
}
