//! `protocol = "rr22"` with `result = "count"`, `"sum"` or `"shares"`: what is common, in shares that are opened once for the whole
//! job, or written.

use crate::{Choice, Cut, Error, Opened, ResultKind, Seat, Sizes, Suite, Terms};
use vesica_block::Block;
use vesica_oprf::opprf;
use vesica_oprf::vole::Field;
use vesica_params::lpn::{self, BINARY, CodeSet};
use vesica_params::{Level, cuckoo, okvs};
use vesica_psi::circuit::{self, Total};
use vesica_psi::reveals;
use vesica_session::{Lines, Reveal, SessionRng};

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

/// The circuit.
pub struct Circuit {
    choice: Choice,
}

impl Circuit {
    /// As a job asks for it.
    pub fn new(choice: &Choice) -> Self {
        Self { choice: choice.clone() }
    }

    /// Bins of a unit for the keys of the party at `place`.
    fn bins(sizes: &Sizes, place: u8) -> Option<u32> {
        cuckoo::bins(sizes.capacity(place), sizes.units, Level::STANDARD)
    }

    /// Bits of a target, whoever puts its keys into bins.
    fn target_bits(sizes: &Sizes) -> Option<u32> {
        let most = Self::bins(sizes, 0)?.max(Self::bins(sizes, 1)?);
        Some(vesica_params::target_bits(u64::from(most) * u64::from(sizes.units), Level::STANDARD))
    }

    /// log2 of the size of the base field: the sender evaluates each key in three bins.
    fn base_bits(sizes: &Sizes) -> u32 {
        let most = sizes.padded(0).max(sizes.padded(1));
        vesica_params::vole_base_bits(most.saturating_mul(3), false, Level::STANDARD)
    }

    fn with<B: Field + 'static>(
        params: circuit::Params,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        Ok(Opened::Shares(Box::new(circuit::Circuit::<B>::open(params, lines.peer()?, rng)?)))
    }
}

impl Suite for Circuit {
    fn sets(&self) -> Vec<&'static str> {
        vec![cuckoo::CUCKOO.id, okvs::PAXOS.id, CODE.id, BINARY.id]
    }

    fn reveals(&self) -> Vec<Reveal> {
        match self.choice.result {
            ResultKind::Sum => vec![reveals::INTERSECTION_SUM, reveals::KEY_COUNT],
            ResultKind::Shares => vec![reveals::KEY_COUNT],
            _ => vec![reveals::INTERSECTION_SIZE, reveals::KEY_COUNT],
        }
    }

    fn assumption(&self) -> &'static str {
        "dual learning parity with noise, over bits too"
    }

    /// One bit of the offset of the transfers is known.
    fn kappa(&self) -> u32 {
        Level::STANDARD.kappa - 1
    }

    fn cut(&self) -> Cut {
        Cut::Shares
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        let targets = Self::target_bits(sizes).map(|bits| format!("targets-{bits}"));
        [format!("base-field-{}", Self::base_bits(sizes))].into_iter().chain(targets).collect()
    }

    fn memory(&self) -> u64 {
        700 // the hint with what it is solved from, targets and bits; the noise of the transfers, 32 MiB a unit, for 2^17 keys
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let sizes = &terms.sizes;
        // Whoever has values puts its keys into bins; where nobody has any, the party with fewer keys, for bins cost most.
        let puts = terms.values.unwrap_or(u8::from(sizes.capacity(1) < sizes.capacity(0)));
        let pairs = sizes.capacity(1 - puts).saturating_mul(3);
        let too_large = || Error::TooLarge { keys: sizes.capacity(puts).max(pairs / 3), protocol: "rr22" };
        let opprf = opprf::Params {
            session: terms.salt,
            bins: Self::bins(sizes, puts).ok_or_else(too_large)?,
            shape: okvs::paxos(pairs, sizes.units, Level::STANDARD).ok_or_else(too_large)?,
            bits: Self::target_bits(sizes).ok_or_else(too_large)?,
            code: CODE,
        };
        let (total, values) = match self.choice.result {
            ResultKind::Sum => (Total::Sum, true),
            ResultKind::Shares => (Total::Shares, terms.values.is_some()),
            _ => (Total::Count, false),
        };
        let params = circuit::Params {
            opprf,
            puts: seat.place == puts,
            values,
            total,
            least: self.choice.least,
            i_learn: seat.learns,
            peer_learns: self.choice.learners.iter().any(|&place| place != seat.place),
            fewer: sizes.keys.iter().copied().min().unwrap_or(0),
        };
        match Self::base_bits(sizes) {
            64 => Self::with::<u64>(params, lines, rng),
            _ => Self::with::<Block>(params, lines, rng),
        }
    }
}
