//! Oblivious pseudorandom functions: F_k(x) for somebody else's x.
//!
//! One party, the *sender*, comes to hold a key k; the other, the *receiver*, comes to hold F_k at the points that it
//! asked for. The sender learns how many those are and nothing more, the receiver nothing of k. `psi::oprf` makes an
//! intersection of any of these.

#![forbid(unsafe_code)]

pub mod bc22;
pub mod dh;
mod dleq;
pub mod ecdh_oprf;
pub mod function;
pub mod kkrt;
pub mod mini;
pub mod opprf;
pub mod ot;
mod outer;
pub mod rfc9497;
mod rows;
pub mod vole;

use vesica_block::Block;
use vesica_session::{Channel, Result, SessionRng};
use vesica_types::{Digest, UnitId};

/// An oblivious pseudorandom function: its parameters, of which either side can be opened.
///
/// OPRF-*shaped*, to be exact: a key may be evaluated at as many points as the parameters were chosen for, no more.
pub trait Oprf: Send + Sync {
    /// What the sender holds in a unit.
    type Key: Prf;
    /// The side that comes to hold a key.
    type Sender: Sender<Key = Self::Key> + 'static;
    /// The side that learns the function at its points.
    type Receiver: Receiver + 'static;

    /// Opens the sender's side: the set-up that serves all units of a job.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Sender>;

    /// Opens the receiver's side.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Receiver>;
}

/// The side that comes to hold a key, opened.
pub trait Sender: Send + Sync {
    /// What it holds afterwards.
    type Key: Prf;

    /// The peer learns the function of this unit at as many points as were agreed on.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Key>;
}

/// The side that learns the function at its points, opened.
pub trait Receiver: Send + Sync {
    /// Learns the function of this unit at `xs`, which are distinct and exactly as many as were agreed on.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>>;
}

/// A key.
pub trait Prf {
    /// How many values an input has: the receiver holds one of them.
    const VALUES: usize;

    /// Appends the values of each of `ys`, [`Prf::VALUES`] an input.
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>);
}
