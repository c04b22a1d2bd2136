//! The writing end of a spill.

use super::MAX_BUCKETS;
use super::memory::{Memory, Slabs};
use super::runs::Runs;
use crate::Error;
use crate::sealed::{Pages, Sealed, room_in_cache};
use std::path::Path;

/// Bytes written to the file at a time.
const WRITE: usize = 1 << 20;

/// Bytes that each bucket must have in a run on average, for the file to be read and written past the page cache: there, to
/// read a few pages takes as long as to read many.
const PIECE: usize = 32 << 10;

/// The writing end, for records of any length.
pub(crate) struct Log {
    /// Where each bucket's next byte goes.
    open: Vec<Open>,
    /// The most bytes in memory.
    capacity: usize,
    /// Bytes of the file that the page cache may hold, once there is a file. What comes after goes past it.
    cached: u64,
    pub(super) runs: Runs,
}

/// The end of a bucket's last block.
#[derive(Clone, Copy, Default)]
struct Open {
    slab: usize,
    at: usize,
    room: usize,
}

impl Log {
    pub(crate) fn new(buckets: usize, memory: usize, dir: &Path) -> Result<Self, Error> {
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(Error::Bug(format!("a spill of {buckets} buckets")));
        }
        Ok(Self {
            open: vec![Open::default(); buckets],
            capacity: memory,
            cached: 0,
            runs: Runs {
                dir: dir.to_owned(),
                file: None,
                index: None,
                placed: None,
                disk: 0,
                indexes: Vec::new(),
                memory: Memory::new(buckets, memory),
                sizes: vec![0; buckets],
            },
        })
    }

    /// The same, in memory that comes from `slabs` and goes there.
    pub(crate) fn reusing(mut self, slabs: &Slabs) -> Self {
        self.runs.memory.pool = Some(slabs.clone());
        self
    }

    /// Appends the record made of `parts` to `bucket`.
    #[inline(always)]
    pub(crate) fn push(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<(), Error> {
        let Some(open) = self.open.get_mut(bucket) else {
            return Err(Error::Bug(format!("bucket {bucket} of {}", self.open.len())));
        };
        if parts.iter().map(|part| part.len()).sum::<usize>() > open.room {
            return parts.iter().try_for_each(|part| self.push_across(bucket, part));
        }
        for part in parts {
            let block = &mut self.runs.memory.slabs[open.slab][open.at..];
            block[..part.len()].copy_from_slice(part);
            (open.at, open.room) = (open.at + part.len(), open.room - part.len());
        }
        Ok(())
    }

    /// Appends bytes that the bucket's last block has no room for.
    #[cold]
    fn push_across(&mut self, bucket: usize, mut bytes: &[u8]) -> Result<(), Error> {
        loop {
            let open = &mut self.open[bucket];
            let (now, rest) = bytes.split_at(open.room.min(bytes.len()));
            if !now.is_empty() {
                self.runs.memory.slabs[open.slab][open.at..open.at + now.len()].copy_from_slice(now);
                (open.at, open.room) = (open.at + now.len(), open.room - now.len());
            }
            if rest.is_empty() {
                return Ok(());
            }
            bytes = rest;
            let Memory { taken, block, .. } = self.runs.memory;
            if (taken + 1) * block > self.capacity && taken > 0 {
                self.flush()?;
            }
            let (slab, at) = self.runs.memory.take(bucket);
            self.open[bucket] = Open { slab, at, room: block };
        }
    }

    /// Ends the blocks: tells how many bytes are in memory, by bucket.
    fn close(&mut self) -> Vec<usize> {
        let Memory { blocks, block, .. } = &self.runs.memory;
        let held = |(open, blocks): (&mut Open, &Vec<usize>)| blocks.len() * block - std::mem::take(open).room;
        let held: Vec<usize> = self.open.iter_mut().zip(blocks).map(held).collect();
        self.runs.sizes.iter_mut().zip(&held).for_each(|(size, &held)| *size += held as u64);
        held
    }

    /// Moves what is in memory to the file.
    fn flush(&mut self) -> Result<(), Error> {
        let held = self.close();
        let total: usize = held.iter().sum();
        let Runs { dir, file, index, disk, indexes, memory, .. } = &mut self.runs;
        let writing = |error| Error::writing(dir, error);
        let file = match file {
            Some(file) => file,
            none if total / held.len() < PIECE => none.insert(Sealed::new(dir).map_err(writing)?),
            none => {
                self.cached = room_in_cache();
                none.insert(Sealed::direct(dir).map_err(writing)?)
            }
        };
        let index = match index {
            Some(index) => index,
            none => none.insert(Sealed::new(dir).map_err(writing)?),
        };
        // Once: a file system that refuses it is not asked again.
        if (*disk..*disk + total as u64).contains(&self.cached) {
            file.leave_the_cache();
        }
        let mut out = Pages::new(total.next_multiple_of(file.unit()).min(WRITE));
        let mut filled = 0;
        let mut bounds = disk.to_le_bytes().to_vec();
        for (bucket, size) in held.into_iter().enumerate() {
            for mut piece in memory.pieces(bucket, 0, size) {
                while !piece.is_empty() {
                    let n = piece.len().min(out.len() - filled);
                    out[filled..filled + n].copy_from_slice(&piece[..n]);
                    (filled, piece) = (filled + n, &piece[n..]);
                    if filled == out.len() {
                        // The place counts as used before it is written: whoever goes on after an error writes elsewhere.
                        let at = *disk;
                        (filled, *disk) = (0, at + out.len() as u64);
                        file.write_all_at(&mut out, at).map_err(writing)?;
                    }
                }
            }
            bounds.extend((*disk + filled as u64).to_le_bytes());
        }
        if filled > 0 {
            // The next run begins at another page: no place is written twice.
            let end = filled.next_multiple_of(file.unit());
            out[filled..end].fill(0);
            let at = *disk;
            *disk += end as u64;
            file.write_all_at(&mut out[..end], at).map_err(writing)?;
        }
        let at = indexes.last().map_or(0, |last| last + bounds.len() as u64);
        indexes.push(at);
        index.write_all_at(&mut bounds, at).map_err(writing)?;
        memory.blocks.iter_mut().for_each(Vec::clear);
        memory.taken = 0;
        Ok(())
    }

    /// Ends writing. What did not fit in memory is not there in part either: others have their share of it next.
    pub(crate) fn finish(mut self) -> Result<Runs, Error> {
        match self.runs.file {
            Some(_) => {
                self.flush()?;
                self.runs.memory.clear();
            }
            None => drop(self.close()),
        }
        Ok(self.runs)
    }
}
