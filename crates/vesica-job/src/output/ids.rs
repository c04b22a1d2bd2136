//! Ids beside the rows of this party's table: what its units left for its keys, in the order of its rows, in bounded memory.

use crate::error::JobError;
use crate::io::Io;
use crate::units::cut::Units;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use vesica_session::Error;
use vesica_spec::{Plan, SpecError};
use vesica_table::{Beside, MAX_BUCKETS, Spill, Spilled, Table, View, Widened};
use vesica_types::{RowId, UnitId};

/// The name of the column.
pub const COLUMN: &str = "vesica_id";

/// What names the attempt in the schema of a file.
pub const ATTEMPT: &str = "vesica.attempt";

/// An id.
type Id = [u8; 16];

/// Bytes of an id, as it is spilled unit by unit, in the order of the keys.
pub const OF_A_KEY: usize = size_of::<Id>();

/// An id with the number of its row, as it is spilled.
const OF_A_ROW: usize = 24;

/// log2 of the rows whose ids are in memory together, at least.
const WINDOW: u32 = 16;

fn record(number: u64, id: &Id) -> [u8; OF_A_ROW] {
    let mut record = [0; OF_A_ROW];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record[8..].copy_from_slice(id);
    record
}

/// The number and the id of a record.
fn parts(record: &[u8; OF_A_ROW]) -> (u64, Id) {
    let (number, id) = record.split_first_chunk().expect("24 bytes");
    (u64::from_le_bytes(*number), *id.first_chunk().expect("16 bytes behind 8"))
}

/// Does `work` with this party's table, or the columns of it that the job asks for, and the column of ids behind them. The schema names their
/// attempt.
///
/// # Errors
/// Those of `work`; a column that is not there, and one that has the name of the ids'.
pub fn beside<T>(
    plan: &Plan,
    io: &Io,
    ids: &dyn Beside,
    attempt: Option<&str>,
    work: impl FnOnce(&dyn Table) -> Result<T, JobError>,
) -> Result<T, JobError> {
    let null = plan.output.as_ref().map_or("", |output| &output.null);
    let wide = |table| {
        let wide = Widened::new(table, ids, null).map_err(|error| match error {
            vesica_table::Error::Ambiguous { path, name, .. } => {
                let of = if name == COLUMN { "ids" } else { "what each row matched by" };
                let why = format!(
                    "{} has a column \"{name}\", which is the name of the column of {of}: rename it, or leave it out of what is written, which \
                     mine.output.columns names",
                    path.display()
                );
                JobError::from(SpecError::field("mine.input", why))
            }
            error => error.into(),
        })?;
        Ok::<_, JobError>(attempt.into_iter().fold(wide, |wide, attempt| wide.saying(ATTEMPT, attempt)))
    };
    match &plan.columns {
        None => work(&wide(&*io.table)?),
        Some(names) => {
            let view = View::new(&*io.table, names)?;
            work(&wide(&view)?)
        }
    }
}

/// The column before there are ids.
pub struct Unmade([String; 1]);

impl Default for Unmade {
    fn default() -> Self {
        Self([COLUMN.to_owned()])
    }
}

impl Beside for Unmade {
    fn names(&self) -> &[String] {
        &self.0
    }

    fn texts(&self, _: RowId) -> Result<Vec<Option<String>>, vesica_table::Error> {
        Ok(vec![None])
    }
}

/// The ids of a table's rows. They are read in ascending order of rows, and a window of them is in memory.
pub struct Ids {
    column: Unmade,
    /// A bucket a window of rows.
    by_row: Spilled,
    /// log2 of the rows of a window.
    bits: u32,
    window: Mutex<Window>,
}

/// The ids of the rows of a bucket.
#[derive(Default)]
struct Window {
    bucket: Option<usize>,
    ids: Vec<Option<Id>>,
    bytes: Vec<u8>,
}

impl Ids {
    /// Those of the rows that have the keys in `units`, whose ids are `of_keys`, in about `memory` bytes and, beyond that, in `dir`. Every row
    /// of a key that takes part has its id. One of the table's `rows` without a key, or one that the job leaves out, has none.
    ///
    /// # Errors
    /// Those of spilling and of [`Units::each`]; a bug if a key has no id.
    pub fn by_row(of_keys: &Spilled, units: &Units, rows: u64, memory: usize, dir: &Path) -> Result<Self, JobError> {
        let most = (memory as u64 / 4096).clamp(1, MAX_BUCKETS as u64);
        let rows = rows.max(1);
        let bits = rows.div_ceil(most).next_power_of_two().ilog2().max(WINDOW);
        let mut spill = Spill::new(((rows - 1) >> bits) as usize + 1, OF_A_ROW, memory, dir)?;
        let mut bytes = Vec::new();
        for unit in (0..units.sizes.units).map(UnitId) {
            of_keys.read_into(unit.0 as usize, &mut bytes)?;
            let mut ids = bytes.as_chunks::<OF_A_KEY>().0.iter();
            let mut id = None;
            units.each(unit, |first, row| {
                if first {
                    id = ids.next();
                }
                let id = id.ok_or_else(|| Error::Bug("a key of this side's has no id".into()))?;
                if row >= rows {
                    return Err(units.changed());
                }
                Ok(spill.push((row >> bits) as usize, &record(row, id))?)
            })?;
            if ids.next().is_some() {
                return Err(Error::Bug(format!("unit {unit} has more ids than keys")).into());
            }
        }
        units.rest();
        let by_row = spill.finish()?;
        Ok(Self { column: Unmade::default(), by_row, bits, window: Mutex::default() })
    }
}

impl Beside for Ids {
    fn names(&self) -> &[String] {
        self.column.names()
    }

    fn texts(&self, row: RowId) -> Result<Vec<Option<String>>, vesica_table::Error> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let Window { bucket, ids, bytes } = &mut *window;
        let of_row = (row.0 >> self.bits) as usize;
        if of_row >= self.by_row.buckets() {
            return Err(vesica_table::Error::Bug("an id was asked for of a row that was not read".into()));
        }
        let first = (of_row as u64) << self.bits;
        if *bucket != Some(of_row) {
            *bucket = None;
            ids.clear();
            self.by_row.read_into(of_row, bytes)?;
            for (row, id) in bytes.as_chunks().0.iter().map(parts) {
                let place = (row - first) as usize;
                if place >= ids.len() {
                    ids.resize(place + 1, None);
                }
                ids[place] = Some(id);
            }
            *bucket = Some(of_row);
        }
        let id = ids.get((row.0 - first) as usize).copied().flatten();
        Ok(vec![id.map(|id| format!("{:032x}", u128::from_be_bytes(id)))])
    }
}
