//! A job's keys cut into units, from its table.

use crate::error::JobError;
use crate::input::keys::{KeyId, Keys, Reading, parts, salted};
use crate::input::parted::{Parted, Parting, ROW, row, to_bytes};
use crate::input::sort::{self, Bins, ascending};
use crate::tell::control::Control;
use crate::threads::cores;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use vesica_session::{Error, Unit};
use vesica_spec::{Duplicates, Share};
use vesica_suite::Sizes;
use vesica_table::{Spill, Spilled, Table};
use vesica_types::{Digest, TagLen, UnitId};

/// A record of a unit: a digest, and the number of a row that has it.
pub const RECORD: usize = DIGEST + ROW;

/// Bytes of a digest.
const DIGEST: usize = 16;

/// Records that are read together where a unit has too many rows for the memory.
const BLOCK: usize = 1 << 11;

/// Rows of a unit, about, where no peer has a say in it.
const BY_CHANCE: u64 = 1 << 17;

/// The unit of `units` that a key belongs to. Multiply and shift: the top bits of a uniform number, evenly over the units.
pub fn unit_of(spread: u64, units: u32) -> u32 {
    ((u128::from(spread) * u128::from(units)) >> 64) as u32
}

/// The rows of a job, unit by unit.
pub struct Units {
    /// What the parties agreed on.
    pub sizes: Sizes,
    /// Whose keys they are.
    pub place: u8,
    /// Whether only the first row of each key takes part.
    first: bool,
    /// The records, a bucket a unit, in any order.
    records: Spilled,
    /// The numbers of the rows without a key, in any order.
    empties: Spilled,
    /// Bytes of a unit's records, the most, that are sorted in one piece.
    most: usize,
    /// Where more than that goes.
    dir: PathBuf,
    /// What reading a unit takes, to be used again: to touch fresh memory costs as much as to sort what is read to it.
    readers: Mutex<Vec<Reader>>,
}

impl Units {
    /// Units of these sizes, of the party at `place`.
    pub fn new(sizes: Sizes, place: u8, how: &Reading<'_>, (records, empties): (Spilled, Spilled), dir: &Path) -> Self {
        // Keys have a row each, or some have two; where some have very many, a unit may be larger than the memory.
        let even = sizes.capacities.get(usize::from(place)).map_or(0, |keys| keys.saturating_mul(2 * RECORD as u64));
        let share = Share::InFlight.of(how.memory) / (2 * sizes.in_flight.max(1) as usize);
        let most = usize::try_from(even).unwrap_or(usize::MAX).min(Share::Units.of(how.memory) / 4).max(share);
        let first = how.duplicates == Duplicates::First;
        Self { sizes, place, first, records, empties, most, dir: dir.to_owned(), readers: Mutex::default() }
    }

    /// Cuts the keys of `table`, of which `keys` is known, into units by the run's salt.
    ///
    /// # Errors
    /// Those of [`Keys::count`]; [`vesica_table::Error::Changed`] if the table has other rows than it had.
    #[allow(clippy::too_many_arguments)]
    pub fn cut<'a>(
        table: &dyn Table,
        how: impl Into<Reading<'a>>,
        keys: &Keys,
        salt: &[u8; 32],
        sizes: Sizes,
        place: u8,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let (how, key, units) = (how.into(), salted(salt), sizes.units);
        let parting = Parting {
            how: &how,
            as_written: false,
            key: &key,
            buckets: units as usize,
            memory: Share::Units.of(how.memory),
            empties: true,
            dir,
            ctl,
        };
        let Parted { records, empties, rows, empty, .. } = parting.of(table, |hash, row| {
            let (digest, spread) = parts(hash);
            let mut record = [0; RECORD];
            record[..DIGEST].copy_from_slice(&digest.0);
            record[DIGEST..].copy_from_slice(&to_bytes(row));
            (unit_of(spread, units), record)
        })?;
        if (rows, empty) != (keys.rows, keys.empty) {
            let of = |rows, empty| format!("{rows} rows, {empty} of them without a key");
            let what = format!("it had {}, and has {}", of(keys.rows, keys.empty), of(rows, empty));
            return Err(vesica_table::Error::Changed { path: table.path().to_owned(), what }.into());
        }
        Ok(Self::new(sizes, place, &how, (records, empties), dir))
    }

    /// The same by a salt that nobody else knows, to see before there is a peer what each key's rows are.
    ///
    /// # Errors
    /// As [`Units::cut`].
    pub fn by_chance(
        table: &dyn Table,
        how: &Reading<'_>,
        keys: &Keys,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt)
            .map_err(|e| JobError::Setup(format!("the system has no randomness to give: {e}")))?;
        let units = keys.rows.div_ceil(BY_CHANCE).clamp(1, 1 << 12) as u32;
        let tag_len = TagLen::new(16).ok_or_else(|| Error::Bug("no tag of 16 bytes".into()))?;
        let (keys_of, capacities) = (vec![keys.distinct], vec![u64::MAX]);
        let sizes = Sizes { keys: keys_of, units, in_flight: how.workers.max(1), capacities, tag_len };
        Self::cut(table, *how, keys, &salt, sizes, 0, dir, ctl)
    }

    /// The records, a bucket a unit, in any order.
    pub fn records(&self) -> &Spilled {
        &self.records
    }

    /// The numbers of the rows without a key, in any order, as they stand in records.
    pub fn empties(&self) -> &Spilled {
        &self.empties
    }

    /// How many threads may read units at a time, going by the largest one, in so many bytes of memory.
    pub fn readers(&self, workers: u32, memory: usize) -> usize {
        let largest = (0..self.records.buckets()).map(|unit| self.records.len(unit)).max().unwrap_or(0) * RECORD;
        cores(workers).min(memory / (5 * largest.min(self.most) / 2).max(1)).max(1)
    }

    /// The unit, and the number and row count of each of its keys.
    ///
    /// # Errors
    /// [`Error::Overflow`] if it has more keys than its public capacity; those of reading what was spilled.
    pub fn unit(&self, id: UnitId) -> Result<(Unit, Vec<(KeyId, u64)>), JobError> {
        let capacity = self.sizes.capacity(self.place);
        let most = (self.records.len(id.0 as usize) as u64).min(capacity) as usize;
        let (mut keys, mut rows) = (Vec::with_capacity(most), Vec::<(KeyId, u64)>::with_capacity(most));
        self.sorted(id, &mut |records| {
            for record in records {
                let digest = digest(record);
                if keys.last() == Some(&digest) {
                    rows.last_mut().expect("a key has a row").1 += u64::from(!self.first);
                } else if keys.len() as u64 == capacity {
                    return Err(Error::Overflow { unit: id, capacity }.into());
                } else {
                    rows.push((KeyId::new(id, keys.len() as u64), 1));
                    keys.push(digest);
                }
            }
            Ok(())
        })?;
        let capacities = self.sizes.capacities.iter().map(|&keys| keys as usize).collect();
        Ok((Unit { id, keys, place: self.place, capacities }, rows))
    }

    /// The rows of a unit that take part, key by key and then in the input's order, and whether each is its key's first.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn each(&self, id: UnitId, mut each: impl FnMut(bool, u64) -> Result<(), JobError>) -> Result<(), JobError> {
        let mut last = None;
        self.sorted(id, &mut |records| {
            records.iter().try_for_each(|record| {
                let digest = digest(record);
                let first = last.replace(digest) != Some(digest);
                if first || !self.first { each(first, row(record)) } else { Ok(()) }
            })
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

    /// The first row whose key stands in an earlier one, and how many such rows there are.
    ///
    /// # Errors
    /// Those of reading what was spilled; being cancelled.
    pub fn repeated(&self, ctl: &Control) -> Result<[u64; 2], JobError> {
        let (mut least, mut repeat) = (u64::MAX, 0);
        for id in (0..self.sizes.units).map(UnitId) {
            ctl.check()?;
            self.each(id, |first, row| {
                if !first {
                    (least, repeat) = (least.min(row), repeat + 1);
                }
                Ok(())
            })?;
        }
        Ok([least, repeat])
    }

    /// The records of a unit in order, some at a time.
    fn sorted(&self, id: UnitId, each: Each<'_>) -> Result<(), JobError> {
        // Whoever comes while all are in use takes memory of its own.
        let reader = self.readers.lock().expect("no worker panics").pop();
        let mut reader = reader.unwrap_or_default();
        let Self { records, most, dir, .. } = self;
        in_order(records, id.0 as usize, 0, *most, dir, &mut reader, each)?;
        self.readers.lock().expect("no worker panics").push(reader);
        Ok(())
    }
}

/// What reading a unit takes, to be used again.
#[derive(Default)]
struct Reader {
    bytes: Vec<u8>,
    bins: Bins,
    sorted: Vec<[u8; RECORD]>,
}

/// Takes records in order, some at a time.
type Each<'a> = &'a mut dyn FnMut(&[[u8; RECORD]]) -> Result<(), JobError>;

/// The records of a bucket in order, some at a time; `depth` bytes of them are the same. However many there are, and however
/// often a key is among them, they take some times `most` bytes at most: a bucket that is larger is parted by the next byte in
/// which its records differ.
fn in_order(
    unsorted: &Spilled,
    bucket: usize,
    depth: usize,
    most: usize,
    dir: &Path,
    reader: &mut Reader,
    each: Each<'_>,
) -> Result<(), JobError> {
    if unsorted.len(bucket) <= (most / RECORD).clamp(1, sort::MOST) {
        unsorted.read_into(bucket, &mut reader.bytes)?;
        ascending(reader.bytes.as_chunks().0, depth, &mut reader.bins, &mut reader.sorted);
        return each(&reader.sorted);
    }
    let Some(depth) = differ(unsorted, bucket, depth)? else {
        return Err(Error::Bug("a row was read twice".into()).into());
    };
    let mut finer = Spill::new(256, RECORD, most, dir)?;
    let (mut blocks, mut block) = (unsorted.blocks(bucket, BLOCK), Vec::new());
    while blocks.next_into(&mut block)? {
        let (records, _) = block.as_chunks::<RECORD>();
        records.iter().try_for_each(|record| finer.push(usize::from(record[depth]), record))?;
    }
    let finer = finer.finish()?;
    (0..256).try_for_each(|bucket| in_order(&finer, bucket, depth + 1, most, dir, reader, each))
}

/// The first byte from `depth` on that is not the same in all records of a bucket.
fn differ(records: &Spilled, bucket: usize, depth: usize) -> Result<Option<usize>, JobError> {
    let (mut blocks, mut block) = (records.blocks(bucket, BLOCK), Vec::new());
    let (mut first, mut differ) = (None::<[u8; RECORD]>, None);
    while blocks.next_into(&mut block)? {
        for record in block.as_chunks::<RECORD>().0 {
            let first = first.get_or_insert(*record);
            let end = differ.unwrap_or(RECORD);
            differ = (depth..end).find(|&byte| first[byte] != record[byte]).or(differ);
        }
        if differ == Some(depth) {
            break;
        }
    }
    Ok(differ)
}

#[inline(always)]
fn digest(record: &[u8; RECORD]) -> Digest {
    Digest(*record.first_chunk().expect("a record begins with a digest"))
}
