//! `protocol = "ot"`: oblivious transfers and an oblivious store, with no assumption on codes, against either kind of party.

use crate::{Choice, Error, Guesses, Opened, Seat, Sizes, Suite, Terms, oprf, two_largest};
use vesica_oprf::ot::{Narrow, Params, Wide};
use vesica_params::bch::{self, BchSet};
use vesica_params::{Level, okvs};
use vesica_session::{Lines, Reveal, SessionRng};

/// PRTY20 over folded transfers, for one learner or both.
pub struct Ot {
    choice: Choice,
}

impl Ot {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    /// The code, which follows from how many keys the sender's function is asked for.
    fn code(&self, sizes: &Sizes) -> &'static BchSet {
        bch::code(oprf::senders_keys(&self.choice, sizes), self.choice.malicious(), Level::STANDARD)
    }
}

impl Suite for Ot {
    fn sets(&self) -> Vec<&'static str> {
        vec![okvs::PAXOS.id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, fewer) = two_largest(keys);
        oprf::tag_bytes(&self.choice, more, fewer)
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        vec![self.code(sizes).id.to_owned()]
    }

    fn guesses(&self, sizes: &Sizes) -> Vec<Guesses> {
        let keys = oprf::receivers_keys(&self.choice, sizes);
        let shape = okvs::paxos(keys, sizes.units, Level::STANDARD).filter(|_| self.choice.malicious());
        let bits = self.code(sizes).dimension as u32;
        shape.map_or_else(Vec::new, |shape| Guesses::fitting(keys, shape.slots() as u64, bits))
    }

    fn assumption(&self) -> &'static str {
        "oblivious transfer (Diffie-Hellman), and a hash that stands correlation"
    }

    fn memory(&self) -> u64 {
        match self.choice.malicious() {
            false => 200, // the receiver's: 1.3 rows of 96 bytes, digests and values; the sender's: values
            true => 350,  // the receiver's: 1.3 rows of 192 bytes, as columns and as rows
        }
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let (keys, units) = (oprf::receivers_keys(&self.choice, &terms.sizes), terms.sizes.units);
        let shape = okvs::paxos(keys, units, Level::STANDARD).ok_or(Error::TooLarge { keys, protocol: "ot" })?;
        let security = self.choice.security.into();
        let code = self.code(&terms.sizes);
        let params = Params { session: terms.salt, shape, code, security };
        match *code {
            bch::NARROW => oprf::open(&Narrow::new(params).judged(&terms.judge), &self.choice, seat, terms, lines, rng),
            _ => oprf::open(&Wide::new(params).judged(&terms.judge), &self.choice, seat, terms, lines, rng),
        }
    }
}
