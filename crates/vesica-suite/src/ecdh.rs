//! `protocol = "ecdh"`: Diffie-Hellman on a curve. Where both learn, both mask both lists; where one learns, an oblivious
//! function from the same assumption takes half of the work.

use crate::curve::{WithGroup, with_group};
use crate::{Choice, Error, Seat, Suite, Terms, oprf};
use std::marker::PhantomData;
use vesica_curve::Blind;
use vesica_oprf::dh::{self, Dh};
use vesica_params::curve::CurveSet;
use vesica_psi::ecdh;
use vesica_session::{Channel, Protocol, Reveal, SessionRng};

/// The suite that a job asks for, in the group of its curve.
pub fn suite(choice: &Choice) -> Box<dyn Suite> {
    struct Open<'a>(&'a Choice);

    impl WithGroup for Open<'_> {
        type Out = Box<dyn Suite>;

        fn with<G: Blind>(self) -> Box<dyn Suite> {
            let choice = self.0.clone();
            match choice.all_learn() {
                true => Box::new(Both { choice, group: PhantomData::<G> }),
                false => Box::new(One { choice, group: PhantomData::<G> }),
            }
        }
    }

    with_group(choice.curve, Open(choice))
}

/// The parameter set of the job's curve.
fn set(choice: &Choice) -> &'static CurveSet {
    vesica_params::curve::set(choice.curve.name()).expect("every curve of a job has a set; a test holds it")
}

/// Bytes of memory for a key of a unit in flight: points, encodings, tags and their order; measured.
const MEMORY: u64 = 220;

/// Both learn.
struct Both<G> {
    choice: Choice,
    group: PhantomData<G>,
}

impl<G: Blind> Suite for Both<G> {
    fn sets(&self) -> Vec<&'static str> {
        vec![set(&self.choice).id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    fn kappa(&self) -> u32 {
        set(&self.choice).kappa
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(set(&self.choice))
    }

    fn memory(&self) -> u64 {
        MEMORY
    }

    fn open(
        &self,
        seat: &Seat,
        terms: &Terms,
        _: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Box<dyn Protocol>, Error> {
        let params = ecdh::Params { session: terms.salt, tag_len: terms.sizes.tag_len, place: seat.place };
        Ok(Box::new(ecdh::Ecdh::<G>::open(&params, rng)))
    }
}

/// One learns.
struct One<G> {
    choice: Choice,
    group: PhantomData<G>,
}

impl<G: Blind> Suite for One<G> {
    fn sets(&self) -> Vec<&'static str> {
        vec![set(&self.choice).id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        oprf::REVEALS.to_vec()
    }

    fn kappa(&self) -> u32 {
        set(&self.choice).kappa
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(set(&self.choice))
    }

    fn memory(&self) -> u64 {
        MEMORY
    }

    fn open(
        &self,
        seat: &Seat,
        terms: &Terms,
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Box<dyn Protocol>, Error> {
        let keys = oprf::receivers_keys(&self.choice, seat, &terms.sizes) as usize;
        let function = Dh::<G>::new(dh::Params { session: terms.salt, keys });
        oprf::open(&function, &self.choice, seat, terms, ch, rng)
    }
}

#[cfg(test)]
mod tests {
    use crate::CurveName;

    #[test]
    fn every_curve_has_a_parameter_set() {
        for curve in CurveName::ALL {
            assert_eq!(vesica_params::curve::set(curve.name()).map(|set| set.curve), Some(curve.name()));
        }
    }
}
