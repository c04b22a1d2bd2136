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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vesica_job::World;
use vesica_job::rooms::{AtEnd, scope};
use vesica_net::{PeerLink, Time};
use vesica_session::{self as session, Channel, Fault, Misbehaviour};

/// How long a client may keep the server waiting.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether patience is over, in the time that it lasts.
const LOOKS: u32 = 16;

/// For how long the client of one question has kept the server waiting.
pub struct Patience {
    limit: Duration,
    time: Arc<dyn Time>,
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
    pub fn new(limit: Duration, time: &Arc<dyn Time>) -> Self {
        let state = Mutex::new(State { busy: 0, since: time.now(), is_over: false });
        Self { limit, time: time.clone(), state }
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
    pub fn watch<T>(
        &self,
        link: &dyn PeerLink,
        world: &World,
        answer: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let why =
            "it put a question, and then kept this side waiting: it neither sent what is due nor took what it was sent";
        let fault = &session::Error::Peer { peer: link.peer().clone(), fault: Misbehaviour::Contradiction(why) };
        let is_answered = &AtomicBool::new(false);
        let look = move || {
            while !is_answered.load(Ordering::SeqCst) {
                self.time.rest(self.limit / LOOKS, &|| is_answered.load(Ordering::SeqCst));
                if !is_answered.load(Ordering::SeqCst) && self.ends() {
                    return link.abort(Fault::Peer, &fault.to_string());
                }
            }
        };
        let answered = scope(&*world.turns, |threads| {
            let looking = threads.start("patience", look);
            let looking = looking.map_err(|error| Error::Setup(format!("the system gives no thread: {error}")))?;
            // Ends the thread, also if there is a panic.
            let _end = AtEnd(|| {
                is_answered.store(true, Ordering::SeqCst);
                self.time.wake(&looking);
            });
            answer()
        });
        // What the lines met then is an echo of it.
        answered.map_err(|error| if self.lock().is_over { fault.clone().into() } else { error })
    }

    /// Whether the client's time is over.
    fn ends(&self) -> bool {
        let mut state = self.lock();
        state.is_over |= state.busy == 0 && self.time.now().saturating_duration_since(state.since) > self.limit;
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
            state.since = self.time.now();
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

    vesica_session::forward_channel!(ch);
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
        let patience = Patience::new(moment, &World::default().time);
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
