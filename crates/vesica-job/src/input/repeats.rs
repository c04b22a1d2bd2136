//! Which rows repeat a key. It is known before the salt, for a table whose keys repeat.
//!
//! A partner sees how long each unit takes, and knows the salt by which keys are cut into units. If a unit took longer
//! because one of its keys has very many rows, some runs with other salts would name that key. So rows are brought together by
//! key under a random key of this process ([`RowsByKey`]), and what comes of it is a mark for each row ([`Repeats`]): how many rows
//! its key has, if it is the first of them, and nothing if it is not. Cutting then puts one record for each key into a unit,
//! and other rows elsewhere.

use crate::error::JobError;
use crate::input::keys::{Keys, Reading};
use crate::input::ordered::Ordered;
use crate::input::parted::{Parted, Parting, RECORD, Room, digest, record, row};
use crate::input::sort::Grouped;
use crate::input::values::Rows;
use crate::tell::control::Control;
use crate::threads::cores;
use crate::world::random;
use std::path::Path;
use std::sync::Mutex;
use vesica_spec::{Duplicates, Share};
use vesica_table::{Error, Spill, Spilled, Table, on_threads};

/// Rows of a bucket of groups on average.
const BUCKET: u64 = 1 << 17;

/// Bits of the most rows of a range: a place in it has three bytes.
const RANGE: u32 = 24;

/// Bytes that a bucket of a spill should have.
const LEAST: usize = 4 << 10;

/// Bytes of the mark of a row that is not its key's first: its place in its range.
const OTHER: usize = 3;

/// Bytes of the mark of a row that is its key's first, and not its only one: its place, and how many the key has.
const FIRST: usize = OTHER + 5;

/// Bytes that a thread should have.
const WORKER: usize = 1 << 20;

/// Marks that a thread files together.
const TOGETHER: usize = 1 << 13;

/// The rows of a table, key by key, in an order that nobody else can know.
pub struct RowsByKey {
    rows: Ordered<RECORD>,
}

impl RowsByKey {
    /// Reads the key columns of `table` once more, of which `keys` is known.
    ///
    /// # Errors
    /// Those of [`Keys::count`]; [`Error::Changed`] if the table has other rows than it had.
    pub fn of(table: &dyn Table, how: &Reading<'_>, keys: &Keys, dir: &Path, ctl: &Control) -> Result<Self, JobError> {
        let key = random()?;
        let memory = Share::Keys.of(how.memory);
        let most = (memory / LEAST).clamp(1, 1 << 12) as u64;
        let buckets = keys.entries().div_ceil(BUCKET).clamp(1, most) as u32;
        let (empties, others, repeats) = (false, None, None);
        let parting = Parting {
            how,
            as_written: false,
            key: &key,
            counts: false,
            buckets: buckets as usize,
            room: Room { memory, records: keys.entries() },
            empties,
            others,
            repeats,
            dir,
            ctl,
        };
        let parted = parting.of(table, |hash, row, _| {
            let spread = u32::from_le_bytes(*hash.last_chunk().expect("a hash has 32 bytes"));
            let digest = hash.first_chunk().expect("a hash has 32 bytes");
            (((u64::from(spread) * u64::from(buckets)) >> 32) as u32, record(digest, row))
        })?;
        parted.same_rows(keys, table.path())?;
        let Parted { records, .. } = parted;
        let most = Share::InFlight.of(how.memory) / (3 * threads(how));
        Ok(Self { rows: Ordered::new(records, most, dir) })
    }

    /// Gives the rows that take part, key by key and then in the table's order, and whether each is its key's first. Its errors are
    /// those of whoever takes the rows, and of reading what was spilled; being cancelled.
    pub fn rows<'a>(
        &'a self,
        duplicates: Duplicates,
        ctl: &'a Control,
    ) -> impl FnOnce(Rows<'_>) -> Result<(), JobError> + 'a {
        move |each| {
            (0..self.rows.spilled().buckets()).try_for_each(|bucket| {
                ctl.check()?;
                let takes_part = |first| first || duplicates != Duplicates::First;
                self.each(bucket, |first, row| if takes_part(first) { each(first, row) } else { Ok(()) })
            })
        }
    }

    fn each(&self, bucket: usize, mut each: impl FnMut(bool, u64) -> Result<(), JobError>) -> Result<(), JobError> {
        let mut last = None;
        self.rows.read(bucket, &mut |records| {
            records.iter().try_for_each(|record| {
                let digest = digest(record);
                each(last.replace(digest) != Some(digest), row(record))
            })
        })
    }
}

/// What is known of the rows of a table whose keys repeat.
pub struct Repeats {
    /// Rows whose key stands in an earlier one.
    pub rows: u64,
    /// The first of them.
    pub first: u64,
    /// Bits of the number of rows of a range, which is a bucket of the marks.
    range: u32,
    others: Spilled,
    firsts: Spilled,
}

impl Repeats {
    /// Sees which rows of `table` repeat a key.
    ///
    /// # Errors
    /// Those of [`RowsByKey::of`] and [`Repeats::of`].
    pub fn find(
        table: &dyn Table,
        how: &Reading<'_>,
        keys: &Keys,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        Self::of(&RowsByKey::of(table, how, keys, dir, ctl)?, how, keys, dir, ctl)
    }

    /// The marks of the rows in `groups`, which are those of a table of which `keys` is known.
    ///
    /// # Errors
    /// Those of spilling; being cancelled.
    pub fn of(groups: &RowsByKey, how: &Reading<'_>, keys: &Keys, dir: &Path, ctl: &Control) -> Result<Self, JobError> {
        let memory = Share::Picks.of(how.memory) / 2;
        // Rows, or the identifiers that rows may have.
        let (range, ranges) = ranges(keys.rows.saturating_mul(how.of_a_row()), memory);
        let taken = Mutex::new(Taken {
            spills: (Spill::new(ranges, OTHER, memory, dir)?, Spill::new(ranges, FIRST, memory, dir)?),
            rows: 0,
            first: u64::MAX,
        });
        let left = Mutex::new(0..groups.rows.spilled().buckets());
        on_threads::<JobError>(threads(how), || {
            let (mut others, mut firsts) = (Filed::<OTHER>::default(), Filed::<FIRST>::default());
            loop {
                let next = left.lock().expect("no worker panics").next();
                let Some(bucket) = next else { return Ok(()) };
                ctl.check()?;
                let (mut key, mut of_key) = (0, 0u64);
                let end = |key, of_key, firsts: &mut Filed<FIRST>| match of_key {
                    0 | 1 => Ok(()),
                    rows => {
                        firsts.push(key >> range, first(place(key, range), rows));
                        if firsts.is_full() { taken.lock().expect("no worker panics").firsts(firsts) } else { Ok(()) }
                    }
                };
                groups.each(bucket, |first, row| {
                    if first {
                        end(key, of_key, &mut firsts)?;
                        (key, of_key) = (row, 1);
                        return Ok(());
                    }
                    of_key += 1;
                    others.push(row >> range, place(row, range));
                    others.least = others.least.min(row);
                    if others.is_full() { taken.lock().expect("no worker panics").others(&mut others) } else { Ok(()) }
                })?;
                end(key, of_key, &mut firsts)?;
                let mut taken = taken.lock().expect("no worker panics");
                taken.firsts(&mut firsts)?;
                taken.others(&mut others)?;
            }
        })?;
        let Taken { spills: (others, firsts), rows, first } = taken.into_inner().expect("no worker panics");
        Ok(Self { rows, first, range, others: others.finish()?, firsts: firsts.finish()? })
    }

    /// What reads the marks.
    pub fn marks(&self) -> Marks<'_> {
        Marks { repeats: self, range: None, of_range: Vec::new(), bytes: Vec::new() }
    }
}

/// How many threads bring rows together.
fn threads(how: &Reading<'_>) -> usize {
    cores(how.workers).min(Share::InFlight.of(how.memory) / WORKER).max(1)
}

/// Marks as they come from the threads.
struct Taken {
    /// Of rows that are not their key's first, and of those that are.
    spills: (Spill, Spill),
    rows: u64,
    first: u64,
}

impl Taken {
    fn others(&mut self, filed: &mut Filed<OTHER>) -> Result<(), JobError> {
        self.rows += filed.marks.len() as u64;
        self.first = self.first.min(filed.least);
        filed.file(&mut self.spills.0)
    }

    fn firsts(&mut self, filed: &mut Filed<FIRST>) -> Result<(), JobError> {
        filed.file(&mut self.spills.1)
    }
}

/// Marks that a thread files together.
struct Filed<const N: usize> {
    ranges: Vec<u32>,
    marks: Vec<[u8; N]>,
    grouped: Grouped<N>,
    /// The least row among them.
    least: u64,
}

impl<const N: usize> Default for Filed<N> {
    fn default() -> Self {
        Self { ranges: Vec::new(), marks: Vec::new(), grouped: Grouped::default(), least: u64::MAX }
    }
}

impl<const N: usize> Filed<N> {
    fn push(&mut self, range: u64, mark: [u8; N]) {
        self.ranges.push(range as u32);
        self.marks.push(mark);
    }

    fn is_full(&self) -> bool {
        self.marks.len() >= TOGETHER
    }

    fn file(&mut self, spill: &mut Spill) -> Result<(), JobError> {
        let Self { ranges, marks, grouped, .. } = self;
        let buckets = ranges.iter().max().map_or(0, |last| *last as usize + 1);
        grouped.group(buckets, marks, |place| ranges[place] as usize);
        grouped.each(|range, marks| spill.push_all(range, marks.as_flattened()))?;
        ranges.clear();
        marks.clear();
        Ok(())
    }
}

/// For so many numbers in a spill of `memory` bytes: the bits of the numbers of a range, and how many ranges there are.
pub fn ranges(numbers: u64, memory: usize) -> (u32, usize) {
    let most = (memory / LEAST).clamp(1, 1 << 12) as u64;
    let range = numbers.div_ceil(most).max(1 << 14).next_power_of_two().trailing_zeros().min(RANGE);
    (range, ((numbers >> range) + 1) as usize)
}

/// The place of a number in its range.
pub fn place(row: u64, range: u32) -> [u8; OTHER] {
    let [a, b, c, ..] = (row & ((1 << range) - 1)).to_le_bytes();
    [a, b, c]
}

fn first([a, b, c]: [u8; OTHER], rows: u64) -> [u8; FIRST] {
    let [d, e, f, g, h, ..] = rows.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// Reads marks: those of a range stay until another one is asked for.
pub struct Marks<'a> {
    repeats: &'a Repeats,
    range: Option<u64>,
    /// By row of the range: how many rows its key has, if it is the first of them, and else 0.
    of_range: Vec<u64>,
    bytes: Vec<u8>,
}

impl Marks<'_> {
    /// Makes `to` the marks of so many rows from row `from` on: how many rows the key of each has, if it is the first of them, and else 0.
    /// Rows without a key have 1.
    ///
    /// # Errors
    /// Those of reading what was spilled.
    pub fn read(&mut self, from: u64, rows: usize, to: &mut Vec<u64>) -> Result<(), Error> {
        to.clear();
        let (bits, end) = (self.repeats.range, from + rows as u64);
        let mut from = from;
        while from < end {
            let range = from >> bits;
            if self.range != Some(range) {
                self.load(range)?;
            }
            let stop = end.min((range + 1) << bits);
            let begin = (from & ((1 << bits) - 1)) as usize;
            to.extend_from_slice(&self.of_range[begin..begin + (stop - from) as usize]);
            from = stop;
        }
        Ok(())
    }

    fn load(&mut self, range: u64) -> Result<(), Error> {
        let Self { repeats: Repeats { others, firsts, range: bits, .. }, of_range, bytes, .. } = self;
        of_range.clear();
        of_range.resize(1 << *bits, 1);
        self.range = Some(range);
        // A table that has grown has rows of which nothing is known.
        let Some(bucket) = usize::try_from(range).ok().filter(|&bucket| bucket < others.buckets()) else {
            return Ok(());
        };
        let place = |mark: &[u8]| u32::from_le_bytes([mark[0], mark[1], mark[2], 0]) as usize;
        others.read_into(bucket, bytes)?;
        bytes.as_chunks::<OTHER>().0.iter().for_each(|mark| of_range[place(mark)] = 0);
        firsts.read_into(bucket, bytes)?;
        for mark in bytes.as_chunks::<FIRST>().0 {
            let [.., d, e, f, g, h] = *mark;
            of_range[place(mark)] = u64::from_le_bytes([d, e, f, g, h, 0, 0, 0]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::parted::to_bytes;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Some keys have most of 40,000 rows, which are several ranges, and some rows have none.
        #[test]
        fn marks_say_of_each_row_what_it_is(
            seed in any::<[u8; 32]>(),
            few in 1u16..400,
            buckets in 1usize..5,
            memory in prop::sample::select(&[1u64 << 16, 1 << 26][..]),
            step in 1usize..30_000,
        ) {
            let dir = std::env::temp_dir();
            // A list of so many would take longer to make than to mark.
            let mut bytes = vec![0; 2 * 40_000];
            blake3::Hasher::new_keyed(&seed).finalize_xof().fill(&mut bytes);
            let keys: Vec<u16> = bytes.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word) % 400).collect();
            let key = |row: usize| Some(keys[row]).filter(|key| *key != 7).map(|key| key % few * 3);
            let mut spill = Spill::new(buckets, RECORD, 1 << 16, &dir).unwrap();
            let mut model: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
            for row in 0..keys.len() {
                let Some(key) = key(row) else { continue };
                model.entry(key).or_default().push(row);
                let digest: [u8; 16] = *blake3::hash(&key.to_le_bytes()).as_bytes().first_chunk().unwrap();
                spill.push(usize::from(key) % buckets, &[&digest[..], &to_bytes(row as u64)].concat()).unwrap();
            }
            let mut expected = vec![1; keys.len()];
            for rows in model.values() {
                rows[1..].iter().for_each(|&row| expected[row] = 0);
                expected[rows[0]] = rows.len() as u64;
            }
            let groups = RowsByKey { rows: Ordered::new(spill.finish().unwrap(), 1 << 12, &dir) };
            let duplicates = expected.iter().filter(|rows| **rows == 0).count() as u64;
            let all = Keys { rows: keys.len() as u64, distinct: model.len() as u64, empty: 0, duplicates, ruled: None };
            let how = Reading { keys: &[], rules: &[], lists: &[], duplicates: Duplicates::Join, memory, workers: 2, slabs: None };
            let repeats = Repeats::of(&groups, &how, &all, &dir, &Control::new(())).unwrap();
            let first = expected.iter().position(|rows| *rows == 0).unwrap_or(usize::MAX) as u64;
            prop_assert_eq!((repeats.rows, repeats.first), (duplicates, if duplicates == 0 { u64::MAX } else { first }));
            let (mut marks, mut read, mut all) = (repeats.marks(), Vec::new(), Vec::new());
            for from in (0..keys.len()).step_by(step) {
                marks.read(from as u64, step.min(keys.len() - from), &mut read).unwrap();
                all.extend_from_slice(&read);
            }
            prop_assert_eq!(all, expected);
            // A table that has grown since.
            marks.read(1 << 30, 3, &mut read).unwrap();
            prop_assert_eq!(&read, &[1; 3]);
        }
    }
}
