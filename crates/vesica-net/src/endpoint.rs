//! Who a party is, whom it expects and how it knows them.

use crate::heartbeat::{Pulse, SILENCE};
use crate::hello::{Hello, WINDOWS};
use crate::hitch::Hitch;
use crate::link::Link;
use crate::pass::Pass;
use crate::secured::CARRIED;
use crate::wire::Wire;
use crate::{Error, Event, Fingerprint, Identity, Network, Result, Road, Secured, Trust};
use std::sync::Arc;
use std::time::Duration;
use vesica_types::Party;

/// How this party's connections are secured.
#[derive(Clone, Debug)]
pub enum Security {
    /// TLS 1.3, both sides authenticated.
    Tls {
        /// This party's key and certificate.
        identity: Identity,
    },
    /// Plaintext, and nobody is authenticated. Both sides must say so.
    Insecure,
}

/// One peer, and how it is found and known.
#[derive(Clone, Debug)]
pub struct PeerSpec {
    /// Who.
    pub party: Party,
    /// Where to reach it, as `host:port`; none if it connects to us.
    pub connect: Option<String>,
    /// How it is known; needed with TLS.
    pub trust: Option<Trust>,
    /// How its address is reached.
    pub road: Road,
}

/// Who this party is, whom it expects, and how.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// This party.
    pub me: Party,
    /// Where to listen, as `host:port`; needed if a peer connects to us.
    pub listen: Option<String>,
    /// Everybody else.
    pub peers: Vec<PeerSpec>,
    /// How connections are secured.
    pub security: Security,
    /// The name of the job, hashed: parties that run another one are turned away.
    pub job: [u8; 32],
    /// Further jobs that a door answers: the lanes of a run, each by the hash that names it. [`PeerLink::job`](crate::PeerLink::job) says which one came.
    pub lanes: Vec<[u8; 32]>,
    /// How long to wait for everybody.
    pub patience: Duration,
    /// The largest message of a line, in bytes: 64 KiB to 64 MiB, 8 MiB by default. The smaller of both sides' holds. A
    /// line keeps at most a quarter more than this waiting in each direction.
    pub window: u32,
    /// The most bytes that may wait on lines that the peer has opened and this side has not; no bound of their own by default, where
    /// both sides open the same lines and each waits for the other's. A service does not wait for what it did not ask for.
    pub unasked: Option<usize>,
    /// How long a peer may say nothing before it counts as dead; 10 s by default.
    pub silence: Duration,
    /// Whether this side only checks that it could be met. If it leaves before everybody is here, those who are here are not told that this
    /// is the end: they wait on, for it too. Not so by default.
    pub only_checks: bool,
    /// Gateways that call for others: if there are any, nobody else may call here, and each of their connections begins with a header of the
    /// PROXY protocol that says for whom it is. None by default.
    pub gateways: Vec<Network>,
    /// Whether peers are met on connections that the caller brings, with [`Endpoint::carry`]: nobody is dialled or awaited.
    pub carried: bool,
}

impl Endpoint {
    /// An endpoint with the usual patience (60 s), window and silence, and no peers.
    pub fn new(me: Party, job: [u8; 32], security: Security) -> Self {
        Self {
            me,
            listen: None,
            peers: Vec::new(),
            security,
            job,
            lanes: Vec::new(),
            patience: Duration::from_secs(60),
            window: 8 << 20,
            unasked: None,
            silence: SILENCE,
            only_checks: false,
            gateways: Vec::new(),
            carried: false,
        }
    }

    /// Everything of [`Endpoint::check`] that needs no port. Says when the certificate expires if that is soon.
    pub(crate) fn examine(&self) -> Result<Option<Event>> {
        if self.peers.is_empty() {
            return Err(Error::Setup(format!("{} has no peers; name at least two parties", self.me)));
        }
        for peer in &self.peers {
            if let Some(address) = peer.connect.as_ref().filter(|_| peer.road.has_address()) {
                split(address)
                    .map_err(|why| Error::Setup(format!("mine.connect.{} = {address:?}: {why}", peer.party)))?;
            }
        }
        self.examine_with(self.peers.iter().map(|peer| peer.party.name()))
    }

    /// What holds for a job's endpoint and for a service's. The parties called `others` are all that it may meet.
    pub(crate) fn examine_with<'a>(&'a self, others: impl Iterator<Item = &'a str>) -> Result<Option<Event>> {
        let mut names: Vec<&str> = others.chain([self.me.name()]).collect();
        if let Some(name) = names.iter().find(|name| name.is_empty() || name.len() > 255) {
            return Err(Error::Setup(format!("{name:?} is no name for a party; use 1 to 255 bytes")));
        }
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[a, b]| a == b) {
            return Err(Error::Setup(format!("two parties are called {name:?}; give each a name of its own")));
        }
        if !WINDOWS.contains(&self.window) {
            return Err(Error::Setup(format!(
                "a window of {} bytes is out of range; use {} to {}",
                self.window,
                WINDOWS.start(),
                WINDOWS.end()
            )));
        }
        if self.patience.is_zero() || self.silence < Duration::from_millis(100) {
            return Err(Error::Setup("patience or silence is too short to meet anybody; use seconds".into()));
        }
        match &self.security {
            Security::Insecure => Ok(None),
            Security::Tls { identity } => {
                let soon = identity.check_age(Identity::SOON)?;
                Ok(soon.map(|date| Event::Expiring { what: identity.what().to_owned(), date }))
            }
        }
    }

    /// The fingerprint of this side's certificate.
    pub(crate) fn own(&self) -> Option<Fingerprint> {
        match &self.security {
            Security::Insecure => None,
            Security::Tls { identity } => Some(identity.fingerprint()),
        }
    }

    /// What it says first to the party called `to`.
    pub(crate) fn hello(&self, to: &str) -> Hello {
        Hello { job: self.job, window: self.window, from: self.me.name().to_owned(), to: to.to_owned() }
    }

    fn secured(&self, wire: &Wire, trust: Option<&Trust>) -> Secured {
        if wire.is_plain() {
            let protocol = if self.carried { CARRIED } else { "none" };
            return Secured { protocol, ..Secured::plain() };
        }
        Secured {
            protocol: "TLS 1.3",
            cipher: wire.cipher(),
            trust: trust.map(Trust::to_string),
            fingerprint: wire.chain().first().map(Fingerprint::of),
            ours: wire.ours,
        }
    }

    /// Goes on with `peer`, known by `trust`, which has said that its window is `window`, once both sides have said welcome.
    pub(crate) fn start(
        &self,
        wire: Wire,
        peer: &Party,
        trust: Option<&Trust>,
        window: u32,
        pulse: &Arc<Pulse>,
        pass: Option<Pass>,
    ) -> std::result::Result<Link, Hitch> {
        let secured = self.secured(&wire, trust);
        let window = window.min(self.window);
        Ok(Link::start(peer.clone(), wire, (window, self.unasked), secured, pulse.clone(), pass)?)
    }
}

/// Splits `host:port`, and says what is wrong with one that does not split.
pub(crate) fn split(address: &str) -> std::result::Result<(&str, u16), String> {
    let (host, port) = address.rsplit_once(':').ok_or("no port; write it as \"host:port\"")?;
    let port = port.parse().map_err(|_| format!("{port:?} is no port; use a number from 0 to 65535"))?;
    if host.is_empty() {
        return Err("no host; write it as \"host:port\"".into());
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err("an IPv6 address needs brackets; write it as \"[::1]:7744\"".into());
    }
    Ok((host, port))
}
