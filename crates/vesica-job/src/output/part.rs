//! Files that appear when they are complete.

use crate::error::JobError;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;
use vesica_program::on_disk;
use vesica_spec::SpecError;

/// A file beside `path` that is to become it, and is gone if it does not.
///
/// # Errors
/// If the folder cannot be written to.
pub fn beside(path: &Path) -> Result<NamedTempFile, JobError> {
    let folder = vesica_table::folder(path);
    temporary(&folder).map_err(|error| JobError::File { what: "cannot write to", path: folder, error })
}

fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mode = Permissions::from_mode(0o666); // the umask takes from that, as it does everywhere
    tempfile::Builder::new().prefix(".vesica-").permissions(mode).tempfile_in(folder)
}

/// Whether a file can be made at `path`, as `field` of the job asks: found out before there is anything to write to it.
///
/// # Errors
/// If `path` is a folder, or is in none that can be written to.
pub fn probe(field: &str, path: &Path) -> Result<(), SpecError> {
    let folder = vesica_table::folder(path);
    let why = if path.is_dir() {
        "is a folder".to_owned()
    } else if !folder.is_dir() {
        format!("cannot be written: the folder {} does not exist", folder.display())
    } else if let Err(error) = tempfile::tempfile_in(&folder) {
        // The kind alone: the rest of the error is the name of the file that was tried.
        format!("cannot be written to {}: {}", folder.display(), error.kind())
    } else {
        return Ok(());
    };
    Err(SpecError::field(field, format!("{} {why}; name a file in a folder that can be written to", path.display())))
}

/// Writes `text` to the file `path`, which may be replaced; `what` stands in errors, such as `cannot write the report`.
///
/// # Errors
/// [`JobError::File`].
pub fn save(path: &Path, what: &'static str, text: &str) -> Result<(), JobError> {
    put(beside(path)?, path, what, text.as_bytes())
}

/// Writes `bytes` to the file `path`, which may be replaced, and brings them to the disk with their name.
///
/// # Errors
/// [`JobError::File`].
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), JobError> {
    put(beside(path)?, path, "cannot write", bytes)
}

/// [`replace`], for a file that no other user may read.
///
/// # Errors
/// [`JobError::File`].
pub fn replace_privately(path: &Path, bytes: &[u8]) -> Result<(), JobError> {
    let folder = vesica_table::folder(path);
    let failed = |error| JobError::File { what: "cannot write to", path: folder.clone(), error };
    // Files that are made so are their owner's alone.
    let file = tempfile::Builder::new().prefix(".vesica-").tempfile_in(&folder).map_err(failed)?;
    put(file, path, "cannot write", bytes)
}

fn put(mut file: NamedTempFile, path: &Path, what: &'static str, bytes: &[u8]) -> Result<(), JobError> {
    let written =
        file.write_all(bytes).and_then(|()| on_disk::contents(file.as_file())).and_then(|()| Ok(file.persist(path)?));
    let named = written.and_then(|_| on_disk::name(path));
    named.map_err(|error| JobError::File { what, path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_there_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let witness = vesica_testkit::Witness::of(dir.path());
        let ways: [&dyn Fn() -> Result<(), JobError>; 3] =
            [&|| save(&path, "cannot write the report", "{}"), &|| replace(&path, b"another"), &|| {
                replace_privately(&path, b"a key")
            }];
        for way in ways {
            way().unwrap();
            witness.is_put(&path).unwrap();
        }
    }
}
