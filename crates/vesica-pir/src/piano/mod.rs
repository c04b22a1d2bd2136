//! Piano: after one look at the whole table, a query costs the server √N records.
//!
//! - **Source.** Zhou, Park, Zheng, Shi, "Piano: Extremely Simple, Single-Server PIR with Sublinear Server Computation", eprint 2023/452,
//!   figure 2. Numbers by exact tails: [`vesica_params::piano`].
//! - **Symbols.** N records of w bytes, in S chunks of C. A *hint* is a set with one record of each chunk, drawn by a pseudorandom
//!   function, and the sum (XOR) of these records. The client keeps M primary hints, and for each chunk some *backups* (hints without a
//!   record of that chunk) and *replacements* (single records of that chunk). Q queries are a *window*.
//! - **Reveals.** To the server: how many queries, and when. To the client: all records, because it reads them all once.
//! - **Cost.** A window: the table, once, to the client. A query: S·log2 C bits up, w bytes down, S records read.
//! - **Differences from the paper.** (1) The numbers of hints are exact. (2) An offset is 16 bits of a block of AES, eight of them a
//!   block, under one key of the window. (3) A query that cannot be served (a miss, with probability 2^-40 a window) is sent with random
//!   offsets, so the server sees no difference. (4) Every query is a record that is written down before it is sent, so a client that dies
//!   in between sends the same bytes again and never another set for the same hint. Two sets for one hint would show which record was
//!   wanted. (5) Up to [`TOGETHER`] queries are decided before the first answer is there. Theorem 1 is for queries one after the
//!   other; the sets here are those that it has, because a set does not depend on answers. Answers are taken in order.
//!
//! A query, step by step. The client wants record x, in chunk j.
//!
//! 1. It finds a primary hint whose set holds x.
//! 2. It puts a replacement of chunk j in the place of x, and sends the set: S offsets.
//! 3. The server sends the sum of the records of the set.
//! 4. Sum, hint and replacement give record x. A backup of chunk j takes the place of the hint, with x in chunk j.

mod hints;
mod query;
#[cfg(test)]
mod tests;

pub use hints::{Builder, Window};
pub use query::Intent;

use crate::{Flat, PirError, Records, check_shape};
use vesica_params::Level;
use vesica_params::piano::{MOST_RECORDS, Piano as Numbers};

/// The most queries that a client has on their way at once.
pub const TOGETHER: u64 = 64;

/// What both sides know of a table: its size, and the numbers that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piano {
    records: u64,
    width: usize,
    numbers: Numbers,
}

impl Piano {
    /// # Errors
    /// [`PirError::Shape`] if there are no records or more than 2^30, or they are empty or longer than 64 KiB.
    pub fn new(records: u64, width: usize) -> Result<Self, PirError> {
        check_shape(records, width)?;
        let numbers = Numbers::new(records, Level::STANDARD).ok_or_else(|| {
            PirError::Shape(format!("{records} records; Piano takes at most {MOST_RECORDS}, so cut the table in two"))
        })?;
        Ok(Self { records, width, numbers })
    }

    /// How the table is cut, and how many hints a window has.
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of a query: an offset for each chunk, as few bits as it takes.
    pub fn query_bytes(&self) -> usize {
        (self.numbers.chunks * u64::from(self.bits())).div_ceil(8) as usize
    }

    /// Bytes of an answer: one record.
    pub fn answer_bytes(&self) -> usize {
        self.width
    }

    /// Bytes that a client keeps of a window: for each primary its sum, for each spare a sum and a record.
    pub fn window_bytes(&self) -> u64 {
        (self.numbers.primaries + 2 * self.numbers.chunks * self.numbers.spares) * self.width as u64
    }

    fn bits(&self) -> u32 {
        self.numbers.chunk.trailing_zeros()
    }

    /// Step 3. The sum of the records at the offsets of `query`, one of each chunk.
    ///
    /// # Errors
    /// [`PirError::Message`] if `query` is no list of offsets.
    pub fn answer(&self, table: Flat<'_>, query: &[u8]) -> Result<Vec<u8>, PirError> {
        if (table.len(), table.width()) != (self.records, self.width) {
            return Err(PirError::Shape(format!("a table of {} records instead of {}", table.len(), self.records)));
        }
        let offsets = self.unpack(query)?;
        let mut sum = vec![0; self.width];
        for (offset, first) in offsets.into_iter().zip((0..).step_by(self.numbers.chunk as usize)) {
            // What lies behind the last record is zero.
            if first + offset < self.records {
                add(&mut sum, table.record(first + offset));
            }
        }
        Ok(sum)
    }

    /// The offsets, `bits` bits each, the first in the lowest bits.
    fn pack(&self, offsets: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut bytes = vec![0; self.query_bytes()];
        for (offset, at) in offsets.zip((0..).step_by(self.bits() as usize)) {
            let shifted = (offset as u32) << (at % 8);
            for (byte, part) in bytes[at / 8..].iter_mut().zip(shifted.to_le_bytes()) {
                *byte |= part;
            }
        }
        bytes
    }

    fn unpack(&self, query: &[u8]) -> Result<Vec<u64>, PirError> {
        let bits = self.bits() as usize;
        if query.len() != self.query_bytes() {
            return Err(PirError::Message(format!(
                "a query of {} bytes instead of {}",
                query.len(),
                self.query_bytes()
            )));
        }
        let offset = |at: usize| {
            let mut word = [0; 4];
            let rest = &query[at / 8..];
            let n = rest.len().min(4);
            word[..n].copy_from_slice(&rest[..n]);
            u64::from(u32::from_le_bytes(word) >> (at % 8)) & (self.numbers.chunk - 1)
        };
        let offsets: Vec<u64> = (0..self.numbers.chunks as usize).map(|chunk| offset(chunk * bits)).collect();
        // The bits behind the last offset are zero: a query has one spelling.
        if self.pack(offsets.iter().copied()) != query {
            return Err(PirError::Message("a query with bits behind its last offset".into()));
        }
        Ok(offsets)
    }
}

/// `sum ^= record`, of one length.
#[inline]
fn add(sum: &mut [u8], record: &[u8]) {
    let (words, rest) = sum.as_chunks_mut::<8>();
    let (theirs, behind) = record.as_chunks::<8>();
    for (word, their) in words.iter_mut().zip(theirs) {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*their)).to_ne_bytes();
    }
    rest.iter_mut().zip(behind).for_each(|(byte, their)| *byte ^= their);
}
