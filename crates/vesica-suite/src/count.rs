//! `protocol = "ecdh"` with `result = "count"`: how many keys are common, and not which.

use crate::curve::{self, with_group};
use crate::{Choice, Cut, Error, Opened, Seat, Suite, Terms, two_largest};
use std::marker::PhantomData;
use vesica_curve::Blind;
use vesica_params::Level;
use vesica_params::curve::CurveSet;
use vesica_psi::{FRAME, count, reveals};
use vesica_session::{Lines, Reveal, SessionRng};

/// The suite that a job asks for, in the group of its curve.
pub fn suite(choice: &Choice) -> Box<dyn Suite> {
    with_group!(choice.curve, G => Box::new(Count { choice: choice.clone(), group: PhantomData::<G> }))
}

/// The count in the group `G`.
struct Count<G> {
    choice: Choice,
    group: PhantomData<G>,
}

impl<G: Blind> Suite for Count<G> {
    fn sets(&self) -> Vec<&'static str> {
        vec![curve::set(self.choice.curve).id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        vec![reveals::INTERSECTION_SIZE, reveals::KEY_COUNT]
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(curve::set(self.choice.curve))
    }

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    /// A tag that comes twice in one list is an error, so a list is compared with itself too: that is n·m + n²/2 + m²/2 pairs
    /// at most, and no more than two for each pair of the larger list's.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, _) = two_largest(keys);
        vesica_params::tag_bytes(more.saturating_mul(2), more, Level::STANDARD)
    }

    fn assumption(&self) -> &'static str {
        "decisional Diffie-Hellman"
    }

    fn memory(&self) -> u64 {
        60 // an element of mine with its place, or a tag of the peer's; and what sorts a part of them
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, _: &mut SessionRng) -> Result<Opened, Error> {
        let keys_of = |place: u8| terms.sizes.keys[usize::from(place)];
        let params = count::Params {
            session: terms.salt,
            tag_len: terms.sizes.tag_len,
            keys: keys_of(seat.place),
            peers_keys: keys_of(lines.peer()?.peer().place()),
            i_learn: seat.learns,
            peer_learns: self.choice.learners.iter().any(|&place| place != seat.place),
            frame: FRAME,
        };
        Ok(Opened::Whole(Box::new(count::Count::<G>::open(params))))
    }
}
