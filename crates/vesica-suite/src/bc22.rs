//! `protocol = "bc22"`: vector OLE and a polynomial for each bin of a table, against either kind of party.

use crate::{Choice, Error, Guesses, Opened, Seat, Sizes, Suite, Terms, oprf, two_largest};
use vesica_oprf::bc22::{self, Params};
use vesica_params::Level;
use vesica_params::bins::{self, BINS, SLOTS};
use vesica_params::lpn::{self, CodeSet};
use vesica_session::{Lines, Reveal, SessionRng};

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

/// Values that a key of the sender's has: one for each bin that it may be in.
const VALUES: u64 = 2;

/// PCG-PSI, for one learner or both.
pub struct Bc22 {
    choice: Choice,
}

impl Bc22 {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    /// Bins of a unit, if its keys are not too many.
    fn bins(&self, sizes: &Sizes) -> Option<u32> {
        bins::bins(oprf::receivers_keys(&self.choice, sizes), sizes.units, Level::STANDARD)
    }
}

impl Suite for Bc22 {
    fn sets(&self) -> Vec<&'static str> {
        vec![BINS.id, CODE.id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    /// Both sides must get the same length, whoever sends. Where both learn, keys are compared once more in the answer.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let values = VALUES + u64::from(self.choice.all_learn());
        let (more, fewer) = two_largest(keys);
        oprf::tag_bytes(&self.choice, more.saturating_mul(values), fewer)
    }

    /// As many as there are slots: a theorem, whatever the receiver computes.
    fn guesses(&self, sizes: &Sizes) -> Vec<Guesses> {
        let keys = oprf::receivers_keys(&self.choice, sizes);
        match self.bins(sizes) {
            Some(bins) if self.choice.malicious() && keys > 0 => {
                let of_a_key = SLOTS as f64 * f64::from(bins) / keys as f64;
                vec![Guesses { log_dictionary: None, of_a_key: (of_a_key * 100.0).ceil() / 100.0 }]
            }
            _ => Vec::new(),
        }
    }

    fn assumption(&self) -> &'static str {
        "dual learning parity with noise"
    }

    fn memory(&self) -> u64 {
        250 // sparse vectors over GF(2^128), polynomials and values
    }

    fn most(&self) -> u64 {
        1 << 17 // what that gained is in docs/src/design/01-units.md
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let keys = oprf::receivers_keys(&self.choice, &terms.sizes);
        let bins = self.bins(&terms.sizes).ok_or(Error::TooLarge { keys, protocol: "bc22" })?;
        let security = self.choice.security.into();
        let function = bc22::Bc22::new(Params { session: terms.salt, bins, code: CODE, security }).judged(&terms.judge);
        oprf::open(&function, &self.choice, seat, terms, lines, rng)
    }
}
