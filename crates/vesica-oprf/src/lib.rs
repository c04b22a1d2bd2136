//! Oblivious pseudorandom functions: F_k(x) for somebody else's x.
//!
//! One party, the *sender*, comes to hold a key k; the other, the *receiver*, comes to hold F_k at the points that it
//! asked for. The sender learns how many those are and nothing more, the receiver nothing of k. `psi::oprf` makes an
//! intersection of any of these.

#![forbid(unsafe_code)]

pub mod dh;
pub mod kkrt;
pub mod vole;

use vesica_block::Block;
use vesica_session::{Channel, Error, Result, SessionRng};
use vesica_types::{Digest, UnitId};

/// An oblivious pseudorandom function, opened: set-up that serves all units of a job is done, and both sizes are fixed.
///
/// OPRF-*shaped*, to be exact: a key may be evaluated at as many points as the parameters were chosen for, no more.
pub trait Oprf: Sync {
    /// What the sender holds afterwards.
    type Key: Prf;

    /// The sender: the peer learns the function at as many points as were agreed on.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self::Key>;

    /// The receiver: learns the function at `xs`, which are distinct and exactly as many as were agreed on.
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

/// The error of a value that was opened as one side and asked for the other's part.
fn wrong_side() -> Error {
    Error::Bug("a side of an OPRF was asked for the other's part".into())
}
