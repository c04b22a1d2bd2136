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
//! 128..168     number of the run that wrote it, when that was, when the run before was (seconds since 1970), how many entries follow, how many bytes
//!              they have
//! 168..172     key columns whose texts each entry has: none where runs read whole tables
//! 172..176     names of day files that follow the manifest
//! 176..180     length of the manifest
//!              the manifest of the store that was searched
//!              a name of 32 bytes for the day files of each run, the latest last
//!              for each key of the table, in the order of digests: its digest (32 bytes), the function at it (32), the head of its tag (8), and
//!              one byte, the sum of 1 if it was found, 2 if it was found in the run before, 4 if it was asked for in this run, and 8 if what the
//!              server has there cannot be read; then for each of those columns the length of its text (4) and the text
//! ```
//!
//! A key that was looked up in a store is looked up again in the parts that came since: the heads of their tags are compared with those of the
//! entries, and what none of them has is as it was.
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
//! A new kept file that began from where a run begins (`.new`) is of a run that was written: its outputs may be in their places. With day files, as
//! with a run whose end may not have been seen, no others are taken then: what the first ones added would never be asked for, and what they took
//! away would stay.
//!
//! So no key is asked for twice whose answer reached the disk. A process that is killed behind its last write, and before it has said that it is
//! done, leaves a run that is over: the numbers of runs tell whoever missed its outputs.

use crate::client::day::{Day, Texts};
use crate::error::Error;
use crate::found::Hit;
use crate::offer::{Offer, spelled};
use crate::retrieve::epoch::date;
use crate::suite::Was;
use crate::wants::Wants;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use vesica_job::numbers::{count, counted, worded};
use vesica_job::report::Changes;
use vesica_job::rooms::Log;
use vesica_job::rooms::blocks::{BLOCK, Blocks, Writer};
use vesica_job::rooms::key::{Given, Secret};
use vesica_job::worlds::Disk;
use vesica_job::{Control, JobError, World};
use vesica_spec::service::{AskPlan, KeptPlan, with_ending};
use vesica_store::{Limits, MOST_MANIFEST_BYTES, Manifest};
use vesica_table::{InOrder, ReadAt};
use vesica_types::KeyDigest;

/// The kind of the kept file, and the number of its format.
const KIND: &[u8; 15] = b"vesica kept 2\n\n";

/// The same of the log.
const LOG: &[u8; 15] = b"vesica asked 1\n";

/// What the blocks of a kept file belong to.
const TEXT: &[u8] = b"answers of a service";

/// Bytes of the text before the manifest.
const FRONT: usize = 180;

/// Bytes of the first record of a log.
const BEGIN: usize = 96;

/// Bytes of a key in a kept file, without texts.
const ENTRY: usize = 73;

/// Keys in a record of the log, about: with their answers 2 MiB.
const RECORD: u64 = 1 << 15;

/// Blocks of a kept file that are read together.
const STRETCH: u64 = 16;

/// Names of day files that are remembered.
const MOST_DAYS: usize = 1 << 10;

/// The function at a key for which it is not known.
const NONE: [u8; 32] = [0; 32];

/// What the names of files beside the kept file end with: of the log, and of a new kept file until it takes the place of the old one.
const OF_LOG: &str = ".log";
const OF_NEXT: &str = ".new";
/// And of one that is being written while a whole one of an earlier attempt stands there, by which the run's day files are known.
const OF_PART: &str = ".part";

/// Of an entry: its key was found.
const FOUND: u8 = 1;

/// Of an entry: its key was found in the run before.
const BEFORE: u8 = 2;

/// Of an entry: its key was asked for in the run that wrote it, or in an attempt at that run.
const NEW: u8 = 4;

/// Of an entry: what the server has there cannot be read.
const UNREADABLE: u8 = 8;

/// Of a want: the kept file has it, with what was found when that was written.
const KEPT: u8 = 16;

/// Of a want: the log has its answer.
const LOGGED: u8 = 32;

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
    /// Bytes of all entries.
    length: u64,
    /// Key columns whose texts they have.
    columns: u32,
    /// The day files of the runs so far.
    days: Vec<[u8; 32]>,
    manifest: Vec<u8>,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = [self.name, self.base, self.whose, self.offer].concat();
        let numbers = [self.run, self.times[0], self.times[1], self.entries, self.length];
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        let numbers = [self.columns, self.days.len() as u32, self.manifest.len() as u32];
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(&self.manifest);
        bytes.extend_from_slice(self.days.as_flattened());
        bytes
    }

    /// The head of a text; none if there is none that fits it.
    fn read(blocks: &Blocks) -> Option<Self> {
        let mut front = [0; FRONT];
        blocks.read_exact_at(&mut front, 0).ok()?;
        let hash = |i: usize| std::array::from_fn(|at| front[32 * i + at]);
        let number = |i: usize| u64::from_le_bytes(std::array::from_fn(|at| front[128 + 8 * i + at]));
        let small = |i: usize| u32::from_le_bytes(std::array::from_fn(|at| front[168 + 4 * i + at]));
        let most = |number: u32, most: usize| Some(number as usize).filter(|number| *number <= most);
        let mut manifest = vec![0; most(small(2), MOST_MANIFEST_BYTES)?];
        blocks.read_exact_at(&mut manifest, FRONT as u64).ok()?;
        let mut days = vec![[0; 32]; most(small(1), MOST_DAYS)?];
        blocks.read_exact_at(days.as_flattened_mut(), (FRONT + manifest.len()) as u64).ok()?;
        let head = Self {
            name: hash(0),
            base: hash(1),
            whose: hash(2),
            offer: hash(3),
            run: number(0),
            times: [number(1), number(2)],
            entries: number(3),
            length: number(4),
            columns: small(0),
            days,
            manifest,
        };
        // A file that was cut between two blocks shows it here.
        let is_whole = blocks.text_len().checked_sub(head.bytes()) == Some(head.length);
        let has_room = head.entries.checked_mul(ENTRY as u64).is_some_and(|least| least <= head.length);
        (is_whole && has_room).then_some(head)
    }

    /// The number of the run that wrote it, and the name of its day files, if it had any.
    fn day(&self) -> Option<(u64, [u8; 32])> {
        self.days.last().map(|name| (self.run, *name))
    }

    /// Where entries begin.
    fn bytes(&self) -> u64 {
        (FRONT + self.manifest.len() + 32 * self.days.len()) as u64
    }
}

/// Bytes of memory that a run takes for each key of the table: its digest, the function at it, the head of its tag, its row's place and its hit's, and
/// what is so of it.
pub const MEMORY: u64 = 32 + 32 + 8 + 4 + 4 + 1;

/// Bytes that a run of so many keys writes beside the kept file that is there, if it asks for so many.
pub fn bytes(keys: u64, lookups: u64) -> u64 {
    (ENTRY as u64).saturating_mul(keys).saturating_add(lookups.saturating_mul(64))
}

/// Keys of a record of the log: whole batches. A process may be killed between two records, and then as many made-up keys are missing as would have
/// been.
pub fn record(batch: u64) -> usize {
    (RECORD - RECORD % batch.min(RECORD)).max(batch) as usize
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
    /// Keys of a record of the log.
    record: usize,
}

/// What earlier runs left.
pub struct Past<'a> {
    path: &'a Path,
    /// The kept file; none before the end of the first run.
    last: Option<(Head, Arc<Blocks>)>,
    /// Whether the last run is done again.
    is_again: bool,
    /// The number of a run that was written and not ended, and the name of its day files.
    written: Option<(u64, [u8; 32])>,
    /// What the log has, in the order of digests.
    answers: Vec<[[u8; 32]; 2]>,
    workers: usize,
}

/// What is known of a table's keys, first before any is asked for, then when all were looked up.
#[derive(Default)]
pub struct Known {
    /// The function at each want; of no meaning where it is not known.
    pub outputs: Vec<[u8; 32]>,
    /// The heads of tags of those that the kept file has.
    heads: Vec<u64>,
    /// What is so of each: [`FOUND`] and the others.
    marks: Vec<u8>,
    /// The wants that are to be asked for, ascending.
    pub new: Vec<u32>,
    /// The texts of the wants, where the run has day files.
    pub texts: Option<Texts>,
    /// What names these.
    day: Option<[u8; 32]>,
    /// What is to be told of the day files, or why they are refused.
    verdict: Option<Result<Vec<String>, Error>>,
}

/// A run that is written and not over.
pub struct Ending {
    path: PathBuf,
    new: PathBuf,
    disk: Arc<dyn Disk>,
    /// Locked as long as this lives.
    log: Log,
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
        let path = with_ending(&kept.path, OF_LOG);
        let (log, begin, mut answers) = open_log(&disk, &path, &given)?;
        let secret = secret(&given);
        let last = last(&*disk, plan, &secret, (&whose, &offer))?;
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
        let written = match &last {
            Some((head, _)) if is_again => head.day(),
            _ => written(&*disk, &kept.path, &secret, [&whose, &offer, &base]),
        };
        answers.sort_unstable();
        let (record, workers) = (record(plan.batch), plan.workers);
        let now = world.time.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let is_begun = began == Some(base);
        let past = Past { path: &kept.path, last, is_again, written, answers, workers };
        Ok(Some(Self { plan: kept, disk, secret, log, is_begun, whose, base, past, now, record }))
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
                    "put an older copy of {0} in its place{1}, wait until the store has got further than that, or remove {0}, and the next run asks \
                     for every key",
                    self.plan.path.display(),
                    if head.columns > 0 { " and give the day files of each day since again" } else { "" }
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
        for (keys, outputs) in keys.chunks(self.record).zip(outputs.chunks(self.record)) {
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
        known: &Known,
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
        let mut days = last.map_or_else(Vec::new, |last| last.days.clone());
        days.extend(known.day.filter(|_| !self.past.is_again));
        days.drain(..days.len().saturating_sub(MOST_DAYS));
        let entries = wants.digests.len() as u64;
        let head = Head {
            name: world.rng()?.bytes(),
            base: self.base,
            whose: self.whose,
            offer: offer.hash(),
            run,
            times: [self.now, time],
            entries,
            length: ENTRY as u64 * entries + known.texts.as_ref().map_or(0, Texts::bytes),
            columns: known.texts.as_ref().map_or(0, Texts::columns),
            days,
            manifest,
        };
        let new = with_ending(&self.plan.path, OF_NEXT);
        // Outputs of an earlier attempt may be in their places: what says so stays until this file is whole.
        let begun = if self.past.written.is_some() { with_ending(&self.plan.path, OF_PART) } else { new.clone() };
        let mut out = Writer::create(&*self.disk, &begun, KIND, &self.secret, TEXT, ctl)?;
        out.write(&head.encode())?;
        let mut texts = known.texts.iter().flat_map(Texts::rows);
        for (want, (digest, output)) in wants.digests.iter().zip(outputs).enumerate() {
            let mark = known.marks[want];
            let head = if mark & KEPT == 0 { vesica_store::head(output) } else { known.heads[want] };
            let mut entry = [0; ENTRY];
            entry[..32].copy_from_slice(digest);
            entry[32..64].copy_from_slice(output);
            entry[64..72].copy_from_slice(&head.to_le_bytes());
            entry[72] = mark & (FOUND | BEFORE | NEW | UNREADABLE);
            out.write(&entry)?;
            for text in texts.next().into_iter().flatten() {
                out.write(&(text.len() as u32).to_le_bytes())?;
                out.write(text.as_bytes())?;
            }
        }
        out.finish()?;
        if begun != new {
            let renamed = self.disk.rename(&begun, &new).and_then(|()| self.disk.sync_name(&new));
            renamed.map_err(Error::file("cannot write", &new))?;
        }
        let since = (time > 0).then(|| date(SystemTime::UNIX_EPOCH + Duration::from_secs(time)));
        Ok(Next { new, run, since })
    }

    /// All that the run says is in its place.
    pub fn ending(self, next: Next) -> Ending {
        Ending { path: self.plan.path.clone(), new: next.new, disk: self.disk, log: self.log }
    }
}

impl Ending {
    /// The run is over.
    ///
    /// # Errors
    /// Those of renaming and removing.
    pub fn end(self) -> Result<(), Error> {
        let path = &self.path;
        let renamed = self.disk.rename(&self.new, path).and_then(|()| self.disk.sync_name(path));
        renamed.map_err(Error::file("cannot write", path))?;
        // If it is there again after a failure of the power, the next run tells what changed since the run before this one.
        Ok(self.log.remove()?)
    }
}

impl<'a> Past<'a> {
    /// What the runs before left for the plan, as it is read without a run; none if it keeps nothing. A run that was broken off is not seen.
    ///
    /// # Errors
    /// As [`Kept::open`], but for other runs.
    pub fn look(plan: &'a AskPlan, world: &World, ctl: &Control) -> Result<Option<Self>, Error> {
        let (Some(kept), Some(offer)) = (&plan.kept, plan.offer) else { return Ok(None) };
        let secret = secret(&Given::key(&kept.key, "mine.kept.key", ctl)?);
        let (disk, whose) = (&*world.disk, whose(plan));
        let last = last(disk, plan, &secret, (&whose, &offer))?;
        let base = last.as_ref().map(|(head, _)| head.name);
        let written = base.and_then(|base| written(disk, &kept.path, &secret, [&whose, &offer, &base]));
        let (answers, workers) = (Vec::new(), plan.workers);
        Ok(Some(Self { path: &kept.path, last, is_again: false, written, answers, workers }))
    }

    /// Whether a run has left answers.
    pub fn has_answers(&self) -> bool {
        self.last.is_some()
    }

    /// How many keys there are of the last run.
    pub fn keys(&self) -> u64 {
        self.last.as_ref().map_or(0, |(head, _)| head.entries)
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

    /// The state of the store that the last run searched; none before the end of the first run.
    pub fn state(&self) -> Option<&[u8]> {
        self.last.as_ref().map(|(head, _)| &head.manifest[..])
    }

    /// What is kept of the keys that a plan's tables are about. Where these are day files, what was kept and what they change are all that the run is
    /// about.
    ///
    /// # Errors
    /// A kept file that is damaged; being cancelled.
    pub fn recall(&self, (wants, day): (Wants, Option<Day>), ctl: &Control) -> Result<(Wants, Known), Error> {
        let (wants, mut known) = match day {
            None => {
                let known = self.known(&wants, ctl)?;
                (wants, known)
            }
            Some(day) => self.day(wants, &day, ctl)?,
        };
        for [digest, output] in &self.answers {
            if let Ok(at) = wants.digests.binary_search(digest)
                && known.marks[at] & KEPT == 0
            {
                known.outputs[at] = *output;
                known.marks[at] |= LOGGED;
            }
        }
        known.new =
            (0..).zip(&known.marks).filter(|(_, mark)| *mark & (KEPT | LOGGED) == 0).map(|(at, _)| at).collect();
        Ok((wants, known))
    }

    /// What the kept file has of these wants.
    fn known(&self, wants: &Wants, ctl: &Control) -> Result<Known, Error> {
        let n = wants.digests.len();
        let (heads, marks) = (vec![0; n], vec![NEW; n]);
        let mut known = Known { outputs: vec![NONE; n], heads, marks, ..Known::default() };
        let mut at = 0;
        self.each(ctl, |entry| {
            at += wants.digests[at..].iter().take_while(|want| *want < entry.digest).count();
            if wants.digests.get(at) == Some(entry.digest) {
                (known.outputs[at], known.heads[at], known.marks[at]) =
                    (*entry.output, entry.head, self.mark(entry.was));
            }
            Ok(())
        })?;
        Ok(known)
    }

    /// What was kept, less what the day takes away, and what it adds.
    fn day(&self, added: Wants, day: &Day, ctl: &Control) -> Result<(Wants, Known), Error> {
        let n = self.keys() as usize + added.digests.len();
        let mut texts = Texts::new(day.columns());
        let mut known = Known { day: Some(day.name), ..Known::default() };
        let mut digests: Vec<[u8; 32]> = Vec::with_capacity(n);
        (known.outputs, known.heads, known.marks) =
            (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
        let mut put = |digest: &[u8; 32], output: &[u8; 32], head: u64, mark: u8| {
            digests.push(*digest);
            known.outputs.push(*output);
            known.heads.push(head);
            known.marks.push(mark);
        };
        let (mut next, mut gone, mut absent) = (0, 0, 0);
        // Of a key that is added and removed, as of one whose row changed, it holds that it is there.
        let is_added = |digest| added.digests.binary_search(digest).is_ok();
        self.each(ctl, |entry| {
            while let Some(digest) = added.digests.get(next).filter(|digest| *digest < entry.digest) {
                put(digest, &NONE, 0, NEW);
                texts.push(day.texts(next));
                next += 1;
            }
            while day.removed.get(gone).is_some_and(|digest| digest < entry.digest) {
                absent += u64::from(!is_added(&day.removed[gone]));
                gone += 1;
            }
            if added.digests.get(next) == Some(entry.digest) {
                put(entry.digest, entry.output, entry.head, self.mark(entry.was));
                texts.push(day.texts(next));
                next += 1;
            } else if day.removed.get(gone) != Some(entry.digest) {
                put(entry.digest, entry.output, entry.head, self.mark(entry.was));
                texts.push_encoded(entry.texts).ok_or_else(|| damaged(self.path))?;
            } else {
                gone += 1;
            }
            Ok(())
        })?;
        for at in next..added.digests.len() {
            put(&added.digests[at], &NONE, 0, NEW);
            texts.push(day.texts(at));
        }
        absent += day.removed[gone..].iter().filter(|digest| !is_added(digest)).count() as u64;
        let absent = (absent > 0 && !self.is_again).then(|| {
            let (one, many) = ("key that was to be removed is not there", "keys that were to be removed are not there");
            format!("mine.input.removed: {}", worded(absent, one, many))
        });
        known.verdict = Some(self.is_next(day).map(|same| same.into_iter().chain(absent).collect()));
        texts.end();
        known.texts = Some(texts);
        Ok((Wants::of_each(digests), known))
    }

    /// Fails if the day files are those of a day that is over, or others than those of a run that is not; says so if they are those of the last one.
    fn is_next(&self, day: &Day) -> Result<Option<String>, Error> {
        if let Some((run, _)) = self.written.filter(|(_, name)| *name != day.name) {
            let why = format!(
                "run {} of {} was not ended, and it had other day files: give those again, and then these",
                count(run),
                self.path.display()
            );
            return Err(Error::Setup(format!("mine.input.added: {why}")));
        }
        let Some((head, _)) = &self.last else { return Ok(None) };
        let Some((last, earlier)) = head.days.split_last() else { return Ok(None) };
        let is_last = *last == day.name;
        if is_last || day.is_empty() {
            let same = "mine.input.added: these are the day files of the run before, so they change nothing";
            return Ok((is_last && !self.is_again && !day.is_empty()).then(|| same.to_owned()));
        }
        match earlier.iter().rev().position(|name| *name == day.name) {
            None => Ok(None),
            Some(ago) => {
                let run = head.run.saturating_sub(ago as u64 + 1);
                let why = format!(
                    "these day files were given in run {} already, and {} is of run {}: keys that went since would come back. Give those of the next \
                     day; where the same change was made once more, add it to them",
                    count(run),
                    self.path.display(),
                    count(head.run)
                );
                Err(Error::Setup(format!("mine.input.added: {why}")))
            }
        }
    }

    /// What an entry's byte says of a want.
    fn mark(&self, was: u8) -> u8 {
        let is = |bit: u8, mark: u8| if was & bit != 0 { mark } else { 0 };
        let (before, new) = if self.is_again { (BEFORE, is(NEW, NEW)) } else { (FOUND, 0) };
        KEPT | was & (FOUND | UNREADABLE) | is(before, BEFORE) | new
    }

    /// Hands over each entry of the kept file, in the order of digests.
    fn each(&self, ctl: &Control, mut take: impl FnMut(&Entry<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let Some((head, blocks)) = &self.last else { return Ok(()) };
        let (begin, end) = (head.bytes(), blocks.text_len());
        // To the end of a block, so that each is opened once.
        let stretch = STRETCH * BLOCK as u64;
        let stretches = (begin / stretch..end.div_ceil(stretch))
            .map(move |number| (number * stretch).max(begin)..((number + 1) * stretch).min(end));
        let worker = || {
            let blocks = blocks.clone();
            move |stretch: Range<u64>| {
                let mut bytes = vec![0; (stretch.end - stretch.start) as usize];
                blocks.read_exact_at(&mut bytes, stretch.start).map(|()| bytes)
            }
        };
        let (mut bytes, mut entries) = (Vec::new(), 0);
        for read in InOrder::new(self.workers, stretches, worker) {
            ctl.check()?;
            bytes.extend_from_slice(&read.map_err(|_| damaged(self.path))?);
            let mut left = &bytes[..];
            while let Some((entry, rest)) = Entry::read(left, head.columns) {
                take(&entry)?;
                (left, entries) = (rest, entries + 1);
            }
            let read = bytes.len() - left.len();
            bytes.drain(..read);
        }
        if bytes.is_empty() && entries == head.entries { Ok(()) } else { Err(damaged(self.path)) }
    }
}

/// A key of a kept file.
struct Entry<'a> {
    digest: &'a [u8; 32],
    output: &'a [u8; 32],
    /// The head of its tag.
    head: u64,
    was: u8,
    /// The texts of its columns, each behind its length.
    texts: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry that begins here, and what is behind it; none if it has not come to its end.
    fn read(bytes: &'a [u8], columns: u32) -> Option<(Self, &'a [u8])> {
        let (digest, rest) = bytes.split_first_chunk()?;
        let (output, rest) = rest.split_first_chunk()?;
        let (head, rest) = rest.split_first_chunk()?;
        let (was, texts) = rest.split_first()?;
        let mut rest = texts;
        for _ in 0..columns {
            let (length, text) = rest.split_first_chunk()?;
            rest = text.get(u32::from_le_bytes(*length) as usize..)?;
        }
        let texts = &texts[..texts.len() - rest.len()];
        Some((Self { digest, output, head: u64::from_le_bytes(*head), was: *was, texts }, rest))
    }
}

impl Known {
    /// What was found of a want when the kept file was written, and the head of its tag; none if it is not kept.
    pub fn was(&self, want: usize) -> Option<(Was, u64)> {
        let mark = self.marks[want];
        let was = match mark & (FOUND | UNREADABLE) {
            0 => Was::Nothing,
            FOUND => Was::Found,
            _ => Was::Unreadable,
        };
        (mark & KEPT != 0).then(|| (was, self.heads[want]))
    }

    /// Tells what there is to tell of the day files. It rests on their digests, so the rules of keys must be those of the offer.
    ///
    /// # Errors
    /// Day files of an earlier day.
    pub fn judged(&mut self, ctl: &Control) -> Result<(), Error> {
        let notes = self.verdict.take().transpose()?;
        notes.into_iter().flatten().for_each(|note| ctl.note(note));
        Ok(())
    }

    /// All were looked up, and these were found.
    pub fn found(&mut self, hits: &[Hit<'_>]) {
        self.marks.iter_mut().for_each(|mark| *mark &= !(FOUND | UNREADABLE));
        hits.iter().for_each(|hit| self.marks[hit.want] |= if hit.came.is_ok() { FOUND } else { UNREADABLE });
    }

    /// Whether a want was found in the run that this one is compared with.
    pub fn before(&self, want: usize) -> bool {
        self.marks[want] & BEFORE != 0
    }

    /// How this run differs from the one before.
    pub fn changes(&self, next: &Next) -> Changes {
        let how_many = |bits: u8, are: u8| self.marks.iter().filter(|mark| **mark & bits == are).count() as u64;
        let asked = how_many(NEW, NEW);
        Changes {
            run: next.run,
            since: next.since.clone(),
            kept: self.marks.len() as u64 - asked,
            asked,
            gained: how_many(FOUND | BEFORE, FOUND),
            lost: how_many(FOUND | BEFORE, BEFORE),
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
    plan: &AskPlan,
    secret: &Secret,
    (whose, offer): (&[u8; 32], &[u8; 32]),
) -> Result<Option<(Head, Arc<Blocks>)>, Error> {
    let Some(path) = plan.kept.as_ref().map(|kept| &*kept.path).filter(|path| disk.has(path)) else { return Ok(None) };
    let Some(blocks) = Blocks::open(disk, path, KIND, secret, TEXT) else {
        let why = "it is not a kept file of this version of Vesica, or it was cut short; restore it from a copy, or remove it, and the next run \
                   asks for every key";
        return Err(refused(path, why));
    };
    match Head::read(&blocks) {
        Some(head) if head.whose != *whose => Err(refused(path, OTHERS)),
        Some(head) if (head.columns > 0) != plan.day.is_some() => {
            Err(refused(path, if plan.day.is_some() { OF_TABLES } else { OF_DAYS }))
        }
        Some(head) => of_offer(path, &head.offer, offer).map(|()| Some((head, Arc::new(blocks)))),
        None => Err(refused(
            path,
            "it does not open: the key of mine.kept.key is another one, or the file is damaged; give the key that it was begun with, \
             restore it from a copy, or remove it, and the next run asks for every key",
        )),
    }
}

/// The number of a run that was written and not ended, and the name of its day files: of these keys and this offer, and with this kept file before it.
/// The new kept file is whole before an output is put in its place, and is not cut while it says so, so one that was cut short is of a run that has put
/// none.
fn written(
    disk: &dyn Disk,
    path: &Path,
    secret: &Secret,
    [whose, offer, base]: [&[u8; 32]; 3],
) -> Option<(u64, [u8; 32])> {
    let new = Head::read(&Blocks::open(disk, &with_ending(path, OF_NEXT), KIND, secret, TEXT)?)?;
    if [&new.whose, &new.offer, &new.base] == [whose, offer, base] { new.day() } else { None }
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

/// What is said of a file that was begun with whole tables, where there are day files.
const OF_TABLES: &str = "it was begun with whole tables, and this run has day files, whose runs know no more of a row than its key; give mine.input.path, \
                         or begin a new file with the whole table as mine.input.added";

/// The same the other way round.
const OF_DAYS: &str = "it was begun with day files, and this run reads a whole table; give mine.input.added and mine.input.removed, or name a new file";

fn refused(path: &Path, why: &str) -> Error {
    Error::Setup(format!("mine.kept: {}: {why}", path.display()))
}

fn damaged(path: &Path) -> Error {
    let why = "one of its blocks is not as it was sealed; restore it from a copy, or remove it, and the next run asks for every key";
    Error::Damaged { path: path.to_owned(), why: why.to_owned() }
}

/// The files of what is kept at a path: the kept file, the log, and a new kept file under both of its names.
pub fn files(path: &Path) -> [PathBuf; 4] {
    ["", OF_LOG, OF_NEXT, OF_PART].map(|ending| with_ending(path, ending))
}
