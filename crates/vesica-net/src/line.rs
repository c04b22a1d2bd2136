//! One line as a protocol sees it.

use crate::frame::MAX_NAME;
use crate::lock::{lock, wait};
use crate::shared::Shared;
use crate::state::{MESSAGE, State};
use crate::text::printable;
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use vesica_session::{Channel, Error, Meter, Misbehaviour, Result};
use vesica_types::Party;

/// How long the reason for the end of a line is waited for. A peer that ends the run says so within about a second.
const REASON: Duration = Duration::from_secs(2);

/// When a stretch of time began, by the clock and by the thread that lives in it.
struct Mark {
    at: Instant,
    cpu: Duration,
    thread: ThreadId,
}

impl Mark {
    fn now() -> Self {
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default();
        Self { at: Instant::now(), cpu, thread: std::thread::current().id() }
    }

    /// Charges the time from this mark to `now` to the current step. A line that has changed threads since has no CPU
    /// time to show for the stretch.
    fn charge(&self, now: &Mark, meter: &mut Meter) {
        let step = meter.current();
        step.wall += now.at.saturating_duration_since(self.at);
        if now.thread == self.thread {
            step.cpu += now.cpu.saturating_sub(self.cpu);
        }
    }
}

/// A [`Channel`] over a link.
pub(crate) struct Pipe {
    shared: Arc<Shared>,
    key: u32,
    name: Box<str>,
    signal: Arc<Condvar>,
    meter: Meter,
    /// Set by the first step or message: a line costs nothing before it is used.
    mark: Option<Mark>,
    spoke: bool,
}

impl Pipe {
    /// Opens a line: see [`PeerLink::line`](crate::PeerLink::line).
    pub fn open(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > MAX_NAME || printable(name, MAX_NAME) != name {
            return Err(Error::Bug(format!(
                "{name:?} is no name for a line: at most {MAX_NAME} bytes of printable text"
            )));
        }
        let mut state = lock(&shared.state);
        state.over()?;
        let key = state.open(name, shared.full(), &shared.peer)?;
        let Some(line) = state.lines.get(&key) else { return Err(Error::Bug(format!("line {name:?} vanished"))) };
        let signal = line.signal.clone();
        shared.wake_writer(&mut state);
        drop(state);
        Ok(Self {
            shared: shared.clone(),
            key,
            name: name.into(),
            signal,
            meter: Meter::default(),
            mark: None,
            spoke: false,
        })
    }

    /// Waits for the peer, and counts the time.
    fn wait<'a>(&mut self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let began = Instant::now();
        let state = wait(&self.signal, state);
        let waited = began.elapsed();
        self.meter.current().waited += waited;
        self.shared.waited.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        state
    }

    fn vanished(&self) -> Error {
        Error::Bug(format!("line {:?} to {} vanished", self.name, self.shared.peer))
    }

    /// The error of a call on a line whose other end is closed. Nobody closes a line that is still of use but one who is about
    /// to end the run: the reason is right behind.
    fn ended(&self, mut state: MutexGuard<'_, State>) -> Error {
        let until = Instant::now() + REASON;
        loop {
            if let Err(error) = state.over() {
                return error;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!("the other end of line {:?} was closed", self.name);
                return Error::Net { peer: self.shared.peer.clone(), why };
            }
            let waits =
                |state: &mut State, waits| state.lines.get_mut(&self.key).map_or((), |line| line.waiting = waits);
            waits(&mut state, true);
            state = self.signal.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            waits(&mut state, false);
        }
    }
}

impl Channel for Pipe {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        let shared = self.shared.clone();
        let shared = &*shared;
        if msg.len() > shared.window {
            return Err(Error::Bug(format!(
                "a message of {} bytes is larger than the window of {} bytes",
                msg.len(),
                shared.window
            )));
        }
        self.mark.get_or_insert_with(Mark::now);
        let mut copy = shared.buffer(msg.len());
        copy.extend_from_slice(msg);
        let cost = msg.len() as u64 + MESSAGE;
        let mut state = lock(&shared.state);
        loop {
            state.over()?;
            if state.closing {
                return Err(Error::Bug(format!("line {:?} to {} was used after the goodbye", self.name, shared.peer)));
            }
            let line = state.lines.get_mut(&self.key).ok_or_else(|| self.vanished())?;
            if line.end_seen {
                return Err(self.ended(state));
            }
            if line.credit >= cost {
                line.credit -= cost;
                break;
            }
            line.waiting = true;
            state = self.wait(state);
            if let Some(line) = state.lines.get_mut(&self.key) {
                line.waiting = false;
            }
        }
        state.push(self.key, copy);
        shared.wake_writer(&mut state);
        drop(state);
        self.spoke = true;
        let step = self.meter.current();
        step.sent += msg.len() as u64;
        step.messages += 1;
        Ok(())
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        let shared = self.shared.clone();
        let shared = &*shared;
        self.mark.get_or_insert_with(Mark::now);
        let too_long = |got: u64| Error::Peer {
            peer: shared.peer.clone(),
            fault: Misbehaviour::TooLong { got, limit: limit as u64 },
        };
        let mut state = lock(&shared.state);
        let msg = loop {
            state.over_after(self.key)?;
            let gone = state.goodbye_seen;
            let line = state.lines.get_mut(&self.key).ok_or_else(|| self.vanished())?;
            match line.queue.front() {
                Some(msg) if msg.len() > limit => return Err(too_long(msg.len() as u64)),
                Some(_) => {}
                None => {
                    if let Some(got) = line.coming.filter(|got| *got > limit as u64) {
                        return Err(too_long(got));
                    }
                    if line.end_seen {
                        return Err(self.ended(state));
                    }
                    if gone {
                        return Err(self.accuse(Misbehaviour::Contradiction("it said goodbye before the run was over")));
                    }
                }
            }
            if let Some(msg) = line.queue.pop_front() {
                break msg;
            }
            line.waiting = true;
            line.limit = Some(limit);
            state = self.wait(state);
            if let Some(line) = state.lines.get_mut(&self.key) {
                line.waiting = false;
                line.limit = None;
            }
        };
        if state.repay(self.key, msg.len() as u64 + MESSAGE, shared.quarter()) {
            shared.wake_writer(&mut state);
        }
        drop(state);
        let round = std::mem::take(&mut self.spoke);
        let step = self.meter.current();
        step.received += msg.len() as u64;
        step.rounds += u64::from(round);
        Ok(msg)
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        Ok(Box::new(Self::open(&self.shared, name)?))
    }

    fn alive(&self) -> Result<()> {
        lock(&self.shared.state).over()
    }

    fn window(&self) -> usize {
        self.shared.window
    }

    fn step(&mut self, name: &'static str) {
        let now = Mark::now();
        if let Some(mark) = self.mark.take() {
            mark.charge(&now, &mut self.meter);
        }
        self.meter.step(name);
        self.mark = Some(now);
    }

    fn meter(&self) -> Meter {
        let mut meter = self.meter.clone();
        if let Some(mark) = &self.mark {
            mark.charge(&Mark::now(), &mut meter);
        }
        meter
    }

    fn peer(&self) -> &Party {
        &self.shared.peer
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.close(self.key);
        self.shared.wake_writer(&mut state);
    }
}
