//! Ctrl-C: once to stop cleanly, twice to stop at once.

use crate::failure::{Failure, Outcome};
use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// From now on SIGHUP ends nothing: each one makes the next call of what is returned say yes. To be called before there are other threads.
pub fn hangups() -> Result<impl Fn() -> bool + Sync, Failure> {
    let set: SigSet = [Signal::SIGHUP].into_iter().collect();
    let failed = |e: nix::Error| Failure::usage(format!("cannot catch SIGHUP: {e}"));
    // No thread takes it but the one that waits for it: those that begin after this keep it blocked.
    set.thread_block().map_err(failed)?;
    let seen = Arc::new(AtomicBool::new(false));
    let told = seen.clone();
    let waits = move || {
        while set.wait().is_ok() {
            told.store(true, Ordering::SeqCst)
        }
    };
    std::thread::Builder::new()
        .name("hangup".into())
        .spawn(waits)
        .map_err(|e| Failure::usage(format!("cannot catch SIGHUP: {e}")))?;
    Ok(move || seen.swap(false, Ordering::SeqCst))
}

/// From now on a signal that asks this process to end does `what` instead, on a thread of its own: once for each signal.
pub fn on_signal(mut what: impl FnMut() + Send + 'static) -> Outcome {
    let heard = || -> io::Result<UnixStream> {
        let (heard, told) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // A byte each time. It is written without waiting, so a pipe that is full costs a signal and no more.
            signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
        }
        Ok(heard)
    };
    let waits = |mut heard: UnixStream| {
        let hears = move || {
            while heard.read_exact(&mut [0]).is_ok() {
                what();
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(hears)
    };
    heard().and_then(waits).map(drop).map_err(|e| Failure::usage(format!("cannot catch Ctrl-C: {e}")))
}
