//! One process in which everything happens: one thread goes on at a time, and the seed says which.
//!
//! Threads are the system's, as in the product. A thread that talks to peers is a *task* here, and there is one token. Who has it goes on;
//! at each call of time, of the network and of a meeting it is handed to a task that the seed chooses among those that can go on. If none
//! can, virtual time moves to the next thing that happens. So a second run with the same seed does the same in the same order. Threads
//! that only compute have no token: the task that started them holds it until they are joined.

use crate::case::{Case, Outcome};
use crate::disk::FileSystem;
use crate::net::{Happening, Net};
use crate::trace::Trace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use vesica_job::JobError;
use vesica_job::worlds::{Boot, Chance, Time, Turns};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Switches after which a run counts as one that never ends.
const MOST_SWITCHES: u64 = 400_000;

/// How often a sleep looks at the condition that ends it.
const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    /// The task that this thread is.
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
    /// Whether its process was killed.
    static GONE: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// What a thread of a killed process is thrown out of its call with.
pub struct Killed;

/// A seeded source of chance.
pub struct Dice(SessionRng);

impl Dice {
    /// The dice of `seed` for `what`.
    pub fn new(seed: u64, what: &str) -> Self {
        let seed = blake3::derive_key(&format!("vesica 2026 simulator {what}"), &seed.to_le_bytes());
        Self(SessionRng::from_seed(Zeroizing::new(seed)))
    }

    /// Dice of a seed that other dice gave.
    pub fn of(seed: [u8; 32]) -> Self {
        Self(SessionRng::from_seed(Zeroizing::new(seed)))
    }

    /// A number below `most`, which is at least 1.
    pub fn below(&mut self, most: u64) -> u64 {
        u64::from_le_bytes(self.0.bytes()) % most.max(1)
    }

    /// Whether it is one of so many times out of a hundred.
    pub fn percent(&mut self, times: u64) -> bool {
        self.below(100) < times
    }

    /// A span of up to so many milliseconds, in microseconds.
    pub fn millis(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1000 + 1))
    }

    /// A seed of another source.
    pub fn seed(&mut self) -> [u8; 32] {
        self.0.bytes()
    }
}

/// What keeps a task from going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// Nothing.
    Ready,
    /// Something has to happen at the thing with this number, or time has to pass.
    Blocked { on: u64, until: Option<Duration> },
    /// It is at its end.
    Done,
}

struct Task {
    process: usize,
    wait: Wait,
    signal: Arc<Condvar>,
}

/// One incarnation of a party's process.
pub struct Process {
    /// Which party.
    pub party: usize,
    /// Whether it was killed.
    pub dead: bool,
    /// The same, for its threads.
    gone: Arc<AtomicBool>,
    /// Until when it stands still.
    pub stopped: Duration,
    chance: Dice,
}

/// All that there is.
pub struct State {
    /// Virtual time since the beginning.
    pub now: Duration,
    /// How far each party's date is off, in seconds.
    pub dates: Vec<i64>,
    /// How often each party's machine was started again, and when last.
    pub boots: Vec<(u64, Duration)>,
    /// What decides who goes on, delays and damage.
    pub dice: Dice,
    tasks: Vec<Task>,
    running: Option<usize>,
    /// What will happen, in order.
    pub agenda: BTreeMap<(Duration, u64), Happening>,
    sequence: u64,
    /// All processes that were ever begun.
    pub processes: Vec<Process>,
    /// Links, doors and meetings.
    pub net: Net,
    /// The disks of the parties.
    pub disks: Vec<FileSystem>,
    /// What happened.
    pub trace: Trace,
    /// What is played, and what must hold.
    pub case: Case,
    /// How often the token was handed on.
    pub switches: u64,
    over: bool,
    sim: Weak<Sim>,
    threads: Vec<JoinHandle<()>>,
}

/// A simulation.
pub struct Sim {
    state: Mutex<State>,
    ended: Condvar,
    base: Instant,
}

impl Sim {
    /// Plays a case to its end, and gives back what came of it.
    pub fn play(case: Case, dice: Dice, keep_words: bool) -> (Case, Trace, u64) {
        let parties = case.parties();
        let sim = Arc::new_cyclic(|sim| Self {
            state: Mutex::new(State {
                now: Duration::ZERO,
                dates: vec![0; parties],
                boots: vec![(0, Duration::ZERO); parties],
                dice,
                tasks: Vec::new(),
                running: None,
                agenda: BTreeMap::new(),
                sequence: 0,
                processes: Vec::new(),
                net: Net::default(),
                disks: (0..parties).map(|_| FileSystem::default()).collect(),
                trace: Trace::new(keep_words),
                case,
                switches: 0,
                over: false,
                sim: sim.clone(),
                threads: Vec::new(),
            }),
            ended: Condvar::new(),
            base: now(),
        });
        let mut state = sim.lock();
        state.begin_case();
        state.next();
        while !state.over {
            state = sim.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        threads.into_iter().for_each(|thread| _ = thread.join());
        let Ok(sim) = Arc::try_unwrap(sim).map_err(drop) else { panic!("a thread of the simulation is left") };
        let state = sim.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.case, state.trace, state.switches)
    }

    /// The state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the token on, and waits until it comes back.
    fn switch<'a>(&'a self, mut state: MutexGuard<'a, State>, me: usize) -> MutexGuard<'a, State> {
        let process = state.tasks[me].process;
        state.case_switched(process);
        state.next();
        let signal = state.tasks[me].signal.clone();
        while state.running != Some(me) {
            state = signal.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Waits until `ready` gives something, but no longer than `until`: then none. It is asked again when something happens `on` the thing
    /// with that number. A killed process does not come back from this.
    pub fn wait<T>(
        &self,
        on: u64,
        until: Option<Duration>,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        let me = ME.get();
        loop {
            let Some(me) = me else { return ready(&mut state) };
            if state.is_dead(me) {
                drop(state);
                die();
                return None;
            }
            if let Some(made) = ready(&mut state) {
                return Some(made);
            }
            if until.is_some_and(|until| state.now >= until) {
                return None;
            }
            state.tasks[me].wait = Wait::Blocked { on, until };
            state = self.switch(state, me);
        }
    }

    /// A point at which others may go on.
    pub fn pause(&self) {
        let Some(me) = ME.get() else { return };
        let mut state = self.lock();
        if !state.is_dead(me) {
            state.tasks[me].wait = Wait::Ready;
            state = self.switch(state, me);
        }
        let dead = state.is_dead(me);
        drop(state);
        if dead {
            die();
        }
    }

    /// Stops for good if the process was killed meanwhile.
    pub fn survive(&self, process: usize) {
        let dead = self.lock().processes[process].dead;
        if dead {
            die();
        }
    }
}

/// The thread's process was killed. One that is on its way out of a call goes on with that.
fn die() {
    if !std::thread::panicking() {
        resume_unwind(Box::new(Killed));
    }
}

/// The real clock: a place on it for the beginning of virtual time.
#[allow(clippy::disallowed_methods, reason = "virtual time needs one real moment, whose value nobody sees")]
fn now() -> Instant {
    Instant::now()
}

/// Whether the thread is one of a process that was killed: what it says on its way out is not worth printing.
pub fn is_dying() -> bool {
    GONE.with_borrow(|gone| gone.as_ref().is_some_and(|gone| gone.load(Ordering::SeqCst)))
}

impl State {
    fn is_dead(&self, task: usize) -> bool {
        self.processes[self.tasks[task].process].dead
    }

    /// Puts something on the agenda.
    pub fn at(&mut self, when: Duration, what: Happening) {
        self.sequence += 1;
        self.agenda.insert((when, self.sequence), what);
    }

    /// A new number for a thing that is waited for.
    pub fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Something happened on the thing with this number.
    pub fn wake(&mut self, on: u64) {
        for task in &mut self.tasks {
            if matches!(task.wait, Wait::Blocked { on: waits, .. } if waits == on) {
                task.wait = Wait::Ready;
            }
        }
    }

    /// Kills a process: each of its threads ends at its next call.
    pub fn kill(&mut self, process: usize) {
        self.processes[process].dead = true;
        self.processes[process].gone.store(true, Ordering::SeqCst);
        self.processes[process].stopped = Duration::ZERO;
        for task in self.tasks.iter_mut().filter(|task| task.process == process) {
            if task.wait != Wait::Done {
                task.wait = Wait::Ready;
            }
        }
        self.net_of_killed(process);
    }

    /// Ends the simulation: whoever still runs is killed.
    pub fn end_all(&mut self) {
        self.agenda.clear();
        for process in 0..self.processes.len() {
            if !self.processes[process].dead {
                self.kill(process);
            }
        }
        self.agenda.clear();
    }

    /// Begins a process of the party, which does `body`.
    pub fn start(
        &mut self,
        party: usize,
        body: impl FnOnce(&Arc<Sim>, usize) -> Result<(), vesica_service::Error> + Send + 'static,
    ) -> usize {
        let process = self.processes.len();
        let chance = Dice(SessionRng::from_seed(Zeroizing::new(self.dice.seed())));
        self.processes.push(Process { party, dead: false, gone: Arc::default(), stopped: Duration::ZERO, chance });
        let task = self.task(process);
        let sim = self.sim.upgrade().expect("it is alive while its threads are");
        let thread = std::thread::Builder::new().name(format!("party {party}"));
        let thread = thread.spawn(move || {
            sim.begin(task);
            let done = catch_unwind(AssertUnwindSafe(|| body(&sim, process)));
            let mut state = sim.lock();
            let outcome = match done {
                _ if state.processes[process].dead => Outcome::Killed,
                Ok(Ok(())) => Outcome::Done,
                Ok(Err(error)) => Outcome::Failed(error),
                Err(_) => Outcome::Panicked,
            };
            if !state.processes[process].dead {
                state.processes[process].dead = true;
                state.net_of_killed(process);
            }
            state.disks[party].released(process);
            state.exited(process, outcome);
            sim.leave(state, task);
        });
        self.threads.push(thread.expect("the system has threads"));
        process
    }

    fn task(&mut self, process: usize) -> usize {
        self.tasks.push(Task { process, wait: Wait::Ready, signal: Arc::default() });
        self.tasks.len() - 1
    }

    /// Chooses who goes on, and moves time if nobody can.
    fn next(&mut self) {
        self.switches += 1;
        if self.switches == MOST_SWITCHES {
            self.case.fail("it does not end: too many switches".to_owned());
            self.end_all();
        }
        loop {
            let stands = |state: &Self, task: &Task| state.processes[task.process].stopped > state.now;
            let ready: Vec<usize> = (0..self.tasks.len())
                .filter(|&task| self.tasks[task].wait == Wait::Ready && !stands(self, &self.tasks[task]))
                .collect();
            if !ready.is_empty() {
                let chosen = ready[self.dice.below(ready.len() as u64) as usize];
                self.running = Some(chosen);
                self.tasks[chosen].signal.notify_all();
                return;
            }
            if self.tasks.iter().all(|task| task.wait == Wait::Done) && self.agenda.is_empty() {
                self.running = None;
                self.over = true;
                self.tasks.iter().for_each(|task| task.signal.notify_all());
                if let Some(sim) = self.sim.upgrade() {
                    sim.ended.notify_all();
                }
                return;
            }
            self.pass();
        }
    }

    /// Time passes until something happens.
    fn pass(&mut self) {
        let wakes = self.tasks.iter().filter_map(|task| match task.wait {
            Wait::Blocked { until, .. } => until.map(|until| until.max(self.processes[task.process].stopped)),
            Wait::Ready => Some(self.processes[task.process].stopped),
            Wait::Done => None,
        });
        let (wake, due) = (wakes.min(), self.agenda.keys().next().copied());
        match (wake, due) {
            (wake, Some((when, number))) if wake.is_none_or(|wake| when <= wake) => {
                self.now = self.now.max(when);
                if let Some(what) = self.agenda.remove(&(when, number)) {
                    self.happen(what);
                }
            }
            (Some(wake), _) => {
                self.now = self.now.max(wake);
                let now = self.now;
                for task in &mut self.tasks {
                    if matches!(task.wait, Wait::Blocked { until: Some(until), .. } if until <= now) {
                        task.wait = Wait::Ready;
                    }
                }
            }
            (None, _) => {
                self.case.fail("everybody waits for ever".to_owned());
                self.end_all();
            }
        }
    }
}

impl Sim {
    fn leave(&self, mut state: MutexGuard<'_, State>, task: usize) {
        state.tasks[task].wait = Wait::Done;
        state.wake(ENDS);
        ME.set(None);
        state.next();
        drop(state);
    }

    fn begin(&self, task: usize) {
        ME.set(Some(task));
        let mut state = self.lock();
        let process = state.tasks[task].process;
        GONE.set(Some(state.processes[process].gone.clone()));
        let signal = state.tasks[task].signal.clone();
        while state.running != Some(task) {
            state = signal.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What is waited for by who rests.
const RESTS: u64 = u64::MAX - 1;

/// What is waited for by who waits for the end of threads.
const ENDS: u64 = 0;

/// What a process sees of the simulation.
#[derive(Clone)]
pub struct Seen {
    /// The simulation.
    pub sim: Arc<Sim>,
    /// The process.
    pub process: usize,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.process)
    }
}

impl Time for Seen {
    fn now(&self) -> Instant {
        self.sim.base + self.sim.lock().now
    }

    fn wall(&self) -> SystemTime {
        let state = self.sim.lock();
        let off = state.dates[state.processes[self.process].party];
        let seconds = (1_800_000_000 + off).max(0).unsigned_abs() + state.now.as_secs();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool) {
        let (end, look) = {
            let state = self.sim.lock();
            (state.now + span, if state.case.shop.is_some() { crate::shop::LOOK } else { LOOK })
        };
        // Others go on at a sleep, however short it is.
        self.sim.pause();
        loop {
            let now = self.sim.lock().now;
            if now >= end || stop() {
                return;
            }
            let number = u64::MAX;
            self.sim.wait(number, Some(end.min(now + look)), |_| None::<()>);
        }
    }

    fn boot(&self) -> Option<Boot> {
        let state = self.sim.lock();
        let party = state.processes[self.process].party;
        let (number, since) = state.boots[party];
        let up = Duration::from_secs((state.now - since).as_secs());
        Some(Boot { name: format!("start {number} of party {party}").into_bytes().into(), up })
    }

    fn rest(&self, span: Duration, stop: &dyn Fn() -> bool) {
        let end = self.sim.lock().now + span;
        self.sim.wait(RESTS, Some(end), |_| stop().then_some(()));
    }

    fn wake(&self, _: &std::thread::Thread) {
        self.sim.lock().wake(RESTS);
    }
}

impl Chance for Seen {
    fn seed(&self) -> Result<Zeroizing<[u8; 32]>, JobError> {
        Ok(Zeroizing::new(self.sim.lock().processes[self.process].chance.seed()))
    }
}

impl Turns for Seen {
    fn fork(&self) -> u64 {
        self.sim.lock().task(self.process) as u64
    }

    fn begin(&self, thread: u64) {
        self.sim.begin(thread as usize);
        self.sim.survive(self.process);
    }

    fn end(&self, thread: u64) {
        self.sim.leave(self.sim.lock(), thread as usize);
    }

    fn join(&self, threads: &[u64]) {
        let Some(me) = ME.get() else { return };
        let mut state = self.sim.lock();
        // Whoever waits for its threads waits for them too when it is killed: they must end before it does.
        while threads.iter().any(|&thread| state.tasks[thread as usize].wait != Wait::Done) {
            state.tasks[me].wait = Wait::Blocked { on: ENDS, until: None };
            state = self.sim.switch(state, me);
        }
    }
}
