//! How peers are met, as an argument: over sockets, or over a network that a test makes.
//!
//! A run sees a [`PeerLink`] to each peer and, where it has lanes, a [`LaneDoor`]; a service has a [`ClientDoor`]. Sockets, TLS, frames, heartbeats and the threads of a
//! link are behind them.

use crate::{
    Client, Control, Endpoint, Identity, Limits, PeerProgress, Result, Secured, Traffic, Trust,
    connect as connect_sockets,
};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use vesica_session::{Channel, Error, Fault};
use vesica_types::Party;

/// The connection to one peer.
///
/// Dropped without [`PeerLink::close`] or [`PeerLink::abort`], it is cut, and the peer sees a connection that broke. A link that ended because
/// the peer misbehaved is dropped when the peer has heard the reason, which takes a second and a half at most.
pub trait PeerLink: Debug + Send + Sync {
    /// Who is at the other end.
    fn peer(&self) -> &Party;

    /// Where the peer is connected from; none if a proxy knows it alone, or on a connection that the caller brought, if it has none.
    fn address(&self) -> Option<SocketAddr>;

    /// The job that the peer came for, if it came in through a door: which lane.
    fn job(&self) -> Option<[u8; 32]>;

    /// Opens a line: an independent pipe that both sides open by the same name, once. Names are at most 64 bytes of printable text.
    ///
    /// # Errors
    /// What ended the link; [`Error::Bug`] if the line was opened before.
    fn line(&self, name: &str) -> std::result::Result<Box<dyn Channel>, Error>;

    /// How the connection is secured.
    fn secured(&self) -> &Secured;

    /// Bytes on the wire so far, everything included.
    fn traffic(&self) -> Traffic;

    /// Time in which lines waited for the peer so far. Lines that wait at once are counted each.
    fn waited(&self) -> Duration;

    /// Says how far this side is: the peer hears of a new phase at once, of the rest with the next heartbeat. `phase` is cut to 32 bytes.
    fn set_progress(&self, phase: &str, done: u64, total: Option<u64>);

    /// What the peer's last heartbeat said.
    fn peer_progress(&self) -> Option<PeerProgress>;

    /// What ended the link, if something did.
    fn ended(&self) -> Option<Error>;

    /// Tells the peer to stop, whose fault it is and why. Does not wait: [`PeerLink::hang_up`] does.
    fn stop(&self, fault: Fault, why: &str);

    /// Waits until the peer has heard the last words, but not for long, and cuts the connection.
    fn hang_up(&self);

    /// Says goodbye behind all that is still to be sent. Does not wait: [`PeerLink::parted`] does.
    fn part(&self);

    /// Waits for the peer's goodbye, as long as the peer lives and until `limit` after [`PeerLink::part`], and then hangs up.
    ///
    /// # Errors
    /// What ended the link before both sides had said goodbye; [`Error::Net`] if that does not happen in time; [`Error::Cancelled`] if the run is
    /// cancelled meanwhile.
    fn parted(&self, limit: Option<Duration>) -> std::result::Result<(), Error>;

    /// Says goodbye, and waits for the peer's as long as the peer lives.
    ///
    /// # Errors
    /// As [`PeerLink::parted`].
    fn close(&self) -> std::result::Result<(), Error> {
        self.parted(None)
    }

    /// Ends the run and tells the peer whose fault it is and why, within about a second. Blocked calls here return [`Error::Cancelled`],
    /// those of the peer [`Error::Stopped`].
    fn abort(&self, fault: Fault, why: &str) {
        self.stop(fault, why);
        self.hang_up();
    }
}

/// Where the lanes of a run come in.
pub trait LaneDoor: Send + Sync {
    /// The link of whoever comes next; none if the door is shut and nobody waits behind it or is just being let in, which takes ten seconds at
    /// most. Any number of threads may wait here.
    ///
    /// # Errors
    /// [`Error::Cancelled`], once the door's control says so.
    fn next(&self) -> Result<Option<Box<dyn PeerLink>>>;

    /// Where it is: with port 0, the port that the system chose.
    fn address(&self) -> SocketAddr;

    /// Closes the port. Links go on, and [`LaneDoor::next`] gives those that wait here already.
    fn shut(&self);
}

/// Where the clients of a service come in.
pub trait ClientDoor: LaneDoor {
    /// From now on these are the clients, and nobody else. The links of those who are not among them are ended, and so are those of a client that
    /// is now known in another way.
    ///
    /// # Errors
    /// What is wrong with the list. Then the old one holds.
    fn set_clients(&self, clients: Vec<Client>) -> Result<()>;

    /// From the next client on, this is who the service is. Links go on as they are.
    ///
    /// # Errors
    /// If its certificate is not in force, if TLS cannot be set up with it, and if there is no TLS. Then the old one is shown.
    fn set_identity(&self, identity: &Identity) -> Result<()>;

    /// How many places are taken: by links that have not been dropped, and by clients that are just being let in.
    fn links(&self) -> usize;
}

/// Makes connections.
pub trait Connector: Debug + Send + Sync {
    /// Finds the faults that can be found without any contact, as [`Endpoint::check`] does.
    ///
    /// # Errors
    /// The first fault.
    fn check(&self, endpoint: &Endpoint) -> Result<()>;

    /// Connects to every peer of `endpoint`, and waits for those that are late, as [`connect`](crate::connect) does.
    ///
    /// # Errors
    /// Those of [`connect`](crate::connect).
    fn connect(&self, endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>>;

    /// Opens a door for the lanes of a run, as [`Endpoint::lane_door`] does.
    ///
    /// # Errors
    /// Those of [`Endpoint::lane_door`].
    fn lane_door(
        &self,
        endpoint: Endpoint,
        peer: Party,
        known: Vec<Trust>,
        seats: usize,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn LaneDoor>>;

    /// Opens the door of a service, as [`Endpoint::door`] does.
    ///
    /// # Errors
    /// Those of [`Endpoint::door`].
    fn door(
        &self,
        endpoint: Endpoint,
        clients: Vec<Client>,
        limits: Limits,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn ClientDoor>>;
}

/// Connections over TCP.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sockets;

impl Connector for Sockets {
    fn check(&self, endpoint: &Endpoint) -> Result<()> {
        endpoint.check()
    }

    fn connect(&self, endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>> {
        connect_sockets(endpoint, control)
    }

    fn lane_door(
        &self,
        endpoint: Endpoint,
        peer: Party,
        known: Vec<Trust>,
        seats: usize,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn LaneDoor>> {
        Ok(Box::new(endpoint.lane_door(peer, known, seats, control)?))
    }

    fn door(
        &self,
        endpoint: Endpoint,
        clients: Vec<Client>,
        limits: Limits,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn ClientDoor>> {
        Ok(Box::new(endpoint.door(clients, limits, control)?))
    }
}
