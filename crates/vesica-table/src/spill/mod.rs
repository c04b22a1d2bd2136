//! Records by bucket under a memory budget.
//!
//! A record is written once, to the end of its bucket's last block. When the blocks would take more than the budget, they
//! become a *run* in one private file without a name, bucket after bucket; a bucket is then read back as one piece per run.
//! The file holds, for each run, its records and then the bounds of its buckets, so that an index of 2^16 buckets and many
//! runs costs no memory. If there is a file, all is in it in the end.
//!
//! Blocks are cut from slabs on large pages: records go to many places at a time, and each small page would cost a fault,
//! and most records a miss of the TLB.

use crate::Error;
use crate::sealed::Sealed;
use crate::threads::on_threads;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use vesica_block::large;

/// The most buckets of a [`Spill`].
pub const MAX_BUCKETS: usize = 1 << 16;

/// The most bytes of a block. Smaller ones are taken where that many in every bucket would be much of the budget.
const BLOCK: usize = 2 << 10;

/// The most bytes of a slab.
const SLAB: usize = 32 << 20;

/// Bytes written to the file at a time.
const WRITE: usize = 1 << 20;

/// Fixed-size records parted into buckets in bounded memory; beyond it, in one private file without a name, which is
/// gone however the program ends.
///
/// Give it at least 4 KiB of memory a bucket: a bucket is read in one piece per filling of the memory, and pieces
/// should not be small.
pub struct Spill {
    log: Log,
    record: usize,
}

impl Spill {
    /// Room for records of `record_bytes` in `buckets` buckets; holds at most about `memory_bytes` in memory, the rest
    /// in `dir`.
    ///
    /// # Errors
    /// [`Error::Bug`] for 0 or more than [`MAX_BUCKETS`] buckets, and for records of no bytes.
    pub fn new(buckets: usize, record_bytes: usize, memory_bytes: usize, dir: &Path) -> Result<Self, Error> {
        if record_bytes == 0 {
            return Err(Error::Bug("a spill of records of no bytes".into()));
        }
        Ok(Self { log: Log::new(buckets, memory_bytes, dir)?, record: record_bytes })
    }

    /// Appends `record` to `bucket`.
    ///
    /// # Errors
    /// [`Error::Bug`] for a record of another length or a bucket that is not there; [`Error::DiskFull`].
    #[inline(always)] // Callers know how long their records are: then no call copies them.
    pub fn push(&mut self, bucket: usize, record: &[u8]) -> Result<(), Error> {
        if record.len() != self.record {
            return Err(Error::Bug(format!("a record of {} bytes in a spill of {}", record.len(), self.record)));
        }
        self.log.push(bucket, &[record])
    }

    /// Ends writing; what was pushed can be read.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and other errors of writing.
    pub fn finish(self) -> Result<Spilled, Error> {
        Ok(Spilled { runs: Arc::new(self.log.finish()?), record: self.record })
    }
}

/// Bytes that can be read at any place, from any thread.
pub trait ReadAt: Send + Sync {
    /// Reads the whole of `bytes` from `offset`.
    ///
    /// # Errors
    /// Those of the file behind it, or of its content.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

/// What a [`Spill`] took, bucket by bucket, from any thread.
pub struct Spilled {
    runs: Arc<Runs>,
    record: usize,
}

impl Spilled {
    /// Records of `record` bytes in `buckets` buckets that stand in `file` already, which messages call `path`. Where each
    /// bucket begins there, and where the last one ends, stands from byte `index` on: little-endian words of 8 bytes.
    ///
    /// # Errors
    /// Those of reading these words; [`Error::Corrupt`] if they cannot be.
    pub fn placed(
        file: Arc<dyn ReadAt>,
        path: &Path,
        index: u64,
        buckets: usize,
        record: usize,
    ) -> Result<Self, Error> {
        let mut words = vec![0; 8 * (buckets + 1)];
        file.read_exact_at(&mut words, index).map_err(|e| Error::reading(path, e))?;
        let bounds: Vec<u64> = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let size = |bounds: &[u64]| bounds[1].checked_sub(bounds[0]).filter(|size| size % record as u64 == 0);
        let sizes: Option<Vec<u64>> = bounds.windows(2).map(size).collect();
        let absurd = || Error::Corrupt { path: path.to_owned(), why: "its index cannot be".into() };
        let sizes = sizes.ok_or_else(absurd)?;
        let disk = bounds[buckets] - bounds[0];
        let (dir, indexes, memory) = (path.to_owned(), vec![index], Memory::new(buckets, 0));
        let runs = Runs { dir, file: None, placed: Some(file), disk, indexes, memory, sizes };
        Ok(Self { runs: Arc::new(runs), record })
    }

    /// The number of buckets.
    pub fn buckets(&self) -> usize {
        self.runs.sizes.len()
    }

    /// The number of records in `bucket`.
    ///
    /// # Panics
    /// If there is no such bucket, as do the other methods.
    pub fn len(&self, bucket: usize) -> usize {
        (self.runs.sizes[bucket] / self.record as u64) as usize
    }

    /// Whether there is no record at all.
    pub fn is_empty(&self) -> bool {
        self.runs.sizes.iter().all(|&n| n == 0)
    }

    /// The number of records in all buckets.
    pub fn total(&self) -> u64 {
        self.runs.sizes.iter().sum::<u64>() / self.record as u64
    }

    /// Bytes that stand in the file; 0 if all fitted in memory.
    pub fn disk_bytes(&self) -> u64 {
        self.runs.disk
    }

    /// The records of `bucket`, one after the other, in the order in which they were pushed.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read(&self, bucket: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.read_into(bucket, &mut bytes)?;
        Ok(bytes)
    }

    /// As [`Spilled::read`], in the place of what is in `bytes`: whoever reads bucket after bucket needs memory once.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read_into(&self, bucket: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        self.runs.read(bucket, bytes)
    }

    /// The records of `bucket` as [`Spilled::read`] gives them, in blocks of `records` (the last may be shorter).
    pub fn blocks(&self, bucket: usize, records: usize) -> Blocks {
        let size = records.max(1).saturating_mul(self.record);
        Blocks { stream: self.runs.stream(bucket), left: self.runs.sizes[bucket], size }
    }

    /// Every bucket with its records as `change` gives them: the same in another order, or fewer. It takes a bucket's
    /// records, and pushes those that are to be kept; several threads call it, `workers` at most. All stays in its place
    /// in memory, where it must be.
    ///
    /// # Errors
    /// The first of `change`; [`Error::Bug`] if records were added, and if there is a file.
    pub fn rewrite<E: From<Error> + Send>(
        mut self,
        workers: usize,
        change: impl Fn(&[u8], &mut Refill<'_>) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let Some(Runs { file: None, placed: None, memory, sizes, .. }) = Arc::get_mut(&mut self.runs) else {
            return Err(Error::Bug("records in a file were to be rewritten".into()).into());
        };
        let buckets = Mutex::new(memory.buckets_mut().into_iter().zip(sizes));
        let work = || -> Result<(), E> {
            let mut old = Vec::new();
            loop {
                let next = buckets.lock().expect("no worker panics").next();
                let Some((blocks, size)) = next else { return Ok(()) };
                old.clear();
                blocks.iter().for_each(|block| old.extend_from_slice(block));
                old.truncate(*size as usize);
                let mut refill = Refill { blocks: blocks.into_iter(), block: &mut [], left: old.len() };
                change(&old, &mut refill)?;
                *size = (old.len() - refill.left) as u64;
            }
        };
        on_threads(workers, work)?;
        Ok(self)
    }
}

/// A bucket that is filled anew, see [`Spilled::rewrite`].
pub struct Refill<'a> {
    blocks: std::vec::IntoIter<&'a mut [u8]>,
    /// What is free of the block under way.
    block: &'a mut [u8],
    /// Bytes that there were and that have not been pushed.
    left: usize,
}

impl Refill<'_> {
    /// Keeps a record.
    ///
    /// # Errors
    /// [`Error::Bug`] if more are kept than there were.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<(), Error> {
        let left = self.left.checked_sub(record.len());
        self.left = left.ok_or_else(|| Error::Bug("records were added to a bucket".into()))?;
        if record.len() > self.block.len() {
            return self.push_across(record);
        }
        let (to, free) = std::mem::take(&mut self.block).split_at_mut(record.len());
        to.copy_from_slice(record);
        self.block = free;
        Ok(())
    }

    /// Keeps what the block has no room for.
    #[cold]
    fn push_across(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.block.is_empty() {
                self.block = self.blocks.next().ok_or_else(|| Error::Bug("a bucket without room".into()))?;
            }
            let (now, rest) = bytes.split_at(self.block.len().min(bytes.len()));
            let (to, free) = std::mem::take(&mut self.block).split_at_mut(now.len());
            to.copy_from_slice(now);
            (self.block, bytes) = (free, rest);
        }
        Ok(())
    }
}

/// An iterator over one bucket of a [`Spilled`]: whole records, a block at a time.
pub struct Blocks {
    stream: Stream,
    left: u64,
    size: usize,
}

impl Iterator for Blocks {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let n = self.left.min(self.size as u64);
        let mut block = vec![0; n as usize];
        match self.stream.read_exact(&mut block) {
            Ok(()) => {
                self.left -= n;
                Some(Ok(block))
            }
            Err(error) => {
                self.left = 0;
                Some(Err(Error::reading(&self.stream.runs.dir, error)))
            }
        }
    }
}

/// Bytes by bucket, in blocks.
struct Memory {
    /// All blocks: slab after slab, which are of one size.
    slabs: Vec<Vec<u8>>,
    /// Bytes of a slab, and of a block.
    slab: usize,
    block: usize,
    /// The most bytes of all blocks.
    bytes: usize,
    /// Blocks that are in use.
    taken: usize,
    /// The blocks of each bucket.
    blocks: Vec<Vec<usize>>,
}

impl Memory {
    /// Nothing yet, and room for `bytes` (for one block, at least).
    fn new(buckets: usize, bytes: usize) -> Self {
        let block = (bytes / 8 / buckets).clamp(64, BLOCK);
        let slab = (bytes.min(SLAB) / block).max(1) * block;
        Self { slabs: Vec::new(), slab, block, bytes, taken: 0, blocks: vec![Vec::new(); buckets] }
    }

    /// Gives a bucket one more block: tells its slab, and where it begins there.
    fn take(&mut self, bucket: usize) -> (usize, usize) {
        let (slab, at) = self.place(self.taken);
        if slab == self.slabs.len() {
            let left = self.bytes.saturating_sub(slab * self.slab) / self.block * self.block;
            self.slabs.push(large::zeroed(left.clamp(self.block, self.slab)));
        }
        // Records come to it a few bytes at a time, and then find it in the cache.
        self.slabs[slab][at..at + self.block].fill(0);
        self.blocks[bucket].push(self.taken);
        self.taken += 1;
        (slab, at)
    }

    /// Where a block stands.
    fn place(&self, block: usize) -> (usize, usize) {
        let in_slab = self.slab / self.block;
        (block / in_slab, block % in_slab * self.block)
    }

    /// What stands in a bucket from byte `from` on, of `size` bytes in all: piece by piece.
    fn pieces(&self, bucket: usize, from: usize, size: usize) -> impl Iterator<Item = &[u8]> {
        let bytes = move |(i, &block): (usize, &usize)| {
            let (slab, at) = self.place(block);
            let begin = i * self.block;
            &self.slabs[slab][at + from.saturating_sub(begin)..at + (size - begin).min(self.block)]
        };
        let used = 0..size.div_ceil(self.block);
        self.blocks[bucket][used].iter().enumerate().skip(from / self.block).map(bytes)
    }

    /// Each bucket's blocks, to be filled anew.
    fn buckets_mut(&mut self) -> Vec<Vec<&mut [u8]>> {
        let mut all: Vec<_> =
            self.slabs.iter_mut().flat_map(|slab| slab.chunks_exact_mut(self.block)).map(Some).collect();
        let mut own = |&block: &usize| all[block].take().expect("a block has one owner");
        self.blocks.iter().map(|blocks| blocks.iter().map(&mut own).collect()).collect()
    }
}

/// The writing end, for records of any length.
pub(crate) struct Log {
    /// Where each bucket's next byte goes.
    open: Vec<Open>,
    /// The most bytes in memory.
    capacity: usize,
    runs: Runs,
}

/// The end of a bucket's last block.
#[derive(Clone, Copy, Default)]
struct Open {
    slab: usize,
    at: usize,
    room: usize,
}

impl Log {
    pub(crate) fn new(buckets: usize, memory: usize, dir: &Path) -> Result<Self, Error> {
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(Error::Bug(format!("a spill of {buckets} buckets")));
        }
        Ok(Self {
            open: vec![Open::default(); buckets],
            capacity: memory,
            runs: Runs {
                dir: dir.to_owned(),
                file: None,
                placed: None,
                disk: 0,
                indexes: Vec::new(),
                memory: Memory::new(buckets, memory),
                sizes: vec![0; buckets],
            },
        })
    }

    /// Appends the record made of `parts` to `bucket`.
    #[inline(always)]
    pub(crate) fn push(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<(), Error> {
        let Some(open) = self.open.get_mut(bucket) else {
            return Err(Error::Bug(format!("bucket {bucket} of {}", self.open.len())));
        };
        if parts.iter().map(|part| part.len()).sum::<usize>() > open.room {
            return parts.iter().try_for_each(|part| self.push_across(bucket, part));
        }
        for part in parts {
            let block = &mut self.runs.memory.slabs[open.slab][open.at..];
            block[..part.len()].copy_from_slice(part);
            (open.at, open.room) = (open.at + part.len(), open.room - part.len());
        }
        Ok(())
    }

    /// Appends bytes that the bucket's last block has no room for.
    #[cold]
    fn push_across(&mut self, bucket: usize, mut bytes: &[u8]) -> Result<(), Error> {
        loop {
            let open = &mut self.open[bucket];
            let (now, rest) = bytes.split_at(open.room.min(bytes.len()));
            if !now.is_empty() {
                self.runs.memory.slabs[open.slab][open.at..open.at + now.len()].copy_from_slice(now);
                (open.at, open.room) = (open.at + now.len(), open.room - now.len());
            }
            if rest.is_empty() {
                return Ok(());
            }
            bytes = rest;
            let Memory { taken, block, .. } = self.runs.memory;
            if (taken + 1) * block > self.capacity && taken > 0 {
                self.flush()?;
            }
            let (slab, at) = self.runs.memory.take(bucket);
            self.open[bucket] = Open { slab, at, room: block };
        }
    }

    /// Ends the blocks: tells how many bytes are in memory, by bucket.
    fn close(&mut self) -> Vec<usize> {
        let Memory { blocks, block, .. } = &self.runs.memory;
        let held = |(open, blocks): (&mut Open, &Vec<usize>)| blocks.len() * block - std::mem::take(open).room;
        let held: Vec<usize> = self.open.iter_mut().zip(blocks).map(held).collect();
        self.runs.sizes.iter_mut().zip(&held).for_each(|(size, &held)| *size += held as u64);
        held
    }

    /// Moves what is in memory to the file.
    fn flush(&mut self) -> Result<(), Error> {
        let held = self.close();
        let Runs { dir, file, disk, indexes, memory, .. } = &mut self.runs;
        let writing = |error| Error::writing(dir, error);
        let file = match file {
            Some(file) => file,
            none => none.insert(Sealed::new(dir).map_err(writing)?),
        };
        let mut out = Vec::with_capacity(WRITE);
        let mut put = |bytes: &[u8], most: usize| -> Result<u64, Error> {
            out.extend_from_slice(bytes);
            if out.len() > most {
                file.write_all_at(&mut out, *disk).map_err(writing)?;
                *disk += out.len() as u64;
                out.clear();
            }
            Ok(*disk + out.len() as u64)
        };
        let mut bounds = put(&[], 0)?.to_le_bytes().to_vec();
        for (bucket, size) in held.into_iter().enumerate() {
            for piece in memory.pieces(bucket, 0, size) {
                put(piece, WRITE)?;
            }
            bounds.extend(put(&[], WRITE)?.to_le_bytes());
        }
        indexes.push(put(&[], 0)?);
        put(&bounds, 0)?;
        memory.blocks.iter_mut().for_each(Vec::clear);
        memory.taken = 0;
        Ok(())
    }

    /// Ends writing. What did not fit in memory is not there in part either: others have their share of it next.
    pub(crate) fn finish(mut self) -> Result<Runs, Error> {
        match self.runs.file {
            Some(_) => {
                self.flush()?;
                self.runs.memory.slabs = Vec::new();
            }
            None => drop(self.close()),
        }
        Ok(self.runs)
    }
}

/// The reading end of a [`Log`].
pub(crate) struct Runs {
    dir: PathBuf,
    file: Option<Sealed>,
    /// Somebody else's file, in place of one of its own.
    placed: Option<Arc<dyn ReadAt>>,
    /// Bytes in the file.
    disk: u64,
    /// For each run, where the bounds of its buckets stand (offsets in the file, `u64` each, one more than buckets).
    indexes: Vec<u64>,
    /// All of it if there is no file.
    memory: Memory,
    /// Bytes in each bucket.
    pub(crate) sizes: Vec<u64>,
}

impl Runs {
    /// Where in the file the piece of `bucket` in `run` stands.
    fn piece(&self, run: usize, bucket: usize) -> io::Result<Range<u64>> {
        let mut bounds = [0; 16];
        self.file()?.read_exact_at(&mut bounds, self.indexes[run] + 8 * bucket as u64)?;
        let bound = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| bounds[8 * i + j]));
        Ok(bound(0)..bound(1))
    }

    fn file(&self) -> io::Result<&dyn ReadAt> {
        match (&self.file, &self.placed) {
            (Some(file), _) => Ok(file),
            (None, Some(file)) => Ok(&**file),
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Appends what is in `bucket` to `bytes`.
    fn read(&self, bucket: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let size = self.sizes[bucket] as usize;
        bytes.reserve(size);
        for run in 0..self.indexes.len() {
            let from = bytes.len();
            let read = self.piece(run, bucket).and_then(|piece| {
                bytes.resize(from + (piece.end - piece.start) as usize, 0);
                self.file()?.read_exact_at(&mut bytes[from..], piece.start)
            });
            read.map_err(|e| Error::reading(&self.dir, e))?;
        }
        if self.indexes.is_empty() {
            self.memory.pieces(bucket, 0, size).for_each(|piece| bytes.extend_from_slice(piece));
        }
        Ok(())
    }

    pub(crate) fn stream(self: &Arc<Self>, bucket: usize) -> Stream {
        Stream { runs: self.clone(), bucket, run: 0, piece: 0..0, at: 0 }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Reads one bucket from front to back.
pub(crate) struct Stream {
    runs: Arc<Runs>,
    bucket: usize,
    /// The next run in the file, and what is left of the one before it.
    run: usize,
    piece: Range<u64>,
    /// What was read of what is in memory.
    at: usize,
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && self.run < self.runs.indexes.len() {
            self.piece = self.runs.piece(self.run, self.bucket)?;
            self.run += 1;
        }
        if !self.piece.is_empty() {
            let n = (self.piece.end - self.piece.start).min(buf.len() as u64) as usize;
            self.runs.file()?.read_exact_at(&mut buf[..n], self.piece.start)?;
            self.piece.start += n as u64;
            return Ok(n);
        }
        if !self.runs.indexes.is_empty() {
            return Ok(0);
        }
        let mut pieces = self.runs.memory.pieces(self.bucket, self.at, self.runs.sizes[self.bucket] as usize);
        let n = pieces.next().unwrap_or_default().read(buf)?;
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dir() -> PathBuf {
        std::env::temp_dir()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_goes_in_comes_out_in_order(
            buckets in 1usize..20,
            record in 1usize..30,
            memory in 1usize..5000,
            pushed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..600),
            block in 1usize..50,
        ) {
            let mut spill = Spill::new(buckets, record, memory, &dir()).unwrap();
            let mut expected = vec![Vec::new(); buckets];
            for (i, (bucket, byte)) in pushed.iter().enumerate() {
                let bucket = bucket.index(buckets);
                let bytes: Vec<u8> = (0..record).map(|j| byte ^ (i + j) as u8).collect();
                spill.push(bucket, &bytes).unwrap();
                expected[bucket].extend(bytes);
            }
            let spilled = spill.finish().unwrap();
            prop_assert_eq!(spilled.total(), pushed.len() as u64);
            for (bucket, expected) in expected.iter().enumerate() {
                prop_assert_eq!(spilled.len(bucket) * record, expected.len());
                prop_assert_eq!(&spilled.read(bucket).unwrap(), expected);
                let blocks: Vec<_> = spilled.blocks(bucket, block).map(Result::unwrap).collect();
                prop_assert!(blocks.iter().rev().skip(1).all(|b| b.len() == block * record));
                prop_assert_eq!(&blocks.concat(), expected);
            }
        }
    }

    #[test]
    fn within_the_budget_nothing_is_written_and_beyond_it_all_is_kept() {
        for (memory, on_disk) in [(1 << 20, false), (1 << 12, true), (3 << 10, true)] {
            let mut spill = Spill::new(7, 16, memory, &dir()).unwrap();
            (0..1000u128).for_each(|i| spill.push(i as usize % 7, &i.to_le_bytes()).unwrap());
            assert!(spill.log.runs.memory.slabs.iter().map(Vec::capacity).sum::<usize>() <= memory);
            let spilled = spill.finish().unwrap();
            assert_eq!(spilled.disk_bytes() > 0, on_disk);
            // From several threads at once.
            std::thread::scope(|scope| {
                for bucket in 0..7 {
                    let spilled = &spilled;
                    scope.spawn(move || {
                        let expected: Vec<u8> =
                            (0..1000u128).filter(|i| *i as usize % 7 == bucket).flat_map(u128::to_le_bytes).collect();
                        assert_eq!(spilled.read(bucket).unwrap(), expected);
                    });
                }
            });
        }
    }

    #[test]
    fn the_last_slab_is_as_large_as_the_budget_allows() {
        let budget = SLAB + 3 * BLOCK + 1;
        let mut memory = Memory::new(2, budget);
        for i in 0..SLAB / BLOCK + 3 {
            assert_eq!(memory.take(i % 2), (i / (SLAB / BLOCK), i % (SLAB / BLOCK) * BLOCK));
        }
        assert_eq!(memory.slabs.iter().map(Vec::len).collect::<Vec<_>>(), [SLAB, 3 * BLOCK]);
        assert_eq!(memory.buckets_mut().iter().map(Vec::len).sum::<usize>(), SLAB / BLOCK + 3);
    }

    /// A file that is somebody else's.
    struct Bytes(Vec<u8>);

    impl ReadAt for Bytes {
        fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
            let from = self.0.get(offset as usize..).ok_or(io::ErrorKind::UnexpectedEof)?;
            bytes.copy_from_slice(from.get(..bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    #[test]
    fn records_that_stand_in_a_file_are_read_where_they_stand() {
        let placed = |bounds: [u64; 4], text: &[u8]| {
            let words = bounds.map(u64::to_le_bytes);
            let bytes = [b"-", words.as_flattened(), text].concat();
            Spilled::placed(Arc::new(Bytes(bytes)), Path::new("f"), 1, 3, 2)
        };
        let spilled = placed([33, 35, 35, 41], b"aabbccdd").unwrap();
        assert_eq!((spilled.buckets(), spilled.total(), spilled.len(2), spilled.disk_bytes()), (3, 4, 3, 8));
        assert_eq!([0, 1, 2].map(|i| spilled.read(i).unwrap()), [&b"aa"[..], b"", b"bbccdd"]);
        let blocks: Vec<_> = spilled.blocks(2, 2).map(Result::unwrap).collect();
        assert_eq!(blocks, [&b"bbcc"[..], b"dd"]);
        assert!(placed([33, 35, 35, 41], b"aabbccd").unwrap().read(2).is_err(), "it is too short");
        assert!(placed([33, 35, 34, 41], b"aabbccdd").is_err(), "a bucket ends before it begins");
        assert!(placed([33, 34, 35, 41], b"aabbccdd").is_err(), "half a record");
    }

    fn filled(memory: usize) -> Spilled {
        let mut spill = Spill::new(7, 16, memory, &dir()).unwrap();
        (0..2000u128).for_each(|i| spill.push((i * i % 7) as usize, &i.to_be_bytes()).unwrap());
        spill.finish().unwrap()
    }

    #[test]
    fn buckets_are_rewritten_in_memory() {
        for workers in [1, 3] {
            // Every other record, the last one first.
            let change = |old: &[u8], kept: &mut Refill<'_>| {
                old.chunks_exact(16).rev().step_by(2).try_for_each(|record| kept.push(record))
            };
            let expected = |bucket| {
                let all: Vec<u128> = (0..2000).filter(|i| i * i % 7 == bucket).collect();
                all.into_iter().rev().step_by(2).flat_map(u128::to_be_bytes).collect::<Vec<_>>()
            };
            let spilled = filled(1 << 20).rewrite(workers, change).unwrap();
            let mut bytes = vec![1, 2, 3];
            for bucket in 0..7 {
                spilled.read_into(bucket, &mut bytes).unwrap();
                assert_eq!(bytes, expected(bucket as u128));
                assert_eq!(spilled.len(bucket) * 16, bytes.len());
                assert_eq!(spilled.blocks(bucket, 5).map(Result::unwrap).collect::<Vec<_>>().concat(), bytes);
            }
        }
    }

    #[test]
    fn an_error_more_records_or_a_file_end_a_rewriting() {
        for workers in [1, 3] {
            let failed = filled(1 << 20).rewrite(workers, |_, _| Err(Error::Bug("so".into())));
            assert!(failed.err().unwrap().to_string().contains("so"));
            let twice = |old: &[u8], kept: &mut Refill<'_>| {
                kept.push(old)?;
                kept.push(&old[..old.len().min(8)])
            };
            let error = filled(1 << 20).rewrite::<Error>(workers, twice).err().unwrap();
            assert!(error.to_string().contains("records were added"), "{error}");
            assert!(matches!(filled(1 << 12).rewrite::<Error>(workers, |_, _| Ok(())), Err(Error::Bug(_))));
        }
    }

    #[test]
    fn the_most_buckets_work_and_one_more_is_a_bug() {
        let mut spill = Spill::new(MAX_BUCKETS, 8, 1 << 16, &dir()).unwrap();
        (0..MAX_BUCKETS).for_each(|i| spill.push(i, &(i as u64).to_le_bytes()).unwrap());
        let spilled = spill.finish().unwrap();
        assert!((0..MAX_BUCKETS).all(|i| spilled.read(i).unwrap() == (i as u64).to_le_bytes()));
        assert!(Spill::new(MAX_BUCKETS + 1, 8, 1 << 16, &dir()).is_err());
        assert!(Spill::new(0, 8, 1 << 16, &dir()).is_err());
        let mut spill = Spill::new(2, 8, 1 << 16, &dir()).unwrap();
        assert!(spill.push(2, &[0; 8]).is_err());
        assert!(spill.push(0, &[0; 7]).is_err());
    }

    #[test]
    fn the_file_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(3, 8, 64, dir.path()).unwrap();
        (0..1000u64).for_each(|i| spill.push(0, &i.to_le_bytes()).unwrap());
        assert!(spill.log.runs.disk > 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let mut spill = Spill::new(3, 8, 64, Path::new("/no/such/folder")).unwrap();
        let error = (0..1000u64).find_map(|i| spill.push(0, &i.to_le_bytes()).err()).unwrap();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
        assert_eq!(error.fault(), crate::Fault::Config);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut spill = Spill::new(3, 8, 64, &dir()).unwrap();
        spill.log.runs.file = Some(Sealed::full());
        let error = (0..1000u64).find_map(|i| spill.push(0, &i.to_le_bytes()).err()).unwrap();
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    }
}
