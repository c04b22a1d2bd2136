//! How a run is, for the port of [`vesica_net::status`]: which phase, how much of it, bytes, and when peers were heard last. Nothing of what was
//! found: neither how many keys are common nor which.

use crate::error::JobError;
use crate::tell::control::{Control, Event, Watch};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vesica_net::status::{self, Families, Status};
use vesica_net::{SystemClock, Time};
use vesica_spec::Plan;

/// What a run's events have said.
pub struct Metrics {
    /// The job, the party, and what the run is called.
    names: [String; 3],
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The phase under way, what is counted in it, how much is done, and of how much where that is known.
    phase: &'static str,
    of: &'static str,
    done: u64,
    total: Option<u64>,
    /// The phases that ended, in their order, and how long each took.
    ended: Vec<(&'static str, Duration)>,
    /// Bytes that went out and came in, in phases that ended, and since then for units.
    bytes: (u64, u64),
    of_units: (u64, u64),
    units: u64,
    /// Whether the peers are there.
    met: bool,
    peers: BTreeMap<String, Peer>,
}

/// What a peer last said of itself.
struct Peer {
    done: u64,
    heard: Option<Instant>,
}

impl Metrics {
    /// Opens the port at `address` for the run of `plan`, and says where it is. It is closed when nobody holds the metrics any more.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub fn open(address: &str, plan: &Plan, ctl: &Control) -> Result<(Arc<Self>, SocketAddr), JobError> {
        let run = ctl.run().map(|run| run.to_string()).unwrap_or_default();
        let names = [plan.shared.id.clone(), plan.me.name().to_owned(), run];
        let metrics = Arc::new(Self { names, seen: Mutex::default() });
        let at = status::open(address, &metrics)?;
        Ok((metrics, at))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// The bytes of units count until those of their phase do, which are no fewer. A phase that failed has none of its own.
    fn settle(&mut self) {
        let (sent, received) = std::mem::take(&mut self.of_units);
        self.bytes = (self.bytes.0 + sent, self.bytes.1 + received);
    }
}

impl Watch for Metrics {
    fn event(&self, event: Event) {
        let mut seen = self.seen();
        match event {
            Event::Phase { name, of, total } => {
                seen.settle();
                (seen.phase, seen.of, seen.done, seen.total) = (name, of, 0, total);
                if name == "connect" {
                    seen.met = false;
                }
            }
            Event::Total(total) => seen.total = Some(total),
            // Threads report as they go, and not always in order.
            Event::Done(done) => seen.done = seen.done.max(done),
            Event::PhaseEnd { name, wall, bytes: (sent, received), .. } => {
                seen.of_units = (seen.of_units.0.max(sent), seen.of_units.1.max(received));
                seen.settle();
                seen.met |= name == "connect";
                match seen.ended.iter_mut().find(|(ended, _)| *ended == name) {
                    Some((_, took)) => *took += wall,
                    None => seen.ended.push((name, wall)),
                }
            }
            Event::Unit { bytes: (sent, received), .. } => {
                seen.units += 1;
                seen.of_units = (seen.of_units.0 + sent, seen.of_units.1 + received);
            }
            Event::Peer { name, done, age, .. } => {
                let heard = SystemClock.now().checked_sub(age);
                seen.peers.insert(name, Peer { done, heard });
            }
            Event::Note(_) => {}
        }
    }
}

impl Status for Metrics {
    fn not_ready(&self) -> Option<&'static str> {
        (!self.seen().met).then_some("the other parties are not there")
    }

    fn metrics(&self) -> String {
        let (seen, mut out) = (self.seen(), Families::default());
        let [job, party, run] = &self.names;
        out.add(
            "vesica_run_info",
            "gauge",
            "The run.",
            &[(&[("job", job.as_str()), ("party", party), ("run", run)], &1)],
        );
        out.add("vesica_ready", "gauge", "Whether the other parties are there.", &[(&[], &u8::from(seen.met))]);
        out.head("vesica_phase", "gauge", "The phase that is under way.");
        out.line("vesica_phase", &[("phase", seen.phase)], &1);
        out.head("vesica_phase_seconds_total", "counter", "How long phases took that have ended.");
        for (phase, took) in &seen.ended {
            out.line("vesica_phase_seconds_total", &[("phase", phase)], &took.as_secs_f64());
        }
        let of: &[(&str, &str)] = &[("phase", seen.phase), ("of", seen.of)];
        out.add("vesica_phase_done", "gauge", "How much of the phase is done.", &[(of, &seen.done)]);
        let total = seen.total.as_ref().map(|total| (of, total as &dyn Display));
        out.add("vesica_phase_size", "gauge", "How much there is to do in the phase.", total.as_slice());
        out.add("vesica_units_total", "counter", "Units that were matched.", &[(&[], &seen.units)]);
        let [sent, received] = [seen.bytes.0 + seen.of_units.0, seen.bytes.1 + seen.of_units.1];
        out.add("vesica_sent_bytes_total", "counter", "Bytes that were sent.", &[(&[], &sent)]);
        out.add("vesica_received_bytes_total", "counter", "Bytes that were received.", &[(&[], &received)]);
        out.head("vesica_peer_done", "gauge", "How much of its phase a peer says that it has done.");
        for (name, peer) in &seen.peers {
            out.line("vesica_peer_done", &[("peer", name)], &peer.done);
        }
        out.head("vesica_peer_silent_seconds", "gauge", "How long ago a peer was heard.");
        for (name, peer) in &seen.peers {
            let silent = peer.heard.map_or(0.0, |heard| SystemClock.since(heard).as_secs_f64());
            out.line("vesica_peer_silent_seconds", &[("peer", name)], &silent);
        }
        out.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_as_it_goes() {
        let names = ["acme".to_owned(), "alice".to_owned(), "90c1".to_owned()];
        let metrics = Metrics { names, seen: Mutex::default() };
        let second = Duration::from_secs(1);
        let phase = |name, of, total| Event::Phase { name, of, total };
        let end = |name, bytes| Event::PhaseEnd { name, of: "", wall: second, bytes };
        let unit = |bytes| Event::Unit { id: 0, wall: second, bytes };
        let has = |lines: &[&str]| {
            let text = metrics.metrics();
            for line in lines {
                assert!(text.lines().any(|have| have == *line), "no line {line:?} in\n{text}");
            }
        };
        assert!(metrics.not_ready().is_some());
        metrics.event(phase("read", "rows", Some(9)));
        metrics.event(Event::Done(4));
        has(&[
            "vesica_run_info{job=\"acme\",party=\"alice\",run=\"90c1\"} 1",
            "vesica_ready 0",
            "vesica_phase{phase=\"read\"} 1",
            "vesica_phase_done{phase=\"read\",of=\"rows\"} 4",
            "vesica_phase_size{phase=\"read\",of=\"rows\"} 9",
        ]);
        metrics.event(phase("connect", "", None));
        metrics.event(end("connect", (5, 7)));
        assert!(metrics.not_ready().is_none());
        metrics.event(phase("match", "units", Some(2)));
        metrics.event(unit((100, 10)));
        has(&["vesica_ready 1", "vesica_units_total 1", "vesica_sent_bytes_total 105"]);
        // With framing, the phase has more than its units.
        metrics.event(unit((100, 10)));
        metrics.event(Event::Peer { name: "bob".into(), phase: "match".into(), done: 1, total: Some(2), age: second });
        metrics.event(end("match", (230, 25)));
        has(&["vesica_sent_bytes_total 235", "vesica_received_bytes_total 32", "vesica_peer_done{peer=\"bob\"} 1"]);
        has(&["vesica_phase_seconds_total{phase=\"match\"} 1"]);
        let text = metrics.metrics();
        let silent = text.lines().find_map(|line| line.strip_prefix("vesica_peer_silent_seconds{peer=\"bob\"} "));
        assert!(silent.unwrap().parse::<f64>().unwrap() >= 1.0, "{text}");
        // The connection broke: units of the phase that failed count as they were, once.
        metrics.event(phase("match", "units", Some(2)));
        metrics.event(unit((50, 5)));
        metrics.event(phase("connect", "", None));
        assert!(metrics.not_ready().is_some());
        metrics.event(end("connect", (0, 0)));
        has(&["vesica_sent_bytes_total 285", "vesica_phase_seconds_total{phase=\"connect\"} 2"]);
    }
}
