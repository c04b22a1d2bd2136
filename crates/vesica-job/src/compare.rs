//! All protocols that could do a job, side by side: `vesica plan --compare`.

use crate::error::JobError;
use crate::forecast::{Forecast, forecast};
use crate::tell::numbers::{seconds, size};
use serde::Serialize;
use std::fmt::Write;
use vesica_session::Reveal;
use vesica_spec::{Extra, Plan, Security};
use vesica_suite::{choices, find};

/// One way to do a job.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// What a job says to have it, in words such as `rr22, low-comm`.
    pub name: String,
    /// Whether this is the job's own choice.
    pub chosen: bool,
    /// Whether it is what this comparison would take: the fastest of those that protect against as much as the job asks for, hide
    /// keys that can be guessed, and tell nothing which the job does not accept.
    pub best: bool,
    /// Seconds by the clock: the longer of what the arithmetic and what the network takes, and the tables.
    pub wall_s: f64,
    /// Bytes that this party sends and receives.
    pub traffic: u64,
    /// Bytes of memory that this party needs.
    pub memory: u64,
    /// Bits of computational security.
    pub kappa: u32,
    /// What has to be hard.
    pub assumption: String,
    /// What it tells beyond the result and the numbers of keys; the job must accept it by these names.
    pub tells: Vec<String>,
    /// Whether the job accepts that.
    pub accepted: bool,
    /// The whole forecast.
    pub forecast: Forecast,
}

/// Every way to do the job of `plan`, the fastest first, over a network of `mbit` megabits a second each way.
///
/// # Errors
/// As [`forecast`].
pub fn compare(
    plan: &Plan,
    rows: Option<u64>,
    peer_rows: Option<u64>,
    mbit: Option<f64>,
) -> Result<Vec<Candidate>, JobError> {
    let mut all = Vec::new();
    for choice in choices(&plan.choice) {
        let Ok(suite) = find(&choice) else { continue };
        let mut other = plan.clone();
        (other.shared.protocol, other.shared.mode) = (choice.protocol, choice.mode);
        (other.shared.security, other.shared.curve) = (choice.security, choice.curve);
        other.shared.pivot = choice.pivot.map(|place| plan.shared.parties[usize::from(place)].clone());
        (other.choice, other.suite) = (choice, suite.into());
        let forecast = match forecast(&other, rows, peer_rows) {
            // Units that are too large for one protocol may suit another.
            Err(JobError::Setup(_)) if other.choice != plan.choice => continue,
            forecast => forecast?,
        };
        let me = &forecast.parties[forecast.me];
        let network_s = mbit.map_or(0.0, |mbit| me.sent.max(me.received) as f64 * 8.0 / (mbit * 1e6));
        let extra = |reveal: &Reveal| Extra::ALL.iter().copied().find(|extra| extra.name() == reveal.name);
        let extras: Vec<Extra> = other.reveals().iter().filter_map(extra).collect();
        all.push(Candidate {
            name: name(&other),
            chosen: other.choice == plan.choice,
            best: false,
            wall_s: forecast.match_s.max(network_s) + forecast.table_s.unwrap_or(0.0),
            traffic: me.sent + me.received,
            memory: forecast.memory,
            kappa: forecast.kappa,
            assumption: other.suite.assumption().to_owned(),
            tells: extras.iter().map(|extra| extra.name().to_owned()).collect(),
            accepted: extras.iter().all(|extra| plan.shared.accept.covers(*extra)),
            forecast,
        });
    }
    all.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    let asked = plan.shared.security.name();
    let protects = |c: &Candidate| asked == Security::SemiHonest.name() || c.forecast.security == asked;
    // What hides no guessable key is never advised, whoever accepts it.
    let hides = |c: &Candidate| !c.tells.iter().any(|extra| extra == Extra::GuessableKeys.name());
    if let Some(best) = all.iter_mut().find(|c| c.accepted && protects(c) && hides(c)) {
        best.best = true;
    }
    Ok(all)
}

/// What a job says to have this plan's protocol.
fn name(plan: &Plan) -> String {
    let choice = &plan.choice;
    let mut name = choice.protocol.name().to_owned();
    match choice.protocol {
        protocol if protocol.has_curve() => name += &format!(" on {}", choice.curve.name()),
        _ if choice.mode != vesica_spec::Mode::default() => name += &format!(", {}", choice.mode.name()),
        _ => {}
    }
    if let Some(pivot) = &plan.shared.pivot {
        name += &format!(", pivot {pivot}");
    }
    if choice.security != Security::default() {
        name += &format!(", {}", choice.security.name());
    }
    name
}

/// The comparison in plain words.
pub fn in_words(all: &[Candidate], mbit: Option<f64>) -> String {
    let mut text = String::new();
    let network = mbit.map_or("a network that is no bottleneck".to_owned(), |mbit| format!("{mbit} Mbit/s each way"));
    let first = all.first().map(|c| &c.forecast);
    let machines = match first {
        Some(forecast) if forecast.one_machine => "all parties on this machine",
        _ => "machines like this one",
    };
    let _ = writeln!(text, "For {machines} and {network}:\n");
    let _ = writeln!(text, "  {:<28} {:>11} {:>11} {:>11}  assumes", "protocol", "time", "traffic", "memory");
    for c in all {
        let mark = if c.chosen { '*' } else { ' ' };
        let _ = writeln!(
            text,
            "{mark} {:<28} {:>11} {:>11} {:>11}  {}",
            c.name,
            seconds(c.wall_s),
            size(c.traffic),
            size(c.memory),
            c.assumption
        );
        if !c.tells.is_empty() {
            let accepted = if c.accepted { "accepted by the job" } else { "not accepted by the job" };
            let _ = writeln!(text, "  {:<28} tells {}, {accepted}", "", c.tells.join(", "));
        }
    }
    if all.iter().any(|c| c.chosen) {
        let _ = writeln!(text, "\n* is the job's own choice.");
    }
    if first.is_some_and(|forecast| forecast.table_s.is_none()) {
        let _ = writeln!(text, "Reading and writing tables comes on top, for there is no table to look at.");
    }
    if let Some(best) = all.iter().find(|c| c.best) {
        let took = if best.chosen { ", as the job does" } else { "" };
        let _ = writeln!(text, "Take {}{took}: the fastest of those that this job allows.", best.name);
    }
    let _ = writeln!(text, "Whichever is taken, these learn:");
    for told in first.map(|forecast| forecast.reveals.as_slice()).unwrap_or_default() {
        if Extra::ALL.iter().all(|extra| extra.name() != told.name) {
            let _ = writeln!(text, "  {}: {}", told.to.join(" and "), told.what);
        }
    }
    text
}
