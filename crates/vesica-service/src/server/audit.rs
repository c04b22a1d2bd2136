//! Who asked when, and for how much: a line of JSON for each thing that was done or refused, with no key and no element.
//!
//! ```text
//! {"time":"2026-11-23T10:15:02.118Z","session":"90c1…-7","client":"alice","fingerprint":"sha256:…","address":"192.0.2.7:51544","what":"asked","keys":500}
//! ```
//!
//! The file belongs to whoever reads it: it may be renamed at any time, as logrotate does, and a new one is begun. What cannot
//! be noted is not done: an error of [`Audit::write`] ends the answer. A failure of power is another matter: a line is with the
//! system when that goes on, and comes to the disk as the system brings it there, some seconds later. The last lines may be gone
//! then, of what was done.

use crate::error::Error;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use vesica_net::Time;

/// The file that lines are added to.
pub struct Audit {
    path: PathBuf,
    time: Arc<dyn Time>,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    /// A line may stand there without its end.
    torn: bool,
}

/// What happened.
pub struct Entry<'a> {
    /// What its connection is called, as on the lines of the log.
    pub session: Option<&'a str>,
    /// The client's name.
    pub client: &'a str,
    /// Its certificate; none in plaintext.
    pub fingerprint: Option<&'a str>,
    /// Where it is connected from, if that has an address.
    pub address: Option<SocketAddr>,
    /// What it did.
    pub what: What<'a>,
}

/// What a client did.
#[derive(Serialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum What<'a> {
    /// It copied so many bytes of a part of the store.
    Fetched {
        /// Which part.
        part: u64,
        /// How many bytes.
        bytes: u64,
        /// How long that took.
        seconds: f64,
    },
    /// It was not answered.
    Refused {
        /// How many keys it wanted to ask about.
        keys: u64,
        /// What it was told.
        why: &'a str,
    },
    /// It may ask about so many keys, which are answered next.
    Asked {
        /// How many.
        keys: u64,
    },
    /// It has the records that it retrieved.
    Retrieved {
        /// How many.
        records: u64,
        /// How long that took.
        seconds: f64,
    },
    /// It has its answer.
    Answered {
        /// About how many keys.
        keys: u64,
        /// How long that took.
        seconds: f64,
    },
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a str>,
    address: Option<SocketAddr>,
    #[serde(flatten)]
    what: &'a What<'a>,
}

impl Audit {
    /// The file at `path`, to which lines are added. A file that is made here only this user may read.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, time: Arc<dyn Time>) -> Result<Self, Error> {
        let open = Open::new(path).map_err(Error::file("cannot open", path))?;
        Ok(Self { path: path.to_owned(), time, open: Mutex::new(open) })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it cannot be written. The next line is tried again: a disk that was full may have room.
    pub fn write(&self, entry: &Entry<'_>) -> Result<(), Error> {
        let &Entry { session, client, fingerprint, address, ref what } = entry;
        let time = humantime::format_rfc3339_millis(self.time.wall()).to_string();
        let line = Line { time, session, client, fingerprint, address, what };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|line| open.add(&self.path, line));
        written.map_err(Error::file("cannot write", &self.path))
    }
}

impl Open {
    fn new(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        // The file may end in a line that a process began and did not end.
        let torn = file.metadata()?.len() > 0 && !ends_a_line(path)?;
        Ok(Self { file, torn })
    }

    fn add(&mut self, path: &Path, mut line: Vec<u8>) -> io::Result<()> {
        let here = self.file.metadata()?;
        let same = |there: &std::fs::Metadata| (there.dev(), there.ino()) == (here.dev(), here.ino());
        match std::fs::metadata(path) {
            Ok(there) if same(&there) => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => *self = Self::new(path)?,
        }
        if self.torn {
            line.insert(0, b'\n');
        }
        line.push(b'\n');
        let written = self.file.write_all(&line);
        self.torn = written.is_err();
        written
    }
}

/// Whether the last byte of a file that is not empty ends a line.
fn ends_a_line(path: &Path) -> io::Result<bool> {
    use std::io::{Read, Seek, SeekFrom};
    let mut last = [0];
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::time::SystemTime;

    fn audit_at(path: &Path) -> Result<Audit, Error> {
        Audit::open(path, Arc::new(vesica_net::SystemClock))
    }

    fn note(audit: &Audit, what: What<'_>) -> Result<(), Error> {
        let address = "192.0.2.7:51544".parse().ok();
        audit.write(&Entry { session: Some("ab-3"), client: "alice", fingerprint: Some("sha256:ab"), address, what })
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n'), "{text:?}");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    #[test]
    fn each_thing_is_a_line_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.audit");
        let audit = audit_at(&path).unwrap();
        note(&audit, What::Asked { keys: 500 }).unwrap();
        note(&audit, What::Answered { keys: 500, seconds: 0.25 }).unwrap();
        note(&audit, What::Fetched { part: 2, bytes: 1 << 40, seconds: 1.5 }).unwrap();
        note(&audit, What::Refused { keys: 7, why: "a \"reason\"\nof two lines" }).unwrap();
        let plain = Entry {
            session: None,
            client: "bob",
            fingerprint: None,
            address: "[::1]:9".parse().ok(),
            what: What::Asked { keys: 1 },
        };
        audit.write(&plain).unwrap();
        let lines = lines(&path);
        assert_eq!(lines.len(), 5);
        let time = lines[0]["time"].as_str().unwrap();
        let age = SystemTime::now().duration_since(humantime::parse_rfc3339(time).unwrap()).unwrap();
        assert!(age.as_secs() < 60 && time.ends_with('Z') && time.len() == 24, "{time}");
        for (line, what) in lines.iter().zip(["asked", "answered", "fetched", "refused", "asked"]) {
            assert_eq!(line["what"], what);
        }
        assert_eq!((&lines[0]["client"], &lines[0]["fingerprint"]), (&"alice".into(), &"sha256:ab".into()));
        assert_eq!((&lines[0]["session"], lines[4].get("session")), (&"ab-3".into(), None));
        assert_eq!((&lines[0]["address"], &lines[0]["keys"]), (&"192.0.2.7:51544".into(), &500.into()));
        assert_eq!((&lines[1]["seconds"], &lines[2]["bytes"]), (&0.25.into(), &(1u64 << 40).into()));
        assert_eq!(lines[3]["why"], "a \"reason\"\nof two lines");
        assert_eq!((&lines[4]["fingerprint"], &lines[4]["address"]), (&Value::Null, &"[::1]:9".into()));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_renamed_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("list.audit"), dir.path().join("list.audit.1"));
        let audit = audit_at(&path).unwrap();
        note(&audit, What::Asked { keys: 1 }).unwrap();
        std::fs::rename(&path, &old).unwrap();
        note(&audit, What::Asked { keys: 2 }).unwrap();
        // Another file in its place is the file now.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "{\"what\":\"made by logrotate\"}\n").unwrap();
        note(&audit, What::Asked { keys: 3 }).unwrap();
        assert_eq!(lines(&old).len(), 1);
        let lines = lines(&path);
        assert_eq!((lines.len(), &lines[1]["keys"]), (2, &3.into()));
    }

    #[test]
    fn a_line_that_was_torn_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.audit");
        std::fs::write(&path, "{\"what\":\"asked\"}\n{\"time\":\"2026-1").unwrap();
        note(&audit_at(&path).unwrap(), What::Asked { keys: 9 }).unwrap();
        let lines = lines(&path);
        assert_eq!((lines.len(), &lines[1]["keys"]), (2, &9.into()));
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("logs");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("list.audit");
        let audit = audit_at(&path).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let error = note(&audit, What::Asked { keys: 1 }).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("list.audit"), "{error}");
        // The disk is well again.
        std::fs::create_dir(&folder).unwrap();
        note(&audit, What::Asked { keys: 2 }).unwrap();
        assert_eq!(lines(&path).len(), 1);
        // A disk that is full.
        let full = audit_at(Path::new("/dev/full"));
        if let Ok(full) = full {
            assert!(note(&full, What::Asked { keys: 1 }).is_err());
        }
    }

    #[test]
    fn lines_of_many_threads_do_not_mix() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.audit");
        let audit = audit_at(&path).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|keys| note(&audit, What::Asked { keys }).unwrap()));
            }
        });
        assert_eq!(lines(&path).len(), 800);
    }
}
