//! Which of a table's keys the service knows: from rows to the rows that were found, with their values.

use crate::error::Error;
use crate::fetch::{Fetched, update};
use crate::messages::{Counter, MOST_KEYS, MOST_LANES, shares};
use crate::offer::{Offer, hex};
use crate::{link, reveals, values};
use std::sync::atomic::{AtomicU64, Ordering};
use vesica_job::report::{self, Chosen, Host, JobId, LeftOut, Outcome, PeerId, Report, TotalCost};
use vesica_job::rooms::{Clock, KeyId, Keys, PARTS, Reading, Share, probe, save};
use vesica_job::{Control, Event, Io, ReportFile, Target};
use vesica_net::{Link, WIRE_VERSION};
use vesica_oprf::function::{ClientFunction, Output};
use vesica_psi::unbalanced::{self, BATCH};
use vesica_session::{Reveal, SessionRng};
use vesica_spec::service::AskPlan;
use vesica_spec::{Duplicates, Rule, Rules};
use vesica_store::{Found, Says};
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
    // The table is read before the server hears of anything: how long that takes depends on rows that the server is not told of.
    let read = clock.phase("read", "rows", io.table.rows(), || Read::new(plan, &io, expected_rules(plan)?, ctl))?;
    let link = clock.wait("connect", || link::connect(endpoint, ctl))?;
    let asked = asked(plan, &io, read, &link, &mut clock, ctl);
    let Answered { fetched, keys, outputs, lanes } = asked.inspect_err(|error| link::leave(&link, error))?;
    // The server has parted from this side. What is found and how long that takes, it does not see. Nor does anything fail by what is found:
    // the server wrote that, and would see a user who asks again, or complains.
    let hits = clock.phase("find", "keys", None, || found(&fetched, &outputs))?;
    drop(outputs);
    let write = || write(plan, &io, &fetched, &keys, &hits);
    let (output, matched_rows, unreadable) = clock.phase("write", "rows", None, write)?;
    let left_out = told([(Lost::Unreadable, unreadable)], plan, fetched.store.len(), ctl);
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    let facts = Facts {
        offer: &fetched.offer,
        rows: keys.rows,
        keys: keys.distinct,
        empty: keys.empty,
        duplicates: keys.duplicates,
        matched: hits.iter().filter(|hit| hit.entry.is_some()).count() as u64,
        matched_rows,
        output,
        left_out,
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
    /// Rows that count as not found, and why.
    pub left_out: Vec<LeftOut>,
    /// What was told to whom.
    pub reveals: Vec<Reveal>,
    /// The rules of each key column.
    pub rules: Vec<Vec<Rule>>,
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
            left_out: facts.left_out,
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
struct Hit<'a> {
    key: KeyId,
    output: Output,
    /// The entry, whose value opens; none if what the store has cannot be read.
    entry: Option<Found<'a>>,
}

/// Why a row counts as not found, although nothing says that it is not there. None of it ends a run: the server could otherwise make a run
/// fail by what is looked up, and see that it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// What the server has there cannot be read. What the client copied is what the server wrote, so the server wrote that.
    Unreadable,
    /// A window of Piano could not serve it.
    Unfetched,
    /// The number of a row that the server says it does not have.
    NoSuchRow,
}

impl Lost {
    /// A word and a sentence for a server's table of so many rows.
    fn in_words(self, rows: u64) -> (&'static str, String) {
        match self {
            Lost::Unreadable => (
                "unreadable",
                "What the server has there cannot be read. Only the server can have made it so, perhaps to learn whether these rows are looked \
                 up: let nobody see that they are, and do not repeat the run for them"
                    .to_owned(),
            ),
            Lost::Unfetched => (
                "unfetched",
                "Too many queries of one window fell into one part of the server's table, so it is not known what the server has there. A later \
                 run brings them if it has a new window; do not repeat the run for them"
                    .to_owned(),
            ),
            Lost::NoSuchRow => (
                "no_such_row",
                format!(
                    "The server says that its table has {rows} rows, which are counted from 0 and end below these numbers. Only the server \
                     says so, perhaps to learn how the numbers compare with that: do not repeat the run because of it, unless you know from \
                     elsewhere how many rows the table has"
                ),
            ),
        }
    }
}

/// Tells the user of rows that count as not found, and gives what the report says of them. The server's table has `server_rows` rows.
pub fn told(
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

/// The rules of each key column as far as they are known before the server is contacted: those of the offer that was fetched before, if it
/// is the one that the plan pins; else none.
pub fn expected_rules(plan: &AskPlan) -> Result<Vec<Vec<Rule>>, Error> {
    let kept = Offer::load(&plan.cache).ok().filter(|offer| plan.offer.is_none_or(|pinned| offer.hash() == pinned));
    let kept = kept.and_then(|offer| rules(plan, &offer).ok());
    kept.map_or_else(|| Ok(vesica_spec::service::rules(&Rules::default(), columns(plan))?), Ok)
}

/// How many columns of the client's table make up a key.
fn columns(plan: &AskPlan) -> usize {
    plan.input.as_ref().map_or(0, |(_, keys)| keys.len())
}

/// The client's table, read and cut into requests.
struct Read {
    rules: Vec<Vec<Rule>>,
    keys: Keys,
    /// Different keys in their order; each request but the last has [`MOST_KEYS`]: how many keys have which digests does not show.
    requests: Vec<Vec<(KeyDigest, KeyId)>>,
}

impl Read {
    fn new(plan: &AskPlan, io: &Io, rules: Vec<Vec<Rule>>, ctl: &Control) -> Result<Self, Error> {
        let reading = Reading {
            keys: plan.input.as_ref().map_or(&[], |(_, keys)| keys),
            rules: &rules,
            duplicates: Duplicates::Join,
            memory: plan.memory,
            workers: plan.workers as u32,
        };
        let keys = Keys::extract(&*io.table, reading, &plan.scratch, ctl)?;
        let mut requests: Vec<Vec<_>> = Vec::new();
        for part in 0..PARTS {
            keys.distinct(part, |digest, key, _| {
                match requests.last_mut().filter(|request| (request.len() as u64) < MOST_KEYS) {
                    Some(request) => request.push((KeyDigest(*digest), key)),
                    None => requests.push(vec![(KeyDigest(*digest), key)]),
                }
                Ok(())
            })?;
        }
        Ok(Self { rules, keys, requests })
    }
}

/// What came of the conversation.
struct Answered {
    fetched: Fetched,
    keys: Keys,
    /// In the order of keys.
    outputs: Vec<Asked>,
    lanes: u64,
}

fn asked(
    plan: &AskPlan,
    io: &Io,
    mut read: Read,
    link: &Link,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<Answered, Error> {
    let mut counter = Counter::open(link)?;
    let fetched = update(plan, &mut counter, ctl)?;
    // All of the copy is compared with its sums before a key is looked up. So whether it has to be fetched again depends on no key, and what
    // is wrong with an entry is the server's doing.
    clock.phase("check", "bytes", Some(fetched.store.manifest().bytes()), || fetched.store.verify(plan.workers))?;
    // The columns that come with a key are known now, and where they go must be good before keys are paid for.
    drop(sink(plan, io, &Nothing(fetched.offer.values.clone()))?);
    let function = function(&fetched.offer, fetched.offer.public())?;
    let rules = rules(plan, &fetched.offer)?;
    if rules != read.rules {
        read = clock.phase("read", "rows", io.table.rows(), || Read::new(plan, io, rules, ctl))?;
    }
    let Read { keys, requests, .. } = read;
    let ask = || ask_all(plan, &*function, requests, &mut counter, ctl);
    let (outputs, lanes) = clock.phase("ask", "keys", Some(keys.distinct), ask)?;
    counter.end()?;
    Ok(Answered { fetched, keys, outputs, lanes })
}

/// The client's side of a function of an offer, with this public key: the offer's, or an epoch's.
///
/// # Errors
/// If its public key is none.
pub fn function(offer: &Offer, public: Result<Vec<u8>, String>) -> Result<Box<dyn ClientFunction>, Error> {
    let public = public.map_err(Error::Sent)?;
    vesica_suite::function::client(offer.curve, offer.verifiable.then_some(&public[..]))
        .map_err(|why| Error::Sent(format!("an offer that cannot be used: {why}")))
}

/// The rules of each key column, as the offer has them.
///
/// # Errors
/// If they are for another number of columns.
pub fn rules(plan: &AskPlan, offer: &Offer) -> Result<Vec<Vec<Rule>>, Error> {
    Ok(vesica_spec::service::rules(&offer.rules, columns(plan))?)
}

/// The function at every key, in their order, and on how many lanes it was asked for.
fn ask_all(
    plan: &AskPlan,
    function: &dyn ClientFunction,
    requests: Vec<Vec<(KeyDigest, KeyId)>>,
    counter: &mut Counter<'_>,
    ctl: &Control,
) -> Result<(Vec<Asked>, u64), Error> {
    let (mut outputs, mut most_lanes) = (Vec::new(), 0);
    let done = AtomicU64::new(0);
    for keys in requests {
        let lanes = (keys.len() as u64).div_ceil(BATCH as u64).min(plan.workers as u64).min(MOST_LANES);
        most_lanes = lanes.max(most_lanes);
        outputs.extend(request(function, &keys, lanes, counter, &done, ctl)?);
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

/// Those keys that the store has something of.
fn found<'a>(fetched: &'a Fetched, asked: &[Asked]) -> Result<Vec<Hit<'a>>, Error> {
    let columns = fetched.offer.values.len();
    let mut hits = Vec::new();
    for asked in asked.chunks(TOGETHER) {
        let bytes: Vec<[u8; 32]> = asked.iter().map(|asked| asked.output.0).collect();
        for (&Asked { key, output }, says) in asked.iter().zip(fetched.store.find_all(&bytes)?) {
            let entry = match says {
                Says::Nothing => continue,
                Says::Nonsense => None,
                Says::Entry(entry) => Some(entry).filter(|entry| texts(entry, &output, columns).is_some()),
            };
            hits.push(Hit { key, output, entry });
        }
    }
    Ok(hits)
}

/// The values of an entry, one a column; none if they cannot be read.
fn texts(entry: &Found<'_>, output: &Output, columns: usize) -> Option<Vec<Option<String>>> {
    match columns {
        0 => Some(Vec::new()),
        _ => values::decode(&entry.value(&output.0)?, columns),
    }
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

/// Writes the rows that were found, and says how many there are, and which rows' entries cannot be read.
fn write(
    plan: &AskPlan,
    io: &Io,
    fetched: &Fetched,
    keys: &Keys,
    hits: &[Hit<'_>],
) -> Result<(Written, u64, Vec<u64>), Error> {
    let mut picks = Picks::new(keys.rows, Share::Picks.of(plan.memory), &plan.scratch)?;
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    let mut next = (0..).zip(hits).peekable();
    for part in 0..PARTS {
        // The place of the next key of the part.
        let mut place = 0;
        let mut now = None;
        keys.each(part, |first, row| {
            if first {
                let key = KeyId::new(part, place);
                place += 1;
                now = next.next_if(|(_, hit)| hit.key == key);
            }
            match now {
                Some((number, Hit { entry: Some(_), .. })) => {
                    picks.push_turn(RowId(row), 1)?;
                    rows.push((row, number));
                }
                Some(_) => unreadable.push(row),
                None => {}
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
        let Hit { output, entry, .. } = &hits[hit as usize];
        let texts = entry.and_then(|entry| texts(&entry, output, fetched.offer.values.len()));
        // It opened before, and is opened again so that not all values are in memory at once.
        texts.ok_or_else(|| Error::Damaged {
            path: fetched.store.folder().to_owned(),
            why: "a file changed while it was read".to_owned(),
        })
    };
    let looked = Looked { names: &fetched.offer.values, rows, texts: &texts };
    let written = widened(plan, &*io.table, &looked, |wide| {
        let mut sink = target(io)?.sink(wide)?;
        gather(wide, picks, Share::Output.of(plan.memory), plan.workers, &plan.scratch, &mut *sink)?;
        Ok(sink.finish()?.commit()?)
    })?;
    Ok((written, matched, unreadable))
}
