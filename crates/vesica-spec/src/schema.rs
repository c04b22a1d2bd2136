//! The JSON Schema of jobs, generated from the types that read and write them.

use serde_json::Value;

/// The schema of a job.
pub fn job() -> Value {
    schemars::schema_for!(crate::Spec).to_value()
}
