//! A trace of a run, in the form that chrome://tracing and ui.perfetto.dev show: phases on a track of their own, units on
//! one for each thread that works on them. (Trace Event Format, the JSON array of complete events.)

use crate::tell::control::{Event, Watch};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use vesica_net::{SystemClock, Time};

/// The phases' track; the units' tracks follow.
const PHASES: usize = 0;

/// Notes what a run's events say, and when.
pub struct Trace {
    start: Instant,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    events: Vec<Value>,
    threads: Vec<ThreadId>,
}

impl Trace {
    /// Starts now, for the party called `name`.
    pub fn start(name: &str) -> Self {
        let seen = Seen { events: vec![named("process_name", PHASES, &format!("vesica {name}"))], ..Seen::default() };
        let trace = Self { start: SystemClock.now(), seen: Mutex::new(seen) };
        trace.seen().events.push(named("thread_name", PHASES, "phases"));
        trace
    }

    /// The trace as it stands in a file.
    pub fn text(&self) -> String {
        json!({ "traceEvents": std::mem::take(&mut self.seen().events) }).to_string()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What ended just now and took `wall`.
    fn ended(&self, track: usize, name: &str, wall: Duration, bytes: (u64, u64)) -> Value {
        let micros = |d: Duration| d.as_nanos() as f64 / 1000.0;
        let began = SystemClock.since(self.start).saturating_sub(wall);
        json!({
            "ph": "X", "pid": 1, "tid": track, "name": name, "ts": micros(began), "dur": micros(wall),
            "args": { "sent": bytes.0, "received": bytes.1 },
        })
    }
}

impl Watch for Trace {
    fn event(&self, event: Event) {
        match event {
            Event::PhaseEnd { name, wall, bytes, .. } => {
                let mut ended = self.ended(PHASES, name, wall, bytes);
                let mut seen = self.seen();
                // A partner who only checks the job is met again and again: that is one wait.
                if let Some(last) = seen.events.pop_if(|last| last["tid"] == PHASES && last["name"] == name) {
                    ended = joined(&last, &ended);
                }
                seen.events.push(ended);
            }
            Event::Unit { id, wall, bytes } => {
                let (me, mut seen) = (std::thread::current().id(), self.seen());
                let place = seen.threads.iter().position(|thread| *thread == me).unwrap_or_else(|| {
                    seen.threads.push(me);
                    let new = seen.threads.len();
                    seen.events.push(named("thread_name", PHASES + new, &format!("units, worker {new}")));
                    new - 1
                });
                seen.events.push(self.ended(PHASES + 1 + place, &format!("unit {id}"), wall, bytes));
            }
            _ => {}
        }
    }
}

/// A phase, and the same phase again, as one.
fn joined(first: &Value, second: &Value) -> Value {
    let micros = |event: &Value, of: &str| event[of].as_f64().unwrap_or_default();
    let bytes = |of: &str| [first, second].iter().filter_map(|event| event["args"][of].as_u64()).sum::<u64>();
    let began = micros(first, "ts");
    json!({
        "ph": "X", "pid": 1, "tid": first["tid"], "name": first["name"], "ts": began,
        "dur": micros(second, "ts") + micros(second, "dur") - began,
        "args": { "sent": bytes("sent"), "received": bytes("received") },
    })
}

/// Names a track.
fn named(what: &str, track: usize, name: &str) -> Value {
    json!({ "ph": "M", "pid": 1, "tid": track, "name": what, "args": { "name": name } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_and_units_stand_on_tracks_of_their_own() {
        let trace = Trace::start("alice");
        let ms = Duration::from_millis;
        std::thread::sleep(ms(8));
        trace.event(Event::PhaseEnd { name: "read", of: "rows", wall: ms(5), bytes: (0, 0) });
        for _ in 0..3 {
            trace.event(Event::PhaseEnd { name: "connect", of: "", wall: ms(1), bytes: (1, 2) });
        }
        trace.event(Event::Unit { id: 1, wall: ms(3), bytes: (10, 20) });
        std::thread::scope(|scope| {
            scope.spawn(|| trace.event(Event::Unit { id: 0, wall: ms(4), bytes: (1, 2) }));
        });
        trace.event(Event::Unit { id: 2, wall: ms(1000), bytes: (0, 0) });

        let text = trace.text();
        let saved: Value = serde_json::from_str(&text).unwrap();
        let spans = saved["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X");
        let spans: Vec<_> = spans.map(|e| (e["name"].as_str().unwrap(), e["tid"].as_u64().unwrap())).collect();
        assert_eq!(spans, [("read", 0), ("connect", 0), ("unit 1", 1), ("unit 0", 2), ("unit 2", 1)]);
        let connect = saved["traceEvents"].as_array().unwrap().iter().find(|e| e["name"] == "connect").unwrap();
        assert_eq!(connect["args"], json!({ "sent": 3, "received": 6 }));
        let unit = saved["traceEvents"].as_array().unwrap().iter().find(|e| e["name"] == "unit 1").unwrap();
        assert_eq!((unit["dur"].as_f64(), &unit["args"]["received"]), (Some(3000.0), &json!(20)));
        assert!(unit["ts"].as_f64().unwrap() >= 5000.0, "{unit}");
        assert!(text.contains("vesica alice"));
    }
}
