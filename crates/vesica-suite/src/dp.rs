//! `protocol = "dp"`: one party learns which of its keys are common, with noise that hides each single key of either party.

use crate::curve::{self, with_group};
use crate::{Choice, Cut, Error, Noise, Opened, ProtocolName, Refusal, Seat, Sizes, Suite, Terms, two_largest};
use std::marker::PhantomData;
use vesica_curve::Blind;
use vesica_params::curve::CurveSet;
use vesica_params::{Level, dp as numbers};
use vesica_psi::dp::{self, Hide};
use vesica_psi::{FRAME, reveals};
use vesica_session::{Lines, Reveal, SessionRng};

/// What epsilon does not say by itself.
pub const KEYS_ARE_NOT_PEOPLE: &str = "keys of one person count one by one: who has g of them is protected by g times epsilon; numbers of keys are told as they are";

/// The noise of a job that asks for this protocol.
///
/// # Errors
/// The field that is missing, means nothing, or asks for what this protocol does not do.
pub fn noise(choice: &Choice) -> Result<Noise, Refusal> {
    let refusal = |field, why: String| Err(Refusal { field, why });
    let Some(noise) = choice.dp else {
        let why = "is missing: say how much may be told of one key, such as dp = { epsilon = 3.0 }".to_owned();
        return refusal("shared.dp", why);
    };
    noise.check()?;
    if noise.largest.is_some() {
        let why = "bounds the values that a sum adds up, and protocol = \"dp\" adds up none; remove it";
        return refusal("shared.dp.largest", why.to_owned());
    }
    if let Some(part) = noise.sampling.filter(|part| !(0.01..=0.99).contains(part)) {
        let why = format!(
            "{part} is no part of a table to take at random; give 0.01 to 0.99, or leave it out: then all is taken"
        );
        return refusal("shared.dp.sampling", why);
    }
    if choice.learners.len() != 1 {
        let why = "with protocol = \"dp\" one party learns: the answers' noise is drawn by the other one, who would know what it hides; \
                   name one, and run a second job for the other";
        return refusal("shared.learns", why.to_owned());
    }
    Ok(noise)
}

/// The suite that a job asks for, in the group of its curve.
pub fn suite(choice: &Choice, noise: Noise) -> Box<dyn Suite> {
    debug_assert_eq!(choice.protocol, ProtocolName::Dp);
    with_group!(choice.curve, G => Box::new(Dp { choice: choice.clone(), noise, group: PhantomData::<G> }))
}

/// Differentially private intersection in the group `G`.
struct Dp<G> {
    choice: Choice,
    noise: Noise,
    group: PhantomData<G>,
}

impl<G> Dp<G> {
    /// The place of the party that learns.
    fn learner(&self) -> u8 {
        self.choice.learners[0]
    }

    /// The place of the other one.
    fn other(&self) -> u8 {
        1 - self.learner()
    }

    /// How the party that learns hides how many keys are common.
    fn hide(&self) -> Hide {
        match self.noise.sampling {
            Some(part) => Hide::Sample(numbers::fraction(part)),
            None => Hide::Pool(numbers::Pool::new(self.noise.epsilon).weights),
        }
    }

    /// What is to be expected where `common` of `keys` keys are common: how many of these are found, and how many others.
    fn found(&self, keys: u64, common: u64) -> (f64, f64) {
        let (untrue, part) =
            (numbers::probability(numbers::flip(self.noise.epsilon)), self.noise.sampling.unwrap_or(1.0));
        (common as f64 * part * (1.0 - untrue), (keys - common) as f64 * part * untrue)
    }
}

impl<G: Blind> Suite for Dp<G> {
    fn sets(&self) -> Vec<&'static str> {
        vec![curve::set(self.choice.curve).id, "dp-pool-v1"]
    }

    fn reveals(&self) -> Vec<Reveal> {
        let count = match self.noise.sampling {
            Some(_) => reveals::count_sampled(self.other()),
            None => reveals::count_noisy(self.other()),
        };
        vec![reveals::INTERSECTION_NOISY, reveals::KEY_COUNT, count]
    }

    fn curve(&self) -> Option<&'static CurveSet> {
        Some(curve::set(self.choice.curve))
    }

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    /// As for a count, with the pool in both lists.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, _) = two_largest(keys);
        let more = more.saturating_add(match self.hide() {
            Hide::Pool(weights) => weights.len() as u64,
            Hide::Sample(_) => 0,
        });
        vesica_params::tag_bytes(more.saturating_mul(2), more, Level::STANDARD)
    }

    fn assumption(&self) -> &'static str {
        "decisional Diffie-Hellman"
    }

    fn sized(&self, _: &Sizes) -> Vec<String> {
        match self.noise.sampling {
            None => vec![format!("pool-of-{}", numbers::Pool::new(self.noise.epsilon).keys())],
            Some(_) => Vec::new(),
        }
    }

    fn expects(&self, sizes: &Sizes) -> Vec<String> {
        let Noise { epsilon, sampling, .. } = self.noise;
        let keys = sizes.keys[usize::from(self.learner())];
        let most = keys.min(sizes.keys[usize::from(self.other())]);
        let untrue = numbers::probability(numbers::flip(epsilon));
        let recall = sampling.unwrap_or(1.0) * (1.0 - untrue);
        let mut told = vec![format!(
            "of {{{}}}'s {keys} keys, {:.1} % of those that are common are to be expected in the result (recall), and {:.3} % of the others \
             (false hits)",
            self.learner(),
            100.0 * recall,
            100.0 * untrue * sampling.unwrap_or(1.0),
        )];
        for common in [most / 100, most / 10, most / 2, most] {
            let (right, wrong) = self.found(keys, common);
            let precision = 100.0 * right / (right + wrong).max(f64::MIN_POSITIVE);
            told.push(format!(
                "if {common} keys are common: {right:.0} of them found, {wrong:.0} false hits, so that {precision:.1} % of the result is right"
            ));
        }
        told.push(format!(
            "each key of {{{}}} is hidden from {{{}}} by ({epsilon}, 0)-differential privacy, whatever else is known",
            self.other(),
            self.learner()
        ));
        let hidden = format!("each key of {{{}}} is hidden from {{{}}} by", self.learner(), self.other());
        told.push(match sampling {
            None => {
                let pool = numbers::Pool::new(epsilon);
                let (keys, delta) = (pool.keys(), pool.delta());
                format!("{hidden} ({epsilon}, {delta:.1e})-differential privacy, however many keys are common: a pool of {keys} dummies")
            }
            Some(part) => {
                let at = |common: u64| format!("{:.1e} if {common} are", numbers::sampled_delta(part, epsilon, common));
                let all = [0, 10, 100, 1000, 10_000].map(at).join(", ");
                format!(
                    "{hidden} ({epsilon}, delta) where delta depends on how many keys are common: {all}. With few common keys that is no \
                     protection at all: leave shared.dp.sampling out, and a pool of dummies protects every number"
                )
            }
        });
        told.push(KEYS_ARE_NOT_PEOPLE.to_owned());
        told
    }

    fn draws_once(&self) -> bool {
        true
    }

    fn memory(&self) -> u64 {
        60 // as the count: an element of mine with its place, or a tag with one; and what sorts a part of them
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, _: &mut SessionRng) -> Result<Opened, Error> {
        let keys_of = |place: u8| terms.sizes.keys[usize::from(place)];
        let params = dp::Params {
            session: terms.salt,
            tag_len: terms.sizes.tag_len,
            keys: keys_of(seat.place),
            peers_keys: keys_of(lines.peer()?.peer().place()),
            i_learn: seat.learns,
            flip: numbers::flip(self.noise.epsilon),
            hide: self.hide(),
            frame: FRAME,
        };
        Ok(Opened::Whole(Box::new(dp::Dp::<G>::open(params))))
    }
}
