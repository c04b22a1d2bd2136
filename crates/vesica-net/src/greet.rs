//! The listening side's first words: who is at the port, and whether that party may come in.
//!
//! The keeper decides who somebody is. Whether that party may come in now, and what becomes of it, is the affair of the
//! [`Host`]: a meeting takes in every peer once, a service every client up to its limits.

use crate::heartbeat::Pulse;
use crate::hello::{Hello, Verdict};
use crate::hitch::Hitch;
use crate::link::Link;
use crate::lock::lock;
use crate::pass::Pass;
use crate::trust::{Guests, Register};
use crate::wire::Wire;
use crate::{Endpoint, Error, Identity, Security, tls};
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vesica_types::Party;

/// Whom the keeper works for. Its methods are called from the guests' threads.
pub(crate) trait Host: Send + Sync {
    /// The heartbeats of its links.
    fn pulse(&self) -> &Arc<Pulse>;

    /// Whether the guest may come in now, and if not, what it is told.
    fn admit(&self, guest: &Known<'_>) -> Result<Pass, Verdict>;

    /// A party is here. Its link holds the pass.
    fn arrived(&self, link: Link);

    /// Somebody was turned away, and why; who it is, if that is known.
    fn refused(&self, from: SocketAddr, hitch: Hitch, known: Option<&Party>);

    /// A party, known by its certificate, was turned away, and would be again.
    fn hopeless(&self, party: &Party, from: SocketAddr, hitch: Hitch);
}

/// A guest of whom it is known who it is.
pub(crate) struct Known<'a> {
    pub party: &'a Party,
    /// The job that it came for.
    pub job: [u8; 32],
    /// Its certificate and those behind it; empty in plaintext.
    pub chain: &'a [CertificateDer<'static>],
    /// The list on which it was found.
    pub list: &'a Arc<Guests>,
}

/// Somebody at the port, who either comes in (or goes) or is sent away: whichever is first.
#[derive(Default)]
pub(crate) struct Guest {
    settled: AtomicBool,
    /// From where it comes, once a gateway has said so.
    from: Mutex<Option<IpAddr>>,
}

impl Guest {
    /// Whether this call is the first.
    pub fn settle(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    pub fn settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    fn is_from(&self, from: IpAddr) {
        *lock(&self.from) = Some(from);
    }

    /// From where it comes, as far as that is known.
    pub fn from(&self) -> Option<IpAddr> {
        *lock(&self.from)
    }
}

/// What is needed to find out who a guest is.
pub(crate) struct Keeper {
    endpoint: Arc<Endpoint>,
    /// None in plaintext, where everybody is whoever they say they are.
    tls: Mutex<Option<tls::Server>>,
    /// Who may come in.
    register: Arc<Register>,
}

/// Why a guest is turned away, and who it is if that is known.
type Refusal = (Hitch, Option<Party>);

impl Keeper {
    /// A keeper who lets those come to `endpoint` who are on the list of `register`.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn new(endpoint: Arc<Endpoint>, register: Arc<Register>) -> crate::Result<Self> {
        let tls = match &endpoint.security {
            Security::Tls { identity } => Some(tls::server(identity, register.clone())?),
            Security::Insecure => None,
        };
        Ok(Self { endpoint, tls: Mutex::new(tls), register })
    }

    /// From the next guest on, this is the certificate that is shown.
    ///
    /// # Errors
    /// If TLS cannot be set up with it; if there is no TLS.
    pub fn set_identity(&self, identity: &Identity) -> crate::Result<()> {
        if matches!(self.endpoint.security, Security::Insecure) {
            return Err(Error::Setup("there is no TLS here, and so no certificate to exchange".into()));
        }
        *lock(&self.tls) = Some(tls::server(identity, self.register.clone())?);
        Ok(())
    }

    /// The listening side's first words to somebody at the port.
    pub fn greet(&self, host: &dyn Host, guest: &Guest, socket: TcpStream, from: SocketAddr) {
        let mut wire = Wire::new(socket);
        let from = match self.announced(&mut wire, from) {
            Ok(from) => from,
            Err(hitch) => {
                host.refused(from, hitch, None);
                return wire.part();
            }
        };
        guest.is_from(from.ip());
        let list = self.register.now();
        match self.admit(host, guest, &list, &mut wire) {
            Ok((party, window, pass)) => {
                let trust = list.trust(&party);
                match self.endpoint.start(wire, &party, trust, window, host.pulse(), Some(pass)) {
                    Ok(link) => host.arrived(link),
                    Err(hitch) => host.refused(from, hitch, Some(&party)),
                }
            }
            Err((hitch, known)) => match (&hitch, &known) {
                // Only a certificate makes it certain that this is a party of ours, and worth ending a wait for.
                (Hitch::Version { .. } | Hitch::Wrong(_), Some(party)) => {
                    // This may be the end of the process, so first the other side is to have our words.
                    wire.part();
                    host.hopeless(party, from, hitch);
                }
                _ => {
                    host.refused(from, hitch, known.as_ref());
                    wire.part();
                }
            },
        }
    }

    /// For whom a connection `from` this address is: what a gateway says, where only gateways may call.
    fn announced(&self, wire: &mut Wire, from: SocketAddr) -> Result<SocketAddr, Hitch> {
        let gateways = &self.endpoint.gateways;
        if gateways.is_empty() {
            return Ok(from);
        }
        if !gateways.iter().any(|gateway| gateway.holds(from.ip())) {
            return Err(Hitch::Foreign(
                "it is none of the gateways of mine.proxy_protocol, who alone may call here".into(),
            ));
        }
        // Of its own accord a gateway calls to see whether somebody is there, and says no more.
        let from = wire.announced()?.unwrap_or(from);
        wire.address = Some(from);
        Ok(from)
    }

    /// Finds out which party of `list` this is; gives it with its window and its pass, or what is wrong and which party it
    /// is by its certificate.
    fn admit(
        &self,
        host: &dyn Host,
        guest: &Guest,
        list: &Arc<Guests>,
        wire: &mut Wire,
    ) -> Result<(Party, u32, Pass), Refusal> {
        let tls = lock(&self.tls).clone();
        let secured = tls.is_some();
        wire.accept(tls).map_err(|hitch| (hitch, None))?;
        let chain = wire.chain().to_vec();
        let candidates = match secured {
            false => list.parties(),
            true => list.identify(&chain),
        };
        let known = candidates.first().filter(|_| secured).map(|party| (*party).clone());
        let refused = |hitch| (hitch, known.clone());
        let theirs = Hello::receive(wire);
        // Ours is sent whatever theirs is, so that the other side can name the difference too.
        let mut ours = self.endpoint.hello(theirs.as_ref().map_or("", |hello| hello.from.as_str()));
        if let Some(lane) = theirs.as_ref().ok().filter(|hello| self.endpoint.lanes.contains(&hello.job)) {
            ours.job = lane.job;
        }
        let said = ours.send(wire);
        let theirs = theirs.map_err(refused)?;
        said.map_err(refused)?;
        let party = theirs.judge(&ours, &candidates).map_err(|hitch| {
            let _ = Verdict::Never(hitch.words()).send(wire);
            refused(hitch)
        })?;
        let pass = host.admit(&Known { party, job: ours.job, chain: &chain, list }).map_err(|verdict| {
            let _ = verdict.send(wire);
            (Hitch::Elsewhere(verdict.reason()), Some(party.clone()))
        })?;
        // From here on it is one of ours, and no longer makes way for others.
        let agreed = match guest.settle() {
            true => Verdict::Welcome.send(wire).and_then(|()| Verdict::receive(wire)),
            false => Err(Hitch::Cut("it made way for those who came after it".into())),
        };
        agreed.map_err(|hitch| (hitch, Some(party.clone())))?;
        Ok((party.clone(), theirs.window, pass))
    }
}
