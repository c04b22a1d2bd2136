//! Day files: which keys a client's table has more and which no more since the last run, where reading all of it would take too long.
//!
//! A run with day files knows its table by what it keeps. So what it writes of a row is what it has of it: the texts of the key columns, as the
//! file said them that the key was added with.

use crate::error::Error;
use crate::wants::Wants;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use vesica_job::rooms::digests;
use vesica_job::{Control, JobError};
use vesica_spec::Rule;
use vesica_spec::service::AskPlan;
use vesica_table::{Memory, Table};

/// What changed in a table on a day, besides the keys that were added: [`Wants`] of their own.
pub struct Day {
    /// The key columns.
    names: Vec<String>,
    /// The texts of the rows that were added, and in which of them each key stands first.
    batches: Vec<RecordBatch>,
    rows: Vec<(u32, u32)>,
    /// Digests of the keys that were removed, ascending.
    pub removed: Vec<[u8; 32]>,
    /// A hash of all.
    pub name: [u8; 32],
}

impl Day {
    /// Reads the day files: the keys that were added, and the rest. `tables` are the files of the two; there is one of the keys that were removed
    /// if there were any.
    ///
    /// # Errors
    /// What is wrong with the files, with the row.
    pub fn read(
        plan: &AskPlan,
        (added, removed): (&dyn Table, Option<&dyn Table>),
        rules: &[Vec<Rule>],
        ctl: &Control,
    ) -> Result<(Wants, Self), Error> {
        let names = plan.input.as_ref().map_or_else(Vec::new, |(_, keys)| keys.clone());
        let wants = Wants::read(plan, added, rules, ctl)?;
        let batches = added.keys(&names, plan.workers)?.collect::<Result<Vec<_>, _>>()?;
        let mut rows = vec![(u32::MAX, 0); wants.digests.len()];
        let (mut batch, mut first) = (0, 0u64);
        wants.each(|row, want| {
            while let Some(end) = batches.get(batch).map(|batch| first + batch.num_rows() as u64)
                && end <= row
            {
                (batch, first) = (batch + 1, end);
            }
            if rows[want].0 == u32::MAX {
                rows[want] = (batch as u32, (row - first) as u32);
            }
            Ok(())
        })?;
        if batches.len() as u64 > u64::from(u32::MAX) || rows.iter().any(|(batch, _)| *batch as usize >= batches.len())
        {
            return Err(JobError::from(vesica_table::Error::Bug("a key that was added has no row".to_owned())).into());
        }
        let mut gone = Vec::new();
        if let Some(table) = removed {
            for batch in table.keys(&names, plan.workers)? {
                ctl.check()?;
                digests(rules, &batch?, |digest, _| gone.push(*digest));
            }
        }
        gone.sort_unstable();
        gone.dedup();
        let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 day files");
        for digests in [&wants.digests, &gone] {
            hasher.update(&(digests.len() as u64).to_le_bytes()).update(digests.as_flattened());
        }
        let name = *hasher.finalize().as_bytes();
        Ok((wants, Self { names, batches, rows, removed: gone, name }))
    }

    /// The key columns.
    pub fn columns(&self) -> &[String] {
        &self.names
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.removed.is_empty()
    }

    /// The texts of the key at this place among those that were added.
    pub fn texts(&self, place: usize) -> impl Iterator<Item = &str> {
        let (batch, row) = self.rows[place];
        texts(&self.batches[batch as usize], row as usize)
    }
}

/// The texts of a row.
fn texts(batch: &RecordBatch, row: usize) -> impl Iterator<Item = &str> {
    batch.columns().iter().map(move |column| column.as_string::<i32>().value(row))
}

/// Rows of a batch of texts, and the bytes after which it is full in any case.
const ROWS: usize = 1 << 13;
const FULL: usize = 1 << 24;

/// The texts of keys, a row for each.
pub struct Texts {
    schema: SchemaRef,
    open: Vec<StringBuilder>,
    /// Rows and bytes of what is open.
    filled: (usize, usize),
    batches: Vec<RecordBatch>,
    bytes: u64,
}

impl Texts {
    /// None yet, of these columns.
    pub fn new(columns: &[String]) -> Self {
        let fields: Vec<Field> = columns.iter().map(|name| Field::new(name, DataType::Utf8, false)).collect();
        let open = columns.iter().map(|_| StringBuilder::new()).collect();
        Self { schema: Arc::new(Schema::new(fields)), open, filled: (0, 0), batches: Vec::new(), bytes: 0 }
    }

    /// One more.
    pub fn push<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        for (column, text) in self.open.iter_mut().zip(texts) {
            column.append_value(text);
            self.filled.1 += text.len();
            self.bytes += 4 + text.len() as u64;
        }
        self.filled.0 += 1;
        if self.filled.0 == ROWS || self.filled.1 >= FULL {
            self.end();
        }
    }

    /// One more, as a kept file has it: each text behind its length. None if that is none.
    #[must_use]
    pub fn push_encoded(&mut self, mut encoded: &[u8]) -> Option<()> {
        let mut texts = Vec::with_capacity(self.open.len());
        for _ in 0..self.open.len() {
            let (length, rest) = encoded.split_first_chunk()?;
            let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            texts.push(std::str::from_utf8(text).ok()?);
            encoded = rest;
        }
        self.push(texts.into_iter());
        encoded.is_empty().then_some(())
    }

    /// That was the last one.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.filled).0 > 0 {
            let columns = self.open.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
            let batch = RecordBatch::try_new(self.schema.clone(), columns);
            self.batches.push(batch.expect("as many texts in each column, none of which is a null"));
        }
    }

    /// How many columns there are.
    pub fn columns(&self) -> u32 {
        self.open.len() as u32
    }

    /// Bytes of all of them in a kept file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Each row's texts.
    pub fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        self.batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| texts(batch, row)))
    }

    /// The texts as a table.
    ///
    /// # Errors
    /// None: all batches are of one schema.
    pub fn table(&self) -> Result<Memory, Error> {
        Ok(Memory::new("the keys of mine.kept", self.schema.clone(), self.batches.clone())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_they_are_kept() {
        let columns = ["a".to_owned(), "b".to_owned()];
        let mut texts = Texts::new(&columns);
        let rows: Vec<[String; 2]> = (0..ROWS + 5).map(|i| [i.to_string(), "ü".repeat(i % 3)]).collect();
        rows.iter().for_each(|row| texts.push(row.iter().map(String::as_str)));
        texts.end();
        let read = |texts: &Texts| texts.rows().map(|row| row.map(str::to_owned).collect()).collect::<Vec<Vec<_>>>();
        assert!(read(&texts) == rows);
        let mut again = Texts::new(&columns);
        for row in texts.rows() {
            let encoded: Vec<u8> =
                row.flat_map(|text| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()).collect();
            again.push_encoded(&encoded).unwrap();
            for cut in 0..encoded.len() {
                assert!(Texts::new(&columns).push_encoded(&encoded[..cut]).is_none());
            }
        }
        again.end();
        assert!(read(&again) == rows && again.bytes() == texts.bytes());
        assert!(Texts::new(&columns).push_encoded(&[1, 0, 0, 0, 255, 0, 0, 0, 0]).is_none());
        assert_eq!(texts.table().unwrap().rows(), Some(rows.len() as u64));
    }
}
