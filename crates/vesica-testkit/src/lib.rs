//! Harness of two and three parties, fixed randomness, hostile peers, data sets; for tests only.

#![forbid(unsafe_code)]

/// What a channel around another leaves as it is.
macro_rules! forward {
    ($inner:ident) => {
        fn line(&self, name: &str) -> vesica_session::Result<Box<dyn vesica_session::Channel>> {
            self.$inner.line(name)
        }

        fn window(&self) -> usize {
            self.$inner.window()
        }

        fn step(&mut self, name: &'static str) {
            self.$inner.step(name);
        }

        fn meter(&self) -> vesica_session::Meter {
            self.$inner.meter()
        }

        fn peer(&self) -> &vesica_types::Party {
            self.$inner.peer()
        }
    };
}

mod data;
mod hostile;
mod port;
mod recorder;
mod three;
mod two;

pub use data::{Dice, Sets, digests, set_pairs};
pub use hostile::{Attack, Hostile};
pub use port::port;
pub use recorder::{Message, Recorder, Transcript, messages};
pub use three::{carol, many_with, three, three_with};
pub use two::{alice, bob, fixed_rng, recorded, two, two_with};
