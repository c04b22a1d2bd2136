//! A store that is open.

use crate::elias_fano::Inconsistent;
use crate::error::{Error, Result};
use crate::fresh::Fresh;
use crate::manifest::{MOST_MANIFEST_BYTES, Manifest, NAME};
use crate::part::{self, Opened};
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
    /// The value of the entry, which was found for this `output`; none if the value was not sealed for this output, or the store has
    /// no values.
    pub fn value(&self, output: &[u8; 32]) -> Option<Vec<u8>> {
        self.part.value(self.place, output)
    }
}

/// What a store says of an output.
#[derive(Clone, Copy)]
pub enum Says<'a> {
    /// It has this entry.
    Entry(Found<'a>),
    /// It has none.
    Nothing,
    /// The words that the search met contradict each other. Whoever made the store wrote them so, if its chunks are those of their sums.
    Nonsense,
}

impl<'a> Says<'a> {
    /// The entry, if there is one.
    pub fn entry(self) -> Option<Found<'a>> {
        match self {
            Says::Entry(found) => Some(found),
            Says::Nothing | Says::Nonsense => None,
        }
    }
}

impl Store {
    /// Opens the store in `folder`. Checks the manifest, and of each part the header, the sums and the first chunk.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, or a part of it is gone; [`Error::Damaged`] and [`Error::Version`].
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_beside(folder, read_manifest(folder)?, Vec::new())
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
        let shared = if manifest.follows(&self.manifest) { self.parts.clone() } else { Vec::new() };
        Self::open_beside(&self.folder, manifest, shared).map(Some)
    }

    /// Whether the store that the folder has now has all parts of this one, in the same places.
    ///
    /// # Errors
    /// If it has no manifest that can be read.
    pub fn is_followed(&self) -> Result<bool> {
        Ok(read_manifest(&self.folder)?.follows(&self.manifest))
    }

    /// Opens the store of `manifest`, of which the first `parts` are open.
    fn open_beside(folder: &Path, manifest: Manifest, mut parts: Vec<Arc<Opened>>) -> Result<Self> {
        for part in &manifest.parts[parts.len()..] {
            parts.push(Arc::new(Opened::open(folder, &manifest, part)?));
        }
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
            match part.body()?.says(tag).map_err(|Inconsistent| part.contradicts_itself())? {
                part::Says::Entry(place) => return Ok(Some(Found { part, place })),
                part::Says::Removed => return Ok(None),
                part::Says::Nothing => {}
            }
        }
        Ok(None)
    }

    /// What the store says of each of `outputs`. It goes through each part in the order of tags, so that neighbours share pages: this
    /// is how to look up many.
    ///
    /// Words that contradict each other are an answer here, and no error: it is the answer for those outputs alone that lead to them. So
    /// whoever made the store cannot make a search end by what is searched for. Call [`Store::verify`] first, which finds what a disk
    /// changed; a chunk that is not the one of its sum looks like such words.
    ///
    /// # Errors
    /// [`Error::Bug`] if a part is not as long as when it was opened.
    pub fn find_all(&self, outputs: &[[u8; 32]]) -> Result<Vec<Says<'_>>> {
        let bits = self.manifest.tag_bits();
        let mut asked: Vec<(u128, usize)> =
            outputs.iter().enumerate().map(|(i, output)| (first(tag(output), bits), i)).collect();
        asked.sort_unstable();
        let mut found = vec![Says::Nothing; outputs.len()];
        for part in self.parts.iter().rev() {
            let body = part.body()?;
            let mut left = Vec::with_capacity(asked.len());
            for (tag, i) in asked {
                match body.says(tag) {
                    Ok(part::Says::Entry(place)) => found[i] = Says::Entry(Found { part, place }),
                    Ok(part::Says::Removed) => {}
                    Ok(part::Says::Nothing) => left.push((tag, i)),
                    // An older part is not asked: it may have what this one replaces.
                    Err(Inconsistent) => found[i] = Says::Nonsense,
                }
            }
            asked = left;
        }
        Ok(found)
    }

    /// What the parts from number `from` on say something of. Of any other output this store says what the one of the parts before them said.
    ///
    /// # Errors
    /// [`Error::Bug`] if a part is not as long as when it was opened.
    pub fn fresh(&self, from: usize) -> Result<Fresh> {
        let parts = self.parts.get(from..).unwrap_or_default();
        let tags =
            self.manifest.parts.get(from..).unwrap_or_default().iter().map(|part| part.entries + part.removed).sum();
        let mut fresh = Fresh::new(tags, self.manifest.tag_bits());
        for part in parts {
            if let Err(Inconsistent) = part.body()?.each(|tag| fresh.add(tag)) {
                return Ok(Fresh::everything());
            }
        }
        Ok(fresh)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunks::{CHUNK, Sums};
    use crate::manifest::Part;
    use crate::shape::Shape;
    use nix::sys::resource::{UsageWho, getrusage};
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt;

    fn output(i: u64) -> [u8; 32] {
        *blake3::hash(&i.to_le_bytes()).as_bytes()
    }

    /// A store of 2^32 tags with values, 180 GB long, of which only what belongs to a few entries is written. The rest is holes
    /// in its files.
    #[test]
    fn places_beyond_4_gib_are_found_and_the_rest_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let n = 1 << 32;
        let mut manifest = Manifest {
            offer: [0; 32],
            shape: Shape { lifetime: 1 << 20, value: Some(16) },
            room: 1 << 33,
            parts: Vec::new(),
        };
        let header = manifest.header(n, 0, [9; 32]);
        let layout = header.layout();
        let path = dir.path().join("part");
        let file = File::create_new(&path).unwrap();
        file.set_len(layout.bytes).unwrap();
        file.write_all_at(&header.encode(), 0).unwrap();
        // The sections, computed anew from the page of the format: 93 bits, of which 32 are the head.
        let (directory, heads) = (128, 1u64 << 32);
        let high = directory + 8 * (heads / 512 + 1);
        let low = high + (heads + n) / 8;
        assert_eq!(layout.values, (low + n * 61 / 8).next_multiple_of(64));
        let write = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).unwrap();
        for i in 0..50 {
            let tag = first(tag(&output(i)), 93);
            let (head, place) = ((tag >> 61) as u64, (tag >> 61) as u64 / 512 * 512);
            write(directory + head / 512 * 8, &place.to_le_bytes());
            write(directory + head / 512 * 8 + 8, &(place + 1).to_le_bytes());
            write(high + (head + place) / 8, &[1 << ((head + place) % 8)]);
            // Places are multiples of 512, so low bits begin at a byte. Those behind them are of entries that nobody asks for.
            let low_bits = (tag & ((1 << 61) - 1)) as u64;
            write(low + place * 61 / 8, &low_bits.to_le_bytes());
            let mut sealed = Vec::new();
            crate::value::seal(&output(i), &header.salt, &i.to_le_bytes(), 16, &mut sealed).unwrap();
            write(layout.values + place * 36, &sealed);
        }
        // Sums of the first chunk and of those that a search for these keys reads; nobody checks the others here.
        let mut sums = vec![0; Sums::bytes_of(layout.bytes) as usize];
        let read = File::open(&path).unwrap();
        let mut chunks = BTreeSet::from([0]);
        for i in (0..50).chain(1000..1050) {
            let head = (first(tag(&output(i)), 93) >> 61) as u64;
            let (block, place) = (head / 512 * 512, head / 512 * 512);
            let touched =
                [directory + head / 512 * 8 + 15, high + block / 8, high + (head + place) / 8, low + place * 61 / 8];
            chunks.extend(touched.into_iter().flat_map(|at| [at.saturating_sub(72), at, at + 72]).map(|at| at >> 20));
        }
        for &number in &chunks {
            let mut chunk = vec![0; CHUNK];
            read.read_exact_at(&mut chunk, number << 20).unwrap();
            sums[32 * number as usize..][..32].copy_from_slice(blake3::hash(&chunk).as_bytes());
        }
        let part = Part {
            number: 0,
            entries: n,
            removed: 0,
            replaced: 0,
            bytes: layout.bytes,
            blake3: *blake3::hash(&sums).as_bytes(),
        };
        std::fs::write(dir.path().join(part.sums_name()), &sums).unwrap();
        std::fs::rename(&path, dir.path().join(part.file_name())).unwrap();
        manifest.parts.push(part);
        std::fs::write(dir.path().join(NAME), manifest.encode()).unwrap();

        let faults = || {
            let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
            usage.minor_page_faults() + usage.major_page_faults()
        };
        let before = faults();
        let store = Store::open(dir.path()).unwrap();
        let mut furthest = 0;
        for i in 0..50 {
            let found = store.find(&output(i)).unwrap().unwrap();
            assert_eq!(found.value(&output(i)).unwrap(), i.to_le_bytes());
            furthest = furthest.max(found.place);
            assert!(store.find(&output(1000 + i)).unwrap().is_none());
        }
        assert!(furthest > 3 << 30);
        // 180 GB are 45 million pages. The sums are 1400, a search reads four chunks at most, and a chunk has 256 pages.
        let touched = faults() - before;
        assert!(touched < 1400 + 100 * 4 * 256, "{touched} pages were touched");
    }
}
