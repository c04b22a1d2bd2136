//! `protocol = "kkrt"`: OT extension and cuckoo hashing.

use crate::{Choice, Error, Opened, Seat, Sizes, Suite, Terms, oprf, two_largest};
use vesica_oprf::kkrt;
use vesica_params::{Level, cuckoo};
use vesica_session::{Lines, Reveal, SessionRng};

/// Values that a key of the sender's has: one for each bin that it may be in.
const VALUES: u64 = 3;

/// KKRT, for one learner or both.
pub struct Kkrt {
    choice: Choice,
}

impl Kkrt {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    /// Bits of a codeword: each of the sender's keys meets what is in three bins.
    fn width(&self, sizes: &Sizes) -> usize {
        let keys = oprf::senders_keys(&self.choice, sizes);
        vesica_params::code_width(keys.saturating_mul(VALUES), Level::STANDARD)
    }
}

impl Suite for Kkrt {
    fn sets(&self) -> Vec<&'static str> {
        vec![cuckoo::CUCKOO.id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    /// Both sides must get the same length, whoever sends. Where both learn, keys are compared once more in the answer.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let values = VALUES + u64::from(self.choice.all_learn());
        let (more, fewer) = two_largest(keys);
        vesica_params::tag_bytes(more.saturating_mul(values), fewer, Level::STANDARD)
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        vec![format!("code-width-{}", self.width(sizes))]
    }

    fn assumption(&self) -> &'static str {
        "oblivious transfer (Diffie-Hellman), and a hash that stands correlation"
    }

    fn memory(&self) -> u64 {
        250 // 1.3 rows of 96 or 128 bytes, their bins, and values
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let keys = oprf::receivers_keys(&self.choice, &terms.sizes);
        let bins = cuckoo::bins(keys, terms.sizes.units, Level::STANDARD);
        let bins = bins.ok_or(Error::TooLarge { keys, protocol: "kkrt" })?;
        let params = kkrt::Params { session: terms.salt, bins };
        match self.width(&terms.sizes) {
            192 => oprf::open(&kkrt::Narrow::new(params), &self.choice, seat, terms, lines, rng),
            _ => oprf::open(&kkrt::Wide::new(params), &self.choice, seat, terms, lines, rng),
        }
    }
}
