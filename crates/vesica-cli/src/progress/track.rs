//! Where a run stands, in words. The looks differ; the words are the same.

use std::time::{Duration, Instant};
use vesica_job::Event;
use vesica_job::numbers::{count, counted, seconds, size};

/// How often a long phase says something where every word stays: in lines and logs.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The phase that is on, and what the peer last said.
pub struct Track {
    /// The phase's name.
    pub name: &'static str,
    of: &'static str,
    /// How much there is to do, where known.
    pub total: Option<u64>,
    /// How much is done.
    pub done: u64,
    began: Instant,
    spoke: Instant,
    peer: String,
}

impl Default for Track {
    fn default() -> Self {
        let now = Instant::now();
        Self { name: "", of: "", total: None, done: 0, began: now, spoke: now, peer: String::new() }
    }
}

impl Track {
    /// Takes in an event.
    pub fn follow(&mut self, event: &Event) {
        match event {
            Event::Phase { name, of, total } => {
                let now = Instant::now();
                let peer = std::mem::take(&mut self.peer);
                *self = Track { name, of, total: *total, done: 0, began: now, spoke: now, peer };
            }
            // Threads report as they go, and not always in order.
            Event::Total(total) => self.total = Some(*total),
            Event::Done(done) => self.done = self.done.max(*done),
            Event::Peer { name, phase, done, total, age } => {
                let amount = match (done, total) {
                    (0, None) => String::new(),
                    (done, None) => format!(" {}", count(*done)),
                    (done, Some(total)) => format!(" {} of {}", count(*done), count(*total)),
                };
                self.peer = format!("{name}: {phase}{amount}, heard {} ago", seconds(age.as_secs_f64()));
            }
            _ => {}
        }
    }

    /// Whether a line is due; asking counts as saying it.
    pub fn is_due(&mut self) -> bool {
        let due = self.spoke.elapsed() >= PATIENCE;
        if due {
            self.spoke = Instant::now();
        }
        due
    }

    /// `3 of 12 units, 0.5 units/s, 18 s left`.
    pub fn amount(&self) -> String {
        let took = self.began.elapsed().as_secs_f64();
        let rate = if took > 0.0 { self.done as f64 / took } else { 0.0 };
        let mut text = match self.total {
            _ if self.of.is_empty() => return format!("{took:.0} s"),
            Some(total) => format!("{} of {} {}", count(self.done), count(total), self.of),
            None if self.done == 0 => return format!("{took:.0} s"),
            None => format!("{} {}", count(self.done), self.of),
        };
        if self.done > 0 && took > 0.5 {
            text += &format!(", {}", speed(rate, self.of));
            if let Some(left) = self.total.and_then(|total| total.checked_sub(self.done)) {
                text += &format!(", {} left", seconds(left as f64 / rate));
            }
        }
        text
    }

    /// The peer's last words; empty before the first.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The phase that ended, in a line: `match      12 units in 3.4 s (3.5 units/s), 4.2 MiB sent, 4.2 MiB received`.
    pub fn ended(&self, wall: Duration, bytes: (u64, u64)) -> String {
        let (took, of) = (wall.as_secs_f64(), self.of);
        let mut text = format!("{:<10} ", self.name);
        if of.is_empty() || self.done == 0 {
            text += &seconds(took);
        } else {
            text += &format!("{} in {}", counted(self.done, of), seconds(took));
            if took >= 0.01 {
                text += &format!(" ({})", speed(self.done as f64 / took, of));
            }
        }
        if bytes != (0, 0) {
            text += &format!(", {} sent, {} received", size(bytes.0), size(bytes.1));
        }
        text
    }

    /// The whole state in a line.
    pub fn line(&self) -> String {
        let peer = if self.peer.is_empty() { String::new() } else { format!("; {}", self.peer) };
        format!("{:<10} {}{peer}", self.name, self.amount())
    }
}

fn speed(rate: f64, of: &str) -> String {
    if rate < 100.0 { format!("{rate:.1} {of}/s") } else { format!("{} {of}/s", count(rate as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_phase_is_one_line() {
        let second = Duration::from_secs(1);
        let mut track = Track { name: "read", of: "rows", done: 1000, ..Track::default() };
        assert_eq!(track.ended(second, (0, 0)), "read       1,000 rows in 1.0 s (1,000 rows/s)");
        track.follow(&Event::Phase { name: "match", of: "units", total: None });
        track.follow(&Event::Done(1));
        assert_eq!(track.ended(2 * second, (0, 0)), "match      1 unit in 2.0 s (0.5 units/s)");
        track.follow(&Event::Phase { name: "agree", of: "", total: None });
        assert_eq!(track.ended(second, (2048, 10)), "agree      1.0 s, 2.0 KiB sent, 10 B received");
    }

    #[test]
    fn a_phase_shows_what_is_left_and_the_peer() {
        let mut track = Track::default();
        track.follow(&Event::Phase { name: "match", of: "units", total: None });
        track.began -= Duration::from_secs(10);
        track.follow(&Event::Total(10));
        track.follow(&Event::Done(5));
        track.follow(&Event::Peer {
            name: "bob".into(),
            phase: "match".into(),
            done: 4,
            total: Some(10),
            age: Duration::from_millis(400),
        });
        let line = track.line();
        assert!(line.starts_with("match      5 of 10 units, 0.5 units/s, "), "{line}");
        assert!(line.ends_with(" left; bob: match 4 of 10, heard 400 ms ago"), "{line}");
        assert!(!track.is_due());
        track.spoke -= PATIENCE;
        assert!(track.is_due() && !track.is_due());
    }
}
