//! `protocol = "rr22"` with `result = "count"` or `"sum"` between three to sixteen parties: the star, whose last step is the circuit.

use crate::circuit::Circuit;
use crate::many::Many;
use crate::{Choice, Cut, Error, Opened, Refusal, ResultKind, Seat, Sizes, Suite, Terms, chosen};
use vesica_block::Block;
use vesica_oprf::vole::Field;
use vesica_params::lpn::{self, BINARY};
use vesica_params::okvs::PaxosShape;
use vesica_params::{Level, cuckoo, okvs};
use vesica_psi::circuit::{Params, Total};
use vesica_psi::many::Params as Job;
use vesica_psi::{reveals, tally};
use vesica_session::{Lines, Reveal, SessionRng};

/// A total over the keys that all parties have.
pub struct Tally {
    choice: Choice,
    many: Many,
    pivot: u8,
}

impl Tally {
    /// As a job asks for it.
    ///
    /// # Errors
    /// That there is no pivot.
    pub fn new(choice: &Choice) -> Result<Self, Refusal> {
        let Some(pivot) = choice.pivot else {
            let why = format!(
                "is missing: a {} of three and more parties takes a pivot, for without one the first party that learns sees which of its keys \
                 all have; name a party that does not collude with that one, and write accept = [\"leader_and_pivot\"]",
                choice.result.name()
            );
            return Err(Refusal { field: "shared.pivot", why });
        };
        Ok(Self { choice: choice.clone(), many: Many::new(choice), pivot })
    }

    /// The sizes of leader and pivot, in this order, for the step between them.
    fn two(&self, sizes: &Sizes) -> Sizes {
        let places = [self.many.leader(), self.pivot].map(usize::from);
        let of = |all: &[u64]| places.iter().filter_map(|&place| all.get(place).copied()).collect();
        Sizes { keys: of(&sizes.keys), capacities: of(&sizes.capacities), ..sizes.clone() }
    }

    /// Opens a side over the base field `B`.
    fn over<B: Field + 'static>(
        &self,
        circuit: Params,
        job: Job<PaxosShape>,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        Ok(Opened::Shares(tally::open::<B, _>(circuit, self.pivot, job, lines, rng)?))
    }
}

impl Suite for Tally {
    fn sets(&self) -> Vec<&'static str> {
        vec![cuckoo::CUCKOO.id, okvs::PAXOS.id, lpn::SETS[0].id, BINARY.id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        let leader = self.many.leader();
        let total = match self.choice.result {
            ResultKind::Sum => reveals::INTERSECTION_SUM_OF_ALL,
            _ => reveals::INTERSECTION_SIZE,
        };
        let chosen = chosen(&self.choice, self.values());
        let together = reveals::leader_and_pivot(leader, self.pivot);
        [total].into_iter().chain(chosen).chain([reveals::KEY_COUNT, together]).collect()
    }

    fn values(&self) -> Option<u8> {
        (self.choice.result == ResultKind::Sum).then(|| self.many.leader())
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        let two = self.two(sizes);
        let targets = Circuit::target_bits(&two).map(|bits| format!("targets-{bits}"));
        let zero_test = format!("zero-test-{}", 8 * self.many.slot_bytes(sizes));
        [format!("base-field-{}", Circuit::base_bits(&two)), zero_test].into_iter().chain(targets).collect()
    }

    fn assumption(&self) -> &'static str {
        "dual learning parity with noise, over bits too, and that leader and pivot do not collude"
    }

    /// One bit of the offset of the transfers is known.
    fn kappa(&self) -> u32 {
        Level::STANDARD.kappa - 1
    }

    fn cut(&self) -> Cut {
        Cut::Shares
    }

    fn memory(&self) -> u64 {
        700 // as a total of two parties; the sum of stores is gone when the circuit begins
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let (sizes, two) = (&terms.sizes, self.two(&terms.sizes));
        let total = if self.choice.result == ResultKind::Sum { Total::Sum } else { Total::Count };
        let circuit = Params {
            opprf: Circuit::function(terms.salt, &two, 0)?,
            puts: seat.place == self.many.leader(),
            values: total == Total::Sum,
            total,
            least: self.choice.least,
            i_learn: seat.learns,
            // Who learns may be neither of the two: that is the star's.
            peer_learns: false,
            fewer: sizes.keys.iter().copied().min().unwrap_or(0),
            noise: None,
        };
        let shapes = self.many.shapes(sizes, |keys, stores| okvs::paxos(keys, stores, Level::STANDARD))?;
        let job = self.many.job(shapes.clients, seat, terms);
        match Circuit::base_bits(&two) {
            64 => self.over::<u64>(circuit, job, lines, rng),
            _ => self.over::<Block>(circuit, job, lines, rng),
        }
    }
}
