//! The output of a job whose result is shares: a row a bin of every unit, empty bins included, in the same order on both sides.

use crate::error::JobError;
use crate::io::Io;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use vesica_session::{Error, Shares};
use vesica_spec::{Plan, Share as Part};
use vesica_table::{Sink, Spill, Spilled, Staged};
use vesica_types::UnitId;

/// A bin as it is spilled: the first row of the key in it, from 1, the share of its value, that of whether it is common.
const RECORD: usize = 17;

/// No key.
const EMPTY: u64 = 0;

/// Rows that are written together.
const TOGETHER: usize = 1 << 16;

/// Shares of an attempt under way.
pub struct Leaving(Spill);

/// The shares of a whole attempt.
pub struct Left {
    bins: Spilled,
    units: u32,
    /// Names the attempt: the same on both sides, and other in every attempt.
    attempt: blake3::Hash,
}

impl Leaving {
    /// Room for those of so many units.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn begin(units: u32, memory: u64, scratch: &Path) -> Result<Self, JobError> {
        Ok(Self(Spill::new(units as usize, RECORD, Part::Picks.of(memory), scratch)?))
    }

    /// Takes those of a unit, whose keys have these first rows.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn take(&mut self, unit: UnitId, bins: &[vesica_session::Share], rows: &[u64]) -> Result<(), JobError> {
        for share in bins {
            let mut record = [0; RECORD];
            let row = share.key.map_or(EMPTY, |place| rows[place as usize] + 1);
            record[..8].copy_from_slice(&row.to_le_bytes());
            record[8..16].copy_from_slice(&share.value.to_le_bytes());
            record[16] = share.common.into();
            self.0.push(unit.0 as usize, &record)?;
        }
        Ok(())
    }

    /// All units are done.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn end(self, shares: &[Shares]) -> Result<Left, JobError> {
        let mut attempt = blake3::Hasher::new_derive_key("vesica 2026 name of an attempt in a file of shares");
        shares.iter().for_each(|shares| _ = attempt.update(&shares.attempt));
        Ok(Left { bins: self.0.finish()?, units: shares.len() as u32, attempt: attempt.finalize() })
    }
}

/// The columns of the file. Both parties' files have those for shares; `row` has numbers in one of them.
fn schema(plan: &Plan, left: Option<&Left>) -> SchemaRef {
    let fields = vec![
        Field::new("row", DataType::UInt64, true),
        Field::new("common", DataType::Boolean, false),
        Field::new("value", DataType::UInt64, false),
    ];
    let hash: String = plan.shared.hash().iter().map(|b| format!("{b:02x}")).collect();
    let mut about = HashMap::from([
        ("vesica.shares", "1".to_owned()),
        ("vesica.job", hash),
        ("vesica.party", plan.me.name().to_owned()),
        ("vesica.common", "xor".to_owned()),
        ("vesica.value", "sum modulo 2^64".to_owned()),
    ]);
    if let Some(left) = left {
        about.insert("vesica.units", left.units.to_string());
        about.insert("vesica.attempt", left.attempt.to_string());
    }
    let about: HashMap<String, String> = about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Arc::new(Schema::new_with_metadata(fields, about))
}

/// A place for shares: opened before contact to see that there is one, and again when there are shares.
///
/// # Errors
/// Those of opening it.
pub fn sink(plan: &Plan, io: &Io, left: Option<&Left>) -> Result<Option<Box<dyn Sink>>, JobError> {
    let Some(target) = &io.target else { return Ok(None) };
    Ok(Some(target.shares(&*io.table, schema(plan, left))?))
}

/// Writes the shares of an attempt beside their place.
///
/// # Errors
/// Those of opening it, of reading what was spilled and of writing.
pub fn stage(plan: &Plan, io: &Io, left: &Left) -> Result<Option<Staged>, JobError> {
    let Some(mut sink) = sink(plan, io, Some(left))? else { return Ok(None) };
    let schema = sink.schema().clone();
    for unit in 0..left.units as usize {
        for block in left.bins.blocks(unit, TOGETHER) {
            let block = block?;
            let (records, _) = block.as_chunks::<RECORD>();
            let word = |record: &[u8; RECORD], at: usize| {
                u64::from_le_bytes(*record[at..].first_chunk().expect("a record has two words"))
            };
            let row = |record| Some(word(record, 0)).filter(|row| *row != EMPTY);
            let columns: [ArrayRef; 3] = [
                Arc::new(records.iter().map(row).collect::<UInt64Array>()),
                Arc::new(records.iter().map(|record| Some(record[16] == 1)).collect::<BooleanArray>()),
                Arc::new(records.iter().map(|record| word(record, 8)).collect::<UInt64Array>()),
            ];
            let batch = RecordBatch::try_new(schema.clone(), columns.into())
                .map_err(|error| Error::Bug(format!("rows of shares: {error}")))?;
            sink.write(&batch)?;
        }
    }
    Ok(Some(sink.finish()?))
}
