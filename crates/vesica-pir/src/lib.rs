//! Retrieval of a record without telling which: one file for each scheme.
//!
//! A server has N records of one length. A client wants the record of one number and the server must not learn the number. Two kinds of
//! scheme do that here, and [`Download`] stands beside them for tables so small that nothing else pays.
//!
//! - The schemes of [`Pir`]: one message each way, and work linear in the table for every query. The client keeps nothing of a query.
//! - [`piano`]: the client reads the whole table once as it streams by, keeps a small summary of it, and then a query costs the server
//!   √N records. The summary is used up query by query, so it is no [`Pir`]: it has a life of its own.
//!
//! Two layers turn numbers into keys. [`keyword`] sends one query a key, over [`SimplePir`] and [`PackedPir`], which can be asked
//! for sums of records.
//! [`bucket`] fetches two records a key, over every scheme. Everything is a pure function of bytes, so any server, blocking or not,
//! can host it, and the files are the caller's.

#![forbid(unsafe_code)]

pub mod bucket;
mod download;
mod epoch;
mod error;
mod fuse;
#[doc(hidden)]
pub mod fuzzing;
pub mod keyword;
pub mod packed;
mod patch;
pub mod piano;
pub mod rlwe;
mod scatter;
pub mod simple;

pub use download::Download;
pub use epoch::Epoch;
pub use error::PirError;
pub use packed::PackedPir;
pub use piano::Piano;
pub use rlwe::RlwePir;
pub use scatter::Scatter;
pub use simple::SimplePir;
pub use vesica_he::lwe::PublicSeed;
pub use vesica_params::lwe::Shape;

use vesica_session::SessionRng;

/// The server's table as a scheme sees it: records of one length, counted from 0.
pub trait Records: Sync {
    /// How many there are.
    fn len(&self) -> u64;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes in each.
    fn width(&self) -> usize;
    /// Copies record `index`, which is below `len`, to `out`, which is `width` bytes long.
    fn read(&self, index: u64, out: &mut [u8]);
}

/// Records that stand behind each other in memory, or in a mapped file.
#[derive(Clone, Copy)]
pub struct Flat<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Flat<'a> {
    /// The records of `width` bytes in `bytes`.
    ///
    /// # Errors
    /// If `bytes` are no whole number of records.
    pub fn new(bytes: &'a [u8], width: usize) -> Result<Self, PirError> {
        if width == 0 || !bytes.len().is_multiple_of(width) {
            return Err(PirError::Shape(format!("{} bytes are no records of {width} bytes each", bytes.len())));
        }
        Ok(Self { bytes, width })
    }

    /// Record `index`.
    pub fn record(&self, index: u64) -> &'a [u8] {
        &self.bytes[index as usize * self.width..][..self.width]
    }
}

impl Records for Flat<'_> {
    fn len(&self) -> u64 {
        (self.bytes.len() / self.width) as u64
    }

    fn width(&self) -> usize {
        self.width
    }

    fn read(&self, index: u64, out: &mut [u8]) {
        out.copy_from_slice(self.record(index));
    }
}

/// The longest record, in bytes: values of 64 KiB, with room for a length, a tag and a seal.
pub const MOST_WIDTH: usize = 65 << 10;

/// How long a scheme's messages are. They follow from the public shape alone, so each side knows what to expect before it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of the hint.
    pub hint: u64,
    /// Bytes of a query.
    pub query: usize,
    /// Bytes of an answer.
    pub answer: usize,
}

/// A retrieval scheme with one message each way. The value that implements it is made from the public shape: how many records, how long,
/// and a public seed where the scheme has one. So both sides make the same one.
///
/// Messages are bytes as they travel. A party checks whatever comes from the other before it computes.
pub trait Pir: Sync {
    /// What the server keeps in memory to answer from.
    type Store: Send + Sync;
    /// What the client is given before it asks, and keeps.
    type Hint: Send + Sync;
    /// What the client must remember of one query until its answer is there; used once.
    type Secret: Send;

    /// The length of each message.
    fn sizes(&self) -> Sizes;
    /// The table in the order in which it is answered from. Done again whenever a server starts, so it only moves bytes.
    fn store(&self, records: &dyn Records) -> Result<Self::Store, PirError>;
    /// The hint as it travels. Done once for a table: this is the work before anybody asks.
    fn hint(&self, store: &Self::Store) -> Result<Vec<u8>, PirError>;
    /// The hint as it came, checked.
    fn take_hint(&self, bytes: Vec<u8>) -> Result<Self::Hint, PirError>;
    /// A query for record `index`. Whoever has no secret cannot tell it from a query for another record. Every query takes fresh
    /// randomness: two for one record are different bytes.
    fn query(&self, hint: &Self::Hint, index: u64, rng: &mut SessionRng) -> Result<(Self::Secret, Vec<u8>), PirError>;
    /// The answers to some queries in their order. They are computed in one pass over the table where the scheme can. A query that is none
    /// is refused before anything is computed.
    fn answer(&self, store: &Self::Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError>;
    /// The record, or an error. Whether it could be decoded is not to be told to the server, nor how long that took: it may depend on
    /// which records were decoded before.
    fn decode(&self, hint: &Self::Hint, secret: Self::Secret, answer: &[u8]) -> Result<Vec<u8>, PirError>;
}

/// Fails for a shape that no scheme serves.
pub(crate) fn check_shape(records: u64, width: usize) -> Result<(), PirError> {
    if records == 0 {
        return Err(PirError::Shape("a table without records has nothing to retrieve; add a row".into()));
    }
    if !(1..=MOST_WIDTH).contains(&width) {
        return Err(PirError::Shape(format!(
            "records of {width} bytes; they must have 1 to {MOST_WIDTH}, so cut longer ones into several rows"
        )));
    }
    Ok(())
}

/// Fails for a record that is not in the table.
pub(crate) fn check_index(index: u64, records: u64) -> Result<(), PirError> {
    if index < records {
        return Ok(());
    }
    Err(PirError::Shape(format!("record {index} of a table that has {records}; its records are numbered from 0")))
}
