//! SecretFlow's launch configurations and Kuscia's task files, read as jobs and services: a room of its own at the edge, so that
//! the engine knows of its own documents only. Its report and its sample tables are here too.
//!
//! What a file asks for and cannot get is refused by its field's name; what has another effect than with SecretFlow, or
//! none, comes back as a [`Note`]. `docs/src/reference/secretflow.md` says for every field what becomes of it.

#![forbid(unsafe_code)]

mod job;
mod json;
mod kuscia;
mod launch;
mod legacy;
mod link;
mod message;
mod report;
mod said;
mod sample;
mod translate;
mod unbalanced;

#[cfg(test)]
mod every_field;

pub use link::Trust;
pub use report::{report, report_without_result};
pub use said::Note;
pub use sample::Benchmark;
pub use unbalanced::{Client, Server};

use json::Wrong;
use launch::LaunchConfig;
use message::Read;
use std::path::Path;
use vesica_spec::{Spec, SpecError};

/// A file's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A launch configuration: what `main --config` and `main --json` read.
    Launch,
    /// A task file: what `main --kuscia` reads.
    Kuscia,
}

/// What a file asks for. Relative paths start at the current folder, as they do for SecretFlow.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// A job.
    Job(Box<Spec>),
    /// To prepare or to serve.
    Server(Box<Server>),
    /// To fetch or to ask.
    Client(Box<Client>),
}

/// What was imported.
#[derive(Clone, PartialEq, Debug)]
pub struct Imported {
    /// What the file asks for.
    pub what: What,
    /// What is not as with SecretFlow.
    pub notes: Vec<Note>,
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read, is not of its kind, or asks for what cannot be honoured; with the place or the field.
pub fn load(path: &Path, kind: Kind, trust: &Trust) -> Result<Imported, SpecError> {
    let at = |error: SpecError| SpecError { file: Some(path.to_owned()), ..error };
    let text = std::fs::read_to_string(path).map_err(|e| {
        at(SpecError { file: None, place: None, field: None, message: format!("cannot read the configuration: {e}") })
    })?;
    read(&text, kind, trust).map_err(at)
}

/// Reads a text.
///
/// # Errors
/// As [`load`].
pub fn read(text: &str, kind: Kind, trust: &Trust) -> Result<Imported, SpecError> {
    let (launch, mut notes) = parse(text, kind).map_err(|wrong| SpecError {
        file: None,
        place: Some(vesica_spec::line_and_column(text, wrong.at)),
        field: Some(wrong.field).filter(|field| !field.is_empty()),
        message: wrong.message,
    })?;
    let what = job::job(&launch, trust, &mut notes)?;
    Ok(Imported { what, notes })
}

fn parse(text: &str, kind: Kind) -> Result<(LaunchConfig, Vec<Note>), Wrong> {
    let value = json::parse(text)?;
    match kind {
        Kind::Kuscia => kuscia::launch(&value),
        Kind::Launch => {
            let mut launch = LaunchConfig::default();
            launch.read(&value)?;
            Ok((launch, Vec::new()))
        }
    }
}
