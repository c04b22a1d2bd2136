//! The reading end of a spill.

use super::memory::Memory;
use crate::Error;
use crate::disk::ReadAt;
use crate::sealed::{PAGE, READ, Sealed};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reading end of a [`Log`](super::Log).
pub(crate) struct Runs {
    pub(super) dir: PathBuf,
    pub(super) file: Option<Sealed>,
    /// Where the bounds of its runs stand: they are read a few bytes at a time.
    pub(super) index: Option<Sealed>,
    /// Somebody else's file, in place of one of its own.
    pub(super) placed: Option<Arc<dyn ReadAt>>,
    /// Bytes in the file of records.
    pub(super) disk: u64,
    /// For each run, where the bounds of its buckets stand in the index (offsets in the file, `u64` each, one more than
    /// buckets). Somebody else's file has its index in it.
    pub(super) indexes: Vec<u64>,
    /// All of it if there is no file.
    pub(super) memory: Memory,
    /// Bytes in each bucket.
    pub(crate) sizes: Vec<u64>,
}

impl Runs {
    /// Where in the file the piece of `bucket` in `run` stands.
    fn piece(&self, run: usize, bucket: usize) -> io::Result<Range<u64>> {
        let mut bounds = [0; 16];
        let index: &dyn ReadAt = match &self.index {
            Some(index) => index,
            None => self.file()?,
        };
        index.read_exact_at(&mut bounds, self.indexes[run] + 8 * bucket as u64)?;
        let bound = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| bounds[8 * i + j]));
        Ok(bound(0)..bound(1))
    }

    fn file(&self) -> io::Result<&dyn ReadAt> {
        match (&self.file, &self.placed) {
            (Some(file), _) => Ok(file),
            (None, Some(file)) => Ok(&**file),
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Makes `bytes`, which are as many, what is in `bucket`.
    pub(super) fn read(&self, bucket: usize, mut bytes: &mut [u8]) -> Result<(), Error> {
        for run in 0..self.indexes.len() {
            let read = self.piece(run, bucket).and_then(|piece| {
                let size = usize::try_from(piece.end.saturating_sub(piece.start)).unwrap_or(usize::MAX);
                let own = bytes.split_off_mut(..size).ok_or(io::ErrorKind::InvalidData)?;
                self.file()?.read_exact_at(own, piece.start)
            });
            read.map_err(|e| Error::reading(&self.dir, e))?;
        }
        if self.indexes.is_empty() {
            for piece in self.memory.pieces(bucket, 0, bytes.len()) {
                let Some(own) = bytes.split_off_mut(..piece.len()) else { break };
                own.copy_from_slice(piece);
            }
        }
        if bytes.is_empty() { Ok(()) } else { Err(Error::reading(&self.dir, io::ErrorKind::InvalidData.into())) }
    }

    pub(crate) fn stream(self: &Arc<Self>, bucket: usize) -> Stream {
        Stream { runs: self.clone(), bucket, run: 0, piece: 0..0, ahead: Vec::new(), most: READ, used: 0, at: 0 }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Reads one bucket from front to back.
pub(crate) struct Stream {
    pub(super) runs: Arc<Runs>,
    pub(super) bucket: usize,
    /// The next run in the file, and what is left of the one before it.
    pub(super) run: usize,
    pub(super) piece: Range<u64>,
    /// What was read of that piece beforehand, where a read of a few bytes costs as much as one of many; and how much of it
    /// is used.
    ahead: Vec<u8>,
    /// Bytes of that, the most.
    pub(super) most: usize,
    used: usize,
    /// What was read of what is in memory.
    pub(super) at: usize,
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.used < self.ahead.len() {
            let n = (&self.ahead[self.used..]).read(buf)?;
            self.used += n;
            return Ok(n);
        }
        while self.piece.is_empty() && self.run < self.runs.indexes.len() {
            self.piece = self.runs.piece(self.run, self.bucket)?;
            self.run += 1;
        }
        if !self.piece.is_empty() {
            if self.runs.file.as_ref().is_some_and(|file| file.unit() > 1) && buf.len() < self.most {
                // Up to the end of a page: none is read twice.
                let end = self.piece.end.min((self.piece.start + self.most as u64) / PAGE as u64 * PAGE as u64);
                self.ahead.resize((end - self.piece.start) as usize, 0);
                self.used = self.ahead.len();
                self.runs.file()?.read_exact_at(&mut self.ahead, self.piece.start)?;
                (self.used, self.piece.start) = (0, end);
                return self.read(buf);
            }
            let n = (self.piece.end - self.piece.start).min(buf.len() as u64) as usize;
            self.runs.file()?.read_exact_at(&mut buf[..n], self.piece.start)?;
            self.piece.start += n as u64;
            return Ok(n);
        }
        if !self.runs.indexes.is_empty() {
            return Ok(0);
        }
        let mut pieces = self.runs.memory.pieces(self.bucket, self.at, self.runs.sizes[self.bucket] as usize);
        let n = pieces.next().unwrap_or_default().read(buf)?;
        self.at += n;
        Ok(n)
    }
}
