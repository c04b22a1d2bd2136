//! The JSON Schemas of documents, generated from the types that read and write them.

use serde_json::Value;

/// The schema of a job.
pub fn job() -> Value {
    schemars::schema_for!(crate::Spec).to_value()
}

/// The schema of a server's document.
pub fn service() -> Value {
    schemars::schema_for!(crate::service::ServerSpec).to_value()
}

/// The schema of a client's document.
pub fn client() -> Value {
    schemars::schema_for!(crate::service::ClientSpec).to_value()
}
