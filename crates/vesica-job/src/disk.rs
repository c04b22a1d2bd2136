//! The disk as an argument: what a ledger, a budget, a window and what is kept beside them need of it, and no more.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vesica_net::Time;

/// A disk. Nobody but the owner may read what is made on it.
pub trait Disk: Debug + Send + Sync {
    /// Makes the folder, and those that it is in.
    ///
    /// # Errors
    /// Those of the system.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Opens a file to be read and written, and makes it if it is not there.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there, to be read.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Whether there is such a file.
    fn has(&self, path: &Path) -> bool;

    /// Puts the name of the new file at `path` on the disk: synced alone, a file may be whole and have no name after a crash.
    ///
    /// # Errors
    /// Those of its folder.
    fn sync_name(&self, path: &Path) -> io::Result<()>;

    /// Gives the file at `from` the name `to`, in the place of a file that has it. Which of them has it after a crash is known when
    /// [`Disk::sync_name`] has returned.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The files of a folder, in no order.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// Puts a file with these bytes at `path`, and gives it back, open behind them. On return it is there for good; before, an older one is,
/// where there was one. `new` is the name that it has until it is whole.
///
/// # Errors
/// Those of the system.
pub fn replace(disk: &dyn Disk, new: &Path, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn DiskFile>> {
    // Whoever began one and was killed left it there.
    match disk.remove(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = disk.open(new)?;
    file.write_all(bytes)?;
    file.sync()?;
    disk.rename(new, path)?;
    disk.sync_name(path)?;
    Ok(file)
}

/// All bytes of a file; none if there is no file.
///
/// # Errors
/// Those of the system.
pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match disk.read(path) {
        Ok(mut file) => file.read_to_end(&mut bytes).map(|_| Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks a file, which other processes hold for a moment at most: whether they did, or `stop` said that it is no longer waited for.
///
/// # Errors
/// Those of the system.
pub fn lock(file: &dyn DiskFile, time: &dyn Time, moment: Duration, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let began = time.now();
    loop {
        match file.lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if !stop() && time.now().saturating_duration_since(began) < moment => {
                // Who has it needs it for a write or two.
                time.sleep((moment / 50).min(Duration::from_millis(20)), stop);
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// A file on a [`Disk`]. What is written and not synced may be gone after a crash, or a part of it.
pub trait DiskFile: Read + Write + Send + Sync {
    /// Locks the file as long as this lives.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if another process has locked it.
    fn lock(&self) -> Result<(), TryLockError>;

    /// What tells the file from all others that are there now, whatever their names are: its device and its number on that.
    ///
    /// # Errors
    /// Those of the system.
    fn identity(&self) -> io::Result<(u64, u64)>;

    /// Bytes of the file.
    ///
    /// # Errors
    /// Those of the system.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file behind its first `size` bytes, and goes on there.
    ///
    /// # Errors
    /// Those of the system.
    fn cut(&mut self, size: u64) -> io::Result<()>;

    /// Reads at a place, wherever reading and writing stand.
    ///
    /// # Errors
    /// Those of the system; the file's end.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// On return the bytes of the file are there for good.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&self) -> io::Result<()>;
}

/// The system's files.
#[derive(Clone, Copy, Debug)]
pub struct Files;

impl Disk for Files {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        Ok(Box::new(options.open(path)?))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn has(&self, path: &Path) -> bool {
        path.exists()
    }

    fn sync_name(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().expect("a file in a folder");
        File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    }
}

impl DiskFile for File {
    fn lock(&self) -> Result<(), TryLockError> {
        self.try_lock()
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        let metadata = self.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)?;
        self.seek(SeekFrom::Start(size)).map(drop)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A disk that says what on it would outlive a failure of power.
#[cfg(test)]
pub mod told {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    #[derive(Debug, Default)]
    struct Lacks {
        /// Files that were written since they were synced.
        bytes: BTreeSet<PathBuf>,
        /// Names that were given since their folder was synced.
        names: BTreeSet<PathBuf>,
        /// Whether the next name cannot be synced, and the next file.
        fails: bool,
        sync_fails: bool,
    }

    /// Real files, and what they lack.
    #[derive(Debug, Default)]
    pub struct Told(Arc<Mutex<Lacks>>);

    impl Told {
        /// The next name cannot be brought to the disk.
        pub fn name_fails(&self) {
            self.0.lock().unwrap().fails = true;
        }

        /// The next file cannot be synced.
        pub fn sync_fails(&self) {
            self.0.lock().unwrap().sync_fails = true;
        }

        /// Whether all bytes of the file are there for good.
        pub fn is_synced(&self, path: &Path) -> bool {
            path.exists() && !self.0.lock().unwrap().bytes.contains(path)
        }

        /// Whether its name is there for good too.
        pub fn is_for_good(&self, path: &Path) -> bool {
            self.is_synced(path) && !self.0.lock().unwrap().names.contains(path)
        }
    }

    impl Disk for Told {
        fn make_folder(&self, path: &Path) -> io::Result<()> {
            Files.make_folder(path)
        }

        fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            if !path.exists() {
                self.0.lock().unwrap().names.insert(path.to_owned());
            }
            Ok(Box::new(ToldFile { file: Files.open(path)?, path: path.to_owned(), lacks: self.0.clone() }))
        }

        fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            Files.read(path)
        }

        fn has(&self, path: &Path) -> bool {
            Files.has(path)
        }

        fn sync_name(&self, path: &Path) -> io::Result<()> {
            let mut lacks = self.0.lock().unwrap();
            if std::mem::take(&mut lacks.fails) {
                return Err(io::Error::other("the disk failed"));
            }
            lacks.names.retain(|name| name.parent() != path.parent());
            Files.sync_name(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            let mut lacks = self.0.lock().unwrap();
            lacks.names.remove(from);
            lacks.names.insert(to.to_owned());
            if lacks.bytes.remove(from) {
                lacks.bytes.insert(to.to_owned());
            } else {
                lacks.bytes.remove(to);
            }
            Files.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            Files.remove(path)
        }

        fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
            Files.list(folder)
        }
    }

    struct ToldFile {
        file: Box<dyn DiskFile>,
        path: PathBuf,
        lacks: Arc<Mutex<Lacks>>,
    }

    impl Read for ToldFile {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.file.read(bytes)
        }
    }

    impl Write for ToldFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.lacks.lock().unwrap().bytes.insert(self.path.clone());
            self.file.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    impl DiskFile for ToldFile {
        fn lock(&self) -> Result<(), TryLockError> {
            self.file.lock()
        }

        fn identity(&self) -> io::Result<(u64, u64)> {
            self.file.identity()
        }

        fn size(&self) -> io::Result<u64> {
            self.file.size()
        }

        fn cut(&mut self, size: u64) -> io::Result<()> {
            self.lacks.lock().unwrap().bytes.insert(self.path.clone());
            self.file.cut(size)
        }

        fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            self.file.read_exact_at(bytes, at)
        }

        fn sync(&self) -> io::Result<()> {
            let mut lacks = self.lacks.lock().unwrap();
            if std::mem::take(&mut lacks.sync_fails) {
                return Err(io::Error::other("the disk failed"));
            }
            lacks.bytes.remove(&self.path);
            self.file.sync()
        }
    }

    /// A file that takes the place of another one is whole before it does.
    #[test]
    fn a_file_that_was_replaced_is_there_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let [new, path] = ["new", "file"].map(|name| dir.path().join(name));
        let told = Told::default();
        for text in [&b"one"[..], b"another"] {
            replace(&told, &new, &path, text).unwrap();
            assert!(told.is_for_good(&path) && !new.exists());
            assert_eq!(fs::read(&path).unwrap(), text);
        }
    }
}
