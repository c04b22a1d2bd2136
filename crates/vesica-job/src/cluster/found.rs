//! What a unit found: of each of its keys, how many rows it has and how often each stands in the join.
//!
//! On the side that learns, every key of the unit is among them, and those that are not common stand in the join zero times. So what is
//! sealed, written and synced has one size, whatever matched and however many rows the keys have: neither its length nor the time that it takes
//! says anything of that. Row numbers, which the units were packed with, come to it when the run is over between the parties.

use crate::cluster::reading::{self, piece};
use crate::cluster::secret::{FOUND, Secret, TAKEN, damaged};
use crate::error::JobError;
use crate::meet::agree;
use crate::seal::key::{Front, TAG};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// A key of a unit, in the order of their digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfKey {
    /// How many rows it has.
    pub rows: u64,
    /// How often each of them stands in the join: zero times if the key is not common.
    pub times: u64,
}

/// What a unit found, sealed. `rows` is the hash of the numbers of the rows of these keys ([`Unpacked::rows`](reading::Unpacked::rows)).
///
/// # Errors
/// If the system has no randomness.
pub fn seal(secret: &Secret, salt: &[u8; 32], unit: u32, rows: &[u8; 32], keys: &[OfKey]) -> Result<Vec<u8>, JobError> {
    let mut bytes = Vec::with_capacity(Front::BYTES + 32 + 16 * keys.len() + TAG);
    bytes.resize(Front::BYTES, 0);
    bytes.extend_from_slice(rows);
    for key in keys {
        bytes.extend_from_slice([key.rows, key.times].map(u64::to_le_bytes).as_flattened());
    }
    secret.seal_behind(FOUND, &piece(salt, unit), bytes)
}

/// The rows that were found, as a table: `row`, `pair` and `times`, all UInt64. `pair` names the common key, with the same number on both
/// sides: the unit, and the place among the unit's common keys. `numbers` is what [`Packed::rows`](reading::Packed::rows) was.
///
/// # Errors
/// Bytes that [`seal`] or packing does not make, or that do not belong together.
pub fn open(
    secret: &Secret,
    salt: &[u8; 32],
    unit: u32,
    found: &[u8],
    numbers: Option<&[u8]>,
) -> Result<RecordBatch, JobError> {
    let name = format!("what unit {unit} found");
    let bytes = secret.open(FOUND, &piece(salt, unit), &name, found)?;
    let (rows, keys) = bytes.split_first_chunk().ok_or_else(|| damaged(&name))?;
    let (keys, []) = keys.as_chunks::<16>() else { return Err(damaged(&name)) };
    let keys = keys.iter().map(|key| {
        let [rows, times] =
            [&key[..8], &key[8..]].map(|word| u64::from_le_bytes(*word.first_chunk().expect("8 bytes")));
        OfKey { rows, times }
    });
    let numbers = reading::numbers(secret, salt, unit, numbers, rows)?;
    let mut rest = &numbers[..];
    let mut columns = [const { Vec::new() }; 3];
    let mut common = 0;
    for OfKey { rows, times } in keys {
        let of_key =
            usize::try_from(rows).ok().and_then(|rows| rest.split_off(..rows)).ok_or_else(|| damaged(&name))?;
        if times == 0 {
            continue;
        }
        let [row, pair, each] = &mut columns;
        row.extend_from_slice(of_key);
        pair.resize(row.len(), u64::from(unit) << 32 | common);
        each.resize(row.len(), times);
        common += 1;
    }
    if rest.is_empty() { Ok(table(columns)) } else { Err(damaged(&name)) }
}

/// The names of the columns of found rows.
const COLUMNS: [&str; 3] = ["row", "pair", "times"];

fn table(columns: [Vec<u64>; 3]) -> RecordBatch {
    let schema = Schema::new(COLUMNS.map(|name| Field::new(name, DataType::UInt64, false)).to_vec());
    let columns = columns.map(|column| Arc::new(UInt64Array::from(column)) as Arc<dyn Array>).to_vec();
    RecordBatch::try_new(Arc::new(schema), columns).expect("three columns of one length")
}

/// Rows of any units, as [`open`] gave them, sealed.
///
/// # Errors
/// Another table; if the system has no randomness.
pub fn seal_rows(secret: &Secret, salt: &[u8; 32], rows: &RecordBatch) -> Result<Vec<u8>, JobError> {
    let column = |name: &str| {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let column = column.filter(|column| column.null_count() == 0);
        column.ok_or_else(|| {
            JobError::Setup(format!("found rows have no column {name} of UInt64; give them as they were opened"))
        })
    };
    let mut bytes = Vec::with_capacity(Front::BYTES + 24 * rows.num_rows() + TAG);
    bytes.resize(Front::BYTES, 0);
    for name in COLUMNS {
        column(name)?.values().iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    secret.seal_behind(TAKEN, agree::name(salt).as_bytes(), bytes)
}

/// What [`seal_rows`] sealed.
///
/// # Errors
/// Bytes that it does not make.
pub fn open_rows(secret: &Secret, salt: &[u8; 32], sealed: &[u8]) -> Result<RecordBatch, JobError> {
    let name = "rows on the way to their file";
    let bytes = secret.open(TAKEN, agree::name(salt).as_bytes(), name, sealed)?;
    let (words, []) = bytes.as_chunks::<8>() else { return Err(damaged(name)) };
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let rows = words.len() / 3;
    if words.len() != 3 * rows {
        return Err(damaged(name));
    }
    Ok(table([0, 1, 2].map(|column| words[column * rows..(column + 1) * rows].to_vec())))
}
