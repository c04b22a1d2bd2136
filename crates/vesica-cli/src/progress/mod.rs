//! What a run looks like while it works: bars on a terminal, lines elsewhere, a log for programs.

mod bars;
mod lines;
mod log;
mod track;

use crate::failure::AS_LOG;
use crate::flags::Log;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vesica_job::{Control, Event, RunId, Watch};

/// How a run is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Bars on a terminal, else a line a phase.
    Shown,
    /// Log lines.
    Logged(Log),
    /// Not at all.
    Quiet,
}

/// A run's handle and what shows it. Dropped before the result is printed, so that bars do not write over it.
pub struct Screen {
    control: Control,
    bars: Option<Arc<bars::Bars>>,
}

impl Screen {
    /// The run's handle.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// From now on every line of a log says which job this is, and of which party.
    pub fn of(&self, job: &str, party: &str) {
        log::of(job, party);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bars) = &self.bars {
            bars.close();
        }
    }
}

/// Makes ready to show a run.
pub fn begin(how: How) -> Screen {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    // A system without randomness cannot run anything, and says so then.
    let run = RunId::drawn().ok();
    let mut bars = None;
    let control = match how {
        How::Quiet => Control::new(()),
        How::Logged(log) => {
            log::open(log == Log::Json, run);
            AS_LOG.store(log == Log::Json, Ordering::Relaxed);
            Control::new(log::Logged::default())
        }
        How::Shown if std::io::stderr().is_terminal() && !dumb => {
            let shown = bars.insert(Arc::new(bars::Bars::new()));
            Control::new(Shared(shown.clone()))
        }
        How::Shown => Control::new(lines::Lines::default()),
    };
    let control = run.into_iter().fold(control, Control::called);
    Screen { control, bars }
}

struct Shared(Arc<bars::Bars>);

impl Watch for Shared {
    fn event(&self, event: Event) {
        self.0.event(event);
    }
}
