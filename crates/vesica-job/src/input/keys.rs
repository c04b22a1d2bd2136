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
use crate::input::sort::{self, ascending};
use crate::tell::control::{Control, Event};
use crate::threads::cores;
use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Mutex;
use vesica_block::blake::{self, Message};
use vesica_session::Error;
use vesica_spec::{Duplicates, Plan, Rule, Share};
use vesica_table::{InOrder, Spill, Spilled, Table};
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
        let mut unsorted = Spill::new(PARTS, RECORD, memory, dir)?;
        let mut empties = Spill::new(1, 8, memory / 16, dir)?;
        let mut rows = 0;
        let mut ruled = Ruled::default();
        let workers = cores(how.workers).min(Share::InFlight.of(how.memory) / WORKER).max(1);
        let mut end = 0;
        let batches = table.keys(how.keys, workers)?.map(move |batch| {
            let from = end;
            batch.inspect(|batch| end += batch.num_rows() as u64).map(|batch| (from, batch))
        });
        let digester = || {
            let mut digester = Digester::new(how.rules, as_written);
            move |batch: Result<_, _>| batch.map(|(from, batch)| digester.digest(from, &batch))
        };
        // The order of the table is that of the records of a key.
        for batch in InOrder::new(workers, batches, digester) {
            ctl.check()?;
            let batch: Digested = batch?;
            batch.records.iter().try_for_each(|record| unsorted.push(usize::from(record[0]), record))?;
            batch.empties.iter().try_for_each(|row| empties.push(0, &row.to_be_bytes()))?;
            ruled.changed += batch.ruled.changed;
            ruled.emptied += batch.ruled.emptied;
            rows += batch.rows;
            ctl.event(Event::Done(rows));
        }
        let empties = empties.finish()?;
        let sorted = sort(unsorted.finish()?, how, memory, dir, ctl)?;
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
        let mut hashes = Hashes::new(&blake3::derive_key(SALTED, salt));
        let mut give = |hash: &[u8; 32], (key, rows): (KeyId, u64)| {
            let (digest, spread) = parts(hash);
            each(Salted { digest, spread, key, rows })
        };
        self.distinct(part, |digest, key, rows| hashes.push(digest, (key, rows), &mut give))?;
        hashes.flush(&mut give)
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
                for block in numbers.blocks(part, BLOCK) {
                    for number in block?.chunks_exact(8).map(row) {
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

/// The records of `part` in their order, and whether each is its key's first.
#[inline]
fn each_record(
    records: &Spilled,
    part: usize,
    mut each: impl FnMut(bool, &[u8; RECORD]) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let mut last = None;
    for block in records.blocks(part, BLOCK) {
        for record in block?.as_chunks().0 {
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
    let Digested { records, empties, .. } = Digester::new(rules, false).digest(0, batch);
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
    let Digested { records, empties, .. } = Digester::new(rules, false).digest(0, batch);
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
struct Digested {
    records: Vec<[u8; RECORD]>,
    /// The rows without a key.
    empties: Vec<u64>,
    rows: u64,
    ruled: Ruled,
}

impl Digester {
    fn new(rules: &[Vec<Rule>], as_written: bool) -> Self {
        Self { rules: rules.to_vec(), as_written, text: Vec::new(), hashes: Hashes::new(&KEY_DOMAIN) }
    }

    /// The records of `batch`, whose first row is number `from` of the table.
    fn digest(&mut self, from: u64, batch: &RecordBatch) -> Digested {
        let rows = batch.num_rows();
        let mut digested = Digested {
            records: Vec::with_capacity(rows),
            empties: Vec::new(),
            rows: rows as u64,
            ruled: Ruled::default(),
        };
        let Digested { records, empties, ruled, .. } = &mut digested;
        let mut keep = |digest: &[u8; 32], row: u64| {
            let mut record = [0; RECORD];
            record[..32].copy_from_slice(digest);
            record[32..].copy_from_slice(&row.to_be_bytes());
            records.push(record);
            Ok::<_, Infallible>(())
        };
        let columns: Vec<&StringArray> = batch.columns().iter().map(|c| c.as_string::<i32>()).collect();
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
        digested
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
fn sort(unsorted: Spilled, how: &Reading<'_>, memory: usize, dir: &Path, ctl: &Control) -> Result<Sorted, JobError> {
    let join = how.duplicates == Duplicates::Join;
    let seen = Mutex::new(Seen::default());
    let fits = (0..PARTS).all(|part| unsorted.len(part) <= sort::MOST);
    let parts = if unsorted.disk_bytes() == 0 && fits {
        unsorted.rewrite::<JobError>(cores(how.workers), |records, kept| {
            ctl.check()?;
            let (records, _) = records.as_chunks::<RECORD>();
            let (mut part, mut last) = (Seen::default(), None);
            for record in ascending(records, 1).map(|place| &records[place]) {
                let first = last.replace(digest(record)) != Some(digest(record));
                part.count(first, record);
                if first || join {
                    kept.push(record)?;
                }
            }
            seen.lock().expect("no worker panics").add(&part);
            Ok(())
        })?
    } else {
        let mut sorted = Spill::new(PARTS, RECORD, memory, dir)?;
        for bucket in 0..PARTS {
            let (mut part, mut last) = (Seen::default(), None);
            in_order(&unsorted, bucket, 1, memory, dir, ctl, &mut |record| {
                let first = last.replace(*digest(record)) != Some(*digest(record));
                part.count(first, record);
                if first || join { Ok(sorted.push(bucket, record)?) } else { Ok(()) }
            })?;
            seen.lock().expect("no worker panics").add(&part);
        }
        sorted.finish()?
    };
    let Seen { distinct, repeated } = seen.into_inner().expect("no worker panics");
    Ok(Sorted { parts, distinct, repeated })
}

/// What was seen of records in order.
#[derive(Default)]
struct Seen {
    distinct: u64,
    /// The first row of those that were not their key's first.
    repeated: Option<u64>,
}

impl Seen {
    #[inline]
    fn count(&mut self, first: bool, record: &[u8; RECORD]) {
        if first {
            self.distinct += 1;
        } else {
            self.repeated = Some(self.repeated.map_or(row(record), |least| least.min(row(record))));
        }
    }

    fn add(&mut self, other: &Seen) {
        self.distinct += other.distinct;
        self.repeated = self.repeated.into_iter().chain(other.repeated).min();
    }
}

/// The records of a bucket in order, `depth` bytes of whose digests are the same. However many there are, and however often
/// a key is among them, they take `memory` bytes at most: a bucket that is too large is parted by the next byte.
fn in_order(
    unsorted: &Spilled,
    bucket: usize,
    depth: usize,
    memory: usize,
    dir: &Path,
    ctl: &Control,
    each: &mut dyn FnMut(&[u8; RECORD]) -> Result<(), JobError>,
) -> Result<(), JobError> {
    ctl.check()?;
    if unsorted.len(bucket) <= (memory / 4 / RECORD).min(sort::MOST) {
        let bytes = unsorted.read(bucket)?;
        let (records, _) = bytes.as_chunks::<RECORD>();
        return ascending(records, depth).try_for_each(|place| each(&records[place]));
    }
    let all = |each: &mut dyn FnMut(&[u8; RECORD]) -> Result<(), JobError>| {
        unsorted.blocks(bucket, BLOCK).try_for_each(|block| block?.as_chunks().0.iter().try_for_each(&mut *each))
    };
    if is_one_key(unsorted, bucket)? {
        // Its rows came in the order of the table.
        return all(each);
    }
    let mut finer = Spill::new(256, RECORD, memory / 4, dir)?;
    all(&mut |record| Ok(finer.push(usize::from(record[depth]), record)?))?;
    let finer = finer.finish()?;
    (0..256).try_for_each(|bucket| in_order(&finer, bucket, depth + 1, memory, dir, ctl, each))
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
        assert!(error.to_string().contains("row 4 repeats the key of an earlier row, as do 1 more rows"), "{error}");
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
