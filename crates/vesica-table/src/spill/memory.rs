//! What a spill holds in memory: blocks, cut from slabs.

use vesica_block::large;

/// The most bytes of a block. Smaller ones are taken where that many in every bucket would be much of the budget.
pub(super) const BLOCK: usize = 2 << 10;

/// The most bytes of a slab.
pub(super) const SLAB: usize = 32 << 20;

/// Bytes by bucket, in blocks.
pub(super) struct Memory {
    /// All blocks: slab after slab, which are of one size.
    pub(super) slabs: Vec<Vec<u8>>,
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
        Self { slabs: Vec::new(), slab, block, bytes, taken: 0, blocks: vec![Vec::new(); buckets] }
    }

    /// Gives a bucket one more block: tells its slab, and where it begins there.
    pub(super) fn take(&mut self, bucket: usize) -> (usize, usize) {
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
