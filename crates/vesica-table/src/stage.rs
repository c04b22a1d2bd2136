//! Files that appear whole or not at all.

use crate::disk::descriptor;
use crate::error::folder;
use crate::{Error, under_way};
use nix::fcntl::{AT_FDCWD, AtFlags};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;
use vesica_program::on_disk;

/// A file under way, readable by nobody else: in the output's folder and without a name, so that even a killed process
/// leaves nothing of it. One that is killed in the moment between naming and renaming it leaves what the next run removes.
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
    Unnamed(File, Permissions),
    /// The same under a temporary name, where the file system knows no files without one.
    Named(NamedTempFile, Permissions),
    Stdout(File),
}

impl Stage {
    /// A file that is to become `path`; standard output if `None`.
    pub(crate) fn new(path: Option<PathBuf>) -> Result<Self, Error> {
        let (path, temp) = match path {
            Some(path) => {
                let temp = Self::beside(&path).map_err(|e| Error::writing(&path, e))?;
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

    fn beside(path: &Path) -> io::Result<Temp> {
        match unnamed(&folder(path)) {
            Some(file) => close(&file).map(|usual| Temp::Unnamed(file, mode(path, usual))),
            None => Self::named(path),
        }
    }

    fn named(path: &Path) -> io::Result<Temp> {
        under_way::file(&folder(path)).map(|(temp, usual)| Temp::Named(temp, mode(path, usual)))
    }

    fn file(&self) -> &File {
        match &self.temp {
            Temp::Named(temp, _) => temp.as_file(),
            Temp::Unnamed(file, _) | Temp::Stdout(file) => file,
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
        on_disk::contents(self.file()).map_err(|e| Error::writing(&self.path, e))?;
        Ok(Staged::new(self.rows, move || self.commit()))
    }

    /// Puts the file in its place.
    fn commit(self) -> Result<Written, Error> {
        let Stage { path, temp, rows, .. } = self;
        let writing = |e| Error::writing(&path, e);
        let put = |temp: NamedTempFile<()>| {
            temp.persist(&path).map_err(|e| writing(e.error))?;
            on_disk::name(&path).map_err(|e| Error::writing(&folder(&path), e))
        };
        let bytes = match temp {
            Temp::Unnamed(file, mode) => {
                file.set_permissions(mode).map_err(writing)?;
                let name = |at: &Path| {
                    nix::unistd::linkat(AT_FDCWD, &descriptor(&file), AT_FDCWD, at, AtFlags::AT_SYMLINK_FOLLOW)
                        .map_err(io::Error::from)
                };
                put(under_way::name(&file, &folder(&path), name).map_err(writing)?)?;
                file.metadata().map_err(writing)?.len()
            }
            Temp::Named(temp, mode) => {
                let (file, temp) = temp.into_parts();
                file.set_permissions(mode).map_err(writing)?;
                put(NamedTempFile::from_parts((), temp))?;
                file.metadata().map_err(writing)?.len()
            }
            Temp::Stdout(mut file) => {
                file.rewind().map_err(writing)?;
                copy(&mut file, &mut io::stdout().lock()).map_err(writing)?
            }
        };
        Ok(Written { path, rows, bytes })
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

/// A finished output, whole and, if it is a file, on the disk under a temporary name. Dropped, it is removed.
pub struct Staged {
    rows: u64,
    put: Box<dyn FnOnce() -> Result<Written, Error> + Send>,
}

impl Staged {
    /// An output of so many rows, which `put` puts in its place, at once and for good.
    pub fn new(rows: u64, put: impl FnOnce() -> Result<Written, Error> + Send + 'static) -> Self {
        Self { rows, put: Box::new(put) }
    }

    /// Rows written, without the header.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Puts the file in its place, at once and for good: whoever looks sees the old file or the whole new one, and a
    /// power cut after this returns does not undo it.
    ///
    /// # Errors
    /// Those of renaming; then nothing has changed. Where a folder lacks parts that others took away meanwhile, it may stand there without them.
    pub fn commit(self) -> Result<Written, Error> {
        (self.put)()
    }
}

/// Closes a new file without a name to others, and gives the mode that it was made with: it shows what the umask leaves of the usual one.
fn close(file: &File) -> io::Result<Permissions> {
    let usual = file.metadata()?.permissions();
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(usual)
}

/// The mode of a file that is to stand at `path`. One that is replaced keeps its own: its owner may have closed it to others.
fn mode(path: &Path, usual: Permissions) -> Permissions {
    fs::metadata(path).map_or(usual, |meta| meta.permissions())
}

/// A file in `folder` that has no name yet, where there are such files. Without /proc it could not get one later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use nix::fcntl::OFlag;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let file = options.write(true).mode(0o666).custom_flags(OFlag::O_TMPFILE.bits()).open(folder);
    file.ok().filter(|file| descriptor(file).exists())
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_folder: &Path) -> Option<File> {
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names in a folder.
    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn put(stage: Stage, words: &[u8]) -> Written {
        stage.out().unwrap().write_all(words).unwrap();
        stage.finish().unwrap().commit().unwrap()
    }

    #[test]
    fn with_or_without_a_name_a_file_appears_whole_and_closed_as_the_one_it_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let named = || Stage { path: path.clone(), temp: Stage::named(&path).unwrap(), error: Arc::default(), rows: 0 };
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let ways: [&dyn Fn() -> Stage; 2] = [&|| Stage::new(Some(path.clone())).unwrap(), &named];
        for way in ways {
            let stage = way();
            assert_eq!(stage.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(put(stage, b"new").bytes, 3);
            assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"new".to_vec(), vec!["out.csv".to_owned()]));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        }
        drop(named());
        assert_eq!(names(dir.path()), ["out.csv"]);
        // The usual mode, where there is nothing to replace.
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(dir.path().join("usual"), "").unwrap();
        for way in ways {
            fs::remove_file(&path).unwrap();
            put(way(), b"new");
            assert_eq!(mode(&path), mode(&dir.path().join("usual")));
        }
    }

    #[test]
    fn with_or_without_a_name_a_file_is_there_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let witness = vesica_testkit::Witness::of(dir.path());
        let named = || Stage { path: path.clone(), temp: Stage::named(&path).unwrap(), error: Arc::default(), rows: 0 };
        let ways: [&dyn Fn() -> Stage; 2] = [&|| Stage::new(Some(path.clone())).unwrap(), &named];
        // The second takes the place of the first.
        for way in ways {
            put(way(), b"rows");
            witness.is_put(&path).unwrap();
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_under_way_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::new(Some(dir.path().join("out.csv"))).unwrap();
        stage.out().unwrap().write_all(b"half").unwrap();
        if matches!(stage.temp, Temp::Unnamed(..)) {
            assert!(names(dir.path()).is_empty());
        }
    }
}
