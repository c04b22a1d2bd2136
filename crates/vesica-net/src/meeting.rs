//! From an endpoint to a link with every peer.
//!
//! The caller's thread listens, counts patience and hears the outcomes; every address that is dialled and every guest at
//! the door has a thread of its own, so that nobody waits for a stranger.

use crate::hello::{Hello, Verdict, WINDOWS};
use crate::link::{Link, Parts, Secured, lock};
use crate::tls::{self, Guests, Hitch, Trust, Wire};
use crate::{Control, Error, Event, Fingerprint, Identity, Result, heartbeat};
use rustls::{ClientConfig, ServerConfig};
use socket2::{SockRef, TcpKeepalive};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vesica_types::Party;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The most handshakes at once with those who knock. One more, and the oldest is sent away: a partner's takes
/// milliseconds, a silent stranger's takes all the time it is given.
const AT_THE_DOOR: usize = 32;

/// How long one address is given to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a host name may stay unknown: a partner's name may appear with its machine, but a wrong one never does.
const UNKNOWN: Duration = Duration::from_secs(10);

/// The pauses between attempts to reach a peer: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How often the waiting is told of.
const REMIND: Duration = Duration::from_secs(5);

/// How many strangers are told of one by one; after that, every hundredth.
const STRANGERS: u64 = 50;

/// How many days before its end a certificate's age is told of.
const EXPIRING: u64 = 30;

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
    /// How long to wait for everybody.
    pub patience: Duration,
    /// The largest message of a line, in bytes: 64 KiB to 64 MiB, 8 MiB by default. The smaller of both sides' holds. A
    /// line keeps at most a quarter more than this waiting in each direction.
    pub window: u32,
    /// How long a peer may say nothing before it counts as dead; 10 s by default.
    pub silence: Duration,
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
            patience: Duration::from_secs(60),
            window: 8 << 20,
            silence: heartbeat::SILENCE,
        }
    }

    /// Finds the faults that can be found without any contact: names, addresses, the certificate's age, the port.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<()> {
        self.clone().bind().map(drop)
    }

    /// Checks like [`Endpoint::check`] and keeps the port.
    ///
    /// # Errors
    /// The first fault.
    pub fn bind(self) -> Result<Bound> {
        let expiring = self.examine()?;
        let listener = match self.peers.iter().any(|peer| peer.connect.is_none()) {
            true => Some(self.listen()?),
            false => None,
        };
        let mut dialled = Vec::new();
        let mut door = Door::Plain;
        if let Security::Tls { identity } = &self.security {
            let mut guests = Vec::new();
            for peer in &self.peers {
                let Some(trust) = &peer.trust else {
                    return Err(Error::Setup(format!(
                        "nothing says how to know {0}; give mine.tls.peers.{0} the fingerprint of its certificate",
                        peer.party
                    )));
                };
                trust.check(&peer.party)?;
                let guest = (peer.party.clone(), trust.clone());
                dialled.push(Some(tls::client(identity, guest.clone())?));
                guests.push(guest);
            }
            let guests = Guests(guests);
            door = Door::Tls(tls::server(identity, guests.clone())?, guests);
        } else {
            dialled.resize(self.peers.len(), None);
        }
        Ok(Bound { endpoint: Arc::new(self), listener, dialled, door, expiring })
    }

    /// Everything of [`Endpoint::check`] that needs no port. Says when the certificate expires if that is soon.
    fn examine(&self) -> Result<Option<Event>> {
        if self.peers.is_empty() {
            return Err(Error::Setup(format!("{} has no peers; name at least two parties", self.me)));
        }
        let mut names: Vec<&str> = self.peers.iter().map(|peer| peer.party.name()).chain([self.me.name()]).collect();
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
        for peer in &self.peers {
            if let Some(address) = &peer.connect {
                split(address)
                    .map_err(|why| Error::Setup(format!("mine.connect.{} = {address:?}: {why}", peer.party)))?;
            }
        }
        match &self.security {
            Security::Insecure => Ok(None),
            Security::Tls { identity } => {
                let soon = identity.check_age(EXPIRING)?;
                Ok(soon.map(|date| Event::Expiring { what: identity.what().to_owned(), date }))
            }
        }
    }

    fn listen(&self) -> Result<TcpListener> {
        let waits = || self.peers.iter().filter(|p| p.connect.is_none()).map(|p| p.party.name()).collect::<Vec<_>>();
        let Some(address) = &self.listen else {
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

    fn hello(&self, to: &str) -> Hello {
        Hello { job: self.job, window: self.window, from: self.me.name().to_owned(), to: to.to_owned() }
    }

    fn secured(&self, wire: &Wire, trust: Option<&Trust>) -> Secured {
        let Some(cipher) = wire.cipher() else {
            return Secured { protocol: "none", cipher: None, trust: None, fingerprint: None };
        };
        Secured {
            protocol: "TLS 1.3",
            cipher: Some(cipher),
            trust: trust.map(Trust::to_string),
            fingerprint: wire.chain().first().map(Fingerprint::of),
        }
    }
}

/// Splits `host:port`, and says what is wrong with one that does not split.
fn split(address: &str) -> std::result::Result<(&str, u16), String> {
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

/// Whom the listening side lets in.
#[derive(Clone)]
enum Door {
    Plain,
    Tls(Arc<ServerConfig>, Guests),
}

/// An endpoint whose port is open.
pub struct Bound {
    endpoint: Arc<Endpoint>,
    listener: Option<TcpListener>,
    /// For each peer, what is needed to dial it.
    dialled: Vec<Option<Arc<ClientConfig>>>,
    door: Door,
    expiring: Option<Event>,
}

/// Connects to every peer, and waits for those that are late.
///
/// # Errors
/// The faults of [`Endpoint::check`]; a peer that does not come within the endpoint's patience, that proves to be
/// somebody else or that will not talk to us.
pub fn connect(endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Link>> {
    endpoint.bind()?.connect(control)
}

/// What the threads tell the caller's.
enum Outcome {
    /// A peer is here.
    Up(usize, Link),
    /// A peer is not to be had yet.
    Not(usize, String),
    /// A peer is not to be had at all.
    Never(Error),
    /// Somebody was turned away; a peer by its certificate, where there is a place.
    Stranger(SocketAddr, String, Option<usize>),
}

/// What the threads share.
struct Shared {
    endpoint: Arc<Endpoint>,
    door: Door,
    control: Arc<dyn Control>,
    outcomes: Mutex<Sender<Outcome>>,
    /// Everybody is here, or nobody is wanted any more.
    over: AtomicBool,
    /// Which peers have a link that lives.
    here: Mutex<Vec<bool>>,
}

impl Shared {
    fn tell(&self, outcome: Outcome) {
        // If nobody listens any more, a link in the outcome is dropped, which is as it should be.
        let _ = lock(&self.outcomes).send(outcome);
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn start(&self, wire: Wire, party: &Party, trust: Option<&Trust>, window: u32) -> std::result::Result<Link, Hitch> {
        let secured = self.endpoint.secured(&wire, trust);
        let address = wire.socket.peer_addr()?;
        let parts = Parts {
            peer: party.clone(),
            socket: wire.socket,
            crypt: wire.crypt,
            traffic: wire.traffic,
            window: window.min(self.endpoint.window),
            silence: self.endpoint.silence,
            secured,
            address,
        };
        Ok(Link::start(parts, self.control.clone())?)
    }
}

/// No delays for small messages, and a word now and then for the firewalls between. Buffer sizes are left to the kernel:
/// it grows them as the path needs, and stops doing so for whoever sets one.
fn tune(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = SockRef::from(socket).set_tcp_keepalive(&keepalive);
}

impl Bound {
    /// The address that is listened on, if one is: with port 0, the port that the system chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Connects to every peer, and waits for those that are late. The links are in the order of the endpoint's peers.
    ///
    /// # Errors
    /// Those of [`connect`].
    pub fn connect(self, control: Arc<dyn Control>) -> Result<Vec<Link>> {
        let Bound { endpoint, listener, dialled, door, expiring } = self;
        let (sender, outcomes) = channel();
        let here = Mutex::new(vec![false; endpoint.peers.len()]);
        let shared = Arc::new(Shared {
            endpoint,
            door,
            control: control.clone(),
            outcomes: Mutex::new(sender),
            over: AtomicBool::new(false),
            here,
        });
        if let Some(event) = expiring {
            control.event(&event);
        }
        let mut meeting = Meeting::new(&shared, dialled);
        let met = meeting.hold(listener, &outcomes);
        shared.over.store(true, Ordering::Relaxed);
        match met {
            Ok(()) => Ok(meeting.seats.into_iter().filter_map(|seat| seat.link).collect()),
            Err(error) => {
                // Those who are here already are told, each at once.
                let words = match &error {
                    Error::Session(vesica_session::Error::Cancelled) => "interrupted".to_owned(),
                    error => error.to_string(),
                };
                std::thread::scope(|scope| {
                    for link in meeting.seats.iter().filter_map(|seat| seat.link.as_ref()) {
                        scope.spawn(|| link.abort(error.fault(), &words));
                    }
                });
                Err(error)
            }
        }
    }
}

/// One peer's place at the table.
struct Seat {
    link: Option<Link>,
    /// Where the peer is sought.
    address: String,
    /// What the last attempt met.
    why: Option<String>,
    /// What was told of it last, and when.
    told: Option<(Instant, Option<String>)>,
}

/// The caller's side of connecting.
struct Meeting<'a> {
    shared: &'a Arc<Shared>,
    dialled: Vec<Option<Arc<ClientConfig>>>,
    seats: Vec<Seat>,
    strangers: u64,
    began: Instant,
    /// Those at the door, oldest first, so that the oldest can be sent away.
    door: VecDeque<(Arc<Guest>, TcpStream)>,
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

impl<'a> Meeting<'a> {
    fn new(shared: &'a Arc<Shared>, dialled: Vec<Option<Arc<ClientConfig>>>) -> Self {
        let seat = |address: String| Seat { link: None, address, why: None, told: None };
        let seats = shared.endpoint.peers.iter().map(|peer| seat(peer.connect.clone().unwrap_or_default())).collect();
        Self { shared, dialled, seats, strangers: 0, began: Instant::now(), door: VecDeque::new() }
    }

    fn event(&self, event: &Event) {
        tracing::debug!("{event}");
        self.shared.control.event(event);
    }

    fn party(&self, place: usize) -> Party {
        let peer = self.shared.endpoint.peers.get(place);
        peer.map_or_else(|| self.shared.endpoint.me.clone(), |peer| peer.party.clone())
    }

    /// Waits until everybody is here.
    fn hold(&mut self, listener: Option<TcpListener>, outcomes: &Receiver<Outcome>) -> Result<()> {
        if let Some(listener) = &listener {
            let system = |source| Error::System { what: "listening", source };
            listener.set_nonblocking(true).map_err(system)?;
            let at = listener.local_addr().map_err(system)?;
            for seat in self.seats.iter_mut().filter(|seat| seat.address.is_empty()) {
                seat.address = at.to_string();
            }
            self.event(&Event::Listening { at });
        }
        for place in 0..self.seats.len() {
            self.dial(place)?;
        }
        loop {
            if self.shared.control.cancelled() {
                return Err(vesica_session::Error::Cancelled.into());
            }
            if let Some(listener) = &listener {
                self.answer(listener)?;
            }
            match outcomes.recv_timeout(Duration::from_millis(10)) {
                Ok(outcome) => self.hear(outcome)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(vesica_session::Error::Bug("nobody is left to connect".into()).into());
                }
            }
            self.look_for_losses()?;
            if self.seats.iter().all(|seat| seat.link.is_some()) {
                return Ok(());
            }
            self.remind()?;
        }
    }

    /// Starts to dial a peer, if it is one that is dialled.
    fn dial(&self, place: usize) -> Result<()> {
        let Some(address) = self.shared.endpoint.peers.get(place).and_then(|peer| peer.connect.clone()) else {
            return Ok(());
        };
        let tls = self.dialled.get(place).cloned().flatten();
        let shared = self.shared.clone();
        spawn("dial", move || dial(&shared, place, &address, tls))
    }

    /// Lets in those who wait at the door.
    fn answer(&mut self, listener: &TcpListener) -> Result<()> {
        self.door.retain(|(guest, _)| !guest.settled());
        for _ in 0..AT_THE_DOOR {
            let (socket, from) = match listener.accept() {
                Ok(guest) => guest,
                // Whatever went wrong with one guest (it left, or there are no more file handles for now) is over with
                // the next turn.
                Err(_) => return Ok(()),
            };
            if self.door.len() >= AT_THE_DOOR
                && let Some((oldest, socket)) = self.door.pop_front()
                && oldest.settle()
            {
                let _ = socket.shutdown(Shutdown::Both);
            }
            let Ok(handle) = socket.try_clone() else { continue };
            if socket.set_nonblocking(false).is_err() {
                continue;
            }
            let guest = Arc::new(Guest::default());
            self.door.push_back((guest.clone(), handle));
            let shared = self.shared.clone();
            spawn("guest", move || {
                greet(&shared, &guest, socket, from);
                guest.settle();
            })?;
        }
        Ok(())
    }

    fn hear(&mut self, outcome: Outcome) -> Result<()> {
        match outcome {
            Outcome::Up(place, link) => {
                let event = Event::Connected {
                    peer: link.peer().clone(),
                    address: link.address(),
                    secured: link.secured().clone(),
                };
                if let Some(seat) = self.seats.get_mut(place) {
                    seat.link = Some(link);
                }
                self.event(&event);
            }
            Outcome::Not(place, why) => {
                if let Some(seat) = self.seats.get_mut(place) {
                    seat.why = Some(why);
                }
            }
            Outcome::Never(error) => return Err(error),
            Outcome::Stranger(from, why, place) => {
                for (at, seat) in self.seats.iter_mut().enumerate() {
                    let awaited = self.shared.endpoint.peers.get(at).is_some_and(|peer| peer.connect.is_none());
                    if awaited && place.is_none_or(|place| place == at) {
                        seat.why = Some(format!("last refused: {from}, {why}"));
                    }
                }
                self.strangers += 1;
                if self.strangers <= STRANGERS {
                    self.event(&Event::Refused { from, why });
                } else if self.strangers.is_multiple_of(100) {
                    self.event(&Event::Strangers { count: self.strangers });
                }
            }
        }
        Ok(())
    }

    /// A peer that was here may be gone before the last one comes; it is awaited again, unless it said why it went.
    fn look_for_losses(&mut self) -> Result<()> {
        for place in 0..self.seats.len() {
            let Some(seat) = self.seats.get_mut(place) else { continue };
            let Some(error) = seat.link.as_ref().and_then(Link::ended) else { continue };
            match error {
                vesica_session::Error::Net { peer, why } => {
                    seat.link = None;
                    if let Some(here) = lock(&self.shared.here).get_mut(place) {
                        *here = false;
                    }
                    self.event(&Event::Lost { peer, why });
                    self.dial(place)?;
                }
                error => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Says who is missing, and how long that may go on.
    fn remind(&mut self) -> Result<()> {
        let waited = self.began.elapsed();
        let patience = self.shared.endpoint.patience;
        for place in 0..self.seats.len() {
            let peer = self.party(place);
            let dialled = self.shared.endpoint.peers.get(place).is_some_and(|peer| peer.connect.is_some());
            let Some(seat) = self.seats.get_mut(place).filter(|seat| seat.link.is_none()) else { continue };
            if waited >= patience {
                let remedy = match dialled {
                    true => {
                        format!("check that {peer} has started and that this is its address, or raise mine.patience")
                    }
                    false => format!("check that {peer} has started and dials this address, or raise mine.patience"),
                };
                let (address, why) = match dialled {
                    true => {
                        (seat.address.clone(), seat.why.take().unwrap_or_else(|| "no attempt came to an end".into()))
                    }
                    false => (
                        format!("awaited on {}", seat.address),
                        seat.why.take().unwrap_or_else(|| "nobody connected".into()),
                    ),
                };
                return Err(Error::Absent { peer, address, waited: patience, why: format!("{why}; {remedy}") });
            }
            let due = match &seat.told {
                None => waited >= Duration::from_millis(300),
                Some((at, why)) => at.elapsed() >= if *why == seat.why { REMIND } else { Duration::from_secs(1) },
            };
            if due {
                seat.told = Some((Instant::now(), seat.why.clone()));
                let event = Event::Waiting {
                    peer,
                    address: seat.address.clone(),
                    why: seat.why.clone(),
                    left: patience - waited,
                };
                self.event(&event);
            }
        }
        Ok(())
    }
}

fn spawn(what: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(what.into()).spawn(body);
    started.map(drop).map_err(|source| Error::System { what: "starting a thread", source })
}

/// Dials one peer until it is here, or never will be.
fn dial(shared: &Arc<Shared>, place: usize, address: &str, tls: Option<Arc<ClientConfig>>) {
    let Some(peer) = shared.endpoint.peers.get(place) else { return };
    let party = &peer.party;
    let mut pause = PAUSE.0;
    let mut unknown: Option<Instant> = None;
    while !shared.over() {
        let why = match address.to_socket_addrs().map(Vec::from_iter) {
            Err(e) => {
                let why = lookup_words(&e);
                let since = *unknown.get_or_insert_with(Instant::now);
                if since.elapsed() >= UNKNOWN.min(shared.endpoint.patience / 2) {
                    let error = Error::Name { peer: party.clone(), address: address.into(), why };
                    return shared.tell(Outcome::Never(error));
                }
                format!("the host name does not resolve: {why}")
            }
            Ok(all) => {
                unknown = None;
                match reach(&all).map_err(Hitch::Cut).and_then(|socket| call(shared, peer, socket, tls.clone())) {
                    Ok(link) => return shared.tell(Outcome::Up(place, link)),
                    Err(Hitch::Cut(why) | Hitch::Later(why)) => why,
                    Err(hitch) => return shared.tell(Outcome::Never(fatal(shared, peer, address, hitch))),
                }
            }
        };
        shared.tell(Outcome::Not(place, why));
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(PAUSE.1);
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
            Ok(socket) => {
                tune(&socket);
                return Ok(socket);
            }
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

/// The dialling side's first words.
fn call(
    shared: &Shared,
    peer: &PeerSpec,
    socket: TcpStream,
    tls: Option<Arc<ClientConfig>>,
) -> std::result::Result<Link, Hitch> {
    let mut wire = Wire::new(socket, Instant::now() + HANDSHAKE);
    match introduce(shared, peer, &mut wire, tls) {
        Ok(window) => shared.start(wire, &peer.party, peer.trust.as_ref(), window),
        Err(hitch) => {
            wire.part();
            Err(hitch)
        }
    }
}

fn introduce(
    shared: &Shared,
    peer: &PeerSpec,
    wire: &mut Wire,
    tls: Option<Arc<ClientConfig>>,
) -> std::result::Result<u32, Hitch> {
    wire.dial(tls)?;
    let ours = shared.endpoint.hello(peer.party.name());
    ours.send(wire)?;
    let theirs = Hello::receive(wire)?;
    let judged = theirs.judge(&ours, &[&peer.party]);
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
fn fatal(shared: &Shared, peer: &PeerSpec, address: &str, hitch: Hitch) -> Error {
    let party = peer.party.clone();
    let refused = |why: String| Error::Refused { peer: party.clone(), address: address.to_owned(), why };
    match hitch {
        Hitch::Rejected(rejected) => Error::Certificate {
            peer: party,
            address: address.to_owned(),
            expected: peer.trust.as_ref().map(Trust::to_string).unwrap_or_default(),
            presented: rejected.presented.to_string(),
            why: rejected.why,
        },
        Hitch::RejectedUs(why) => refused(format!(
            "{why}; ours is {}: check what {party}'s job says of {}",
            match &shared.endpoint.security {
                Security::Tls { identity } => identity.fingerprint().to_string(),
                Security::Insecure => "none".into(),
            },
            shared.endpoint.me
        )),
        Hitch::Version { theirs } => Error::Version { peer: party, theirs, ours: crate::WIRE_VERSION },
        hitch => refused(hitch.words()),
    }
}

/// The listening side's first words to somebody at the door.
fn greet(shared: &Arc<Shared>, guest: &Guest, socket: TcpStream, from: SocketAddr) {
    tune(&socket);
    let mut wire = Wire::new(socket, Instant::now() + HANDSHAKE);
    match admit(shared, guest, &mut wire) {
        Ok((place, window)) => {
            let Some(peer) = shared.endpoint.peers.get(place) else { return };
            match shared.start(wire, &peer.party, peer.trust.as_ref(), window) {
                Ok(link) => shared.tell(Outcome::Up(place, link)),
                Err(hitch) => {
                    if let Some(here) = lock(&shared.here).get_mut(place) {
                        *here = false;
                    }
                    shared.tell(Outcome::Stranger(from, hitch.words(), None));
                }
            }
        }
        Err((hitch, known)) => {
            let peer = known.and_then(|place| shared.endpoint.peers.get(place));
            // Only a certificate makes it certain that this is a peer, and worth ending the wait for.
            let never = match (&hitch, peer) {
                (Hitch::Version { theirs }, Some(peer)) => {
                    Error::Version { peer: peer.party.clone(), theirs: *theirs, ours: crate::WIRE_VERSION }
                }
                (Hitch::Wrong(why), Some(peer)) => Error::Refused {
                    peer: peer.party.clone(),
                    address: from.to_string(),
                    why: format!("by its certificate it is {}, but {why}", peer.party),
                },
                _ => {
                    shared.tell(Outcome::Stranger(from, hitch.words(), known));
                    return wire.part();
                }
            };
            // This may be the end of the process, so first the other side is to have our words.
            wire.part();
            shared.tell(Outcome::Never(never));
        }
    }
}

/// Finds out which peer this is: its place and its window, or what is wrong and which peer it is by its certificate.
fn admit(shared: &Shared, guest: &Guest, wire: &mut Wire) -> std::result::Result<(usize, u32), (Hitch, Option<usize>)> {
    let endpoint = &shared.endpoint;
    let stranger = |hitch| (hitch, None);
    let tls = match &shared.door {
        Door::Plain => None,
        Door::Tls(config, _) => Some(config.clone()),
    };
    wire.accept(tls).map_err(stranger)?;
    let candidates: Vec<&Party> = match &shared.door {
        Door::Plain => endpoint.peers.iter().map(|peer| &peer.party).collect(),
        Door::Tls(_, guests) => guests.identify(wire.chain()),
    };
    let place = |party: &Party| endpoint.peers.iter().position(|peer| peer.party == *party);
    let known = match &shared.door {
        Door::Plain => None,
        Door::Tls(..) => candidates.first().and_then(|party| place(party)),
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
    let taken = lock(&shared.here).get_mut(place).is_none_or(|here| std::mem::replace(here, true));
    if taken {
        let why = format!("{party} is connected already; is its job running twice?");
        return refuse(wire, Verdict::Later(why.clone()), Hitch::Elsewhere(why), Some(place));
    }
    // From here on it is a peer, and no longer makes way for others.
    let agreed = match guest.settle() {
        true => Verdict::Welcome.send(wire).and_then(|()| Verdict::receive(wire)),
        false => Err(Hitch::Cut("it made way for those who came after it".into())),
    };
    if let Err(hitch) = agreed {
        if let Some(here) = lock(&shared.here).get_mut(place) {
            *here = false;
        }
        return Err((hitch, Some(place)));
    }
    Ok((place, theirs.window))
}
