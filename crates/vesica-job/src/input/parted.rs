//! The rows of a table as records in buckets: all that has to look at every key begins with this.

use crate::error::JobError;
use crate::input::feed::{Feed, Own};
use crate::input::keys::{Hasher, Reading, Ruled};
use crate::input::sort::Grouped;
use crate::tell::control::{Control, Event};
use crate::threads::cores;
use std::path::Path;
use std::sync::Mutex;
use vesica_spec::Share;
use vesica_table::{Spill, Spilled, Table, on_threads};

/// Bytes that a thread that reads and one that hashes hold together, going by rows of twenty bytes.
const WORKER: usize = 8 << 20;

/// Bytes of a row's number: 2^40 rows are more than a table has.
pub const ROW: usize = 5;

/// How a table becomes records.
pub struct Parting<'a> {
    /// How keys are read.
    pub how: &'a Reading<'a>,
    /// Whether they are taken as they are written, before the rules.
    pub as_written: bool,
    /// What keys are hashed under.
    pub key: &'a [u8; 32],
    /// How many buckets there are.
    pub buckets: usize,
    /// Bytes of memory for the records.
    pub memory: usize,
    /// Whether it is kept which rows have no key.
    pub empties: bool,
    /// Where records go that do not fit.
    pub dir: &'a Path,
    /// Who watches.
    pub ctl: &'a Control,
}

/// A table's rows in buckets.
pub struct Parted {
    /// The records, in any order.
    pub records: Spilled,
    /// The numbers of the rows without a key, in any order, if they were asked for.
    pub empties: Spilled,
    /// Rows of the table.
    pub rows: u64,
    /// Rows without a key.
    pub empty: u64,
    /// What the rules did.
    pub ruled: Ruled,
}

/// What was taken of a table's batches.
struct Taken {
    records: Spill,
    empties: Spill,
    rows: u64,
    empty: u64,
    ruled: Ruled,
}

impl Parting<'_> {
    /// Reads the key columns of `table` whole, on several threads. `record` says of a key's hash and a row's number which bucket
    /// the row belongs to, and what is kept of it.
    ///
    /// # Errors
    /// What is wrong with the table, with the row; a table of too many rows; a full disk; being cancelled.
    pub fn of<const N: usize>(
        &self,
        table: &dyn Table,
        record: impl Fn(&[u8; 32], u64) -> (u32, [u8; N]) + Sync,
    ) -> Result<Parted, JobError> {
        let Self { how, as_written, key, buckets, memory, dir, ctl, .. } = *self;
        let workers = cores(how.workers).min(Share::InFlight.of(how.memory) / WORKER).max(1);
        let feed = Feed::new(table.pieces(how.keys, workers)?);
        let taken = Mutex::new(Taken {
            records: Spill::new(buckets, N, memory - memory / 16, dir)?,
            empties: Spill::new(1, ROW, memory / 16, dir)?,
            rows: 0,
            empty: 0,
            ruled: Ruled::default(),
        });
        let work = || -> Result<(), JobError> {
            let mut hasher = Hasher::new(how.rules, as_written, key);
            let (mut own, mut grouped) = (Own::default(), Grouped::default());
            let (mut records, mut of, mut empties) = (Vec::new(), Vec::new(), Vec::new());
            while let Some((from, batch)) = feed.next(&mut own) {
                ctl.check()?;
                records.clear();
                of.clear();
                let ruled = hasher.hash(&batch, &mut empties, &mut |hash, place| {
                    let (bucket, record) = record(hash, from + u64::from(place));
                    of.push(bucket);
                    records.push(record);
                });
                grouped.group(buckets, &records, |place| of[place] as usize);
                let mut taken = taken.lock().expect("no worker panics");
                let Taken { records, empties: without, .. } = &mut *taken;
                grouped.each(|bucket, of_bucket| records.push_all(bucket, of_bucket.as_flattened()))?;
                if self.empties {
                    empties.iter().try_for_each(|&place| without.push(0, &to_bytes(from + u64::from(place))))?;
                }
                taken.empty += empties.len() as u64;
                taken.ruled += ruled;
                taken.rows += batch.num_rows() as u64;
                ctl.event(Event::Done(taken.rows));
            }
            Ok(())
        };
        on_threads::<JobError>(workers, || work().inspect_err(|_| feed.stop()))?;
        feed.end()?;
        let Taken { records, empties, rows, empty, ruled } = taken.into_inner().expect("no worker panics");
        if rows >> (8 * ROW) != 0 {
            let (path, most) = (table.path().display(), 1u64 << (8 * ROW));
            return Err(JobError::Setup(format!("{path} has {rows} rows; the most is {most}: part the table")));
        }
        Ok(Parted { records: records.finish()?, empties: empties.finish()?, rows, empty, ruled })
    }
}

/// A row's number as it stands in records: big-endian, so that they sort by it.
pub fn to_bytes(row: u64) -> [u8; ROW] {
    let [.., a, b, c, d, e] = row.to_be_bytes();
    [a, b, c, d, e]
}

/// The row's number at the end of a record.
pub fn row(record: &[u8]) -> u64 {
    let [a, b, c, d, e] = *record.last_chunk::<ROW>().expect("a record ends in a row's number");
    u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
}
