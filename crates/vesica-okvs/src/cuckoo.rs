//! Cuckoo tables with three hashes and no stash, and the simple tables that go with them.
//!
//! [PSZ18] Pinkas, Schneider, Zohner, "Scalable Private Set Intersection Based on OT Extension", ACM TOPS 2018, eprint
//! 2016/930, section 5. Each key may stand in three different bins; one party puts each of its keys into one of its bins, no
//! two into the same, the other puts each into all three. A key that both have meets itself once.

use crate::Error;
use crate::rows::{self, RowHash};
use vesica_block::Block;
use vesica_types::Digest;

/// Three hash functions into a number of bins.
pub struct Cuckoo {
    bins: u32,
    hash: RowHash<1>,
}

/// A key in a bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry(u32);

impl Entry {
    pub(crate) const NONE: Entry = Entry(u32::MAX);

    pub(crate) fn new(key: usize, which: usize) -> Self {
        Self((key as u32) << 2 | which as u32)
    }

    /// The key's place in the slice that the table was made of.
    pub fn key(self) -> usize {
        (self.0 >> 2) as usize
    }

    /// By which of the hash functions it is here, from 0.
    pub fn which(self) -> usize {
        (self.0 & 3) as usize
    }
}

impl Cuckoo {
    /// Hashes into `bins` bins (`vesica_params::cuckoo::bins`) under a seed that is public and drawn after the keys are fixed.
    ///
    /// # Panics
    /// If there are fewer than three bins.
    pub fn new(bins: u32, seed: Block) -> Self {
        assert!(bins >= 3, "three different bins for each key, of {bins}");
        Self { bins, hash: RowHash::new(seed) }
    }

    /// How many bins there are.
    pub fn bins(&self) -> usize {
        self.bins as usize
    }

    /// The three bins of each key, all different, in the order of the hash functions.
    pub fn places(&self, keys: &[Digest]) -> Vec<[u32; 3]> {
        let mut places = Vec::with_capacity(keys.len());
        self.hash.batches(keys, |_, n, [random]| {
            places.extend(random[..n].iter().map(|&random| rows::three(random, self.bins)));
        });
        places
    }

    /// Puts every key into one of its bins, at most one into each: for each bin, what is in it.
    ///
    /// A key takes an empty bin of its three if there is one; else it drives out another, which goes on in the same way, for a
    /// bounded number of steps; and then the shortest chain of moves that makes room is searched for. So this fails only
    /// if there is no such table at all.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if two keys are equal; [`Error::Unsolvable`] if there is no table under this seed.
    ///
    /// # Panics
    /// With 2^29 keys or more.
    pub fn table(&self, keys: &[Digest]) -> Result<Vec<Option<Entry>>, Error> {
        assert!(keys.len() < 1 << 29, "more keys than an entry can number");
        let places = self.places(keys);
        let mut table = Table { places: &places, bins: vec![Entry::NONE; self.bins()] };
        for key in 0..keys.len() {
            // An equal key has the same three bins, and stands in one of them.
            let twin = |&bin: &u32| {
                let entry = table.bins[bin as usize];
                entry != Entry::NONE && keys[entry.key()] == keys[key]
            };
            if places[key].iter().any(twin) || !table.insert(key) {
                return Err(Error::of(keys));
            }
        }
        Ok(table.bins.into_iter().map(|entry| (entry != Entry::NONE).then_some(entry)).collect())
    }

    /// Puts every key into all three of its bins.
    ///
    /// # Panics
    /// With 2^29 keys or more.
    pub fn simple(&self, keys: &[Digest]) -> Simple {
        assert!(keys.len() < 1 << 29, "more keys than an entry can number");
        let places = self.places(keys);
        let mut ends = vec![0u32; self.bins() + 1];
        places.iter().flatten().for_each(|&bin| ends[bin as usize + 1] += 1);
        for bin in 1..ends.len() {
            ends[bin] += ends[bin - 1];
        }
        let mut next = ends.clone();
        let mut entries = vec![Entry::NONE; 3 * keys.len()];
        for (key, bins) in places.iter().enumerate() {
            for (which, &bin) in bins.iter().enumerate() {
                let at = &mut next[bin as usize];
                entries[*at as usize] = Entry::new(key, which);
                *at += 1;
            }
        }
        Simple { ends, entries }
    }
}

/// A table with every key in all of its bins.
pub struct Simple {
    /// Where each bin begins, and where the last ends.
    ends: Vec<u32>,
    entries: Vec<Entry>,
}

impl Simple {
    /// What is in a bin, by the numbers of the keys.
    pub fn bin(&self, bin: usize) -> &[Entry] {
        &self.entries[self.ends[bin] as usize..self.ends[bin + 1] as usize]
    }
}

/// A cuckoo table that is being filled.
struct Table<'a> {
    places: &'a [[u32; 3]],
    bins: Vec<Entry>,
}

/// How many keys may be driven out for one before the search begins. Almost all need fewer than ten.
const DRIVEN_OUT: usize = 256;

impl Table<'_> {
    /// Makes room for a key; false if there is no way to.
    fn insert(&mut self, key: usize) -> bool {
        let mut entry = Entry::new(key, 0);
        for _ in 0..DRIVEN_OUT {
            let places = &self.places[entry.key()];
            if let Some(which) = (0..3).find(|&which| self.bins[places[which] as usize] == Entry::NONE) {
                self.bins[places[which] as usize] = Entry::new(entry.key(), which);
                return true;
            }
            // The next of its bins after the one that it was driven out of: each is tried in turn.
            let which = (entry.which() + 1) % 3;
            entry = std::mem::replace(&mut self.bins[places[which] as usize], Entry::new(entry.key(), which));
        }
        self.make_room(entry.key())
    }

    /// Breadth first from the key's bins to an empty one, then moves every key on the way one step.
    fn make_room(&mut self, key: usize) -> bool {
        // A bin, the entry that it is to hold, and the step that frees the bin which that entry leaves.
        let mut steps: Vec<(u32, Entry, usize)> = Vec::new();
        let mut seen = vec![false; self.bins.len()];
        let mut reach = |steps: &mut Vec<_>, key: usize, from: usize, places: &[u32; 3]| {
            for (which, &bin) in places.iter().enumerate() {
                if !std::mem::replace(&mut seen[bin as usize], true) {
                    steps.push((bin, Entry::new(key, which), from));
                }
            }
        };
        reach(&mut steps, key, usize::MAX, &self.places[key]);
        let mut next = 0;
        while next < steps.len() {
            let held = self.bins[steps[next].0 as usize];
            if held == Entry::NONE {
                while let Some(&(bin, entry, from)) = steps.get(next) {
                    self.bins[bin as usize] = entry;
                    next = from;
                }
                return true;
            }
            reach(&mut steps, held.key(), next, &self.places[held.key()]);
            next += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::keys;
    use vesica_params::{Level, cuckoo};

    fn check(table: &[Option<Entry>], places: &[[u32; 3]]) {
        let mut found = vec![false; places.len()];
        for (bin, entry) in table.iter().enumerate() {
            if let Some(entry) = entry {
                assert_eq!(places[entry.key()][entry.which()] as usize, bin);
                assert!(!std::mem::replace(&mut found[entry.key()], true), "twice in the table");
            }
        }
        assert!(found.into_iter().all(|found| found), "a key is missing");
    }

    #[test]
    fn every_key_stands_in_one_of_its_bins() {
        for n in (0..70).chain([255, 1000, 16_384, 50_000]) {
            let bins = cuckoo::bins(n as u64, 1, Level::STANDARD).expect("few keys");
            let cuckoo = Cuckoo::new(bins, Block(n as u128));
            let keys = keys(n, 1);
            check(&cuckoo.table(&keys).expect("distinct keys"), &cuckoo.places(&keys));
        }
    }

    /// At a load of 0.9 most insertions at the end need the search; at 3 keys for 3 bins all are full.
    #[test]
    fn tight_tables_are_filled_or_refused() {
        for seed in 0..100 {
            let cuckoo = Cuckoo::new(550, Block(seed));
            let keys = keys(490, seed + 1);
            match cuckoo.table(&keys) {
                Ok(table) => check(&table, &cuckoo.places(&keys)),
                Err(error) => assert_eq!(error, Error::Unsolvable { keys: 490 }),
            }
            let full = Cuckoo::new(3, Block(seed));
            check(&full.table(&keys[..3]).expect("each has all three"), &full.places(&keys[..3]));
            assert_eq!(full.table(&keys[..4]), Err(Error::Unsolvable { keys: 4 }));
        }
    }

    #[test]
    fn duplicates_are_refused() {
        let mut keys = keys(1000, 1);
        keys[700] = keys[3];
        let error = Cuckoo::new(1400, Block(1)).table(&keys).expect_err("two equal keys");
        assert_eq!(error, Error::Duplicate { first: 3, second: 700 });
    }

    #[test]
    fn a_simple_table_has_every_key_in_all_of_its_bins() {
        let (cuckoo, keys) = (Cuckoo::new(100, Block(1)), keys(300, 1));
        let (simple, places) = (cuckoo.simple(&keys), cuckoo.places(&keys));
        let mut total = 0;
        for bin in 0..cuckoo.bins() {
            let entries = simple.bin(bin);
            assert!(entries.windows(2).all(|pair| pair[0].key() < pair[1].key()));
            assert!(entries.iter().all(|entry| places[entry.key()][entry.which()] as usize == bin));
            total += entries.len();
        }
        assert_eq!(total, 900);
        let most = cuckoo::simple_load(300, 100, 1, Level::STANDARD);
        assert!((0..100).all(|bin| simple.bin(bin).len() as u64 <= most) && most < 50, "{most}");
    }
}
