//! The JSON Schema of reports, generated from the types that read and write them.

use serde_json::Value;

/// The schema of a report.
pub fn report() -> Value {
    schemars::schema_for!(crate::Report).to_value()
}
