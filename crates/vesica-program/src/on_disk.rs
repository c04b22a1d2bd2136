//! What is to be there after a failure of power: the bytes of a file, and the name that calls it.
//!
//! A file whose bytes alone were synced may be whole and have no name after it, and a name that was given before they were may call a file that is
//! empty. So whoever puts a file in its place brings its [`contents`] to the disk, gives it its name, and then brings the [`name`] there.
//!
//! Example: a result is written as `.vesica-Ab3xYz.part`, its contents are synced, it is renamed to `matched.csv`, and its folder is synced. Whenever
//! the power fails, `matched.csv` is the old file or the whole new one, and once all this has returned it is the new one.
//!
//! The same holds of a new folder: [`make_folder`].

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
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

/// Whoever sees what is brought to the disk: it is given what that is, and does it.
pub type Sees = fn(Synced<'_>, &dyn Fn() -> io::Result<()>) -> io::Result<()>;

static WITNESS: OnceLock<Sees> = OnceLock::new();

/// Has a test see all that is brought to the disk from here on, by any thread. The first one that asks does, and nobody else.
#[doc(hidden)]
pub fn witness(sees: Sees) {
    // Whoever asks again is the same one, or asks in vain.
    let _ = WITNESS.set(sees);
}

fn sync(what: Synced<'_>) -> io::Result<()> {
    let (Synced::Contents(file) | Synced::Names(file, _)) = what;
    let bring = || file.sync_all();
    WITNESS.get().map_or_else(bring, |sees| sees(what, &bring))
}

/// On return the bytes of the file are there for good, whatever calls it.
///
/// # Errors
/// Those of the system.
pub fn contents(file: &File) -> io::Result<()> {
    sync(Synced::Contents(file))
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
    sync(Synced::Names(folder, path))
}

/// The folder that `path` stands in.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What a disk must do for folders to be made on it: the system's [`Files`] do, and disks of tests.
pub trait Folders {
    /// Makes a folder in one that is there, with a mode of which the system takes what it takes of all.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::AlreadyExists`].
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Whether there is such a folder.
    fn is_folder(&self, path: &Path) -> bool;

    /// On return `path` calls for good what it calls now, as after [`name`].
    ///
    /// # Errors
    /// Those of the folder that it is in.
    fn sync_name(&self, path: &Path) -> io::Result<()>;
}

/// The system's files.
#[derive(Clone, Copy, Debug)]
pub struct Files;

impl Folders for Files {
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn sync_name(&self, path: &Path) -> io::Result<()> {
        name(path)
    }
}

/// Makes a folder, and those that it is in, where they are not there. On return they are there for good, also where somebody made them who was killed
/// just before that; but for what [`sync_folder`] passes over. Of a path that ends in a link, the link has its name for good.
///
/// # Errors
/// Those of the system.
pub fn make_folder(disk: &(impl Folders + ?Sized), path: &Path, mode: u32) -> io::Result<()> {
    make_missing(disk, path, mode).and_then(|()| sync_folder(disk, path))
}

/// Makes a folder, and those that it is in, where they are not there. On return those that this made are there for good. A folder that was there may
/// be one of somebody who was killed just before that: whoever puts something there that is to stay calls [`sync_folder`].
///
/// # Errors
/// Those of the system.
pub fn make_missing(disk: &(impl Folders + ?Sized), path: &Path, mode: u32) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !disk.is_folder(folder);
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    // Who made the folder that they are in may have been killed before it was there for good.
    missing.last().and_then(|folder| folder.parent()).map_or(Ok(()), |folder| sync_folder(disk, folder))?;
    for folder in missing.into_iter().rev() {
        match disk.make_folder(folder, mode) {
            // Somebody else makes it too.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && disk.is_folder(folder) => {}
            made => made?,
        }
        sync_folder(disk, folder)?;
    }
    Ok(())
}

/// Puts the name of a folder on the disk.
///
/// # Errors
/// Those of the folder that it is in.
pub fn sync_folder(disk: &(impl Folders + ?Sized), folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    // The root has no name.
    let synced = folder.parent().map_or(Ok(()), |_| disk.sync_name(folder));
    synced.or_else(|error| match error.kind() {
        // A folder that this user may not read cannot be opened to be synced; and some systems, such as those of images that nobody writes to, sync
        // no folders. What stands in either was as a rule put there by others, long before: who may use it is not refused for that.
        PermissionDenied | InvalidInput | ReadOnlyFilesystem | Unsupported => Ok(()),
        _ => Err(error),
    })
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

    /// A disk on which one name cannot be brought there, and somebody else makes each folder just before.
    struct Odd<'a>(&'a Path, io::ErrorKind);

    impl Folders for Odd<'_> {
        fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
            Files.make_folder(path, mode)?;
            Err(io::ErrorKind::AlreadyExists.into())
        }

        fn is_folder(&self, path: &Path) -> bool {
            path.is_dir()
        }

        fn sync_name(&self, path: &Path) -> io::Result<()> {
            if path == self.0 { Err(self.1.into()) } else { name(path) }
        }
    }

    /// A folder that this user may not read, one of an image, and one of a system that syncs none.
    #[test]
    fn a_folder_that_cannot_be_synced_is_passed_over() {
        use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
        for kind in [PermissionDenied, InvalidInput, ReadOnlyFilesystem, Unsupported] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("one/two");
            make_folder(&Odd(dir.path(), kind), &path, 0o777).unwrap();
            make_folder(&Odd(&path, kind), &path, 0o777).unwrap();
            assert!(path.is_dir());
        }
        // One that is there too: it may have been made by somebody who was killed.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one");
        for _ in 0..2 {
            assert_eq!(
                make_folder(&Odd(&path, io::ErrorKind::Other), &path, 0o777).unwrap_err().kind(),
                io::ErrorKind::Other
            );
        }
        make_missing(&Odd(&path, io::ErrorKind::Other), &path, 0o777).unwrap();
    }

    #[test]
    fn a_file_is_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(make_folder(&Files, &path, 0o777).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(make_folder(&Files, &path.join("below"), 0o777).is_err() && path.is_file());
    }

    #[test]
    fn what_cannot_be_brought_to_the_disk_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        name(&dir.path().join("any")).unwrap();
        assert_eq!(name(&dir.path().join("none/any")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
