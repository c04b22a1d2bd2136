//! The finished units of a run: in memory, so that a broken connection costs only what was under way; and, with
//! `mine.resume`, in a file, so that a killed process costs no more.
//!
//! The file is append-only. It begins with [`MAGIC`] and 32 random bytes; then come records, each of them its length
//! (4 bytes), its ciphertext and its tag. The key of ChaCha20-Poly1305 is derived from the random bytes and from
//! `mine.resume_key` or the passphrase, where there is one; without, it hides nothing and the tag is a checksum. A
//! record's nonce is its number, so records can be neither changed nor moved. A record counts once it is on the disk; a
//! torn one at the end is what a killed process was writing, and is cut off.
//!
//! No record holds a key of a protocol: every attempt draws fresh ones, and a unit is redone whole or not at all. What
//! they hold is the run's salt and which keys matched.

use crate::error::JobError;
use crate::keys::KeyId;
use crate::plan::{Plan, ResumePlan, Sizes};
use crate::units::Match;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vesica_types::{TagLen, UnitId};
use zeroize::Zeroizing;

/// The first bytes of a ledger; the last of them says whether it needs a key.
const MAGIC: &[u8; 16] = b"vesica ledger 1\n";

/// Where a passphrase is looked for.
pub const PASSPHRASE: &str = "VESICA_RESUME_PASSPHRASE";

/// Rounds of PBKDF2-HMAC-SHA256 over a passphrase (OWASP Password Storage Cheat Sheet, 2023).
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");

/// The longest record: a unit whose every key matched.
const LONGEST: u32 = 64 << 20;

/// What a run must be to go on where another stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Head {
    version: String,
    shared: String,
    party: String,
    peer: String,
    input: String,
}

/// What the parties agreed on when the run began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The run's salt.
    pub salt: [u8; 32],
    /// Its sizes.
    pub sizes: Sizes,
    /// This party's distinct keys, and the peer's.
    pub keys: (u64, u64),
}

/// What a finished unit leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The common keys.
    pub matches: Vec<Match>,
    /// A hash of their digests, in an order that both parties share.
    pub digest: [u8; 32],
}

/// The finished units of a run.
#[derive(Default)]
pub struct Ledger {
    start: Option<Start>,
    done: BTreeMap<UnitId, Done>,
    disk: Option<Disk>,
}

impl Ledger {
    /// The ledger of `plan`'s run: empty, or as an earlier attempt left it.
    ///
    /// # Errors
    /// [`JobError::Resume`] if the ledger there is another run's, or another attempt is at work on it; errors of files.
    pub fn open(plan: &Plan) -> Result<Self, JobError> {
        let Some(resume) = &plan.resume else { return Ok(Self::default()) };
        let head = Head::of(plan)?;
        let (disk, records) = Disk::open(resume, &format!("{}.ledger", plan.me))?;
        let mut ledger = Self { disk: Some(disk), ..Self::default() };
        let mut records = records.into_iter();
        match records.next() {
            None => ledger.append(&Record::Head(head))?,
            Some(first) => {
                let Some(Record::Head(theirs)) = Record::decode(&first) else { return Err(ledger.damaged()) };
                head.same_as(&theirs).map_err(|why| ledger.refused(why))?;
            }
        }
        for record in records {
            match Record::decode(&record) {
                Some(Record::Start(start)) => {
                    ledger.start = Some(start);
                    ledger.done.clear();
                }
                Some(Record::Unit(id, done)) => _ = ledger.done.insert(id, done),
                Some(Record::Head(_)) | None => return Err(ledger.damaged()),
            }
        }
        Ok(ledger)
    }

    /// What was agreed on when the run began, if it did.
    pub fn started(&self) -> Option<&Start> {
        self.start.as_ref()
    }

    /// Begins a run anew; nothing is finished.
    ///
    /// # Errors
    /// Those of writing.
    pub fn start(&mut self, start: Start) -> Result<(), JobError> {
        self.append(&Record::Start(start))?;
        self.start = Some(start);
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

    /// A unit is finished: on return it is so for good.
    ///
    /// # Errors
    /// Those of writing.
    pub fn commit(&mut self, id: UnitId, done: Done) -> Result<(), JobError> {
        if self.disk.is_some() {
            self.append(&Record::Unit(id, done.clone()))?;
        }
        self.done.insert(id, done);
        Ok(())
    }

    /// The finished units in order.
    pub fn done(&self) -> impl Iterator<Item = (UnitId, &Done)> {
        self.done.iter().map(|(&id, done)| (id, done))
    }

    /// The run is over: its ledger is removed.
    ///
    /// # Errors
    /// Those of removing the file.
    pub fn remove(self) -> Result<(), JobError> {
        let Some(disk) = self.disk else { return Ok(()) };
        fs::remove_file(&disk.path).map_err(|error| disk.failed("cannot remove", error))
    }

    fn append(&mut self, record: &Record) -> Result<(), JobError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        disk.append(record.encode()).map_err(|error| disk.failed("cannot write", error))
    }

    fn refused(&self, why: String) -> JobError {
        JobError::Resume { path: self.disk.as_ref().map(|d| d.path.clone()).unwrap_or_default(), why }
    }

    fn damaged(&self) -> JobError {
        self.refused("it is damaged: remove it, and the run begins anew".into())
    }
}

impl Head {
    fn of(plan: &Plan) -> Result<Self, JobError> {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let path = &plan.input.path;
        let mut hash = blake3::Hasher::new();
        File::open(path)
            .and_then(|file| hash.update_reader(BufReader::with_capacity(1 << 16, file)).map(drop))
            .map_err(|error| JobError::File { what: "cannot read", path: path.clone(), error })?;
        let peer = plan.peer();
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            shared: hex(&plan.shared.hash()),
            party: plan.me.name().into(),
            peer: format!("{} ({})", peer.party, peer.trust.as_ref().map_or("no TLS".to_owned(), |t| t.to_string())),
            input: format!("{} with {}", hex(hash.finalize().as_bytes()), plan.keys.join(", ")),
        })
    }

    /// Why this run is not the one of `other`.
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
            () if self.peer != other.peer => differs(&format!("partner, {}", other.peer), "restore it in [mine]"),
            () if self.input != other.input => differs("input", "restore the file and its key columns"),
            () => Ok(()),
        }
    }
}

/// What a record says.
enum Record {
    Head(Head),
    Start(Start),
    Unit(UnitId, Done),
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        match self {
            Record::Head(head) => {
                let mut out = vec![0];
                out.extend(serde_json::to_vec(head).expect("a head is plain data"));
                out
            }
            Record::Start(Start { salt, sizes, keys }) => {
                let mut out = vec![1];
                out.extend(salt);
                let tag_bytes = sizes.tag_len.bytes() as u64;
                let numbers =
                    [sizes.units.into(), sizes.in_flight.into(), sizes.capacity, sizes.peer_capacity, tag_bytes];
                out.extend(numbers.iter().chain([&keys.0, &keys.1]).flat_map(|n| n.to_le_bytes()));
                out
            }
            Record::Unit(id, done) => {
                let mut out = vec![2];
                out.extend(id.0.to_le_bytes());
                out.extend(done.digest);
                out.extend(done.matches.iter().flat_map(|m| [m.key.0, m.peer_rows]).flat_map(u64::to_le_bytes));
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
                let [units, in_flight, capacity, peer_capacity, tag, mine, theirs] = numbers(rest)?.try_into().ok()?;
                let sizes = Sizes {
                    units: units.try_into().ok()?,
                    in_flight: in_flight.try_into().ok()?,
                    capacity,
                    peer_capacity,
                    tag_len: TagLen::new(tag.try_into().ok()?)?,
                };
                Some(Record::Start(Start { salt: *salt, sizes, keys: (mine, theirs) }))
            }
            2 => {
                let (id, rest) = rest.split_first_chunk()?;
                let (digest, rest) = rest.split_first_chunk()?;
                let numbers = numbers(rest)?;
                let (pairs, rest) = numbers.as_chunks::<2>();
                let matches = pairs.iter().map(|&[key, peer_rows]| Match { key: KeyId(key), peer_rows }).collect();
                rest.is_empty()
                    .then(|| Record::Unit(UnitId(u32::from_le_bytes(*id)), Done { matches, digest: *digest }))
            }
            _ => None,
        }
    }
}

/// The file of a ledger, locked as long as this lives.
struct Disk {
    path: PathBuf,
    file: File,
    key: LessSafeKey,
    /// Records so far.
    count: u64,
}

impl Disk {
    /// Opens the file called `name`, makes it if it is not there, and reads its records.
    fn open(resume: &ResumePlan, name: &str) -> Result<(Self, Vec<Vec<u8>>), JobError> {
        let path = resume.dir.join(name);
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
        let mut front = [0; 48];
        let has = read_up_to(&mut file, &mut front).map_err(failed("cannot read"))?;
        let secret = resume.secret()?;
        let sealed = secret.is_some();
        if has < front.len() {
            // New, or killed while it was being made.
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
        let key = key(secret, front[16..].try_into().expect("32 bytes"));
        let mut disk = Self { path: path.clone(), file, key, count: 0 };
        let records = disk.read().map_err(failed("cannot read"))?;
        let damaged = records.is_empty() && has == front.len() && disk.file.metadata().is_ok_and(|m| m.len() > 48);
        if damaged {
            return Err(refused("it cannot be read with this key; give the one that it was begun with"));
        }
        let end = records.iter().fold(48, |end, r| end + 4 + r.len() as u64 + MAX_TAG_LEN as u64);
        let cut = disk.file.set_len(end).and_then(|()| disk.file.seek(SeekFrom::Start(end)));
        cut.map_err(failed("cannot write"))?;
        Ok((disk, records))
    }

    /// The records that are whole.
    fn read(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut reader = BufReader::new(&self.file);
        let mut records = Vec::new();
        loop {
            let mut len = [0; 4];
            if read_up_to(&mut reader, &mut len)? < 4 || u32::from_le_bytes(len) > LONGEST {
                break;
            }
            let mut bytes = Vec::new();
            reader.by_ref().take(u32::from_le_bytes(len).into()).read_to_end(&mut bytes)?;
            let nonce = nonce(records.len() as u64);
            let Ok(plain) = self.key.open_in_place(nonce, Aad::from(len), &mut bytes) else { break };
            records.push(plain.to_vec());
        }
        self.count = records.len() as u64;
        Ok(records)
    }

    fn append(&mut self, mut record: Vec<u8>) -> io::Result<()> {
        let len = u32::try_from(record.len() + MAX_TAG_LEN).ok().filter(|&len| len <= LONGEST);
        let len = len.ok_or_else(|| io::Error::other("a record of an absurd size"))?.to_le_bytes();
        let sealed = self.key.seal_in_place_append_tag(nonce(self.count), Aad::from(len), &mut record);
        sealed.map_err(|_| io::Error::other("a record cannot be sealed"))?;
        self.file.write_all(&[&len[..], &record].concat())?;
        self.file.sync_data()?;
        self.count += 1;
        Ok(())
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

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The key of a ledger that begins with the random bytes `front`.
fn key(secret: Option<Secret>, front: &[u8; 32]) -> LessSafeKey {
    let mut material = Zeroizing::new(front.to_vec());
    match secret {
        None => {}
        Some(Secret::Key(bytes)) => material.extend_from_slice(&bytes),
        Some(Secret::Passphrase(words)) => {
            let mut bytes = Zeroizing::new([0; 32]);
            ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, front, words.as_bytes(), &mut *bytes);
            material.extend_from_slice(&*bytes);
        }
    }
    let bytes = Zeroizing::new(blake3::derive_key("vesica 2026 ledger", &material));
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &*bytes).expect("a key of 32 bytes"))
}

/// What a ledger is sealed under.
enum Secret {
    Key(Zeroizing<Vec<u8>>),
    Passphrase(Zeroizing<String>),
}

/// The fewest bytes of a key file: 16 random ones.
const KEY_BYTES: usize = 16;

impl ResumePlan {
    fn secret(&self) -> Result<Option<Secret>, JobError> {
        let words = std::env::var(PASSPHRASE).ok().filter(|words| !words.is_empty()).map(Zeroizing::new);
        match (&self.key, words) {
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
    use crate::{plan, spec};

    /// A job that keeps its ledger in `dir`, with the input there.
    fn job(dir: &Path, mine: &str) -> Plan {
        fs::write(dir.join("a.csv"), "id\n1\n").unwrap();
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = [\"alice\"]\ninsecure = true\n\
             [mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = {{ path = \"{0}/a.csv\", keys = [\"id\"] }}\n\
             output = {{ path = \"{0}/o.csv\" }}\nresume = \"{0}/resume\"\n{mine}\n",
            dir.display()
        );
        plan::plan(&spec::parse(&text).unwrap()).unwrap()
    }

    fn start() -> Start {
        let tag_len = TagLen::new(9).unwrap();
        let sizes = Sizes { units: 4, in_flight: 2, capacity: 10, peer_capacity: 20, tag_len };
        Start { salt: [7; 32], sizes, keys: (30, 60) }
    }

    fn unit(n: u64) -> Done {
        Done { matches: (0..n).map(|i| Match { key: KeyId(i * n), peer_rows: i + 1 }).collect(), digest: [n as u8; 32] }
    }

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("resume/alice.ledger")
    }

    /// A ledger with a start and units 2 and 0.
    fn written(plan: &Plan) {
        let mut ledger = Ledger::open(plan).unwrap();
        assert!(ledger.started().is_none());
        ledger.start(start()).unwrap();
        ledger.commit(UnitId(2), unit(5)).unwrap();
        ledger.commit(UnitId(0), unit(0)).unwrap();
    }

    #[test]
    fn what_is_committed_is_there_again_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let ledger = Ledger::open(&plan).unwrap();
        assert_eq!(ledger.started(), Some(&start()));
        let done: Vec<_> = ledger.done().map(|(id, done)| (id.0, done.clone())).collect();
        assert_eq!(done, [(0, unit(0)), (2, unit(5))]);
        assert!(ledger.has(UnitId(0)) && !ledger.has(UnitId(1)));
        ledger.remove().unwrap();
        assert!(!path(&dir).exists());
    }

    #[test]
    fn a_new_start_forgets_the_units() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let again = Start { salt: [8; 32], ..start() };
        Ledger::open(&plan).unwrap().start(again).unwrap();
        let ledger = Ledger::open(&plan).unwrap();
        assert_eq!((ledger.started(), ledger.len()), (Some(&again), 0));
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
            match Ledger::open(&plan) {
                Ok(mut ledger) => {
                    assert!(ledger.len() >= most, "{end}");
                    most = ledger.len();
                    ledger.start(start()).unwrap();
                    ledger.commit(UnitId(1), unit(1)).unwrap();
                    drop(ledger);
                    assert!(Ledger::open(&plan).unwrap().has(UnitId(1)), "{end}");
                }
                // Within the very first record nothing can be told from a wrong key.
                Err(error) => assert!(error.to_string().contains("cannot be read with this key"), "{end}: {error}"),
            }
        }
        assert_eq!(most, 1, "the last record was never whole");
    }

    #[test]
    fn a_flipped_byte_loses_its_record_and_those_behind_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        written(&plan);
        let mut bytes = fs::read(path(&dir)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path(&dir), bytes).unwrap();
        let ledger = Ledger::open(&plan).unwrap();
        assert!(ledger.has(UnitId(2)) && !ledger.has(UnitId(0)));
    }

    #[test]
    fn another_run_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        written(&job(dir.path(), ""));
        let refused = |change: &dyn Fn(&mut Plan), word: &str| {
            let mut plan = job(dir.path(), "");
            change(&mut plan);
            let error = Ledger::open(&plan).map(drop).unwrap_err();
            assert_eq!(error.fault(), vesica_session::Fault::Config);
            assert!(error.to_string().contains(word), "{error}");
        };
        refused(&|plan| plan.shared.id = "other".into(), "[shared]");
        refused(&|plan| plan.keys = vec!["other".into()], "another input");
        refused(&|plan| fs::write(&plan.input.path, "id\n2\n").unwrap(), "another input");
        refused(&|plan| plan.peers[0].trust = Some(crate::plan::TrustPlan::Ca("ca.pem".into())), "partner");
        let other = dir.path().join("resume/alice.ledger");
        fs::write(&other, "something else that is longer than the front of a ledger is").unwrap();
        refused(&|_| {}, "not a ledger");
    }

    #[test]
    fn two_runs_do_not_share_a_ledger() {
        let dir = tempfile::tempdir().unwrap();
        let plan = job(dir.path(), "");
        let _first = Ledger::open(&plan).unwrap();
        let error = Ledger::open(&plan).map(drop).unwrap_err();
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
        assert_eq!(Ledger::open(&job(dir.path(), &sealed)).unwrap().len(), 2);
        let why = |mine: &str| Ledger::open(&job(dir.path(), mine)).map(drop).unwrap_err().to_string();
        assert!(why("").contains("it is sealed"));
        fs::write(&key, [4; 32]).unwrap();
        assert!(why(&sealed).contains("cannot be read with this key"));
        fs::write(&key, [4; 5]).unwrap();
        assert!(why(&sealed).contains("5 bytes are too few"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = Record::decode(&bytes);
        }

        #[test]
        fn units_survive_their_encoding(id: u32, digest: [u8; 32], pairs: Vec<(u64, u64)>) {
            let matches = pairs.into_iter().map(|(key, peer_rows)| Match { key: KeyId(key), peer_rows }).collect();
            let done = Done { matches, digest };
            let decoded = Record::decode(&Record::Unit(UnitId(id), done.clone()).encode());
            proptest::prop_assert!(matches!(decoded, Some(Record::Unit(i, d)) if i.0 == id && d == done));
        }
    }
}
