//! Retrieval by key instead of by number: one query a key, over every [`Linear`] scheme.
//!
//! [CD24] Celi, Davidson, "Call Me By My Name: Simple, Practical Private Information Retrieval for Keyword Queries", CCS 2024, eprint 2024/092,
//! Figure 3, with four places instead of three, and groups.
//!
//! The value of a key is the sum of four records of a table ([`crate::fuse`]), and a query for the sum of four records costs what a query for one
//! costs. Records of different groups of the scheme cannot be added up. So a hash first sends each key to a group, and each group is a table of
//! its own.
//!
//! A record is a tag and a value. A key that is not there gives random bytes, whose tag is wrong: with probability 2^-64 it is right by chance,
//! so among 2^24 queries with 2^-40. Whether the tag is right is known to the client alone: it asks once for a key, whatever comes back, and
//! its errors depend on the length and the epoch of an answer, never on what it holds.
//!
//! **Rows that are not public.** What a client of SimplePIR sees besides its record is a whole column, and 1024 equations about each row. If
//! a client must not see other rows, [`Rows::Sealed`] is needed: keys come from an oblivious function of the caller's, and each value is
//! encrypted under a key from the same output. The cipher is SIV (Rogaway, Shrimpton, EUROCRYPT 2006, section 4) with keyed BLAKE3 as its two
//! functions: its tag is a pseudorandom function of the value, so nothing is lost if a key's value changes, and a value that was not changed
//! has the same bytes in the next table.

use crate::fuse::{self, Fuse, mix};
use crate::{Linear, PirError, Records};
use subtle::ConstantTimeEq;
use vesica_block::{Block, large, prg::Prg};
use vesica_session::SessionRng;
use zeroize::{Zeroize, Zeroizing};

/// Seeds that are tried for one table of keys before it is given up.
const TRIES: usize = 64;

/// Whether values may be seen by every client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// Every client may see every row: a value stands in the clear behind a tag of 8 bytes.
    Public,
    /// A client may see the rows whose keys it knows the function of: a value is encrypted behind a tag of 16 bytes.
    Sealed,
}

impl Rows {
    /// Bytes of the tag.
    pub fn tag_bytes(self) -> usize {
        match self {
            Rows::Public => 8,
            Rows::Sealed => 16,
        }
    }
}

/// A key as both sides know it: where it stands, and how its value is marked and sealed.
pub struct Key {
    group: u64,
    hash: [u64; 2],
    tag: [u8; 8],
    seal: Zeroizing<[u8; 32]>,
}

impl Key {
    /// The key of an oblivious function's output. Where rows are public, a hash of the key itself may stand in its place.
    ///
    /// # Errors
    /// If the output has not 32 or 64 bytes.
    pub fn new(output: &[u8]) -> Result<Self, PirError> {
        if !matches!(output.len(), 32 | 64) {
            return Err(PirError::Shape(format!(
                "a key of {} bytes; the function's output has 32 or 64",
                output.len()
            )));
        }
        let mut bytes = Zeroizing::new([0; 64]);
        blake3::Hasher::new_derive_key("vesica 2026 keyword retrieval")
            .update(output)
            .finalize_xof()
            .fill(bytes.as_mut());
        let word = |i: usize| u64::from_le_bytes(bytes.as_chunks().0[i]);
        let mut seal = Zeroizing::new([0; 32]);
        seal.copy_from_slice(&bytes[32..]);
        Ok(Self { group: word(0), hash: [word(1), word(2)], tag: word(3).to_le_bytes(), seal })
    }

    /// The functions of SIV: a tag of the value, and a stream of bytes for that tag.
    fn siv(&self, value: &[u8]) -> [u8; 16] {
        let key = Zeroizing::new(blake3::derive_key("vesica 2026 keyword retrieval tag", self.seal.as_ref()));
        blake3::keyed_hash(&key, value).as_bytes()[..16].try_into().expect("16 bytes of 32")
    }

    fn mask(&self, tag: &[u8], value: &mut [u8]) {
        let key = Zeroizing::new(blake3::derive_key("vesica 2026 keyword retrieval stream", self.seal.as_ref()));
        let mut stream = Zeroizing::new(vec![0; value.len()]);
        blake3::Hasher::new_keyed(&key).update(tag).finalize_xof().fill(&mut stream);
        value.iter_mut().zip(stream.iter()).for_each(|(byte, mask)| *byte ^= mask);
    }

    /// Tag and value as they stand in a record.
    fn close(&self, rows: Rows, value: &[u8], record: &mut [u8]) {
        let (tag, body) = record.split_at_mut(rows.tag_bytes());
        body.copy_from_slice(value);
        match rows {
            Rows::Public => tag.copy_from_slice(&self.tag),
            Rows::Sealed => {
                tag.copy_from_slice(&self.siv(value));
                self.mask(tag, body);
            }
        }
    }

    /// The value, if the record is this key's. The same work is done whether it is or not.
    fn open(&self, rows: Rows, record: &[u8]) -> Option<Vec<u8>> {
        let (tag, body) = record.split_at(rows.tag_bytes());
        let mut value = body.to_vec();
        let right = match rows {
            Rows::Public => tag.ct_eq(&self.tag),
            Rows::Sealed => {
                self.mask(tag, &mut value);
                self.siv(&value).ct_eq(tag)
            }
        };
        let right = bool::from(right);
        if !right {
            value.zeroize();
        }
        right.then_some(value)
    }
}

/// What both sides know of a table of keys; it is public.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Whether values are sealed.
    pub rows: Rows,
    /// Bytes of a value.
    pub value: usize,
    /// Slots of each group's table.
    pub slots: usize,
    /// What sends keys to groups.
    pub spread: u64,
    /// The seed of each group's table.
    pub seeds: Vec<u64>,
}

impl Layout {
    /// The fewest groups of at most `slots` slots each that hold so many keys, and how many slots each then needs, a multiple of `step`.
    /// Groups have room for four standard deviations more than their share of the keys.
    pub fn plan(keys: u64, slots: usize, step: usize) -> (usize, usize) {
        let step = step.max(1) * fuse::LEAST.div_ceil(step.max(1));
        let most = (slots / step * step).max(step);
        let share = |groups: usize| {
            let share = keys as f64 / groups as f64;
            let room = if groups == 1 { 0.0 } else { 4.0 * share.sqrt() };
            (share + room).ceil() as usize
        };
        let groups = (1..).find(|&groups| share(groups) <= Fuse::capacity(most).max(1)).expect("one key fits a group");
        let slots = (step..=most).step_by(step).find(|&slots| Fuse::capacity(slots) >= share(groups)).unwrap_or(most);
        (groups, slots)
    }

    /// Bytes of a record.
    pub fn width(&self) -> usize {
        self.rows.tag_bytes() + self.value
    }

    /// Records of the table.
    pub fn records(&self) -> u64 {
        (self.seeds.len() * self.slots) as u64
    }

    fn group(&self, key: &Key) -> usize {
        ((u128::from(mix(key.group ^ self.spread)) * self.seeds.len() as u128) >> 64) as usize
    }

    fn fuse(&self, group: usize) -> Fuse {
        Fuse::new(self.slots, self.seeds[group])
    }

    /// As it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![(self.rows == Rows::Sealed).into()];
        let numbers = [self.value as u64, self.slots as u64, self.spread, self.seeds.len() as u64];
        numbers.iter().chain(&self.seeds).for_each(|number| out.extend(number.to_le_bytes()));
        out
    }

    /// The layout as it came, for tables of at most 2^20 groups.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PirError> {
        let bad = || PirError::Message(format!("a table's layout of {} bytes that is none", bytes.len()));
        let (&sealed, numbers) = bytes.split_first().ok_or_else(bad)?;
        let (numbers, rest) = numbers.as_chunks();
        let numbers: Vec<u64> = numbers.iter().map(|&number| u64::from_le_bytes(number)).collect();
        let [value, slots, spread, groups, seeds @ ..] = numbers.as_slice() else { return Err(bad()) };
        let bounded = (1..=1 << 17).contains(value) && (fuse::LEAST as u64..=1 << 24).contains(slots);
        if sealed > 1
            || !rest.is_empty()
            || !bounded
            || !(1..=1 << 20).contains(groups)
            || seeds.len() as u64 != *groups
        {
            return Err(bad());
        }
        let rows = if sealed == 1 { Rows::Sealed } else { Rows::Public };
        Ok(Self { rows, value: *value as usize, slots: *slots as usize, spread: *spread, seeds: seeds.to_vec() })
    }
}

/// A table of keys as records for a scheme.
pub struct Table {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Table {
    /// The table of some keys. Record i of `values` is the value of key i. `slots` is how many slots a group may have, a multiple of `step`.
    ///
    /// # Errors
    /// If there are no keys, their number is not that of the values, or one stands there twice.
    pub fn build(
        keys: &[Key],
        values: &dyn Records,
        rows: Rows,
        slots: usize,
        step: usize,
        rng: &mut SessionRng,
    ) -> Result<Self, PirError> {
        if keys.is_empty() || keys.len() as u64 != values.len() || keys.len() > u32::MAX as usize {
            return Err(PirError::Shape(format!(
                "{} keys with {} values; a table takes 1 to 2^32 of each",
                keys.len(),
                values.len()
            )));
        }
        let (groups, slots) = Layout::plan(keys.len() as u64, slots, step);
        let mut layout = Layout { rows, value: values.width(), slots, spread: 0, seeds: vec![0; groups] };
        // 1. Keys to groups, until no group has more than fits.
        let members = (0..TRIES)
            .find_map(|_| {
                layout.spread = u64::from_le_bytes(rng.bytes());
                let mut members = vec![Vec::new(); groups];
                keys.iter().enumerate().for_each(|(i, key)| members[layout.group(key)].push(i));
                members.iter().all(|m| m.len() <= Fuse::capacity(slots).max(1)).then_some(members)
            })
            .ok_or_else(|| {
                PirError::Shape(format!("{} keys do not spread over {groups} groups of {slots} slots: some are equal, or a group needs more slots", keys.len()))
            })?;
        // 2. Free slots look like full ones.
        let width = layout.width();
        let mut bytes = large::filled(0u8, layout.records() as usize * width);
        Prg::new(Block::from_le_bytes(rng.bytes())).fill_bytes(&mut bytes);
        let mut table = Self { layout, bytes };
        for (group, members) in members.into_iter().enumerate() {
            table.fill(group, &members, keys, values, rng)?;
        }
        Ok(table)
    }

    /// One group: a seed under which its keys can be peeled, and their values.
    fn fill(
        &mut self,
        group: usize,
        members: &[usize],
        keys: &[Key],
        values: &dyn Records,
        rng: &mut SessionRng,
    ) -> Result<(), PirError> {
        let hashes: Vec<[u64; 2]> = members.iter().map(|&i| keys[i].hash).collect();
        let mut tries = (0..TRIES).filter_map(|_| {
            self.layout.seeds[group] = u64::from_le_bytes(rng.bytes());
            self.layout.fuse(group).order(&hashes)
        });
        let order = tries
            .next()
            .ok_or_else(|| PirError::Shape("some keys are equal: remove those that stand in the table twice".into()))?;
        let (rows, width, size) = (self.layout.rows, self.layout.width(), self.layout.slots * self.layout.width());
        let (mut value, mut record) = (vec![0; self.layout.value], vec![0; width]);
        let table = &mut self.bytes[group * size..][..size];
        for (member, place) in order {
            let i = members[member as usize];
            values.read(i as u64, &mut value);
            keys[i].close(rows, &value, &mut record);
            self.layout.fuse(group).set(keys[i].hash, place as usize, &record, table);
        }
        Ok(())
    }

    /// What a client must know of it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl Records for Table {
    fn len(&self) -> u64 {
        self.layout.records()
    }

    fn width(&self) -> usize {
        self.layout.width()
    }

    fn read(&self, index: u64, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes[index as usize * out.len()..][..out.len()]);
    }
}

/// A client's view: a scheme, and how the table that it serves is laid out.
pub struct Keyword<P> {
    scheme: P,
    layout: Layout,
}

/// What the client must remember of one query.
pub struct Asked<P: Linear> {
    secret: P::Secret,
    key: Option<Key>,
}

impl<P: Linear> Keyword<P> {
    /// The layout over a scheme.
    ///
    /// # Errors
    /// If a group's table is not within a group of the scheme.
    pub fn new(scheme: P, layout: Layout) -> Result<Self, PirError> {
        if layout.slots < fuse::LEAST || !scheme.group().is_multiple_of(layout.slots as u64) {
            let (slots, group) = (layout.slots, scheme.group());
            return Err(PirError::Shape(format!("tables of {slots} slots over a scheme that adds up {group} records")));
        }
        Ok(Self { scheme, layout })
    }

    /// The scheme.
    pub fn scheme(&self) -> &P {
        &self.scheme
    }

    /// A query for a key, or one for nothing, which fills a batch up to a public size. They look alike.
    ///
    /// # Errors
    /// Those of the scheme.
    pub fn query(
        &self,
        hint: &P::Hint,
        key: Option<Key>,
        rng: &mut SessionRng,
    ) -> Result<(Asked<P>, Vec<u8>), PirError> {
        let indices = key.as_ref().map_or([0; 4], |key| {
            let group = self.layout.group(key);
            self.layout.fuse(group).places(key.hash).map(|place| (group * self.layout.slots + place) as u64)
        });
        let (secret, query) = self.scheme.query_sum(hint, if key.is_some() { &indices } else { &indices[..1] }, rng)?;
        Ok((Asked { secret, key }, query))
    }

    /// The value of the key, or none if it is not in the table.
    ///
    /// # Errors
    /// Those of the scheme, for an answer of another length or epoch.
    pub fn decode(&self, hint: &P::Hint, asked: Asked<P>, answer: &[u8]) -> Result<Option<Vec<u8>>, PirError> {
        let record = Zeroizing::new(self.scheme.decode(hint, asked.secret, answer)?);
        Ok(asked.key.and_then(|key| key.open(self.layout.rows, &record)))
    }
}
