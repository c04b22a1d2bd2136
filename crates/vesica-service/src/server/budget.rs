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
//! A client may have a number of keys once besides those of each day (`keys_at_first`). What a grant takes of them is a record of its own, whose key
//! is a hash of the service's key and the client: a sum that does not end with the day.
//!
//! The front is 16 bytes that say what the file is, its generation (u64), which start of the machine wrote it (16 bytes, zero if that is not
//! known), the budget's clock (below, i64), and a checksum. Numbers are little-endian. A grant is a record with a client and a key. A record
//! with neither is a mark: its number of keys is the second that the budget's clock had reached. When most records are of days that are over, the
//! file is written anew with one record for each sum that still counts.
//!
//! A disk takes milliseconds for a write, and one write at a time is on its way. Those who come meanwhile are granted by the
//! next write, up to 32 of them. So the entries of the last write may be torn after a power failure: nobody was answered for
//! them, and such an entry counts for nothing unless one of its copies is whole. Any other entry of which no copy is whole
//! means that the file was damaged. Then it is refused, since nobody knows how much was granted.
//!
//! **Days** go by a clock of the budget's own, which nobody sets: it advances with the time since the machine was started, and the front
//! says where it stood then. So while the machine runs, also over restarts of the server, a clock of the system's that jumps, forward or
//! back, begins no day and ends none. The system's clock is asked once for each start of the machine. If it is then before the second that
//! the budget's clock had reached, that goes on from there: a wrong clock costs clients a day at most, and not all days until the wrong
//! one comes. The second is marked in the file every ten minutes, so a machine that never runs for a day without a break has days of 24 hours
//! of its time. If the system's clock is later, it is believed, for a server that was down for a month looks the same; the operator is told if
//! it is later by more than a month. So a wrong clock gives two days at most for each start of the machine: the one that it says, and, if that is
//! nearly over, the next. Where it cannot be told whether the machine was started (there is no `/proc`), each start of the server counts as one,
//! and so does a container's whose time begins anew while the machine goes on.

use crate::error::Error;
use crate::refusal::{Exhausted, seconds, spelled, whole_seconds};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use vesica_job::World;
use vesica_job::disk::{self, replace};
use vesica_job::worlds::{Disk, DiskFile, Time};
use vesica_spec::service::with_ending;

/// The front of a file, whose generation follows. Version 1 had no clock in it.
const MAGIC: [&[u8; 16]; 2] = [b"vesica budget 2\n", b"vesica budget 1\n"];

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

const SECONDS_A_DAY: i64 = 86_400;

/// How often it is marked how far the budget's clock has come.
const MARK: Duration = Duration::from_secs(600);

/// The operator is told if the system's clock differs by more from the budget's.
const FAR: u64 = 3600;

/// The operator is told if the machine starts so many days after the last grant.
const LONG: u32 = 31;

/// Sixteen bytes of the hash of a name.
type Id = [u8; 16];

const NOBODY: Id = [0; 16];

/// What was granted, on the disk.
pub struct Budget {
    state: Mutex<State>,
    /// A write is over.
    is_written: Condvar,
    key: Id,
    clock: Clock,
    /// What the operator is to hear of the clock as it was found; none if there is nothing to be said.
    pub news: Option<String>,
    /// Locked as long as this server uses the file.
    _lock: Box<dyn DiskFile>,
}

/// Where the time is read.
struct Clock {
    time: Arc<dyn Time>,
    /// When this process opened the file.
    opened: Instant,
}

/// What the clocks say at a moment.
#[derive(Clone, Copy)]
struct Now {
    /// The system's, which may be set.
    wall: SystemTime,
    /// Which start of the machine this is, if that is known.
    boot: Option<Id>,
    /// The time since then, or since this process opened the file. Nobody sets it.
    up: Duration,
}

impl Clock {
    fn new(time: Arc<dyn Time>) -> Self {
        Self { opened: time.now(), time }
    }

    fn now(&self) -> Now {
        let (wall, boot) = (self.time.wall(), self.time.boot());
        match boot {
            Some(boot) => Now { wall, boot: Some(id("boot", &boot.name)), up: boot.up },
            None => Now { wall, boot: None, up: self.time.now().saturating_duration_since(self.opened) },
        }
    }
}

/// Where the budget's clock stood when the machine was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Started {
    /// Which start that was; zero if it is not known.
    boot: Id,
    /// Seconds since 1970.
    at: i64,
}

impl Budget {
    /// The budget in the file at `path`, which is made if there is none. `key` names the key of the service, of which each
    /// has a life of its own.
    ///
    /// # Errors
    /// If another server uses the file, or it is damaged, or cannot be read or written.
    pub fn open(path: &Path, key: &[u8], world: &World) -> Result<Self, Error> {
        let now = Clock::new(world.time.clone()).now();
        Self::open_at(path, key, world, &now)
    }

    fn open_at(path: &Path, key: &[u8], world: &World, now: &Now) -> Result<Self, Error> {
        let lock = lock(path, world)?;
        let (state, news) = State::open(path, &world.disk, now)?;
        let clock = Clock::new(world.time.clone());
        let (state, is_written, key) = (Mutex::new(state), Condvar::new(), id("key", key));
        Ok(Self { state, is_written, key, clock, news, _lock: lock })
    }

    /// What is wrong with the system's clock, in words; none if it agrees with the budget's.
    pub fn doubt(&self) -> Option<String> {
        self.state().doubt(&self.clock.now())
    }

    /// Takes `keys` from what `client` may ask about today (`a_day`) and, if these are too few, from what it may ask about once besides
    /// (`at_first`); from what all may ask about under the service's key (`lifetime`), and one request from those of this minute
    /// (`a_minute`). If it may not, nothing is taken but the request. On return the grant is on the disk.
    ///
    /// # Errors
    /// If it cannot be written. Then nothing is granted any more until the file is opened again, since nobody knows what is
    /// on the disk.
    pub fn take(
        &self,
        client: &str,
        keys: u64,
        (a_day, at_first): (u64, u64),
        a_minute: u32,
        lifetime: u64,
    ) -> Result<Result<(), Exhausted>, Error> {
        let client = id("client", client.as_bytes());
        let wish = Wish { client, key: self.key, keys, a_day, at_first, a_minute, lifetime };
        self.grant(&wish, &self.clock.now(), self.clock.time.now())
    }

    /// Marks how far the budget's clock has come, if that was not done for ten minutes or this is the `last` time. To be called now and then.
    ///
    /// # Errors
    /// As [`Budget::take`].
    pub fn mark(&self, last: bool) -> Result<(), Error> {
        self.mark_at(&self.clock.now(), if last { Duration::ZERO } else { MARK })
    }

    fn mark_at(&self, now: &Now, after: Duration) -> Result<(), Error> {
        let mut state = self.state();
        match state.mark(now, after) {
            Some(ticket) => self.written(state, ticket),
            None => Ok(()),
        }
    }

    fn grant(&self, wish: &Wish, now: &Now, instant: Instant) -> Result<Result<(), Exhausted>, Error> {
        let mut state = self.state();
        match state.queue(wish, now, instant) {
            Ok(ticket) => self.written(state, ticket).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Waits until what is queued as number `ticket` is on the disk.
    fn written<'a>(&'a self, mut state: MutexGuard<'a, State>, ticket: u64) -> Result<(), Error> {
        loop {
            if state.durable >= ticket {
                return Ok(());
            }
            if state.failed {
                let error = io::Error::other("an earlier write failed; start the server again when the disk is well");
                return Err(Error::file("cannot write", &state.path)(error));
            }
            if state.writing {
                state = self.is_written.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // This thread writes for all who wait, and the others go on queueing.
            let (file, count, bytes) = state.next_write();
            state.writing = true;
            drop(state);
            let written = match file {
                Some(mut file) => file.write_all(&bytes).and_then(|()| file.sync()).map(|()| file),
                None => Err(io::Error::other("the file is not open")),
            };
            state = self.state();
            state.writing = false;
            let settled = state.settle(count, written);
            self.is_written.notify_all();
            settled?;
        }
    }

    /// How many keys `client` was granted today, and all clients under the service's key.
    #[cfg(test)]
    pub fn granted(&self, client: &str) -> (u64, u64) {
        let mut state = self.state();
        let time = state.time(&self.clock.now());
        state.turn(day(time));
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
    at_first: u64,
    a_minute: u32,
    lifetime: u64,
}

impl Wish {
    /// What the keys are summed up under that the client takes besides those of its days.
    fn first(&self) -> Id {
        id("first", &[self.key, self.client].concat())
    }
}

/// The file and what its records come to.
struct State {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// None while a thread writes to it, and when a write has failed.
    file: Option<Box<dyn DiskFile>>,
    /// How often the file was written anew.
    generation: u64,
    /// Where the budget's clock stood when the machine was started.
    started: Started,
    /// The last second of it that is marked, or that follows from what else is in the file.
    reached: i64,
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
    /// Clients that were told on this day that the key's life has too few keys left.
    over: HashSet<Id>,
    /// A write failed: what is on the disk is not known.
    failed: bool,
    /// How many requests each client may make at once, and since when.
    buckets: HashMap<Id, (f64, Instant)>,
}

impl State {
    /// The state of the file, and what the operator is to hear.
    fn open(path: &Path, disk: &Arc<dyn Disk>, now: &Now) -> Result<(Self, Option<String>), Error> {
        let mut file = match disk.read(path).and_then(|_| disk.open(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let started = begin(now, 0);
                let file = make(&**disk, path, 0, started, &[])?;
                let mut state = Self::new(path, disk.clone(), file, 0, started);
                state.turn(day(state.time(now)));
                return Ok((state, None));
            }
            Err(error) => return Err(Error::file("cannot open", path)(error)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::file("cannot read", path))?;
        let damaged = |why: String| Error::Damaged {
            path: path.to_owned(),
            why: format!(
                "{why}. It says how many keys clients were granted: restore it from a copy. Whoever takes it away gives every \
                 client its day and the key its life back"
            ),
        };
        let front: Option<&[u8; FRONT]> = bytes.first_chunk();
        let (generation, started) =
            front.and_then(read_front).ok_or_else(|| damaged("its front cannot be read".into()))?;
        let mut state = Self::new(path, disk.clone(), file, generation, started);
        let entries: Vec<&[u8]> = bytes[FRONT..].chunks(ENTRY).collect();
        let broken_at = |place: usize| damaged(format!("its entry at byte {} is broken", FRONT + place * ENTRY));
        // The first entry of which no copy is whole: those after it must be of the same write.
        let mut broken: Option<usize> = None;
        for (place, entry) in entries.iter().enumerate() {
            let copies = [0, 1].map(|copy| read_copy(generation, place as u64, copy, entry));
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
        let last = state.day;
        state.reached = state.reached.max(i64::from(last) * SECONDS_A_DAY);
        // If less time has passed than before, it is another one's: of a container that was started anew, on a machine that was not.
        let goes_on = now.boot == Some(started.boot) && state.time(now) >= state.reached;
        if !goes_on {
            state.started = begin(now, state.reached);
            state.reached = state.time(now);
        }
        let today = day(state.time(now));
        state.turn(today);
        // Of what was found nobody knows whether it is there for good: a server that was killed before it had brought an entry to the disk, or the name
        // of the file, or failed in that, left them looking like any others. Besides, what follows a torn entry could not be told from damage, and the
        // next start of the server is to know the clock.
        state.renew()?;
        let long = !goes_on && last > 0 && today > last.saturating_add(LONG);
        let news = long.then(|| {
            format!(
                "{}: keys were last granted on {}, and the clock says that it is {}. If that is wrong, correct it and start the machine \
                 again: by the wrong clock every client has been given a new day",
                path.display(),
                spelled(i64::from(last) * SECONDS_A_DAY),
                spelled(seconds(now.wall))
            )
        });
        Ok((state, news))
    }

    fn new(path: &Path, disk: Arc<dyn Disk>, file: Box<dyn DiskFile>, generation: u64, started: Started) -> Self {
        Self {
            path: path.to_owned(),
            disk,
            file: Some(file),
            generation,
            entries: 0,
            queue: Vec::new(),
            queued: 0,
            durable: 0,
            writing: false,
            started,
            reached: started.at,
            day: 0,
            today: HashMap::new(),
            ever: HashMap::new(),
            over: HashSet::new(),
            failed: false,
            buckets: HashMap::new(),
        }
    }

    /// What the budget's clock says, in seconds since 1970.
    fn time(&self, now: &Now) -> i64 {
        self.started.at.saturating_add(whole_seconds(now.up)).max(0)
    }

    /// How the system's clock differs from the budget's, if it does by much.
    fn doubt(&self, now: &Now) -> Option<String> {
        let (wall, time) = (seconds(now.wall), self.time(now));
        let start = if now.boot.is_some() { "the machine" } else { "this server" };
        (wall.abs_diff(time) > FAR).then(|| {
            format!(
                "the clock says {}, and by the time that has passed since {start} was started it is {}. Clients' days go by the latter, which \
                 nobody can set; the clock is asked again when {start} is started again",
                spelled(wall),
                spelled(time)
            )
        })
    }

    /// It is `day` now, or still the last one that was seen.
    fn turn(&mut self, day: u32) {
        if day > self.day {
            self.day = day;
            self.today.clear();
            self.over.clear();
        }
    }

    fn count(&mut self, record: &Record) {
        self.turn(record.day);
        if record.client == NOBODY && record.key == NOBODY {
            self.reached = self.reached.max(i64::try_from(record.keys).unwrap_or(i64::MAX));
        }
        if record.client != NOBODY && record.day == self.day {
            let sum = self.today.entry(record.client).or_default();
            *sum = sum.saturating_add(record.keys);
        }
        if record.key != NOBODY {
            let sum = self.ever.entry(record.key).or_default();
            *sum = sum.saturating_add(record.keys);
        }
    }

    /// Marks the time, to be written; gives the number of that. None if so much time has not passed since the last mark.
    fn mark(&mut self, now: &Now, after: Duration) -> Option<u64> {
        let time = self.time(now);
        if time <= self.reached || time - self.reached < whole_seconds(after) {
            return None;
        }
        let record = Record::mark(time);
        self.count(&record);
        self.queue.push(record);
        self.queued += 1;
        Some(self.queued)
    }

    /// Counts a grant that is still to be written; gives its number.
    fn queue(&mut self, wish: &Wish, now: &Now, instant: Instant) -> Result<u64, Exhausted> {
        if let Some(wait) = self.too_often(wish, instant) {
            return Err(Exhausted::Minute { wait });
        }
        let time = self.time(now);
        self.turn(day(time));
        let left =
            |sums: &HashMap<Id, u64>, id: &Id, most: u64| most.saturating_sub(sums.get(id).copied().unwrap_or(0));
        let today = left(&self.today, &wish.client, wish.a_day);
        let first = if wish.at_first > 0 { left(&self.ever, &wish.first(), wish.at_first) } else { 0 };
        if wish.keys > today.saturating_add(first) {
            // When the day is over, in the system's time, which is what the client is told.
            let rest = (i64::from(self.day) + 1) * SECONDS_A_DAY - time;
            let again = now.wall.checked_add(Duration::from_secs(rest.max(0) as u64)).unwrap_or(now.wall);
            return Err(Exhausted::Day { left: today.saturating_add(first), again });
        }
        if wish.keys == 0 {
            return Ok(0);
        }
        if wish.keys > left(&self.ever, &wish.key, wish.lifetime) || self.over.contains(&wish.client) {
            self.over.insert(wish.client);
            return Err(Exhausted::Life);
        }
        let (day, of_day) = (self.day, wish.keys.min(today));
        let record = |client, key, keys| Record { client, key, keys, day, before: 0 };
        let mut records = vec![record(wish.client, wish.key, of_day)];
        if wish.keys > of_day {
            // Of the client's day there is nothing left then, and the key's life goes on.
            let more = wish.keys - of_day;
            records.extend([record(NOBODY, wish.first(), more), record(NOBODY, wish.key, more)]);
        }
        for record in records.into_iter().filter(|record| record.keys > 0) {
            self.count(&record);
            self.queue.push(record);
            self.queued += 1;
        }
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
    fn next_write(&mut self) -> (Option<Box<dyn DiskFile>>, u64, Vec<u8>) {
        let count = self.queue.len().min(MOST);
        let mut bytes = Vec::with_capacity(count * ENTRY);
        for (before, record) in self.queue.drain(..count).enumerate() {
            let record = Record { before: before as u32, ..record };
            bytes.extend(record.entry(self.generation, self.entries));
            self.entries += 1;
        }
        (self.file.take(), count as u64, bytes)
    }

    /// A write of so many grants is over.
    fn settle(&mut self, count: u64, written: io::Result<Box<dyn DiskFile>>) -> Result<(), Error> {
        match written {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                self.failed = true;
                return Err(Error::file("cannot write", &self.path)(error));
            }
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
        records.push(Record::mark(self.reached));
        // Until the new file has taken the old one's place for good, the old one counts, and nothing may be added to it.
        self.failed = true;
        self.file = Some(make(&*self.disk, &self.path, self.generation + 1, self.started, &records)?);
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
    /// The budget's clock has come so far, in seconds since 1970.
    fn mark(time: i64) -> Self {
        Self { client: NOBODY, key: NOBODY, keys: u64::try_from(time).unwrap_or(0), day: day(time), before: 0 }
    }

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

fn front(magic: &[u8; 16], generation: u64, started: Started) -> [u8; FRONT] {
    let mut front = [0; FRONT];
    front[..16].copy_from_slice(magic);
    front[16..24].copy_from_slice(&generation.to_le_bytes());
    front[24..40].copy_from_slice(&started.boot);
    front[40..48].copy_from_slice(&started.at.to_le_bytes());
    let sum = checksum(generation, u64::MAX, &front[..48]);
    front[48..].copy_from_slice(&sum);
    front
}

/// The generation of the file with this front, and its clock, if it is one.
fn read_front(bytes: &[u8; FRONT]) -> Option<(u64, Started)> {
    let generation = u64::from_le_bytes(*bytes[16..].first_chunk()?);
    let started = Started { boot: *bytes[24..].first_chunk()?, at: i64::from_le_bytes(*bytes[40..].first_chunk()?) };
    MAGIC.iter().any(|magic| front(magic, generation, started) == *bytes).then_some((generation, started))
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

/// The budget's clock from now on, where it does not go on: the system's, and no earlier than what it had `reached`.
fn begin(now: &Now, reached: i64) -> Started {
    let time = seconds(now.wall).max(reached);
    Started { boot: now.boot.unwrap_or(NOBODY), at: time.saturating_sub(whole_seconds(now.up)) }
}

/// The day of a moment, since 1970-01-01 in UTC.
fn day(seconds: i64) -> u32 {
    u32::try_from(seconds / SECONDS_A_DAY).unwrap_or(u32::MAX)
}

/// Makes sure that one server at a time uses the file. The lock is a file of its own, since the other one is replaced.
fn lock(path: &Path, world: &World) -> Result<Box<dyn DiskFile>, Error> {
    let lock = with_ending(path, ".lock");
    let file = world.disk.open(&lock).map_err(Error::file("cannot open", &lock))?;
    // A server that has just ended, or a child that is just being made of this process, may still hold it for a moment.
    match disk::lock(&*file, &*world.time, MOMENT, &|| false) {
        Ok(true) => Ok(file),
        Ok(false) => Err(Error::Setup(format!(
            "{}: another server uses this file; stop it, or give each service a store of its own",
            path.display()
        ))),
        Err(error) => Err(Error::file("cannot lock", &lock)(error)),
    }
}

/// Puts a file with these records at `path`. On return it is there for good; before, an older one is.
fn make(
    disk: &dyn Disk,
    path: &Path,
    generation: u64,
    started: Started,
    records: &[Record],
) -> Result<Box<dyn DiskFile>, Error> {
    let mut bytes = front(MAGIC[0], generation, started).to_vec();
    for (place, record) in records.iter().enumerate() {
        bytes.extend(record.entry(generation, place as u64));
    }
    replace(disk, &with_ending(path, ".new"), path, &bytes).map_err(Error::file("cannot write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::{Pace, Remedy, remedy};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use tempfile::TempDir;
    use vesica_job::worlds::Frail;

    const KEY: &[u8] = b"the first key";
    const MUCH: u64 = u64::MAX;
    const OFTEN: u32 = u32::MAX;

    fn folder() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.budget");
        (dir, path)
    }

    const DAY: u64 = SECONDS_A_DAY as u64;

    fn wall(day: u64, second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(day * DAY + second)
    }

    /// A moment at which the clock is right, on a machine that was started in 1970.
    fn at(day: u64, second: u64) -> Now {
        Now { wall: wall(day, second), boot: Some([7; 16]), up: Duration::from_secs(day * DAY + second) }
    }

    fn open(path: &Path, now: &Now) -> Budget {
        Budget::open_at(path, KEY, &World::default(), now).unwrap()
    }

    fn reopen(path: &Path) -> Result<Budget, Error> {
        Budget::open(path, KEY, &World::default())
    }

    fn wish(client: &str, keys: u64, a_day: u64) -> Wish {
        let client = id("client", client.as_bytes());
        Wish { client, key: id("key", KEY), keys, a_day, at_first: 0, a_minute: OFTEN, lifetime: MUCH }
    }

    fn take(budget: &Budget, client: &str, keys: u64, a_day: u64, now: Now) -> Result<(), Exhausted> {
        budget.grant(&wish(client, keys, a_day), &now, Instant::now()).unwrap()
    }

    #[test]
    fn a_day_has_so_many_keys_for_each_client() {
        let (_dir, path) = folder();
        let now = at(30_000, 86_399);
        let budget = open(&path, &now);
        take(&budget, "alice", 60, 100, now).unwrap();
        let Err(refusal) = take(&budget, "alice", 41, 100, now) else { panic!("a key too many") };
        assert_eq!(refusal, Exhausted::Day { left: 40, again: wall(30_001, 0) });
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

    /// Nobody who sets the clock sets the budget's. Before, a jump forward by a day gave every client its day a second time, and after a jump
    /// forward by years there was no new day for as many years, also if the clock had been put right.
    #[test]
    fn a_clock_that_jumps_begins_no_day() {
        let (_dir, path) = folder();
        let budget = open(&path, &at(30_000, 5));
        take(&budget, "alice", 100, 100, at(30_000, 5)).unwrap();
        let jumps = |to: SystemTime, second: u64| Now { wall: to, ..at(30_000, second) };
        let clocks = [wall(30_001, 5), wall(30_000, 5), wall(29_999, 5), wall(40_000, 0), wall(30_002, 0)];
        for (second, clock) in (10..).zip(clocks.into_iter().chain([SystemTime::UNIX_EPOCH - Duration::from_secs(1)])) {
            let now = jumps(clock, second);
            // It is told how long the day still is, in the clock's time.
            let again = clock + Duration::from_secs(DAY - second);
            assert_eq!(take(&budget, "alice", 1, 100, now), Err(Exhausted::Day { left: 0, again }));
            // Nor does what another client takes by that clock.
            take(&budget, "bob", 1, 100, now).unwrap();
        }
        drop(budget);
        // Nor a restart of the server, whatever the clock says then, and also if nothing is granted before a second one.
        for clock in [wall(30_001, 5), wall(40_000, 0), wall(20_000, 0), wall(30_000, 30)] {
            let now = jumps(clock, 30);
            let budget = open(&path, &now);
            assert!(budget.news.is_none());
            assert!(take(&budget, "alice", 1, 100, now).is_err());
            let doubt = budget.state().doubt(&now);
            assert_eq!(doubt.is_some(), clock != wall(30_000, 30));
            assert!(doubt.is_none_or(|doubt| doubt.contains("it is 2052-02-20T00:00:30Z")));
        }
        let budget = open(&path, &jumps(wall(40_000, 0), 40));
        assert!(take(&budget, "bob", 95, 100, at(30_000, 50)).is_err());
        take(&budget, "bob", 94, 100, at(30_000, 50)).unwrap();
        // When a day has passed, there is one, and one only.
        let late = jumps(wall(29_000, 0), DAY + 1);
        take(&budget, "alice", 100, 100, late).unwrap();
        assert!(take(&budget, "alice", 1, 100, at(30_001, DAY - 1)).is_err());
        take(&budget, "alice", 1, 100, at(30_002, 0)).unwrap();
    }

    /// At the start of a machine the clock is all that there is. A wrong one gives one day, and when it has been put right the next day comes
    /// after 24 hours.
    #[test]
    fn a_wrong_clock_at_the_start_of_the_machine_costs_no_more_than_a_day() {
        let (_dir, path) = folder();
        take(&open(&path, &at(30_000, 5)), "alice", 100, 100, at(30_000, 5)).unwrap();
        let started = |boot: u8, clock: SystemTime, up: u64| Now {
            wall: clock,
            boot: Some([boot; 16]),
            up: Duration::from_secs(up),
        };
        // A month later or less is no news, and neither is a restart of the server.
        let wrong = started(8, wall(30_100, 7), 20);
        let budget = open(&path, &wrong);
        let news = budget.news.clone().unwrap();
        assert!(news.contains("last granted on 2052-02-20") && news.contains("2052-05-30T00:00:07Z"), "{news}");
        take(&budget, "alice", 100, 100, wrong).unwrap();
        drop(budget);
        // The machine is started with the right clock: the day goes on from its seventh second, and then come others.
        let right = |up: u64| started(9, wall(30_000, 60 + up), up);
        let budget = open(&path, &right(10));
        assert!(budget.news.is_none() && budget.state().doubt(&right(10)).is_some());
        assert!(take(&budget, "alice", 1, 100, right(10)).is_err());
        assert!(take(&budget, "alice", 1, 100, right(DAY + 2)).is_err());
        take(&budget, "alice", 100, 100, right(DAY + 3)).unwrap();
        assert!(take(&budget, "alice", 1, 100, right(2 * DAY + 2)).is_err());
        take(&budget, "alice", 1, 100, right(2 * DAY + 3)).unwrap();
        drop(budget);
        // One that was down for a week, and one of which nobody knows when it was started.
        let now = started(10, wall(30_110, 0), 20);
        let budget = open(&path, &now);
        assert!(budget.news.is_none() && budget.state().doubt(&now).is_none());
        take(&budget, "alice", 100, 100, now).unwrap();
        drop(budget);
        let unknown = |clock: SystemTime| Now { wall: clock, boot: None, up: Duration::from_secs(3) };
        assert!(take(&open(&path, &unknown(wall(30_109, 0))), "alice", 1, 100, unknown(wall(30_109, 0))).is_err());
        let budget = open(&path, &unknown(wall(30_111, 0)));
        take(&budget, "alice", 100, 100, unknown(wall(30_111, 0))).unwrap();
        assert!(
            take(&budget, "alice", 1, 100, unknown(wall(30_112, 0))).is_err(),
            "in one process time passes as it does"
        );
        // A container may begin to count anew on a machine that was not started.
        drop(budget);
        let anew = started(10, wall(30_112, 0), 5);
        take(&open(&path, &anew), "alice", 100, 100, anew).unwrap();
    }

    /// A machine that is switched off every evening, and once began with a clock that was a year ahead. The last day in the file began once more at
    /// each start, and was never over.
    #[test]
    fn a_machine_that_never_runs_for_a_day_has_days() {
        let (_dir, path) = folder();
        // Eight hours from nine o'clock on. The wrong clock says 30_365, and the right one 30_000.
        let moment = |start: u64, up: u64| {
            let day = if start == 0 { 30_365 } else { 30_000 + start };
            let clock = wall(day, 9 * 3600 + up);
            Now { wall: clock, boot: Some([start as u8; 16]), up: Duration::from_secs(up) }
        };
        let mut days = Vec::new();
        for start in 0..12 {
            let budget = open(&path, &moment(start, 60));
            for up in (60..8 * 3600).step_by(300) {
                let now = moment(start, up);
                budget.mark_at(&now, MARK).unwrap();
                if take(&budget, "alice", 100, 100, now).is_ok() {
                    days.push((start, up / 3600));
                }
            }
        }
        // From nine to midnight are fifteen hours, and from then on a day is three starts, but for what was not marked.
        assert_eq!(days, [(0, 0), (1, 7), (4, 7), (8, 0), (11, 0)]);
        // When the clock has come to where the budget's is, days are its own again.
        let budget = open(&path, &moment(400, 60));
        take(&budget, "alice", 100, 100, moment(400, 60)).unwrap();
        assert!(budget.state().doubt(&moment(400, 60)).is_none());
    }

    /// Containers of one machine: each has a time of its own, and all know the same start of the machine. One that was started anew lived through the
    /// hours of its day once more.
    #[test]
    fn a_container_that_is_started_anew_repeats_no_day() {
        let (_dir, path) = folder();
        let moment = |day: u64, second: u64, up: u64| Now {
            wall: wall(day, second),
            boot: Some([7; 16]),
            up: Duration::from_secs(up),
        };
        let budget = open(&path, &moment(30_000, 100, 5));
        take(&budget, "alice", 100, 100, moment(30_000, 100, 5)).unwrap();
        budget.mark_at(&moment(30_000, 36_000, 35_905), MARK).unwrap();
        drop(budget);
        // At ten o'clock, and sixteen hours later it is two o'clock of the next day.
        let budget = open(&path, &moment(30_000, 36_010, 3));
        assert!(take(&budget, "alice", 1, 100, moment(30_000, 36_020, 13)).is_err());
        let late = moment(30_001, 7_200, 3 + 57_590);
        take(&budget, "alice", 100, 100, late).unwrap();
        assert!(take(&budget, "alice", 1, 100, late).is_err() && budget.state().doubt(&late).is_none());
        // And again in the same minute, with a clock that is behind: nothing is given back.
        drop(budget);
        let behind = moment(29_999, 0, 1);
        assert!(take(&open(&path, &behind), "alice", 1, 100, behind).is_err());
    }

    /// Whatever the clocks say and however often machine, container and server are started: a client has no more days than the time that passed
    /// has, and two for each start at which the clock was believed. What was granted on a day is not forgotten.
    #[test]
    fn no_clock_gives_back_what_was_granted() {
        let mut random = 1u64;
        let mut random = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..5 {
            let (_dir, path) = folder();
            let (mut passed, mut days, mut starts) = (0, 0, 0);
            let (mut boot, mut up, mut clock) = (0, 100, 30_000 * DAY);
            for _ in 0..40 {
                match random(4) {
                    // The machine, or a container on it.
                    0 => (boot, up, starts) = (boot + 1, random(200), starts + 1),
                    1 => (up, starts) = (random(200), starts + 1),
                    // The server alone.
                    _ => {}
                }
                // The clock jumps by up to three days, either way.
                clock = clock + random(6 * DAY) - 3 * DAY;
                let now = |passed: u64| Now {
                    wall: wall(0, clock + passed),
                    boot: Some([boot; 16]),
                    up: Duration::from_secs(up + passed),
                };
                let budget = open(&path, &now(0));
                let before = budget.state().day;
                for _ in 0..random(20) {
                    let more = random(8_000);
                    (passed, up, clock) = (passed + more, up + more, clock + more);
                    let now = Now { wall: wall(0, clock), boot: Some([boot; 16]), up: Duration::from_secs(up) };
                    budget.mark_at(&now, MARK).unwrap();
                    days += u64::from(take(&budget, "alice", 100, 100, now).is_ok());
                }
                assert!(budget.state().day >= before);
            }
            assert!(days <= 1 + 2 * (1 + starts) + passed / DAY, "{days} days, {starts} starts, {passed} s");
            assert!(days >= passed / DAY / 2, "{days} days in {passed} s");
        }
    }

    /// The machine's own clocks: time passes, and the start of the machine is the same one.
    #[test]
    fn time_passes() {
        let clock = || Clock::new(World::default().time);
        let (first, other) = (clock().now(), clock().now());
        assert!(first.boot == other.boot && (first.boot.is_none() || other.up >= first.up));
        let (_dir, path) = folder();
        let budget = reopen(&path).unwrap();
        assert!(budget.doubt().is_none() && budget.news.is_none());
        assert_eq!(budget.state().day, day(seconds(SystemTime::now())));
    }

    /// A file without a clock is taken, and has one afterwards.
    #[test]
    fn a_file_of_the_version_before_keeps_its_grants() {
        let (_dir, path) = folder();
        let unknown = Started { boot: NOBODY, at: 0 };
        let record = Record { client: id("client", b"alice"), key: id("key", KEY), keys: 60, day: 30_000, before: 0 };
        std::fs::write(&path, [&front(MAGIC[1], 3, unknown)[..], &record.entry(3, 0)].concat()).unwrap();
        let budget = open(&path, &at(30_000, 5));
        assert!(take(&budget, "alice", 41, 100, at(30_000, 5)).is_err());
        take(&budget, "alice", 40, 100, at(30_000, 5)).unwrap();
        drop(budget);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(read_front(bytes.first_chunk().unwrap()), Some((4, Started { boot: [7; 16], at: 0 })));
    }

    /// Two clients of one key: what the one hears does not say what the other has asked for. Before, it was told how many keys are left of what all
    /// may ask for, and without that it could find out by asking for fewer and fewer.
    #[test]
    fn a_client_does_not_hear_what_another_has_asked_for() {
        let now = at(30_000, 5);
        let heard = [30, 59].map(|others: u64| {
            let (_dir, path) = folder();
            let budget = open(&path, &now);
            let take = |client: &str, keys: u64, now: &Now| {
                let wish = Wish { lifetime: 100, key: budget.key, ..wish(client, keys, 90) };
                budget.grant(&wish, now, Instant::now()).unwrap().map_err(|refusal| refusal.to_string())
            };
            take("bob", others, &now).unwrap();
            let told: Vec<_> = [0, 91, 80, 45, 43, 42, 41, 1, 0].map(|keys| take("alice", keys, &now)).into();
            assert!(
                told[2]
                    .as_ref()
                    .is_err_and(|why| why.contains("too few are left") && !why.contains(['0', '1', '4', '8']))
            );
            // What she was refused is taken from nobody.
            assert!(told[0].is_ok() && told[8].is_ok() && take("bob", 90 - others, &now).is_ok());
            // On the next day she hears it again, or not.
            (told, take("alice", 10, &at(30_001, 5)))
        });
        assert_eq!(heard[0], heard[1]);
        assert!(heard[0].1.is_ok());
    }

    /// What a client may ask for once besides its days goes on over days, restarts and a file that is written anew, and begins anew with the key.
    #[test]
    fn a_client_has_so_many_keys_once_besides_its_days() {
        let (_dir, path) = folder();
        let ask = |budget: &Budget, client: &str, keys: u64, day: u64| {
            let wish = Wish { at_first: 50, lifetime: 1000, key: budget.key, ..wish(client, keys, 10) };
            budget.grant(&wish, &at(day, 0), Instant::now()).unwrap()
        };
        let left = |refused: Result<(), Exhausted>| match refused {
            Err(Exhausted::Day { left, .. }) => left,
            other => panic!("{other:?}"),
        };
        let reopen = |key: &[u8], day: u64| Budget::open_at(&path, key, &World::default(), &at(day, 0)).unwrap();
        let budget = reopen(KEY, 30_000);
        assert_eq!(left(ask(&budget, "alice", 61, 30_000)), 60);
        ask(&budget, "alice", 35, 30_000).unwrap();
        assert_eq!(left(ask(&budget, "alice", 26, 30_000)), 25);
        drop(budget);
        let budget = reopen(KEY, 30_000);
        assert_eq!(left(ask(&budget, "alice", 26, 30_000)), 25);
        // Another day has its own keys, and another client its own of both.
        assert_eq!(left(ask(&budget, "alice", 36, 30_001)), 35);
        ask(&budget, "alice", 10, 30_001).unwrap();
        budget.state().renew().unwrap();
        drop(budget);
        let budget = reopen(KEY, 30_001);
        assert_eq!(left(ask(&budget, "alice", 26, 30_001)), 25);
        ask(&budget, "alice", 25, 30_001).unwrap();
        assert_eq!(left(ask(&budget, "alice", 1, 30_001)), 0);
        ask(&budget, "bob", 60, 30_001).unwrap();
        ask(&budget, "alice", 10, 30_002).unwrap();
        assert_eq!(left(ask(&budget, "alice", 1, 30_002)), 0);
        // All of it counts for the key's life: 35, 10, 25, 60 and 10.
        let rest = Wish { lifetime: 141, key: budget.key, ..wish("carol", 2, 10) };
        assert_eq!(budget.grant(&rest, &at(30_002, 0), Instant::now()).unwrap(), Err(Exhausted::Life));
        drop(budget);
        ask(&reopen(b"another key", 30_003), "alice", 60, 30_003).unwrap();
    }

    #[test]
    fn a_key_has_a_life_over_all_clients_and_days() {
        let (_dir, path) = folder();
        let take = |budget: &Budget, client: &str, keys: u64, day: u64| {
            let wish = Wish { lifetime: 100, key: budget.key, ..wish(client, keys, MUCH) };
            budget.grant(&wish, &at(day, 0), Instant::now()).unwrap()
        };
        let reopen = |key: &[u8], day: u64| Budget::open_at(&path, key, &World::default(), &at(day, 0)).unwrap();
        let budget = reopen(KEY, 30_000);
        take(&budget, "alice", 60, 30_000).unwrap();
        take(&budget, "bob", 30, 30_001).unwrap();
        assert_eq!(take(&budget, "alice", 11, 30_002), Err(Exhausted::Life));
        drop(budget);
        // A new key has a new life, and the old one has kept its own when it comes back.
        let budget = reopen(b"another key", 30_002);
        take(&budget, "alice", 100, 30_002).unwrap();
        budget.state().renew().unwrap();
        drop(budget);
        let budget = reopen(KEY, 30_003);
        assert_eq!(take(&budget, "alice", 11, 30_003), Err(Exhausted::Life));
        assert_eq!(take(&budget, "alice", 10, 30_003), Err(Exhausted::Life), "until the day is over");
        take(&budget, "alice", 10, 30_004).unwrap();
    }

    /// What a refusal says is what a client reads in it; and words that nobody says here are not taken for it.
    #[test]
    fn a_client_knows_what_to_do_about_a_refusal() {
        let day = Exhausted::Day { left: 785_280, again: SystemTime::now() };
        assert_eq!(remedy(&day.to_string()), Some(Remedy::Fewer(785_280)));
        let wait = |milliseconds| Exhausted::Minute { wait: Duration::from_millis(milliseconds) }.to_string();
        assert_eq!(remedy(&wait(9_500)), Some(Remedy::Wait(Duration::from_secs(10))));
        let others = [Exhausted::Life.to_string(), Error::Superseded.to_string(), wait(61_000), format!("many{DAY}")];
        assert!(others.iter().all(|why| remedy(why).is_none()));
    }

    /// 96 requests at six a minute: those that are refused are fewer than end a connection, and hardly more time passes than must.
    #[test]
    fn a_client_that_asked_too_often_learns_how_often_it_may() {
        let dir = TempDir::new().unwrap();
        let budget = Budget::open(&dir.path().join("budget"), KEY, &World::default()).unwrap();
        let begin = Instant::now();
        for each in [0, 700, 12_000] {
            let wish = Wish { a_minute: 6, ..wish(&format!("alice {each}"), 1, MUCH) };
            let (mut now, mut pace, mut refused) = (begin, Pace::new(begin), 0);
            let mut granted = 0;
            while granted < 96 {
                now += pace.left(now);
                let begun = now;
                now += Duration::from_millis(20);
                match budget.grant(&wish, &budget.clock.now(), now).unwrap() {
                    Ok(()) => {
                        granted += 1;
                        now += Duration::from_millis(each);
                        pace.granted(begun);
                    }
                    Err(why) => {
                        let Some(Remedy::Wait(wait)) = remedy(&why.to_string()) else { panic!("{why}") };
                        pace.refused(now, wait);
                        refused += 1;
                    }
                }
            }
            let (passed, least) = (now - begin, Duration::from_millis((90 * 10_000).max(96 * each)));
            assert!(refused <= 3 && passed < least + Duration::from_secs(100), "{refused} refused, {passed:?}");
        }
    }

    #[test]
    fn a_minute_has_so_many_requests() {
        let (_dir, path) = folder();
        let budget = reopen(&path).unwrap();
        let begin = Instant::now();
        let ask = |client: &str, after: f64| {
            let wish = Wish { a_minute: 6, ..wish(client, 1, MUCH) };
            budget.grant(&wish, &budget.clock.now(), begin + Duration::from_secs_f64(after)).unwrap()
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
        let budget = reopen(&path).unwrap();
        let granted: u64 = std::thread::scope(|scope| {
            let one =
                || (0..50).filter(|_| budget.take("alice", 3, (200, 0), OFTEN, MUCH).unwrap().is_ok()).count() as u64;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(granted, 66);
        drop(budget);
        assert_eq!(reopen(&path).unwrap().granted("alice"), (198, 198));
    }

    #[test]
    fn two_servers_do_not_share_a_file() {
        let (_dir, path) = folder();
        let budget = reopen(&path).unwrap();
        let error = reopen(&path).err().unwrap();
        assert!(error.to_string().contains("another server uses this file"), "{error}");
        // Nor does a file that was written anew meanwhile.
        budget.state().renew().unwrap();
        assert!(reopen(&path).is_err());
        drop(budget);
        reopen(&path).unwrap();
    }

    /// A file with three grants to alice today, of 1, 10 and 100 keys.
    fn three(path: &Path) -> Vec<u8> {
        let budget = reopen(path).unwrap();
        for keys in [1, 10, 100] {
            budget.take("alice", keys, (MUCH, 0), OFTEN, MUCH).unwrap().unwrap();
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
            let opened = reopen(&path);
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
            budget.take("alice", 1000, (MUCH, 0), OFTEN, MUCH).unwrap().unwrap();
            drop(budget);
            assert_eq!(reopen(&path).unwrap().granted("alice").0, want + 1000, "cut at {end}");
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
            match reopen(&path) {
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
            let error = reopen(&path).err().unwrap().to_string();
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
        std::fs::write(&path, b"vesica budget 3\n and what not, in a format that comes after this one: much later")
            .unwrap();
        assert!(reopen(&path).err().unwrap().to_string().contains("front cannot be read"));
    }

    #[test]
    fn a_write_of_several_grants_may_be_torn_anywhere() {
        let (_dir, path) = folder();
        let budget = reopen(&path).unwrap();
        budget.take("alice", 1, (MUCH, 0), OFTEN, MUCH).unwrap().unwrap();
        let bytes = {
            let mut state = budget.state();
            for keys in [10, 100, 1000] {
                state.queue(&wish("alice", keys, MUCH), &budget.clock.now(), Instant::now()).unwrap();
            }
            state.next_write().2
        };
        drop(budget);
        let before = std::fs::read(&path).unwrap();
        let opened = |lost: &[usize], then: &[u8]| {
            let mut bytes = [&before, bytes.as_slice(), then].concat();
            lost.iter().for_each(|entry| bytes[FRONT + entry * ENTRY..][..ENTRY].fill(0));
            std::fs::write(&path, &bytes).unwrap();
            reopen(&path).map(|budget| budget.granted("alice").0)
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
        let budget = reopen(&path).unwrap();
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
                state.file.as_mut().unwrap().write_all(&bytes).unwrap();
                state.entries += 1;
                state.count(&record);
            }
        }
        let before = std::fs::metadata(&path).unwrap().len();
        (0..5).for_each(|_| budget.take("alice", 2, (MUCH, 0), OFTEN, MUCH).unwrap().unwrap());
        let after = std::fs::metadata(&path).unwrap().len();
        assert!(before > 500_000 && after < 2000, "{before} to {after} bytes");
        assert_eq!(budget.granted("alice"), (10, SPARE + 11));
        drop(budget);
        assert_eq!(reopen(&path).unwrap().granted("alice"), (10, SPARE + 11));
        // A crash before the new file took the old one's place leaves a piece of it.
        std::fs::write(with_ending(&path, ".new"), b"a piece").unwrap();
        let budget = reopen(&path).unwrap();
        budget.state().renew().unwrap();
        assert_eq!(budget.granted("alice"), (10, SPARE + 11));
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_write_that_fails_grants_nothing_and_neither_do_those_after_it() {
        let (_dir, path) = folder();
        let budget = reopen(&path).unwrap();
        budget.take("alice", 1, (MUCH, 0), OFTEN, MUCH).unwrap().unwrap();
        budget.state().file = Some(Box::new(std::fs::File::open(&path).unwrap()));
        let error = budget.take("alice", 1, (MUCH, 0), OFTEN, MUCH).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("list.budget"), "{error}");
        budget.state().file = Some(World::default().disk.open(&path).unwrap());
        let error = budget.take("alice", 1, (MUCH, 0), OFTEN, MUCH).unwrap_err().to_string();
        assert!(error.contains("start the server again"), "{error}");
        // What was not written is not there afterwards.
        drop(budget);
        assert_eq!(reopen(&path).unwrap().granted("alice").0, 1);
    }

    /// A server is killed at any write, another one goes on, and then the power fails: what both granted is granted afterwards.
    #[test]
    fn a_failure_of_power_gives_nothing_back() {
        let now = at(30_000, 5);
        // The first servers make the file, and the others write it anew.
        for spare in [0, SPARE + 100] {
            Frail::at_each_write(9, |world, disk, writes| {
                let (_dir, path) = folder();
                let mut granted = 0;
                if spare > 0 {
                    // Records of a day that is over.
                    let started = Started { boot: [7; 16], at: 0 };
                    let old = Record { client: [9; 16], key: id("key", KEY), keys: 0, day: 29_000, before: 0 };
                    make(&*World::default().disk, &path, 0, started, &vec![old; spare as usize]).unwrap();
                }
                let mut serve = || {
                    let budget = Budget::open_at(&path, KEY, world, &now)?;
                    for _ in 0..3 {
                        budget.grant(&wish("alice", 10, MUCH), &now, Instant::now())?.expect("there are enough");
                        granted += 10;
                    }
                    Ok::<_, Error>(())
                };
                let is_killed = serve().is_err();
                disk.revive(1000);
                serve().unwrap();
                disk.power_fails();
                let budget = open(&path, &now);
                let most = granted + 30;
                assert!(take(&budget, "alice", most - granted + 1, most, now).is_err(), "{writes} writes");
                is_killed
            });
        }
    }

    /// A grant whose sync failed is none, and is found by the next server as if it were there for good. What that grants behind it is not lost.
    #[test]
    fn a_grant_whose_sync_failed_takes_none_with_it() {
        let (_dir, path) = folder();
        let (now, (world, disk)) = (at(30_000, 5), Frail::world(1000));
        let open = || Budget::open_at(&path, KEY, &world, &now);
        let grant = |budget: &Budget| budget.grant(&wish("alice", 10, MUCH), &now, Instant::now()).map(Result::unwrap);
        grant(&open().unwrap()).unwrap();
        let budget = open().unwrap();
        disk.sync_fails();
        assert!(grant(&budget).is_err());
        drop(budget);
        let budget = open().unwrap();
        assert!(disk.is_for_good(&path));
        grant(&budget).unwrap();
        drop(budget);
        disk.power_fails();
        assert_eq!(open().unwrap().granted("alice").1, 30);
    }

    /// A server that is killed while it grants: what it said it granted is granted afterwards.
    #[test]
    fn a_server_that_is_killed_gives_nothing_back() {
        const CHILD: &str = "VESICA_TEST_BUDGET";
        if let Ok(path) = std::env::var(CHILD) {
            let budget = reopen(Path::new(&path)).unwrap();
            let mut out = io::stdout();
            loop {
                budget.take("alice", 1, (MUCH, 0), OFTEN, MUCH).unwrap().unwrap();
                writeln!(out, "granted {}", budget.granted("alice").1).unwrap();
            }
        }
        let (_dir, path) = folder();
        let mut told = 0;
        for grants in [1, 40, 7, 100] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "server::budget::tests::a_server_that_is_killed_gives_nothing_back", "--nocapture"])
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
            assert!(reopen(&path).is_err(), "it is locked");
            child.kill().unwrap();
            told = said.last().unwrap_or(told);
            child.wait().unwrap();
            let granted = reopen(&path).unwrap().granted("alice").1;
            assert!(granted == told || granted == told + 1, "{granted} are granted, and it told of {told}");
        }
    }
}
