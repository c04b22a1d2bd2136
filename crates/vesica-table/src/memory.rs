//! A table in memory: batches that the caller has, none of which is copied.

use crate::parquet::columns;
use crate::{Batches, Column, Emit, Error, Facts, Form, Format, RowIds, Selection, Table, table, text};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::take::take_record_batch;
use std::path::PathBuf;
use vesica_types::RowId;

/// Batches may be of any size; they are taken in slices of so many rows.
const BATCH_ROWS: usize = 8 << 10;

/// A table in memory.
pub struct Memory {
    /// What messages call it.
    name: PathBuf,
    schema: SchemaRef,
    columns: Vec<Column>,
    /// None is larger than [`BATCH_ROWS`].
    batches: Vec<RecordBatch>,
    /// The first row of each batch.
    first: Vec<u64>,
    rows: u64,
}

impl Memory {
    /// The rows of `batches`, which are all of `schema`. Messages call the table `name`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a batch of another schema.
    pub fn new(name: impl Into<PathBuf>, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self, Error> {
        let name = name.into();
        let (mut slices, mut first, mut rows) = (Vec::new(), Vec::new(), 0);
        for (number, batch) in (1..).zip(batches) {
            if batch.schema_ref().fields() != schema.fields() {
                let why = format!("batch {number} has other columns than the table; give batches of one schema");
                return Err(Error::Corrupt { path: name, why });
            }
            for from in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                let slice = batch.slice(from, BATCH_ROWS.min(batch.num_rows() - from));
                first.push(rows);
                rows += slice.num_rows() as u64;
                slices.push(slice);
            }
        }
        Ok(Self { columns: columns(&schema), name, schema, batches: slices, first, rows })
    }

    fn wrong(&self, error: ArrowError) -> Error {
        Error::Corrupt { path: self.name.clone(), why: error.to_string() }
    }
}

impl Table for Memory {
    fn facts(&self) -> Facts<'_> {
        Facts {
            path: &self.name,
            source: None,
            columns: &self.columns,
            schema: &self.schema,
            format: Format::Ipc,
            rows: Some(self.rows),
            header: None,
            stored: None,
        }
    }

    fn texts(&self, keys: &[String], values: &[String], _workers: usize) -> Result<Batches, Error> {
        let places = table::places(&self.name, &self.columns, &[keys, values].concat())?;
        let (of_keys, of_values) = places.split_at(keys.len());
        text::check_keys(&self.name, of_keys.iter().map(|&i| self.schema.field(i)))?;
        text::check_values(&self.name, of_values.iter().map(|&i| self.schema.field(i)))?;
        let schema = text::schema(keys, values);
        let path = self.name.clone();
        // The columns of the pass, which are shared and not copied.
        let columns = |batch: &RecordBatch| places.iter().map(|&i| batch.column(i).clone()).collect::<Vec<_>>();
        let batches: Vec<_> = self.batches.iter().map(columns).collect();
        Ok(Box::new(batches.into_iter().map(move |columns| {
            text::texts(&schema, &columns)
                .map_err(|error| Error::Corrupt { path: path.clone(), why: error.to_string() })
        })))
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        if selection.form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of a table in memory".into()));
        }
        let mut next = rows.next().transpose()?;
        for (batch, &first) in self.batches.iter().zip(&self.first) {
            let end = first + batch.num_rows() as u64;
            if next.is_none_or(|row| row.0 >= end) {
                continue;
            }
            let batch = batch.project(selection.columns).map_err(|error| self.wrong(error))?;
            while next.is_some_and(|row| row.0 < end) {
                let mut taken: Vec<u32> = Vec::new();
                while let Some(RowId(row)) = next.filter(|row| row.0 < end && taken.len() < BATCH_ROWS) {
                    let ascends = row.checked_sub(first).filter(|&i| taken.last().is_none_or(|&l| i >= u64::from(l)));
                    taken.push(ascends.ok_or_else(|| Error::Bug("rows to select do not ascend".into()))? as u32);
                    next = rows.next().transpose()?;
                }
                emit(take_record_batch(&batch, &UInt32Array::from(taken)).map_err(|error| self.wrong(error))?)?;
            }
        }
        match next {
            None => Ok(()),
            Some(RowId(row)) => Err(Error::Bug(format!("row {row} of a table of {} rows in memory", self.rows))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collect, Picks, gather};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    /// Rows `0..rows` with a number and a text, in batches of `of`.
    fn table(rows: i64, of: i64) -> Memory {
        let batch = |from: i64| {
            let numbers = from..(from + of).min(rows);
            let texts: StringArray = numbers.clone().map(|i| Some(format!("{i:05}"))).collect();
            let columns: [(_, ArrayRef, _); 2] = [
                ("n", Arc::new(Int64Array::from_iter(numbers.map(|i| (i % 7 != 3).then_some(i)))), true),
                ("t", Arc::new(texts), true),
            ];
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        };
        let batches: Vec<_> = (0..rows.max(1)).step_by(of as usize).map(batch).collect();
        Memory::new("the table", batches[0].schema(), batches).unwrap()
    }

    #[test]
    fn keys_are_texts_in_order_and_a_null_is_the_empty_one() {
        for (rows, of) in [(0, 5), (1, 5), (20_000, 9_000), (20_000, 20_000)] {
            let table = table(rows, of);
            assert_eq!(table.rows(), Some(rows as u64));
            let mut got = Vec::new();
            for batch in table.keys(&["t".into(), "n".into()], 2).unwrap() {
                let batch = batch.unwrap();
                let (t, n) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
                got.extend((0..batch.num_rows()).map(|i| (t.value(i).to_owned(), n.value(i).to_owned())));
            }
            let spelled = |i: i64| (format!("{i:05}"), if i % 7 == 3 { String::new() } else { i.to_string() });
            assert_eq!(got, (0..rows).map(spelled).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_come_out_where_they_are_asked_for_with_their_types() {
        let (table, dir) = (table(20_000, 9_000), tempfile::tempdir().unwrap());
        let picked = [(19_999, 0), (8_999, 1), (9_000, 2), (0, 3), (8_192, 4), (0, 5)];
        for spool in [None, Some(dir.path().to_owned())] {
            let kept = Collect::new(false, spool);
            let mut sink = kept.sink(&table.facts()).unwrap();
            let mut picks = Picks::new(20_000, 1 << 20, dir.path()).unwrap();
            picked.iter().for_each(|&(row, at)| picks.push(RowId(row), at).unwrap());
            gather(&table, picks, 8 << 20, 2, dir.path(), &mut *sink).unwrap();
            assert!(kept.take().is_none(), "rows stand nowhere before they are committed");
            assert_eq!(sink.finish().unwrap().commit().unwrap().rows, 6);
            let batches: Vec<_> = kept.take().unwrap().map(Result::unwrap).collect();
            let numbers = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter());
            let wanted = picked.map(|(row, _)| (row % 7 != 3).then_some(row as i64));
            assert_eq!(numbers.collect::<Vec<_>>(), wanted);
            assert!(kept.take().is_none());
        }
    }

    #[test]
    fn a_batch_of_another_schema_is_refused_by_its_number() {
        let (one, other) =
            (table(3, 3), RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]));
        let error = Memory::new("mine", one.schema(), vec![one.batches[0].clone(), other.unwrap()]).err().unwrap();
        assert!(error.to_string().contains("mine") && error.to_string().contains("batch 2"), "{error}");
    }

    #[test]
    fn a_column_that_is_not_there_is_named_with_the_table() {
        let error = table(3, 3).keys(&["N".into()], 1).err().unwrap();
        assert!(error.to_string().starts_with("the table"), "{error}");
    }
}
