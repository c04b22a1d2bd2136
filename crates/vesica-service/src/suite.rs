//! All that the service must know of a protocol, and the registry of them: the only place that knows all of them by name.
//!
//! A service has either a store of tags ([`crate::tags`]), which a client copies and searches by what comes out of the function alone,
//! or records, which it fetches by a retrieval scheme ([`crate::retrieve`]). A [`Suite`] is one or the other, and a scheme is a file in
//! `retrieve/schemes/` and a line of [`ALL`].

use crate::client::kept::Known;
use crate::error::Error;
use crate::found::Hit;
use crate::messages::Counter;
use crate::offer::Offer;
use crate::prepare::{Change, Prepared};
use crate::retrieve::schemes::{download, lattice, piano, simple};
use crate::retrieve::{Copying, Records, Scheme};
use crate::stock::Stock;
use crate::tags::Tags;
use crate::wants::Wants;
use std::path::Path;
use std::time::SystemTime;
use vesica_job::rooms::Clock;
use vesica_job::{Control, World};
use vesica_params::lwe;
use vesica_pir::{PackedPir, PirError, SimplePir, rlwe};
use vesica_session::Reveal;
use vesica_spec::service::{AskPlan, Hint, Private, ServePlan, Service, ServiceProtocol};

/// A protocol of a service.
///
/// Errors are faults of the plan, its files and the table; for a client also those of the connection, and a server that sends what cannot
/// be.
pub trait Suite: Sync {
    /// What is looked up, in one word: "keys" or "rows".
    fn counts(&self) -> &'static str;

    /// The scheme by which it retrieves records, if it does.
    fn scheme(&self) -> Option<&'static dyn Scheme>;

    /// What using the service tells whom.
    fn reveals(&self, private: Private, has_values: bool) -> Vec<Reveal>;

    /// Makes or changes what the plan serves.
    fn prepare(&self, plan: &ServePlan, change: &Change, world: &World, ctl: &Control) -> Result<Prepared, Error>;

    /// The file in a server's folder or a client's cache that says which state is there.
    fn document(&self) -> &'static str;

    /// What stands in the folder of the plan.
    fn open(&self, plan: &ServePlan, offer: &Offer) -> Result<Stock, Error>;

    /// Brings a client's cache to the state that the server described.
    fn copy(&self, described: &[u8], copying: &mut Copying<'_, '_>) -> Result<Fetched, Error>;

    /// What a client's cache has, in words, and from when on that is not taken any more, if it has an end.
    fn cached(&self, offer: &Offer, cache: &Path) -> Result<(String, Option<SystemTime>), Error>;

    /// What preparing and serving so many rows with values of so many bytes will take, in words.
    fn forecast(&self, plan: &ServePlan, value: Option<u32>, rows: u64, asked: Asking) -> Result<String, Error>;

    /// What looking so many rows up will take, in words.
    fn forecast_asking(&self, plan: &AskPlan, rows: u64) -> String;
}

/// What a client is expected to do, as far as the user says it.
#[derive(Clone, Copy, Default)]
pub struct Asking {
    /// How many rows it looks up.
    pub queries: Option<u64>,
    /// Megabits a second of its network.
    pub mbit: Option<f64>,
}

/// A client's copy that is whole: a store of tags, a hint, a table, or a window.
pub struct Fetched {
    /// Keys or rows of the server.
    pub rows: u64,
    /// What was copied now, in words; none if nothing is new.
    pub news: Option<String>,
    /// Whether nothing is asked for: then the server goes before a row is looked up.
    pub is_silent: bool,
    /// The public key of the function at this state, empty where there is none; or why what the server sent is no key.
    pub public: Result<Vec<u8>, String>,
    /// What asks with it.
    pub copied: Box<dyn Copied>,
}

/// What a client has of a service when it has copied what there is to copy. It asks with it, and finds rows in what came.
///
/// Errors are those of the disk and the connection, and a server that refuses or breaks the protocol. None depends on what is looked up.
pub trait Copied {
    /// The text of which state of the server's this is; empty where nothing is kept from run to run.
    fn state(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Makes sure that so many lookups can be done. Nothing was asked for yet.
    fn prepare(&self, plan: &AskPlan, lookups: u64, clock: &mut Clock<'_>) -> Result<(), Error>;

    /// Asks for what is needed beside the function. Nothing of what comes is looked at before the server is gone.
    fn retrieve(
        &mut self,
        asked: Asked<'_>,
        counter: &mut Counter<'_>,
        clock: &mut Clock<'_>,
        ctl: &Control,
    ) -> Result<(), Error>;

    /// What came of the wants, by what opens each: in their order, and nothing for those that are not there. Where a run before searched an earlier
    /// state, that says of most of them what came.
    fn find<'a>(
        &'a mut self,
        wants: &Wants,
        outputs: &[[u8; 32]],
        earlier: Option<Earlier<'_>>,
    ) -> Result<Vec<Hit<'a>>, Error>;

    /// Pieces of work that so many lookups are.
    fn units(&self, lookups: u64) -> u64 {
        lookups
    }
}

/// What was found before, in an earlier state.
#[derive(Clone, Copy)]
pub struct Earlier<'a> {
    /// The state, as [`Copied::state`] gave it.
    pub state: &'a [u8],
    /// What was found of wants then.
    pub known: &'a Known,
}

/// What was found of a want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Was {
    /// It was there.
    Found,
    /// It was there, and could not be read.
    Unreadable,
    /// It was not there.
    Nothing,
}

/// What a client asks for.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its plan.
    pub plan: &'a AskPlan,
    /// Different keys or row numbers.
    pub wants: &'a Wants,
    /// What opens the values of each.
    pub outputs: &'a [[u8; 32]],
    /// How many lookups the server sees.
    pub lookups: u64,
    /// The machine around it.
    pub world: &'a World,
}

/// A protocol, and for "simple-pir" whether it has a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The protocol.
    pub protocol: ServiceProtocol,
    /// Whether clients copy a hint; none for the other protocols.
    pub hint: Option<Hint>,
}

impl Kind {
    const fn new(protocol: ServiceProtocol) -> Self {
        Self { protocol, hint: None }
    }

    const fn simple(hint: Hint) -> Self {
        Self { protocol: ServiceProtocol::SimplePir, hint: Some(hint) }
    }

    /// The one that these words mean. A document's is made [from](From) its service.
    pub fn of(protocol: ServiceProtocol, hint: Option<Hint>) -> Self {
        let hint = (protocol == ServiceProtocol::SimplePir).then(|| hint.unwrap_or(Hint::None));
        Self { protocol, hint }
    }

    /// Its suite.
    pub fn suite(self) -> &'static dyn Suite {
        let found = ALL.iter().find(|(known, _)| *known == self);
        found.expect("every protocol has a line of ALL, which a test compares with the names of documents").1
    }

    /// Whether its epochs are signed: clients copy masks, by which a server of another's making could read what they ask.
    pub fn signs(self) -> bool {
        self.hint == Some(Hint::None)
    }

    /// The parameter set that a client's queries rest on, where "simple-pir" has one with a hint and one without.
    pub fn set(self) -> Option<&'static str> {
        self.hint.map(|hint| if hint == Hint::None { lwe::PACKED.id } else { lwe::SIMPLE.id })
    }

    /// Its scheme.
    ///
    /// # Errors
    /// If it retrieves no records.
    pub fn scheme(self) -> Result<&'static dyn Scheme, PirError> {
        let none = || PirError::Shape(format!("\"{}\" retrieves no records", self.protocol.name()));
        self.suite().scheme().ok_or_else(none)
    }
}

/// The one that a document means.
impl From<&Service> for Kind {
    fn from(service: &Service) -> Self {
        Self::of(service.protocol, service.hint)
    }
}

/// As a document says it, in one line.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hint {
            None => f.write_str(self.protocol.name()),
            Some(hint) => write!(f, "{}, hint = \"{}\"", self.protocol.name(), hint.name()),
        }
    }
}

/// The protocols of a service, those that retrieve in the order in which `vesica plan` shows them.
pub const ALL: &[(Kind, &dyn Suite)] = &[
    (Kind::new(ServiceProtocol::EcdhOprf), &Tags),
    (Kind::simple(Hint::None), &Records(&simple::Simple::<PackedPir>::NEW)),
    (Kind::simple(Hint::Copied), &Records(&simple::Simple::<SimplePir>::NEW)),
    (Kind::new(ServiceProtocol::Piano), &Records(&piano::Windows)),
    (Kind::new(ServiceProtocol::Download), &Records(&download::Whole)),
    (Kind::new(ServiceProtocol::BfvPir), &Records(&lattice::Lattice(rlwe::Scheme::Bfv))),
    (Kind::new(ServiceProtocol::BgvPir), &Records(&lattice::Lattice(rlwe::Scheme::Bgv))),
    (Kind::new(ServiceProtocol::CkksPir), &Records(&lattice::Lattice(rlwe::Scheme::Ckks))),
    #[cfg(test)]
    (Kind::new(ServiceProtocol::Null), &Records(&crate::retrieve::schemes::null::Null)),
];

/// The kinds that retrieve records.
pub fn retrieving() -> impl Iterator<Item = Kind> {
    ALL.iter().filter(|(_, suite)| suite.scheme().is_some()).map(|(kind, _)| *kind)
}

/// What the service of an offer tells whom.
pub fn reveals(offer: &Offer) -> Vec<Reveal> {
    let private = offer.retrieval.map(|retrieval| retrieval.private).unwrap_or_default();
    offer.kind().suite().reveals(private, !offer.values.is_empty())
}

/// The same of a service's document.
pub fn reveals_of(service: &Service) -> Vec<Reveal> {
    Kind::from(service).suite().reveals(service.private, !service.values.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document may name a protocol if and only if the registry has it.
    #[test]
    fn every_protocol_has_a_suite() {
        for protocol in ServiceProtocol::ALL {
            for hint in [None, Some(Hint::None), Some(Hint::Copied)] {
                let suite = Kind::of(*protocol, hint).suite();
                assert_eq!(suite.scheme().is_some(), *protocol != ServiceProtocol::EcdhOprf);
            }
        }
        // "simple-pir" is with and without a hint, and tests have one more.
        assert_eq!(ALL.len(), ServiceProtocol::ALL.len() + 2);
    }
}
