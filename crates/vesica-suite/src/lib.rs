//! All that the rest of the house must know of a protocol: its names, its parameter sets, what it reveals, what it takes, and
//! how a side of it is opened. One file a suite; [`find`] is the only place that knows all of them by name.

#![forbid(unsafe_code)]

mod choice;
mod curve;
mod ecdh;
mod hash;
mod kkrt;
mod oprf;
mod rr22;

pub use choice::{Choice, CurveName, Mode, ProtocolName, Security};
use vesica_session::{Channel, Protocol, Reveal, SessionRng};
use vesica_types::TagLen;

/// A protocol as a job may ask for it.
pub trait Suite: Send + Sync {
    /// Ids of the parameter sets that a job takes, whatever its sizes: the parties must have the same, or keys match nothing.
    fn sets(&self) -> Vec<&'static str>;

    /// What a run tells whom, beyond what the parties agree on in the open. Plan, agreement and report print these.
    fn reveals(&self) -> Vec<Reveal>;

    /// Bits of computational security.
    fn kappa(&self) -> u32 {
        vesica_params::Level::STANDARD.kappa
    }

    /// The set of the curve, if the protocol works in the group of one.
    fn curve(&self) -> Option<&'static vesica_params::curve::CurveSet> {
        None
    }

    /// The length of a comparison tag for these padded keys of the whole job. Every party must get the same length.
    fn tag_bytes(&self, keys: [u64; 2]) -> usize {
        vesica_params::tag_bytes(keys[0].max(keys[1]), keys[0].min(keys[1]), vesica_params::Level::STANDARD)
    }

    /// What follows from the sizes, such as `code-width-448`: named in the report.
    fn sized(&self, _: &Seat, _: &Sizes) -> Vec<String> {
        Vec::new()
    }

    /// Bytes of memory for each key, mine or the peer's, of a unit in flight: points, stores, values and their order. Measured, or
    /// added up from their sizes.
    fn memory(&self) -> u64;

    /// Opens a side: the set-up that serves all units of a run.
    ///
    /// # Errors
    /// [`Error::TooLarge`] before anything is sent; those of the channel.
    fn open(
        &self,
        seat: &Seat,
        terms: &Terms,
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Box<dyn Protocol>, Error>;
}

/// Who opens a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// This party's place in the job.
    pub place: u8,
    /// Whether it gets the result.
    pub learns: bool,
}

/// The sizes that follow from the parties' key counts; the same numbers on every side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Units.
    pub units: u32,
    /// Units in flight at once.
    pub in_flight: u32,
    /// Keys of mine a unit, padded.
    pub capacity: u64,
    /// Keys of the peer's a unit, padded.
    pub peer_capacity: u64,
    /// Length of a comparison tag.
    pub tag_len: TagLen,
}

/// What the parties of a run agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The jointly tossed salt, which names the run.
    pub salt: [u8; 32],
    /// The sizes.
    pub sizes: Sizes,
}

/// Why a side could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A unit with more keys than the protocol can take.
    #[error("units of {keys} keys are too large for {protocol}; give a smaller shared.unit, or none")]
    TooLarge {
        /// The receiver's keys of a unit.
        keys: u64,
        /// The protocol.
        protocol: &'static str,
    },
    /// The channel, or the peer.
    #[error("{0}")]
    Session(#[from] vesica_session::Error),
}

/// Why a job cannot have the protocol that it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The field of the shared document that asks for too much.
    pub field: &'static str,
    /// Why, and what to do.
    pub why: String,
}

/// The suite that a job asks for.
///
/// # Errors
/// What the protocol does not do.
pub fn find(choice: &Choice) -> Result<Box<dyn Suite>, Refusal> {
    refuse(choice)?;
    Ok(match choice.protocol {
        ProtocolName::Ecdh => ecdh::suite(choice),
        ProtocolName::Rr22 => Box::new(rr22::Rr22::new(choice)),
        ProtocolName::Kkrt => Box::new(kkrt::Kkrt::new(choice)),
        ProtocolName::Hash => Box::new(hash::Hash::new(choice)),
    })
}

/// Refuses what a job asks for and its protocol does not have.
fn refuse(choice: &Choice) -> Result<(), Refusal> {
    let name = choice.protocol.name();
    let refusal = |field, why| Err(Refusal { field, why });
    let rr22 = choice.protocol == ProtocolName::Rr22;
    let malicious = choice.security == Security::Malicious;
    if malicious && !rr22 {
        let why = format!("\"{name}\" is semi-honest; take protocol = \"rr22\" against parties that may deviate");
        return refusal("shared.security", why);
    }
    if choice.mode != Mode::default() && !rr22 {
        let why = format!("\"{}\" is of use only with protocol = \"rr22\"; remove it", choice.mode.name());
        return refusal("shared.mode", why);
    }
    if choice.curve != CurveName::default() && choice.protocol != ProtocolName::Ecdh {
        let why = format!("\"{}\" is of use only with protocol = \"ecdh\"; remove it", choice.curve.name());
        return refusal("shared.curve", why);
    }
    if malicious && choice.learners.len() > 1 {
        let why = "against parties that may deviate only one can learn: nothing would make the learner tell the other the \
                   truth; name one, or agree on security = \"semi-honest\"";
        return refusal("shared.learns", why.to_owned());
    }
    Ok(())
}
