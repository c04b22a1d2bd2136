//! A table with columns behind its own, whose texts come from elsewhere: what was looked up for its rows.

use crate::csv::VERBATIM;
use crate::sink::field;
use crate::{Batches, Column, Emit, Error, Facts, Form, Header, Pieces, RowIds, Selection, Table};
use arrow_array::builder::{LargeBinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use vesica_types::RowId;

/// A batch is handed on when so many bytes of texts stand beside its rows. Whoever prepared a service chose how long they are, up to a
/// mebibyte: 2048 rows of those would be more than a column with offsets of 32 bits holds, and more than a run wants to hold.
const BATCH_BYTES: usize = 4 << 20;

/// Texts for the rows of a table.
pub trait Beside: Send + Sync {
    /// The names of their columns.
    fn names(&self) -> &[String];

    /// The texts of `row`, one a column; a null where there is none. It is asked for no row that is not selected.
    ///
    /// # Errors
    /// Whatever keeps it from having them.
    fn texts(&self, row: RowId) -> Result<Vec<Option<String>>, Error>;
}

/// A table with the columns of a [`Beside`] behind its own. A CSV's rows are still written byte for byte.
pub struct Widened<'a> {
    table: &'a dyn Table,
    beside: &'a dyn Beside,
    /// The text of a null in CSV.
    null: String,
    columns: Vec<Column>,
    schema: SchemaRef,
    header: Option<Header>,
}

impl<'a> Widened<'a> {
    /// `table` with the columns of `beside`, whose nulls are written as `null` in CSV.
    ///
    /// # Errors
    /// [`Error::Ambiguous`] if a column of that name is there.
    pub fn new(table: &'a dyn Table, beside: &'a dyn Beside, null: &str) -> Result<Self, Error> {
        let mut columns = table.columns().to_vec();
        for name in beside.names() {
            if let Some(place) = columns.iter().position(|column| column.name == *name) {
                let (path, places) = (table.path().to_owned(), vec![place + 1, columns.len() + 1]);
                return Err(Error::Ambiguous { path, name: name.clone(), places });
            }
            columns.push(Column { name: name.clone(), kind: "text".to_owned() });
        }
        let like = table.schema();
        let behind = beside.names().iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
        let fields: Vec<_> = like.fields().iter().cloned().chain(behind).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, like.metadata().clone()));
        let header = table.facts().header.map(|header| {
            let mut bytes = unended(&header.bytes).to_vec();
            beside.names().iter().for_each(|name| field(&mut bytes, name, true, false));
            bytes.extend_from_slice(&header.newline);
            Header { bytes, newline: header.newline.clone() }
        });
        Ok(Self { table, beside, null: null.to_owned(), columns, schema, header })
    }

    /// The same, whose schema says this too.
    pub fn saying(mut self, name: &str, what: &str) -> Self {
        let mut about = self.schema.metadata().clone();
        about.insert(name.to_owned(), what.to_owned());
        self.schema = Arc::new(Schema::new_with_metadata(self.schema.fields().clone(), about));
        self
    }

    /// The rows of `batch` from `from` on, whose numbers are `rows`, as lines with more fields: as many as fit in a batch, and one at least.
    fn lines(&self, batch: &RecordBatch, rows: &[RowId], from: usize, newline: &[u8]) -> Result<RecordBatch, Error> {
        let own = batch.column(0).as_binary::<i64>();
        let mut lines = LargeBinaryBuilder::new();
        let (mut line, mut bytes) = (Vec::new(), 0);
        for (at, &row) in rows.iter().enumerate().skip(from) {
            line.clear();
            line.extend_from_slice(unended(if own.is_valid(at) { own.value(at) } else { b"" }));
            for text in self.beside.texts(row)? {
                match text {
                    None => field(&mut line, &self.null, true, false),
                    // Quoted, what reads like a null is none.
                    Some(text) => field(&mut line, &text, true, text == self.null),
                }
            }
            line.extend_from_slice(newline);
            lines.append_value(&line);
            bytes += line.len();
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        made(VERBATIM.clone(), vec![Arc::new(lines.finish())])
    }

    /// The rows of `batch` from `from` on, whose numbers are `rows`, with those columns behind them that `behind` names: as many as fit in a
    /// batch, and one at least.
    fn wider(&self, batch: &RecordBatch, rows: &[RowId], from: usize, behind: &[usize]) -> Result<RecordBatch, Error> {
        let mut texts: Vec<StringBuilder> = behind.iter().map(|_| StringBuilder::new()).collect();
        let (mut taken, mut bytes) = (0, 0);
        for &row in &rows[from..] {
            let all = self.beside.texts(row)?;
            behind.iter().zip(&mut texts).for_each(|(&at, text)| text.append_option(all[at].as_deref()));
            taken += 1;
            bytes += all.iter().flatten().map(String::len).sum::<usize>();
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        let mut columns = batch.slice(from, taken).columns().to_vec();
        columns.extend(texts.iter_mut().map(|text| Arc::new(text.finish()) as ArrayRef));
        let behind = behind.iter().map(|at| self.schema.field(self.own() + at).clone());
        let fields: Vec<_> = batch.schema().fields().iter().map(|field| (**field).clone()).chain(behind).collect();
        made(Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone())), columns)
    }

    /// How many columns are the table's own.
    fn own(&self) -> usize {
        self.table.columns().len()
    }
}

/// A line without its ending.
fn unended(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn made(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, Error> {
    RecordBatch::try_new(schema, columns).map_err(|e| Error::Bug(e.to_string()))
}

impl Table for Widened<'_> {
    fn facts(&self) -> Facts<'_> {
        let Self { table, columns, schema, header, .. } = self;
        Facts { columns, schema, header: header.as_ref(), ..table.facts() }
    }

    fn file_ends(&self, workers: usize) -> Result<Vec<u64>, Error> {
        self.table.file_ends(workers)
    }

    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, Error> {
        self.table.texts(keys, values, workers)
    }

    fn pieces(&self, columns: &[String], workers: usize) -> Result<Pieces, Error> {
        self.table.pieces(columns, workers)
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let Selection { form, columns, workers } = selection;
        let own: Vec<usize> = columns.iter().copied().take_while(|&column| column < self.own()).collect();
        let behind: Vec<usize> = columns[own.len()..].iter().map(|column| column.wrapping_sub(self.own())).collect();
        if behind.iter().any(|&column| column >= self.beside.names().len()) {
            return Err(Error::Bug("columns of the table behind those that stand beside it".into()));
        }
        let newline = self.header.as_ref().map_or(&b"\n"[..], |header| &header.newline);
        // Rows that the table has been asked for and has not given yet.
        let asked = RefCell::new(VecDeque::new());
        let mut rows = rows.inspect(|row| {
            if let Ok(row) = row {
                asked.borrow_mut().push_back(*row);
            }
        });
        self.table.select(&mut rows, Selection { form, columns: &own, workers }, &mut |batch| {
            let mut asked = asked.borrow_mut();
            if asked.len() < batch.num_rows() {
                return Err(Error::Bug("more rows than were asked for".into()));
            }
            let rows: Vec<RowId> = asked.drain(..batch.num_rows()).collect();
            drop(asked);
            let mut from = 0;
            while from < rows.len() {
                let piece = match form {
                    Form::Verbatim => self.lines(&batch, &rows, from, newline)?,
                    Form::Arrow => self.wider(&batch, &rows, from, &behind)?,
                };
                from += piece.num_rows();
                emit(piece)?;
            }
            Ok(())
        })
    }
}
