//! What a client does before its server hears of anything: it opens its files, looks at them, and reads its table.

use crate::client::day::Day;
use crate::client::kept::{self, Known, Past};
use crate::client::output::changes;
use crate::error::Error;
use crate::offer::Offer;
use crate::wants::Wants;
use vesica_job::rooms::{Clock, Places, probe};
use vesica_job::{Control, Io, Target, World};
use vesica_spec::service::AskPlan;
use vesica_spec::{Rule, Rules};
use vesica_table::{Table, View};

/// The files that the plan names.
///
/// # Errors
/// Those of opening the table; a document that names none.
pub fn files(plan: &AskPlan) -> Result<Io, Error> {
    let missing = |field, why: &str| Err(Error::Missing { field, why: why.to_owned() });
    let Some((input, _)) = &plan.input else {
        return missing(
            "mine.input",
            "name the table whose keys are asked for: input = { path = \"…\", keys = [\"…\"] }",
        );
    };
    if plan.output.is_none() && changes(plan).next().is_none() {
        return missing("mine.output", "name the file for the rows that are found: output = { path = \"…\" }");
    }
    let target = plan.output.clone().map(|output| Box::new(output) as Box<dyn Target>);
    Ok(Io { table: vesica_table::open(input)?, target, connections: Vec::new(), world: World::default() })
}

/// Fails if something is wrong with the files that a run reads and writes, as far as that is seen without the server. Gives the table of the keys
/// that were removed, where there is one.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(plan: &AskPlan, io: &Io) -> Result<Option<Box<dyn Table>>, Error> {
    let table = &*io.table;
    // Asks for the columns, and reads nothing yet.
    drop(table.keys(plan.input.as_ref().map_or(&[], |(_, keys)| keys), 1)?);
    let target = io.target.as_deref();
    if target.is_none() && changes(plan).next().is_none() {
        return Err(Error::Setup("mine.output is missing".into()));
    }
    for target in target.into_iter().chain(changes(plan).map(|output| output as &dyn Target)) {
        match &plan.columns {
            None => drop(target.sink(&table.facts())?),
            Some(names) => drop(target.sink(&View::new(table, names)?.facts())?),
        }
    }
    plan.report.as_deref().map_or(Ok(()), |path| probe("mine.report", path))?;
    let removed = removed(plan)?;
    are_apart(plan, table, removed.as_deref())?;
    Ok(removed)
}

/// Fails if a file that the run writes is another one that it writes or reads, by whatever name, or a file of its tables.
///
/// # Errors
/// The same, with both.
fn are_apart(plan: &AskPlan, table: &dyn Table, removed: Option<&dyn Table>) -> Result<(), Error> {
    let mut places = Places::default();
    places.of_links(plan.identity.as_ref(), plan.trust.iter(), &plan.proxy);
    places.kept("mine.cache", Some(&plan.cache));
    let kept = plan.kept.as_ref();
    places.read("mine.kept.key", kept.and_then(|kept| kept.key.file()));
    if let Some(kept) = kept {
        kept::files(&kept.path).iter().for_each(|file| places.kept("mine.kept.path", Some(file)));
    }
    places.output("mine.output.path", plan.output.as_ref());
    places.output("mine.output.gained", kept.and_then(|kept| kept.gained.as_ref()));
    places.output("mine.output.lost", kept.and_then(|kept| kept.lost.as_ref()));
    places.written("mine.report", plan.report.as_deref());
    let tables: Vec<_> = [table].into_iter().chain(removed).collect();
    Ok(places.are_apart(&tables)?)
}

/// The table of the keys that were removed, where the plan has day files and names one. Nothing is written in its place.
///
/// # Errors
/// Those of opening it; an output that is this file, under whatever name.
pub fn removed(plan: &AskPlan) -> Result<Option<Box<dyn Table>>, Error> {
    let Some(removed) = plan.day.as_ref().and_then(|day| day.removed.as_ref()) else { return Ok(None) };
    let table = vesica_table::open(removed)?;
    // Asks for the columns, and reads nothing yet.
    let keys = plan.input.as_ref().map_or(&[][..], |(_, keys)| keys);
    drop(table.keys(keys, 1)?);
    for output in plan.output.iter().chain(changes(plan)) {
        drop(output.sink(&View::new(&*table, keys)?.facts())?);
    }
    Ok(Some(table))
}

/// What was read before the server was called: the rules of each key column, what is asked for, and what was kept of it.
pub type First = (Vec<Vec<Rule>>, Wants, Option<Known>);

/// The keys that a plan's tables are about, with the rules by which they were read, and what is kept of them. The rules are those of the offer that
/// was fetched before, if it is the one that the plan pins; else there are none, and the keys may have to be read again by the offer's.
///
/// # Errors
/// As [`read`]; day files of an earlier day, where the rules are known.
pub fn read_first(
    plan: &AskPlan,
    tables: (&dyn Table, Option<&dyn Table>),
    past: Option<&Past<'_>>,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<First, Error> {
    let offer = Offer::load(&plan.cache).ok().filter(|offer| plan.offer.is_none_or(|pinned| offer.hash() == pinned));
    let offered = offer.and_then(|offer| rules_of(plan, &offer.rules).ok());
    let are_known = offered.is_some();
    let rules = offered.map_or_else(|| rules_of(plan, &Rules::default()), Ok)?;
    let (wants, mut known) = read(plan, tables, &rules, past, clock, ctl)?;
    known.as_mut().filter(|_| are_known).map_or(Ok(()), |known| known.judged(ctl))?;
    Ok((rules, wants, known))
}

/// These rules for each key column of the client's table.
///
/// # Errors
/// If there are not as many columns as they are for.
pub fn rules_of(plan: &AskPlan, rules: &Rules) -> Result<Vec<Vec<Rule>>, Error> {
    let columns = plan.input.as_ref().map_or(0, |(_, keys)| keys.len());
    Ok(vesica_spec::rules("service.rules", rules, columns)?)
}

/// The keys that a plan's tables are about, and what is kept of them. The tables are the plan's, or the one of the keys that were added and the one of
/// those that were removed.
///
/// # Errors
/// What is wrong with the tables, with the row; those of the kept file.
pub fn read(
    plan: &AskPlan,
    (table, removed): (&dyn Table, Option<&dyn Table>),
    rules: &[Vec<Rule>],
    past: Option<&Past<'_>>,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<(Wants, Option<Known>), Error> {
    let (wants, day) = clock.phase("read", "rows", table.rows(), || match plan.day {
        None => Ok((Wants::read(plan, table, rules, ctl)?, None)),
        Some(_) => Day::read(plan, (table, removed), rules, ctl).map(|(wants, day)| (wants, Some(day))),
    })?;
    match past {
        None => Ok((wants, None)),
        Some(past) => {
            let (wants, known) = clock.phase("recall", "keys", None, || past.recall((wants, day), ctl))?;
            Ok((wants, Some(known)))
        }
    }
}
