//! The listening side: accepts connections, makes the handshake and finds out which peer is there.
//!
//! The door decides who somebody is. Whether that peer may come in now, and what becomes of it, is the affair of the door's
//! [`Host`]: a meeting admits every peer once. Each guest at the door has a thread of its own, so that nobody waits for a
//! stranger.

use crate::endpoint::split;
use crate::hello::{Hello, Verdict};
use crate::hitch::Hitch;
use crate::spawn::spawn;
use crate::trust::Guests;
use crate::wire::Wire;
use crate::{Control, Endpoint, Error, Link, Result};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vesica_types::Party;

/// The most handshakes at once with those who knock. One more, and the oldest is sent away: a partner's takes
/// milliseconds, a silent stranger's takes all the time it is given.
const AT_THE_DOOR: usize = 32;

/// Whom the door lets in: anybody, or those who present a certificate that is known.
pub(crate) enum Entry {
    Plain,
    Tls(Arc<ServerConfig>, Guests),
}

/// Whom the door works for. Its methods are called from the guests' threads. A place is the index of a peer among the
/// endpoint's.
pub(crate) trait Host: Send + Sync {
    /// What a link reports to, and asks whether to stop.
    fn control(&self) -> &Arc<dyn Control>;

    /// Whether the peer may come in now; in words why not. It may try again later.
    fn admit(&self, place: usize, peer: &Party) -> std::result::Result<(), String>;

    /// A peer that was admitted did not come in after all.
    fn gave_up(&self, place: usize);

    /// A peer is here.
    fn arrived(&self, place: usize, link: Link);

    /// Somebody was turned away, and why. There is a place if it is known which peer that is.
    fn refused(&self, from: SocketAddr, why: String, known: Option<usize>);

    /// A peer, known by its certificate, was turned away, and would be again.
    fn hopeless(&self, place: usize, from: SocketAddr, hitch: Hitch);
}

/// An open port, and those who stand before it.
pub(crate) struct Door {
    keeper: Arc<Keeper>,
    listener: TcpListener,
    at: SocketAddr,
    /// Those whose handshake is under way, oldest first, so that the oldest can be sent away.
    guests: VecDeque<(Arc<Guest>, TcpStream)>,
}

impl Door {
    /// The door that `listener` is.
    ///
    /// # Errors
    /// If the system does not let it be asked without waiting.
    pub fn new(endpoint: Arc<Endpoint>, listener: TcpListener, entry: Entry) -> Result<Self> {
        let system = |source| Error::System { what: "listening", source };
        listener.set_nonblocking(true).map_err(system)?;
        let at = listener.local_addr().map_err(system)?;
        Ok(Self { keeper: Arc::new(Keeper { endpoint, entry }), listener, at, guests: VecDeque::new() })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Takes in those who have knocked since the last call, and does not wait for others. What becomes of each is told to
    /// `host`.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn answer(&mut self, host: &Arc<dyn Host>) -> Result<()> {
        self.guests.retain(|(guest, _)| !guest.settled());
        for _ in 0..AT_THE_DOOR {
            let (socket, from) = match self.listener.accept() {
                Ok(guest) => guest,
                // Whatever went wrong with one guest (it left, or there are no more file handles for now) is over with
                // the next turn.
                Err(_) => return Ok(()),
            };
            if self.guests.len() >= AT_THE_DOOR
                && let Some((oldest, socket)) = self.guests.pop_front()
                && oldest.settle()
            {
                let _ = socket.shutdown(Shutdown::Both);
            }
            let Ok(handle) = socket.try_clone() else { continue };
            if socket.set_nonblocking(false).is_err() {
                continue;
            }
            let guest = Arc::new(Guest::default());
            self.guests.push_back((guest.clone(), handle));
            let (keeper, host) = (self.keeper.clone(), host.clone());
            spawn("guest", move || {
                keeper.greet(&*host, &guest, socket, from);
                guest.settle();
            })?;
        }
        Ok(())
    }
}

/// Opens the port that the endpoint names.
///
/// # Errors
/// If it names none, or one that cannot be opened.
pub(crate) fn listen(endpoint: &Endpoint) -> Result<TcpListener> {
    let waits = || endpoint.peers.iter().filter(|p| p.connect.is_none()).map(|p| p.party.name()).collect::<Vec<_>>();
    let Some(address) = &endpoint.listen else {
        let names = waits().join(", ");
        return Err(Error::Setup(format!(
            "nothing says how to meet {names}; set mine.listen = \"host:port\" here, or mine.connect with the address \
             where {names} listens"
        )));
    };
    let bad = |why: String, remedy| Error::Listen { address: address.clone(), why, remedy };
    split(address).map_err(|why| bad(why, "for example mine.listen = \"0.0.0.0:7744\""))?;
    let all: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|e| bad(e.to_string(), "use an address of this machine, or 0.0.0.0 for all of them"))?
        .collect();
    // The standard library sets SO_REUSEADDR, so a run may follow another on the same port at once.
    TcpListener::bind(all.as_slice()).map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => bad(
            "the port is in use".into(),
            "stop the program that has it (another run of this job?), or choose another port",
        ),
        ErrorKind::AddrNotAvailable => bad(
            "that is no address of this machine".into(),
            "use an address of this machine, or 0.0.0.0 for all of them",
        ),
        ErrorKind::PermissionDenied => bad("this user may not open that port".into(), "choose a port above 1023"),
        _ => bad(e.to_string(), "use an address of this machine, or 0.0.0.0 for all of them"),
    })
}

/// Somebody at the door, who either comes in (or goes) or is sent away: whichever is first.
#[derive(Default)]
struct Guest(AtomicBool);

impl Guest {
    /// Whether this call is the first.
    fn settle(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    fn settled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What the guests' threads need to find out who a guest is.
struct Keeper {
    endpoint: Arc<Endpoint>,
    entry: Entry,
}

impl Keeper {
    /// The listening side's first words to somebody at the door.
    fn greet(&self, host: &dyn Host, guest: &Guest, socket: TcpStream, from: SocketAddr) {
        let mut wire = Wire::new(socket);
        match self.admit(host, guest, &mut wire) {
            Ok((place, window)) => {
                let Some(peer) = self.endpoint.peers.get(place) else { return };
                match self.endpoint.start(wire, peer, window, host.control()) {
                    Ok(link) => host.arrived(place, link),
                    Err(hitch) => {
                        host.gave_up(place);
                        host.refused(from, hitch.words(), None);
                    }
                }
            }
            Err((hitch, known)) => match (&hitch, known) {
                // Only a certificate makes it certain that this is a peer, and worth ending the wait for.
                (Hitch::Version { .. } | Hitch::Wrong(_), Some(place)) => {
                    // This may be the end of the process, so first the other side is to have our words.
                    wire.part();
                    host.hopeless(place, from, hitch);
                }
                _ => {
                    host.refused(from, hitch.words(), known);
                    wire.part();
                }
            },
        }
    }

    /// Finds out which peer this is: its place and its window, or what is wrong and which peer it is by its certificate.
    fn admit(
        &self,
        host: &dyn Host,
        guest: &Guest,
        wire: &mut Wire,
    ) -> std::result::Result<(usize, u32), (Hitch, Option<usize>)> {
        let endpoint = &self.endpoint;
        let stranger = |hitch| (hitch, None);
        let tls = match &self.entry {
            Entry::Plain => None,
            Entry::Tls(config, _) => Some(config.clone()),
        };
        wire.accept(tls).map_err(stranger)?;
        let candidates: Vec<&Party> = match &self.entry {
            Entry::Plain => endpoint.peers.iter().map(|peer| &peer.party).collect(),
            Entry::Tls(_, guests) => guests.identify(wire.chain()),
        };
        let place = |party: &Party| endpoint.peers.iter().position(|peer| peer.party == *party);
        let known = match &self.entry {
            Entry::Plain => None,
            Entry::Tls(..) => candidates.first().and_then(|party| place(party)),
        };
        let theirs = Hello::receive(wire);
        // Ours is sent whatever theirs is, so that the other side can name the difference too.
        let to = theirs.as_ref().map_or("", |hello| hello.from.as_str());
        let ours = endpoint.hello(to);
        let said = ours.send(wire);
        let theirs = theirs.map_err(|hitch| (hitch, known))?;
        said.map_err(|hitch| (hitch, known))?;
        let refuse = |wire: &mut Wire, verdict: Verdict, hitch: Hitch, known| {
            let _ = verdict.send(wire);
            Err((hitch, known))
        };
        let party = match theirs.judge(&ours, &candidates) {
            Ok(party) => party,
            Err(hitch) => return refuse(wire, Verdict::Never(hitch.words()), hitch, known),
        };
        let Some(place) = place(party) else { return Err((Hitch::Wrong("it is no peer of this job".into()), known)) };
        if endpoint.peers.get(place).is_some_and(|peer| peer.connect.is_some()) {
            let why = format!(
                "both {party} and {} have the other's address to connect to; take mine.connect.{party} out of {0}'s job, or \
                 mine.connect.{0} out of {party}'s",
                endpoint.me
            );
            return refuse(wire, Verdict::Never(why.clone()), Hitch::Elsewhere(why), Some(place));
        }
        if let Err(why) = host.admit(place, party) {
            return refuse(wire, Verdict::Later(why.clone()), Hitch::Elsewhere(why), Some(place));
        }
        // From here on it is a peer, and no longer makes way for others.
        let agreed = match guest.settle() {
            true => Verdict::Welcome.send(wire).and_then(|()| Verdict::receive(wire)),
            false => Err(Hitch::Cut("it made way for those who came after it".into())),
        };
        if let Err(hitch) = agreed {
            host.gave_up(place);
            return Err((hitch, Some(place)));
        }
        Ok((place, theirs.window))
    }
}
