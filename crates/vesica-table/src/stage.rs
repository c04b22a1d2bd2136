//! Files that appear whole or not at all.

use crate::Error;
use crate::error::folder;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;

/// A file under way: under a temporary name in the output's folder, readable by nobody else; or, for standard output,
/// without a name.
pub(crate) struct Stage {
    /// What messages call it.
    path: PathBuf,
    temp: Temp,
    /// The first error of the operating system, which the writers on top wrap beyond recognition.
    error: Arc<Mutex<Option<io::Error>>>,
    pub(crate) rows: u64,
}

enum Temp {
    /// The file, and the mode it is to have.
    Named(NamedTempFile, Permissions),
    Stdout(File),
}

impl Stage {
    /// A file that is to become `path`; standard output if `None`.
    pub(crate) fn new(path: Option<PathBuf>) -> Result<Self, Error> {
        let (path, temp) = match path {
            Some(path) => {
                let temp = Self::named(&path).map_err(|e| Error::writing(&path, e))?;
                (path, temp)
            }
            None => {
                let dir = std::env::temp_dir();
                let file = tempfile::tempfile_in(&dir).map_err(|e| Error::writing(&dir, e))?;
                ("standard output".into(), Temp::Stdout(file))
            }
        };
        Ok(Self { path, temp, error: Arc::default(), rows: 0 })
    }

    fn named(path: &Path) -> io::Result<Temp> {
        // Made with the usual mode once, to learn what the umask leaves of it, and closed to others while still empty.
        let temp = tempfile::Builder::new()
            .prefix(".vesica-")
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder(path))?;
        let usual = temp.as_file().metadata()?.permissions();
        temp.as_file().set_permissions(Permissions::from_mode(0o600))?;
        // A file that is replaced keeps its mode: its owner may have closed it to others.
        let mode = fs::metadata(path).map_or(usual, |m| m.permissions());
        Ok(Temp::Named(temp, mode))
    }

    fn file(&self) -> &File {
        match &self.temp {
            Temp::Named(temp, _) => temp.as_file(),
            Temp::Stdout(file) => file,
        }
    }

    /// What to write to.
    pub(crate) fn out(&self) -> Result<Out, Error> {
        let file = self.file().try_clone().map_err(|e| Error::writing(&self.path, e))?;
        Ok(Out { file, error: self.error.clone() })
    }

    /// What an error of a writer on top of [`Out`] means.
    pub(crate) fn failed(&self, error: io::Error) -> Error {
        let first = self.error.lock().ok().and_then(|mut e| e.take());
        Error::writing(&self.path, first.unwrap_or(error))
    }

    /// Brings the file to the disk.
    pub(crate) fn finish(self) -> Result<Staged, Error> {
        let synced = self.file().sync_all();
        synced.map_err(|e| Error::writing(&self.path, e))?;
        Ok(Staged { stage: self })
    }
}

/// The file of a [`Stage`].
pub(crate) struct Out {
    file: File,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Write for Out {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf).map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted
                && let Ok(mut first) = self.error.lock()
            {
                first.get_or_insert(error);
            }
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A finished output, whole and on the disk, under a temporary name. Dropped, it is removed.
pub struct Staged {
    stage: Stage,
}

impl Staged {
    /// Rows written, without the header.
    pub fn rows(&self) -> u64 {
        self.stage.rows
    }

    /// Puts the file in its place, at once and for good: whoever looks sees the old file or the whole new one, and a
    /// power cut after this returns does not undo it.
    ///
    /// # Errors
    /// Those of renaming; then nothing has changed.
    pub fn commit(self) -> Result<Written, Error> {
        let Stage { path, temp, rows, .. } = self.stage;
        let writing = |e| Error::writing(&path, e);
        let bytes = match temp {
            Temp::Named(temp, mode) => {
                let bytes = temp.as_file().metadata().map_err(writing)?.len();
                temp.as_file().set_permissions(mode).map_err(writing)?;
                temp.persist(&path).map_err(|e| writing(e.error))?;
                let folder = folder(&path);
                File::open(&folder).and_then(|f| f.sync_all()).map_err(|e| Error::writing(&folder, e))?;
                bytes
            }
            Temp::Stdout(mut file) => {
                file.rewind().map_err(writing)?;
                copy(&mut file, &mut io::stdout().lock()).map_err(writing)?
            }
        };
        Ok(Written { path, rows, bytes })
    }
}

fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<u64> {
    let bytes = io::copy(from, to)?;
    to.flush()?;
    Ok(bytes)
}

/// What stands where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The file, with symbolic links resolved; `standard output` if it went there.
    pub path: PathBuf,
    /// Rows, without the header.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}
