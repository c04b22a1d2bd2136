//! Retrieval by key instead of by number: one query a key, over [`crate::SimplePir`] or [`crate::PackedPir`].
//!
//! [CD24] Celi, Davidson, "Call Me By My Name: Simple, Practical Private Information Retrieval for Keyword Queries", CCS 2024, eprint 2024/092,
//! Figure 3, with four places instead of three, and groups.
//!
//! The record of a key is the *sum* of four slots of a table ([`crate::fuse`]), and a query for the sum of four records costs what a query for
//! one costs. Records that stand in different rows of the scheme's matrix cannot be added up. So a hash first sends each key to a *group* of
//! slots, and each group is a table of its own. The server sees neither the group nor the places.
//!
//! A record is a tag and a body. A key that is not there gives bytes that look random, and its tag is wrong. With tags of 96 bits, one of
//! 2^50 lookups in a service's life finds what is not there with probability 2^50 · 2^-96 = 2^-46. Whether the tag is right is known to
//! the client alone: it asks once for a key, whatever comes back.
//!
//! **A group that changes** is drawn anew: under another salt, with other random bytes in its free slots. So whoever compares the two states
//! sees that the group changed, and not which of its keys did. That holds as long as the caller seals bodies under another key each time, which
//! may follow from the salt. It does so where rows are not public, because a client of SimplePIR sees a whole column with each record, and 1024 equations about each
//! row of the matrix.

use crate::PirError;
use crate::fuse::{self, Fuse};
use subtle::ConstantTimeEq;
use vesica_block::{Block, prg::Prg};
use vesica_params::lwe::Shape;
use vesica_session::SessionRng;

/// Bytes of a tag.
pub const TAG: usize = 12;

/// Seeds that are tried before a table is given up. One works with probability 2/3 and more, so all fail with probability 3^-64.
const TRIES: u8 = 64;

/// What a group's table was last drawn by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// What was drawn at random for it, once for all groups that were drawn together. It is public.
    pub salt: [u8; 32],
    /// How many seeds failed with this salt.
    pub tries: u8,
}

/// Where keys stand. All of it is public. Keys are 32 bytes that look random: an oblivious function's output, or a hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    slots: usize,
    body: usize,
    seed: [u8; 32],
    groups: Vec<Drawn>,
}

/// A key as its group's seed shows it.
struct Inside {
    hash: [u64; 2],
    tag: [u8; TAG],
}

impl Filter {
    /// The shape with the fewest bytes in all for a client that asks `queries` times a table of `keys` keys, with records of `width`
    /// bytes; none if no shape holds it. A group has the slots of [`Shape::group`].
    pub fn shape(keys: u64, width: u32, queries: u64) -> Option<Shape> {
        let all = (10..=18u32).flat_map(|columns| (0..=6u32).map(move |chunks| (columns, chunks)));
        let shapes = all.filter_map(|(columns, chunks)| {
            // Columns are a multiple of 1024, which the chunks of a record share.
            let (groups, slots) = plan(keys, 1 << (columns - chunks), 1 << (10 - chunks))?;
            Shape::new(groups * slots, width, (slots << chunks) as u32, 1 << chunks).ok()
        });
        shapes.min_by_key(|shape| shape.cost(queries))
    }

    /// The same without a hint: records have no chunks, and columns are a multiple of 2048.
    pub fn packed_shape(keys: u64, width: u32, queries: u64) -> Option<Shape> {
        let shapes = (11..=18u32).filter_map(|columns| {
            let (groups, slots) = plan(keys, 1 << columns, 1 << 11)?;
            Shape::packed(groups * slots, width, slots as u32).ok()
        });
        shapes.min_by_key(|shape| shape.cost(queries))
    }

    /// The filter whose records have this shape, with bodies of `body` bytes, under a public `seed`. `tries` says for each group how many
    /// seeds failed when it was drawn with `salt`.
    ///
    /// # Errors
    /// [`PirError::Message`] if these do not belong together.
    pub fn new(shape: &Shape, body: usize, seed: [u8; 32], salt: [u8; 32], tries: &[u8]) -> Result<Self, PirError> {
        let slots = shape.group() as usize;
        if shape.records != (tries.len() * slots) as u64
            || slots < fuse::LEAST
            || shape.width as usize != TAG + body
            || tries.iter().any(|&tries| tries >= TRIES)
        {
            let (records, width, groups) = (shape.records, shape.width, tries.len());
            return Err(PirError::Message(format!(
                "a filter of {groups} groups with bodies of {body} bytes, over {records} records of {width} bytes, which cannot be"
            )));
        }
        let groups = tries.iter().map(|&tries| Drawn { salt, tries }).collect();
        Ok(Self { slots, body, seed, groups })
    }

    /// Takes over that a group was drawn anew.
    ///
    /// # Errors
    /// [`PirError::Message`] if there is no such group, or it cannot have been drawn so.
    pub fn follow(&mut self, group: usize, drawn: Drawn) -> Result<(), PirError> {
        let groups = self.groups.len();
        match self.groups.get_mut(group) {
            Some(place) if drawn.tries < TRIES => *place = drawn,
            _ => {
                let tries = drawn.tries;
                return Err(PirError::Message(format!(
                    "group {group} of {groups}, drawn {tries} times, which cannot be"
                )));
            }
        }
        Ok(())
    }

    /// What each group was drawn by.
    pub fn groups(&self) -> &[Drawn] {
        &self.groups
    }

    /// Slots of a group.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The public seed.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// How many keys a group takes.
    pub fn capacity(&self) -> usize {
        Fuse::capacity(self.slots).max(1)
    }

    /// Bytes of a record.
    pub fn width(&self) -> usize {
        TAG + self.body
    }

    /// The group of a key. It stays the same when groups are drawn anew.
    pub fn group(&self, key: &[u8; 32]) -> usize {
        let hash = blake3::keyed_hash(&self.seed, key);
        let number = u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]));
        ((u128::from(number) * self.groups.len() as u128) >> 64) as usize
    }

    /// The four records whose sum is the key's.
    pub fn places(&self, key: &[u8; 32]) -> [u64; 4] {
        let group = self.group(key);
        let places = Fuse::new(self.slots).places(self.inside(&self.group_seed(group), key).hash);
        places.map(|place| (group * self.slots + place) as u64)
    }

    /// The body of a key in what came for it, if the key is in the table. The tag is compared in constant time.
    pub fn open<'a>(&self, key: &[u8; 32], record: &'a [u8]) -> Option<&'a [u8]> {
        let (tag, body) = record.split_at_checked(TAG)?;
        let right = self.inside(&self.group_seed(self.group(key)), key).tag.ct_eq(tag);
        bool::from(right).then_some(body)
    }

    /// The body of a key in its group's slots, if the key is there.
    pub fn find(&self, key: &[u8; 32], slots: &[u8]) -> Option<Vec<u8>> {
        let (width, first) = (self.width(), self.group(key) * self.slots);
        let mut sum = vec![0u8; width];
        for place in self.places(key) {
            let record = &slots[(place as usize - first) * width..][..width];
            sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum = sum.wrapping_add(*byte));
        }
        self.open(key, &sum).map(<[u8]>::to_vec)
    }

    /// Draws a group with a fresh `salt`, and writes its slots. `bodies` has the bodies of `keys`, one behind the other. Free slots look like
    /// others.
    ///
    /// # Errors
    /// [`PirError::Shape`] if a key stands there twice, or there are too many.
    pub fn fill(
        &mut self,
        group: usize,
        salt: [u8; 32],
        keys: &[&[u8; 32]],
        bodies: &[u8],
        rng: &mut SessionRng,
        slots: &mut [u8],
    ) -> Result<(), PirError> {
        let (fuse, width) = (Fuse::new(self.slots), self.width());
        for tries in 0..TRIES {
            self.groups[group] = Drawn { salt, tries };
            let seed = self.group_seed(group);
            let inside: Vec<Inside> = keys.iter().map(|key| self.inside(&seed, key)).collect();
            let hashes: Vec<[u64; 2]> = inside.iter().map(|inside| inside.hash).collect();
            let Some(order) = fuse.order(&hashes) else { continue };
            Prg::new(Block::from_le_bytes(rng.bytes())).fill_bytes(slots);
            let mut record = vec![0; width];
            for (key, place) in order {
                let key = key as usize;
                record[..TAG].copy_from_slice(&inside[key].tag);
                record[TAG..].copy_from_slice(&bodies[key * self.body..][..self.body]);
                fuse.set(hashes[key], place as usize, &record, slots);
            }
            return Ok(());
        }
        Err(PirError::Shape(format!(
            "{} keys do not go into a group of {} slots: some stand in the table twice, or there are too many",
            keys.len(),
            self.slots
        )))
    }

    /// A filter of this shape in which no group has more keys than it takes, and the keys of each group, which are still to be drawn by
    /// [`Filter::fill`].
    ///
    /// # Errors
    /// [`PirError::Shape`] if no seed spreads them so.
    pub fn spread(
        shape: &Shape,
        body: usize,
        keys: &[[u8; 32]],
        rng: &mut SessionRng,
    ) -> Result<(Self, Vec<Vec<u32>>), PirError> {
        let undrawn = vec![0; (shape.records / shape.group()) as usize];
        for _ in 0..TRIES {
            let filter = Self::new(shape, body, rng.bytes(), [0; 32], &undrawn)?;
            let mut members = vec![Vec::new(); filter.groups.len()];
            keys.iter().zip(0..).for_each(|(key, number)| members[filter.group(key)].push(number));
            if members.iter().all(|members| members.len() <= filter.capacity()) {
                return Ok((filter, members));
            }
        }
        Err(PirError::Shape(format!(
            "{} keys do not spread over {} records: some stand in the table several times",
            keys.len(),
            shape.records
        )))
    }

    fn group_seed(&self, group: usize) -> [u8; 32] {
        let Drawn { salt, tries } = self.groups[group];
        let numbers = [group as u64, tries.into()].map(u64::to_le_bytes);
        *blake3::keyed_hash(&self.seed, &[&salt, numbers.as_flattened()].concat()).as_bytes()
    }

    fn inside(&self, seed: &[u8; 32], key: &[u8; 32]) -> Inside {
        let mut bytes = [0; 16 + TAG];
        blake3::Hasher::new_keyed(seed).update(key).finalize_xof().fill(&mut bytes);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Inside { hash: [word(0), word(8)], tag: std::array::from_fn(|i| bytes[16 + i]) }
    }
}

/// The fewest groups of at most `most` slots each that hold so many keys, and how many slots each then needs, a multiple of `step`; none if
/// there would be more groups than a table has rows.
///
/// Groups have room for four standard deviations more than their share of the keys. Where they are many or small that is not enough, so a
/// seed must spread the keys well with probability one half at least: then all of [`TRIES`] seeds fail with probability 2^-64.
fn plan(keys: u64, most: u64, step: u64) -> Option<(u64, u64)> {
    let holds = |slots: u64, groups: u64| {
        let (share, capacity) = (keys as f64 / groups as f64, Fuse::capacity(slots as usize).max(1) as u64);
        let room = if groups == 1 { 0.0 } else { 4.0 * share.sqrt() };
        share + room <= capacity as f64 && vesica_params::log2_overflow(keys, groups, capacity) <= -1.0
    };
    // The fewest groups are few more than the keys' share of what a group takes: they are looked for from there.
    let least = keys.div_ceil(Fuse::capacity(most as usize).max(1) as u64).max(1);
    let (mut low, mut high) = (least, if holds(most, least) { least } else { Shape::MOST_ROWS.max(least) });
    if !holds(most, high) {
        return None;
    }
    // More groups have smaller shares, so that what holds for a number of groups holds for more: it is found by halving.
    while low < high {
        let middle = low.midpoint(high);
        (low, high) = if holds(most, middle) { (low, middle) } else { (middle + 1, high) };
    }
    let groups = low;
    let slots = (1..=most / step).map(|i| i * step).find(|&slots| holds(slots, groups)).unwrap_or(most);
    Some((groups, slots))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^20 keys of 1000 bytes cost a server at most 1.15 times what as many records by number cost.
    #[test]
    fn a_key_costs_little_more_than_a_number() {
        let (keys, value) = (1u64 << 20, 1000);
        let number = Shape::cheapest(keys, value + 4, 100).expect("a shape");
        let key = Filter::shape(keys, TAG as u32 + value + 4, 100).expect("a shape");
        assert_eq!((key.chunks, number.chunks), (1, 1));
        let ratio = key.bytes() as f64 / number.bytes() as f64;
        assert!(ratio <= 1.15, "{ratio}: {key:?}, {number:?}");
    }

    #[test]
    fn planned_groups_hold_their_share() {
        for keys in [1, 2, 15, 700, 731, 732, 100_000, 1 << 20, 3_000_000] {
            for log in [4, 10, 14, 17] {
                let Some((groups, slots)) = plan(keys, 1 << log, 1 << log.min(10)) else {
                    assert!(log == 4 && keys >= 100_000, "{keys}");
                    continue;
                };
                let capacity = Fuse::capacity(slots as usize).max(1) as u64;
                assert!(groups * capacity >= keys, "{keys}: {groups} of {slots}");
                assert!(slots <= 1 << log && slots.is_multiple_of(1 << log.min(10)));
                assert!(vesica_params::log2_overflow(keys, groups, capacity) <= -1.0, "{keys}: {groups} of {slots}");
            }
        }
    }

    /// Groups of 16 slots take two keys. Among 10^4 of them with a share of a fifth of a key, some would have three keys by any seed, though
    /// three are four standard deviations off. So there are more groups, and keys spread over them.
    #[test]
    fn keys_spread_over_many_small_groups() {
        let (groups, slots) = plan(2000, 16, 16).expect("a plan");
        assert!(slots == 16 && groups > 5 * 2000, "{groups}");
        let shape = Shape::new(groups * slots, 64, 1024, 64).expect("a shape");
        let mut rng = SessionRng::from_seed(zeroize::Zeroizing::new([3; 32]));
        let keys: Vec<[u8; 32]> = (0..2000).map(|_| rng.bytes()).collect();
        let (filter, members) = Filter::spread(&shape, 64 - TAG, &keys, &mut rng).expect("a seed");
        assert!(members.iter().all(|members| members.len() <= filter.capacity()));
    }
}
