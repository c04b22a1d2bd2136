//! Records by bucket under a memory budget.
//!
//! A record is written once, to the end of its bucket's last block. When the blocks would take more than the budget, they
//! become a *run* in one private file without a name, bucket after bucket; a bucket is then read back as one piece per run.
//! A second file holds, for each run, the bounds of its buckets, so that an index of 2^16 buckets and many runs costs no
//! memory. If there is a file, all is in it in the end.
//!
//! Where pieces are large, the file of records is written and read past the page cache: nothing is read twice, and memory of
//! the page cache is taken from others, and has to be found, page by page. A run then begins at a page.
//!
//! Blocks are cut from slabs on large pages: records go to many places at a time, and each small page would cost a fault,
//! and most records a miss of the TLB.

mod log;
mod memory;
mod runs;
#[cfg(test)]
mod tests;

pub(crate) use log::Log;
pub use memory::Slabs;
pub(crate) use runs::Runs;

use crate::Error;
use crate::disk::ReadAt;
use crate::sealed::{PAGE, READ};
use memory::Memory;
use runs::Stream;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The most buckets of a [`Spill`].
pub const MAX_BUCKETS: usize = 1 << 16;

/// Bytes of a piece that takes little longer to write and to read than a longer one.
const LONG: usize = 256 << 10;

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

    /// The same for about so many records. Where they will not all fit, it takes no more of the memory than long pieces in the
    /// file need: memory that was never touched costs a processor more than a piece that is written and read.
    ///
    /// Example: 10^8 records of 21 bytes in 400 buckets and 1 GiB go through 100 MiB.
    ///
    /// # Errors
    /// As [`Spill::new`].
    pub fn of(
        records: u64,
        buckets: usize,
        record_bytes: usize,
        memory_bytes: usize,
        dir: &Path,
    ) -> Result<Self, Error> {
        let fits = records.saturating_mul(record_bytes as u64) <= memory_bytes as u64;
        let memory = if fits { memory_bytes } else { memory_bytes.min(buckets.saturating_mul(LONG)) };
        Self::new(buckets, record_bytes, memory, dir)
    }

    /// The same, in memory that comes from `slabs` as far as there is some, and goes there when what was pushed is read no more.
    #[must_use]
    pub fn reusing(self, slabs: &Slabs) -> Self {
        Self { log: self.log.reusing(slabs), ..self }
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

    /// Appends `records`, which stand one after the other, to `bucket`.
    ///
    /// # Errors
    /// As [`Spill::push`], also for a part of a record.
    pub fn push_all(&mut self, bucket: usize, records: &[u8]) -> Result<(), Error> {
        if !records.len().is_multiple_of(self.record) {
            return Err(Error::Bug(format!("{} bytes of records in a spill of {}", records.len(), self.record)));
        }
        // A bucket without a block has no place for none.
        if records.is_empty() { Ok(()) } else { self.log.push(bucket, &[records]) }
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.record
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
    /// Records of `record` bytes in `buckets` buckets that stand in `file` already, which messages call `path`. Where each
    /// bucket begins there, and where the last one ends, stands from byte `index` on: little-endian words of 8 bytes.
    ///
    /// # Errors
    /// Those of reading these words; [`Error::Corrupt`] if they cannot be; [`Error::Bug`] for no bucket, and for records of no
    /// bytes.
    pub fn placed(
        file: Arc<dyn ReadAt>,
        path: &Path,
        index: u64,
        buckets: usize,
        record: usize,
    ) -> Result<Self, Error> {
        if buckets == 0 || record == 0 {
            return Err(Error::Bug(format!("a spill of {buckets} buckets of records of {record} bytes")));
        }
        let mut words = vec![0; 8 * (buckets + 1)];
        file.read_exact_at(&mut words, index).map_err(|e| Error::reading(path, e))?;
        let bounds: Vec<u64> = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let size = |bounds: &[u64]| bounds[1].checked_sub(bounds[0]).filter(|size| size % record as u64 == 0);
        let sizes: Option<Vec<u64>> = bounds.windows(2).map(size).collect();
        let absurd = || Error::Corrupt { path: path.to_owned(), why: "its index cannot be".into() };
        let sizes = sizes.ok_or_else(absurd)?;
        let disk = bounds[buckets] - bounds[0];
        if let Some(last) = bounds[buckets].checked_sub(1).filter(|_| disk > 0) {
            // A file that has the last byte has all of them: what is read later is not larger than the file.
            file.read_exact_at(&mut [0], last).map_err(|e| Error::reading(path, e))?;
        }
        let (dir, indexes, memory) = (path.to_owned(), vec![index], Memory::new(buckets, 0));
        let runs = Runs { dir, file: None, index: None, placed: Some(file), disk, indexes, memory, sizes };
        Ok(Self { runs: Arc::new(runs), record })
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.record
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
        // What is there is written over, and not filled with zeros first.
        bytes.resize(self.runs.sizes[bucket] as usize, 0);
        self.runs.read(bucket, bytes)
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

impl Blocks {
    /// The same, but no more than about so many bytes are read ahead: many buckets that are read side by side take as often as much.
    #[must_use]
    pub fn ahead(mut self, bytes: usize) -> Self {
        self.stream.most = bytes.clamp(PAGE, READ);
        self
    }

    /// The next block in the place of what is in `block`, if there is one: whoever reads block after block needs memory once.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn next_into(&mut self, block: &mut Vec<u8>) -> Result<bool, Error> {
        let n = self.left.min(self.size as u64);
        block.resize(n as usize, 0);
        if let Err(error) = self.stream.read_exact(block) {
            self.left = 0;
            return Err(Error::reading(&self.stream.runs.dir, error));
        }
        self.left -= n;
        Ok(n > 0)
    }
}

impl Iterator for Blocks {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut block = Vec::new();
        self.next_into(&mut block).map(|some| some.then_some(block)).transpose()
    }
}
