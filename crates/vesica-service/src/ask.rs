//! Which of a table's keys the service knows: from rows to the rows that were found, with their values.
//!
//! One road for all protocols. What a client copies first, what it asks for beside the function, and how it finds rows in what came are
//! the protocol's ([`Copied`]).

use crate::answer::MOST_REFUSALS;
use crate::budget::{Pace, Remedy, remedy};
use crate::day::{Day, Texts};
use crate::error::Error;
use crate::fetch::update;
use crate::kept::{self, Ending, Kept, Known, Past};
use crate::link;
use crate::messages::{Counter, MOST_KEYS, MOST_LANES, shares};
use crate::offer::{Offer, hex};
use crate::output::{are_apart, changes, local, room, takes, told, write};
use crate::suite::{self, Asked, Copied, Earlier, Fetched};
use crate::wants::{Wants, padded};
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_job::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use vesica_job::rooms::{Clock, save, scope};
use vesica_job::{Control, Event, Io, ReportFile, Target, World};
use vesica_net::{PeerLink, WIRE_VERSION};
use vesica_oprf::function::ClientFunction;
use vesica_psi::unbalanced::{self, BATCH};
use vesica_spec::service::{AskPlan, By};
use vesica_spec::{Rule, Rules};
use vesica_table::{Table, View};
use vesica_types::KeyDigest;

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
    local(plan, &io)?;
    let removed = removed(plan)?;
    are_apart(plan, &*io.table, removed.as_deref())?;
    let endpoint = link::endpoint(plan, ctl)?;
    let kept = Kept::open(plan, &io.world, ctl)?;
    // The table is read before the server hears of anything: how long that takes depends on rows that the server is not told of. So is what was kept,
    // of which there is more the larger the table is.
    let (rules, are_known) = expected_rules(plan)?;
    let tables = (&*io.table, removed.as_deref());
    let (wants, mut known) = read(plan, tables, &rules, kept.as_ref().map(Kept::past), &mut clock, ctl)?;
    if are_known {
        known.as_mut().map_or(Ok(()), |known| known.judged(ctl))?;
    }
    let mut kept = kept.zip(known);
    let link = clock.wait("connect", || link::connect(endpoint, &io.world, ctl))?;
    let asked = asked(plan, (&io, removed.as_deref()), (rules, wants, &mut kept), &*link, &mut clock, ctl);
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
    let known = kept.as_ref().map(|(_, known)| known);
    let written = clock.phase("write", "rows", None, || write(plan, &io, &offer.values, &wants, &hits, known))?;
    let outcome = Outcome {
        rows: wants.rows,
        keys: wants.digests.len() as u64,
        empty: wants.empty,
        duplicates: wants.duplicates,
        ruled: None,
        matched: Some(hits.iter().filter(|hit| hit.came.is_ok()).count() as u64),
        sum: None,
        groups: None,
        matched_rows: Some(written.matched),
        output: written.output.map(|output| report::Written {
            path: output.path,
            rows: output.rows,
            bytes: output.bytes,
        }),
        attempt: None,
        left_out: told(written.lost, plan, server_rows, ctl),
        changes: kept.as_ref().zip(next.as_ref()).map(|((_, known), next)| known.changes(next)),
    };
    let rules = if plan.by == By::Index { Vec::new() } else { rules };
    let chosen = chosen(plan, &offer, &rules, &*link, Work { units, lanes, server_rows });
    let report = report(plan, &offer, outcome, chosen, &*link, clock)?;
    Ok(Run { report, kept: kept.zip(next).map(|((kept, _), next)| kept.ending(next)) })
}

/// How much there was to do.
struct Work {
    /// Pieces of work.
    units: u64,
    /// How many of them at once.
    lanes: u64,
    /// Keys or rows of the server.
    server_rows: u64,
}

/// What a report says of the protocol and the server.
fn chosen(plan: &AskPlan, offer: &Offer, rules: &[Vec<Rule>], link: &dyn PeerLink, work: Work) -> Chosen {
    // Where no function protects the server's rows, there is no group.
    let has_function = offer.public().is_ok_and(|public| !public.is_empty());
    let secured = link.secured();
    Chosen {
        protocol: offer.protocol.name().to_owned(),
        curve: has_function.then(|| offer.curve.name().to_owned()),
        security: if offer.verifiable { "verifiable" } else { "semi-honest" }.to_owned(),
        join: "inner".to_owned(),
        rules: rules.iter().map(|rules| rules.iter().map(|rule| rule.id()).collect()).collect(),
        parameters: (has_function.then(|| vesica_suite::function::set(offer.curve)).into_iter())
            .chain(offer.kind().set())
            .map(str::to_owned)
            .collect(),
        wire_version: WIRE_VERSION,
        cut: "whole".to_owned(),
        units: work.units as u32,
        lanes: 0,
        in_flight: work.lanes as u32,
        unit_capacity: 0,
        tag_bytes: offer.tag_bits.div_ceil(8),
        cpu: vesica_job::cpu::Backend::chosen().name().to_owned(),
        tls: secured.to_string(),
        expects: Vec::new(),
        peers: vec![PeerId {
            name: plan.server.name().to_owned(),
            fingerprint: secured.fingerprint.map(|fingerprint| fingerprint.to_string()),
            keys: work.server_rows,
            unit_capacity: 0,
            attempts: 1,
            answered: 0,
            version: "not told".to_owned(),
        }],
    }
}

/// The report, which is written where the plan says.
fn report(
    plan: &AskPlan,
    offer: &Offer,
    outcome: Outcome,
    chosen: Chosen,
    link: &dyn PeerLink,
    mut clock: Clock<'_>,
) -> Result<Report, Error> {
    let ((cost, times), traffic) = (clock.close(), link.traffic());
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    let report = Report {
        job: JobId {
            id: plan.id.clone(),
            run: clock.run(),
            called: None,
            shared_hash: hex(&offer.hash()),
            party: plan.me.name().to_owned(),
            parties: names.to_vec(),
            shared: String::new(),
            mine: String::new(),
        },
        outcome,
        revealed: report::revealed(&suite::reveals(offer), &names, &names[1..]),
        chosen,
        cost,
        total: TotalCost {
            wall_s: times.wall.as_secs_f64(),
            waited_s: times.waited.as_secs_f64(),
            cpu_s: times.cpu.as_secs_f64(),
            sent: traffic.sent,
            received: traffic.received,
            peak_memory: times.peak_memory,
        },
        host: Host::here(),
    };
    if let Some(path) = &plan.report {
        save(path, "cannot write the report", &ReportFile::named(path).text(&report))?;
    }
    Ok(report)
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

/// The rules of each key column as far as they are known before the server is contacted, and whether they are: those of the offer that was
/// fetched before, if it is the one that the plan pins; else none.
pub fn expected_rules(plan: &AskPlan) -> Result<(Vec<Vec<Rule>>, bool), Error> {
    let kept = Offer::load(&plan.cache).ok().filter(|offer| plan.offer.is_none_or(|pinned| offer.hash() == pinned));
    let kept = kept.and_then(|offer| rules_of(plan, &offer.rules).ok()).map(|rules| (rules, true));
    kept.map_or_else(|| Ok((rules_of(plan, &Rules::default())?, false)), Ok)
}

/// These rules for each key column of the client's table.
fn rules_of(plan: &AskPlan, rules: &Rules) -> Result<Vec<Vec<Rule>>, Error> {
    let columns = plan.input.as_ref().map_or(0, |(_, keys)| keys.len());
    Ok(vesica_spec::service::rules(rules, columns)?)
}

/// What is kept from run to run, and what of it is about this table.
type Recalled<'a> = (Kept<'a>, Known);

/// What came of the conversation.
struct Answered {
    offer: Offer,
    copied: Box<dyn Copied>,
    rules: Vec<Vec<Rule>>,
    wants: Wants,
    /// What opens the values of each want: the function at it, or where there is none its digest.
    outputs: Vec<[u8; 32]>,
    lookups: u64,
    lanes: u64,
    /// Keys or rows of the server.
    server_rows: u64,
}

fn asked(
    plan: &AskPlan,
    (io, removed): (&Io, Option<&dyn Table>),
    (mut rules, mut wants, kept): (Vec<Vec<Rule>>, Wants, &mut Option<Recalled<'_>>),
    link: &dyn PeerLink,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<Answered, Error> {
    let mut counter = Counter::open(link)?;
    let (offer, fetched) = update(plan, &mut counter, &io.world, ctl)?;
    let Fetched { rows: server_rows, news, is_silent, mut copied } = fetched;
    news.into_iter().for_each(|news| ctl.note(news));
    if let Some((kept, _)) = kept {
        kept.check(&counter.server(), &copied.state())?;
    }
    // Where everything is here already, the server goes before a row is looked up: it does not see how many there are.
    if is_silent {
        counter.end()?;
    }
    // The columns that come with a row are known now, and where they go must be good before rows are paid for.
    takes(plan, io, &offer.values)?;
    if plan.by == By::Key {
        let now = rules_of(plan, &offer.rules)?;
        if now != rules {
            let past = kept.as_ref().map(|(kept, _)| kept.past());
            let (anew, recalled) = read(plan, (&*io.table, removed), &now, past, clock, ctl)?;
            (wants, rules) = (anew, now);
            if let (Some((_, known)), Some(recalled)) = (kept.as_mut(), recalled) {
                *known = recalled;
            }
        }
    }
    kept.as_mut().map_or(Ok(()), |(_, known)| known.judged(ctl))?;
    wants.replace_absent(server_rows, &mut io.world.rng()?);
    let lookups = padded(kept.as_ref().map_or(wants.digests.len(), |(_, known)| known.new.len()), plan.batch);
    let texts = kept.as_ref().and_then(|(_, known)| known.texts.as_ref()).map_or(0, Texts::bytes);
    let kept_bytes =
        if kept.is_some() { texts.saturating_add(kept::bytes(wants.digests.len() as u64, lookups)) } else { 0 };
    let bytes = if plan.day.is_some() { texts } else { io.table.bytes().unwrap_or(0) };
    room(plan, io, &offer, (wants.rows - wants.empty, bytes), kept_bytes)?;
    copied.prepare(plan, lookups, clock)?;
    let (outputs, lanes) = match kept {
        _ if !offer.has_function() => (wants.digests.clone(), 1),
        None => {
            let function = function(&offer, copied.public())?;
            let (mut outputs, keys) = (Vec::with_capacity(wants.digests.len()), wants.digests.iter().copied());
            let take = |_: &[_], answers: &[[u8; 32]]| {
                outputs.extend(answers.iter().take(wants.digests.len() - outputs.len()));
                Ok(())
            };
            let all = (keys, lookups, MOST_KEYS);
            let evaluate = || evaluate((plan, &io.world), &*function, all, &mut counter, take, ctl);
            let lanes = clock.phase("ask", "keys", Some(lookups), evaluate)?;
            (outputs, lanes)
        }
        Some((kept, known)) => {
            let function = function(&offer, copied.public())?;
            let (mut outputs, new) = (std::mem::take(&mut known.outputs), &known.new);
            kept.recalled();
            kept.begin(&offer)?;
            let (mut places, keys) = (new.iter(), new.iter().map(|&want| wants.digests[want as usize]));
            // Made-up keys and their answers are written like others: the server sees how long that takes.
            let keep = |keys: &[_], answers: &[_]| {
                kept.answered(keys, answers)?;
                answers.iter().zip(&mut places).for_each(|(answer, &want)| outputs[want as usize] = *answer);
                Ok(())
            };
            let all = (keys, lookups, KEPT_AT_ONCE);
            let evaluate = || evaluate((plan, &io.world), &*function, all, &mut counter, keep, ctl);
            let lanes = clock.phase("ask", "keys", Some(lookups), evaluate)?;
            (outputs, lanes)
        }
    };
    copied.retrieve(
        Asked { plan, wants: &wants, outputs: &outputs, lookups, world: &io.world },
        &mut counter,
        clock,
        ctl,
    )?;
    if !is_silent {
        counter.end()?;
    }
    Ok(Answered { offer, copied, rules, wants, outputs, lookups, lanes, server_rows })
}

/// The client's side of the function of an offer, with the public key of the state that is served.
///
/// # Errors
/// If its public key is none.
pub fn function(offer: &Offer, public: Result<Vec<u8>, String>) -> Result<Box<dyn ClientFunction>, Error> {
    let public = public.map_err(Error::Sent)?;
    vesica_suite::function::client(offer.curve, offer.verifiable.then_some(&public[..]))
        .map_err(|why| Error::Sent(format!("an offer that cannot be used: {why}")))
}

/// Keys of a request whose answers are kept when all of them are there. The server has counted them before it answers, so a client that is killed
/// meanwhile has asked for so many in vain. Tests have small tables.
const KEPT_AT_ONCE: u64 = if cfg!(test) { 16 } else { 1 << 20 };

/// Asks for the function at each want, and at random keys up to `lookups`; on how many lanes at most. A request has up to `most` keys, and `each`
/// gets the keys of each and the function at them when it is answered. If that is [`KEPT_AT_ONCE`], answers are kept: then what is left of an
/// allowance is asked for before a run ends at its end, for else a client whose next request is larger than that would never get on.
fn evaluate(
    (plan, world): (&AskPlan, &World),
    function: &dyn ClientFunction,
    (wants, lookups, most): (impl ExactSizeIterator<Item = [u8; 32]>, u64, u64),
    counter: &mut Counter<'_>,
    mut each: impl FnMut(&[KeyDigest], &[[u8; 32]]) -> Result<(), Error>,
    ctl: &Control,
) -> Result<u64, Error> {
    let (mut rng, time, keeps) = (world.rng()?, &*world.time, most == KEPT_AT_ONCE);
    let more = lookups as usize - wants.len();
    let fillers = std::iter::repeat_with(|| rng.bytes()).take(more);
    let mut keys = wants.chain(fillers).map(KeyDigest);
    let (mut most_lanes, done) = (0, AtomicU64::new(0));
    // Parts of an allowance are whole batches: when the run goes on, as many made-up keys are missing as would have been.
    let batch = if keeps { plan.batch.min(most) } else { 1 };
    let full = (most - most % batch) as usize;
    let (mut part, mut most, mut refusals, mut pace) = (Vec::new(), full, 0, Pace::new(time.now()));
    loop {
        // Each request but the last has as many keys as there may be, or as are left.
        part.extend(keys.by_ref().take(most.saturating_sub(part.len())));
        if part.is_empty() {
            return Ok(most_lanes);
        }
        let asked = &part[..part.len().min(most)];
        let lanes = (asked.len() as u64).div_ceil(BATCH as u64).min(plan.workers as u64).min(MOST_LANES);
        most_lanes = lanes.max(most_lanes);
        let wait = pace.left(time.now());
        if !wait.is_zero() {
            time.sleep(wait, &|| ctl.is_cancelled());
            ctl.check()?;
        }
        let begun = time.now();
        let error = match request(function, asked, lanes, counter, (&done, world), ctl) {
            Ok(answers) => {
                each(asked, &answers)?;
                let answered = asked.len();
                part.drain(..answered);
                pace.granted(begun);
                // Another day may have begun.
                most = full;
                continue;
            }
            Err(error) => error,
        };
        refusals += 1;
        let remedy = match &error {
            // With one more the server would end the connection.
            Error::Refused { why, .. } if keeps && refusals + 1 < MOST_REFUSALS => remedy(why),
            _ => None,
        };
        match remedy {
            Some(Remedy::Fewer(left)) if (batch..asked.len() as u64).contains(&left) => {
                most = (left - left % batch) as usize
            }
            Some(Remedy::Fewer(left)) if batch > 1 && left < batch => return Err(too_few(error, batch)),
            Some(Remedy::Wait(span)) => pace.refused(time.now(), span),
            _ => return Err(error),
        }
    }
}

/// What is said where less is left of an allowance than the least that is asked for at a time.
fn too_few(refused: Error, batch: u64) -> Error {
    let Error::Refused { server, why } = refused else { return refused };
    let why = format!(
        "{why}; a request has whole batches of mine.batch = {batch}, so it takes that many at least: wait for the next day, and if the service allows \
         no more than that on any day, take a smaller mine.batch"
    );
    Error::Refused { server, why }
}

/// One request: the function at some keys.
///
/// # Errors
/// Those of the lines; the server's, if it breaks the protocol.
pub fn request(
    function: &dyn ClientFunction,
    asked: &[KeyDigest],
    lanes: u64,
    counter: &mut Counter<'_>,
    (done, world): (&AtomicU64, &World),
    ctl: &Control,
) -> Result<Vec<[u8; 32]>, Error> {
    let lines = counter.ask(asked.len() as u64, lanes)?;
    let mut answers: Vec<Result<Vec<[u8; 32]>, Error>> = lines.iter().map(|_| Ok(Vec::new())).collect();
    scope(&*world.turns, |threads| {
        for ((mut line, share), answer) in lines.into_iter().zip(shares(asked.len() as u64, lanes)).zip(&mut answers) {
            let asked = &asked[share.start as usize..share.end as usize];
            let mut on_a_lane = move || -> Result<Vec<[u8; 32]>, Error> {
                let (mut rng, mut all) = (world.rng()?, Vec::with_capacity(asked.len()));
                unbalanced::ask(function, asked, &mut *line, &mut rng, |_, outputs| {
                    ctl.check()?;
                    let n = outputs.len() as u64;
                    all.extend(outputs.into_iter().map(|output| output.0));
                    ctl.event(Event::Done(done.fetch_add(n, Ordering::Relaxed) + n));
                    Ok(())
                })?;
                Ok(all)
            };
            threads.spawn(move || *answer = on_a_lane());
        }
    });
    let mut all = Vec::with_capacity(asked.len());
    answers.into_iter().try_for_each(|answer| answer.map(|outputs| all.extend(outputs)))?;
    Ok(all)
}
