//! A disk for tests, on which a process is killed at one of its writes, a sync fails, and the power too.

use crate::disk::{self, Disk, DiskFile, Files, Folders};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vesica_program::on_disk;

/// What tells a file from the others.
type Id = (u64, u64);

/// Writes of a story at most.
const MOST_WRITES: u64 = 1000;

/// What has a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    File(Id),
    Folder,
}

/// The bytes of a file that are not those that a process reads.
struct Body {
    /// There for good.
    good: Vec<u8>,
    /// There for good once the next sync has returned. What was written before a sync that failed is not among them: the system calls it clean, and no
    /// later sync brings it to the disk.
    next: Vec<u8>,
    /// Nobody else gets its number while it is open.
    _file: File,
}

/// What of the files is there for good, of those that somebody has called by their names. It is the least that a disk may keep.
#[derive(Default)]
struct Good {
    /// Each path that was called, and what has it for good.
    names: BTreeMap<PathBuf, Option<Named>>,
    bodies: BTreeMap<Id, Body>,
    /// Writes that are still done.
    left: u64,
    /// The path whose name cannot be brought to the disk when that is next tried.
    name_fails: Option<PathBuf>,
    /// Whether the next file cannot be.
    sync_fails: bool,
}

/// What stands at a path.
fn at(path: &Path) -> Option<Named> {
    let is_folder = path.is_dir();
    if is_folder {
        Some(Named::Folder)
    } else {
        Files.read(path).and_then(|file| file.identity()).ok().map(Named::File)
    }
}

fn failed() -> io::Error {
    io::Error::other("the disk failed")
}

impl Good {
    /// Counts a write, which is not done if the process is dead.
    fn alive(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("the process was killed"))?;
        Ok(())
    }

    /// A path is called. What stood there before that is there for good.
    fn called(&mut self, path: &Path) -> io::Result<()> {
        if !self.names.contains_key(path) {
            let named = at(path);
            if let Some(Named::File(_)) = named {
                self.keep(File::open(path)?, fs::read(path)?)?;
            }
            self.names.insert(path.to_owned(), named);
        }
        Ok(())
    }

    /// A file is known from now on. If it was not before, it has these bytes for good.
    fn keep(&mut self, file: File, bytes: Vec<u8>) -> io::Result<Id> {
        let id = file.identity()?;
        self.bodies.entry(id).or_insert_with(|| Body { good: bytes.clone(), next: bytes, _file: file });
        Ok(id)
    }

    /// The bytes of a file that the next sync brings to the disk.
    fn next(&mut self, id: Id) -> &mut Vec<u8> {
        &mut self.bodies.get_mut(&id).expect("it was opened").next
    }

    fn wrote(&mut self, id: Id, bytes: &[u8], at: usize) {
        let (next, end) = (self.next(id), at + bytes.len());
        next.resize(next.len().max(end), 0);
        next[at..end].copy_from_slice(bytes);
    }
}

/// The disk, over real files: what stands there stays when the process is killed, and nothing is written after that.
pub struct Frail(Arc<Mutex<Good>>);

impl std::fmt::Debug for Frail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "killed after {} writes", self.left())
    }
}

fn locked(good: &Mutex<Good>) -> MutexGuard<'_, Good> {
    good.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Frail {
    /// A world with such a disk, on which so many writes are done.
    #[must_use]
    pub fn world(left: u64) -> (World, Arc<Self>) {
        let disk = Arc::new(Self(Arc::new(Mutex::new(Good { left, ..Good::default() }))));
        (World { disk: disk.clone(), ..World::default() }, disk)
    }

    /// Tells a story whose process is killed at its first write, then one whose process is killed at its second, and so on until one is not killed.
    /// The story says whether it was, and goes on with [`Frail::revive`]. It has the number of writes that were done.
    ///
    /// # Panics
    /// If there are fewer than `least` writes, so that what is to be tried did not happen; if it is killed again and again.
    pub fn at_each_write(least: u64, mut is_killed: impl FnMut(&World, &Self, u64) -> bool) {
        for writes in 0..MOST_WRITES {
            let (world, disk) = Self::world(writes);
            if !is_killed(&world, &disk, writes) {
                assert!(writes >= least, "{writes} writes, and {least} were to be tried");
                return;
            }
        }
        panic!("it is killed again and again");
    }

    /// Writes that are still done.
    #[must_use]
    pub fn left(&self) -> u64 {
        locked(&self.0).left
    }

    /// Another process begins, which does so many writes.
    pub fn revive(&self, left: u64) {
        locked(&self.0).left = left;
    }

    /// The name of this path cannot be brought to the disk when that is next tried. Where it is tried once more, it is brought there: a folder is kept
    /// by the journals of file systems, and not as bytes of which the system may forget that they are not on the disk.
    pub fn name_fails(&self, path: &Path) {
        locked(&self.0).name_fails = Some(path.to_owned());
    }

    /// The next file cannot be synced.
    pub fn sync_fails(&self) {
        locked(&self.0).sync_fails = true;
    }

    /// The machine loses its power, and has been started again: only what is there for good is there.
    ///
    /// # Panics
    /// If the folder of the test does not take files.
    pub fn power_fails(&self) {
        let mut good = locked(&self.0);
        let (names, bodies) = (std::mem::take(&mut good.names), std::mem::take(&mut good.bodies));
        let mut gone = BTreeSet::new();
        // A folder comes before what is in it.
        for (path, named) in names {
            match named {
                Some(Named::Folder) => {}
                None if path.is_dir() => {
                    fs::remove_dir_all(&path).expect("it can be removed");
                    gone.insert(path);
                }
                _ => {
                    // A new file: whoever has the old one open changes nothing here.
                    let _ = fs::remove_file(&path);
                    let is_gone = path.ancestors().any(|folder| gone.contains(folder));
                    if let Some(Named::File(id)) = named.filter(|_| !is_gone) {
                        let written = disk::open(&path).and_then(|mut file| file.write_all(&bodies[&id].good));
                        written.expect("it can be written");
                    }
                }
            }
        }
    }

    /// Whether all bytes of the file are there for good.
    #[must_use]
    pub fn is_synced(&self, path: &Path) -> bool {
        let (good, Some(Named::File(id))) = (locked(&self.0), at(path)) else { return false };
        good.bodies.get(&id).is_none_or(|body| fs::read(path).is_ok_and(|bytes| bytes == body.good))
    }

    /// Whether its name is there for good too, and the folders that it is in.
    #[must_use]
    pub fn is_for_good(&self, path: &Path) -> bool {
        let good = locked(&self.0);
        let has_name = |path: &Path| good.names.get(path).is_none_or(|named| named.is_some() && *named == at(path));
        let has_names = path.ancestors().all(has_name);
        drop(good);
        has_names && self.is_synced(path)
    }
}

impl Folders for Frail {
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let mut good = locked(&self.0);
        good.alive()?;
        good.called(path)?;
        Files.make_folder(path, mode)
    }

    fn is_folder(&self, path: &Path) -> bool {
        Files.is_folder(path)
    }

    fn sync_name(&self, path: &Path) -> io::Result<()> {
        let mut good = locked(&self.0);
        good.alive()?;
        if good.name_fails.take_if(|fails| fails == path).is_some() {
            return Err(failed());
        }
        fs::metadata(on_disk::folder(path))?;
        // It is the folder that is synced, with all names in it.
        let beside: Vec<PathBuf> = good.names.keys().filter(|name| name.parent() == path.parent()).cloned().collect();
        for name in beside {
            // What was put there past this disk is there for good.
            if let Some(Named::File(_)) = at(&name) {
                good.keep(File::open(&name)?, fs::read(&name)?)?;
            }
            good.names.insert(name.clone(), at(&name));
        }
        Ok(())
    }
}

impl Disk for Frail {
    fn has(&self, path: &Path) -> bool {
        Files.has(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut good = locked(&self.0);
        good.alive()?;
        good.called(path)?;
        let file = disk::open(path)?;
        // Opened once more: a copy of the same would share its lock.
        let id = good.keep(File::open(path)?, Vec::new())?;
        Ok(Box::new(FrailFile { file, id, good: self.0.clone() }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Files.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut good = locked(&self.0);
        good.alive()?;
        good.called(from)?;
        good.called(to)?;
        Files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut good = locked(&self.0);
        good.alive()?;
        good.called(path)?;
        Files.remove(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Files.list(folder)
    }
}

struct FrailFile {
    file: File,
    id: Id,
    good: Arc<Mutex<Good>>,
}

impl Read for FrailFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Write for FrailFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at = self.file.stream_position()?;
        let mut good = locked(&self.good);
        let alive = good.alive();
        // Half of a write has reached the file when the process is killed in it.
        let bytes = if alive.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        self.file.write_all(bytes)?;
        good.wrote(self.id, bytes, at as usize);
        alive.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for FrailFile {
    fn lock(&self) -> Result<(), TryLockError> {
        DiskFile::lock(&self.file)
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        self.file.identity()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        let mut good = locked(&self.good);
        good.alive()?;
        self.file.cut(size)?;
        good.next(self.id).truncate(size as usize);
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        DiskFile::read_exact_at(&self.file, bytes, at)
    }

    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut good = locked(&self.good);
        let alive = good.alive();
        let bytes = if alive.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        DiskFile::write_all_at(&mut self.file, bytes, at)?;
        good.wrote(self.id, bytes, at as usize);
        alive
    }

    fn sync(&self) -> io::Result<()> {
        let mut good = locked(&self.good);
        good.alive()?;
        let fails = std::mem::take(&mut good.sync_fails);
        let body = good.bodies.get_mut(&self.id).expect("it was opened");
        if fails {
            body.next.clone_from(&body.good);
            return Err(failed());
        }
        body.good.clone_from(&body.next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read, replace, rewrite};
    use vesica_program::on_disk::{make_folder, make_missing, sync_folder};

    /// A file that takes the place of another one is whole before it does.
    #[test]
    fn a_file_that_was_replaced_is_there_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let [new, path] = ["new", "file"].map(|name| dir.path().join(name));
        let (_, disk) = Frail::world(100);
        for text in [&b"one"[..], b"another"] {
            replace(&*disk, &new, &path, text).unwrap();
            assert!(disk.is_for_good(&path) && !new.exists());
            assert_eq!(fs::read(&path).unwrap(), text);
        }
        disk.power_fails();
        assert_eq!(fs::read(&path).unwrap(), b"another");
    }

    /// As it is on Linux: whoever comes after a sync that failed reads what was written, syncs it with success, and loses it.
    #[test]
    fn what_was_not_synced_is_lost_until_it_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let text: Vec<u8> = (0..150_000u32).map(|i| (i % 251) as u8).collect();
        for is_rewritten in [false, true] {
            let (_, disk) = Frail::world(100);
            replace(&*disk, &dir.path().join("new"), &path, &text[..3]).unwrap();
            let mut file = disk.open(&path).unwrap();
            file.write_all(&text).unwrap();
            disk.sync_fails();
            assert!(file.sync().is_err() && !disk.is_synced(&path));
            let mut file = disk.open(&path).unwrap();
            if is_rewritten {
                rewrite(&mut *file, 2..text.len() as u64).unwrap();
            }
            file.sync().unwrap();
            assert_eq!(disk.is_for_good(&path), is_rewritten);
            assert_eq!(fs::read(&path).unwrap(), text);
            disk.power_fails();
            assert_eq!(fs::read(&path).unwrap(), if is_rewritten { &text[..] } else { &text[..3] });
        }
    }

    #[test]
    fn a_file_that_was_removed_is_gone_for_good_when_its_name_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (_, disk) = Frail::world(100);
        replace(&*disk, &dir.path().join("new"), &path, b"text").unwrap();
        disk.remove(&path).unwrap();
        disk.power_fails();
        assert_eq!(read(&*disk, &path).unwrap().unwrap(), b"text");
        disk.remove(&path).unwrap();
        disk.sync_name(&path).unwrap();
        disk.power_fails();
        assert!(read(&*disk, &path).unwrap().is_none());
    }

    /// Whoever makes folders is killed at each step, and another one goes on.
    #[test]
    fn folders_are_there_for_good_with_what_is_in_them() {
        for is_one in [true, false] {
            // The folder above, and of each of three that it is made and named.
            Frail::at_each_write(7, |_, disk, writes| {
                let dir = tempfile::tempdir().unwrap();
                let folder = dir.path().join("one/two/three");
                let make = || match is_one {
                    true => make_folder(disk, &folder, 0o700),
                    // The last one may lack its name for good: who puts a file there sees to that.
                    false => make_missing(disk, &folder, 0o700),
                };
                let is_killed = make().is_err();
                disk.revive(100);
                make().unwrap();
                assert!(folder.is_dir());
                if !is_one {
                    sync_folder(disk, &folder).unwrap();
                }
                replace(disk, &folder.join("new"), &folder.join("file"), b"text").unwrap();
                assert!(disk.is_for_good(&folder.join("file")), "{writes} writes");
                disk.power_fails();
                assert!(folder.join("file").exists(), "{writes} writes");
                is_killed
            });
        }
    }

    /// A folder that this user may put files into and not read.
    #[test]
    fn a_folder_that_may_not_be_read_is_passed_over() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (mode, folder) = (|mode| fs::Permissions::from_mode(mode), dir.path().join("one/two"));
        fs::set_permissions(dir.path(), mode(0o300)).unwrap();
        make_folder(&Files, &folder, 0o700).unwrap();
        sync_folder(&Files, &dir.path().join("one")).unwrap();
        fs::set_permissions(dir.path(), mode(0o700)).unwrap();
        assert!(folder.is_dir());
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
