//! `protocol = "hash"`: salted hashes, which hide no key that can be guessed. For measurements.

use crate::{Choice, Error, Opened, Seat, Suite, Terms, oprf};
use vesica_psi::{hash, reveals};
use vesica_session::{Lines, Reveal, SessionRng};

/// The baseline.
pub struct Hash {
    choice: Choice,
}

impl Hash {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }
}

impl Suite for Hash {
    fn sets(&self) -> Vec<&'static str> {
        vec!["hash-blake3-v1"]
    }

    fn reveals(&self) -> Vec<Reveal> {
        [&oprf::REVEALS[..], &[reveals::GUESSABLE_KEYS]].concat()
    }

    fn assumption(&self) -> &'static str {
        "that keys cannot be guessed"
    }

    fn memory(&self) -> u64 {
        100 // tags, their order and a list
    }

    fn open(&self, seat: &Seat, terms: &Terms, _: &mut Lines, _: &mut SessionRng) -> Result<Opened, Error> {
        let peer_learns = self.choice.learners.iter().any(|&place| place != seat.place);
        let (session, tag_len) = (terms.salt, terms.sizes.tag_len);
        Ok(hash::Hash::open(hash::Params { session, tag_len, i_learn: seat.learns, peer_learns }).into())
    }
}
