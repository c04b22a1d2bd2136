//! How a run is watched and stopped from outside.

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

/// The handle on a run: a watcher, and a way to stop it. Clones are the same handle.
#[derive(Clone)]
pub struct Control {
    watch: Arc<dyn Watch>,
    cancelled: Arc<AtomicBool>,
}

impl Control {
    /// A handle whose events go to `watch`.
    pub fn new(watch: impl Watch + 'static) -> Self {
        Self { watch: Arc::new(watch), cancelled: Arc::default() }
    }

    /// A handle on the same run whose events go to `watch` too.
    pub(crate) fn also(&self, watch: Arc<dyn Watch>) -> Self {
        Self { watch: Arc::new([self.watch.clone(), watch]), cancelled: self.cancelled.clone() }
    }

    /// A handle on the same run that tells nothing: for the second of two parties in one process.
    pub fn unwatched(&self) -> Self {
        Self { watch: Arc::new(()), cancelled: self.cancelled.clone() }
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
        tracing::info!("{what}");
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
