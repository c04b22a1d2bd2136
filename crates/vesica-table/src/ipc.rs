use crate::open::Cursor;
use crate::parquet::{arrow, columns};
use crate::{Batches, Column, Error, Form, Format, Source, Table, table, text};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::take::take_record_batch;
use std::io::BufReader;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vesica_types::RowId;

/// Files may hold all their rows in one batch; they are taken in slices of so many.
const BATCH_ROWS: usize = 8 << 10;

/// The number of rows when no pass has come to the end yet.
const UNKNOWN: u64 = u64::MAX;

/// An Arrow IPC file or stream.
pub(crate) struct IpcTable {
    source: Arc<Source>,
    /// Whether it is a file, with a footer; a stream otherwise.
    file: bool,
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: Arc<AtomicU64>,
}

type Reader = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl IpcTable {
    pub(crate) fn open(source: Arc<Source>, file: bool) -> Result<Self, Error> {
        let (schema, _) = reader(&source, file, None)?;
        let columns = columns(&schema);
        Ok(Self { source, file, schema, columns, rows: Arc::new(AtomicU64::new(UNKNOWN)) })
    }
}

fn reader(source: &Arc<Source>, file: bool, projection: Option<Vec<usize>>) -> Result<(SchemaRef, Reader), Error> {
    source.begin()?;
    let input = BufReader::with_capacity(256 << 10, Cursor::new(source, 0));
    let open = || -> Result<(SchemaRef, Reader), ArrowError> {
        if file {
            let reader = FileReader::try_new(input, projection)?;
            Ok((reader.schema(), Box::new(sliced(reader))))
        } else {
            let reader = StreamReader::try_new(input, projection)?;
            Ok((reader.schema(), Box::new(sliced(reader))))
        }
    };
    open().map_err(|e| arrow(source, e))
}

/// Batches of at most [`BATCH_ROWS`]. An error comes last.
fn sliced<R>(mut batches: R) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send
where
    R: Iterator<Item = Result<RecordBatch, ArrowError>> + Send,
{
    let mut rest: Option<RecordBatch> = None;
    std::iter::from_fn(move || {
        let batch = match rest.take() {
            Some(batch) => batch,
            None => match batches.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            },
        };
        let rows = batch.num_rows();
        if rows > BATCH_ROWS {
            rest = Some(batch.slice(BATCH_ROWS, rows - BATCH_ROWS));
        }
        Some(Ok(batch.slice(0, rows.min(BATCH_ROWS))))
    })
}

impl Table for IpcTable {
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
        Format::Ipc
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.load(Relaxed)).filter(|&n| n != UNKNOWN)
    }

    fn keys(&self, columns: &[String]) -> Result<Batches, Error> {
        let places = table::places(&self.source, &self.columns, columns)?;
        text::check_keys(&self.source, places.iter().map(|&i| self.schema.field(i)))?;
        let mut projection = places.clone();
        projection.sort_unstable();
        projection.dedup();
        let order: Vec<usize> = places.iter().map(|p| projection.partition_point(|o| o < p)).collect();
        let (_, mut reader) = reader(&self.source, self.file, Some(projection))?;
        let schema = text::schema(columns.iter().cloned());
        let (source, rows) = (self.source.clone(), self.rows.clone());
        let (mut ended, mut count) = (false, 0);
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let batch = match reader.next() {
                Some(batch) => Some(
                    batch
                        .and_then(|b| {
                            text::keys(&schema, &order.iter().map(|&i| b.column(i).clone()).collect::<Vec<_>>())
                        })
                        .inspect(|b| count += b.num_rows() as u64)
                        .map_err(|e| arrow(&source, e)),
                ),
                None => {
                    rows.store(count, Relaxed);
                    source.check().err().map(Err)
                }
            };
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }

    fn select(
        &self,
        rows: &mut dyn Iterator<Item = Result<RowId, Error>>,
        form: Form,
        emit: &mut dyn FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of an Arrow file".into()));
        }
        let (_, batches) = reader(&self.source, self.file, None)?;
        let mut next = rows.next().transpose()?;
        let mut first = 0;
        for batch in batches {
            if next.is_none() {
                break;
            }
            let batch = batch.map_err(|e| arrow(&self.source, e))?;
            let end = first + batch.num_rows() as u64;
            while next.is_some_and(|r| r.0 < end) {
                let mut taken: Vec<u32> = Vec::new();
                while let Some(RowId(row)) = next.filter(|r| r.0 < end && taken.len() < BATCH_ROWS) {
                    let ascends = row.checked_sub(first).filter(|&i| taken.last().is_none_or(|&l| i >= u64::from(l)));
                    let place = ascends.ok_or_else(|| Error::Bug("rows to select do not ascend".into()))?;
                    taken.push(place as u32);
                    next = rows.next().transpose()?;
                }
                emit(take_record_batch(&batch, &UInt32Array::from(taken)).map_err(|e| arrow(&self.source, e))?)?;
            }
            first = end;
        }
        if let Some(RowId(row)) = next {
            let what = format!("row {} is not there any more", row + 1);
            return Err(Error::Changed { path: self.source.path().to_owned(), what });
        }
        self.source.check()
    }
}
