//! Binary fuse tables: every key has four places in a table, and its value is the sum of what stands there.
//!
//! [GL22] Graf, Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters", ACM Journal of Experimental Algorithmics 2022, algorithm 1,
//! with four places and whole values in place of fingerprints, and addition byte by byte modulo 256 in place of exclusive or: a query of
//! [`crate::SimplePir`] adds.
//!
//! The four places lie in four consecutive segments, and where these begin depends on the key. A table is built by peeling. A place that only
//! one key has can take whatever that key needs, so the key is set aside. That goes on until no key is left. Then the keys come back in
//! reverse order, and each gives its own place the one value that makes its sum right. If a rest cannot be peeled, the caller hashes its keys
//! under another seed; a seed tells nothing, because whether it works depends on hashes of keys alone.

/// How full tables of so many slots and more can be, from small ones to large ones: slots, slots a key, and log2 of a segment's length. One
/// build works in three of four cases at least, as own simulation of 12 to 400 builds a row says; `docs/src/protocols/simple-pir.md` has the counts.
const FILL: [(usize, f64, u32); 11] = [
    (8, 8.0, 0),
    (64, 2.0, 3),
    (256, 1.7, 5),
    (1 << 10, 1.4, 6),
    (1 << 11, 1.33, 6),
    (1 << 12, 1.28, 7),
    (1 << 13, 1.24, 8),
    (1 << 14, 1.2, 8),
    (1 << 15, 1.15, 9),
    (1 << 16, 1.13, 10),
    (7 << 14, 1.11, 10),
];

/// The fewest slots of a table.
pub const LEAST: usize = FILL[0].0;

/// A table's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fuse {
    slots: usize,
    log_segment: u32,
}

/// The row of [`FILL`] for a table of so many slots.
fn fill(slots: usize) -> (f64, u32) {
    let row = FILL.iter().rev().find(|(from, ..)| slots >= *from).unwrap_or(&FILL[0]);
    (row.1, row.2)
}

impl Fuse {
    /// The table of `slots` slots, at least [`LEAST`].
    pub fn new(slots: usize) -> Self {
        Self { slots, log_segment: fill(slots).1 }
    }

    /// How many keys a table of so many slots is built for.
    pub fn capacity(slots: usize) -> usize {
        (slots as f64 / fill(slots).0) as usize
    }

    /// The four places of a key whose hash is this; all different.
    pub fn places(&self, hash: [u64; 2]) -> [usize; 4] {
        let segment = 1 << self.log_segment;
        let starts = (self.slots / segment - 3) * segment;
        let first = ((u128::from(hash[0]) * starts as u128) >> 64) as usize;
        // The place within a segment is changed by bits of its own, so keys that begin at one place part again.
        std::array::from_fn(|i| match i {
            0 => first,
            _ => (first + i * segment) ^ ((hash[1] >> (16 * i)) as usize & (segment - 1)),
        })
    }

    /// The keys in the order in which their values are put in, and the place of each that is then set; none if they cannot be peeled.
    pub fn order(&self, hashes: &[[u64; 2]]) -> Option<Vec<(u32, u32)>> {
        let mut count = vec![0u32; self.slots];
        let mut keys = vec![0u32; self.slots];
        for (key, hash) in hashes.iter().enumerate() {
            for place in self.places(*hash) {
                count[place] += 1;
                keys[place] ^= key as u32;
            }
        }
        let mut alone: Vec<u32> = (0..self.slots as u32).filter(|&place| count[place as usize] == 1).collect();
        let mut order = Vec::with_capacity(hashes.len());
        while let Some(place) = alone.pop() {
            // It may have lost its last key since it was found.
            if count[place as usize] != 1 {
                continue;
            }
            let key = keys[place as usize];
            order.push((key, place));
            for other in self.places(hashes[key as usize]) {
                count[other] -= 1;
                keys[other] ^= key;
                if count[other] == 1 {
                    alone.push(other as u32);
                }
            }
        }
        order.reverse();
        (order.len() == hashes.len()).then_some(order)
    }

    /// Puts one value in: `table` has `value.len()` bytes a slot.
    pub fn set(&self, hash: [u64; 2], place: usize, value: &[u8], table: &mut [u8]) {
        let width = value.len();
        let mut rest = value.to_vec();
        for other in self.places(hash).into_iter().filter(|&other| other != place) {
            rest.iter_mut().zip(&table[other * width..][..width]).for_each(|(r, t)| *r = r.wrapping_sub(*t));
        }
        table[place * width..][..width].copy_from_slice(&rest);
    }
}

/// Words that look random, for tests: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[cfg(test)]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(n: usize, salt: u64) -> Vec<[u64; 2]> {
        (0..n as u64).map(|i| [mix(salt.wrapping_add(2 * i)), mix(salt.wrapping_add(2 * i + 1))]).collect()
    }

    #[test]
    fn sums_are_the_values() {
        for slots in [8, 100, 1000, 1024, 5000, 1 << 14] {
            let n = Fuse::capacity(slots);
            let fuse = Fuse::new(slots);
            let (hashes, order) = (0..64)
                .find_map(|salt| {
                    let hashes = hashes(n, mix(salt + 1));
                    let order = fuse.order(&hashes)?;
                    Some((hashes, order))
                })
                .expect("one of 64 seeds");
            let value = |key: usize| [key as u8, (key >> 8) as u8, 0xff];
            let mut table: Vec<u8> = (0..3 * slots).map(|i| mix(i as u64) as u8).collect();
            for (key, place) in order {
                fuse.set(hashes[key as usize], place as usize, &value(key as usize), &mut table);
            }
            for (key, hash) in hashes.iter().enumerate() {
                let mut sum = [0u8; 3];
                for place in fuse.places(*hash) {
                    sum.iter_mut().zip(&table[3 * place..]).for_each(|(s, t)| *s = s.wrapping_add(*t));
                }
                assert_eq!(sum, value(key), "{slots} slots");
            }
        }
    }

    #[test]
    fn places_are_four_and_inside() {
        for slots in [8, 64, 300, 1024, 14848] {
            let fuse = Fuse::new(slots);
            for hash in hashes(2000, 1) {
                let mut places = fuse.places(hash).to_vec();
                places.sort_unstable();
                places.dedup();
                assert!(places.len() == 4 && places[3] < slots, "{slots}: {places:?}");
            }
        }
    }

    /// Builds at the fill that [`Fuse::capacity`] grants work in two of three cases at least; a twentieth more keys never do.
    #[test]
    fn tables_can_be_filled_as_stated() {
        for (slots, tries) in [(64, 60), (256, 60), (1 << 10, 40), (1 << 12, 30), (1 << 13, 30), (1 << 15, 12)] {
            let works = |n: usize| {
                (0..tries).filter(|&salt| Fuse::new(slots).order(&hashes(n, mix(salt + 1))).is_some()).count()
            };
            let n = Fuse::capacity(slots);
            assert!(works(n) * 3 >= tries as usize * 2, "{slots}: {}", works(n));
            if slots >= 1 << 13 {
                assert_eq!(works(n * 5 / 4), 0, "{slots}");
            }
        }
    }

    #[test]
    fn equal_hashes_cannot_be_peeled() {
        assert!(Fuse::new(1024).order(&[[5, 5], [5, 5]]).is_none());
    }
}
