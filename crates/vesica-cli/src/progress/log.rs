//! Log lines: the events of a run and whatever the engine logs, as text or as JSON.

use super::track::Track;
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use tracing::level_filters::LevelFilter;
use vesica_job::{Event, Watch};

/// Sends the log of the whole process to standard error. `VESICA_LOG` says how much: `error` to `trace`.
pub fn open(json: bool) {
    let level = std::env::var("VESICA_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO);
    let plain = !stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr)
        .with_ansi(!plain)
        .log_internal_errors(false); // standard error is closed: nowhere to say so
    if json {
        log.json().flatten_event(true).with_target(false).init();
    } else {
        log.with_target(false).init();
    }
}

/// Logs events; not notes, which whoever makes them logs too.
#[derive(Default)]
pub struct Logged(Mutex<Track>);

impl Watch for Logged {
    fn event(&self, event: Event) {
        let mut track = self.0.lock().unwrap_or_else(|e| e.into_inner());
        track.follow(&event);
        match event {
            Event::Phase { name, of, total } => tracing::info!(phase = name, of, total, "begin"),
            Event::PhaseEnd { name, of, wall, bytes: (sent, received) } => {
                tracing::info!(
                    phase = name,
                    of,
                    done = track.done,
                    seconds = wall.as_secs_f64(),
                    sent,
                    received,
                    "end"
                );
            }
            Event::Done(_) | Event::Peer { .. } if track.is_due() => {
                tracing::info!(
                    phase = track.name,
                    done = track.done,
                    total = track.total,
                    peer = track.peer(),
                    "working"
                );
            }
            _ => {}
        }
    }
}
