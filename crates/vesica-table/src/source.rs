//! What is behind a table. It is read at any place, and must stay what it was when the table was opened.

use crate::listing::Listing;
use crate::program::printed;
use crate::{Error, Fault, Format, Origin, format};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A table to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Where it comes from.
    pub origin: Origin,
    /// Its format; if `None`, the names of its files say, and of what comes through a pipe the first bytes.
    pub format: Option<Format>,
    /// Where what comes through a pipe is kept while it is read twice; the system's temporary folder if `None`.
    pub temp: Option<PathBuf>,
}

impl Input {
    /// What is at `path`, whose name says its format; `-` is standard input.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { origin: Origin::of(path), format: None, temp: None }
    }
}

/// What is behind a table: an open file, or several that are read one after the other.
pub struct Source {
    path: PathBuf,
    files: Files,
    /// Whether this is a private copy of a pipe, which nobody else can change.
    pub(crate) spooled: bool,
    read: AtomicU64,
}

/// The files, and what they were when the table was opened.
enum Files {
    One(File, Stamp),
    Many(Arc<Listing>),
}

/// What a file is, as far as its owner's changes show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What no other file has at the same time.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Fails if the file at `path`, which is like this now, is not what it was `before`.
    pub(crate) fn differs(&self, before: &Self, path: &Path) -> Result<(), Error> {
        if self == before {
            return Ok(());
        }
        let what = if self.identity() != before.identity() {
            "another file has its name now".to_owned()
        } else if self.bytes == before.bytes {
            "its modification time moved".to_owned()
        } else {
            format!("it had {} bytes and now has {}", before.bytes, self.bytes)
        };
        Err(Error::Changed { path: path.to_owned(), what })
    }
}

impl Source {
    /// What can be read once becomes a file that can be read twice, unless `stop` says that nobody wants it any more.
    pub(crate) fn piped(input: &Input, stop: &dyn Fn() -> bool) -> Result<Arc<Self>, Error> {
        let (name, temp) = (input.origin.name(), input.temp.as_deref());
        let file = match &input.origin {
            Origin::Command(program) => printed(program, temp, stop)?,
            _ => {
                // Without the buffer of the standard library, so that what is there can be waited for.
                let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(|error| Error::reading(&name, error))?;
                spool(&mut File::from(stdin), &name, temp, stop)?
            }
        };
        Self::private(&name, file)
    }

    /// The file at `path`; a pipe or a device there is read as standard input is.
    pub(crate) fn open(path: &Path, temp: Option<&Path>, stop: &dyn Fn() -> bool) -> Result<Arc<Self>, Error> {
        let reading = |error| Error::reading(path, error);
        let mut file = File::open(path).map_err(reading)?;
        let meta = file.metadata().map_err(reading)?;
        let kind = meta.file_type();
        if kind.is_dir() {
            return Err(Error::Folder { path: path.to_owned(), fault: Fault::Input });
        } else if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
            let file = spool(&mut file, path, temp, stop)?;
            return Self::private(path, file);
        }
        Ok(Self::of(path, Files::One(file, Stamp::of(&meta)), false))
    }

    /// The plain file at `path`. Nothing waits for a pipe that came in its place.
    pub(crate) fn plain(path: &Path) -> Result<Arc<Self>, Error> {
        let reading = |error| Error::reading(path, error);
        let mut options = File::options();
        let file = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).map_err(reading)?;
        let meta = file.metadata().map_err(reading)?;
        if !meta.is_file() {
            return Err(Error::NotPlain { path: path.to_owned() });
        }
        Ok(Self::of(path, Files::One(file, Stamp::of(&meta)), false))
    }

    /// Several files, which are opened when they are read; messages call them `path`.
    pub(crate) fn many(path: &Path, listing: Arc<Listing>) -> Arc<Self> {
        Self::of(path, Files::Many(listing), false)
    }

    fn of(path: &Path, files: Files, spooled: bool) -> Arc<Self> {
        Arc::new(Self { path: path.to_owned(), files, spooled, read: AtomicU64::new(0) })
    }

    /// A file without a name, which nobody else can change; messages call it `path`.
    pub(crate) fn private(path: &Path, file: File) -> Result<Arc<Self>, Error> {
        let stamp = Stamp::of(&file.metadata().map_err(|error| Error::reading(path, error))?);
        Ok(Self::of(path, Files::One(file, stamp), true))
    }

    /// The path it was opened by, or what messages call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its files, in order, without the endings that say their formats.
    pub(crate) fn names(&self) -> Vec<PathBuf> {
        match &self.files {
            Files::One(..) => vec![format::stem(&self.path)],
            Files::Many(listing) => listing.files.iter().map(|file| format::stem(&file.path)).collect(),
        }
    }

    /// Its size: of several files, that of all together and of the list of their names.
    pub fn bytes(&self) -> u64 {
        match &self.files {
            Files::One(_, stamp) => stamp.bytes,
            Files::Many(listing) => listing.bytes(),
        }
    }

    /// The size of what has rows: of several files, that of all together.
    pub(crate) fn bytes_of_rows(&self) -> u64 {
        match &self.files {
            Files::One(_, stamp) => stamp.bytes,
            Files::Many(listing) => listing.bytes_of_files(),
        }
    }

    /// Whether `other` describes the same file, or one of the files, whatever the name.
    pub fn is(&self, other: &Metadata) -> bool {
        let is = |stamp: &Stamp| stamp.identity() == (other.dev(), other.ino());
        match &self.files {
            Files::One(_, stamp) => !self.spooled && is(stamp),
            Files::Many(listing) => listing.files.iter().any(|file| is(&file.stamp)),
        }
    }

    /// Whether what stands at `path`, or came to stand there, is one of the files, whatever the name.
    pub fn holds(&self, path: &Path) -> bool {
        path.metadata().map_or_else(|_| self.would_hold(path), |there| self.is(&there))
    }

    /// Whether a file that came to stand at `path` would be one of the files.
    pub(crate) fn would_hold(&self, path: &Path) -> bool {
        matches!(&self.files, Files::Many(listing) if listing.would_hold(path))
    }

    /// What the file was when it was opened; none of several.
    pub(crate) fn stamp(&self) -> Option<&Stamp> {
        match &self.files {
            Files::One(_, stamp) => Some(stamp),
            Files::Many(_) => None,
        }
    }

    /// Some bytes from `offset` on, none at its end. No pass counts them. Several files come one after the other, and then the
    /// list of their names and sizes: all that says which table this is.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match &self.files {
            Files::One(file, _) => file.read_at(buf, offset).map_err(|e| Error::reading(&self.path, e)),
            Files::Many(listing) => listing.read_at(buf, offset),
        }
    }

    /// The one file that is read by its bytes.
    fn file(&self) -> io::Result<&File> {
        match &self.files {
            Files::One(file, _) => Ok(file),
            Files::Many(_) => Err(io::Error::other("several files were read as one")),
        }
    }

    /// Fills `buf` from `offset` on; says whether there was enough. No pass counts it.
    pub(crate) fn fill(&self, buf: &mut [u8], offset: u64) -> Result<bool, Error> {
        let mut has = 0;
        while has < buf.len() {
            match self.read_at(&mut buf[has..], offset + has as u64)? {
                0 => return Ok(false),
                n => has += n,
            }
        }
        Ok(true)
    }

    /// Bytes read by the latest pass.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// The first bytes, as many as there are.
    pub(crate) fn peek(&self, buf: &mut [u8]) -> Result<usize, Error> {
        let mut n = 0;
        while n < buf.len() {
            match self.read_at(&mut buf[n..], n as u64)? {
                0 => break,
                some => n += some,
            }
        }
        Ok(n)
    }

    /// Begins a pass: the count of bytes read starts again.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file is not what it was.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.read.store(0, Relaxed);
        self.check()
    }

    /// Whether the file is what it was when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] if not.
    pub fn check(&self) -> Result<(), Error> {
        match &self.files {
            Files::One(file, stamp) => {
                let now = file.metadata().map_err(|e| Error::reading(&self.path, e))?;
                Stamp::of(&now).differs(stamp, &self.path)
            }
            Files::Many(listing) => listing.check(),
        }
    }

    /// Tells that the pass has come to byte `at`.
    pub(crate) fn has_read(&self, at: u64) {
        self.read.store(at, Relaxed);
    }

    /// Reads the whole of `buf` from `offset`.
    pub(crate) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Relaxed);
        self.file()?.read_exact_at(buf, offset)
    }
}

/// How long is waited for more before `stop` is asked.
const WAIT: u16 = 100;

/// Copies `from`, which messages call `name`, to a file without a name, so that it can be read twice and is gone however the
/// program ends. The file is in `temp`, or in the system's temporary folder.
pub(crate) fn spool(
    from: &mut (impl Read + AsFd),
    name: &Path,
    temp: Option<&Path>,
    stop: &dyn Fn() -> bool,
) -> Result<File, Error> {
    let dir = temp.map_or_else(std::env::temp_dir, Path::to_owned);
    let mut file = tempfile::tempfile_in(&dir).map_err(|e| Error::writing(&dir, e))?;
    let mut buf = vec![0; 1 << 20];
    loop {
        let there = poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], WAIT);
        if stop() {
            return Err(Error::Stopped { path: name.to_owned() });
        }
        let n = match there {
            Ok(0) | Err(Errno::EINTR) => continue,
            Err(e) => return Err(Error::reading(name, e.into())),
            Ok(_) => match from.read(&mut buf) {
                Ok(0) => return Ok(file),
                Ok(n) => n,
                Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => continue,
                Err(e) => return Err(Error::reading(name, e)),
            },
        };
        file.write_all(&buf[..n]).map_err(|e| Error::writing(&dir, e))?;
    }
}

/// A place in a source. Cursors of one source do not disturb each other, as clones of a `File` would.
pub(crate) struct Cursor {
    source: Arc<Source>,
    at: u64,
    /// Whether what it reads is what the pass has read.
    counts: bool,
}

impl Cursor {
    pub(crate) fn new(source: &Arc<Source>, at: u64) -> Self {
        Self { source: source.clone(), at, counts: true }
    }

    /// One that reads ahead of the pass.
    pub(crate) fn ahead(source: &Arc<Source>, at: u64) -> Self {
        Self { counts: false, ..Self::new(source, at) }
    }

    pub(crate) fn position(&self) -> u64 {
        self.at
    }
}

impl Read for Cursor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.file()?.read_at(buf, self.at)?;
        self.at += n as u64;
        if self.counts {
            self.source.read.fetch_add(n as u64, Relaxed);
        }
        Ok(n)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.bytes().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
