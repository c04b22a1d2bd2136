//! A line a phase, and now and then one inside a long phase: for files and pipes.

use super::track::Track;
use crate::output;
use std::sync::Mutex;
use vesica_job::{Event, Watch};

/// Writes lines.
#[derive(Default)]
pub struct Lines(Mutex<Track>);

impl Watch for Lines {
    fn event(&self, event: Event) {
        let mut track = self.0.lock().unwrap_or_else(|e| e.into_inner());
        track.follow(&event);
        match event {
            Event::PhaseEnd { wall, bytes, .. } => output::tell(&track.ended(wall, bytes)),
            Event::Note(note) => output::tell(&note),
            Event::Done(_) | Event::Peer { .. } if track.is_due() => output::tell(&track.line()),
            _ => {}
        }
    }
}
