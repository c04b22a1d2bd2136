//! `protocol = "ecdh-oprf"`: the function of RFC 9497, here between two parties and unit by unit.

use crate::curve::{self, with_group};
use crate::{Choice, Error, Opened, Seat, Suite, Terms, oprf};
use std::marker::PhantomData;
use vesica_oprf::ecdh_oprf::{EcdhOprf, Params};
use vesica_oprf::rfc9497;
use vesica_params::curve::CurveSet;
use vesica_session::{Lines, Reveal, SessionRng};

/// The suite that a job asks for, in the group of its curve. The RFC's encoding has the sign of y.
pub fn suite(choice: &Choice) -> Box<dyn Suite> {
    with_group!(choice.curve, P256Sec1, G => Box::new(Function { choice: choice.clone(), group: PhantomData::<G> }))
}

/// The function in the group `G`.
struct Function<G> {
    choice: Choice,
    group: PhantomData<G>,
}

impl<G: rfc9497::Suite> Suite for Function<G> {
    fn sets(&self) -> Vec<&'static str> {
        vec![curve::set(self.choice.curve).id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(curve::set(self.choice.curve))
    }

    fn assumption(&self) -> &'static str {
        "one-more gap Diffie-Hellman"
    }

    fn memory(&self) -> u64 {
        280 // points of a request, encodings, inputs, values and their order, added up
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let keys = oprf::receivers_keys(&self.choice, &terms.sizes) as usize;
        let function = EcdhOprf::<G>::new(Params { session: terms.salt, keys });
        oprf::open(&function, &self.choice, seat, terms, lines, rng)
    }
}
