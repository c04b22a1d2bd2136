//! `protocol = "rr22"` with `result = "ids"`: an id for every key of both, by RR22's function in each direction.

use crate::{Choice, Cut, Error, Mode, Opened, Refusal, Seat, Sizes, Suite, Terms};
use vesica_block::Block;
use vesica_oprf::vole::{Field, Params, Shape, Vole};
use vesica_params::lpn::{self, CodeSet};
use vesica_params::{Level, okvs};
use vesica_psi::ids::{self, of_holder};
use vesica_psi::reveals;
use vesica_session::{Lines, Reveal, SessionRng};

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

/// Private ids.
pub struct Ids {
    mode: Mode,
}

impl Ids {
    /// As a job asks for it.
    ///
    /// # Errors
    /// What ids cannot keep to.
    pub fn new(choice: &Choice) -> Result<Self, Refusal> {
        if choice.least.is_some() {
            let why = "cannot be kept with result = \"ids\": nobody learns how many keys are common, so nobody could end the run because they are too \
                       few; remove it";
            return Err(Refusal { field: "shared.limits.min_intersection", why: why.to_owned() });
        }
        Ok(Self { mode: choice.mode })
    }

    /// log2 of the size of the base field: each party evaluates its function at its own keys.
    fn base_bits(sizes: &Sizes) -> u32 {
        vesica_params::vole_base_bits(sizes.padded(0).max(sizes.padded(1)), false, Level::STANDARD)
    }

    /// Opens a side, with the shape of the stores for the keys of the party at each place.
    fn with<B: Field + 'static, S: Shape + 'static>(
        shapes: [S; 2],
        seat: &Seat,
        terms: &Terms,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        // Whoever holds the key of a function, the other party's keys are in its store.
        let held_by = |place: u8| {
            let (session, shape) = (of_holder(&terms.salt, place), shapes[usize::from(1 - place)]);
            let params = Params { session, shape, code: CODE, security: vesica_ot::Security::SemiHonest };
            Vole::<B, S>::new(params).judged(&terms.judge)
        };
        let (mine, theirs) = (held_by(seat.place), held_by(1 - seat.place));
        let params = ids::Params { session: terms.salt, place: seat.place };
        Ok(Opened::Shares(Box::new(ids::Ids::open(params, [&mine, &theirs], lines.peer()?, rng)?)))
    }

    fn open_with<S: Shape + 'static>(
        shape: impl Fn(u64, u32) -> Option<S>,
        seat: &Seat,
        terms: &Terms,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        let sizes = &terms.sizes;
        let of = |place: u8| {
            let keys = sizes.capacity(place);
            shape(keys, sizes.units).ok_or(Error::TooLarge { keys, protocol: "rr22" })
        };
        let shapes = [of(0)?, of(1)?];
        match Self::base_bits(sizes) {
            64 => Self::with::<u64, S>(shapes, seat, terms, lines, rng),
            _ => Self::with::<Block, S>(shapes, seat, terms, lines, rng),
        }
    }
}

impl Suite for Ids {
    fn sets(&self) -> Vec<&'static str> {
        match self.mode {
            Mode::Fast => vec![okvs::PAXOS.id, CODE.id],
            Mode::LowComm => vec![okvs::BAND_3.id, CODE.id],
        }
    }

    fn reveals(&self) -> Vec<Reveal> {
        vec![reveals::IDS_TOGETHER, reveals::KEY_COUNT]
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        vec![format!("base-field-{}", Self::base_bits(sizes))]
    }

    fn assumption(&self) -> &'static str {
        "dual learning parity with noise"
    }

    fn cut(&self) -> Cut {
        Cut::Shares
    }

    fn memory(&self) -> u64 {
        260 // what rr22 takes, with the values of the other direction and the ids
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let paxos = |keys, units| okvs::paxos(keys, units, Level::STANDARD);
        let band = |keys, units| okvs::band(&okvs::BAND_3, keys, units, Level::STANDARD);
        match self.mode {
            Mode::Fast => Self::open_with(paxos, seat, terms, lines, rng),
            Mode::LowComm => Self::open_with(band, seat, terms, lines, rng),
        }
    }
}
