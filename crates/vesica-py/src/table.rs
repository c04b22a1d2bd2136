//! Tables in memory that came from Python, or go there.

use crate::backend;
use crate::failure::Failure;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::cell::RefCell;
use std::path::Path;
use vesica::{Control, Rows};

/// What messages call a table that came from Python.
pub const NAME: &str = "the table given as input";

/// A table in memory, as Arrow batches.
#[pyclass(frozen, module = "vesica._core")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// The rows of a run.
    pub fn of(rows: Rows) -> Result<Self, Failure> {
        let schema = rows.schema();
        let batches = rows.collect::<Result<_, _>>().map_err(|error| Failure::bug(error.to_string()))?;
        Ok(Self { schema, batches })
    }

    /// The rows that `reader` gives, as a table to match that messages call `name`.
    pub fn read(name: &str, reader: impl RecordBatchReader, ctl: &Control) -> Result<Box<dyn vesica::Table>, Failure> {
        let (schema, batches) = Self::batches(name, reader, ctl)?;
        Ok(Box::new(vesica::Memory::new(name, schema, batches)?))
    }

    /// The rows that `reader` gives, which are read to a file in `dir` that has no name: one batch is in memory at a time.
    pub fn spooled(
        name: &str,
        reader: impl RecordBatchReader,
        dir: &Path,
        ctl: &Control,
    ) -> Result<Box<dyn vesica::Table>, Failure> {
        let schema = reader.schema();
        // What a batch is refused for is the caller's fault, and to be stopped is nobody's: neither goes through the words of Arrow.
        let failed = RefCell::new(None);
        let batches = reader.map_while(|batch| match ready(name, batch, ctl) {
            Ok(batch) => Some(Ok(batch)),
            Err(failure) => {
                *failed.borrow_mut() = Some(failure);
                None
            }
        });
        let table = vesica_table::spool(Path::new(name), &mut RecordBatchIterator::new(batches, schema), dir);
        match failed.take() {
            Some(failure) => Err(failure),
            None => table.map_err(|error| vesica::Error::from(error).into()),
        }
    }

    /// The batches that `reader` gives, and their schema.
    pub fn batches(
        name: &str,
        reader: impl RecordBatchReader,
        ctl: &Control,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), Failure> {
        let schema = reader.schema();
        let batches = reader.map(|batch| ready(name, batch, ctl));
        Ok((schema, batches.collect::<Result<_, _>>()?))
    }

    /// A table of these batches, which have one schema; without any it has no columns.
    pub fn many(batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map_or_else(|| SchemaRef::new(Schema::empty()), RecordBatch::schema);
        Self { schema, batches }
    }

    /// A table of one batch.
    pub fn one(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

/// A batch that came from Python, if it may be read and the run goes on.
fn ready(name: &str, batch: Result<RecordBatch, ArrowError>, ctl: &Control) -> Result<RecordBatch, Failure> {
    ctl.check().map_err(vesica::Error::from)?;
    batch.and_then(checked).map_err(|error| Failure::input(format!("{name}: {error}")))
}

/// `batch`, if its values are what its types promise. Other libraries do not check all that they hand out: pyarrow reads a column of
/// text from a Parquet file without looking whether it is UTF-8, and Rust must not see such text.
fn checked(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let wrong = |error| ArrowError::InvalidArgumentError(format!("column {}: {error}", field.name()));
        column.to_data().validate_full().map_err(wrong)?;
    }
    Ok(batch)
}

#[pymethods]
impl Table {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns, and Arrow's names of their types.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.schema.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string())).collect()
    }

    /// The rows as an Arrow stream. A schema that is asked for is not made: the interface allows that.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        backend::export(py, Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
    }
}
