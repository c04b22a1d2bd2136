//! Which of a table's keys the service knows: from rows to the rows that were found, with their values.
//!
//! One road for all protocols. What a client copies first, what it asks for beside the function, and how it finds rows in what came are
//! the protocol's ([`Copied`](crate::suite::Copied)).

use crate::client::kept::{Ending, Kept};
use crate::client::local;
use crate::client::output::write;
use crate::client::report::{Work, report};
use crate::client::talk::{Answered, converse};
use crate::error::Error;
use crate::found::Lost;
use crate::link;
use crate::suite::Earlier;
use vesica_job::report::{LeftOut, Outcome, Report, Written};
use vesica_job::rooms::Clock;
use vesica_job::{Control, Io};
use vesica_spec::service::{AskPlan, By};

/// A run whose outputs are in their places. One that keeps its answers is over when [`Run::end`] has returned: until then the same command does it
/// again, and says the same of it.
#[must_use = "a run that keeps its answers is done again if it is not ended"]
pub struct Run {
    /// What came of it.
    pub report: Report,
    kept: Option<Ending>,
}

impl Run {
    /// The run is over: whoever is to hear of it has heard. Gives its report.
    ///
    /// # Errors
    /// Those of the kept file.
    pub fn end(self) -> Result<Report, Error> {
        self.kept.map_or(Ok(()), Ending::end)?;
        Ok(self.report)
    }
}

/// Looks the keys of a table up, and writes the rows that were found: of the plan's files, if `io` is [`crate::files`]. Fetches what
/// the cache lacks first.
///
/// # Errors
/// Faults of the plan and its files, before the server is contacted where they can be seen; those of connecting; a server that
/// refuses, or breaks the protocol. Nothing is left of the output then.
pub fn ask(plan: &AskPlan, io: Io, ctl: &Control) -> Result<Run, Error> {
    let mut clock = Clock::start(ctl);
    let mut io = io;
    let removed = local::check(plan, &io)?;
    let call = link::call(plan, &io.world, ctl)?;
    let kept = Kept::open(plan, &io.world, ctl)?;
    // The table is read before the server hears of anything: how long that takes depends on rows that the server is not told of. So is what was kept,
    // of which there is more the larger the table is.
    let tables = (&*io.table, removed.as_deref());
    let (rules, wants, known) = local::read_first(plan, tables, kept.as_ref().map(Kept::past), &mut clock, ctl)?;
    let mut kept = kept.zip(known);
    let link = clock.wait("connect", call)?;
    let asked = converse(plan, (&io, removed.as_deref()), (rules, wants, &mut kept), &*link, &mut clock, ctl);
    let Answered { offer, rules, wants, outputs, lookups, lanes, server_rows, mut copied } =
        asked.inspect_err(|error| link::leave(&*link, error))?;
    // The server has parted from this side. What is found and how long that takes, it does not see. Nor does anything fail by what is
    // found: the server wrote that, and would see a user who asks again, or complains.
    let (units, state) = (copied.units(lookups), copied.state());
    let hits = clock.phase("find", "keys", None, || {
        let earlier = kept.as_ref().and_then(|(kept, known)| Some(Earlier { state: kept.past().state()?, known }));
        copied.find(&wants, &outputs, earlier)
    })?;
    let next = kept.as_mut().map(|(kept, known)| {
        known.found(&hits);
        let write = || kept.write((&wants, &outputs), known, (&offer, state), &io.world, ctl);
        clock.phase("keep", "keys", Some(wants.digests.len() as u64), write)
    });
    let next = next.transpose()?;
    drop(outputs);
    // Of a run with day files the keys are all that there is of rows.
    if let Some(texts) = kept.as_mut().and_then(|(_, known)| known.texts.take()) {
        io.table = Box::new(texts.table()?);
    }
    let before = kept.as_ref().map(|(_, known)| move |want| known.before(want));
    let before = before.as_ref().map(|before| before as &dyn Fn(usize) -> bool);
    let written = clock.phase("write", "rows", None, || write(plan, &io, &offer.values, &wants, &hits, before))?;
    let outcome = Outcome {
        rows: wants.rows,
        keys: wants.digests.len() as u64,
        empty: wants.empty,
        duplicates: wants.duplicates,
        matched: Some(hits.iter().filter(|hit| hit.came.is_ok()).count() as u64),
        matched_rows: Some(written.matched),
        output: written.output.map(|output| Written { path: output.path, rows: output.rows, bytes: output.bytes }),
        left_out: told(written.lost, plan, server_rows, ctl),
        changes: kept.as_ref().zip(next.as_ref()).map(|((_, known), next)| known.changes(next)),
        ..Outcome::default()
    };
    let rules = if plan.by == By::Index { Vec::new() } else { rules };
    let work = Work { units, lanes, server_rows };
    let report = report(plan, (&offer, &rules), outcome, work, &*link, clock)?;
    Ok(Run { report, kept: kept.zip(next).map(|((kept, _), next)| kept.ending(next)) })
}

/// Tells the user of rows that count as not found, and gives what the report says of them. The server's table has `server_rows` rows.
fn told(
    lost: impl IntoIterator<Item = (Lost, Vec<u64>)>,
    plan: &AskPlan,
    server_rows: u64,
    ctl: &Control,
) -> Vec<LeftOut> {
    let left_out = lost.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(lost, mut rows)| {
        rows.sort_unstable();
        let (name, why) = lost.in_words(server_rows);
        let first = rows.iter().take(10).map(|row| row + 1).collect();
        LeftOut { name: name.to_owned(), rows: rows.len() as u64, first, why }
    });
    let table =
        plan.input.as_ref().map_or_else(String::new, |(input, _)| format!("{}: ", input.origin.name().display()));
    left_out.inspect(|left| ctl.note(format!("{table}{}", left.in_words()))).collect()
}
