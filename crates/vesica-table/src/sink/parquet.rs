//! Parquet out.

use super::{BUFFER, Sink};
use crate::stage::{Out, Stage};
use crate::{Error, Form, Staged};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter};
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::io::{BufWriter, Write};

/// A row group of Parquet is closed at this size: it is built in memory.
const ROW_GROUP_BYTES: usize = 32 << 20;

pub(super) struct ParquetSink {
    schema: SchemaRef,
    writer: ArrowWriter<BufWriter<Out>>,
    stage: Stage,
}

impl ParquetSink {
    /// Begins the file.
    pub(super) fn open(schema: SchemaRef, stage: Stage, out: Out) -> Result<Self, Error> {
        let metadata = schema.metadata().iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone()));
        let mut metadata: Vec<_> = metadata.filter(|kv| kv.key != ARROW_SCHEMA_META_KEY).collect();
        metadata.sort_by(|a, b| a.key.cmp(&b.key));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .set_key_value_metadata(Some(metadata))
            .build();
        let writer = ArrowWriter::try_new(BufWriter::with_capacity(BUFFER, out), schema.clone(), Some(properties))
            .map_err(|e| stage.parquet(e))?;
        Ok(Self { schema, writer, stage })
    }
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
