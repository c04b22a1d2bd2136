//! A disk in memory. It knows what was written, what of it is on the disk for good, and which names are.

use crate::sim::{Dice, Seen};
use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use vesica_job::worlds::{Disk, DiskFile};

/// What a process does that brings a name to the disk.
pub const SYNC_NAME: &str = "sync the name of";

/// A file. It lives on without a name as long as somebody has it open.
#[derive(Default)]
struct Body {
    /// As processes see it.
    bytes: Vec<u8>,
    /// As it is there for good.
    synced: Vec<u8>,
    /// Whether it has a name for good.
    named: bool,
    /// The file that has its name for good, and the name that this one has for good, if that is another one.
    instead: Option<(Option<Shared>, PathBuf)>,
    /// The process that has locked it.
    locked: Option<usize>,
}

type Shared = Arc<Mutex<Body>>;

/// The files of a party, which outlive its processes.
#[derive(Default)]
pub struct FileSystem {
    files: BTreeMap<PathBuf, Shared>,
    /// The next so many writes fail, for want of room.
    pub full: u32,
    /// Whether one of them has written its first half.
    half: bool,
    /// Whoever is next about to sync a name is killed.
    pub unnamed: bool,
    /// The next so many syncs fail.
    pub failing: u32,
    /// Whether either ever did.
    pub failed: bool,
}

fn body(file: &Shared) -> std::sync::MutexGuard<'_, Body> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileSystem {
    /// The locks of a process that is gone are free.
    pub fn released(&mut self, process: usize) {
        for file in self.files.values() {
            let mut file = body(file);
            file.locked = file.locked.filter(|holder| *holder != process);
        }
    }

    /// The power fails: of what was not synced some of the first bytes are there, or all of them, or none. A file whose name was not synced
    /// may be gone.
    pub fn crash(&mut self, dice: &mut Dice) {
        let files = std::mem::take(&mut self.files);
        let mut renamed = Vec::new();
        for (path, file) in files {
            let mut now = body(&file);
            if let Some((before, from)) = now.instead.take()
                && dice.percent(50)
            {
                // It was renamed, and that is not there.
                drop(now);
                renamed.push((from, Some(file)));
                renamed.push((path, before));
                continue;
            }
            if !now.named && dice.percent(50) {
                continue;
            }
            let kept = match now.bytes.strip_prefix(&now.synced[..]) {
                // It grew. How much of that is there depends on the dice alone, and not on how long a record is that holds what was found.
                Some(more) => {
                    let torn = match dice.below(12) {
                        0..4 => 0,
                        4..8 => more.len(),
                        part => more.len() * (part as usize - 7) / 5,
                    };
                    [&now.synced[..], &more[..torn]].concat()
                }
                None if dice.percent(50) => now.bytes.clone(),
                None => now.synced.clone(),
            };
            (now.bytes, now.synced, now.named, now.locked) = (kept.clone(), kept, true, None);
            drop(now);
            self.files.insert(path, file);
        }
        for (path, file) in renamed {
            let Some(file) = file else { continue };
            let mut now = body(&file);
            (now.bytes, now.named, now.locked) = (now.synced.clone(), true, None);
            drop(now);
            self.files.insert(path, file);
        }
    }

    /// A copy of the files as they are.
    pub fn copy(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.files.iter().map(|(path, file)| (path.clone(), body(file).bytes.clone())).collect()
    }

    /// The files are those of a copy again, and nobody has them open.
    pub fn put_back(&mut self, copy: &[(PathBuf, Vec<u8>)]) {
        let file =
            |bytes: &Vec<u8>| Body { bytes: bytes.clone(), synced: bytes.clone(), named: true, ..Body::default() };
        self.files = copy.iter().map(|(path, bytes)| (path.clone(), Arc::new(Mutex::new(file(bytes))))).collect();
    }

    /// Everything is gone: the party has forgotten its run.
    pub fn wipe(&mut self) {
        self.files.clear();
    }
}

/// A file that a process has open.
struct Open {
    of: Seen,
    party: usize,
    file: Shared,
    at: usize,
}

impl Seen {
    fn party(&self) -> usize {
        self.sim.lock().processes[self.process].party
    }

    /// A call of the disk. The process may be killed just before it, and the thread does not come back then.
    fn touches(&self, what: &str, path: &Path) {
        self.sim.lock().case_touched(self.process, what, path);
        self.sim.survive(self.process);
    }
}

impl Disk for Seen {
    fn make_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.touches("open", path);
        let party = self.party();
        let file = self.sim.lock().disks[party].files.entry(path.to_owned()).or_default().clone();
        Ok(Box::new(Open { of: self.clone(), party, file, at: 0 }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.touches("read", path);
        let party = self.party();
        let file = self.sim.lock().disks[party].files.get(path).cloned().ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(Open { of: self.clone(), party, file, at: 0 }))
    }

    fn has(&self, path: &Path) -> bool {
        let party = self.party();
        self.sim.lock().disks[party].files.contains_key(path)
    }

    fn sync_name(&self, path: &Path) -> io::Result<()> {
        self.touches(SYNC_NAME, path);
        let party = self.party();
        // It is the folder that is synced, with all names in it.
        let is_beside = |other: &Path| other.parent() == path.parent();
        for (_, file) in self.sim.lock().disks[party].files.iter().filter(|(other, _)| is_beside(other)) {
            let mut file = body(file);
            (file.named, file.instead) = (true, None);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.touches("rename", from);
        let party = self.party();
        let mut state = self.sim.lock();
        let files = &mut state.disks[party].files;
        let file = files.remove(from).ok_or(ErrorKind::NotFound)?;
        let before = files.insert(to.to_owned(), file.clone());
        body(&file).instead = Some((before, from.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.touches("remove", path);
        let party = self.party();
        self.sim.lock().disks[party].files.remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.touches("list", folder);
        let party = self.party();
        let state = self.sim.lock();
        Ok(state.disks[party].files.keys().filter(|path| path.parent() == Some(folder)).cloned().collect())
    }
}

impl Read for Open {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let file = body(&self.file);
        let rest = file.bytes.get(self.at..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.of.touches("write", Path::new(""));
        let mut state = self.of.sim.lock();
        let disk = &mut state.disks[self.party];
        // The first call that finds no room writes a half, and the next one fails.
        let n = match disk.full {
            0 => bytes.len(),
            _ if !std::mem::replace(&mut disk.half, true) => bytes.len().div_ceil(2),
            _ => {
                (disk.full, disk.failed, disk.half) = (disk.full - 1, true, false);
                return Err(ErrorKind::StorageFull.into());
            }
        };
        let mut file = body(&self.file);
        file.bytes.truncate(self.at);
        file.bytes.extend_from_slice(&bytes[..n]);
        self.at += n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for Open {
    fn lock(&self) -> Result<(), TryLockError> {
        let mut file = body(&self.file);
        match file.locked {
            Some(holder) if holder != self.of.process => Err(TryLockError::WouldBlock),
            _ => {
                file.locked = Some(self.of.process);
                Ok(())
            }
        }
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((self.party as u64, Arc::as_ptr(&self.file).addr() as u64))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(body(&self.file).bytes.len() as u64)
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.of.touches("cut", Path::new(""));
        body(&self.file).bytes.resize(size as usize, 0);
        self.at = size as usize;
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let file = body(&self.file);
        let there = file.bytes.get(at as usize..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(there.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.of.touches("sync", Path::new(""));
        let mut state = self.of.sim.lock();
        let disk = &mut state.disks[self.party];
        if disk.failing > 0 {
            (disk.failing, disk.failed) = (disk.failing - 1, true);
            return Err(io::Error::other("the disk failed"));
        }
        drop(state);
        let mut file = body(&self.file);
        file.synced = file.bytes.clone();
        Ok(())
    }
}
