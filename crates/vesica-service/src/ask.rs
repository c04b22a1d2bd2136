//! Which of a table's keys the service knows: from rows to the rows that were found, with their values.

use crate::error::Error;
use crate::fetch::{Fetched, update};
use crate::messages::{Counter, MOST_KEYS, MOST_LANES, shares};
use crate::offer::{Offer, hex};
use crate::{link, reveals, values};
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_job::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use vesica_job::rooms::{Clock, KeyId, Keys, PARTS, Reading, Share, probe, save};
use vesica_job::{Control, Event, Io, ReportFile, Target};
use vesica_net::{Link, WIRE_VERSION};
use vesica_oprf::function::{ClientFunction, Output};
use vesica_psi::unbalanced::{self, BATCH};
use vesica_session::{Reveal, SessionRng};
use vesica_spec::Duplicates;
use vesica_spec::service::AskPlan;
use vesica_store::Store;
use vesica_table::{Beside, Picks, Sink, Table, View, Widened, Written, gather};
use vesica_types::{KeyDigest, RowId};

/// Looks the keys of a table up, and writes the rows that were found: of the plan's files, if `io` is [`files`]. Fetches what the
/// cache lacks first.
///
/// # Errors
/// Faults of the plan and its files, before the server is contacted where they can be seen; those of connecting; a server that
/// refuses, or breaks the protocol. Nothing is left of the output then.
pub fn ask(plan: &AskPlan, io: Io, ctl: &Control) -> Result<Report, Error> {
    if plan.protocol.is_retrieval() {
        return crate::retrieve::ask::ask(plan, &io, ctl);
    }
    let mut clock = Clock::start(ctl);
    local(plan, &io)?;
    let endpoint = link::endpoint(plan)?;
    let link = clock.wait("connect", || link::connect(endpoint, ctl))?;
    let asked = asked(plan, &io, &link, &mut clock, ctl);
    let Answered { fetched, keys, outputs, lanes } = asked.inspect_err(|error| link::leave(&link, error))?;
    // The server has parted from this side. What is found, how long that takes and what goes wrong with it, it does not see.
    let hits = clock.phase("find", "keys", None, || found(&fetched.store, &outputs))?;
    drop(outputs);
    let write = || write(plan, &io, &fetched, &keys, &hits);
    let (output, matched_rows) = clock.phase("write", "rows", None, write)?;
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    let facts = Facts {
        offer: &fetched.offer,
        rows: keys.rows,
        keys: keys.distinct,
        empty: keys.empty,
        duplicates: keys.duplicates,
        matched: hits.len() as u64,
        matched_rows,
        output,
        reveals: reveals::of_asking(!fetched.offer.values.is_empty()),
        rules: rules(plan, &fetched.offer)?,
        units: keys.distinct.div_ceil(BATCH as u64),
        lanes,
        server_keys: fetched.store.len(),
    };
    report(plan, facts, &link, &names, clock)
}

/// What a report says that follows from what was asked, and not from the machine or the connection.
pub struct Facts<'a> {
    /// What the service is.
    pub offer: &'a Offer,
    /// Rows of the client's table.
    pub rows: u64,
    /// Different keys in them.
    pub keys: u64,
    /// Rows without a key.
    pub empty: u64,
    /// Rows with a key that an earlier row has.
    pub duplicates: u64,
    /// Keys that were found.
    pub matched: u64,
    /// Rows with a key that was found.
    pub matched_rows: u64,
    /// Where the rows went.
    pub output: Written,
    /// What was told to whom.
    pub reveals: Vec<Reveal>,
    /// The rules of each key column.
    pub rules: Vec<Vec<vesica_spec::Rule>>,
    /// Pieces of work.
    pub units: u64,
    /// How many of them at once.
    pub lanes: u64,
    /// Keys or rows of the server.
    pub server_keys: u64,
}

/// The report of an `ask`, which is written where the plan says.
///
/// # Errors
/// If it cannot be written.
pub fn report(
    plan: &AskPlan,
    facts: Facts<'_>,
    link: &Link,
    names: &[String; 2],
    mut clock: Clock<'_>,
) -> Result<Report, Error> {
    let (cost, times) = clock.close();
    let (traffic, secured, offer) = (link.traffic(), link.secured(), facts.offer);
    let output = facts.output;
    // Where no function protects the server's rows, there is no group.
    let has_function = offer.public().is_ok_and(|public| !public.is_empty());
    let report = Report {
        job: JobId {
            id: plan.id.clone(),
            shared_hash: hex(&offer.hash()),
            party: plan.me.name().to_owned(),
            parties: names.to_vec(),
            shared: String::new(),
            mine: String::new(),
        },
        outcome: Outcome {
            rows: facts.rows,
            keys: facts.keys,
            empty: facts.empty,
            duplicates: facts.duplicates,
            ruled: None,
            matched: Some(facts.matched),
            sum: None,
            matched_rows: Some(facts.matched_rows),
            output: Some(report::Written { path: output.path, rows: output.rows, bytes: output.bytes }),
        },
        revealed: report::revealed(&facts.reveals, names, &names[1..]),
        chosen: Chosen {
            protocol: offer.protocol.name().to_owned(),
            curve: has_function.then(|| offer.curve.name().to_owned()),
            security: if offer.verifiable { "verifiable" } else { "semi-honest" }.to_owned(),
            join: "inner".to_owned(),
            rules: facts.rules.iter().map(|rules| rules.iter().map(|rule| rule.id()).collect()).collect(),
            parameters: has_function.then(|| vesica_suite::function::set(offer.curve).to_owned()).into_iter().collect(),
            wire_version: WIRE_VERSION,
            cut: "whole".to_owned(),
            units: facts.units as u32,
            lanes: 0,
            in_flight: facts.lanes as u32,
            unit_capacity: 0,
            tag_bytes: offer.tag_bits.div_ceil(8),
            cpu: vesica_job::cpu::Backend::chosen().name().to_owned(),
            tls: secured.to_string(),
            expects: Vec::new(),
            peers: vec![PeerId {
                name: plan.server.name().to_owned(),
                fingerprint: secured.fingerprint.map(|fingerprint| fingerprint.to_string()),
                keys: facts.server_keys,
                unit_capacity: 0,
                attempts: 1,
                answered: 0,
                version: "not told".to_owned(),
            }],
        },
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
    let Some(output) = &plan.output else {
        return missing("mine.output", "name the file for the rows that are found: output = { path = \"…\" }");
    };
    let target: Box<dyn Target> = Box::new(output.clone());
    Ok(Io { table: vesica_table::open(input)?, target: Some(target), connections: Vec::new() })
}

/// What is wrong with the table and the place for its rows, as far as that is seen without the server.
pub fn local(plan: &AskPlan, io: &Io) -> Result<(), Error> {
    let table = &*io.table;
    // Asks for the columns, and reads nothing yet.
    drop(table.keys(plan.input.as_ref().map_or(&[], |(_, keys)| keys), 1)?);
    match &plan.columns {
        None => drop(target(io)?.sink(table)?),
        Some(names) => drop(target(io)?.sink(&View::new(table, names)?)?),
    }
    plan.report.as_deref().map_or(Ok(()), |path| probe("mine.report", path))?;
    Ok(())
}

/// Where rows go.
///
/// # Errors
/// If that is nowhere.
pub fn target(io: &Io) -> Result<&dyn Target, Error> {
    io.target.as_deref().ok_or_else(|| Error::Setup("mine.output is missing".into()))
}

/// A key with the function at it.
pub struct Asked {
    key: KeyId,
    /// The function.
    pub output: Output,
}

/// A key that was found.
struct Hit {
    key: KeyId,
    output: Output,
}

/// What came of the conversation.
struct Answered {
    fetched: Fetched,
    keys: Keys,
    /// In the order of keys.
    outputs: Vec<Asked>,
    lanes: u64,
}

fn asked(plan: &AskPlan, io: &Io, link: &Link, clock: &mut Clock<'_>, ctl: &Control) -> Result<Answered, Error> {
    let mut counter = Counter::open(link)?;
    let fetched = update(plan, &mut counter, ctl)?;
    // The columns that come with a key are known now, and where they go must be good before keys are paid for.
    let table = &*io.table;
    drop(sink(plan, io, &Nothing(fetched.offer.values.clone()))?);
    let function = function(&fetched.offer)?;
    let rules = rules(plan, &fetched.offer)?;
    let reading = Reading {
        keys: plan.input.as_ref().map_or(&[], |(_, keys)| keys),
        rules: &rules,
        duplicates: Duplicates::Join,
        memory: plan.memory,
        workers: plan.workers as u32,
    };
    let keys = clock.phase("read", "rows", table.rows(), || Keys::extract(table, reading, &plan.scratch, ctl))?;
    let ask = || ask_all(plan, &*function, &keys, &mut counter, ctl);
    let (outputs, lanes) = clock.phase("ask", "keys", Some(keys.distinct), ask)?;
    counter.end()?;
    Ok(Answered { fetched, keys, outputs, lanes })
}

/// The client's side of the function of an offer.
///
/// # Errors
/// If its public key is none.
pub fn function(offer: &Offer) -> Result<Box<dyn ClientFunction>, Error> {
    let public = offer.public().map_err(Error::Sent)?;
    vesica_suite::function::client(offer.curve, offer.verifiable.then_some(&public[..]))
        .map_err(|why| Error::Sent(format!("an offer that cannot be used: {why}")))
}

/// The rules of each key column, as the offer has them.
///
/// # Errors
/// If they are for another number of columns.
pub fn rules(plan: &AskPlan, offer: &Offer) -> Result<Vec<Vec<vesica_spec::Rule>>, Error> {
    let columns = plan.input.as_ref().map_or(0, |(_, keys)| keys.len());
    Ok(vesica_spec::service::rules(&offer.rules, columns)?)
}

/// The function at every key, in their order, and on how many lanes it was asked for. Requests are of one size but for the last: how
/// many keys have which digests does not show.
fn ask_all(
    plan: &AskPlan,
    function: &dyn ClientFunction,
    keys: &Keys,
    counter: &mut Counter<'_>,
    ctl: &Control,
) -> Result<(Vec<Asked>, u64), Error> {
    let (mut outputs, mut most_lanes) = (Vec::new(), 0);
    let mut waiting: Vec<(KeyDigest, KeyId)> = Vec::new();
    let done = AtomicU64::new(0);
    for part in 0..PARTS {
        keys.distinct(part, |digest, key, _| {
            waiting.push((KeyDigest(*digest), key));
            Ok(())
        })?;
        let is_last = part + 1 == PARTS;
        while waiting.len() as u64 >= MOST_KEYS || (is_last && !waiting.is_empty()) {
            let rest = waiting.split_off(waiting.len().min(MOST_KEYS as usize));
            let lanes = (waiting.len() as u64).div_ceil(BATCH as u64).min(plan.workers as u64).min(MOST_LANES);
            most_lanes = lanes.max(most_lanes);
            outputs.extend(request(function, &waiting, lanes, counter, &done, ctl)?);
            waiting = rest;
        }
    }
    Ok((outputs, most_lanes))
}

/// One request: the function at the keys of `asked`.
///
/// # Errors
/// Those of the lines; the server's, if it breaks the protocol.
pub fn request(
    function: &dyn ClientFunction,
    asked: &[(KeyDigest, KeyId)],
    lanes: u64,
    counter: &mut Counter<'_>,
    done: &AtomicU64,
    ctl: &Control,
) -> Result<Vec<Asked>, Error> {
    let lines = counter.ask(asked.len() as u64, lanes)?;
    std::thread::scope(|scope| {
        let on_a_lane = |(mut line, share): (Box<dyn vesica_session::Channel>, std::ops::Range<u64>)| {
            let asked = &asked[share.start as usize..share.end as usize];
            scope.spawn(move || -> Result<Vec<Asked>, Error> {
                let digests: Vec<KeyDigest> = asked.iter().map(|(digest, _)| *digest).collect();
                let mut rng = SessionRng::from_os()
                    .map_err(|e| Error::Setup(format!("the system has no randomness to give: {e}")))?;
                let mut all = Vec::with_capacity(asked.len());
                unbalanced::ask(function, &digests, &mut *line, &mut rng, |_, outputs| {
                    ctl.check()?;
                    let keys = &asked[all.len()..];
                    let n = outputs.len() as u64;
                    all.extend(keys.iter().zip(outputs).map(|((_, key), output)| Asked { key: *key, output }));
                    ctl.event(Event::Done(done.fetch_add(n, Ordering::Relaxed) + n));
                    Ok(())
                })?;
                Ok(all)
            })
        };
        let working: Vec<_> = lines.into_iter().zip(shares(asked.len() as u64, lanes)).map(on_a_lane).collect();
        let mut all = Vec::with_capacity(asked.len());
        for lane in working {
            all.extend(lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    })
}

/// Keys that are looked up together: they go through the store in the order of tags.
const TOGETHER: usize = 1 << 16;

/// Those keys that are in the store.
fn found(store: &Store, asked: &[Asked]) -> Result<Vec<Hit>, Error> {
    let mut hits = Vec::new();
    for asked in asked.chunks(TOGETHER) {
        let bytes: Vec<[u8; 32]> = asked.iter().map(|asked| asked.output.0).collect();
        let found = store.find_all(&bytes)?;
        let here = asked.iter().zip(found).filter(|(_, found)| found.is_some());
        hits.extend(here.map(|(asked, _)| Hit { key: asked.key, output: asked.output }));
    }
    Ok(hits)
}

/// The values that stand beside rows that were found.
pub struct Looked<'a> {
    /// The names of their columns.
    pub names: &'a [String],
    /// Rows, ascending, and which hit each belongs to.
    pub rows: Vec<(u64, u32)>,
    /// The values of a hit.
    pub texts: &'a (dyn Fn(u32) -> Result<Vec<Option<String>>, Error> + Send + Sync),
}

impl Beside for Looked<'_> {
    fn names(&self) -> &[String] {
        self.names
    }

    fn texts(&self, row: RowId) -> Result<Vec<Option<String>>, vesica_table::Error> {
        let at = self.rows.binary_search_by_key(&row.0, |(row, _)| *row);
        let at = at.map_err(|_| vesica_table::Error::Bug("a row that was not found".to_owned()))?;
        (self.texts)(self.rows[at].1).map_err(|error| vesica_table::Error::Beside(error.to_string()))
    }
}

/// Columns without rows, to see whether an output can have them.
pub struct Nothing(pub Vec<String>);

impl Beside for Nothing {
    fn names(&self) -> &[String] {
        &self.0
    }

    fn texts(&self, _: RowId) -> Result<Vec<Option<String>>, vesica_table::Error> {
        Err(vesica_table::Error::Bug("a row of a table without rows".to_owned()))
    }
}

/// Does `work` with the table that the output is of: the plan's columns, and those of `beside` behind them.
///
/// # Errors
/// Those of `work`; a column that is there twice.
pub fn widened<T>(
    plan: &AskPlan,
    table: &dyn Table,
    beside: &dyn Beside,
    work: impl FnOnce(&dyn Table) -> Result<T, Error>,
) -> Result<T, Error> {
    let view = plan.columns.as_ref().map(|names| View::new(table, names)).transpose()?;
    let own: &dyn Table = view.as_ref().map_or(table, |view| view);
    if beside.names().is_empty() {
        return work(own);
    }
    let null = plan.output.as_ref().map_or("", |output| &output.null);
    let wide = Widened::new(own, beside, null).map_err(|error| match error {
        vesica_table::Error::Ambiguous { name, .. } => Error::Setup(format!(
            "the service's values have a column {name:?}, and so has the table: name the columns to write in \
             mine.output.columns, without that one"
        )),
        error => error.into(),
    })?;
    work(&wide)
}

/// A place for the rows.
///
/// # Errors
/// What is wrong with the output.
pub fn sink(plan: &AskPlan, io: &Io, beside: &dyn Beside) -> Result<Box<dyn Sink>, Error> {
    widened(plan, &*io.table, beside, |wide| Ok(target(io)?.sink(wide)?))
}

/// Writes the rows that were found, and says how many there are.
fn write(plan: &AskPlan, io: &Io, fetched: &Fetched, keys: &Keys, hits: &[Hit]) -> Result<(Written, u64), Error> {
    let mut picks = Picks::new(keys.rows, Share::Picks.of(plan.memory), &plan.scratch)?;
    let mut rows = Vec::new();
    let mut next = (0..).zip(hits).peekable();
    for part in 0..PARTS {
        // The place of the next key of the part.
        let mut place = 0;
        let mut now = None;
        keys.each(part, |first, row| {
            if first {
                let key = KeyId::new(part, place);
                place += 1;
                now = next.next_if(|(_, hit)| hit.key == key).map(|(number, _)| number);
            }
            if let Some(number) = now {
                picks.push_turn(RowId(row), 1)?;
                rows.push((row, number));
            }
            Ok(())
        })?;
    }
    if next.next().is_some() {
        return Err(vesica_session::Error::Bug("a key that was found has no row".into()).into());
    }
    rows.sort_unstable();
    let matched = rows.len() as u64;
    let texts = |hit: u32| {
        let output = &hits[hit as usize].output.0;
        let opened = fetched.store.find(output)?.map(|found| found.value(output)).transpose()?;
        let value = opened.ok_or_else(|| vesica_session::Error::Bug("a key that was found is gone".into()))?;
        values::decode(&value, fetched.offer.values.len())
    };
    let looked = Looked { names: &fetched.offer.values, rows, texts: &texts };
    let written = widened(plan, &*io.table, &looked, |wide| {
        let mut sink = target(io)?.sink(wide)?;
        gather(wide, picks, Share::Output.of(plan.memory), plan.workers, &plan.scratch, &mut *sink)?;
        Ok(sink.finish()?.commit()?)
    })?;
    Ok((written, matched))
}
