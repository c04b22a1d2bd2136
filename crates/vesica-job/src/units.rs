//! A job's keys cut into units, and the loop that runs them.

use crate::control::{Control, Event};
use crate::error::JobError;
use crate::keys::{KeyId, Keys};
use crate::plan::Sizes;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use vesica_net::Link;
use vesica_session::{Error, Lines, Meter, Misbehaviour, Protocol, SessionRng, Unit};
use vesica_table::{Spill, Spilled};
use vesica_types::{Digest, UnitId};

/// A record of a unit: digest, key number, row count.
const RECORD: usize = 32;

/// The keys of a job, unit by unit.
pub struct Units {
    sizes: Sizes,
    records: Spilled,
    memory: u64,
    dir: PathBuf,
}

/// A key that both parties hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    /// The key's number on this side.
    pub key: KeyId,
    /// Rows that this side has for it.
    pub rows: u64,
    /// Rows that the peer has for it; 1 where rows are not multiplied and it stays unknown.
    pub peer_rows: u64,
}

impl Match {
    /// Bytes of a match in a spill.
    pub const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Match::BYTES] {
        let words = [self.key.0, self.rows, self.peer_rows].map(u64::to_le_bytes);
        words.as_flattened().try_into().expect("three words")
    }

    /// The match that was spilled as `bytes`.
    pub fn from_bytes(bytes: &[u8; Match::BYTES]) -> Self {
        let word = |i: usize| u64::from_le_bytes(*bytes[8 * i..].first_chunk().expect("three words"));
        Self { key: KeyId(word(0)), rows: word(1), peer_rows: word(2) }
    }
}

/// What the units found.
pub struct Found {
    /// Each unit's common keys ([`Match`]), in an order that both parties share.
    pub matches: Spilled,
    /// Rows of this side that have one of them.
    pub rows: u64,
    /// A hash of the common keys' digests in that order: the same on both sides, if both learned.
    pub digest: [u8; 32],
    /// What the units cost.
    pub meter: Meter,
}

impl Units {
    /// Cuts `keys` into units by the run's salt.
    ///
    /// # Errors
    /// [`Error::Overflow`] if a unit got more keys than its public capacity; a full disk.
    pub fn partition(keys: &Keys, salt: &[u8; 32], sizes: Sizes, memory: u64, dir: &Path) -> Result<Self, JobError> {
        let mut spill =
            Spill::new(sizes.units as usize, RECORD, usize::try_from(memory / 2).unwrap_or(usize::MAX), dir)?;
        keys.salted(salt, |s| {
            // Multiply and shift: the top bits of a uniform number, evenly over the units.
            let unit = ((u128::from(s.spread) * u128::from(sizes.units)) >> 64) as usize;
            let mut record = [0; RECORD];
            record[..16].copy_from_slice(&s.digest.0);
            record[16..24].copy_from_slice(&s.key.0.to_le_bytes());
            record[24..].copy_from_slice(&s.rows.to_le_bytes());
            Ok(spill.push(unit, &record)?)
        })?;
        let records = spill.finish()?;
        for unit in 0..sizes.units {
            if records.len(unit as usize) as u64 > sizes.capacity {
                return Err(Error::Overflow { unit: UnitId(unit), capacity: sizes.capacity }.into());
            }
        }
        Ok(Self { sizes, records, memory, dir: dir.to_owned() })
    }

    /// The unit, and the number and row count of each of its keys.
    fn unit(&self, id: UnitId) -> Result<(Unit, Vec<(KeyId, u64)>), JobError> {
        let mut bytes = self.records.read(id.0 as usize)?;
        let (records, _) = bytes.as_chunks_mut::<RECORD>();
        records.sort_unstable();
        let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().expect("a record has two numbers"));
        let keys = records.iter().map(|r| Digest(*r.first_chunk().expect("a record has a digest"))).collect();
        let rows = records.iter().map(|r| (KeyId(number(&r[16..])), number(&r[24..]))).collect();
        let (capacity, peer_capacity) = (self.sizes.capacity as usize, self.sizes.peer_capacity as usize);
        Ok((Unit { id, keys, capacity, peer_capacity }, rows))
    }
}

/// Runs every unit of a job, `in_flight` at a time, each on a line of its own. `multiply` says whether the parties also
/// tell each other how many rows each common key has, so that their outputs can line up.
///
/// # Errors
/// The first that a unit met. The link is shut then, so that no other unit waits for the peer.
pub fn run<P: Protocol<Found = Vec<u32>>>(
    protocol: &P,
    units: &Units,
    multiply: bool,
    link: &Link,
    rng: &SessionRng,
    ctl: &Control,
) -> Result<Found, JobError> {
    let next = AtomicU32::new(0);
    let memory = usize::try_from(units.memory / 8).unwrap_or(usize::MAX);
    let matches = Spill::new(units.sizes.units as usize, Match::BYTES, memory, &units.dir)?;
    let finished = Mutex::new((matches, 0u64, Vec::new()));
    let failure = Mutex::new(None);
    let worker = || -> Result<(), JobError> {
        loop {
            let id = UnitId(next.fetch_add(1, Ordering::SeqCst));
            if id.0 >= units.sizes.units || failure.lock().expect("no worker panics").is_some() {
                return Ok(());
            }
            ctl.check()?;
            let mut lines = Lines::new(vec![link.line(&format!("unit {id}"))?]);
            let (unit, rows) = units.unit(id)?;
            let places = protocol.unit(&unit, &mut lines, &mut rng.unit(id))?;
            let common = count_rows(&rows, &places, multiply, &mut lines)?;
            let mut hash = blake3::Hasher::new();
            places.iter().for_each(|&place| {
                hash.update(&unit.keys[place as usize].0);
            });
            let meter = lines.peer()?.meter();
            let mut finished = finished.lock().expect("no worker panics");
            let (matches, rows, done) = &mut *finished;
            for m in common {
                matches.push(id.0 as usize, &m.to_bytes())?;
                *rows += m.rows;
            }
            done.push((id, hash.finalize(), meter));
            link.set_progress("match", done.len() as u64, Some(u64::from(units.sizes.units)));
            ctl.event(Event::Done(done.len() as u64));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..units.sizes.in_flight.min(units.sizes.units) {
            scope.spawn(|| {
                if let Err(error) = worker() {
                    let mut failure = failure.lock().expect("no worker panics");
                    if failure.is_none() {
                        link.abort(error.fault(), &error.for_peer());
                        *failure = Some(error);
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().expect("no worker panics") {
        return Err(error);
    }
    let (matches, rows, mut done) = finished.into_inner().expect("no worker panics");
    done.sort_unstable_by_key(|(id, ..)| *id);
    let mut meter = Meter::default();
    let mut hash = blake3::Hasher::new();
    for (_, digest, unit) in &done {
        meter.merge(unit);
        hash.update(digest.as_bytes());
    }
    Ok(Found { matches: matches.finish()?, rows, digest: *hash.finalize().as_bytes(), meter })
}

/// The matches at `places` of a unit, with the peer's row counts where the outputs are to line up.
fn count_rows(
    rows: &[(KeyId, u64)],
    places: &[u32],
    multiply: bool,
    lines: &mut Lines,
) -> Result<Vec<Match>, JobError> {
    let mine = places.iter().map(|&place| rows[place as usize]);
    if !multiply {
        return Ok(mine.map(|(key, rows)| Match { key, rows, peer_rows: 1 }).collect());
    }
    let ch = lines.peer()?;
    ch.step("multiplicity");
    let counts: Vec<u8> = mine.clone().flat_map(|(_, rows)| rows.to_le_bytes()).collect();
    // Both found the same keys in the same order, or the peer did not follow the protocol.
    let theirs = ch.swap(&counts, counts.len())?;
    if theirs.len() != counts.len() {
        return Err(ch
            .accuse(Misbehaviour::Contradiction("it found another number of common keys than this side"))
            .into());
    }
    let (theirs, _) = theirs.as_chunks::<8>();
    let matches: Vec<Match> = mine
        .zip(theirs)
        .map(|((key, rows), count)| Match { key, rows, peer_rows: u64::from_le_bytes(*count) })
        .collect();
    if matches.iter().any(|m| m.peer_rows == 0) {
        return Err(ch.accuse(Misbehaviour::Contradiction("it claims to have no row for a common key")).into());
    }
    Ok(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_session::{Channel, Fault, Result, memory};
    use vesica_types::Party;

    const ROWS: [(KeyId, u64); 3] = [(KeyId(4), 1), (KeyId(8), 20), (KeyId(2), 3)];

    /// What this side makes of the counts, if the peer answers with `reply`.
    fn counted(reply: Vec<u8>) -> std::result::Result<Vec<Match>, JobError> {
        let (here, mut there) = memory::pair(&Party::new(0, "alice"), &Party::new(1, "bob"));
        std::thread::scope(|scope| {
            scope.spawn(move || -> Result<()> {
                there.send(&reply)?;
                there.recv(1 << 10).map(drop)
            });
            count_rows(&ROWS, &[2, 1], true, &mut Lines::new(vec![Box::new(here)]))
        })
    }

    fn bytes(counts: &[u64]) -> Vec<u8> {
        counts.iter().flat_map(|c| c.to_le_bytes()).collect()
    }

    #[test]
    fn counts_stand_beside_their_keys() {
        let matches = counted(bytes(&[5, 6])).unwrap();
        let wanted = [Match { key: KeyId(2), rows: 3, peer_rows: 5 }, Match { key: KeyId(8), rows: 20, peer_rows: 6 }];
        assert_eq!(matches, wanted);
        assert_eq!(wanted.map(|m| Match::from_bytes(&m.to_bytes())), wanted);
    }

    #[test]
    fn counts_that_cannot_be_are_the_peers_fault() {
        for reply in [vec![], bytes(&[1]), bytes(&[1, 2, 3]), bytes(&[1, 0]), vec![1; 15]] {
            let error = counted(reply).unwrap_err();
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            assert!(error.to_string().starts_with("bob"), "{error}");
        }
    }
}
