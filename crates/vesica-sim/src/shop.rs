//! A service with its clients: what is played, what goes wrong in it, and what must hold.
//!
//! alice prepares a table and serves it; bob and carol look rows up, several times, each time in a process of its own. Where a client can keep
//! answers, carol does. The network, the disk with alice's budget and with what clients keep, time and chance are virtual. Tables, the store, a client's copy of it and outputs are
//! real files, which no failure of power tears.

use crate::case::{NAMES, Outcome, folder};
use crate::net::{Happening, Said};
use crate::sim::{Dice, Seen, State};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};
use vesica_job::worlds::{Boot, Chance, Time};
use vesica_job::{Control, Event, Fault as Whose, Io, JobError, Watch, World};
use vesica_service::{Change, Error};
use vesica_session::SessionRng;
use vesica_spec::service::{AskPlan, ServePlan, plan_ask, plan_serve};
use vesica_spec::{Document, document};
use zeroize::Zeroizing;

/// Rows of the server's table.
const ROWS: u32 = 40;

/// Rows of a client's table: half of them are in the server's, or none.
const WANTED: u32 = 6;

/// Times that a client asks, the most.
const TIMES: u64 = 3;

/// Starts of a client behind the last fault, until it must be done.
const LAST: u32 = 6;

/// Services that are played: lines of their documents, whether a function protects the server's rows, whether clients have windows, and records
/// a row.
const SERVICES: [Kind; 5] = [
    Kind::new("protocol = \"ecdh-oprf\"", "key", "both", true, false, 1),
    Kind::new("protocol = \"simple-pir\"\nhint = \"copied\"", "key", "client", false, false, 1),
    Kind::new("protocol = \"simple-pir\"\nhint = \"none\"", "index", "both", true, false, 1),
    Kind::new("protocol = \"piano\"", "index", "client", false, true, 1),
    Kind::new("protocol = \"piano\"", "key", "both", true, true, 2),
];

/// A kind of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Kind {
    protocol: &'static str,
    by: &'static str,
    private: &'static str,
    has_function: bool,
    has_windows: bool,
    records: u64,
}

impl Kind {
    const fn new(
        protocol: &'static str,
        by: &'static str,
        private: &'static str,
        has_function: bool,
        has_windows: bool,
        records: u64,
    ) -> Self {
        Self { protocol, by, private, has_function, has_windows, records }
    }
}

/// A client.
struct Person {
    plan: AskPlan,
    /// Its rows, in their order.
    rows: Vec<u32>,
    output: PathBuf,
    /// Times that it is still to ask.
    left: u64,
    starts: u32,
    starts_behind_faults: u32,
    /// Whether it may ask for nothing more.
    refused: bool,
    /// Whether it keeps answers, and whether it has begun once to write what it keeps: then all answers are on its disk.
    keeps: bool,
    has_kept: bool,
    /// Keys that it asked for, and keys that it was answered.
    asked: u64,
    answered: u64,
}

/// A conversation, as it is seen on the wire.
#[derive(Default)]
struct Talk {
    client: usize,
    /// Keys of the question that was put and not answered yet.
    keys: u64,
    is_open: bool,
    /// Queries that come next.
    queries: u64,
    /// The window that they are of, and the number of the first.
    window: Option<([u8; 16], u64)>,
}

/// What there is to be played.
pub struct Shop {
    kind: Kind,
    folder: PathBuf,
    server: ServePlan,
    people: Vec<Person>,
    /// The processes: the server's, and those of the clients behind it.
    pub processes: Vec<Option<usize>>,
    /// How often the table was changed.
    version: u32,
    /// Where the chance of that comes from.
    dice: Dice,
    a_day: u64,
    lifetime: u64,
    /// Whose power fails when it has just said what must not be forgotten, or a few calls of the disk after it has begun to write what it keeps,
    /// and how often it still does.
    brittle: (usize, u64),
    /// Those calls; none where its power does not fail.
    calls: Option<u64>,
    /// Days of the server's that there can have been.
    days: u64,
    talks: BTreeMap<usize, Talk>,
    /// Queries of windows that were sent.
    sent: BTreeMap<([u8; 16], u64), Vec<u8>>,
    /// Whether the server's clock was moved since its machine was started, and whether that was started since the last server.
    is_moved: bool,
    is_started: bool,
    /// Whether a client has been refused.
    pub refused: bool,
    /// Times that a client ended with its output.
    pub served: u64,
}

/// The files of a folder, by their paths below it.
type Tree = Vec<(PathBuf, Vec<u8>)>;

/// What was prepared, and its offer in words.
type Made = (Arc<Tree>, String);

fn tree(folder: &Path, below: &Path, into: &mut Tree) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).expect("it is a folder").flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), below.join(entry.file_name()));
        match path.is_dir() {
            true => tree(&path, &name, into),
            false => into.push((name, std::fs::read(&path).expect("it can be read"))),
        }
    }
}

/// The server's table. Its rows are numbered as they are called, so that both ways to look one up are the same.
fn table(folder: &Path, version: u32) {
    let mut text = "id,v\n".to_owned();
    for row in 0..ROWS {
        let _ = writeln!(text, "{row},{}", value(row, version));
    }
    std::fs::write(folder.join("list.csv"), text).expect("the temporary folder takes files");
}

fn value(row: u32, version: u32) -> String {
    format!("of {row}.{version}")
}

fn server(folder: &Path, kind: Kind, a_day: u64, lifetime: u64) -> ServePlan {
    let Kind { protocol, by, private, .. } = kind;
    let at = folder.display();
    let keys = if by == "key" { "\"id\"" } else { "" };
    let accept = if private == "client" { "accept = [\"all_rows\"]\n" } else { "" };
    let text = format!(
        "[service]\nid = \"list\"\n{protocol}\nby = \"{by}\"\nprivate = \"{private}\"\n{accept}values = [\"v\"]\n\
         value_bytes = 16\nlifetime_keys = {lifetime}\nexpected_queries = 10\ninsecure = true\n[mine]\nname = \"alice\"\nlisten = \"h:1\"\n\
         valid_for = \"100 years\"\n\
         input = {{ path = \"{at}/list.csv\", keys = [{keys}] }}\nstore = \"{at}/list\"\nworkers = 2\n\
         clients.bob = {{ keys_a_day = {a_day}, requests_a_minute = 100000 }}\n\
         clients.carol = {{ keys_a_day = {a_day}, requests_a_minute = 100000 }}\n"
    );
    let Ok(Document::Server(spec)) = document(&text, false) else { panic!("{text}") };
    plan_serve(&spec).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What a client's document says that keeps answers.
fn kept(folder: &Path) -> String {
    let (path, key) = (folder.join("kept"), folder.join("kept.key"));
    std::fs::write(&key, [7; 32]).expect("the temporary folder takes files");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, mode).expect("it is this user's");
    format!("kept = {{ path = \"{}\", key = \"{}\" }}\n", path.display(), key.display())
}

/// Chance that is given.
struct Given(Mutex<SessionRng>);

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("given")
    }
}

impl Chance for Given {
    fn seed(&self) -> Result<Zeroizing<[u8; 32]>, JobError> {
        Ok(Zeroizing::new(self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes()))
    }
}

/// A clock whose date is always the same. Epochs are signed with it, and clients look at them with clocks that jump.
#[derive(Debug)]
struct LongAgo(Arc<dyn Time>);

impl Time for LongAgo {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn boot(&self) -> Option<Boot> {
        self.0.boot()
    }

    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool) {
        self.0.sleep(span, stop);
    }

    fn rest(&self, span: Duration, stop: &dyn Fn() -> bool) {
        self.0.rest(span, stop);
    }

    fn wake(&self, thread: &Thread) {
        self.0.wake(thread);
    }
}

/// What `vesica prepare` makes, with chance that follows from `seed`.
fn prepare(plan: &ServePlan, seed: [u8; 32]) -> vesica_service::Prepared {
    let chance = Arc::new(Given(Mutex::new(SessionRng::from_seed(Zeroizing::new(seed)))));
    let world = World { chance, time: Arc::new(LongAgo(World::default().time)), ..World::default() };
    let prepared = vesica_service::prepare(plan, &Change::default(), &world, &Control::new(()));
    prepared.unwrap_or_else(|error| panic!("{error}"))
}

/// What `vesica prepare` makes of the first table, and the offer, made once for each kind.
fn prepared(kind: Kind, lifetime: u64) -> Made {
    static MADE: Mutex<BTreeMap<(Kind, u64), Made>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let dir = folder();
        table(dir.path(), 0);
        let prepared = prepare(&server(dir.path(), kind, 1, lifetime), [0; 32]);
        let mut files = Tree::new();
        tree(dir.path(), Path::new(""), &mut files);
        (Arc::new(files), vesica_service::spelled(&prepared.offer.hash()))
    };
    made.entry((kind, lifetime)).or_insert_with(make).clone()
}

impl Shop {
    /// The shop of a case, in a folder of its own.
    pub fn new(folder: &Path, dice: &mut Dice, overlap: bool) -> Self {
        let kind = SERVICES[dice.below(SERVICES.len() as u64) as usize];
        let a_day = if dice.percent(40) { u64::from(WANTED) * (1 + dice.below(4)) + dice.below(3) } else { 1_000_000 };
        let lifetime = if dice.percent(25) { 5 * u64::from(WANTED) } else { 1 << 20 };
        let (files, offer) = prepared(kind, lifetime);
        for (name, bytes) in &*files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("folders can be made");
            std::fs::write(&path, bytes).expect("the temporary folder takes files");
            // The file with the secret is its owner's alone.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&path, mode).expect("it is this user's");
        }
        let people = NAMES[1..].iter().map(|name| {
            let first = dice.below(u64::from(ROWS - WANTED)) as u32;
            let row = |at: u32| if overlap && at.is_multiple_of(2) { first + at } else { 1_000 + first + at };
            let rows: Vec<u32> = (0..WANTED).map(row).collect();
            let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
            let (input, output) = (folder.join(format!("{name}.csv")), folder.join(format!("{name}.out.csv")));
            std::fs::write(&input, format!("id\n{lines}")).expect("the temporary folder takes files");
            let keeps = *name == "carol" && kind == SERVICES[0];
            let kept = if keeps { kept(folder) } else { String::new() };
            let text = format!(
                "[service]\nid = \"list\"\n{}\nby = \"{}\"\noffer = \"{offer}\"\ninsecure = true\n[mine]\nname = \"{name}\"\n\
                 connect = {{ alice = \"h:1\" }}\npatience = \"60s\"\ninput = {{ path = \"{}\", keys = [\"id\"] }}\ncache = \"{}\"\n\
                 output = {{ path = \"{}\" }}\nworkers = {}\n{kept}",
                kind.protocol,
                kind.by,
                input.display(),
                folder.join(format!("{name}.cache")).display(),
                output.display(),
                1 + dice.below(2),
            );
            let Ok(Document::Client(spec)) = document(&text, false) else { panic!("{text}") };
            Person {
                plan: plan_ask(&spec).unwrap_or_else(|error| panic!("{error}\n{text}")),
                rows,
                output,
                left: 1 + dice.below(TIMES),
                starts: 0,
                starts_behind_faults: 0,
                refused: false,
                keeps,
                has_kept: false,
                asked: 0,
                answered: 0,
            }
        });
        let people: Vec<Person> = people.collect();
        let keeper = people.iter().position(|person| person.keeps).map(|at| at + 1);
        let brittle = keeper.filter(|_| dice.percent(60)).unwrap_or_else(|| dice.below(3) as usize);
        Self {
            kind,
            folder: folder.to_owned(),
            server: server(folder, kind, a_day, lifetime),
            processes: vec![None; 1 + people.len()],
            people,
            version: 0,
            dice: Dice::of(dice.seed()),
            a_day,
            lifetime,
            brittle: (brittle, if dice.percent(40) { 1 + dice.below(6) } else { 0 }),
            calls: None,
            days: 1,
            talks: BTreeMap::new(),
            sent: BTreeMap::new(),
            is_moved: false,
            is_started: false,
            refused: false,
            served: 0,
        }
    }

    /// Keys that were answered, in all.
    pub fn answered(&self) -> Vec<f64> {
        self.people.iter().map(|person| person.answered as f64).collect()
    }

    /// A party calls its disk. Says whether its power fails.
    pub fn touched(&mut self, party: usize, what: &str, path: &Path, dice: &mut Dice) -> bool {
        let Some(person) = self.people.get_mut(party.wrapping_sub(1)).filter(|person| person.keeps) else {
            return false;
        };
        if what == "open" && path.extension().is_some_and(|name| name == "new") {
            person.has_kept = true;
            if self.brittle.0 == party && self.brittle.1 > 0 {
                self.brittle.1 -= 1;
                self.calls = Some(dice.below(16));
            }
        }
        let is_last = self.calls == Some(0);
        self.calls = self.calls.and_then(|calls| calls.checked_sub(1));
        is_last
    }

    /// The operator prepares another table.
    pub fn change(&mut self) {
        self.version += 1;
        table(&self.folder, self.version);
        let seed = self.dice.seed();
        prepare(&self.server, seed);
    }

    /// The server's machine starts again.
    pub fn rebooted(&mut self) {
        self.is_started = true;
    }

    /// A server begins, and asks what day it is if its machine was started since the last one.
    fn asks_the_day(&mut self) {
        if std::mem::take(&mut self.is_started) {
            // A clock that is wrong gives the day that it says, and the next one if that is nearly over.
            self.days += if std::mem::take(&mut self.is_moved) { 2 } else { 0 };
        }
    }

    /// The server's date is another one.
    pub fn moved(&mut self) {
        self.is_moved = true;
    }

    /// What a client's output may be: the rows that are in the table, with their values, of one state of it.
    fn is_right(&self, person: &Person, text: &str) -> bool {
        (0..=self.version).any(|version| {
            let rows = person.rows.iter().filter(|row| **row < ROWS);
            let rows: String = rows.map(|row| format!("{row},{}\n", value(*row, version))).collect();
            text == format!("id,v\n{rows}")
        })
    }

    /// What is wrong with the outputs, and with how much was granted.
    fn wrong(&self) -> Option<String> {
        for (person, name) in self.people.iter().zip(&NAMES[1..]) {
            if let Ok(text) = std::fs::read_to_string(&person.output)
                && !self.is_right(person, &text)
            {
                return Some(format!("the output of {name} is not what a look into the table gives: {text:?}"));
            }
            if person.answered > self.days * self.a_day {
                let (answered, a_day) = (person.answered, self.a_day);
                return Some(format!("{name} was answered {answered} keys, and may ask for {a_day} a day"));
            }
        }
        let all: u64 = self.people.iter().map(|person| person.answered).sum();
        // Where there is no function, no key wears out.
        (self.kind.has_function && all > self.lifetime)
            .then(|| format!("{all} keys were answered, and {} are allowed in all", self.lifetime))
    }

    /// A client says something to the server.
    fn asks(&mut self, link: usize, client: usize, msg: &[u8]) -> Option<String> {
        let talk = self.talks.entry(link).or_default();
        talk.client = client;
        let person = &mut self.people[client - 1];
        if talk.is_open && talk.queries > 0 {
            if self.kind.has_windows && talk.window.is_none() {
                let number = msg.get(16..).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
                talk.window = msg.first_chunk().copied().zip(number);
                return None;
            }
            let queries = std::mem::take(&mut talk.queries) as usize;
            let (id, first) = talk.window.take()?;
            for (query, number) in msg.chunks_exact(msg.len() / queries).zip(first..) {
                let before = self.sent.entry((id, number)).or_insert_with(|| query.to_vec());
                if before != query {
                    return Some(format!("{} sends two sets for hint {number} of a window", NAMES[client]));
                }
            }
            return None;
        }
        let numbers =
            msg.get(1..).map(|rest| rest.chunks_exact(8).map(|number| number.try_into().map(u64::from_le_bytes)));
        let numbers: Vec<u64> = numbers.into_iter().flatten().flatten().collect();
        (talk.keys, talk.queries, talk.is_open, talk.window) = (0, 0, false, None);
        match (msg.first(), &numbers[..]) {
            (Some(4), [keys, _]) => talk.keys = *keys,
            (Some(6), [_, queries]) => {
                talk.queries = *queries;
                talk.keys = if self.kind.has_function { 0 } else { queries.div_ceil(self.kind.records) };
            }
            _ => {}
        }
        person.asked += talk.keys;
        // Its table does not change, and what it kept is on the disk.
        let is_again = person.has_kept && talk.keys > 0;
        is_again.then(|| format!("{} asks for {} keys whose answers it keeps", NAMES[client], talk.keys))
    }

    /// The server says something to a client.
    fn answers(&mut self, link: usize, msg: &[u8]) -> Option<String> {
        let talk = self.talks.get_mut(&link).filter(|talk| !talk.is_open)?;
        let (keys, name) = (std::mem::take(&mut talk.keys), NAMES[talk.client]);
        let person = &mut self.people[talk.client - 1];
        if msg == [0] {
            talk.is_open = true;
            person.answered += keys;
            return self.wrong();
        }
        let words = String::from_utf8_lossy(msg.get(1..).unwrap_or_default()).into_owned();
        let left = words.split_once(" keys are left").and_then(|(left, _)| left.parse::<u64>().ok());
        if let Some(left) = left {
            self.refused = true;
            // What stands in the budget: all that was answered, and no more than what was asked for.
            let granted = self.a_day.saturating_sub(left);
            if self.days == 1 && granted < person.answered {
                return Some(format!("{name} was answered {} keys, and {granted} are granted", person.answered));
            }
            if granted > person.asked {
                return Some(format!("{name} asked for {} keys, and {granted} are granted", person.asked));
            }
        }
        if words.contains("too few are left") {
            self.refused = true;
            let asked: u64 = self.people.iter().map(|person| person.asked).sum();
            if asked <= self.lifetime {
                return Some(format!("{name} is refused, although all asked for {asked} keys of {}", self.lifetime));
            }
        }
        None
    }
}

/// Hears what a process says.
struct Hears(Seen);

impl Watch for Hears {
    fn event(&self, event: Event) {
        let Event::Note(note) = event else { return };
        let mut state = self.0.sim.lock();
        let (now, party) = (state.now, state.processes[self.0.process].party);
        let note = state.case.plain(&note);
        state.trace.tell(now, || format!("{}: {note}", NAMES[party]));
        if party == 0 && note.contains("broke the protocol") && !note.contains("kept this side waiting") {
            state.case.fail(format!("alice accuses an honest client: {note}"));
        }
    }
}

impl State {
    /// A party's process begins.
    pub fn begin_in_shop(&mut self, party: usize) {
        let (now, is_calm) = (self.now, self.case.faults_are_over());
        let Some(shop) = self.case.shop.as_mut().filter(|shop| shop.processes[party].is_none()) else { return };
        let process = if party == 0 {
            shop.asks_the_day();
            let plan = shop.server.clone();
            self.trace.tell(now, || "alice serves".to_owned());
            self.start(party, move |sim, process| {
                let seen = Seen { sim: sim.clone(), process };
                vesica_service::serve(&plan, &seen.world(), &|| None, &Control::new(Hears(seen.clone())))
            })
        } else {
            let person = &mut shop.people[party - 1];
            person.starts += 1;
            person.starts_behind_faults += u32::from(is_calm);
            let (plan, starts) = (person.plan.clone(), person.starts);
            let _ = std::fs::remove_file(&person.output);
            self.trace.tell(now, || format!("{} asks, for time {starts}", NAMES[party]));
            self.start(party, move |sim, process| {
                let seen = Seen { sim: sim.clone(), process };
                let io = Io { world: seen.world(), ..vesica_service::files(&plan)? };
                vesica_service::ask(&plan, io, &Control::new(Hears(seen)))?.end().map(drop)
            })
        };
        if let Some(shop) = &mut self.case.shop {
            shop.processes[party] = Some(process);
        }
    }

    /// A party's process is at its end.
    pub fn exited_in_shop(&mut self, party: usize, outcome: &Outcome) {
        let (now, disk_failed, is_ended) = (self.now, self.disks[party].failed, self.case.is_over());
        let words = match outcome {
            Outcome::Failed(error) => format!("failed: {}", self.case.plain(&error.to_string())),
            outcome => format!("{outcome:?}"),
        };
        self.trace.tell(now, || format!("{} {words}", NAMES[party]));
        let Some(shop) = self.case.shop.as_mut() else { return };
        shop.processes[party] = None;
        let mut wrong = shop.wrong();
        match outcome {
            Outcome::Panicked => wrong = Some(format!("{} panicked", NAMES[party])),
            Outcome::Failed(error) if !shop.is_allowed(error, disk_failed) => {
                wrong = Some(format!("{}: {error}", NAMES[party]));
            }
            Outcome::Done if party == 0 => wrong = Some("alice serves no more, and nobody stopped her".to_owned()),
            Outcome::Done => {
                let person = &mut shop.people[party - 1];
                person.left -= 1;
                shop.served += 1;
                if !person.output.exists() {
                    wrong = Some(format!("{} is done and has no output", NAMES[party]));
                }
            }
            Outcome::Failed(Error::Refused { why, .. })
                if why.contains("keys are left") || why.contains("too few are left") =>
            {
                shop.people[party - 1].refused = true;
            }
            Outcome::Failed(_) | Outcome::Killed => {}
        }
        if is_ended {
            return;
        }
        let is_over = |person: &Person| person.left == 0 || person.refused;
        if party > 0 && wrong.is_none() {
            let person = &shop.people[party - 1];
            if !is_over(person) && person.starts_behind_faults > LAST + TIMES as u32 {
                wrong = Some(format!("{} does not come to an end: {words}", NAMES[party]));
            }
        }
        let all_over = shop.people.iter().all(is_over);
        let again = party == 0 || !is_over(&shop.people[party - 1]);
        if let Some(wrong) = wrong {
            self.case.fail(wrong);
        }
        if all_over || !self.case.failures.is_empty() {
            return self.end_case();
        }
        // After a write that failed the server grants nothing until it is started again, and its operator sees that.
        if party > 0 && matches!(outcome, Outcome::Failed(_)) && std::mem::take(&mut self.disks[0].failed) {
            self.trace.tell(now, || "alice's operator starts the service again".to_owned());
            if let Some(server) = self.case.process(0) {
                self.kill(server);
                self.disks[0].released(server);
            }
        }
        if again {
            let when = self.now + self.dice.millis(20_000);
            self.at(when, Happening::Start(party));
        }
    }

    /// A process says something on a line of a link.
    pub fn said_in_shop(&mut self, process: usize, link: usize, line: &str, msg: &[u8]) -> Said {
        let party = self.processes[process].party;
        if let Some(shop) = self.case.shop.as_mut().filter(|_| line == "service") {
            let (before, sent) = (shop.answered().iter().sum::<f64>(), shop.sent.len());
            let wrong = match party {
                0 => shop.answers(link, msg),
                client => shop.asks(link, client, msg),
            };
            let is_grave = shop.answered().iter().sum::<f64>() > before || shop.sent.len() > sent;
            let fails = is_grave && shop.brittle.0 == party && shop.brittle.1 > 0 && wrong.is_none();
            if fails {
                shop.brittle.1 -= 1;
            }
            if let Some(wrong) = wrong {
                self.case.fail(wrong);
                self.end_case();
                return Said::Nothing;
            }
            if fails && self.dice.percent(60) {
                let now = self.now;
                self.trace.tell(now, || format!("the power of {} fails", NAMES[party]));
                self.power_fails(party);
            }
        }
        Said::As(msg.to_vec())
    }
}

impl Shop {
    /// Whether a process may end with this error.
    fn is_allowed(&self, error: &Error, disk_failed: bool) -> bool {
        use vesica_session::Error::Stopped;
        match error {
            Error::Job(JobError::File { .. }) => disk_failed,
            Error::Job(
                JobError::Session(Stopped { fault, .. })
                | JobError::Net(vesica_net::Error::Session(Stopped { fault, .. })),
            ) => !matches!(fault, Whose::Bug | Whose::Peer),
            Error::Refused { why, .. } => {
                let newer = self.version > 0 && (why.contains("served no more") || why.contains("is not the one"));
                newer || why.contains("keys are left") || why.contains("too few are left")
            }
            error => error.fault() == Whose::Network,
        }
    }
}

/// How often who sleeps in a shop, or waits on a link, looks whether that is over.
pub const LOOK: Duration = Duration::from_secs(1);
