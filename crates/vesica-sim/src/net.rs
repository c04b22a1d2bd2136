//! A network in memory: links that deliver whole messages in the order in which they were sent, late, and not at all once they are cut.
//!
//! What is below [`PeerLink`] in the product is not here: sockets, TLS, frames, windows, heartbeats. A connection that is cut at some byte is
//! one that delivers so many of its messages and no more, for a frame that is not whole is dropped. Each end hears of the cut when a heartbeat
//! would have told it: at once or up to ten seconds later.

use crate::sim::{Seen, Sim, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use vesica_job::worlds::{ClientDoor, Connector, LaneDoor, PeerLink};
use vesica_net::{Client, Control, Endpoint, Error, Identity, Limits, PeerProgress, Result, Secured, Traffic, Trust};
use vesica_session::{Channel, Error as Broken, Fault, Meter, Misbehaviour};
use vesica_types::Party;

/// Until when a peer that says nothing counts as alive.
pub const SILENCE: Duration = Duration::from_secs(10);

/// The largest message.
const WINDOW: usize = 40 << 20;

/// How often a blocked call looks whether its lane is to end, and how long who dials waits before it tries again.
const LOOK: Duration = Duration::from_millis(100);

/// What will happen at a moment.
pub enum Happening {
    /// Something reaches an end of a link.
    Arrive {
        /// Which link.
        link: usize,
        /// Which of its ends.
        end: usize,
        /// What.
        item: Item,
    },
    /// Two sides that wait for each other have met.
    Meet([u64; 2]),
    /// A party's process begins.
    Start(usize),
}

/// What goes over a link.
pub enum Item {
    /// A message of a line.
    Message(String, Vec<u8>),
    /// Nothing more will come.
    Goodbye,
    /// The peer ended the run.
    Stop(Fault, String),
    /// The connection is no more, and this is how that is noticed.
    Broken(String),
}

/// What becomes of what a process says.
pub enum Said {
    /// It goes over the link, as these bytes.
    As(Vec<u8>),
    /// The same, and then the link breaks.
    Last(Vec<u8>),
    /// The link breaks first.
    Nothing,
    /// It has to wait a little.
    Later,
}

/// One end of a link.
struct End {
    process: usize,
    /// The party here.
    me: Party,
    inbox: BTreeMap<String, VecDeque<Vec<u8>>>,
    opened: BTreeSet<String>,
    over: Option<Broken>,
    said_goodbye: bool,
    /// When it did.
    since: Duration,
    heard_goodbye: bool,
    /// When what was sent last arrives.
    last: Duration,
    traffic: Traffic,
    /// Whether the process has let go of it.
    dropped: bool,
}

/// A link.
struct Link {
    ends: [End; 2],
    /// What calls are woken by.
    number: u64,
    /// The job that it was made for: a lane's name, or zeros.
    job: [u8; 32],
    /// Since when nothing is delivered.
    cut: Option<Duration>,
}

/// Who waits for whom.
struct Wanted {
    number: u64,
    process: usize,
    me: Party,
    peer: u8,
    met: Option<usize>,
    meeting: bool,
}

/// A door for lanes, or for the clients of a service.
struct Door {
    number: u64,
    process: usize,
    me: Party,
    /// Who comes for this waits until there is no door any more.
    job: [u8; 32],
    lanes: Vec<[u8; 32]>,
    seats: usize,
    /// Whether all come for the same.
    for_clients: bool,
    queue: VecDeque<usize>,
    inside: Vec<usize>,
    shut: bool,
}

/// Links, doors and who waits.
#[derive(Default)]
pub struct Net {
    links: Vec<Link>,
    wanted: Vec<Wanted>,
    doors: Vec<Door>,
}

impl State {
    /// Something that was on the agenda happens.
    pub fn happen(&mut self, what: Happening) {
        match what {
            Happening::Arrive { link, end, item } => self.arrive(link, end, item),
            Happening::Meet(both) => self.meet(both),
            Happening::Start(party) => self.begin_party(party),
        }
    }

    fn arrive(&mut self, at: usize, end: usize, item: Item) {
        let (now, link) = (self.now, &mut self.net.links[at]);
        let broken = matches!(item, Item::Broken(_));
        if !broken && link.cut.is_some_and(|cut| now >= cut) {
            return;
        }
        let number = link.number;
        let peer = link.ends[1 - end].me.clone();
        let here = &mut link.ends[end];
        if here.over.is_some() || self.processes[here.process].dead {
            return;
        }
        match item {
            Item::Message(line, bytes) => {
                here.traffic.received += bytes.len() as u64;
                here.inbox.entry(line).or_default().push_back(bytes);
            }
            Item::Goodbye => here.heard_goodbye = true,
            Item::Stop(fault, why) => here.over = Some(Broken::Stopped { peer, fault, why }),
            // Who has said and heard goodbye has no more use for it.
            Item::Broken(_) if here.said_goodbye && here.heard_goodbye => {}
            Item::Broken(why) => here.over = Some(Broken::Net { peer, why }),
        }
        self.wake(number);
    }

    fn send(&mut self, at: usize, end: usize, item: Item) {
        let delay = match self.dice.below(20) {
            0 => self.dice.millis(3000),
            1..5 => self.dice.millis(100),
            _ => self.dice.millis(2),
        };
        let now = self.now;
        let here = &mut self.net.links[at].ends[end];
        let when = here.last.max(now + delay);
        here.last = when;
        self.at(when, Happening::Arrive { link: at, end: 1 - end, item });
    }

    /// Cuts a link. What is under way is lost from some point on; each end notices by itself.
    fn cut(&mut self, at: usize, why: &str) {
        if self.net.links[at].cut.is_some() {
            return;
        }
        let now = self.now;
        let last = self.net.links[at].ends[0].last.max(self.net.links[at].ends[1].last).max(now);
        let lost = match self.dice.below(3) {
            0 => now,
            1 => now + Duration::from_micros(self.dice.below((last - now).as_micros() as u64 + 1)),
            _ => last + Duration::from_micros(1),
        };
        self.net.links[at].cut = Some(lost);
        for end in 0..2 {
            let notice = if self.dice.percent(50) { self.dice.millis(20) } else { self.dice.millis(10_000) };
            self.at(lost + notice, Happening::Arrive { link: at, end, item: Item::Broken(why.to_owned()) });
        }
    }

    /// The link breaks behind what was sent so far, and both ends notice at once.
    fn breaks(&mut self, at: usize) {
        let last = self.net.links[at].ends[0].last.max(self.net.links[at].ends[1].last).max(self.now);
        self.net.links[at].cut = Some(last + Duration::from_micros(1));
        for end in 0..2 {
            let item = Item::Broken("the other side closed it".to_owned());
            self.at(last + Duration::from_micros(2), Happening::Arrive { link: at, end, item });
        }
    }

    /// Cuts some link that is alive, if there is one. Says whether there was.
    pub fn cut_one(&mut self) -> bool {
        let alive: Vec<usize> = (0..self.net.links.len()).filter(|&at| self.is_alive(at)).collect();
        if alive.is_empty() {
            return false;
        }
        let at = alive[self.dice.below(alive.len() as u64) as usize];
        let now = self.now;
        self.trace.tell(now, || format!("link {at} is cut"));
        self.cut(at, "the network cut it");
        true
    }

    fn is_alive(&self, at: usize) -> bool {
        let link = &self.net.links[at];
        link.cut.is_none() && link.ends.iter().all(|end| end.over.is_none() && !end.dropped)
    }

    /// Links of a process that stands still for longer than a peer may be silent break.
    pub fn silent(&mut self, process: usize, span: Duration) {
        if span <= SILENCE {
            return;
        }
        for at in 0..self.net.links.len() {
            let of = |end: &End| end.process == process;
            if self.is_alive(at) && self.net.links[at].ends.iter().any(of) {
                let now = self.now;
                self.net.links[at].cut = Some(now + SILENCE);
                for end in 0..2 {
                    let when = if of(&self.net.links[at].ends[end]) { now + span } else { now + SILENCE };
                    let item = Item::Broken("it fell silent for 10 s".to_owned());
                    self.at(when, Happening::Arrive { link: at, end, item });
                }
            }
        }
    }

    /// A process is gone, and with it its ends of links, its doors, and its waiting.
    pub fn net_of_killed(&mut self, process: usize) {
        self.net.wanted.retain(|wanted| wanted.process != process);
        self.net.doors.retain(|door| door.process != process);
        for at in 0..self.net.links.len() {
            for end in 0..2 {
                if self.net.links[at].ends[end].process == process {
                    self.let_go(at, end);
                }
            }
        }
    }

    fn let_go(&mut self, at: usize, end: usize) {
        let here = &mut self.net.links[at].ends[end];
        if std::mem::replace(&mut here.dropped, true) {
            return;
        }
        let parted = here.said_goodbye && here.heard_goodbye;
        here.over.get_or_insert(Broken::Cancelled);
        // Behind its last words, if there are any, the other end sees a connection that was closed.
        if !parted {
            self.send(at, end, Item::Broken("the other side closed it".to_owned()));
        }
        let number = self.net.links[at].number;
        if end == 1 {
            self.net.doors.iter_mut().for_each(|door| door.inside.retain(|inside| *inside != at));
        }
        self.wake(number);
    }

    fn link(&mut self, job: [u8; 32], ends: [(usize, Party); 2]) -> usize {
        let (number, now) = (self.number(), self.now);
        self.case_linked(ends.each_ref().map(|(process, _)| *process));
        let ends = ends.map(|(process, me)| End {
            process,
            me,
            inbox: BTreeMap::new(),
            opened: BTreeSet::new(),
            over: None,
            said_goodbye: false,
            since: now,
            heard_goodbye: false,
            last: now,
            traffic: Traffic::default(),
            dropped: false,
        });
        self.net.links.push(Link { ends, number, job, cut: None });
        let at = self.net.links.len() - 1;
        let names = self.net.links[at].ends.each_ref().map(|end| end.me.name().to_owned());
        self.trace.show(now, &[], || format!("link {at} between {} and {}", names[0], names[1]));
        at
    }

    /// Whoever waits for each other will meet.
    fn pair(&mut self, mine: u64) {
        let find = |net: &Net, number| net.wanted.iter().position(|wanted: &Wanted| wanted.number == number);
        let Some(here) = find(&self.net, mine) else { return };
        let (me, peer) = (self.net.wanted[here].me.place(), self.net.wanted[here].peer);
        let there =
            self.net.wanted.iter().position(|other| {
                other.me.place() == peer && other.peer == me && !other.meeting && other.met.is_none()
            });
        let Some(there) = there else { return };
        let other = self.net.wanted[there].number;
        self.net.wanted[here].meeting = true;
        self.net.wanted[there].meeting = true;
        let when = self.now + self.dice.millis(300);
        self.at(when, Happening::Meet([mine, other]));
    }

    fn meet(&mut self, both: [u64; 2]) {
        let found = both.map(|number| self.net.wanted.iter().position(|wanted| wanted.number == number));
        let [Some(a), Some(b)] = found else {
            // One of them has given up. The other waits on.
            for at in found.into_iter().flatten() {
                self.net.wanted[at].meeting = false;
            }
            for number in both {
                self.pair(number);
            }
            return;
        };
        let ends = [a, b].map(|at| (self.net.wanted[at].process, self.net.wanted[at].me.clone()));
        let link = self.link([0; 32], ends);
        for at in [a, b] {
            self.net.wanted[at].met = Some(link);
            self.wake(self.net.wanted[at].number);
        }
    }
}

/// This process's end of a link.
struct Tie {
    of: Seen,
    link: usize,
    end: usize,
    peer: Party,
    job: [u8; 32],
    secured: Secured,
    control: Arc<dyn Control>,
    /// How often who waits on it looks whether it is to end.
    look: Duration,
}

impl Tie {
    fn new(of: &Seen, state: &State, link: usize, end: usize, control: Arc<dyn Control>) -> Self {
        let of_link = &state.net.links[link];
        let (peer, job) = (of_link.ends[1 - end].me.clone(), of_link.job);
        let look = if state.case.shop.is_some() { crate::shop::LOOK } else { LOOK };
        Self { of: of.clone(), link, end, peer, job, secured: Secured::plain(), control, look }
    }

    fn sim(&self) -> &Sim {
        &self.of.sim
    }

    fn clone(&self) -> Self {
        Self {
            of: self.of.clone(),
            link: self.link,
            end: self.end,
            peer: self.peer.clone(),
            job: self.job,
            secured: self.secured.clone(),
            control: self.control.clone(),
            look: self.look,
        }
    }

    /// What ended the link, if something did.
    fn over(&self, state: &mut State) -> std::result::Result<(), Broken> {
        let here = &mut state.net.links[self.link].ends[self.end];
        if self.job != [0; 32] && self.control.cancelled() {
            here.over.get_or_insert(Broken::Cancelled);
        }
        here.over.clone().map_or(Ok(()), Err)
    }

    /// Opens a line, once.
    fn line(&self, name: &str) -> std::result::Result<Box<dyn Channel>, Broken> {
        let mut state = self.sim().lock();
        self.over(&mut state)?;
        if !state.net.links[self.link].ends[self.end].opened.insert(name.to_owned()) {
            return Err(Broken::Bug(format!("line {name:?} was opened before")));
        }
        drop(state);
        Ok(Box::new(Line { tie: self.clone(), name: name.to_owned(), meter: Meter::default(), spoke: false }))
    }

    /// Waits for something on this link.
    fn wait<T>(&self, limit: Option<Duration>, mut ready: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let (number, end) = {
            let state = self.sim().lock();
            (state.net.links[self.link].number, limit.map(|limit| state.now + limit))
        };
        loop {
            let now = self.sim().lock().now;
            // Lanes are told to end by a flag, which somebody has to look at.
            let look = (self.job != [0; 32]).then_some(now + self.look);
            let until = [look, end].into_iter().flatten().min();
            let made = self.sim().wait(number, until, &mut ready);
            if made.is_some() || self.sim().lock().processes[self.of.process].dead {
                return made;
            }
            if end.is_some_and(|end| self.sim().lock().now >= end) {
                return None;
            }
        }
    }
}

/// A line of a link.
struct Line {
    tie: Tie,
    name: String,
    meter: Meter,
    spoke: bool,
}

/// The process lets go of its end when it drops this, and its lines have none of their own.
struct Held(Tie);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.sim().lock().let_go(self.0.link, self.0.end);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} to {}", self.0.link, self.0.peer)
    }
}

impl PeerLink for Held {
    fn peer(&self) -> &Party {
        &self.0.peer
    }

    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn job(&self) -> Option<[u8; 32]> {
        Some(self.0.job)
    }

    fn line(&self, name: &str) -> std::result::Result<Box<dyn Channel>, Broken> {
        self.0.line(name)
    }

    fn secured(&self) -> &Secured {
        &self.0.secured
    }

    fn traffic(&self) -> Traffic {
        self.0.sim().lock().net.links[self.0.link].ends[self.0.end].traffic
    }

    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    fn set_progress(&self, _: &str, _: u64, _: Option<u64>) {}

    fn peer_progress(&self) -> Option<PeerProgress> {
        None
    }

    fn ended(&self) -> Option<Broken> {
        self.0.over(&mut self.0.sim().lock()).err()
    }

    fn stop(&self, fault: Fault, why: &str) {
        let mut state = self.0.sim().lock();
        let now = state.now;
        let here = &mut state.net.links[self.0.link].ends[self.0.end];
        if here.dropped || matches!(here.over, Some(Broken::Cancelled)) {
            return;
        }
        let broken = here.over.is_some();
        here.over.get_or_insert(Broken::Cancelled);
        let number = state.net.links[self.0.link].number;
        if !broken {
            let link = self.0.link;
            let me = state.net.links[link].ends[self.0.end].me.name().to_owned();
            state.trace.show(now, &[], || format!("{me} stops link {link}: {} fault, {why}", fault.name()));
            state.send(self.0.link, self.0.end, Item::Stop(fault, why.to_owned()));
        }
        state.wake(number);
    }

    fn hang_up(&self) {}

    fn part(&self) {
        let mut state = self.0.sim().lock();
        let now = state.now;
        let here = &mut state.net.links[self.0.link].ends[self.0.end];
        if here.over.is_none() && !std::mem::replace(&mut here.said_goodbye, true) {
            here.since = now;
            let (link, me) = (self.0.link, here.me.name().to_owned());
            state.trace.show(now, &[], || format!("{me} says goodbye on link {link}"));
            state.send(self.0.link, self.0.end, Item::Goodbye);
        }
    }

    fn parted(&self, limit: Option<Duration>) -> std::result::Result<(), Broken> {
        self.part();
        let gone = {
            let state = self.0.sim().lock();
            state.now.saturating_sub(state.net.links[self.0.link].ends[self.0.end].since)
        };
        let left = limit.map(|limit| limit.saturating_sub(gone));
        let done = self.0.wait(left, |state| {
            let here = &state.net.links[self.0.link].ends[self.0.end];
            if here.said_goodbye && here.heard_goodbye {
                return Some(Ok(()));
            }
            self.0.over(state).err().map(Err)
        });
        done.unwrap_or_else(|| {
            let error = Broken::Net { peer: self.0.peer.clone(), why: "it does not say goodbye".to_owned() };
            self.0.sim().lock().net.links[self.0.link].ends[self.0.end].over.get_or_insert(error.clone());
            Err(error)
        })
    }
}

impl Channel for Line {
    fn send(&mut self, msg: &[u8]) -> vesica_session::Result<()> {
        let (sim, tie) = (self.tie.sim(), &self.tie);
        sim.pause();
        let mut state = sim.lock();
        tie.over(&mut state)?;
        let now = state.now;
        let here = &mut state.net.links[tie.link].ends[tie.end];
        if here.said_goodbye {
            return Err(Broken::Bug(format!("line {:?} was used after the goodbye", self.name)));
        }
        here.traffic.sent += msg.len() as u64;
        let me = here.me.name().to_owned();
        state.trace.show(now, msg, || format!("{me} says on link {}, {:?}", tie.link, self.name));
        let broken = || Broken::Net { peer: tie.peer.clone(), why: "the other side closed it".to_owned() };
        let mut times = 0;
        loop {
            match state.case_said(tie.of.process, (tie.link, tie.job), &self.name, msg, times) {
                Said::As(said) => state.send(tie.link, tie.end, Item::Message(self.name.clone(), said)),
                Said::Last(said) => {
                    state.send(tie.link, tie.end, Item::Message(self.name.clone(), said));
                    state.breaks(tie.link);
                }
                Said::Later => {
                    let then = state.now + Duration::from_millis(1);
                    drop(state);
                    sim.wait(u64::MAX, Some(then), |_| None::<()>);
                    state = sim.lock();
                    tie.over(&mut state)?;
                    times += 1;
                    continue;
                }
                Said::Nothing => {
                    state.breaks(tie.link);
                    return Err(state.net.links[tie.link].ends[tie.end].over.get_or_insert_with(broken).clone());
                }
            }
            break;
        }
        drop(state);
        self.spoke = true;
        let step = self.meter.current();
        step.sent += msg.len() as u64;
        step.messages += 1;
        Ok(())
    }

    fn recv(&mut self, limit: usize) -> vesica_session::Result<Vec<u8>> {
        let tie = &self.tie;
        tie.sim().pause();
        let got = tie.wait(None, |state| {
            if let Err(error) = tie.over(state) {
                return Some(Err(error));
            }
            let here = &mut state.net.links[tie.link].ends[tie.end];
            match here.inbox.get_mut(&self.name).and_then(VecDeque::pop_front) {
                Some(msg) => Some(Ok(msg)),
                None if here.heard_goodbye => {
                    let fault = Misbehaviour::Contradiction("it said goodbye before the run was over");
                    Some(Err(Broken::Peer { peer: tie.peer.clone(), fault }))
                }
                None => None,
            }
        });
        let msg = got.unwrap_or(Err(Broken::Cancelled))?;
        if msg.len() > limit {
            let fault = Misbehaviour::TooLong { got: msg.len() as u64, limit: limit as u64 };
            return Err(Broken::Peer { peer: tie.peer.clone(), fault });
        }
        let round = std::mem::take(&mut self.spoke);
        let step = self.meter.current();
        step.received += msg.len() as u64;
        step.rounds += u64::from(round);
        Ok(msg)
    }

    fn line(&self, name: &str) -> vesica_session::Result<Box<dyn Channel>> {
        self.tie.line(name)
    }

    fn window(&self) -> usize {
        WINDOW
    }

    fn step(&mut self, name: &'static str) {
        self.meter.step(name);
    }

    fn meter(&self) -> Meter {
        self.meter.clone()
    }

    fn peer(&self) -> &Party {
        &self.tie.peer
    }

    fn alive(&self) -> vesica_session::Result<()> {
        self.tie.over(&mut self.tie.sim().lock())
    }
}

impl Connector for Seen {
    fn check(&self, _: &Endpoint) -> Result<()> {
        Ok(())
    }

    fn connect(&self, endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>> {
        let end = self.sim.lock().now + endpoint.patience;
        if endpoint.job != [0; 32] {
            return self.dial_lane(&endpoint, control, end);
        }
        let mut asked = Asked { of: self.clone(), numbers: Vec::new() };
        for peer in &endpoint.peers {
            let mut state = self.sim.lock();
            let number = state.number();
            let (me, peer) = (endpoint.me.clone(), peer.party.place());
            let process = self.process;
            state.net.wanted.push(Wanted { number, process, me, peer, met: None, meeting: false });
            asked.numbers.push(number);
            state.pair(number);
        }
        let mut links: Vec<Box<dyn PeerLink>> = Vec::new();
        for (peer, number) in endpoint.peers.iter().zip(asked.numbers.clone()) {
            let link = loop {
                let look = self.sim.lock().now + LOOK * 5;
                let met = self.sim.wait(number, Some(look.min(end)), |state| {
                    state.net.wanted.iter().find(|wanted| wanted.number == number).and_then(|wanted| wanted.met)
                });
                if let Some(link) = met {
                    break link;
                }
                let state = self.sim.lock();
                if control.cancelled() {
                    return Err(Broken::Cancelled.into());
                }
                // A door for lanes has everybody come later who is to meet this party, and sends away who comes for something else.
                let place = peer.party.place();
                let at_door = |door: &Door| door.me.place() == place && door.job != endpoint.job;
                if peer.connect.is_some() && state.net.doors.iter().any(at_door) {
                    let (peer, address) = (peer.party.clone(), "there".to_owned());
                    return Err(Error::Refused { peer, address, why: "it runs another job".to_owned() });
                }
                if state.now >= end {
                    drop(state);
                    let (peer, address, why) = (peer.party.clone(), "there".to_owned(), "nobody is there".to_owned());
                    for link in links {
                        link.abort(Fault::Peer, &format!("{peer} did not come"));
                    }
                    return Err(Error::Absent { peer, address, waited: endpoint.patience, why });
                }
            };
            let state = self.sim.lock();
            let here = usize::from(state.net.links[link].ends[1].process == self.process);
            links.push(Box::new(Held(Tie::new(self, &state, link, here, control.clone()))));
        }
        Ok(links)
    }

    fn lane_door(
        &self,
        endpoint: Endpoint,
        _: Party,
        _: Vec<Trust>,
        seats: usize,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn LaneDoor>> {
        self.sim.pause();
        let mut state = self.sim.lock();
        let number = state.number();
        let (me, process, job, lanes) = (endpoint.me.clone(), self.process, endpoint.job, endpoint.lanes.clone());
        let (queue, inside, for_clients) = (VecDeque::new(), Vec::new(), false);
        state.net.doors.push(Door { number, process, me, job, lanes, seats, for_clients, queue, inside, shut: false });
        Ok(Box::new(Entry { of: self.clone(), number, control, look: LOOK }))
    }

    fn door(
        &self,
        endpoint: Endpoint,
        _: Vec<Client>,
        Limits { links, .. }: Limits,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn ClientDoor>> {
        self.sim.pause();
        let mut state = self.sim.lock();
        let number = state.number();
        let (me, process, job, lanes) = (endpoint.me.clone(), self.process, endpoint.job, vec![endpoint.job]);
        let (queue, inside, for_clients, seats) = (VecDeque::new(), Vec::new(), true, links);
        state.net.doors.push(Door { number, process, me, job, lanes, seats, for_clients, queue, inside, shut: false });
        Ok(Box::new(Entry { of: self.clone(), number, control, look: crate::shop::LOOK }))
    }
}

/// What a process has asked for, which it does no more when this is dropped.
struct Asked {
    of: Seen,
    numbers: Vec<u64>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.of.sim.lock();
        state.net.wanted.retain(|wanted| !self.numbers.contains(&wanted.number));
    }
}

impl Seen {
    fn dial_lane(
        &self,
        endpoint: &Endpoint,
        control: Arc<dyn Control>,
        end: Duration,
    ) -> Result<Vec<Box<dyn PeerLink>>> {
        let (peer, job) = (&endpoint.peers[0].party, endpoint.job);
        let refused =
            |why: &str| Err(Error::Refused { peer: peer.clone(), address: "there".to_owned(), why: why.to_owned() });
        loop {
            let now = self.sim.lock().now;
            self.sim.wait(u64::MAX, Some(now + LOOK), |_| None::<()>);
            if control.cancelled() {
                return Err(Broken::Cancelled.into());
            }
            let mut state = self.sim.lock();
            if state.now >= end {
                let (peer, address) = (peer.clone(), "there".to_owned());
                let why = "nobody is there".to_owned();
                return Err(Error::Absent { peer, address, waited: endpoint.patience, why });
            }
            let place = peer.place();
            let Some(at) = state.net.doors.iter().position(|door| door.me.place() == place) else {
                // Who is there waits for a party, and not for a lane.
                match state.net.wanted.iter().any(|wanted| wanted.me.place() == place) {
                    true => return refused("it waits for a party"),
                    false => continue,
                }
            };
            if !state.net.doors[at].lanes.contains(&job) {
                return refused("it knows no such lane");
            }
            let inside = &state.net.doors[at].inside;
            let full = inside.len() >= state.net.doors[at].seats;
            let same = inside.iter().any(|&link| state.net.links[link].job == job);
            if full || same && !state.net.doors[at].for_clients || state.net.doors[at].shut {
                continue;
            }
            let there = (state.net.doors[at].process, state.net.doors[at].me.clone());
            let link = state.link(job, [(self.process, endpoint.me.clone()), there]);
            let door = &mut state.net.doors[at];
            door.queue.push_back(link);
            door.inside.push(link);
            let number = door.number;
            state.wake(number);
            return Ok(vec![Box::new(Held(Tie::new(self, &state, link, 0, control)))]);
        }
    }
}

/// A door for lanes, as its process has it.
struct Entry {
    of: Seen,
    number: u64,
    control: Arc<dyn Control>,
    look: Duration,
}

impl ClientDoor for Entry {
    fn set_clients(&self, _: Vec<Client>) -> Result<()> {
        Ok(())
    }

    fn set_identity(&self, _: &Identity) -> Result<()> {
        Ok(())
    }

    fn links(&self) -> usize {
        let state = self.of.sim.lock();
        state.net.doors.iter().find(|door| door.number == self.number).map_or(0, |door| door.inside.len())
    }
}

impl LaneDoor for Entry {
    fn next(&self) -> Result<Option<Box<dyn PeerLink>>> {
        loop {
            if self.control.cancelled() {
                return Err(Broken::Cancelled.into());
            }
            let look = self.of.sim.lock().now + self.look;
            let came = self.of.sim.wait(self.number, Some(look), |state| {
                let door = state.net.doors.iter_mut().find(|door| door.number == self.number)?;
                match door.queue.pop_front() {
                    Some(link) => Some(Some(link)),
                    None => door.shut.then_some(None),
                }
            });
            match came {
                Some(None) => return Ok(None),
                Some(Some(link)) => {
                    let state = self.of.sim.lock();
                    let tie = Held(Tie::new(&self.of, &state, link, 1, self.control.clone()));
                    drop(state);
                    // One that went away while it waited here is dropped.
                    if tie.ended().is_none() {
                        return Ok(Some(Box::new(tie)));
                    }
                }
                None => {}
            }
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0], 0))
    }

    fn shut(&self) {
        let mut state = self.of.sim.lock();
        if let Some(door) = state.net.doors.iter_mut().find(|door| door.number == self.number) {
            door.shut = true;
        }
        state.wake(self.number);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.of.sim.lock();
        state.net.doors.retain(|door| door.number != self.number);
    }
}
