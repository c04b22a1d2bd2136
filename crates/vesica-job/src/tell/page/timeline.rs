//! When each phase ran, by the clock of each party, and how much of it was waiting.

use super::bars::{Bars, Line};
use super::{Block, Section};
use crate::tell::numbers::size;
use crate::tell::report::{Report, StepCost};

/// The phases of `report`, with those of `other` beside them.
pub fn section(report: &Report, other: Option<&Report>) -> Section {
    let t = &report.total;
    let mut blocks = vec![Block::Text(format!(
        "{:.1} s by the clock, of which {:.1} s until everybody had come; {:.1} s of CPU; {} of memory at most.",
        t.wall_s,
        t.waited_s,
        t.cpu_s,
        size(t.peak_memory)
    ))];
    let bars = bars(report, other);
    if !bars.lines.is_empty() {
        blocks.push(Block::Bars(bars));
    }
    if other.is_none() {
        let names: Vec<&str> = report.chosen.peers.iter().map(|peer| peer.name.as_str()).collect();
        blocks.push(Block::Text(format!(
            "{} has a report of its own; give both to `vesica report` to see the two side by side.",
            names.join(" and ")
        )));
    }
    Section { title: "When it happened", blocks }
}

fn bars(report: &Report, other: Option<&Report>) -> Bars {
    let zero = together(report);
    let sides: Vec<_> = [Some(report), other].into_iter().flatten().map(|side| (side, zero - together(side))).collect();
    let phases = |&(side, shift): &(&Report, f64)| -> Vec<(String, StepCost, f64, f64)> {
        let named = |phase: &StepCost| match other {
            Some(_) => format!("{}, {}", phase.phase, side.job.party),
            None => phase.phase.clone(),
        };
        let seen = side.cost.iter().filter(|phase| phase.wall_s >= 0.0005);
        let whole = seen.filter_map(|phase| Some((named(phase), phase.clone(), phase.began_s? + shift)));
        let lanes = f64::from(side.chosen.in_flight.max(1));
        whole
            .map(|(name, phase, began)| {
                // Units in flight at once wait each for itself.
                let lanes = if phase.phase == "match" { lanes } else { 1.0 };
                let waited = (phase.waited_s / lanes).min(phase.wall_s);
                (name, phase, began, waited)
            })
            .collect()
    };
    let mut all: Vec<_> = sides.iter().flat_map(phases).collect();
    all.sort_by(|a, b| a.2.total_cmp(&b.2));
    let first = all.iter().map(|one| one.2).fold(f64::INFINITY, f64::min);
    let last = all.iter().map(|one| one.2 + one.1.wall_s).fold(f64::NEG_INFINITY, f64::max);
    let width = (last - first).max(f64::MIN_POSITIVE);
    let line = |(name, phase, began, waited): (String, StepCost, f64, f64)| {
        let (at, wall) = ((began - first) / width, phase.wall_s / width);
        let share = waited / width;
        let told = match waited {
            waited if waited >= 0.0005 => format!("{:.3} s, {waited:.3} s of it waiting", phase.wall_s),
            _ => format!("{:.3} s", phase.wall_s),
        };
        Line { name, told, spans: vec![(at, wall - share, 0), (at + wall - share, share, 1)] }
    };
    Bars { parts: vec!["working".into(), "waiting for the others".into()], lines: all.into_iter().map(line).collect() }
}

/// When everybody had come, on this party's clock: the moment that the parties' clocks have in common.
fn together(report: &Report) -> f64 {
    let met = report.cost.iter().filter(|phase| phase.phase == "connect");
    met.filter_map(|phase| Some(phase.began_s? + phase.wall_s)).next_back().unwrap_or(0.0)
}
