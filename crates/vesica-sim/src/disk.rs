//! A disk in memory. It knows what was written, what of it is on the disk for good, and which names are.

use crate::sim::{Dice, Seen};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::TryLockError;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use vesica_job::worlds::{Disk, DiskFile, Folders};

/// What a process does that brings a name to the disk.
pub const SYNC_NAME: &str = "sync the name of";

/// A file. It lives on without a name as long as somebody has it open.
#[derive(Default)]
struct Body {
    /// As processes see it.
    bytes: Vec<u8>,
    /// As it is there for good.
    synced: Vec<u8>,
    /// As it is there for good once it is synced. What was written before a sync that failed is not: no later sync brings it to the disk.
    next: Vec<u8>,
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
    /// Those that were removed, and still have their names for good.
    removed: BTreeMap<PathBuf, Shared>,
    /// Folders that processes made, and whether they are there for good.
    folders: BTreeMap<PathBuf, bool>,
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

impl Body {
    fn new(bytes: Vec<u8>, named: bool) -> Self {
        Self { synced: bytes.clone(), next: bytes.clone(), bytes, named, ..Self::default() }
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        for image in [&mut self.bytes, &mut self.next] {
            image.resize(image.len().max(at + bytes.len()), 0);
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
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
    /// may be gone, and so may a folder be; one that was removed may be there.
    pub fn crash(&mut self, dice: &mut Dice) {
        let (files, removed) = (std::mem::take(&mut self.files), std::mem::take(&mut self.removed));
        let mut renamed = Vec::new();
        for (path, file) in files {
            let mut now = body(&file);
            if let Some((before, from)) = now.instead.take() {
                if dice.percent(50) {
                    // It was renamed, and that is not there.
                    drop(now);
                    renamed.push((from, Some(file)));
                    renamed.push((path, before));
                    continue;
                }
                // It has the name of the other: one of them has it.
                now.named |= before.is_some_and(|before| body(&before).named);
            }
            if !now.named && dice.percent(50) {
                continue;
            }
            let kept = match now.next.strip_prefix(&now.synced[..]) {
                // It grew. How much of that is there depends on the dice alone, and not on how long a record is that holds what was found.
                Some(more) => {
                    let torn = match dice.below(12) {
                        0..4 => 0,
                        4..8 => more.len(),
                        part => more.len() * (part as usize - 7) / 5,
                    };
                    [&now.synced[..], &more[..torn]].concat()
                }
                None if dice.percent(50) => now.next.clone(),
                None => now.synced.clone(),
            };
            *now = Body::new(kept, true);
            drop(now);
            self.files.insert(path, file);
        }
        for (path, file) in renamed {
            let Some(file) = file else { continue };
            let synced = std::mem::take(&mut body(&file).synced);
            *body(&file) = Body::new(synced, true);
            self.files.insert(path, file);
        }
        for (path, file) in removed {
            if !self.files.contains_key(&path) && dice.percent(50) {
                let bytes = std::mem::take(&mut body(&file).synced);
                self.files.insert(path, Arc::new(Mutex::new(Body::new(bytes, true))));
            }
        }
        let mut gone = Vec::new();
        for (folder, named) in &mut self.folders {
            if !std::mem::replace(named, true) && dice.percent(50) {
                gone.push(folder.clone());
            }
        }
        // What was in a folder is gone with it.
        let is_there = |path: &Path| !gone.iter().any(|folder| path.starts_with(folder));
        self.files.retain(|path, _| is_there(path));
        self.folders.retain(|path, _| is_there(path));
    }

    /// A copy of the files as they are.
    pub fn copy(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.files.iter().map(|(path, file)| (path.clone(), body(file).bytes.clone())).collect()
    }

    /// The files are those of a copy again, and nobody has them open.
    pub fn put_back(&mut self, copy: &[(PathBuf, Vec<u8>)]) {
        let file = |bytes: &Vec<u8>| Arc::new(Mutex::new(Body::new(bytes.clone(), true)));
        self.files = copy.iter().map(|(path, bytes)| (path.clone(), file(bytes))).collect();
        self.folders = copy.iter().filter_map(|(path, _)| Some((path.parent()?.to_owned(), true))).collect();
        self.removed.clear();
    }

    /// Everything is gone: the party has forgotten its run.
    pub fn wipe(&mut self) {
        (self.files, self.removed, self.folders) = Default::default();
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

impl Folders for Seen {
    fn make_folder(&self, path: &Path, _: u32) -> io::Result<()> {
        self.touches("make", path);
        let party = self.party();
        match self.sim.lock().disks[party].folders.entry(path.to_owned()) {
            Entry::Vacant(folder) => drop(folder.insert(false)),
            Entry::Occupied(_) => return Err(ErrorKind::AlreadyExists.into()),
        }
        Ok(())
    }

    fn is_folder(&self, path: &Path) -> bool {
        let party = self.party();
        // Folders of real files are there too.
        self.sim.lock().disks[party].folders.contains_key(path) || path.is_dir()
    }

    fn sync_name(&self, path: &Path) -> io::Result<()> {
        self.touches(SYNC_NAME, path);
        let party = self.party();
        // It is the folder that is synced, with all names in it.
        let is_beside = |other: &Path| other.parent() == path.parent();
        let disk = &mut self.sim.lock().disks[party];
        for (_, file) in disk.files.iter().filter(|(other, _)| is_beside(other)) {
            let mut file = body(file);
            (file.named, file.instead) = (true, None);
        }
        disk.removed.retain(|other, _| !is_beside(other));
        disk.folders.iter_mut().filter(|(other, _)| is_beside(other)).for_each(|(_, named)| *named = true);
        Ok(())
    }
}

impl Disk for Seen {
    fn has(&self, path: &Path) -> bool {
        let party = self.party();
        let disk = &self.sim.lock().disks[party];
        // Folders of real files are there too.
        disk.files.contains_key(path) || disk.folders.contains_key(path) || path.is_dir()
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
        let mut state = self.sim.lock();
        let disk = &mut state.disks[party];
        let file = disk.files.remove(path).ok_or(ErrorKind::NotFound)?;
        let instead = body(&file).instead.take();
        let named = body(&file).named;
        // What has the name for good is there again when the power fails.
        let (before, from) = instead.map_or((None, path.to_owned()), |(before, from)| (before, from));
        disk.removed.extend(before.map(|before| (path.to_owned(), before)));
        disk.removed.extend(named.then_some((from, file)));
        state.case.removed(party, path);
        Ok(())
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
        body(&self.file).write(&bytes[..n], self.at);
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
        let mut file = body(&self.file);
        file.bytes.resize(size as usize, 0);
        file.next.truncate(size as usize);
        self.at = size as usize;
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let file = body(&self.file);
        let there = file.bytes.get(at as usize..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(there.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let behind = std::mem::replace(&mut self.at, at as usize);
        let written = self.write_all(bytes);
        self.at = behind;
        written
    }

    fn sync(&self) -> io::Result<()> {
        self.of.touches("sync", Path::new(""));
        let mut state = self.of.sim.lock();
        let disk = &mut state.disks[self.party];
        if disk.failing > 0 {
            (disk.failing, disk.failed) = (disk.failing - 1, true);
            let mut file = body(&self.file);
            file.next = file.synced.clone();
            return Err(io::Error::other("the disk failed"));
        }
        drop(state);
        let mut file = body(&self.file);
        file.synced = file.next.clone();
        Ok(())
    }
}
