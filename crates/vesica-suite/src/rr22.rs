//! `protocol = "rr22"`: vector OLE and an oblivious store, in two modes, against either kind of party.

use crate::{Choice, Error, Guesses, Mode, Opened, Seat, Sizes, Suite, Terms, oprf, two_largest};
use vesica_block::Block;
use vesica_oprf::vole::{Params, Shape, Vole};
use vesica_params::lpn::{self, CodeSet};
use vesica_params::{Level, okvs};
use vesica_session::{Lines, Reveal, SessionRng};

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

/// RR22.
pub struct Rr22 {
    choice: Choice,
}

impl Rr22 {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    /// log2 of the size of the base field.
    fn base_bits(&self, sizes: &Sizes) -> u32 {
        let keys = oprf::senders_keys(&self.choice, sizes);
        vesica_params::vole_base_bits(keys, self.choice.malicious(), Level::STANDARD)
    }

    /// Opens a side with stores of this shape.
    fn with<S: Shape + 'static>(
        &self,
        shape: S,
        seat: &Seat,
        terms: &Terms,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        let security = self.choice.security.into();
        let params = Params { session: terms.salt, shape, code: CODE, security };
        match self.base_bits(&terms.sizes) {
            64 => oprf::open(&Vole::<u64, _>::new(params).judged(&terms.judge), &self.choice, seat, terms, lines, rng),
            _ => oprf::open(&Vole::<Block, _>::new(params).judged(&terms.judge), &self.choice, seat, terms, lines, rng),
        }
    }
}

impl Suite for Rr22 {
    fn sets(&self) -> Vec<&'static str> {
        match self.choice.mode {
            Mode::Fast => vec![okvs::PAXOS.id, CODE.id],
            Mode::LowComm => vec![okvs::BAND_3.id, CODE.id],
        }
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, fewer) = two_largest(keys);
        oprf::tag_bytes(&self.choice, more, fewer)
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        vec![format!("base-field-{}", self.base_bits(sizes))]
    }

    fn guesses(&self, sizes: &Sizes) -> Vec<Guesses> {
        let (keys, units) = (oprf::receivers_keys(&self.choice, sizes), sizes.units);
        let slots = match self.choice.mode {
            Mode::Fast => okvs::paxos(keys, units, Level::STANDARD).map(|shape| shape.slots() as u64),
            Mode::LowComm => okvs::band(&okvs::BAND_3, keys, units, Level::STANDARD).map(|shape| shape.slots.into()),
        };
        slots.filter(|_| self.choice.malicious()).map_or_else(Vec::new, |slots| Guesses::fitting(keys, slots, 128))
    }

    fn assumption(&self) -> &'static str {
        "dual learning parity with noise"
    }

    fn memory(&self) -> u64 {
        200 // sparse vectors, stores and values
    }

    fn most(&self) -> u64 {
        1 << 17 // what that gained is in docs/src/design/01-units.md
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let (keys, units) = (oprf::receivers_keys(&self.choice, &terms.sizes), terms.sizes.units);
        let too_large = Error::TooLarge { keys, protocol: "rr22" };
        match self.choice.mode {
            Mode::Fast => {
                let shape = okvs::paxos(keys, units, Level::STANDARD).ok_or(too_large)?;
                self.with(shape, seat, terms, lines, rng)
            }
            Mode::LowComm => {
                let shape = okvs::band(&okvs::BAND_3, keys, units, Level::STANDARD).ok_or(too_large)?;
                self.with(shape, seat, terms, lines, rng)
            }
        }
    }
}
