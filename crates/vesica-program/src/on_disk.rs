//! What is to be there after a failure of power: the bytes of a file, and the name that calls it.
//!
//! A file whose bytes alone were synced may be whole and have no name after it, and a name that was given before they were may call a file that is
//! empty. So whoever puts a file in its place brings its [`contents`] to the disk, gives it its name, and then brings the [`name`] there.
//!
//! Example: a result is written as `.vesica-Ab3xYz.part`, its contents are synced, it is renamed to `matched.csv`, and its folder is synced. Whenever
//! the power fails, `matched.csv` is the old file or the whole new one, and once all this has returned it is the new one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What was brought to the disk.
#[derive(Clone, Copy, Debug)]
pub enum Synced<'a> {
    /// The bytes of this file.
    Contents(&'a File),
    /// The names in this folder, whose path is the second.
    Names(&'a File, &'a Path),
}

/// Whoever is told what was brought to the disk.
static WITNESS: OnceLock<fn(Synced<'_>)> = OnceLock::new();

/// Has a test told of all that is brought to the disk from here on, by any thread. The first one that asks is told, and nobody else.
#[doc(hidden)]
pub fn witness(told: fn(Synced<'_>)) {
    // Whoever asks again is the same one, or asks in vain.
    let _ = WITNESS.set(told);
}

fn tell(what: Synced<'_>) {
    if let Some(told) = WITNESS.get() {
        told(what);
    }
}

/// On return the bytes of the file are there for good, whatever calls it.
///
/// # Errors
/// Those of the system.
pub fn contents(file: &File) -> io::Result<()> {
    file.sync_all()?;
    tell(Synced::Contents(file));
    Ok(())
}

/// On return `path` calls for good what it calls now.
///
/// # Errors
/// Those of the folder that it is in, which is opened to be read.
pub fn name(path: &Path) -> io::Result<()> {
    let above = folder(path);
    names(&File::open(&above)?, &above)
}

/// On return all names in the open folder are there for good; `path` is its own.
///
/// # Errors
/// Those of the system.
pub fn names(folder: &File, path: &Path) -> io::Result<()> {
    folder.sync_all()?;
    tell(Synced::Names(folder, path));
    Ok(())
}

/// The folder that `path` stands in.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_stands_in_this_folder() {
        for (path, above) in [("out.csv", "."), ("a/out.csv", "a"), ("/out.csv", "/"), ("a/", ".")] {
            assert_eq!(folder(Path::new(path)), Path::new(above), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_brought_to_the_disk_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        name(&dir.path().join("any")).unwrap();
        assert_eq!(name(&dir.path().join("none/any")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
