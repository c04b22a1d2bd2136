//! Records of a table's rows in buckets, each of which is read in order.

use crate::error::JobError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_block::sort;
use vesica_table::{Blocks, Spill, Spilled};

/// Records that are read together where a bucket has too many for the memory.
const BLOCK: usize = 1 << 11;

/// Stretches that are merged at once, the most.
const STRETCHES: usize = 1 << 10;

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

    /// Gives back the memory that reading took.
    pub fn rest(&self) {
        self.readers.lock().expect("no worker panics").clear();
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
        in_order(spilled, bucket, *most, dir, &mut reader, each)?;
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
    spare: Vec<[u8; N]>,
    /// Bytes that were read and sorted.
    #[cfg(test)]
    taken: u64,
}

impl<const N: usize> Reader<N> {
    /// The records that were read, in order.
    fn sorted(&mut self) -> &[[u8; N]] {
        let records = self.bytes.as_chunks_mut().0;
        sort::ascending(records, &mut self.spare, |record| {
            u32::from_be_bytes(*record.first_chunk().expect("a record begins with a digest"))
        });
        records
    }
}

/// Takes records in order, some at a time.
type Each<'a, const N: usize> = &'a mut dyn FnMut(&[[u8; N]]) -> Result<(), JobError>;

/// The records of a bucket in order, some at a time. However many there are, and however often a key is among them, they take
/// some times `most` bytes of memory: a bucket that is larger is sorted in stretches, and these are merged. On the disk it then
/// takes its own size once more meanwhile.
fn in_order<const N: usize>(
    unsorted: &Spilled,
    bucket: usize,
    most: usize,
    dir: &Path,
    reader: &mut Reader<N>,
    each: Each<'_, N>,
) -> Result<(), JobError> {
    #[cfg(test)]
    {
        reader.taken += (unsorted.len(bucket) * N) as u64;
    }
    let (records, piece) = (unsorted.len(bucket), (most / N).max(1));
    if records <= piece {
        unsorted.read_into(bucket, &mut reader.bytes)?;
        return each(reader.sorted());
    }
    let piece = piece.max(records.div_ceil(STRETCHES));
    let stretches = records.div_ceil(piece);
    let mut spill = Spill::new(stretches, N, most, dir)?;
    let mut blocks = unsorted.blocks(bucket, piece);
    let mut stretch = 0;
    while blocks.next_into(&mut reader.bytes)? {
        spill.push_all(stretch, reader.sorted().as_flattened())?;
        stretch += 1;
    }
    merge(&spill.finish()?, (piece / stretches).clamp(16, BLOCK), most / stretches, &mut reader.spare, each)
}

/// The next record of a stretch, and which one that is.
type Head<const N: usize> = Reverse<([u8; N], usize)>;

/// The records of all buckets in order, each of which is in order; so many of a bucket are read together, and so many bytes ahead.
fn merge<const N: usize>(
    sorted: &Spilled,
    together: usize,
    ahead: usize,
    merged: &mut Vec<[u8; N]>,
    each: Each<'_, N>,
) -> Result<(), JobError> {
    let mut stretches: Vec<(Blocks, Vec<u8>, usize)> =
        (0..sorted.buckets()).map(|stretch| (sorted.blocks(stretch, together).ahead(ahead), Vec::new(), 0)).collect();
    let mut next = |stretch: usize| -> Result<Option<Head<N>>, JobError> {
        let (blocks, block, at) = &mut stretches[stretch];
        if *at == block.len() / N {
            *at = 0;
            if !blocks.next_into(block)? {
                return Ok(None);
            }
        }
        let record = block.as_chunks().0[*at];
        *at += 1;
        Ok(Some(Reverse((record, stretch))))
    };
    let mut heads = BinaryHeap::with_capacity(sorted.buckets());
    for stretch in 0..sorted.buckets() {
        heads.extend(next(stretch)?);
    }
    merged.clear();
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((record, stretch)) = *head;
        merged.push(record);
        match next(stretch)? {
            Some(next) => *head = next,
            None => drop(PeekMut::pop(head)),
        }
        if merged.len() == BLOCK {
            each(merged)?;
            merged.clear();
        }
    }
    each(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most records are alike but for their last bytes, and some are alike in all.
    #[test]
    fn a_bucket_larger_than_the_memory_comes_in_order_too() {
        // More stretches than are merged at once where they are small, and blocks of the largest size where they are not.
        const N: usize = 5_000;
        let dir = std::env::temp_dir();
        let record = |i: u32| {
            let mut record = [if i.is_multiple_of(5) { (i >> 3) as u8 } else { 9 }; 7];
            record[3..].copy_from_slice(&(i.wrapping_mul(2_654_435_761) % 9973).to_be_bytes());
            record
        };
        let mut records: Vec<[u8; 7]> = (0..N as u32).map(record).collect();
        let mut spill = Spill::new(2, 7, 1 << 12, &dir).unwrap();
        records.iter().for_each(|record| spill.push(1, record).unwrap());
        let spilled = spill.finish().unwrap();
        let mut ordered = Ordered::<7>::new(spilled, 0, &dir);
        records.sort_unstable();
        for most in [1, 100, 7 * (N - 1), 7 * N, usize::MAX] {
            ordered.most = most;
            let mut read = Vec::new();
            for bucket in [0, 1, 1] {
                read.clear();
                let each = &mut |some: &[[u8; 7]]| {
                    read.extend_from_slice(some);
                    Ok(())
                };
                ordered.read(bucket, each).unwrap();
            }
            assert!(read == records, "{most}");
        }
    }
}
