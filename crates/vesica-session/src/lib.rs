//! All that a protocol may see, and all that it must say.
//!
//! A protocol sees a [`Channel`] to each peer ([`Lines`]), the [`Unit`] of work, and a source of randomness
//! ([`SessionRng`]). It says what it reveals ([`Reveal`]). There are no sockets, files, clocks or threads here: the
//! transport implements [`Channel`], tests use [`memory`].

#![forbid(unsafe_code)]

mod channel;
mod error;
mod lines;
pub mod memory;
mod meter;
mod protocol;
mod rng;

pub use channel::Channel;
pub use error::{Error, Fault, Misbehaviour, Result};
pub use lines::Lines;
pub use meter::{Meter, StepMeter};
pub use protocol::{
    Found, Group, Keys, LABEL, LISTS, Label, Learner, List, Protocol, Reveal, Room, Share, Shared, Shares, Sorted,
    Sorter, Unit, Values, Whole,
};
pub use rng::SessionRng;
