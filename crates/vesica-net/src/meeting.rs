//! A meeting: everybody of a job, once.
//!
//! The caller's thread counts patience and hears the outcomes. Every address that is dialled has a thread of its own, and so
//! has every guest at the port.

use crate::dial::Caller;
use crate::greet::{Host, Known};
use crate::heartbeat::Pulse;
use crate::hello::Verdict;
use crate::hitch::Hitch;
use crate::link::Link;
use crate::lock::lock;
use crate::pass::Pass;
use crate::port::Port;
use crate::spawn::spawn;
use crate::version::WIRE_VERSION;
use crate::{Bound, Control, Endpoint, Error, Event, PeerLink, Result, tls};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vesica_session::Fault;
use vesica_types::Party;

/// How often the waiting is told of.
const REMIND: Duration = Duration::from_secs(5);

/// How many strangers are told of one by one; after that, every hundredth.
const STRANGERS: u64 = 50;

/// How many of those who were refused for a certificate are named when nobody came.
const STRANGERS_NAMED: usize = 4;

/// Connects to every peer, and waits for those that are late.
///
/// # Errors
/// The faults of [`Endpoint::check`]; a peer that does not come within the endpoint's patience, that proves to be
/// somebody else or that will not talk to us.
pub fn connect(endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>> {
    endpoint.bind()?.meet(control)
}

impl Bound {
    /// Connects to every peer, and waits for those that are late. The links are in the order of the endpoint's peers.
    ///
    /// # Errors
    /// Those of [`connect`].
    pub fn meet(self, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>> {
        let Bound { endpoint, port, dialled, news } = self;
        let (sender, outcomes) = channel();
        let here = Arc::new(Mutex::new(vec![false; endpoint.peers.len()]));
        let pulse = Pulse::start(control.clone(), endpoint.silence)?;
        let room = Arc::new(Room {
            endpoint,
            control: control.clone(),
            pulse,
            outcomes: Mutex::new(sender),
            over: AtomicBool::new(false),
            here,
        });
        news.iter().for_each(|event| control.event(event));
        let mut meeting = Meeting::new(&room, dialled);
        let met = meeting.hold(port, &outcomes);
        room.over.store(true, Ordering::Relaxed);
        match met {
            Ok(()) => Ok(meeting.seats.into_iter().filter_map(|seat| seat.link).map(Into::into).collect()),
            Err(error) => {
                // Those who are here already are told, each at once. Of a network's fault they would wait for this side to come
                // back, which it does not. Who only checked may come again, to run.
                let (fault, words) = match (&error, error.fault()) {
                    _ if room.endpoint.only_checks => (Fault::Network, "it only checked the job".to_owned()),
                    (Error::Session(vesica_session::Error::Cancelled), fault) => (fault, "interrupted".to_owned()),
                    (error, Fault::Network) => (Fault::Peer, error.for_peers()),
                    (error, fault) => (fault, error.for_peers()),
                };
                std::thread::scope(|scope| {
                    for link in meeting.seats.iter().filter_map(|seat| seat.link.as_ref()) {
                        scope.spawn(|| link.abort(fault, &words));
                    }
                });
                Err(error)
            }
        }
    }
}

/// What the threads tell the caller's.
enum Outcome {
    /// A peer is here.
    Up(usize, Link),
    /// A peer is not to be had yet, and why; true if it is there and asked to be tried again later.
    Not(usize, String, bool),
    /// A peer is not to be had at all.
    Never(Error),
    /// Somebody was turned away; a peer by its certificate, where there is a place.
    Stranger(SocketAddr, Hitch, Option<usize>),
}

/// What the threads of a meeting share.
struct Room {
    endpoint: Arc<Endpoint>,
    control: Arc<dyn Control>,
    pulse: Arc<Pulse>,
    outcomes: Mutex<Sender<Outcome>>,
    /// Everybody is here, or nobody is wanted any more.
    over: AtomicBool,
    /// Which of the peers that we wait for have come in.
    here: Arc<Mutex<Vec<bool>>>,
}

impl Room {
    fn tell(&self, outcome: Outcome) {
        // If nobody listens any more, a link in the outcome is dropped, which is as it should be.
        let _ = lock(&self.outcomes).send(outcome);
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The place of `party` among the peers.
    fn place(&self, party: &Party) -> Option<usize> {
        self.endpoint.peers.iter().position(|peer| peer.party == *party)
    }
}

impl Host for Room {
    fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    fn admit(&self, guest: &Known<'_>) -> std::result::Result<Pass, Verdict> {
        let (party, me) = (guest.party, &self.endpoint.me);
        let place = self.place(party).ok_or_else(|| Verdict::Never(format!("{party} is no peer of this job")))?;
        if self.endpoint.peers.get(place).is_some_and(|peer| peer.connect.is_some()) {
            return Err(Verdict::Never(format!(
                "both {party} and {me} have the other's address to connect to; take mine.connect.{party} out of {me}'s job, \
                 or mine.connect.{me} out of {party}'s"
            )));
        }
        if lock(&self.here).get_mut(place).is_none_or(|here| std::mem::replace(here, true)) {
            return Err(Verdict::Later(format!("{party} is connected already; is its job running twice?")));
        }
        let here = self.here.clone();
        Ok(Pass::new(place as u64, guest.job, move || {
            if let Some(here) = lock(&here).get_mut(place) {
                *here = false;
            }
        }))
    }

    fn arrived(&self, link: Link) {
        if let Some(place) = self.place(link.peer()) {
            self.tell(Outcome::Up(place, link));
        }
    }

    fn refused(&self, from: SocketAddr, hitch: Hitch, known: Option<&Party>) {
        self.tell(Outcome::Stranger(from, hitch, known.and_then(|party| self.place(party))));
    }

    fn hopeless(&self, party: &Party, from: SocketAddr, hitch: Hitch) {
        let peer = party.clone();
        self.tell(Outcome::Never(match hitch {
            Hitch::Version { theirs } => Error::Version { peer, theirs, ours: WIRE_VERSION },
            hitch => Error::Refused {
                peer,
                address: from.to_string(),
                why: format!("by its certificate it is {party}, but {}", hitch.words()),
            },
        }));
    }
}

/// One peer's place at the table.
struct Seat {
    link: Option<Link>,
    /// Where the peer is sought.
    address: String,
    /// What the last attempt met.
    why: Option<String>,
    /// That was the peer itself, which asked to be tried again later.
    there: bool,
    /// That the peer itself, known by its certificate, was turned away last, and why.
    turned_away: Option<String>,
    /// Who was refused for a certificate, and why: most likely the peer was among them, and one of both jobs has a wrong fingerprint.
    strangers: Strangers,
    /// What was told of it last, and when.
    told: Option<(Instant, Option<String>)>,
}

/// Who was refused for a certificate: the first ones stay, for a scanner may come at any time, with any certificate.
#[derive(Default)]
struct Strangers {
    /// From where the first ones came, and what they were refused for.
    first: Vec<String>,
    /// Whether there were more.
    more: bool,
}

impl Strangers {
    fn add(&mut self, from: IpAddr, why: &str) {
        let words = format!("{from}, {why}");
        if self.first.contains(&words) {
            return;
        }
        if self.first.len() < STRANGERS_NAMED { self.first.push(words) } else { self.more = true }
    }

    /// Who it was, as the end of a sentence; none if it was nobody.
    fn in_words(&self) -> Option<String> {
        let more = if self.more { "; and others" } else { "" };
        (!self.first.is_empty()).then(|| format!("refused: {}{more}", self.first.join("; ")))
    }
}

/// The caller's side of connecting.
struct Meeting<'a> {
    room: &'a Arc<Room>,
    dialled: Vec<Option<tls::Client>>,
    seats: Vec<Seat>,
    strangers: u64,
    began: Instant,
}

impl<'a> Meeting<'a> {
    fn new(room: &'a Arc<Room>, dialled: Vec<Option<tls::Client>>) -> Self {
        let seat = |address: String| Seat {
            link: None,
            address,
            why: None,
            there: false,
            turned_away: None,
            strangers: Strangers::default(),
            told: None,
        };
        let seats = room.endpoint.peers.iter().map(|peer| seat(peer.connect.clone().unwrap_or_default())).collect();
        Self { room, dialled, seats, strangers: 0, began: Instant::now() }
    }

    fn event(&self, event: &Event) {
        tracing::debug!("{event}");
        self.room.control.event(event);
    }

    fn party(&self, place: usize) -> Party {
        let peer = self.room.endpoint.peers.get(place);
        peer.map_or_else(|| self.room.endpoint.me.clone(), |peer| peer.party.clone())
    }

    /// Waits until everybody is here.
    fn hold(&mut self, mut port: Option<Port>, outcomes: &Receiver<Outcome>) -> Result<()> {
        let host: Arc<dyn Host> = self.room.clone();
        if let Some(port) = &port {
            let at = port.address();
            for seat in self.seats.iter_mut().filter(|seat| seat.address.is_empty()) {
                seat.address = at.to_string();
            }
            self.event(&Event::Listening { at });
        }
        for place in 0..self.seats.len() {
            if let Some((peer, address)) =
                self.room.endpoint.peers.get(place).and_then(|peer| Some((peer, peer.connect.clone()?)))
                && let Some(road) = peer.road.in_words()
            {
                self.event(&Event::Calling { peer: peer.party.clone(), address, road });
            }
            self.dial(place)?;
        }
        loop {
            if self.room.control.cancelled() {
                return Err(vesica_session::Error::Cancelled.into());
            }
            if let Some(port) = &mut port {
                port.answer(&host)?;
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
        let Some(address) = self.room.endpoint.peers.get(place).and_then(|peer| peer.connect.clone()) else {
            return Ok(());
        };
        let tls = self.dialled.get(place).cloned().flatten();
        let room = self.room.clone();
        spawn("dial", move || {
            let Room { endpoint, pulse, .. } = &*room;
            let Some(peer) = endpoint.peers.get(place) else { return };
            let caller = Caller { endpoint, peer, address: &address, tls, pulse };
            match caller.dial(|| room.over(), |why, there| room.tell(Outcome::Not(place, why, there))) {
                Some(Ok(link)) => room.tell(Outcome::Up(place, link)),
                Some(Err(error)) => room.tell(Outcome::Never(error)),
                None => {}
            }
        })
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
            Outcome::Not(place, why, there) => {
                if let Some(seat) = self.seats.get_mut(place) {
                    seat.why = Some(why);
                    seat.there = there;
                }
            }
            Outcome::Never(error) => return Err(error),
            Outcome::Stranger(from, hitch, place) => {
                let (why, is_by_certificate) =
                    (hitch.words(), matches!(hitch, Hitch::Rejected(_) | Hitch::RejectedUs(_)));
                for (at, seat) in self.seats.iter_mut().enumerate() {
                    let awaited = self.room.endpoint.peers.get(at).is_some_and(|peer| peer.connect.is_none());
                    if awaited && place.is_none_or(|place| place == at) {
                        seat.why = Some(format!("last refused: {from}, {why}"));
                        match place {
                            Some(_) => seat.turned_away.clone_from(&seat.why),
                            None if is_by_certificate => seat.strangers.add(from.ip(), &why),
                            None => {}
                        }
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

    /// A peer that was here may be gone before the last one comes. It is awaited again, unless it said that the run is over for it:
    /// one that lost another peer comes back.
    fn look_for_losses(&mut self) -> Result<()> {
        for place in 0..self.seats.len() {
            let Some(seat) = self.seats.get_mut(place) else { continue };
            let Some(error) = seat.link.as_ref().and_then(Link::ended) else { continue };
            match error {
                vesica_session::Error::Net { peer, why }
                | vesica_session::Error::Stopped { peer, fault: Fault::Network, why } => {
                    seat.link = None;
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
        let patience = self.room.endpoint.patience;
        for place in 0..self.seats.len() {
            let peer = self.party(place);
            let dialled = self.room.endpoint.peers.get(place).is_some_and(|peer| peer.connect.is_some());
            let Some(seat) = self.seats.get_mut(place).filter(|seat| seat.link.is_none()) else { continue };
            if waited >= patience {
                let remedy = match dialled {
                    true if seat.there => "try again later, or raise mine.patience".into(),
                    true => {
                        format!("check that {peer} has started and that this is its address, or raise mine.patience")
                    }
                    false if seat.turned_away.is_some() => {
                        format!("that was {peer}: mend what it was refused for, and start {peer} again")
                    }
                    false if !seat.strangers.first.is_empty() => format!(
                        "if that was {peer}, one of the two jobs has a wrong certificate: compare the fingerprints with {peer} over a way that \
                         you trust, and correct mine.tls; if not, check that {peer} has started and dials this address"
                    ),
                    false => format!("check that {peer} has started and dials this address, or raise mine.patience"),
                };
                // A scanner that came later says less.
                seat.why = seat.turned_away.take().or_else(|| seat.strangers.in_words()).or_else(|| seat.why.take());
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
