//! The client's table, read: which different keys or row numbers it asks for, and which of its rows each is for.

use crate::error::Error;
use crate::retrieve::digest_of_index;
use arrow_array::cast::AsArray;
use std::collections::HashMap;
use vesica_job::rooms::{Keys, PARTS, Reading};
use vesica_job::{Control, JobError};
use vesica_session::SessionRng;
use vesica_spec::service::{AskPlan, By};
use vesica_spec::{Duplicates, Rule};
use vesica_table::Table;

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

/// Which rows hold which key or number.
enum Held {
    /// Rows by key, on the disk where they are many.
    Keys(Box<Keys>),
    /// Rows, ascending, and the place of the number that each has.
    Numbers(Vec<(u64, u32)>),
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
        let (memory, workers) = (plan.memory, plan.workers as u32);
        let reading = Reading { keys, rules, duplicates: Duplicates::Join, memory, workers };
        let keys = Keys::extract(table, reading, &plan.scratch, ctl)?;
        let mut digests = Vec::with_capacity(keys.distinct as usize);
        for part in 0..PARTS {
            keys.distinct(part, |digest, _, _| {
                digests.push(*digest);
                Ok(())
            })?;
        }
        let (rows, empty, duplicates) = (keys.rows, keys.empty, keys.duplicates);
        Ok(Self { digests, numbers: Vec::new(), rows, empty, duplicates, held: Held::Keys(Box::new(keys)) })
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

    /// How many lookups the server sees.
    pub fn padded(&self, batch: u64) -> u64 {
        let least = if batch > 1 { 1 } else { 0 };
        (self.digests.len() as u64).max(least).next_multiple_of(batch)
    }

    /// Each row of the client's table that asks for something, and the place of what it asks for among [`Wants::digests`].
    ///
    /// # Errors
    /// Those of `each`, and of reading what was spilled.
    pub fn each(&self, mut each: impl FnMut(u64, usize) -> Result<(), JobError>) -> Result<(), JobError> {
        match &self.held {
            Held::Numbers(rows) => rows.iter().try_for_each(|&(row, want)| each(row, want as usize)),
            Held::Keys(keys) => {
                let mut begun = 0;
                (0..PARTS).try_for_each(|part| {
                    keys.each(part, |is_first, row| {
                        begun += usize::from(is_first);
                        each(row, begun - 1)
                    })
                })
            }
        }
    }
}
