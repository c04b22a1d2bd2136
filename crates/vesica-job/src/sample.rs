//! Made-up tables to try things out on: keys that look real, as many as wanted, in no memory.
//!
//! The people of a sample are numbered. Alice has the numbers `0..n`. Of two parties bob has `n-k..n-k+m`, so `k` are common to
//! both. Of three parties carol has what bob has of two, and bob begins earlier: he has the `k` too, and shares others with
//! alice that carol lacks.
//! Person `i` has the key that a permutation, chosen by the seed, gives to `i`; so keys are distinct, follow no order,
//! and the same seed and kind give the same people in samples of any size. The rows of a table are its people in the
//! order of another permutation. Nothing is ever sorted or remembered: a row is a function of its number.

use crate::error::JobError;
use crate::output::part;
use crate::tell::control::{Control, Event};
use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_net::{SystemClock, Time};

/// The most rows of a table.
pub const MAX_ROWS: u64 = vesica_spec::MAX_KEYS;
/// The most payload columns of a table.
pub const MAX_COLUMNS: u32 = 1000;
/// Rows between two looks at the control.
pub const BATCH: u64 = 1 << 16;

/// What keys look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keys {
    /// A number of 18 digits, as identity cards and accounts have.
    #[default]
    Id,
    /// `ana.silva48213@post.example`.
    Email,
    /// `+493012345678`.
    Phone,
    /// A random UUID (version 4).
    Uuid,
}

vesica_types::words!(Keys { Id = "id", Email = "email", Phone = "phone", Uuid = "uuid" });

impl Keys {
    /// How many there are.
    fn space(self) -> u64 {
        match self {
            Keys::Id => 900_000_000_000_000_000,
            Keys::Email => 1 << 38,
            Keys::Phone => COUNTRIES.len() as u64 * 9_000_000_000,
            Keys::Uuid => 1 << 60,
        }
    }
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Keys::ALL.iter().find(|k| k.name() == name).copied().ok_or_else(|| format!("\"{name}\" is no kind of key"))
    }
}

/// How a sample is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// RFC 4180, with a header.
    #[default]
    Csv,
    /// Apache Parquet.
    Parquet,
}

vesica_types::words!(Format { Csv = "csv", Parquet = "parquet" });

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Format::ALL.iter().find(|f| f.name() == name).copied().ok_or_else(|| format!("\"{name}\" is no format"))
    }
}

/// The parties that tables can be made for, in their order.
pub const PARTIES: [&str; 3] = ["alice", "bob", "carol"];

/// Tables to be made, one for each of two or three parties: columns `id`, then `c1`, `c2`, … with numbers below a million.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The rows of each table: alice's, bob's, and carol's if she takes part.
    pub rows: Vec<u64>,
    /// Keys that all have.
    pub overlap: u64,
    /// Columns besides the key.
    pub columns: u32,
    /// What keys look like.
    pub keys: Keys,
    /// How the tables are stored; the common keys are always CSV.
    pub format: Format,
    /// Same seed, same bytes.
    pub seed: u64,
}

/// The files of a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// The parties' tables, in their order.
    pub tables: Vec<PathBuf>,
    /// The common keys.
    pub expected: PathBuf,
}

impl Sample {
    /// Writes `alice.*`, `bob.*`, `carol.*` if there are three parties, and `expected.csv` into `folder`, which is made if need
    /// be. Files appear when they are complete, and none replaces another.
    ///
    /// # Errors
    /// If the sizes contradict each other, a file exists already or cannot be written, or `control` says stop.
    pub fn write(&self, folder: &Path, control: &Control) -> Result<Made, JobError> {
        self.check()?;
        let people = self.people();
        let tables = PARTIES.iter().take(people.len()).map(|name| format!("{name}.{}", self.format.name()));
        let names = tables.chain(["expected.csv".to_owned()]).collect();
        let keys = People::new(self.keys, self.seed);
        let common = self.rows[0] - self.overlap..self.rows[0];
        let total = self.rows.iter().sum::<u64>() + self.overlap;
        let mut paths = generate(folder, names, total, control, |index, out| {
            let Some(range) = people.get(index) else {
                return csv(&Rows::in_order(common.clone(), &keys), 0, out);
            };
            let rows = Rows::of_table(range.clone(), &keys, index as u64, self.seed);
            match self.format {
                Format::Parquet => parquet(&rows, self.columns, out),
                Format::Csv => csv(&rows, self.columns, out),
            }
        })?;
        let expected = paths.pop().expect("the last name was that of the common keys");
        Ok(Made { tables: paths, expected })
    }

    /// The people of each table. Alice's are the first and the last party's begin with the common ones. Who stands between them
    /// has the common ones too, and shares as many others with alice as it has room for, up to half of hers.
    fn people(&self) -> Vec<Range<u64>> {
        let others = self.rows[0] - self.overlap;
        let last = self.rows.len() - 1;
        let range = |(table, &rows): (usize, &u64)| {
            let start = match table {
                0 => 0,
                table if table == last => others,
                _ => others - (others / 2).min(rows - self.overlap),
            };
            start..start + rows
        };
        self.rows.iter().enumerate().map(range).collect()
    }

    fn check(&self) -> Result<(), JobError> {
        let wrong = |text: String| Err(JobError::Setup(text));
        if !(2..=PARTIES.len()).contains(&self.rows.len()) {
            return wrong(format!("{} tables; two or three can be made", self.rows.len()));
        }
        if let Some(rows) = self.rows.iter().find(|rows| **rows > MAX_ROWS) {
            return wrong(format!("{rows} rows; the most is {MAX_ROWS}"));
        }
        if self.columns > MAX_COLUMNS {
            return wrong(format!("{} columns; the most is {MAX_COLUMNS}", self.columns));
        }
        if let Some(smaller) = self.rows.iter().find(|rows| **rows < self.overlap) {
            return wrong(format!(
                "{} common keys do not fit into a table of {smaller} rows; give at most that many",
                self.overlap
            ));
        }
        Ok(())
    }
}

/// Makes the files `names` in `folder`, which is made if need be, and returns where they are. `write` is called for each
/// of them, with its place in `names`, on a thread of its own. Together they hold `rows` rows. Files appear when all are
/// complete, and none replaces another.
///
/// # Errors
/// If a file exists already or cannot be written, or `control` says stop; those of `write`.
pub fn generate(
    folder: &Path,
    names: Vec<String>,
    rows: u64,
    control: &Control,
    write: impl Fn(usize, &mut Out<'_>) -> Result<(), JobError> + Sync,
) -> Result<Vec<PathBuf>, JobError> {
    std::fs::create_dir_all(folder).map_err(failed("cannot make the folder", folder))?;
    let paths: Vec<PathBuf> = names.into_iter().map(|name| folder.join(name)).collect();
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        let path = path.display();
        return Err(JobError::Setup(format!("{path} exists already; remove it, or choose another folder")));
    }
    let (began, of, done) = (SystemClock.now(), "rows", AtomicU64::new(0));
    control.event(Event::Phase { name: "generate", of, total: Some(rows) });
    let file = |index: usize, path: &Path| {
        let part = part::beside(path)?;
        write(index, &mut Out { file: part.as_file(), path, control, done: &done })?;
        Ok(part)
    };
    let parts = std::thread::scope(|scope| {
        let file = &file;
        let threads: Vec<_> = (0..).zip(&paths).map(|(index, path)| scope.spawn(move || file(index, path))).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect::<Result<Vec<_>, JobError>>()
    })?;
    for (part, path) in parts.into_iter().zip(&paths) {
        part.persist_noclobber(path).map_err(|e| failed("cannot write", path)(e.error))?;
    }
    control.event(Event::PhaseEnd { name: "generate", of, wall: SystemClock.since(began), bytes: (0, 0) });
    Ok(paths)
}

/// A file that [`generate`] makes, while it is written.
pub struct Out<'a> {
    file: &'a File,
    path: &'a Path,
    control: &'a Control,
    /// Rows that all files together have.
    done: &'a AtomicU64,
}

impl Out<'_> {
    /// Appends `text`, which ends `rows` more rows.
    ///
    /// # Errors
    /// If it cannot be written, or the control says stop.
    pub fn append(&mut self, text: &[u8], rows: u64) -> Result<(), JobError> {
        self.file.write_all(text).map_err(failed("cannot write", self.path))?;
        self.more(rows)
    }

    fn more(&self, rows: u64) -> Result<(), JobError> {
        self.control.check()?;
        let done = self.done.fetch_add(rows, Ordering::Relaxed) + rows;
        self.control.event(Event::Done(done));
        Ok(())
    }
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> JobError + 'a {
    move |error| JobError::File { what, path: path.to_owned(), error }
}

fn csv(rows: &Rows<'_>, columns: u32, out: &mut Out<'_>) -> Result<(), JobError> {
    let mut text = names(columns).join(",").into_bytes();
    text.push(b'\n');
    for batch in rows.batches() {
        let n = batch.end - batch.start;
        for row in batch {
            let person = rows.person(row);
            rows.people.key(person, &mut text);
            for column in 1..=columns {
                text.push(b',');
                decimal(rows.payload(person, column), 1, &mut text);
            }
            text.push(b'\n');
        }
        out.append(&text, n)?;
        text.clear();
    }
    out.append(&text, 0)
}

fn parquet(rows: &Rows<'_>, columns: u32, out: &mut Out<'_>) -> Result<(), JobError> {
    let path = out.path;
    let unwritten = |e: parquet::errors::ParquetError| match e {
        parquet::errors::ParquetError::External(e) if e.is::<std::io::Error>() => {
            failed("cannot write", path)(*e.downcast().expect("just looked"))
        }
        e => failed("cannot write", path)(std::io::Error::other(e)),
    };
    let kind = |i: usize| if i == 0 { DataType::Utf8 } else { DataType::Int64 };
    let fields: Vec<Field> =
        names(columns).into_iter().enumerate().map(|(i, name)| Field::new(name, kind(i), false)).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(1 << 20)) // the writer holds one row group in memory
        .build();
    let mut writer = ArrowWriter::try_new(out.file, schema.clone(), Some(properties)).map_err(unwritten)?;
    let mut text = Vec::new();
    for batch in rows.batches() {
        let n = batch.end - batch.start;
        let people: Vec<u64> = batch.map(|row| rows.person(row)).collect();
        let mut keys = StringBuilder::new();
        for person in &people {
            text.clear();
            rows.people.key(*person, &mut text);
            keys.append_value(std::str::from_utf8(&text).expect("keys are ASCII"));
        }
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(keys.finish())];
        for column in 1..=columns {
            let mut numbers = Int64Builder::with_capacity(people.len());
            people.iter().for_each(|person| numbers.append_value(rows.payload(*person, column) as i64));
            arrays.push(Arc::new(numbers.finish()));
        }
        let batch = RecordBatch::try_new(schema.clone(), arrays).expect("columns as the schema says");
        writer.write(&batch).map_err(unwritten)?;
        out.more(n)?;
    }
    writer.close().map_err(unwritten)?;
    Ok(())
}

fn names(columns: u32) -> Vec<String> {
    std::iter::once("id".to_owned()).chain((1..=columns).map(|i| format!("c{i}"))).collect()
}

/// The rows of one table.
struct Rows<'a> {
    range: Range<u64>,
    people: &'a People,
    /// The order of the rows; the list of common keys has none.
    order: Option<Shuffle>,
    payload: u64,
}

impl<'a> Rows<'a> {
    /// Those of a party's table.
    fn of_table(range: Range<u64>, people: &'a People, table: u64, seed: u64) -> Self {
        let order = Some(Shuffle::new(range.end - range.start, seed, 1 + table));
        Self { range, people, order, payload: secrets(seed, 16 + table)[0] }
    }

    /// A list of keys alone.
    fn in_order(range: Range<u64>, people: &'a People) -> Self {
        Self { range, people, order: None, payload: 0 }
    }

    fn batches(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let n = self.range.end - self.range.start;
        (0..n.div_ceil(BATCH)).map(move |i| i * BATCH..n.min((i + 1) * BATCH))
    }

    fn person(&self, row: u64) -> u64 {
        self.range.start + self.order.as_ref().map_or(row, |order| order.at(row))
    }

    /// What stands in a column of a person's row.
    fn payload(&self, person: u64, column: u32) -> u64 {
        mix(mix(person ^ self.payload).wrapping_add(u64::from(column))) % 1_000_000
    }
}

/// Everybody's keys.
pub struct People {
    keys: Keys,
    order: Shuffle,
}

impl People {
    /// With keys of this kind, as this seed gives them.
    pub fn new(keys: Keys, seed: u64) -> Self {
        Self { keys, order: Shuffle::new(keys.space(), seed, 0) }
    }

    /// Appends a person's key.
    pub fn key(&self, person: u64, out: &mut Vec<u8>) {
        let number = self.order.at(person);
        match self.keys {
            Keys::Id => decimal(number + 100_000_000_000_000_000, 18, out),
            Keys::Email => email(number, out),
            Keys::Phone => {
                let (country, rest) = (number / 9_000_000_000, number % 9_000_000_000);
                out.push(b'+');
                decimal(COUNTRIES[country as usize], 2, out);
                decimal(rest + 1_000_000_000, 10, out);
            }
            Keys::Uuid => uuid(number, out),
        }
    }
}

const COUNTRIES: &[u64] = &[33, 34, 39, 44, 46, 47, 48, 49, 52, 55, 61, 62, 81, 82, 86, 91];

#[rustfmt::skip]
const FIRST: [&str; 64] = [
    "adam", "aisha", "ali", "amara", "ana", "anton", "aya", "bela", "bjorn", "camila", "carlos", "chen", "chloe", "dana",
    "david", "diego", "elena", "emil", "emma", "erik", "fatima", "felix", "grace", "hana", "hugo", "ida", "imani", "ines",
    "ivan", "jack", "jana", "jin", "john", "jonas", "julia", "kai", "karin", "kofi", "lars", "laura", "lena", "leo", "li",
    "lucia", "malik", "maria", "mei", "mila", "nadia", "noah", "nora", "olga", "omar", "pablo", "priya", "rosa", "ruth",
    "sam", "sofia", "tariq", "tom", "vera", "wei", "zoe",
];

#[rustfmt::skip]
const LAST: [&str; 64] = [
    "abe", "adeyemi", "ahmed", "ali", "andersson", "bauer", "becker", "brown", "chen", "cohen", "costa", "diaz", "dubois",
    "evans", "fischer", "garcia", "gomez", "gupta", "haas", "hansen", "hoang", "ito", "ivanova", "jensen", "johnson",
    "jones", "kaya", "khan", "kim", "kowalski", "kumar", "larsen", "lee", "lopez", "martin", "mbeki", "meyer", "moreau",
    "mori", "mueller", "nagy", "nguyen", "novak", "okafor", "olsen", "park", "patel", "petrov", "rossi", "santos",
    "sato", "schmidt", "silva", "singh", "smith", "tanaka", "torres", "toure", "vargas", "wagner", "wang", "weber",
    "yilmaz", "zhang",
];

/// Domains that RFC 2606 keeps free of real people.
const DOMAINS: [&str; 16] = [
    "example.com",
    "example.net",
    "example.org",
    "mail.example",
    "post.example",
    "inbox.example",
    "home.example",
    "office.example",
    "mail.example.com",
    "post.example.com",
    "web.example.com",
    "mail.example.net",
    "web.example.net",
    "mail.example.org",
    "post.example.org",
    "web.example.org",
];

fn email(number: u64, out: &mut Vec<u8>) {
    let part = |shift: u32, names: usize| (number >> shift) as usize % names;
    out.extend_from_slice(FIRST[part(0, 64)].as_bytes());
    out.push(b'.');
    out.extend_from_slice(LAST[part(6, 64)].as_bytes());
    decimal(number >> 16, 1, out);
    out.push(b'@');
    out.extend_from_slice(DOMAINS[part(12, 16)].as_bytes());
}

/// The number in the 60 free bits before the variant, and a hash of it after.
fn uuid(number: u64, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let high = number >> 12 << 16 | 0x4000 | number & 0xfff;
    let low = mix(number) >> 2 | 1 << 63;
    for (i, byte) in high.to_be_bytes().into_iter().chain(low.to_be_bytes()).enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// Appends a number with at least `width` digits.
fn decimal(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

/// Numbers that a seed gives for a purpose.
fn secrets(seed: u64, purpose: u64) -> [u64; Shuffle::ROUNDS] {
    let mut hash = blake3::Hasher::new_derive_key("vesica 2026 sample tables");
    hash.update(&seed.to_le_bytes()).update(&purpose.to_le_bytes());
    let mut stream = hash.finalize_xof();
    std::array::from_fn(|_| {
        let mut word = [0; 8];
        stream.fill(&mut word);
        u64::from_le_bytes(word)
    })
}

/// A permutation of `0..n`: a Feistel network on as many bits as `n - 1` has, walked until it lands below `n`. For
/// disorder, not for secrecy.
pub struct Shuffle {
    n: u64,
    high: u32,
    low: u32,
    keys: [u64; Shuffle::ROUNDS],
}

impl Shuffle {
    const ROUNDS: usize = 6;

    /// The one that a seed gives for a purpose.
    pub fn new(n: u64, seed: u64, purpose: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Self { n, high: bits - bits / 2, low: bits / 2, keys: secrets(seed, purpose) }
    }

    /// Where `i`, which is below `n`, goes.
    pub fn at(&self, i: u64) -> u64 {
        let mut x = i;
        loop {
            x = self.step(x);
            if x < self.n {
                return x;
            }
        }
    }

    /// A permutation of all numbers of `high + low` bits: each line is its own inverse.
    fn step(&self, x: u64) -> u64 {
        let (high, low) = ((1 << self.high) - 1, (1 << self.low) - 1);
        let (mut a, mut b) = (x >> self.low, x & low);
        for keys in self.keys.chunks_exact(2) {
            a ^= mix(b ^ keys[0]) & high;
            b ^= mix(a ^ keys[1]) & low;
        }
        a << self.low | b
    }
}

/// Scatters the bits of a word (Stafford's variant 13 of the finaliser of MurmurHash3).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn sample(rows: &[u64], overlap: u64) -> Sample {
        Sample { rows: rows.to_vec(), overlap, columns: 2, keys: Keys::Id, format: Format::Csv, seed: 1 }
    }

    fn ids(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap().split(',').next(), Some("id"));
        lines.map(|l| l.split(',').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        for n in [1, 2, 3, 4, 5, 31, 32, 33, 1000, 4097] {
            let shuffle = Shuffle::new(n, n, 9);
            let images: BTreeSet<u64> = (0..n).map(|i| shuffle.at(i)).collect();
            assert_eq!(images.into_iter().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn keys_of_every_kind_are_distinct_and_well_formed() {
        for &kind in Keys::ALL {
            let people = People::new(kind, 7);
            let keys: BTreeSet<String> = (0..5000)
                .map(|i| {
                    let mut out = Vec::new();
                    people.key(i, &mut out);
                    String::from_utf8(out).unwrap()
                })
                .collect();
            assert_eq!(keys.len(), 5000, "{kind:?}");
            assert!(kind.space() >= 2 * MAX_ROWS, "{kind:?}");
            for key in keys {
                let digits = |t: &str, n: usize| t.len() == n && t.bytes().all(|b| b.is_ascii_digit());
                assert!(
                    match kind {
                        Keys::Id => digits(&key, 18) && !key.starts_with('0'),
                        Keys::Email =>
                            key.split_once('@').is_some_and(|(a, b)| a.contains('.') && b.contains("example")),
                        Keys::Phone => digits(&key[1..], 12) && key.starts_with('+'),
                        Keys::Uuid => {
                            key.len() == 36
                                && &key[14..15] == "4"
                                && "89ab".contains(&key[19..20])
                                && key.matches('-').count() == 4
                        }
                    },
                    "{key}"
                );
            }
        }
    }

    #[test]
    fn the_expected_keys_are_the_common_ones() {
        for (rows, overlap) in [
            (&[100, 70][..], 30),
            (&[10, 500], 10),
            (&[5, 5], 0),
            (&[0, 3], 0),
            (&[4, 4], 4),
            (&[100, 70, 50], 30),
            (&[100, 30, 50], 30),
            (&[9, 500, 3], 2),
            (&[4, 0, 4], 0),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let made = sample(rows, overlap).write(dir.path(), &Control::new(())).unwrap();
            let tables: Vec<Vec<String>> = made.tables.iter().map(|path| ids(path)).collect();
            assert_eq!(tables.iter().map(|table| table.len() as u64).collect::<Vec<_>>(), rows);
            let sets = tables.into_iter().map(BTreeSet::from_iter);
            let common: BTreeSet<String> = sets.reduce(|all, table| &all & &table).unwrap();
            assert_eq!((common.len() as u64, common), (overlap, ids(&made.expected).into_iter().collect()), "{rows:?}");
        }
    }

    /// A key that two of three have is not common to all: a sample has such keys.
    #[test]
    fn two_of_three_share_more_than_all() {
        let [a, b, c] = sample(&[100, 100, 100], 30).people().try_into().unwrap();
        let shared = |x: &Range<u64>, y: &Range<u64>| x.end.min(y.end) - x.start.max(y.start);
        assert_eq!([shared(&a, &b), shared(&b, &c), shared(&a, &c)], [65, 65, 30]);
    }

    /// A table and a list of keys as they were before there were three parties: who has made a sample can make it again.
    #[test]
    fn a_sample_stays_what_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let made = sample(&[1000, 700], 300).write(dir.path(), &Control::new(())).unwrap();
        let hash = |path: &PathBuf| blake3::hash(&std::fs::read(path).unwrap()).to_hex()[..16].to_owned();
        let hashes: Vec<String> = made.tables.iter().chain([&made.expected]).map(hash).collect();
        assert_eq!(hashes, ["05ee65a022253db1", "fca02895a275e478", "8b0c266fe3e691de"]);
    }

    #[test]
    fn same_seed_same_bytes_other_seed_other_bytes() {
        let bytes = |format, seed| {
            let dir = tempfile::tempdir().unwrap();
            let made =
                Sample { format, seed, ..sample(&[3000, 2000], 500) }.write(dir.path(), &Control::new(())).unwrap();
            let all = made.tables.into_iter().chain([made.expected]);
            all.map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
        };
        for format in [Format::Csv, Format::Parquet] {
            assert_eq!(bytes(format, 5), bytes(format, 5));
            assert_ne!(bytes(format, 5)[0], bytes(format, 6)[0]);
        }
    }

    #[test]
    fn too_much_in_common_is_refused_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        assert!(sample(&[10], 5).write(dir.path(), &Control::new(())).is_err());
        let error = sample(&[10, 5], 6).write(dir.path(), &Control::new(())).unwrap_err();
        assert_eq!(error.fault(), vesica_session::Fault::Config);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        std::fs::write(dir.path().join("bob.csv"), "mine").unwrap();
        assert!(
            sample(&[10, 5], 5)
                .write(dir.path(), &Control::new(()))
                .unwrap_err()
                .to_string()
                .contains("bob.csv exists")
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_cancelled_sample_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let control = Control::new(());
        control.cancel();
        let error = sample(&[10, 10], 5).write(dir.path(), &control).unwrap_err();
        assert_eq!(error.fault(), vesica_session::Fault::Interrupted);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
