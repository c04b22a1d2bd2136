//! A job whose protocol takes all keys at once: how it reads them, where its lists go, and what becomes of what it finds.

use crate::error::JobError;
use crate::tell::control::{Control, Event};
use crate::threads::cores;
use crate::units::cut::Units;
use crate::units::each::Ended;
use crate::units::found::{Match, matches};
use crate::units::work::Work;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_session::{Error, Found, Keys, LISTS, List, Meter, Result, Room, SessionRng, Sorted, Sorter, Whole};
use vesica_spec::{Plan, Share};
use vesica_table::{Spill, Spilled};
use vesica_types::{Digest, UnitId};

/// Runs the protocol over all units as one list, and hands what it found to the ledger, unit by unit. Returns what it cost.
///
/// # Errors
/// Those of the protocol, of reading the units and of storing what was found.
pub fn run(
    protocol: Box<dyn Whole>,
    plan: &Plan,
    work: Work<'_>,
    rng: &mut SessionRng,
) -> std::result::Result<Meter, JobError> {
    let Work { units, ledger, peers, scratch, ctl, .. } = work;
    let all = (0..units.sizes.units).map(UnitId);
    // The lists share what other protocols have for units in flight.
    let room = Disk { memory: Share::InFlight.of(plan.memory) / LISTS, scratch: scratch.to_owned() };
    ctl.event(Event::Total(protocol.elements()));
    let worked = AtomicU64::new(0);
    let advance = |elements: u64| {
        let worked = worked.fetch_add(elements, Ordering::Relaxed) + elements;
        ctl.event(Event::Done(worked));
    };
    let ledger = Mutex::new(ledger);
    let same = |hash| ledger.lock().expect("no thread panics").asked(hash).map_err(stored);
    let (keys, threads) = (InOrder { units, ctl }, cores(plan.workers));
    let list = List { keys: &keys, room: &room, threads, advance: &advance, same: &same };
    let mut lines = peers.line("whole")?;
    let found = protocol.whole(&list, &mut lines, rng)?;
    let ledger = ledger.into_inner().expect("no thread panics");
    let mut meter = Meter::default();
    lines.all().for_each(|ch| meter.merge(&ch.meter()));
    match found {
        Found::Nothing => all.clone().try_for_each(|id| ledger.commit(id, &[0; 32], &[]))?,
        Found::Count(keys) => {
            ledger.total(keys)?;
            all.clone().try_for_each(|id| ledger.commit(id, &[0; 32], &[]))?;
        }
        Found::Sum(_) | Found::Groups(_) | Found::TooFew => {
            return Err(Error::Bug("what takes all keys at once adds nothing up".into()).into());
        }
        Found::Places(places) => {
            let mut places = Places::new(&*places);
            let mut first = 0;
            for id in all {
                let (unit, counts, firsts) = units.unit_to_mark(id)?;
                let end = first + unit.keys.len() as u64;
                let mine: Vec<u32> = places.below(end)?.into_iter().map(|place| (place - first) as u32).collect();
                let mut hash = blake3::Hasher::new();
                mine.iter().for_each(|&place| _ = hash.update(&unit.keys[place as usize].0));
                let matches: Vec<Match> = matches(&counts, &mine).collect();
                Ended { matches, digest: *hash.finalize().as_bytes(), firsts }.keep(id, units, ledger)?;
                first = end;
            }
            places.end()?;
        }
    }
    Ok(meter)
}

/// A job's keys in one order: unit after unit, and in each by their digests.
struct InOrder<'a> {
    units: &'a Units,
    ctl: &'a Control,
}

impl Keys for InOrder<'_> {
    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<Digest>>> + Send + '_> {
        let all = (0..self.units.sizes.units).map(UnitId);
        Box::new(all.map(|id| {
            self.ctl.check()?;
            self.units.unit(id).map(|(unit, _)| unit.keys).map_err(stored)
        }))
    }
}

/// What matched, taken from an ascending list bit by bit.
struct Places<'a> {
    blocks: Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + 'a>,
    block: std::vec::IntoIter<u64>,
    next: Option<u64>,
}

impl<'a> Places<'a> {
    fn new(places: &'a dyn Sorted) -> Self {
        Self { blocks: places.blocks(), block: Vec::new().into_iter(), next: None }
    }

    /// The next place, which stays the next.
    fn peek(&mut self) -> Result<Option<u64>> {
        while self.next.is_none() {
            self.next = self.block.next();
            if self.next.is_none() {
                let Some(block) = self.blocks.next() else { return Ok(None) };
                let words: Vec<u64> = block?.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
                self.block = words.into_iter();
            }
        }
        Ok(self.next)
    }

    /// Those that are less than `end` and were not taken before.
    fn below(&mut self, end: u64) -> Result<Vec<u64>> {
        let mut below: Vec<u64> = Vec::new();
        while let Some(place) = self.peek()?.filter(|&place| place < end) {
            if below.last() == Some(&place) {
                return Err(Error::Bug("a key was found twice".into()));
            }
            below.push(place);
            self.next = None;
        }
        Ok(below)
    }

    /// Sees that all were taken.
    fn end(&mut self) -> Result<()> {
        match self.peek()? {
            None => Ok(()),
            Some(place) => Err(Error::Bug(format!("key {place} was found, and there are fewer"))),
        }
    }
}

/// Room in memory up to a bound, and on disk beyond it.
struct Disk {
    /// Bytes for each list.
    memory: usize,
    scratch: PathBuf,
}

impl Room for Disk {
    fn sorter(&self, bytes: usize, records: u64) -> Result<Box<dyn Sorter>> {
        // Parts of a list are sorted in memory, one at a time.
        let parts = (records.saturating_mul(bytes as u64) / (self.memory as u64 / 8).max(1)).clamp(16, 1 << 16);
        let spill = Spill::new(parts as usize, bytes, self.memory, Path::new(&self.scratch)).map_err(stored)?;
        Ok(Box::new(Taking { spill, parts }))
    }
}

/// A list that takes records.
struct Taking {
    spill: Spill,
    parts: u64,
}

/// The first bytes of a record as a number that grows with them.
fn head(record: &[u8]) -> u64 {
    let mut head = [0; 8];
    let n = record.len().min(8);
    head[..n].copy_from_slice(&record[..n]);
    u64::from_be_bytes(head)
}

impl Sorter for Taking {
    fn push(&mut self, record: &[u8]) -> Result<()> {
        let part = ((head(record) >> 32) * self.parts) >> 32;
        self.spill.push(part as usize, record).map_err(stored)
    }

    fn sorted(self: Box<Self>) -> Result<Box<dyn Sorted>> {
        let (bytes, parts) = (self.spill.record_bytes(), self.parts as usize);
        Ok(Box::new(Taken { spilled: self.spill.finish().map_err(stored)?, parts, bytes }))
    }
}

/// A list that was taken: its parts ascend, and each is sorted when it is read.
struct Taken {
    spilled: Spilled,
    parts: usize,
    bytes: usize,
}

impl Sorted for Taken {
    fn records(&self) -> u64 {
        self.spilled.total()
    }

    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + '_> {
        let parts = (0..self.parts).filter(|&part| self.spilled.len(part) > 0);
        Box::new(parts.map(|part| {
            let records = self.spilled.read(part).map_err(stored)?;
            let record = |place: u32| &records[place as usize * self.bytes..][..self.bytes];
            let mut order: Vec<(u64, u32)> = records.chunks_exact(self.bytes).map(head).zip(0..).collect();
            order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| record(a.1).cmp(record(b.1))));
            Ok(order.into_iter().flat_map(|(_, place)| record(place)).copied().collect())
        }))
    }
}

/// A failure of this side's own, as protocols pass it on.
fn stored(error: impl Into<JobError>) -> Error {
    match error.into() {
        JobError::Session(error) => error,
        error => Error::Store { fault: error.fault(), why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether or not a list fits in memory, and however its records begin.
    #[test]
    fn lists_come_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut rng = SessionRng::from_seed(zeroize::Zeroizing::new([3; 32]));
        for (memory, bytes) in [(1 << 16, 40), (1 << 24, 9), (1 << 16, 3)] {
            // The lists share what other protocols have for units in flight.
            let room = Disk { memory, scratch: dir.path().to_owned() };
            let mut sorter = room.sorter(bytes, 1000).unwrap();
            let mut all: Vec<Vec<u8>> = (0..5000).map(|_| rng.bytes::<40>()[..bytes].to_vec()).collect();
            // Heads that recur, and the least and the greatest.
            (0..500).for_each(|i| {
                let mut like = all[i].clone();
                like[bytes - 1] ^= 1;
                all.push(like);
            });
            all.extend([vec![0; bytes], vec![0xff; bytes]]);
            all.iter().for_each(|record| sorter.push(record).unwrap());
            assert!(sorter.push(&[0; 1]).is_err());
            let sorted = sorter.sorted().unwrap();
            all.sort_unstable();
            assert_eq!(sorted.records(), all.len() as u64);
            for _ in 0..2 {
                let got = sorted.blocks().map(Result::unwrap).collect::<Vec<_>>().concat();
                assert!(got == all.concat(), "{memory} {bytes}");
            }
        }
    }

    #[test]
    fn places_are_taken_in_order_and_none_is_left() {
        struct List(Vec<u64>);

        impl Sorted for List {
            fn records(&self) -> u64 {
                self.0.len() as u64
            }

            fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + '_> {
                let bytes = |block: &[u64]| block.iter().flat_map(|place| place.to_be_bytes()).collect();
                Box::new(self.0.chunks(2).map(move |block| Ok(bytes(block))))
            }
        }

        let list = List(vec![1, 4, 5, 9]);
        let mut places = Places::new(&list);
        assert_eq!([0, 5, 5, 9].map(|end| places.below(end).unwrap()), [vec![], vec![1, 4], vec![], vec![5]]);
        assert!(places.end().is_err());
        assert_eq!(places.below(10).unwrap(), [9]);
        assert!(places.end().is_ok());
        let twice = List(vec![3, 3]);
        assert!(Places::new(&twice).below(9).is_err());
    }
}
