//! The door of a service: clients come one by one, for months, and each gets a link.
//!
//! A meeting knows its few peers beforehand and takes in each of them once. A door has a list of clients that may be
//! replaced while it stands, and takes in each of them as often as the limits allow. Example: 1,000 clients keep a
//! connection and 50 of them are at work; a stranger gets as far as TLS's alert, and whoever comes when the service is full
//! is told to come later.

use crate::bound::HANDSHAKES;
use crate::greet::{Host, Keeper, Known};
use crate::heartbeat::Pulse;
use crate::hello::Verdict;
use crate::hitch::Hitch;
use crate::link::Link;
use crate::lock::lock;
use crate::pass::Pass;
use crate::port::{self, Port};
use crate::shared::Shared;
use crate::trust::{Guests, Register};
use crate::{Control, Endpoint, Error, Event, Identity, PeerLink, Result, Security, Trust};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::pki_types::CertificateDer;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vesica_session::Fault;
use vesica_types::Party;

/// How often those who wait look whether they are to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long the door waits where the system refuses it a thread or a file handle.
const BREATH: Duration = Duration::from_millis(50);

/// How many of those who were refused are told of one by one in a minute; after that, every hundredth.
const TOLD: u64 = 50;

/// What a client hears that is taken off the list.
const OFF_THE_LIST: &str = "this client is no longer on the list of those whom the service answers";

/// A client of a service, and how it is known.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name, of 1 to 255 bytes.
    pub name: String,
    /// How it is known; needed with TLS.
    pub trust: Option<Trust>,
}

/// Where the lanes of a run come in.
pub trait LaneDoor: Send + Sync {
    /// The link of whoever comes next; none if the door is shut and nobody waits behind it or is just being let in, which takes ten seconds at
    /// most. Any number of threads may wait here.
    ///
    /// # Errors
    /// [`vesica_session::Error::Cancelled`], once the door's control says so.
    fn next(&self) -> Result<Option<Box<dyn PeerLink>>>;

    /// Where it is: with port 0, the port that the system chose.
    fn address(&self) -> SocketAddr;

    /// Closes the port. Links go on, and [`LaneDoor::next`] gives those that wait here already.
    fn shut(&self);
}

/// Where the clients of a service come in.
pub trait ClientDoor: LaneDoor {
    /// From now on these are the clients, and nobody else. The links of those who are not among them are ended, and so are those of a client that
    /// is now known in another way.
    ///
    /// # Errors
    /// What is wrong with the list. Then the old one holds.
    fn set_clients(&self, clients: Vec<Client>) -> Result<()>;

    /// From the next client on, this is who the service is. Links go on as they are.
    ///
    /// # Errors
    /// If its certificate is not in force, if TLS cannot be set up with it, and if there is no TLS. Then the old one is shown.
    fn set_identity(&self, identity: &Identity) -> Result<()>;

    /// How many places are taken: by links that have not been dropped, and by clients that are just being let in.
    fn links(&self) -> usize;
}

/// How many may be at the door and behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most links at once.
    pub links: usize,
    /// The most links at once of one client.
    pub links_of_one: usize,
    /// The most handshakes at once. One more, and the oldest is ended of the address that has most of them.
    pub handshakes: usize,
}

impl Default for Limits {
    /// 2,000 links, 16 of one client, 1,000 handshakes.
    fn default() -> Self {
        Self { links: 2000, links_of_one: 16, handshakes: 1000 }
    }
}

impl Endpoint {
    /// Opens the port of a service and lets in `clients`, each as often as `limits` allow. The endpoint has no peers.
    ///
    /// `control` hears what happens at the door, from threads of the door. Once it says that it is to stop, every link of
    /// the door is cancelled; [`LaneDoor::shut`] is the gentle way.
    ///
    /// # Errors
    /// Faults of the endpoint, of the list, of the port, or of a system that does not give enough file handles.
    pub fn door(self, clients: Vec<Client>, limits: Limits, control: Arc<dyn Control>) -> Result<Door> {
        if !self.peers.is_empty() {
            return Err(Error::Setup(format!("{} is a service, which has clients and no peers", self.me)));
        }
        if limits.links == 0 || limits.links_of_one == 0 || limits.handshakes == 0 {
            return Err(Error::Setup("a limit of 0 connections lets nobody in; use 1 or more".into()));
        }
        let guests = self.guests(clients)?;
        guests.idle_lists().for_each(|event| control.event(&event));
        self.open(guests, limits, control)
    }

    /// Opens a port for the lanes of a run, which `peer` dials: up to `seats` of them at once, and of each lane one link. With TLS the
    /// peer is known in each of these ways. Whoever finds no seat is told to come later.
    ///
    /// So is a peer that comes for the endpoint's own job, which is to meet the parties: its process was started again, and this side does
    /// not know yet that the one before it is gone. It takes no seat.
    ///
    /// # Errors
    /// As [`Endpoint::door`].
    pub fn lane_door(self, peer: Party, known: Vec<Trust>, seats: usize, control: Arc<dyn Control>) -> Result<Door> {
        if self.lanes.is_empty() || seats == 0 {
            return Err(Error::Setup(
                "a door without lanes or without seats lets nobody in; give it one or more".into(),
            ));
        }
        self.examine_with(std::iter::once(peer.name()))?;
        let guests = match self.security {
            Security::Insecure => vec![(peer, None)],
            Security::Tls { .. } if known.is_empty() => {
                return Err(Error::Setup(format!("nothing says how to know the lanes of {peer}")));
            }
            Security::Tls { .. } => {
                let own = self.own();
                known.iter().try_for_each(|trust| trust.check(&peer, own.as_ref()))?;
                known.into_iter().map(|trust| (peer.clone(), Some(trust))).collect()
            }
        };
        let limits = Limits { links: seats, links_of_one: seats, handshakes: HANDSHAKES };
        self.open(Guests::new(guests), limits, control)
    }

    /// Opens the port for `guests`.
    fn open(self, guests: Guests, limits: Limits, control: Arc<dyn Control>) -> Result<Door> {
        let expiring = self.examine_with(std::iter::empty())?;
        let Some(address) = &self.listen else {
            return Err(Error::Setup(
                "nothing says where clients may connect; set mine.listen, for example to \"0.0.0.0:7744\"".into(),
            ));
        };
        file_handles(&limits)?;
        let listener = port::listen(address)?;
        let endpoint = Arc::new(self);
        let register = Register::new(guests);
        let doorman = Arc::new(Keeper::new(endpoint.clone(), register.clone())?);
        let port = Port::new(doorman.clone(), listener, limits.handshakes)?;
        let at = port.address();
        let lobby = Arc::new(Lobby {
            limits,
            pulse: Pulse::start(control.clone(), endpoint.silence)?,
            lanes: endpoint.lanes.clone(),
            control,
            register,
            shut: AtomicBool::new(false),
            visits: Arc::default(),
            arrivals: Mutex::default(),
            came: Condvar::new(),
            refusals: Mutex::default(),
        });
        if let Some(event) = expiring {
            lobby.event(&event);
        }
        lobby.event(&Event::Listening { at });
        let inside = lobby.clone();
        let keeper = std::thread::Builder::new().name("door".into()).spawn(move || inside.keep(port));
        let keeper = keeper.map_err(|source| Error::System { what: "starting a thread", source })?;
        Ok(Door { endpoint, doorman, lobby, at, keeper: Some(keeper) })
    }

    /// The list of these clients.
    fn guests(&self, clients: Vec<Client>) -> Result<Guests> {
        self.examine_with(clients.iter().map(|client| client.name.as_str()))?;
        let tls = self.own().is_some();
        let mut all = Vec::with_capacity(clients.len());
        for Client { name, trust } in clients {
            // A conversation has two parties, whoever else has conversations with the service at that time.
            let party = Party::new(Client::PLACE, &name);
            match &trust {
                // Who runs a service may be its client, too.
                Some(trust) => trust.check(&party, None)?,
                None if tls => {
                    return Err(Error::Setup(format!(
                        "nothing says how to know the client {name}; give mine.clients.{name} the fingerprint of its \
                         certificate"
                    )));
                }
                None => {}
            }
            all.push((party, trust));
        }
        Ok(Guests::of_service(all))
    }
}

impl Client {
    /// The place of every client in its conversation with the service, which is the party at place 0. Of a client only the
    /// name tells who it is.
    pub const PLACE: u8 = 1;
}

/// Has the system give as many file handles as the limits may take: one for each link, two for each handshake, and some for
/// files.
fn file_handles(limits: &Limits) -> Result<()> {
    let need = (limits.links + 2 * limits.handshakes + 100) as u64;
    let unknown = |e: nix::Error| Error::System { what: "asking how many file handles there may be", source: e.into() };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(unknown)?;
    if soft >= need {
        return Ok(());
    }
    if hard < need || setrlimit(Resource::RLIMIT_NOFILE, need, hard).is_err() {
        return Err(Error::Setup(format!(
            "{} links and {} handshakes at once take {need} file handles, and this process may have {hard}; raise that with \
             `ulimit -Hn {need}` (LimitNOFILE in a systemd unit), or lower the limits",
            limits.links, limits.handshakes
        )));
    }
    Ok(())
}

/// The open door of a service. Links outlive it.
pub struct Door {
    endpoint: Arc<Endpoint>,
    doorman: Arc<Keeper>,
    lobby: Arc<Lobby>,
    at: SocketAddr,
    keeper: Option<JoinHandle<()>>,
}

impl LaneDoor for Door {
    fn next(&self) -> Result<Option<Box<dyn PeerLink>>> {
        loop {
            if self.lobby.control.cancelled() {
                return Err(vesica_session::Error::Cancelled.into());
            }
            // Looked at before the queue: who is let in is in there before it is not being let in any more.
            let is_last = self.lobby.shut() && !self.lobby.lets_in();
            // One that went away while it waited here is dropped, which frees its place.
            match self.lobby.take() {
                Some(link) if link.ended().is_none() => return Ok(Some(link.into())),
                Some(_) => {}
                None if is_last => return Ok(None),
                None => self.lobby.wait(),
            }
        }
    }

    fn address(&self) -> SocketAddr {
        self.at
    }

    fn shut(&self) {
        self.lobby.shut.store(true, Ordering::Relaxed);
        self.lobby.came.notify_all();
    }
}

impl ClientDoor for Door {
    fn set_clients(&self, clients: Vec<Client>) -> Result<()> {
        let guests = self.endpoint.guests(clients)?;
        let idle: Vec<Event> = guests.idle_lists().collect();
        let mut visits = lock(&self.lobby.visits);
        for visit in visits.inside.values_mut().filter(|visit| !visit.stays(&guests)) {
            visit.off_the_list = true;
            if let Some(link) = visit.link.as_ref().and_then(Weak::upgrade) {
                let error = vesica_session::Error::Net { peer: visit.party.clone(), why: OFF_THE_LIST.into() };
                link.stop(error, Fault::Config, OFF_THE_LIST);
            }
        }
        self.lobby.register.set(guests);
        drop(visits);
        idle.iter().for_each(|event| self.lobby.event(event));
        Ok(())
    }

    fn set_identity(&self, identity: &Identity) -> Result<()> {
        identity.check_age(Identity::SOON)?;
        self.doorman.set_identity(identity)
    }

    fn links(&self) -> usize {
        lock(&self.lobby.visits).inside.len()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shut();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        while let Some(link) = self.lobby.take() {
            drop(link);
        }
    }
}

/// A client that has come in, until its link is dropped.
struct Visit {
    party: Party,
    /// What it came for.
    job: [u8; 32],
    /// Its certificate and those behind it; empty in plaintext.
    chain: Vec<CertificateDer<'static>>,
    /// None as long as the client is being let in.
    link: Option<Weak<Shared>>,
    off_the_list: bool,
}

impl Visit {
    /// Whether the client is still known by what it showed.
    fn stays(&self, guests: &Guests) -> bool {
        match self.chain.is_empty() {
            true => guests.parties().contains(&&self.party),
            false => guests.identify(&self.chain).contains(&&self.party),
        }
    }
}

/// Who is inside. Each visit has a number of its own.
#[derive(Default)]
struct Visits {
    next: u64,
    inside: BTreeMap<u64, Visit>,
}

/// How many were refused in this minute, and in all.
#[derive(Default)]
struct Refusals {
    minute: Option<Instant>,
    in_minute: u64,
    count: u64,
}

/// What the threads of a door share.
struct Lobby {
    limits: Limits,
    /// The lanes that are answered here, each of which has one link at a time; none at the door of a service.
    lanes: Vec<[u8; 32]>,
    pulse: Arc<Pulse>,
    control: Arc<dyn Control>,
    register: Arc<Register>,
    shut: AtomicBool,
    visits: Arc<Mutex<Visits>>,
    /// Those who have come in and have not been taken.
    arrivals: Mutex<VecDeque<Link>>,
    came: Condvar,
    refusals: Mutex<Refusals>,
}

impl Lobby {
    fn event(&self, event: &Event) {
        tracing::debug!("{event}");
        self.control.event(event);
    }

    fn shut(&self) -> bool {
        self.shut.load(Ordering::Relaxed)
    }

    /// Whether somebody has been let in whose link does not wait behind the door yet.
    fn lets_in(&self) -> bool {
        lock(&self.visits).inside.values().any(|visit| visit.link.is_none())
    }

    fn take(&self) -> Option<Link> {
        lock(&self.arrivals).pop_front()
    }

    /// Waits for somebody to come, but not for long.
    fn wait(&self) {
        let arrivals = lock(&self.arrivals);
        if arrivals.is_empty() {
            drop(self.came.wait_timeout(arrivals, LOOK).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Takes in whoever knocks, until the door is shut.
    fn keep(self: Arc<Self>, mut port: Port) {
        let host: Arc<dyn Host> = self.clone();
        let mut told: Option<Instant> = None;
        while !self.shut() && !self.control.cancelled() {
            let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
            let knocked = poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|n| n > 0);
            match port.answer(&host) {
                // Somebody knocks and cannot be taken in: there are no more file handles for now.
                Ok(0) if knocked => std::thread::sleep(BREATH),
                Ok(_) => {}
                Err(error) => {
                    if told.is_none_or(|told| told.elapsed() >= Duration::from_secs(60)) {
                        told = Some(Instant::now());
                        self.event(&Event::Strained { why: error.to_string() });
                    }
                    std::thread::sleep(BREATH);
                }
            }
        }
        port.clear();
    }

    /// Drops those who went away before they were taken, which frees their places.
    fn sweep(&self) {
        let gone: Vec<Link> = {
            let mut arrivals = lock(&self.arrivals);
            let (here, gone) = arrivals.drain(..).partition(|link: &Link| link.ended().is_none());
            *arrivals = here;
            Vec::from(gone as VecDeque<Link>)
        };
        drop(gone);
    }
}

impl Host for Lobby {
    fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    fn admit(&self, guest: &Known<'_>) -> std::result::Result<Pass, Verdict> {
        let later = |why: String| Err(Verdict::Later(why));
        let has_lanes = !self.lanes.is_empty();
        if has_lanes && !self.lanes.contains(&guest.job) {
            return later("a run of these parties is under way here, over lanes; try again later".into());
        }
        if has_lanes || lock(&self.visits).inside.len() >= self.limits.links {
            self.sweep();
        }
        let party = guest.party;
        let mut visits = lock(&self.visits);
        // Under this lock: whoever finds the door shut and nobody being let in is right for good.
        if self.shut() {
            return later("this service is being stopped; try again later".into());
        }
        // The list is replaced under this lock: whoever is let in has been found on the list of this moment.
        if !Arc::ptr_eq(guest.list, &self.register.now()) {
            return later("the list of clients was replaced just now; try again".into());
        }
        if visits.inside.len() >= self.limits.links {
            return later("this service has as many connections as it takes; try again later".into());
        }
        if has_lanes && visits.inside.values().any(|visit| visit.job == guest.job) {
            return later("the link that this lane had before is not gone yet; try again".into());
        }
        let of_one = visits.inside.values().filter(|visit| visit.party == *party).count();
        if of_one >= self.limits.links_of_one {
            return later(format!(
                "{party} has {of_one} connections already, as many as one client may have; end one, or try again later"
            ));
        }
        let number = visits.next;
        visits.next += 1;
        let visit = Visit {
            party: party.clone(),
            job: guest.job,
            chain: guest.chain.to_vec(),
            link: None,
            off_the_list: false,
        };
        visits.inside.insert(number, visit);
        let visits = self.visits.clone();
        Ok(Pass::new(number, guest.job, move || drop(lock(&visits).inside.remove(&number))))
    }

    fn arrived(&self, link: Link) {
        let Some(number) = link.pass() else { return };
        let stays = |visits: &Visits| visits.inside.get(&number).is_some_and(|visit| !visit.off_the_list);
        if stays(&lock(&self.visits)) {
            // Before anybody can take the link.
            self.event(&Event::Connected {
                peer: link.peer().clone(),
                address: link.address(),
                secured: link.secured().clone(),
            });
        }
        let mut visits = lock(&self.visits);
        match visits.inside.get_mut(&number).filter(|visit| !visit.off_the_list) {
            Some(visit) => {
                visit.link = Some(link.weak());
                // Under the lock of the visits, so that a link is always on its way in, or in the queue, or taken.
                lock(&self.arrivals).push_back(link);
            }
            None => {
                drop(visits);
                return link.abort(Fault::Config, OFF_THE_LIST);
            }
        }
        drop(visits);
        self.came.notify_one();
    }

    fn refused(&self, from: SocketAddr, hitch: Hitch, known: Option<&Party>) {
        let why = match known {
            Some(party) => format!("{party}: {}", hitch.words()),
            None => hitch.words(),
        };
        let mut refusals = lock(&self.refusals);
        if refusals.minute.is_none_or(|minute| minute.elapsed() >= Duration::from_secs(60)) {
            (refusals.minute, refusals.in_minute) = (Some(Instant::now()), 0);
        }
        refusals.in_minute += 1;
        refusals.count += 1;
        let (in_minute, count) = (refusals.in_minute, refusals.count);
        drop(refusals);
        if in_minute <= TOLD {
            self.event(&Event::Refused { from, why });
        } else if in_minute.is_multiple_of(100) {
            self.event(&Event::Strangers { count });
        }
    }

    fn hopeless(&self, party: &Party, from: SocketAddr, hitch: Hitch) {
        self.refused(from, hitch, Some(party));
    }
}
