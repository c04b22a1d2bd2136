//! What would be there after a failure of power.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vesica_program::on_disk::{self, Synced};

/// A file or a folder, whatever it is called: its device and its number there.
type Id = (u64, u64);

/// A folder whose files are watched, and what was brought to the disk of them, in this order. It is for the tests of all crates whose files no
/// simulated disk keeps, and knows nothing of a sync that does not go through [`on_disk`].
pub struct Witness(PathBuf);

/// What was brought to the disk, as it was just before.
struct Seen {
    id: Id,
    /// Nobody else gets its number.
    _open: File,
    /// What it was called.
    path: PathBuf,
    of: Of,
}

enum Of {
    /// A file with bytes of this hash, last written at this time.
    File(u64, (i64, i64)),
    /// A folder with these names.
    Folder(BTreeMap<OsString, Id>),
}

/// A folder that is watched.
struct Watched {
    folder: PathBuf,
    seen: Vec<Seen>,
    /// Folders that were in it before, which nobody else gets the numbers of.
    before: BTreeMap<Id, File>,
}

/// All of them. By path, as writers have threads of their own.
static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

fn watched() -> MutexGuard<'static, Vec<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    /// Watches all that is in `folder` and below, from here on.
    pub fn of(folder: &Path) -> Self {
        on_disk::witness(see);
        let folder = folder.canonicalize().expect("a folder");
        let mut all = watched();
        assert!(all.iter().all(|watched| watched.folder != folder), "each folder has one witness");
        all.push(Watched { folder: folder.clone(), seen: Vec::new(), before: BTreeMap::from_iter(folders(&folder)) });
        Self(folder)
    }

    /// Forgets what it has seen. The folders that there are were there before from here on.
    pub fn forget(&self) {
        self.on(|watched| {
            watched.seen.clear();
            watched.before = BTreeMap::from_iter(folders(&watched.folder));
        });
    }

    /// Fails unless the file or the folder was put where it is for good: it was whole on the disk under another name or none, and later its name
    /// was there, and those of all new folders that it is in. All of a folder was before its folder had this name.
    ///
    /// # Errors
    /// What would be there after a failure of power, or could be after one at some moment.
    pub fn is_put(&self, path: &Path) -> Result<(), String> {
        self.on(|watched| whole(&watched.seen, path, true).and_then(|at| watched.named(path, at)))
    }

    /// Fails unless the file was made for good: it has its bytes, and later its name, which it may have had when it had no bytes yet.
    ///
    /// # Errors
    /// What would be there after a failure of power.
    pub fn is_made(&self, path: &Path) -> Result<(), String> {
        self.on(|watched| whole(&watched.seen, path, false).and_then(|at| watched.named(path, at)))
    }

    /// Fails unless the bytes of the file were brought to the disk before it got its name. Whether that is there is another question.
    ///
    /// # Errors
    /// As [`Witness::is_put`] has.
    pub fn is_whole(&self, path: &Path) -> Result<(), String> {
        self.on(|watched| whole(&watched.seen, path, true).map(drop))
    }

    /// Fails unless what the path calls has its name for good, and so have the new folders that it is in.
    ///
    /// # Errors
    /// As [`Witness::is_put`] has.
    pub fn is_named(&self, path: &Path) -> Result<(), String> {
        self.on(|watched| watched.named(path, 0))
    }

    fn on<T>(&self, ask: impl FnOnce(&mut Watched) -> T) -> T {
        ask(watched().iter_mut().find(|watched| watched.folder == self.0).expect("a witness"))
    }
}

impl Watched {
    /// Fails unless the path called on the disk what it calls now, at `from` or later, and the new folders that it is in have their names.
    fn named(&self, path: &Path, from: usize) -> Result<(), String> {
        named(&self.seen, path, from)?;
        let this = id(&there(&self.folder)?);
        for folder in path.ancestors().skip(1) {
            let at = id(&there(folder)?);
            if at == this || self.before.contains_key(&at) {
                return Ok(());
            }
            named(&self.seen, folder, 0)?;
        }
        Err(format!("{}: it is not in {}", path.display(), self.folder.display()))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        watched().retain(|watched| watched.folder != self.0);
    }
}

/// Keeps what is brought to the disk, if it is watched. What others do meanwhile may be there or not.
fn see(synced: Synced<'_>, bring: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    let (Synced::Contents(open) | Synced::Names(open, _)) = synced;
    let path = called(open).filter(|path| watched().iter().any(|watched| path.starts_with(&watched.folder)));
    let seen = path.map(|path| look(&synced, open, path)).transpose()?;
    bring()?;
    if let Some(seen) = seen
        && let Some(watched) = watched().iter_mut().find(|watched| seen.path.starts_with(&watched.folder))
    {
        watched.seen.push(seen);
    }
    Ok(())
}

fn look(synced: &Synced<'_>, open: &File, path: PathBuf) -> io::Result<Seen> {
    let (meta, at) = (open.metadata()?, opened(open));
    let of = match synced {
        Synced::Contents(_) => Of::File(hash(&at)?, written(&meta)),
        Synced::Names(..) => Of::Folder(names(&at)),
    };
    // Opened once more: a copy of the same would share its lock.
    Ok(Seen { id: id(&meta), _open: File::open(at)?, path, of })
}

/// A path to an open file, whatever it is called.
fn opened(open: &File) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_raw_fd()).into()
}

/// What an open file is called; of one without a name, a name that none has.
fn called(open: &File) -> Option<PathBuf> {
    fs::read_link(opened(open)).ok()
}

/// A hash of the file's bytes.
fn hash(path: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(path)?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// The folders in a folder, and in those.
fn folders(folder: &Path) -> Vec<(Id, File)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let inside = entries.filter(|entry| entry.file_type().is_ok_and(|what| what.is_dir()));
    let of = |entry: fs::DirEntry| {
        let mut all = folders(&entry.path());
        all.extend(File::open(entry.path()).and_then(|open| Ok((id(&open.metadata()?), open))).ok());
        all
    };
    inside.flat_map(of).collect()
}

fn written(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

/// The names that a folder has.
fn names(folder: &Path) -> BTreeMap<OsString, Id> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry of a folder"));
    // What another thread removes meanwhile has no name.
    entries.filter_map(|entry| Some((entry.file_name(), id(&entry.metadata().ok()?)))).collect()
}

/// What the path calls.
fn there(path: &Path) -> Result<Metadata, String> {
    fs::symlink_metadata(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// From where on all that the path calls was whole on the disk, `before` it had its name.
fn whole(seen: &[Seen], path: &Path, before: bool) -> Result<usize, String> {
    let meta = there(path)?;
    let inside = if meta.is_dir() { names(path) } else { BTreeMap::new() };
    let mut last = 0;
    for name in inside.keys() {
        let path = path.join(name);
        let at = whole(seen, &path, before)?;
        last = last.max(named(seen, &path, at)?);
    }
    let bytes =
        if meta.is_file() { Some(hash(path).map_err(|why| format!("{}: {why}", path.display()))?) } else { None };
    let is_whole = |seen: &Seen| match &seen.of {
        Of::File(hash, at) => bytes == Some(*hash) && *at == written(&meta),
        Of::Folder(names) => meta.is_dir() && *names == inside,
    };
    let mut times = seen.iter().enumerate().filter(|(_, seen)| seen.id == id(&meta) && is_whole(seen)).peekable();
    if times.peek().is_none() {
        return Err(format!("{}: what is in it was not brought to the disk", path.display()));
    }
    match times.find(|(_, seen)| !before || seen.path.file_name() != path.file_name()) {
        Some((at, _)) => Ok(at.max(last)),
        None => Err(format!("{}: it had its name before what is in it was on the disk", path.display())),
    }
}

/// From where on, at `from` or later, the path called on the disk what it calls now.
fn named(seen: &[Seen], path: &Path, from: usize) -> Result<usize, String> {
    let (what, above) = (id(&there(path)?), id(&there(&on_disk::folder(path))?));
    let has_it = |seen: &Seen| match &seen.of {
        Of::Folder(names) => seen.id == above && path.file_name().is_some_and(|name| names.get(name) == Some(&what)),
        Of::File(..) => false,
    };
    let at = seen.iter().enumerate().skip(from).find(|(_, seen)| has_it(seen)).map(|(at, _)| at);
    at.ok_or_else(|| format!("{}: its name was not brought to the disk", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Each step that is left out, or comes too late, is missed.
    #[test]
    fn what_is_not_brought_to_the_disk_in_time_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let [new, path] = ["new", "file"].map(|name| dir.path().join(name));
        let witness = Witness::of(dir.path());
        let begin = || {
            witness.forget();
            let mut file = File::create(&new).unwrap();
            file.write_all(b"text").unwrap();
            file
        };
        let rename = || fs::rename(&new, &path).unwrap();
        let put = || witness.is_put(&path).map_err(|why| why.split_once(": ").unwrap().1.to_owned());

        assert!(put().is_err());
        on_disk::contents(&begin()).unwrap();
        rename();
        assert_eq!(put().unwrap_err(), "its name was not brought to the disk");
        witness.is_whole(&path).unwrap();
        on_disk::name(&path).unwrap();
        put().unwrap();
        // Another file in its place.
        let _ = begin();
        rename();
        on_disk::name(&path).unwrap();
        assert_eq!(put().unwrap_err(), "what is in it was not brought to the disk");
        witness.is_named(&path).unwrap();
        // The name first.
        let file = begin();
        rename();
        on_disk::contents(&file).unwrap();
        on_disk::name(&path).unwrap();
        assert_eq!(put().unwrap_err(), "it had its name before what is in it was on the disk");
        witness.is_made(&path).unwrap();
        // More was written.
        let mut file = begin();
        on_disk::contents(&file).unwrap();
        file.write_all(b"more").unwrap();
        rename();
        on_disk::name(&path).unwrap();
        assert_eq!(put().unwrap_err(), "what is in it was not brought to the disk");
        assert!(witness.is_made(&path).is_err() && witness.is_whole(&path).is_err());
    }

    /// Also of the same length, and within the same moment.
    #[test]
    fn other_bytes_are_told_from_those_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let witness = Witness::of(dir.path());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"text").unwrap();
        on_disk::contents(&file).unwrap();
        on_disk::name(&path).unwrap();
        witness.is_made(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"n", 0).unwrap();
        assert!(witness.is_made(&path).is_err());
    }

    #[test]
    fn new_folders_have_their_names_too() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("old/older")).unwrap();
        let witness = Witness::of(dir.path());
        let folder = dir.path().join("old/older/new");
        fs::create_dir_all(folder.join("newer")).unwrap();
        let path = folder.join("newer/file");
        on_disk::contents(&File::create(&path).unwrap()).unwrap();
        on_disk::name(&path).unwrap();
        let missing = || witness.is_made(&path).unwrap_err();
        assert!(missing().contains("newer: its name was not"), "{}", missing());
        on_disk::name(&folder.join("newer")).unwrap();
        assert!(missing().contains("new: its name was not"), "{}", missing());
        on_disk::name(&folder).unwrap();
        witness.is_made(&path).unwrap();
        witness.forget();
        assert!(witness.is_named(&path).is_err());
        on_disk::name(&path).unwrap();
        witness.is_named(&path).unwrap();
    }

    #[test]
    fn a_folder_is_whole_with_all_that_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let [new, place] = ["new", "folder"].map(|name| dir.path().join(name));
        let witness = Witness::of(dir.path());
        fs::create_dir(&new).unwrap();
        let file = File::create(new.join(".part")).unwrap();
        on_disk::contents(&file).unwrap();
        fs::rename(new.join(".part"), new.join("part")).unwrap();
        on_disk::name(&new.join("part")).unwrap();
        fs::create_dir(new.join("mark")).unwrap();
        fs::remove_dir(new.join("mark")).unwrap();
        fs::rename(&new, &place).unwrap();
        assert!(witness.is_put(&place).unwrap_err().ends_with("its name was not brought to the disk"));
        on_disk::name(&place).unwrap();
        witness.is_put(&place).unwrap();
        // What came since its names were synced is not there.
        fs::create_dir(place.join("mark")).unwrap();
        assert!(witness.is_put(&place).unwrap_err().contains("mark: what is in it was not brought to the disk"));
        fs::remove_dir(place.join("mark")).unwrap();
        witness.is_put(&place).unwrap();
        fs::rename(place.join("part"), place.join("other")).unwrap();
        assert!(witness.is_put(&place).unwrap_err().contains("other: its name was not brought to the disk"));
    }
}
