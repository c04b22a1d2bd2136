//! Making a store, or a part that is added to one.

use crate::chunks::Sums;
use crate::elias_fano::Encoder;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::manifest::{MOST_PARTS, Manifest, Part};
use crate::region::Region;
use crate::shape::{MOST_TAGS, Shape, room};
use crate::store::Store;
use crate::tag::{first, tag};
use crate::value;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_table::{InOrder, Spill, Spilled};

/// Bytes of a tag in a record that is spilled.
const TAG: usize = 16;

/// Bytes of the row behind it, and where the sealed value begins.
const ROW: usize = 8;
const VALUE: usize = TAG + ROW;

/// The most buckets that records are parted into, and the memory that one of them is to have in a spill: pieces of it are read
/// back at a time.
const MOST_BUCKETS: usize = 1 << 12;
const BUCKET_MEMORY: usize = 16 << 10;

/// Makes entries into records: hashes outputs, and pads and seals values. It is cheap to copy, and every thread that prepares
/// entries has one.
#[derive(Clone)]
pub struct Sealer {
    value: Option<u32>,
    salt: [u8; 32],
}

impl Sealer {
    /// A batch without entries.
    pub fn batch(&self) -> Batch {
        Batch { sealer: self.clone(), records: Vec::new() }
    }
}

/// Entries that are ready to be pushed, made by one thread.
pub struct Batch {
    sealer: Sealer,
    records: Vec<u8>,
}

impl Batch {
    /// Adds the entry of `output`, with its value if the store has values. `row` says in errors where it comes from. The same entry
    /// may come several times, and is in the store once.
    ///
    /// # Errors
    /// [`Error::TooLong`] for a value of more than the padded length; [`Error::Bug`] for a value in a store of tags alone, and for
    /// none in any other.
    pub fn add(&mut self, output: &[u8; 32], value: Option<&[u8]>, row: u64) -> Result<()> {
        let from = self.records.len();
        self.records.extend_from_slice(&tag(output).to_be_bytes());
        self.records.extend_from_slice(&row.to_be_bytes());
        let added = match (value, self.sealer.value) {
            (Some(value), Some(padded)) => value::seal(output, &self.sealer.salt, value, padded, &mut self.records),
            (None, None) => Ok(()),
            _ => Err(Error::Bug("an entry has a value and the store has none, or the other way round".into())),
        };
        if added.is_err() {
            self.records.truncate(from);
        }
        added
    }
}

/// Entries and removed tags on their way to a part, sorted by the first bits of their tags into buckets that may stand on
/// the disk.
struct Gathered {
    folder: Folder,
    sealer: Sealer,
    entries: Spill,
    pushed: u64,
    removed: Spill,
    bucket_bits: u32,
    memory: usize,
    scratch: PathBuf,
}

impl Gathered {
    fn new(folder: Folder, shape: Shape, memory: usize, scratch: &Path) -> Result<Self> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(Error::Randomness)?;
        let sealer = Sealer { value: shape.value, salt };
        let buckets = (memory / 4 / BUCKET_MEMORY).clamp(1, MOST_BUCKETS);
        let bucket_bits = buckets.ilog2();
        let spill = |record, memory| Spill::new(1 << bucket_bits, record, memory, scratch);
        Ok(Self {
            folder,
            entries: spill(VALUE + shape.value.map_or(0, value::sealed_bytes), memory / 2)?,
            sealer,
            pushed: 0,
            removed: spill(TAG, memory / 8)?,
            bucket_bits,
            memory,
            scratch: scratch.into(),
        })
    }

    /// The bucket of a record, which begins with its tag.
    fn bucket(&self, record: &[u8]) -> usize {
        let head = u32::from_be_bytes(*record.first_chunk().expect("a record begins with a tag"));
        (u64::from(head) >> (32 - self.bucket_bits)) as usize
    }

    fn push(&mut self, batch: &Batch) -> Result<()> {
        if batch.sealer.salt != self.sealer.salt {
            return Err(Error::Bug("a batch was sealed for another part".into()));
        }
        let record = self.entries.record_bytes();
        for record in batch.records.chunks_exact(record) {
            self.entries.push(self.bucket(record), record)?;
        }
        self.pushed += (batch.records.len() / record) as u64;
        Ok(())
    }

    fn remove(&mut self, output: &[u8; 32]) -> Result<()> {
        let record = tag(output).to_be_bytes();
        Ok(self.removed.push(self.bucket(&record), &record)?)
    }

    /// Writes the next part of `manifest`, which then has it, and makes that manifest the store's. `older` is the store that the
    /// part is added to.
    fn finish(self, mut manifest: Manifest, older: Option<Arc<Store>>, workers: usize) -> Result<Built> {
        let Self { folder, sealer, entries, removed, bucket_bits, memory, scratch, .. } = self;
        let (entries, removed) = (Arc::new(entries.finish()?), Arc::new(removed.finish()?));
        let fits = |tags| if tags > manifest.room { Err(Error::Full { tags, room: manifest.room }) } else { Ok(()) };
        // Each worker holds three buckets at most, and what sorts one is two or three times as large as its tags.
        let largest = (0..1 << bucket_bits).map(|bucket| entries.len(bucket)).max().unwrap_or(0);
        let working = largest.saturating_mul(entries.record_bytes() + 32).saturating_mul(3).max(1);
        let workers = workers.min(memory / 4 / working).max(1);
        let repeats = || {
            let entries = entries.clone();
            move |bucket| Sorted::repeats(&entries, bucket)
        };
        // Where things stand in the file follows from how many entries there are, so they are counted first.
        let repeated = InOrder::new(workers, 0..1 << bucket_bits, repeats).sum::<Result<u64>>()?;
        let distinct = entries.total() - repeated;
        fits(manifest.tags() + distinct)?;
        let bits = manifest.tag_bits();
        let mut header = manifest.header(distinct, 0, sealer.salt);
        let layout = header.layout();
        let file = folder.temporary()?;
        let path = file.path().to_owned();
        let (mut replaced, mut absent) = (0, 0);
        let mut kept = Spill::new(1 << bucket_bits, TAG, memory / 8, &scratch)?;
        {
            let mut tags = Encoder::new(header.tags(), file.as_file(), &path, layout.tags);
            let mut values = Region::new(file.as_file(), &path, layout.values);
            let worker = || {
                let (entries, removed, older) = (entries.clone(), removed.clone(), older.clone());
                move |bucket| Sorted::new(&entries, &removed, older.as_deref(), bucket)
            };
            for (bucket, sorted) in InOrder::new(workers, 0..1 << bucket_bits, worker).enumerate() {
                let sorted = sorted?;
                for (tag, record) in sorted.entries() {
                    tags.push(first(tag, bits))?;
                    values.push(&record[VALUE..])?;
                }
                for tag in &sorted.removed {
                    kept.push(bucket, &tag.to_be_bytes())?;
                }
                replaced += sorted.replaced;
                absent += sorted.absent;
            }
            tags.finish()?;
            values.flush()?;
        }
        let kept = kept.finish()?;
        header.removed = kept.total();
        fits(manifest.tags() + header.entries + header.removed)?;
        write_removed(&kept, Encoder::new(header.removed(), file.as_file(), &path, layout.removed), bits)?;
        let bytes = header.layout().bytes;
        let placed = file.as_file().set_len(bytes).and_then(|()| file.as_file().write_all_at(&header.encode(), 0));
        placed.map_err(Error::writing(&path))?;
        let read = Arc::new(file.reopen().map_err(Error::reading(&path))?);
        let sums = Sums::compute(read, bytes, &path, workers)?;
        let part = Part {
            number: manifest.parts.len(),
            entries: header.entries,
            removed: header.removed,
            replaced,
            bytes,
            blake3: sums.root(),
        };
        folder.place_bytes(sums.bytes(), &part.sums_name())?;
        folder.place(file, &part.file_name())?;
        manifest.parts.push(part.clone());
        folder.publish(&manifest)?;
        Ok(Built { part, absent, repeated, manifest })
    }
}

/// Writes the removed tags, which are sorted within their buckets.
fn write_removed(kept: &Spilled, mut tags: Encoder<'_>, bits: u32) -> Result<()> {
    let mut bytes = Vec::new();
    for bucket in 0..kept.buckets() {
        kept.read_into(bucket, &mut bytes)?;
        for tag in bytes.as_chunks::<TAG>().0 {
            tags.push(first(u128::from_be_bytes(*tag), bits))?;
        }
    }
    tags.finish()
}

/// A bucket of entries and removed tags, in the order of tags.
struct Sorted {
    records: Vec<u8>,
    record: usize,
    /// The entries' tags, and where their records stand.
    order: Vec<(u128, usize)>,
    /// Entries whose tag an older part has.
    replaced: u64,
    /// Removed tags that an older part has, and no entry here.
    removed: Vec<u128>,
    /// Removed tags that no older part has.
    absent: u64,
}

impl Sorted {
    fn new(entries: &Spilled, removed: &Spilled, older: Option<&Store>, bucket: usize) -> Result<Self> {
        let (records, record) = (entries.read(bucket)?, entries.record_bytes());
        let tag = |record: &[u8]| u128::from_be_bytes(*record.first_chunk().expect("a record begins with a tag"));
        let order = ordered(&records, record, &mut 0)?;
        let mut gone: Vec<u128> = removed.read(bucket)?.chunks_exact(TAG).map(tag).collect();
        gone.sort_unstable();
        gone.dedup();
        let is_there = |tag| older.map_or(Ok(false), |older| older.find_tag(tag).map(|found| found.is_some()));
        let (mut replaced, mut absent, mut kept) = (0, 0, Vec::new());
        if older.is_some() {
            for &(tag, _) in &order {
                replaced += u64::from(is_there(tag)?);
            }
        }
        for tag in gone {
            if !is_there(tag)? {
                absent += 1;
            } else if order.binary_search_by_key(&tag, |&(tag, _)| tag).is_err() {
                kept.push(tag);
            }
        }
        Ok(Self { records, record, order, replaced, removed: kept, absent })
    }

    /// How often an entry comes once more in a bucket of records.
    fn repeats(entries: &Spilled, bucket: usize) -> Result<u64> {
        let mut repeated = 0;
        ordered(&entries.read(bucket)?, entries.record_bytes(), &mut repeated)?;
        Ok(repeated)
    }

    fn entries(&self) -> impl Iterator<Item = (u128, &[u8])> {
        let record = |place: usize| &self.records[place * self.record..][..self.record];
        self.order.iter().map(move |&(tag, place)| (tag, record(place)))
    }
}

/// The tags of records, of so many bytes each, in order, and where each stands; an entry that comes once more is counted and left out.
///
/// # Errors
/// [`Error::Values`] for two values of one key.
fn ordered(records: &[u8], record: usize, repeated: &mut u64) -> Result<Vec<(u128, usize)>> {
    let tag = |record: &[u8]| u128::from_be_bytes(*record.first_chunk().expect("a record begins with a tag"));
    let row = |place: usize| {
        let row = &records[place * record + TAG..];
        u64::from_be_bytes(*row.first_chunk().expect("a record has a row"))
    };
    let value = |place: usize| &records[place * record..][VALUE..record];
    let mut order: Vec<(u128, usize)> = records.chunks_exact(record).map(tag).zip(0..).collect();
    order.sort_unstable();
    let mut conflict = None;
    order.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same && value(next.1) != value(kept.1) {
            let (one, other) = (row(kept.1), row(next.1));
            conflict.get_or_insert((one.min(other), one.max(other)));
        }
        *repeated += u64::from(same);
        same
    });
    match conflict {
        Some((first, second)) => Err(Error::Values { first, second }),
        None => Ok(order),
    }
}

/// What was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The part that was written.
    pub part: Part,
    /// Removed outputs that no entry had, so that nothing was removed.
    pub absent: u64,
    /// How often an entry came once more.
    pub repeated: u64,
    /// What the store consists of now.
    pub manifest: Manifest,
}

/// Makes a store of one part, in the place of one that the folder has.
pub struct Builder {
    gathered: Gathered,
    shape: Shape,
}

impl Builder {
    /// A store in `folder`, which is made if it is not there. Entries are held in about `memory` bytes, and beyond them in a
    /// nameless file in the folder `scratch`; some megabytes for each thread come to that at the end.
    ///
    /// # Errors
    /// [`Error::Shape`] for a shape that no store can have; [`Error::Busy`] if another process is writing the store.
    pub fn new(folder: &Path, shape: Shape, memory: usize, scratch: &Path) -> Result<Self> {
        let shape = shape.check()?;
        Ok(Self { gathered: Gathered::new(Folder::lock(folder)?, shape, memory, scratch)?, shape })
    }

    /// The same with a salt of the caller's, who has drawn it anew. Entries that were sealed before fit no more.
    #[must_use]
    pub fn with_salt(mut self, salt: [u8; 32]) -> Self {
        self.gathered.sealer.salt = salt;
        self
    }

    /// What makes entries into records.
    pub fn sealer(&self) -> Sealer {
        self.gathered.sealer.clone()
    }

    /// Takes entries, in any order.
    ///
    /// # Errors
    /// Those of spilling; [`Error::Bug`] for a batch of another builder's sealer.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        self.gathered.push(batch)
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.gathered.pushed
    }

    /// How many tags the store will have room for, if no entry is pushed any more. It is a part of the offer, as are the
    /// [`Shape::tag_bits`] that follow.
    pub fn room(&self) -> u64 {
        room(self.entries())
    }

    /// Writes the store, on so many threads, for this offer.
    ///
    /// # Errors
    /// [`Error::Twice`] for two entries with one tag; [`Error::Full`] for more than [`MOST_TAGS`]; those of writing.
    /// Then the folder has the store that it had.
    pub fn finish(self, offer: [u8; 32], workers: usize) -> Result<Built> {
        let room = self.room();
        if room > MOST_TAGS {
            return Err(Error::Full { tags: self.entries(), room: MOST_TAGS });
        }
        let manifest = Manifest { offer, shape: self.shape, room, parts: Vec::new() };
        self.gathered.finish(manifest, None, workers)
    }
}

/// Adds a part to a store: entries that are new or have a new value, and tags that are gone.
pub struct Delta {
    gathered: Gathered,
    store: Arc<Store>,
}

impl Delta {
    /// A part for the store that stands in `folder`. Memory and `scratch` are as for [`Builder::new`].
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`Error::Busy`] if another process is writing the store; [`Error::Parts`] after [`MOST_PARTS`] parts.
    pub fn new(folder: &Path, memory: usize, scratch: &Path) -> Result<Self> {
        // The folder is locked first, so that the store is still the newest when the part is finished.
        let locked = Folder::lock(folder)?;
        let store = Arc::new(Store::open(folder)?);
        let manifest = store.manifest();
        if manifest.parts.len() == MOST_PARTS {
            return Err(Error::Parts { path: folder.into(), parts: MOST_PARTS });
        }
        Ok(Self { gathered: Gathered::new(locked, manifest.shape, memory, scratch)?, store })
    }

    /// The store that the part is added to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The same with a salt of the caller's, who has drawn it anew. Entries that were sealed before fit no more.
    #[must_use]
    pub fn with_salt(mut self, salt: [u8; 32]) -> Self {
        self.gathered.sealer.salt = salt;
        self
    }

    /// What makes entries into records.
    pub fn sealer(&self) -> Sealer {
        self.gathered.sealer.clone()
    }

    /// Takes entries, in any order. One that the store has already gets the new value.
    ///
    /// # Errors
    /// Those of spilling; [`Error::Bug`] for a batch of another builder's sealer.
    pub fn push(&mut self, batch: &Batch) -> Result<()> {
        self.gathered.push(batch)
    }

    /// Removes the entry of `output`. If it is pushed too, before or after, it stays, with the pushed value.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn remove(&mut self, output: &[u8; 32]) -> Result<()> {
        self.gathered.remove(output)
    }

    /// Writes the part, on so many threads.
    ///
    /// # Errors
    /// [`Error::Twice`] for two pushed entries with one tag; [`Error::Full`] if the store has no room for the tags; those of
    /// writing. Then the store is what it was.
    pub fn finish(self, workers: usize) -> Result<Built> {
        let manifest = self.store.manifest().clone();
        self.gathered.finish(manifest, Some(self.store), workers)
    }
}
