//! How batches of field elements lie in memory, whatever the back end.

use super::{Fe, invert_all};
use crate::field::Lanes;
use zeroize::Zeroize;

/// Eight elements as canonical numbers of four words: word by word, so that each back end loads its lanes from one place.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Block(pub(crate) [[u64; Block::LANES]; 4]);

impl Block {
    /// How many elements there are in one.
    pub(crate) const LANES: usize = 8;

    /// The same number below 2^64 everywhere.
    pub(crate) const fn filled(number: u64) -> Self {
        Self([[number; 8], [0; 8], [0; 8], [0; 8]])
    }

    /// The elements of one vector.
    #[inline(always)]
    pub(crate) fn load<V: Lanes>(&self, part: usize) -> Fe<V> {
        let at = part * V::WIDTH;
        let [w0, w1, w2, w3] = &self.0;
        Fe::from_words([V::load(&w0[at..]), V::load(&w1[at..]), V::load(&w2[at..]), V::load(&w3[at..])])
    }

    /// Writes those of one vector.
    #[inline(always)]
    pub(crate) fn store<V: Lanes>(&mut self, part: usize, element: &Fe<V>) {
        for (words, word) in self.0.iter_mut().zip(element.to_words()) {
            word.store(&mut words[part * V::WIDTH..]);
        }
    }
}

impl Zeroize for Block {
    fn zeroize(&mut self) {
        self.0.as_flattened_mut().zeroize();
    }
}

/// How many blocks are worked on together: they share one inversion, and stay in the cache.
pub(crate) const CHUNK: usize = 64;

/// The vectors of `V` that `len` elements fill, as block and part.
#[inline(always)]
pub(crate) fn vectors<V: Lanes>(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = Block::LANES / V::WIDTH;
    (0..len.div_ceil(V::WIDTH)).map(move |i| (i / parts, i % parts))
}

/// Divides the elements of the blocks; what is divided by 0 becomes 0, as in RFC 7748.
#[inline(always)]
pub(crate) fn divide<V: Lanes>(blocks: &mut [Block], denominators: &mut [Fe<V>]) {
    invert_all(denominators);
    multiply(blocks, denominators);
}

/// Multiplies the elements of the blocks.
#[inline(always)]
pub(crate) fn multiply<V: Lanes>(blocks: &mut [Block], factors: &[Fe<V>]) {
    for ((block, part), factor) in vectors::<V>(factors.len() * V::WIDTH).zip(factors) {
        let product = blocks[block].load(part).mul(factor);
        blocks[block].store(part, &product);
    }
}
