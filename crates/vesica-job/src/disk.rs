//! The disk as an argument: what a ledger, a budget, a window and what is kept beside them need of it, and no more.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vesica_net::Time;

/// Bytes that are written over themselves at a time.
const PIECE: u64 = 1 << 16;

/// A disk. Nobody but the owner may read the files that are made on it.
pub trait Disk: Debug + Send + Sync {
    /// Makes a folder in one that is there, with a mode of which the system takes what it takes of all. [`make_folders`] does what else belongs to it.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::AlreadyExists`].
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()>;

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

    /// Whether there is such a file or folder.
    fn has(&self, path: &Path) -> bool;

    /// Puts the name of the new file at `path` on the disk: synced alone, a file may be whole and have no name after a crash. And of a file that was
    /// removed there, that it was.
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

    /// Removes the file. It may be there again after a crash, until [`Disk::sync_name`] has returned.
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

/// Makes a folder, and those that it is in, where they are not there. On return those that this made are there for good. A folder that was there
/// may be one of somebody who was killed just before that: [`sync_folder`].
///
/// # Errors
/// Those of the system.
pub fn make_folders(disk: &dyn Disk, path: &Path, mode: u32) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !disk.has(folder);
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    // Who made the folder that they are in may have been killed before it was there for good.
    missing.last().and_then(|folder| folder.parent()).map_or(Ok(()), |folder| sync_folder(disk, folder))?;
    for folder in missing.into_iter().rev() {
        match disk.make_folder(folder, mode) {
            // Somebody else makes it too.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && disk.has(folder) => {}
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
pub fn sync_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
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

/// The system's files.
#[derive(Clone, Copy, Debug)]
pub struct Files;

impl Disk for Files {
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open(path)?))
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

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
