//! Log lines: the events of a run and whatever the engine logs, as text or as JSON.

use super::track::Track;
use std::fmt::{self, Write};
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, OnceLock};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::{Format, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use vesica_job::{Event, RunId, Watch};

/// The job and the party, once they are known; for every line from then on.
static NAMES: OnceLock<[String; 2]> = OnceLock::new();

/// Sends the log of the whole process to standard error. `VESICA_LOG` says how much: `error` to `trace`. Each line has the name of the run.
pub fn open(json: bool, run: Option<RunId>) {
    let level = std::env::var("VESICA_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::INFO);
    let plain = !stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let run = run.map(|run| run.to_string());
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(stderr).log_internal_errors(false); // standard error is closed: nowhere to say so
    let format = Format::default().with_target(false).with_ansi(!plain);
    if json {
        log.fmt_fields(JsonFields::new())
            .event_format(Named { line: format.json().flatten_event(true), json, run })
            .init();
    } else {
        log.event_format(Named { line: format, json, run }).init();
    }
}

/// From now on every line says which job this is, and of which party.
pub fn of(job: &str, party: &str) {
    let _ = NAMES.set([job.to_owned(), party.to_owned()]);
}

/// Lines with the name of the run at their end, and the job's and the party's where they are known.
struct Named<F> {
    line: F,
    json: bool,
    run: Option<String>,
}

impl<S, N, F> FormatEvent<S, N> for Named<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &tracing::Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.line.format_event(ctx, Writer::new(&mut line), event)?;
        let names = NAMES.get().into_iter().flat_map(|[job, party]| [("job", job), ("party", party)]);
        let names = self.run.iter().map(|run| ("run", run)).chain(names);
        to.write_str(&ended(&line, self.json, names))
    }
}

/// `line` with these fields behind its own.
fn ended<'a>(line: &str, json: bool, fields: impl Iterator<Item = (&'a str, &'a String)>) -> String {
    let line = line.trim_end();
    let mut text = if json { line.strip_suffix('}').unwrap_or(line).to_owned() } else { line.to_owned() };
    for (name, value) in fields {
        let _ = match json {
            true => write!(text, ",\"{name}\":{}", serde_json::Value::from(value.as_str())),
            false => write!(text, " {name}={value:?}"),
        };
    }
    text + if json { "}\n" } else { "\n" }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_behind_what_a_line_says() {
        let [run, job] = ["90c1".to_owned(), "a \"b\"\nc".to_owned()];
        let names = || [("run", &run), ("job", &job)].into_iter();
        let line = ended("{\"level\":\"INFO\",\"message\":\"x}\"}\n", true, names());
        let entry: serde_json::Value = serde_json::from_str(line.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(
            (&entry["message"], &entry["run"], &entry["job"]),
            (&"x}".into(), &"90c1".into(), &job.as_str().into())
        );
        assert_eq!(ended("INFO x\n", false, names()), "INFO x run=\"90c1\" job=\"a \\\"b\\\"\\nc\"\n");
    }
}
