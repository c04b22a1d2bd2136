//! Records by bucket under a memory budget.
//!
//! A record is written once, to the end of its bucket's last block. When the blocks would take more than the budget, they
//! become a *run* in one private file without a name, bucket after bucket; a bucket is then read back as one piece per run,
//! and what is in memory last. The file holds, for each run, its records and then the bounds of its buckets, so that an
//! index of 2^16 buckets and many runs costs no memory.

use crate::Error;
use crate::sealed::Sealed;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The most buckets of a [`Spill`].
pub const MAX_BUCKETS: usize = 1 << 16;

/// The most bytes of a block. Smaller ones are taken where that many in every bucket would be much of the budget.
const BLOCK: usize = 16 << 10;

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
    #[inline]
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
        let (dir, indexes, memory) = (path.to_owned(), vec![index], vec![Vec::new(); buckets]);
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
    /// records and appends to what is empty; several threads call it, `workers` at most. What is in memory stays in
    /// its place there; a table that went to a file is written anew, as by a [`Spill`] with `memory_bytes`.
    ///
    /// # Errors
    /// The first of `change`; those of reading and writing the file; [`Error::Bug`] if records were added.
    pub fn rewrite<E: From<Error> + Send>(
        self,
        memory_bytes: usize,
        workers: usize,
        change: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let Self { mut runs, record } = self;
        let checked = |old: &[u8], new: &mut Vec<u8>| -> Result<(), E> {
            change(old, new)?;
            if new.len() <= old.len() {
                Ok(())
            } else {
                Err(Error::Bug("records were added to a bucket".into()).into())
            }
        };
        if let Some(Runs { file: None, placed: None, memory, sizes, .. }) = Arc::get_mut(&mut runs) {
            let buckets = Mutex::new(memory.iter_mut().zip(sizes));
            let work = || -> Result<(), E> {
                let (mut old, mut new) = (Vec::new(), Vec::new());
                loop {
                    let next = buckets.lock().expect("no worker panics").next();
                    let Some((blocks, size)) = next else { return Ok(()) };
                    old.clear();
                    new.clear();
                    blocks.iter().for_each(|block| old.extend_from_slice(block));
                    checked(&old, &mut new)?;
                    *size = new.len() as u64;
                    refill(blocks, &new);
                }
            };
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
                others.into_iter().fold(work(), |result, other| result.and(other.join().expect("no worker panics")))
            })?;
            return Ok(Self { runs, record });
        }
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut log = Log::new(runs.sizes.len(), memory_bytes, &runs.dir)?;
        for bucket in 0..runs.sizes.len() {
            old.clear();
            new.clear();
            runs.read(bucket, &mut old)?;
            checked(&old, &mut new)?;
            log.push(bucket, &[&new])?;
        }
        Ok(Self { runs: Arc::new(log.finish()?), record })
    }
}

/// Puts `bytes` where the content of `blocks` was, which was not less.
fn refill(blocks: &mut Vec<Vec<u8>>, mut bytes: &[u8]) {
    blocks.retain_mut(|block| {
        let (now, rest) = bytes.split_at(block.capacity().min(bytes.len()));
        block.clear();
        block.extend_from_slice(now);
        bytes = rest;
        !now.is_empty()
    });
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

/// The writing end, for records of any length.
pub(crate) struct Log {
    /// The block of each bucket that is being filled.
    open: Vec<Vec<u8>>,
    /// Bytes of a block; of all blocks in memory; and the most that these may be.
    block: usize,
    held: usize,
    capacity: usize,
    runs: Runs,
}

impl Log {
    pub(crate) fn new(buckets: usize, memory: usize, dir: &Path) -> Result<Self, Error> {
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(Error::Bug(format!("a spill of {buckets} buckets")));
        }
        let (memory_of, sizes) = (vec![Vec::new(); buckets], vec![0; buckets]);
        Ok(Self {
            open: vec![Vec::new(); buckets],
            block: (memory / 8 / buckets).clamp(64, BLOCK),
            held: 0,
            capacity: memory,
            runs: Runs {
                dir: dir.to_owned(),
                file: None,
                placed: None,
                disk: 0,
                indexes: Vec::new(),
                memory: memory_of,
                sizes,
            },
        })
    }

    /// Appends the record made of `parts` to `bucket`.
    #[inline]
    pub(crate) fn push(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<(), Error> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let Some(block) = self.open.get(bucket) else {
            return Err(Error::Bug(format!("bucket {bucket} of {}", self.open.len())));
        };
        if block.capacity() - block.len() < len {
            self.grow(bucket, len)?;
        }
        let block = &mut self.open[bucket];
        parts.iter().for_each(|part| block.extend_from_slice(part));
        Ok(())
    }

    /// Opens a block with room for `len` bytes.
    #[cold]
    fn grow(&mut self, bucket: usize, len: usize) -> Result<(), Error> {
        let size = self.block.max(len);
        if self.held + size > self.capacity && self.held > 0 {
            self.flush()?;
        }
        self.held += size;
        let full = std::mem::replace(&mut self.open[bucket], Vec::with_capacity(size));
        self.runs.keep(bucket, full);
        Ok(())
    }

    /// Counts the open blocks as full.
    fn close(&mut self) {
        for (bucket, block) in self.open.iter_mut().enumerate() {
            self.runs.keep(bucket, std::mem::take(block));
        }
    }

    /// Moves what is in memory to the file.
    fn flush(&mut self) -> Result<(), Error> {
        self.close();
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
        for blocks in memory {
            for block in std::mem::take(blocks) {
                put(&block, WRITE)?;
            }
            bounds.extend(put(&[], WRITE)?.to_le_bytes());
        }
        indexes.push(put(&[], 0)?);
        put(&bounds, 0)?;
        self.held = 0;
        Ok(())
    }

    /// Ends writing. What did not fit in memory is not there in part either: others have their share of it next.
    pub(crate) fn finish(mut self) -> Result<Runs, Error> {
        match self.runs.file {
            Some(_) => self.flush()?,
            None => self.close(),
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
    /// What is not in the file: the blocks of each bucket.
    memory: Vec<Vec<Vec<u8>>>,
    /// Bytes in each bucket.
    pub(crate) sizes: Vec<u64>,
}

impl Runs {
    /// Takes a block that is full.
    fn keep(&mut self, bucket: usize, block: Vec<u8>) {
        if !block.is_empty() {
            self.sizes[bucket] += block.len() as u64;
            self.memory[bucket].push(block);
        }
    }

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
        bytes.reserve(self.sizes[bucket] as usize);
        for run in 0..self.indexes.len() {
            let from = bytes.len();
            let read = self.piece(run, bucket).and_then(|piece| {
                bytes.resize(from + (piece.end - piece.start) as usize, 0);
                self.file()?.read_exact_at(&mut bytes[from..], piece.start)
            });
            read.map_err(|e| Error::reading(&self.dir, e))?;
        }
        self.memory[bucket].iter().for_each(|block| bytes.extend_from_slice(block));
        Ok(())
    }

    pub(crate) fn stream(self: &Arc<Self>, bucket: usize) -> Stream {
        Stream { runs: self.clone(), bucket, run: 0, piece: 0..0, block: 0, at: 0 }
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
    /// Behind all runs: the block in memory, and what was read of it.
    block: usize,
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
        let Some(block) = self.runs.memory[self.bucket].get(self.block) else { return Ok(0) };
        let n = (&block[self.at..]).read(buf)?;
        self.at += n;
        if self.at == block.len() {
            (self.block, self.at) = (self.block + 1, 0);
        }
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
        for (memory, on_disk) in [(1 << 20, false), (1 << 12, true)] {
            let mut spill = Spill::new(7, 16, memory, &dir()).unwrap();
            (0..1000u128).for_each(|i| spill.push(i as usize % 7, &i.to_le_bytes()).unwrap());
            let blocks = spill.log.open.iter().chain(spill.log.runs.memory.iter().flatten());
            assert!(blocks.map(Vec::capacity).sum::<usize>() <= memory);
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

    #[test]
    fn buckets_are_rewritten_in_memory_and_in_the_file() {
        for (memory, workers) in [(1 << 20, 1), (1 << 20, 3), (1 << 12, 3)] {
            let mut spill = Spill::new(7, 16, memory, &dir()).unwrap();
            (0..2000u128).for_each(|i| spill.push((i * i % 7) as usize, &i.to_be_bytes()).unwrap());
            // Every other record, the last one first.
            let change = |old: &[u8], new: &mut Vec<u8>| -> Result<(), Error> {
                new.extend(old.chunks_exact(16).rev().step_by(2).flatten());
                Ok(())
            };
            let spilled = spill.finish().unwrap();
            let expected = |bucket| {
                let all: Vec<u128> = (0..2000).filter(|i| i * i % 7 == bucket).collect();
                all.into_iter().rev().step_by(2).flat_map(u128::to_be_bytes).collect::<Vec<_>>()
            };
            let spilled = spilled.rewrite(memory, workers, change).unwrap();
            assert_eq!(spilled.disk_bytes() > 0, memory == 1 << 12);
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
    fn an_error_or_more_records_end_a_rewriting() {
        for (memory, workers) in [(1 << 20, 1), (1 << 20, 3), (1 << 10, 3)] {
            let spilled = || {
                let mut spill = Spill::new(7, 8, memory, &dir()).unwrap();
                (0..1000u64).for_each(|i| spill.push(i as usize % 7, &i.to_be_bytes()).unwrap());
                spill.finish().unwrap()
            };
            let failed = spilled().rewrite(memory, workers, |_, _| Err(Error::Bug("so".into())));
            assert!(failed.err().unwrap().to_string().contains("so"));
            let twice = |old: &[u8], new: &mut Vec<u8>| -> Result<(), Error> {
                new.extend((0..9).flat_map(|_| old));
                Ok(())
            };
            assert!(matches!(spilled().rewrite(memory, workers, twice), Err(Error::Bug(_))));
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
