//! `protocol = "ecdh"`: Diffie-Hellman on a curve. Where both learn, both mask both lists; where one learns, an oblivious
//! function from the same assumption takes half of the work.

use crate::curve::{self, with_group};
use crate::{Choice, Error, Opened, Seat, Suite, Terms, oprf};
use std::marker::PhantomData;
use vesica_curve::Blind;
use vesica_oprf::dh::{self, Dh};
use vesica_params::curve::CurveSet;
use vesica_psi::ecdh;
use vesica_session::{Lines, Reveal, SessionRng};

/// The suite that a job asks for, in the group of its curve.
pub fn suite(choice: &Choice) -> Box<dyn Suite> {
    with_group!(choice.curve, G => Box::new(Ecdh { choice: choice.clone(), group: PhantomData::<G> }))
}

/// ECDH in the group `G`.
struct Ecdh<G> {
    choice: Choice,
    group: PhantomData<G>,
}

impl<G: Blind> Suite for Ecdh<G> {
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
        if self.choice.all_learn() { "decisional Diffie-Hellman" } else { "one-more gap Diffie-Hellman" }
    }

    fn memory(&self) -> u64 {
        220 // points, encodings, tags and their order; measured
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        if self.choice.all_learn() {
            let params = ecdh::Params { session: terms.salt, tag_len: terms.sizes.tag_len, place: seat.place };
            return Ok(ecdh::Ecdh::<G>::open(&params, rng).into());
        }
        let keys = oprf::receivers_keys(&self.choice, &terms.sizes) as usize;
        let function = Dh::<G>::new(dh::Params { session: terms.salt, keys });
        oprf::open(&function, &self.choice, seat, terms, lines, rng)
    }
}
