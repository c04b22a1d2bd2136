//! Writing several stretches of one file at a time, each from front to back.

use crate::error::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are written at a time.
const WRITE: usize = 1 << 18;

/// A stretch of a file that is being written.
pub(crate) struct Region<'a> {
    file: &'a File,
    path: &'a Path,
    /// Where the next bytes go.
    at: u64,
    waiting: Vec<u8>,
}

impl<'a> Region<'a> {
    /// The stretch of `file` that begins at byte `at`. Errors call the file `path`.
    pub(crate) fn new(file: &'a File, path: &'a Path, at: u64) -> Self {
        Self { file, path, at, waiting: Vec::new() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    /// Writes what waits. To be called at the end.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.waiting, self.at).map_err(Error::writing(self.path))?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}
