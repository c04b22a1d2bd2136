//! Sums of what bits select: rows of a binary matrix times a vector.

use crate::Block;
use crate::backend::{Kernel, Lanes, Ready};

/// The sum (exclusive or) of the words whose bits are set; bit i stands for `words[i]`, and bits beyond the words for none.
pub fn words(bits: &[u64], words: &[u64]) -> u64 {
    Ready::chosen().wide(Words { bits, words })
}

/// The sum (exclusive or) of the blocks whose bits are set; bit i stands for `blocks[i]`, and bits beyond the blocks for none.
pub fn blocks(bits: &[u64], blocks: &[Block]) -> Block {
    Ready::chosen().wide(Blocks { bits, blocks })
}

/// The sum (exclusive or) of the pairs of blocks whose bits are set; bit i stands for `pairs[i]`, and bits beyond the pairs for none.
pub fn pairs(bits: &[u64], pairs: &[[Block; 2]]) -> [Block; 2] {
    Ready::chosen().wide(Pairs { bits, pairs })
}

struct Words<'a> {
    bits: &'a [u64],
    words: &'a [u64],
}

impl Kernel for Words<'_> {
    type Out = u64;
    #[inline(always)]
    fn run<V: Lanes>(self) -> u64 {
        let mut sum = V::ZERO;
        for (&bits, words) in self.bits.iter().zip(self.words.chunks(64)) {
            match words.first_chunk::<64>() {
                // The same again, unrolled.
                Some(words) => add_words(&mut sum, bits, words),
                None => add_words(&mut sum, bits, words),
            }
        }
        let sum = fold(sum);
        sum.low() ^ sum.high()
    }
}

struct Blocks<'a> {
    bits: &'a [u64],
    blocks: &'a [Block],
}

impl Kernel for Blocks<'_> {
    type Out = Block;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Block {
        let mut sum = V::ZERO;
        for (&bits, blocks) in self.bits.iter().zip(self.blocks.chunks(64)) {
            match blocks.first_chunk::<64>() {
                // The same again, unrolled.
                Some(blocks) => add_blocks(&mut sum, bits, blocks),
                None => add_blocks(&mut sum, bits, blocks),
            }
        }
        fold(sum)
    }
}

struct Pairs<'a> {
    bits: &'a [u64],
    pairs: &'a [[Block; 2]],
}

impl Kernel for Pairs<'_> {
    type Out = [Block; 2];
    #[inline(always)]
    fn run<V: Lanes>(self) -> [Block; 2] {
        // Of lanes of one block, the second sum is that of the second blocks; of wider ones it stays zero.
        let mut sums = [V::ZERO; 2];
        for (&bits, pairs) in self.bits.iter().zip(self.pairs.chunks(64)) {
            match pairs.first_chunk::<64>() {
                // The same again, unrolled.
                Some(pairs) => add_pairs(&mut sums, bits, pairs),
                None => add_pairs(&mut sums, bits, pairs),
            }
        }
        let mut lanes = [[Block::ZERO; 2]; 2];
        if V::WIDTH == 1 {
            return sums.map(fold);
        }
        sums[0].store(&mut lanes.as_flattened_mut()[..V::WIDTH]);
        [lanes[0][0] ^ lanes[1][0], lanes[0][1] ^ lanes[1][1]]
    }
}

// What adds up to 64 of them stands in functions: a closure is not certain to end up inside the back end's function, and outside of it all
// instructions of a vector are calls (`cargo xtask inlined`).

#[inline(always)]
fn add_words<V: Lanes>(sum: &mut V, bits: u64, words: &[u64]) {
    for (i, words) in words.chunks(2 * V::WIDTH).enumerate() {
        *sum = sum.xor(V::load_words(words).keep(bits >> (2 * V::WIDTH * i)));
    }
}

#[inline(always)]
fn add_blocks<V: Lanes>(sum: &mut V, bits: u64, blocks: &[Block]) {
    /// Each of four bits twice.
    const TWICE: [u64; 16] = {
        let mut twice = [0; 16];
        let mut bits = 0;
        while bits < 16 {
            let mut i = 0;
            while i < 4 {
                twice[bits] |= (bits as u64 >> i & 1) * (0b11 << (2 * i));
                i += 1;
            }
            bits += 1;
        }
        twice
    };
    for (i, blocks) in blocks.chunks(V::WIDTH).enumerate() {
        let bits = (bits >> (V::WIDTH * i)) as usize & 0xf;
        *sum = sum.xor(V::load(blocks).keep(TWICE[bits]));
    }
}

#[inline(always)]
fn add_pairs<V: Lanes>(sums: &mut [V; 2], bits: u64, pairs: &[[Block; 2]]) {
    /// Each of two bits four times.
    const FOUR_TIMES: [u64; 4] = [0, 0x0f, 0xf0, 0xff];
    let width = (V::WIDTH / 2).max(1);
    for (i, pairs) in pairs.chunks(width).enumerate() {
        let kept = FOUR_TIMES[(bits >> (width * i)) as usize & 0b11];
        if V::WIDTH == 1 {
            sums[0] = sums[0].xor(V::load(&pairs[0][..1]).keep(kept & 0b11));
            sums[1] = sums[1].xor(V::load(&pairs[0][1..]).keep(kept & 0b11));
        } else {
            sums[0] = sums[0].xor(V::load(pairs.as_flattened()).keep(kept));
        }
    }
}

/// The sum of all lanes.
#[inline(always)]
fn fold<V: Lanes>(sum: V) -> Block {
    let mut lanes = [Block::ZERO; 4];
    sum.store(&mut lanes[..V::WIDTH]);
    lanes.into_iter().fold(Block::ZERO, |sum, lane| sum ^ lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, SIZES};

    #[test]
    fn sums_are_the_definition_on_every_back_end() {
        for n in SIZES {
            let blocks = checks::blocks(n, 1);
            let words: Vec<u64> = blocks.iter().map(|block| block.low() ^ block.high() << 1).collect();
            // As many bits as there are slots, fewer, and more.
            for length in [n.div_ceil(64), n / 64, n / 64 + 2] {
                let bits: Vec<u64> = checks::blocks(length, 2).iter().map(|block| block.low()).collect();
                let chosen = |i: &usize| bits.get(i / 64).is_some_and(|bits| bits >> (i % 64) & 1 == 1);
                let word = (0..n).filter(chosen).fold(0, |sum, i| sum ^ words[i]);
                let block = (0..n).filter(chosen).fold(Block::ZERO, |sum, i| sum ^ blocks[i]);
                let pairs: Vec<[Block; 2]> =
                    blocks.iter().zip(checks::blocks(n, 3)).map(|(&low, high)| [low, high]).collect();
                let pair =
                    (0..n).filter(chosen).fold([Block::ZERO; 2], |sum, i| [sum[0] ^ pairs[i][0], sum[1] ^ pairs[i][1]]);
                for ready in Ready::all() {
                    assert_eq!(ready.wide(Pairs { bits: &bits, pairs: &pairs }), pair, "{ready:?}, {n}");
                    assert_eq!(ready.wide(Words { bits: &bits, words: &words }), word, "{ready:?}, {n}");
                    assert_eq!(ready.wide(Blocks { bits: &bits, blocks: &blocks }), block, "{ready:?}, {n}");
                }
            }
        }
    }
}
