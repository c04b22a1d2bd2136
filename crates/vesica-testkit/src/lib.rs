//! Harness of two and three parties, fixed randomness, hostile peers, data sets, what a failure of power would leave; for tests only.

#![forbid(unsafe_code)]

mod data;
mod hostile;
mod port;
mod recorder;
mod three;
mod two;
mod witness;

pub use data::{Dice, Sets, digests, set_pairs};
pub use hostile::{Attack, Hostile};
pub use port::port;
pub use recorder::{Message, Recorder, Transcript, messages};
pub use three::{carol, many_with, three, three_with};
pub use two::{alice, bob, fixed_rng, recorded, two, two_with};
pub use witness::Witness;
