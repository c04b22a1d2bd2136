//! The connection to one peer, as a run or a service sees it: over a socket, or over a network that a test makes.

use crate::Secured;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;
use vesica_session::{Channel, Error, Fault};
use vesica_types::Party;

/// Bytes on the wire, with framing and encryption.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// To the peer.
    pub sent: u64,
    /// From the peer.
    pub received: u64,
}

/// How far the peer says it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerProgress {
    /// Its phase, as at most 32 characters of printable text.
    pub phase: String,
    /// How much of the phase is done.
    pub done: u64,
    /// Of how much, where it is known.
    pub total: Option<u64>,
    /// How long ago it said so.
    pub age: Duration,
}

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
