//! Bars, for a terminal: one for the phase, one line for the peer; phases that ended scroll by above.

use super::track::Track;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::sync::Mutex;
use vesica_job::{Event, Watch};

/// Draws bars.
pub struct Bars {
    screen: MultiProgress,
    phase: ProgressBar,
    peer: ProgressBar,
    track: Mutex<Track>,
}

impl Bars {
    pub fn new() -> Self {
        let screen = MultiProgress::new();
        let [phase, peer] = [(), ()].map(|()| screen.add(ProgressBar::no_length()));
        phase.set_style(unknown());
        peer.set_style(plain());
        Self { screen, phase, peer, track: Mutex::default() }
    }

    /// Takes the bars off the screen.
    pub fn close(&self) {
        self.phase.finish_and_clear();
        self.peer.finish_and_clear();
    }

    fn draw(&self, track: &Track) {
        self.phase.set_position(track.done);
        self.phase.set_message(track.amount());
        self.peer.set_message(track.peer().to_owned());
    }
}

impl Watch for Bars {
    fn event(&self, event: Event) {
        let mut track = self.track.lock().unwrap_or_else(|e| e.into_inner());
        track.follow(&event);
        match event {
            Event::Phase { name, total, .. } => {
                self.phase.set_style(if total.is_some() { known() } else { unknown() });
                self.phase.set_length(total.unwrap_or(0));
                self.phase.set_prefix(name);
            }
            Event::Total(total) => {
                self.phase.set_style(known());
                self.phase.set_length(total);
            }
            Event::PhaseEnd { wall, bytes, .. } => {
                let _ = self.screen.println(track.ended(wall, bytes));
            }
            Event::Note(note) => {
                let _ = self.screen.println(note);
            }
            _ => {}
        }
        self.draw(&track);
    }
}

fn known() -> ProgressStyle {
    style("{prefix:<10} [{bar:30}] {msg}").progress_chars("=> ")
}

fn unknown() -> ProgressStyle {
    style("{prefix:<10} {spinner} {msg}")
}

fn plain() -> ProgressStyle {
    style("           {msg}")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template of this file")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_templates_are_well_formed() {
        let _ = [super::known(), super::unknown(), super::plain()];
    }
}
