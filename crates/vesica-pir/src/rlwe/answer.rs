//! The server's side: the table as plaintexts, and the sum of the products of what a query selects and the table.
//!
//! With one row of blocks, each ciphertext of an expanded query is multiplied into the sum as soon as it is there: all
//! of them are some tens of mebibytes, and none is needed twice. With several rows each is needed once a row, so they
//! are kept, and the table lies in memory in the order in which one pass reads it ([`Grid`]).

use super::query::read;
use super::shape::Plan;
use super::{Ciphertext, Keys, RlwePir, Scheme, SwitchKey, bgv};
use crate::{PirError, Records};
use vesica_block::large;
use vesica_he::rgsw::Bit;
use vesica_params::rlwe::DIGITS;
use vesica_ring::{Grid, Line};

/// The table as it is answered from: plaintexts for each part of a record.
pub struct Store(Vec<Part>);

/// The plaintexts of one part of all records.
enum Part {
    /// One for each block, as [`vesica_he::rlwe::Rlwe::plaintext`] makes them.
    Row(Vec<Vec<u64>>),
    /// The blocks in rows.
    Rows(Grid),
}

impl RlwePir {
    /// The table as it is answered from, in [`RlwePir::store_bytes`] bytes of memory.
    ///
    /// # Errors
    /// [`PirError::Shape`] if the table has other sizes, or for CKKS a number in it is too large.
    pub fn store(&self, records: &dyn Records) -> Result<Store, PirError> {
        let Self { shape, ring, encoding } = self;
        if (records.len(), records.width()) != (shape.rows, shape.width) {
            let (rows, width) = (records.len(), records.width());
            let why = format!("{rows} records of {width} bytes, where {} of {} were agreed", shape.rows, shape.width);
            return Err(PirError::Shape(why));
        }
        let row = |part| {
            let block = |block| Ok(ring.plaintext(&encoding.plaintext(shape, records, block, part)?));
            Ok(Part::Row((0..shape.blocks).map(block).collect::<Result<_, PirError>>()?))
        };
        let rows = |part| {
            let (rows, columns, words) = (shape.table_rows(), shape.columns, shape.limbs * shape.set.n);
            let memory = large::filled(Line::ZERO, Grid::lines(rows, columns, words));
            let mut grid = Grid::new(rows, columns, words, memory);
            for block in 0..shape.blocks {
                let plaintext = encoding.plaintext(shape, records, block, part)?;
                let mut words = ring.basis().signed(shape.limbs, &plaintext);
                ring.basis().forward(&mut words);
                grid.set(block / columns, block % columns, &words);
            }
            Ok(Part::Rows(grid))
        };
        let part = |part| if shape.plan == Plan::Fold { rows(part) } else { row(part) };
        Ok(Store((0..shape.parts).map(part).collect::<Result<_, PirError>>()?))
    }

    /// The answers to some queries of a session in their order, each of [`RlwePir::sizes`] bytes.
    ///
    /// # Errors
    /// [`PirError::Message`] if one of them is none; then nothing was computed.
    pub fn answer(&self, store: &Store, keys: &Keys, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError> {
        let queries = queries.iter().map(|query| read(self, query)).collect::<Result<Vec<_>, _>>()?;
        let answer = |query| self.finish(self.select(store, keys, query));
        Ok(queries.into_iter().map(answer).collect())
    }

    /// For each part the sum of the products of what a query selects and the table.
    fn select(&self, Store(parts): &Store, Keys(keys): &Keys, mut query: Vec<Ciphertext>) -> Vec<Ciphertext> {
        let Self { shape, ring, .. } = self;
        let mut sums = vec![ring.zero(); shape.parts];
        let mut add = |block: usize, selector: &Ciphertext| {
            for (sum, part) in sums.iter_mut().zip(parts) {
                if let Part::Row(plaintexts) = part {
                    ring.add_product(sum, selector, &plaintexts[block]);
                }
            }
        };
        match shape.plan {
            Plan::Slots | Plan::Turn => query.iter().enumerate().for_each(|(block, selector)| add(block, selector)),
            Plan::Expand => ring.expand(query.remove(0), keys, shape.leaves(), add),
            Plan::Fold => return self.select_in_two(parts, keys, query.remove(0)),
        }
        sums
    }

    /// The same in two dimensions: the sum of each row, and then the one of them that the bits of the row's number
    /// choose.
    fn select_in_two(&self, parts: &[Part], keys: &[SwitchKey], query: Ciphertext) -> Vec<Ciphertext> {
        let Self { shape, ring, .. } = self;
        let mut leaves = vec![Ciphertext { b: vec![], a: vec![] }; shape.leaves()];
        ring.expand(query, &keys[..shape.levels()], shape.leaves(), |k, leaf| leaves[k] = leaf.clone());
        let rows = leaves.split_off(shape.columns);
        let bits: Vec<Bit> = rows.chunks(DIGITS).map(|rows| Bit::new(ring, rows, &keys[shape.levels()])).collect();
        let columns: Vec<[&[u64]; 2]> = leaves.iter().map(|column| [&column.b[..], &column.a]).collect();
        let sums = parts.iter().filter_map(|part| match part {
            Part::Rows(grid) => Some(grid.times(ring.basis(), &columns)),
            Part::Row(_) => None,
        });
        let choose = |sums: Vec<[Vec<u64>; 2]>| {
            let mut rows: Vec<Ciphertext> = sums.into_iter().map(|[b, a]| Ciphertext { b, a }).collect();
            for bit in &bits {
                rows = bit.choose(ring, rows);
            }
            rows.remove(0)
        };
        sums.map(choose).collect()
    }

    /// The bytes of an answer: each part's ciphertext, switched to one prime and to as few bits as the noise allows.
    fn finish(&self, sums: Vec<Ciphertext>) -> Vec<u8> {
        let Self { shape, ring, .. } = self;
        let mut out = Vec::with_capacity(shape.answer_bytes());
        for mut sum in sums {
            ring.switch_to_one(&mut sum);
            if shape.scheme == Scheme::Bgv {
                bgv::to_bfv(ring, &mut sum, shape.set.plain);
            }
            if shape.scheme == Scheme::Ckks {
                ring.write(&sum.b, &mut out);
                ring.write(&sum.a, &mut out);
            } else {
                let [b_bits, a_bits] = shape.set.answer_bits;
                ring.shorten(sum.b, b_bits, shape.b_words(), &mut out);
                ring.shorten(sum.a, a_bits, shape.set.n, &mut out);
            }
        }
        out
    }
}
