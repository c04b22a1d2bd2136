//! What a run has of the machine around it, as an argument: time, connections, the disk for what must survive, chance, and who may run.
//!
//! The default is the system. Tests bring a world of their own, in which one number decides all that is otherwise left to chance: when a
//! connection breaks, which thread goes on, what a disk had written when the power failed.

use crate::disk::{Disk, Files};
use crate::error::JobError;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use vesica_net::{Connector, Sockets, SystemClock, Time};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// What a run has of the machine around it.
#[derive(Clone, Debug)]
pub struct World {
    /// Its clock.
    pub time: Arc<dyn Time>,
    /// How it meets its peers, where the caller does not bring the connections.
    pub connector: Arc<dyn Connector>,
    /// Where it keeps what must survive.
    pub disk: Arc<dyn Disk>,
    /// Where its chance comes from.
    pub chance: Arc<dyn Chance>,
    /// Which of its threads may run.
    pub turns: Arc<dyn Turns>,
}

impl World {
    /// A new source of randomness for a protocol.
    ///
    /// # Errors
    /// [`JobError::Setup`] if the system has none to give.
    pub fn rng(&self) -> Result<SessionRng, JobError> {
        Ok(SessionRng::from_seed(self.chance.seed()?))
    }
}

impl Default for World {
    fn default() -> Self {
        Self {
            time: Arc::new(SystemClock),
            connector: Arc::new(Sockets),
            disk: Arc::new(Files),
            chance: Arc::new(SystemChance),
            turns: Arc::new(AtWill),
        }
    }
}

/// Where chance comes from.
pub trait Chance: Debug + Send + Sync {
    /// A fresh seed, which nobody can guess.
    ///
    /// # Errors
    /// [`JobError::Setup`] if there is none to give.
    fn seed(&self) -> Result<Zeroizing<[u8; 32]>, JobError>;
}

/// The system's randomness.
#[derive(Clone, Copy, Debug)]
struct SystemChance;

impl Chance for SystemChance {
    fn seed(&self) -> Result<Zeroizing<[u8; 32]>, JobError> {
        // Where it stays: a seed that is moved leaves a copy that nobody wipes.
        let mut seed = Zeroizing::new([0; 32]);
        fill(&mut seed[..])?;
        Ok(seed)
    }
}

/// Fills a place with random bytes of the system's.
///
/// # Errors
/// [`JobError::Setup`] if it has none to give.
pub fn fill(place: &mut [u8]) -> Result<(), JobError> {
    getrandom::fill(place).map_err(|e| JobError::Setup(format!("the system has no randomness to give: {e}")))
}

/// Fresh random bytes of the system's that are no secret, or one of a hash table: names, salts, what its front says of a file.
///
/// # Errors
/// [`JobError::Setup`] if it has none to give.
pub fn random() -> Result<[u8; 32], JobError> {
    let mut random = [0; 32];
    fill(&mut random)?;
    Ok(random)
}

/// Who may run, of the threads that talk to peers. Threads that only compute are not asked.
///
/// The system runs them as it likes. A test that is to repeat a run lets one of them go on at a time, so it must know which threads
/// there are: each is announced by the thread that starts it, says when it begins and ends, and is awaited here before it is joined.
pub trait Turns: Debug + Send + Sync {
    /// A thread is about to be started: a number for it.
    fn fork(&self) -> u64;

    /// The thread with this number begins, and calls this first.
    fn begin(&self, thread: u64);

    /// The thread with this number is at its end, and does nothing more that another thread may see.
    fn end(&self, thread: u64);

    /// Waits for the end of these threads. Does not panic.
    fn join(&self, threads: &[u64]);
}

/// Threads run as the system likes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtWill;

impl Turns for AtWill {
    fn fork(&self) -> u64 {
        0
    }

    fn begin(&self, _: u64) {}

    fn end(&self, _: u64) {}

    fn join(&self, _: &[u64]) {}
}

/// Starts threads that talk to peers; see [`scope`].
pub struct Threads<'scope, 'env: 'scope> {
    inner: &'scope thread::Scope<'scope, 'env>,
    turns: &'env dyn Turns,
    started: Arc<Mutex<Vec<u64>>>,
}

impl<'scope> Threads<'scope, '_> {
    /// Starts a thread.
    ///
    /// # Panics
    /// If the system has none to give.
    pub fn spawn(&self, body: impl FnOnce() + Send + 'scope) {
        self.start("peer", body).expect("the system has threads to give");
    }

    /// Starts a thread of this name.
    ///
    /// # Errors
    /// If the system has none to give.
    pub fn start(&self, name: &str, body: impl FnOnce() + Send + 'scope) -> io::Result<Thread> {
        let (turns, number) = (self.turns, self.turns.fork());
        let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(self.inner, move || {
            let _end = AtEnd(|| turns.end(number));
            turns.begin(number);
            body();
        })?;
        let mut all = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        // Threads that run as the system likes have one number, and a service starts some for each client, for months.
        if all.last() != Some(&number) {
            all.push(number);
        }
        drop(all);
        Ok(started.thread().clone())
    }
}

/// [`std::thread::scope`] for threads that talk to peers: all that `f` starts have ended when this returns.
pub fn scope<'env, T>(turns: &'env dyn Turns, f: impl for<'scope> FnOnce(&Threads<'scope, 'env>) -> T) -> T {
    thread::scope(|inner| {
        let started = Arc::new(Mutex::new(Vec::new()));
        // Also if `f` panics: the scope waits for its threads then too.
        let of_join = started.clone();
        let _join = AtEnd(move || turns.join(&of_join.lock().unwrap_or_else(PoisonError::into_inner)));
        f(&Threads { inner, turns, started })
    })
}

/// Does something when it is dropped.
pub struct AtEnd<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
