//! What a client keeps of a service's answers from run to run, with `mine.kept`: the function at each key of its table, and which keys
//! were found. The next run asks for what is not there, and says which keys were found then and not now, or the other way round.
//!
//! Two files, sealed under the user's key. The *kept file* is written whole, as [`blocks`](vesica_job::rooms::blocks) are. Its text:
//!
//! ```text
//! bytes        what
//!  0.. 32      its name: drawn at random
//! 32.. 64      the name of the file that was there before it; drawn at random in a first run
//! 64.. 96      hash of whose keys it has, and of which service
//! 96..128      hash of the offer
//! 128..160     number of the run that wrote it, when that was, when the run before was (seconds since 1970), how many entries follow
//! 160..164     length of the manifest
//!              the manifest of the store that was searched
//!              for each key of the table, in the order of digests: its digest (32 bytes), the function at it (32), and one byte, the sum
//!              of 1 if it was found, 2 if it was found in the run before, and 4 if it was asked for in this run
//! ```
//!
//! The *log* beside it (`.log`) has what the run under way was answered, as [`Log`] has records: first one that says whose it is and which kept
//! file the run began from, then digests with the function at each. A record is on the disk before anything is done with it. Digests that were
//! made up, for `mine.batch`, stand there like others, so that what is written between two messages to the server follows from what was asked for.
//!
//! A run ends in this order. The new kept file is written under another name (`.new`). Outputs are put in their places. The new file takes the
//! place of the old one. The log is removed: that is the end of the run. A process may be killed between any two of these, and the same command
//! does what is left:
//!
//! | what is found | what it means |
//! |---|---|
//! | no log | the run before is over: a new one begins |
//! | a log that began from the kept file | a run that was broken off: it goes on with the answers in the log |
//! | a log that began from the file before the kept one | a run whose end may not have been seen: it is done again, and compared with the run before it |
//! | any other log | the kept file is not the one that the run began from: a new run begins, which has its answers, and says so in a further record |
//! | a log of another offer | it is refused, as a kept file is |
//!
//! So no key is asked for twice whose answer reached the disk. A process that is killed behind its last write, and before it has said that it is
//! done, leaves a run that is over: the numbers of runs tell whoever missed its outputs.

use crate::error::Error;
use crate::offer::{Offer, spelled};
use crate::retrieve::epoch::date;
use crate::wants::Wants;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use vesica_job::numbers::{count, counted};
use vesica_job::report::Changes;
use vesica_job::rooms::Log;
use vesica_job::rooms::blocks::{BLOCK, Blocks, Writer};
use vesica_job::rooms::key::{Given, Secret};
use vesica_job::worlds::Disk;
use vesica_job::{Control, JobError, World};
use vesica_spec::service::{AskPlan, KeptPlan};
use vesica_store::{Limits, MOST_MANIFEST_BYTES, Manifest};
use vesica_table::ReadAt;
use vesica_types::KeyDigest;

/// The kind of the kept file, and the number of its format.
const KIND: &[u8; 15] = b"vesica kept 1\n\n";

/// The same of the log.
const LOG: &[u8; 15] = b"vesica asked 1\n";

/// What the blocks of a kept file belong to.
const TEXT: &[u8] = b"answers of a service";

/// Bytes of the text before the manifest.
const FRONT: usize = 164;

/// Bytes of the first record of a log.
const BEGIN: usize = 96;

/// Bytes of a key in a kept file.
const ENTRY: usize = 65;

/// Keys in a record of the log: with their answers 2 MiB.
const RECORD: usize = 1 << 15;

/// The function at a key for which it is not known.
const NONE: [u8; 32] = [0; 32];

/// Of an entry: its key was found.
const FOUND: u8 = 1;

/// Of an entry: its key was found in the run before.
const BEFORE: u8 = 2;

/// Of an entry: its key was asked for in the run that wrote it, or in an attempt at that run.
const NEW: u8 = 4;

/// What stands in front of the entries.
struct Head {
    name: [u8; 32],
    base: [u8; 32],
    whose: [u8; 32],
    offer: [u8; 32],
    run: u64,
    /// When it was written, and when the one before; 0 in the first one.
    times: [u64; 2],
    entries: u64,
    manifest: Vec<u8>,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.name, self.base, self.whose, self.offer].concat();
        let numbers = [self.run, self.times[0], self.times[1], self.entries];
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(&(self.manifest.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.manifest);
        bytes
    }

    /// The head of a text; none if there is none that fits it.
    fn read(blocks: &Blocks) -> Option<Self> {
        let mut front = [0; FRONT];
        blocks.read_exact_at(&mut front, 0).ok()?;
        let hash = |i: usize| std::array::from_fn(|at| front[32 * i + at]);
        let number = |i: usize| u64::from_le_bytes(std::array::from_fn(|at| front[128 + 8 * i + at]));
        let length = u32::from_le_bytes(std::array::from_fn(|at| front[160 + at])) as usize;
        let mut manifest = vec![0; Some(length).filter(|length| *length <= MOST_MANIFEST_BYTES)?];
        blocks.read_exact_at(&mut manifest, FRONT as u64).ok()?;
        let head = Self {
            name: hash(0),
            base: hash(1),
            whose: hash(2),
            offer: hash(3),
            run: number(0),
            times: [number(1), number(2)],
            entries: number(3),
            manifest,
        };
        // A file that was cut between two blocks shows it here.
        let entries = blocks.text_len().checked_sub((FRONT + length) as u64)?;
        (head.entries.checked_mul(ENTRY as u64) == Some(entries)).then_some(head)
    }

    /// Where entries begin.
    fn bytes(&self) -> u64 {
        (FRONT + self.manifest.len()) as u64
    }
}

/// Bytes that a run of so many keys writes beside the kept file that is there, if it asks for so many.
pub fn bytes(keys: u64, lookups: u64) -> u64 {
    (ENTRY as u64).saturating_mul(keys).saturating_add(lookups.saturating_mul(64))
}

/// What is kept, locked as long as this lives.
pub struct Kept<'a> {
    plan: &'a KeptPlan,
    disk: Arc<dyn Disk>,
    secret: Secret,
    log: Log,
    /// Whether the log says of this run whose it is.
    is_begun: bool,
    whose: [u8; 32],
    /// The name of the file that the run began from.
    base: [u8; 32],
    past: Past<'a>,
    /// When this run began, in seconds since 1970.
    now: u64,
}

/// What earlier runs left.
pub struct Past<'a> {
    path: &'a Path,
    /// The kept file; none before the end of the first run.
    last: Option<(Head, Blocks)>,
    /// Whether the last run is done again.
    is_again: bool,
    /// What the log has, in the order of digests.
    answers: Vec<[[u8; 32]; 2]>,
}

/// What is known of a table's keys before any is asked for.
pub struct Known {
    /// The function at each want; of no meaning where it is not known.
    pub outputs: Vec<[u8; 32]>,
    /// Whether each was found in the run that this one is compared with.
    pub before: Vec<bool>,
    /// The wants that are to be asked for, ascending.
    pub new: Vec<usize>,
    /// Whether each is asked for in this run, or was in an attempt at it.
    is_new: Vec<bool>,
}

/// A kept file under its other name.
pub struct Next {
    new: PathBuf,
    run: u64,
    since: Option<String>,
}

impl<'a> Kept<'a> {
    /// What is kept for the plan; none if it keeps nothing. Nobody is contacted.
    ///
    /// # Errors
    /// A key that cannot be read or is another one; a file that is damaged, of another service, another offer or another table's, or that
    /// another run is at work on.
    pub fn open(plan: &'a AskPlan, world: &World, ctl: &Control) -> Result<Option<Self>, Error> {
        let Some(kept) = &plan.kept else { return Ok(None) };
        let Some(offer) = plan.offer else {
            let why = "mine.kept needs it: answers are kept for one offer".to_owned();
            return Err(Error::Missing { field: "service.offer", why });
        };
        let given = Given::key(&kept.key, "mine.kept.key", ctl)?;
        let (disk, whose) = (world.disk.clone(), whose(plan));
        let path = beside(&kept.path, ".log");
        let (log, begin, mut answers) = open_log(&disk, &path, &given)?;
        let secret = secret(&given);
        let last = last(&*disk, kept, &secret, (&whose, &offer))?;
        if let Some(begin) = &begin {
            if begin.whose != whose {
                return Err(refused(&path, OTHERS));
            }
            // Of a run that was broken off: what it was answered may be all that is left of an allowance.
            of_offer(&path, &begin.offer, &offer)?;
        }
        let began = begin.map(|begin| begin.base);
        let (base, is_again) = match (&last, began) {
            (None, began) => (began.map_or_else(|| Ok(world.rng()?.bytes()), Ok::<_, Error>)?, false),
            (Some((head, _)), Some(began)) if began == head.base => (began, true),
            (Some((head, _)), _) => (head.name, false),
        };
        answers.sort_unstable();
        let now = world.time.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let is_begun = began == Some(base);
        let past = Past { path: &kept.path, last, is_again, answers };
        Ok(Some(Self { plan: kept, disk, secret, log, is_begun, whose, base, past, now }))
    }

    /// What earlier runs left.
    pub fn past(&self) -> &Past<'a> {
        &self.past
    }

    /// What is known of the table is known for good: memory that was for it alone is free again.
    pub fn recalled(&mut self) {
        self.past.answers = Vec::new();
    }

    /// Fails if what is kept is of a later state of the store than the server serves.
    ///
    /// # Errors
    /// The same.
    pub fn check(&self, server: &str, manifest: &[u8]) -> Result<(), Error> {
        let Some((head, _)) = &self.past.last else { return Ok(()) };
        let read = |bytes| Manifest::decode(bytes, Limits::NONE);
        let (kept, now) = (read(&head.manifest)?, read(manifest)?);
        if kept != now && kept.follows(&now) {
            let parts = |manifest: &Manifest| format!("a store of {} parts", manifest.parts.len());
            return Err(Error::Older {
                server: server.to_owned(),
                found: parts(&now),
                kept: parts(&kept),
                remedy: format!(
                    "put an older copy of {0} in its place, wait until the store has got further than that, or remove {0}, and the next run asks for \
                     every key",
                    self.plan.path.display()
                )
                .into(),
                cache: self.plan.path.clone(),
            });
        }
        Ok(())
    }

    /// The run is under way: what is answered from now on is of the function of this offer.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(&mut self, offer: &Offer) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.log.append([self.whose, offer.hash(), self.base].concat())?;
        }
        Ok(())
    }

    /// Takes answers, and brings them to the disk.
    ///
    /// # Errors
    /// Those of writing.
    pub fn answered(&mut self, keys: &[KeyDigest], outputs: &[[u8; 32]]) -> Result<(), Error> {
        for (keys, outputs) in keys.chunks(RECORD).zip(outputs.chunks(RECORD)) {
            self.log.append(keys.iter().zip(outputs).flat_map(|(key, output)| [key.0, *output].concat()).collect())?;
        }
        Ok(())
    }

    /// Writes what this run leaves, beside what the last one left.
    ///
    /// # Errors
    /// Those of writing; being cancelled.
    pub fn write(
        &self,
        (wants, outputs): (&Wants, &[[u8; 32]]),
        (known, found): (&Known, &[bool]),
        (offer, manifest): (&Offer, Vec<u8>),
        world: &World,
        ctl: &Control,
    ) -> Result<Next, Error> {
        let last = self.past.last.as_ref().map(|(head, _)| head);
        let (run, time) = match last {
            None => (1, 0),
            Some(last) if self.past.is_again => (last.run, last.times[1]),
            Some(last) => (last.run + 1, last.times[0]),
        };
        let head = Head {
            name: world.rng()?.bytes(),
            base: self.base,
            whose: self.whose,
            offer: offer.hash(),
            run,
            times: [self.now, time],
            entries: wants.digests.len() as u64,
            manifest,
        };
        let new = beside(&self.plan.path, ".new");
        let mut out = Writer::create(&*self.disk, &new, KIND, &self.secret, TEXT, ctl)?;
        out.write(&head.encode())?;
        for (want, (digest, output)) in wants.digests.iter().zip(outputs).enumerate() {
            let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
            let was = bit(found[want], FOUND) | bit(known.before[want], BEFORE) | bit(known.is_new[want], NEW);
            [&digest[..], output, &[was]].into_iter().try_for_each(|text| out.write(text))?;
        }
        out.finish()?;
        let since = (time > 0).then(|| date(SystemTime::UNIX_EPOCH + Duration::from_secs(time)));
        Ok(Next { new, run, since })
    }

    /// The run is over: all that it says is in its place.
    ///
    /// # Errors
    /// Those of renaming and removing.
    pub fn end(self, next: &Next) -> Result<(), Error> {
        let path = &self.plan.path;
        let renamed = self.disk.rename(&next.new, path).and_then(|()| self.disk.sync_name(path));
        renamed.map_err(Error::file("cannot write", path))?;
        self.log.remove()?;
        // The run is over, and an error would say that it is not. If the log is there again after a failure of the power, the next run tells what
        // changed since the run before this one.
        let _ = self.disk.sync_name(path);
        Ok(())
    }
}

impl<'a> Past<'a> {
    /// What the runs before left for the plan, as it is read without a run; none if it keeps nothing. A run that was broken off is not seen.
    ///
    /// # Errors
    /// As [`Kept::open`], but for other runs.
    pub fn look(plan: &'a AskPlan, world: &World, ctl: &Control) -> Result<Option<Self>, Error> {
        let (Some(kept), Some(offer)) = (&plan.kept, plan.offer) else { return Ok(None) };
        let given = Given::key(&kept.key, "mine.kept.key", ctl)?;
        let last = last(&*world.disk, kept, &secret(&given), (&whose(plan), &offer))?;
        Ok(Some(Self { path: &kept.path, last, is_again: false, answers: Vec::new() }))
    }

    /// Whether a run has left answers.
    pub fn has_answers(&self) -> bool {
        self.last.is_some()
    }

    /// What is there, in words.
    pub fn in_words(&self) -> String {
        match &self.last {
            None => format!("{} is made by the first run, which asks for every key", self.path.display()),
            Some((head, _)) => format!(
                "run {} of {}, {}",
                count(head.run),
                date(SystemTime::UNIX_EPOCH + Duration::from_secs(head.times[0])),
                counted(head.entries, "keys")
            ),
        }
    }

    /// Goes through all that is kept, and says what of it is about the wants.
    ///
    /// # Errors
    /// A kept file that is damaged; being cancelled.
    pub fn known(&self, wants: &Wants, ctl: &Control) -> Result<Known, Error> {
        let n = wants.digests.len();
        let mut known =
            Known { outputs: vec![NONE; n], before: vec![false; n], new: Vec::new(), is_new: vec![true; n] };
        let mut has = vec![false; n];
        let mut meet = {
            let mut at = 0;
            move |digest: &[u8; 32]| {
                at += wants.digests[at..].iter().take_while(|want| *want < digest).count();
                (wants.digests.get(at) == Some(digest)).then_some(at)
            }
        };
        self.each(ctl, |digest, output, was| {
            let Some(at) = meet(digest) else { return };
            let bit = if self.is_again { BEFORE } else { FOUND };
            (known.outputs[at], known.before[at], has[at]) = (*output, was & bit != 0, true);
            known.is_new[at] = self.is_again && was & NEW != 0;
        })?;
        for [digest, output] in &self.answers {
            if let Ok(at) = wants.digests.binary_search(digest)
                && !has[at]
            {
                (known.outputs[at], has[at]) = (*output, true);
            }
        }
        known.new = (0..n).filter(|at| !has[*at]).collect();
        Ok(known)
    }

    /// Hands over each entry of the kept file, in the order of digests.
    fn each(&self, ctl: &Control, mut take: impl FnMut(&[u8; 32], &[u8; 32], u8)) -> Result<(), Error> {
        let Some((head, blocks)) = &self.last else { return Ok(()) };
        let damaged = |_| damaged(self.path);
        let (mut at, end, mut bytes) = (head.bytes(), blocks.text_len(), Vec::new());
        while at < end {
            ctl.check()?;
            // To the end of a block, so that each is opened once.
            let more = (BLOCK as u64 - at % BLOCK as u64).min(end - at) as usize;
            let from = bytes.len();
            bytes.resize(from + more, 0);
            blocks.read_exact_at(&mut bytes[from..], at).map_err(damaged)?;
            at += more as u64;
            let (entries, rest) = bytes.as_chunks::<ENTRY>();
            for entry in entries {
                let (digest, rest) = entry.split_first_chunk().expect("an entry begins with a digest");
                let (output, was) = rest.split_first_chunk().expect("32 bytes follow");
                take(digest, output, was[0]);
            }
            bytes.drain(..bytes.len() - rest.len());
        }
        Ok(())
    }
}

impl Known {
    /// How this run differs from the one before, if `found` says which wants were found now.
    pub fn changes(&self, next: &Next, found: &[bool]) -> Changes {
        let how_many = |of: &dyn Fn(&bool, &bool) -> bool| {
            self.before.iter().zip(found).filter(|(before, found)| of(before, found)).count() as u64
        };
        let asked = self.is_new.iter().filter(|is_new| **is_new).count() as u64;
        Changes {
            run: next.run,
            since: next.since.clone(),
            kept: self.is_new.len() as u64 - asked,
            asked,
            gained: how_many(&|before, found| *found && !*before),
            lost: how_many(&|before, found| *before && !*found),
        }
    }
}

/// What a log says of the run that it is of.
struct Begin {
    whose: [u8; 32],
    offer: [u8; 32],
    base: [u8; 32],
}

/// The log, what it begins with, and the answers in it.
#[allow(clippy::type_complexity, reason = "three things that are read at once")]
fn open_log(
    disk: &Arc<dyn Disk>,
    path: &Path,
    given: &Given,
) -> Result<(Log, Option<Begin>, Vec<[[u8; 32]; 2]>), Error> {
    let (mut begin, mut answers) = (None, Vec::new());
    let bad = || JobError::Resume { path: path.to_owned(), why: "it is damaged: remove it".to_owned() };
    let log = Log::open(disk, path, LOG, given, |number, record| {
        let (hashes, rest) = record.as_chunks::<32>();
        match (number, hashes) {
            // A further one is of a run that found it beside another kept file.
            (_, [whose, offer, base]) if record.len() == BEGIN => {
                begin = Some(Begin { whose: *whose, offer: *offer, base: *base });
            }
            (1.., hashes) if rest.is_empty() && hashes.len().is_multiple_of(2) => {
                answers.extend_from_slice(hashes.as_chunks::<2>().0);
            }
            _ => return Err(bad()),
        }
        Ok(())
    });
    match log {
        Ok(log) => Ok((log, begin, answers)),
        Err(JobError::Resume { path, why }) => Err(refused(&path, &why)),
        Err(error) => Err(error.into()),
    }
}

/// What keys of kept files are derived from. What seals blocks is drawn anew for each file, so this needs no salt.
fn secret(given: &Given) -> Secret {
    given.secret(&[0; 32])
}

/// The kept file, if it is of these keys and this offer; none if there is none.
fn last(
    disk: &dyn Disk,
    kept: &KeptPlan,
    secret: &Secret,
    (whose, offer): (&[u8; 32], &[u8; 32]),
) -> Result<Option<(Head, Blocks)>, Error> {
    let path = &kept.path;
    if !disk.has(path) {
        return Ok(None);
    }
    let Some(blocks) = Blocks::open(disk, path, KIND, secret, TEXT) else {
        let why = "it is not a kept file of this version of Vesica, or it was cut short; restore it from a copy, or remove it, and the next run \
                   asks for every key";
        return Err(refused(path, why));
    };
    match Head::read(&blocks) {
        Some(head) if head.whose != *whose => Err(refused(path, OTHERS)),
        Some(head) => of_offer(path, &head.offer, offer).map(|()| Some((head, blocks))),
        None => Err(refused(
            path,
            "it does not open: the key of mine.kept.key is another one, or the file is damaged; give the key that it was begun with, \
             restore it from a copy, or remove it, and the next run asks for every key",
        )),
    }
}

/// Fails if the file is of another offer.
fn of_offer(path: &Path, has: &[u8; 32], offer: &[u8; 32]) -> Result<(), Error> {
    if has == offer {
        return Ok(());
    }
    let why = format!(
        "it has answers of {}, and this run is of {}, which has another key or other rules: they are of no use to it. Name a new file; the first \
         run with it asks for every key, writes all rows that are found to mine.output.gained, and none to mine.output.lost",
        spelled(has),
        spelled(offer)
    );
    Err(refused(path, &why))
}

/// A hash of whose keys are kept and of which service: none of it changes from run to run.
fn whose(plan: &AskPlan) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 whose answers are kept");
    let keys = plan.input.iter().flat_map(|(_, keys)| keys).map(String::as_str);
    for word in [plan.id.as_str(), plan.server.name(), plan.me.name()].into_iter().chain(keys) {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// What is said of a file of another service or table.
const OTHERS: &str =
    "it is of another service, another party, or a table with other key columns; name a file of its own for each";

fn refused(path: &Path, why: &str) -> Error {
    Error::Setup(format!("mine.kept: {}: {why}", path.display()))
}

fn damaged(path: &Path) -> Error {
    let why = "one of its blocks is not as it was sealed; restore it from a copy, or remove it, and the next run asks for every key";
    Error::Damaged { path: path.to_owned(), why: why.to_owned() }
}

/// The path of a file beside another one: this ending behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
