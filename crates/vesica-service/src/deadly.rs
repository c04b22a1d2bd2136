//! A disk on which a process is killed at one of its writes, and whose power may fail then.

use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vesica_job::World;
use vesica_job::worlds::{Disk, DiskFile};

/// What tells a file from the others.
type Id = (u64, u64);

/// What of the files is there for good, of those that somebody has called by their names. It is the least that a disk may keep, but that a
/// removed name is gone at once.
#[derive(Default)]
struct Good {
    /// Each path that was called, and the file that has it for good.
    names: BTreeMap<PathBuf, Option<Id>>,
    /// The bytes of each file, and the file: while it is open no other one gets its number.
    bytes: BTreeMap<Id, (Vec<u8>, Box<dyn DiskFile>)>,
}

impl Good {
    fn keep(&mut self, file: Box<dyn DiskFile>, bytes: Vec<u8>) -> io::Result<Id> {
        let id = file.identity()?;
        self.bytes.entry(id).or_insert((bytes, file));
        Ok(id)
    }
}

/// The disk, over real files: what stands there stays when the process is killed, and nothing is written after that.
pub struct Deadly {
    disk: Arc<dyn Disk>,
    /// Writes that are still done.
    left: Arc<AtomicU64>,
    good: Arc<Mutex<Good>>,
}

impl std::fmt::Debug for Deadly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "killed after {} writes", self.left())
    }
}

/// Counts a write, which is not done if the process is dead.
fn alive(left: &AtomicU64) -> io::Result<()> {
    let counted = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    counted.map(drop).map_err(|_| io::Error::other("the process was killed"))
}

impl Deadly {
    /// A world with such a disk, on which so many writes are done.
    pub fn world(left: u64) -> (World, Arc<Self>) {
        let (world, left) = (World::default(), Arc::new(AtomicU64::new(left)));
        let disk = Arc::new(Self { disk: world.disk.clone(), left, good: Arc::default() });
        (World { disk: disk.clone(), ..world }, disk)
    }

    /// Writes that are still done.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }

    /// Another process begins, which does so many writes.
    pub fn revive(&self, left: u64) {
        self.left.store(left, Ordering::SeqCst);
    }

    /// The machine loses its power, and has been started again: only what is there for good is there.
    pub fn power_fails(&self) {
        let Good { names, bytes } = std::mem::take(&mut *self.good.lock().unwrap());
        for (path, id) in names {
            // A new file: whoever has the old one open changes nothing here.
            let _ = fs::remove_file(&path);
            if let Some(id) = id {
                self.disk.open(&path).unwrap().write_all(&bytes[&id].0).unwrap();
            }
        }
    }

    /// A path is called. What stood there before that is there for good.
    fn called(&self, path: &Path) -> io::Result<()> {
        let mut good = self.good.lock().unwrap();
        if !good.names.contains_key(path) {
            let id = match self.disk.read(path) {
                Ok(file) => Some(good.keep(file, fs::read(path)?)?),
                Err(_) => None,
            };
            good.names.insert(path.to_owned(), id);
        }
        Ok(())
    }
}

impl Disk for Deadly {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.make_folder(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        alive(&self.left)?;
        self.called(path)?;
        let file = self.disk.open(path)?;
        let id = self.good.lock().unwrap().keep(self.disk.read(path)?, Vec::new())?;
        Ok(Box::new(DeadlyFile { file, id, left: self.left.clone(), good: self.good.clone() }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.read(path)
    }

    fn has(&self, path: &Path) -> bool {
        self.disk.has(path)
    }

    fn sync_name(&self, path: &Path) -> io::Result<()> {
        alive(&self.left)?;
        self.disk.sync_name(path)?;
        let mut good = self.good.lock().unwrap();
        // It is the folder that is synced, with all names in it.
        for (name, id) in good.names.iter_mut().filter(|(name, _)| name.parent() == path.parent()) {
            *id = self.disk.read(name).and_then(|file| file.identity()).ok();
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        alive(&self.left)?;
        self.called(from)?;
        self.called(to)?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        alive(&self.left)?;
        self.called(path)?;
        self.disk.remove(path)?;
        self.good.lock().unwrap().names.insert(path.to_owned(), None);
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(folder)
    }
}

struct DeadlyFile {
    file: Box<dyn DiskFile>,
    id: Id,
    left: Arc<AtomicU64>,
    good: Arc<Mutex<Good>>,
}

impl Read for DeadlyFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Write for DeadlyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = alive(&self.left) {
            // Half of it had reached the file.
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for DeadlyFile {
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
        alive(&self.left)?;
        self.file.cut(size)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        alive(&self.left)?;
        self.file.sync()?;
        let mut bytes = vec![0; self.file.size()? as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        self.good.lock().unwrap().bytes.get_mut(&self.id).expect("it was opened").0 = bytes;
        Ok(())
    }
}
