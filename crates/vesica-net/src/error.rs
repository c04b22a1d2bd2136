use std::time::Duration;
use vesica_session::Fault;
use vesica_types::Party;

/// The result of what this crate does before there are lines.
pub type Result<T> = std::result::Result<T, Error>;

/// What goes wrong until everybody is connected; after that, errors are [`vesica_session::Error`]s.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An identity or certificate that cannot be used.
    #[error("{what}: {why}; {remedy}")]
    Identity {
        /// The file or the name.
        what: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// An endpoint that contradicts itself.
    #[error("{0}")]
    Setup(String),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {why}; {remedy}")]
    Listen {
        /// The address.
        address: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A host name that no name server knows.
    #[error("cannot find {peer}: the host name of {address} does not resolve ({why}); correct mine.connect.{peer}")]
    Name {
        /// Whom it was to reach.
        peer: Party,
        /// The address as it was written.
        address: String,
        /// The resolver's words.
        why: String,
    },
    /// There is no road to a peer, and trying again would not mend it.
    #[error("cannot call {peer} at {address}: {why}")]
    Road {
        /// Whom it was to reach.
        peer: Party,
        /// The address as it was written.
        address: String,
        /// What a proxy said, and what to do.
        why: String,
    },
    /// A peer did not come in time.
    #[error("{peer} did not come within {} s ({address}): {why}", waited.as_secs_f32().round())]
    Absent {
        /// Who.
        peer: Party,
        /// Where it was sought.
        address: String,
        /// How long it was waited for.
        waited: Duration,
        /// What the last attempt met, and what to do.
        why: String,
    },
    /// The other end proved to be somebody else.
    #[error(
        "{address} is not {peer}: it presents certificate {presented}, expected {expected} ({why}); check the address, \
         and ask {peer} for the fingerprint of its certificate"
    )]
    Certificate {
        /// Whom we wanted.
        peer: Party,
        /// Who answered there.
        address: String,
        /// What we know of the peer.
        expected: String,
        /// The fingerprint of the certificate that was presented.
        presented: String,
        /// Why it was not enough.
        why: String,
    },
    /// The peer will not talk to us, or does so in a way that we do not understand.
    #[error("{peer} at {address}: {why}")]
    Refused {
        /// Who.
        peer: Party,
        /// Where.
        address: String,
        /// The reason and the remedy.
        why: String,
    },
    /// The two programs are of incompatible versions.
    #[error(
        "{peer} speaks version {theirs} of the wire format, this program speaks {ours}; install the same version of \
         Vesica on both sides"
    )]
    Version {
        /// Who.
        peer: Party,
        /// The peer's.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// A peer that was connected stopped the run while others were awaited, or this side was asked to stop.
    #[error(transparent)]
    Session(#[from] vesica_session::Error),
    /// The operating system refused something ordinary.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}

impl Error {
    /// What those who are here already may be told of it: who is not, and nothing of where or by which road this side looked for it. A road's
    /// words name this side's proxy and have the last lines of its command.
    pub(crate) fn for_peers(&self) -> String {
        const ELSE: &str = "it shows why on its own screen";
        match self {
            Error::Name { peer, .. } | Error::Road { peer, .. } => format!("it cannot call {peer}; {ELSE}"),
            Error::Absent { peer, waited, .. } => {
                format!("{peer} did not come within {} s; {ELSE}", waited.as_secs_f32().round())
            }
            Error::Certificate { peer, .. } => format!("it found somebody else in the place of {peer}; {ELSE}"),
            Error::Refused { peer, .. } => format!("it and {peer} do not agree to talk; {ELSE}"),
            error => error.to_string(),
        }
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Identity { .. } | Error::Setup(_) | Error::Listen { .. } | Error::Road { .. } => Fault::Config,
            Error::Name { .. } | Error::Absent { .. } | Error::System { .. } => Fault::Network,
            Error::Certificate { .. } | Error::Refused { .. } | Error::Version { .. } => Fault::Peer,
            Error::Session(error) => error.fault(),
        }
    }
}
