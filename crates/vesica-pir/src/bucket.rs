//! Keys to numbers: a table of buckets, in which a key stands in one of two places that follow from the key alone.
//!
//! A client that wants the value of a key fetches both buckets of the key, over any scheme, and looks for the key's tag in their slots. It
//! fetches two records whether the key is there or not, so the server cannot tell. One bucket is one record.
//!
//! - **Source.** Cuckoo hashing with two places and four slots each (Dietzfelbinger, Weidling, 2007): it works up to a load of 0.98.
//!   Built here at 0.95 by a random walk. A build that does not come out draws another seed, which tells nothing because places depend on
//!   hashes of keys alone.
//! - **Keys** here are 32 bytes that look random: the output of an oblivious function, or a hash.
//! - **Where a key stands** follows from the set of keys and from coins, and not from the order in which they come: that is the order of
//!   somebody's table. Keys go in in a random order, and then the slots of each bucket are put into a random order.
//! - **False finds.** A tag has 96 bits. A lookup compares eight, so among 2^50 lookups in a service's life one false find has probability
//!   2^50 · 2^3 · 2^-96 = 2^-43.

use crate::{MOST_WIDTH, PirError};
use vesica_session::SessionRng;

/// Slots of a bucket.
pub const SLOTS: usize = 4;

/// Bytes of a tag.
pub const TAG: usize = 12;

/// Seeds that are tried before the table is made larger.
const TRIES: usize = 16;

/// Moves of a walk before a build is given up.
const MOVES: usize = 2_000;

const FREE: u32 = u32::MAX;

/// What both sides know of a table of buckets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets {
    count: u64,
    body: usize,
    seed: [u8; 32],
}

/// Where a key stands, and the tag that marks it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its two buckets. They differ if there is more than one bucket.
    pub buckets: [u64; 2],
    /// Its tag.
    pub tag: [u8; TAG],
}

impl Buckets {
    /// Bytes of a slot's body at most: a bucket is one record.
    pub const MOST_BODY: usize = MOST_WIDTH / SLOTS - TAG;

    /// `count` buckets under a public `seed`, of which a slot has a body of `body` bytes behind its tag.
    ///
    /// # Errors
    /// [`PirError::Shape`] if there is no bucket, or a bucket is longer than a record may be.
    pub fn new(count: u64, body: usize, seed: [u8; 32]) -> Result<Self, PirError> {
        let buckets = Self { count, body, seed };
        if count == 0 || buckets.width() > MOST_WIDTH {
            return Err(PirError::Shape(format!(
                "{count} buckets of {} bytes: a record has at most {MOST_WIDTH}, and a bucket has {SLOTS} values; make values shorter",
                buckets.width()
            )));
        }
        Ok(buckets)
    }

    /// How many buckets there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of a bucket.
    pub fn width(&self) -> usize {
        SLOTS * (TAG + self.body)
    }

    /// The public seed.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// Where a key stands.
    pub fn place(&self, key: &[u8; 32]) -> Place {
        let mut bytes = [0; 16 + TAG];
        blake3::Hasher::new_keyed(&self.seed).update(key).finalize_xof().fill(&mut bytes);
        let below = |at: usize, bound: u64| {
            let number = u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
            ((u128::from(number) * u128::from(bound)) >> 64) as u64
        };
        let first = below(0, self.count);
        let second = if self.count == 1 { 0 } else { (first + 1 + below(8, self.count - 1)) % self.count };
        Place { buckets: [first, second], tag: std::array::from_fn(|i| bytes[16 + i]) }
    }

    /// The body behind the tag of `place` in a bucket, if the tag is there.
    pub fn find<'a>(&self, bucket: &'a [u8], place: &Place) -> Option<&'a [u8]> {
        let slots = bucket.chunks_exact(TAG + self.body).map(|slot| slot.split_at(TAG));
        slots.fold(None, |found, (tag, body)| found.or((*tag == place.tag).then_some(body)))
    }

    /// Puts keys into as few buckets as works. Returns the table, and for each slot of it the number of the key that stands there.
    ///
    /// # Errors
    /// [`PirError::Shape`] if there are no keys or 2^32 - 1, or the values are too long, or some key stands there five times.
    pub fn build(keys: &[[u8; 32]], body: usize, rng: &mut SessionRng) -> Result<(Self, Vec<Option<u32>>), PirError> {
        if keys.is_empty() || keys.len() >= FREE as usize {
            return Err(PirError::Shape(format!("{} keys; a table of buckets takes 1 to 2^32 - 2", keys.len())));
        }
        // 0.95 of the slots are used.
        let mut count = (keys.len() as u64 * 20).div_ceil(SLOTS as u64 * 19);
        for _ in 0..4 {
            for _ in 0..TRIES {
                let buckets = Self::new(count, body, rng.bytes())?;
                if let Some(slots) = buckets.walk(keys, rng) {
                    let named = |slot: u32| (slot != FREE).then_some(slot);
                    return Ok((buckets, slots.into_iter().map(named).collect()));
                }
            }
            count += count.div_ceil(20);
        }
        Err(PirError::Shape("some keys have equal hashes: remove keys that stand in the table several times".into()))
    }

    /// One build: each key goes to a free slot of its buckets, or throws another key out, which goes to its own other bucket.
    fn walk(&self, keys: &[[u8; 32]], rng: &mut SessionRng) -> Option<Vec<u32>> {
        let mut slots = vec![FREE; self.count as usize * SLOTS];
        let mut coins = rng.bytes::<8>().map(u64::from).iter().fold(1, |sum, coin| sum << 8 | coin);
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        shuffle(&mut order, rng);
        for mut key in order {
            let mut from = None;
            for moves in 0.. {
                if moves == MOVES {
                    return None;
                }
                let places = self.place(&keys[key as usize]).buckets;
                let of = |bucket: u64| bucket as usize * SLOTS..(bucket as usize + 1) * SLOTS;
                if let Some(free) = places.iter().flat_map(|&bucket| of(bucket)).find(|&slot| slots[slot] == FREE) {
                    slots[free] = key;
                    break;
                }
                // The walk's coins decide nothing but where a key stands of its two places.
                coins = coins.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let pick = (coins >> 60) as usize;
                let bucket = places.into_iter().find(|bucket| Some(*bucket) != from).unwrap_or(places[pick & 1]);
                let bucket = if from.is_none() { places[pick & 1] } else { bucket };
                std::mem::swap(&mut slots[bucket as usize * SLOTS + (pick >> 1) % SLOTS], &mut key);
                from = Some(bucket);
            }
        }
        slots.chunks_exact_mut(SLOTS).for_each(|bucket| shuffle(bucket, rng));
        Some(slots)
    }

    /// The bytes of a table: what `fill` appends for each key behind its tag, and random bytes in free slots, so that nobody sees which
    /// they are.
    pub fn write(
        &self,
        keys: &[[u8; 32]],
        slots: &[Option<u32>],
        rng: &mut SessionRng,
        mut fill: impl FnMut(u32, &mut Vec<u8>),
    ) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.count as usize * self.width());
        for slot in slots {
            let end = table.len() + TAG + self.body;
            if let Some(key) = slot {
                table.extend_from_slice(&self.place(&keys[*key as usize]).tag);
                fill(*key, &mut table);
            }
            let from = table.len().min(end);
            table.resize(end, 0);
            rng.fill(&mut table[from..]);
        }
        table
    }
}

/// Puts things into a random order, by the exchanges of Fisher and Yates. An order of n things is as likely as any other up to n^2 / 2^64.
fn shuffle(things: &mut [u32], rng: &mut SessionRng) {
    for last in (1..things.len()).rev() {
        let coin = u64::from_le_bytes(rng.bytes());
        let other = (u128::from(coin) * (last as u128 + 1)) >> 64;
        things.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    fn rng() -> SessionRng {
        SessionRng::from_seed(Zeroizing::new([5; 32]))
    }

    #[test]
    fn every_key_is_in_one_of_its_buckets() {
        let mut rng = rng();
        for n in [1usize, 2, 3, 4, 5, 17, 100, 4000] {
            let keys: Vec<[u8; 32]> = (0..n).map(|_| rng.bytes()).collect();
            let (buckets, slots) = Buckets::build(&keys, 4, &mut rng).unwrap();
            let table = buckets.write(&keys, &slots, &mut rng, |key, out| out.extend_from_slice(&key.to_le_bytes()));
            assert_eq!(table.len() as u64, buckets.count() * buckets.width() as u64);
            let bucket = |number: u64| &table[number as usize * buckets.width()..][..buckets.width()];
            let find = |key: &[u8; 32]| {
                let place = buckets.place(key);
                place.buckets.iter().find_map(|&number| buckets.find(bucket(number), &place).map(<[u8]>::to_vec))
            };
            for (key, number) in keys.iter().zip(0u32..) {
                assert_eq!(find(key).as_deref(), Some(&number.to_le_bytes()[..]), "{n}: {number}");
            }
            assert!((0..100).all(|_| find(&rng.bytes()).is_none()));
        }
    }

    #[test]
    fn the_table_is_nearly_full() {
        let mut rng = rng();
        let keys: Vec<[u8; 32]> = (0..20_000).map(|_| rng.bytes()).collect();
        let (buckets, slots) = Buckets::build(&keys, 0, &mut rng).unwrap();
        assert!(slots.len() as f64 <= 20_000.0 / 0.94, "{}", slots.len());
        assert_eq!(slots.iter().flatten().count(), 20_000);
        assert_eq!(buckets.width(), SLOTS * TAG);
    }

    /// The keys in each of the four slots of a bucket come, on average, from the middle of the table that they were in.
    #[test]
    fn a_slot_says_nothing_of_where_a_key_stood_in_its_table() {
        let mut rng = rng();
        let keys: Vec<[u8; 32]> = (0..8000).map(|_| rng.bytes()).collect();
        let (buckets, slots) = Buckets::build(&keys, 0, &mut rng).unwrap();
        let mean = |numbers: &mut dyn Iterator<Item = u32>| {
            let (sum, count) =
                numbers.fold((0.0, 0.0), |(sum, count), key| (sum + f64::from(key) / 8000.0, count + 1.0));
            // Six deviations of the mean of so many even numbers between 0 and 1.
            (sum / count - 0.5, 6.0 / f64::sqrt(12.0 * count))
        };
        for at in 0..SLOTS {
            let (off, most) = mean(&mut slots.iter().skip(at).step_by(SLOTS).flatten().copied());
            assert!(off.abs() < most, "slot {at}: {off}");
        }
        // Nor does it say whether a key stands in the first of its two buckets or in the second.
        for which in 0..2 {
            let at = |(slot, key): (usize, &Option<u32>)| {
                let bucket = (slot / SLOTS) as u64;
                key.filter(|&key| buckets.place(&keys[key as usize]).buckets[which] == bucket)
            };
            let (off, most) = mean(&mut slots.iter().enumerate().filter_map(at));
            assert!(off.abs() < most, "bucket {which}: {off}");
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused() {
        let mut rng = rng();
        assert!(Buckets::build(&[], 1, &mut rng).is_err());
        assert!(Buckets::build(&[[1; 32]; 12], 1, &mut rng).unwrap_err().to_string().contains("several times"));
        assert!(Buckets::build(&[[1; 32]], 20_000, &mut rng).unwrap_err().to_string().contains("shorter"));
        assert!(Buckets::new(0, 1, [0; 32]).is_err());
    }
}
