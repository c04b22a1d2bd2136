//! Mutual TLS between parties: connect, multiplex lines, heartbeats.
//!
//! An [`Endpoint`] says who this party is, whom it expects and how it knows them. [`Endpoint::check`] finds local faults
//! before any contact, [`connect`] waits for everybody and gives a [`PeerLink`] to each peer, and [`PeerLink::line`] opens a
//! [`Channel`](vesica_session::Channel) over it: many lines share one connection and never wait for each other.
//!
//! A service has no peers but clients: [`Endpoint::door`] opens its port, and [`LaneDoor::next`] gives the link of whoever comes
//! next and is on the list. A client dials a service as it would a peer.
//!
//! A link has two threads. The reader decrypts, checks and sorts whatever comes; the writer sends what the lines have
//! queued, a frame of each in turn. A third, which all links of a meeting or of a door share, says once a second that this side lives
//! and notices when another does not. None of the three ever waits for a protocol, so a party that computes for minutes is
//! not taken for dead.
//!
//! Nothing from the wire allocates, loops or panics before it is bounded: every bound is a constant of `frame`, `hello`
//! or `state`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

mod bound;
mod carried;
mod certificate;
mod command;
mod connector;
mod crypt;
mod dial;
mod door;
mod endpoint;
mod error;
mod event;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod greet;
mod heartbeat;
mod hello;
mod hitch;
mod hybrid;
mod identity;
mod inbound;
mod line;
mod link;
mod lock;
mod meeting;
mod outbound;
mod pass;
mod peer;
mod port;
mod printed;
mod proxy;
mod road;
mod secured;
mod shared;
mod spawn;
mod state;
pub mod status;
mod text;
mod time;
mod tls;
mod trust;
mod version;
mod wire;

pub use bound::Bound;
pub use carried::Connection;
pub use certificate::Fingerprint;
pub use connector::{Connector, Sockets};
pub use door::{Client, ClientDoor, Door, LaneDoor, Limits};
pub use endpoint::{Endpoint, PeerSpec, Security};
pub use error::{Error, Result};
pub use event::{Control, Event, Quiet};
pub use identity::{Identity, exposed};
pub use meeting::connect;
pub use peer::{PeerLink, PeerProgress, Traffic};
pub use printed::printed;
pub use proxy::{Network, Proxy};
pub use road::{Proxies, Road, Station, Unreached};
pub use secured::Secured;
pub use text::printable;
pub use time::{Boot, SystemClock, Time};
pub use trust::{Roots, Trust};
pub use version::WIRE_VERSION;
