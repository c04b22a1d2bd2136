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
use vesica_job::{Control, Event, Watch};

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
    let control = match how {
        How::Quiet => Control::new(()),
        How::Logged(log) => {
            log::open(log == Log::Json);
            AS_LOG.store(log == Log::Json, Ordering::Relaxed);
            Control::new(log::Logged::default())
        }
        How::Shown if std::io::stderr().is_terminal() && !dumb => {
            let bars = Arc::new(bars::Bars::new());
            return Screen { control: Control::new(Shared(bars.clone())), bars: Some(bars) };
        }
        How::Shown => Control::new(lines::Lines::default()),
    };
    Screen { control, bars: None }
}

struct Shared(Arc<bars::Bars>);

impl Watch for Shared {
    fn event(&self, event: Event) {
        self.0.event(event);
    }
}
