use vesica_block::prg::Prg;
use vesica_block::{Block, select};

/// What a store holds: an element of a group of characteristic 2.
pub trait Value: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The sum.
    #[must_use]
    fn xor(self, other: Self) -> Self;

    /// The sum of the slots that the bits select, bit i for slot i.
    fn select(bits: &[u64], slots: &[Self]) -> Self;

    /// Overwrites all with random values.
    fn fill(prg: &mut Prg, out: &mut [Self]);
}

impl Value for Block {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    fn select(bits: &[u64], slots: &[Self]) -> Self {
        select::blocks(bits, slots)
    }

    fn fill(prg: &mut Prg, out: &mut [Self]) {
        prg.fill(out);
    }
}

impl Value for u64 {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    fn select(bits: &[u64], slots: &[Self]) -> Self {
        select::words(bits, slots)
    }

    fn fill(prg: &mut Prg, out: &mut [Self]) {
        let mut blocks = [Block::ZERO; 128];
        for part in out.chunks_mut(2 * blocks.len()) {
            let blocks = &mut blocks[..part.len().div_ceil(2)];
            prg.fill(blocks);
            for (words, block) in part.chunks_mut(2).zip(blocks) {
                words.copy_from_slice(&[block.low(), block.high()][..words.len()]);
            }
        }
    }
}
