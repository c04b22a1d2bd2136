//! From rows to keys: which rows have which key, before anything is known of the run.
//!
//! A key is the text of the key columns in an encoding without ambiguity, hashed to 32 bytes that never leave this
//! machine. After the parties have tossed their salt, [`Keys::salted`] hashes that digest with the salt to the 16 bytes
//! that a protocol works on. Two steps, so that a table is read and found good before a peer is contacted, and still no
//! choice of keys can depend on the salt; the first digest is wide, because whoever plants rows in a table can search
//! for collisions of an unsalted hash at leisure (2^64 steps for 16 bytes, 2^128 for 32).
//!
//! Rows are parted by their digest's first byte and sorted part by part, so that memory stays bounded and equal keys come
//! to stand together. A key's number is its part and its place there.

use crate::error::JobError;
use crate::input::feed::{Feed, Own};
use crate::input::sort::{self, Bins, Grouped, ascending};
use crate::tell::control::{Control, Event};
use crate::threads::cores;
use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Mutex;
use vesica_block::blake::{self, Message, Texts};
use vesica_session::Error;
use vesica_spec::{Duplicates, Plan, Rule, Share};
use vesica_table::{Spill, Spilled, Table, on_threads};
use vesica_types::Digest;

/// Parts that keys are sorted in, by the first byte of their digests.
pub const PARTS: usize = 256;

/// A record of a part: the key's digest, then the row's number, big-endian so that records sort by both.
const RECORD: usize = 40;

/// Bytes that a thread that reads and one that hashes hold together, going by rows of twenty bytes.
const WORKER: usize = 8 << 20;

/// Records that are read together.
const BLOCK: usize = 1 << 11;

/// The number of a key in this party's own order of its keys: the part that it is in, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyId(pub u64);

impl KeyId {
    /// Bits of the place; the part stands above them.
    const PLACE: u32 = 56;

    /// The key at `place` of `part`.
    pub fn new(part: usize, place: u64) -> Self {
        Self((part as u64) << Self::PLACE | place)
    }

    /// The part, which is less than [`PARTS`].
    pub fn part(self) -> usize {
        (self.0 >> Self::PLACE) as usize
    }

    /// The place among the keys of its part, in the order of their digests.
    pub fn place(self) -> usize {
        (self.0 & ((1 << Self::PLACE) - 1)) as usize
    }
}

/// A table's keys, and which rows have them.
pub struct Keys {
    /// Rows of the table.
    pub rows: u64,
    /// Distinct keys that are not empty.
    pub distinct: u64,
    /// Rows whose key is empty or has an empty column.
    pub empty: u64,
    /// Rows whose key stands in an earlier row too.
    pub duplicates: u64,
    /// What the rules did.
    pub ruled: Ruled,
    /// The first row whose key stands in an earlier row.
    repeated: Option<u64>,
    /// The rows that take part, key by key.
    parts: Parts,
    /// The rows without a key.
    empties: Spilled,
}

/// How the keys of a table are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The columns that make up the key.
    pub keys: &'a [String],
    /// What is done to each of them.
    pub rules: &'a [Vec<Rule>],
    /// What is done with a key that stands in several rows.
    pub duplicates: Duplicates,
    /// Bytes of memory of the whole run.
    pub memory: u64,
    /// Threads that work at once, at most.
    pub workers: u32,
}

impl<'a> From<&'a Plan> for Reading<'a> {
    fn from(plan: &'a Plan) -> Self {
        let Plan { keys, rules, shared, memory, workers, .. } = plan;
        Self { keys, rules, duplicates: shared.duplicates, memory: *memory, workers: *workers }
    }
}

/// Rows in parts, key by key.
enum Parts {
    /// Records with the digests of the keys.
    Digests(Spilled),
    /// The numbers of the rows alone, big-endian: [`FIRST`] is added to that of a key's first row.
    Numbers(Spilled),
}

/// Marks the number of a key's first row.
pub const FIRST: u64 = 1 << 63;

/// What the rules did to the keys of a table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ruled {
    /// Rows whose key is not as it stands in the table.
    pub changed: u64,
    /// Rows whose key became empty.
    pub emptied: u64,
}

/// A key as a unit gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salted {
    /// What the protocol works on.
    pub digest: Digest,
    /// 64 more bits of the same hash: which unit the key belongs to.
    pub spread: u64,
    /// The key's number.
    pub key: KeyId,
    /// Rows that have it.
    pub rows: u64,
}

impl Keys {
    /// Reads the key columns of `table` whole. The plan's memory bounds the bytes held; what is more goes to `dir`.
    ///
    /// # Errors
    /// What is wrong with the table, with the row; [`JobError::Repeats`]; a full disk; being cancelled.
    pub fn extract<'a>(
        table: &dyn Table,
        how: impl Into<Reading<'a>>,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let how = how.into();
        let keys = Self::read(table, &how, false, dir, ctl)?;
        match (how.duplicates, keys.repeated) {
            (Duplicates::Error, Some(row)) => {
                let path = table.path().to_owned();
                Err(JobError::Repeats { path, row: row + 1, rows: keys.duplicates })
            }
            _ => Ok(keys),
        }
    }

    /// Distinct keys as they are written, of the rows that have a key after the rules: more than there are keys, if rules
    /// made some of them the same.
    ///
    /// # Errors
    /// As [`Keys::extract`].
    pub fn spellings(table: &dyn Table, plan: &Plan, dir: &Path, ctl: &Control) -> Result<u64, JobError> {
        Ok(Self::read(table, &plan.into(), true, dir, ctl)?.distinct)
    }

    fn read(
        table: &dyn Table,
        how: &Reading<'_>,
        as_written: bool,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        let memory = Share::Keys.of(how.memory);
        let workers = cores(how.workers).min(Share::InFlight.of(how.memory) / WORKER).max(1);
        let feed = Feed::new(table.pieces(how.keys, workers)?);
        let taken = Mutex::new(Taken {
            unsorted: Spill::new(PARTS, RECORD, memory, dir)?,
            empties: Empties::new(memory / 16, dir)?,
            rows: 0,
            ruled: Ruled::default(),
        });
        let work = || -> Result<(), JobError> {
            let mut digester = Digester::new(how.rules, as_written);
            let (mut own, mut digested, mut grouped) = (Own::default(), Digested::default(), Grouped::default());
            while let Some((from, batch)) = feed.next(&mut own) {
                ctl.check()?;
                digester.digest(from, &batch, &mut digested);
                let part = |record: &[u8; RECORD]| usize::from(record[0]);
                grouped.group(PARTS, &digested.records, |place| part(&digested.records[place]));
                let mut taken = taken.lock().expect("no worker panics");
                taken.take(from, &digested, &grouped)?;
                ctl.event(Event::Done(taken.rows));
            }
            Ok(())
        };
        on_threads::<JobError>(workers, || work().inspect_err(|_| feed.stop()))?;
        feed.end()?;
        let Taken { unsorted, empties, rows, ruled } = taken.into_inner().expect("no worker panics");
        let empties = empties.finish()?;
        let sorted = sort(unsorted.finish()?, rows, how, memory, dir, ctl)?;
        let (distinct, empty) = (sorted.distinct, empties.total());
        let duplicates = rows - empty - distinct;
        let parts = Parts::Digests(sorted.parts);
        Ok(Self { rows, distinct, empty, duplicates, ruled, repeated: sorted.repeated, parts, empties })
    }

    /// Keys that an earlier attempt cut into units, of a table of `rows` rows: which rows have which key is left of them.
    /// `numbers` are the rows that take part, part by part and key by key, with [`FIRST`] at each key's first.
    pub fn cut(rows: u64, distinct: u64, numbers: Spilled, empties: Spilled) -> Self {
        let empty = empties.total();
        let (duplicates, ruled) = (rows.saturating_sub(empty + distinct), Ruled::default());
        Self { rows, distinct, empty, duplicates, ruled, repeated: None, parts: Parts::Numbers(numbers), empties }
    }

    /// Whether they can be cut into units: whether their digests are there.
    pub fn are_whole(&self) -> bool {
        matches!(self.parts, Parts::Digests(_))
    }

    /// Rows that take part in the join: all but those that the job leaves out for repeating a key.
    pub fn kept(&self) -> u64 {
        let (Parts::Digests(parts) | Parts::Numbers(parts)) = &self.parts;
        parts.total() + self.empty
    }

    /// Rows in `part` that take part in the join: it has as many keys at most.
    pub fn kept_in(&self, part: usize) -> usize {
        let (Parts::Digests(parts) | Parts::Numbers(parts)) = &self.parts;
        parts.len(part)
    }

    /// Every distinct key of `part` in order: its digest, its number, and how many rows have it.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn distinct(
        &self,
        part: usize,
        mut each: impl FnMut(&[u8; 32], KeyId, u64) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let Parts::Digests(parts) = &self.parts else {
            return Err(Error::Bug("keys without digests were asked for them".into()).into());
        };
        let (mut keys, mut last) = (0, None::<([u8; 32], KeyId, u64)>);
        each_record(parts, part, |first, record| match &mut last {
            Some((.., rows)) if !first => {
                *rows += 1;
                Ok(())
            }
            last => {
                let before = last.replace((*digest(record), KeyId::new(part, keys), 1));
                keys += 1;
                before.map_or(Ok(()), |(digest, key, rows)| each(&digest, key, rows))
            }
        })?;
        last.map_or(Ok(()), |(digest, key, rows)| each(&digest, key, rows))
    }

    /// Every distinct key of `part`, hashed with the run's salt.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn salted(
        &self,
        part: usize,
        salt: &[u8; 32],
        mut each: impl FnMut(Salted) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let salt = blake3::derive_key(SALTED, salt);
        let mut hashes = [[0; 32]; TOGETHER];
        let (mut digests, mut beside) = (Vec::with_capacity(TOGETHER), Vec::with_capacity(TOGETHER));
        let mut give = |digests: &mut Vec<[u8; 32]>, beside: &mut Vec<(KeyId, u64)>| {
            blake::keyed_rows(&salt, digests.as_flattened(), 32, &mut hashes);
            digests.clear();
            beside.drain(..).zip(&hashes).try_for_each(|((key, rows), hash)| {
                let (digest, spread) = parts(hash);
                each(Salted { digest, spread, key, rows })
            })
        };
        self.distinct(part, |digest, key, rows| {
            digests.push(*digest);
            beside.push((key, rows));
            if digests.len() == TOGETHER { give(&mut digests, &mut beside) } else { Ok(()) }
        })?;
        give(&mut digests, &mut beside)
    }

    /// The rows of `part`, key by key in the order of their numbers and then in the input's order, and whether each is its
    /// key's first.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn each(&self, part: usize, mut each: impl FnMut(bool, u64) -> Result<(), JobError>) -> Result<(), JobError> {
        match &self.parts {
            Parts::Digests(records) => each_record(records, part, |first, record| each(first, row(record)))?,
            Parts::Numbers(numbers) => {
                let (mut blocks, mut block) = (numbers.blocks(part, BLOCK), Vec::new());
                while blocks.next_into(&mut block)? {
                    for number in block.chunks_exact(8).map(row) {
                        each(number & FIRST != 0, number & !FIRST)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows without a key, in the input's order.
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn each_empty(&self, mut each: impl FnMut(u64) -> Result<(), JobError>) -> Result<(), JobError> {
        for block in self.empties.blocks(0, 1 << 13) {
            block?.chunks_exact(8).map(row).try_for_each(&mut each)?;
        }
        Ok(())
    }
}

/// What was taken of a table's batches.
struct Taken {
    unsorted: Spill,
    empties: Empties,
    rows: u64,
    ruled: Ruled,
}

impl Taken {
    /// Takes the batch that begins with row `from`.
    fn take(&mut self, from: u64, batch: &Digested, grouped: &Grouped<RECORD>) -> Result<(), JobError> {
        grouped.each(|part, records| self.unsorted.push_all(part, records.as_flattened()))?;
        self.empties.take(from, batch.rows, &batch.empties)?;
        self.ruled.changed += batch.ruled.changed;
        self.ruled.emptied += batch.ruled.emptied;
        self.rows += batch.rows;
        Ok(())
    }
}

/// The rows without a key, in the input's order, whatever the order in which batches come.
struct Empties {
    spill: Spill,
    /// The first row of the batch that is to come next.
    next: u64,
    /// Batches that came before their turn: their first rows, how many they have, and a bit for each of these, which is set
    /// if it has no key. None are there if all have one.
    early: BTreeMap<u64, (u64, Vec<u64>)>,
}

impl Empties {
    fn new(memory: usize, dir: &Path) -> Result<Self, JobError> {
        Ok(Self { spill: Spill::new(1, 8, memory, dir)?, next: 0, early: BTreeMap::new() })
    }

    /// Takes a batch of `rows` rows from row `from` on, of which `empties` have no key.
    fn take(&mut self, from: u64, rows: u64, empties: &[u64]) -> Result<(), JobError> {
        if from != self.next {
            let mut bits = vec![0; if empties.is_empty() { 0 } else { rows.div_ceil(64) as usize }];
            empties.iter().for_each(|row| bits[(row - from) as usize / 64] |= 1 << ((row - from) % 64));
            if rows > 0 {
                self.early.insert(from, (rows, bits));
            }
            return Ok(());
        }
        empties.iter().try_for_each(|row| self.spill.push(0, &row.to_be_bytes()))?;
        self.next += rows;
        while let Some((rows, bits)) = self.early.remove(&self.next) {
            for (word, first) in bits.into_iter().zip((self.next..).step_by(64)) {
                let mut set = (0..64).filter(|bit| word >> bit & 1 != 0);
                set.try_for_each(|bit| self.spill.push(0, &(first + bit).to_be_bytes()))?;
            }
            self.next += rows;
        }
        Ok(())
    }

    fn finish(self) -> Result<Spilled, JobError> {
        if let Some(first) = self.early.keys().next() {
            return Err(Error::Bug(format!("row {first} came, and row {} did not", self.next)).into());
        }
        Ok(self.spill.finish()?)
    }
}

/// The records of `part` in their order, and whether each is its key's first.
#[inline]
fn each_record(
    records: &Spilled,
    part: usize,
    mut each: impl FnMut(bool, &[u8; RECORD]) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let (mut blocks, mut block) = (records.blocks(part, BLOCK), Vec::new());
    let mut last = None;
    while blocks.next_into(&mut block)? {
        for record in block.as_chunks().0 {
            each(last.replace(*digest(record)) != Some(*digest(record)), record)?;
        }
    }
    Ok(())
}

/// Keys are hashed under a key of their own, so that these digests are of use nowhere else.
static KEY_DOMAIN: std::sync::LazyLock<[u8; 32]> =
    std::sync::LazyLock::new(|| blake3::derive_key("vesica 2026 key", &[]));

/// Texts that are hashed together: they and their hashes stay in the first-level cache.
const TOGETHER: usize = 256;

/// The digests of a batch's keys, for a table whose rows are taken one by one. The columns of the batch are the key's.
///
/// Gives each row that has a key, in any order, with its place in the batch; returns how many rows have none.
pub fn digests(rules: &[Vec<Rule>], batch: &RecordBatch, mut each: impl FnMut(&[u8; 32], usize)) -> u64 {
    let Digested { records, empties, .. } = Digested::of(rules, batch);
    records.iter().for_each(|record| each(digest(record), row(record) as usize));
    empties.len() as u64
}

/// The same digests, hashed with a run's salt: what a protocol works on, and 64 bits more that say which unit a key belongs to.
pub fn salted_digests(
    rules: &[Vec<Rule>],
    salt: &[u8; 32],
    batch: &RecordBatch,
    mut each: impl FnMut(Digest, u64, usize),
) -> u64 {
    let mut hashes = Hashes::new(&blake3::derive_key(SALTED, salt));
    let mut give = |hash: &[u8; 32], place: usize| {
        let (digest, spread) = parts(hash);
        each(digest, spread, place);
        Ok::<_, Infallible>(())
    };
    let Digested { records, empties, .. } = Digested::of(rules, batch);
    for record in &records {
        let Ok(()) = hashes.push(digest(record), row(record) as usize, &mut give);
    }
    let Ok(()) = hashes.flush(&mut give);
    empties.len() as u64
}

/// What digests are hashed with, derived from a run's salt.
const SALTED: &str = "vesica 2026 salted key";

/// The digest and the number in a salted hash.
fn parts(hash: &[u8; 32]) -> (Digest, u64) {
    let (digest, rest) = hash.split_first_chunk::<16>().expect("a hash has 32 bytes");
    (Digest(*digest), u64::from_le_bytes(*rest.first_chunk().expect("16 bytes are left")))
}

/// Makes records of the keys of batches.
struct Digester {
    rules: Vec<Vec<Rule>>,
    as_written: bool,
    text: Vec<u8>,
    hashes: Hashes<u64>,
}

/// What becomes of a batch.
#[derive(Default)]
struct Digested {
    records: Vec<[u8; RECORD]>,
    /// The rows without a key.
    empties: Vec<u64>,
    rows: u64,
    ruled: Ruled,
}

impl Digested {
    /// What becomes of a batch of a table whose rows are taken one by one.
    fn of(rules: &[Vec<Rule>], batch: &RecordBatch) -> Self {
        let mut digested = Self::default();
        Digester::new(rules, false).digest(0, batch, &mut digested);
        digested
    }
}

impl Digester {
    fn new(rules: &[Vec<Rule>], as_written: bool) -> Self {
        Self { rules: rules.to_vec(), as_written, text: Vec::new(), hashes: Hashes::new(&KEY_DOMAIN) }
    }

    /// Makes `digested` the records of `batch`, whose first row is number `from` of the table.
    fn digest(&mut self, from: u64, batch: &RecordBatch, digested: &mut Digested) {
        let rows = batch.num_rows();
        let Digested { records, empties, rows: count, ruled } = digested;
        records.clear();
        empties.clear();
        (*count, *ruled) = (rows as u64, Ruled::default());
        let mut keep = |digest: &[u8; 32], row: u64| {
            let mut record = [0; RECORD];
            record[..32].copy_from_slice(digest);
            record[32..].copy_from_slice(&row.to_be_bytes());
            records.push(record);
            Ok::<_, Infallible>(())
        };
        let columns: Vec<&StringArray> = batch.columns().iter().map(|c| c.as_string::<i32>()).collect();
        if let ([column], [rules]) = (&columns[..], &self.rules[..])
            && rules.is_empty()
        {
            // Nothing is done to the texts: they are hashed where they stand.
            let texts = Texts::new(column.value_data(), column.value_offsets());
            let (mut places, mut hashes) = (Vec::with_capacity(TOGETHER), [[0; 32]; TOGETHER]);
            for place in 0..rows {
                let row = from + place as u64;
                match column.value_length(place) as usize {
                    0 => empties.push(row),
                    1..=Texts::LONGEST => places.push(place as u32),
                    _ => {
                        encode(&columns, place, &self.rules, false, &mut self.text);
                        let Ok(()) = self.hashes.push(&self.text, row, &mut keep);
                    }
                }
                if places.len() == TOGETHER || place + 1 == rows {
                    blake::keyed_texts(&KEY_DOMAIN, TEXT, texts, &places, &mut hashes);
                    for (place, hash) in places.drain(..).zip(&hashes) {
                        let Ok(()) = keep(hash, from + u64::from(place));
                    }
                }
            }
            let Ok(()) = self.hashes.flush(&mut keep);
            return;
        }
        for (place, row) in (0..rows).zip(from..) {
            let what = encode(&columns, place, &self.rules, self.as_written, &mut self.text);
            ruled.changed += u64::from(what.changed);
            ruled.emptied += u64::from(what.emptied);
            if what.present {
                let Ok(()) = self.hashes.push(&self.text, row, &mut keep);
            } else {
                empties.push(row);
            }
        }
        let Ok(()) = self.hashes.flush(&mut keep);
    }
}

/// Texts on their way through one keyed hash, many at a time; `T` stays with each.
struct Hashes<T> {
    key: [u8; 32],
    messages: Vec<Message>,
    beside: Vec<T>,
}

impl<T: Copy> Hashes<T> {
    fn new(key: &[u8; 32]) -> Self {
        Self { key: *key, messages: Vec::with_capacity(TOGETHER), beside: Vec::with_capacity(TOGETHER) }
    }

    /// Takes a text; gives `to` those that are due, in any order.
    #[inline]
    fn push<E>(&mut self, text: &[u8], beside: T, to: &mut impl FnMut(&[u8; 32], T) -> Result<(), E>) -> Result<(), E> {
        let Some(message) = Message::new(text) else {
            return to(blake3::keyed_hash(&self.key, text).as_bytes(), beside);
        };
        self.messages.push(message);
        self.beside.push(beside);
        if self.messages.len() == TOGETHER { self.flush(to) } else { Ok(()) }
    }

    /// Gives `to` all that were pushed and not yet given.
    fn flush<E>(&mut self, to: &mut impl FnMut(&[u8; 32], T) -> Result<(), E>) -> Result<(), E> {
        let mut hashes = [[0; 32]; TOGETHER];
        blake::keyed(&self.key, &self.messages, &mut hashes);
        self.messages.clear();
        self.beside.drain(..).zip(&hashes).try_for_each(|(beside, hash)| to(hash, beside))
    }
}

/// The type tag of a text column in a key's encoding; other types may get their own one day.
const TEXT: u8 = 1;

/// What [`encode`] found.
struct Encoded {
    /// Whether the row has a key: no column of it is empty.
    present: bool,
    /// Whether a rule changed it.
    changed: bool,
    /// Whether it would have a key as it is written.
    emptied: bool,
}

/// Writes row `row`'s key to `out`, after `rules` or, if `as_written`, before them: for each column its type, its length
/// and its bytes, so that no two keys have one encoding. A key with an empty column matches nothing.
#[inline(always)] // It is called for each row, from one place.
fn encode(columns: &[&StringArray], row: usize, rules: &[Vec<Rule>], as_written: bool, out: &mut Vec<u8>) -> Encoded {
    out.clear();
    let mut found = Encoded { present: true, changed: false, emptied: false };
    let mut written = true;
    for (column, rules) in columns.iter().zip(rules) {
        let text = column.value(row);
        let key = Rule::apply_all(rules, text);
        found.changed |= key != text;
        found.present &= !key.is_empty();
        written &= !text.is_empty();
        let bytes = if as_written { text.as_bytes() } else { key.as_bytes() };
        out.push(TEXT);
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    found.emptied = written && !found.present;
    found
}

/// What sorting gives.
struct Sorted {
    parts: Spilled,
    distinct: u64,
    /// The first row whose key stands in an earlier row.
    repeated: Option<u64>,
}

/// Sorts each part, and leaves out the rows that the job does not take for repeating a key.
fn sort(
    unsorted: Spilled,
    rows: u64,
    how: &Reading<'_>,
    memory: usize,
    dir: &Path,
    ctl: &Control,
) -> Result<Sorted, JobError> {
    // The first byte of a record's row that is not the same in all of them.
    let of_row = RECORD - (8 - rows.leading_zeros() as usize / 8).max(1);
    let join = how.duplicates == Duplicates::Join;
    let workers = cores(how.workers);
    let seen = Mutex::new(Seen::default());
    let fits = (0..PARTS).all(|part| unsorted.len(part) <= sort::MOST);
    let parts = if unsorted.disk_bytes() == 0 && fits {
        let sorters = Mutex::new(Vec::<Sorter>::new());
        unsorted.rewrite::<JobError>(workers, |records, kept| {
            ctl.check()?;
            let sorter = sorters.lock().expect("no worker panics").pop();
            let mut sorter = sorter.unwrap_or_default();
            let mut part = Seen::default();
            kept.push(part.keep(sorter.sorted(records, 1), join).as_flattened())?;
            seen.lock().expect("no worker panics").add(part);
            sorters.lock().expect("no worker panics").push(sorter);
            Ok(())
        })?
    } else {
        // As many at a time as their parts fit, which are about equal.
        let fit = memory / 4 / (unsorted.total() as usize / PARTS * RECORD * 5 / 4).max(1);
        let workers = workers.min(fit).max(1);
        let sorted = Mutex::new(Spill::new(PARTS, RECORD, memory, dir)?);
        let buckets = Mutex::new(0..PARTS);
        on_threads::<JobError>(workers, || {
            let mut sorter = Sorter::default();
            loop {
                let next = buckets.lock().expect("no worker panics").next();
                let Some(bucket) = next else { return Ok(()) };
                let mut part = Seen::default();
                in_order(&unsorted, bucket, 1, of_row, memory / workers, dir, ctl, &mut sorter, &mut |records| {
                    let kept = part.keep(records, join);
                    Ok(sorted.lock().expect("no worker panics").push_all(bucket, kept.as_flattened())?)
                })?;
                seen.lock().expect("no worker panics").add(part);
            }
        })?;
        sorted.into_inner().expect("no worker panics").finish()?
    };
    let Seen { distinct, repeated, .. } = seen.into_inner().expect("no worker panics");
    Ok(Sorted { parts, distinct, repeated })
}

/// What sorting takes, to be used again.
#[derive(Default)]
struct Sorter {
    bytes: Vec<u8>,
    bins: Bins,
    sorted: Vec<[u8; RECORD]>,
}

impl Sorter {
    /// The records that stand one after the other in `bytes`, in order.
    fn sorted(&mut self, bytes: &[u8], depth: usize) -> &mut Vec<[u8; RECORD]> {
        ascending(bytes.as_chunks().0, depth, &mut self.bins, &mut self.sorted);
        &mut self.sorted
    }
}

/// What was seen of records in order.
#[derive(Default)]
struct Seen {
    distinct: u64,
    /// The first row of those that were not their key's first.
    repeated: Option<u64>,
    /// The digest of the last one.
    last: Option<[u8; 32]>,
}

impl Seen {
    /// Counts `records`, which come after those of earlier calls, and keeps those that the job takes.
    fn keep<'a>(&mut self, records: &'a mut Vec<[u8; RECORD]>, join: bool) -> &'a [[u8; RECORD]] {
        let mut last = self.last.take();
        let mut first = |record: &[u8; RECORD]| {
            let first = last.as_ref() != Some(digest(record));
            if first {
                self.distinct += 1;
                last = Some(*digest(record));
            } else {
                self.repeated = Some(self.repeated.map_or(row(record), |least| least.min(row(record))));
            }
            first
        };
        records.retain(|record| first(record) || join);
        self.last = last;
        records
    }

    fn add(&mut self, other: Seen) {
        self.distinct += other.distinct;
        self.repeated = self.repeated.into_iter().chain(other.repeated).min();
    }
}

/// Takes records in order, some at a time.
type Each<'a> = &'a mut dyn FnMut(&mut Vec<[u8; RECORD]>) -> Result<(), JobError>;

/// The records of a bucket in order, some at a time; `depth` bytes of them are the same. However many there are, and however
/// often a key is among them, they take `memory` bytes at most: a bucket that is too large is parted by the next byte. If that
/// is one of the digest and all digests are the same, it is byte `of_row`.
#[allow(clippy::too_many_arguments)]
fn in_order(
    unsorted: &Spilled,
    bucket: usize,
    depth: usize,
    of_row: usize,
    memory: usize,
    dir: &Path,
    ctl: &Control,
    sorter: &mut Sorter,
    each: Each<'_>,
) -> Result<(), JobError> {
    ctl.check()?;
    if unsorted.len(bucket) <= (memory / 4 / RECORD).min(sort::MOST) {
        let mut bytes = std::mem::take(&mut sorter.bytes);
        unsorted.read_into(bucket, &mut bytes)?;
        each(sorter.sorted(&bytes, depth))?;
        sorter.bytes = bytes;
        return Ok(());
    }
    let depth = if is_one_key(unsorted, bucket)? { depth.max(of_row) } else { depth };
    let mut finer = Spill::new(256, RECORD, memory / 4, dir)?;
    let (mut blocks, mut block) = (unsorted.blocks(bucket, BLOCK), Vec::new());
    while blocks.next_into(&mut block)? {
        let (records, _) = block.as_chunks::<RECORD>();
        records.iter().try_for_each(|record| finer.push(usize::from(record[depth]), record))?;
    }
    let finer = finer.finish()?;
    (0..256).try_for_each(|bucket| in_order(&finer, bucket, depth + 1, of_row, memory, dir, ctl, sorter, each))
}

fn is_one_key(records: &Spilled, bucket: usize) -> Result<bool, JobError> {
    let mut first = None;
    for block in records.blocks(bucket, BLOCK) {
        if !block?.as_chunks().0.iter().all(|record| digest(record) == first.get_or_insert(*digest(record))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The digest of a record's key.
fn digest(record: &[u8; RECORD]) -> &[u8; 32] {
    record.first_chunk().expect("a record begins with a digest")
}

fn row(record: &[u8]) -> u64 {
    u64::from_be_bytes(*record.last_chunk().expect("a record ends in a row's number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn try_extract(csv: &str, columns: &[&str], shared: &str) -> Result<Keys, JobError> {
        extract_in(csv, columns, shared, 1 << 30)
    }

    fn extract_in(csv: &str, columns: &[&str], shared: &str, memory: u64) -> Result<Keys, JobError> {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        let job = format!(
            "[shared]\nid = \"j\"\nparties = [\"a\", \"b\"]\nprotocol = \"ecdh\"\nlearns = [\"b\"]\ninsecure = true\n{shared}\n\
             [mine]\nname = \"a\"\nlisten = \"h:1\"\ninput = {{ path = \"{}\", keys = {columns:?} }}\n",
            file.path().display()
        );
        let plan = vesica_spec::Plan { memory, ..vesica_spec::plan(&vesica_spec::parse(&job).unwrap()).unwrap() };
        let table = vesica_table::open(&plan.input).unwrap();
        Keys::extract(&*table, &plan, &std::env::temp_dir(), &Control::new(()))
    }

    fn extract(csv: &str, columns: &[&str]) -> Keys {
        try_extract(csv, columns, "").unwrap()
    }

    /// The rows of each key, and those without one.
    fn rows(keys: &Keys) -> (Vec<Vec<u64>>, Vec<u64>) {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let mut each = |first: bool, row| {
            match with.last_mut() {
                Some(rows) if !first => Vec::push(rows, row),
                _ => with.push(vec![row]),
            }
            Ok(())
        };
        (0..PARTS).try_for_each(|part| keys.each(part, &mut each)).unwrap();
        keys.each_empty(|row| {
            without.push(row);
            Ok(())
        })
        .unwrap();
        with.sort();
        (with, without)
    }

    fn salted(keys: &Keys, salt: u8) -> Vec<Salted> {
        let mut all = Vec::new();
        let mut each = |s| {
            all.push(s);
            Ok(())
        };
        (0..PARTS).try_for_each(|part| keys.salted(part, &[salt; 32], &mut each)).unwrap();
        all
    }

    fn all(keys: &Keys) -> Vec<Salted> {
        salted(keys, 1)
    }

    #[test]
    fn rows_keys_empties_and_duplicates_are_counted() {
        let csv = "id,v\na,1\nb,2\n,3\na,4\n\"a\",5\n";
        let keys = extract(csv, &["id"]);
        assert_eq!((keys.rows, keys.distinct, keys.empty, keys.duplicates, keys.kept()), (5, 2, 1, 2, 5));
        assert_eq!(rows(&keys), (vec![vec![0, 3, 4], vec![1]], vec![2]));

        let first = try_extract(csv, &["id"], "duplicates = \"first\"").unwrap();
        assert_eq!((first.rows, first.distinct, first.empty, first.duplicates, first.kept()), (5, 2, 1, 2, 3));
        assert_eq!(rows(&first), (vec![vec![0], vec![1]], vec![2]));
        let error = try_extract(csv, &["id"], "duplicates = \"error\"").err().unwrap();
        assert!(error.to_string().contains("row 4 repeats the key of an earlier row, as does 1 more row"), "{error}");
        assert!(
            try_extract("id\na\n\n\nb\n", &["id"], "duplicates = \"error\"").is_ok(),
            "empty keys are no duplicates"
        );
    }

    #[test]
    fn a_key_of_most_rows_is_sorted_in_little_memory() {
        // One key has half of the rows, a few share the next quarter, and the others have a row each.
        let key = |i: u32| match i % 4 {
            0 | 1 => "unknown".to_owned(),
            2 => format!("some {}", i * i % 7),
            _ => format!("own {i}"),
        };
        let csv = (0..20_000).fold(String::from("id,v\n"), |csv, i| csv + &format!("{},{i}\n", key(i)));
        for duplicates in ["join", "first"] {
            let of = |memory| extract_in(&csv, &["id"], &format!("duplicates = \"{duplicates}\""), memory).unwrap();
            let (little, enough) = (of(64 << 10), of(1 << 30));
            assert_eq!((little.distinct, little.duplicates, little.repeated), (5005, 14_995, Some(1)));
            assert_eq!((little.distinct, little.kept()), (enough.distinct, enough.kept()));
            assert_eq!((rows(&little), all(&little)), (rows(&enough), all(&enough)));
        }
        let error = extract_in(&csv, &["id"], "duplicates = \"error\"", 64 << 10).err().unwrap();
        assert!(error.to_string().contains("row 2 repeats"), "{error}");
    }

    /// A table with a piece for each batch.
    struct InPieces(Box<dyn Table>);

    impl Table for InPieces {
        fn path(&self) -> &Path {
            self.0.path()
        }
        fn source(&self) -> Option<&vesica_table::Source> {
            self.0.source()
        }
        fn columns(&self) -> &[vesica_table::Column] {
            self.0.columns()
        }
        fn schema(&self) -> arrow_schema::SchemaRef {
            self.0.schema()
        }
        fn format(&self) -> vesica_table::Format {
            self.0.format()
        }
        fn rows(&self) -> Option<u64> {
            self.0.rows()
        }
        fn texts(
            &self,
            keys: &[String],
            values: &[String],
            workers: usize,
        ) -> Result<vesica_table::Batches, vesica_table::Error> {
            self.0.texts(keys, values, workers)
        }
        fn pieces(&self, columns: &[String], workers: usize) -> Result<vesica_table::Pieces, vesica_table::Error> {
            let mut end = 0;
            Ok(Box::new(self.0.keys(columns, workers)?.map(move |batch| {
                let first = end;
                end += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
                vesica_table::Piece { first, batches: Box::new(std::iter::once(batch)) }
            })))
        }
        fn select(
            &self,
            rows: &mut dyn Iterator<Item = Result<vesica_types::RowId, vesica_table::Error>>,
            form: vesica_table::Form,
            columns: &[usize],
            workers: usize,
            emit: &mut dyn FnMut(RecordBatch) -> Result<(), vesica_table::Error>,
        ) -> Result<(), vesica_table::Error> {
            self.0.select(rows, form, columns, workers, emit)
        }
    }

    /// One key has most rows, many rows have none, and batches come in any order.
    #[test]
    fn keys_are_the_same_whoever_reads_the_pieces() {
        let key = |i: u32| match i % 7 {
            0..3 => "the same".to_owned(),
            3 => String::new(),
            _ => format!("own {}", i / 3),
        };
        let csv = (0..60_000).fold(String::from("id,v\n"), |csv, i| csv + &format!("{},{i}\n", key(i)));
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        let (columns, rules) = (["id".to_owned()], [Vec::new()]);
        let read = |table: &dyn Table, memory, workers| {
            let how = Reading { keys: &columns, rules: &rules, duplicates: Duplicates::Join, memory, workers };
            Keys::extract(table, how, &std::env::temp_dir(), &Control::new(())).unwrap()
        };
        let open = || vesica_table::open(&vesica_table::Input::new(file.path())).unwrap();
        let plain = read(&*open(), 1 << 30, 1);
        assert_eq!((plain.empty, plain.distinct), (8571, 14_286));
        let mut without = Vec::new();
        let each = |row| {
            without.push(row);
            Ok(())
        };
        plain.each_empty(each).unwrap();
        assert_eq!(without, (3..60_000).step_by(7).collect::<Vec<_>>());
        for memory in [64 << 10, 1 << 30] {
            for workers in [1, 2, 4] {
                let keys = read(&InPieces(open()), memory, workers);
                assert_eq!((keys.rows, keys.distinct, keys.repeated), (plain.rows, plain.distinct, plain.repeated));
                assert_eq!((rows(&keys), all(&keys)), (rows(&plain), all(&plain)), "{memory} {workers}");
            }
        }
    }

    #[test]
    fn rows_without_a_key_stand_in_order_whatever_comes_first() {
        let mut empties = Empties::new(1 << 16, &std::env::temp_dir()).unwrap();
        let of = |from: u64, rows: u64| (from..from + rows).filter(|row| row % 3 == 0).collect::<Vec<_>>();
        for (from, rows) in [(100, 70), (170, 0), (70, 30), (170, 130), (0, 70), (300, 5)] {
            empties.take(from, rows, &of(from, rows)).unwrap();
        }
        empties.take(306, 5, &[]).unwrap();
        let wanting = empties.early.len();
        empties.take(305, 1, &[]).unwrap();
        assert_eq!((wanting, empties.next), (1, 311));
        let rows: Vec<u64> = empties.finish().unwrap().read(0).unwrap().chunks_exact(8).map(row).collect();
        assert_eq!(rows, of(0, 305));
        let mut empties = Empties::new(1 << 16, &std::env::temp_dir()).unwrap();
        empties.take(5, 1, &[]).unwrap();
        assert!(empties.finish().is_err(), "five rows are missing");
    }

    #[test]
    fn texts_of_every_length_are_hashed_alike() {
        // Without a rule they are hashed where they stand; a rule that does nothing copies them.
        let text = |i: usize| "x".repeat(i % 70) + if i.is_multiple_of(70) { "" } else { "y" };
        let csv = (0..300).fold(String::from("id\n"), |csv, i| csv + &format!("\"{}\"\n", text(i)));
        let (plain, ruled) = (extract(&csv, &["id"]), try_extract(&csv, &["id"], "rules = [\"trim\"]").unwrap());
        assert_eq!((plain.empty, plain.distinct), (5, 69));
        assert_eq!((rows(&plain), all(&plain)), (rows(&ruled), all(&ruled)));
    }

    #[test]
    fn rules_are_applied_before_keys_are_compared() {
        let csv = "id,x\n A ,1\na,1\nb,\n??,1\n,1\n";
        let keys = try_extract(csv, &["id"], "rules = [\"trim\", \"lower\"]").unwrap();
        assert_eq!((keys.distinct, keys.duplicates, keys.ruled), (3, 1, Ruled { changed: 1, emptied: 0 }));
        let keys = try_extract(csv, &["id", "x"], "rules = [[\"digits\"], []]").unwrap();
        assert_eq!((keys.distinct, keys.empty, keys.ruled), (0, 5, Ruled { changed: 4, emptied: 3 }));
        let plain = extract("id\na\n", &["id"]);
        let ruled = try_extract("id\n A\n", &["id"], "rules = [\"trim\", \"lower\"]").unwrap();
        assert_eq!(all(&plain), all(&ruled), "the same key as one that was written so");
    }

    #[test]
    fn keys_of_several_columns_do_not_run_together() {
        let keys = extract("x,y\n\"a,b\",c\na,\"b,c\"\nab,c\na,bc\na,\n", &["x", "y"]);
        assert_eq!((keys.distinct, keys.empty), (4, 1));
        let swapped = extract("y,x\nc,\"a,b\"\n", &["x", "y"]);
        let digests: Vec<Digest> = all(&keys).iter().map(|s| s.digest).collect();
        assert!(
            digests.contains(&all(&swapped)[0].digest),
            "columns are taken in the order of the job, not of the file"
        );
    }

    /// What a key is must never depend on a machine, a compiler or a library's version: both sides compute it.
    #[test]
    fn a_key_is_the_same_everywhere() {
        let keys = extract("id,x\nAna,7\n", &["id", "x"]);
        let [key] = all(&keys)[..] else { panic!("one key") };
        let hex: String = key.digest.0.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!((hex.as_str(), key.spread), ("9ebb7176db5b307785ce2573e110382e", 7845335764751068214));
    }

    #[test]
    fn a_salted_key_depends_on_key_and_salt_alone() {
        let (a, b) = (extract("id\nx\ny\n", &["id"]), extract("k,id\n1,z\n2,x\n", &["id"]));
        let (a, b) = (all(&a), all(&b));
        assert_eq!(a.iter().filter(|s| b.iter().any(|t| t.digest == s.digest && t.spread == s.spread)).count(), 1);
        let keys = extract("id\nx\n", &["id"]);
        assert_ne!(all(&keys)[0].digest, salted(&keys, 2)[0].digest);
    }
}
