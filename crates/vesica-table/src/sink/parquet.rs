//! Parquet out.
//!
//! Rows are cut into blocks, and blocks into row groups, by what the rows are. Threads encode row groups, or some columns of
//! one, and the file takes them in order. So its bytes depend neither on how many threads there are nor on the batches in which
//! rows come.

use super::blocks::{Block, Blocks};
use super::{BUFFER, Sink};
use crate::dictionary::flat;
use crate::stage::{Out, Stage};
use crate::table::Stored;
use crate::{Error, Form, Staged};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::collections::VecDeque;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A row group ends with the block with which its values take so many bytes, or with which it has so many rows.
const GROUP_BYTES: u64 = 32 << 20;
const GROUP_ROWS: usize = 1 << 20;

/// What a row group takes while threads work on it: its values as they wait, and what has been encoded of them.
const UNDER_WAY: usize = 2 * GROUP_BYTES as usize;

pub(super) struct ParquetSink {
    schema: SchemaRef,
    writer: SerializedFileWriter<BufWriter<Out>>,
    columns: Columns,
    blocks: Blocks,
    /// The row group that is being filled, its bytes and its rows.
    group: Option<Group>,
    bytes: u64,
    rows: usize,
    /// Row groups that are full and not in the file yet, and how many there may be under way at once.
    full: VecDeque<Group>,
    at_once: usize,
    /// Threads for a row group; none if the caller's does it.
    threads: usize,
    begun: usize,
    stage: Stage,
}

impl ParquetSink {
    /// Begins the file. Columns are stored as `like` says.
    pub(super) fn open(schema: SchemaRef, like: Option<&Stored>, stage: Stage, out: Out) -> Result<Self, Error> {
        let metadata = schema.metadata().iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone()));
        let mut metadata: Vec<_> = metadata.filter(|kv| kv.key != ARROW_SCHEMA_META_KEY).collect();
        metadata.sort_by(|a, b| a.key.cmp(&b.key));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(metadata));
        for column in like.iter().flat_map(|like| &like.0) {
            properties = properties
                .set_column_compression(column.path.clone(), written(column.codec))
                .set_column_dictionary_enabled(column.path.clone(), !column.plain);
        }
        let out = BufWriter::with_capacity(BUFFER, out);
        let opened = ArrowWriter::try_new(out, schema.clone(), Some(properties.build()));
        let (writer, _) = opened.and_then(ArrowWriter::into_serialized_writer).map_err(|e| stage.parquet(e))?;
        let columns = Columns::new(&writer, &schema);
        let (blocks, full) = (Blocks::default(), VecDeque::new());
        let (group, bytes, rows, begun) = (None, 0, 0, 0);
        Ok(Self { schema, writer, columns, blocks, group, bytes, rows, full, at_once: 1, threads: 0, begun, stage })
    }

    fn put(&mut self, block: Block) -> Result<(), Error> {
        self.bytes += block.bytes;
        self.rows += block.rows;
        let group = match &mut self.group {
            Some(group) => group,
            none => {
                let begun = self.columns.begin(self.begun, self.threads).map_err(|e| self.stage.parquet(e))?;
                self.begun += 1;
                none.insert(begun)
            }
        };
        group.put(block).map_err(|e| self.stage.parquet(e))?;
        if self.bytes >= GROUP_BYTES || self.rows >= GROUP_ROWS { self.end_group() } else { Ok(()) }
    }

    /// Ends the row group, and brings those to the file that are in the way of the next one.
    fn end_group(&mut self) -> Result<(), Error> {
        (self.bytes, self.rows) = (0, 0);
        self.full.extend(self.group.take().map(Group::end));
        self.append_down_to(self.at_once - 1)
    }

    /// Appends full row groups to the file until so many are left.
    fn append_down_to(&mut self, left: usize) -> Result<(), Error> {
        while self.full.len() > left
            && let Some(group) = self.full.pop_front()
        {
            let append = || {
                let mut chunks = group.chunks()?;
                chunks.sort_by_key(|(leaf, _)| *leaf);
                let mut writer = self.writer.next_row_group()?;
                chunks.into_iter().try_for_each(|(_, chunk)| chunk.append_to_row_group(&mut writer))?;
                writer.close().map(|_| ())
            };
            append().map_err(|e| self.stage.parquet(e))?;
        }
        Ok(())
    }
}

/// The codec for what is to be written like what `codec` compressed.
fn written(codec: Compression) -> Compression {
    match codec {
        // A frame that only Hadoop reads, and that the format's authors took back.
        Compression::LZ4 => Compression::LZ4_RAW,
        codec => codec,
    }
}

impl Sink for ParquetSink {
    fn form(&self) -> Form {
        Form::Arrow
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn allow(&mut self, workers: usize, memory: usize) {
        let groups = workers.min(memory / UNDER_WAY);
        if self.begun == 0 && workers > 1 && groups > 0 {
            (self.at_once, self.threads) =
                (groups, workers.div_ceil(groups).clamp(1, self.columns.fields.len().max(1)));
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.stage.rows += batch.num_rows() as u64;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.push(batch, |block| self.put(block))?;
        self.blocks = blocks;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Staged, Error> {
        if let Some(block) = self.blocks.rest() {
            self.put(block)?;
        }
        self.end_group()?;
        self.append_down_to(0)?;
        let Self { writer, stage, .. } = *self;
        let flushed = writer.into_inner().map_err(|e| stage.parquet(e))?.flush();
        flushed.map_err(|e| stage.failed(e))?;
        stage.finish()
    }
}

/// The columns of the file.
struct Columns {
    factory: ArrowRowGroupWriterFactory,
    /// As they are given to the encoder: values in place of dictionaries, which differ from batch to batch.
    fields: Arc<[FieldRef]>,
    /// The leaves of each.
    leaves: Vec<usize>,
}

impl Columns {
    fn new(writer: &SerializedFileWriter<BufWriter<Out>>, schema: &SchemaRef) -> Self {
        let values = |field: &FieldRef| match field.data_type() {
            DataType::Dictionary(_, value) => Arc::new(Field::clone(field).with_data_type((**value).clone())),
            _ => field.clone(),
        };
        let fields: Vec<FieldRef> = schema.fields().iter().map(values).collect();
        let mut leaves = vec![0; fields.len()];
        let parquet = writer.schema_descr();
        (0..parquet.num_columns()).for_each(|leaf| leaves[parquet.get_column_root_idx(leaf)] += 1);
        let factory = ArrowRowGroupWriterFactory::new(writer, Arc::new(Schema::new(fields.clone())));
        Self { factory, fields: fields.into(), leaves }
    }

    /// Begins row group number `number`, which so many threads work on.
    fn begin(&self, number: usize, threads: usize) -> Result<Group, ParquetError> {
        let mut writers = self.factory.create_column_writers(number)?.into_iter().enumerate();
        let mut encoders: Vec<_> = (0..threads.max(1)).map(|_| Encoder::new(self.fields.clone())).collect();
        for (column, &leaves) in self.leaves.iter().enumerate() {
            let turn = column % encoders.len();
            encoders[turn].columns.push((column, writers.by_ref().take(leaves).collect()));
        }
        Ok(match (threads, encoders.pop()) {
            (0, Some(encoder)) => Group::Here(encoder),
            (_, last) => Group::There(encoders.into_iter().chain(last).map(Worker::start).collect()),
        })
    }
}

/// Some columns of a row group under way.
struct Encoder {
    fields: Arc<[FieldRef]>,
    /// Which they are, and the writers of their leaves, numbered over all columns.
    columns: Vec<(usize, Vec<(usize, ArrowColumnWriter)>)>,
}

/// A leaf of a row group, with its number.
type Chunk = (usize, ArrowColumnChunk);

impl Encoder {
    fn new(fields: Arc<[FieldRef]>) -> Self {
        Self { fields, columns: Vec::new() }
    }

    fn write(&mut self, block: &Block) -> Result<(), ParquetError> {
        for (column, writers) in &mut self.columns {
            for array in whole(&block.pieces, *column)? {
                let leaves = compute_leaves(&self.fields[*column], &array)?;
                leaves.iter().zip(&mut *writers).try_for_each(|(leaf, (_, writer))| writer.write(leaf))?;
            }
        }
        Ok(())
    }

    fn close(self) -> Result<Vec<Chunk>, ParquetError> {
        let writers = self.columns.into_iter().flat_map(|(_, writers)| writers);
        writers.map(|(leaf, writer)| Ok((leaf, writer.close()?))).collect()
    }
}

/// A column of a block as one array: where the encoder ends its pages rests on the arrays that it is given.
fn whole(pieces: &[RecordBatch], column: usize) -> Result<Vec<ArrayRef>, ParquetError> {
    let parts = pieces.iter().map(|piece| flat(piece.column(column)));
    let parts: Vec<ArrayRef> = parts.collect::<Result<_, _>>()?;
    if parts.len() == 1 {
        return Ok(parts);
    }
    let of: Vec<&dyn Array> = parts.iter().map(|part| &**part as &dyn Array).collect();
    match concat(&of) {
        Ok(whole) => Ok(vec![whole]),
        // Dictionaries within other values have more values together than their keys can tell apart.
        Err(_) => Ok(parts),
    }
}

/// A row group under way.
enum Group {
    /// On the caller's thread.
    Here(Encoder),
    /// On threads, each of which has some of the columns.
    There(Vec<Worker>),
}

impl Group {
    fn put(&mut self, block: Block) -> Result<(), ParquetError> {
        match self {
            Group::Here(encoder) => encoder.write(&block),
            Group::There(workers) => {
                let block = Arc::new(block);
                workers.iter().for_each(|worker| worker.give(&block));
                Ok(())
            }
        }
    }

    /// There is no more to come.
    fn end(mut self) -> Self {
        if let Group::There(workers) = &mut self {
            workers.iter_mut().for_each(|worker| worker.blocks = None);
        }
        self
    }

    /// The chunks, when all are done.
    fn chunks(self) -> Result<Vec<Chunk>, ParquetError> {
        match self {
            Group::Here(encoder) => encoder.close(),
            Group::There(workers) => {
                let chunks: Result<Vec<_>, _> = workers.into_iter().map(Worker::chunks).collect();
                Ok(chunks?.into_iter().flatten().collect())
            }
        }
    }
}

/// A thread that encodes some columns of a row group. It ends when there are no more blocks to come.
struct Worker {
    blocks: Option<Sender<Arc<Block>>>,
    thread: Option<JoinHandle<Result<Vec<Chunk>, ParquetError>>>,
}

impl Worker {
    fn start(encoder: Encoder) -> Self {
        let (blocks, todo) = channel();
        let thread = std::thread::spawn(move || Self::work(encoder, todo));
        Self { blocks: Some(blocks), thread: Some(thread) }
    }

    fn work(mut encoder: Encoder, blocks: Receiver<Arc<Block>>) -> Result<Vec<Chunk>, ParquetError> {
        for block in blocks {
            encoder.write(&block)?;
        }
        encoder.close()
    }

    /// A worker that takes no more has met an error, and tells it when it is asked for its chunks.
    fn give(&self, block: &Arc<Block>) {
        let _ = self.blocks.as_ref().map(|blocks| blocks.send(block.clone()));
    }

    fn chunks(mut self) -> Result<Vec<Chunk>, ParquetError> {
        self.blocks = None;
        let ended = self.thread.take().map_or_else(|| Ok(Ok(Vec::new())), JoinHandle::join);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.blocks = None;
        // Whoever drops it is not interested in what became of it, and no thread outlives the sink.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
