//! The client's table, read: which different keys or row numbers it asks for, and which of its rows each is for.

use crate::error::Error;
use crate::values::digest_of_index;
use arrow_array::cast::AsArray;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use vesica_job::rooms::{Share, digests};
use vesica_job::{Control, Event, JobError};
use vesica_session::SessionRng;
use vesica_spec::Rule;
use vesica_spec::service::{AskPlan, By};
use vesica_table::{Spill, Spilled, Table};

/// Different keys or row numbers, and the rows of the client's table that each is for.
pub struct Wants {
    /// Digests of keys, in their order, or of row numbers.
    pub digests: Vec<[u8; 32]>,
    /// The row numbers, where rows are looked up by number.
    pub numbers: Vec<u64>,
    /// Rows of the client's table.
    pub rows: u64,
    /// Rows without a key.
    pub empty: u64,
    /// Rows with a key that an earlier row has.
    pub duplicates: u64,
    held: Held,
}

/// A row and the number that was given to its key, as they are spilled.
const ROW: usize = 12;

/// Digests that are numbered together: their slots stay in the second-level cache meanwhile.
const TOGETHER: usize = 1 << 10;

/// Rows that are read together.
const BLOCK: usize = 1 << 13;

/// Which rows hold which key or number.
enum Held {
    /// Rows with the numbers of their keys, on the disk where they are many; and the place of the key of each number.
    Keys(Spilled, Vec<u32>),
    /// Rows, ascending, and the place of the number that each has.
    Numbers(Vec<(u64, u32)>),
    /// Each row has the key at its own place.
    Each,
}

/// Digests, each of which is there once.
#[derive(Default)]
struct Once {
    digests: Vec<[u8; 32]>,
    /// By open addressing a digest's number from 1, and above it half of its spread, so that another digest is hardly ever looked at; 0 is a free slot.
    slots: Vec<u64>,
    /// Where a digest goes is this process's own chance: nobody can plant rows whose digests get in each other's way.
    chance: RandomState,
    /// The spreads of the digests that are numbered together.
    spreads: Vec<u64>,
}

impl Once {
    /// The numbers of these digests, in the order in which each came first; none where no number is left.
    fn numbers(&mut self, digests: &[[u8; 32]], mut each: impl FnMut(usize, Option<u32>)) {
        self.grow(digests.len());
        let Self { digests: known, slots, chance, spreads } = self;
        spreads.clear();
        spreads.extend(digests.iter().map(|digest| chance.hash_one(digest)));
        // Each slot is far from the last one, and none of these reads waits for another: below they are in the cache.
        std::hint::black_box(spreads.iter().fold(0, |all, &spread| all ^ slots[first(spread, slots.len())]));
        for (at, (digest, &spread)) in digests.iter().zip(&*spreads).enumerate() {
            let mut slot = first(spread, slots.len());
            let number = loop {
                let held = slots[slot];
                if held == 0 {
                    let number = u32::try_from(known.len() + 1).ok();
                    if let Some(number) = number {
                        slots[slot] = spread << 32 | u64::from(number);
                        known.push(*digest);
                    }
                    break number;
                }
                if held >> 32 == spread & u64::from(u32::MAX) && known[held as u32 as usize - 1] == *digest {
                    break Some(held as u32);
                }
                slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
            };
            each(at, number.map(|number| number - 1));
        }
    }

    /// Makes room for so many digests more: there are twice as many slots as digests.
    fn grow(&mut self, more: usize) {
        let least = 2 * (self.digests.len() + more);
        if self.slots.len() >= least {
            return;
        }
        self.slots = vec![0; least.max(2 * self.slots.len())];
        for (digest, number) in self.digests.iter().zip(1..) {
            let spread = self.chance.hash_one(digest);
            let mut slot = first(spread, self.slots.len());
            while self.slots[slot] != 0 {
                slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
            }
            self.slots[slot] = spread << 32 | number;
        }
    }
}

/// The slot of `slots` in which a digest of that spread stands, where no other one is in its way.
fn first(spread: u64, slots: usize) -> usize {
    ((u128::from(spread) * slots as u128) >> 64) as usize
}

impl Wants {
    /// What the plan's table asks for. By key, it is read by these rules of each key column.
    ///
    /// # Errors
    /// What is wrong with the table, with the row.
    pub fn read(plan: &AskPlan, table: &dyn Table, rules: &[Vec<Rule>], ctl: &Control) -> Result<Self, Error> {
        let columns = plan.input.as_ref().map_or(&[][..], |(_, keys)| keys);
        match plan.by {
            By::Index => Self::of_numbers(plan, table, columns),
            By::Key => Self::of_keys(plan, table, columns, rules, ctl),
        }
    }

    fn of_keys(
        plan: &AskPlan,
        table: &dyn Table,
        keys: &[String],
        rules: &[Vec<Rule>],
        ctl: &Control,
    ) -> Result<Self, Error> {
        let mut once = Once::default();
        let mut held = Spill::new(1, ROW, Share::Output.of(plan.memory), &plan.scratch)?;
        let (mut rows, mut empty) = (0, 0);
        for batch in table.keys(keys, plan.workers)? {
            let batch = batch?;
            ctl.check()?;
            let (mut come, mut places) = (Vec::with_capacity(batch.num_rows()), Vec::with_capacity(batch.num_rows()));
            empty += digests(rules, &batch, |digest, place| {
                come.push(*digest);
                places.push(place as u64);
            });
            for (come, places) in come.chunks(TOGETHER).zip(places.chunks(TOGETHER)) {
                let mut of_batch = Ok(());
                once.numbers(come, |at, number| {
                    if of_batch.is_ok() {
                        of_batch = match number {
                            Some(number) => {
                                let mut row = [0; ROW];
                                row[..8].copy_from_slice(&(rows + places[at]).to_le_bytes());
                                row[8..].copy_from_slice(&number.to_le_bytes());
                                held.push(0, &row).map_err(Error::from)
                            }
                            None => Err(Error::Setup("more than 2^32 keys in one table: part it".into())),
                        };
                    }
                });
                of_batch?;
            }
            rows += batch.num_rows() as u64;
            ctl.event(Event::Done(rows));
        }
        let held = held.finish()?;
        let mut digests = once.digests;
        drop(once.slots);
        let duplicates = held.total() - digests.len() as u64;
        // In the order of their digests, which says nothing of the table.
        let places = sort(&mut digests);
        Ok(Self { digests, numbers: Vec::new(), rows, empty, duplicates, held: Held::Keys(held, places) })
    }

    /// A row for each of these digests, which ascend.
    pub fn of_each(digests: Vec<[u8; 32]>) -> Self {
        let rows = digests.len() as u64;
        Self { digests, numbers: Vec::new(), rows, empty: 0, duplicates: 0, held: Held::Each }
    }

    /// The numbers in the one column of the table.
    fn of_numbers(plan: &AskPlan, table: &dyn Table, keys: &[String]) -> Result<Self, Error> {
        let (mut numbers, mut held, mut places) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut rows, mut empty) = (0, 0);
        for batch in table.keys(keys, plan.workers)? {
            for text in batch?.column(0).as_string::<i32>() {
                let (row, text) = (rows, text.unwrap_or_default().trim());
                rows += 1;
                if text.is_empty() {
                    empty += 1;
                    continue;
                }
                let number = text.parse::<u64>().map_err(|_| {
                    let name = keys.first().map_or("", String::as_str);
                    Error::Setup(format!(
                        "row {} of {}: its {name:?} is no row number; write the number of a row of the server's \
                         table, from 0",
                        row + 1,
                        table.path().display()
                    ))
                })?;
                let next = numbers.len() as u32;
                let place = *places.entry(number).or_insert(next);
                if place == next {
                    numbers.push(number);
                }
                held.push((row, place));
            }
        }
        let digests = numbers.iter().map(|&number| digest_of_index(number)).collect();
        let duplicates = (held.len() - numbers.len()) as u64;
        Ok(Self { digests, numbers, rows, empty, duplicates, held: Held::Numbers(held) })
    }

    /// Puts something else in the place of each row number that a table of `rows` rows does not have. They are asked for like the
    /// others: the server chose how many rows it has, and a client that left now would say how its numbers compare with that.
    pub fn replace_absent(&mut self, rows: u64, rng: &mut SessionRng) {
        for (number, digest) in self.numbers.iter().zip(&mut self.digests) {
            if *number >= rows {
                *digest = rng.bytes();
            }
        }
    }

    /// Each row of the client's table that asks for something, and the place of what it asks for among [`Wants::digests`].
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn each(&self, mut each: impl FnMut(u64, usize) -> Result<(), JobError>) -> Result<(), JobError> {
        match &self.held {
            Held::Each => (0..self.digests.len()).try_for_each(|want| each(want as u64, want)),
            Held::Numbers(rows) => rows.iter().try_for_each(|&(row, want)| each(row, want as usize)),
            Held::Keys(rows, places) => {
                for block in rows.blocks(0, BLOCK) {
                    for record in block?.as_chunks::<ROW>().0 {
                        let (row, number) = record.split_first_chunk().expect("a record begins with a row");
                        let number = u32::from_le_bytes(*number.first_chunk().expect("four bytes are left"));
                        each(u64::from_le_bytes(*row), places[number as usize] as usize)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Sorts digests, each of which is there once, and gives the place to which each came.
fn sort(digests: &mut Vec<[u8; 32]>) -> Vec<u32> {
    // Eight bytes tell nearly all of them apart, and they are moved together with the numbers: a digest is looked at where two begin alike.
    let begin = |digest: &[u8; 32]| u64::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"));
    let mut order: Vec<(u64, u32)> = digests.iter().map(begin).zip(0..).collect();
    order.sort_unstable_by(|(one, at), (other, there)| {
        one.cmp(other).then_with(|| digests[*at as usize].cmp(&digests[*there as usize]))
    });
    let mut places = vec![0; order.len()];
    (0..).zip(&order).for_each(|(place, (_, number))| places[*number as usize] = place);
    // What is read here is far apart, and no read waits for another, as along the cycles of the order each would.
    *digests = order.iter().map(|(_, number)| digests[*number as usize]).collect();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sorted_and_each_is_told_its_place() {
        // Many begin alike.
        let digest = |i: u32| {
            std::array::from_fn(|at| if at < 8 { (i % 3) as u8 } else { (i.wrapping_mul(7919) >> (at % 4 * 8)) as u8 })
        };
        for n in [0, 1, 2, 1000] {
            let before: Vec<[u8; 32]> = (0..n).map(digest).collect();
            let (mut sorted, mut after) = (before.clone(), before.clone());
            sorted.sort_unstable();
            let places = sort(&mut after);
            assert!(after == sorted);
            assert!(before.iter().zip(&places).all(|(digest, place)| sorted[*place as usize] == *digest));
        }
    }

    #[test]
    fn digests_are_numbered_as_they_come_and_once() {
        let digest = |i: u32| {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&(i * i % 9973).to_le_bytes());
            digest
        };
        let all: Vec<[u8; 32]> = (0..20_000).map(digest).collect();
        let (mut once, mut expected) = (Once::default(), Vec::new());
        // Some alone, and many together, of which some are the same.
        for come in all.chunks(7).take(40).chain(all[280..].chunks(TOGETHER)) {
            let mut told = 0;
            once.numbers(come, |at, number| {
                let place = expected.iter().position(|other| *other == come[at]).unwrap_or(expected.len());
                if place == expected.len() {
                    expected.push(come[at]);
                }
                assert_eq!((at, number), (told, Some(place as u32)));
                told += 1;
            });
            assert_eq!(told, come.len());
        }
        assert!(once.digests == expected && expected.len() == 4987);
    }
}
