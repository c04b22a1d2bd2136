//! Records of a table's rows in buckets, each of which is read in order.

use crate::error::JobError;
use crate::input::sort::{self, Bins, ascending};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_session::Error;
use vesica_table::{Spill, Spilled};

/// Records that are read together where a bucket has too many for the memory.
const BLOCK: usize = 1 << 11;

/// Records of `N` bytes in buckets. Their order in a bucket has no meaning, and each is there once.
pub struct Ordered<const N: usize> {
    spilled: Spilled,
    /// Bytes of a bucket, the most, that are sorted in one piece.
    most: usize,
    /// Where more than that goes.
    dir: PathBuf,
    /// What reading a bucket takes, to be used again: to touch fresh memory costs as much as to sort what is read to it.
    readers: Mutex<Vec<Reader<N>>>,
    /// Bytes that were read and sorted.
    #[cfg(test)]
    pub taken: AtomicU64,
}

impl<const N: usize> Ordered<N> {
    /// The records of `spilled`, of which `most` bytes are sorted in one piece. What is more goes to `dir` meanwhile.
    pub fn new(spilled: Spilled, most: usize, dir: &Path) -> Self {
        Self {
            spilled,
            most,
            dir: dir.to_owned(),
            readers: Mutex::default(),
            #[cfg(test)]
            taken: AtomicU64::new(0),
        }
    }

    /// The records, a bucket after the other.
    pub fn spilled(&self) -> &Spilled {
        &self.spilled
    }

    /// The number of records in `bucket`.
    pub fn len(&self, bucket: usize) -> usize {
        self.spilled.len(bucket)
    }

    /// Bytes that are sorted in one piece, the most.
    pub fn largest(&self) -> usize {
        let largest = (0..self.spilled.buckets()).map(|bucket| self.len(bucket)).max().unwrap_or(0);
        largest.saturating_mul(N).min(self.most)
    }

    /// Gives the records of `bucket` in order, some at a time.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn read(&self, bucket: usize, each: Each<'_, N>) -> Result<(), JobError> {
        // Whoever comes while all are in use takes memory of its own.
        let reader = self.readers.lock().expect("no worker panics").pop();
        let mut reader = reader.unwrap_or_default();
        let Self { spilled, most, dir, .. } = self;
        in_order(spilled, bucket, 0, *most, dir, &mut reader, each)?;
        #[cfg(test)]
        self.taken.fetch_add(std::mem::take(&mut reader.taken), Ordering::Relaxed);
        self.readers.lock().expect("no worker panics").push(reader);
        Ok(())
    }
}

/// What reading a bucket takes, to be used again.
#[derive(Default)]
struct Reader<const N: usize> {
    bytes: Vec<u8>,
    bins: Bins,
    sorted: Vec<[u8; N]>,
    /// Bytes that were read and sorted.
    #[cfg(test)]
    taken: u64,
}

/// Takes records in order, some at a time.
type Each<'a, const N: usize> = &'a mut dyn FnMut(&[[u8; N]]) -> Result<(), JobError>;

/// The records of a bucket in order, some at a time; `depth` bytes of them are the same. However many there are, and however
/// often a key is among them, they take some times `most` bytes at most: a bucket that is larger is parted by the next byte in
/// which its records differ.
fn in_order<const N: usize>(
    unsorted: &Spilled,
    bucket: usize,
    depth: usize,
    most: usize,
    dir: &Path,
    reader: &mut Reader<N>,
    each: Each<'_, N>,
) -> Result<(), JobError> {
    #[cfg(test)]
    {
        reader.taken += (unsorted.len(bucket) * N) as u64;
    }
    if unsorted.len(bucket) <= (most / N).clamp(1, sort::MOST) {
        unsorted.read_into(bucket, &mut reader.bytes)?;
        ascending(reader.bytes.as_chunks().0, depth, &mut reader.bins, &mut reader.sorted);
        return each(&reader.sorted);
    }
    let Some(depth) = differ::<N>(unsorted, bucket, depth)? else {
        return Err(Error::Bug("a row was read twice".into()).into());
    };
    let mut finer = Spill::new(256, N, most, dir)?;
    let (mut blocks, mut block) = (unsorted.blocks(bucket, BLOCK), Vec::new());
    while blocks.next_into(&mut block)? {
        let (records, _) = block.as_chunks::<N>();
        records.iter().try_for_each(|record| finer.push(usize::from(record[depth]), record))?;
    }
    let finer = finer.finish()?;
    (0..256).try_for_each(|bucket| in_order(&finer, bucket, depth + 1, most, dir, reader, each))
}

/// The first byte from `depth` on that is not the same in all records of a bucket.
fn differ<const N: usize>(records: &Spilled, bucket: usize, depth: usize) -> Result<Option<usize>, JobError> {
    let (mut blocks, mut block) = (records.blocks(bucket, BLOCK), Vec::new());
    let (mut first, mut differ) = (None::<[u8; N]>, None);
    while blocks.next_into(&mut block)? {
        for record in block.as_chunks::<N>().0 {
            let first = first.get_or_insert(*record);
            let end = differ.unwrap_or(N);
            differ = (depth..end).find(|&byte| first[byte] != record[byte]).or(differ);
        }
        if differ == Some(depth) {
            break;
        }
    }
    Ok(differ)
}
