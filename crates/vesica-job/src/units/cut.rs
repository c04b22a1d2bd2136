//! A job's keys cut into units, from its table.
//!
//! A unit has a record for each key, of the key's first row. Other rows of a key are kept apart, and read when the run is over
//! between the parties or units are joined: what stands on a unit's way to its first message is a function of its keys alone.

use crate::error::JobError;
use crate::input::keys::{Keys, Reading, parts, salted};
use crate::input::ordered::Ordered;
use crate::input::parted::{Parted, Parting, RECORD, ROW, Room, digest, record, row, to_bytes};
use crate::input::repeats::Repeats;
use crate::input::values::Rows;
use crate::tell::control::Control;
use crate::threads::cores;
use crate::units::found::{Counts, Match};
use crate::units::marks::Marks;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use vesica_session::{Error, Unit};
use vesica_spec::{Duplicates, Plan, Share};
use vesica_suite::Sizes;
use vesica_table::{Spilled, Table};
use vesica_types::{Digest, UnitId};

/// A record of a key's first row, and how many rows the key has.
pub const COUNTED: usize = RECORD + ROW;

/// The unit of `units` that a key belongs to. Multiply and shift: the top bits of a uniform number, evenly over the units.
pub fn unit_of(spread: u64, units: u32) -> u32 {
    ((u128::from(spread) * u128::from(units)) >> 64) as u32
}

/// Whether units of such a table have counted records.
pub fn are_counted(keys: &Keys, duplicates: Duplicates) -> bool {
    keys.duplicates > 0 && duplicates != Duplicates::First
}

/// The rows of a job, unit by unit.
pub struct Units {
    /// What the parties agreed on.
    pub sizes: Sizes,
    /// Whose keys they are.
    pub place: u8,
    firsts: Firsts,
    /// The other rows that take part.
    others: Option<Ordered<RECORD>>,
    /// The numbers of the rows without a key, in any order.
    empties: Spilled,
    /// The table.
    path: PathBuf,
    /// The rows that are marked as units end, if any are.
    marks: Mutex<Option<Marks>>,
    /// Whether some are to be. A unit that is read asks this, and does not wait for marks of another one.
    to_mark: bool,
}

/// The first rows of keys, a bucket a unit: a record for each key.
enum Firsts {
    /// No key has another row that takes part.
    Alone(Ordered<RECORD>),
    Counted(Ordered<COUNTED>),
}

/// The records of units.
pub struct Records {
    /// Of the first rows of keys, a bucket a unit, in any order: of [`RECORD`] or [`COUNTED`] bytes.
    pub firsts: Spilled,
    /// Of other rows that take part, a bucket a unit, in any order; none if there are none.
    pub others: Option<Spilled>,
    /// The numbers of the rows without a key, in any order.
    pub empties: Spilled,
}

impl Units {
    /// Units of these sizes, of the party at `place`, of the table at `path`. What does not fit in memory while it is sorted goes to `dir`.
    pub fn new(sizes: Sizes, place: u8, how: &Reading<'_>, records: Records, path: &Path, dir: &Path) -> Self {
        let Records { firsts, others, empties } = records;
        // Keys are bounded by what was agreed on. Where some have very many rows, the other rows of a unit may be more than the memory.
        let even = sizes.capacities.get(usize::from(place)).map_or(0, |keys| keys.saturating_mul(2 * RECORD as u64));
        let share = Share::InFlight.of(how.memory) / (2 * sizes.in_flight.max(1) as usize);
        let most = usize::try_from(even).unwrap_or(usize::MAX).min(Share::Units.of(how.memory) / 4).max(share);
        let firsts = match firsts.record_bytes() {
            COUNTED => Firsts::Counted(Ordered::new(firsts, most, dir)),
            _ => Firsts::Alone(Ordered::new(firsts, most, dir)),
        };
        let others = others.map(|others| Ordered::new(others, most, dir));
        Self { sizes, place, firsts, others, empties, path: path.to_owned(), marks: Mutex::default(), to_mark: false }
    }

    /// Cuts the keys of `table`, of which `keys` is known, into units by the run's salt. Where keys repeat, `repeats` says which rows
    /// do, or the table is read for that first.
    ///
    /// # Errors
    /// Those of [`Keys::count`]; [`vesica_table::Error::Changed`] if the table has other rows than it had.
    #[allow(clippy::too_many_arguments)]
    pub fn cut<'a>(
        table: &dyn Table,
        how: impl Into<Reading<'a>>,
        keys: &Keys,
        repeats: Option<&Repeats>,
        salt: &[u8; 32],
        sizes: Sizes,
        place: u8,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let (how, key, units) = (how.into(), salted(salt), sizes.units);
        let found = match repeats {
            None if keys.duplicates > 0 => Some(Repeats::find(table, &how, keys, dir, ctl)?),
            _ => None,
        };
        let repeats = repeats.or(found.as_ref());
        let counted = are_counted(keys, how.duplicates);
        let memory = Share::Units.of(how.memory);
        let others = counted.then(|| {
            // As much of it as there is to be of these.
            let [firsts, others] = [(keys.distinct, COUNTED), (keys.duplicates, RECORD)]
                .map(|(records, bytes)| u128::from(records) * bytes as u128);
            let part = memory as u128 * others / (firsts + others).max(1);
            (part as usize).clamp(memory / 16, memory - memory / 16)
        });
        let parting = Parting {
            how: &how,
            as_written: false,
            key: &key,
            counts: false,
            buckets: units as usize,
            room: Room { memory: memory - others.unwrap_or(0), records: keys.distinct },
            empties: true,
            others: others.map(|memory| Room { memory, records: keys.duplicates }),
            repeats,
            dir,
            ctl,
        };
        let parted = if counted {
            parting.of(table, |hash, row, rows| {
                let (digest, spread) = parts(hash);
                let mut counted = [0; COUNTED];
                counted[..RECORD].copy_from_slice(&record(&digest.0, row));
                counted[RECORD..].copy_from_slice(&to_bytes(rows));
                (unit_of(spread, units), counted)
            })?
        } else {
            parting.of(table, |hash, row, _| {
                let (digest, spread) = parts(hash);
                (unit_of(spread, units), record(&digest.0, row))
            })?
        };
        parted.same_rows(keys, table.path())?;
        let Parted { records: firsts, others, empties, repeats_hold, .. } = parted;
        let apart = others.as_ref().map_or(0, Spilled::total);
        if firsts.total() != keys.distinct || (counted && apart != keys.duplicates) {
            let of = |keys, repeat| format!("{keys} keys and {repeat} rows that repeat one");
            let now = of(firsts.total(), keys.entries().saturating_sub(firsts.total()));
            let what = format!("it had {}, and has {now}", of(keys.distinct, keys.duplicates));
            return Err(vesica_table::Error::Changed { path: table.path().to_owned(), what }.into());
        }
        how.slabs.iter().for_each(|slabs| slabs.release());
        let units = Self::new(sizes, place, &how, Records { firsts, others, empties }, table.path(), dir);
        if repeats_hold { Ok(units) } else { Err(units.changed()) }
    }

    /// The records of first rows, those of other rows, and the numbers of rows without a key.
    pub fn records(&self) -> (&Spilled, Option<&Spilled>, &Spilled) {
        let firsts = match &self.firsts {
            Firsts::Alone(firsts) => firsts.spilled(),
            Firsts::Counted(firsts) => firsts.spilled(),
        };
        (firsts, self.others.as_ref().map(Ordered::spilled), &self.empties)
    }

    /// How many threads may read units at a time, going by the largest one, in so many bytes of memory.
    pub fn readers(&self, workers: u32, memory: usize) -> usize {
        let firsts = match &self.firsts {
            Firsts::Alone(firsts) => firsts.largest(),
            Firsts::Counted(firsts) => firsts.largest(),
        };
        // Where there are others, the keys of a unit stand in memory beside them.
        let others = self.others.as_ref().map_or(0, |others| others.largest() + 2 * firsts);
        let reader = 5 * (firsts + others) / 2;
        cores(workers).min(memory / reader.max(1)).max(1)
    }

    /// Whether keys have other rows that take part.
    pub fn have_others(&self) -> bool {
        self.others.is_some()
    }

    /// Gives back the memory that reading took.
    pub fn rest(&self) {
        match &self.firsts {
            Firsts::Alone(firsts) => firsts.rest(),
            Firsts::Counted(firsts) => firsts.rest(),
        }
        self.others.iter().for_each(Ordered::rest);
    }

    /// The units, those with the most rows first. How long it takes several threads to read all of them then follows from how many rows
    /// units have, and not from which unit has most: that would say something about a key that very many rows have.
    pub fn largest_first(&self) -> Vec<UnitId> {
        let (firsts, others, _) = self.records();
        let rows = |id: &UnitId| {
            let unit = id.0 as usize;
            firsts.len(unit) + others.map_or(0, |others| others.len(unit))
        };
        let mut ids: Vec<UnitId> = (0..self.sizes.units).map(UnitId).collect();
        ids.sort_by_key(|id| Reverse(rows(id)));
        ids
    }

    /// From now on the rows of common keys are marked, if that is of use for the output of `plan`'s party: what does not fit in memory
    /// goes to `dir`. Of the table `keys` is known.
    ///
    /// # Errors
    /// Those of opening a spill; none is known.
    pub fn mark_rows(&mut self, plan: &Plan, keys: &Keys, dir: &Path) -> Result<(), JobError> {
        let marks = Marks::of(plan, keys, self.sizes.units, dir)?;
        self.to_mark = marks.is_some();
        self.marks = Mutex::new(marks);
        Ok(())
    }

    /// The marks, as far as there are some. There are none any more.
    pub fn take_marks(&self) -> Option<Marks> {
        self.marks().take()
    }

    fn marks(&self) -> MutexGuard<'_, Option<Marks>> {
        self.marks.lock().expect("no worker panics")
    }

    /// A unit has ended for the first time in its run: it has these matches, and `firsts` are the first rows of all its keys, if rows are
    /// marked.
    ///
    /// # Errors
    /// Those of spilling.
    pub fn mark(&self, id: UnitId, matches: &[Match], firsts: &[u64]) -> Result<(), JobError> {
        let mut marks = self.marks();
        let Some(of_all) = marks.as_mut() else { return Ok(()) };
        // What is marked in part is of no use: units are read then.
        of_all.mark(id, matches, firsts).inspect_err(|_| *marks = None)?;
        Ok(())
    }

    /// The unit, and how many rows each of its keys has.
    ///
    /// # Errors
    /// [`Error::Overflow`] if it has more keys than its public capacity; [`vesica_table::Error::Changed`] if a key is there twice;
    /// those of reading what was spilled.
    pub fn unit(&self, id: UnitId) -> Result<(Unit, Counts), JobError> {
        self.keys(id, None)
    }

    /// The same, and the number of each key's first row if rows are marked; else none.
    ///
    /// # Errors
    /// As [`Units::unit`].
    pub fn unit_to_mark(&self, id: UnitId) -> Result<(Unit, Counts, Vec<u64>), JobError> {
        let mut rows = Vec::new();
        let (unit, counts) = self.keys(id, Some(&mut rows).filter(|_| self.to_mark))?;
        Ok((unit, counts, rows))
    }

    /// The unit, and the number of each key's first row.
    ///
    /// # Errors
    /// As [`Units::unit`].
    pub fn unit_and_rows(&self, id: UnitId) -> Result<(Unit, Vec<u64>), JobError> {
        let mut rows = Vec::new();
        let (unit, _) = self.keys(id, Some(&mut rows))?;
        Ok((unit, rows))
    }

    fn keys(&self, id: UnitId, first: Option<&mut Vec<u64>>) -> Result<(Unit, Counts), JobError> {
        match &self.firsts {
            Firsts::Alone(firsts) => self.keys_of(firsts, id, first),
            Firsts::Counted(firsts) => self.keys_of(firsts, id, first),
        }
    }

    fn keys_of<const N: usize>(
        &self,
        firsts: &Ordered<N>,
        id: UnitId,
        mut first: Option<&mut Vec<u64>>,
    ) -> Result<(Unit, Counts), JobError> {
        let (capacity, held) = (self.sizes.capacity(self.place), firsts.len(id.0 as usize));
        if held as u64 > capacity {
            return Err(Error::Overflow { unit: id, capacity }.into());
        }
        let (mut keys, mut counts) = (Vec::with_capacity(held), Vec::new());
        if N != RECORD {
            counts.reserve(held);
        }
        if let Some(first) = &mut first {
            first.reserve(held);
        }
        firsts.read(id.0 as usize, &mut |records| {
            for record in records {
                let digest = digest(record);
                if keys.last() == Some(&digest) {
                    return Err(self.changed());
                }
                keys.push(digest);
            }
            if N != RECORD {
                counts.extend(records.iter().map(rows_of));
            }
            if let Some(first) = &mut first {
                first.extend(records.iter().map(|record| row(&record[..RECORD])));
            }
            Ok(())
        })?;
        let capacities = self.sizes.capacities.iter().map(|&keys| keys as usize).collect();
        let counts = if N == RECORD { Counts::alone(id) } else { Counts::of(id, counts) };
        Ok((Unit { id, keys, place: self.place, capacities }, counts))
    }

    /// The rows of a unit that take part, key by key and then in the input's order, and whether each is its key's first.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled; [`vesica_table::Error::Changed`] if a key has other rows than it had.
    pub fn each(&self, id: UnitId, each: impl FnMut(bool, u64) -> Result<(), JobError>) -> Result<(), JobError> {
        match &self.firsts {
            Firsts::Alone(firsts) => self.each_of(firsts, id, each),
            Firsts::Counted(firsts) => self.each_of(firsts, id, each),
        }
    }

    fn each_of<const N: usize>(
        &self,
        firsts: &Ordered<N>,
        id: UnitId,
        mut each: impl FnMut(bool, u64) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let unit = id.0 as usize;
        let Some(others) = &self.others else {
            return firsts.read(unit, &mut |records| records.iter().try_for_each(|r| each(true, row(&r[..RECORD]))));
        };
        let mut keys: Vec<(Digest, u64, u64)> = Vec::with_capacity(firsts.len(unit));
        firsts.read(unit, &mut |records| {
            keys.extend(records.iter().map(|record| (digest(record), row(&record[..RECORD]), rows_of(record))));
            Ok(())
        })?;
        let mut keys = keys.into_iter().peekable();
        // The key whose rows come now, and how many of them are still to come.
        let (mut key, mut left) = (None, 0);
        let mut go_on = |digest: Option<&Digest>, left: &mut u64, each: &mut dyn FnMut(bool, u64) -> _| {
            while let Some((next, row, rows)) = keys.next_if(|(next, ..)| digest.is_none_or(|digest| next <= digest)) {
                if *left > 0 {
                    return Err(self.changed());
                }
                (key, *left) = (Some(next), rows.checked_sub(1).ok_or_else(|| self.changed())?);
                each(true, row)?;
            }
            Ok::<_, JobError>(key)
        };
        others.read(unit, &mut |records| {
            for record in records {
                let digest = digest(record);
                let key = go_on(Some(&digest), &mut left, &mut each)?;
                left = left.checked_sub(1).filter(|_| key == Some(digest)).ok_or_else(|| self.changed())?;
                each(false, row(record))?;
            }
            Ok(())
        })?;
        go_on(None, &mut left, &mut each)?;
        if left > 0 { Err(self.changed()) } else { Ok(()) }
    }

    /// The rows of all units as [`Units::each`] gives them.
    ///
    /// # Errors
    /// As [`Units::each`]; being cancelled.
    pub fn all(&self, ctl: &Control, each: Rows<'_>) -> Result<(), JobError> {
        (0..self.sizes.units).map(UnitId).try_for_each(|id| {
            ctl.check()?;
            self.each(id, &mut *each)
        })
    }

    /// The rows without a key, in any order.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn each_empty(&self, mut each: impl FnMut(u64) -> Result<(), JobError>) -> Result<(), JobError> {
        for block in self.empties.blocks(0, 1 << 13) {
            block?.chunks_exact(ROW).map(row).try_for_each(&mut each)?;
        }
        Ok(())
    }

    /// The table has other keys than it had, in as many rows.
    pub fn changed(&self) -> JobError {
        let what = "its keys are not in the rows in which they were".to_owned();
        vesica_table::Error::Changed { path: self.path.clone(), what }.into()
    }
}

/// How many rows the key of a record has.
#[inline(always)]
fn rows_of<const N: usize>(record: &[u8; N]) -> u64 {
    if N == RECORD { 1 } else { row(record) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use vesica_types::TagLen;

    const KEYS: u32 = 3000;
    const UNITS: u32 = 7;

    fn table(rows: &[String]) -> vesica_table::Memory {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
        let batch = RecordBatch::try_from_iter([("id", texts)]).unwrap();
        vesica_table::Memory::new("a table", batch.schema(), vec![batch]).unwrap()
    }

    fn counted(rows: &[String], duplicates: Duplicates) -> (Keys, Reading<'static>) {
        static COLUMNS: std::sync::LazyLock<[String; 1]> = std::sync::LazyLock::new(|| ["id".to_owned()]);
        const RULES: &[Vec<vesica_spec::Rule>] = &[Vec::new()];
        let how =
            Reading { keys: &*COLUMNS, rules: RULES, lists: &[], duplicates, memory: 1 << 20, workers: 2, slabs: None };
        (Keys::count(&table(rows), how, &std::env::temp_dir(), &Control::new(())).unwrap(), how)
    }

    fn cut(rows: &[String], keys: &Keys, repeats: Option<&Repeats>, how: Reading<'_>) -> Result<Units, JobError> {
        let tag_len = TagLen::new(9).unwrap();
        let capacities = vec![u64::from(KEYS)];
        let sizes = Sizes { units: UNITS, in_flight: 2, keys: vec![keys.distinct], capacities, tag_len };
        let (dir, ctl) = (std::env::temp_dir(), Control::new(()));
        Units::cut(&table(rows), how, keys, repeats, &[9; 32], sizes, 0, &dir, &ctl)
    }

    impl Units {
        /// Bytes that were read and sorted of first rows, and of other ones.
        fn taken(&self) -> [u64; 2] {
            let firsts = match &self.firsts {
                Firsts::Alone(firsts) => &firsts.taken,
                Firsts::Counted(firsts) => &firsts.taken,
            };
            let others = self.others.as_ref().map_or(0, |others| others.taken.load(Ordering::Relaxed));
            [firsts.load(Ordering::Relaxed), others]
        }
    }

    /// How long that takes would say how many of its keys are common.
    #[test]
    fn a_unit_that_is_read_does_not_wait_for_the_marks_of_another() {
        let rows: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
        let (keys, how) = counted(&rows, Duplicates::Join);
        let mut units = cut(&rows, &keys, None, how).unwrap();
        units.to_mark = true;
        let (sender, read) = std::sync::mpsc::channel();
        let read = std::thread::scope(|scope| {
            let _marking = units.marks();
            scope.spawn(|| sender.send(units.unit_to_mark(UnitId(0)).unwrap()));
            read.recv_timeout(std::time::Duration::from_secs(60))
        });
        let (unit, _, firsts) = read.expect("it is read while another one is marked");
        assert_eq!(unit.keys.len(), firsts.len());
    }

    /// Who knows the salt would learn over some runs which key is in the slow unit each time.
    #[test]
    fn what_is_read_and_sorted_before_a_units_first_message_rests_on_its_keys_alone() {
        let rows = |of_key: fn(u32) -> usize| -> Vec<String> {
            (0..KEYS).flat_map(|key| std::iter::repeat_n(format!("key {key}"), of_key(key))).collect()
        };
        let one_heavy = rows(|key| if key == 17 { 20_001 } else { 1 });
        let all_alike = rows(|key| if key < 2000 { 11 } else { 1 });
        let alone = rows(|_| 1);
        assert_eq!(one_heavy.len(), all_alike.len());
        let bytes = |rows: &[String], duplicates| -> Vec<u64> {
            let (keys, how) = counted(rows, duplicates);
            assert_eq!(keys.distinct, u64::from(KEYS));
            let units = cut(rows, &keys, None, how).unwrap();
            let mut before = 0;
            let bytes = (0..UNITS).map(|id| {
                assert!(!units.unit(UnitId(id)).unwrap().0.keys.is_empty());
                let [firsts, others] = units.taken();
                assert_eq!(others, 0, "other rows of a key wait until the units are joined");
                firsts - std::mem::replace(&mut before, firsts)
            });
            bytes.collect()
        };
        let heavy = bytes(&one_heavy, Duplicates::Join);
        assert_eq!(heavy.iter().sum::<u64>(), u64::from(KEYS) * COUNTED as u64);
        assert_eq!(heavy, bytes(&all_alike, Duplicates::Join));
        let alone = bytes(&alone, Duplicates::Join);
        let keys = |bytes: &[u64], record: usize| bytes.iter().map(|bytes| bytes / record as u64).collect::<Vec<_>>();
        assert_eq!(keys(&heavy, COUNTED), keys(&alone, RECORD));
        assert_eq!(bytes(&one_heavy, Duplicates::First), alone);
    }

    #[test]
    fn the_units_with_the_most_rows_are_joined_first() {
        let rows: Vec<String> = (0..4000).map(|i| if i % 2 == 0 { "x".to_owned() } else { i.to_string() }).collect();
        let (keys, how) = counted(&rows, Duplicates::Join);
        let units = cut(&rows, &keys, None, how).unwrap();
        let count = |id| {
            let mut rows = 0;
            let each = |_, _| {
                rows += 1;
                Ok(())
            };
            units.each(id, each).map(|()| rows).unwrap()
        };
        let counts: Vec<i32> = units.largest_first().into_iter().map(count).collect();
        assert!(counts[0] > 2000 && counts.is_sorted_by(|a, b| a >= b) && counts.len() == UNITS as usize, "{counts:?}");
    }

    /// As many rows, and as many that repeat a key, and still it is another table.
    #[test]
    fn a_table_whose_keys_moved_since_they_were_counted_is_an_error() {
        let rows = |keys: &str| keys.chars().map(String::from).collect::<Vec<_>>();
        let ctl = Control::new(());
        for (before, then, unit, each) in [
            ("abc", "abd", true, true),
            ("abc", "aac", false, true),
            ("aabc", "aabc", true, true),
            ("aabc", "abbc", false, false),
            ("aabc", "abca", false, false),
            ("aabc", "adbc", false, false),
            ("aabc", "aaaa", false, false),
            ("aaabc", "aaabb", false, true),
            ("aaabb", "aabbb", false, false),
        ] {
            let (keys, how) = counted(&rows(before), Duplicates::Join);
            let found = Repeats::find(&table(&rows(before)), &how, &keys, &std::env::temp_dir(), &ctl).unwrap();
            let found = Some(found).filter(|found| found.rows > 0);
            let units = cut(&rows(then), &keys, found.as_ref(), how);
            let all = |what: &dyn Fn(&Units, UnitId) -> Result<(), JobError>| match &units {
                Ok(units) => (0..UNITS).map(UnitId).try_for_each(|id| what(units, id)),
                Err(error) => Err(vesica_session::Error::Bug(error.to_string()).into()),
            };
            for (result, right) in [
                (all(&|units, id| units.unit(id).map(drop)), unit),
                (all(&|units, id| units.each(id, |_, _| Ok(()))), each),
            ] {
                match result {
                    Ok(()) => assert!(right, "{before} {then}"),
                    Err(error) => {
                        assert!(!right && error.to_string().contains("changed while it was being read"), "{error}");
                    }
                }
            }
        }
    }
}
