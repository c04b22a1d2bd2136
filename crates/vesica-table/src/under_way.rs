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

use crate::disk::descriptor;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::LazyLock;
use tempfile::{Builder, NamedTempFile, TempDir};

/// How names end.
const END: &str = ".part";

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

/// A new file in `folder` whose lock this process holds until it is closed. It has the usual mode.
pub(crate) fn file(folder: &Path) -> io::Result<NamedTempFile> {
    let make = |begin: &str| {
        let mut names = Builder::new();
        names.prefix(begin).suffix(END).permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
    };
    locked(folder, make, |file| file.as_file().try_clone()).map(|(file, _)| file)
}

/// A new folder in `above`, and the lock of it. It has the usual mode.
pub(crate) fn folder(above: &Path) -> io::Result<(TempDir, File)> {
    let make = |begin: &str| {
        let mut names = Builder::new();
        names.prefix(begin).suffix(END).permissions(Permissions::from_mode(0o777)).tempdir_in(above)
    };
    locked(above, make, |folder| File::open(folder.path()))
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

/// What `make` makes in `folder`, with its lock taken. Where there are no locks nobody gets one, and what is left behind stays.
fn locked<T>(
    folder: &Path,
    make: impl Fn(&str) -> io::Result<T>,
    open: impl Fn(&T) -> io::Result<File>,
) -> io::Result<(T, File)> {
    let plain = || {
        let made = make(PLAIN)?;
        let file = open(&made)?;
        Ok((made, file))
    };
    let Some(begin) = begin(folder) else { return plain() };
    for _ in 0..TRIES {
        let made = make(&begin)?;
        let lock = match open(&made) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match lock.try_lock() {
            Ok(()) if lock.metadata()?.nlink() > 0 => return Ok((made, lock)),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return plain(),
        }
    }
    Err(io::Error::other("other runs remove what is begun here: run again when they have begun"))
}

/// Removes from `folder` what runs left that were killed. What cannot be removed stays: it is in nobody's way.
pub(crate) fn sweep(folder: &Path) {
    let Some(begin) = begin(folder) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
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
    let meta = left.metadata()?;
    if meta.uid() != geteuid().as_raw() || left.try_lock().is_err() {
        return Ok(());
    }
    if meta.is_file() {
        return fs::remove_file(path);
    }
    // Until it is in its place it is this user's alone. Somebody who may rename things here can have given its name to a folder that is not.
    if meta.mode() & 0o077 != 0 {
        return Ok(());
    }
    // By the descriptor: nobody can put another folder in the place of the one that was locked.
    let inside = descriptor(&left);
    for entry in fs::read_dir(&inside)? {
        let name = entry?.file_name();
        if is_part(name.as_encoded_bytes()) {
            fs::remove_file(inside.join(name))?;
        }
    }
    // One that holds something else stays.
    fs::remove_dir(path)
}

/// Whether a run may have put a file of this name into a folder that it wrote.
fn is_part(name: &[u8]) -> bool {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    name.starts_with(b"part-") || name.starts_with(b".vesica-") || (digits >= 6 && name.get(digits) == Some(&b'-'))
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
        let (living, lock) = folder(dir.path()).unwrap();
        let begun = file(dir.path()).unwrap();
        fs::write(living.path().join("part-000000.csv"), "id\n").unwrap();
        let all = names_in(dir.path());
        let ours = begin(dir.path()).unwrap();
        assert!(all.iter().all(|name| name.starts_with(&ours) && name.ends_with(END)), "{all:?}");
        sweep(dir.path());
        assert_eq!(names_in(dir.path()), all);
        assert_eq!(names_in(living.path()), ["part-000000.csv"]);
        // As the system does it when a process is killed: what is open is closed, and nothing is removed.
        for name in ["000017-days.parquet", "1000000-a.csv", ".vesica-Ab3xYz.part"] {
            fs::write(living.path().join(name), "").unwrap();
        }
        let (_, begun) = begun.keep().map(|(file, path)| (drop(file), path)).unwrap();
        drop(lock);
        let left = living.keep();
        assert!(left.exists() && begun.exists());
        // A folder that others may look into is none that is under way.
        sweep(dir.path());
        assert_eq!((left.exists(), begun.exists(), names_in(&left).len()), (true, false, 4));
        fs::set_permissions(&left, Permissions::from_mode(0o700)).unwrap();
        sweep(dir.path());
        assert_eq!(names_in(dir.path()), [""; 0]);
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
        fs::write(full.join("letter.txt"), "mine").unwrap();
        let before = names_in(dir.path());
        sweep(dir.path());
        assert_eq!(names_in(dir.path()), before);
        assert_eq!(
            (names_in(&full), names_in(&at("kept"))),
            (vec!["letter.txt".into(), "part-folder".into()], vec!["part-000000.csv".to_owned()])
        );
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
