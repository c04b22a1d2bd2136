//! Tables over Arrow's C stream interface, as the Arrow PyCapsule Interface passes them.

#![allow(unsafe_code)]

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;

/// The name that the interface prescribes.
const NAME: &CStr = c"arrow_array_stream";

/// The rows of `object`, which exports `__arrow_c_stream__`. Reading them may call Python, so it must not be done by a thread that
/// holds the interpreter and waits for another.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("__arrow_c_stream__ gave no capsule"))?;
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a pointer to an ArrowArrayStream that is valid while the capsule is, which is held here. The
    // stream is moved out of it and marked as released, as the interface asks of a consumer, so nobody releases it twice.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
    reader.map_err(|error| PyTypeError::new_err(format!("what __arrow_c_stream__ gave is no table: {error}")))
}

/// A capsule with the rows of `reader`, to be taken once.
pub fn export(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    // The capsule owns the stream, and drops it if nobody takes it.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), NAME)
}
