use crate::csv::{Packing, VERBATIM};
use crate::error::folder;
use crate::stage::{Out, Stage};
use crate::{Error, Form, Format, Staged, Table, text};
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, LargeBinaryArray, RecordBatch, UInt64Array, downcast_integer, new_empty_array,
};
use arrow_buffer::ArrowNativeType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take;
use memchr::{memchr, memchr3};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The file; `-` is standard output (CSV only). It is replaced if it is a plain file, through symbolic links.
    pub path: PathBuf,
    /// Its format; if `None`, its name says.
    pub format: Option<Format>,
    /// The text of a null in CSV: of each value of an absent row, and of the nulls of Parquet and Arrow.
    pub null: String,
    /// Whether rows may be absent, as in outer joins. In Parquet and Arrow every column then becomes nullable.
    pub absent: bool,
}

impl Output {
    /// A new file at `path`, whose name says its format, in which no row is absent and nulls are empty.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: None, null: String::new(), absent: false }
    }
}

/// Where rows go. Nothing stands at the output's path before [`Staged::commit`].
pub trait Sink: Send {
    /// The form of the rows it takes.
    fn form(&self) -> Form;

    /// The schema of the rows it takes.
    fn schema(&self) -> &SchemaRef;

    /// Appends rows.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and other errors of writing.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error>;

    /// Ends the file and brings it to the disk, still under a temporary name.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and other errors of writing.
    fn finish(self: Box<Self>) -> Result<Staged, Error>;
}

/// Opens an output for rows of `like`: same columns, same types, same metadata; for CSV from CSV the same bytes.
///
/// # Errors
/// All that can be known before writing: no folder, no permission, the input itself under whatever name, a type that
/// the format cannot hold.
pub fn create(output: &Output, like: &dyn Table) -> Result<Box<dyn Sink>, Error> {
    let stdout = output.path == Path::new("-");
    let format = match output.format.or_else(|| Format::of(&output.path)) {
        Some(format) => format,
        None if stdout => Format::Csv,
        None => return Err(Error::Unnamed { path: output.path.clone() }),
    };
    if stdout && format != Format::Csv {
        return Err(Error::Stdout { format: format.name() });
    }
    let path = if stdout { None } else { Some(resolve(&output.path, like)?) };
    let schema = schema(output, format, like)?;
    let stage = Stage::new(path)?;
    let out = stage.out()?;
    match format {
        Format::Csv => {
            let packing = Packing::of(&output.path);
            let writer = Pack::new(packing, out).map_err(|e| stage.failed(e))?;
            let nulls = output.absent || like.format() != Format::Csv;
            let null = Null::new(&output.null, nulls, like);
            let mut sink = CsvSink { null, schema, writer, stage };
            sink.header(like)?;
            Ok(Box::new(sink))
        }
        Format::Parquet => {
            let metadata = schema.metadata().iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone()));
            let mut metadata: Vec<_> = metadata.filter(|kv| kv.key != parquet::arrow::ARROW_SCHEMA_META_KEY).collect();
            metadata.sort_by(|a, b| a.key.cmp(&b.key));
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
                .set_key_value_metadata(Some(metadata))
                .build();
            let writer = ArrowWriter::try_new(BufWriter::with_capacity(BUFFER, out), schema.clone(), Some(properties))
                .map_err(|e| stage.parquet(e))?;
            Ok(Box::new(ParquetSink { schema, writer, stage }))
        }
        Format::Ipc => {
            let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
            let out = BufWriter::with_capacity(BUFFER, out);
            let writer = FileWriter::try_new_with_options(out, &schema, options).map_err(|e| stage.arrow(e))?;
            let dictionaries = schema.fields().iter().map(|f| Unified::new(f.data_type())).collect::<Result<_, _>>();
            let dictionaries = dictionaries.map_err(|e| stage.arrow(e))?;
            Ok(Box::new(IpcSink { schema, writer, dictionaries, stage }))
        }
    }
}

/// Buffered before a write to the file.
const BUFFER: usize = 256 << 10;

/// A row group of Parquet is closed at this size: it is built in memory.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// The file that `path` means, if an output may stand there.
fn resolve(path: &Path, like: &dyn Table) -> Result<PathBuf, Error> {
    let writing = |e| Error::writing(path, e);
    let resolved = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = folder(path);
            if !folder.is_dir() {
                return Err(Error::NoFolder { path: path.to_owned(), folder });
            }
            return Ok(path.to_owned());
        }
        Err(e) => return Err(writing(e)),
        Ok(meta) if meta.is_symlink() => match fs::canonicalize(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotAFile { path: path.to_owned(), what: "a symbolic link to nothing" });
            }
            other => other.map_err(writing)?,
        },
        Ok(_) => path.to_owned(),
    };
    let meta = fs::metadata(&resolved).map_err(writing)?;
    if like.source().is(&meta) {
        return Err(Error::Overwrite { input: like.source().path().to_owned(), output: path.to_owned() });
    } else if meta.is_dir() {
        return Err(Error::Folder { path: path.to_owned(), fault: crate::Fault::Config });
    } else if !meta.is_file() {
        return Err(Error::NotAFile { path: path.to_owned(), what: "a device, a pipe or a socket" });
    }
    Ok(resolved)
}

/// The schema of the sink, if `format` can hold it.
fn schema(output: &Output, format: Format, like: &dyn Table) -> Result<SchemaRef, Error> {
    if format == Format::Csv && like.header().is_some() {
        return Ok(VERBATIM.clone());
    }
    let schema = like.schema();
    let refuse = |field: &arrow_schema::Field| Error::OutputType {
        path: output.path.clone(),
        column: field.name().clone(),
        kind: field.data_type().to_string(),
        format: match format {
            Format::Csv => "CSV",
            Format::Parquet => "Parquet",
            Format::Ipc => "Arrow",
        },
    };
    for (i, field) in schema.fields().iter().enumerate() {
        let holds = match format {
            Format::Csv => text::writable(field.data_type()),
            Format::Parquet => {
                let schema = Arc::new(Schema::new(vec![field.clone()]));
                ArrowWriter::try_new(io::sink(), schema, None).is_ok()
            }
            // Dictionaries within other types would have to be made one for the whole file.
            Format::Ipc => !nested_dictionary(field.data_type()),
        };
        if !holds {
            return Err(refuse(field));
        }
        // A CSV may have two columns of one name, but no reader of the other formats would tell them apart.
        let same = |j: &usize| schema.field(*j).name() == field.name();
        if like.format() == Format::Csv && (0..i).any(|j| same(&j)) {
            return Err(Error::Ambiguous {
                path: like.source().path().to_owned(),
                name: field.name().clone(),
                places: (0..schema.fields().len()).filter(same).map(|j| j + 1).collect(),
            });
        }
    }
    if !output.absent {
        return Ok(schema);
    }
    let fields: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn nested_dictionary(kind: &DataType) -> bool {
    fn any(kind: &DataType) -> bool {
        matches!(kind, DataType::Dictionary(_, _)) || nested_dictionary(kind)
    }
    match kind {
        DataType::Dictionary(_, value) => any(value),
        DataType::List(f)
        | DataType::LargeList(f)
        | DataType::ListView(f)
        | DataType::LargeListView(f)
        | DataType::FixedSizeList(f, _)
        | DataType::Map(f, _)
        | DataType::RunEndEncoded(_, f) => any(f.data_type()),
        DataType::Struct(fields) => fields.iter().any(|f| any(f.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, f)| any(f.data_type())),
        _ => false,
    }
}

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
struct Null {
    text: String,
    /// Whether there can be any, so that a text that reads like one must be told apart.
    possible: bool,
    /// A row of nothing else, with its line ending.
    row: Vec<u8>,
}

impl Null {
    fn new(text: &str, possible: bool, like: &dyn Table) -> Self {
        let columns = like.columns().len();
        let mut row = Vec::new();
        for i in 0..columns {
            // A lone empty field would be a blank line, which other readers skip.
            field(&mut row, text, i > 0, columns == 1 && text.is_empty());
        }
        row.extend_from_slice(like.header().map_or(b"\n", |h| &h.newline));
        Self { text: text.to_owned(), possible, row }
    }
}

/// Appends a field by RFC 4180, behind a comma if `comma`, in quotes where needed or if `quote`.
fn field(line: &mut Vec<u8>, text: &str, comma: bool, quote: bool) {
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

struct CsvSink {
    schema: SchemaRef,
    null: Null,
    writer: Pack,
    stage: Stage,
}

impl CsvSink {
    fn header(&mut self, like: &dyn Table) -> Result<(), Error> {
        let mut line = Vec::new();
        let bytes = if self.form() == Form::Verbatim
            && let Some(header) = like.header()
        {
            &header.bytes
        } else {
            let columns = like.columns();
            for (i, column) in columns.iter().enumerate() {
                field(&mut line, &column.name, i > 0, columns.len() == 1 && column.name.is_empty());
            }
            line.push(b'\n');
            &line
        };
        self.writer.write_all(bytes).map_err(|e| self.stage.failed(e))
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
        if Arc::ptr_eq(&self.schema, &VERBATIM) { Form::Verbatim } else { Form::Arrow }
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

struct ParquetSink {
    schema: SchemaRef,
    writer: ArrowWriter<BufWriter<Out>>,
    stage: Stage,
}

impl Sink for ParquetSink {
    fn form(&self) -> Form {
        Form::Arrow
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.stage.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|e| self.stage.parquet(e))
    }

    fn finish(self: Box<Self>) -> Result<Staged, Error> {
        let Self { writer, stage, .. } = *self;
        let flushed = writer.into_inner().map_err(|e| stage.parquet(e))?.flush();
        flushed.map_err(|e| stage.failed(e))?;
        stage.finish()
    }
}

struct IpcSink {
    schema: SchemaRef,
    writer: FileWriter<BufWriter<Out>>,
    /// One a column, for dictionaries.
    dictionaries: Vec<Option<Unified>>,
    stage: Stage,
}

impl IpcSink {
    fn unified(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(&mut self.dictionaries).map(|(column, dictionary)| match dictionary {
            Some(dictionary) => dictionary.take(column),
            None => Ok(column.clone()),
        });
        RecordBatch::try_new(self.schema.clone(), columns.collect::<Result<_, _>>()?)
    }
}

impl Sink for IpcSink {
    fn form(&self) -> Form {
        Form::Arrow
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.stage.rows += batch.num_rows() as u64;
        let batch = self.unified(batch).map_err(|e| self.stage.arrow(e))?;
        self.writer.write(&batch).map_err(|e| self.stage.arrow(e))
    }

    fn finish(self: Box<Self>) -> Result<Staged, Error> {
        let Self { mut writer, stage, .. } = *self;
        writer.finish().map_err(|e| stage.arrow(e))?;
        let mut out = writer.into_inner().map_err(|e| stage.arrow(e))?;
        out.flush().map_err(|e| stage.failed(e))?;
        stage.finish()
    }
}

/// The one dictionary of a column: an Arrow file may extend a dictionary but not replace it, while every batch comes
/// with its own.
struct Unified {
    key: DataType,
    rows: RowConverter,
    places: HashMap<Box<[u8]>, usize>,
    values: ArrayRef,
}

impl Unified {
    fn new(kind: &DataType) -> Result<Option<Self>, ArrowError> {
        let DataType::Dictionary(key, value) = kind else { return Ok(None) };
        let rows = RowConverter::new(vec![SortField::new(value.as_ref().clone())])?;
        let values = new_empty_array(value);
        Ok(Some(Self { key: key.as_ref().clone(), rows, places: HashMap::new(), values }))
    }

    /// `column` with the places that its values have here; new values are appended.
    fn take(&mut self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let column = column.as_any_dictionary();
        let rows = self.rows.convert_columns(std::slice::from_ref(column.values()))?;
        let mut new = Vec::new();
        let mut places = Vec::with_capacity(rows.num_rows());
        for (i, row) in rows.iter().enumerate() {
            let next = self.places.len();
            places.push(match self.places.entry(row.as_ref().into()) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    new.push(i as u64);
                    *place.insert(next)
                }
            });
        }
        if !new.is_empty() {
            let new = take(column.values(), &UInt64Array::from(new), None)?;
            self.values = concat(&[&self.values, &new])?;
        }
        let keys = column.normalized_keys();
        let keys = (0..column.len()).map(|i| column.keys().is_valid(i).then(|| places[keys[i]]));
        macro_rules! rebuild {
            ($key:ty) => {
                dictionary::<$key>(keys, self.values.clone())
            };
        }
        downcast_integer! {
            self.key.clone() => (rebuild),
            other => Err(ArrowError::SchemaError(format!("a dictionary with keys of type {other}"))),
        }
    }
}

fn dictionary<K: ArrowDictionaryKeyType>(
    places: impl Iterator<Item = Option<usize>>,
    values: ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let mut keys = PrimitiveBuilder::<K>::new();
    for place in places {
        let key = |place| K::Native::from_usize(place).ok_or(ArrowError::DictionaryKeyOverflowError);
        keys.append_option(place.map(key).transpose()?);
    }
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys.finish(), values)?))
}

impl Stage {
    fn parquet(&self, error: ParquetError) -> Error {
        self.failed(io::Error::other(error))
    }

    fn arrow(&self, error: ArrowError) -> Error {
        self.failed(io::Error::other(error))
    }
}
