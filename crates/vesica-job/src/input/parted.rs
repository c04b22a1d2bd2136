//! The rows of a table as records in buckets: all that has to look at every key begins with this.

use crate::error::JobError;
use crate::input::feed::{Feed, Own};
use crate::input::keys::{Hasher, Keys, Reading, Ruled};
use crate::input::repeats::Repeats;
use crate::input::sort::Grouped;
use crate::tell::control::{Control, Event};
use crate::threads::cores;
use std::path::Path;
use std::sync::Mutex;
use vesica_spec::Share;
use vesica_table::{Error, Spill, Spilled, Table, on_threads};
use vesica_types::Digest;

/// Bytes that a thread that reads and one that hashes hold together, going by rows of twenty bytes.
const WORKER: usize = 8 << 20;

/// Bytes of a row's number, or of the number of one of its identifiers: 2^40 rows are more than a table has.
pub const ROW: usize = 5;

/// Bytes of a digest.
const DIGEST: usize = 16;

/// Bytes of a row's record: a digest, and the row's number.
pub const RECORD: usize = DIGEST + ROW;

/// How a table becomes records.
pub struct Parting<'a> {
    /// How keys are read.
    pub how: &'a Reading<'a>,
    /// Whether they are taken as they are written, before the rules.
    pub as_written: bool,
    /// What keys are hashed under.
    pub key: &'a [u8; 32],
    /// Whether keys are only counted, by the first 16 bytes of a hash under a key that nobody else has.
    pub counts: bool,
    /// How many buckets there are.
    pub buckets: usize,
    /// Room for the records, and for the numbers of rows without a key.
    pub room: Room,
    /// Whether it is kept which rows have no key.
    pub empties: bool,
    /// Room for the records of rows that are not their key's first, which are kept apart; none if they are not kept.
    pub others: Option<Room>,
    /// Which rows these are, where there are some.
    pub repeats: Option<&'a Repeats>,
    /// Where records go that do not fit.
    pub dir: &'a Path,
    /// Who watches.
    pub ctl: &'a Control,
}

/// Room for records.
#[derive(Clone, Copy)]
pub struct Room {
    /// Bytes of memory.
    pub memory: usize,
    /// How many there will be, about, as far as is known.
    pub records: u64,
}

/// A table's rows in buckets.
pub struct Parted {
    /// The records, in any order.
    pub records: Spilled,
    /// The records of rows that are not their key's first, of [`RECORD`] bytes, if they were asked for.
    pub others: Option<Spilled>,
    /// The numbers of the rows without a key, in any order, if they were asked for.
    pub empties: Spilled,
    /// Rows of the table.
    pub rows: u64,
    /// Rows without a key.
    pub empty: u64,
    /// The keys of all rows, as [`Keys::entries`] has them.
    pub entries: u64,
    /// What the rules did.
    pub ruled: Ruled,
    /// Whether each row that is not its key's first has a key that was said to have as many rows, as far as digests can tell.
    pub repeats_hold: bool,
}

impl Parted {
    /// Sees that the table at `path` has as many rows, with and without a key, and as many keys in them, as it had.
    ///
    /// # Errors
    /// [`Error::Changed`] if not.
    pub fn same_rows(&self, keys: &Keys, path: &Path) -> Result<(), JobError> {
        if (self.rows, self.empty, self.entries) == (keys.rows, keys.empty, keys.entries()) {
            return Ok(());
        }
        let of = |rows, empty, entries| {
            // Where a row has one key at most, the number of keys says nothing new.
            let all =
                if rows - empty == entries { String::new() } else { format!(", and {entries} keys in the others") };
            format!("{rows} rows, {empty} of them without a key{all}")
        };
        let before = of(keys.rows, keys.empty, keys.entries());
        let what = format!("it had {before}, and has {}", of(self.rows, self.empty, self.entries));
        Err(Error::Changed { path: path.to_owned(), what }.into())
    }
}

/// What was taken of a table's batches.
struct Taken {
    records: Spill,
    others: Option<Spill>,
    empties: Spill,
    rows: u64,
    empty: u64,
    entries: u64,
    ruled: Ruled,
    balance: u128,
}

impl Parting<'_> {
    /// Reads the key columns of `table` whole, on several threads. `record` says of a key's hash, a row's number and how many rows
    /// the key has which bucket the row belongs to, and what is kept of it. Of a row that is not its key's first, the first
    /// [`RECORD`] bytes of that are kept apart.
    ///
    /// # Errors
    /// What is wrong with the table, with the row; a table of too many rows; a full disk; being cancelled.
    pub fn of<const N: usize>(
        &self,
        table: &dyn Table,
        record: impl Fn(&[u8; 32], u64, u64) -> (u32, [u8; N]) + Sync,
    ) -> Result<Parted, JobError> {
        let Self { how, as_written, key, buckets, room: Room { memory, records }, dir, ctl, .. } = *self;
        let workers = cores(how.workers).min(Share::InFlight.of(how.memory) / WORKER).max(1);
        let feed = Feed::new(table.pieces(how.keys, workers)?);
        // What is left of the slabs counts as theirs: none takes memory of its own before all are used.
        let again = |spill: Spill| match how.slabs {
            Some(slabs) => spill.reusing(slabs),
            None => spill,
        };
        let others = self.others.map(|room| Spill::of(room.records, buckets, RECORD, room.memory, dir)).transpose()?;
        let taken = Mutex::new(Taken {
            records: again(Spill::of(records, buckets, N, memory - memory / 16, dir)?),
            others: others.map(again),
            empties: again(Spill::new(1, ROW, memory / 16, dir)?),
            rows: 0,
            empty: 0,
            entries: 0,
            ruled: Ruled::default(),
            balance: 0,
        });
        let of_a_row = how.of_a_row();
        let work = || -> Result<(), JobError> {
            let hasher = Hasher::new(how.rules, how.lists, as_written, key);
            let mut hasher = if self.counts { hasher.counting() } else { hasher };
            let (mut own, mut grouped) = (Own::default(), Grouped::default());
            let (mut records, mut of, mut empties) = (Vec::new(), Vec::new(), Vec::new());
            let (mut others, mut of_others, mut grouped_others) = (Vec::new(), Vec::new(), Grouped::default());
            let (mut marks, mut rows) = (self.repeats.map(Repeats::marks), Vec::new());
            while let Some((from, batch)) = feed.next(&mut own) {
                ctl.check()?;
                records.clear();
                of.clear();
                others.clear();
                of_others.clear();
                if let Some(marks) = &mut marks {
                    marks.read(from * of_a_row, batch.num_rows() * of_a_row as usize, &mut rows)?;
                }
                // What first rows say of the others less the others' digests: nothing is left if marks and table are of one kind.
                let (mut balance, mut entries) = (0u128, 0);
                let ruled = hasher.hash(&batch, &mut empties, &mut |hash, place, list| {
                    entries += 1;
                    let place = u64::from(place) * of_a_row + u64::from(list);
                    let rows = if self.repeats.is_some() { rows[place as usize] } else { 1 };
                    let (bucket, record) = record(hash, from * of_a_row + place, rows);
                    if rows != 1 {
                        let digest = u128::from_le_bytes(*hash.first_chunk().expect("a hash has 32 bytes"));
                        balance = balance.wrapping_add(digest.wrapping_mul(u128::from(rows).wrapping_sub(1)));
                    }
                    if rows > 0 {
                        of.push(bucket);
                        records.push(record);
                    } else if let Some(record) = record.first_chunk::<RECORD>().filter(|_| self.others.is_some()) {
                        of_others.push(bucket);
                        others.push(*record);
                    }
                });
                grouped.group(buckets, &records, |place| of[place] as usize);
                if self.others.is_some() {
                    grouped_others.group(buckets, &others, |place| of_others[place] as usize);
                }
                let mut taken = taken.lock().expect("no worker panics");
                let Taken { records, others, empties: without, .. } = &mut *taken;
                grouped.each(|bucket, of_bucket| records.push_all(bucket, of_bucket.as_flattened()))?;
                if let Some(others) = others {
                    grouped_others.each(|bucket, of_bucket| others.push_all(bucket, of_bucket.as_flattened()))?;
                }
                if self.empties {
                    empties.iter().try_for_each(|&place| without.push(0, &to_bytes(from + u64::from(place))))?;
                }
                taken.empty += empties.len() as u64;
                taken.entries += entries;
                taken.ruled += ruled;
                taken.balance = taken.balance.wrapping_add(balance);
                taken.rows += batch.num_rows() as u64;
                ctl.event(Event::Done(taken.rows));
            }
            Ok(())
        };
        on_threads::<JobError>(workers, || work().inspect_err(|_| feed.stop()))?;
        feed.end()?;
        let Taken { records, others, empties, rows, empty, entries, ruled, balance } =
            taken.into_inner().expect("no worker panics");
        if rows.saturating_mul(of_a_row) >> (8 * ROW) != 0 {
            let (path, most) = (table.path().display(), (1u64 << (8 * ROW)) / of_a_row);
            return Err(JobError::Setup(format!("{path} has {rows} rows; the most is {most}: part the table")));
        }
        let others = others.map(Spill::finish).transpose()?;
        let (records, empties, repeats_hold) = (records.finish()?, empties.finish()?, balance == 0);
        Ok(Parted { records, others, empties, rows, empty, entries, ruled, repeats_hold })
    }
}

/// A row's number as it stands in records: big-endian, so that they sort by it.
pub fn to_bytes(row: u64) -> [u8; ROW] {
    let [.., a, b, c, d, e] = row.to_be_bytes();
    [a, b, c, d, e]
}

/// The record of a row whose key has this digest.
pub fn record(digest: &[u8; DIGEST], row: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..DIGEST].copy_from_slice(digest);
    record[DIGEST..].copy_from_slice(&to_bytes(row));
    record
}

/// The digest at the beginning of a record.
#[inline(always)]
pub fn digest<const N: usize>(record: &[u8; N]) -> Digest {
    Digest(*record.first_chunk().expect("a record begins with a digest"))
}

/// The row's number, or another one, at the end of a record.
#[inline(always)]
pub fn row(record: &[u8]) -> u64 {
    let [a, b, c, d, e] = *record.last_chunk::<ROW>().expect("a record ends in a row's number");
    u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
}
