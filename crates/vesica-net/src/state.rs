//! The lines of a link: which are open, what each has to send, and how much each may.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar};
use std::time::Instant;
use vesica_session::{Error, Fault, Misbehaviour, Result};
use vesica_types::Party;

/// What a message costs of its line's window beyond its bytes, so that empty messages are bounded too.
pub(crate) const MESSAGE: u64 = 64;

/// The most lines at once, in whatever state.
const MAX_LINES: usize = 1024;

/// The most lines that one side may have opened before the other opens them. Further ones are announced one by one as
/// the other side catches up.
pub(crate) const MAX_AHEAD: usize = 64;

/// One line, as both directions of it.
pub(crate) struct Line {
    pub name: Box<str>,
    /// A channel of this side stands for it.
    pub open: bool,
    /// That channel is gone.
    pub closed: bool,
    /// The peer has been told of it.
    pub announced: bool,
    /// The peer's number for it, once the peer has opened it.
    pub theirs: Option<u32>,

    /// Messages to send, and how much of the first one is sent.
    pub out: VecDeque<Arc<Vec<u8>>>,
    pub offset: usize,
    /// How much this side may still queue.
    pub credit: u64,
    pub end_sent: bool,
    pub ready: bool,

    /// Messages that came.
    pub queue: VecDeque<Vec<u8>>,
    /// The length of the message that is coming.
    pub coming: Option<u64>,
    /// What the messages took that came, or began to, before this side opened the line.
    unasked: u64,
    /// How much the peer may still send.
    pub allowance: u64,
    /// What was read and has not been granted again.
    pub owed: u64,
    pub granting: bool,
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
            unasked: 0,
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

/// Everything that the threads and the lines of a link share.
#[derive(Default)]
pub(crate) struct State {
    /// By this side's number.
    pub lines: HashMap<u32, Line>,
    pub by_name: HashMap<Box<str>, u32>,
    /// The peer's numbers, as ours.
    pub theirs: HashMap<u32, u32>,
    next: u32,
    /// Lines that this side has opened and announced, and the peer has not opened.
    pub ahead: usize,
    /// Lines that the peer has opened and this side has not.
    behind: usize,
    /// What waits, or is on its way, on lines that this side has not opened: the bytes of messages, and [`MESSAGE`] for each. It is kept and not
    /// added up: a peer that sends very many small ones would have all of them looked at for each.
    unasked: u64,

    /// Lines to announce, lines with credit to grant, lines with something to send: what the writer does next.
    pub opens: VecDeque<u32>,
    pub grants: VecDeque<u32>,
    pub ready: VecDeque<u32>,
    pub ping: bool,
    pub stop: Option<(Fault, String)>,
    pub writer_waits: bool,

    /// What every call returns from now on.
    pub ended: Option<Error>,
    pub cancelled: bool,
    /// The socket is shut; the threads end.
    pub dead: bool,
    /// When the socket is shut, last words said or not.
    pub deadline: Option<Instant>,
    pub closing: bool,
    /// Since when, where somebody waits for the end.
    pub closing_since: Option<Instant>,
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

    /// The reason for which nothing more is read on a line. What came whole before the connection was lost, or before the peer said that it
    /// stops, is read first: whether it was read in time would be chance.
    pub fn over_after(&self, key: u32) -> Result<()> {
        let came = self.lines.get(&key).is_some_and(|line| !line.queue.is_empty());
        match &self.ended {
            Some(Error::Net { .. } | Error::Stopped { .. }) if came && !self.cancelled => Ok(()),
            _ => self.over(),
        }
    }

    /// Puts a line among those that have something to send, if it has.
    pub fn rally(&mut self, key: u32) {
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
    pub fn bury(&mut self, key: u32) {
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
    pub fn open(&mut self, name: &str, full: u64, peer: &Party) -> Result<u32> {
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
        self.unasked -= std::mem::take(&mut line.unasked);
        if line.theirs.is_some() {
            self.behind -= 1;
        }
        self.opens.push_back(key);
        Ok(key)
    }

    /// A message of `total` bytes begins on a line that this side has not opened, where no more than `most` bytes may wait on all such lines.
    pub fn unasked(&mut self, key: u32, total: u64, most: u64) -> std::result::Result<(), Misbehaviour> {
        let Some(line) = self.lines.get_mut(&key).filter(|line| !line.open) else { return Ok(()) };
        let cost = total + MESSAGE;
        if self.unasked + cost > most {
            return Err(Misbehaviour::Flood);
        }
        line.unasked += cost;
        self.unasked += cost;
        Ok(())
    }

    /// The peer opens a line.
    pub fn opened(&mut self, theirs: u32, name: &str, full: u64) -> std::result::Result<(), Misbehaviour> {
        if self.theirs.contains_key(&theirs) {
            return Err(Misbehaviour::Contradiction("it gave the same number to two lines"));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Empty ones too, by what each takes besides its bytes.
    #[test]
    fn messages_that_nobody_asked_for_are_bounded() {
        let (mut state, full, most) = (State::default(), 1 << 20, 10 * MESSAGE);
        state.opened(7, "one", full).unwrap();
        state.opened(8, "another", full).unwrap();
        let [one, another] = ["one", "another"].map(|name| state.by_name[name]);
        (0..10).for_each(|_| state.unasked(one, 0, most).unwrap());
        for line in [one, another] {
            assert!(matches!(state.unasked(line, 0, most), Err(Misbehaviour::Flood)));
        }
        // What came on a line is asked for when this side opens it.
        state.open("one", full, &Party::new(1, "bob")).unwrap();
        state.unasked(one, full, most).unwrap();
        state.unasked(another, 9 * MESSAGE, most).unwrap();
        assert!(matches!(state.unasked(another, 0, most), Err(Misbehaviour::Flood)));
    }
}
