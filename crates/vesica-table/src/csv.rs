use crate::open::{Cursor, Magic};
use crate::scan::{Fields, Scanner, Want};
use crate::table::{self, Header};
use crate::{Batches, Column, Error, Form, Format, Source, Table};
use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::io::{BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use vesica_types::RowId;

/// A batch ends at the first of these.
const BATCH_ROWS: usize = 16 << 10;
const BATCH_BYTES: usize = 2 << 20;

/// The number of rows when no pass has come to the end yet.
const UNKNOWN: u64 = u64::MAX;

/// The schema of [`Form::Verbatim`].
pub(crate) static VERBATIM: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("row", DataType::LargeBinary, true)])));

/// A CSV file.
pub(crate) struct CsvTable {
    source: Arc<Source>,
    packing: Packing,
    columns: Vec<Column>,
    schema: SchemaRef,
    header: Header,
    rows: Arc<AtomicU64>,
}

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// What the name of a file says.
    pub(crate) fn of(path: &std::path::Path) -> Self {
        let name = path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        if name.ends_with(".gz") {
            Packing::Gzip
        } else if name.ends_with(".zst") {
            Packing::Zstd
        } else {
            Packing::None
        }
    }
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
        Ok(Self { source, packing, columns, schema: Arc::new(schema), header, rows })
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
    fn source(&self) -> &Source {
        &self.source
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn format(&self) -> Format {
        Format::Csv
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.load(Relaxed)).filter(|&n| n != UNKNOWN)
    }

    fn header(&self) -> Option<&Header> {
        Some(&self.header)
    }

    fn keys(&self, columns: &[String]) -> Result<Batches, Error> {
        let places = table::places(&self.source, &self.columns, columns)?;
        let fields: Vec<_> = places.iter().map(|&i| Field::new(&self.columns[i].name, DataType::Utf8, false)).collect();
        let mut keys = Keys {
            source: self.source.clone(),
            rows: self.rows.clone(),
            scanner: self.scan()?,
            want: Want::Rows { columns: self.columns.len(), fields: places.iter().map(|i| i + 1).max().unwrap_or(0) },
            places,
            fields: Fields::default(),
            texts: Texts::new(Arc::new(Schema::new(fields))),
        };
        let mut ended = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let batch = keys.batch().transpose();
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }

    fn select(
        &self,
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        columns: &[usize],
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let places = columns;
        let columns = self.columns.len();
        let want = match form {
            Form::Verbatim => Want::Bounds { columns },
            Form::Arrow => Want::Rows { columns, fields: places.iter().map(|i| i + 1).max().unwrap_or(0) },
        };
        let mut scanner = self.scan()?;
        let mut fields = Fields::default();
        let mut lines = Lines::default();
        let schema = self.schema.project(places).map_err(|e| Error::Bug(e.to_string()))?;
        let mut texts = Texts::new(Arc::new(schema));
        let mut at = 0;
        let mut wanted = rows.next().transpose()?;
        while let Some(RowId(this)) = wanted {
            if this < at {
                return Err(Error::Bug("rows to select do not ascend".into()));
            }
            while at < this && scanner.next(Want::Bounds { columns }, &mut fields)?.is_some() {
                at += 1;
            }
            let Some(row) = scanner.next(want, &mut fields)?.filter(|_| at == this) else {
                let what = format!("row {} is not there any more", this + 1);
                return Err(Error::Changed { path: self.source.path().to_owned(), what });
            };
            at += 1;
            while wanted == Some(RowId(this)) {
                match form {
                    Form::Verbatim => {
                        lines.push(row.raw, if row.ending == 0 { &self.header.newline } else { b"" });
                        if lines.full() {
                            emit(lines.batch()?)?;
                        }
                    }
                    Form::Arrow => {
                        texts.push(row.place, places.iter().map(|&i| row.field(i)));
                        if texts.full() {
                            emit(texts.batch(&self.source)?)?;
                        }
                    }
                }
                wanted = rows.next().transpose()?;
            }
        }
        if !lines.is_empty() {
            emit(lines.batch()?)?;
        }
        if !texts.is_empty() {
            emit(texts.batch(&self.source)?)?;
        }
        self.source.check()
    }
}

/// The first pass.
struct Keys {
    source: Arc<Source>,
    rows: Arc<AtomicU64>,
    scanner: Scanner,
    want: Want,
    places: Vec<usize>,
    fields: Fields,
    texts: Texts,
}

impl Keys {
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        while !self.texts.full() {
            let Some(row) = self.scanner.next(self.want, &mut self.fields)? else {
                self.source.check()?;
                let rows = self.scanner.rows();
                let before = self.rows.swap(rows, Relaxed);
                if before != UNKNOWN && before != rows {
                    let what = format!("it had {before} rows and now has {rows}");
                    return Err(Error::Changed { path: self.source.path().to_owned(), what });
                }
                if self.texts.is_empty() {
                    return Ok(None);
                }
                break;
            };
            self.texts.push(row.place, self.places.iter().map(|&i| row.field(i)));
        }
        self.texts.batch(&self.source).map(Some)
    }
}

/// Columns of text that grow row by row.
struct Texts {
    schema: SchemaRef,
    columns: Vec<(Vec<u8>, Vec<i32>)>,
    /// Row and line of each row, to say where a text is bad.
    places: Vec<(u64, u64)>,
    bytes: usize,
}

impl Texts {
    fn new(schema: SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|_| (Vec::new(), vec![0])).collect();
        Self { schema, columns, places: Vec::new(), bytes: 0 }
    }

    /// Appends a row. The bounds on rows and batches keep offsets within 32 bits.
    #[inline]
    fn push<'a>(&mut self, place: (u64, u64), fields: impl Iterator<Item = &'a [u8]>) {
        self.places.push(place);
        for ((text, ends), field) in self.columns.iter_mut().zip(fields) {
            text.extend_from_slice(field);
            ends.push(text.len() as i32);
            self.bytes += field.len() + size_of::<i32>();
        }
    }

    fn full(&self) -> bool {
        self.places.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What has been pushed since the last batch.
    fn batch(&mut self, source: &Source) -> Result<RecordBatch, Error> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (i, column) in self.columns.iter_mut().enumerate() {
            // The next batch will be about as large as this one.
            let mut next =
                (Vec::with_capacity(column.0.len() + column.0.len() / 8), Vec::with_capacity(column.1.len()));
            next.1.push(0);
            let (text, ends) = std::mem::replace(column, next);
            let text = Buffer::from_vec(text);
            let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
            let array = StringArray::try_new(ends.clone(), text.clone(), None).map_err(|_| {
                let bad =
                    |row: &usize| std::str::from_utf8(&text[ends[*row] as usize..ends[row + 1] as usize]).is_err();
                match (0..self.places.len()).find(bad) {
                    Some(bad) => Error::NotText {
                        path: source.path().to_owned(),
                        row: self.places[bad].0,
                        line: self.places[bad].1,
                        column: self.schema.field(i).name().clone(),
                    },
                    None => Error::Bug("texts that are UTF-8 one by one but not together".into()),
                }
            })?;
            arrays.push(Arc::new(array));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.places.len()));
        self.places.clear();
        self.bytes = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(|e| Error::Bug(e.to_string()))
    }
}

/// Verbatim rows that grow one by one.
pub(crate) struct Lines {
    bytes: Vec<u8>,
    ends: Vec<i64>,
    /// Which rows are there; empty if all are.
    present: Vec<bool>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { bytes: Vec::new(), ends: vec![0], present: Vec::new() }
    }
}

impl Lines {
    /// Appends a row and what is to stand behind it.
    #[inline]
    pub(crate) fn push(&mut self, row: &[u8], newline: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.bytes.extend_from_slice(newline);
        self.ends.push(self.bytes.len() as i64);
        if !self.present.is_empty() {
            self.present.push(true);
        }
    }

    /// Appends an absent row.
    pub(crate) fn push_absent(&mut self) {
        if self.present.is_empty() {
            self.present.resize(self.ends.len() - 1, true);
        }
        self.ends.push(self.bytes.len() as i64);
        self.present.push(false);
    }

    pub(crate) fn full(&self) -> bool {
        self.ends.len() > BATCH_ROWS || self.bytes.len() >= BATCH_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// The rows since the last batch.
    pub(crate) fn batch(&mut self) -> Result<RecordBatch, Error> {
        let lines = std::mem::take(self);
        let nulls = (!lines.present.is_empty()).then(|| NullBuffer::from(lines.present));
        let ends = OffsetBuffer::new(ScalarBuffer::from(lines.ends));
        let bug = |e: arrow_schema::ArrowError| Error::Bug(e.to_string());
        let rows = LargeBinaryArray::try_new(ends, Buffer::from_vec(lines.bytes), nulls).map_err(bug)?;
        RecordBatch::try_new(VERBATIM.clone(), vec![Arc::new(rows)]).map_err(bug)
    }
}
