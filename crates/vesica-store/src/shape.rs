//! What a service fixes once for all: how long tags are, and how long values.

use crate::error::{Error, Result};
use vesica_params::{Level, tag_bits};

/// The most keys that a service may be asked for in its life.
pub const MOST_LIFETIME: u64 = 1 << 48;

/// The most tags of a store. With [`MOST_LIFETIME`] it makes tags of 128 bits.
pub const MOST_TAGS: u64 = 1 << 40;

/// The longest value, in bytes.
pub const MOST_VALUE: u32 = 1 << 20;

/// The least room of a store, in tags: a short list may grow without a new key.
pub(crate) const LEAST_ROOM: u64 = 1 << 10;

/// What a service declares of its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Keys that all clients together may ever ask, from 1 to [`MOST_LIFETIME`].
    pub lifetime: u64,
    /// The length in bytes that values are padded to, at most [`MOST_VALUE`]; none if the store holds tags alone.
    pub value: Option<u32>,
}

impl Shape {
    /// # Errors
    /// [`Error::Shape`] names the number that is out of its range.
    pub(crate) fn check(self) -> Result<Self> {
        let within = |what, got, least, most| match (least..=most).contains(&got) {
            true => Ok(()),
            false => Err(Error::Shape { what, got, least, most }),
        };
        within("the lifetime of a service in keys", self.lifetime, 1, MOST_LIFETIME)?;
        within("the padded length of a value in bytes", self.value.unwrap_or(0).into(), 0, MOST_VALUE.into())?;
        Ok(self)
    }

    /// Bits of a tag in a store with room for `room` tags, a power of two: ⌈40 + log2 lifetime + log2 room⌉. Then the chance
    /// that any of all keys ever asked meets a tag of another key is at most 2^-40. A client that keeps its answers looks each key up in every
    /// list that is prepared anew as a whole under one service key: after 2^n of these, the chance is 2^n times that, at most.
    pub fn tag_bits(self, room: u64) -> u32 {
        tag_bits(self.lifetime, room, Level::STANDARD)
    }
}

/// How many tags a store has room for that begins with `entries`: a quarter more, rounded up to a power of two. Room costs
/// one bit a tag where it doubles.
pub(crate) fn room(entries: u64) -> u64 {
    (entries + entries / 4).max(LEAST_ROOM).next_power_of_two()
}
