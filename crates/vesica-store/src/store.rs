//! A store that is open.

use crate::error::{Error, Result};
use crate::manifest::{MOST_MANIFEST_BYTES, Manifest, NAME};
use crate::part::{Opened, Says};
use crate::tag::{first, tag};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_table::InOrder;

/// A store that is open for reading, by any number of threads.
///
/// It does not change: what is added to the folder later, [`Store::reload`] opens as another store, while readers of this one
/// finish. It holds its files, so they may even be removed. Memory is what the sums take, 32 bytes for each MiB; the parts are
/// mapped, and the system takes their pages back when it needs memory.
///
/// Nobody may write into a part's file or cut it shorter while it is open. Writing into it gives wrong answers; cutting it
/// ends the process with SIGBUS, as for every mapped file. This crate never does either: a part is written under another name,
/// and renamed when it is whole.
pub struct Store {
    folder: PathBuf,
    manifest: Manifest,
    /// The oldest first.
    parts: Vec<Arc<Opened>>,
}

/// An entry of a store.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    part: &'a Opened,
    place: u64,
}

impl Found<'_> {
    /// The value of the entry, which was found for this `output`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the value was not sealed for this output; [`Error::Bug`] in a store of tags alone.
    pub fn value(&self, output: &[u8; 32]) -> Result<Vec<u8>> {
        self.part.value(self.place, output)
    }
}

impl Store {
    /// Opens the store in `folder`. Checks the manifest, and of each part the header, the sums and the first chunk.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, or a part of it is gone; [`Error::Damaged`] and [`Error::Version`].
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_beside(folder, read_manifest(folder)?, &[])
    }

    /// Opens what stands in the folder now; none if it is what this store is. Parts that both have are shared.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn reload(&self) -> Result<Option<Self>> {
        let manifest = read_manifest(&self.folder)?;
        if manifest == self.manifest {
            return Ok(None);
        }
        Self::open_beside(&self.folder, manifest, &self.parts).map(Some)
    }

    fn open_beside(folder: &Path, manifest: Manifest, open: &[Arc<Opened>]) -> Result<Self> {
        let bits = manifest.tag_bits();
        let open_one = |part| match open.iter().find(|open| *open.root() == part_root(part)) {
            Some(open) if open.header().tag_bits == bits => Ok(open.clone()),
            _ => Opened::open(folder, &manifest, part).map(Arc::new),
        };
        let parts = manifest.parts.iter().map(open_one).collect::<Result<_>>()?;
        Ok(Self { folder: folder.into(), manifest, parts })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it consists of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Entries that are neither removed nor replaced.
    pub fn len(&self) -> u64 {
        self.manifest.entries()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of `output`; none if there is none.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the search meets words that cannot be.
    pub fn find(&self, output: &[u8; 32]) -> Result<Option<Found<'_>>> {
        self.find_tag(tag(output))
    }

    /// As [`Store::find`], by the whole tag of an output.
    pub(crate) fn find_tag(&self, tag: u128) -> Result<Option<Found<'_>>> {
        let tag = first(tag, self.manifest.tag_bits());
        for part in self.parts.iter().rev() {
            match part.says(tag)? {
                Says::Entry(place) => return Ok(Some(Found { part, place })),
                Says::Removed => return Ok(None),
                Says::Nothing => {}
            }
        }
        Ok(None)
    }

    /// As [`Store::find`], for each of `outputs`. It goes through each part in the order of tags, so that neighbours share
    /// pages: this is how to look up many.
    ///
    /// # Errors
    /// Those of [`Store::find`].
    pub fn find_all(&self, outputs: &[[u8; 32]]) -> Result<Vec<Option<Found<'_>>>> {
        let bits = self.manifest.tag_bits();
        let mut asked: Vec<(u128, usize)> =
            outputs.iter().enumerate().map(|(i, output)| (first(tag(output), bits), i)).collect();
        asked.sort_unstable();
        let mut found = vec![None; outputs.len()];
        for part in self.parts.iter().rev() {
            let mut left = Vec::with_capacity(asked.len());
            for (tag, i) in asked {
                match part.says(tag)? {
                    Says::Entry(place) => found[i] = Some(Found { part, place }),
                    Says::Removed => {}
                    Says::Nothing => left.push((tag, i)),
                }
            }
            asked = left;
        }
        Ok(found)
    }

    /// The sums of a part, 32 bytes a chunk, as a server sends them; none if there is no such part.
    pub fn sums(&self, part: usize) -> Option<&[u8]> {
        Some(self.parts.get(part)?.sums().bytes())
    }

    /// Chunk `number` of a part, as a server sends it; none if there is no such part or chunk.
    pub fn chunk(&self, part: usize, number: u64) -> Option<&[u8]> {
        self.parts.get(part)?.chunk(number)
    }

    /// Reads every byte of every part, on so many threads, and compares it with its sum.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the first chunk that is not what was written.
    pub fn verify(&self, workers: usize) -> Result<()> {
        for part in &self.parts {
            let worker = || {
                let part = part.clone();
                move |number| part.verify_chunk(number)
            };
            InOrder::new(workers, 0..part.sums().len(), worker).collect::<Result<()>>()?;
        }
        Ok(())
    }
}

fn part_root(part: &crate::manifest::Part) -> [u8; 32] {
    part.blake3
}

/// The manifest of the store in `folder`.
///
/// # Errors
/// [`Error::Missing`], [`Error::Damaged`] and [`Error::Version`].
pub(crate) fn read_manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(NAME);
    let mut bytes = Vec::new();
    // One byte more than a manifest can have tells that a file is none, and no more is read of it.
    let file = File::open(&path).map_err(Error::reading(&path))?;
    file.take(MOST_MANIFEST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(Error::reading(&path))?;
    Manifest::read(&bytes, &path)
}
