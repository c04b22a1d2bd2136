//! Arrow out, with one dictionary a column for the whole file.

use super::{BUFFER, Sink};
use crate::dictionary::Dictionary;
use crate::stage::{Out, Stage};
use crate::{Error, Form, Staged};
use arrow_array::RecordBatch;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, SchemaRef};
use std::io::{BufWriter, Write};

pub(super) struct IpcSink {
    schema: SchemaRef,
    writer: FileWriter<BufWriter<Out>>,
    /// One a column, for dictionaries: an Arrow file may extend a dictionary but not replace it, while every batch comes
    /// with its own.
    dictionaries: Vec<Option<Dictionary>>,
    stage: Stage,
}

impl IpcSink {
    /// Begins the file.
    pub(super) fn open(schema: SchemaRef, stage: Stage, out: Out) -> Result<Self, Error> {
        let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let out = BufWriter::with_capacity(BUFFER, out);
        let writer = FileWriter::try_new_with_options(out, &schema, options).map_err(|e| stage.arrow(e))?;
        let dictionaries = schema.fields().iter().map(|f| Dictionary::new(f.data_type())).collect::<Result<_, _>>();
        let dictionaries = dictionaries.map_err(|e| stage.arrow(e))?;
        Ok(Self { schema, writer, dictionaries, stage })
    }

    fn unified(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(&mut self.dictionaries).map(|(column, dictionary)| match dictionary {
            Some(dictionary) => dictionary.unify(column),
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
