//! The disk as an argument: what a ledger, a budget, a window and what is kept beside them need of it, and no more.

use std::fmt::Debug;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vesica_net::Time;
pub use vesica_program::on_disk::{Files, Folders};

/// Bytes that are written over themselves at a time.
const PIECE: u64 = 1 << 16;

/// A disk. Nobody but the owner may read the files that are made on it.
pub trait Disk: Folders + Debug + Send + Sync {
    /// Whether there is such a file or folder.
    fn has(&self, path: &Path) -> bool;

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

    /// Gives the file at `from` the name `to`, in the place of a file that has it. Which of them has it after a crash is known when
    /// [`Folders::sync_name`] has returned.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file. It may be there again after a crash, until [`Folders::sync_name`] has returned.
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

/// Writes bytes of a file over themselves, so that the next sync brings them to the disk. Whoever finds bytes does not know whether a sync failed
/// that was to do so. Of such bytes the system forgets that they are not on the disk, while all read them; and the next sync, which has nothing to
/// do, says that all is well. A crash in the middle does no harm, for what is written is what is there.
///
/// # Errors
/// Those of the system; the file's end.
pub fn rewrite(file: &mut dyn DiskFile, bytes: Range<u64>) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min(bytes.end.saturating_sub(bytes.start)) as usize];
    let mut at = bytes.start;
    while at < bytes.end {
        let n = PIECE.min(bytes.end - at);
        let piece = &mut piece[..n as usize];
        file.read_exact_at(piece, at)?;
        file.write_all_at(piece, at)?;
        at += n;
    }
    Ok(())
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

    /// Writes at a place, wherever reading and writing stand.
    ///
    /// # Errors
    /// Those of the system.
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// On return the bytes of the file are there for good, but for those that were written before a sync that failed: see [`rewrite`].
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&self) -> io::Result<()>;
}

/// Opens one of the system's files to be read and written, and makes it for the owner alone if it is not there.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

impl Disk for Files {
    fn has(&self, path: &Path) -> bool {
        path.exists()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open(path)?))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(path)?))
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

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
