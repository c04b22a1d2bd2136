//! The finished units of a run: in memory, so that a broken connection costs only what was under way; and, with
//! `mine.resume`, in a file, so that a killed process costs no more.
//!
//! The file is append-only. It begins with [`MAGIC`] and 32 random bytes; then come records, each of them its length
//! (4 bytes), a random nonce, its ciphertext and its tag. The key of ChaCha20-Poly1305 is derived from the random bytes and
//! from `mine.resume_key` or the passphrase, where there is one; without, it hides nothing and the tag is a checksum. The
//! tag covers a record's number too, so records can be neither changed nor moved. A record counts once it is on the disk;
//! a torn one at the end is what a killed process was writing, and is cut off. That another then takes its place is why
//! the nonce is not the number.
//!
//! No record holds a key of a protocol: every attempt draws fresh ones, and a unit is redone whole or not at all. What
//! they hold is the run's salt, which keys matched, and how many attempts were begun: what the peer was answered counts over
//! all of them ([`Answers`]), whatever the peer remembers.
//!
//! Beside it stands what reading and cutting made ([`Kept`]).

use crate::error::JobError;
use crate::input::keys::PARTS;
use crate::meet::answers::{Answers, Attempt};
use crate::seal::kept::{self, Kept};
use crate::units::found::{Common, Found, Match};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vesica_session::Error;
use vesica_spec::{PeerPlan, Plan, ResumePlan, Share};
use vesica_suite::Sizes;
use vesica_table::{MAX_BUCKETS, Spill, Spilled};
use vesica_types::{TagLen, UnitId};
use zeroize::Zeroizing;

/// The first bytes of a ledger; the last of them says whether it needs a key.
const MAGIC: &[u8; 16] = b"vesica ledger 4\n";

/// Bytes before the first record.
const FRONT: usize = 48;

/// Where a passphrase is looked for.
pub const PASSPHRASE: &str = "VESICA_RESUME_PASSPHRASE";

/// Rounds of PBKDF2-HMAC-SHA256 over a passphrase (OWASP Password Storage Cheat Sheet, 2023).
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");

/// The longest record: a unit whose every key matched.
const LONGEST: u32 = 64 << 20;

/// What a run must be to go on where another stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    version: String,
    shared: String,
    party: String,
    peers: String,
    /// The key columns.
    keys: Vec<String>,
    /// The hash of the input's file, once it is known.
    input: Option<String>,
}

/// What the parties agreed on when the run began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// The run's salt.
    pub salt: [u8; 32],
    /// Its sizes.
    pub sizes: Sizes,
}

/// A finished unit.
struct Done {
    /// A hash of the common keys' digests in ascending order: the same on both sides, and in every attempt.
    digest: [u8; 32],
    common: Common,
}

/// The finished units of a run.
pub struct Ledger {
    start: Option<Start>,
    /// How many keys are common, where that is all that is learned.
    counted: Option<u64>,
    over: bool,
    answers: Answers,
    done: BTreeMap<UnitId, Done>,
    matches: Matches,
    /// The pairs of rows that the common keys of each part make.
    pairs: Vec<u64>,
    memory: usize,
    scratch: PathBuf,
    disk: Option<Disk>,
}

/// The common keys of finished units, a bucket a part of the keys.
enum Matches {
    None,
    Growing(Box<Spill>),
    Whole(Spilled),
}

impl Ledger {
    /// A ledger that keeps nothing beyond the process, and in memory no more than `memory` bytes.
    pub fn new(memory: u64, scratch: &Path) -> Self {
        Self {
            start: None,
            counted: None,
            over: false,
            answers: Answers::default(),
            done: BTreeMap::new(),
            matches: Matches::None,
            pairs: Vec::new(),
            memory: Share::Found.of(memory),
            scratch: scratch.into(),
            disk: None,
        }
    }

    /// The ledger of `plan`'s run: empty, or as an earlier attempt left it. What does not fit in memory goes to `scratch`.
    ///
    /// # Errors
    /// [`JobError::Resume`] if the ledger there is another run's, or another attempt is at work on it; errors of files.
    pub fn open(plan: &Plan, scratch: &Path) -> Result<Self, JobError> {
        let mut ledger = Self::new(plan.memory, scratch);
        let Some(resume) = &plan.resume else { return Ok(ledger) };
        let mut disk = Disk::open(resume, plan)?;
        let path = disk.path.clone();
        let mut head = disk.head.clone();
        let refused = |why: String| JobError::Resume { path: path.clone(), why };
        let damaged = || refused("it is damaged: remove it, and the run begins anew".into());
        disk.read(|number, record| match (number, Record::decode(record).ok_or_else(damaged)?) {
            (0, Record::Head(theirs)) => {
                head.same_as(&theirs).map_err(refused)?;
                head.input = theirs.input;
                Ok(())
            }
            (1.., Record::Attempt(attempt)) => {
                ledger.answers.begin(attempt);
                Ok(())
            }
            (1.., Record::Start(start)) if start.sizes.keys.len() == plan.parties.len() => ledger.begin(start),
            (1.., Record::Count(keys)) if ledger.start.is_some() => {
                ledger.counted = Some(keys);
                Ok(())
            }
            (1.., Record::Unit(id, digest, matches))
                if ledger.start.as_ref().is_some_and(|start| id.0 < start.sizes.units) =>
            {
                ledger.keep(id, digest, &matches).map_err(|_| damaged())
            }
            _ => Err(damaged()),
        })?;
        disk.head = head;
        ledger.disk = Some(disk);
        Ok(ledger)
    }

    /// The input's file has this hash.
    ///
    /// # Errors
    /// [`JobError::Resume`] if it had another one when the run began.
    pub fn identify(&mut self, input: &blake3::Hash) -> Result<(), JobError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let head = Head { input: Some(input.to_string()), ..disk.head.clone() };
        if disk.head.input.is_some() {
            head.same_as(&disk.head).map_err(|why| JobError::Resume { path: disk.path.clone(), why })?;
        }
        disk.head = head;
        Ok(())
    }

    /// The file of what reading and cutting made, in a run that began and is to survive its process.
    pub fn kept(&self) -> Option<Kept> {
        let (disk, start) = (self.disk.as_ref()?, self.start.clone()?);
        Some(Kept::new(disk.kept.clone(), disk.material.clone(), start))
    }

    /// What was agreed on when the run began, if it did.
    pub fn started(&self) -> Option<&Start> {
        self.start.as_ref()
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
        if let Some(Disk { count: 0, head, .. }) = &self.disk {
            self.append(&Record::Head(head.clone()))?;
        }
        self.append(&Record::Attempt(attempt))?;
        self.answers.begin(attempt);
        Ok(())
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
        self.matches = Matches::Growing(Box::new(Spill::new(PARTS, Match::BYTES, self.memory, &self.scratch)?));
        self.pairs = vec![0; PARTS];
        self.start = Some(start);
        self.counted = None;
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

    /// A unit is finished: its common keys, in ascending order of their digests, of which `digest` is a hash. On return it
    /// is so for good. Of a unit that the peer asked to have done again the first result stands, and nobody is told whether
    /// the second was another: a peer that brought other keys would learn from that which of them are here.
    ///
    /// # Errors
    /// Those of writing.
    pub fn commit(&mut self, id: UnitId, digest: &[u8; 32], matches: &[Match]) -> Result<(), JobError> {
        self.append(&Record::Unit(id, *digest, matches.to_vec()))?;
        self.keep(id, *digest, matches)
    }

    fn keep(&mut self, id: UnitId, digest: [u8; 32], matches: &[Match]) -> Result<(), JobError> {
        self.answers.finish();
        if self.has(id) {
            return Ok(());
        }
        let Matches::Growing(spill) = &mut self.matches else {
            return Err(Error::Bug(format!("unit {id} was finished before or after the run")).into());
        };
        for m in matches {
            spill.push(m.key.part(), &m.to_bytes())?;
            let pairs = &mut self.pairs[m.key.part()];
            *pairs = pairs.saturating_add(m.rows.saturating_mul(m.times));
        }
        let rows = matches.iter().fold(0, |rows: u64, m| rows.saturating_add(m.rows));
        self.done.insert(id, Done { digest, common: Common { keys: matches.len() as u64, rows } });
        Ok(())
    }

    /// So many keys are common, and nothing else is learned. Said before the units are finished, of which nothing is known then. The
    /// first count stands, as the first result of a unit does.
    ///
    /// # Errors
    /// Those of writing.
    pub fn count(&mut self, keys: u64) -> Result<(), JobError> {
        if self.counted.is_none() {
            self.append(&Record::Count(keys))?;
            self.counted = Some(keys);
        }
        Ok(())
    }

    /// The run is over: this side has all that it needs of the peer, and begins no other run.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether every unit is finished.
    pub fn is_whole(&self) -> bool {
        self.start.as_ref().is_some_and(|start| self.len() == u64::from(start.sizes.units))
    }

    /// How much the finished units found to be common.
    pub fn common(&self) -> Common {
        let sum = |what: fn(&Common) -> u64| {
            self.done.values().fold(0, |sum: u64, done| sum.saturating_add(what(&done.common)))
        };
        Common { keys: self.counted.unwrap_or_else(|| sum(|common| common.keys)), rows: sum(|common| common.rows) }
    }

    /// What all units found; to be had again after a break.
    ///
    /// # Errors
    /// Those of writing what is spilled.
    pub fn found(&mut self) -> Result<Found<'_>, JobError> {
        self.matches = match std::mem::replace(&mut self.matches, Matches::None) {
            Matches::Growing(spill) => Matches::Whole(spill.finish()?),
            matches => matches,
        };
        let Matches::Whole(matches) = &self.matches else {
            return Err(Error::Bug("a run ended that had not begun".into()).into());
        };
        let mut hash = blake3::Hasher::new();
        self.done.values().for_each(|done| _ = hash.update(&done.digest));
        hash.update(&self.counted.unwrap_or_default().to_le_bytes());
        let rows = self.common().rows;
        Ok(Found { matches, rows, pairs: &self.pairs, digest: *hash.finalize().as_bytes() })
    }

    /// The run is over: its ledger is removed, and what was kept beside it.
    ///
    /// # Errors
    /// Those of removing the files.
    pub fn remove(self) -> Result<(), JobError> {
        self.kept().map_or(Ok(()), |kept| kept.remove())?;
        let Some(disk) = self.disk else { return Ok(()) };
        match fs::remove_file(&disk.path) {
            // What is gone need not be removed.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk.failed("cannot remove", error)),
            _ => Ok(()),
        }
    }

    fn append(&mut self, record: &Record) -> Result<(), JobError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        disk.append(record.encode()).map_err(|error| disk.failed("cannot write", error))
    }
}

impl Head {
    /// The head of `plan`'s run, whose input is not known yet.
    pub fn of(plan: &Plan) -> Self {
        let peer = |peer: &PeerPlan| {
            format!("{} ({})", peer.party, peer.trust.as_ref().map_or("no TLS".to_owned(), |t| t.to_string()))
        };
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            shared: plan.shared.hash().iter().map(|b| format!("{b:02x}")).collect(),
            party: plan.me.name().into(),
            peers: plan.peers.iter().map(peer).collect::<Vec<_>>().join(", "),
            keys: plan.keys.clone(),
            input: None,
        }
    }

    /// Why this run is not the one of `other`, as far as both are known.
    fn same_as(&self, other: &Head) -> Result<(), String> {
        let differs = |what: &str, remedy: &str| {
            Err(format!(
                "it is of a run with another {what}; {remedy}, or remove the ledger, and the run begins anew on both sides"
            ))
        };
        match () {
            () if self.version != other.version => {
                differs(&format!("version of Vesica, {}", other.version), "take that one")
            }
            () if self.party != other.party => differs(&format!("party, {}", other.party), "name that one"),
            () if self.shared != other.shared => differs("[shared] part of the job", "restore it"),
            () if self.peers != other.peers => differs(&format!("partner, {}", other.peers), "restore it in [mine]"),
            () if self.keys != other.keys => {
                differs(&format!("choice of keys, {}", other.keys.join(", ")), "restore mine.input.keys")
            }
            () if self.input.is_some() && self.input != other.input => differs("input", "restore the file"),
            () => Ok(()),
        }
    }
}

impl Start {
    /// The start as it is written.
    pub fn encode(&self) -> Vec<u8> {
        let Start { salt, sizes } = self;
        let numbers = [sizes.units.into(), sizes.in_flight.into(), sizes.tag_len.bytes() as u64];
        let numbers = numbers.iter().chain(&sizes.keys).chain(&sizes.capacities).flat_map(|n| n.to_le_bytes());
        salt.iter().copied().chain(numbers).collect()
    }
}

/// What a record says.
pub enum Record {
    Head(Head),
    /// An attempt was begun.
    Attempt(Attempt),
    Start(Start),
    Unit(UnitId, [u8; 32], Vec<Match>),
    /// How many keys are common.
    Count(u64),
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Record::Head(head) => {
                let mut out = vec![0];
                out.extend(serde_json::to_vec(head).expect("a head is plain data"));
                out
            }
            Record::Start(start) => [&[1], start.encode().as_slice()].concat(),
            Record::Attempt(Attempt { missing, at_once }) => {
                [&[3], [missing, at_once].map(|n| n.to_le_bytes()).as_flattened()].concat()
            }
            Record::Count(keys) => [&[4], keys.to_le_bytes().as_slice()].concat(),
            Record::Unit(id, digest, matches) => {
                let mut out = vec![2];
                out.extend(id.0.to_le_bytes());
                out.extend(digest);
                out.extend(matches.iter().flat_map(|m| m.to_bytes()));
                out
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let numbers = |bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks::<8>();
            rest.is_empty().then(|| words.iter().map(|&w| u64::from_le_bytes(w)).collect::<Vec<_>>())
        };
        let (kind, rest) = bytes.split_first()?;
        match kind {
            0 => serde_json::from_slice(rest).ok().map(Record::Head),
            1 => {
                let (salt, rest) = rest.split_first_chunk()?;
                let numbers = numbers(rest)?;
                let ([units, in_flight, tag], by_place) = numbers.split_first_chunk()?;
                let (keys, capacities) = by_place.split_at_checked(by_place.len() / 2)?;
                let sizes = Sizes {
                    units: u32::try_from(*units).ok().filter(|&units| (1..=MAX_BUCKETS as u32).contains(&units))?,
                    in_flight: (*in_flight).try_into().ok()?,
                    keys: keys.to_vec(),
                    capacities: capacities.to_vec(),
                    tag_len: TagLen::new((*tag).try_into().ok()?)?,
                };
                (keys.len() == capacities.len()).then_some(Record::Start(Start { salt: *salt, sizes }))
            }
            2 => {
                let (id, rest) = rest.split_first_chunk()?;
                let (digest, rest) = rest.split_first_chunk()?;
                let (matches, rest) = rest.as_chunks();
                let matches = matches.iter().map(Match::from_bytes).collect();
                rest.is_empty().then(|| Record::Unit(UnitId(u32::from_le_bytes(*id)), *digest, matches))
            }
            3 => {
                let [missing, at_once] = numbers(rest)?.try_into().ok()?;
                Some(Record::Attempt(Attempt { missing, at_once }))
            }
            4 => numbers(rest)?.try_into().ok().map(|[keys]: [u64; 1]| Record::Count(keys)),
            _ => None,
        }
    }
}

/// The file of a ledger, locked as long as this lives.
pub struct Disk {
    path: PathBuf,
    /// The file beside it.
    kept: PathBuf,
    file: File,
    /// What the key is made of.
    material: Zeroizing<Vec<u8>>,
    key: LessSafeKey,
    /// Whether the key is anybody's secret.
    sealed: bool,
    /// Records so far.
    count: u64,
    /// The first of them, or what it is to be.
    head: Head,
}

impl Disk {
    /// Opens the file of `plan`'s run, and makes it if it is not there.
    pub fn open(resume: &ResumePlan, plan: &Plan) -> Result<Self, JobError> {
        let path = resume.dir.join(format!("{}.ledger", plan.me));
        let failed = |what| {
            let path = path.clone();
            move |error| JobError::File { what, path, error }
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&resume.dir)
            .map_err(failed("cannot make the folder of"))?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed("cannot open"))?;
        let refused = |why: &str| JobError::Resume { path: path.clone(), why: why.into() };
        file.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => refused("another run is at work on it; wait for its end, or stop it"),
            fs::TryLockError::Error(error) => failed("cannot lock")(error),
        })?;
        let mut front = [0; FRONT];
        let has = read_up_to(&mut file, &mut front).map_err(failed("cannot read"))?;
        let secret = Secret::of(resume)?;
        let sealed = secret.is_some();
        let holds_nothing = file.metadata().map_err(failed("cannot read"))?.len() <= FRONT as u64;
        if has < front.len() || (holds_nothing && front[..16] == magic(!sealed)) {
            // New, or killed while it was being made, or of an attempt that met nobody.
            front[..16].copy_from_slice(&magic(sealed));
            getrandom::fill(&mut front[16..])
                .map_err(|e| JobError::Setup(format!("the system has no randomness to give: {e}")))?;
            let made = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&front));
            made.and_then(|()| file.sync_all())
                .and_then(|()| File::open(&resume.dir)?.sync_all())
                .map_err(failed("cannot write"))?;
        } else if front[..16] == magic(!sealed) {
            return Err(refused(if sealed {
                "it was begun without a key; leave out mine.resume_key, or remove it, and the run begins anew"
            } else {
                "it is sealed; give mine.resume_key, or the passphrase in VESICA_RESUME_PASSPHRASE"
            }));
        } else if front[..16] != magic(sealed) {
            return Err(refused("it is not a ledger; choose another folder for mine.resume"));
        }
        let material = material(secret, &front[16..]);
        let key = Zeroizing::new(blake3::derive_key("vesica 2026 ledger", &material));
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &*key).expect("a key of 32 bytes"));
        let kept = kept::path(resume, &plan.me);
        Ok(Self { path, kept, file, material, key, sealed, count: 0, head: Head::of(plan) })
    }

    /// Hands over the records that are whole, with their numbers, and cuts off what is behind them.
    fn read(&mut self, mut each: impl FnMut(u64, &[u8]) -> Result<(), JobError>) -> Result<(), JobError> {
        let mut end = FRONT as u64;
        let mut reader = BufReader::new(&self.file);
        let mut bytes = Vec::new();
        loop {
            let whole = next_record(&mut reader, &mut bytes).map_err(|error| self.failed("cannot read", error))?;
            let Some(len) = whole else { break };
            match self.unseal(len, &mut bytes) {
                Some(record) => each(self.count, record)?,
                None if self.count == 0 => return Err(self.unreadable()),
                None => break,
            }
            self.count += 1;
            end += 4 + u64::from(u32::from_le_bytes(len));
        }
        let cut = self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end)));
        cut.map(drop).map_err(|error| self.failed("cannot write", error))
    }

    pub fn append(&mut self, mut record: Vec<u8>) -> io::Result<()> {
        let len = u32::try_from(NONCE_LEN + record.len() + MAX_TAG_LEN).ok().filter(|&len| len <= LONGEST);
        let len = len.ok_or_else(|| io::Error::other("a record of an absurd size"))?.to_le_bytes();
        // Fresh ones meet with a chance of 2^-49 in the 2^24 records that no ledger reaches.
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let fresh = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_append_tag(fresh, self.place(len), &mut record);
        sealed.map_err(|_| io::Error::other("a record cannot be sealed"))?;
        self.file.write_all(&[&len[..], &nonce, &record].concat())?;
        self.file.sync_data()?;
        self.count += 1;
        Ok(())
    }

    /// What stands in the next record, whose length is `len`.
    fn unseal<'a>(&self, len: [u8; 4], bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let (nonce, record) = bytes.split_first_chunk_mut()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.key.open_in_place(nonce, self.place(len), record).ok().map(|record| &*record)
    }

    /// What the next record's tag covers beside it.
    fn place(&self, len: [u8; 4]) -> Aad<[u8; 12]> {
        let mut place = [0; 12];
        place[..8].copy_from_slice(&self.count.to_le_bytes());
        place[8..].copy_from_slice(&len);
        Aad::from(place)
    }

    /// The first record is whole and says nothing: no killed process left it so.
    fn unreadable(&self) -> JobError {
        let why = match self.sealed {
            true => "it cannot be read with this key; give the one that it was begun with, or remove it",
            false => "it is damaged: remove it, and the run begins anew",
        };
        JobError::Resume { path: self.path.clone(), why: why.into() }
    }

    fn failed(&self, what: &'static str, error: io::Error) -> JobError {
        JobError::File { what, path: self.path.clone(), error }
    }
}

fn magic(sealed: bool) -> [u8; 16] {
    let mut magic = *MAGIC;
    magic[15] = if sealed { b's' } else { b'\n' };
    magic
}

/// What the key of a ledger is made of that begins with the random bytes `front`.
fn material(secret: Option<Secret>, front: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut derived = Zeroizing::new([0; 32]);
    let secret = match &secret {
        None => &[],
        Some(Secret::Key(bytes)) => bytes.as_slice(),
        Some(Secret::Passphrase(words)) => {
            ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, front, words.as_bytes(), &mut *derived);
            derived.as_slice()
        }
    };
    Zeroizing::new([front, secret].concat())
}

/// What a ledger is sealed under.
enum Secret {
    Key(Zeroizing<Vec<u8>>),
    Passphrase(Zeroizing<String>),
}

/// The fewest bytes of a key file: 16 random ones.
const KEY_BYTES: usize = 16;

impl Secret {
    fn of(resume: &ResumePlan) -> Result<Option<Self>, JobError> {
        let words = std::env::var(PASSPHRASE).ok().filter(|words| !words.is_empty()).map(Zeroizing::new);
        match (&resume.key, words) {
            (None, words) => Ok(words.map(Secret::Passphrase)),
            (Some(_), Some(_)) => {
                Err(JobError::Setup(format!("mine.resume_key and {PASSPHRASE} are both given; give one of them")))
            }
            (Some(path), None) => key_file(path).map(|bytes| Some(Secret::Key(bytes))),
        }
    }
}

fn key_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, JobError> {
    let bytes = fs::read(path).map(Zeroizing::new);
    let bytes =
        bytes.map_err(|error| JobError::File { what: "cannot read mine.resume_key", path: path.into(), error })?;
    if bytes.len() < KEY_BYTES {
        return Err(JobError::Setup(format!(
            "mine.resume_key {}: {} bytes are too few for a key; make one with `head -c 32 /dev/urandom > FILE`",
            path.display(),
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// Reads a record's ciphertext into `bytes`, and gives its length as it stands in the file; none if it is not whole.
fn next_record(file: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Option<[u8; 4]>> {
    let mut len = [0; 4];
    let has = read_up_to(file, &mut len)?;
    let wanted = u32::from_le_bytes(len);
    if has < len.len() || wanted > LONGEST {
        return Ok(None);
    }
    bytes.clear();
    let has = file.take(wanted.into()).read_to_end(bytes)?;
    Ok((has == wanted as usize).then_some(len))
}

/// Reads until `buf` is full or there is no more.
fn read_up_to(file: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut has = 0;
    while has < buf.len() {
        match file.read(&mut buf[has..])? {
            0 => break,
            n => has += n,
        }
    }
    Ok(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::keys::KeyId;

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
        Start { salt: [7; 32], sizes }
    }

    /// An attempt at all four units, two at once.
    const ATTEMPT: Attempt = Attempt { missing: 4, at_once: 2 };

    fn unit(n: u64) -> ([u8; 32], Vec<Match>) {
        let m = |i| Match { key: KeyId::new(n as usize, i), rows: i + 2, times: i + 1 };
        ([n as u8; 32], (0..n).map(m).collect())
    }

    fn commit(ledger: &mut Ledger, id: u32, n: u64) {
        let (digest, matches) = unit(n);
        ledger.commit(UnitId(id), &digest, &matches).unwrap();
    }

    fn open(plan: &Plan) -> Result<Ledger, JobError> {
        Ledger::open(plan, &std::env::temp_dir())
    }

    fn matches(found: &Found<'_>, part: usize) -> Vec<Match> {
        found.matches.read(part).unwrap().as_chunks().0.iter().map(Match::from_bytes).collect()
    }

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("resume/alice.ledger")
    }

    fn hash(plan: &Plan) -> blake3::Hash {
        blake3::hash(&fs::read(&plan.input.path).unwrap())
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

    #[test]
    fn what_is_committed_is_there_again_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut ledger = open(&plan).unwrap();
        assert_eq!(ledger.started(), Some(&start()));
        assert!(ledger.has(UnitId(0)) && !ledger.has(UnitId(1)));
        let found = ledger.found().unwrap();
        assert_eq!((found.rows, matches(&found, 0), matches(&found, 5)), (20, vec![], unit(5).1));
        assert_eq!((found.pairs[0], found.pairs[5], found.pairs.iter().sum::<u64>()), (0, 70, 70));
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
        assert_eq!(ledger.found().unwrap().matches.total(), 4);
        commit(&mut ledger, 3, 6);
        drop(ledger);
        let mut again = open(&plan).unwrap();
        assert_eq!((again.found().unwrap().matches.total(), again.found().unwrap().digest), (4, first));
    }

    /// What a peer was answered is not forgotten with a run, nor with a process.
    #[test]
    fn answers_are_counted_over_runs_and_processes() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut ledger = open(&plan).unwrap();
        assert_eq!((ledger.answers().attempts, ledger.answers().units(), ledger.answers().at_most()), (1, 2, 4));
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

    /// Whoever can write the folder can make a ledger without a key, with tags that are right.
    #[test]
    fn a_ledger_that_says_what_cannot_be_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let ledger = |records: &[Record]| {
            let _ = fs::remove_file(path(&dir));
            let mut disk = Disk::open(plan.resume.as_ref().unwrap(), &plan).unwrap();
            disk.append(Record::Head(Head::of(&plan)).encode()).unwrap();
            records.iter().for_each(|record| disk.append(record.encode()).unwrap());
            drop(disk);
            open(&plan)
        };
        let starts = |units| Record::Start(Start { sizes: Sizes { units, ..start().sizes }, ..start() });
        let all = Match { key: KeyId::new(7, 0), rows: u64::MAX, times: u64::MAX };
        let unit = |id| Record::Unit(UnitId(id), [1; 32], vec![all]);
        for records in [&[starts(0)][..], &[starts((1 << 16) + 1)], &[starts(4), unit(4)], &[unit(0)]] {
            assert!(ledger(records).err().unwrap().to_string().contains("it is damaged"));
        }
        let mut ledger = ledger(&[starts(1 << 16), unit(0), unit((1 << 16) - 1)]).unwrap();
        assert_eq!(ledger.found().unwrap().rows, u64::MAX);
    }

    /// Whatever byte the process was killed at: what was committed before is there, and more can be committed.
    #[test]
    fn a_ledger_cut_anywhere_has_what_was_whole() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let whole = fs::read(path(&dir)).unwrap();
        let mut most = 0;
        for end in 0..whole.len() {
            fs::write(path(&dir), &whole[..end]).unwrap();
            let mut ledger = open(&plan).unwrap_or_else(|error| panic!("{end}: {error}"));
            assert!(ledger.len() >= most, "{end}");
            most = ledger.len();
            ledger.attempt(ATTEMPT).unwrap();
            ledger.start(start()).unwrap();
            commit(&mut ledger, 1, 1);
            drop(ledger);
            assert!(open(&plan).unwrap().has(UnitId(1)), "{end}");
        }
        assert_eq!(most, 1, "the last record was never whole");
    }

    /// Another record in the place of one that was cut off must not be sealed as that one was: whoever saw both would
    /// have the difference of what they say.
    #[test]
    fn what_takes_the_place_of_a_torn_record_is_sealed_another_way() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("key"), [3; 32]).unwrap();
        let plan = job(dir.path(), &format!("resume_key = \"{}/key\"", dir.path().display()));
        written(&plan);
        let old = fs::read(path(&dir)).unwrap();
        fs::write(path(&dir), &old[..old.len() - 1]).unwrap();
        let mut ledger = open(&plan).unwrap();
        assert!(ledger.has(UnitId(2)) && !ledger.has(UnitId(0)));
        commit(&mut ledger, 0, 0);
        let new = fs::read(path(&dir)).unwrap();
        // Behind its length, the last record is a nonce, a unit without matches, and a tag.
        let last = NONCE_LEN + 1 + 4 + 32 + MAX_TAG_LEN;
        assert_eq!(old.len(), new.len());
        let (before, now) = (&old[old.len() - last..], &new[new.len() - last..]);
        assert_eq!(old[..old.len() - last], new[..new.len() - last]);
        assert!(before[..NONCE_LEN] != now[..NONCE_LEN] && before[NONCE_LEN..] != now[NONCE_LEN..]);
    }

    #[test]
    fn a_first_record_that_is_damaged_is_no_wrong_key() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut bytes = fs::read(path(&dir)).unwrap();
        bytes[FRONT + 30] ^= 1;
        fs::write(path(&dir), bytes).unwrap();
        let error = open(&plan).map(drop).unwrap_err().to_string();
        assert!(error.contains("it is damaged: remove it"), "{error}");
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
    fn a_flipped_byte_loses_its_record_and_those_behind_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut bytes = fs::read(path(&dir)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path(&dir), bytes).unwrap();
        let ledger = open(&plan).unwrap();
        assert!(ledger.has(UnitId(2)) && !ledger.has(UnitId(0)));
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
        refused(&|plan| plan.keys = vec!["other".into()], "another choice of keys, id; restore");
        refused(&|plan| fs::write(&plan.input.path, "id\n2\n").unwrap(), "another input");
        refused(&|plan| plan.peers[0].trust = Some(vesica_spec::TrustPlan::Ca("ca.pem".into())), "partner");
        let other = dir.path().join("resume/alice.ledger");
        fs::write(&other, "something else that is longer than the front of a ledger is").unwrap();
        refused(&|_| {}, "not a ledger");
    }

    #[test]
    fn two_runs_do_not_share_a_ledger() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let _first = open(&plan).unwrap();
        let error = open(&plan).map(drop).unwrap_err();
        assert!(error.to_string().contains("another run is at work"), "{error}");
    }

    #[test]
    fn a_sealed_ledger_needs_its_key_and_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        fs::write(&key, [3; 32]).unwrap();
        let sealed = format!("resume_key = \"{}\"", key.display());
        written(&job(dir.path(), &sealed));
        let bytes = fs::read(path(&dir)).unwrap();
        assert!(!bytes.windows(8).any(|w| w == [7; 8]), "the salt is in the clear");
        assert_eq!(open(&job(dir.path(), &sealed)).unwrap().len(), 2);
        let why = |mine: &str| open(&job(dir.path(), mine)).map(drop).unwrap_err().to_string();
        assert!(why("").contains("it is sealed"));
        fs::write(&key, [4; 32]).unwrap();
        assert!(why(&sealed).contains("cannot be read with this key"));
        fs::write(&key, [4; 5]).unwrap();
        assert!(why(&sealed).contains("5 bytes are too few"));
    }

    #[test]
    fn an_attempt_that_met_nobody_binds_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        fs::write(&key, [3; 32]).unwrap();
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

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = Record::decode(&bytes);
        }

        #[test]
        fn units_survive_their_encoding(id: u32, digest: [u8; 32], words: Vec<(u64, u64, u64)>) {
            let m = |(key, rows, times)| Match { key: KeyId(key), rows, times };
            let matches: Vec<Match> = words.into_iter().map(m).collect();
            let decoded = Record::decode(&Record::Unit(UnitId(id), digest, matches.clone()).encode());
            proptest::prop_assert!(
                matches!(decoded, Some(Record::Unit(i, d, m)) if i.0 == id && d == digest && m == matches)
            );
        }
    }
}
