//! Rows of more bits than a block has.

use crate::Block;
use std::ops::{BitXor, BitXorAssign};
use zeroize::DefaultIsZeroes;

/// 64·N bits; bit i is bit i mod 64 of word i / 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row<const N: usize>(pub [u64; N]);

impl<const N: usize> Row<N> {
    /// No bit set.
    pub const ZERO: Self = Self([0; N]);

    /// Length in bytes.
    pub const BYTES: usize = 8 * N;

    /// The bytes, the least significant first.
    pub fn write_to(&self, bytes: &mut [u8]) {
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    }

    /// Block i: bits 128·i and up. Those beyond the row are zero.
    #[inline]
    pub fn block(&self, i: usize) -> Block {
        let word = |i: usize| self.0.get(i).copied().unwrap_or(0);
        Block::from_halves(word(2 * i), word(2 * i + 1))
    }

    /// Overwrites block i; bits beyond the row are dropped.
    #[inline]
    pub fn set_block(&mut self, i: usize, block: Block) {
        self.0[2 * i..].iter_mut().zip([block.low(), block.high()]).for_each(|(word, half)| *word = half);
    }
}

impl<const N: usize> Default for Row<N> {
    fn default() -> Self {
        Self::ZERO
    }
}

impl<const N: usize> DefaultIsZeroes for Row<N> {}

impl<const N: usize> BitXor for Row<N> {
    type Output = Self;
    #[inline(always)]
    fn bitxor(mut self, other: Self) -> Self {
        self ^= other;
        self
    }
}

impl<const N: usize> BitXorAssign for Row<N> {
    #[inline(always)]
    fn bitxor_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a ^= b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_row_are_its_bits() {
        let mut row = Row([1, 2, 3]);
        assert_eq!([row.block(0), row.block(1)], [Block::from_halves(1, 2), Block::from_halves(3, 0)]);
        row.set_block(1, Block::from_halves(7, 9));
        row.set_block(0, Block::from_halves(5, 6));
        assert_eq!(row, Row([5, 6, 7]));
        let mut bytes = [0; 24];
        row.write_to(&mut bytes);
        assert_eq!(bytes, [[5, 0, 0, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0, 0]].concat()[..]);
        assert_eq!(row ^ Row([4, 4, 4]), Row([1, 2, 3]));
    }
}
