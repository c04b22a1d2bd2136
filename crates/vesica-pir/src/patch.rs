//! Changed records, and how a client's hint follows them.
//!
//! If byte (r, c) of the database grows by δ, row r of H = D·A grows by δ times row c of A, which the client can compute. So a patch holds
//! differences of bytes and no words of H, as long as few columns change. δ is a difference of bytes as [`crate::simple`] reads them, from
//! -255 to 255: if 127 becomes 128, it is -255. The client adds exact 32-bit words to the rounded ones that it has, so the rounding error
//! stays what it was. Where so many columns of the same rows change that whole rows of H are shorter, the patch holds rows.
//!
//! As it travels: the epoch that it leads away from, and entries. A cell entry is 0, row, column, and a chunk of differences of two bytes
//! each. A row entry is 1, row, and a packed row of H; without a hint ([`crate::packed`]) it is 1, block, and the packed mask. All numbers
//! are little-endian.

use crate::simple::place;
use crate::{Epoch, PirError, check_index};
use std::collections::BTreeMap;
use vesica_params::lwe::Shape;
use vesica_ring::matrix::Matrix;

/// The kind of an entry with differences.
pub(crate) const CELL: u8 = 0;
/// The kind of an entry with an element of what clients copy: a row of H, or a mask.
pub(crate) const COPIED: u8 = 1;

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

/// Bytes of an entry with the differences of a chunk.
pub(crate) fn cell_bytes(shape: &Shape) -> usize {
    1 + 4 + 4 + 2 * shape.chunk_bytes() as usize
}

/// Bytes of an entry with an element of what clients copy.
pub(crate) fn copied_bytes(shape: &Shape) -> usize {
    1 + 4 + shape.hint_row_bytes()
}

/// Writes a record into the database, and its differences as entries.
pub(crate) fn cells(shape: &Shape, matrix: &mut Matrix, index: u64, record: &[u8], patch: &mut Vec<u8>) {
    let (row, first) = place(shape, index);
    let chunk = shape.chunk_bytes() as usize;
    for (k, new) in record.chunks(chunk).enumerate() {
        let column = first + k * shape.group() as usize;
        let mut old = vec![0; chunk];
        matrix.read(row, column, &mut old);
        patch.push(CELL);
        patch.extend((row as u32).to_le_bytes());
        patch.extend((column as u32).to_le_bytes());
        // The last chunk may be shorter: nothing changes behind it.
        for (i, old) in old.into_iter().enumerate() {
            let new = new.get(i).copied().unwrap_or(old);
            patch.extend((i16::from(new as i8) - i16::from(old as i8)).to_le_bytes());
        }
        matrix.write(row, column, new);
    }
}

/// Writes the head of an entry with an element, which its packed words follow.
pub(crate) fn copied(number: usize, patch: &mut Vec<u8>) {
    patch.push(COPIED);
    patch.extend((number as u32).to_le_bytes());
}

/// An entry of a patch.
pub(crate) enum Entry<'a> {
    /// Differences of the bytes from a row of a column on.
    Cell(usize, usize, &'a [u8]),
    /// An element of what clients copy: its number, and its packed words.
    Copied(usize, &'a [u8]),
}

impl Entry<'_> {
    /// The rows of a cell that differ, and by how much.
    pub(crate) fn differences(first: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, i32)> {
        let all = bytes.as_chunks().0.iter().map(|difference| i32::from(i16::from_le_bytes(*difference)));
        (first..).zip(all).filter(|(_, difference)| *difference != 0)
    }
}

/// The entries of a patch that leads away from `epoch`. `what` is what its errors say is to be fetched anew.
///
/// # Errors
/// If the patch is of another epoch, or is none.
pub(crate) fn entries<'a>(
    shape: &Shape,
    epoch: &Epoch,
    what: &str,
    patch: &'a [u8],
) -> Result<Vec<Entry<'a>>, PirError> {
    let broken = |why: &str| PirError::Message(format!("a patch {why}; fetch the {what} anew"));
    let (of, mut left) = Epoch::split(patch).ok_or_else(|| broken("without an epoch"))?;
    epoch.expect(&of)?;
    let mut entries = Vec::new();
    while let Some((&kind, _)) = left.split_first() {
        let bytes = match kind {
            CELL => cell_bytes(shape),
            COPIED => copied_bytes(shape),
            _ => return Err(broken("with an unknown entry")),
        };
        let (entry, rest) = left.split_at_checked(bytes).ok_or_else(|| broken("that ends within an entry"))?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i])) as usize;
        let first = number(1);
        entries.push(match kind {
            CELL => {
                let column = number(5);
                if first + shape.chunk_bytes() as usize > shape.rows() || column >= shape.columns as usize {
                    return Err(broken(&format!("of row {first} and column {column}, which this table has not")));
                }
                Entry::Cell(first, column, &entry[9..])
            }
            _ if first >= shape.hint_rows() => {
                return Err(broken(&format!("of row or block {first}, which this table has not")));
            }
            _ => Entry::Copied(first, &entry[5..]),
        });
        left = rest;
    }
    Ok(entries)
}
