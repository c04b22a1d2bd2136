//! What a spill holds in memory: blocks, cut from slabs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vesica_block::large;

/// The most bytes of a block. Smaller ones are taken where that many in every bucket would be much of the budget.
pub(super) const BLOCK: usize = 2 << 10;

/// The most bytes of a slab.
pub(super) const SLAB: usize = 32 << 20;

/// Memory that the spills of a run use one after the other. To touch memory for the first time costs a processor more than to write to it,
/// above all in a virtual machine, whose own memory may have to be found first.
///
/// Example: keys are counted in 240 MiB. When they are cut into units, in 420 MiB, these are the first 240 of them.
#[derive(Clone, Default)]
pub struct Slabs(Arc<Mutex<Vec<Vec<u8>>>>);

/// How many there are: what is in them is what was counted and cut.
impl fmt::Debug for Slabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slabs({})", self.slabs().len())
    }
}

impl Slabs {
    pub(super) fn slabs(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of so many bytes. What a larger one has beyond them is given back, and so are all if they are smaller: whoever asks takes memory in
    /// their place.
    fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut slabs = self.slabs();
        let Some(at) = slabs.iter().position(|slab| slab.len() >= bytes) else {
            *slabs = Vec::new();
            return None;
        };
        let mut slab = slabs.swap_remove(at);
        slab.truncate(bytes);
        slab.shrink_to_fit();
        Some(slab)
    }

    /// Gives what nobody uses back to the system.
    pub fn release(&self) {
        *self.slabs() = Vec::new();
    }
}

/// Bytes by bucket, in blocks.
pub(super) struct Memory {
    /// All blocks: slab after slab, each of which has as many of them.
    pub(super) slabs: Vec<Vec<u8>>,
    /// Where slabs come from, if there are any, and where they go.
    pub(super) pool: Option<Slabs>,
    /// Bytes of a slab, and of a block.
    pub(super) slab: usize,
    pub(super) block: usize,
    /// The most bytes of all blocks.
    pub(super) bytes: usize,
    /// Blocks that are in use.
    pub(super) taken: usize,
    /// The blocks of each bucket.
    pub(super) blocks: Vec<Vec<usize>>,
}

impl Memory {
    /// Nothing yet, and room for `bytes` (for one block, at least).
    pub(super) fn new(buckets: usize, bytes: usize) -> Self {
        let block = (bytes / 8 / buckets).clamp(64, BLOCK);
        let slab = (bytes.min(SLAB) / block).max(1) * block;
        let (slabs, pool, blocks) = (Vec::new(), None, vec![Vec::new(); buckets]);
        Self { slabs, pool, slab, block, bytes, taken: 0, blocks }
    }

    /// Gives the slabs away: nothing of what is in them is needed.
    pub(super) fn clear(&mut self) {
        let mut slabs = std::mem::take(&mut self.slabs);
        if let Some(pool) = &self.pool {
            pool.slabs().append(&mut slabs);
        }
    }

    /// Gives a bucket one more block: tells its slab, and where it begins there.
    pub(super) fn take(&mut self, bucket: usize) -> (usize, usize) {
        let (slab, at) = self.place(self.taken);
        if slab == self.slabs.len() {
            let left = self.bytes.saturating_sub(slab * self.slab) / self.block * self.block;
            let bytes = left.clamp(self.block, self.slab);
            let used = self.pool.as_ref().and_then(|pool| pool.take(bytes));
            self.slabs.push(used.unwrap_or_else(|| large::zeroed(bytes)));
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
    pub(super) fn pieces(&self, bucket: usize, from: usize, size: usize) -> impl Iterator<Item = &[u8]> {
        let bytes = move |(i, &block): (usize, &usize)| {
            let (slab, at) = self.place(block);
            let begin = i * self.block;
            &self.slabs[slab][at + from.saturating_sub(begin)..at + (size - begin).min(self.block)]
        };
        let used = 0..size.div_ceil(self.block);
        self.blocks[bucket][used].iter().enumerate().skip(from / self.block).map(bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.clear();
    }
}
