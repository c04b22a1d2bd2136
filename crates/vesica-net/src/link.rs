//! Many lines over one connection.

use crate::frame::{self, HEAD, Head, Progress};
use crate::text::printable;
use crate::tls::Crypt;
use crate::{Control, Fingerprint, heartbeat, inbound, line};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{IoSlice, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vesica_session::{Channel, Error, Fault, Misbehaviour, Result};
use vesica_types::Party;

/// What a message costs of its line's window beyond its bytes, so that empty messages are bounded too.
pub(crate) const MESSAGE: u64 = 64;

/// The most lines at once, in whatever state.
const MAX_LINES: usize = 1024;

/// The most lines that one side may have opened before the other opens them. Further ones are announced one by one as
/// the other side catches up.
const MAX_AHEAD: usize = 64;

/// How much the writer takes at a time: enough to be cheap, little enough that heartbeats are not held up.
const BATCH: usize = 256 << 10;

/// The most frames that the writer takes at a time.
const BATCH_FRAMES: usize = 512;

/// The smallest buffer that is kept for another message: smaller ones cost the allocator nothing.
const RECYCLED: usize = 64 << 10;

/// How long last words may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Locks, whatever happened to others who held the lock: what it guards is whole between any two statements that could
/// panic, and a peer's bytes reach none of them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(signal: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    signal.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// One line, as both directions of it.
pub(crate) struct Line {
    name: Box<str>,
    /// A channel of this side stands for it.
    pub open: bool,
    /// That channel is gone.
    pub closed: bool,
    /// The peer has been told of it.
    announced: bool,
    /// The peer's number for it, once the peer has opened it.
    theirs: Option<u32>,

    /// Messages to send, and how much of the first one is sent.
    out: VecDeque<Arc<Vec<u8>>>,
    offset: usize,
    /// How much this side may still queue.
    pub credit: u64,
    end_sent: bool,
    ready: bool,

    /// Messages that came.
    pub queue: VecDeque<Vec<u8>>,
    /// The length of the message that is coming.
    pub coming: Option<u64>,
    /// How much the peer may still send.
    pub allowance: u64,
    /// What was read and has not been granted again.
    owed: u64,
    granting: bool,
    pub end_seen: bool,

    /// What a blocked `recv` would take at most.
    pub limit: Option<usize>,
    /// A call waits for `signal`.
    pub waiting: bool,
    pub signal: Arc<Condvar>,
}

impl Line {
    fn new(name: &str, full: u64) -> Self {
        Self {
            name: name.into(),
            open: false,
            closed: false,
            announced: false,
            theirs: None,
            out: VecDeque::new(),
            offset: 0,
            credit: full,
            end_sent: false,
            ready: false,
            queue: VecDeque::new(),
            coming: None,
            allowance: full,
            owed: 0,
            granting: false,
            end_seen: false,
            limit: None,
            waiting: false,
            signal: Arc::default(),
        }
    }

    /// Wakes the call that waits on this line, if one does.
    pub fn wake(&self) {
        if self.waiting {
            self.signal.notify_all();
        }
    }
}

/// Everything that the three threads and the lines share.
#[derive(Default)]
pub(crate) struct State {
    /// By this side's number.
    pub lines: HashMap<u32, Line>,
    by_name: HashMap<Box<str>, u32>,
    /// The peer's numbers, as ours.
    pub theirs: HashMap<u32, u32>,
    next: u32,
    /// Lines that this side has opened and announced, and the peer has not opened.
    ahead: usize,
    /// Lines that the peer has opened and this side has not.
    behind: usize,

    /// Lines to announce, lines with credit to grant, lines with something to send: what the writer does next.
    opens: VecDeque<u32>,
    grants: VecDeque<u32>,
    ready: VecDeque<u32>,
    pub ping: bool,
    stop: Option<(Fault, String)>,
    writer_waits: bool,

    /// What every call returns from now on.
    pub ended: Option<Error>,
    pub cancelled: bool,
    /// The socket is shut; the threads end.
    pub dead: bool,
    /// When the socket is shut, last words said or not.
    pub deadline: Option<Instant>,
    pub closing: bool,
    pub goodbye_queued: bool,
    pub goodbye_sent: bool,
    pub goodbye_seen: bool,
}

impl State {
    /// The reason for which a call cannot go on.
    pub fn over(&self) -> Result<()> {
        match &self.ended {
            _ if self.cancelled => Err(Error::Cancelled),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn rally(&mut self, key: u32) {
        if let Some(line) = self.lines.get_mut(&key)
            && line.announced
            && !line.ready
            && (!line.out.is_empty() || line.closed && !line.end_sent)
        {
            line.ready = true;
            self.ready.push_back(key);
        }
    }

    /// Queues a message; its credit has been taken.
    pub fn push(&mut self, key: u32, msg: Vec<u8>) {
        if let Some(line) = self.lines.get_mut(&key) {
            line.out.push_back(Arc::new(msg));
        }
        self.rally(key);
    }

    /// Gives back the room of a message that was read. Small debts wait until they are worth a frame; the window has
    /// room for that on top of the largest message.
    pub fn repay(&mut self, key: u32, cost: u64, quarter: u64) -> bool {
        let Some(line) = self.lines.get_mut(&key) else { return false };
        line.owed += cost;
        if line.owed >= quarter && !line.granting && !line.closed {
            line.granting = true;
            self.grants.push_back(key);
            return true;
        }
        false
    }

    /// Forgets a line that both sides are done with.
    fn bury(&mut self, key: u32) {
        if let Some(line) = self.lines.get(&key)
            && line.end_sent
            && line.end_seen
        {
            self.by_name.remove(&line.name);
            self.lines.remove(&key);
        }
    }

    fn insert(&mut self, name: &str, full: u64) -> u32 {
        let key = self.next;
        self.next += 1;
        self.lines.insert(key, Line::new(name, full));
        self.by_name.insert(name.into(), key);
        key
    }

    /// This side opens a line.
    fn open(&mut self, name: &str, full: u64, peer: &Party) -> Result<u32> {
        let key = match self.by_name.get(name) {
            Some(key) => *key,
            None if self.lines.len() >= MAX_LINES => {
                return Err(Error::Bug(format!("more than {MAX_LINES} lines to {peer} are open at once")));
            }
            None => self.insert(name, full),
        };
        let line = self.lines.get_mut(&key).filter(|line| !line.open);
        let line = line.ok_or_else(|| Error::Bug(format!("line {name:?} to {peer} was opened twice")))?;
        line.open = true;
        if line.theirs.is_some() {
            self.behind -= 1;
        }
        self.opens.push_back(key);
        Ok(key)
    }

    /// The peer opens a line.
    pub fn opened(&mut self, theirs: u32, name: &str, full: u64) -> std::result::Result<(), Misbehaviour> {
        if self.theirs.contains_key(&theirs) {
            return Err(Misbehaviour::Contradiction("it gave two lines one number"));
        }
        let key = match self.by_name.get(name) {
            Some(key) => *key,
            None if self.behind >= MAX_AHEAD => return Err(Misbehaviour::Flood),
            None => self.insert(name, full),
        };
        let Some(line) = self.lines.get_mut(&key) else { return Ok(()) };
        if line.theirs.is_some() {
            return Err(Misbehaviour::Contradiction("it opened a line twice"));
        }
        line.theirs = Some(theirs);
        self.theirs.insert(theirs, key);
        if !line.open {
            self.behind += 1;
        } else if line.announced {
            self.ahead -= 1;
        }
        Ok(())
    }

    /// The peer is done with a line.
    pub fn end(&mut self, theirs: u32) -> std::result::Result<(), Misbehaviour> {
        let key = self
            .theirs
            .remove(&theirs)
            .ok_or(Misbehaviour::Contradiction("it sent a frame for a line that is not open"))?;
        if let Some(line) = self.lines.get_mut(&key) {
            line.end_seen = true;
            line.wake();
        }
        self.bury(key);
        Ok(())
    }

    /// This side is done with a line.
    pub fn close(&mut self, key: u32) {
        if let Some(line) = self.lines.get_mut(&key) {
            line.closed = true;
            line.queue.clear();
        }
        self.rally(key);
    }

    /// The peer may be sent more.
    pub fn credited(&mut self, key: u32, bytes: u64, full: u64) -> std::result::Result<(), Misbehaviour> {
        let line = self
            .lines
            .get_mut(&key)
            .ok_or(Misbehaviour::Contradiction("it sent a frame for a line that is not open"))?;
        line.credit += bytes;
        if line.credit > full {
            return Err(Misbehaviour::Contradiction("it granted more credit than was spent"));
        }
        line.wake();
        Ok(())
    }

    /// The next things to send.
    fn gather(&mut self, progress: &Mutex<Progress>) -> Batch {
        let mut batch = Batch::default();
        if let Some((fault, why)) = self.stop.take() {
            frame::stop(&mut batch.control, fault, &why);
            batch.stop = true;
            return batch;
        }
        if std::mem::take(&mut self.ping) {
            lock(progress).encode(&mut batch.control);
        }
        for _ in 0..self.opens.len() {
            let Some(key) = self.opens.pop_front() else { break };
            let Some(line) = self.lines.get_mut(&key) else { continue };
            if line.theirs.is_none() {
                if self.ahead >= MAX_AHEAD {
                    self.opens.push_back(key);
                    continue;
                }
                self.ahead += 1;
            }
            line.announced = true;
            frame::put(&mut batch.control, key, frame::OPEN, line.name.as_bytes());
            self.rally(key);
        }
        while let Some(key) = self.grants.pop_front() {
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.granting = false;
            // Nothing follows the end of a line, credit no more than messages.
            if let (Some(theirs), false) = (line.theirs, line.closed) {
                let owed = std::mem::take(&mut line.owed);
                line.allowance += owed;
                frame::put(&mut batch.control, theirs, frame::CREDIT, &(owed as u32).to_le_bytes());
            }
        }
        while batch.bytes < BATCH && batch.frames.len() < BATCH_FRAMES {
            let Some(key) = self.ready.pop_front() else { break };
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.ready = false;
            if let Some(msg) = line.out.front().cloned() {
                let begins = line.offset == 0;
                let room = if begins { frame::MAX_BODY - 4 } else { frame::MAX_BODY };
                let end = msg.len().min(line.offset + room);
                batch.message(key, begins, line.offset..end, msg.clone());
                line.offset = end;
                if end == msg.len() {
                    line.out.pop_front();
                    line.offset = 0;
                }
            }
            if line.out.is_empty() && line.closed && !line.end_sent {
                line.end_sent = true;
                batch.plain(key, frame::END);
                self.bury(key);
            }
            self.rally(key);
        }
        if self.closing && !self.goodbye_queued && self.ready.is_empty() {
            self.goodbye_queued = true;
            batch.goodbye = true;
            batch.plain(0, frame::GOODBYE);
        }
        batch
    }
}

/// What the writer sends in one go.
#[derive(Default)]
struct Batch {
    control: Vec<u8>,
    frames: Vec<Piece>,
    bytes: usize,
    stop: bool,
    goodbye: bool,
}

/// A frame whose body is a part of a message that lies elsewhere.
struct Piece {
    /// The frame's head, and the message's length where it begins.
    head: [u8; HEAD + 4],
    len: usize,
    msg: Option<Arc<Vec<u8>>>,
    part: Range<usize>,
}

impl Batch {
    fn add(&mut self, head: Head, total: usize, msg: Option<Arc<Vec<u8>>>, part: Range<usize>) {
        let mut bytes = [0; HEAD + 4];
        let (first, rest) = bytes.split_at_mut(HEAD);
        first.copy_from_slice(&head.encode());
        rest.copy_from_slice(&(total as u32).to_le_bytes());
        self.bytes += HEAD + head.len;
        self.frames.push(Piece { head: bytes, len: HEAD + head.len - part.len(), msg, part });
    }

    fn message(&mut self, line: u32, begins: bool, part: Range<usize>, msg: Arc<Vec<u8>>) {
        let (kind, extra) = if begins { (frame::BEGIN, 4) } else { (frame::MORE, 0) };
        self.add(Head { line, kind, len: extra + part.len() }, msg.len(), Some(msg), part);
    }

    fn plain(&mut self, line: u32, kind: u8) {
        self.add(Head { line, kind, len: 0 }, 0, None, 0..0);
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(1 + 2 * self.frames.len());
        slices.push(IoSlice::new(&self.control));
        for piece in &self.frames {
            slices.push(IoSlice::new(piece.head.get(..piece.len).unwrap_or_default()));
            let body = piece.msg.as_ref().and_then(|msg| msg.get(piece.part.clone()));
            slices.push(IoSlice::new(body.unwrap_or_default()));
        }
        slices.retain(|slice| !slice.is_empty());
        slices
    }
}

/// What the threads and the lines of one link share.
pub(crate) struct Shared {
    pub peer: Party,
    /// The largest message.
    pub window: usize,
    pub silence: Duration,
    pub state: Mutex<State>,
    /// The writer has something to do; the heartbeat is to look; somebody waits for the link's end.
    writer: Condvar,
    pub tick: Condvar,
    pub quiet: Condvar,
    pub crypt: Mutex<Crypt>,
    pub socket: TcpStream,
    /// Something came since the heartbeat last looked.
    pub heard: AtomicBool,
    sent: AtomicU64,
    pub received: AtomicU64,
    /// Buffers of messages that were sent, for messages to come: fresh memory costs more than the copy into it.
    spare: Mutex<Vec<Vec<u8>>>,
    here: Mutex<Progress>,
    pub there: Mutex<Option<(Progress, Instant)>>,
}

impl Shared {
    /// All of a line's window: the largest message and its cost, and the quarter that may wait to be granted.
    pub fn full(&self) -> u64 {
        self.window as u64 + MESSAGE + self.quarter()
    }

    pub fn quarter(&self) -> u64 {
        self.window as u64 / 4
    }

    /// An empty buffer with room for `bytes`.
    pub fn buffer(&self, bytes: usize) -> Vec<u8> {
        let mut spare = lock(&self.spare);
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= bytes && buffer.capacity() / 4 <= bytes;
        match spare.iter().position(fits) {
            Some(at) => spare.swap_remove(at),
            None => Vec::with_capacity(bytes),
        }
    }

    /// Keeps the buffer of a message that was sent, if it is worth it.
    fn recycle(&self, msg: Arc<Vec<u8>>) {
        let Some(mut buffer) = Arc::into_inner(msg).filter(|buffer| buffer.capacity() >= RECYCLED) else { return };
        buffer.clear();
        let mut spare = lock(&self.spare);
        if spare.iter().chain([&buffer]).map(Vec::capacity).sum::<usize>() <= self.window {
            spare.push(buffer);
        }
    }

    pub fn wake_writer(&self, state: &mut State) {
        if std::mem::take(&mut state.writer_waits) {
            self.writer.notify_one();
        }
    }

    pub fn wake_all(&self, state: &mut State) {
        state.writer_waits = false;
        self.writer.notify_all();
        self.tick.notify_all();
        self.quiet.notify_all();
        state.lines.values().for_each(Line::wake);
    }

    /// The connection is of no use any more, and why.
    pub fn fail(&self, error: Error) {
        lock(&self.state).ended.get_or_insert(error);
        self.kill();
    }

    /// Shuts the socket, which ends the threads.
    pub fn kill(&self) {
        let mut state = lock(&self.state);
        state.ended.get_or_insert(Error::Net { peer: self.peer.clone(), why: "the connection was closed here".into() });
        state.dead = true;
        self.wake_all(&mut state);
        drop(state);
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// The peer broke the protocol: every call says so, and the peer is told.
    pub fn accuse(&self, fault: Misbehaviour) {
        let error = Error::Peer { peer: self.peer.clone(), fault };
        let why = error.to_string();
        self.stop(error, Fault::Peer, &why);
    }

    /// Tells the peer to stop, and why; every call here returns `error`.
    fn stop(&self, error: Error, fault: Fault, why: &str) {
        let mut state = lock(&self.state);
        if state.dead || state.deadline.is_some() {
            return;
        }
        state.ended.get_or_insert(error);
        state.stop = Some((fault, why.to_owned()));
        state.deadline = Some(Instant::now() + LAST_WORDS);
        self.wake_all(&mut state);
    }

    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        self.wake_all(&mut state);
    }

    pub fn lost(&self, why: String) -> Error {
        let phase = self.phase().map(|phase| format!(" in phase {phase}")).unwrap_or_default();
        Error::Net { peer: self.peer.clone(), why: format!("{why}{phase}") }
    }

    /// The phase that the peer last said it is in, or else ours.
    pub fn phase(&self) -> Option<String> {
        let theirs = lock(&self.there).as_ref().map(|(progress, _)| progress.phase.clone());
        theirs.filter(|phase| !phase.is_empty()).or_else(|| {
            let ours = lock(&self.here).phase.clone();
            (!ours.is_empty()).then_some(ours)
        })
    }

    pub fn open(self: &Arc<Self>, name: &str) -> Result<Box<dyn Channel>> {
        if name.is_empty() || name.len() > frame::MAX_NAME || printable(name, frame::MAX_NAME) != name {
            return Err(Error::Bug(format!(
                "{name:?} is no name for a line: at most {} bytes of printable text",
                frame::MAX_NAME
            )));
        }
        let mut state = lock(&self.state);
        state.over()?;
        let key = state.open(name, self.full(), &self.peer)?;
        let Some(line) = state.lines.get(&key) else { return Err(Error::Bug(format!("line {name:?} vanished"))) };
        let signal = line.signal.clone();
        self.wake_writer(&mut state);
        drop(state);
        Ok(Box::new(line::Pipe::new(self.clone(), key, name, signal)))
    }

    /// The writer: sends what there is to send until the link is dead.
    fn write(&self) {
        let mut wire = Vec::new();
        loop {
            let batch = {
                let mut state = lock(&self.state);
                loop {
                    if state.dead {
                        return;
                    }
                    let batch = state.gather(&self.here);
                    if !batch.control.is_empty() || !batch.frames.is_empty() {
                        break batch;
                    }
                    state.writer_waits = true;
                    state = wait(&self.writer, state);
                }
            };
            wire.clear();
            let sealed = lock(&self.crypt).seal(&batch.slices(), &mut wire);
            // Counted before it is gone, or the peer could have it and say so first.
            self.sent.fetch_add(wire.len() as u64, Ordering::Relaxed);
            if let Err(e) = sealed.and_then(|()| (&self.socket).write_all(&wire)) {
                // The reader may still find the peer's reason in the socket, or name the same loss.
                self.fail_late(e);
                return;
            }
            if batch.stop {
                // The rest is the reader's: it waits for the peer to hang up.
                let _ = self.socket.shutdown(Shutdown::Write);
                return;
            }
            batch.frames.into_iter().filter_map(|piece| piece.msg).for_each(|msg| self.recycle(msg));
            if batch.goodbye {
                lock(&self.state).goodbye_sent = true;
                self.quiet.notify_all();
            }
        }
    }

    /// A write failed. A peer that stops says why before it hangs up, so the reader gets a moment to find that.
    fn fail_late(&self, e: std::io::Error) {
        let state = lock(&self.state);
        drop(self.quiet.wait_timeout_while(state, LAST_WORDS, |state| !state.dead));
        self.fail(self.lost(format!("the connection broke ({e})")));
    }
}

/// How a connection is secured, for the report.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Secured {
    /// `TLS 1.3`, or `none`.
    pub protocol: &'static str,
    /// The cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: Option<String>,
    /// How the peer was known: `pinned sha256:…`, or the name that an authority vouched for.
    pub trust: Option<String>,
    /// The peer's certificate.
    pub fingerprint: Option<Fingerprint>,
}

impl fmt::Display for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cipher, &self.trust) {
            (Some(cipher), Some(trust)) => write!(f, "{}, mutual, {trust}, {cipher}", self.protocol),
            _ => f.write_str("INSECURE: plaintext, and nobody is authenticated"),
        }
    }
}

/// Bytes on the wire, with framing and encryption.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// To the peer.
    pub sent: u64,
    /// From the peer.
    pub received: u64,
}

/// How far the peer says it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerProgress {
    /// Its phase, as at most 32 characters of printable text.
    pub phase: String,
    /// How much of the phase is done.
    pub done: u64,
    /// Of how much, where it is known.
    pub total: Option<u64>,
    /// How long ago it said so.
    pub age: Duration,
}

/// The connection to one peer.
///
/// Dropped without [`Link::close`] or [`Link::abort`], it is cut, and the peer sees a connection that broke.
pub struct Link {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    secured: Secured,
    address: SocketAddr,
}

/// What a link is made of.
pub(crate) struct Parts {
    pub peer: Party,
    pub socket: TcpStream,
    pub crypt: Crypt,
    pub traffic: (u64, u64),
    pub window: u32,
    pub silence: Duration,
    pub secured: Secured,
    pub address: SocketAddr,
}

impl Link {
    pub(crate) fn start(parts: Parts, control: Arc<dyn Control>) -> std::io::Result<Self> {
        let Parts { peer, socket, crypt, traffic, window, silence, secured, address } = parts;
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)?;
        let shared = Arc::new(Shared {
            peer,
            window: window as usize,
            silence,
            state: Mutex::default(),
            writer: Condvar::new(),
            tick: Condvar::new(),
            quiet: Condvar::new(),
            crypt: Mutex::new(crypt),
            socket,
            heard: AtomicBool::new(true),
            sent: AtomicU64::new(traffic.0),
            received: AtomicU64::new(traffic.1),
            spare: Mutex::default(),
            here: Mutex::default(),
            there: Mutex::default(),
        });
        let mut link = Link { shared, threads: Vec::with_capacity(3), secured, address };
        let shared = link.shared.clone();
        link.spawn("read", move || inbound::read(&shared))?;
        let shared = link.shared.clone();
        link.spawn("write", move || shared.write())?;
        let shared = link.shared.clone();
        link.spawn("beat", move || heartbeat::beat(&shared, &*control))?;
        Ok(link)
    }

    fn spawn(&mut self, what: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let name = format!("{what} {}", self.shared.peer);
        // A thread's name may hold no NUL, and a party's name is whatever the job says.
        let name = name.replace('\0', "?");
        self.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Party {
        &self.shared.peer
    }

    /// The peer's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a line: an independent pipe that both sides open by the same name, once. Names are at most 64 bytes of
    /// printable text.
    ///
    /// # Errors
    /// What ended the link, or [`Error::Bug`] if the line was opened before.
    pub fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        self.shared.open(name)
    }

    /// The largest message of a line: the smaller of what both sides allow.
    pub fn window(&self) -> usize {
        self.shared.window
    }

    /// How the connection is secured.
    pub fn secured(&self) -> &Secured {
        &self.secured
    }

    /// Bytes on the wire so far, everything included.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.shared.sent.load(Ordering::Relaxed),
            received: self.shared.received.load(Ordering::Relaxed),
        }
    }

    /// Says how far this side is: the peer hears of a new phase at once, of the rest with the next heartbeat. `phase` is
    /// cut to 32 bytes.
    pub fn set_progress(&self, phase: &str, done: u64, total: Option<u64>) {
        let shared = &*self.shared;
        let mut here = lock(&shared.here);
        let new = here.phase != phase;
        if new {
            phase.clone_into(&mut here.phase);
        }
        here.done = done;
        here.total = total;
        drop(here);
        if new {
            let mut state = lock(&shared.state);
            state.ping = true;
            shared.wake_writer(&mut state);
        }
    }

    /// What the peer's last heartbeat said.
    pub fn peer_progress(&self) -> Option<PeerProgress> {
        lock(&self.shared.there).as_ref().map(|(progress, at)| PeerProgress {
            phase: progress.phase.clone(),
            done: progress.done,
            total: progress.total,
            age: at.elapsed(),
        })
    }

    /// What ended the link, if something did.
    pub fn ended(&self) -> Option<Error> {
        lock(&self.shared.state).over().err()
    }

    /// Ends the run and tells the peer whose fault it is and why, within about a second. Blocked calls here return
    /// [`Error::Cancelled`], those of the peer [`Error::Stopped`].
    pub fn abort(&self, fault: Fault, why: &str) {
        self.shared.stop(Error::Cancelled, fault, why);
        self.hang_up();
    }

    /// Ends the run in good order: sends what is still queued, says goodbye and waits for the peer's goodbye, as long as
    /// the peer lives.
    ///
    /// # Errors
    /// What ended the link before both sides had said goodbye.
    pub fn close(&self) -> Result<()> {
        let shared = &*self.shared;
        let mut state = lock(&shared.state);
        state.closing = true;
        shared.wake_writer(&mut state);
        while !(state.goodbye_sent && state.goodbye_seen) {
            state.over()?;
            state = wait(&shared.quiet, state);
        }
        state.deadline.get_or_insert(Instant::now() + LAST_WORDS);
        drop(state);
        let _ = shared.socket.shutdown(Shutdown::Write);
        self.hang_up();
        Ok(())
    }

    /// Waits, not for long, until the peer has hung up: a socket that is closed with unread bytes in it takes back what it
    /// has sent, and that would be our last words.
    fn hang_up(&self) {
        let state = lock(&self.shared.state);
        let limit = LAST_WORDS + Duration::from_millis(500);
        let waited = self.shared.quiet.wait_timeout_while(state, limit, |state| !state.dead);
        drop(waited);
        self.shared.kill();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({} at {}, {})", self.shared.peer, self.address, self.secured)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.kill();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
