//! How a command ends badly: a sentence, and whose fault it is.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use vesica_job::JobError;
use vesica_spec::SpecError;

/// What every command returns.
pub type Outcome = Result<(), Failure>;

/// Set by `--log json`: then the last line is JSON too.
pub static AS_LOG: AtomicBool = AtomicBool::new(false);

/// Why a command did not do what it was asked to.
pub struct Failure {
    exit: u8,
    message: String,
}

impl Failure {
    /// A failure with an exit code of its own: that of a child process.
    pub fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// What was asked for cannot be.
    pub fn usage(message: impl Into<String>) -> Self {
        JobError::Setup(message.into()).into()
    }

    /// A file or stream that cannot be written or read.
    pub fn file(what: &'static str, path: impl Into<std::path::PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| JobError::File { what, path, error }.into()
    }

    /// Tells it and gives the exit code.
    pub fn exit(&self) -> u8 {
        if AS_LOG.load(Ordering::Relaxed) {
            tracing::error!(exit_code = self.exit, "{}", self.message);
        } else {
            // If standard error is closed, nobody wants to know.
            let _ = writeln!(std::io::stderr(), "error: {}", self.message);
        }
        self.exit
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Self { exit: error.fault().exit_code(), message: error.to_string() }
    }
}

impl From<vesica_service::Error> for Failure {
    fn from(error: vesica_service::Error) -> Self {
        Self { exit: error.fault().exit_code(), message: error.to_string() }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        JobError::from(error).into()
    }
}
