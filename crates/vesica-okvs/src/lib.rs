//! Sets of keys into vectors: oblivious key-value stores, and tables of bins.
//!
//! A store encodes n pairs (key, value) as a vector such that a fixed linear function of the vector, chosen by the key and
//! a seed, gives the key's value: `decode(store, key) = value`. From keys that are not in it comes what looks random; if the
//! values are random, so is the whole vector, whatever the keys: that is what *oblivious* means. [`Paxos`] is fast and
//! takes up to 1.36 slots a pair; [`Band`] takes 1.03 to 1.05 and several times as long. For a few hundred pairs, for which both are
//! wasteful, there is [`polynomial`].
//!
//! Keys must be fixed before the seed is known: a seed that the keys' owner knew would let it choose keys that fail.
//!
//! ```
//! use vesica_block::{Block, prg::Prg};
//! use vesica_okvs::{Okvs, Paxos};
//! use vesica_params::{Level, okvs};
//! use vesica_types::Digest;
//!
//! let keys = [Digest([1; 16]), Digest([2; 16])];
//! let values = [Block(10), Block(20)];
//! let shape = okvs::paxos(2, 1, Level::STANDARD).expect("2 is few");
//! let okvs = Paxos::new(shape, Block(7));
//! let store = okvs.encode(&keys, &values, &mut Prg::new(Block(99)))?;
//! assert_eq!(store.len(), okvs.len());
//! let mut decoded = Vec::new();
//! okvs.decode(&keys, &store, &mut decoded);
//! assert_eq!(decoded, values);
//! # Ok::<(), vesica_okvs::Error>(())
//! ```

#![forbid(unsafe_code)]

mod band;
mod bins;
mod cuckoo;
mod error;
mod paxos;
pub mod polynomial;
mod rows;
#[cfg(test)]
mod tests;
mod value;

pub use band::Band;
pub use bins::{Bins, Table};
pub use cuckoo::{Cuckoo, Entry, Simple};
pub use error::Error;
pub use paxos::Paxos;
pub use value::{Free, Value};

use vesica_types::Digest;

/// An oblivious key-value store: its shape and its seed.
///
/// Decoding is a sum of slots, without coefficients other than 0 and 1. So it is linear over any field of
/// characteristic 2 that the values are vectors over: `decode(a + Δ·p) = decode(a) + Δ·decode(p)`.
pub trait Okvs {
    /// How many slots a store has. Public: it depends on how many pairs were planned for, and on nothing else.
    fn len(&self) -> usize;

    /// Whether a store has no slots; none is ever that small.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The store of `keys[i]` ↦ `values[i]`. What the pairs leave open is drawn from `free`, whose seed stays secret: what a peer
    /// learns from a store that it is sent rests on these draws.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if two keys are equal, whatever their values; [`Error::Unsolvable`] if there is no store under
    /// this seed, with the probability that the shape was planned for. Never a wrong store.
    ///
    /// # Panics
    /// If there are not as many values as keys.
    fn encode<V: Value>(&self, keys: &[Digest], values: &[V], free: &mut impl Free) -> Result<Vec<V>, Error>;

    /// Appends the values that the store holds for `keys`, in their order. A key that was not encoded gives what looks
    /// random.
    ///
    /// # Panics
    /// If `store` has not [`Okvs::len`] slots.
    fn decode<V: Value>(&self, keys: &[Digest], store: &[V], out: &mut Vec<V>);
}
