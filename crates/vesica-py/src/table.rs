//! Tables in memory that came from Python, or go there.

use crate::backend;
use crate::failure::Failure;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use vesica::Rows;

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
    pub fn read(name: &str, reader: impl RecordBatchReader) -> Result<Box<dyn vesica::Table>, Failure> {
        let schema = reader.schema();
        let batches = reader.collect::<Result<_, _>>().map_err(|error| Failure::input(format!("{name}: {error}")))?;
        Ok(Box::new(vesica::Memory::new(name, schema, batches)?))
    }
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
