//! How peers are met, as an argument: over sockets, or over a network that a test makes.
//!
//! A run sees a [`PeerLink`] to each peer and, where it has lanes, a [`LaneDoor`]; a service has a [`ClientDoor`]. Sockets, TLS, frames, heartbeats and the threads of a
//! link are behind them.

use crate::{
    Client, Connection, Control, Door, Endpoint, Identity, Limits, Link, PeerProgress, Result, Secured, Traffic, Trust,
    connect as connect_sockets,
};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use vesica_session::{Channel, Error, Fault};
use vesica_types::Party;

/// The connection to one peer.
pub trait PeerLink: Send + Sync {
    /// Who is at the other end.
    fn peer(&self) -> &Party;

    /// Where the peer is connected from, if that has an address.
    fn address(&self) -> Option<SocketAddr>;

    /// The job that the peer came for, if it came in through a door: which lane.
    fn job(&self) -> Option<[u8; 32]>;

    /// Opens a line, as [`Link::line`] does.
    ///
    /// # Errors
    /// What ended the link; [`Error::Bug`] if the line was opened before.
    fn line(&self, name: &str) -> std::result::Result<Box<dyn Channel>, Error>;

    /// How the connection is secured.
    fn secured(&self) -> &Secured;

    /// Bytes on the wire so far, everything included.
    fn traffic(&self) -> Traffic;

    /// Time in which lines waited for the peer so far.
    fn waited(&self) -> Duration;

    /// Says how far this side is.
    fn set_progress(&self, phase: &str, done: u64, total: Option<u64>);

    /// What the peer last said of its progress.
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
    /// What ended the link before both sides had said goodbye; [`Error::Net`] if that does not happen in time.
    fn parted(&self, limit: Option<Duration>) -> std::result::Result<(), Error>;

    /// Says goodbye, and waits for the peer's as long as the peer lives.
    ///
    /// # Errors
    /// As [`PeerLink::parted`].
    fn close(&self) -> std::result::Result<(), Error> {
        self.parted(None)
    }

    /// Ends the run and tells the peer whose fault it is and why.
    fn abort(&self, fault: Fault, why: &str) {
        self.stop(fault, why);
        self.hang_up();
    }
}

/// Where the lanes of a run come in.
pub trait LaneDoor: Send + Sync {
    /// The next lane that comes; none when the door was shut. Any number of threads may wait here.
    ///
    /// # Errors
    /// If the run was cancelled.
    fn next(&self) -> Result<Option<Box<dyn PeerLink>>>;

    /// Where it is: with port 0, the port that the system chose.
    fn address(&self) -> SocketAddr;

    /// Lets nobody in any more. Lanes that are in go on.
    fn shut(&self);
}

/// Where the clients of a service come in: as [`Door`] does it.
pub trait ClientDoor: LaneDoor {
    /// From now on these are the clients, and nobody else.
    ///
    /// # Errors
    /// What is wrong with the list. Then the old one holds.
    fn set_clients(&self, clients: Vec<Client>) -> Result<()>;

    /// From the next client on, this is who the service is.
    ///
    /// # Errors
    /// What is wrong with the identity. Then the old one is shown.
    fn set_identity(&self, identity: &Identity) -> Result<()>;

    /// How many places are taken.
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
        Ok(connect_sockets(endpoint, control)?.into_iter().map(Into::into).collect())
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

impl Endpoint {
    /// The links that [`Endpoint::carry`] makes, as a run takes them.
    ///
    /// # Errors
    /// Those of [`Endpoint::carry`].
    pub fn carry_links(
        self,
        connections: Vec<Connection>,
        control: Arc<dyn Control>,
    ) -> Result<Vec<Box<dyn PeerLink>>> {
        Ok(self.carry(connections, control)?.into_iter().map(Into::into).collect())
    }
}

impl From<Link> for Box<dyn PeerLink> {
    fn from(link: Link) -> Self {
        Box::new(link)
    }
}

impl LaneDoor for Door {
    fn next(&self) -> Result<Option<Box<dyn PeerLink>>> {
        Ok(Door::next(self)?.map(Into::into))
    }

    fn address(&self) -> SocketAddr {
        Door::address(self)
    }

    fn shut(&self) {
        Door::shut(self);
    }
}

impl ClientDoor for Door {
    fn set_clients(&self, clients: Vec<Client>) -> Result<()> {
        Door::set_clients(self, clients)
    }

    fn set_identity(&self, identity: &Identity) -> Result<()> {
        Door::set_identity(self, identity)
    }

    fn links(&self) -> usize {
        Door::links(self)
    }
}

impl PeerLink for Link {
    fn peer(&self) -> &Party {
        Link::peer(self)
    }

    fn address(&self) -> Option<SocketAddr> {
        Link::address(self)
    }

    fn job(&self) -> Option<[u8; 32]> {
        Link::job(self)
    }

    fn line(&self, name: &str) -> std::result::Result<Box<dyn Channel>, Error> {
        Link::line(self, name)
    }

    fn secured(&self) -> &Secured {
        Link::secured(self)
    }

    fn traffic(&self) -> Traffic {
        Link::traffic(self)
    }

    fn waited(&self) -> Duration {
        Link::waited(self)
    }

    fn set_progress(&self, phase: &str, done: u64, total: Option<u64>) {
        Link::set_progress(self, phase, done, total);
    }

    fn peer_progress(&self) -> Option<PeerProgress> {
        Link::peer_progress(self)
    }

    fn ended(&self) -> Option<Error> {
        Link::ended(self)
    }

    fn stop(&self, fault: Fault, why: &str) {
        Link::stop(self, fault, why);
    }

    fn hang_up(&self) {
        Link::hang_up(self);
    }

    fn part(&self) {
        Link::part(self);
    }

    fn parted(&self, limit: Option<Duration>) -> std::result::Result<(), Error> {
        Link::parted(self, limit)
    }
}
