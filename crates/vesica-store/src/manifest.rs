//! What a store consists of. The server shows it to its clients, who fetch the parts that they lack.
//!
//! ```text
//! bytes     what
//!  0.. 16   "vesica store", then zeros
//! 16.. 20   the number of the format
//! 20.. 24   the padded length of a value; 2^32 - 1 if there are no values
//! 24.. 32   the lifetime, in keys
//! 32.. 40   the room, in tags: a power of two
//! 40.. 72   the offer
//! 72.. 80   the number of parts
//! then for each part, the oldest first, 64 bytes:
//!      0.. 8   entries
//!      8..16   removed tags
//!     16..24   entries that replace one of an older part
//!     24..32   bytes of the part
//!     32..64   BLAKE3 of the part's sums
//! at the end   BLAKE3 of everything before, 32 bytes
//! ```
//!
//! Numbers are little-endian. One store has one manifest: what says the same has the same bytes.

use crate::error::{Error, Result};
use crate::header::Header;
use crate::shape::{LEAST_ROOM, MOST_TAGS, Shape};
use std::fmt::Write;
use std::path::Path;

/// The name of the manifest in a store's folder.
pub(crate) const NAME: &str = "manifest";

/// The number of the format of manifests.
const FORMAT: u32 = 1;

const MAGIC: &[u8; 16] = b"vesica store\0\0\0\0";
const NO_VALUES: u32 = u32::MAX;
const FRONT: usize = 80;
const PART: usize = 64;
const SUM: usize = 32;

/// The most parts of a store. Each one is one more place to look for a key.
pub const MOST_PARTS: usize = 1024;

/// The longest manifest, in bytes.
pub const MOST_MANIFEST_BYTES: usize = FRONT + MOST_PARTS * PART + SUM;

/// What a store consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The hash of the offer that the store belongs to.
    pub offer: [u8; 32],
    /// What the service declares.
    pub shape: Shape,
    /// How many tags all parts may hold, removed ones included: a power of two.
    pub room: u64,
    /// The parts, the oldest first.
    pub parts: Vec<Part>,
}

/// A part of a store: a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its place among the parts, from 0.
    pub number: usize,
    /// Tags that it holds.
    pub entries: u64,
    /// Tags of older parts that it removes.
    pub removed: u64,
    /// Those of `entries` that replace one of an older part.
    pub replaced: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// BLAKE3 of the sums of its chunks.
    pub blake3: [u8; 32],
}

impl Part {
    /// The name of its file. It has the first bytes of the root in it, so that no file is ever replaced by another part.
    pub fn file_name(&self) -> String {
        let mut name = format!("part-{:04}-", self.number);
        self.blake3[..8].iter().for_each(|byte| write!(name, "{byte:02x}").expect("a string takes text"));
        name
    }

    /// The name of the file of its sums.
    pub fn sums_name(&self) -> String {
        self.file_name() + ".sums"
    }
}

/// What a client takes of a server, at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Parts; never more than [`MOST_PARTS`].
    pub parts: usize,
    /// Bytes of all parts.
    pub bytes: u64,
}

impl Limits {
    /// As much as a manifest can say.
    pub const NONE: Limits = Limits { parts: MOST_PARTS, bytes: u64::MAX };
}

impl Manifest {
    /// Bits of a tag.
    pub fn tag_bits(&self) -> u32 {
        self.shape.tag_bits(self.room)
    }

    /// Entries that are neither removed nor replaced, by the parts' own counts.
    pub fn entries(&self) -> u64 {
        self.parts.iter().fold(0u64, |live, part| (live + part.entries).saturating_sub(part.removed + part.replaced))
    }

    /// Tags of all parts, removed ones included.
    pub fn tags(&self) -> u64 {
        self.parts.iter().map(|part| part.entries + part.removed).sum()
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Whether this is what became of `older` by parts that were added. If so, a client that has `older` fetches the new ones only.
    pub fn follows(&self, older: &Manifest) -> bool {
        (self.offer, self.shape, self.room) == (older.offer, older.shape, older.room)
            && self.parts.starts_with(&older.parts)
    }

    /// The header of a part with these counts.
    pub(crate) fn header(&self, entries: u64, removed: u64, salt: [u8; 32]) -> Header {
        Header { tag_bits: self.tag_bits(), value: self.shape.value, entries, removed, salt }
    }

    /// The one text of this manifest.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRONT + self.parts.len() * PART + SUM);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.shape.value.unwrap_or(NO_VALUES).to_le_bytes());
        bytes.extend_from_slice(&self.shape.lifetime.to_le_bytes());
        bytes.extend_from_slice(&self.room.to_le_bytes());
        bytes.extend_from_slice(&self.offer);
        bytes.extend_from_slice(&(self.parts.len() as u64).to_le_bytes());
        for part in &self.parts {
            [part.entries, part.removed, part.replaced, part.bytes]
                .iter()
                .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            bytes.extend_from_slice(&part.blake3);
        }
        let sum = blake3::hash(&bytes);
        bytes.extend_from_slice(sum.as_bytes());
        bytes
    }

    /// The manifest that a server sent as `bytes`.
    ///
    /// # Errors
    /// [`Error::Sent`] for anything that is no manifest, or one beyond `limits`; [`Error::Version`].
    pub fn decode(bytes: &[u8], limits: Limits) -> Result<Self> {
        let sent = |why: String| Error::Sent { what: "a manifest".into(), why };
        let version = |found| Error::Version { path: "the server's manifest".into(), found, known: FORMAT };
        let manifest = Self::parse(bytes, sent, version)?;
        if manifest.parts.len() > limits.parts {
            return Err(sent(format!("it has {} parts, and at most {} are taken", manifest.parts.len(), limits.parts)));
        }
        if manifest.bytes() > limits.bytes {
            let (has, most) = (manifest.bytes(), limits.bytes);
            return Err(sent(format!("its parts have {has} bytes, and at most {most} are taken")));
        }
        Ok(manifest)
    }

    /// The manifest in a file at `path`.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Version`].
    pub(crate) fn read(bytes: &[u8], path: &Path) -> Result<Self> {
        let version = |found| Error::Version { path: path.into(), found, known: FORMAT };
        Self::parse(bytes, |why| Error::damaged(path, why), version)
    }

    fn parse(bytes: &[u8], wrong: impl Fn(String) -> Error, version: impl Fn(u32) -> Error) -> Result<Self> {
        let whole = bytes.split_last_chunk::<SUM>();
        let (text, sum) =
            whole.filter(|(text, _)| text.len() >= FRONT).ok_or_else(|| wrong("it is too short".into()))?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| text[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| text[at + i]));
        if &text[..16] != MAGIC {
            return Err(wrong("it does not begin as a manifest".into()));
        }
        if word(16) != FORMAT {
            return Err(version(word(16)));
        }
        let parts = long(72);
        if parts > MOST_PARTS as u64 || text.len() != FRONT + parts as usize * PART {
            return Err(wrong(format!("it has {} bytes and says that it has {parts} parts", bytes.len())));
        }
        if blake3::hash(text) != *sum {
            return Err(wrong("its checksum is not that of its bytes".into()));
        }
        let value = Some(word(20)).filter(|&value| value != NO_VALUES);
        let shape = Shape { lifetime: long(24), value }.check().map_err(|error| wrong(error.to_string()))?;
        let room = long(32);
        if !room.is_power_of_two() || !(LEAST_ROOM..=MOST_TAGS).contains(&room) {
            return Err(wrong(format!("it has room for {room} tags")));
        }
        let offer = std::array::from_fn(|i| text[40 + i]);
        let mut manifest = Manifest { offer, shape, room, parts: Vec::with_capacity(parts as usize) };
        let mut tags = 0;
        for number in 0..parts as usize {
            let at = FRONT + number * PART;
            let [entries, removed, replaced, bytes] = [0, 8, 16, 24].map(|offset| long(at + offset));
            let blake3 = std::array::from_fn(|i| text[at + 32 + i]);
            // Below 2^41 each, for the room is at most 2^40.
            if entries > room || removed > room || replaced > entries || tags + entries + removed > room {
                return Err(wrong(format!("part {number} holds {entries} tags and {removed} removed ones of {room}")));
            }
            tags += entries + removed;
            let expected = manifest.header(entries, removed, [0; 32]).layout().bytes;
            if bytes != expected {
                return Err(wrong(format!("part {number} has {bytes} bytes where its counts make {expected}")));
            }
            manifest.parts.push(Part { number, entries, removed, replaced, bytes, blake3 });
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest(parts: usize) -> Manifest {
        let shape = Shape { lifetime: 1 << 20, value: Some(9) };
        let mut manifest = Manifest { offer: [3; 32], shape, room: 1 << 12, parts: Vec::new() };
        for number in 0..parts {
            let (entries, removed) = (10 + number as u64, number as u64);
            let bytes = manifest.header(entries, removed, [0; 32]).layout().bytes;
            let blake3 = [number as u8; 32];
            manifest.parts.push(Part { number, entries, removed, replaced: removed, bytes, blake3 });
        }
        manifest
    }

    fn resealed(mut text: Vec<u8>) -> Vec<u8> {
        text.truncate(text.len() - SUM);
        let sum = blake3::hash(&text);
        text.extend_from_slice(sum.as_bytes());
        text
    }

    fn why(bytes: &[u8]) -> String {
        Manifest::decode(bytes, Limits::NONE).unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_comes_back_and_is_damaged_by_every_byte() {
        for parts in [0, 1, 3] {
            let bytes = manifest(parts).encode();
            assert_eq!(Manifest::decode(&bytes, Limits::NONE).unwrap(), manifest(parts));
            for place in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[place] ^= 0x40;
                why(&flipped);
                why(&bytes[..place]);
            }
            why(&[&bytes[..], b"x"].concat());
        }
    }

    #[test]
    fn absurd_numbers_are_named_under_a_right_checksum() {
        let bytes = manifest(2).encode();
        for (at, number, word) in [
            (16, 2, "has format 2"),
            (20, (1 << 20) + 1, "padded length"),
            (24, 0, "lifetime"),
            (24, u64::MAX, "lifetime"),
            (32, 1000, "room for 1000"),
            (32, 1 << 41, "room for"),
            (72, 1 << 33, "parts"),
            (72, 1, "parts"),
            (80, 5000, "part 0 holds 5000"),
            (80, u64::MAX, "part 0 holds"),
            (88, u64::MAX, "part 0 holds"),
            (96, 11, "part 0 holds"),
            (144 + 24, 1, "part 1 has 1 bytes"),
        ] {
            let mut changed = bytes.clone();
            let width = if at < 24 { 4 } else { 8 };
            changed[at..at + width].copy_from_slice(&u64::to_le_bytes(number)[..width]);
            let why = why(&resealed(changed));
            assert!(why.contains(word), "{at}: {why}");
        }
        let limited = |parts, bytes| Manifest::decode(&bytes_of(2), Limits { parts, bytes }).map_err(|e| e.to_string());
        fn bytes_of(parts: usize) -> Vec<u8> {
            manifest(parts).encode()
        }
        assert!(limited(1, u64::MAX).unwrap_err().contains("has 2 parts, and at most 1"));
        assert!(limited(2, 100).unwrap_err().contains("at most 100 are taken"));
        assert!(limited(2, manifest(2).bytes()).is_ok());
        assert_eq!(manifest(MOST_PARTS).encode().len(), MOST_MANIFEST_BYTES);
    }

    #[test]
    fn a_manifest_follows_one_with_fewer_parts_of_the_same_offer() {
        assert!(manifest(3).follows(&manifest(2)) && manifest(2).follows(&manifest(2)));
        assert!(!manifest(2).follows(&manifest(3)), "an older one");
        let mut other = manifest(3);
        other.parts[0].blake3[0] ^= 1;
        assert!(!other.follows(&manifest(2)), "another part");
        assert!(!Manifest { offer: [4; 32], ..manifest(3) }.follows(&manifest(2)));
        assert_eq!(manifest(3).entries(), 33 - 6);
    }

    proptest! {
        /// What `fuzz/fuzz_targets/store.rs` does, on mutations of an honest manifest.
        #[test]
        fn what_decodes_is_the_one_text_of_what_it_says(
            at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..9), parts in 0usize..4,
        ) {
            let mut text = manifest(parts).encode();
            let at = at.index(text.len());
            let end = (at + bytes.len()).min(text.len());
            text[at..end].copy_from_slice(&bytes[..end - at]);
            let text = resealed(text);
            if let Ok(decoded) = Manifest::decode(&text, Limits::NONE) {
                prop_assert_eq!(decoded.encode(), text);
            }
        }
    }
}
