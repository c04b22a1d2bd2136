//! Tables over Arrow's C stream interface, as the Arrow PyCapsule Interface passes them.

#![allow(unsafe_code)]

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayReader, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use std::sync::Arc;

/// The name that the interface prescribes.
const NAME: &CStr = c"arrow_array_stream";

/// The rows of `object`, which exports `__arrow_c_stream__`. Reading them may call Python, so it must not be done by a thread that
/// holds the interpreter and waits for another.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("__arrow_c_stream__ gave no capsule"))?;
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a pointer to an ArrowArrayStream that is valid while the capsule is, which is held here. The
    // stream is moved out of it and marked as released, as the interface asks of a consumer, so nobody releases it twice.
    let arrays = unsafe { ArrayStreamReader::from_raw(pointer.as_ptr()) };
    let no_table = |why: String| PyTypeError::new_err(format!("what __arrow_c_stream__ gave is no table: {why}"));
    let arrays = arrays.map_err(|error| no_table(error.to_string()))?;
    let DataType::Struct(fields) = arrays.field().data_type() else {
        return Err(no_table(format!("it holds {}, and no columns", arrays.field().data_type())));
    };
    let schema = Schema::new_with_metadata(fields.clone(), arrays.field().metadata().clone());
    Ok(Stream { schema: Arc::new(schema), arrays })
}

/// The rows of a stream. A table comes as a list of structs, each of whose fields is a column. So does a column of structs, and of
/// these some may be null as a whole. Such a row has no values, whatever stands in its fields, so it is refused.
pub struct Stream {
    schema: SchemaRef,
    arrays: ArrayStreamReader,
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = |array: &dyn Array| {
            let rows = array.as_struct();
            match rows.null_count() {
                0 => {
                    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
                    RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options)
                }
                nulls => Err(ArrowError::InvalidArgumentError(format!(
                    "{nulls} of its rows are null as a whole, which no row of a table can be; leave them out, or give a table \
                     whose columns have the nulls"
                ))),
            }
        };
        self.arrays.next().map(|array| batch(&array?))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A capsule with the rows of `reader`, to be taken once.
pub fn export(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    // The capsule owns the stream, and drops it if nobody takes it.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), NAME)
}
