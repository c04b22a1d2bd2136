use std::fmt;
use std::path::PathBuf;

/// Why a document is not a job: where, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The file, if it came from one.
    pub file: Option<PathBuf>,
    /// Line and column, from 1, where the document's text is at fault.
    pub place: Option<(usize, usize)>,
    /// The field, such as `mine.listen`, where its meaning is at fault.
    pub field: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

impl SpecError {
    /// An error about the meaning of `field`.
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self { file: None, place: None, field: Some(field.to_owned()), message: message.into() }
    }
}

/// Refuses what `field` says.
pub(crate) fn refuse<T>(field: &str, why: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError::field(field, why))
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some((line, column)) = self.place {
                write!(f, ":{line}:{column}")?;
            }
            f.write_str(": ")?;
        } else if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpecError {}
