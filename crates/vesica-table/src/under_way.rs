//! What stands beside an output's place while it is written: how it is called, how others see that its owner lives, and what becomes of it if
//! the owner was killed.
//!
//! Example: a run writes a folder that is called `.vesica-8d1f3c5a7b9e0246fd01-Ab3xYz.part`, and holds its lock. The run is killed, and with it the
//! lock ends. The next run that opens an output in the same place takes that lock, so it knows that nobody writes there any more, and removes the folder.
//!
//! Sixteen digits are those that the system drew when it was started, and those behind them are the number of the mounted file system: some file
//! systems keep a lock on the machine alone that took it, and where a folder is mounted twice each mount has locks of its own. So a run looks only
//! at what was begun under this very system and in this mount, whose locks it sees. Where there are no locks at all, names have no digits, and
//! what they call stays.
//!
//! A name is no proof: whoever may rename things in the folder above can give it to a folder of results. So a folder under way has a mark in it,
//! which is this user's, and which nobody else can put there.

use crate::disk::descriptor;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::{Builder, NamedTempFile};
use vesica_program::on_disk;

/// How names end.
const END: &str = ".part";

/// An empty folder that stands in a folder as long as that is under way.
const MARK: &str = ".vesica-under-way";

/// Why a run ends whose folder is not there any more.
const ANOTHER: &str =
    "it is not the folder any more that this run made; see that nobody else writes there, and run again";

/// How often something new is made where another run took the last one for left behind: it did so in the moment before there was a lock.
const TRIES: u32 = 16;

/// What the system drew when it was started; none if it does not say.
static SYSTEM: LazyLock<Option<String>> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    (digits.len() == 16).then_some(digits)
});

/// How names begin that nobody removes.
const PLAIN: &str = ".vesica-";

/// How names in `folder` begin that say whose locks are seen; none if it cannot be said.
fn begin(folder: &Path) -> Option<String> {
    Some(format!("{PLAIN}{}{:x}-", SYSTEM.as_ref()?, fs::metadata(folder).ok()?.dev()))
}

/// A new file in `folder` that nobody else can open, and the mode that files have there.
///
/// It has a name from the start, which is so on file systems of networks above all. There its lock would be the server's, and a server that
/// forgets it fails every write. So it has none, and stays if the run is killed.
pub(crate) fn file(folder: &Path) -> io::Result<(NamedTempFile, Permissions)> {
    // Another file shows what the umask leaves: whoever opened this one before it was closed to others would read all rows later.
    let other = Builder::new().prefix(PLAIN).permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
    let usual = other.as_file().metadata()?.permissions();
    Ok((Builder::new().prefix(PLAIN).suffix(END).tempfile_in(folder)?, usual))
}

/// A folder under way, and what is locked of it. When it is dropped, what a run put there is removed.
///
/// By its descriptor: whoever may rename things in the folder above can have given its name to another one, such as a folder of results.
pub(crate) struct Begun {
    path: PathBuf,
    open: File,
    is_kept: bool,
}

impl Begun {
    /// The folder of this name, if it is empty as a new one is. Whoever may rename things beside it can have put another one there.
    fn of((path, open): (PathBuf, File)) -> io::Result<Self> {
        let mut made = Self { path, open, is_kept: true };
        if fs::read_dir(made.inside())?.next().is_some() {
            return Err(io::Error::other(ANOTHER));
        }
        made.is_kept = false;
        Ok(made)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, whatever its path calls by now; where the system has no such paths, its path.
    pub fn inside(&self) -> PathBuf {
        let by_descriptor = descriptor(&self.open);
        if by_descriptor.exists() { by_descriptor } else { self.path.clone() }
    }

    /// Whether `path` calls this folder.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        is_named(path, &self.open)
    }

    /// Fails unless the path calls it that it was begun under.
    pub fn is_there(&self) -> io::Result<()> {
        if self.is_at(&self.path)? { Ok(()) } else { Err(io::Error::other(ANOTHER)) }
    }

    /// From here on the folder is a result, and no run removes it. One that is killed before the folder is in its place leaves it.
    pub fn done(&self, mode: Permissions) -> io::Result<()> {
        self.is_there()?;
        fs::remove_dir(self.inside().join(MARK))?;
        self.open.set_permissions(mode)?;
        on_disk::names(&self.open, &self.path)
    }

    /// It stays, wherever it is, and is locked no more.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed stays, and the next run looks at it.
            let _ = clear(&self.inside(), &self.path, true);
        }
    }
}

/// A new folder in `above` that nobody else can look into, and the mode that folders have there.
pub(crate) fn folder(above: &Path) -> io::Result<(Begun, Permissions)> {
    let made = Begun::of(locked(above, &File::try_lock)?)?;
    // Behind the lock: of a run that is killed before, an empty folder is left. Made with the usual mode, the mark shows what is left of that.
    let mark = made.inside().join(MARK);
    fs::create_dir(&mark)?;
    let usual = fs::metadata(&mark)?.permissions();
    Ok((made, usual))
}

/// A name in `folder` for `file`, which has none yet: `link` gives it that.
pub(crate) fn name(
    file: &File,
    folder: &Path,
    link: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<NamedTempFile<()>> {
    let begin = begin(folder).filter(|_| file.try_lock().is_ok());
    Builder::new().prefix(begin.as_deref().unwrap_or(PLAIN)).suffix(END).make_in(folder, link)
}

/// A new folder in `above`, and the lock of it, which `lock` takes. Where there are no locks nobody gets one, and what is left behind stays.
fn locked(above: &Path, lock: &dyn Fn(&File) -> Result<(), TryLockError>) -> io::Result<(PathBuf, File)> {
    let make = |begin: &str| {
        let only_ours = Permissions::from_mode(0o700);
        Ok::<_, io::Error>(Builder::new().prefix(begin).suffix(END).permissions(only_ours).tempdir_in(above)?.keep())
    };
    // No link is followed, and no pipe waited for.
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    let open = |made: &Path| File::options().read(true).custom_flags(flags).open(made);
    let plain = || {
        let made = make(PLAIN)?;
        let file = open(&made)?;
        Ok((made, file))
    };
    let Some(begin) = begin(above) else { return plain() };
    for _ in 0..TRIES {
        let made = make(&begin)?;
        let file = match open(&made) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match lock(&file) {
            Ok(()) if is_named(&made, &file).unwrap_or(false) => return Ok((made, file)),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => {
                let _ = fs::remove_dir(&made);
                return plain();
            }
        }
        // A folder that holds anything is another one, and is not removed.
        let _ = fs::remove_dir(&made);
    }
    Err(io::Error::other("other runs remove what is begun here: run again when they have begun"))
}

/// Whether `path` calls what is open. On NFS a folder that was removed cannot even be asked how many names it has.
fn is_named(path: &Path, open: &File) -> io::Result<bool> {
    let named = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        named => named?,
    };
    let open = open.metadata()?;
    Ok((named.dev(), named.ino()) == (open.dev(), open.ino()))
}

/// Removes from `folder` what runs left that were killed. What cannot be removed stays: it is in nobody's way.
pub(crate) fn sweep(folder: &Path) {
    let Ok(open) = File::open(folder) else { return };
    // By the descriptor: a part of the path that is another user's could come to lead elsewhere meanwhile.
    let folder = descriptor(&open);
    let Some(begin) = begin(&folder) else { return };
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(begin.as_bytes()) && name.ends_with(END.as_bytes()) {
            let _ = remove_left(&entry.path());
        }
    }
}

/// Removes what stands at `path`, if it is this user's and its owner is gone.
fn remove_left(path: &Path) -> io::Result<()> {
    let of_file = fs::symlink_metadata(path)?.is_file();
    // NFS locks a file only for who may write it. A link is not followed, and a pipe not waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let left = File::options().read(true).write(of_file).custom_flags(flags.bits()).open(path)?;
    let (meta, user) = (left.metadata()?, geteuid().as_raw());
    if meta.uid() != user || left.try_lock().is_err() {
        return Ok(());
    }
    if meta.is_file() {
        return fs::remove_file(path);
    }
    // By the descriptor: nobody can put another folder in the place of the one that was locked.
    let inside = descriptor(&left);
    // Somebody who may rename things here can have given its name to a folder of results. That one has no mark of this user's.
    match fs::symlink_metadata(inside.join(MARK)).is_ok_and(|mark| mark.is_dir() && mark.uid() == user) {
        true => clear(&inside, path, false),
        // One that holds anything stays.
        false => fs::remove_dir(path),
    }
}

/// Removes what a run put into the folder `inside`, or all that is there, and the folder, if `path` calls it and it holds nothing else.
fn clear(inside: &Path, path: &Path, all: bool) -> io::Result<()> {
    let mut removed = Ok(());
    for entry in fs::read_dir(inside)? {
        let entry = entry?;
        let (name, at) = (entry.file_name(), inside.join(entry.file_name()));
        let is_begun = name.as_encoded_bytes().starts_with(PLAIN.as_bytes());
        let is_removed = name != MARK && (all || is_begun || is_part(&name));
        // What cannot be removed keeps nothing else here.
        removed = removed.and(match is_removed {
            false => Ok(()),
            // Such as one that a desktop puts there.
            true if all && entry.file_type()?.is_dir() => fs::remove_dir_all(at),
            true => fs::remove_file(at),
        });
    }
    // Where rows may be left, the mark stays, and the next run goes on.
    removed?;
    match fs::remove_dir(inside.join(MARK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A folder that holds anything is not removed: neither this one, nor another one that is called so by now.
    fs::remove_dir(path)
}

/// Whether a run calls a part so that it has put into a folder.
pub(crate) fn is_part(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    name.starts_with(b"part-") || (digits >= 6 && name.get(digits) == Some(&b'-'))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Names in a folder.
    fn names_in(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_others_write_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (living, _) = folder(dir.path()).unwrap();
        let empty = locked(dir.path(), &File::try_lock).unwrap();
        fs::write(living.path().join("part-000000.csv"), "id\n").unwrap();
        let all = names_in(dir.path());
        let ours = begin(dir.path()).unwrap();
        assert!(all.iter().all(|name| name.starts_with(&ours) && name.ends_with(END)), "{all:?}");
        sweep(dir.path());
        assert_eq!(names_in(dir.path()), all);
        assert_eq!(names_in(living.path()), [MARK, "part-000000.csv"]);
        // As the system does it when a process is killed: what is open is closed, and nothing is removed.
        for name in ["000017-days.parquet", "1000000-a.csv", ".vesica-Ab3xYz.part"] {
            fs::write(living.path().join(name), "").unwrap();
        }
        let left = living.path().to_owned();
        // The last moment of a run: the folder has its mode, and the mark is there.
        fs::set_permissions(&left, Permissions::from_mode(0o755)).unwrap();
        living.keep();
        drop(empty);
        assert_eq!((names_in(&left).len(), names_in(dir.path()).len()), (5, 2));
        sweep(dir.path());
        assert_eq!(names_in(dir.path()), [""; 0]);
    }

    /// Whoever may rename things beside a folder under way gives its name to a folder of results.
    #[test]
    fn another_folder_that_is_called_so_meanwhile_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (living, usual) = folder(dir.path()).unwrap();
        let part = |at: &Path| at.join("part-000000.csv");
        fs::write(part(living.path()), "id\n").unwrap();
        let (name, away, results) = (living.path().to_owned(), dir.path().join("away"), dir.path().join("results"));
        fs::create_dir(&results).unwrap();
        fs::write(part(&results), "mine").unwrap();
        living.is_there().unwrap();
        fs::rename(&name, &away).unwrap();
        fs::rename(&results, &name).unwrap();
        assert!(living.is_there().is_err() && living.is_at(&away).unwrap() && living.done(usual).is_err());
        drop(living);
        // The rows that were under way are gone, and the results are not.
        assert_eq!((names_in(&away), fs::read_to_string(part(&name)).unwrap()), (Vec::new(), "mine".to_owned()));
    }

    /// The same in the moment in which a folder is made: it is not empty, and nothing comes into it or is taken out of it.
    #[test]
    fn a_folder_that_is_not_empty_is_not_the_one_that_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("results");
        let put = || {
            fs::create_dir(&results).unwrap();
            fs::write(results.join("part-000000.csv"), "mine").unwrap();
        };
        let swapped = |answer: Result<(), ErrorKind>| {
            put();
            let lock = |_: &File| {
                let made = names_in(dir.path()).into_iter().find(|name| name.starts_with(PLAIN)).unwrap();
                fs::remove_dir(dir.path().join(&made)).unwrap();
                fs::rename(&results, dir.path().join(made)).unwrap();
                answer.map_err(|kind| TryLockError::Error(kind.into()))
            };
            let locked = locked(dir.path(), &lock).map(|(path, file)| drop((path, file)));
            let there = names_in(dir.path()).into_iter().map(|name| dir.path().join(name));
            let there = there.filter(|path| !names_in(path).is_empty()).collect::<Vec<_>>();
            assert_eq!(there.len(), 1, "{locked:?}");
            assert_eq!(names_in(&there[0]), ["part-000000.csv"]);
            fs::remove_dir_all(&there[0]).unwrap();
        };
        swapped(Err(ErrorKind::Unsupported));
        // And where it is opened by the name already.
        put();
        let open = File::open(&results).unwrap();
        let made = Begun::of((results.clone(), open)).err().unwrap();
        assert!(made.to_string().contains("nobody else writes there"), "{made}");
        assert_eq!(names_in(&results), ["part-000000.csv"]);
    }

    #[test]
    fn what_is_not_surely_a_killed_runs_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let ours = begin(dir.path()).unwrap();
        let of_another_mount = format!("{PLAIN}{}fedc-Ab3xYz.part", SYSTEM.as_ref().unwrap());
        fs::create_dir(at(&of_another_mount)).unwrap();
        // Of another system or mount, of another program, and a folder that holds more than a run puts there.
        fs::create_dir(at(".vesica-0123456789abcdef-Ab3xYz.part")).unwrap();
        fs::write(at(".vesica-Ab3xYz.part"), "").unwrap();
        fs::write(at(&format!("{ours}notes.txt")), "").unwrap();
        fs::create_dir(at("kept")).unwrap();
        fs::write(at("kept/part-000000.csv"), "id\n").unwrap();
        std::os::unix::fs::symlink(at("kept"), at(&format!("{ours}link.part"))).unwrap();
        nix::unistd::mkfifo(&at(&format!("{ours}pipe.part")), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let full = at(&format!("{ours}full.part"));
        fs::create_dir_all(full.join("part-folder")).unwrap();
        fs::create_dir(full.join(MARK)).unwrap();
        fs::write(full.join("letter.txt"), "mine").unwrap();
        // A folder of results, closed to others, that somebody has given this name. A mark of another user's is none.
        let results = at(&format!("{ours}results.part"));
        fs::create_dir(&results).unwrap();
        fs::set_permissions(&results, Permissions::from_mode(0o700)).unwrap();
        ["part-000000.csv", "20261126-a.pdf"].iter().for_each(|name| fs::write(results.join(name), "mine").unwrap());
        let of_others = at(&format!("{ours}others.part"));
        let is_root = geteuid().is_root();
        if is_root {
            fs::create_dir_all(of_others.join(MARK)).unwrap();
            fs::write(of_others.join("part-000000.csv"), "mine").unwrap();
            std::os::unix::fs::chown(of_others.join(MARK), Some(65_534), None).unwrap();
        }
        let before = names_in(dir.path());
        sweep(dir.path());
        assert_eq!(names_in(dir.path()), before);
        assert_eq!((names_in(&full).len(), names_in(&at("kept"))), (3, vec!["part-000000.csv".to_owned()]));
        assert_eq!(names_in(&results), ["20261126-a.pdf", "part-000000.csv"]);
        assert!(!is_root || names_in(&of_others).len() == 2);
    }

    #[test]
    fn where_there_are_no_locks_nothing_has_a_name_that_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let fails = |kind: ErrorKind| locked(dir.path(), &move |_| Err(TryLockError::Error(kind.into())));
        let (made, _) = fails(ErrorKind::Unsupported).unwrap();
        let ours = begin(dir.path()).unwrap();
        assert!(names_in(dir.path()).iter().all(|name| name.starts_with(PLAIN) && !name.starts_with(&ours)));
        sweep(dir.path());
        assert!(made.exists());
        // A file under way is closed to others before it has its name, and so is a folder.
        let (begun, usual) = file(dir.path()).unwrap();
        assert_eq!(begun.as_file().metadata().unwrap().mode() & 0o777, 0o600);
        let other = File::create(dir.path().join("other")).unwrap();
        assert_eq!(usual.mode(), other.metadata().unwrap().mode());
        let begun = begun.into_temp_path();
        sweep(dir.path());
        assert!(begun.exists());
        assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
    }

    /// Where another run takes what has no lock yet for left behind, and removes it, it is made anew.
    #[test]
    fn what_another_run_removes_before_it_is_locked_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let asked = std::cell::Cell::new(0);
        let lock = |file: &File| {
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                return Err(TryLockError::WouldBlock);
            }
            if asked.get() == 2 {
                sweep(dir.path());
            }
            file.try_lock()
        };
        let (made, lock) = locked(dir.path(), &lock).unwrap();
        assert_eq!(asked.get(), 3);
        assert!(is_named(&made, &lock).unwrap() && names_in(dir.path()).len() == 1);
        let always = locked(dir.path(), &|_| Err(TryLockError::WouldBlock)).unwrap_err();
        assert!(always.to_string().contains("other runs remove"), "{always}");
    }

    #[test]
    fn a_name_is_locked_before_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("unnamed");
        let whole = File::create(&path).unwrap();
        let named = name(&whole, dir.path(), |at| fs::hard_link(&path, at)).unwrap();
        sweep(dir.path());
        assert!(named.path().exists());
        drop(whole);
        sweep(dir.path());
        assert!(!named.path().exists() && path.exists());
    }
}
