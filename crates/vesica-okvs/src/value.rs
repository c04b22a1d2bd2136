use vesica_block::prg::Prg;
use vesica_block::{Block, Row, select};

/// What a store holds: an element of a group of characteristic 2.
pub trait Value: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The sum.
    #[must_use]
    fn xor(self, other: Self) -> Self;

    /// The sum of the slots that the bits select, bit i for slot i.
    fn select(bits: &[u64], slots: &[Self]) -> Self;

    /// Overwrites all with random values.
    fn fill(free: &mut impl Free, out: &mut [Self]);
}

/// Where the values of free slots come from. Whoever sees a store sees them, so what hides the keys rests on it.
pub trait Free {
    /// Overwrites all with random blocks.
    fn fill(&mut self, out: &mut [Block]);
}

impl Free for Prg {
    fn fill(&mut self, out: &mut [Block]) {
        Prg::fill(self, out);
    }
}

impl Value for Block {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    fn select(bits: &[u64], slots: &[Self]) -> Self {
        select::blocks(bits, slots)
    }

    fn fill(free: &mut impl Free, out: &mut [Self]) {
        free.fill(out);
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

    fn fill(free: &mut impl Free, out: &mut [Self]) {
        let mut blocks = [Block::ZERO; 128];
        for part in out.chunks_mut(2 * blocks.len()) {
            let blocks = &mut blocks[..part.len().div_ceil(2)];
            free.fill(blocks);
            for (words, block) in part.chunks_mut(2).zip(blocks) {
                words.copy_from_slice(&[block.low(), block.high()][..words.len()]);
            }
        }
    }
}

impl<const N: usize> Value for Row<N> {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    fn select(bits: &[u64], slots: &[Self]) -> Self {
        let mut sum = Self::ZERO;
        for (bits, slots) in bits.iter().zip(slots.chunks(64)) {
            for (i, slot) in slots.iter().enumerate() {
                let chosen = (bits >> i & 1).wrapping_neg();
                sum ^= Self(slot.0.map(|word| word & chosen));
            }
        }
        sum
    }

    fn fill(free: &mut impl Free, out: &mut [Self]) {
        let mut words = vec![0; 1024 * N];
        for part in out.chunks_mut(1024) {
            u64::fill(free, &mut words[..part.len() * N]);
            part.iter_mut().zip(words.chunks_exact(N)).for_each(|(row, words)| row.0.copy_from_slice(words));
        }
    }
}

/// 32 bytes.
impl Value for [Block; 2] {
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        [self[0] ^ other[0], self[1] ^ other[1]]
    }

    fn select(bits: &[u64], slots: &[Self]) -> Self {
        select::pairs(bits, slots)
    }

    fn fill(free: &mut impl Free, out: &mut [Self]) {
        free.fill(out.as_flattened_mut());
    }
}
