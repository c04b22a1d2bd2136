//! Work that lasts: on a thread of its own, while the caller's lets the interpreter go and listens for Ctrl-C.

use crate::failure::Failure;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vesica::{Control, Event, RunId, Watch};

/// How often the caller's thread looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Stops work from another thread: what `asyncio` and services need.
#[pyclass(frozen, module = "vesica._core")]
#[derive(Default)]
pub struct Stop(AtomicBool);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Stops the work that this was given to, now or when it begins.
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was set.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What the working thread tells the caller's.
pub enum Told {
    /// Something happened.
    Event(Event),
    /// The work is over.
    Over,
}

/// Passes events on.
pub struct Tell(pub Mutex<Sender<Told>>);

impl Watch for Tell {
    fn event(&self, event: Event) {
        // If nobody listens any more, nobody wants to know.
        let _ = self.0.lock().map(|sender| sender.send(Told::Event(event)));
    }
}

/// Tells the caller's thread that the work is over, however it ends.
struct Over(Sender<Told>);

impl Drop for Over {
    fn drop(&mut self) {
        let _ = self.0.send(Told::Over);
    }
}

/// Does `work`, and tells `watch` of its events as dicts. Ctrl-C, an exception of `watch` and `stop` end it within a moment; the first
/// two are what is raised then.
pub fn work<T: Send>(
    py: Python<'_>,
    watch: Option<Bound<'_, PyAny>>,
    stop: Option<&Stop>,
    work: impl FnOnce(&Control) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (sender, told) = channel();
    let ctl = match &watch {
        Some(_) => Control::new(Tell(Mutex::new(sender.clone()))),
        None => Control::new(()),
    };
    let ctl = RunId::drawn().into_iter().fold(ctl, Control::called);
    wait(py, &ctl, (sender, &Mutex::new(told)), watch.as_ref(), stop, || work(&ctl))
}

/// Does one piece of work of something that lasts longer than this call, under its `ctl`, and tells nobody.
pub fn piece<T: Send>(py: Python<'_>, ctl: &Control, work: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    let (sender, told) = channel();
    wait(py, ctl, (sender, &Mutex::new(told)), None, None, work)
}

/// Does `work`, which `ctl` stops, on a thread of its own. `told` is where its events come out, and its end through the sender.
pub fn wait<T: Send>(
    py: Python<'_>,
    ctl: &Control,
    (over, told): (Sender<Told>, &Mutex<Receiver<Told>>),
    watch: Option<&Bound<'_, PyAny>>,
    stop: Option<&Stop>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let done = std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            let _over = Over(over);
            work()
        });
        let mut over = false;
        let waited = || {
            let told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.recv_timeout(LOOK).into_iter().chain(told.try_iter()).collect::<Vec<_>>()
        };
        while !over {
            let all = py.detach(waited);
            over = all.iter().any(|told| matches!(told, Told::Over));
            if raised.is_none() {
                raised = py.check_signals().and_then(|()| tell(py, watch, all)).err();
            }
            if raised.is_some() || stop.is_some_and(Stop::is_set) {
                ctl.cancel();
            }
        }
        py.detach(|| working.join())
    });
    match (raised, done) {
        (Some(raised), _) => Err(raised),
        (None, Ok(done)) => done.map_err(|failure| failure.raised(py)),
        (None, Err(panic)) => {
            let why = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            let why = why.unwrap_or("a thread ended without a word");
            Err(Failure::bug(format!("a bug in Vesica: {why}; please report it")).raised(py))
        }
    }
}

/// Tells `watch` of what happened; of several steps within a phase, the last.
fn tell(py: Python<'_>, watch: Option<&Bound<'_, PyAny>>, all: Vec<Told>) -> PyResult<()> {
    let Some(watch) = watch else { return Ok(()) };
    let mut events = all.into_iter().filter_map(|told| match told {
        Told::Event(event) => Some(event),
        Told::Over => None,
    });
    let mut next = events.next();
    while let Some(event) = next {
        next = events.next();
        if !(matches!(event, Event::Done(_)) && matches!(next, Some(Event::Done(_)))) {
            watch.call1((as_dict(py, event)?,))?;
        }
    }
    Ok(())
}

fn as_dict(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    match event {
        Event::Phase { name, of, total } => {
            dict.set_item("event", "phase")?;
            dict.set_item("name", name)?;
            dict.set_item("of", of)?;
            dict.set_item("total", total)?;
        }
        Event::Total(total) => {
            dict.set_item("event", "total")?;
            dict.set_item("total", total)?;
        }
        Event::Done(done) => {
            dict.set_item("event", "done")?;
            dict.set_item("done", done)?;
        }
        Event::PhaseEnd { name, of, wall, bytes } => {
            dict.set_item("event", "phase_end")?;
            dict.set_item("name", name)?;
            dict.set_item("of", of)?;
            dict.set_item("wall_s", wall.as_secs_f64())?;
            dict.set_item("bytes", bytes)?;
        }
        Event::Unit { id, wall, bytes } => {
            dict.set_item("event", "unit")?;
            dict.set_item("id", id)?;
            dict.set_item("wall_s", wall.as_secs_f64())?;
            dict.set_item("bytes", bytes)?;
        }
        Event::Peer { name, phase, done, total, age } => {
            dict.set_item("event", "peer")?;
            dict.set_item("name", name)?;
            dict.set_item("phase", phase)?;
            dict.set_item("done", done)?;
            dict.set_item("total", total)?;
            dict.set_item("age_s", age.as_secs_f64())?;
        }
        Event::Note(text) => {
            dict.set_item("event", "note")?;
            dict.set_item("text", text)?;
        }
        // Events that a later version of the engine may have.
        _ => dict.set_item("event", "other")?,
    }
    Ok(dict)
}
