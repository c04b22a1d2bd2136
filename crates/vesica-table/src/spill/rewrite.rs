//! Filling buckets anew where they stand in memory.

use super::Spilled;
use super::runs::Runs;
use crate::Error;
use crate::threads::on_threads;
use std::sync::{Arc, Mutex};

impl Spilled {
    /// Every bucket with its records as `change` gives them: the same in another order, or fewer. It takes a bucket's
    /// records, and pushes those that are to be kept; several threads call it, `workers` at most. All stays in its place
    /// in memory, where it must be.
    ///
    /// # Errors
    /// The first of `change`; [`Error::Bug`] if records were added, and if there is a file.
    pub fn rewrite<E: From<Error> + Send>(
        mut self,
        workers: usize,
        change: impl Fn(&[u8], &mut Refill<'_>) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let Some(Runs { file: None, placed: None, memory, sizes, .. }) = Arc::get_mut(&mut self.runs) else {
            return Err(Error::Bug("records in a file were to be rewritten".into()).into());
        };
        let buckets = Mutex::new(memory.buckets_mut().into_iter().zip(sizes));
        let work = || -> Result<(), E> {
            let mut old = Vec::new();
            loop {
                let next = buckets.lock().expect("no worker panics").next();
                let Some((blocks, size)) = next else { return Ok(()) };
                old.clear();
                blocks.iter().for_each(|block| old.extend_from_slice(block));
                old.truncate(*size as usize);
                let mut refill = Refill { blocks: blocks.into_iter(), block: &mut [], left: old.len() };
                change(&old, &mut refill)?;
                *size = (old.len() - refill.left) as u64;
            }
        };
        on_threads(workers, work)?;
        Ok(self)
    }
}

/// A bucket that is filled anew, see [`Spilled::rewrite`].
pub struct Refill<'a> {
    blocks: std::vec::IntoIter<&'a mut [u8]>,
    /// What is free of the block under way.
    block: &'a mut [u8],
    /// Bytes that there were and that have not been pushed.
    left: usize,
}

impl Refill<'_> {
    /// Keeps a record.
    ///
    /// # Errors
    /// [`Error::Bug`] if more are kept than there were.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<(), Error> {
        let left = self.left.checked_sub(record.len());
        self.left = left.ok_or_else(|| Error::Bug("records were added to a bucket".into()))?;
        if record.len() > self.block.len() {
            return self.push_across(record);
        }
        let (to, free) = std::mem::take(&mut self.block).split_at_mut(record.len());
        to.copy_from_slice(record);
        self.block = free;
        Ok(())
    }

    /// Keeps what the block has no room for.
    #[cold]
    fn push_across(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.block.is_empty() {
                self.block = self.blocks.next().ok_or_else(|| Error::Bug("a bucket without room".into()))?;
            }
            let (now, rest) = bytes.split_at(self.block.len().min(bytes.len()));
            let (to, free) = std::mem::take(&mut self.block).split_at_mut(now.len());
            to.copy_from_slice(now);
            (self.block, bytes) = (free, rest);
        }
        Ok(())
    }
}
