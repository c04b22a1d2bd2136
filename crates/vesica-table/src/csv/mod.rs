//! CSV in.
//!
//! The first pass takes the keys; several threads read ahead for it. It leaves marks, which say where rows begin. The second
//! pass takes the rows that matched, and reads from the marks on what it needs.

mod batch;
mod first_pass;
mod second_pass;
#[cfg(test)]
mod tests;

pub(crate) use batch::{Lines, VERBATIM};

use crate::format::{Magic, Packing};
use crate::scan::{Fields, Mark, Scanner, Want};
use crate::source::Cursor;
use crate::table::Header;
use crate::{Batches, Column, Emit, Error, Facts, Format, RowIds, Selection, Source, Table};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use first_pass::STRETCH;
use std::io::{BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The number of rows when no pass has come to the end yet.
const UNKNOWN: u64 = u64::MAX;

/// A CSV file.
pub(crate) struct CsvTable {
    source: Arc<Source>,
    packing: Packing,
    columns: Vec<Column>,
    schema: SchemaRef,
    header: Header,
    rows: Arc<AtomicU64>,
    /// Where the rows of each stretch begin, once a pass over an uncompressed file has come to the end.
    marks: Arc<OnceLock<Vec<Mark>>>,
    stretch: u64,
}

impl CsvTable {
    pub(crate) fn open(source: Arc<Source>) -> Result<Self, Error> {
        let mut magic = [0; 4];
        let n = source.peek(&mut magic)?;
        // What the file is counts, not what it is called; but a name that promises compression and a file that has
        // none is probably a failed download.
        let packing = match Magic::of(&magic[..n]) {
            Magic::Gzip => Packing::Gzip,
            Magic::Zstd => Packing::Zstd,
            _ => Packing::None,
        };
        let named = Packing::of(source.path());
        if packing == Packing::None && named != Packing::None && n > 0 {
            let why = format!("it is no {} file", if named == Packing::Gzip { "gzip" } else { "zstd" });
            return Err(Error::Corrupt { path: source.path().to_owned(), why });
        }
        let mut scanner = scanner(&source, packing)?;
        let bom = scanner.bom()?;
        let mut fields = Fields::default();
        let no_header = || Error::NoHeader { path: source.path().to_owned() };
        let row = scanner.next(Want::Header, &mut fields)?.ok_or_else(no_header)?;
        let (text, newline) = row.raw.split_at(row.raw.len() - row.ending);
        if text.is_empty() {
            return Err(no_header());
        }
        let newline = if newline.is_empty() { b"\n" } else { newline };
        let bom: &[u8] = if bom { b"\xef\xbb\xbf" } else { b"" };
        let header = Header { bytes: [bom, text, newline].concat(), newline: newline.to_owned() };
        let columns = (0..row.fields())
            .map(|i| match std::str::from_utf8(row.field(i)) {
                Ok(name) => Ok(Column { name: name.to_owned(), kind: "text".into() }),
                Err(_) => Err(Error::HeaderText { path: source.path().to_owned(), place: i + 1 }),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let schema =
            Schema::new(columns.iter().map(|c| Field::new(&c.name, DataType::Utf8, false)).collect::<Vec<_>>());
        let rows = Arc::new(AtomicU64::new(UNKNOWN));
        let (schema, marks) = (Arc::new(schema), Arc::new(OnceLock::new()));
        Ok(Self { source, packing, columns, schema, header, rows, marks, stretch: STRETCH })
    }

    /// The same, read in stretches of so many bytes.
    pub(crate) fn in_stretches(self, stretch: u64) -> Self {
        Self { stretch, ..self }
    }

    /// A scanner behind the header.
    fn scan(&self) -> Result<Scanner, Error> {
        self.source.begin()?;
        let mut scanner = scanner(&self.source, self.packing)?;
        scanner.bom()?;
        scanner.next(Want::Header, &mut Fields::default())?;
        Ok(scanner)
    }
}

fn scanner(source: &Arc<Source>, packing: Packing) -> Result<Scanner, Error> {
    let file = Cursor::new(source, 0);
    let buffered = |file| BufReader::with_capacity(256 << 10, file);
    let input: Box<dyn Read + Send> = match packing {
        Packing::None => Box::new(file),
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered(file))),
        Packing::Zstd => {
            Box::new(zstd::Decoder::with_buffer(buffered(file)).map_err(|e| Error::reading(source.path(), e))?)
        }
    };
    Ok(Scanner::new(source.clone(), input, packing != Packing::None))
}

impl Table for CsvTable {
    fn facts(&self) -> Facts<'_> {
        Facts {
            path: self.source.path(),
            source: Some(&self.source),
            columns: &self.columns,
            schema: &self.schema,
            format: Format::Csv,
            rows: Some(self.rows.load(Relaxed)).filter(|&n| n != UNKNOWN),
            header: Some(&self.header),
            stored: None,
        }
    }

    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, Error> {
        self.first_pass(&[keys, values].concat(), workers)
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        match self.marks.get() {
            Some(marks) => self.pick_everywhere(marks, rows, selection, emit)?,
            None => self.pick(self.scan()?, rows, selection, emit)?,
        }
        self.source.check()
    }
}
