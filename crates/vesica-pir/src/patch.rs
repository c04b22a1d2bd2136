//! Changed records, and how a client's hint follows them.
//!
//! If byte (r, c) of the database grows by δ, row r of H = D·A grows by δ times row c of A, which the client can compute. So a patch holds
//! differences of bytes and no words of H, as long as few columns change. δ is a difference of bytes as [`crate::simple`] reads them, from
//! -255 to 255: if 127 becomes 128, it is -255. The client adds exact 32-bit words to the rounded ones that it has, so the rounding error
//! stays what it was. Where so many columns of the same rows change that whole rows of H are shorter, the patch holds rows.
//!
//! As it travels: the epoch that it leads away from, and entries. A cell entry is 0, row, column, and a chunk of differences of two bytes
//! each. A row entry is 1, row, and a packed row of H. All numbers are little-endian.

use crate::epoch::HALF_CHANGED;
use crate::simple::{DEGREE, Hint, SimplePir, Store, place, unpacked};
use crate::{Epoch, PirError, check_index};
use std::collections::BTreeMap;
use vesica_he::lwe::{ServerMatrix, add_row};
use vesica_params::lwe::{SIMPLE, Shape};

const CELL: u8 = 0;
const ROW: u8 = 1;

/// Records that change, each by its index.
type Changes<'a> = Vec<(u64, &'a [u8])>;

/// The changes by the row at which a record begins. The last change of a record counts; records are sorted, so a patch does not tell in which
/// order they changed.
///
/// # Errors
/// If a record is not in the table or has another length.
pub(crate) fn by_row<'a>(shape: &Shape, changes: &[(u64, &'a [u8])]) -> Result<BTreeMap<usize, Changes<'a>>, PirError> {
    let Shape { records, width, .. } = *shape;
    for (index, record) in changes {
        check_index(*index, records)?;
        if record.len() != width as usize {
            let is = record.len();
            return Err(PirError::Shape(format!("record {index} has {is} bytes, in a table of {width} bytes each")));
        }
    }
    let changes: BTreeMap<u64, &[u8]> = changes.iter().copied().collect();
    let mut by_row: BTreeMap<usize, Changes<'_>> = BTreeMap::new();
    for (index, record) in changes {
        by_row.entry(place(shape, index).0).or_default().push((index, record));
    }
    Ok(by_row)
}

impl SimplePir {
    /// Bytes of an entry for a chunk that changed.
    fn cell_bytes(&self) -> usize {
        1 + 4 + 4 + 2 * self.shape.chunk_bytes() as usize
    }

    /// Bytes of the entries for so many records of the same rows that changed.
    fn cells_bytes(&self, records: usize) -> usize {
        records * self.shape.chunks as usize * self.cell_bytes()
    }

    /// Bytes of the entries for all rows of the hint that a record takes.
    fn rows_bytes(&self) -> usize {
        self.shape.chunk_bytes() as usize * (5 + self.shape.hint_row_bytes())
    }

    /// Bytes of a patch in which so many groups of records ([`Shape::group`]) change as a whole.
    pub fn patch_bytes(&self, groups: usize) -> u64 {
        let group = self.cells_bytes(self.shape.group() as usize).min(self.rows_bytes());
        (Epoch::BYTES + groups * group) as u64
    }

    /// Changes records in the database, and returns the patch for those who have the hint of the epoch before. The number of records
    /// stays what it is.
    ///
    /// # Errors
    /// If a record is not in the table or has another length; nothing was changed then. If a new row of the hint is rounded badly; then
    /// the table must be prepared anew.
    pub fn change(&self, store: &mut Store, changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError> {
        let by_row = by_row(&self.shape, changes)?;
        let before = store.epoch;
        let mut patch = before.to_bytes().to_vec();
        // If this fails half way, no query of an epoch that somebody has is answered from what stands there then.
        store.epoch = before.after(HALF_CHANGED);
        let chunk = self.shape.chunk_bytes() as usize;
        for (row, records) in by_row {
            if self.cells_bytes(records.len()) < self.rows_bytes() {
                for (index, record) in records {
                    self.cells(store, index, record, &mut patch);
                }
            } else {
                records.into_iter().for_each(|(index, record)| self.put(&mut store.matrix, index, record));
                self.rows(store, row, row + chunk, &mut patch)?;
            }
        }
        store.epoch = before.after(&patch);
        Ok(patch)
    }

    /// Writes a record, and its differences as entries.
    fn cells(&self, store: &mut Store, index: u64, record: &[u8], patch: &mut Vec<u8>) {
        let (row, first) = self.place(index);
        let chunk = self.shape.chunk_bytes() as usize;
        for (k, new) in record.chunks(chunk).enumerate() {
            let column = first + k * self.shape.group() as usize;
            let mut old = vec![0; chunk];
            store.matrix.read(row, column, &mut old);
            patch.push(CELL);
            patch.extend((row as u32).to_le_bytes());
            patch.extend((column as u32).to_le_bytes());
            // The last chunk may be shorter: nothing changes behind it.
            for (i, old) in old.into_iter().enumerate() {
                let new = new.get(i).copied().unwrap_or(old);
                patch.extend((i16::from(new as i8) - i16::from(old as i8)).to_le_bytes());
            }
            store.matrix.write(row, column, new);
        }
    }

    /// New rows of the hint as entries.
    fn rows(&self, store: &Store, from: usize, to: usize, patch: &mut Vec<u8>) -> Result<(), PirError> {
        let matrix = ServerMatrix::new(&SIMPLE, &self.seed, self.shape.columns as usize);
        for eight in (from / 8 * 8..to).step_by(8) {
            for (row, words) in (eight..).zip(matrix.hint_rows(&store.matrix, eight)) {
                if (from..to).contains(&row) {
                    patch.push(ROW);
                    patch.extend((row as u32).to_le_bytes());
                    self.pack_hint(&[words], patch)?;
                }
            }
        }
        Ok(())
    }

    /// Brings a client's hint from the epoch that a patch leads away from to the next one.
    ///
    /// # Errors
    /// If the patch is of another epoch, or is none; the hint is unchanged then.
    pub fn patch(&self, hint: &mut Hint, patch: &[u8]) -> Result<(), PirError> {
        let broken = |what: &str| PirError::Message(format!("a patch {what}; fetch the hint anew"));
        let (epoch, entries) = Epoch::split(patch).ok_or_else(|| broken("without an epoch"))?;
        hint.epoch.expect(&epoch)?;
        // The whole patch is read before anything is changed.
        let mut checked = Vec::new();
        let mut left = entries;
        while let Some((&kind, _)) = left.split_first() {
            let bytes = match kind {
                CELL => self.cell_bytes(),
                ROW => 5 + self.shape.hint_row_bytes(),
                _ => return Err(broken("with an unknown entry")),
            };
            let (entry, rest) = left.split_at_checked(bytes).ok_or_else(|| broken("that ends within an entry"))?;
            let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i])) as usize;
            let (row, column) = (number(1), if kind == CELL { number(5) } else { 0 });
            let rows = if kind == CELL { self.shape.chunk_bytes() as usize } else { 1 };
            if row + rows > self.shape.rows() || column >= self.shape.columns as usize {
                return Err(broken(&format!("of row {row} and column {column}, which this table has not")));
            }
            checked.push((kind, row, column, entry));
            left = rest;
        }
        for (kind, row, column, entry) in checked {
            if kind == ROW {
                hint.rows[row] = unpacked(&SIMPLE, &entry[5..]).into();
                continue;
            }
            let a = self.seed.element(&SIMPLE, column / DEGREE);
            for (difference, row) in entry[9..].as_chunks().0.iter().zip(row..) {
                let difference = i16::from_le_bytes(*difference);
                if difference != 0 {
                    hint.row(row); // unpacks it
                    let words = hint.rows[row].get_mut().expect("it was unpacked");
                    add_row(&a, column % DEGREE, difference.into(), words);
                }
            }
        }
        hint.epoch = epoch.after(patch);
        Ok(())
    }
}
