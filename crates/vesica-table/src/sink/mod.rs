//! Where rows go. An output is checked and opened here; each format is written in a file of its own.

mod blocks;
mod csv;
mod folder;
mod ipc;
mod parquet;

use crate::csv::VERBATIM;
use crate::error::folder;
use crate::format::Packing;
use crate::stage::Stage;
use crate::{Error, Facts, Form, Format, Staged, Stored, dictionary, text, under_way};
use ::parquet::arrow::ArrowWriter;
use ::parquet::errors::ParquetError;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
pub(crate) use csv::field;
use csv::{CsvSink, Null};
pub(crate) use folder::Cuts;
use folder::FolderSink;
use ipc::IpcSink;
use parquet::ParquetSink;
use std::os::unix::fs::MetadataExt;
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
    /// How rows are cut into files, if `path` is to be a folder. It must be a new one, or empty.
    pub parts: Option<Parts>,
}

/// How the rows of an output are cut into files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parts {
    /// A file ends where its values take so many bytes, before they are encoded.
    Bytes(u64),
    /// A file for each file of the input that has any of the rows. Rows must stand in the input's order.
    Files,
}

impl Output {
    /// A new file at `path`, whose name says its format, in which no row is absent and nulls are empty.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: None, null: String::new(), absent: false, parts: None }
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

    /// Where it wants to know from which of the input's files rows come: the place of the first row of each. None if it does not.
    #[doc(hidden)]
    fn cuts(&self) -> Option<Cuts> {
        None
    }

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
    if let Some(parts) = output.parts {
        // What a folder's name says is no format.
        let mould = Mould::of(output, output.format.unwrap_or(like.format), like)?;
        let place = free_folder(&output.path, mould.ending(), like)?;
        under_way::sweep(&folder(&place));
        let files = match parts {
            Parts::Bytes(_) => Vec::new(),
            Parts::Files => match like.source {
                Some(source) => source.names(),
                None => return Err(Error::NoParts { path: output.path.clone() }),
            },
        };
        return Ok(Box::new(FolderSink::open(mould, place, parts, files)?));
    }
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
    path.iter().for_each(|path| under_way::sweep(&folder(path)));
    Mould::of(output, format, like)?.open(path)
}

/// What the files of an output are like.
struct Mould {
    format: Format,
    schema: SchemaRef,
    stored: Option<Stored>,
    /// How a CSV begins, what stands there for what is not there, and how it is compressed.
    head: Vec<u8>,
    null: Null,
    packing: Packing,
}

impl Mould {
    fn of(output: &Output, format: Format, like: &Facts<'_>) -> Result<Self, Error> {
        let schema = schema(output, format, like)?;
        let null = Null::new(&output.null, output.absent || like.format != Format::Csv, like);
        let (stored, head, packing) = (
            like.stored.cloned(),
            csv::head(&schema, like),
            output.parts.map_or_else(|| Packing::of(&output.path), |_| Packing::None),
        );
        Ok(Self { format, schema, stored, head, null, packing })
    }

    /// Begins a file that is to become `path`; standard output if `None`.
    fn open(&self, path: Option<PathBuf>) -> Result<Box<dyn Sink>, Error> {
        let stage = Stage::new(path)?;
        let (schema, out) = (self.schema.clone(), stage.out()?);
        Ok(match self.format {
            Format::Csv => Box::new(CsvSink::open(schema, &self.head, self.null.clone(), self.packing, stage, out)?),
            Format::Parquet => Box::new(ParquetSink::open(schema, self.stored.as_ref(), stage, out)?),
            Format::Ipc => Box::new(IpcSink::open(schema, stage, out)?),
        })
    }

    fn form(&self) -> Form {
        csv::form(&self.schema)
    }

    /// How the name of a part ends.
    fn ending(&self) -> &'static str {
        self.format.name()
    }
}

/// The folder that `path` means, if files with this ending may come to stand there.
fn free_folder(path: &Path, ending: &str, like: &Facts<'_>) -> Result<PathBuf, Error> {
    if path == Path::new("-") {
        return Err(Error::NotAFolder { path: path.to_owned(), what: "standard output" });
    }
    let writing = |e| Error::writing(path, e);
    let place = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => path.components().collect::<PathBuf>(),
        Err(e) => return Err(writing(e)),
        Ok(_) => {
            let meta = fs::metadata(path).map_err(writing)?;
            if !meta.is_dir() {
                return Err(Error::NotAFolder { path: path.to_owned(), what: "a file" });
            } else if fs::read_dir(path).map_err(writing)?.next().is_some() {
                return Err(Error::NotEmpty { path: path.to_owned() });
            }
            let place = fs::canonicalize(path).map_err(writing)?;
            // The folder is made beside it, and cannot take its place.
            if fs::metadata(folder(&place)).map_err(writing)?.dev() != meta.dev() {
                return Err(Error::NotAFolder { path: path.to_owned(), what: "where a disk is mounted" });
            }
            place
        }
    };
    let above = folder(&place);
    if !above.is_dir() {
        return Err(Error::NoFolder { path: path.to_owned(), folder: above });
    } else if like.source.is_some_and(|source| source.would_hold(&place.join(format!("part-000000.{ending}")))) {
        return Err(Error::Within { input: like.path.to_owned(), output: path.to_owned() });
    }
    Ok(place)
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
    let path = resolve(&output.path, like)?;
    under_way::sweep(&folder(&path));
    let stage = Stage::new(Some(path))?;
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
