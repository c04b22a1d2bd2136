//! Files that appear when they are complete.

use crate::error::JobError;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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

/// A text that is to be written to a file, which may be replaced. Made early, so that a folder that cannot be written to is
/// found before there is anything to write.
pub struct Part {
    what: &'static str,
    path: PathBuf,
    file: NamedTempFile,
}

impl Part {
    /// A file that is to be `path`; `what` stands in errors, such as `cannot write the report`.
    ///
    /// # Errors
    /// As [`beside`].
    pub fn new(path: &Path, what: &'static str) -> Result<Self, JobError> {
        Ok(Self { what, path: path.to_owned(), file: beside(path)? })
    }

    /// Writes `text`, and gives the file its name.
    ///
    /// # Errors
    /// [`JobError::File`].
    pub fn finish(self, text: &str) -> Result<(), JobError> {
        let Self { what, path, mut file } = self;
        let written = file.write_all(text.as_bytes()).and_then(|()| Ok(file.persist(&path)?));
        written.map(drop).map_err(|error| JobError::File { what, path, error })
    }
}
