//! Retrieval of a record without telling which: one file for each scheme.
//!
//! A server has N records of one length. A client wants the record of one number and the server must not learn the number. Two kinds of
//! scheme do that here, and [`Download`] stands beside them for tables so small that nothing else pays.
//!
//! - The schemes of [`Pir`]: one message each way, and work linear in the table for every query. The client keeps nothing of a query.
//! - [`piano`]: the client reads the whole table once as it streams by, keeps a small summary of it, and then a query costs the server
//!   √N records. The summary is used up query by query, so it is no [`Pir`]: it has a life of its own.
//!
//! Two layers turn numbers into keys. [`keyword`] sends one query a key, over the schemes of [`MatrixPir`], which can be asked for sums of
//! records. [`bucket`] fetches two records a key, over every scheme. Everything is a pure function of bytes, so any server, blocking or not,
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
    /// The hint as it came, checked. It is of the table before any change, which patches follow.
    fn take_hint(&self, bytes: Vec<u8>) -> Result<Self::Hint, PirError>;
    /// A query for record `index`. Whoever has no secret cannot tell it from a query for another record. Every query takes fresh
    /// randomness: two for one record are different bytes.
    fn query(&self, hint: &Self::Hint, index: u64, rng: &mut SessionRng) -> Result<(Self::Secret, Vec<u8>), PirError>;
    /// A query for the sum of some records, byte by byte modulo 256, by a [`MatrixPir`]. It costs what a query for one costs, and looks like it. By
    /// other schemes, for one record alone.
    ///
    /// # Errors
    /// If there is none, one is not in the table, or they do not lie in the same rows, as the records of each [`Shape::group`] do.
    fn query_sum(
        &self,
        hint: &Self::Hint,
        indices: &[u64],
        rng: &mut SessionRng,
    ) -> Result<(Self::Secret, Vec<u8>), PirError> {
        match *indices {
            [index] => self.query(hint, index, rng),
            _ => Err(PirError::Shape(format!(
                "a query for the sum of {} records, by a scheme that has no such sums",
                indices.len()
            ))),
        }
    }
    /// The answers to some queries in their order. They are computed in one pass over the table where the scheme can. A query that is none
    /// is refused before anything is computed.
    fn answer(&self, store: &Self::Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError>;
    /// The record, or an error. Whether it could be decoded is not to be told to the server, nor how long that took: it may depend on
    /// which records were decoded before.
    fn decode(&self, hint: &Self::Hint, secret: Self::Secret, answer: &[u8]) -> Result<Vec<u8>, PirError>;
}

/// SimplePIR with a hint ([`SimplePir`]) or without one ([`PackedPir`]): a query may ask for the sum of some records, and clients follow by
/// patches when records change.
pub trait MatrixPir: Pir<Hint: PartialEq> + Copy + Send {
    /// What clients copy before they ask, in one word.
    const COPY: &str;
    /// The shape with the least cost for so many records, each of so many bytes, of which a client asks for so many; none if no shape holds
    /// them.
    const SHAPE: fn(u64, u32, u64) -> Option<Shape>;
    /// The same for a table of so many keys ([`keyword`]).
    const SHAPE_OF_KEYS: fn(u64, u32, u64) -> Option<Shape>;

    /// The scheme of a shape and a seed, which are public. The seed is drawn anew whenever a table is prepared from the beginning: an epoch is
    /// told apart by it.
    fn new(shape: Shape, seed: PublicSeed) -> Self;
    /// How the table is laid out.
    fn shape(&self) -> &Shape;
    /// Bytes of what a server keeps beside the table ([`MatrixPir::beside`]).
    fn beside_bytes(&self) -> u64 {
        0
    }
    /// Bytes of the secrets of a query, which the client keeps until it decodes the answer.
    fn secret_bytes(&self) -> u64;
    /// How many queries are answered in one pass over the database.
    fn together(&self) -> usize;

    /// [`Pir::store`] on up to so many threads.
    ///
    /// # Errors
    /// As [`Pir::store`].
    fn prepare(&self, _workers: usize, records: &dyn Records) -> Result<Self::Store, PirError> {
        self.store(records)
    }
    /// What a server that starts again wants to find beside the records.
    fn beside(&self, _: &Self::Store) -> Vec<u8> {
        Vec::new()
    }
    /// The store of records to which these patches led, with what was kept beside them.
    ///
    /// # Errors
    /// If the records have another shape; if what was kept is not of these records and patches, or is damaged.
    fn restore(&self, records: &dyn Records, beside: &[u8], patches: &[&[u8]]) -> Result<Self::Store, PirError>;

    /// Fails unless a client's copy, which has followed these patches, and what was kept beside the records are what the records and the seed make
    /// of them. Nobody but who has the table can see that. A patched row of a hint keeps the rounding of the row before.
    ///
    /// # Errors
    /// As [`MatrixPir::restore`]; names the first row or block that is another one.
    fn recompute(
        &self,
        workers: usize,
        records: &dyn Records,
        beside: &[u8],
        hint: &Self::Hint,
        patches: &[&[u8]],
    ) -> Result<(), PirError>;

    /// Fails if a query is none of this epoch.
    ///
    /// # Errors
    /// If it has another length, or is of another epoch.
    fn check(&self, store: &Self::Store, query: &[u8]) -> Result<(), PirError>;
    /// [`Pir::answer`] on up to so many threads, which share the rows of the database.
    ///
    /// # Errors
    /// As [`Pir::answer`].
    fn answer_on(&self, workers: usize, store: &Self::Store, queries: &[&[u8]]) -> Result<Vec<Vec<u8>>, PirError>;

    /// The most bytes of a patch in which so many groups of records ([`Shape::group`]) change as a whole.
    fn patch_bytes(&self, groups: usize) -> u64;
    /// Changes records in the database on up to so many threads, and returns the patch for those who have the hint of the epoch before. The
    /// number of records stays what it is.
    ///
    /// # Errors
    /// If a record is not in the table or has another length; nothing was changed then. If what clients copy would come out badly; then the
    /// table must be prepared anew.
    fn change(&self, workers: usize, store: &mut Self::Store, changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError>;
    /// Brings what a client copied from the epoch that a patch leads away from to the next one.
    ///
    /// # Errors
    /// If the patch is of another epoch, or is none; nothing is changed then.
    fn patch(&self, hint: &mut Self::Hint, patch: &[u8]) -> Result<(), PirError>;
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
