use crate::Error;
use crate::format::Format;
use crate::ones::Ones;
use crate::source::Source;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::basic::Compression;
use parquet::schema::types::ColumnPath;
use std::path::Path;
use vesica_types::RowId;

/// A column of a table, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name, as the header or the schema has it.
    pub name: String,
    /// Its type in words: `text` for CSV, Arrow's name for it otherwise.
    pub kind: String,
}

/// The first line of a CSV, and what is needed to write more lines like it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The line, byte for byte: byte order mark, quotes and line ending included (the ending is added if it lacked one).
    pub bytes: Vec<u8>,
    /// The file's line ending: `\n`, `\r\n` or `\r`.
    pub newline: Vec<u8>,
}

/// In which form rows travel from a table to a sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// CSV to CSV: batches of one column of `LargeBinary`, a row's bytes with its line ending. Null is an absent row.
    Verbatim,
    /// Everything else: batches of columns of [`Table::schema`].
    Arrow,
}

/// How the columns of a Parquet file are stored; of another table nothing is said.
#[derive(Clone, Debug)]
pub struct Stored(pub(crate) Vec<StoredColumn>);

/// How a leaf column of a Parquet file is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredColumn {
    pub(crate) path: ColumnPath,
    pub(crate) codec: Compression,
    /// Whether most of its chunks have values that stand in no dictionary.
    pub(crate) plain: bool,
}

/// What is known of a table without reading a row. A table that is made of another one says what differs:
/// `Facts { rows: Some(7), ..table.facts() }`.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// What messages call it: the file's path, or words for a table in memory.
    pub path: &'a Path,
    /// The file behind it; none behind a table in memory.
    pub source: Option<&'a Source>,
    /// Its columns, in order.
    pub columns: &'a [Column],
    /// The schema of [`Form::Arrow`]. A CSV's columns are all `Utf8`.
    pub schema: &'a SchemaRef,
    /// What it is stored as.
    pub format: Format,
    /// The number of rows, where the file says so without being read (Parquet), or after a whole pass.
    pub rows: Option<u64>,
    /// The header of a CSV.
    pub header: Option<&'a Header>,
    /// How its columns are stored, where it is Parquet: rows like these are written in the same way.
    pub stored: Option<&'a Stored>,
}

/// An iterator over the batches of a pass. An error ends it.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + Send>;

/// Rows that stand one after the other in a table, and can be read by themselves.
pub struct Piece {
    /// The number of the first one.
    pub first: u64,
    /// The rows, as [`Table::keys`] gives them.
    pub batches: Batches,
}

/// The pieces of a table, in order.
pub type Pieces = Box<dyn Iterator<Item = Piece> + Send>;

/// The rows that a second pass is asked for.
pub type RowIds<'a> = dyn Iterator<Item = Result<RowId, Error>> + 'a;

/// Takes the batches of a second pass.
pub type Emit<'a> = dyn FnMut(RecordBatch) -> Result<(), Error> + 'a;

/// What a second pass takes of each row.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    /// In which form.
    pub form: Form,
    /// With [`Form::Arrow`], the places of the columns to take, in that order; a verbatim row is whole.
    pub columns: &'a [usize],
    /// How many threads read.
    pub workers: usize,
}

/// A table that can be read twice: once for its keys, once for the rows that matched.
///
/// Every pass sees the file as it was when the table was opened: the file stays open, so replacing it by another of the
/// same name changes nothing, and writing into it is noticed and is [`Error::Changed`].
pub trait Table: Send + Sync {
    /// All that is known of it without reading a row.
    fn facts(&self) -> Facts<'_>;

    /// See [`Facts::path`].
    fn path(&self) -> &Path {
        self.facts().path
    }

    /// See [`Facts::source`].
    fn source(&self) -> Option<&Source> {
        self.facts().source
    }

    /// See [`Facts::columns`].
    fn columns(&self) -> &[Column] {
        self.facts().columns
    }

    /// See [`Facts::schema`].
    fn schema(&self) -> SchemaRef {
        self.facts().schema.clone()
    }

    /// See [`Facts::format`].
    fn format(&self) -> Format {
        self.facts().format
    }

    /// See [`Facts::rows`].
    fn rows(&self) -> Option<u64> {
        self.facts().rows
    }

    /// Of each file that it is made of, the number of the first row behind it. The last one may be any number that is large enough.
    ///
    /// # Errors
    /// Those of reading a file whose rows no pass has counted.
    fn file_ends(&self, _workers: usize) -> Result<Vec<u64>, Error> {
        Ok(vec![u64::MAX])
    }

    /// Size on disk, in bytes; of a spooled standard input, the bytes that came. None for a table in memory.
    fn bytes(&self) -> Option<u64> {
        self.source().map(Source::bytes_of_rows)
    }

    /// Bytes of the file that the latest pass has read so far, for progress.
    fn bytes_read(&self) -> u64 {
        self.source().map_or(0, Source::bytes_read)
    }

    /// First pass: the columns called `columns`, in that order, as non-null text (`StringArray`), in file order. The
    /// row's number is its place. A null is the empty text. See [`Table::texts`].
    ///
    /// # Errors
    /// As [`Table::texts`].
    fn keys(&self, columns: &[String], workers: usize) -> Result<Batches, Error> {
        self.texts(columns, &[], workers)
    }

    /// First pass in pieces, each of which a thread can read by itself: what [`Table::keys`] gives, if they are read one after
    /// the other. Parquet has one for each row group, or for some small ones; everything else is one piece.
    ///
    /// # Errors
    /// As [`Table::texts`].
    fn pieces(&self, columns: &[String], workers: usize) -> Result<Pieces, Error> {
        Ok(Box::new(std::iter::once(Piece { first: 0, batches: self.keys(columns, workers)? })))
    }

    /// First pass: the columns called `keys`, then those called `values`, as text (`StringArray`), in file order. The row's
    /// number is its place. Of a key a null is the empty text, of a value it stays a null.
    ///
    /// Text is a CSV field without its quotes; a string as it is; an integer in decimal; a decimal with all digits of
    /// its scale; `true` or `false`; dates and times as ISO 8601 (`2026-05-01T09:30:00`), those with a zone in UTC (`Z`).
    ///
    /// A CSV that is not compressed is read by `workers` threads, from the first batch on; everything else by the caller
    /// alone. See [`Table::pieces`].
    ///
    /// # Errors
    /// [`Error::Column`], [`Error::Ambiguous`], [`Error::KeyType`] and [`Error::ValueType`] at once; what is wrong with the
    /// data in the iterator.
    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, Error>;

    /// Second pass: the rows numbered by `rows`, which must ascend and may repeat, handed to `emit` batch by batch in
    /// that order. Rows not asked for cost as little as the format allows.
    ///
    /// A CSV that is not compressed and that a first pass has read to its end is read by several threads, and so are the row
    /// groups of a Parquet file; everything else by the caller alone. Each thread may be 4 MiB of batches ahead.
    ///
    /// # Errors
    /// What is wrong with the data; [`Error::Changed`] if a row is not there; any error of `rows` or `emit`.
    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error>;

    /// The same for the rows that are marked, each once: row i is bit i % 64 of word i / 64.
    ///
    /// # Errors
    /// As [`Table::select`].
    fn select_marked(&self, marked: &[u64], selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        let mut ones = Ones::new(marked.iter().copied());
        let mut rows = std::iter::from_fn(|| ones.next_below(u64::MAX).map(|row| Ok(RowId(row))));
        self.select(&mut rows, selection, emit)
    }
}

/// Where the columns called `names` stand among `columns`.
pub(crate) fn places(path: &Path, columns: &[Column], names: &[String]) -> Result<Vec<usize>, Error> {
    names.iter().map(|name| place(path, columns, name)).collect()
}

/// What a reader must be asked for that gives each column once and in file order, and where in its answer each of
/// `places` then stands.
pub(crate) fn in_file_order(places: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut once = places.to_vec();
    once.sort_unstable();
    once.dedup();
    let order = places.iter().map(|p| once.partition_point(|o| o < p)).collect();
    (once, order)
}

fn place(path: &Path, columns: &[Column], name: &str) -> Result<usize, Error> {
    let places: Vec<usize> = (0..columns.len()).filter(|&i| columns[i].name == name).collect();
    let path = path.to_owned();
    match places.as_slice() {
        [place] => Ok(*place),
        [] => Err(Error::Column {
            path,
            name: name.to_owned(),
            nearest: nearest(columns, name),
            columns: columns.iter().map(|c| c.name.clone()).collect(),
        }),
        _ => Err(Error::Ambiguous { path, name: name.to_owned(), places: places.iter().map(|i| i + 1).collect() }),
    }
}

/// The column whose name is most like `name`, if any is like it; letter case and spaces around count least.
fn nearest(columns: &[Column], name: &str) -> Option<String> {
    let plain = |s: &str| s.trim().to_lowercase();
    let wanted = plain(name);
    columns
        .iter()
        .map(|c| (strsim::normalized_damerau_levenshtein(&plain(&c.name), &wanted), &c.name))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.clone())
}
