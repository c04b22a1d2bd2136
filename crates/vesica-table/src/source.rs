//! The file behind a table. It is read at any place, and must stay what it was when it was opened.

use crate::{Error, Fault, Format};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A table to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    /// Its format; if `None`, its name says (and for standard input, its first bytes).
    pub format: Option<Format>,
    /// Where standard input, or a pipe, is kept while it is read twice; the system's temporary folder if `None`.
    pub temp: Option<PathBuf>,
}

impl Input {
    /// The file at `path`, whose name says its format.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: None, temp: None }
    }
}

/// The open file behind a table.
pub struct Source {
    path: PathBuf,
    file: File,
    /// What the file was when it was opened.
    stamp: Stamp,
    /// Whether this is a private copy of a pipe, which nobody else can change.
    pub(crate) spooled: bool,
    read: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }
}

impl Source {
    pub(crate) fn open(input: &Input) -> Result<Arc<Self>, Error> {
        let reading = |error| Error::reading(&input.path, error);
        let spool = |from: &mut dyn Read| spool(from, input);
        let (file, spooled) = if input.path == Path::new("-") {
            (spool(&mut io::stdin().lock())?, true)
        } else {
            let mut file = File::open(&input.path).map_err(reading)?;
            let kind = file.metadata().map_err(reading)?.file_type();
            if kind.is_dir() {
                return Err(Error::Folder { path: input.path.clone(), fault: Fault::Input });
            } else if kind.is_fifo() || kind.is_char_device() || kind.is_socket() {
                (spool(&mut file)?, true)
            } else {
                (file, false)
            }
        };
        let stamp = Stamp::of(&file.metadata().map_err(reading)?);
        Ok(Arc::new(Self { path: input.path.clone(), file, stamp, spooled, read: AtomicU64::new(0) }))
    }

    /// A file without a name, which nobody else can change; messages call it `path`.
    pub(crate) fn private(path: &Path, file: File) -> Result<Arc<Self>, Error> {
        let stamp = Stamp::of(&file.metadata().map_err(|error| Error::reading(path, error))?);
        Ok(Arc::new(Self { path: path.to_owned(), file, stamp, spooled: true, read: AtomicU64::new(0) }))
    }

    /// The path it was opened by; `-` for standard input.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    /// Whether `other` describes the same file, whatever the name.
    pub fn is(&self, other: &Metadata) -> bool {
        !self.spooled && (self.stamp.device, self.stamp.inode) == (other.dev(), other.ino())
    }

    /// Some bytes from `offset` on, none at its end. No pass counts them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.file.read_at(buf, offset).map_err(|e| Error::reading(&self.path, e))
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
        let now = Stamp::of(&self.file.metadata().map_err(|e| Error::reading(&self.path, e))?);
        if now == self.stamp {
            return Ok(());
        }
        let what = if now.bytes == self.stamp.bytes {
            "its modification time moved".to_owned()
        } else {
            format!("it had {} bytes and now has {}", self.stamp.bytes, now.bytes)
        };
        Err(Error::Changed { path: self.path.clone(), what })
    }

    /// Tells that the pass has come to byte `at`.
    pub(crate) fn has_read(&self, at: u64) {
        self.read.store(at, Relaxed);
    }

    /// Reads the whole of `buf` from `offset`.
    pub(crate) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Relaxed);
        self.file.read_exact_at(buf, offset)
    }
}

/// Copies `from` to a file without a name, so that it can be read twice and is gone however the program ends.
fn spool(from: &mut dyn Read, input: &Input) -> Result<File, Error> {
    let dir = input.temp.clone().unwrap_or_else(std::env::temp_dir);
    let mut file = tempfile::tempfile_in(&dir).map_err(|e| Error::writing(&dir, e))?;
    let mut buf = vec![0; 1 << 20];
    loop {
        let n = match from.read(&mut buf) {
            Ok(0) => return Ok(file),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::reading(&input.path, e)),
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
        let n = self.source.file.read_at(buf, self.at)?;
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
