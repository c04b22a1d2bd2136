//! Where rows go. An output is checked and opened here; each format is written in a file of its own.

mod blocks;
mod csv;
mod ipc;
mod parquet;

use crate::csv::VERBATIM;
use crate::error::folder;
use crate::stage::Stage;
use crate::{Error, Facts, Form, Format, Staged, dictionary, text};
use ::parquet::arrow::ArrowWriter;
use ::parquet::errors::ParquetError;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use csv::CsvSink;
pub(crate) use csv::field;
use ipc::IpcSink;
use parquet::ParquetSink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

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

    /// Lets so many threads of its own work on rows before the first is given, and so many bytes wait for them. A sink that is
    /// not told of any works on the caller's.
    fn allow(&mut self, _workers: usize, _memory: usize) {}

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
pub fn create(output: &Output, like: &Facts<'_>) -> Result<Box<dyn Sink>, Error> {
    let stdout = output.path == Path::new("-");
    let format = match output.format.or_else(|| Format::of(&output.path)) {
        Some(format) => format,
        None if stdout => Format::Csv,
        None if output.path.is_dir() || output.path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            return Err(Error::Folder { path: output.path.clone(), fault: crate::Fault::Config });
        }
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
        Format::Csv => Ok(Box::new(CsvSink::open(output, schema, like, stage, out)?)),
        Format::Parquet => Ok(Box::new(ParquetSink::open(schema, like.stored, stage, out)?)),
        Format::Ipc => Ok(Box::new(IpcSink::open(schema, stage, out)?)),
    }
}

/// Opens an output for rows of another kind than the input's, in Parquet or Arrow. The input `like` cannot be its place.
///
/// # Errors
/// As [`create`]; [`Error::Shares`] for CSV.
pub fn create_as(output: &Output, like: &Facts<'_>, schema: SchemaRef) -> Result<Box<dyn Sink>, Error> {
    let format = output.format.or_else(|| Format::of(&output.path));
    let Some(format @ (Format::Parquet | Format::Ipc)) = format else {
        return Err(Error::Shares { path: output.path.clone() });
    };
    let stage = Stage::new(Some(resolve(&output.path, like)?))?;
    let out = stage.out()?;
    match format {
        Format::Parquet => Ok(Box::new(ParquetSink::open(schema, None, stage, out)?)),
        _ => Ok(Box::new(IpcSink::open(schema, stage, out)?)),
    }
}

/// Buffered before a write to the file.
const BUFFER: usize = 256 << 10;

/// The file that `path` means, if an output may stand there.
fn resolve(path: &Path, like: &Facts<'_>) -> Result<PathBuf, Error> {
    let writing = |e| Error::writing(path, e);
    let resolved = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let folder = folder(path);
            if !folder.is_dir() {
                return Err(Error::NoFolder { path: path.to_owned(), folder });
            } else if like.source.is_some_and(|source| source.would_hold(path)) {
                return Err(Error::Within { input: like.path.to_owned(), output: path.to_owned() });
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
    if like.source.is_some_and(|source| source.is(&meta)) {
        return Err(Error::Overwrite { input: like.path.to_owned(), output: path.to_owned() });
    } else if meta.is_dir() {
        return Err(Error::Folder { path: path.to_owned(), fault: crate::Fault::Config });
    } else if !meta.is_file() {
        return Err(Error::NotAFile { path: path.to_owned(), what: "a device, a pipe or a socket" });
    }
    Ok(resolved)
}

/// The schema of the sink, if `format` can hold it.
fn schema(output: &Output, format: Format, like: &Facts<'_>) -> Result<SchemaRef, Error> {
    if format == Format::Csv && like.header.is_some() {
        return Ok(VERBATIM.clone());
    }
    let schema = like.schema.clone();
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
            Format::Ipc => !dictionary::within(field.data_type()),
        };
        if !holds {
            return Err(refuse(field));
        }
        // A CSV may have two columns of one name, but no reader of the other formats would tell them apart.
        let same = |j: &usize| schema.field(*j).name() == field.name();
        if like.format == Format::Csv && (0..i).any(|j| same(&j)) {
            return Err(Error::Ambiguous {
                path: like.path.to_owned(),
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

impl Stage {
    fn parquet(&self, error: ParquetError) -> Error {
        self.failed(io::Error::other(error))
    }

    fn arrow(&self, error: ArrowError) -> Error {
        self.failed(io::Error::other(error))
    }
}
