//! `protocol = "ecdh"` between three parties: which keys all three have.

use crate::curve::{self, with_group};
use crate::{Choice, Cut, Error, Opened, Seat, Suite, Terms, two_largest};
use std::marker::PhantomData;
use vesica_curve::Blind;
use vesica_params::Level;
use vesica_params::curve::CurveSet;
use vesica_psi::{FRAME, ecdh3, reveals};
use vesica_session::{Lines, Reveal, SessionRng};

/// The suite that a job asks for, in the group of its curve.
pub fn suite(choice: &Choice) -> Box<dyn Suite> {
    with_group!(choice.curve, G => Box::new(Ecdh3 { choice: choice.clone(), group: PhantomData::<G> }))
}

/// ECDH for three parties in the group `G`.
struct Ecdh3<G> {
    choice: Choice,
    group: PhantomData<G>,
}

impl<G> Ecdh3<G> {
    /// The place of the only party that learns; none if all do.
    fn learner(&self) -> Option<u8> {
        if self.choice.all_learn() { None } else { self.choice.learners.first().copied() }
    }
}

impl<G: Blind> Suite for Ecdh3<G> {
    fn sets(&self) -> Vec<&'static str> {
        vec![curve::set(self.choice.curve).id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        let [a, ..] = ecdh3::roles(self.learner());
        vec![reveals::INTERSECTION, reveals::KEY_COUNT, reveals::pair_count(a)]
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(curve::set(self.choice.curve))
    }

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    /// Tags meet in two comparisons, of the lists of A and B and of what is common to these with C's. A tag that comes twice in
    /// one of the four lists is missed, or an error. That is at most 1 + 1 + 4/2 pairs for each pair of the largest list's.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, _) = two_largest(keys);
        vesica_params::tag_bytes(more.saturating_mul(4), more, Level::STANDARD)
    }

    fn assumption(&self) -> &'static str {
        "decisional Diffie-Hellman, and that no two parties collude"
    }

    fn memory(&self) -> u64 {
        100 // for A, two elements of a key with their places; and what sorts a part of them
    }

    fn open(&self, seat: &Seat, terms: &Terms, _: &mut Lines, _: &mut SessionRng) -> Result<Opened, Error> {
        let keys = terms.sizes.keys.as_slice().try_into();
        let keys =
            keys.map_err(|_| vesica_session::Error::Bug("a protocol of three has another number of parties".into()))?;
        let (session, tag_len, learner) = (terms.salt, terms.sizes.tag_len, self.learner());
        let params = ecdh3::Params { session, tag_len, keys, place: seat.place, learner, frame: FRAME };
        Ok(Opened::Whole(Box::new(ecdh3::Ecdh3::<G>::open(params))))
    }
}
