//! How it is told that a file of a run failed, and how one is removed.

use crate::disk::Disk;
use crate::error::JobError;
use std::io;
use std::path::Path;

/// The error of the file at `path`, of which `what` was tried: `cannot write`.
pub fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> JobError {
    move |error| JobError::File { what, path: path.into(), error }
}

/// Removes the file at `path`. One that is gone need not be removed.
///
/// # Errors
/// Those of removing it.
pub fn remove(disk: &dyn Disk, path: &Path) -> Result<(), JobError> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("cannot remove", path)(error)),
        _ => Ok(()),
    }
}
