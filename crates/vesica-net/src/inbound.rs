//! The reader: decrypts, checks and sorts what comes. It never waits for a line, and never for the socket's other
//! direction.

use crate::frame::{self, HEAD, Head, MAX_NAME, Progress};
use crate::lock::lock;
use crate::shared::{REST, Shared};
use crate::state::MESSAGE;
use crate::text::printable;
use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::sync::atomic::Ordering;
use std::time::Instant;
use vesica_session::{Error, Misbehaviour};

/// How much is read from the socket at a time: while there is much to read, and while there are only heartbeats.
const READ: usize = 256 << 10;
const READ_AT_REST: usize = 4 << 10;

/// Runs until the link is dead.
pub(crate) fn read(shared: &Shared) {
    let mut wire = vec![0; READ_AT_REST];
    let mut plain = Vec::new();
    let mut little = 0;
    let mut inbound = Inbound::new(shared);
    let mut n = 0;
    loop {
        // Once the run has ended here, what still comes is only read so that the peer hears our last words.
        if lock(&shared.state).deadline.is_none() {
            plain.clear();
            let opened = lock(&shared.crypt).open(wire.get(..n).unwrap_or_default(), &mut plain);
            // Not whatever comes is a sign of life: where bytes were lost, heartbeats fill up a record that never fits.
            if !plain.is_empty() {
                shared.heard.store(true, Ordering::Relaxed);
            }
            match inbound.feed(&plain) {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => shared.accuse(fault),
            }
            match opened {
                Ok(false) => {}
                Ok(true) => return hung_up(shared, None),
                Err(e) => return shared.fail(shared.lost(format!("what came was not what was sent (TLS: {e})"))),
            }
        }
        little = if n < READ_AT_REST { little + 1 } else { 0 };
        if little == 0 && wire.len() < READ {
            wire = vec![0; READ];
        } else if little == REST {
            wire = vec![0; READ_AT_REST];
            plain = Vec::new();
        }
        n = match (&shared.socket).read(&mut wire) {
            Ok(0) => return hung_up(shared, None),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            Err(e) => return hung_up(shared, Some(e)),
        };
        shared.received.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// The connection has ended at the other side.
fn hung_up(shared: &Shared, error: Option<std::io::Error>) {
    let mut state = lock(&shared.state);
    // A peer that has said goodbye hangs up when it has ours: often before our writer has noted that it was sent.
    let parted = state.goodbye_queued && state.goodbye_seen;
    state.goodbye_sent |= parted;
    let expected = state.deadline.is_some() || parted;
    drop(state);
    if expected {
        return shared.kill();
    }
    shared.fail(shared.lost(match error {
        Some(e) if e.kind() != ErrorKind::ConnectionReset => format!("the connection broke ({e})"),
        _ => "it closed the connection without a goodbye; its process ended or was killed".into(),
    }));
}

/// A message that is coming.
struct Partial {
    total: usize,
    have: usize,
    /// Its bytes, unless nobody wants them.
    bytes: Option<Vec<u8>>,
}

/// The frames that come, however the network cuts them.
pub(crate) struct Inbound<'a> {
    shared: &'a Shared,
    /// The head of the frame that is coming, and how much of its body is still to come.
    frame: Option<Head>,
    left: usize,
    /// The message of a `BEGIN` frame has been announced.
    begun: bool,
    /// A head, a length or a short body, as far as it has come.
    small: Vec<u8>,
    /// By the peer's number of the line.
    partials: HashMap<u32, Partial>,
}

impl<'a> Inbound<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        let small = Vec::with_capacity(1 + frame::MAX_WHY.1);
        Self { shared, frame: None, left: 0, begun: false, small, partials: HashMap::new() }
    }

    /// Adds bytes to `small` until it holds `want`; says whether it does.
    fn gather(&mut self, bytes: &mut &[u8], want: usize) -> bool {
        let n = bytes.len().min(want.saturating_sub(self.small.len()));
        let (head, rest) = bytes.split_at(n);
        self.small.extend_from_slice(head);
        *bytes = rest;
        self.small.len() >= want
    }

    /// Takes in the next bytes; false if the peer has ended the run.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<bool, Misbehaviour> {
        loop {
            let Some(head) = self.frame else {
                if !self.gather(&mut bytes, HEAD) {
                    return Ok(true);
                }
                let Some(head) = self.small.first_chunk::<HEAD>() else { return Ok(true) };
                let head = Head::decode(*head)?;
                self.small.clear();
                (self.frame, self.left, self.begun) = (Some(head), head.len, false);
                continue;
            };
            match head.kind {
                frame::BEGIN if !self.begun => {
                    if !self.gather(&mut bytes, 4) {
                        return Ok(true);
                    }
                    let Some(total) = self.small.first_chunk::<4>() else { return Ok(true) };
                    let total = u32::from_le_bytes(*total);
                    self.small.clear();
                    self.begin(head.line, total)?;
                    self.begun = true;
                    self.left -= 4;
                }
                frame::BEGIN | frame::MORE => {
                    let (part, rest) = bytes.split_at(self.left.min(bytes.len()));
                    self.left -= part.len();
                    bytes = rest;
                    let whole = self.append(head.line, part)?;
                    if self.left > 0 {
                        return Ok(true);
                    }
                    self.frame = None;
                    if whole {
                        self.deliver(head.line);
                    }
                }
                _ => {
                    if !self.gather(&mut bytes, head.len) {
                        return Ok(true);
                    }
                    let body = std::mem::take(&mut self.small);
                    let alive = self.control(head, &body);
                    self.small = body;
                    self.small.clear();
                    self.frame = None;
                    if !alive? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// A message of `total` bytes begins.
    fn begin(&mut self, number: u32, total: u32) -> Result<(), Misbehaviour> {
        let window = self.shared.window;
        let total = total as usize;
        let mut state = lock(&self.shared.state);
        if state.goodbye_seen {
            return Err(Misbehaviour::Contradiction("it said goodbye and went on talking"));
        }
        let key = state.theirs.get(&number).copied();
        let line = key.and_then(|key| state.lines.get_mut(&key));
        let line = line.ok_or(Misbehaviour::Contradiction("it sent a frame for a line that is not open"))?;
        if self.partials.contains_key(&number) {
            return Err(Misbehaviour::Contradiction("it began a message within another"));
        }
        if total > window {
            return Err(Misbehaviour::TooLong { got: total as u64, limit: window as u64 });
        }
        line.allowance = line.allowance.checked_sub(total as u64 + MESSAGE).ok_or(Misbehaviour::Flood)?;
        if let Some(key) = key {
            state.unasked(key, total as u64, self.shared.unasked as u64)?;
        }
        let line = key.and_then(|key| state.lines.get_mut(&key));
        let line = line.ok_or(Misbehaviour::Contradiction("it sent a frame for a line that is not open"))?;
        line.coming = Some(total as u64);
        // The waiting call's limit is for the next message that it takes, so not for one that comes after others.
        let limit = line.limit.filter(|_| line.queue.is_empty());
        let wanted = !line.closed && limit.is_none_or(|limit| total <= limit);
        if !wanted {
            line.wake();
        }
        let bytes = wanted.then(|| self.shared.buffer(total));
        self.partials.insert(number, Partial { total, have: 0, bytes });
        Ok(())
    }

    /// A message goes on; says whether it is whole.
    fn append(&mut self, number: u32, part: &[u8]) -> Result<bool, Misbehaviour> {
        let partial = self
            .partials
            .get_mut(&number)
            .ok_or(Misbehaviour::Contradiction("it continued a message that it never began"))?;
        partial.have += part.len();
        if partial.have > partial.total {
            return Err(Misbehaviour::Contradiction("it sent more of a message than it had announced"));
        }
        if let Some(bytes) = &mut partial.bytes {
            bytes.extend_from_slice(part);
        }
        Ok(partial.have == partial.total)
    }

    /// A message is whole.
    fn deliver(&mut self, number: u32) {
        // One that was too long for a waiting `recv` stays announced, so that the line never goes on without it.
        let Some(Partial { bytes: Some(bytes), .. }) = self.partials.remove(&number) else { return };
        let mut state = lock(&self.shared.state);
        let key = state.theirs.get(&number).copied();
        let Some(line) = key.and_then(|key| state.lines.get_mut(&key)) else { return };
        line.coming = None;
        if !line.closed {
            line.queue.push_back(bytes);
            line.wake();
        }
    }

    /// A frame that is no part of a message; false if the peer has ended the run.
    fn control(&mut self, head: Head, body: &[u8]) -> Result<bool, Misbehaviour> {
        let shared = self.shared;
        match head.kind {
            frame::OPEN => {
                let name = std::str::from_utf8(body).ok().filter(|name| printable(name, MAX_NAME) == *name);
                let name = name.ok_or(Misbehaviour::Malformed("name of a line"))?;
                let mut state = lock(&shared.state);
                state.opened(head.line, name, shared.full())?;
                // Lines that waited for this one to be opened may be announced now.
                shared.wake_writer(&mut state);
            }
            frame::CREDIT => {
                let bytes = body.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                lock(&shared.state).credited(head.line, u64::from(bytes), shared.full())?;
            }
            frame::END => {
                if self.partials.contains_key(&head.line) {
                    return Err(Misbehaviour::Contradiction("it ended a line within a message"));
                }
                lock(&shared.state).end(head.line)?;
            }
            frame::PING => {
                let progress = Progress::decode(body).ok_or(Misbehaviour::Malformed("heartbeat"))?;
                *lock(&shared.there) = Some((progress, Instant::now()));
            }
            frame::STOP => {
                let (fault, why) = frame::stopped(body).ok_or(Misbehaviour::Malformed("reason of a stop"))?;
                shared.fail(Error::Stopped { peer: shared.peer.clone(), fault, why });
                return Ok(false);
            }
            frame::GOODBYE => {
                let mut state = lock(&shared.state);
                state.goodbye_seen = true;
                shared.wake_all(&mut state);
            }
            _ => return Err(Misbehaviour::Contradiction("it sent a frame of an unknown kind")),
        }
        Ok(true)
    }
}
