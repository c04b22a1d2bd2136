//! What would be there after a failure of power.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use vesica_program::on_disk::{self, Synced};

/// A file or a folder, whatever it is called: its device and its number there.
type Id = (u64, u64);

/// A folder whose files are watched, and what was brought to the disk of them, in this order. It is for the tests of all crates whose files no
/// simulated disk keeps, and knows nothing of a sync that does not go through [`on_disk`].
pub struct Witness(PathBuf);

/// What was brought to the disk, as it was then.
struct Seen {
    id: Id,
    /// What it was called.
    path: PathBuf,
    of: Of,
}

enum Of {
    /// A file of so many bytes, last written at this time.
    File(u64, (i64, i64)),
    /// A folder with these names.
    Folder(BTreeMap<OsString, Id>),
}

/// The folders that are watched, and what was seen in each. By path, as writers have threads of their own.
static SEEN: Mutex<Vec<(PathBuf, Vec<Seen>)>> = Mutex::new(Vec::new());

impl Witness {
    /// Watches all that is in `folder` and below, from here on.
    pub fn of(folder: &Path) -> Self {
        on_disk::witness(see);
        let folder = folder.canonicalize().expect("a folder");
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(seen.iter().all(|(watched, _)| *watched != folder), "each folder has one witness");
        seen.push((folder.clone(), Vec::new()));
        Self(folder)
    }

    /// Forgets what it has seen.
    pub fn forget(&self) {
        self.on(Vec::clear);
    }

    /// Fails unless the file or the folder was put where it is for good: it was whole on the disk under another name or none, and later its name
    /// was there. All of a folder was before its folder had this name.
    ///
    /// # Errors
    /// What would be there after a failure of power, or could be after one at some moment.
    pub fn is_put(&self, path: &Path) -> Result<(), String> {
        self.on(|seen| whole(seen, path, true).and_then(|at| named(seen, path, at)).map(drop))
    }

    /// Fails unless the file was made for good: it has its bytes, and later its name, which it may have had when it had no bytes yet.
    ///
    /// # Errors
    /// What would be there after a failure of power.
    pub fn is_made(&self, path: &Path) -> Result<(), String> {
        self.on(|seen| whole(seen, path, false).and_then(|at| named(seen, path, at)).map(drop))
    }

    /// Fails unless the bytes of the file were brought to the disk before it got its name. Whether that is there is another question.
    ///
    /// # Errors
    /// As [`Witness::is_put`] has.
    pub fn is_whole(&self, path: &Path) -> Result<(), String> {
        self.on(|seen| whole(seen, path, true).map(drop))
    }

    /// Fails unless what the path calls has its name for good.
    ///
    /// # Errors
    /// As [`Witness::is_put`] has.
    pub fn is_named(&self, path: &Path) -> Result<(), String> {
        self.on(|seen| named(seen, path, 0).map(drop))
    }

    fn on<T>(&self, ask: impl FnOnce(&mut Vec<Seen>) -> T) -> T {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&mut seen.iter_mut().find(|(folder, _)| *folder == self.0).expect("a witness").1)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|(folder, _)| *folder != self.0);
    }
}

/// Keeps what was brought to the disk, if it is watched.
fn see(synced: Synced<'_>) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.is_empty() {
        return;
    }
    let (Synced::Contents(open) | Synced::Names(open, _)) = synced;
    let (Some(path), Ok(meta)) = (called(open), open.metadata()) else { return };
    let Some((_, seen)) = seen.iter_mut().find(|(folder, _)| path.starts_with(folder)) else { return };
    let of = match synced {
        Synced::Contents(_) => Of::File(meta.len(), written(&meta)),
        Synced::Names(..) => Of::Folder(names(&path)),
    };
    seen.push(Seen { id: id(&meta), path, of });
}

/// What an open file is called; of one without a name, a name that none has.
fn called(open: &File) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).ok()
}

fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

fn written(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
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
    let is_whole = |seen: &Seen| match &seen.of {
        Of::File(bytes, at) => meta.is_file() && (*bytes, *at) == (meta.len(), written(&meta)),
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
