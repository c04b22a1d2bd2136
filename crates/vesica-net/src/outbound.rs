//! The writer: sends what the lines have queued, a frame of each in turn.

use crate::frame::{self, HEAD, Head, Progress};
use crate::lock::{lock, wait};
use crate::shared::{LAST_WORDS, REST, Shared};
use crate::state::{MAX_AHEAD, State};
use std::io::{IoSlice, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// How much the writer takes at a time: enough to be cheap, little enough that heartbeats are not held up.
const BATCH: usize = 256 << 10;

/// The most frames that the writer takes at a time.
const BATCH_FRAMES: usize = 512;

/// The writer: sends what there is to send until the link is dead.
pub(crate) fn write(shared: &Shared) {
    let mut wire = Vec::new();
    let mut little = 0;
    loop {
        let batch = {
            let mut state = lock(&shared.state);
            loop {
                if state.dead {
                    return;
                }
                let batch = state.gather(&shared.here);
                if !batch.control.is_empty() || !batch.frames.is_empty() {
                    break batch;
                }
                state.writer_waits = true;
                state = wait(&shared.writer, state);
            }
        };
        little = if batch.frames.is_empty() { little + 1 } else { 0 };
        if little == REST {
            wire = Vec::new();
            shared.rest();
        }
        wire.clear();
        let sealed = lock(&shared.crypt).seal(&batch.slices(), &mut wire);
        // Counted before it is gone, or the peer could have it and say so first.
        shared.sent.fetch_add(wire.len() as u64, Ordering::Relaxed);
        if let Err(e) = sealed.and_then(|()| (&shared.socket).write_all(&wire)) {
            // The reader may still find the peer's reason in the socket, or name the same loss.
            fail_late(shared, e);
            return;
        }
        if batch.stop {
            // The rest is the reader's: it waits for the peer to hang up.
            let _ = shared.socket.shutdown(Shutdown::Write);
            return;
        }
        batch.frames.into_iter().filter_map(|piece| piece.msg).for_each(|msg| shared.recycle(msg));
        if batch.goodbye {
            lock(&shared.state).goodbye_sent = true;
            shared.quiet.notify_all();
        }
    }
}

/// A write failed. A peer that stops says why before it hangs up, so the reader gets a moment to find that.
fn fail_late(shared: &Shared, e: std::io::Error) {
    let state = lock(&shared.state);
    drop(shared.quiet.wait_timeout_while(state, LAST_WORDS, |state| !state.dead));
    shared.fail(shared.lost(format!("the connection broke ({e})")));
}

impl State {
    /// The next things to send.
    pub fn gather(&mut self, progress: &Mutex<Progress>) -> Batch {
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
pub(crate) struct Batch {
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

    pub fn slices(&self) -> Vec<IoSlice<'_>> {
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
