//! How many keys a table has: known before any peer is contacted, and exact.
//!
//! Every key is hashed under a random key of this process, and 12 bytes of the hash are its *fingerprint*. Others of its bits
//! say which bucket it goes to, and each bucket is then counted by itself, in a set of bounded size. Nothing of this is left
//! when it is done: keys are cut into units from the table itself, under the run's salt. Nobody else sees such a hash, so of
//! short texts it is whichever function is the fastest ([`Hasher::counting`](crate::input::keys::Hasher::counting)).
//!
//! Two of n keys have one fingerprint with probability below n²/2^(97 + log2 of the buckets): 2^-49 at 10^9 keys. Nobody can
//! plant such keys, for the hash's key is drawn after the table is fixed. If it happens, it seems that a key repeats, and
//! [`repeats`](crate::input::repeats) puts that right.

use crate::error::JobError;
use crate::input::keys::{Keys, Reading};
use crate::input::parted::{Parted, Parting, Room};
use crate::input::repeats::Repeats;
use crate::tell::control::Control;
use crate::threads::cores;
use crate::world::random;
use std::path::Path;
use std::sync::Mutex;
use vesica_block::prefetch;
use vesica_session::Error;
use vesica_spec::{Duplicates, Plan, Share};
use vesica_table::{Spilled, Table, on_threads};

/// Bytes of a fingerprint.
const FINGERPRINT: usize = 12;

/// Rows of a bucket on average, where there are as many buckets as may be: its fingerprints are counted in the cache.
const BUCKET: u64 = 1 << 18;

/// Rows that are taken to stand in so many bytes of a file that does not say how many it has.
const BYTES: u64 = 16;

/// As many bytes have a row at least in most files that do not say how many they have.
const LONG: u64 = 32;

/// Fingerprints that are read together.
const BLOCK: usize = 1 << 13;

/// How many fingerprints later the one is looked for that is asked for now.
const AHEAD: usize = 16;

/// The least fingerprints that a set has room for.
const LEAST: usize = 64;

impl Keys {
    /// Reads the key columns of `table` whole, and counts. The plan's memory bounds the bytes held; what is more goes to `dir`.
    ///
    /// # Errors
    /// What is wrong with the table, with the row; [`JobError::Repeats`]; a full disk; being cancelled.
    pub fn count<'a>(
        table: &dyn Table,
        how: impl Into<Reading<'a>>,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let how = how.into();
        let mut keys = counted(table, &how, false, dir, ctl)?;
        if how.duplicates == Duplicates::Error && keys.duplicates > 0 {
            // It is read once more, to name the row, and to see by the whole digest that the key repeats.
            let Repeats { rows, first, .. } = Repeats::find(table, &how, &keys, dir, ctl)?;
            if rows > 0 {
                let row = first / how.of_a_row() + 1;
                return Err(JobError::Repeats {
                    path: table.path().to_owned(),
                    row,
                    rows,
                    identifiers: !how.lists.is_empty(),
                });
            }
            (keys.distinct, keys.duplicates) = (keys.entries(), 0);
        }
        Ok(keys)
    }

    /// Distinct keys as they are written, of the rows that have a key after the rules: more than there are keys, if rules
    /// made some of them the same.
    ///
    /// # Errors
    /// As [`Keys::count`].
    pub fn spellings(table: &dyn Table, plan: &Plan, dir: &Path, ctl: &Control) -> Result<u64, JobError> {
        Ok(counted(table, &plan.into(), true, dir, ctl)?.distinct)
    }
}

fn counted(
    table: &dyn Table,
    how: &Reading<'_>,
    as_written: bool,
    dir: &Path,
    ctl: &Control,
) -> Result<Keys, JobError> {
    let key = random()?;
    let memory = Share::Keys.of(how.memory);
    let rows = |bytes| table.rows().unwrap_or_else(|| table.bytes().unwrap_or(0) / bytes);
    let about = rows(BYTES).saturating_mul(how.of_a_row());
    let most = (memory as u64 / (4 << 10)).clamp(1, 1 << 16);
    let buckets = about.div_ceil(BUCKET).clamp(256, 1 << 16).min(most) as u32;
    let (empties, others, repeats) = (false, None, None);
    let room = Room { memory, records: rows(LONG).saturating_mul(how.of_a_row()) };
    let parting = Parting {
        how,
        as_written,
        key: &key,
        counts: true,
        buckets: buckets as usize,
        room,
        empties,
        others,
        repeats,
        dir,
        ctl,
    };
    let Parted { records, rows, empty, entries, ruled, .. } = parting.of(table, |hash, _, _| {
        let (fingerprint, rest) = hash.split_first_chunk::<FINGERPRINT>().expect("a hash has 32 bytes");
        let spread = u32::from_le_bytes(*rest.first_chunk().expect("20 bytes are left"));
        (((u64::from(spread) * u64::from(buckets)) >> 32) as u32, *fingerprint)
    })?;
    let distinct = distinct(&records, cores(how.workers), Share::InFlight.of(how.memory), ctl)?;
    Ok(Keys { rows, distinct, empty, duplicates: entries - distinct, ruled: Some(ruled) })
}

/// How many fingerprints differ, counted by so many threads in about so many bytes of memory.
fn distinct(records: &Spilled, workers: usize, memory: usize, ctl: &Control) -> Result<u64, JobError> {
    // A block that is read and a set as large are what a worker needs at least.
    let workers = workers.min(memory / (2 * BLOCK * FINGERPRINT)).max(1);
    let most = (memory / workers / (2 * FINGERPRINT)).max(LEAST);
    let left = Mutex::new((0..records.buckets(), 0));
    on_threads::<JobError>(workers, || {
        let mut set = Set::default();
        loop {
            let next = left.lock().expect("no worker panics").0.next();
            let Some(bucket) = next else { return Ok(()) };
            ctl.check()?;
            let distinct = set.count(records, bucket, most)?;
            left.lock().expect("no worker panics").1 += distinct;
        }
    })?;
    Ok(left.into_inner().expect("no worker panics").1)
}

/// A fingerprint as words.
type Words = [u32; FINGERPRINT / 4];

#[inline(always)]
fn words(fingerprint: &[u8; FINGERPRINT]) -> Words {
    let (words, _) = fingerprint.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// A set of fingerprints, by open addressing. The memory is used again.
#[derive(Default)]
struct Set {
    /// Zeros are a free slot.
    slots: Vec<Words>,
    held: usize,
    /// Whether the fingerprint of zeros is in the set.
    zeros: bool,
    block: Vec<u8>,
}

impl Set {
    /// How many fingerprints of `bucket` differ. No more than `most` are held at once: where there are more, the bucket is read
    /// again, and each time those are counted whose first words are in a range.
    fn count(&mut self, records: &Spilled, bucket: usize, most: usize) -> Result<u64, JobError> {
        let room = records.len(bucket).min(most).max(1);
        let (mut from, mut distinct) = (0, 0);
        while from < 1 << 32 {
            let mut end = 1u64 << 32;
            // A third is free at least, so that ways are short and there is an end to them.
            self.slots.resize(room + room / 2 + 1, [0; 3]);
            self.slots.as_flattened_mut().fill(0);
            (self.held, self.zeros) = (0, false);
            let mut block = std::mem::take(&mut self.block);
            let mut blocks = records.blocks(bucket, BLOCK);
            while blocks.next_into(&mut block)? {
                let fingerprints = block.as_chunks().0;
                for (i, fingerprint) in fingerprints.iter().enumerate() {
                    let words = words(fingerprint);
                    // Where one of the next goes is in the cache when its turn comes.
                    if let Some(ahead) = fingerprints.get(i + AHEAD) {
                        prefetch(&self.slots, self.slot(&self::words(ahead)));
                    }
                    if !(from..end).contains(&u64::from(words[0])) || !self.insert(words) {
                        continue;
                    }
                    while self.held > room {
                        if end - from == 1 {
                            return Err(Error::Bug("hashes of keys are all alike".into()).into());
                        }
                        end = from + (end - from) / 2;
                        self.keep_below(end);
                    }
                }
            }
            self.block = block;
            distinct += self.held as u64 + u64::from(self.zeros);
            from = end;
        }
        Ok(distinct)
    }

    /// Where the search for a fingerprint begins.
    #[inline(always)]
    fn slot(&self, words: &Words) -> usize {
        ((u64::from(words[1]) * self.slots.len() as u64) >> 32) as usize
    }

    /// Whether it was not there.
    #[inline]
    fn insert(&mut self, words: Words) -> bool {
        if words == [0; 3] {
            self.zeros = true;
            return false;
        }
        let mut slot = self.slot(&words);
        loop {
            let held = &mut self.slots[slot];
            if *held == words {
                return false;
            }
            if *held == [0; 3] {
                *held = words;
                self.held += 1;
                return true;
            }
            slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
        }
    }

    /// Leaves out all whose first words are not below `end`.
    fn keep_below(&mut self, end: u64) {
        let kept: Vec<Words> =
            self.slots.iter().filter(|words| **words != [0; 3] && u64::from(words[0]) < end).copied().collect();
        self.slots.fill([0; 3]);
        self.held = 0;
        kept.into_iter().for_each(|words| _ = self.insert(words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use vesica_table::Spill;

    fn spilled(fingerprints: &[[u8; FINGERPRINT]], buckets: usize, memory: usize) -> Spilled {
        let mut spill = Spill::new(buckets, FINGERPRINT, memory, &std::env::temp_dir()).unwrap();
        fingerprints.iter().for_each(|f| spill.push(usize::from(f[11]) % buckets, f).unwrap());
        spill.finish().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Fingerprints with few bits, so that they meet in some of their words and not in others.
        #[test]
        fn what_differs_is_counted_however_small_the_set_is(
            few in prop::collection::vec([0u8..3, 0u8..2, 0u8..4], 0..600),
            many in prop::collection::vec(any::<[u8; FINGERPRINT]>(), 0..600),
            buckets in 1usize..5,
            memory in prop::sample::select(&[1usize, 4000, 1 << 20][..]),
            workers in 1usize..4,
        ) {
            let spread = |[a, b, c]: [u8; 3]| [0, 0, 0, a << 6, 0, 0, 0, b, 0, 0, c, 0];
            let all: Vec<_> = few.into_iter().map(spread).chain(many).collect();
            let expected = all.iter().collect::<BTreeSet<_>>().len() as u64;
            let records = spilled(&all, buckets, memory.max(1 << 12));
            let ctl = Control::new(());
            // Those that are alike in their first words cannot be parted: the sets have room for all of these.
            prop_assert_eq!(distinct(&records, workers, memory, &ctl).unwrap(), expected);
        }
    }

    #[test]
    fn one_key_in_most_rows_needs_no_memory() {
        let of = |i: u64| {
            let mut fingerprint = [7; FINGERPRINT];
            if i.is_multiple_of(10) {
                fingerprint[..8].copy_from_slice(blake3::hash(&i.to_le_bytes()).as_bytes().first_chunk::<8>().unwrap());
            }
            fingerprint
        };
        let all: Vec<_> = (0..20_000).map(of).collect();
        for memory in [1, 4_000, 1 << 24] {
            assert_eq!(distinct(&spilled(&all, 2, 1 << 14), 1, memory, &Control::new(())).unwrap(), 2_001);
        }
    }

    #[test]
    fn hashes_that_are_all_alike_are_an_error_and_not_for_ever() {
        let all: Vec<[u8; FINGERPRINT]> =
            (0..200u32).map(|i| [&[0; 4][..], &i.to_le_bytes(), &[1; 4]].concat().try_into().unwrap()).collect();
        let error = distinct(&spilled(&all, 1, 1 << 14), 1, 1, &Control::new(())).unwrap_err();
        assert!(error.to_string().contains("alike"), "{error}");
    }
}
