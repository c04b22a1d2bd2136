//! The dialling side: reaches a peer whose address is known, and finds out whether it is that peer.

use crate::heartbeat::Pulse;
use crate::hello::{Hello, Verdict};
use crate::hitch::Hitch;
use crate::version::WIRE_VERSION;
use crate::wire::Wire;
use crate::{Endpoint, Error, Link, PeerSpec, Result, Security, Trust};
use rustls::ClientConfig;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one address is given to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a host name may stay unknown: a partner's name may appear with its machine, but a wrong one never does.
const UNKNOWN: Duration = Duration::from_secs(10);

/// The pauses between attempts to reach a peer: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Who dials whom.
pub(crate) struct Caller<'a> {
    pub endpoint: &'a Endpoint,
    pub peer: &'a PeerSpec,
    /// The peer's, as `host:port`.
    pub address: &'a str,
    pub tls: Option<Arc<ClientConfig>>,
    pub pulse: &'a Arc<Pulse>,
}

impl Caller<'_> {
    /// Dials until the peer is here, or never will be; none if it is `over` first. Each attempt that fails is told to
    /// `failed`, and whether the peer was there and asked to be tried again later.
    pub fn dial(&self, over: impl Fn() -> bool, failed: impl Fn(String, bool)) -> Option<Result<Link>> {
        let party = &self.peer.party;
        let mut pause = PAUSE.0;
        let mut unknown: Option<Instant> = None;
        while !over() {
            let (why, there) = match self.address.to_socket_addrs().map(Vec::from_iter) {
                Err(e) => {
                    let why = lookup_words(&e);
                    let since = *unknown.get_or_insert_with(Instant::now);
                    if since.elapsed() >= UNKNOWN.min(self.endpoint.patience / 2) {
                        return Some(Err(Error::Name { peer: party.clone(), address: self.address.into(), why }));
                    }
                    (format!("the host name does not resolve: {why}"), false)
                }
                Ok(all) => {
                    unknown = None;
                    match reach(&all).map_err(Hitch::Cut).and_then(|socket| self.call(socket)) {
                        Ok(link) => return Some(Ok(link)),
                        Err(Hitch::Cut(why)) => (why, false),
                        Err(Hitch::Later(why)) => (why, true),
                        Err(hitch) => return Some(Err(self.fatal(hitch))),
                    }
                }
            };
            failed(why, there);
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(PAUSE.1);
        }
        None
    }

    /// The dialling side's first words.
    fn call(&self, socket: TcpStream) -> std::result::Result<Link, Hitch> {
        let mut wire = Wire::new(socket);
        match self.introduce(&mut wire) {
            Ok(window) => {
                let PeerSpec { party, trust, .. } = self.peer;
                self.endpoint.start(wire, party, trust.as_ref(), window, self.pulse, None)
            }
            Err(hitch) => {
                wire.part();
                Err(hitch)
            }
        }
    }

    /// Finds out whether the other end is the peer; gives its window.
    pub fn introduce(&self, wire: &mut Wire) -> std::result::Result<u32, Hitch> {
        wire.dial(self.tls.clone())?;
        self.exchange(wire)
    }

    /// What both sides say once the connection is secured; gives the peer's window.
    pub fn exchange(&self, wire: &mut Wire) -> std::result::Result<u32, Hitch> {
        let ours = self.endpoint.hello(self.peer.party.name());
        ours.send(wire)?;
        let theirs = Hello::receive(wire)?;
        let judged = theirs.judge(&ours, &[&self.peer.party]);
        match &judged {
            Ok(_) => Verdict::Welcome,
            Err(hitch) => Verdict::Never(hitch.words()),
        }
        .send(wire)?;
        judged?;
        Verdict::receive(wire)?;
        Ok(theirs.window)
    }

    /// What a hitch that no patience will mend means to the dialling side.
    pub fn fatal(&self, hitch: Hitch) -> Error {
        let party = self.peer.party.clone();
        let refused = |why: String| Error::Refused { peer: party.clone(), address: self.address.to_owned(), why };
        match hitch {
            Hitch::Rejected(rejected) => Error::Certificate {
                peer: party,
                address: self.address.to_owned(),
                expected: self.peer.trust.as_ref().map(Trust::to_string).unwrap_or_default(),
                presented: rejected.presented.to_string(),
                why: rejected.why,
            },
            Hitch::RejectedUs(why) => refused(format!(
                "{why}; ours is {}: check what {party}'s job says of {}",
                match &self.endpoint.security {
                    Security::Tls { identity } => identity.fingerprint().to_string(),
                    Security::Insecure => "none".into(),
                },
                self.endpoint.me
            )),
            Hitch::Version { theirs } => Error::Version { peer: party, theirs, ours: WIRE_VERSION },
            hitch => refused(hitch.words()),
        }
    }
}

/// The resolver's words, without the standard library's preface.
fn lookup_words(e: &std::io::Error) -> String {
    let words = e.to_string();
    words.strip_prefix("failed to lookup address information: ").map_or(words.clone(), str::to_owned)
}

/// Opens a socket to the first of `all` that answers.
fn reach(all: &[SocketAddr]) -> std::result::Result<TcpStream, String> {
    let mut why = "the host name has no address".to_owned();
    for address in all {
        match TcpStream::connect_timeout(address, ANSWER) {
            Ok(socket) => return Ok(socket),
            Err(e) => {
                why = match e.kind() {
                    ErrorKind::ConnectionRefused => format!("connection refused: nobody listens on {address} yet"),
                    ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                        format!(
                            "no answer from {address} within {} s: a firewall, or a wrong address",
                            ANSWER.as_secs()
                        )
                    }
                    ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => format!("no route to {address}"),
                    _ => format!("{address}: {e}"),
                }
            }
        }
    }
    Err(why)
}
