//! The finished units of a run: in memory, so that a broken connection costs only what was under way; and, with
//! `mine.resume`, in a file, so that a killed process costs no more.
//!
//! The file is a [`Log`] of [`Record`]s. No record holds a key of a protocol: every attempt draws fresh ones, and a
//! unit is redone whole or not at all. Only a protocol with noise takes its chance from coins in the record of the run's start, so
//! that an attempt sends what the one before it sent. What they hold is the run's salt, which keys matched, and how many attempts were
//! begun: what the peer was answered counts over all of them ([`Answers`]), whatever the peer remembers.
//!
//! Beside it stands what reading and cutting made ([`Kept`]).

use crate::disk::Disk;
use crate::error::JobError;
use crate::meet::answers::{Answers, Attempt};
use crate::seal::kept::{self, Kept};
use crate::seal::key::{Given, HOLDS_COINS, PASSPHRASE, needs_secret, passphrase};
use crate::seal::log::Log;
use crate::seal::record::{self, Head, PLACES, Record, Start};
use crate::tell::control::Control;
use crate::units::found::{Common, Found, GroupTotal, Match, REPEAT, repeats};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vesica_session::Error;
use vesica_spec::{Plan, ResumePlan, Share, SpecError};
use vesica_table::{Spill, Spilled};
use vesica_types::{Party, UnitId};

/// The kind of the file, and the number of its format. A run may not go on under another one: with number 8 the same coins give other noise
/// too, and two totals of one table with two noises would tell more than one. Before number 9 a salt was not bound to the parties'
/// certificates, before number 10 an attempt did not say how many units the job was cut into, before number 11 keys were
/// hashed in two steps, and numbered by the first, before number 12 nobody had said how many identifiers a row may have,
/// and before number 13 the same coins gave other noise of a sum beside a least number, and other columns of values or groups were no other run.
pub const KIND: &[u8; 15] = b"vesica ledger13";

/// Where the ledger of the party `me` is.
pub fn path(resume: &ResumePlan, me: &Party) -> PathBuf {
    resume.dir.join(format!("{me}.ledger"))
}

/// Fails where noise hides the result of a job and `mine.resume` would keep its coins unsealed: all noise follows from them, so that
/// whoever reads them takes it off. The key itself is not read.
///
/// # Errors
/// One that names `mine.resume_key`.
pub fn refuses_noise(plan: &Plan) -> Result<(), SpecError> {
    let noisy = plan.resume.as_ref().filter(|_| plan.shared.dp.is_some());
    if noisy.is_none_or(|resume| resume.key.is_some() || passphrase(PASSPHRASE).is_some()) {
        return Ok(());
    }
    let mut why = format!(
        "is missing: mine.resume keeps the coins of which the noise of shared.dp is made, and whoever reads them unsealed can take the \
         noise off; name a file of at least 16 random bytes, set a passphrase in {PASSPHRASE}, or remove mine.resume"
    );
    // A program of before this rule kept them so.
    let left = noisy.map(|resume| path(resume, &plan.me)).filter(|path| is_unsealed(path));
    if let Some(left) = left {
        why += &format!(". {} is not sealed and {HOLDS_COINS}", left.display());
    }
    Err(SpecError::field("mine.resume_key", why))
}

/// Whether a file of this program's stands at `path` that takes no secret to read.
fn is_unsealed(path: &Path) -> bool {
    let mut magic = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic.starts_with(b"vesica ") && !needs_secret(&magic)
}

/// A finished unit.
struct Done {
    /// A hash of the common keys' digests in ascending order: the same on both sides, and in every attempt.
    digest: [u8; 32],
    common: Common,
}

/// The file of a ledger.
struct OnDisk {
    disk: Arc<dyn Disk>,
    log: Log,
    /// The first record, or what it is to be.
    head: Head,
    /// Where the file beside it is.
    kept: PathBuf,
}

/// The finished units of a run.
pub struct Ledger {
    start: Option<Start>,
    /// The parties' key counts, by place, of the last run that had come as far as to say them.
    keys: Vec<u64>,
    /// The most keys that each party's were padded to in a run, by place.
    padded: Vec<u64>,
    /// How many keys are common, where that is all that is learned; or what their values add up to, modulo 2^64.
    total: Option<u64>,
    /// What the common keys come to by group, where that is what is learned.
    groups: Option<Vec<GroupTotal>>,
    /// A hash of what a peer was answered to with the run's noise.
    asked: Option<[u8; 32]>,
    over: bool,
    /// Whether all sides have said that they are done, of a run whose result may not be in its place yet.
    finished: bool,
    answers: Answers,
    done: BTreeMap<UnitId, Done>,
    matches: Matches,
    /// The pairs of rows that the common keys of each unit make.
    pairs: Vec<u64>,
    memory: usize,
    scratch: PathBuf,
    disk: Option<OnDisk>,
}

/// The common keys of finished units, as [`Found`] has them: their places, and those whose rows do not stand in the output once.
enum Matches {
    None,
    Growing(Box<[Spill; 2]>),
    Whole([Spilled; 2]),
}

impl Ledger {
    /// A ledger that keeps nothing beyond the process, and in memory no more than `memory` bytes.
    pub fn new(memory: u64, scratch: &Path) -> Self {
        Self {
            start: None,
            keys: Vec::new(),
            padded: Vec::new(),
            total: None,
            groups: None,
            asked: None,
            over: false,
            finished: false,
            answers: Answers::default(),
            done: BTreeMap::new(),
            matches: Matches::None,
            pairs: Vec::new(),
            memory: Share::Found.of(memory),
            scratch: scratch.into(),
            disk: None,
        }
    }

    /// The ledger of `plan`'s run on `disk`: empty, or as an earlier attempt left it. What does not fit in memory goes to
    /// `scratch`. A program that prints the key is ended once `ctl` is cancelled.
    ///
    /// # Errors
    /// [`JobError::Resume`] if the ledger there is another run's, or another attempt is at work on it; errors of files.
    pub fn open(plan: &Plan, scratch: &Path, disk: &Arc<dyn Disk>, ctl: &Control) -> Result<Self, JobError> {
        let given = plan.resume.as_ref().map_or(Ok(Given::Nothing), |resume| Given::of(resume, ctl))?;
        Self::open_with(plan, &given, scratch, disk)
    }

    /// The same, with what the user gave to seal it, which is read once: a program may print it.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_with(plan: &Plan, given: &Given, scratch: &Path, disk: &Arc<dyn Disk>) -> Result<Self, JobError> {
        let mut ledger = Self::new(plan.memory, scratch);
        let Some(resume) = &plan.resume else { return Ok(ledger) };
        let path = path(resume, &plan.me);
        let mut head = Head::of(plan);
        let refused = |why: String| JobError::Resume { path: path.clone(), why };
        let damaged = || refused("it is damaged: remove it, and the run begins anew".into());
        let log = Log::open(disk, &path, KIND, given, |number, record| {
            match (number, Record::decode(record).ok_or_else(damaged)?) {
                (0, Record::Head(theirs)) => {
                    head.same_as(&theirs).map_err(refused)?;
                    head.input = theirs.input;
                    Ok(())
                }
                (1.., Record::Attempt(attempt)) => {
                    ledger.answers.begin(attempt);
                    Ok(())
                }
                // Without key counts, where a party counts later and the connection broke before it had.
                (1.., Record::Start(start))
                    if [0, plan.parties.len()].contains(&start.sizes.keys.len())
                        && start.lists.len() == plan.parties.len() =>
                {
                    ledger.begin(start)
                }
                (1.., Record::Count(keys)) if ledger.start.is_some() => {
                    ledger.total = Some(keys);
                    Ok(())
                }
                (1.., Record::Groups(groups)) if ledger.start.is_some() => {
                    ledger.groups = Some(groups);
                    Ok(())
                }
                (1.., Record::Asked(hash)) if ledger.start.is_some() => {
                    ledger.asked = Some(hash);
                    Ok(())
                }
                (1.., Record::Begun(begun)) => {
                    ledger.answers.begun(begun);
                    Ok(())
                }
                (1.., Record::Finished) if ledger.start.is_some() => {
                    ledger.finished = true;
                    Ok(())
                }
                (1.., Record::Unit(id, digest, matches))
                    if ledger.start.as_ref().is_some_and(|start| id.0 < start.sizes.units) =>
                {
                    ledger.keep(id, digest, &matches).map_err(|_| damaged())
                }
                _ => Err(damaged()),
            }
        })?;
        ledger.disk = Some(OnDisk { disk: disk.clone(), log, head, kept: kept::path(resume, &plan.me) });
        Ok(ledger)
    }

    /// The input's file has this hash.
    ///
    /// # Errors
    /// [`JobError::Resume`] if it had another one when the run began.
    pub fn identify(&mut self, input: &blake3::Hash) -> Result<(), JobError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let mut head = disk.head.clone();
        head.input = Some(input.to_string());
        if disk.head.input.is_some() {
            head.same_as(&disk.head).map_err(|why| JobError::Resume { path: disk.log.path().into(), why })?;
        }
        disk.head = head;
        Ok(())
    }

    /// The file of what reading and cutting made, in a run that began and is to survive its process.
    pub fn kept(&self) -> Option<Kept> {
        let (disk, start) = (self.disk.as_ref()?, self.start.clone()?);
        Some(Kept::new(disk.disk.clone(), disk.kept.clone(), disk.log.secret().clone(), start))
    }

    /// What was agreed on when the run began, if it did.
    pub fn started(&self) -> Option<&Start> {
        self.start.as_ref()
    }

    /// The key counts that the parties said last, by place: of this run, or of one that broke before; none if they never said any.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// How many keys of the party at `place` were answered at most, padding included, in all attempts at the job.
    pub fn answered(&self, place: u8) -> u64 {
        self.answers.keys(self.padded.get(usize::from(place)).copied().unwrap_or(0))
    }

    /// Attempts at the job, and what the peers were answered in them.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// An attempt begins. On return it counts for good.
    ///
    /// # Errors
    /// Those of writing.
    pub fn attempt(&mut self, attempt: Attempt) -> Result<(), JobError> {
        if let Some(disk) = self.disk.as_ref().filter(|disk| disk.log.is_empty()) {
            self.append(&Record::Head(disk.head.clone()))?;
        }
        self.append(&Record::Attempt(attempt))?;
        self.answers.begin(attempt);
        Ok(())
    }

    /// A cluster has begun so many units of the run, or cannot tell how many, as [`Answers::begun`] has it. On return that counts for good.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begun(&mut self, begun: Option<u64>) -> Result<(), JobError> {
        let mut answers = self.answers;
        answers.begun(begun);
        if answers != self.answers {
            self.append(&Record::Begun(begun))?;
            self.answers = answers;
        }
        Ok(())
    }

    /// All units of the attempt were answered, and what they left is written with it or not at all. So no unit is finished for a later attempt,
    /// nothing is written, and what the peers were answered counts.
    pub fn left(&mut self) {
        self.answers.finish_all();
    }

    /// Begins a run anew, in an attempt that was begun; nothing is finished.
    ///
    /// # Errors
    /// Those of writing.
    pub fn start(&mut self, start: Start) -> Result<(), JobError> {
        self.kept().map_or(Ok(()), |kept| kept.remove())?;
        self.append(&Record::Start(start.clone()))?;
        self.begin(start)
    }

    fn begin(&mut self, start: Start) -> Result<(), JobError> {
        let units = start.sizes.units as usize;
        let spill = |record| Spill::new(units, record, self.memory / 2, &self.scratch);
        self.matches = Matches::Growing(Box::new([spill(1)?, spill(REPEAT)?]));
        self.pairs = vec![0; units];
        if !start.sizes.keys.is_empty() {
            self.keys.clone_from(&start.sizes.keys);
            self.padded.resize(start.sizes.capacities.len(), 0);
            for (place, most) in (0..).zip(&mut self.padded) {
                *most = start.sizes.padded(place).max(*most);
            }
        }
        self.start = Some(start);
        self.answers.start();
        self.finished = false;
        self.total = None;
        self.groups = None;
        self.asked = None;
        self.done.clear();
        Ok(())
    }

    /// Whether the unit is finished.
    pub fn has(&self, id: UnitId) -> bool {
        self.done.contains_key(&id)
    }

    /// Finished units.
    pub fn len(&self) -> u64 {
        self.done.len() as u64
    }

    /// A unit is finished: its common keys, in ascending order of their digests, of which `digest` is a hash. On return
    /// it is so for good. Of a unit that the peer asked to have done again the first result stands, and nobody is told
    /// whether the second was another: a peer that brought other keys would learn from that which of them are here.
    ///
    /// # Errors
    /// Those of writing.
    pub fn commit(&mut self, id: UnitId, digest: &[u8; 32], matches: &[Match]) -> Result<(), JobError> {
        if let Some(disk) = &mut self.disk {
            disk.log.append(record::unit(id, digest, matches))?;
        }
        self.keep(id, *digest, matches)
    }

    fn keep(&mut self, id: UnitId, digest: [u8; 32], matches: &[Match]) -> Result<(), JobError> {
        self.answers.finish();
        if self.has(id) {
            return Ok(());
        }
        let Matches::Growing(spills) = &mut self.matches else {
            return Err(Error::Bug(format!("unit {id} was finished before or after the run")).into());
        };
        let [of_bits, of_repeats] = &mut **spills;
        let most = self.start.iter().flat_map(|start| &start.sizes.capacities).copied().max().unwrap_or(0);
        let (mut bits, mut pairs) = (Vec::new(), 0u64);
        for m in matches {
            let place = m.key.place();
            if m.key.unit() != id || place >= most.min(PLACES) {
                return Err(Error::Bug(format!("unit {id} has no key {place}")).into());
            }
            let byte = (place / 8) as usize;
            if byte >= bits.len() {
                bits.resize(byte + 1, 0);
            }
            let bit = 1 << (place % 8);
            if bits[byte] & bit != 0 {
                return Err(Error::Bug(format!("unit {id} has the key {place} twice")).into());
            }
            bits[byte] |= bit;
            if m.times != 1 {
                of_repeats.push(id.0 as usize, &repeats(place as u32, [m.rows, m.times]))?;
            }
            pairs = pairs.saturating_add(m.rows.saturating_mul(m.times));
        }
        of_bits.push_all(id.0 as usize, &bits)?;
        self.pairs[id.0 as usize] = pairs;
        let rows = matches.iter().fold(0, |rows: u64, m| rows.saturating_add(m.rows));
        self.done.insert(id, Done { digest, common: Common { keys: matches.len() as u64, rows } });
        Ok(())
    }

    /// So many keys are common, or this is what their values add up to modulo 2^64, and nothing else is learned. Said before the units are
    /// finished, of which nothing is known then. The first total stands, as the first result of a unit does.
    ///
    /// # Errors
    /// Those of writing.
    pub fn total(&mut self, total: u64) -> Result<(), JobError> {
        if self.total.is_none() {
            self.append(&Record::Count(total))?;
            self.total = Some(total);
        }
        Ok(())
    }

    /// This is what the common keys come to by group. It is said, and stands, as [`Ledger::total`] does.
    ///
    /// # Errors
    /// Those of writing.
    pub fn groups(&mut self, groups: Vec<GroupTotal>) -> Result<(), JobError> {
        if self.groups.is_none() {
            self.append(&Record::Groups(groups.clone()))?;
            self.groups = Some(groups);
        }
        Ok(())
    }

    /// What the common keys come to by group, where that was learned.
    pub fn told(&self) -> Option<&[GroupTotal]> {
        self.groups.as_deref()
    }

    /// A peer asks for an answer with the run's noise, to what this is a hash of: whether it never asked about anything else in this run.
    /// On return the hash is kept for good.
    ///
    /// # Errors
    /// Those of writing.
    pub fn asked(&mut self, hash: [u8; 32]) -> Result<bool, JobError> {
        if self.asked.is_none() {
            self.append(&Record::Asked(hash))?;
            self.asked = Some(hash);
        }
        Ok(self.asked == Some(hash))
    }

    /// The run is over: this side has all that it needs of the peer, and begins no other run.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// All sides have said that they are done. On return that is kept for good: a cluster whose driver is killed before the result is in its
    /// place needs nobody to put it there.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(&mut self) -> Result<(), JobError> {
        if !self.finished {
            self.append(&Record::Finished)?;
            self.finished = true;
        }
        Ok(())
    }

    /// Whether all sides have said that they are done, and this one wrote it down.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether every unit is finished.
    pub fn is_whole(&self) -> bool {
        self.start.as_ref().is_some_and(|start| self.len() == u64::from(start.sizes.units))
    }

    /// How much the finished units found to be common; as the number of keys the total, where the job asks for one.
    pub fn common(&self) -> Common {
        let sum = |what: fn(&Common) -> u64| {
            self.done.values().fold(0, |sum: u64, done| sum.saturating_add(what(&done.common)))
        };
        Common { keys: self.total.unwrap_or_else(|| sum(|common| common.keys)), rows: sum(|common| common.rows) }
    }

    /// What all units found; to be had again after a break.
    ///
    /// # Errors
    /// Those of writing what is spilled.
    pub fn found(&mut self) -> Result<Found<'_>, JobError> {
        self.matches = match std::mem::replace(&mut self.matches, Matches::None) {
            Matches::Growing(spills) => {
                let [bits, repeats] = *spills;
                Matches::Whole([bits.finish()?, repeats.finish()?])
            }
            matches => matches,
        };
        let Matches::Whole([bits, repeats]) = &self.matches else {
            return Err(Error::Bug("a run ended that had not begun".into()).into());
        };
        let mut hash = blake3::Hasher::new();
        self.done.values().for_each(|done| _ = hash.update(&done.digest));
        hash.update(&self.total.unwrap_or_default().to_le_bytes());
        let groups = self.groups.as_deref();
        if let Some(groups) = groups {
            hash.update(&Record::Groups(groups.to_vec()).encode());
        }
        let rows = self.common().rows;
        Ok(Found { bits, repeats, rows, pairs: &self.pairs, groups, digest: *hash.finalize().as_bytes() })
    }

    /// The run is over: its ledger is removed, and what was kept beside it.
    ///
    /// # Errors
    /// Those of removing the files.
    pub fn remove(self) -> Result<(), JobError> {
        self.kept().map_or(Ok(()), |kept| kept.remove())?;
        self.disk.map_or(Ok(()), |disk| disk.log.remove())
    }

    fn append(&mut self, record: &Record) -> Result<(), JobError> {
        self.disk.as_mut().map_or(Ok(()), |disk| disk.log.append(record.encode()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::keys::KeyId;
    use crate::units::found::OfUnit;
    use crate::world::World;
    use std::fs;
    use vesica_suite::Sizes;
    use vesica_types::{Coins, TagLen};

    /// A job that keeps its ledger in `dir`, with the input there.
    fn job(dir: &Path, mine: &str) -> Plan {
        fs::write(dir.join("a.csv"), "id\n1\n").unwrap();
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\"]\ninsecure = true\n\
             [mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = {{ path = \"{0}/a.csv\", keys = [\"id\"] }}\n\
             output = {{ path = \"{0}/o.csv\" }}\nresume = \"{0}/resume\"\n{mine}\n",
            dir.display()
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    }

    fn start() -> Start {
        let tag_len = TagLen::new(9).unwrap();
        let sizes = Sizes { units: 4, in_flight: 2, keys: vec![30, 60], capacities: vec![10, 20], tag_len };
        Start { salt: [7; 32], coins: Coins::new([0; 32]), sizes, lists: vec![0; 2] }
    }

    /// An attempt at all four units, two at once.
    const ATTEMPT: Attempt = Attempt { of: 4, missing: 4, at_once: 2 };

    fn unit(id: u32, n: u64) -> ([u8; 32], Vec<Match>) {
        let m = |i| Match { key: KeyId::new(UnitId(id), 3 * i), rows: i + 2, times: i + 1 };
        ([n as u8; 32], (0..n).map(m).collect())
    }

    fn commit(ledger: &mut Ledger, id: u32, n: u64) {
        let (digest, matches) = unit(id, n);
        ledger.commit(UnitId(id), &digest, &matches).unwrap();
    }

    fn open(plan: &Plan) -> Result<Ledger, JobError> {
        Ledger::open(plan, &std::env::temp_dir(), &World::default().disk, &Control::new(()))
    }

    /// The places of a unit's common keys, and how often the rows of each stand in the output.
    fn matches(found: &Found<'_>, id: u32) -> Vec<(u64, u64)> {
        let mut of_unit = OfUnit::default();
        of_unit.read(found, UnitId(id)).unwrap();
        assert_eq!(of_unit.is_empty(), of_unit.times(0).is_none());
        of_unit.read(found, UnitId(id)).unwrap();
        let times = |place| {
            let [rows, times] = of_unit.times(place)?;
            assert!(times == 1 || rows == times + 1);
            Some((place, times))
        };
        (0..100).filter_map(times).collect()
    }

    /// Those of [`unit`].
    fn of(n: u64) -> Vec<(u64, u64)> {
        (0..n).map(|i| (3 * i, i + 1)).collect()
    }

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("resume/alice.ledger")
    }

    fn hash(plan: &Plan) -> blake3::Hash {
        blake3::hash(&fs::read(plan.input.origin.name()).unwrap())
    }

    /// A ledger with a start and units 2 and 0.
    fn written(plan: &Plan) {
        let mut ledger = open(plan).unwrap();
        assert!(ledger.started().is_none());
        ledger.identify(&hash(plan)).unwrap();
        ledger.attempt(ATTEMPT).unwrap();
        ledger.start(start()).unwrap();
        commit(&mut ledger, 2, 5);
        commit(&mut ledger, 0, 0);
    }

    /// The first totals by group stand, are there again after a restart, are part of what both learners compare, and are forgotten with the run.
    #[test]
    fn totals_by_group_are_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let of = |keys| vec![GroupTotal { by: vec!["north".into(), String::new()], keys, sums: vec![-4, 7] }];
        let mut ledger = open(&plan).unwrap();
        ledger.identify(&hash(&plan)).unwrap();
        ledger.attempt(ATTEMPT).unwrap();
        ledger.start(start()).unwrap();
        ledger.groups(of(60)).unwrap();
        ledger.groups(of(61)).unwrap();
        let digest = ledger.found().unwrap().digest;
        drop(ledger);
        let mut ledger = open(&plan).unwrap();
        assert_eq!(ledger.told(), Some(&of(60)[..]));
        assert_eq!(ledger.found().unwrap().digest, digest);
        ledger.attempt(ATTEMPT).unwrap();
        ledger.start(start()).unwrap();
        assert_eq!(ledger.told(), None);
        assert_ne!(ledger.found().unwrap().digest, digest);
    }

    #[test]
    fn what_is_committed_is_there_again_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut ledger = open(&plan).unwrap();
        assert_eq!(ledger.started(), Some(&start()));
        assert!(ledger.has(UnitId(0)) && !ledger.has(UnitId(1)));
        let found = ledger.found().unwrap();
        assert_eq!((found.rows, matches(&found, 0), matches(&found, 2)), (20, vec![], of(5)));
        assert_eq!(found.pairs, [0, 0, 70, 0]);
        ledger.remove().unwrap();
        assert!(!path(&dir).exists());
    }

    #[test]
    fn a_new_start_forgets_the_units() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let again = Start { salt: [8; 32], ..start() };
        open(&plan).unwrap().start(again.clone()).unwrap();
        let ledger = open(&plan).unwrap();
        assert_eq!((ledger.started(), ledger.len()), (Some(&again), 0));
    }

    /// A run that breaks between its coins and its counts does not make this side forget what was said before.
    #[test]
    fn a_start_without_key_counts_leaves_those_that_were_said() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let sizes = Sizes { keys: Vec::new(), capacities: Vec::new(), ..start().sizes };
        open(&plan).unwrap().start(Start { salt: [8; 32], sizes, ..start() }).unwrap();
        let ledger = open(&plan).unwrap();
        assert_eq!((ledger.started().unwrap().sizes.keys.len(), ledger.keys()), (0, &[30, 60][..]));
    }

    /// Of one run's noise there is one answer, in however many attempts. Another run has other noise.
    #[test]
    fn what_was_asked_first_may_be_asked_again_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut ledger = open(&plan).unwrap();
        assert!(ledger.asked([1; 32]).unwrap() && ledger.asked([1; 32]).unwrap() && !ledger.asked([2; 32]).unwrap());
        drop(ledger);
        let mut again = open(&plan).unwrap();
        assert!(!again.asked([2; 32]).unwrap() && again.asked([1; 32]).unwrap());
        again.start(Start { salt: [8; 32], ..start() }).unwrap();
        assert!(again.asked([2; 32]).unwrap());
        drop(again);
        assert!(!open(&plan).unwrap().asked([1; 32]).unwrap());
    }

    /// Nothing that a peer could see tells the second result from the first.
    #[test]
    fn of_a_unit_that_is_done_again_the_first_result_stands() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let mut ledger = open(&plan).unwrap();
        ledger.attempt(ATTEMPT).unwrap();
        ledger.start(start()).unwrap();
        commit(&mut ledger, 3, 4);
        commit(&mut ledger, 3, 4);
        commit(&mut ledger, 3, 5);
        let first = ledger.found().unwrap().digest;
        assert_eq!(matches(&ledger.found().unwrap(), 3), of(4));
        commit(&mut ledger, 3, 6);
        drop(ledger);
        let mut again = open(&plan).unwrap();
        let found = again.found().unwrap();
        assert_eq!((matches(&found, 3), found.digest), (of(4), first));
    }

    /// What a peer was answered is not forgotten with a run, nor with a process.
    #[test]
    fn answers_are_counted_over_runs_and_processes() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut ledger = open(&plan).unwrap();
        assert_eq!((ledger.answers().attempts, ledger.answers().units(), ledger.answers().at_most(4)), (1, 2, 4));
        ledger.attempt(ATTEMPT).unwrap();
        ledger.start(Start { salt: [8; 32], ..start() }).unwrap();
        commit(&mut ledger, 0, 1);
        // The same unit again is another answer.
        commit(&mut ledger, 0, 1);
        let counted = *ledger.answers();
        assert_eq!((counted.attempts, counted.units(), ledger.len()), (2, 6, 1));
        drop(ledger);
        assert_eq!(*open(&plan).unwrap().answers(), counted);
    }

    /// A run of many units whose partner has few keys is padded most, and the run that ends has few units. When what was answered in both was
    /// taken to be in units of the last, the report said 3,200 keys where 11,600 had been answered.
    #[test]
    fn keys_are_counted_by_the_run_in_which_they_were_padded_most() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let sizes = |units, room| Sizes { units, capacities: vec![10, room], ..start().sizes };
        let mut ledger = open(&plan).unwrap();
        ledger.attempt(Attempt { of: 256, missing: 256, at_once: 2 }).unwrap();
        ledger.start(Start { sizes: sizes(256, 50), ..start() }).unwrap();
        (0..200).for_each(|id| commit(&mut ledger, id, 0));
        ledger.attempt(Attempt { of: 4, missing: 4, at_once: 2 }).unwrap();
        ledger.start(Start { salt: [8; 32], sizes: sizes(4, 400), ..start() }).unwrap();
        (0..4).for_each(|id| commit(&mut ledger, id, 0));
        let truly = 200 * 50 + 4 * 400;
        // Four fifths of the job are four of four units, and four more were finished: twice the largest padded number.
        assert_eq!(ledger.answered(1), 2 * 256 * 50);
        assert!(ledger.answered(1) >= truly && ledger.answered(2) == 0);
        drop(ledger);
        assert_eq!(open(&plan).unwrap().answered(1), 2 * 256 * 50);
        // In one run it is the count itself.
        let mut ledger = Ledger::new(1 << 20, dir.path());
        ledger.attempt(Attempt { of: 4, missing: 4, at_once: 2 }).unwrap();
        ledger.start(Start { sizes: sizes(4, 400), ..start() }).unwrap();
        (0..3).for_each(|id| commit(&mut ledger, id, 0));
        assert_eq!(ledger.answered(1), 3 * 400);
    }

    /// Whoever can write the folder can make a ledger without a key, with tags that are right.
    #[test]
    fn a_ledger_that_says_what_cannot_be_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let ledger = |records: &[Record]| {
            let _ = fs::remove_file(path(&dir));
            let mut log = Log::open(&World::default().disk, &path(&dir), KIND, &Given::Nothing, |_, _| Ok(())).unwrap();
            log.append(Record::Head(Head::of(&plan)).encode()).unwrap();
            records.iter().for_each(|record| log.append(record.encode()).unwrap());
            drop(log);
            open(&plan)
        };
        let starts = |units| Record::Start(Start { sizes: Sizes { units, ..start().sizes }, ..start() });
        let all = |id, place| Match { key: KeyId::new(UnitId(id), place), rows: u64::MAX, times: u64::MAX };
        let unit = |id| Record::Unit(UnitId(id), [1; 32], vec![all(id, 0)]);
        let another = |id, place| Record::Unit(UnitId(3), [1; 32], vec![all(id, place)]);
        for records in [
            &[starts(0)][..],
            &[starts((1 << 16) + 1)],
            &[starts(4), unit(4)],
            &[unit(0)],
            &[starts(4), another(2, 0)],
            &[starts(4), another(3, 20)],
        ] {
            assert!(ledger(records).err().unwrap().to_string().contains("it is damaged"));
        }
        let mut ledger = ledger(&[starts(1 << 16), unit(0), unit((1 << 16) - 1)]).unwrap();
        assert_eq!(ledger.found().unwrap().rows, u64::MAX);
    }

    /// After the last unit a connection may break as well as before it.
    #[test]
    fn what_was_found_is_there_again() {
        let mut ledger = Ledger::new(1 << 20, &std::env::temp_dir());
        ledger.start(start()).unwrap();
        (0..4).for_each(|id| commit(&mut ledger, id, 3));
        let first = ledger.found().map(|found| (found.rows, found.digest, matches(&found, 1))).unwrap();
        // The peer lost a unit, which is done again.
        commit(&mut ledger, 1, 3);
        let again = ledger.found().map(|found| (found.rows, found.digest, matches(&found, 1))).unwrap();
        assert!(first == again && ledger.is_whole());
    }

    #[test]
    fn another_run_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        written(&job(dir.path(), ""));
        let refused = |change: &dyn Fn(&mut Plan), word: &str| {
            let mut plan = job(dir.path(), "");
            change(&mut plan);
            let error = open(&plan).and_then(|mut ledger| ledger.identify(&hash(&plan))).unwrap_err();
            assert_eq!(error.fault(), vesica_session::Fault::Config);
            assert!(error.to_string().contains(word), "{error}");
        };
        refused(&|plan| plan.shared.id = "other".into(), "[shared]");
        refused(&|plan| plan.keys = vec!["other".into()], "another choice of columns, id; restore");
        refused(&|plan| plan.value = Some("other".into()), "another choice of columns, id; restore");
        refused(&|plan| fs::write(plan.input.origin.name(), "id\n2\n").unwrap(), "another input");
        refused(&|plan| plan.peers[0].trust = Some(vesica_spec::TrustPlan::Ca("ca.pem".into())), "partner");
        let other = dir.path().join("resume/alice.ledger");
        fs::write(&other, "something else that is longer than the front of a ledger is").unwrap();
        refused(&|_| {}, "not a ledger");
    }

    /// Totals of other columns under one noise would tell more than one total.
    #[test]
    fn a_run_of_other_groups_or_sums_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let with = |by: &[&str], sums: [&str; 2]| {
            let mut plan = job(dir.path(), "");
            let by = by.iter().map(|by| (*by).to_owned()).collect();
            let sums = sums.map(|sum| vesica_spec::Added { column: sum.to_owned(), largest: None, times: 1 }).to_vec();
            plan.grouped = Some(vesica_spec::GroupedPlan {
                other: false,
                by,
                sums,
                most: 8,
                labels: Vec::new(),
                of_a_key: 1,
                noisy: false,
            });
            plan
        };
        let opened = |plan: Plan| open(&plan).and_then(|mut ledger| ledger.identify(&hash(&plan)));
        written(&with(&["region"], ["price", "tax"]));
        let was = "id, groups by \"region\", sum of \"price\", sum of \"tax\"; restore mine.input.keys, value, values and groups";
        for other in [
            with(&["city"], ["price", "tax"]),
            with(&[], ["price", "tax"]),
            with(&["region"], ["price", "cost"]),
            // Two columns that change places.
            with(&["region"], ["tax", "price"]),
            job(dir.path(), ""),
        ] {
            let error = opened(other).unwrap_err().to_string();
            assert!(error.contains(&format!("another choice of columns, {was}")), "{error}");
        }
        opened(with(&["region"], ["price", "tax"])).unwrap();
    }

    #[test]
    fn a_sealed_ledger_needs_its_key_and_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        crate::rooms::replace_privately(&key, &[3; 32]).unwrap();
        let sealed = format!("resume_key = \"{}\"", key.display());
        written(&job(dir.path(), &sealed));
        let bytes = fs::read(path(&dir)).unwrap();
        assert!(!bytes.windows(8).any(|w| w == [7; 8]), "the salt is in the clear");
        assert_eq!(open(&job(dir.path(), &sealed)).unwrap().len(), 2);
        let why = |mine: &str| open(&job(dir.path(), mine)).map(drop).unwrap_err().to_string();
        assert!(why("").contains("it is sealed"));
        crate::rooms::replace_privately(&key, &[4; 32]).unwrap();
        assert!(why(&sealed).contains("cannot be read with this key"));
        crate::rooms::replace_privately(&key, &[4; 5]).unwrap();
        assert!(why(&sealed).contains("5 bytes are too few"));
    }

    #[test]
    fn an_attempt_that_met_nobody_binds_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        crate::rooms::replace_privately(&key, &[3; 32]).unwrap();
        for mine in [format!("resume_key = \"{}\"", key.display()), String::new(), "# again".into()] {
            assert!(open(&job(dir.path(), &mine)).unwrap().started().is_none());
        }
    }

    #[test]
    fn what_is_gone_need_not_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        written(&job(dir.path(), ""));
        let ledger = open(&job(dir.path(), "")).unwrap();
        fs::remove_file(path(&dir)).unwrap();
        ledger.remove().unwrap();
    }
}
