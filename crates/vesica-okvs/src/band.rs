//! Stores by random bands: the fewest slots.
//!
//! [BPSY23] Bienstock, Patel, Seo, Yeo, "Near-Optimal Oblivious Key-Value Stores for Efficient PSI, PSU and Volume-Hiding
//! Multi-Maps", USENIX Security 2023, eprint 2023/903, section 4. A key's value is the sum of those of w consecutive slots
//! that w random bits select.
//!
//! Encoding eliminates rows in the order of their starts, so that what it touches stays within a few bands of where it
//! is, and solves from the last column to the first.

use crate::rows::RowHash;
use crate::{Error, Free, Okvs, Value};
use vesica_block::Block;
use vesica_params::okvs::BandShape;
use vesica_types::Digest;

/// Most 128-bit blocks of a band.
const BLOCKS: usize = 7;
/// Most words of a band.
const WORDS: usize = 2 * BLOCKS;

/// A store by random bands.
pub struct Band {
    shape: BandShape,
    /// One line for the start, the others for the bits.
    hash: RowHash<{ 1 + BLOCKS }>,
}

/// A row: bit i of `bits` is the coefficient of slot `start` + i.
struct Row {
    start: usize,
    bits: [u64; WORDS],
}

impl Band {
    /// Stores of this shape under this seed, which is public and drawn after the keys are fixed.
    ///
    /// # Panics
    /// If the shape is not one of `vesica_params::okvs::band`.
    pub fn new(shape: BandShape, seed: Block) -> Self {
        assert!((1..=64 * WORDS as u32).contains(&shape.width) && shape.width <= shape.slots, "{shape:?}");
        Self { shape, hash: RowHash::new(seed) }
    }

    /// Calls `each` with every key's number and row, in order.
    fn rows(&self, keys: &[Digest], mut each: impl FnMut(usize, &Row)) {
        let width = self.shape.width as usize;
        let starts = u64::from(self.shape.slots - self.shape.width) + 1;
        self.hash.batches(keys, |first, n, hashed| {
            for i in 0..n {
                let start = (u128::from(hashed[0][i].low()) * u128::from(starts)) >> 64;
                let mut row = Row { start: start as usize, bits: [0; WORDS] };
                for (words, line) in row.bits.chunks_mut(2).zip(&hashed[1..]).take(width.div_ceil(128)) {
                    words.copy_from_slice(&[line[i].low(), line[i].high()]);
                }
                row.bits[width.div_ceil(64)..].fill(0);
                row.bits[(width - 1) / 64] &= u64::MAX >> (63 - (width - 1) % 64);
                each(first + i, &row);
            }
        });
    }

    /// Words of a band.
    fn words(&self) -> usize {
        self.shape.width.div_ceil(64) as usize
    }
}

impl Okvs for Band {
    fn len(&self) -> usize {
        self.shape.slots as usize
    }

    fn encode<V: Value>(&self, keys: &[Digest], values: &[V], free: &mut impl Free) -> Result<Vec<V>, Error> {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        let mut order = vec![(0, 0); keys.len()];
        self.rows(keys, |key, row| order[key] = (row.start, key));
        order.sort_unstable();
        // Gathered at once: loads that wait for nothing, where elimination would wait for each.
        let (keys_in_order, values): (Vec<Digest>, Vec<V>) =
            order.iter().map(|&(_, key)| (keys[key], values[key])).unzip();

        let mut matrix = Matrix::<V>::new(self.len(), self.words());
        let mut independent = true;
        self.rows(&keys_in_order, |i, row| independent &= matrix.add(row, values[i]));
        if !independent {
            return Err(Error::of(keys));
        }
        let mut store = vec![V::default(); self.len()];
        V::fill(free, &mut store);
        matrix.solve(&mut store);
        Ok(store)
    }

    fn decode<V: Value>(&self, keys: &[Digest], store: &[V], out: &mut Vec<V>) {
        assert_eq!(store.len(), self.len(), "a store of this shape");
        out.reserve(keys.len());
        let words = self.words();
        self.rows(keys, |_, row| out.push(V::select(&row.bits[..words], &store[row.start..])));
    }
}

/// Rows in echelon form: at most one that begins in a column.
///
/// Bits stand in words that begin at multiples of 64 columns, so that rows with different starts are added without shifts.
struct Matrix<V> {
    /// Words of a row: one more than of a band.
    words: usize,
    /// The words of the row that begins in a column.
    bits: Vec<u64>,
    /// Where these words begin, as a multiple of 64 columns; [`NONE`] if no row begins there.
    bases: Vec<u32>,
    sums: Vec<V>,
}

/// No row.
const NONE: u32 = u32::MAX;

impl<V: Value> Matrix<V> {
    fn new(columns: usize, words: usize) -> Self {
        let words = words + 1;
        Self { words, bits: vec![0; columns * words], bases: vec![NONE; columns], sums: vec![V::default(); columns] }
    }

    /// Adds a row that starts nowhere before those added so far, less those that begin where it does, until it begins
    /// where none does; false if nothing is left of it.
    fn add(&mut self, row: &Row, mut sum: V) -> bool {
        let (base, shift) = (row.start / 64, row.start as u32 % 64);
        let mut bits = [0; WORDS + 1];
        let bits = &mut bits[..self.words];
        for (i, word) in row.bits[..self.words - 1].iter().enumerate() {
            bits[i] |= word << shift;
            bits[i + 1] = word.checked_shr(64 - shift).unwrap_or(0);
        }
        while let Some(first) = bits.iter().position(|&word| word != 0) {
            let column = 64 * (base + first) + bits[first].trailing_zeros() as usize;
            let here = &mut self.bits[column * self.words..][..self.words];
            if self.bases[column] == NONE {
                here.copy_from_slice(bits);
                (self.bases[column], self.sums[column]) = (base as u32, sum);
                return true;
            }
            let earlier = base - self.bases[column] as usize;
            bits[first..].iter_mut().zip(&here[first + earlier..]).for_each(|(bits, here)| *bits ^= here);
            sum = sum.xor(self.sums[column]);
        }
        false
    }

    /// Gives each slot at which a row begins its value, the last first; all others stand.
    fn solve(&self, store: &mut [V]) {
        for (column, bits) in self.bits.chunks(self.words).enumerate().rev() {
            let base = self.bases[column];
            if base != NONE {
                // The slot itself is among those added up.
                let others = V::select(bits, &store[64 * base as usize..]).xor(store[column]);
                store[column] = self.sums[column].xor(others);
            }
        }
    }
}
