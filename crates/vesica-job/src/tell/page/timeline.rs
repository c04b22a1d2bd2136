//! When each phase ran, by the clock of each party, and how much of it was waiting.

use super::bars::{Bars, Line, Span};
use super::scale::{SHORTEST_S, Scale, Stretch};
use super::{Block, Section};
use crate::tell::numbers::{seconds, size};
use crate::tell::report::{Report, StepCost};

/// The parts of a bar.
const WORKING: usize = 0;
const WAITING: usize = 1;
const CUT: usize = 2;

/// The phases of `report`, with those of `other` beside them.
pub fn section(report: &Report, other: Option<&Report>) -> Section {
    let t = &report.total;
    let mut blocks = vec![Block::Text(format!(
        "{} by the clock, of which {} until everybody had come; {} of CPU; {} of memory at most.",
        seconds(t.wall_s),
        seconds(t.waited_s),
        seconds(t.cpu_s),
        size(t.peak_memory)
    ))];
    let phases = phases(report, other);
    if !phases.is_empty() {
        blocks.push(Block::Bars(bars(&phases)));
    }
    let waited_together = |side: &Report| side.cost.iter().any(|phase| phase.phase == "match" && phase.waited_s > 0.0);
    let units = side_by_side(report);
    if units > 1 && [Some(report), other].into_iter().flatten().any(waited_together) {
        blocks.push(Block::Text(format!(
            "In match, up to {units} units were under way at once, and each waited for itself: the waiting shown is what all of them waited, \
             divided by {units}."
        )));
    }
    // A service answers many, and writes no report of any.
    let is_job = !report.job.shared.is_empty();
    if other.is_none() && is_job {
        let names: Vec<&str> = report.chosen.peers.iter().map(|peer| peer.name.as_str()).collect();
        let (have, give) = match names[..] {
            [_] => ("has a report of its own", "it"),
            _ => ("have reports of their own", "one of them"),
        };
        blocks.push(Block::Text(format!(
            "{} {have}; give {give} to vesica report, behind this one, to see both side by side.",
            names.join(" and ")
        )));
    }
    Section { title: "When it happened", blocks }
}

/// How many units of the match waited for themselves at once.
fn side_by_side(report: &Report) -> u32 {
    let chosen = &report.chosen;
    match chosen.cut.as_str() {
        "whole" => 1,
        _ => chosen.in_flight.min(chosen.units).max(1),
    }
}

/// A phase of a party.
struct Phase {
    name: String,
    /// When it was, on the clock of both.
    when: Stretch,
    /// Seconds by the clock.
    wall_s: f64,
    /// How many of them were waiting.
    waited_s: f64,
}

/// The phases in the order in which they began, on the clock of `report`.
fn phases(report: &Report, other: Option<&Report>) -> Vec<Phase> {
    let zero = together(report);
    let of_side = |side: &Report| {
        let shift = zero - together(side);
        let phase = |cost: &StepCost| {
            let from = cost.began_s? + shift;
            let units = if cost.phase == "match" { side_by_side(side) } else { 1 };
            Some(Phase {
                name: match other {
                    Some(_) => format!("{}, {}", cost.phase, side.job.party),
                    None => cost.phase.clone(),
                },
                when: Stretch { from, to: from + cost.wall_s, is_meeting: cost.phase == "connect" },
                wall_s: cost.wall_s,
                waited_s: (cost.waited_s / f64::from(units)).min(cost.wall_s),
            })
        };
        side.cost.iter().filter(|cost| cost.wall_s >= SHORTEST_S).filter_map(phase).collect::<Vec<_>>()
    };
    let mut all: Vec<Phase> = [Some(report), other].into_iter().flatten().flat_map(of_side).collect();
    all.sort_by(|a, b| a.when.from.total_cmp(&b.when.from));
    all
}

fn bars(phases: &[Phase]) -> Bars {
    let scale = Scale::of(&phases.iter().map(|phase| phase.when).collect::<Vec<_>>());
    let span = |from: f64, to: f64, part| {
        let (at, end) = (scale.place(from), scale.place(to));
        Span::plain(at, (end - at).max(0.0), part)
    };
    let line = |phase: &Phase| {
        let Stretch { from, to, is_meeting } = phase.when;
        let told = match phase.waited_s {
            waited if waited >= SHORTEST_S => format!("{:.3} s, {waited:.3} s of it waiting", phase.wall_s),
            _ => format!("{:.3} s", phase.wall_s),
        };
        let mut spans = vec![span(from, to - phase.waited_s, WORKING), span(to - phase.waited_s, to, WAITING)];
        // Over the waiting, of which they are a part.
        let cuts = scale.cuts().iter().filter(|cut| is_meeting && from <= cut.from && cut.to <= to);
        spans.extend(cuts.map(|cut| Span { says: seconds(cut.to - cut.from), ..span(cut.from, cut.to, CUT) }));
        Line { name: phase.name.clone(), told, spans }
    };
    let mut parts = vec!["working".to_owned(), "waiting for the others, drawn at the end of its phase".to_owned()];
    if !scale.cuts().is_empty() {
        parts.push("waiting that is cut short here, and how long it was".to_owned());
    }
    Bars { parts, lines: phases.iter().map(line).collect() }
}

/// When everybody had come, on this party's clock: the moment that the parties' clocks have in common.
fn together(report: &Report) -> f64 {
    let met = report.cost.iter().filter(|phase| phase.phase == "connect");
    met.filter_map(|phase| Some(phase.began_s? + phase.wall_s)).next_back().unwrap_or(0.0)
}
