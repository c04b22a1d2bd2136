//! Connections that the caller brings: its own channel in place of one that is dialled or awaited here.
//!
//! The words on it are the same, and so is TLS, if the endpoint has an identity. Without TLS it is the caller's channel that
//! must keep others from reading and changing what passes.

use crate::dial::Caller;
use crate::heartbeat::Pulse;
use crate::hitch::Hitch;
use crate::link::Link;
use crate::spawn::spawn;
use crate::trust::{Guests, Register};
use crate::wire::Wire;
use crate::{Bound, Control, Endpoint, Error, PeerLink, PeerSpec, Result, Security, tls};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What messages call the other end of a connection of the caller's.
const ADDRESS: &str = "the caller's connection";

/// Bytes that are carried at a time.
const CHUNK: usize = 256 << 10;

/// One end of a connection to one peer. Bytes that go in at one end come out at the other, all of them and in order.
#[derive(Debug)]
pub struct Connection(TcpStream);

impl Connection {
    /// Both ends of a connection within this machine.
    ///
    /// # Errors
    /// If the system has no sockets to give.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (here, there) = UnixStream::pair()?;
        Ok((Self::from_socket(here), Self::from_socket(there)))
    }

    /// A connected stream socket: a [`TcpStream`], a [`UnixStream`] or another that is like them.
    pub fn from_socket(socket: impl Into<OwnedFd>) -> Self {
        Self(TcpStream::from(socket.into()))
    }

    /// Any channel of bytes. Two threads carry them: one reads `reader` until it ends, one writes to `writer` and drops it when
    /// the run is over. The first one lives until `reader` ends, so that a reader should end when the other side has dropped
    /// its writer.
    ///
    /// # Errors
    /// If the system has no sockets or no threads to give.
    pub fn from_bytes(
        mut reader: impl Read + Send + 'static,
        mut writer: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (here, there) = UnixStream::pair()?;
        let (mut inward, mut outward) = (there.try_clone()?, there);
        let threads = || std::thread::Builder::new().name("carry".into());
        threads().spawn(move || {
            let _ = carry(&mut reader, &mut inward);
            let _ = inward.shutdown(Shutdown::Write);
        })?;
        threads().spawn(move || {
            let _ = carry(&mut outward, &mut writer);
            // What is dropped here may tell the other side that this is the end.
            drop(writer);
            let _ = outward.shutdown(Shutdown::Both);
        })?;
        Ok(Self::from_socket(here))
    }
}

/// Carries bytes until there are no more, and leaves none waiting in a buffer of the writer's.
fn carry(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(chunk.get(..n).unwrap_or_default())?;
        to.flush()?;
    }
}

impl Endpoint {
    /// Meets every peer on a connection of the caller's: `connections` are in the order of the peers. Of two parties the one
    /// that stands earlier in the job is the listening side of TLS.
    ///
    /// # Errors
    /// Those of [`Endpoint::check`]; a peer that says nothing within the patience, that proves to be somebody else or that will
    /// not talk to us.
    pub fn carry(mut self, connections: Vec<Connection>, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>> {
        self.carried = true;
        if connections.len() != self.peers.len() {
            let (brought, peers) = (connections.len(), self.peers.len());
            return Err(Error::Setup(format!("{brought} connections for {peers} peers; bring one for each")));
        }
        let Bound { endpoint, dialled, news, .. } = self.bind()?;
        news.iter().for_each(|event| control.event(event));
        let pulse = Pulse::start(control.clone(), endpoint.silence)?;
        let (sender, outcomes) = channel();
        let mut sockets = Vec::new();
        for (place, (Connection(socket), tls)) in connections.into_iter().zip(dialled).enumerate() {
            let kept = socket.try_clone().map_err(|source| Error::System { what: "keeping a connection", source })?;
            sockets.push(kept);
            let (sender, endpoint, pulse) = (sender.clone(), endpoint.clone(), pulse.clone());
            spawn("greet", move || {
                let Some(peer) = endpoint.peers.get(place) else { return };
                let caller = Caller { endpoint: &endpoint, peer, address: ADDRESS, tls, pulse: &pulse };
                // If nobody listens any more, the link is dropped, which is as it should be.
                let _ = sender.send((place, caller.meet(socket)));
            })?;
        }
        drop(sender);
        let mut links: Vec<Option<Link>> = sockets.iter().map(|_| None).collect();
        let met = loop {
            if control.cancelled() {
                break Err(vesica_session::Error::Cancelled.into());
            }
            match outcomes.recv_timeout(Duration::from_millis(10)) {
                Ok((place, Ok(link))) => {
                    if let Some(seat) = links.get_mut(place) {
                        *seat = Some(link);
                    }
                }
                Ok((_, Err(error))) => break Err(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
        };
        if met.is_err() {
            // Ends the threads that still wait.
            sockets.iter().for_each(|socket| _ = socket.shutdown(Shutdown::Both));
        }
        met.map(|()| links.into_iter().flatten().map(Into::into).collect())
    }
}

impl Caller<'_> {
    /// Both sides' first words on a connection of the caller's.
    fn meet(&self, socket: TcpStream) -> Result<Link> {
        let mut wire = Wire::new(socket);
        // The other side may come later, and there is no dialling that would say when.
        let began = Instant::now();
        wire.until = began + self.endpoint.patience;
        let listens = self.endpoint.me.place() < self.peer.party.place();
        let met = match (&self.endpoint.security, listens) {
            (Security::Tls { identity }, true) => {
                let guests = Guests::new(vec![(self.peer.party.clone(), self.peer.trust.clone())]);
                let server = tls::server(identity, Register::new(guests))?;
                wire.accept(Some(server)).and_then(|()| self.exchange(&mut wire))
            }
            _ => self.introduce(&mut wire),
        };
        let PeerSpec { party, trust, .. } = self.peer;
        let started = met.and_then(|window| self.endpoint.start(wire, party, trust.as_ref(), window, self.pulse, None));
        started.map_err(|hitch| match hitch {
            Hitch::Cut(why) | Hitch::Later(why) => Error::Absent {
                peer: party.clone(),
                address: ADDRESS.to_owned(),
                waited: began.elapsed(),
                why: format!("{why}; check that {party} has started and holds the other end"),
            },
            hitch => self.fatal(hitch),
        })
    }
}
