//! What is said of a file: notes on what has another effect here, and refusals of what cannot be honoured.

use vesica_spec::SpecError;

/// Something in the file that has another effect than with SecretFlow, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The field.
    pub field: String,
    /// What becomes of it.
    pub what: String,
}

impl Note {
    pub(super) fn new(field: &str, what: impl Into<String>) -> Self {
        Self { field: field.to_owned(), what: what.into() }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

/// What a part of a file means, or why it cannot be honoured.
pub(super) type Result<T> = std::result::Result<T, SpecError>;

/// Refuses what stands in `field`.
pub(super) fn refuse<T>(field: &str, why: impl Into<String>) -> Result<T> {
    Err(SpecError::field(field, why))
}
