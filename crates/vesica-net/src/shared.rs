//! What the threads and the lines of one link share.

use crate::command::Errand;
use crate::crypt::Crypt;
use crate::frame::Progress;
use crate::lock::lock;
use crate::state::{Line, MESSAGE, State};
use crate::wire::Wire;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use vesica_session::{Error, Fault, Misbehaviour};
use vesica_types::Party;

/// The smallest buffer that is kept for another message: smaller ones cost the allocator nothing.
const RECYCLED: usize = 64 << 10;

/// A link gives its buffers back after so many reads or writes in a row that brought next to nothing, which is about as many
/// seconds of heartbeats: a service keeps a thousand links that worked once, and half a megabyte for each of them would be
/// half a gigabyte.
pub(crate) const REST: usize = 8;

/// How long last words may take.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the threads and the lines of one link share.
pub(crate) struct Shared {
    pub peer: Party,
    /// The largest message.
    pub window: usize,
    /// The most bytes that may wait on lines that this side has not opened.
    pub unasked: usize,
    pub state: Mutex<State>,
    /// The writer has something to do; somebody waits for the link's end.
    pub writer: Condvar,
    pub quiet: Condvar,
    pub crypt: Mutex<Crypt>,
    pub socket: TcpStream,
    /// The command whose input and output the socket is, if it is that of one. It lives as long as this.
    errand: Option<Arc<Errand>>,
    /// Something came since the heartbeat last looked.
    pub heard: AtomicBool,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// Nanoseconds in which lines waited for the peer, over all lines.
    pub waited: AtomicU64,
    /// Buffers of messages that were sent, for messages to come: fresh memory costs more than the copy into it.
    spare: Mutex<Vec<Vec<u8>>>,
    pub here: Mutex<Progress>,
    pub there: Mutex<Option<(Progress, Instant)>>,
}

impl Shared {
    pub fn new(peer: Party, wire: Wire, window: u32, unasked: Option<usize>) -> Self {
        let Wire { socket, crypt, traffic, errand, .. } = wire;
        Self {
            peer,
            window: window as usize,
            unasked: unasked.unwrap_or(usize::MAX),
            state: Mutex::default(),
            writer: Condvar::new(),
            quiet: Condvar::new(),
            crypt: Mutex::new(crypt),
            socket,
            errand,
            heard: AtomicBool::new(true),
            sent: AtomicU64::new(traffic.0),
            received: AtomicU64::new(traffic.1),
            waited: AtomicU64::default(),
            spare: Mutex::default(),
            here: Mutex::default(),
            there: Mutex::default(),
        }
    }

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
    pub fn recycle(&self, msg: Arc<Vec<u8>>) {
        let Some(mut buffer) = Arc::into_inner(msg).filter(|buffer| buffer.capacity() >= RECYCLED) else { return };
        buffer.clear();
        let mut spare = lock(&self.spare);
        if spare.iter().chain([&buffer]).map(Vec::capacity).sum::<usize>() <= self.window {
            spare.push(buffer);
        }
    }

    /// Gives back the buffers that are kept for messages to come.
    pub fn rest(&self) {
        *lock(&self.spare) = Vec::new();
    }

    pub fn wake_writer(&self, state: &mut State) {
        if std::mem::take(&mut state.writer_waits) {
            self.writer.notify_one();
        }
    }

    pub fn wake_all(&self, state: &mut State) {
        state.writer_waits = false;
        self.writer.notify_all();
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
    pub fn stop(&self, error: Error, fault: Fault, why: &str) {
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
        let errand = self.errand.as_ref().map(|errand| format!("; {}", errand.words())).unwrap_or_default();
        Error::Net { peer: self.peer.clone(), why: format!("{why}{phase}{errand}") }
    }

    /// The phase that the peer last said it is in, or else ours.
    pub fn phase(&self) -> Option<String> {
        let theirs = lock(&self.there).as_ref().map(|(progress, _)| progress.phase.clone());
        theirs.filter(|phase| !phase.is_empty()).or_else(|| {
            let ours = lock(&self.here).phase.clone();
            (!ours.is_empty()).then_some(ours)
        })
    }
}
