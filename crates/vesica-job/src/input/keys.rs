//! From rows to keys: what a key is, and how it is hashed.
//!
//! A key is the text of the key columns in an encoding without ambiguity. Keys are counted by hashes under a random key of this
//! process ([`Keys::count`]), before a peer is contacted. After the parties have tossed their salt, the table is read once more
//! and its keys are hashed with the salt, to the 16 bytes that a protocol works on ([`Units::cut`](crate::units::cut::Units::cut)).
//! So a table is read and found good before anybody waits for it, and still no choice of keys can depend on the salt. It goes
//! into the hash of the key itself: nobody can search for keys of one digest before it is known.
//!
//! A service has no salt. Its digests ([`digests`]) have 32 bytes, because whoever plants rows in a table can search for
//! collisions of an unsalted hash at leisure (2^64 steps for 16 bytes, 2^128 for 32).

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use std::convert::Infallible;
use std::ops::AddAssign;
use vesica_block::aes::Aes128;
use vesica_block::blake::{self, Message, Texts};
use vesica_block::{Block, mac};
use vesica_spec::{Duplicates, KeyList, Plan, Rule};
use vesica_table::Slabs;
use vesica_types::{Digest, UnitId};

/// The number of a key of this party's: the unit that it is in, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyId(pub u64);

impl KeyId {
    /// Bits of the place; the unit stands above them.
    const PLACE: u32 = 48;

    /// The key at `place` of `unit`.
    pub fn new(unit: UnitId, place: u64) -> Self {
        Self(u64::from(unit.0) << Self::PLACE | place)
    }

    /// The unit.
    pub fn unit(self) -> UnitId {
        UnitId((self.0 >> Self::PLACE) as u32)
    }

    /// The place among the keys of its unit, in the order of their digests.
    pub fn place(self) -> u64 {
        self.0 & ((1 << Self::PLACE) - 1)
    }
}

/// What is known of a table's keys when it has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// Rows of the table.
    pub rows: u64,
    /// Distinct keys that are not empty.
    pub distinct: u64,
    /// Rows whose key is empty or has an empty column; of identifiers, rows that have none.
    pub empty: u64,
    /// Rows whose key stands in an earlier row too; of identifiers, each of a row's that does.
    pub duplicates: u64,
    /// What the rules did; none if an earlier attempt read the table.
    pub ruled: Option<Ruled>,
}

impl Keys {
    /// The keys of all rows: one of each row that has a key; of identifiers, all that a row has.
    pub fn entries(&self) -> u64 {
        self.distinct + self.duplicates
    }

    /// Rows that take part in the join: all but those that the job leaves out for repeating a key.
    pub fn kept(&self, duplicates: Duplicates) -> u64 {
        if duplicates == Duplicates::First { self.distinct + self.empty } else { self.rows }
    }
}

/// How the keys of a table are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The columns that make up the key, or all identifiers.
    pub keys: &'a [String],
    /// What is done to each of them, where they make up one key.
    pub rules: &'a [Vec<Rule>],
    /// The identifiers that a row has; none if the columns make up one key.
    pub lists: &'a [KeyList],
    /// What is done with a key that stands in several rows.
    pub duplicates: Duplicates,
    /// Bytes of memory of the whole run.
    pub memory: u64,
    /// Threads that work at once, at most.
    pub workers: u32,
    /// Memory that is used again, if there is some.
    pub slabs: Option<&'a Slabs>,
}

impl<'a> From<&'a Plan> for Reading<'a> {
    fn from(plan: &'a Plan) -> Self {
        let Plan { keys, rules, lists, shared, memory, workers, .. } = plan;
        let (duplicates, memory, workers, slabs) = (shared.duplicates, *memory, *workers, None);
        Self { keys, rules, lists, duplicates, memory, workers, slabs }
    }
}

impl<'a> Reading<'a> {
    /// The same, in memory that comes from `slabs` and goes there.
    #[must_use]
    pub fn reusing(self, slabs: &'a Slabs) -> Self {
        Self { slabs: Some(slabs), ..self }
    }

    /// How many keys a row may have. What stands in records as a row's number is the number of one of these: that of the row times so many,
    /// and the place of the identifier among them.
    pub fn of_a_row(&self) -> u64 {
        self.lists.len().max(1) as u64
    }
}

/// The row that an identifier is of, and the list of columns that it was read from, where there are lists. `number` is what stands in records for
/// the row, by [`Reading::of_a_row`].
pub fn of_identifier(lists: &[KeyList], number: u64) -> (u64, &KeyList) {
    let many = lists.len() as u64;
    (number / many, &lists[(number % many) as usize])
}

/// What the rules did to the keys of a table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Ruled {
    /// Rows whose key is not as it stands in the table; of identifiers, each of a row's that is not.
    pub changed: u64,
    /// Rows whose key became empty; of identifiers, each of a row's that did.
    pub emptied: u64,
}

impl AddAssign for Ruled {
    fn add_assign(&mut self, other: Self) {
        self.changed += other.changed;
        self.emptied += other.emptied;
    }
}

/// A service's keys are hashed under a key of their own, so that these digests are of use nowhere else.
static KEY_DOMAIN: std::sync::LazyLock<[u8; 32]> =
    std::sync::LazyLock::new(|| blake3::derive_key("vesica 2026 key", &[]));

/// Texts that are hashed together: they and their hashes stay in the first-level cache.
const TOGETHER: usize = 256;

/// The digests of a batch's keys, for a service, which has no salt. The columns of the batch are the key's.
///
/// Gives each row that has a key, in any order, with its place in the batch; returns how many rows have none.
pub fn digests(rules: &[Vec<Rule>], batch: &RecordBatch, mut each: impl FnMut(&[u8; 32], usize)) -> u64 {
    let mut empties = Vec::new();
    Hasher::new(rules, &[], false, &KEY_DOMAIN)
        .hash(batch, &mut empties, &mut |hash, place, _| each(hash, place as usize));
    empties.len() as u64
}

/// The same keys, hashed with a run's salt: what a protocol works on, and 64 bits more that say which unit a key belongs to.
pub fn salted_digests(
    rules: &[Vec<Rule>],
    salt: &[u8; 32],
    batch: &RecordBatch,
    mut each: impl FnMut(Digest, u64, usize),
) -> u64 {
    let mut empties = Vec::new();
    Hasher::new(rules, &[], false, &salted(salt)).hash(batch, &mut empties, &mut |hash, place, _| {
        let (digest, spread) = parts(hash);
        each(digest, spread, place as usize);
    });
    empties.len() as u64
}

/// What keys are hashed under in the run of this salt.
pub fn salted(salt: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("vesica 2026 salted key", salt)
}

/// The digest and the number in a salted hash.
pub fn parts(hash: &[u8; 32]) -> (Digest, u64) {
    let (digest, rest) = hash.split_first_chunk::<16>().expect("a hash has 32 bytes");
    (Digest(*digest), u64::from_le_bytes(*rest.first_chunk().expect("16 bytes are left")))
}

/// Hashes the keys of batches.
pub struct Hasher {
    rules: Vec<Vec<Rule>>,
    lists: Vec<KeyList>,
    as_written: bool,
    key: [u8; 32],
    /// What short texts get a value of 16 bytes by, in the place of a hash.
    short: Option<Aes128>,
    text: Vec<u8>,
    places: Vec<u32>,
    hashes: Hashes<u32>,
    identifiers: Hashes<[u32; 2]>,
}

impl Hasher {
    /// Hashes under `key` what `rules` make of each column or, if `as_written`, what stands there before them: of all columns together, or
    /// of those of each of `lists` with the rules that it has.
    pub fn new(rules: &[Vec<Rule>], lists: &[KeyList], as_written: bool, key: &[u8; 32]) -> Self {
        let (text, places) = (Vec::new(), Vec::with_capacity(TOGETHER));
        let (rules, lists) = (rules.to_vec(), lists.to_vec());
        let (hashes, identifiers) = (Hashes::new(key), Hashes::new(key));
        Self { rules, lists, as_written, key: *key, short: None, text, places, hashes, identifiers }
    }

    /// The same, where the first 16 bytes of a hash are enough, and nobody else has the key: where a key is one text and no rules are
    /// done to it, another function gives them in less time, and the other bytes are zeros. A key gets the same in every batch.
    pub fn counting(self) -> Self {
        let short = Aes128::has_instructions().then(|| {
            let key = blake3::derive_key("vesica 2026 fingerprint", &self.key);
            let (key, _) = key.split_first_chunk().expect("a key has 32 bytes");
            Aes128::new(Block::from_le_bytes(*key))
        });
        Self { short, ..self }
    }

    /// Gives the hash of each row of `batch` that has a key, in any order, with its place in the batch, and of identifiers each that a row
    /// has, with the place of its list. Makes `empties` the places of the rows without any, in order; tells what the rules did.
    pub fn hash(
        &mut self,
        batch: &RecordBatch,
        empties: &mut Vec<u32>,
        each: &mut impl FnMut(&[u8; 32], u32, u32),
    ) -> Ruled {
        if !self.lists.is_empty() {
            return self.hash_identifiers(batch, empties, each);
        }
        let Self { rules, as_written, key, short, text, places, hashes, .. } = self;
        let rows = batch.num_rows() as u32;
        empties.clear();
        let mut ruled = Ruled::default();
        let mut give = |hash: &[u8; 32], place| {
            each(hash, place, 0);
            Ok::<_, Infallible>(())
        };
        let columns: Vec<&StringArray> = batch.columns().iter().map(|c| c.as_string::<i32>()).collect();
        if let ([column], [of_column]) = (&columns[..], &rules[..])
            && of_column.is_empty()
        {
            // Nothing is done to the texts: they are hashed where they stand.
            let texts = Texts::new(column.value_data(), column.value_offsets());
            let (mut of_texts, mut values) = ([[0; 32]; TOGETHER], [Block::ZERO; TOGETHER]);
            for place in 0..rows {
                match column.value_length(place as usize) as usize {
                    0 => empties.push(place),
                    1..=Texts::LONGEST => places.push(place),
                    _ => {
                        encode(&columns, place as usize, rules, false, text);
                        let Ok(()) = hashes.push(text, place, &mut give);
                    }
                }
                if places.len() == TOGETHER || place + 1 == rows {
                    if let Some(aes) = short {
                        mac::texts(aes, TEXT, texts, places, &mut values);
                        of_texts
                            .iter_mut()
                            .zip(&values)
                            .for_each(|(hash, v)| hash[..16].copy_from_slice(&v.to_le_bytes()));
                    } else {
                        blake::keyed_texts(key, TEXT, texts, places, &mut of_texts);
                    }
                    for (place, hash) in places.drain(..).zip(&of_texts) {
                        let Ok(()) = give(hash, place);
                    }
                }
            }
        } else {
            for place in 0..rows {
                let what = encode(&columns, place as usize, rules, *as_written, text);
                ruled.changed += u64::from(what.changed);
                ruled.emptied += u64::from(what.emptied);
                if what.present {
                    let Ok(()) = hashes.push(text, place, &mut give);
                } else {
                    empties.push(place);
                }
            }
        }
        let Ok(()) = hashes.flush(&mut give);
        ruled
    }

    /// [`Hasher::hash`], of identifiers. What a row has twice under one name it has once.
    fn hash_identifiers(
        &mut self,
        batch: &RecordBatch,
        empties: &mut Vec<u32>,
        each: &mut impl FnMut(&[u8; 32], u32, u32),
    ) -> Ruled {
        let Self { lists, as_written, identifiers, .. } = self;
        empties.clear();
        let mut ruled = Ruled::default();
        let mut give = |hash: &[u8; 32], [place, list]: [u32; 2]| {
            each(hash, place, list);
            Ok::<_, Infallible>(())
        };
        let columns: Vec<&StringArray> = batch.columns().iter().map(|c| c.as_string::<i32>()).collect();
        let of_lists: Vec<Vec<&StringArray>> =
            lists.iter().map(|list| list.columns.iter().map(|&place| columns[place]).collect()).collect();
        // What the row has under each list; nothing where it has none.
        let mut of_row = vec![Vec::new(); lists.len()];
        for place in 0..batch.num_rows() as u32 {
            let mut has = false;
            for (at, (list, columns)) in lists.iter().zip(&of_lists).enumerate() {
                let (before, now) = of_row.split_at_mut(at);
                let text = &mut now[0];
                text.clear();
                text.push(IDENTIFIER);
                text.extend_from_slice(&(list.name.len() as u64).to_le_bytes());
                text.extend_from_slice(list.name.as_bytes());
                let what = encode_behind(columns, place as usize, &list.rules, *as_written, text);
                ruled.changed += u64::from(what.changed);
                ruled.emptied += u64::from(what.emptied);
                if !what.present {
                    text.clear();
                    continue;
                }
                // The name is a part of it.
                if before.contains(text) {
                    continue;
                }
                has = true;
                let Ok(()) = identifiers.push(text, [place, at as u32], &mut give);
            }
            if !has {
                empties.push(place);
            }
        }
        let Ok(()) = identifiers.flush(&mut give);
        ruled
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

/// What stands before an identifier: then come the length of its name, the name, and the encoding of a key. So an identifier equals only
/// another of its name, and no key.
const IDENTIFIER: u8 = 2;

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
    encode_behind(columns, row, rules, as_written, out)
}

/// The same, behind what stands in `out`.
#[inline(always)]
fn encode_behind(
    columns: &[&StringArray],
    row: usize,
    rules: &[Vec<Rule>],
    as_written: bool,
    out: &mut Vec<u8>,
) -> Encoded {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::JobError;
    use crate::tell::control::Control;
    use crate::units::cut::Units;
    use std::io::Write;
    use vesica_suite::Sizes;
    use vesica_table::Table;
    use vesica_types::TagLen;

    /// A table that was read, counted and cut.
    struct Read {
        keys: Keys,
        units: Units,
        duplicates: Duplicates,
    }

    impl Read {
        fn of(table: &dyn Table, how: Reading<'_>, salt: u8) -> Result<Self, JobError> {
            let (dir, ctl, tag_len) = (std::env::temp_dir(), Control::new(()), TagLen::new(9).unwrap());
            let keys = Keys::count(table, how, &dir, &ctl)?;
            let sizes = Sizes { units: 7, in_flight: 2, keys: vec![keys.distinct], capacities: vec![1 << 20], tag_len };
            let units = Units::cut(table, how, &keys, None, &[salt; 32], sizes, 0, &dir, &ctl)?;
            Ok(Self { keys, units, duplicates: how.duplicates })
        }

        fn kept(&self) -> u64 {
            self.keys.kept(self.duplicates)
        }

        /// The rows of each key, and those without one.
        fn rows(&self) -> (Vec<Vec<u64>>, Vec<u64>) {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for id in (0..7).map(UnitId) {
                let each = |first: bool, row| {
                    match with.last_mut() {
                        Some(rows) if !first => Vec::push(rows, row),
                        _ => with.push(vec![row]),
                    }
                    Ok(())
                };
                self.units.each(id, each).unwrap();
            }
            self.units
                .each_empty(|row| {
                    without.push(row);
                    Ok(())
                })
                .unwrap();
            with.sort();
            without.sort_unstable();
            (with, without)
        }

        /// Every key as a unit gets it: its digest, and how many rows have it.
        fn all(&self) -> Vec<(Digest, KeyId, u64)> {
            let unit = |id| {
                let (unit, counts) = self.units.unit(UnitId(id)).unwrap();
                (0..).zip(unit.keys).map(move |(place, digest)| {
                    let (key, rows) = counts.at(place);
                    (digest, key, rows)
                })
            };
            (0..7).flat_map(unit).collect()
        }
    }

    fn try_read(csv: &str, columns: &[&str], shared: &str) -> Result<Read, JobError> {
        read_in(csv, columns, shared, 1 << 30, 1)
    }

    fn read_in(csv: &str, columns: &[&str], shared: &str, memory: u64, salt: u8) -> Result<Read, JobError> {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        let job = format!(
            "[shared]\nid = \"j\"\nparties = [\"a\", \"b\"]\nprotocol = \"ecdh\"\nlearns = [\"b\"]\ninsecure = true\n{shared}\n\
             [mine]\nname = \"a\"\nlisten = \"h:1\"\ninput = {{ path = \"{}\", keys = {columns:?} }}\n",
            file.path().display()
        );
        let plan = vesica_spec::Plan { memory, ..vesica_spec::plan(&vesica_spec::parse(&job).unwrap()).unwrap() };
        let table = vesica_table::open(&plan.input).unwrap();
        Read::of(&*table, (&plan).into(), salt)
    }

    fn read(csv: &str, columns: &[&str]) -> Read {
        try_read(csv, columns, "").unwrap()
    }

    #[test]
    fn rows_keys_empties_and_duplicates_are_counted() {
        let csv = "id,v\na,1\nb,2\n,3\na,4\n\"a\",5\n";
        let all = read(csv, &["id"]);
        let keys = Keys { rows: 5, distinct: 2, empty: 1, duplicates: 2, ruled: Some(Ruled::default()) };
        assert_eq!((all.keys, all.kept()), (keys, 5));
        assert_eq!(all.rows(), (vec![vec![0, 3, 4], vec![1]], vec![2]));

        let first = try_read(csv, &["id"], "duplicates = \"first\"").unwrap();
        assert_eq!((first.keys, first.kept()), (keys, 3));
        assert_eq!(first.rows(), (vec![vec![0], vec![1]], vec![2]));
        let error = try_read(csv, &["id"], "duplicates = \"error\"").err().unwrap();
        assert!(error.to_string().contains("row 4 repeats the key of an earlier row, as does 1 more row"), "{error}");
        assert!(try_read("id\na\n\n\nb\n", &["id"], "duplicates = \"error\"").is_ok(), "empty keys are no duplicates");
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
            let of = |memory| read_in(&csv, &["id"], &format!("duplicates = \"{duplicates}\""), memory, 1).unwrap();
            let (little, enough) = (of(64 << 10), of(1 << 30));
            assert_eq!((little.keys.distinct, little.keys.duplicates), (5005, 14_995));
            assert_eq!((little.keys, little.kept()), (enough.keys, enough.kept()));
            assert!(little.rows() == enough.rows() && little.all() == enough.all());
            let kept = if duplicates == "first" { 1 } else { 10_000 };
            assert_eq!(little.all().iter().map(|(.., rows)| *rows).max(), Some(kept));
        }
        let error = read_in(&csv, &["id"], "duplicates = \"error\"", 64 << 10, 1).err().unwrap();
        assert!(error.to_string().contains("row 2 repeats the key of an earlier row, as do 14,994 more"), "{error}");
    }

    /// All rows of a table have one key, whatever the memory.
    #[test]
    fn a_table_may_have_one_key() {
        let csv = "id\n".to_owned() + &"x\n".repeat(50_000);
        for memory in [64 << 10, 1 << 30] {
            let one = read_in(&csv, &["id"], "", memory, 1).unwrap();
            let all = one.all();
            assert_eq!((one.keys.distinct, all.len(), all[0].2), (1, 1, 50_000));
            assert_eq!(one.rows().0, [(0..50_000).collect::<Vec<_>>()]);
        }
    }

    #[test]
    fn a_table_that_has_other_rows_when_it_is_cut_is_an_error() {
        let columns = ["id".to_owned()];
        let rules = [Vec::new()];
        let how = Reading {
            keys: &columns,
            rules: &rules,
            lists: &[],
            duplicates: Duplicates::Join,
            memory: 1 << 20,
            workers: 1,
            slabs: None,
        };
        let table = |rows: &[&str]| {
            let texts: arrow_array::ArrayRef = std::sync::Arc::new(StringArray::from(rows.to_vec()));
            let batch = RecordBatch::try_from_iter([("id", texts)]).unwrap();
            vesica_table::Memory::new("a table", batch.schema(), vec![batch]).unwrap()
        };
        let (dir, ctl, tag_len) = (std::env::temp_dir(), Control::new(()), TagLen::new(9).unwrap());
        let keys = Keys::count(&table(&["a", "", "b"]), how, &dir, &ctl).unwrap();
        for (rows, word) in
            [(&["a", "", "b"][..], None), (&["a", "c", "b"], Some("without")), (&["", "b"], Some("3 rows"))]
        {
            let sizes = Sizes { units: 7, in_flight: 2, keys: vec![2], capacities: vec![10], tag_len };
            match (Units::cut(&table(rows), how, &keys, None, &[1; 32], sizes, 0, &dir, &ctl), word) {
                (Ok(_), None) => {}
                (Err(error), Some(word)) => {
                    let said = error.to_string();
                    assert!(said.contains("changed while it was being read") && said.contains(word), "{said}");
                }
                (other, _) => panic!("{rows:?} {}", other.is_ok()),
            }
        }
    }

    #[test]
    fn a_unit_with_more_keys_than_agreed_is_an_error() {
        let all = read("id\na\nb\nc\n", &["id"]);
        let full = (0..7).find(|unit| all.units.records().0.len(*unit) > 0).unwrap();
        let mut units = all.units;
        units.sizes.capacities = vec![0];
        let error = units.unit(UnitId(full as u32)).unwrap_err();
        assert!(matches!(error, JobError::Session(vesica_session::Error::Overflow { capacity: 0, .. })), "{error}");
    }

    /// A table with a piece for each batch.
    struct InPieces(Box<dyn Table>);

    impl Table for InPieces {
        fn facts(&self) -> vesica_table::Facts<'_> {
            self.0.facts()
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
            rows: &mut vesica_table::RowIds<'_>,
            selection: vesica_table::Selection<'_>,
            emit: &mut vesica_table::Emit<'_>,
        ) -> Result<(), vesica_table::Error> {
            self.0.select(rows, selection, emit)
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
        let csv = (0..30_000).fold(String::from("id,v\n"), |csv, i| csv + &format!("{},{i}\n", key(i)));
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        let (columns, rules) = (["id".to_owned()], [Vec::new()]);
        // What others left in the memory is nowhere seen.
        let slabs = Slabs::default();
        let read = |table: &dyn Table, memory, workers| {
            let duplicates = Duplicates::Join;
            let how = Reading { keys: &columns, rules: &rules, lists: &[], duplicates, memory, workers, slabs: None };
            Read::of(table, how.reusing(&slabs), 1).unwrap()
        };
        let open = || vesica_table::open(&vesica_table::Input::new(file.path())).unwrap();
        let plain = read(&*open(), 1 << 30, 1);
        assert_eq!((plain.keys.empty, plain.keys.distinct), (4286, 7144));
        assert_eq!(plain.rows().1, (3..30_000).step_by(7).collect::<Vec<_>>());
        for memory in [64 << 10, 1 << 30] {
            for workers in [1, 2, 4] {
                let again = read(&InPieces(open()), memory, workers);
                assert_eq!(again.keys, plain.keys);
                assert!(again.rows() == plain.rows() && again.all() == plain.all(), "{memory} {workers}");
            }
        }
    }

    #[test]
    fn texts_of_every_length_are_hashed_alike() {
        // Without a rule they are hashed where they stand; a rule that does nothing copies them.
        let text = |i: usize| "x".repeat(i % 70) + if i.is_multiple_of(70) { "" } else { "y" };
        let csv = (0..300).fold(String::from("id\n"), |csv, i| csv + &format!("\"{}\"\n", text(i)));
        let (plain, ruled) = (read(&csv, &["id"]), try_read(&csv, &["id"], "rules = [\"trim\"]").unwrap());
        assert_eq!((plain.keys.empty, plain.keys.distinct), (5, 69));
        assert_eq!((plain.rows(), plain.all()), (ruled.rows(), ruled.all()));
    }

    #[test]
    fn rules_are_applied_before_keys_are_compared() {
        let csv = "id,x\n A ,1\na,1\nb,\n??,1\n,1\n";
        let keys = try_read(csv, &["id"], "rules = [\"trim\", \"lower\"]").unwrap().keys;
        let ruled = Some(Ruled { changed: 1, emptied: 0 });
        assert_eq!(keys, Keys { rows: 5, distinct: 3, empty: 1, duplicates: 1, ruled });
        let keys = try_read(csv, &["id", "x"], "rules = [[\"digits\"], []]").unwrap().keys;
        let ruled = Some(Ruled { changed: 4, emptied: 3 });
        assert_eq!(keys, Keys { rows: 5, distinct: 0, empty: 5, duplicates: 0, ruled });
        let plain = read("id\na\n", &["id"]);
        let ruled = try_read("id\n A\n", &["id"], "rules = [\"trim\", \"lower\"]").unwrap();
        assert_eq!(plain.all(), ruled.all(), "the same key as one that was written so");
    }

    #[test]
    fn keys_of_several_columns_do_not_run_together() {
        let all = read("x,y\n\"a,b\",c\na,\"b,c\"\nab,c\na,bc\na,\n", &["x", "y"]);
        assert_eq!((all.keys.distinct, all.keys.empty), (4, 1));
        let swapped = read("y,x\nc,\"a,b\"\n", &["x", "y"]);
        let digests: Vec<Digest> = all.all().iter().map(|(digest, ..)| *digest).collect();
        assert!(digests.contains(&swapped.all()[0].0), "columns are taken in the order of the job, not of the file");
    }

    /// What a key is must never depend on a machine, a compiler or a library's version: both sides compute it.
    #[test]
    fn a_key_is_the_same_everywhere() {
        let text: arrow_array::ArrayRef = std::sync::Arc::new(StringArray::from(vec!["Ana"]));
        let seven: arrow_array::ArrayRef = std::sync::Arc::new(StringArray::from(vec!["7"]));
        let batch = RecordBatch::try_from_iter([("id", text), ("x", seven)]).unwrap();
        let mut all = Vec::new();
        salted_digests(&[Vec::new(), Vec::new()], &[1; 32], &batch, |digest, spread, _| all.push((digest, spread)));
        let [(digest, spread)] = all[..] else { panic!("one key") };
        let hex: String = digest.0.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!((hex.as_str(), spread), ("d8dceb82d7672a99633dc0b0efc2dbd3", 6974377602751183856));
        let all = read("id,x\nAna,7\n", &["id", "x"]).all();
        assert_eq!(all, [(digest, KeyId::new(UnitId(crate::units::cut::unit_of(spread, 7)), 0), 1)]);
    }

    /// Identifiers of these columns of a table: two of one kind, and one of two columns.
    fn lists() -> Vec<KeyList> {
        let list = |kind, name: &str, columns: &[usize]| KeyList {
            kind,
            name: name.into(),
            columns: columns.to_vec(),
            rules: vec![vec!["lower".parse().unwrap()]; columns.len()],
        };
        vec![list(0, "mail", &[0]), list(0, "mail", &[1]), list(1, "person", &[1, 2])]
    }

    fn identified(csv: &str, lists: &[KeyList], salt: u8) -> Read {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(csv.as_bytes()).unwrap();
        let table = vesica_table::open(&vesica_table::Input::new(file.path())).unwrap();
        let columns = ["a", "b", "c"].map(str::to_owned);
        let how = Reading {
            keys: &columns,
            rules: &[],
            lists,
            duplicates: Duplicates::Join,
            memory: 1 << 30,
            workers: 2,
            slabs: None,
        };
        Read::of(&*table, how, salt).unwrap()
    }

    /// What stands for a row in records is the number of one of its identifiers.
    #[test]
    fn a_row_has_each_of_its_identifiers_once() {
        let read = identified("a,b,c\nx,X,1\n,y,\n,,\nY,x,1\nz,,\n", &lists(), 1);
        let ruled = Some(Ruled { changed: 3, emptied: 0 });
        // x in two rows, once in the first; y in two; z; the person x, 1 in two.
        assert_eq!(read.keys, Keys { rows: 5, distinct: 4, empty: 1, duplicates: 3, ruled });
        assert_eq!((read.keys.entries(), read.kept()), (7, 5));
        assert_eq!(read.rows(), (vec![vec![0, 10], vec![2, 11], vec![4, 9], vec![12]], vec![2]));
    }

    /// Equal texts under other names are other identifiers, and none is a key without a name.
    #[test]
    fn an_identifier_equals_only_another_of_its_name() {
        let mut lists = lists();
        lists.truncate(1);
        let digests = |lists: &[KeyList]| {
            identified("a,b,c\nx,,\n", lists, 1).all().into_iter().map(|(digest, ..)| digest).collect::<Vec<_>>()
        };
        let mail = digests(&lists);
        let text = [&[2][..], &4u64.to_le_bytes(), b"mail", &[1], &1u64.to_le_bytes(), b"x"].concat();
        let salt = blake3::derive_key("vesica 2026 salted key", &[1; 32]);
        assert_eq!(
            mail,
            [parts(blake3::keyed_hash(&salt, &text).as_bytes()).0],
            "what an identifier is must never change"
        );
        lists[0].name = "tel".into();
        assert_ne!(digests(&lists), mail);
        assert_ne!(vec![read("id\nx\n", &["id"]).all()[0].0], mail);
    }

    /// Short ones and long ones are counted by two functions.
    #[test]
    fn keys_of_every_length_are_counted_once() {
        let rows: String = (1..=130).map(|n| "x".repeat(n) + "\n").collect();
        let keys = read(&format!("id\n{rows}{rows}"), &["id"]).keys;
        assert_eq!((keys.distinct, keys.duplicates, keys.empty), (130, 130, 0));
    }

    #[test]
    fn a_salted_key_depends_on_key_and_salt_alone() {
        let (a, b) = (read("id\nx\ny\n", &["id"]).all(), read("k,id\n1,z\n2,x\n", &["id"]).all());
        let common = |(digest, key, _): &&(Digest, KeyId, u64)| {
            b.iter().any(|(other, at, _)| other == digest && at.unit() == key.unit())
        };
        assert_eq!(a.iter().filter(common).count(), 1);
        let of = |salt| read_in("id\nx\n", &["id"], "", 1 << 30, salt).unwrap().all()[0].0;
        assert_ne!(of(1), of(2));
    }
}
