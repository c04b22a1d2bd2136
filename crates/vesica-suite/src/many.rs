//! `protocol = "rr22"` between three to sixteen parties: the function of RR22 with stores that are added slot by slot.

use crate::{Choice, Error, Mode, Opened, Refusal, Seat, Sizes, Suite, Terms, two_largest};
use vesica_block::Block;
use vesica_oprf::vole::{Field, Params, Shape, Vole};
use vesica_params::lpn::{self, CodeSet};
use vesica_params::{Level, okvs};
use vesica_psi::many::Params as Job;
use vesica_psi::{kmprt17, nty21, reveals};
use vesica_session::{Lines, Reveal, SessionRng};

/// The most parties of a job: each two of them hold a connection.
pub const MOST: usize = 16;

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

/// With a pivot the star, and without one the protocol against any coalition.
pub struct Many {
    choice: Choice,
}

/// Refuses what a job of three and more parties asks for and does not get.
///
/// # Errors
/// The field, and what to do.
pub fn refuse(choice: &Choice) -> Result<(), Refusal> {
    let refusal = |field, why: String| Err(Refusal { field, why });
    if choice.parties > MOST {
        return refusal("shared.parties", format!("{} parties are too many; the most is {MOST}", choice.parties));
    }
    if choice.pivot.is_some_and(|pivot| choice.learners == [pivot]) {
        let why = "is the only party that learns, which leads the others; name one that does not learn";
        return refusal("shared.pivot", why.to_owned());
    }
    if choice.insecure {
        let why = "true does not go with more than two parties by rr22: two of them agree on keys that the others must not \
                   see, and without TLS whoever sees the network reads these; remove insecure = true on all sides, and \
                   give each party an identity (`vesica cert NAME --out DIR`, mine.tls)";
        return refusal("shared.insecure", why.to_owned());
    }
    Ok(())
}

/// The pivot that a comparison takes: the job's own, or the first party that does not lead.
pub fn pivot(choice: &Choice) -> Option<u8> {
    let of_many = || (0..).take(choice.parties).find(|&place| place != leader(choice)).filter(|_| choice.parties > 2);
    choice.pivot.or_else(of_many)
}

/// The place of the party that learns first: the first of the learners which is not the pivot.
fn leader(choice: &Choice) -> u8 {
    choice.learners.iter().copied().filter(|&place| Some(place) != choice.pivot).min().unwrap_or(0)
}

/// The stores of a unit: those of the function, for the leader's keys, and those of the clients, for the keys of the largest.
pub(crate) struct Shapes<S> {
    function: S,
    pub clients: S,
}

impl Many {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    pub(crate) fn leader(&self) -> u8 {
        leader(&self.choice)
    }

    /// The places of those that send a store.
    fn clients(&self) -> Vec<u8> {
        let all = (0..).take(self.choice.parties);
        all.filter(|&place| place != self.leader() && Some(place) != self.choice.pivot).collect()
    }

    /// log2 of the size of the base field: all keys at which a function of the job is evaluated count.
    fn base_bits(&self, sizes: &Sizes) -> u32 {
        let senders = self.choice.pivot.map_or_else(|| self.clients(), |pivot| vec![pivot]);
        let keys = senders.into_iter().fold(0u64, |sum, place| sum.saturating_add(sizes.padded(place)));
        vesica_params::vole_base_bits(keys, false, Level::STANDARD)
    }

    /// Bytes of a slot of a client's store. The leader tests each of its keys once; with a pivot only keys that both hold can be mistaken.
    pub(crate) fn slot_bytes(&self, sizes: &Sizes) -> usize {
        let tested = self.choice.pivot.map_or(u64::MAX, |pivot| sizes.padded(pivot)).min(sizes.padded(self.leader()));
        vesica_params::zero_test_bytes(tested, Level::STANDARD)
    }

    /// The shapes of the stores, each for so many keys in so many stores.
    pub(crate) fn shapes<S>(&self, sizes: &Sizes, shape: impl Fn(u64, u32) -> Option<S>) -> Result<Shapes<S>, Error> {
        let stores = sizes.units.saturating_mul(self.choice.parties as u32);
        let shape = |keys| shape(keys, stores).ok_or(Error::TooLarge { keys, protocol: "rr22" });
        let largest = self.clients().into_iter().map(|place| sizes.capacity(place)).max().unwrap_or(0);
        Ok(Shapes { function: shape(sizes.capacity(self.leader()))?, clients: shape(largest)? })
    }

    /// What the parties agreed on, with clients' stores of this shape.
    pub(crate) fn job<S>(&self, shape: S, seat: &Seat, terms: &Terms) -> Job<S> {
        Job {
            session: terms.salt,
            tag_len: terms.sizes.tag_len,
            shape,
            slot_bytes: self.slot_bytes(&terms.sizes),
            parties: self.choice.parties as u8,
            place: seat.place,
            leader: self.leader(),
            learners: self.choice.learners.clone(),
        }
    }

    /// Opens a side with stores of these shapes.
    fn with<S: Shape + 'static>(
        &self,
        shapes: Shapes<S>,
        seat: &Seat,
        terms: &Terms,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        match self.base_bits(&terms.sizes) {
            64 => self.over::<u64, S>(shapes, seat, terms, lines, rng),
            _ => self.over::<Block, S>(shapes, seat, terms, lines, rng),
        }
    }

    /// Opens a side over the base field `B`.
    fn over<B: Field + 'static, S: Shape + 'static>(
        &self,
        shapes: Shapes<S>,
        seat: &Seat,
        terms: &Terms,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        let (session, security) = (terms.salt, vesica_ot::Security::SemiHonest);
        let function = Vole::<B, S>::new(Params { session, shape: shapes.function, code: CODE, security });
        let job = self.job(shapes.clients, seat, terms);
        Ok(Opened::Units(match self.choice.pivot {
            Some(pivot) => nty21::open(&function, pivot, job, lines, rng)?,
            None => kmprt17::open(&function, job, lines, rng)?,
        }))
    }
}

impl Suite for Many {
    fn sets(&self) -> Vec<&'static str> {
        match self.choice.mode {
            Mode::Fast => vec![okvs::PAXOS.id, CODE.id],
            Mode::LowComm => vec![okvs::BAND_3.id, CODE.id],
        }
    }

    fn reveals(&self) -> Vec<Reveal> {
        let together = match self.choice.pivot {
            Some(pivot) => reveals::leader_and_pivot(self.leader(), pivot),
            None => reveals::joined_lists(self.leader()),
        };
        vec![reveals::INTERSECTION, reveals::KEY_COUNT, together]
    }

    /// Tags meet once between leader and pivot, and once for every other party that learns.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, fewer) = two_largest(keys);
        vesica_params::tag_bytes(more.saturating_mul(self.choice.parties as u64), fewer, Level::STANDARD)
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        vec![format!("base-field-{}", self.base_bits(sizes)), format!("zero-test-{}", 8 * self.slot_bytes(sizes))]
    }

    fn assumption(&self) -> &'static str {
        match self.choice.pivot {
            Some(_) => "dual learning parity with noise, and that leader and pivot do not collude",
            None => "dual learning parity with noise",
        }
    }

    fn memory(&self) -> u64 {
        250 // as with two parties, and a sum of stores
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let sizes = &terms.sizes;
        match self.choice.mode {
            Mode::Fast => {
                let shapes = self.shapes(sizes, |keys, stores| okvs::paxos(keys, stores, Level::STANDARD))?;
                self.with(shapes, seat, terms, lines, rng)
            }
            Mode::LowComm => {
                let band = |keys, stores| okvs::band(&okvs::BAND_3, keys, stores, Level::STANDARD);
                self.with(self.shapes(sizes, band)?, seat, terms, lines, rng)
            }
        }
    }
}
