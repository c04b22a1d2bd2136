//! A job's keys cut into units.

use crate::error::JobError;
use crate::input::keys::{KeyId, Keys, PARTS};
use crate::input::sort::{Bins, Grouped, in_bins};
use crate::threads::cores;
use std::path::Path;
use std::sync::Mutex;
use vesica_session::{Error, Unit};
use vesica_spec::Share;
use vesica_suite::Sizes;
use vesica_table::{Spill, Spilled, on_threads};
use vesica_types::{Digest, UnitId};

/// A record of a unit: digest, key number, row count.
pub const RECORD: usize = 32;

/// Records that a thread cuts before it gives them away.
const BLOCK: usize = 1 << 13;

/// The unit of `units` that a key belongs to. Multiply and shift: the top bits of a uniform number, evenly over the units.
pub fn unit_of(spread: u64, units: u32) -> u32 {
    ((u128::from(spread) * u128::from(units)) >> 64) as u32
}

/// The keys of a job, unit by unit.
pub struct Units {
    /// What the parties agreed on.
    pub sizes: Sizes,
    /// Whose keys they are.
    pub place: u8,
    /// The records, a bucket a unit, in any order.
    records: Spilled,
    /// What reading a unit takes, to be used again: to touch fresh memory costs as much as to sort what is read to it.
    reading: Mutex<Option<(Vec<u8>, Bins)>>,
}

impl Units {
    /// Units of these sizes, of the party at `place`.
    pub fn new(sizes: Sizes, place: u8, records: Spilled) -> Self {
        Self { sizes, place, records, reading: Mutex::default() }
    }

    /// The records, a bucket a unit, in any order.
    pub fn records(&self) -> &Spilled {
        &self.records
    }

    /// Cuts `keys` into units by the run's salt.
    ///
    /// # Errors
    /// [`Error::Overflow`] if a unit got more keys than its public capacity; a full disk.
    pub fn partition(
        keys: &Keys,
        salt: &[u8; 32],
        sizes: Sizes,
        place: u8,
        workers: u32,
        memory: u64,
        dir: &Path,
    ) -> Result<Self, JobError> {
        let spill = Mutex::new(Spill::new(sizes.units as usize, RECORD, Share::Units.of(memory), dir)?);
        let parts = Mutex::new(0..PARTS);
        on_threads::<JobError>(cores(workers), || {
            let (mut cut, mut of) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
            let mut grouped = Grouped::default();
            let mut put = |cut: &mut Vec<[u8; RECORD]>, of: &mut Vec<u32>| {
                grouped.group(sizes.units as usize, cut, |place| of[place] as usize);
                cut.clear();
                of.clear();
                let mut spill = spill.lock().expect("no worker panics");
                grouped.each(|unit, records| spill.push_all(unit, records.as_flattened()))
            };
            loop {
                let next = parts.lock().expect("no worker panics").next();
                let Some(part) = next else { return Ok(put(&mut cut, &mut of)?) };
                keys.salted(part, salt, |s| {
                    let mut record = [0; RECORD];
                    record[..16].copy_from_slice(&s.digest.0);
                    record[16..24].copy_from_slice(&s.key.0.to_le_bytes());
                    record[24..].copy_from_slice(&s.rows.to_le_bytes());
                    cut.push(record);
                    of.push(unit_of(s.spread, sizes.units));
                    if cut.len() < BLOCK { Ok(()) } else { Ok(put(&mut cut, &mut of)?) }
                })?;
            }
        })?;
        let records = spill.into_inner().expect("no worker panics").finish()?;
        for unit in 0..sizes.units {
            let capacity = sizes.capacity(place);
            if records.len(unit as usize) as u64 > capacity {
                return Err(Error::Overflow { unit: UnitId(unit), capacity }.into());
            }
        }
        Ok(Self::new(sizes, place, records))
    }

    /// The unit, and the number and row count of each of its keys.
    ///
    /// # Errors
    /// Those of reading what was spilled.
    pub fn unit(&self, id: UnitId) -> Result<(Unit, Vec<(KeyId, u64)>), JobError> {
        // Whoever comes while it is in use takes memory of its own.
        let reading = self.reading.lock().expect("no worker panics").take();
        let (mut bytes, mut bins) = reading.unwrap_or_default();
        self.records.read_into(id.0 as usize, &mut bytes)?;
        let (records, _) = bytes.as_chunks::<RECORD>();
        let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().expect("a record has two numbers"));
        let mut keys = vec![Digest::default(); records.len()];
        let mut rows = vec![(KeyId(0), 0); records.len()];
        bins.count(records, 0);
        for record in records {
            let place = bins.place(record, 0);
            keys[place] = Digest(*record.first_chunk().expect("a record has a digest"));
            rows[place] = (KeyId(number(&record[16..])), number(&record[24..]));
        }
        in_bins(&bins, &mut keys, &mut rows);
        *self.reading.lock().expect("no worker panics") = Some((bytes, bins));
        let capacities = self.sizes.capacities.iter().map(|&keys| keys as usize).collect();
        Ok((Unit { id, keys, place: self.place, capacities }, rows))
    }
}
