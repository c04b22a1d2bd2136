//! Two-party harness, fixed randomness, hostile peers, data sets; for tests only.

#![forbid(unsafe_code)]

mod data;
mod hostile;
mod recorder;
mod two;

pub use data::{Sets, digests, set_pairs};
pub use hostile::{Attack, Hostile};
pub use recorder::{Recorder, Transcript};
pub use two::{alice, bob, fixed_rng, two, two_with};
