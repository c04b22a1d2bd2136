//! The folder of a store: who may write it, and how files come to stand in it.

use crate::error::{Error, Result};
use crate::manifest::{Manifest, NAME};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use vesica_program::on_disk::{self, Files};

/// A folder that only this process writes. Reading takes no lock.
pub(crate) struct Folder {
    path: PathBuf,
    lock: FolderLock,
}

/// The lock of a folder, which is free again when this is dropped.
pub struct FolderLock {
    folder: File,
    /// Holds the lock.
    _locked: File,
}

/// The name of the file in a folder that is locked for the folder. It is empty, is no part of what the folder keeps, and is never removed:
/// whoever had it open would hold the lock of a file that others no longer find.
const LOCK: &str = ".lock";

/// Takes the lock of `folder`. It is that of a file in it, for two reasons. Whoever knows the folder by another path, or by a link, meets
/// the same file. And NFS keeps the lock of a file at its server, so that another machine meets it too; that of a folder it keeps on one
/// machine alone.
///
/// # Errors
/// [`Error::Missing`] if there is no such folder; [`Error::Busy`] if another process has the lock; those of writing.
pub fn lock_folder(folder: &Path) -> Result<FolderLock> {
    let handle = File::open(folder).map_err(Error::reading(folder))?;
    let path = folder.join(LOCK);
    // NFS locks only what is open for writing.
    let opened = File::options().write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(Error::writing(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock { folder: handle, _locked: file }),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: folder.into() }),
        Err(TryLockError::Error(source)) => Err(Error::Io { path, verb: "lock", source }),
    }
}

impl Folder {
    /// Makes the folder if it is not there, and takes its lock.
    ///
    /// # Errors
    /// Those of [`lock_folder`].
    pub(crate) fn lock(path: &Path) -> Result<Self> {
        on_disk::make_missing(&Files, path, 0o777).map_err(Error::writing(path))?;
        let lock = lock_folder(path)?;
        // Whoever wrote a manifest there had the folder there for good before: so each lookup in a copy need not wait for the disk.
        if !path.join(NAME).exists() {
            on_disk::sync_folder(&Files, path).map_err(Error::writing(path))?;
        }
        Ok(Self { path: path.into(), lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file under a name of its own, which is removed if it is dropped.
    pub(crate) fn temporary(&self) -> Result<NamedTempFile> {
        tempfile::Builder::new().prefix(".writing-").tempfile_in(&self.path).map_err(Error::writing(&self.path))
    }

    /// Brings `file` to the disk, and then gives it its name.
    pub(crate) fn place(&self, file: NamedTempFile, name: &str) -> Result<()> {
        let path = self.path.join(name);
        on_disk::contents(file.as_file()).map_err(Error::writing(&path))?;
        file.persist(&path).map_err(|error| Error::writing(&path)(error.error))?;
        self.sync()
    }

    /// Places a file of these bytes.
    pub(crate) fn place_bytes(&self, bytes: &[u8], name: &str) -> Result<()> {
        let mut file = self.temporary()?;
        file.write_all(bytes).map_err(Error::writing(&self.path.join(name)))?;
        self.place(file, name)
    }

    /// Brings the names in the folder to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        on_disk::names(&self.lock.folder, &self.path).map_err(Error::writing(&self.path))
    }

    /// Makes `manifest`, all of whose parts are there, that of the store. Then removes what no manifest names: parts of an
    /// earlier store, and what a killed process left. Whoever has them open keeps them. What other programs have there stays.
    pub(crate) fn publish(&self, manifest: &Manifest) -> Result<()> {
        self.place_bytes(&manifest.encode(), NAME)?;
        let named: BTreeSet<String> =
            manifest.parts.iter().flat_map(|part| [part.file_name(), part.sums_name()]).collect();
        let unlisted = |error| Error::reading(&self.path)(error);
        for entry in fs::read_dir(&self.path).map_err(unlisted)? {
            let entry = entry.map_err(unlisted)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if is_ours(name) && !named.contains(name) {
                fs::remove_file(entry.path()).map_err(Error::writing(&entry.path()))?;
            }
        }
        Ok(())
    }
}

/// Whether a store calls a file so, to the last letter. Other programs have files of the name `part-00000.parquet`.
fn is_ours(name: &str) -> bool {
    let of_part = |rest: &str| {
        let rest = [".sums", ".partial"].iter().find_map(|end| rest.strip_suffix(end)).unwrap_or(rest);
        rest.split_once('-').is_some_and(|(number, root)| {
            number.len() >= 4
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && root.len() == 16
                && root.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    name.starts_with(".writing-") || name.strip_prefix("part-").is_some_and(of_part)
}
