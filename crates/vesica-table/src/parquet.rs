use crate::source::Cursor;
use crate::{Batches, Column, Error, Form, Format, Source, Table, table, text};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::io::BufReader;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use vesica_types::RowId;

/// Rows, and values of rows, in a batch: a table of thousands of columns is read a few rows at a time.
const BATCH_ROWS: usize = 8 << 10;
const BATCH_VALUES: usize = 2 << 20;

/// The most rows that are asked of the file at a time.
const ASKED: usize = 1 << 20;

/// The most rows made of one by repetition at a time.
const REPEATED: usize = 64 << 10;

/// A Parquet file.
pub(crate) struct ParquetTable {
    source: Arc<Source>,
    metadata: ArrowReaderMetadata,
    columns: Vec<Column>,
}

/// The source as the parquet crate reads it.
struct Chunks(Arc<Source>);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.bytes()
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<Cursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(Cursor::new(&self.0, start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // The length comes from the file.
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.bytes()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end of the file")));
        }
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// What the parquet crate's errors mean here.
fn reading(source: &Source, error: ParquetError) -> Error {
    match error {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) if e.raw_os_error().is_some() => Error::reading(source.path(), *e),
            Ok(e) => corrupt(source, &e.to_string()),
            Err(e) => corrupt(source, &e.to_string()),
        },
        other => corrupt(source, &other.to_string()),
    }
}

/// Runs `read`, which decodes what the file says: the decoders panic on some damaged files where they should not.
pub(crate) fn guarded<T>(source: &Source, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(corrupt(source, why.unwrap_or("its decoder failed")))
    })
}

pub(crate) fn corrupt(source: &Source, why: &str) -> Error {
    Error::Corrupt { path: source.path().to_owned(), why: why.to_owned() }
}

pub(crate) fn arrow(source: &Source, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, e) if e.raw_os_error().is_some() => Error::reading(source.path(), e),
        ArrowError::ExternalError(e) => match e.downcast::<ParquetError>() {
            Ok(e) => reading(source, *e),
            Err(e) => corrupt(source, &e.to_string()),
        },
        other => corrupt(source, &other.to_string()),
    }
}

/// The columns of an Arrow schema, for people.
pub(crate) fn columns(schema: &SchemaRef) -> Vec<Column> {
    let column = |f: &Arc<arrow_schema::Field>| Column { name: f.name().clone(), kind: f.data_type().to_string() };
    schema.fields().iter().map(column).collect()
}

impl ParquetTable {
    pub(crate) fn open(source: Arc<Source>) -> Result<Self, Error> {
        let load = || ArrowReaderMetadata::load(&Chunks(source.clone()), ArrowReaderOptions::new());
        let metadata = guarded(&source, || load().map_err(|e| reading(&source, e)))?;
        let columns = columns(metadata.schema());
        Ok(Self { source, metadata, columns })
    }

    fn reader(&self) -> ParquetRecordBatchReaderBuilder<Chunks> {
        ParquetRecordBatchReaderBuilder::new_with_metadata(Chunks(self.source.clone()), self.metadata.clone())
            .with_batch_size((BATCH_VALUES / self.columns.len().max(1)).clamp(64, BATCH_ROWS))
    }
}

impl Table for ParquetTable {
    fn source(&self) -> &Source {
        &self.source
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn schema(&self) -> SchemaRef {
        self.metadata.schema().clone()
    }

    fn format(&self) -> Format {
        Format::Parquet
    }

    fn rows(&self) -> Option<u64> {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).ok()
    }

    fn keys(&self, columns: &[String], _workers: usize) -> Result<Batches, Error> {
        let places = table::places(&self.source, &self.columns, columns)?;
        let schema = self.metadata.schema();
        text::check_keys(&self.source, places.iter().map(|&i| schema.field(i)))?;
        self.source.begin()?;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places.iter().copied());
        let build = || self.reader().with_projection(mask).build().map_err(|e| reading(&self.source, e));
        let mut reader = guarded(&self.source, build)?;
        let (_, order) = table::in_file_order(&places);
        let schema = text::schema(columns.iter().cloned());
        let source = self.source.clone();
        let mut ended = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let mut take = |batch: RecordBatch| {
                let columns: Vec<_> = order.iter().map(|&i| batch.column(i).clone()).collect();
                text::keys(&schema, &columns)
            };
            let batch = guarded(&source, || match reader.next() {
                Some(batch) => batch.and_then(&mut take).map(Some).map_err(|e| arrow(&source, e)),
                None => source.check().map(|()| None),
            });
            let batch = batch.transpose();
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }

    fn select(
        &self,
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        columns: &[usize],
        _workers: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of a Parquet file".into()));
        }
        self.source.begin()?;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
        let (_, order) = table::in_file_order(columns);
        let mut next = rows.next().transpose()?;
        let mut first = 0;
        for (group, meta) in self.metadata.metadata().row_groups().iter().enumerate() {
            let count = meta.num_rows().max(0) as u64;
            while next.is_some_and(|r| r.0 < first + count) {
                let mut selectors = Vec::new();
                // How often each selected row was asked for.
                let mut times: Vec<u32> = Vec::new();
                let mut asked = 0;
                let mut at = first;
                while let Some(RowId(row)) = next.filter(|r| r.0 < first + count && asked < ASKED) {
                    match row.checked_sub(at) {
                        Some(skip) => {
                            if skip > 0 {
                                selectors.push(RowSelector::skip(skip as usize));
                            }
                            match selectors.last_mut() {
                                Some(last) if !last.skip => last.row_count += 1,
                                _ => selectors.push(RowSelector::select(1)),
                            }
                            times.push(1);
                        }
                        None => match times.last_mut() {
                            Some(last) if row + 1 == at => *last += 1,
                            _ => return Err(Error::Bug("rows to select do not ascend".into())),
                        },
                    }
                    asked += 1;
                    at = row + 1;
                    next = rows.next().transpose()?;
                }
                let selection = RowSelection::from(selectors);
                let reader = self.reader().with_projection(mask.clone()).with_row_groups(vec![group]);
                let reader = reader.with_row_selection(selection);
                let mut times = times.as_slice();
                let mut reader = guarded(&self.source, || reader.build().map_err(|e| reading(&self.source, e)))?;
                let mut read = || {
                    let batch = reader.next().map(|batch| batch.and_then(|batch| batch.project(&order)));
                    batch.transpose().map_err(|e| arrow(&self.source, e))
                };
                while let Some(batch) = guarded(&self.source, &mut read)? {
                    let Some((these, rest)) = times.split_at_checked(batch.num_rows()) else {
                        return Err(corrupt(&self.source, "it has more rows than its footer says"));
                    };
                    times = rest;
                    if these.iter().all(|&n| n == 1) {
                        emit(batch)?;
                        continue;
                    }
                    let repeated = these.iter().zip(0..).flat_map(|(&n, i)| std::iter::repeat_n(i, n as usize));
                    let repeated: Vec<u32> = repeated.collect();
                    for rows in repeated.chunks(REPEATED) {
                        let rows = UInt32Array::from(rows.to_vec());
                        emit(take_record_batch(&batch, &rows).map_err(|e| arrow(&self.source, e))?)?;
                    }
                }
                if !times.is_empty() {
                    return Err(corrupt(&self.source, "it has fewer rows than its footer says"));
                }
            }
            first += count;
        }
        if let Some(RowId(row)) = next {
            let what = format!("row {} of {first} was asked for", row + 1);
            return Err(Error::Changed { path: self.source.path().to_owned(), what });
        }
        self.source.check()
    }
}
