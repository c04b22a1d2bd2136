//! How many keys each client may still ask about: per day, over the life of the service's key, and how often a minute.
//!
//! Example: alice may ask about 100,000 keys a day. She asked about 99,500 and wants 1,000 more: she is refused, told that
//! 500 are left, and told when there are more. A server that was killed in between still knows.
//!
//! A grant is on the disk before a key is answered, so that no crash gives keys back. The file is a log: a front of 64 bytes,
//! then an entry of 128 bytes for each grant. An entry is its record, twice, each copy with a checksum of its own:
//!
//! ```text
//! bytes    what
//!  0..16   the client: hash of its name; zero in a record of a sum over all clients
//! 16..32   the service's key: hash of its name; zero in a record of a client's sum of a day
//! 32..40   keys, u64
//! 40..44   day, u32: days since 1970-01-01, UTC
//! 44..48   how many entries of the same write stand before this one, u32
//! 48..64   checksum over the file's generation, the record's place and these fields
//! ```
//!
//! Numbers are little-endian. A grant is a record with a client and a key. When most records are of days that are over, the
//! file is written anew with one record for each sum that still counts.
//!
//! A disk takes milliseconds for a write, and one write at a time is on its way. Those who come meanwhile are granted by the
//! next write, up to 32 of them. So the entries of the last write may be torn after a power failure: nobody was answered for
//! them, and such an entry counts for nothing unless one of its copies is whole. Any other entry of which no copy is whole
//! means that the file was damaged. Then it is refused, since nobody knows how much was granted.
//!
//! The clock is not trusted to go forward: a day that is before the last one in the file is taken for the last one.

use crate::error::Error;
use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The front of a file, whose generation follows.
const MAGIC: &[u8; 16] = b"vesica budget 1\n";

const FRONT: usize = 64;
const RECORD: usize = 64;
const ENTRY: usize = 2 * RECORD;

/// The most entries of one write.
const MOST: usize = 32;

/// How long a lock is waited for.
const MOMENT: Duration = Duration::from_secs(1);

/// The file is written anew when it has so many entries more than twice what is needed.
const SPARE: u64 = 4096;

/// Counts of requests are kept of so many clients before those are forgotten who could ask at once anyway.
const BUCKETS: usize = 4096;

const SECONDS_A_DAY: u64 = 86_400;

/// Sixteen bytes of the hash of a name.
type Id = [u8; 16];

const NOBODY: Id = [0; 16];

/// What was granted, on the disk.
pub struct Budget {
    state: Mutex<State>,
    /// A write is over.
    written: Condvar,
    key: Id,
    /// Locked as long as this server uses the file.
    _lock: File,
}

/// Why a client may not ask for so many keys now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// Its day has so many keys left.
    Day {
        /// How many it may ask about today.
        left: u64,
        /// When there are more.
        again: SystemTime,
    },
    /// The life of the service's key has so many keys left, for all clients together.
    Life {
        /// How many.
        left: u64,
    },
    /// It asks too often.
    Minute {
        /// How long to wait.
        wait: Duration,
    },
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exhausted::Day { left, again } => write!(
                f,
                "{left} keys are left of this client's day; ask about no more than that, or after {}",
                humantime::format_rfc3339_seconds(*again)
            ),
            Exhausted::Life { left } => write!(
                f,
                "{left} keys are left of those that all clients together may ask about under the service's key; ask its \
                 operator for a new one"
            ),
            Exhausted::Minute { wait } => {
                write!(f, "this client asks too often; ask again in {} s", wait.as_secs_f64().ceil())
            }
        }
    }
}

impl Budget {
    /// The budget in the file at `path`, which is made if there is none. `key` names the key of the service, of which each
    /// has a life of its own.
    ///
    /// # Errors
    /// If another server uses the file, or it is damaged, or cannot be read or written.
    pub fn open(path: &Path, key: &[u8]) -> Result<Self, Error> {
        let lock = lock(path)?;
        let state = State::open(path)?;
        Ok(Self { state: Mutex::new(state), written: Condvar::new(), key: id("key", key), _lock: lock })
    }

    /// Takes `keys` from what `client` may ask about today (`a_day`), from what all may ask about under the service's key
    /// (`lifetime`), and one request from those of this minute (`a_minute`). If it may not, nothing is taken but the
    /// request. On return the grant is on the disk.
    ///
    /// # Errors
    /// If it cannot be written. Then nothing is granted any more until the file is opened again, since nobody knows what is
    /// on the disk.
    pub fn take(
        &self,
        client: &str,
        keys: u64,
        a_day: u64,
        a_minute: u32,
        lifetime: u64,
    ) -> Result<Result<(), Exhausted>, Error> {
        let wish = Wish { client: id("client", client.as_bytes()), key: self.key, keys, a_day, a_minute, lifetime };
        self.grant(&wish, SystemTime::now(), Instant::now())
    }

    fn grant(&self, wish: &Wish, now: SystemTime, instant: Instant) -> Result<Result<(), Exhausted>, Error> {
        let mut state = self.state();
        let ticket = match state.queue(wish, now, instant) {
            Ok(ticket) => ticket,
            Err(refusal) => return Ok(Err(refusal)),
        };
        loop {
            if state.durable >= ticket {
                return Ok(Ok(()));
            }
            if state.failed {
                let error = io::Error::other("an earlier write failed; start the server again when the disk is well");
                return Err(Error::file("cannot write", &state.path)(error));
            }
            if state.writing {
                state = self.written.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // This thread writes for all who wait, and the others go on queueing.
            let (file, count, bytes) = state.next_write();
            state.writing = true;
            drop(state);
            let written = (&*file).write_all(&bytes).and_then(|()| file.sync_data());
            state = self.state();
            state.writing = false;
            let settled = state.settle(count, written);
            self.written.notify_all();
            settled?;
        }
    }

    /// How many keys `client` was granted today, and all clients under the service's key.
    #[cfg(test)]
    pub fn granted(&self, client: &str) -> (u64, u64) {
        let mut state = self.state();
        state.turn(day(SystemTime::now()));
        let of = |sums: &HashMap<Id, u64>, id: &Id| sums.get(id).copied().unwrap_or(0);
        (of(&state.today, &id("client", client.as_bytes())), of(&state.ever, &self.key))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing between two statements that could panic leaves the sums half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a client asks for, and what it may have.
struct Wish {
    client: Id,
    key: Id,
    keys: u64,
    a_day: u64,
    a_minute: u32,
    lifetime: u64,
}

/// The file and what its records come to.
struct State {
    path: PathBuf,
    file: Arc<File>,
    /// How often the file was written anew.
    generation: u64,
    entries: u64,
    /// What is granted and not written yet.
    queue: Vec<Record>,
    /// How many grants were queued so far, and how many of them are on the disk.
    queued: u64,
    durable: u64,
    /// A thread writes at the moment.
    writing: bool,
    /// The last day that was seen, and what each client was granted on it.
    day: u32,
    today: HashMap<Id, u64>,
    /// What was granted under each key.
    ever: HashMap<Id, u64>,
    /// A write failed: what is on the disk is not known.
    failed: bool,
    /// How many requests each client may make at once, and since when.
    buckets: HashMap<Id, (f64, Instant)>,
}

impl State {
    fn open(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let file = match options().read(true).open(path) {
            Ok(mut file) => {
                file.read_to_end(&mut bytes).map_err(Error::file("cannot read", path))?;
                file
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (file, day) = (make(path, 0, &[])?, day(SystemTime::now()));
                return Ok(Self::new(path, file, 0, day));
            }
            Err(error) => return Err(Error::file("cannot open", path)(error)),
        };
        let damaged = |why: String| Error::Damaged {
            path: path.to_owned(),
            why: format!(
                "{why}. It says how many keys clients were granted: restore it from a copy. Whoever takes it away gives every \
                 client its day and the key its life back"
            ),
        };
        let front: Option<&[u8; FRONT]> = bytes.first_chunk();
        let generation = front.and_then(read_front).ok_or_else(|| damaged("its front cannot be read".into()))?;
        let mut state = Self::new(path, file, generation, 0);
        let entries: Vec<&[u8]> = bytes[FRONT..].chunks(ENTRY).collect();
        let broken_at = |place: usize| damaged(format!("its entry at byte {} is broken", FRONT + place * ENTRY));
        // The first entry of which no copy is whole: those after it must be of the same write.
        let mut broken: Option<usize> = None;
        let mut whole = true;
        for (place, entry) in entries.iter().enumerate() {
            let copies = [0, 1].map(|copy| read_copy(generation, place as u64, copy, entry));
            whole &= copies.iter().all(Option::is_some);
            match (copies.into_iter().flatten().next(), broken) {
                (Some(record), Some(first)) if first + (record.before as usize) < place => {
                    return Err(broken_at(first));
                }
                (Some(record), _) => state.count(&record),
                (None, _) => broken = broken.or(Some(place)),
            }
        }
        if let Some(first) = broken.filter(|first| entries.len() - first > MOST) {
            return Err(broken_at(first));
        }
        state.entries = entries.len() as u64;
        state.turn(day(SystemTime::now()));
        // What follows a torn entry could not be told from damage.
        if !whole {
            state.renew()?;
        }
        Ok(state)
    }

    fn new(path: &Path, file: File, generation: u64, day: u32) -> Self {
        Self {
            path: path.to_owned(),
            file: Arc::new(file),
            generation,
            entries: 0,
            queue: Vec::new(),
            queued: 0,
            durable: 0,
            writing: false,
            day,
            today: HashMap::new(),
            ever: HashMap::new(),
            failed: false,
            buckets: HashMap::new(),
        }
    }

    /// It is `day` now, or still the last one that was seen.
    fn turn(&mut self, day: u32) {
        if day > self.day {
            self.day = day;
            self.today.clear();
        }
    }

    fn count(&mut self, record: &Record) {
        self.turn(record.day);
        if record.client != NOBODY && record.day == self.day {
            let sum = self.today.entry(record.client).or_default();
            *sum = sum.saturating_add(record.keys);
        }
        if record.key != NOBODY {
            let sum = self.ever.entry(record.key).or_default();
            *sum = sum.saturating_add(record.keys);
        }
    }

    /// Counts a grant that is still to be written; gives its number.
    fn queue(&mut self, wish: &Wish, now: SystemTime, instant: Instant) -> Result<u64, Exhausted> {
        if let Some(wait) = self.too_often(wish, instant) {
            return Err(Exhausted::Minute { wait });
        }
        self.turn(day(now));
        let left =
            |sums: &HashMap<Id, u64>, id: &Id, most: u64| most.saturating_sub(sums.get(id).copied().unwrap_or(0));
        let today = left(&self.today, &wish.client, wish.a_day);
        if wish.keys > today {
            let again = SystemTime::UNIX_EPOCH + Duration::from_secs((u64::from(self.day) + 1) * SECONDS_A_DAY);
            return Err(Exhausted::Day { left: today, again });
        }
        let ever = left(&self.ever, &wish.key, wish.lifetime);
        if wish.keys > ever {
            return Err(Exhausted::Life { left: ever });
        }
        if wish.keys == 0 {
            return Ok(0);
        }
        let record = Record { client: wish.client, key: wish.key, keys: wish.keys, day: self.day, before: 0 };
        self.count(&record);
        self.queue.push(record);
        self.queued += 1;
        Ok(self.queued)
    }

    /// Takes a request from the client's minute; how long it has to wait if there is none.
    fn too_often(&mut self, wish: &Wish, now: Instant) -> Option<Duration> {
        let most = f64::from(wish.a_minute);
        let rate = most / 60.0;
        if self.buckets.len() >= BUCKETS {
            self.buckets.retain(|_, (_, since)| now.saturating_duration_since(*since) < Duration::from_secs(60));
        }
        let (left, since) = self.buckets.entry(wish.client).or_insert((most, now));
        let filled = (*left + now.saturating_duration_since(*since).as_secs_f64() * rate).min(most);
        (*left, *since) = (filled, now);
        if filled < 1.0 {
            return Some(Duration::try_from_secs_f64((1.0 - filled) / rate).unwrap_or(Duration::MAX));
        }
        *left -= 1.0;
        None
    }

    /// The next write: where to, how many grants it has, and its bytes.
    fn next_write(&mut self) -> (Arc<File>, u64, Vec<u8>) {
        let count = self.queue.len().min(MOST);
        let mut bytes = Vec::with_capacity(count * ENTRY);
        for (before, record) in self.queue.drain(..count).enumerate() {
            let record = Record { before: before as u32, ..record };
            bytes.extend(record.entry(self.generation, self.entries));
            self.entries += 1;
        }
        (self.file.clone(), count as u64, bytes)
    }

    /// A write of so many grants is over.
    fn settle(&mut self, count: u64, written: io::Result<()>) -> Result<(), Error> {
        if let Err(error) = written {
            self.failed = true;
            return Err(Error::file("cannot write", &self.path)(error));
        }
        self.durable += count;
        match self.entries > SPARE + 2 * (self.today.len() + self.ever.len()) as u64 {
            true => self.renew(),
            false => Ok(()),
        }
    }

    /// Writes the file anew, with the sums that still count. What is queued is part of them.
    fn renew(&mut self) -> Result<(), Error> {
        let day = self.day;
        let record = |client: &Id, key: &Id, keys: u64| Record { client: *client, key: *key, keys, day, before: 0 };
        let clients = self.today.iter().map(|(client, keys)| record(client, &NOBODY, *keys));
        let keys = self.ever.iter().map(|(key, keys)| record(&NOBODY, key, *keys));
        let mut records: Vec<Record> = clients.chain(keys).collect();
        records.sort_unstable_by_key(|record| (record.client, record.key));
        // Until the new file has taken the old one's place for good, the old one counts, and nothing may be added to it.
        self.failed = true;
        self.file = Arc::new(make(&self.path, self.generation + 1, &records)?);
        self.generation += 1;
        self.entries = records.len() as u64;
        self.queue.clear();
        self.durable = self.queued;
        self.failed = false;
        Ok(())
    }
}

/// How many keys somebody was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    client: Id,
    key: Id,
    keys: u64,
    day: u32,
    /// How many entries of the same write stand before this one.
    before: u32,
}

impl Record {
    /// The record, twice.
    fn entry(&self, generation: u64, place: u64) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        for (copy, bytes) in entry.chunks_exact_mut(RECORD).enumerate() {
            bytes[..16].copy_from_slice(&self.client);
            bytes[16..32].copy_from_slice(&self.key);
            bytes[32..40].copy_from_slice(&self.keys.to_le_bytes());
            bytes[40..44].copy_from_slice(&self.day.to_le_bytes());
            bytes[44..48].copy_from_slice(&self.before.to_le_bytes());
            let sum = checksum(generation, 2 * place + copy as u64, &bytes[..48]);
            bytes[48..].copy_from_slice(&sum);
        }
        entry
    }
}

/// One of the copies of the record at `place`, if it is whole.
fn read_copy(generation: u64, place: u64, copy: usize, entry: &[u8]) -> Option<Record> {
    let bytes: &[u8; RECORD] = entry.get(copy * RECORD..)?.first_chunk()?;
    (checksum(generation, 2 * place + copy as u64, &bytes[..48]) == bytes[48..]).then_some(())?;
    Some(Record {
        client: *bytes.first_chunk()?,
        key: *bytes[16..].first_chunk()?,
        keys: u64::from_le_bytes(*bytes[32..].first_chunk()?),
        day: u32::from_le_bytes(*bytes[40..].first_chunk()?),
        before: u32::from_le_bytes(*bytes[44..].first_chunk()?),
    })
}

fn front(generation: u64) -> [u8; FRONT] {
    let mut front = [0; FRONT];
    front[..16].copy_from_slice(MAGIC);
    front[16..24].copy_from_slice(&generation.to_le_bytes());
    let sum = checksum(generation, u64::MAX, &front[..48]);
    front[48..].copy_from_slice(&sum);
    front
}

/// The generation of the file with this front, if it is one.
fn read_front(bytes: &[u8; FRONT]) -> Option<u64> {
    let generation = u64::from_le_bytes(*bytes[16..].first_chunk()?);
    (front(generation) == *bytes).then_some(generation)
}

/// A record of another place, or of an older file whose blocks the disk gave to this one, has another checksum.
fn checksum(generation: u64, place: u64, bytes: &[u8]) -> Id {
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 budget checksum");
    hasher.update(&generation.to_le_bytes());
    hasher.update(&place.to_le_bytes());
    hasher.update(bytes);
    first(&hasher)
}

/// The hash by which the file knows a client or a key.
fn id(what: &str, name: &[u8]) -> Id {
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 budget name");
    hasher.update(what.as_bytes());
    hasher.update(b":");
    hasher.update(name);
    first(&hasher)
}

fn first(hasher: &blake3::Hasher) -> Id {
    let mut id = NOBODY;
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}

/// The day at `now`, since 1970-01-01 in UTC.
fn day(now: SystemTime) -> u32 {
    let days = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() / SECONDS_A_DAY);
    u32::try_from(days).unwrap_or(u32::MAX)
}

/// `path` with something behind it.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(what);
    name.into()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600);
    options
}

/// Makes sure that one server at a time uses the file. The lock is a file of its own, since the other one is replaced.
fn lock(path: &Path) -> Result<File, Error> {
    let lock = beside(path, ".lock");
    let file = options().create(true).open(&lock).map_err(Error::file("cannot open", &lock))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A server that has just ended, or a child that is just being made of this process, may still hold it for a moment.
            Err(TryLockError::WouldBlock) if began.elapsed() < MOMENT => std::thread::sleep(MOMENT / 50),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Setup(format!(
                    "{}: another server uses this file; stop it, or give each service a store of its own",
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(Error::file("cannot lock", &lock)(error)),
        }
    }
}

/// Puts a file with these records at `path`. On return it is there for good; before, an older one is.
fn make(path: &Path, generation: u64, records: &[Record]) -> Result<File, Error> {
    let new = beside(path, ".new");
    let write = || {
        let mut bytes = front(generation).to_vec();
        for (place, record) in records.iter().enumerate() {
            bytes.extend(record.entry(generation, place as u64));
        }
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = options().create_new(true).open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        Ok(file)
    };
    write().map_err(Error::file("cannot write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use tempfile::TempDir;

    const KEY: &[u8] = b"the first key";
    const MUCH: u64 = u64::MAX;
    const OFTEN: u32 = u32::MAX;

    fn folder() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.budget");
        (dir, path)
    }

    fn at(day: u64, second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(day * SECONDS_A_DAY + second)
    }

    fn wish(client: &str, keys: u64, a_day: u64) -> Wish {
        let client = id("client", client.as_bytes());
        Wish { client, key: id("key", KEY), keys, a_day, a_minute: OFTEN, lifetime: MUCH }
    }

    fn take(budget: &Budget, client: &str, keys: u64, a_day: u64, now: SystemTime) -> Result<(), Exhausted> {
        budget.grant(&wish(client, keys, a_day), now, Instant::now()).unwrap()
    }

    #[test]
    fn a_day_has_so_many_keys_for_each_client() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        let now = at(30_000, 86_399);
        take(&budget, "alice", 60, 100, now).unwrap();
        let Err(refusal) = take(&budget, "alice", 41, 100, now) else { panic!("a key too many") };
        assert_eq!(refusal, Exhausted::Day { left: 40, again: at(30_001, 0) });
        assert_eq!(
            refusal.to_string(),
            "40 keys are left of this client's day; ask about no more than that, or after 2052-02-21T00:00:00Z"
        );
        // What is refused takes nothing, and nobody else's day.
        take(&budget, "alice", 40, 100, now).unwrap();
        take(&budget, "bob", 100, 100, now).unwrap();
        assert!(take(&budget, "alice", 1, 100, now).is_err());
        // An allowance that was lowered meanwhile is no number below zero.
        assert!(matches!(take(&budget, "alice", 1, 10, now), Err(Exhausted::Day { left: 0, .. })));
        take(&budget, "alice", 100, 100, at(30_001, 0)).unwrap();
        assert!(take(&budget, "alice", u64::MAX, 100, at(30_001, 0)).is_err());
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing_back() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        take(&budget, "alice", 100, 100, at(30_000, 5)).unwrap();
        for earlier in [at(29_999, 5), SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - Duration::from_secs(1)] {
            let refusal = take(&budget, "alice", 1, 100, earlier).unwrap_err();
            assert_eq!(refusal, Exhausted::Day { left: 0, again: at(30_001, 0) });
            // Nor does what another client takes by that clock.
            take(&budget, "bob", 1, 100, earlier).unwrap();
        }
        drop(budget);
        let budget = Budget::open(&path, KEY).unwrap();
        assert!(take(&budget, "alice", 1, 100, at(29_999, 5)).is_err());
        assert!(take(&budget, "bob", 98, 100, at(29_999, 5)).is_err());
        take(&budget, "bob", 97, 100, at(29_999, 5)).unwrap();
    }

    #[test]
    fn a_key_has_a_life_over_all_clients_and_days() {
        let (_dir, path) = folder();
        let take = |budget: &Budget, client: &str, keys: u64, day: u64| {
            let mut wish = wish(client, keys, MUCH);
            (wish.lifetime, wish.key) = (100, budget.key);
            budget.grant(&wish, at(day, 0), Instant::now()).unwrap()
        };
        let budget = Budget::open(&path, KEY).unwrap();
        take(&budget, "alice", 60, 30_000).unwrap();
        take(&budget, "bob", 30, 30_001).unwrap();
        assert_eq!(take(&budget, "alice", 11, 30_002), Err(Exhausted::Life { left: 10 }));
        drop(budget);
        // A new key has a new life, and the old one has kept its own when it comes back.
        let budget = Budget::open(&path, b"another key").unwrap();
        take(&budget, "alice", 100, 30_002).unwrap();
        budget.state().renew().unwrap();
        drop(budget);
        let budget = Budget::open(&path, KEY).unwrap();
        assert_eq!(take(&budget, "alice", 11, 30_003), Err(Exhausted::Life { left: 10 }));
        take(&budget, "alice", 10, 30_003).unwrap();
    }

    #[test]
    fn a_minute_has_so_many_requests() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        let begin = Instant::now();
        let ask = |client: &str, after: f64| {
            let wish = Wish { a_minute: 6, ..wish(client, 1, MUCH) };
            budget.grant(&wish, SystemTime::now(), begin + Duration::from_secs_f64(after)).unwrap()
        };
        (0..6).for_each(|_| ask("alice", 0.0).unwrap());
        let Err(Exhausted::Minute { wait }) = ask("alice", 1.0) else { panic!("a request too many") };
        assert!(wait > Duration::from_millis(8900) && wait < Duration::from_millis(9100), "{wait:?}");
        ask("bob", 1.0).unwrap();
        ask("alice", 10.1).unwrap();
        assert!(ask("alice", 10.2).is_err());
        // However long it was away, it cannot ask more often than that.
        (0..6).for_each(|_| ask("alice", 1e6).unwrap());
        assert!(ask("alice", 1e6).unwrap_err().to_string().contains("ask again in 10 s"));
        // Those who may ask at once anyway are forgotten.
        (0..2 * BUCKETS).for_each(|i| {
            let _ =
                budget.state().too_often(&wish(&format!("client {i}"), 0, 0), begin + Duration::from_secs(i as u64));
        });
        assert!(budget.state().buckets.len() <= BUCKETS);
    }

    #[test]
    fn threads_that_take_at_once_get_what_there_is_and_no_more() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        let granted: u64 = std::thread::scope(|scope| {
            let one = || (0..50).filter(|_| budget.take("alice", 3, 200, OFTEN, MUCH).unwrap().is_ok()).count() as u64;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(granted, 66);
        drop(budget);
        assert_eq!(Budget::open(&path, KEY).unwrap().granted("alice"), (198, 198));
    }

    #[test]
    fn two_servers_do_not_share_a_file() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        let error = Budget::open(&path, KEY).err().unwrap();
        assert!(error.to_string().contains("another server uses this file"), "{error}");
        // Nor does a file that was written anew meanwhile.
        budget.state().renew().unwrap();
        assert!(Budget::open(&path, KEY).is_err());
        drop(budget);
        Budget::open(&path, KEY).unwrap();
    }

    /// A file with three grants to alice today, of 1, 10 and 100 keys.
    fn three(path: &Path) -> Vec<u8> {
        let budget = Budget::open(path, KEY).unwrap();
        for keys in [1, 10, 100] {
            budget.take("alice", keys, MUCH, OFTEN, MUCH).unwrap().unwrap();
        }
        drop(budget);
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_file_that_ends_anywhere_keeps_every_grant_of_which_a_copy_is_whole() {
        let (_dir, path) = folder();
        let whole = three(&path);
        assert_eq!(whole.len(), FRONT + 3 * ENTRY);
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let opened = Budget::open(&path, KEY);
            if end < FRONT {
                assert!(matches!(opened, Err(Error::Damaged { .. })), "cut at {end}");
                continue;
            }
            let grants = (end - FRONT + RECORD) / ENTRY;
            let want = [0, 1, 11, 111][grants];
            let budget = opened.unwrap();
            assert_eq!(budget.granted("alice"), (want, want), "cut at {end}");
            // It goes on from there, and is whole again. That is many writes that wait for the disk, so not at each byte.
            if end % 16 > 1 {
                continue;
            }
            budget.take("alice", 1000, MUCH, OFTEN, MUCH).unwrap().unwrap();
            drop(budget);
            assert_eq!(Budget::open(&path, KEY).unwrap().granted("alice").0, want + 1000, "cut at {end}");
        }
    }

    #[test]
    fn a_flipped_bit_gives_nothing_back() {
        let (_dir, path) = folder();
        let whole = three(&path);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            match Budget::open(&path, KEY) {
                Ok(budget) => assert_eq!(budget.granted("alice"), (111, 111), "byte {at}"),
                Err(error) => assert!(at < FRONT && matches!(error, Error::Damaged { .. }), "byte {at}: {error}"),
            }
        }
    }

    #[test]
    fn damage_that_is_no_torn_end_is_refused() {
        let (_dir, path) = folder();
        let whole = three(&path);
        let refused = |bytes: &[u8], byte: usize| {
            std::fs::write(&path, bytes).unwrap();
            let error = Budget::open(&path, KEY).err().unwrap().to_string();
            assert!(error.contains(&format!("at byte {byte} is broken")) && error.contains("restore it"), "{error}");
        };
        let mut bytes = whole.clone();
        bytes[FRONT + ENTRY + 3] ^= 1;
        bytes[FRONT + ENTRY + RECORD + 3] ^= 1;
        refused(&bytes, FRONT + ENTRY);
        // Entries that changed places, and one that is missing before others than those of a last write.
        let (front, entries) = whole.split_at(FRONT);
        let [a, b, c] = [0, 1, 2].map(|i| &entries[i * ENTRY..][..ENTRY]);
        refused(&[front, b, a, c].concat(), FRONT);
        refused(&[front, a, &vec![0; (MOST + 1) * ENTRY]].concat(), FRONT + ENTRY);
        std::fs::write(&path, b"vesica budget 2\n and what not, in a format that comes after this one: much later")
            .unwrap();
        assert!(Budget::open(&path, KEY).err().unwrap().to_string().contains("front cannot be read"));
    }

    #[test]
    fn a_write_of_several_grants_may_be_torn_anywhere() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        budget.take("alice", 1, MUCH, OFTEN, MUCH).unwrap().unwrap();
        let bytes = {
            let mut state = budget.state();
            for keys in [10, 100, 1000] {
                state.queue(&wish("alice", keys, MUCH), SystemTime::now(), Instant::now()).unwrap();
            }
            state.next_write().2
        };
        drop(budget);
        let before = std::fs::read(&path).unwrap();
        let opened = |lost: &[usize], then: &[u8]| {
            let mut bytes = [&before, bytes.as_slice(), then].concat();
            lost.iter().for_each(|entry| bytes[FRONT + entry * ENTRY..][..ENTRY].fill(0));
            std::fs::write(&path, &bytes).unwrap();
            Budget::open(&path, KEY).map(|budget| budget.granted("alice").0)
        };
        for (lost, granted) in
            [(&[][..], 1111), (&[1], 1101), (&[2], 1011), (&[1, 2], 1001), (&[3], 111), (&[1, 2, 3], 1)]
        {
            assert_eq!(opened(lost, &[]).unwrap(), granted, "{lost:?}");
        }
        // One that came before the last write was on the disk.
        assert!(matches!(opened(&[0], &[]), Err(Error::Damaged { .. })));
        let after = Record { client: NOBODY, key: NOBODY, keys: 0, day: 0, before: 0 }.entry(0, 4);
        assert!(matches!(opened(&[2], &after), Err(Error::Damaged { .. })));
    }

    #[test]
    fn a_file_is_written_anew_when_most_of_it_is_over() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        // Grants without the disk: the file is the sum of what is appended.
        {
            let mut state = budget.state();
            for i in 0..SPARE + 1 {
                let record = Record {
                    client: id("client", b"alice"),
                    key: budget.key,
                    keys: 1,
                    day: 10_000 + i as u32 / 100,
                    before: 0,
                };
                let bytes = record.entry(state.generation, state.entries);
                (&*state.file).write_all(&bytes).unwrap();
                state.entries += 1;
                state.count(&record);
            }
        }
        let before = std::fs::metadata(&path).unwrap().len();
        (0..5).for_each(|_| budget.take("alice", 2, MUCH, OFTEN, MUCH).unwrap().unwrap());
        let after = std::fs::metadata(&path).unwrap().len();
        assert!(before > 500_000 && after < 2000, "{before} to {after} bytes");
        assert_eq!(budget.granted("alice"), (10, SPARE + 11));
        drop(budget);
        assert_eq!(Budget::open(&path, KEY).unwrap().granted("alice"), (10, SPARE + 11));
        // A crash before the new file took the old one's place leaves a piece of it.
        std::fs::write(beside(&path, ".new"), b"a piece").unwrap();
        let budget = Budget::open(&path, KEY).unwrap();
        budget.state().renew().unwrap();
        assert_eq!(budget.granted("alice"), (10, SPARE + 11));
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_write_that_fails_grants_nothing_and_neither_do_those_after_it() {
        let (_dir, path) = folder();
        let budget = Budget::open(&path, KEY).unwrap();
        budget.take("alice", 1, MUCH, OFTEN, MUCH).unwrap().unwrap();
        budget.state().file = Arc::new(File::open(&path).unwrap());
        let error = budget.take("alice", 1, MUCH, OFTEN, MUCH).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("list.budget"), "{error}");
        budget.state().file = Arc::new(options().open(&path).unwrap());
        let error = budget.take("alice", 1, MUCH, OFTEN, MUCH).unwrap_err().to_string();
        assert!(error.contains("start the server again"), "{error}");
        // What was not written is not there afterwards.
        drop(budget);
        assert_eq!(Budget::open(&path, KEY).unwrap().granted("alice").0, 1);
    }

    /// A server that is killed while it grants: what it said it granted is granted afterwards.
    #[test]
    fn a_server_that_is_killed_gives_nothing_back() {
        const CHILD: &str = "VESICA_TEST_BUDGET";
        if let Ok(path) = std::env::var(CHILD) {
            let budget = Budget::open(Path::new(&path), KEY).unwrap();
            let mut out = io::stdout();
            loop {
                budget.take("alice", 1, MUCH, OFTEN, MUCH).unwrap().unwrap();
                writeln!(out, "granted {}", budget.granted("alice").1).unwrap();
            }
        }
        let (_dir, path) = folder();
        let mut told = 0;
        for grants in [1, 40, 7, 100] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "budget::tests::a_server_that_is_killed_gives_nothing_back", "--nocapture"])
                .env(CHILD, &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let mut said = lines.filter_map(|line| line.split_once("granted ").map(|(_, keys)| keys.parse().unwrap()));
            let before = told;
            while told < before + grants {
                told = said.next().expect("the child goes on");
            }
            assert!(Budget::open(&path, KEY).is_err(), "it is locked");
            child.kill().unwrap();
            told = said.last().unwrap_or(told);
            child.wait().unwrap();
            let granted = Budget::open(&path, KEY).unwrap().granted("alice").1;
            assert!(granted == told || granted == told + 1, "{granted} are granted, and it told of {told}");
        }
    }
}
