//! Ctrl-C: once to stop cleanly, twice to stop at once.

use crate::failure::{Failure, Outcome};
use vesica_job::{Control, Event};

/// The exit code of an interrupted command.
pub const EXIT: u8 = 130;

/// From now on Ctrl-C (and SIGTERM, SIGHUP) stops what `control` is the handle of.
pub fn stops(control: &Control) -> Outcome {
    let control = control.clone();
    on_signal(move || {
        if control.is_cancelled() {
            std::process::exit(EXIT.into());
        }
        let note = "interrupted: ending in order; once more ends at once";
        tracing::info!("{note}");
        control.event(Event::Note(note.to_owned()));
        control.cancel();
    })
}

/// From now on a signal that asks this process to end does `what` instead.
pub fn on_signal(what: impl FnMut() + Send + 'static) -> Outcome {
    ctrlc::set_handler(what).map_err(|e| Failure::usage(format!("cannot catch Ctrl-C: {e}")))
}
