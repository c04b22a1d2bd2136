use crate::Secured;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use vesica_types::Party;

/// What the caller wants to hear, and whether it wants to stop.
pub trait Control: Send + Sync {
    /// Something worth telling a person. Called from the thread that called [`connect`](crate::connect), or from threads of
    /// a service's [`Door`](crate::Door).
    fn event(&self, event: &Event);

    /// Whether to stop: asked about ten times a second. Once true, every blocked call of every line returns
    /// [`vesica_session::Error::Cancelled`]; [`PeerLink::abort`](crate::PeerLink::abort) still works, to tell the peer.
    fn cancelled(&self) -> bool;
}

/// A [`Control`] that says nothing and never stops.
pub struct Quiet;

impl Control for Quiet {
    fn event(&self, _: &Event) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// What happens until everybody is connected.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The port is open.
    Listening {
        /// The address that is listened on.
        at: SocketAddr,
    },
    /// A peer is called, and not simply by its address.
    Calling {
        /// Who.
        peer: Party,
        /// At which address.
        address: String,
        /// Through which proxy, or why through none.
        road: String,
    },
    /// A peer is not here yet.
    Waiting {
        /// Who.
        peer: Party,
        /// Where it is sought: the address that is dialled, or the one that is listened on.
        address: String,
        /// What the last attempt met, where there was one.
        why: Option<String>,
        /// How much patience is left.
        left: Duration,
    },
    /// Somebody connected who is not let in. The run goes on.
    Refused {
        /// From where.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// So many were turned away that they are no longer listed one by one.
    Strangers {
        /// How many so far.
        count: u64,
    },
    /// The system does not give a service's door what it needs to take in everybody. It goes on trying.
    Strained {
        /// What the system refuses.
        why: String,
    },
    /// This party's certificate will soon be refused for its age.
    Expiring {
        /// Whose certificate: the identity's file or name.
        what: String,
        /// The last day, as `2036-01-31`.
        date: String,
    },
    /// A list of revoked certificates stands beside the authorities, and none of them has issued it.
    IdleList {
        /// The file of authorities.
        file: PathBuf,
        /// Who has issued the list, by the name in it.
        issuer: String,
    },
    /// A peer is here.
    Connected {
        /// Who.
        peer: Party,
        /// Its address, if it has one.
        address: Option<SocketAddr>,
        /// How the connection is secured.
        secured: Secured,
    },
    /// A peer that was here broke away before everybody had come; it is awaited again.
    Lost {
        /// Who.
        peer: Party,
        /// What happened.
        why: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Listening { at } => write!(f, "listening on {at}"),
            Event::Calling { peer, address, road } => write!(f, "{peer} is called at {address}, {road}"),
            Event::Waiting { peer, address, why, left } => {
                write!(f, "waiting for {peer} at {address}, {} s of patience left", left.as_secs())?;
                match why {
                    Some(why) => write!(f, " ({why})"),
                    None => Ok(()),
                }
            }
            Event::Refused { from, why } => write!(f, "refused a connection from {from}: {why}"),
            Event::Strangers { count } => write!(f, "refused {count} connections so far"),
            Event::Strained { why } => write!(f, "cannot take in everybody who connects: {why}"),
            Event::Expiring { what, date } => {
                write!(f, "the certificate of {what} expires on {date}; make a new one and give it to your partners")
            }
            Event::IdleList { file, issuer } => write!(
                f,
                "{} has a list of revoked certificates by {issuer:?} and no certificate of that authority, so the list covers nobody except \
                 those whose chain goes through it; put the authority's certificate there, or take the list out",
                file.display()
            ),
            Event::Connected { peer, address: Some(address), secured } => {
                write!(f, "connected to {peer} at {address}: {secured}")
            }
            Event::Connected { peer, address: None, secured } => write!(f, "connected to {peer}: {secured}"),
            Event::Lost { peer, why } => write!(f, "{peer} broke away and is awaited again: {why}"),
        }
    }
}
