//! A job's keys cut into units, and the loop that runs them.

use crate::control::{Control, Event};
use crate::error::JobError;
use crate::keys::{KeyId, Keys, PARTS};
use crate::ledger::Ledger;
use crate::peers::Peers;
use crate::sort::ascending;
use crate::threads::cores;
use crate::whole;
use std::path::Path;
use std::sync::Mutex;
use vesica_session::{Error, Fault, Lines, Meter, Misbehaviour, Protocol, SessionRng, Unit};
use vesica_spec::{Plan, Share};
use vesica_suite::{Opened, Sizes, Terms};
use vesica_table::{Spill, Spilled, on_threads};
use vesica_types::{Digest, UnitId};

/// A record of a unit: digest, key number, row count.
pub const RECORD: usize = 32;

/// Bytes of a number of rows on the wire: 2^40 rows are more than a table has.
const COUNT: usize = 5;

/// Records that a thread cuts before it gives them away.
const BLOCK: usize = 1 << 11;

/// The keys of a job, unit by unit.
pub struct Units {
    /// What the parties agreed on.
    pub sizes: Sizes,
    /// Whose keys they are.
    pub place: u8,
    /// The records, a bucket a unit, in any order.
    pub records: Spilled,
}

/// A key that all parties hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    /// The key's number on this side.
    pub key: KeyId,
    /// Rows that this side has for it.
    pub rows: u64,
    /// How often each of these rows stands in the output: once for each row that the peer has for the key, and once where
    /// rows are not multiplied and that stays unknown.
    pub times: u64,
}

impl Match {
    /// Bytes of a match in a spill.
    pub const BYTES: usize = 24;

    /// The match as it is spilled.
    pub fn to_bytes(self) -> [u8; Match::BYTES] {
        let words = [self.key.0, self.rows, self.times].map(u64::to_le_bytes);
        words.as_flattened().try_into().expect("three words")
    }

    /// The match that was spilled as `bytes`.
    pub fn from_bytes(bytes: &[u8; Match::BYTES]) -> Self {
        let word = |i: usize| u64::from_le_bytes(*bytes[8 * i..].first_chunk().expect("three words"));
        Self { key: KeyId(word(0)), rows: word(1), times: word(2) }
    }
}

/// How much is common, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Common {
    /// Distinct keys.
    pub keys: u64,
    /// Rows of this side that have one of them.
    pub rows: u64,
}

/// What the units found.
pub struct Found<'a> {
    /// The common keys ([`Match`]), a bucket a part of this side's keys.
    pub matches: &'a Spilled,
    /// Rows of this side that have one of them.
    pub rows: u64,
    /// The pairs of rows of both sides that those of each part make; no more than fit in 64 bits, whatever a peer claims.
    pub pairs: &'a [u64],
    /// A hash of the common keys' digests and numbers of rows: the same on both sides, if both learned.
    pub digest: [u8; 32],
}

impl Units {
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
            let mut cut = Vec::with_capacity(BLOCK);
            let put = |cut: &mut Vec<(usize, [u8; RECORD])>| {
                let mut spill = spill.lock().expect("no worker panics");
                cut.drain(..).try_for_each(|(unit, record)| spill.push(unit, &record))
            };
            loop {
                let next = parts.lock().expect("no worker panics").next();
                let Some(part) = next else { return Ok(put(&mut cut)?) };
                keys.salted(part, salt, |s| {
                    // Multiply and shift: the top bits of a uniform number, evenly over the units.
                    let unit = ((u128::from(s.spread) * u128::from(sizes.units)) >> 64) as usize;
                    let mut record = [0; RECORD];
                    record[..16].copy_from_slice(&s.digest.0);
                    record[16..24].copy_from_slice(&s.key.0.to_le_bytes());
                    record[24..].copy_from_slice(&s.rows.to_le_bytes());
                    cut.push((unit, record));
                    if cut.len() < BLOCK { Ok(()) } else { Ok(put(&mut cut)?) }
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
        Ok(Self { sizes, place, records })
    }

    /// The unit, and the number and row count of each of its keys.
    ///
    /// # Errors
    /// Those of reading what was spilled.
    pub fn unit(&self, id: UnitId) -> Result<(Unit, Vec<(KeyId, u64)>), JobError> {
        let bytes = self.records.read(id.0 as usize)?;
        let (records, _) = bytes.as_chunks::<RECORD>();
        let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().expect("a record has two numbers"));
        let digest = |r: &[u8; RECORD]| Digest(*r.first_chunk().expect("a record has a digest"));
        let (keys, rows) = ascending(records, 0)
            .map(|place| &records[place])
            .map(|r| (digest(r), (KeyId(number(&r[16..])), number(&r[24..]))))
            .unzip();
        let capacities = self.sizes.capacities.iter().map(|&keys| keys as usize).collect();
        Ok((Unit { id, keys, place: self.place, capacities }, rows))
    }
}

/// The units of a job that are to be run, and who is to hear of it.
pub struct Work<'a> {
    /// The keys.
    pub units: &'a Units,
    /// Which units are finished.
    pub done: &'a [bool],
    /// How results are compared, where all parties learn.
    pub both: Option<Both>,
    /// Where finished units go.
    pub ledger: &'a mut Ledger,
    /// The peers.
    pub peers: &'a Peers,
    /// Where lists go that do not fit in memory.
    pub scratch: &'a Path,
    /// Who watches.
    pub ctl: &'a Control,
}

/// Opens the job's protocol and runs the units, if there are any that are not done. Returns what they cost.
///
/// # Errors
/// Those of opening, and of [`run`].
pub fn open_and_run(plan: &Plan, terms: &Terms, work: Work<'_>, rng: &mut SessionRng) -> Result<Meter, JobError> {
    if work.done.iter().all(|done| *done) {
        return Ok(Meter::default());
    }
    let mut lines = work.peers.line("base")?;
    lines.all().for_each(|ch| ch.step("base"));
    let opened = plan.suite().open(&plan.seat(), terms, &mut lines, rng)?;
    let mut meter = Meter::default();
    lines.all().for_each(|ch| meter.merge(&ch.meter()));
    drop(lines);
    meter.merge(&match opened {
        Opened::Units(protocol) => run(&*protocol, work, rng)?,
        Opened::Whole(protocol) => whole::run(protocol, plan, work, rng)?,
    });
    Ok(meter)
}

/// Runs the units, `in_flight` at a time, each on a line of its own. Returns what they cost.
///
/// # Errors
/// The first that a unit met. The link is shut then, so that no other unit waits for the peer.
fn run(protocol: &dyn Protocol, work: Work<'_>, rng: &SessionRng) -> Result<Meter, JobError> {
    let Work { units, done, both, ledger, peers, ctl, .. } = work;
    let missing = Mutex::new((0..).zip(done).filter(|(_, done)| !**done).map(|(id, _)| UnitId(id)));
    let total = done.len() as u64;
    let finished = Mutex::new((ledger, Meter::default(), done.iter().filter(|done| **done).count() as u64));
    let failure = Mutex::new(None);
    let worker = || -> Result<(), JobError> {
        loop {
            let next = missing.lock().expect("no worker panics").next();
            let Some(id) = next.filter(|_| failure.lock().expect("no worker panics").is_none()) else { return Ok(()) };
            ctl.check()?;
            let mut lines = peers.line(&format!("unit {id}"))?;
            let (unit, rows) = units.unit(id)?;
            // One generator for the protocol and the comparison of its results.
            let mut chance = rng.unit(id)?;
            let mut places = protocol.unit(&unit, &mut lines, &mut chance)?;
            let (matches, digest) = match both {
                Some(both) => both.compare(&unit, &rows, &mut places, &mut lines, &mut chance)?,
                None => (matches(&rows, &places).collect(), [0; 32]),
            };
            let mut cost = Meter::default();
            lines.all().for_each(|ch| cost.merge(&ch.meter()));
            let mut finished = finished.lock().expect("no worker panics");
            let (ledger, meter, count) = &mut *finished;
            ledger.commit(id, &digest, &matches)?;
            meter.merge(&cost);
            *count += 1;
            peers.set_progress("match", *count, Some(total));
            ctl.event(Event::Done(*count));
            let wall = cost.steps.iter().map(|step| step.wall).sum();
            ctl.event(Event::Unit { id: id.0, wall, bytes: cost.bytes() });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..units.sizes.in_flight.min(units.sizes.units) {
            scope.spawn(|| {
                if let Err(error) = worker() {
                    let mut failure = failure.lock().expect("no worker panics");
                    if failure.is_none() {
                        peers.abort(&error);
                    }
                    // What the peer did wrong is not forgotten because a connection broke at the same moment.
                    let worse = |before: &JobError| before.fault() == Fault::Network && error.fault() == Fault::Peer;
                    if failure.as_ref().is_none_or(worse) {
                        *failure = Some(error);
                    }
                }
            });
        }
    });
    match failure.into_inner().expect("no worker panics") {
        Some(error) => Err(error),
        None => Ok(finished.into_inner().expect("no worker panics").1),
    }
}

/// What parties that all learn do with what a unit found, so that their outputs line up.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// The run's salt.
    pub salt: [u8; 32],
    /// This party's place.
    pub place: u8,
    /// Whether they also tell each other how many rows each common key has.
    pub multiply: bool,
}

impl Both {
    /// The matches of a unit, with the peer's row counts, and a digest of them that is the same on both sides. Row counts are told
    /// of keys that both found: that is seen first.
    fn compare(
        self,
        unit: &Unit,
        rows: &[(KeyId, u64)],
        places: &mut [u32],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<(Vec<Match>, [u8; 32]), JobError> {
        // The order of the digests is the same on both sides, whatever the protocol's.
        places.sort_unstable();
        let mut hash = blake3::Hasher::new();
        places.iter().for_each(|&place| _ = hash.update(&unit.keys[place as usize].0));
        if !self.multiply {
            return Ok((matches(rows, places).collect(), *hash.finalize().as_bytes()));
        }
        lines.peer()?.step("same");
        self.same("unit", unit.id.0, hash.finalize().as_bytes(), lines, rng)?;
        let most = unit.capacity().min(unit.capacity_of(lines.peer()?.peer()));
        let matches = count_rows(rows, places, most, lines)?;
        for m in &matches {
            // The same on both sides, like the rest.
            let (fewer, more) = (m.rows.min(m.times), m.rows.max(m.times));
            hash.update(&fewer.to_le_bytes()).update(&more.to_le_bytes());
        }
        Ok((matches, *hash.finalize().as_bytes()))
    }

    /// Sees that every peer found the same.
    ///
    /// # Errors
    /// As [`Both::same`].
    pub fn same_as_all(
        self,
        what: &str,
        digest: &[u8; 32],
        peers: &Peers,
        rng: &mut SessionRng,
    ) -> Result<(), JobError> {
        for link in peers.links() {
            self.same(what, 0, digest, &mut Lines::new(vec![link.line("result")?]), rng)?;
        }
        Ok(())
    }

    /// Sees that the peer found the same.
    ///
    /// # Errors
    /// The peer's if it did not; those of the channel.
    pub fn same(
        self,
        what: &str,
        number: u32,
        digest: &[u8; 32],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<(), JobError> {
        let peer = lines.peer()?.peer().place();
        let mut session = blake3::Hasher::new_derive_key("vesica 2026 same result");
        session.update(&self.salt).update(what.as_bytes()).update(&number.to_le_bytes());
        session.update(&[self.place.min(peer), self.place.max(peer)]);
        if vesica_psi::same(digest, *session.finalize().as_bytes(), self.place, lines, rng)? {
            return Ok(());
        }
        let fault = Misbehaviour::Contradiction("the result that it found is not the one that this side found");
        Err(lines.peer()?.accuse(fault).into())
    }
}

/// The matches at `places` of a unit, whose peer's row counts stay unknown.
pub fn matches(rows: &[(KeyId, u64)], places: &[u32]) -> impl Iterator<Item = Match> {
    places.iter().map(|&place| rows[place as usize]).map(|(key, rows)| Match { key, rows, times: 1 })
}

/// The matches at `places` of a unit, with the peer's row counts. These are sent as a list that is as long as the keys that could be
/// common, with zeros behind those that are: its length tells nobody how many are.
fn count_rows(rows: &[(KeyId, u64)], places: &[u32], most: usize, lines: &mut Lines) -> Result<Vec<Match>, JobError> {
    let mine = places.iter().map(|&place| rows[place as usize]);
    let ch = lines.peer()?;
    ch.step("multiplicity");
    let mut counts = Vec::with_capacity(most * COUNT);
    for (_, rows) in mine.clone() {
        if rows >> (8 * COUNT) != 0 {
            return Err(Error::Bug(format!("a key has {rows} rows")).into());
        }
        counts.extend_from_slice(&rows.to_le_bytes()[..COUNT]);
    }
    counts.resize(most * COUNT, 0);
    // Both found the same keys in the same order, or the peer did not follow the protocol.
    let theirs = ch.swap_exact(&counts, most * COUNT)?;
    let mut theirs = theirs.as_chunks::<COUNT>().0.iter().map(|count| {
        let mut word = [0; 8];
        word[..COUNT].copy_from_slice(count);
        u64::from_le_bytes(word)
    });
    let matches: Vec<Match> =
        mine.zip(theirs.by_ref()).map(|((key, rows), times)| Match { key, rows, times }).collect();
    if matches.len() < places.len() || matches.iter().any(|m| m.times == 0) || theirs.any(|count| count != 0) {
        let fault = Misbehaviour::Contradiction("it found another number of common keys than this side");
        return Err(ch.accuse(fault).into());
    }
    Ok(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_session::{Channel, Result, memory};
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
            count_rows(&ROWS, &[2, 1], 3, &mut Lines::new(vec![Box::new(here)]))
        })
    }

    fn bytes(counts: &[u64]) -> Vec<u8> {
        counts.iter().flat_map(|c| c.to_le_bytes().into_iter().take(COUNT)).collect()
    }

    #[test]
    fn counts_stand_beside_their_keys() {
        let matches = counted(bytes(&[5, 1 << 33, 0])).unwrap();
        let wanted = [Match { key: KeyId(2), rows: 3, times: 5 }, Match { key: KeyId(8), rows: 20, times: 1 << 33 }];
        assert_eq!(matches, wanted);
        assert_eq!(wanted.map(|m| Match::from_bytes(&m.to_bytes())), wanted);
    }

    /// A party whose result was spoiled does not tell how many rows it has for what only seems common.
    #[test]
    fn row_counts_are_told_only_where_both_found_the_same() {
        let unit = |keys: &[u8]| Unit {
            id: UnitId(0),
            keys: keys.iter().map(|&key| Digest([key; 16])).collect(),
            place: 0,
            capacities: vec![3; 2],
        };
        let side = |channel: memory::Memory, place: u8, mut places: Vec<u32>| {
            let mut lines = Lines::new(vec![Box::new(channel)]);
            let mut rng = SessionRng::from_seed(zeroize::Zeroizing::new([place; 32]));
            let both = Both { salt: [7; 32], place, multiply: true };
            let result = both.compare(&unit(&[1, 2, 3]), &ROWS, &mut places, &mut lines, &mut rng);
            let told = lines.peer().unwrap().meter().steps.iter().any(|step| step.name == "multiplicity");
            (result.map(|(matches, _)| matches.len()), told)
        };
        for (theirs, same) in [(vec![2, 1], true), (vec![1], false)] {
            let (here, there) = memory::pair(&Party::new(0, "alice"), &Party::new(1, "bob"));
            let (a, b) = std::thread::scope(|scope| {
                let b = scope.spawn(|| side(there, 1, theirs));
                (side(here, 0, vec![1, 2]), b.join().unwrap())
            });
            for (result, told) in [a, b] {
                assert_eq!(told, same);
                match result {
                    Ok(found) => assert!(same && found == 2),
                    Err(error) => assert!(!same && error.fault() == Fault::Peer, "{error}"),
                }
            }
        }
    }

    #[test]
    fn counts_that_cannot_be_are_the_peers_fault() {
        let long = bytes(&[1, 2, 0, 0]);
        for reply in
            [vec![], bytes(&[1, 2]), bytes(&[1, 2, 3]), bytes(&[1, 0, 0]), bytes(&[0, 2, 0]), vec![1; 15], long]
        {
            let error = counted(reply).unwrap_err();
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            assert!(error.to_string().starts_with("bob"), "{error}");
        }
    }
}
