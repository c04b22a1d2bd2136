//! A part of a store that is open: mapped, and never read whole.

use crate::backend::Mapping;
use crate::chunks::{CHUNK, Sums};
use crate::elias_fano::{Bytes, Inconsistent, View};
use crate::error::{Error, Result};
use crate::header::Header;
use crate::manifest::{Manifest, Part};
use crate::value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a part says of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    /// An entry at this place in the order of tags.
    Entry(u64),
    /// Entries of older parts with this tag are removed.
    Removed,
    Nothing,
}

/// The tags of a part whose header and length were checked, over bytes that may be anything else.
pub(crate) struct Body<'a, B: ?Sized> {
    tags: View<'a, B>,
    removed: View<'a, B>,
}

impl<'a, B: Bytes + ?Sized> Body<'a, B> {
    /// The tags of a part with this header and so many bytes; none if the header says another number of bytes.
    pub(crate) fn new(header: &Header, bytes: &'a B, length: usize) -> Option<Self> {
        let layout = header.layout();
        if length as u64 != layout.bytes {
            return None;
        }
        Some(Self {
            tags: View::new(header.tags(), bytes, layout.tags..layout.values)?,
            removed: View::new(header.removed(), bytes, layout.removed..layout.bytes)?,
        })
    }

    /// What the part says of a tag of its length.
    pub(crate) fn says(&self, tag: u128) -> std::result::Result<Says, Inconsistent> {
        if let Some(place) = self.tags.find(tag)? {
            return Ok(Says::Entry(place));
        }
        Ok(self.removed.find(tag)?.map_or(Says::Nothing, |_| Says::Removed))
    }

    /// Hands over at least every tag of which the part says something.
    pub(crate) fn each(&self, mut take: impl FnMut(u128)) -> std::result::Result<(), Inconsistent> {
        self.tags.each(&mut take)?;
        self.removed.each(take)
    }
}

/// A part of a store that is open.
pub(crate) struct Opened {
    path: PathBuf,
    header: Header,
    mapping: Mapping,
    sums: Sums,
    /// Which chunks were compared with their sums, and hold.
    intact: Vec<AtomicBool>,
}

/// A search compares each chunk with its sum when it first reads of it. A disk that changes a bit would otherwise make a key
/// look absent that is there. Sealed values say so themselves.
impl Bytes for Opened {
    fn eight(&self, at: usize) -> Option<[u8; 8]> {
        let eight = self.mapping.get(at..)?.first_chunk().copied()?;
        // Eight bytes may stand in two chunks.
        [at, at + 7].into_iter().all(|at| self.is_intact(at / CHUNK)).then_some(eight)
    }
}

impl Opened {
    /// Opens the part of `manifest` that `part` describes. Of its bytes, the header and the first chunk are checked, which
    /// binds it to the manifest; all of them are by [`Opened::verify`].
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Damaged`] and [`Error::Version`] for anything that is not the part in the manifest.
    pub(crate) fn open(folder: &Path, manifest: &Manifest, part: &Part) -> Result<Self> {
        let path = folder.join(part.file_name());
        let sums_path = folder.join(part.sums_name());
        let file = File::open(&path).map_err(Error::reading(&path))?;
        let length = file.metadata().map_err(Error::reading(&path))?.len();
        let expected = part.bytes;
        if length != expected {
            return Err(Error::damaged(&path, format!("it has {length} bytes and the manifest says {expected}")));
        }
        let sums_length = fs::metadata(&sums_path).map_err(Error::reading(&sums_path))?.len();
        if sums_length != Sums::bytes_of(expected) {
            return Err(Error::damaged(&sums_path, format!("it has {sums_length} bytes and not a sum for each chunk")));
        }
        let sums = fs::read(&sums_path).map_err(Error::reading(&sums_path))?;
        let sums = Sums::checked(sums, expected, &part.blake3)
            .ok_or_else(|| Error::damaged(&sums_path, "its sums are not those of the manifest"))?;
        let mapping = Mapping::new(&file).map_err(Error::reading(&path))?;
        // The file may have changed since its length was asked for.
        if mapping.len() as u64 != expected {
            return Err(Error::damaged(&path, "its length changed while it was opened"));
        }
        let intact = (0..sums.len()).map(|_| AtomicBool::new(false)).collect();
        let opened = Self { header: Header::decode(&mapping, &path)?, path, mapping, sums, intact };
        opened.verify_chunk(0)?;
        let Header { tag_bits, value, entries, removed, .. } = opened.header;
        let agrees = (tag_bits, value, entries, removed)
            == (manifest.tag_bits(), manifest.shape.value, part.entries, part.removed);
        match agrees && Body::new(&opened.header, &opened, opened.mapping.len()).is_some() {
            true => Ok(opened),
            false => Err(Error::damaged(&opened.path, "its header does not agree with the manifest")),
        }
    }

    pub(crate) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Its sections, to search in.
    ///
    /// # Errors
    /// [`Error::Bug`] if they are not as long as when the part was opened.
    pub(crate) fn body(&self) -> Result<Body<'_, Self>> {
        Body::new(&self.header, self, self.mapping.len())
            .ok_or_else(|| Error::Bug("a mapped part changed its length".into()))
    }

    /// What [`Inconsistent`] means in this part: a chunk that is not what was written, or one that was written wrong.
    pub(crate) fn contradicts_itself(&self) -> Error {
        let unsure = (0..self.sums.len()).filter(|&number| !self.intact[number as usize].load(Ordering::Relaxed));
        let damaged = unsure.map(|number| self.verify_chunk(number)).find_map(Result::err);
        damaged.unwrap_or_else(|| Error::damaged(&self.path, "its tags contradict its directory"))
    }

    fn is_intact(&self, number: usize) -> bool {
        self.intact[number].load(Ordering::Relaxed) || self.verify_chunk(number as u64).is_ok()
    }

    /// The value of `output`, whose tag is at `place`; none if it was not sealed for this output, or there are no values.
    pub(crate) fn value(&self, place: u64, output: &[u8; 32]) -> Option<Vec<u8>> {
        let bytes = self.header.value.map(value::sealed_bytes)?;
        let layout = self.header.layout();
        let values = self.mapping.get(layout.values as usize..layout.removed as usize)?;
        let from = usize::try_from(place).ok()?.checked_mul(bytes)?;
        value::open(output, &self.header.salt, values.get(from..from.checked_add(bytes)?)?)
    }

    /// Chunk `number`, of [`CHUNK`] bytes if it is not the last.
    pub(crate) fn chunk(&self, number: u64) -> Option<&[u8]> {
        let from = usize::try_from(number).ok()?.checked_mul(CHUNK)?;
        let to = from.saturating_add(CHUNK).min(self.mapping.len());
        self.mapping.get(from..to).filter(|chunk| !chunk.is_empty())
    }

    /// Compares a chunk with its sum. No search does so again if it holds.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the chunk.
    pub(crate) fn verify_chunk(&self, number: u64) -> Result<()> {
        let holds = self.chunk(number).is_some_and(|chunk| self.sums.holds(number, chunk));
        self.intact[number as usize].store(holds, Ordering::Relaxed);
        match holds {
            true => Ok(()),
            false => {
                let from = number * CHUNK as u64;
                Err(Error::damaged(&self.path, format!("chunk {number}, from byte {from} on, is not what was written")))
            }
        }
    }
}
