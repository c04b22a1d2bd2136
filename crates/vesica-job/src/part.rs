//! Files that appear when they are complete.

use crate::error::JobError;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// A file beside `path` that is to become it, and is gone if it does not.
///
/// # Errors
/// If the folder cannot be written to.
pub fn beside(path: &Path) -> Result<NamedTempFile, JobError> {
    let folder = crate::local::folder(path);
    tempfile::Builder::new()
        .prefix(".vesica-")
        .permissions(Permissions::from_mode(0o666)) // the umask takes from that, as it does everywhere
        .tempfile_in(&folder)
        .map_err(|error| JobError::File { what: "cannot write to", path: folder, error })
}

/// Whether a file can be made at `path`: found out before there is anything to write to it.
///
/// # Errors
/// If `path` is a folder, and as [`beside`].
pub fn probe(path: &Path) -> Result<(), JobError> {
    if path.is_dir() {
        let error = io::ErrorKind::IsADirectory.into();
        return Err(JobError::File { what: "cannot write", path: path.to_owned(), error });
    }
    beside(path).map(drop)
}

/// Writes `text` to the file `path`, which may be replaced; `what` stands in errors, such as `cannot write the report`.
///
/// # Errors
/// [`JobError::File`].
pub fn save(path: &Path, what: &'static str, text: &str) -> Result<(), JobError> {
    let mut file = beside(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| Ok(file.persist(path)?));
    written.map(drop).map_err(|error| JobError::File { what, path: path.to_owned(), error })
}
