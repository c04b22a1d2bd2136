//! The connection to one peer: many lines, two threads, and an end in good order or with a reason.

use crate::heartbeat::Pulse;
use crate::line::Pipe;
use crate::lock::{lock, wait, wait_for};
use crate::pass::Pass;
use crate::shared::{LAST_WORDS, Shared};
use crate::wire::Wire;
use crate::{PeerLink, PeerProgress, Secured, Traffic, inbound, outbound};
use std::fmt;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vesica_session::{Channel, Error, Fault, Result};
use vesica_types::Party;

/// A connection over a socket.
pub struct Link {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    secured: Secured,
    address: Option<SocketAddr>,
    /// Keeps the heart of the link beating.
    _pulse: Arc<Pulse>,
    /// That the peer was let in, if it came through a port.
    pass: Option<Pass>,
}

impl Link {
    /// Goes on with a connection on which both sides have said welcome: its two threads begin, and its
    /// heart beats with the others of `pulse`.
    pub(crate) fn start(
        peer: Party,
        wire: Wire,
        (window, unasked): (u32, Option<usize>),
        secured: Secured,
        pulse: Arc<Pulse>,
        pass: Option<Pass>,
    ) -> std::io::Result<Self> {
        let address = wire.address;
        wire.socket.set_read_timeout(None)?;
        wire.socket.set_write_timeout(None)?;
        let shared = Arc::new(Shared::new(peer, wire, window, unasked));
        let mut link = Link { shared, threads: Vec::with_capacity(2), secured, address, _pulse: pulse.clone(), pass };
        let shared = link.shared.clone();
        link.spawn("read", move || inbound::read(&shared))?;
        let shared = link.shared.clone();
        link.spawn("write", move || outbound::write(&shared))?;
        pulse.keep(&link.shared);
        Ok(link)
    }

    fn spawn(&mut self, what: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let name = format!("{what} {}", self.shared.peer);
        // A thread's name may hold no NUL, and a party's name is whatever the job says.
        let name = name.replace('\0', "?");
        self.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// The number of the peer's pass, if it came in through a port.
    pub(crate) fn pass(&self) -> Option<u64> {
        self.pass.as_ref().map(|pass| pass.number)
    }

    /// What its threads and lines share, for one who does not keep it.
    pub(crate) fn weak(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }
}

impl PeerLink for Link {
    fn job(&self) -> Option<[u8; 32]> {
        self.pass.as_ref().map(|pass| pass.job)
    }

    fn peer(&self) -> &Party {
        &self.shared.peer
    }

    fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        Ok(Box::new(Pipe::open(&self.shared, name)?))
    }

    fn secured(&self) -> &Secured {
        &self.secured
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.shared.sent.load(Ordering::Relaxed),
            received: self.shared.received.load(Ordering::Relaxed),
        }
    }

    fn waited(&self) -> Duration {
        Duration::from_nanos(self.shared.waited.load(Ordering::Relaxed))
    }

    fn set_progress(&self, phase: &str, done: u64, total: Option<u64>) {
        let shared = &*self.shared;
        let mut here = lock(&shared.here);
        let new = here.phase != phase;
        if new {
            phase.clone_into(&mut here.phase);
        }
        here.done = done;
        here.total = total;
        drop(here);
        if new {
            let mut state = lock(&shared.state);
            state.ping = true;
            shared.wake_writer(&mut state);
        }
    }

    fn peer_progress(&self) -> Option<PeerProgress> {
        lock(&self.shared.there).as_ref().map(|(progress, at)| PeerProgress {
            phase: progress.phase.clone(),
            done: progress.done,
            total: progress.total,
            age: at.elapsed(),
        })
    }

    fn ended(&self) -> Option<Error> {
        lock(&self.shared.state).over().err()
    }

    fn stop(&self, fault: Fault, why: &str) {
        self.shared.stop(Error::Cancelled, fault, why);
    }

    fn part(&self) {
        let mut state = lock(&self.shared.state);
        state.closing = true;
        state.closing_since.get_or_insert_with(Instant::now);
        self.shared.wake_writer(&mut state);
    }

    fn parted(&self, limit: Option<Duration>) -> Result<()> {
        self.part();
        let shared = &*self.shared;
        let mut state = lock(&shared.state);
        let end = limit.zip(state.closing_since).map(|(limit, since)| since + limit);
        while !(state.goodbye_sent && state.goodbye_seen) {
            state.over()?;
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => wait(&shared.quiet, state),
                Some(left) if !left.is_zero() => wait_for(&shared.quiet, state, left),
                Some(_) => {
                    drop(state);
                    let error = shared.lost("it does not say goodbye".to_owned());
                    shared.fail(error.clone());
                    return Err(error);
                }
            };
        }
        state.deadline.get_or_insert(Instant::now() + LAST_WORDS);
        drop(state);
        let _ = shared.socket.shutdown(Shutdown::Write);
        self.hang_up();
        Ok(())
    }

    fn hang_up(&self) {
        // A socket that is closed with unread bytes in it takes back what it has sent, and that would be our last words.
        let state = lock(&self.shared.state);
        let limit = LAST_WORDS + Duration::from_millis(500);
        let waited = self.shared.quiet.wait_timeout_while(state, limit, |state| !state.dead);
        drop(waited);
        self.shared.kill();
    }
}

impl From<Link> for Box<dyn PeerLink> {
    fn from(link: Link) -> Self {
        Box::new(link)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.map_or("no address".to_owned(), |address| address.to_string());
        write!(f, "Link({} at {address}, {})", self.shared.peer, self.secured)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Last words that are being said are waited for.
        let state = lock(&self.shared.state);
        let parting = state.deadline.is_some() && !state.dead;
        drop(state);
        match parting {
            true => self.hang_up(),
            false => self.shared.kill(),
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
