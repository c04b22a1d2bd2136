use crate::ipc_sizes::{Blocks, Message};
use crate::parquet::{arrow, columns, corrupt, guarded};
use crate::source::Cursor;
use crate::{Batches, Column, Emit, Error, Facts, Form, Format, RowIds, Selection, Source, Table, table, text};
use arrow_array::{RecordBatch, UInt32Array};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::SchemaRef;
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

impl IpcTable {
    pub(crate) fn open(source: Arc<Source>, file: bool) -> Result<Self, Error> {
        let (schema, _) = reader(&source, file, None)?;
        let columns = columns(&schema);
        Ok(Self { source, file, schema, columns, rows: Arc::new(AtomicU64::new(UNKNOWN)) })
    }
}

fn reader(source: &Arc<Source>, file: bool, projection: Option<Vec<usize>>) -> Result<(SchemaRef, Batches), Error> {
    source.begin()?;
    let input = BufReader::with_capacity(256 << 10, Cursor::new(source, 0));
    let failed = |e| arrow(source, e);
    let of = source.clone();
    if file {
        let blocks = Blocks::of(source)?;
        blocks.dictionaries.iter().try_for_each(|block| block.check(source))?;
        let mut reader = guarded(source, || FileReader::try_new(input, projection).map_err(failed))?;
        let schema = reader.schema();
        let mut batches = blocks.batches.into_iter();
        let next = move || {
            batches.next().map_or(Ok(()), |block| block.check(&of))?;
            guarded(&of, || reader.next().transpose().map_err(|e| arrow(&of, e)))
        };
        Ok((schema, Box::new(sliced(next))))
    } else {
        check_stream(source, 0)?;
        let mut reader = guarded(source, || StreamReader::try_new(input, projection).map_err(failed))?;
        let schema = reader.schema();
        let next = move || {
            let before = position(&reader);
            check_stream(&of, before)?;
            let batch = guarded(&of, || reader.next().transpose().map_err(|e| arrow(&of, e)))?;
            if batch.is_none() {
                ended(&of, before, position(&reader))?;
            }
            Ok(batch)
        };
        Ok((schema, Box::new(sliced(next))))
    }
}

fn position(reader: &StreamReader<BufReader<Cursor>>) -> u64 {
    let buffered = reader.get_ref();
    buffered.get_ref().position() - buffered.buffer().len() as u64
}

/// Whether a stream that read its last from `from` to `to` came to its end marker. Where there is none it may have been
/// cut, and the rows that are lost would be missed by nobody.
fn ended(source: &Source, from: u64, to: u64) -> Result<(), Error> {
    let mut marker = [0; 8];
    let marked = to.saturating_sub(from) >= 8 && source.read_exact_at(&mut marker, to - 8).is_ok();
    if marked && marker == [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0] {
        return Ok(());
    }
    Err(corrupt(source, "the stream has no end marker, so it may have been cut; write it again"))
}

/// Checks the messages of a stream from `at` on, up to the first with rows or a schema: what a reader takes next.
fn check_stream(source: &Source, mut at: u64) -> Result<(), Error> {
    while let Some((message, end)) = Message::in_stream(source, at)? {
        let more = message.check(source)?;
        if !more {
            break;
        }
        at = end;
    }
    Ok(())
}

/// Batches of at most [`BATCH_ROWS`]. An error comes last.
fn sliced(
    mut next: impl FnMut() -> Result<Option<RecordBatch>, Error> + Send,
) -> impl Iterator<Item = Result<RecordBatch, Error>> + Send {
    let mut rest: Option<RecordBatch> = None;
    std::iter::from_fn(move || {
        let batch = match rest.take() {
            Some(batch) => batch,
            None => match next().transpose()? {
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
    fn facts(&self) -> Facts<'_> {
        Facts {
            path: self.source.path(),
            source: Some(&self.source),
            columns: &self.columns,
            schema: &self.schema,
            format: Format::Ipc,
            rows: Some(self.rows.load(Relaxed)).filter(|&n| n != UNKNOWN),
            header: None,
            stored: None,
        }
    }

    fn texts(&self, keys: &[String], values: &[String], _workers: usize) -> Result<Batches, Error> {
        let places = table::places(self.source.path(), &self.columns, &[keys, values].concat())?;
        let (of_keys, of_values) = places.split_at(keys.len());
        text::check_keys(self.source.path(), of_keys.iter().map(|&i| self.schema.field(i)))?;
        text::check_values(self.source.path(), of_values.iter().map(|&i| self.schema.field(i)))?;
        let (projection, order) = table::in_file_order(&places);
        let (_, mut reader) = reader(&self.source, self.file, Some(projection))?;
        let schema = text::schema(keys, values);
        let (source, rows) = (self.source.clone(), self.rows.clone());
        let (mut ended, mut count) = (false, 0);
        Ok(Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let take = |batch: RecordBatch| {
                count += batch.num_rows() as u64;
                let columns: Vec<_> = order.iter().map(|&i| batch.column(i).clone()).collect();
                guarded(&source, || text::texts(&schema, &columns).map_err(|e| arrow(&source, e)))
            };
            let batch = match reader.next() {
                Some(batch) => Some(batch.and_then(take)),
                None => {
                    rows.store(count, Relaxed);
                    source.check().err().map(Err)
                }
            };
            ended = !matches!(batch, Some(Ok(_)));
            batch
        })))
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        if selection.form != Form::Arrow {
            return Err(Error::Bug("verbatim rows of an Arrow file".into()));
        }
        let (projection, order) = table::in_file_order(selection.columns);
        let (_, batches) = reader(&self.source, self.file, Some(projection))?;
        let mut next = rows.next().transpose()?;
        let mut first = 0;
        for batch in batches {
            if next.is_none() {
                break;
            }
            let batch = batch?.project(&order).map_err(|e| arrow(&self.source, e))?;
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
