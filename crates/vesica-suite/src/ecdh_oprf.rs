//! `protocol = "ecdh-oprf"`: the function of RFC 9497, here between two parties and unit by unit.

use crate::function::{WithSuite, with_suite};
use crate::{Choice, Error, Opened, Seat, Suite, Terms, curve, oprf};
use std::marker::PhantomData;
use vesica_oprf::ecdh_oprf::{EcdhOprf, Params};
use vesica_oprf::rfc9497;
use vesica_params::curve::CurveSet;
use vesica_session::{Lines, Reveal, SessionRng};

/// The suite that a job asks for, in the group of its curve.
pub fn suite(choice: &Choice) -> Box<dyn Suite> {
    struct Open<'a>(&'a Choice);

    impl WithSuite for Open<'_> {
        type Out = Box<dyn Suite>;

        fn with<G: rfc9497::Suite>(self) -> Box<dyn Suite> {
            Box::new(Function { choice: self.0.clone(), group: PhantomData::<G> })
        }
    }

    with_suite(choice.curve, Open(choice))
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

    fn kappa(&self) -> u32 {
        curve::set(self.choice.curve).kappa
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
