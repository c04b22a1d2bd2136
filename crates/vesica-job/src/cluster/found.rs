//! What a unit found: its rows, which key each has, and how often each stands in the join.
//!
//! On the side that learns, every row of the unit is among them, and those that were not found stand in the join zero times. So what is
//! sealed, written and synced has one size, whatever matched: neither its length nor the time that it takes says how many rows that were.

use crate::cluster::reading::piece;
use crate::cluster::secret::{FOUND, Secret, damaged};
use crate::error::JobError;
use arrow_array::builder::UInt64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// A row of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its number.
    pub row: u64,
    /// Names the common key, with the same number on both sides: the unit, and the place among the unit's common keys. It means nothing where
    /// the key is not common.
    pub pair: u64,
    /// How often it stands in the join: zero times if its key is not common.
    pub times: u64,
}

/// Bytes of a row.
const BYTES: usize = 24;

/// The rows that a unit found, sealed.
///
/// # Errors
/// If the system has no randomness.
pub fn seal(secret: &Secret, salt: &[u8; 32], unit: u32, rows: &[Row]) -> Result<Vec<u8>, JobError> {
    let bytes = rows.iter().flat_map(|row| [row.row, row.pair, row.times]).flat_map(u64::to_le_bytes).collect();
    secret.seal(FOUND, &piece(salt, unit), bytes)
}

/// What rows of several units belong to.
const SEVERAL: u32 = u32::MAX;

/// Rows of any units, as [`open`] gave them, sealed again.
///
/// # Errors
/// Another table; if the system has no randomness.
pub fn seal_again(secret: &Secret, salt: &[u8; 32], rows: &RecordBatch) -> Result<Vec<u8>, JobError> {
    let column = |name: &str| {
        let column = rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let column = column.filter(|column| column.null_count() == 0);
        column.ok_or_else(|| {
            JobError::Setup(format!("found rows have no column {name} of UInt64; give them as they were opened"))
        })
    };
    let [row, pair, times] = [column("row")?, column("pair")?, column("times")?].map(|column| column.values());
    let rows = row.iter().zip(pair).zip(times).map(|((&row, &pair), &times)| Row { row, pair, times });
    seal(secret, salt, SEVERAL, &rows.collect::<Vec<_>>())
}

/// What [`seal_again`] sealed.
///
/// # Errors
/// As [`open`].
pub fn open_again(secret: &Secret, salt: &[u8; 32], sealed: &[u8]) -> Result<RecordBatch, JobError> {
    open(secret, salt, SEVERAL, sealed)
}

/// The rows that were found, as a table: `row`, `pair` and `times`, all UInt64.
///
/// # Errors
/// Bytes that [`seal`] does not make.
pub fn open(secret: &Secret, salt: &[u8; 32], unit: u32, found: &[u8]) -> Result<RecordBatch, JobError> {
    let name = format!("what unit {unit} found");
    let bytes = secret.open(FOUND, &piece(salt, unit), &name, found)?;
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || bytes.len() % BYTES != 0 {
        return Err(damaged(&name));
    }
    let rows = words.as_chunks::<3>().0;
    let column = |i: usize| -> Arc<dyn Array> {
        let mut column = UInt64Builder::new();
        let found = rows.iter().filter(|[_, _, times]| *times != [0; 8]);
        found.for_each(|row| column.append_value(u64::from_le_bytes(row[i])));
        Arc::new(column.finish())
    };
    let schema = Schema::new(["row", "pair", "times"].map(|name| Field::new(name, DataType::UInt64, false)).to_vec());
    let columns = [0, 1, 2].map(column).to_vec();
    Ok(RecordBatch::try_new(Arc::new(schema), columns).expect("three columns of one length"))
}
