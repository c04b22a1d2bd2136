//! The dialling side: reaches a peer whose address is known, and finds out whether it is that peer.

use crate::heartbeat::Pulse;
use crate::hello::{Hello, Verdict};
use crate::hitch::Hitch;
use crate::link::Link;
use crate::road::{Opened, Station, Unreached};
use crate::version::WIRE_VERSION;
use crate::wire::Wire;
use crate::{Endpoint, Error, PeerSpec, Result, Security, Trust, tls};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a host name may stay unknown: a partner's name may appear with its machine, but a wrong one never does.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How long a handshake may take over a command.
const COMMAND: Duration = Duration::from_secs(60);

/// The pauses between attempts to reach a peer: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Who dials whom.
pub(crate) struct Caller<'a> {
    pub endpoint: &'a Endpoint,
    pub peer: &'a PeerSpec,
    /// The peer's, as `host:port`.
    pub address: &'a str,
    pub tls: Option<tls::Client>,
    pub pulse: &'a Arc<Pulse>,
}

impl Caller<'_> {
    /// Dials until the peer is here, or never will be; none if it is `over` first. Each attempt that fails is told to
    /// `failed`, and whether the peer was there and asked to be tried again later.
    pub fn dial(&self, over: impl Fn() -> bool, failed: impl Fn(String, bool)) -> Option<Result<Link>> {
        let mut pause = PAUSE.0;
        let mut unknown: Option<Instant> = None;
        while !over() {
            let opened = self.peer.road.open(self.address, self.endpoint.patience / 2);
            if !matches!(opened, Err(Unreached::Unknown { .. })) {
                unknown = None;
            }
            let (why, there) = match opened {
                Err(unreached) => {
                    if let Some(error) = self.lasting(&unreached, &mut unknown) {
                        return Some(Err(error));
                    }
                    (unreached.to_string(), false)
                }
                Ok(opened) => match self.call(opened) {
                    Ok(link) => return Some(Ok(link)),
                    Err(Hitch::Cut(why)) => (self.on_the_road(why), false),
                    Err(Hitch::Later(why)) => (why, true),
                    Err(hitch) => return Some(Err(self.fatal(hitch))),
                },
            };
            failed(why, there);
            std::thread::sleep(pause);
            pause = (pause * 3 / 2).min(PAUSE.1);
        }
        None
    }

    /// What no patience will mend of a road that led nowhere. A host name is `unknown` since that moment.
    fn lasting(&self, unreached: &Unreached, unknown: &mut Option<Instant>) -> Option<Error> {
        let (peer, address) = (self.peer.party.clone(), self.address.to_owned());
        match unreached {
            Unreached::Unknown { of, why } => {
                let since = *unknown.get_or_insert_with(Instant::now);
                let over = since.elapsed() >= UNKNOWN.min(self.endpoint.patience / 2);
                over.then(|| match of {
                    Station::Peer => Error::Name { peer, address, why: why.clone() },
                    Station::Proxy(_) => {
                        Error::Road { peer, address, why: format!("{unreached}; correct its address") }
                    }
                })
            }
            Unreached::Barred(why) => Some(Error::Road { peer, address, why: why.clone() }),
            Unreached::Silent { .. } | Unreached::Later(_) => None,
        }
    }

    /// The dialling side's first words.
    fn call(&self, opened: Opened) -> std::result::Result<Link, Hitch> {
        let mut wire = Wire::new(opened.socket);
        wire.address = opened.at;
        if let Some(errand) = opened.errand {
            // A tunnel has first to be built, perhaps over several machines.
            wire.until = Instant::now() + self.endpoint.patience.min(COMMAND);
            wire.errand = Some(Arc::new(errand));
        }
        match self.introduce(&mut wire) {
            Ok(window) => {
                let PeerSpec { party, trust, .. } = self.peer;
                self.endpoint.start(wire, party, trust.as_ref(), window, self.pulse, None)
            }
            Err(hitch) => {
                let errand = wire.errand.clone();
                wire.part();
                Err(match (hitch, errand) {
                    (Hitch::Cut(why), Some(errand)) => Hitch::Cut(format!("{why}; {}", errand.words())),
                    (hitch, _) => hitch,
                })
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

    /// The same words, and by which road that was, if not simply by the address.
    fn on_the_road(&self, words: String) -> String {
        match self.peer.road.in_words() {
            Some(road) => format!("{words} ({road})"),
            None => words,
        }
    }

    /// What a hitch that no patience will mend means to the dialling side.
    pub fn fatal(&self, hitch: Hitch) -> Error {
        let party = self.peer.party.clone();
        let address = self.on_the_road(self.address.to_owned());
        let refused = |why: String| Error::Refused { peer: party.clone(), address: address.clone(), why };
        match hitch {
            Hitch::Rejected(rejected) => Error::Certificate {
                peer: party,
                address,
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
