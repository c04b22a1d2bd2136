//! What goes wrong, on its way to an exception of the package's.

use pyo3::prelude::*;
use vesica::{Error, Fault};
use vesica_spec::SpecError;

/// A sentence, and whose fault it is.
pub struct Failure {
    fault: Fault,
    message: String,
}

impl Failure {
    /// What was asked for cannot be.
    pub fn config(message: impl Into<String>) -> Self {
        Self { fault: Fault::Config, message: message.into() }
    }

    /// The data is at fault.
    pub fn input(message: impl Into<String>) -> Self {
        Self { fault: Fault::Input, message: message.into() }
    }

    /// The connection is.
    pub fn network(message: impl Into<String>) -> Self {
        Self { fault: Fault::Network, message: message.into() }
    }

    /// This program is.
    pub fn bug(message: impl Into<String>) -> Self {
        Self { fault: Fault::Bug, message: message.into() }
    }

    /// Whether these words stand in its sentence.
    pub fn says(&self, words: &str) -> bool {
        self.message.contains(words)
    }

    /// The exception of `vesica._errors` for the fault.
    pub fn raised(self, py: Python<'_>) -> PyErr {
        let name = match self.fault {
            Fault::Config => "ConfigError",
            Fault::Input => "InputError",
            Fault::Network => "NetworkError",
            Fault::Peer => "PeerError",
            Fault::Interrupted => "Stopped",
            Fault::Bug => "InternalError",
        };
        let class = py.import("vesica._errors").and_then(|module| module.getattr(name));
        match class.and_then(|class| class.call1((self.message,))) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { fault: error.fault(), message: error.to_string() }
    }
}

impl From<vesica_service::Error> for Failure {
    fn from(error: vesica_service::Error) -> Self {
        Self { fault: error.fault(), message: error.to_string() }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Error::from(error).into()
    }
}

impl From<vesica_table::Error> for Failure {
    fn from(error: vesica_table::Error) -> Self {
        Error::from(error).into()
    }
}
