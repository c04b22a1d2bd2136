//! How a run is watched and stopped from outside.

use crate::error::JobError;
use crate::world::random;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a run says while it works. Numbers and names, no sentences: whoever watches decides how it looks.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A phase began; `total` is how much there is to do, where known, in `of` (`rows`, `units`).
    Phase {
        /// Its name.
        name: &'static str,
        /// What is counted.
        of: &'static str,
        /// How many there are.
        total: Option<u64>,
    },
    /// So much there is to do in the phase, where that is known only after it began.
    Total(u64),
    /// So much of the phase is done, in the phase's unit.
    Done(u64),
    /// The phase ended.
    PhaseEnd {
        /// Its name.
        name: &'static str,
        /// What was counted.
        of: &'static str,
        /// How long it took.
        wall: Duration,
        /// Bytes sent and received in it.
        bytes: (u64, u64),
    },
    /// A unit was matched; said by the thread that worked on it.
    Unit {
        /// Its number.
        id: u32,
        /// How long it took.
        wall: Duration,
        /// Bytes sent and received for it.
        bytes: (u64, u64),
    },
    /// What a peer last said of itself.
    Peer {
        /// Who.
        name: String,
        /// Its phase.
        phase: String,
        /// How much of it is done.
        done: u64,
        /// Of how much, where it knows.
        total: Option<u64>,
        /// How long ago it said anything.
        age: Duration,
    },
    /// Something to tell the user that does not end the run: a wait, a stranger at the door.
    Note(String),
}

/// Receives the events of a run, from any thread.
pub trait Watch: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event);
}

/// Several watchers.
impl Watch for [Arc<dyn Watch>; 2] {
    fn event(&self, event: Event) {
        self.iter().for_each(|watch| watch.event(event.clone()));
    }
}

/// Watches nothing.
impl Watch for () {
    fn event(&self, _: Event) {}
}

/// What a run of a program is called, on every line of its log and in its report: 16 hexadecimal digits. They are drawn at random when the
/// program starts, so they say nothing of tables, keys, secrets or results, and may be shown to a partner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunId([u8; 8]);

impl RunId {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn drawn() -> Result<Self, JobError> {
        let random = random()?;
        Ok(Self(*random.first_chunk().expect("it has 32 bytes")))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The handle on a run: a watcher, and a way to stop it. Clones are the same handle.
#[derive(Clone)]
pub struct Control {
    watch: Arc<dyn Watch>,
    cancelled: Arc<AtomicBool>,
    run: Option<RunId>,
    session: Option<Arc<str>>,
}

impl Control {
    /// A handle whose events go to `watch`.
    pub fn new(watch: impl Watch + 'static) -> Self {
        Self { watch: Arc::new(watch), cancelled: Arc::default(), run: None, session: None }
    }

    /// The same handle, on a run that is called this.
    pub fn called(self, run: RunId) -> Self {
        Self { run: Some(run), ..self }
    }

    /// What the run is called, if somebody gave it a name.
    pub fn run(&self) -> Option<RunId> {
        self.run
    }

    /// A handle on the same service whose notes are of the session with this number, of one client's connection. It is called `RUN-NUMBER`.
    pub fn of_session(&self, number: u64) -> Self {
        let run = self.run.map(|run| format!("{run}-")).unwrap_or_default();
        Self { session: Some(format!("{run}{number}").into()), ..self.clone() }
    }

    /// What the session is called that notes are of.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// A handle on the same run whose events go to `watch` too.
    pub(crate) fn also(&self, watch: Arc<dyn Watch>) -> Self {
        Self { watch: Arc::new([self.watch.clone(), watch]), ..self.clone() }
    }

    /// A handle on the same run that tells nothing: for the second of two parties in one process.
    pub fn unwatched(&self) -> Self {
        Self { watch: Arc::new(()), ..self.clone() }
    }

    /// Stops the run: what is in progress ends with an error within a moment, and the peers are told.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// Whether the run was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Tells the watcher.
    pub fn event(&self, event: Event) {
        self.watch.event(event);
    }

    /// Tells the watcher and the log of something that does not end the run.
    pub fn note(&self, what: String) {
        match self.session() {
            Some(session) => tracing::info!(session, "{what}"),
            None => tracing::info!("{what}"),
        }
        self.event(Event::Note(what));
    }

    /// Fails once the run was asked to stop: long local work asks now and then.
    ///
    /// # Errors
    /// [`vesica_session::Error::Cancelled`].
    pub fn check(&self) -> vesica_session::Result<()> {
        if self.is_cancelled() { Err(vesica_session::Error::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Control(cancelled: {})", self.is_cancelled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_by_16_digits_that_are_drawn() {
        let [one, other] = [RunId::drawn().unwrap(), RunId::drawn().unwrap()];
        assert_ne!(one, other);
        let shown = one.to_string();
        assert!(shown.len() == 16 && shown.bytes().all(|b| b.is_ascii_hexdigit()), "{shown}");
        let ctl = Control::new(()).called(one);
        assert_eq!(ctl.also(Arc::new(())).run(), Some(one));
        assert_eq!(ctl.of_session(7).unwatched().session(), Some(format!("{shown}-7").as_str()));
        assert_eq!(Control::new(()).of_session(7).session(), Some("7"));
    }
}
