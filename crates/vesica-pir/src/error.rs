//! What can go wrong in a retrieval.

/// What can go wrong in a retrieval. Each names the thing, the value and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum PirError {
    /// A table or parameters that a scheme cannot serve.
    #[error("{0}")]
    Shape(String),
    /// A message that is not what the other side of this scheme sends.
    #[error("the other side sent {0}")]
    Message(String),
}
