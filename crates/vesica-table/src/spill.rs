//! Records by bucket under a memory budget.
//!
//! Records are appended to one log in memory. When the log is full it is sorted by bucket (by counting, so the order of
//! a bucket's records is kept) and becomes a *run* in one private file without a name; a bucket is then read back as
//! one piece per run. A log that never fills becomes a run in memory. The file holds, for each run, its records and
//! then the bounds of its buckets, so that an index of 2^16 buckets and many runs costs no memory.

use crate::Error;
use crate::sealed::Sealed;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most buckets of a [`Spill`].
pub const MAX_BUCKETS: usize = 1 << 16;

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
        Ok(Self { log: Log::new(buckets, Some(record_bytes), memory_bytes, dir)?, record: record_bytes })
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

/// What a [`Spill`] took, bucket by bucket, from any thread.
pub struct Spilled {
    runs: Arc<Runs>,
    record: usize,
}

impl Spilled {
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
        let mut bytes = vec![0; self.runs.sizes[bucket] as usize];
        self.runs.stream(bucket).read_exact(&mut bytes).map_err(|e| Error::reading(self.runs.dir(), e))?;
        Ok(bytes)
    }

    /// The records of `bucket` as [`Spilled::read`] gives them, in blocks of `records` (the last may be shorter).
    pub fn blocks(&self, bucket: usize, records: usize) -> Blocks {
        let size = records.max(1).saturating_mul(self.record);
        Blocks { stream: self.runs.stream(bucket), left: self.runs.sizes[bucket], size }
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

/// The writing end, for records of one length (`record`) or of any.
pub(crate) struct Log {
    /// Bucket and, if records differ in length, length of each record in `bytes`.
    tags: Vec<u16>,
    lens: Vec<u32>,
    record: Option<usize>,
    bytes: Vec<u8>,
    /// The log is sorted once it costs this much.
    capacity: usize,
    /// The sorted log, kept between runs.
    sorted: Vec<u8>,
    runs: Runs,
}

impl Log {
    pub(crate) fn new(buckets: usize, record: Option<usize>, memory: usize, dir: &Path) -> Result<Self, Error> {
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(Error::Bug(format!("a spill of {buckets} buckets")));
        }
        // One bucket needs no sorting; several need a sorted copy of the records.
        let capacity = if buckets == 1 { memory } else { memory / 2 };
        Ok(Self {
            tags: Vec::new(),
            lens: Vec::new(),
            record,
            bytes: Vec::new(),
            capacity,
            sorted: Vec::new(),
            runs: Runs { dir: dir.to_owned(), file: None, disk: 0, runs: Vec::new(), sizes: vec![0; buckets] },
        })
    }

    /// Appends the record made of `parts` to `bucket`.
    #[inline]
    pub(crate) fn push(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<(), Error> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let Some(size) = self.runs.sizes.get_mut(bucket) else {
            return Err(Error::Bug(format!("bucket {bucket} of {}", self.runs.sizes.len())));
        };
        *size += len as u64;
        if self.cost() + len > self.capacity && !self.bytes.is_empty() {
            self.flush()?;
        }
        if self.bytes.capacity() - self.bytes.len() < len {
            // Doubling must not step over the budget.
            let target =
                (2 * self.bytes.capacity()).clamp(1 << 12, self.capacity.max(1 << 12)).max(self.bytes.len() + len);
            self.bytes.reserve_exact(target - self.bytes.len());
        }
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        if self.runs.sizes.len() > 1 {
            self.tags.push(bucket as u16);
            if self.record.is_none() {
                let len = u32::try_from(len).map_err(|_| Error::Bug("a record of 4 GiB".into()))?;
                self.lens.push(len);
            }
        }
        Ok(())
    }

    fn cost(&self) -> usize {
        self.bytes.len() + 2 * self.tags.len() + 4 * self.lens.len()
    }

    /// Moves the log into `sorted`, by bucket; gives the bounds of the buckets, one more than there are.
    fn sort(&mut self) -> Vec<u64> {
        let buckets = self.runs.sizes.len();
        if buckets == 1 {
            self.sorted.clear();
            std::mem::swap(&mut self.bytes, &mut self.sorted);
            return vec![0, self.sorted.len() as u64];
        }
        let mut bounds = vec![0u64; buckets + 1];
        for (i, &tag) in self.tags.iter().enumerate() {
            bounds[usize::from(tag) + 1] += self.record.unwrap_or_else(|| self.lens[i] as usize) as u64;
        }
        for i in 0..buckets {
            bounds[i + 1] += bounds[i];
        }
        self.sorted.resize(self.bytes.len(), 0);
        let mut next = bounds.clone();
        let mut from = 0;
        for (i, &tag) in self.tags.iter().enumerate() {
            let len = self.record.unwrap_or_else(|| self.lens[i] as usize);
            let to = next[usize::from(tag)] as usize;
            self.sorted[to..to + len].copy_from_slice(&self.bytes[from..from + len]);
            next[usize::from(tag)] += len as u64;
            from += len;
        }
        self.tags.clear();
        self.lens.clear();
        self.bytes.clear();
        bounds
    }

    fn flush(&mut self) -> Result<(), Error> {
        let bounds = self.sort();
        let writing = |error| Error::writing(&self.runs.dir, error);
        let file = match &mut self.runs.file {
            Some(file) => file,
            none => none.insert(Sealed::new(&self.runs.dir).map_err(writing)?),
        };
        let base = self.runs.disk;
        let index = base + self.sorted.len() as u64;
        file.write_all_at(&mut self.sorted, base).map_err(writing)?;
        let mut bounds: Vec<u8> = bounds.iter().flat_map(|b| (base + b).to_le_bytes()).collect();
        file.write_all_at(&mut bounds, index).map_err(writing)?;
        self.runs.disk = index + bounds.len() as u64;
        self.runs.runs.push(Run::Disk { index });
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Runs, Error> {
        if !self.bytes.is_empty() {
            // What is left stays in memory, whether or not there are runs in the file: it is within the budget.
            let bounds = self.sort();
            self.runs.runs.push(Run::Memory { bytes: std::mem::take(&mut self.sorted), bounds });
        }
        Ok(self.runs)
    }
}

enum Run {
    /// In the file, with the bounds of its buckets (offsets in the file, `u64` each) at `index`.
    Disk {
        index: u64,
    },
    Memory {
        bytes: Vec<u8>,
        bounds: Vec<u64>,
    },
}

/// The reading end of a [`Log`].
pub(crate) struct Runs {
    dir: PathBuf,
    file: Option<Sealed>,
    disk: u64,
    runs: Vec<Run>,
    /// Bytes in each bucket.
    pub(crate) sizes: Vec<u64>,
}

/// What is left of a bucket's part of a run: bytes `from` to `to` of the run in memory, or of the file.
struct Piece {
    memory: Option<usize>,
    from: u64,
    to: u64,
}

impl Runs {
    fn piece(&self, run: usize, bucket: usize) -> io::Result<Piece> {
        match &self.runs[run] {
            Run::Memory { bounds, .. } => Ok(Piece { memory: Some(run), from: bounds[bucket], to: bounds[bucket + 1] }),
            Run::Disk { index } => {
                let mut bounds = [0; 16];
                self.file()?.read_exact_at(&mut bounds, index + 8 * bucket as u64)?;
                let bound = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| bounds[8 * i + j]));
                Ok(Piece { memory: None, from: bound(0), to: bound(1) })
            }
        }
    }

    fn file(&self) -> io::Result<&Sealed> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn stream(self: &Arc<Self>, bucket: usize) -> Stream {
        Stream { runs: self.clone(), bucket, run: 0, piece: Piece { memory: None, from: 0, to: 0 } }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Reads one bucket from front to back.
pub(crate) struct Stream {
    runs: Arc<Runs>,
    bucket: usize,
    /// The run after the one that `piece` is from.
    run: usize,
    piece: Piece,
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.piece.from == self.piece.to {
            if self.run == self.runs.runs.len() {
                return Ok(0);
            }
            self.piece = self.runs.piece(self.run, self.bucket)?;
            self.run += 1;
        }
        let Piece { memory, from, to } = &mut self.piece;
        let n = (*to - *from).min(buf.len() as u64) as usize;
        match memory.map(|run| &self.runs.runs[run]) {
            Some(Run::Memory { bytes, .. }) => buf[..n].copy_from_slice(&bytes[*from as usize..*from as usize + n]),
            _ => self.runs.file()?.read_exact_at(&mut buf[..n], *from)?,
        }
        *from += n as u64;
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
            assert!(spill.log.bytes.capacity() + spill.log.sorted.capacity() <= memory.max(1 << 13));
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
