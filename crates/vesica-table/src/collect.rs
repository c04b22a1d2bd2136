//! Rows that are to be no file: kept in memory, or beside it, until somebody takes them.

use crate::{Error, Facts, Form, Sink, Staged, Written};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows on their way to whoever takes them.
pub type Rows = Box<dyn RecordBatchReader + Send>;

/// Buffered before a write to the file.
const BUFFER: usize = 256 << 10;

/// A place for rows from which they are taken as batches.
pub struct Collect {
    /// Whether rows may be absent, so that every column may be null.
    absent: bool,
    /// Where rows are kept beside the memory, if they are not to be held in it.
    spool: Option<PathBuf>,
    rows: Arc<Mutex<Option<Rows>>>,
}

impl Collect {
    /// Keeps rows in memory, or, if a folder is given to `spool` them in, in a file there that has no name. Whether rows may
    /// be `absent`, as in outer joins, makes all columns nullable.
    pub fn new(absent: bool, spool: Option<PathBuf>) -> Self {
        Self { absent, spool, rows: Arc::default() }
    }

    /// A sink for rows like those of `like`.
    ///
    /// # Errors
    /// Those of making the file, if there is one.
    pub fn sink(&self, like: &Facts<'_>) -> Result<Box<dyn Sink>, Error> {
        let schema = like.schema.clone();
        let nullable = || schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = match self.absent {
            false => schema,
            true => Arc::new(Schema::new_with_metadata(nullable().collect::<Vec<_>>(), schema.metadata().clone())),
        };
        let keep = match &self.spool {
            None => Keep::Memory(Vec::new()),
            Some(dir) => Keep::File(Box::new(Spool::open(dir, &schema)?)),
        };
        Ok(Box::new(CollectSink { keep, schema, rows: 0, bytes: 0, to: self.rows.clone() }))
    }

    /// The rows that were committed, once.
    pub fn take(&self) -> Option<Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

enum Keep {
    Memory(Vec<RecordBatch>),
    File(Box<Spool>),
}

struct CollectSink {
    keep: Keep,
    schema: SchemaRef,
    rows: u64,
    bytes: u64,
    to: Arc<Mutex<Option<Rows>>>,
}

impl Sink for CollectSink {
    fn form(&self) -> Form {
        Form::Arrow
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows() as u64;
        self.bytes += batch.get_array_memory_size() as u64;
        match &mut self.keep {
            Keep::Memory(batches) => {
                batches.push(batch.clone());
                Ok(())
            }
            Keep::File(spool) => spool.write(batch),
        }
    }

    fn finish(self: Box<Self>) -> Result<Staged, Error> {
        let Self { keep, schema, rows, bytes, to } = *self;
        let path = "memory".into();
        let (made, path): (Rows, PathBuf) = match keep {
            Keep::Memory(batches) => (Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema)), path),
            Keep::File(spool) => {
                let path = spool.dir.clone();
                (spool.read()?, path)
            }
        };
        Ok(Staged::new(rows, move || {
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            Ok(Written { path, rows, bytes })
        }))
    }
}

/// Batches in a file without a name, which is gone however the program ends.
pub(crate) struct Spool {
    dir: PathBuf,
    writer: StreamWriter<BufWriter<File>>,
}

impl Spool {
    pub(crate) fn open(dir: &Path, schema: &SchemaRef) -> Result<Self, Error> {
        let file = tempfile::tempfile_in(dir).map_err(|e| Error::writing(dir, e))?;
        let out = BufWriter::with_capacity(BUFFER, file);
        let writer = StreamWriter::try_new(out, schema).map_err(|e| failed(dir, e))?;
        Ok(Self { dir: dir.to_owned(), writer })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.writer.write(batch).map_err(|e| failed(&self.dir, e))
    }

    /// The file, from its beginning.
    pub(crate) fn file(self) -> Result<File, Error> {
        let Self { dir, mut writer } = self;
        writer.finish().map_err(|e| failed(&dir, e))?;
        let out = writer.into_inner().map_err(|e| failed(&dir, e))?;
        let mut file = out.into_inner().map_err(|e| Error::writing(&dir, e.into_error()))?;
        file.rewind().map_err(|e| Error::writing(&dir, e))?;
        Ok(file)
    }

    fn read(self) -> Result<Rows, Error> {
        let dir = self.dir.clone();
        let reader = StreamReader::try_new(BufReader::with_capacity(BUFFER, self.file()?), None);
        Ok(Box::new(reader.map_err(|e| failed(&dir, e))?))
    }
}

fn failed(dir: &Path, error: ArrowError) -> Error {
    Error::writing(
        dir,
        match error {
            ArrowError::IoError(_, error) => error,
            error => std::io::Error::other(error),
        },
    )
}
