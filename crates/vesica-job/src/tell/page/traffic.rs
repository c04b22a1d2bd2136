//! What went over the network, and in which phase.

use super::bars::Bars;
use super::{Audience, Block, Section};
use crate::tell::numbers::size;
use crate::tell::report::{Report, StepCost};

/// The totals; for the party itself, also every phase or its steps, which together come to the totals.
pub fn section(report: &Report, audience: Audience<'_>) -> Section {
    let t = &report.total;
    let mut blocks = vec![Block::Text(format!(
        "{} sent and {} received, with framing and encryption.",
        size(t.sent),
        size(t.received)
    ))];
    if audience == Audience::Own {
        blocks.extend(lines(report));
    }
    Section { title: "What went over the network", blocks }
}

/// Bars, and what they are; nothing where the report does not tell phases apart.
fn lines(report: &Report) -> Vec<Block> {
    let carries = |one: &StepCost| one.sent > 0 || one.received > 0;
    let is_step = |one: &StepCost| one.began_s.is_none();
    let has_steps = |phase: &str| report.cost.iter().any(|one| one.phase == phase && is_step(one) && carries(one));
    // The goodbye comes after the totals were taken.
    let counted = report.cost.iter().filter(|one| carries(one) && one.phase != "close");
    let shown: Vec<&StepCost> = counted.filter(|one| is_step(one) || !has_steps(&one.phase)).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let name = |one: &StepCost| match is_step(one) {
        true => format!("{}: {}", one.phase, one.step),
        false => one.phase.clone(),
    };
    let mut rows: Vec<_> = shown.iter().map(|one| (name(one), vec![one.sent as f64, one.received as f64])).collect();
    let sum = |bytes: fn(&StepCost) -> u64| shown.iter().map(|one| bytes(one)).fold(0, u64::saturating_add);
    let rest = (
        report.total.sent.checked_sub(sum(|one| one.sent)),
        report.total.received.checked_sub(sum(|one| one.received)),
    );
    // A run that agrees more than once lost a connection after it had begun. Attempts that ended before that, as where the partner only checked
    // the job, are parts of "connect".
    let begun = report.cost.iter().filter(|one| one.phase == "agree" && !is_step(one)).count();
    let told = match rest {
        (Some(sent), Some(received)) if begun <= 1 => {
            rows.push(("the rest".to_owned(), vec![sent as f64, received as f64]));
            "The bytes of a step are those of its messages. The rest is what belongs to no line above, such as connecting, framing and encryption."
        }
        _ => {
            "The lines are of all connections, and the totals of the last one: a connection broke, and was made again."
        }
    };
    let bars = Bars::stacked(["sent", "received"], rows, |bytes| size(bytes as u64));
    vec![Block::Bars(bars), Block::Text(told.to_owned())]
}
