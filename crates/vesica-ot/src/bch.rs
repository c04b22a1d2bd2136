//! Words of a BCH code, 128 at a time.
//!
//! `vesica_params::bch` says which codes there are and why their words are far apart. A word's first places are what it says, and the
//! others its redundancy: the remainder of x^r·message(x) by the generator g(x), of degree r.
//!
//! Words come as columns: bit j of block t of column i is place i of word 128·t + j. So an addition of two blocks adds 128 bits, and
//! nothing depends on a bit. Four columns that are added into a column of redundancy are looked up in a table of their 16 sums
//! (Arlazarov, Dinic, Kronrod, Faradzhev 1970).

use crate::backend::{self, Kernel, Symbol};
use vesica_block::transpose::transpose;
use vesica_block::{Block, Row};
use vesica_cpu::Backend;
use vesica_params::bch::BchSet;
use zeroize::Zeroizing;

/// Blocks of a column that are encoded at once: columns have a multiple of so many.
pub const STEP: usize = 2;

/// Blocks of a column that are made into rows at once.
pub(crate) const BATCH: usize = 32;

/// The most groups of four columns that a word's first places are.
const GROUPS: usize = 64;

/// A code.
pub struct Bch {
    set: &'static BchSet,
    /// For each column of redundancy, which of each four columns it adds up: a number of four bits for each group.
    taps: Vec<u8>,
}

impl Bch {
    /// The code of these parameters.
    ///
    /// # Panics
    /// If they are no code's.
    pub fn new(set: &'static BchSet) -> Self {
        let (generator, redundancy) = (generator(set), set.redundancy());
        assert_eq!(generator.len(), redundancy + 1, "the degree of the generator of {}", set.id);
        assert!(set.dimension <= 4 * GROUPS, "a code of dimension {}", set.dimension);
        let groups = set.dimension.div_ceil(4);
        let mut taps = vec![0; redundancy * groups];
        // x^(r + i) modulo g, for i = 0, 1, …
        let mut remainder = generator[..redundancy].to_vec();
        for i in 0..set.dimension {
            for (j, _) in remainder.iter().enumerate().filter(|(_, bit)| **bit) {
                taps[j * groups + i / 4] |= 1 << (i % 4);
            }
            let carry = remainder[redundancy - 1];
            remainder.rotate_right(1);
            remainder[0] = false;
            remainder.iter_mut().zip(&generator).for_each(|(bit, g)| *bit ^= carry & g);
        }
        Self { set, taps }
    }

    /// Bits of a word.
    pub fn length(&self) -> usize {
        self.set.length
    }

    /// Bits of what a word says.
    pub fn dimension(&self) -> usize {
        self.set.dimension
    }

    /// The columns of the words that `messages` say, as many blocks each as hold them, and at least `blocks`. Bits of a message beyond
    /// what a word says are passed over.
    ///
    /// # Panics
    /// If the blocks are not a multiple of [`STEP`], or too few.
    pub fn columns<const K: usize>(&self, messages: &[Row<K>], blocks: usize) -> Vec<Block> {
        assert!(messages.len() <= 128 * blocks, "{} messages in {blocks} blocks", messages.len());
        let mut columns = vec![Block::ZERO; self.set.length * blocks];
        let wide = K.div_ceil(2);
        let [mut rows, mut turned] = [0, 1].map(|_| vec![Block::ZERO; 128 * wide]);
        for (t, messages) in messages.chunks(128).enumerate() {
            rows.fill(Block::ZERO);
            for (row, message) in rows.chunks_exact_mut(wide).zip(messages) {
                row.iter_mut().enumerate().for_each(|(i, block)| *block = message.block(i));
            }
            transpose(&rows, &mut turned);
            for (i, &column) in turned[..self.set.dimension].iter().enumerate() {
                columns[i * blocks + t] = column;
            }
        }
        self.encode(&mut columns, blocks);
        columns
    }

    /// The words that `messages` say, a row each, of at least as many bits as a word.
    pub fn words<const K: usize, const W: usize>(&self, messages: &[Row<K>]) -> Vec<Row<W>> {
        assert!(self.set.length <= 64 * W, "a word of {} bits in a row of {}", self.set.length, 64 * W);
        let mut words = Vec::with_capacity(messages.len().next_multiple_of(128));
        for messages in messages.chunks(128 * BATCH) {
            let blocks = messages.len().div_ceil(128).next_multiple_of(STEP);
            turn(&self.columns(messages, blocks), blocks, &mut words);
        }
        words.truncate(messages.len());
        words
    }

    /// Overwrites the columns of redundancy with those of the words whose other columns are given.
    ///
    /// # Panics
    /// If there are not `blocks` blocks in each column, a multiple of [`STEP`].
    pub fn encode(&self, columns: &mut [Block], blocks: usize) {
        self.encode_on(Backend::chosen(), columns, blocks);
    }

    fn encode_on(&self, backend: Backend, columns: &mut [Block], blocks: usize) {
        assert!(columns.len() == self.set.length * blocks && blocks.is_multiple_of(STEP), "{blocks} blocks a column");
        let (messages, redundancy) = columns.split_at_mut(self.set.dimension * blocks);
        backend::run_on(backend, Encode { taps: &self.taps, messages, redundancy, blocks });
    }
}

struct Encode<'a> {
    taps: &'a [u8],
    messages: &'a [Block],
    redundancy: &'a mut [Block],
    blocks: usize,
}

impl Kernel<STEP> for Encode<'_> {
    #[inline(always)]
    fn run<S: Symbol<STEP>>(self) {
        let Self { taps, messages, redundancy, blocks } = self;
        let groups = (messages.len() / blocks.max(1)).div_ceil(4);
        let mut sums = [[S::ZERO; 16]; GROUPS];
        for at in (0..blocks).step_by(STEP) {
            for (sums, group) in sums.iter_mut().zip(messages.chunks(4 * blocks)) {
                for (bit, column) in group.chunks_exact(blocks).enumerate() {
                    let column = S::load(&column.as_chunks().0[at / STEP]);
                    for i in 0..1 << bit {
                        sums[i | 1 << bit] = sums[i].add(column);
                    }
                }
            }
            for (column, taps) in redundancy.chunks_exact_mut(blocks).zip(taps.chunks_exact(groups)) {
                // Two sums, so that none waits for the other.
                let mut total = [S::ZERO; 2];
                for (sums, taps) in sums.as_chunks::<2>().0.iter().zip(taps.chunks(2)) {
                    for ((total, sums), &tap) in total.iter_mut().zip(sums).zip(taps) {
                        *total = total.add(sums[usize::from(tap & 15)]);
                    }
                }
                total[0].add(total[1]).store(&mut column.as_chunks_mut().0[at / STEP]);
            }
        }
    }
}

/// Appends the rows of columns of `len` blocks each, at most [`BATCH`].
pub(crate) fn turn<const R: usize>(columns: &[Block], len: usize, rows: &mut Vec<Row<R>>) {
    let first = rows.len();
    rows.resize(first + 128 * len, Row::ZERO);
    let rows = &mut rows[first..];
    let [mut some, mut turned] = [0, 1].map(|_| Zeroizing::new(vec![Block::ZERO; 128 * len]));
    for (i, columns) in columns.chunks(128 * len).enumerate() {
        if columns.len() == turned.len() {
            transpose(columns, &mut turned);
        } else {
            // Fewer than 128 columns are left: the others are zero.
            some.fill(Block::ZERO);
            some[..columns.len()].copy_from_slice(columns);
            transpose(&some, &mut turned);
        }
        rows.iter_mut().zip(turned.iter()).for_each(|(row, &block)| row.set_block(i, block));
    }
}

/// g, from its constant term on.
fn generator(set: &BchSet) -> Vec<bool> {
    let order = (1usize << set.field) - 1;
    // Powers of α, and their logarithms.
    let (mut powers, mut logs) = (vec![0u32; order], vec![0; order + 1]);
    let mut power = 1;
    for i in 0..order {
        (powers[i], logs[power as usize]) = (power, i);
        power <<= 1;
        if power >> set.field & 1 == 1 {
            power ^= set.polynomial;
        }
    }
    let times = |a: u32, log: usize| if a == 0 { 0 } else { powers[(logs[a as usize] + log) % order] };
    // The exponents of 1, α, …, α^(d - 2) and of their conjugates.
    let mut zeros = vec![false; order];
    for i in 0..set.distance as usize - 1 {
        let mut conjugate = i;
        while !zeros[conjugate] {
            zeros[conjugate] = true;
            conjugate = 2 * conjugate % order;
        }
    }
    let mut product = vec![1u32];
    for (log, _) in zeros.iter().enumerate().filter(|(_, zero)| **zero) {
        // (x + α^log)·product.
        let scaled: Vec<u32> = product.iter().map(|&a| times(a, log)).chain([0]).collect();
        product.insert(0, 0);
        product.iter_mut().zip(scaled).for_each(|(a, b)| *a ^= b);
    }
    product.into_iter().map(|coefficient| coefficient == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_block::prg::Prg;
    use vesica_params::bch::{NARROW, WIDE};

    fn octal(generator: &[bool]) -> String {
        let digit = |bits: &[bool]| bits.iter().rev().fold(0, |digit, &bit| 2 * digit + u32::from(bit));
        generator.chunks(3).rev().map(|bits| digit(bits).to_string()).collect()
    }

    /// g without the factor x + 1, against the table of Lin, Costello, "Error Control Coding", appendix C.
    #[test]
    fn generators_are_the_published_ones() {
        for (field, polynomial, errors, published) in [
            (4, 0x13, 2, "721"),
            (4, 0x13, 3, "2467"),
            (5, 0x25, 3, "107657"),
            (6, 0x43, 3, "1701317"),
            (8, 0x11d, 1, "435"),
            (8, 0x11d, 2, "267543"),
            (8, 0x11d, 3, "156720665"),
        ] {
            let even = generator(&BchSet { field, polynomial, distance: 2 * errors + 2, ..NARROW });
            // Division by x + 1, from the highest coefficient down.
            let mut quotient = vec![false; even.len() - 1];
            let mut carry = false;
            for i in (1..even.len()).rev() {
                carry ^= even[i];
                quotient[i - 1] = carry;
            }
            assert_eq!(carry, even[0], "{published}: x + 1 divides it");
            assert_eq!(octal(&quotient), published);
        }
        assert_eq!([NARROW, WIDE].map(|set| generator(&set).len() - 1), [117, 136]);
    }

    fn words<const K: usize>(code: &Bch, messages: &[Row<K>]) -> Vec<Vec<bool>> {
        let blocks = messages.len().div_ceil(128).next_multiple_of(STEP);
        let columns = code.columns(messages, blocks);
        let word =
            |j: usize| columns.chunks_exact(blocks).map(|column| column[j / 128].0 >> (j % 128) & 1 == 1).collect();
        (0..messages.len()).map(word).collect()
    }

    /// Every word is a multiple of g: division leaves nothing.
    fn words_are_multiples<const K: usize>(set: &'static BchSet) {
        let code = Bch::new(set);
        let mut prg = Prg::new(Block(1));
        let messages: Vec<Row<K>> = (0..300).map(|_| Row(std::array::from_fn(|_| prg.block().low()))).collect();
        let generator = generator(set);
        for (word, message) in words(&code, &messages).into_iter().zip(&messages) {
            let says: Vec<bool> = (0..set.dimension).map(|i| message.0[i / 64] >> (i % 64) & 1 == 1).collect();
            assert_eq!(word[..set.dimension], says);
            // As a polynomial, the redundancy is the lower part.
            let mut rest = [&word[set.dimension..], &word[..set.dimension]].concat();
            for top in (set.redundancy()..rest.len()).rev() {
                if rest[top] {
                    let low = top - set.redundancy();
                    rest[low..].iter_mut().zip(&generator).for_each(|(bit, &g)| *bit ^= g);
                }
            }
            assert!(!rest.contains(&true), "{}", set.id);
        }
    }

    #[test]
    fn words_are_multiples_of_the_generator() {
        words_are_multiples::<2>(&NARROW);
        words_are_multiples::<4>(&WIDE);
    }

    /// Of random messages, and of all that have one bit or two: those are the likeliest to have light words.
    fn no_word_is_light<const K: usize>(set: &'static BchSet) {
        let code = Bch::new(set);
        let bit = |i: usize| Row::<K>(std::array::from_fn(|word| if word == i / 64 { 1 << (i % 64) } else { 0 }));
        let ones = (0..set.dimension).map(bit);
        let twos = (0..set.dimension).flat_map(|i| (0..i).map(move |j| bit(i) ^ bit(j)));
        let mut prg = Prg::new(Block(2));
        let random = (0..5000).map(|_| Row::<K>(std::array::from_fn(|_| prg.block().low())));
        let messages: Vec<Row<K>> = ones.chain(twos).chain(random).collect();
        let least = words(&code, &messages).iter().map(|word| word.iter().filter(|bit| **bit).count()).min().unwrap();
        assert!(least >= set.distance as usize && least < 2 * set.distance as usize, "{}: {least}", set.id);
    }

    #[test]
    fn words_are_as_far_apart_as_their_set_says() {
        no_word_is_light::<2>(&NARROW);
        no_word_is_light::<4>(&WIDE);
    }

    #[test]
    fn rows_of_words_are_their_columns() {
        let code = Bch::new(&NARROW);
        for n in [0, 1, 200, 128 * BATCH + 3] {
            let messages: Vec<Row<2>> =
                (0..n as u64).map(|i| Row([i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i])).collect();
            let rows: Vec<Row<3>> = code.words(&messages);
            let bits = |row: &Row<3>| (0..192).map(|i| row.0[i / 64] >> (i % 64) & 1 == 1).collect::<Vec<_>>();
            assert_eq!(rows.iter().map(bits).collect::<Vec<_>>(), words(&code, &messages));
        }
    }

    #[test]
    fn every_back_end_encodes_alike() {
        for set in [&NARROW, &WIDE] {
            let code = Bch::new(set);
            for blocks in [STEP, 3 * STEP] {
                let mut columns = vec![Block::ZERO; set.length * blocks];
                Prg::new(Block(5)).fill(&mut columns);
                let on = |backend| {
                    let mut columns = columns.clone();
                    code.encode_on(backend, &mut columns, blocks);
                    columns
                };
                assert_eq!(on(Backend::Portable), on(Backend::chosen()));
            }
        }
    }
}
