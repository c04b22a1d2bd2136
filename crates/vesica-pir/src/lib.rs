//! Retrieval of a record without telling which: one file for each scheme.
//!
//! Request and response are pure functions, so any server, blocking or not, can host them.

#![forbid(unsafe_code)]

mod error;

pub use error::PirError;

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
    /// Copies record `index` to `out`, which is `width` bytes long.
    fn read(&self, index: u64, out: &mut [u8]);
}

/// A retrieval scheme with one message each way. Messages are bytes as they travel; a party checks whatever comes from
/// the other before it computes.
pub trait Pir {
    /// What the server keeps.
    type Store: Sync;
    /// What the client is given before it asks, and keeps.
    type Hint;
    /// What the client must remember of one query until its answer is there; used once.
    type Secret;

    /// The server's work before anybody asks, and the hint as it travels.
    fn prepare(&self, records: &dyn Records) -> Result<(Self::Store, Vec<u8>), PirError>;
    /// The hint as it came, checked.
    fn hint(&self, bytes: &[u8]) -> Result<Self::Hint, PirError>;
    /// A query for record `index`: its bytes are independent of `index` for whoever has no secret.
    fn query(&self, hint: &Self::Hint, index: u64, rng: &mut SessionRng) -> Result<(Self::Secret, Vec<u8>), PirError>;
    /// The answer to a query, which is refused if it is not one.
    fn answer(&self, store: &Self::Store, query: &[u8]) -> Result<Vec<u8>, PirError>;
    /// The record, or an error: whether it could be decoded is not to be told to the server.
    fn decode(&self, hint: &Self::Hint, secret: Self::Secret, answer: &[u8]) -> Result<Vec<u8>, PirError>;
}
