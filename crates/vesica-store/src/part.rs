//! A part of a store that is open: mapped, and never read whole.

use crate::backend::Mapping;
use crate::chunks::{CHUNK, Sums};
use crate::elias_fano::{Inconsistent, View};
use crate::error::{Error, Result};
use crate::header::Header;
use crate::manifest::{Manifest, Part};
use crate::value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What a part says of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    /// An entry at this place in the order of tags.
    Entry(u64),
    /// Entries of older parts with this tag are removed.
    Removed,
    Nothing,
}

/// A part whose header and length were checked, over bytes that may be anything else.
pub(crate) struct Body<'a> {
    tags: View<'a>,
    values: &'a [u8],
    removed: View<'a>,
}

impl<'a> Body<'a> {
    /// The sections of a part with this header; none if its bytes are not as many as the header says.
    pub(crate) fn new(header: &Header, bytes: &'a [u8]) -> Option<Self> {
        let layout = header.layout();
        if bytes.len() as u64 != layout.bytes {
            return None;
        }
        let section = |from: u64, to: u64| bytes.get(from as usize..to as usize);
        Some(Self {
            tags: View::new(header.tags(), section(layout.tags, layout.values)?)?,
            values: section(layout.values, layout.removed)?,
            removed: View::new(header.removed(), section(layout.removed, layout.bytes)?)?,
        })
    }

    /// What the part says of a tag of its length.
    pub(crate) fn says(&self, tag: u128) -> std::result::Result<Says, Inconsistent> {
        if let Some(place) = self.tags.find(tag)? {
            return Ok(Says::Entry(place));
        }
        Ok(self.removed.find(tag)?.map_or(Says::Nothing, |_| Says::Removed))
    }

    /// The sealed value at a place, of `bytes` bytes.
    fn sealed(&self, place: u64, bytes: usize) -> Option<&'a [u8]> {
        let from = usize::try_from(place).ok()?.checked_mul(bytes)?;
        self.values.get(from..from.checked_add(bytes)?)
    }
}

/// A part of a store that is open.
pub(crate) struct Opened {
    path: PathBuf,
    header: Header,
    mapping: Mapping,
    sums: Sums,
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
        let opened = Self { header: Header::decode(&mapping, &path)?, path, mapping, sums };
        opened.verify_chunk(0)?;
        let Header { tag_bits, value, entries, removed, .. } = opened.header;
        let agrees = (tag_bits, value, entries, removed)
            == (manifest.tag_bits(), manifest.shape.value, part.entries, part.removed);
        match agrees && Body::new(&opened.header, &opened.mapping).is_some() {
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
    pub(crate) fn body(&self) -> Result<Body<'_>> {
        Body::new(&self.header, &self.mapping).ok_or_else(|| Error::Bug("a mapped part changed its length".into()))
    }

    /// What [`Inconsistent`] means in this part.
    pub(crate) fn contradicts_itself(&self) -> Error {
        Error::damaged(&self.path, "its tags contradict its directory")
    }

    /// The value of `output`, whose tag is at `place`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it was not sealed for this output; [`Error::Bug`] if there are no values.
    pub(crate) fn value(&self, place: u64, output: &[u8; 32]) -> Result<Vec<u8>> {
        let bytes = self.header.sealed_bytes();
        if bytes == 0 {
            return Err(Error::Bug("a value was asked for in a store of tags alone".into()));
        }
        let sealed = Body::new(&self.header, &self.mapping).and_then(|body| body.sealed(place, bytes));
        sealed
            .and_then(|sealed| value::open(output, &self.header.salt, sealed))
            .ok_or_else(|| Error::damaged(&self.path, format!("the value of its entry {place} does not open")))
    }

    /// Chunk `number`, of [`CHUNK`] bytes if it is not the last.
    pub(crate) fn chunk(&self, number: u64) -> Option<&[u8]> {
        let from = usize::try_from(number).ok()?.checked_mul(CHUNK)?;
        let to = from.saturating_add(CHUNK).min(self.mapping.len());
        self.mapping.get(from..to).filter(|chunk| !chunk.is_empty())
    }

    /// Compares a chunk with its sum.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the chunk.
    pub(crate) fn verify_chunk(&self, number: u64) -> Result<()> {
        match self.chunk(number).is_some_and(|chunk| self.sums.holds(number, chunk)) {
            true => Ok(()),
            false => {
                let from = number * CHUNK as u64;
                Err(Error::damaged(&self.path, format!("chunk {number}, from byte {from} on, is not what was written")))
            }
        }
    }
}
