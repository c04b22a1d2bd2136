//! `protocol = "mini-psi"`: Diffie-Hellman messages in a polynomial or a store, for one learner, against either kind of party.

use crate::curve;
use crate::{Choice, CurveName, Error, Guesses, Opened, Seat, Sizes, Suite, Terms, oprf, two_largest};
use vesica_oprf::mini::{self, Mini};
use vesica_params::curve::CurveSet;
use vesica_params::mini::{Encoding, MINI, encoding, most_guesses};
use vesica_params::{Level, okvs};
use vesica_session::{Lines, Reveal, SessionRng};

/// Mini-PSI.
pub struct MiniPsi {
    choice: Choice,
}

impl MiniPsi {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    /// How the receiver's keys of a unit are encoded, if they are not too many.
    fn encoding(&self, sizes: &Sizes) -> Option<Encoding> {
        let (receivers, senders) =
            (oprf::receivers_keys(&self.choice, sizes), oprf::senders_keys_of_a_unit(&self.choice, sizes));
        encoding(receivers, senders, sizes.units, Level::STANDARD)
    }
}

impl Suite for MiniPsi {
    fn sets(&self) -> Vec<&'static str> {
        vec![MINI.id, curve::set(CurveName::Curve25519).id, okvs::BAND_3.id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(curve::set(CurveName::Curve25519))
    }

    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, fewer) = two_largest(keys);
        oprf::tag_bytes(&self.choice, more, fewer)
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        let name = match self.encoding(sizes) {
            Some(Encoding::Polynomial { coefficients }) => format!("polynomial-{coefficients}"),
            Some(Encoding::Band(shape)) => format!("band-{}", shape.width),
            None => return Vec::new(),
        };
        vec![name]
    }

    fn guesses(&self, sizes: &Sizes) -> Vec<Guesses> {
        let keys = oprf::receivers_keys(&self.choice, sizes);
        let encoding = self.encoding(sizes).filter(|_| self.choice.malicious());
        encoding.map_or_else(Vec::new, |encoding| Guesses::of(keys, |log| most_guesses(encoding.slots() as f64, log)))
    }

    fn assumption(&self) -> &'static str {
        "gap Diffie-Hellman, and an ideal permutation"
    }

    fn memory(&self) -> u64 {
        400 // messages, secrets, the rows and slots of a store, values and their order
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let keys = oprf::receivers_keys(&self.choice, &terms.sizes);
        let encoding = self.encoding(&terms.sizes).ok_or(Error::TooLarge { keys, protocol: "mini-psi" })?;
        let function = Mini::new(mini::Params { session: terms.salt, encoding });
        oprf::open(&function, &self.choice, seat, terms, lines, rng)
    }
}
