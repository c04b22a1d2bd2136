//! A list of keys as a table whose rows are nothing but their numbers.

use crate::Error;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use vesica_table::{Batches, Column, Emit, Error as TableError, Facts, Memory, RowIds, Rows, Selection, Table};

/// Keys that are made into one batch.
const BATCH: usize = 8 << 10;

/// A list of keys. What is selected from it is not the keys but their places.
pub struct Positions {
    keys: Memory,
    columns: [Column; 1],
    schema: SchemaRef,
}

impl Positions {
    /// The column that keys are read from.
    pub const KEY: &'static str = "key";

    /// The list `keys`, which messages call `name`.
    pub fn new(name: &str, keys: &[impl AsRef<str>]) -> Result<Self, Error> {
        let batch = |keys: StringArray| RecordBatch::try_from_iter([(Self::KEY, Arc::new(keys) as ArrayRef)]);
        let batches = keys.chunks(BATCH).map(|keys| batch(keys.iter().map(|key| Some(key.as_ref())).collect()));
        let schema = Arc::new(Schema::new(vec![Field::new(Self::KEY, DataType::Utf8, true)]));
        let batches = batches.map(|batch| batch.and_then(|batch| batch.with_schema(schema.clone())));
        let batches = batches.collect::<Result<_, _>>().map_err(|error| TableError::Bug(error.to_string()))?;
        let keys = Memory::new(name, schema, batches)?;
        let columns = [Column { name: "position".into(), kind: DataType::UInt64.to_string() }];
        let schema = Arc::new(Schema::new(vec![Field::new("position", DataType::UInt64, false)]));
        Ok(Self { keys, columns, schema })
    }

    /// The places in `rows`.
    pub fn read(rows: Rows) -> Result<Vec<u64>, Error> {
        let mut positions = Vec::new();
        for batch in rows {
            let batch = batch.map_err(|error| TableError::Bug(error.to_string()))?;
            positions.extend_from_slice(batch.column(0).as_primitive::<UInt64Type>().values());
        }
        Ok(positions)
    }
}

impl Table for Positions {
    fn facts(&self) -> Facts<'_> {
        Facts { columns: &self.columns, schema: &self.schema, ..self.keys.facts() }
    }

    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, TableError> {
        self.keys.texts(keys, values, workers)
    }

    fn select(&self, rows: &mut RowIds<'_>, _: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), TableError> {
        let mut rows = rows.map(|row| row.map(|row| row.0)).peekable();
        while rows.peek().is_some() {
            let places = UInt64Array::from(rows.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?);
            let batch = RecordBatch::try_new(self.schema.clone(), vec![Arc::new(places)]);
            emit(batch.map_err(|error| TableError::Bug(error.to_string()))?)?;
        }
        Ok(())
    }
}
