//! The output of a job in which each party writes what its own units left. Of shares that is a row a bin of every unit, empty bins included, in
//! the same order on both sides. Of ids it is this party's rows, all of them and in their order, with an id behind each.

use crate::error::JobError;
use crate::input::keys::Keys;
use crate::io::Io;
use crate::output::ids::{self, Ids, Unmade};
use crate::units::cut::Units;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use vesica_session::{Error, Shares};
use vesica_spec::{Plan, Share as Part};
use vesica_suite::ResultKind;
use vesica_table::{Picks, Sink, Spill, Spilled, Staged, Table};
use vesica_types::RowId;

/// A bin as it is spilled: the first row of the key in it, from 1, the share of its value, that of whether it is common.
const RECORD: usize = 17;

/// No key.
const EMPTY: u64 = 0;

/// Rows that are written together.
const TOGETHER: usize = 1 << 16;

/// What the units of an attempt under way left.
pub struct Leaving {
    kind: Kind,
    /// Bins, or the ids of this side's keys in their order: a bucket a unit.
    records: Spill,
}

/// What the units of a whole attempt left.
pub struct Left {
    kind: Kind,
    records: Spilled,
    units: u32,
    /// Names the attempt: the same on both sides, and other in every attempt.
    attempt: blake3::Hash,
}

impl Left {
    /// The name of the attempt, in hexadecimal.
    pub fn attempt(&self) -> String {
        self.attempt.to_string()
    }
}

/// What units leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bins,
    Ids,
}

impl Leaving {
    /// Room for what so many units leave, if that is the result of the job.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn begin(plan: &Plan, units: u32, scratch: &Path) -> Result<Option<Self>, JobError> {
        let (kind, buckets, bytes, part) = match plan.shared.result {
            ResultKind::Shares => (Kind::Bins, units as usize, RECORD, Part::Picks),
            // Nothing is found that would take its share of the memory.
            ResultKind::Ids => (Kind::Ids, units as usize, ids::OF_A_KEY, Part::Found),
            _ => return Ok(None),
        };
        Ok(Some(Self { kind, records: Spill::new(buckets, bytes, part.of(plan.memory), scratch)? }))
    }

    /// Takes out of `shares` what a unit left, whose keys have these first rows.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn take(&mut self, shares: &mut Shares, rows: &[u64]) -> Result<(), JobError> {
        let (bins, of_keys) = (std::mem::take(&mut shares.bins), std::mem::take(&mut shares.ids));
        if self.kind == Kind::Ids {
            if of_keys.len() != rows.len() {
                let why = format!("{} ids for {} keys of unit {}", of_keys.len(), rows.len(), shares.unit);
                return Err(Error::Bug(why).into());
            }
            return Ok(self.records.push_all(shares.unit.0 as usize, of_keys.as_flattened())?);
        }
        for share in bins {
            let mut record = [0; RECORD];
            let row = share.key.map_or(EMPTY, |place| rows[place as usize] + 1);
            record[..8].copy_from_slice(&row.to_le_bytes());
            record[8..16].copy_from_slice(&share.value.to_le_bytes());
            record[16] = share.common.into();
            self.records.push(shares.unit.0 as usize, &record)?;
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
        let (kind, records) = (self.kind, self.records.finish()?);
        Ok(Left { kind, records, units: shares.len() as u32, attempt: attempt.finalize() })
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
        about.insert(ids::ATTEMPT, left.attempt.to_string());
    }
    let about: HashMap<String, String> = about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Arc::new(Schema::new_with_metadata(fields, about))
}

/// A place for what the units leave: opened before contact to see that there is one, and again when they have left it.
///
/// # Errors
/// Those of opening it; a table with a column of the name that ids have.
pub fn sink(plan: &Plan, io: &Io, left: Option<&Left>) -> Result<Option<Box<dyn Sink>>, JobError> {
    let Some(target) = &io.target else { return Ok(None) };
    Ok(Some(match plan.shared.result {
        ResultKind::Ids => {
            let attempt = left.map(Left::attempt);
            ids::beside(plan, io, &Unmade::default(), attempt.as_deref(), |wide| Ok(target.sink(&wide.facts())?))?
        }
        _ => target.shares(&io.table.facts(), schema(plan, left))?,
    }))
}

/// Writes what the units of an attempt left beside its place; rows with ids by `write`.
///
/// # Errors
/// Those of opening it, of reading what was spilled and of writing.
pub fn stage(
    plan: &Plan,
    io: &Io,
    scratch: &Path,
    keys: &Keys,
    units: &Units,
    left: &Left,
    write: impl FnOnce(&dyn Table, Picks, Box<dyn Sink>) -> Result<Staged, JobError>,
) -> Result<Option<Staged>, JobError> {
    let Some(mut sink) = sink(plan, io, Some(left))? else { return Ok(None) };
    if left.kind == Kind::Ids {
        // The ids by row and the rows that are picked share what the rows of other outputs have alone.
        let memory = Part::Picks.of(plan.memory) / 2;
        let ids = Ids::by_row(&left.records, units, keys.rows, memory, scratch)?;
        let mut picks = Picks::new(keys.rows, memory, scratch)?;
        (0..keys.rows).try_for_each(|row| picks.push_turn(RowId(row), 1))?;
        let write = |wide: &dyn Table| write(wide, picks, sink).map(Some);
        return ids::beside(plan, io, &ids, Some(&left.attempt()), write);
    }
    let schema = sink.schema().clone();
    for unit in 0..left.units as usize {
        for block in left.records.blocks(unit, TOGETHER) {
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
