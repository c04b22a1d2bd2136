//! The files of a run: for their owner's eyes, and how it is told that one of them failed.

use crate::error::JobError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How a file is opened that may have to be made. No other user may read it.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    options
}

/// The error of the file at `path`, of which `what` was tried: `cannot write`.
pub fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> JobError {
    move |error| JobError::File { what, path: path.into(), error }
}

/// Puts the name of the new file at `path` on the disk: synced alone, a file may be whole and have no name after a
/// crash.
///
/// # Errors
/// Those of its folder.
pub fn sync_name(path: &Path) -> io::Result<()> {
    File::open(path.parent().expect("a file in a folder"))?.sync_all()
}

/// Removes the file at `path`. One that is gone need not be removed.
///
/// # Errors
/// Those of removing it.
pub fn remove(path: &Path) -> Result<(), JobError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("cannot remove", path)(error)),
        _ => Ok(()),
    }
}
