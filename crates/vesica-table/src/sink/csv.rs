//! CSV out.

use super::{BUFFER, Sink};
use crate::csv::VERBATIM;
use crate::format::Packing;
use crate::stage::{Out, Stage};
use crate::{Error, Facts, Form, Staged, text};
use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeBinaryArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use memchr::{memchr, memchr3};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

/// A CSV writer's compression.
enum Pack {
    None(BufWriter<Out>),
    Gzip(flate2::write::GzEncoder<BufWriter<Out>>),
    Zstd(zstd::Encoder<'static, BufWriter<Out>>),
}

impl Pack {
    fn new(packing: Packing, out: Out) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER, out);
        Ok(match packing {
            Packing::None => Pack::None(out),
            Packing::Gzip => Pack::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
            Packing::Zstd => Pack::Zstd(zstd::Encoder::new(out, 0)?),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Pack::None(w) => w.write_all(bytes),
            Pack::Gzip(w) => w.write_all(bytes),
            Pack::Zstd(w) => w.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Pack::None(w) => w,
            Pack::Gzip(w) => w.finish()?,
            Pack::Zstd(w) => w.finish()?,
        }
        .flush()
    }
}

/// How what is not there is written.
#[derive(Clone)]
pub(super) struct Null {
    text: String,
    /// Whether there can be any, so that a text that reads like one must be told apart.
    possible: bool,
    /// A row of nothing else, with its line ending.
    row: Vec<u8>,
}

impl Null {
    pub(super) fn new(text: &str, possible: bool, like: &Facts<'_>) -> Self {
        let columns = like.columns.len();
        let mut row = Vec::new();
        for i in 0..columns {
            // A lone empty field would be a blank line, which other readers skip.
            field(&mut row, text, i > 0, columns == 1 && text.is_empty());
        }
        row.extend_from_slice(like.header.map_or(b"\n", |h| &h.newline));
        Self { text: text.to_owned(), possible, row }
    }
}

/// Appends a field by RFC 4180, behind a comma if `comma`, in quotes where needed or if `quote`.
pub(crate) fn field(line: &mut Vec<u8>, text: &str, comma: bool, quote: bool) {
    let bytes = text.as_bytes();
    if comma {
        line.push(b',');
    }
    if !quote && memchr3(b',', b'"', b'\n', bytes).is_none() && memchr(b'\r', bytes).is_none() {
        line.extend_from_slice(bytes);
        return;
    }
    line.push(b'"');
    for (i, part) in bytes.split(|&b| b == b'"').enumerate() {
        if i > 0 {
            line.extend_from_slice(b"\"\"");
        }
        line.extend_from_slice(part);
    }
    line.push(b'"');
}

pub(super) struct CsvSink {
    schema: SchemaRef,
    null: Null,
    writer: Pack,
    stage: Stage,
}

/// The form of rows with this schema.
pub(super) fn form(schema: &SchemaRef) -> Form {
    if Arc::ptr_eq(schema, &VERBATIM) { Form::Verbatim } else { Form::Arrow }
}

/// The first line of a file for rows of `like` that has this schema.
pub(super) fn head(schema: &SchemaRef, like: &Facts<'_>) -> Vec<u8> {
    if form(schema) == Form::Verbatim
        && let Some(header) = like.header
    {
        return header.bytes.clone();
    }
    let (columns, mut line) = (like.columns, Vec::new());
    for (i, column) in columns.iter().enumerate() {
        field(&mut line, &column.name, i > 0, columns.len() == 1 && column.name.is_empty());
    }
    line.push(b'\n');
    line
}

impl CsvSink {
    /// Begins the file, with `head`.
    pub(super) fn open(
        schema: SchemaRef,
        head: &[u8],
        null: Null,
        packing: Packing,
        stage: Stage,
        out: Out,
    ) -> Result<Self, Error> {
        let mut writer = Pack::new(packing, out).map_err(|e| stage.failed(e))?;
        writer.write_all(head).map_err(|e| stage.failed(e))?;
        Ok(CsvSink { null, schema, writer, stage })
    }

    fn lines(&mut self, rows: &LargeBinaryArray) -> io::Result<()> {
        if rows.null_count() == 0 {
            let ends = rows.value_offsets();
            let (from, to) = (ends[0] as usize, ends[rows.len()] as usize);
            return self.writer.write_all(&rows.value_data()[from..to]);
        }
        rows.iter().try_for_each(|row| self.writer.write_all(row.unwrap_or(&self.null.row)))
    }

    fn texts(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let columns = batch.columns().iter().map(text::text).collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|e| self.stage.arrow(e))?;
        let mut lines = Vec::new();
        for row in 0..batch.num_rows() {
            for (i, column) in columns.iter().enumerate() {
                if column.is_null(row) {
                    field(&mut lines, &self.null.text, i > 0, columns.len() == 1 && self.null.text.is_empty());
                } else {
                    // Quoted, what reads like a null is none; that keeps empty texts and nulls apart.
                    let text = column.value(row);
                    let alone = columns.len() == 1 && text.is_empty();
                    field(&mut lines, text, i > 0, alone || (self.null.possible && text == self.null.text));
                }
            }
            lines.push(b'\n');
        }
        self.writer.write_all(&lines).map_err(|e| self.stage.failed(e))
    }
}

impl Sink for CsvSink {
    fn form(&self) -> Form {
        form(&self.schema)
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.stage.rows += batch.num_rows() as u64;
        match self.form() {
            Form::Arrow => self.texts(batch),
            Form::Verbatim => match batch.columns() {
                [rows] if rows.data_type() == &DataType::LargeBinary => {
                    self.lines(rows.as_binary()).map_err(|e| self.stage.failed(e))
                }
                _ => Err(Error::Bug("a batch that is not verbatim rows".into())),
            },
        }
    }

    fn finish(self: Box<Self>) -> Result<Staged, Error> {
        let Self { writer, stage, .. } = *self;
        writer.finish().map_err(|e| stage.failed(e))?;
        stage.finish()
    }
}
