//! How long a client that has put a question may keep the server waiting.
//!
//! Whoever is answered holds what others then lack: a thread and a connection, and for `bfv-pir`, `bgv-pir` and `ckks-pir` megabytes of
//! memory for its keys. A client that stops half-way, and still sends heartbeats, would hold them for ever. So its connection is ended when the
//! server has waited for it for a minute: for bytes that are due, or until there is room for bytes that it has not taken.
//!
//! Only waiting for the client counts. Where the client waits for the server, for its turn or for a pass over the table, no time runs. A
//! question on several lines is quiet when all of them are.
//!
//! The longest messages have some two mebibytes. The minute for a client's next one begins while the server's last one may still be on its
//! way, so a client needs 600 kbit/s. A client that sends a query each minute keeps what it holds, and pays for each from what it may ask.

use crate::error::Error;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vesica_net::Link;
use vesica_session::{self as session, Channel, Fault, Meter, Misbehaviour};
use vesica_types::Party;

/// How long a client may keep the server waiting.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether patience is over, in the time that it lasts.
const LOOKS: u32 = 16;

/// For how long the client of one question has kept the server waiting.
pub struct Patience {
    limit: Duration,
    state: Mutex<State>,
}

struct State {
    /// Lines of the question that do not wait for the client.
    busy: usize,
    /// Since when there is none, if there is none.
    since: Instant,
    /// Whether the client was told that it took too long.
    is_over: bool,
}

impl Patience {
    /// The clock runs until there is a line that is at work.
    pub fn new(limit: Duration) -> Self {
        Self { limit, state: Mutex::new(State { busy: 0, since: Instant::now(), is_over: false }) }
    }

    /// A line of the question: whenever it waits for the client, that counts.
    pub fn line<'a>(&'a self, ch: &'a mut dyn Channel) -> Watched<'a> {
        self.work();
        Watched { ch, patience: self }
    }

    /// Answers the question. Meanwhile a thread looks at the clock, and ends the connection when the client's time is over. Blocked calls on
    /// its lines return then.
    ///
    /// # Errors
    /// Those of `answer`; the client's, if it took too long; a system that gives no thread.
    pub fn watch<T>(&self, link: &Link, answer: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let why =
            "it put a question, and then kept this side waiting: it neither sent what is due nor took what it was sent";
        let fault = &session::Error::Peer { peer: link.peer().clone(), fault: Misbehaviour::Contradiction(why) };
        let (working, end) = channel::<()>();
        let look = move || {
            while end.recv_timeout(self.limit / LOOKS) == Err(RecvTimeoutError::Timeout) {
                if self.ends() {
                    return link.abort(Fault::Peer, &fault.to_string());
                }
            }
        };
        let answered = std::thread::scope(|scope| {
            let started = std::thread::Builder::new().name("patience".into()).spawn_scoped(scope, look);
            started.map_err(|error| Error::Setup(format!("the system gives no thread: {error}")))?;
            let answered = answer();
            // Ends the thread, as a panic does too.
            drop(working);
            answered
        });
        // What the lines met then is an echo of it.
        answered.map_err(|error| if self.lock().is_over { fault.clone().into() } else { error })
    }

    /// Whether the client's time is over.
    fn ends(&self) -> bool {
        let mut state = self.lock();
        state.is_over |= state.busy == 0 && state.since.elapsed() > self.limit;
        state.is_over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line is at work.
    fn work(&self) {
        self.lock().busy += 1;
    }

    /// A line waits for the client, or is done.
    fn rest(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy == 0 {
            state.since = Instant::now();
        }
    }
}

/// A line whose waiting counts.
pub struct Watched<'a> {
    ch: &'a mut dyn Channel,
    patience: &'a Patience,
}

/// A line that waits for the client.
struct Waiting<'a>(&'a Patience);

impl<'a> Waiting<'a> {
    fn begin(patience: &'a Patience) -> Self {
        patience.rest();
        Self(patience)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.work();
    }
}

impl Channel for Watched<'_> {
    fn send(&mut self, msg: &[u8]) -> session::Result<()> {
        let _waiting = Waiting::begin(self.patience);
        self.ch.send(msg)
    }

    fn recv(&mut self, limit: usize) -> session::Result<Vec<u8>> {
        let _waiting = Waiting::begin(self.patience);
        self.ch.recv(limit)
    }

    fn line(&self, name: &str) -> session::Result<Box<dyn Channel>> {
        self.ch.line(name)
    }

    fn window(&self) -> usize {
        self.ch.window()
    }

    fn step(&mut self, name: &'static str) {
        self.ch.step(name);
    }

    fn meter(&self) -> Meter {
        self.ch.meter()
    }

    fn peer(&self) -> &Party {
        self.ch.peer()
    }

    fn alive(&self) -> session::Result<()> {
        self.ch.alive()
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.patience.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No time runs while any line is at work, and it runs anew whenever one was.
    #[test]
    fn only_waiting_for_the_client_counts() {
        let moment = Duration::from_secs(10);
        let patience = Patience::new(moment);
        // Time goes by. Between two lines of this test it may be a second on a busy machine.
        let pass = || patience.lock().since -= 2 * moment;
        pass();
        patience.work();
        patience.work();
        patience.rest();
        pass();
        assert!(!patience.ends());
        patience.rest();
        assert!(!patience.ends());
        pass();
        assert!(patience.ends());
        // What is over stays over.
        patience.work();
        assert!(patience.ends());
    }
}
