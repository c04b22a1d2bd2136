//! Tables of bins with four slots, two bins for each key.
//!
//! [DW07] Dietzfelbinger, Weidling, "Balanced allocation and dictionaries with tightly packed constant size bins", TCS 380, 2007. Each
//! key may stand in two different bins. One party puts each of its keys into one of them, at most four into a bin; the other looks
//! for each of its keys in both.

use crate::Error;
use crate::cuckoo::Entry;
use crate::rows::{self, RowHash};
use vesica_block::Block;
use vesica_params::bins::SLOTS;
use vesica_types::Digest;

/// Two hash functions into a number of bins.
pub struct Bins {
    bins: u32,
    hash: RowHash<1>,
}

impl Bins {
    /// Hashes into `bins` bins (`vesica_params::bins::bins`) under a seed that is public and drawn after the keys are fixed.
    ///
    /// # Panics
    /// If there are fewer than two bins.
    pub fn new(bins: u32, seed: Block) -> Self {
        assert!(bins >= 2, "two different bins for each key, of {bins}");
        Self { bins, hash: RowHash::new(seed) }
    }

    /// The two bins of each key, which are different, in the order of the hash functions.
    pub fn places(&self, keys: &[Digest]) -> Vec<[u32; 2]> {
        let mut places = Vec::with_capacity(keys.len());
        self.hash.batches(keys, |_, n, [random]| {
            places.extend(random[..n].iter().map(|&random| rows::two(random, self.bins)));
        });
        places
    }

    /// Puts every key into one of its bins.
    ///
    /// A key takes the emptier one. If both are full, the shortest chain of moves that makes room is searched for. So this fails only if
    /// there is no such table at all.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] if there is no table under this seed; [`Error::Duplicate`] if that is so and two keys are equal.
    ///
    /// # Panics
    /// With 2^29 keys or more.
    pub fn table(&self, keys: &[Digest]) -> Result<Table, Error> {
        assert!(keys.len() < 1 << 29, "more keys than an entry can number");
        let places = self.places(keys);
        let bins = self.bins as usize;
        let table = Table { slots: vec![[Entry::NONE; SLOTS]; bins], loads: vec![0; bins] };
        let mut filling = Filling { places: &places, table, seen: vec![0; bins], searches: 0 };
        if (0..keys.len()).all(|key| filling.insert(key)) { Ok(filling.table) } else { Err(Error::of(keys)) }
    }
}

/// What is in each bin.
pub struct Table {
    slots: Vec<[Entry; SLOTS]>,
    /// How many of a bin's slots are taken, which are the first ones.
    loads: Vec<u8>,
}

impl Table {
    /// What is in a bin.
    pub fn bin(&self, bin: usize) -> &[Entry] {
        &self.slots[bin][..usize::from(self.loads[bin])]
    }

    fn is_full(&self, bin: u32) -> bool {
        usize::from(self.loads[bin as usize]) == SLOTS
    }

    fn put(&mut self, bin: u32, entry: Entry) {
        let load = &mut self.loads[bin as usize];
        self.slots[bin as usize][usize::from(*load)] = entry;
        *load += 1;
    }
}

/// A table that is being filled.
struct Filling<'a> {
    places: &'a [[u32; 2]],
    table: Table,
    /// For each bin the number of the last search that reached it.
    seen: Vec<u32>,
    searches: u32,
}

/// A step of a search: what is to go into a bin, and the step for whose entry it makes room.
#[derive(Clone, Copy)]
struct Step {
    bin: u32,
    entry: Entry,
    makes_room_for: Option<usize>,
}

impl Filling<'_> {
    /// Puts a key into one of its bins; false if there is no way to.
    fn insert(&mut self, key: usize) -> bool {
        let [a, b] = self.places[key];
        let which = usize::from(self.table.loads[b as usize] < self.table.loads[a as usize]);
        let bin = [a, b][which];
        if self.table.is_full(bin) {
            return self.make_room(key);
        }
        self.table.put(bin, Entry::new(key, which));
        true
    }

    /// Breadth first from the key's bins to one that has room, then moves a key of every bin on the way to its other bin.
    fn make_room(&mut self, key: usize) -> bool {
        self.searches += 1;
        let mut steps = Vec::new();
        (0..2).for_each(|which| self.reach(&mut steps, Entry::new(key, which), None));
        let mut next = 0;
        while let Some(&step) = steps.get(next) {
            if !self.table.is_full(step.bin) {
                self.follow(&steps, step);
                return true;
            }
            for entry in self.table.slots[step.bin as usize] {
                self.reach(&mut steps, Entry::new(entry.key(), 1 - entry.which()), Some(next));
            }
            next += 1;
        }
        false
    }

    /// Notes that `entry` could go into its bin, unless that was noted before.
    fn reach(&mut self, steps: &mut Vec<Step>, entry: Entry, makes_room_for: Option<usize>) {
        let bin = self.places[entry.key()][entry.which()];
        if std::mem::replace(&mut self.seen[bin as usize], self.searches) != self.searches {
            steps.push(Step { bin, entry, makes_room_for });
        }
    }

    /// Takes the steps that end with `last`, whose bin has room.
    fn follow(&mut self, steps: &[Step], last: Step) {
        self.table.put(last.bin, last.entry);
        let mut moved = last;
        while let Some(step) = moved.makes_room_for.map(|step| steps[step]) {
            let slot = self.table.slots[step.bin as usize].iter_mut().find(|entry| entry.key() == moved.entry.key());
            *slot.expect("it was found there") = step.entry;
            moved = step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::keys;
    use vesica_params::{Level, bins};

    fn check(table: &Table, places: &[[u32; 2]]) {
        let mut found = vec![false; places.len()];
        for bin in 0..table.slots.len() {
            assert!(table.slots[bin][table.bin(bin).len()..].iter().all(|&slot| slot == Entry::NONE));
            for entry in table.bin(bin) {
                assert_eq!(places[entry.key()][entry.which()] as usize, bin);
                assert!(!std::mem::replace(&mut found[entry.key()], true), "twice in the table");
            }
        }
        assert!(found.into_iter().all(|found| found), "a key is missing");
    }

    #[test]
    fn every_key_stands_in_one_of_its_bins() {
        for n in (0..70).chain([255, 1000, 4095, 4096, 50_000]) {
            let count = bins::bins(n as u64, 1, Level::STANDARD).expect("few keys");
            let bins = Bins::new(count, Block(n as u128));
            let keys = keys(n, 1);
            check(&bins.table(&keys).expect("there is room"), &bins.places(&keys));
        }
    }

    /// Of two bins that are equally full a key takes the first one. `docs/src/protocols/bc22.md` says what a sender gains by that.
    #[test]
    fn seven_of_ten_keys_stand_in_their_first_bin() {
        for n in [1 << 12, 50_000] {
            let count = bins::bins(n as u64, 1, Level::STANDARD).expect("few keys");
            let table = Bins::new(count, Block(1)).table(&keys(n, 1)).expect("there is room");
            let entries = (0..table.slots.len()).flat_map(|bin| table.bin(bin));
            let first = entries.filter(|entry| entry.which() == 0).count() as f64 / n as f64;
            assert!((0.68..0.72).contains(&first), "{first} of {n}");
        }
    }

    /// At 98 % of what almost all seeds allow most insertions at the end need a search; eight keys fill two bins.
    #[test]
    fn tight_tables_are_filled_or_refused() {
        let (mut filled, mut refused) = (0, 0);
        for seed in 0..60 {
            let bins = Bins::new(250, Block(seed));
            let keys = keys(980, seed + 1);
            match bins.table(&keys) {
                Ok(table) => {
                    check(&table, &bins.places(&keys));
                    filled += 1;
                }
                Err(error) => {
                    assert_eq!(error, Error::Unsolvable { keys: 980 });
                    refused += 1;
                }
            }
            let full = Bins::new(2, Block(seed));
            check(&full.table(&keys[..8]).expect("each has both"), &full.places(&keys[..8]));
            assert_eq!(full.table(&keys[..9]).err(), Some(Error::Unsolvable { keys: 9 }));
        }
        assert!(filled > 0 && refused > 0, "{filled} {refused}");
    }

    /// Keys whose first bins are all one: the second bins take what is too much.
    #[test]
    fn keys_that_crowd_into_one_bin_find_room_in_their_others() {
        let bins = Bins::new(340, Block(7));
        let all = keys(40_000, 3);
        let crowd: Vec<Digest> =
            all.iter().zip(bins.places(&all)).filter(|(_, places)| places[0] == 5).map(|(&key, _)| key).collect();
        assert!(crowd.len() > 90, "{}", crowd.len());
        check(&bins.table(&crowd).expect("there is room"), &bins.places(&crowd));
    }

    #[test]
    fn equal_keys_take_a_slot_each_until_there_is_none() {
        let bins = Bins::new(100, Block(1));
        let one = keys(1, 1)[0];
        check(&bins.table(&[one; 8]).expect("two bins"), &bins.places(&[one; 8]));
        assert_eq!(bins.table(&[one; 9]).err(), Some(Error::Duplicate { first: 0, second: 1 }));
    }
}
