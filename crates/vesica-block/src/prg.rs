//! A pseudorandom generator: AES-128 in counter mode.

use crate::Block;
use crate::aes::Aes128;

/// Blocks that look random to whoever does not know the seed: AES_seed(0), AES_seed(1), … (SP 800-38A, section 6.5).
///
/// After n blocks the distance from random is at most n²/2^129, plus AES's: draw at most 2^40 under one seed.
pub struct Prg {
    aes: Aes128,
    counter: u128,
}

/// How many blocks are made ready for encryption at once: they stay in the first-level cache.
const BATCH: usize = 128;

impl Prg {
    /// The generator of this seed.
    pub fn new(seed: Block) -> Self {
        Self { aes: Aes128::new(seed), counter: 0 }
    }

    /// Overwrites every block with the next ones of the stream.
    pub fn fill(&mut self, blocks: &mut [Block]) {
        for batch in blocks.chunks_mut(BATCH) {
            for block in batch.iter_mut() {
                *block = Block(self.counter);
                self.counter += 1;
            }
            self.aes.encrypt_in_place(batch);
        }
    }

    /// Overwrites the bytes with the next blocks' bytes in order; what is left of the last block is skipped.
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        let mut blocks = [Block::ZERO; BATCH];
        for part in bytes.chunks_mut(BATCH * Block::BYTES) {
            let blocks = &mut blocks[..part.len().div_ceil(Block::BYTES)];
            self.fill(blocks);
            for (bytes, block) in part.chunks_mut(Block::BYTES).zip(blocks) {
                bytes.copy_from_slice(&block.to_le_bytes()[..bytes.len()]);
            }
        }
    }

    /// The next block of the stream.
    pub fn block(&mut self) -> Block {
        let mut one = [Block::ZERO];
        self.fill(&mut one);
        one[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_does_not_depend_on_how_it_is_drawn() {
        let mut whole = vec![Block::ZERO; 300];
        Prg::new(Block(5)).fill(&mut whole);
        let mut prg = Prg::new(Block(5));
        let mut parts = vec![prg.block(), prg.block()];
        parts.resize(300, Block::ZERO);
        prg.fill(&mut parts[2..]);
        assert_eq!(parts, whole);

        let mut bytes = vec![0; 16 * 299 + 3];
        Prg::new(Block(5)).fill_bytes(&mut bytes);
        let expected: Vec<u8> = whole.iter().flat_map(|b| b.to_le_bytes()).collect();
        assert_eq!(bytes, expected[..bytes.len()]);
    }

    #[test]
    fn it_is_aes_of_the_counter() {
        let aes = Aes128::new(Block(9));
        let mut prg = Prg::new(Block(9));
        for i in 0..3 {
            assert_eq!(prg.block(), aes.encrypt(Block(i)));
        }
    }
}
