//! Arrow out, with one dictionary a column for the whole file.

use super::{BUFFER, Sink};
use crate::stage::{Out, Stage};
use crate::{Error, Form, Staged};
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, UInt64Array, downcast_integer, new_empty_array};
use arrow_buffer::ArrowNativeType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{BufWriter, Write};
use std::sync::Arc;

pub(super) struct IpcSink {
    schema: SchemaRef,
    writer: FileWriter<BufWriter<Out>>,
    /// One a column, for dictionaries.
    dictionaries: Vec<Option<Unified>>,
    stage: Stage,
}

impl IpcSink {
    /// Begins the file.
    pub(super) fn open(schema: SchemaRef, stage: Stage, out: Out) -> Result<Self, Error> {
        let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
        let out = BufWriter::with_capacity(BUFFER, out);
        let writer = FileWriter::try_new_with_options(out, &schema, options).map_err(|e| stage.arrow(e))?;
        let dictionaries = schema.fields().iter().map(|f| Unified::new(f.data_type())).collect::<Result<_, _>>();
        let dictionaries = dictionaries.map_err(|e| stage.arrow(e))?;
        Ok(Self { schema, writer, dictionaries, stage })
    }

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
