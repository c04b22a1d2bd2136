//! What is played, what goes wrong in it, and what must hold.
//!
//! A case follows from its seed: who learns, whether there are lanes, what the parties keep, and a list of faults, each of them at a step. The
//! steps are the calls of time, network and disk, of all processes together. So a fault may fall on any of them.

use crate::disk::{FileSystem, SYNC_NAME};
use crate::net::{Happening, Said};
use crate::shop::Shop;
use crate::sim::{Dice, Seen, State};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use vesica_job::{Control, Event, Fault as Whose, Io, JobError, Watch, World};
use vesica_spec::Plan;

/// The parties.
pub const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// Keys of each party in a case of honest parties.
const KEYS: u32 = 60;

/// Keys of each of three parties.
const FEW: u32 = 12;

/// Keys of a greedy party: enough that the number of units depends on memory and workers.
const MANY: u32 = 24_576;

/// Rounds after the last fault, in each of which every party runs the same command again, until all must be done.
const ROUNDS: u32 = 4;

/// Starts of a greedy party, the most.
const GREEDY_STARTS: u32 = 30;

/// Rounds of a case with a liar, the most.
const LIES: u32 = 8;

/// Failures of power that a party has, the most, where nothing else ends the case.
const CRASHES: u32 = 16;

/// What kind of case it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Honest parties on a bad network, and on machines that fail.
    Honest,
    /// bob forgets each run when he has been answered, and comes back with less memory or fewer workers.
    Greedy,
    /// alice's power fails again and again, when she has answered something.
    Power,
    /// bob learns, over lanes. In the first words of a lane he says that he has units which he has not, and breaks off. Then he asks for
    /// them, and breaks off when he was answered. In which order, and of how many units, is chosen for each case.
    Liar,
    /// alice learns, and bob does not. When she has finished some units he goes back to an older copy of his ledger, in which none is.
    Rollback,
    /// alice serves, and bob and carol ask: honest parties, as in the first kind.
    Service,
    /// Three honest parties.
    Three,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 7] =
        [Self::Honest, Self::Greedy, Self::Power, Self::Liar, Self::Rollback, Self::Service, Self::Three];

    /// Whether all parties follow the program, and the case lasts until they are done.
    fn is_honest(self) -> bool {
        matches!(self, Self::Honest | Self::Three)
    }

    /// How many parties there are.
    fn parties(self) -> usize {
        if matches!(self, Self::Service | Self::Three) { 3 } else { 2 }
    }

    /// Whether bob follows the program.
    fn bob_is_honest(self) -> bool {
        !matches!(self, Self::Liar | Self::Rollback)
    }
}

/// How a liar chooses what he says and when he breaks off.
#[derive(Clone, Copy, Debug)]
struct Lies {
    /// Of the times that he begins a lane, which are lies.
    when: When,
    /// How many percent of the units that he has not are called finished in a lie.
    units: u64,
    /// How many units of a lane alice is to have begun before he breaks off.
    under_way: usize,
    /// How many percent of the units are finished all the same. Then his own program takes the break for one after progress.
    finishes: u64,
}

/// When a liar lies.
#[derive(Clone, Copy, Debug)]
enum When {
    /// In turns with the truth.
    InTurns,
    /// Once, and then he asks as often as he can.
    First,
    /// By chance.
    Often,
}

impl Lies {
    fn new(dice: &mut Dice) -> Self {
        let when = [When::InTurns, When::First, When::Often][dice.below(3) as usize];
        let units = [100, 100, 50][dice.below(3) as usize];
        let finishes = [0, 0, 25][dice.below(3) as usize];
        Self { when, units, under_way: 1 + dice.below(6) as usize, finishes }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A link is cut.
    Cut,
    /// A party's process is killed, and started again.
    Kill(usize),
    /// A party's machine loses its power.
    Power(usize),
    /// A party's process is killed when it is next about to bring names to the disk. What it made or renamed is there for the next one, until
    /// the power fails.
    Named(usize),
    /// A party's process stands still.
    Stop(usize, Duration),
    /// A party's date jumps by so many seconds.
    Jump(usize, i64),
    /// A party's disk has no room for a write.
    Full(usize),
    /// A party's disk fails at a sync.
    Failing(usize),
    /// The operator of a service prepares another table.
    Prepare,
}

/// How a process ended.
#[derive(Debug)]
pub enum Outcome {
    /// With the result.
    Done,
    /// With an error.
    Failed(vesica_service::Error),
    /// It was killed.
    Killed,
    /// It panicked.
    Panicked,
}

/// What there is of a party.
struct Side {
    plan: Plan,
    /// What its output must be, if it learns.
    wanted: Option<String>,
    /// Its process.
    process: Option<usize>,
    /// Whether its last process ended with the result.
    done: bool,
    starts: u32,
    /// How often its keys' owner's peer was answered: in parts of the job.
    answered: f64,
    /// Units that it has said something of, by link and line.
    said: BTreeSet<(usize, String)>,
    /// Units of the run that its process is in.
    units: u64,
    /// Links that it had since it began to count answers.
    links: u32,
}

/// A case, while it is played.
pub struct Case {
    /// What kind it is.
    pub kind: Kind,
    dir: TempDir,
    answers: u32,
    sides: Vec<Side>,
    /// The service that is played in the place of a run.
    pub shop: Option<Shop>,
    faults: Vec<(u64, Fault)>,
    /// Calls so far.
    pub steps: u64,
    rounds: u32,
    /// What bob still waits for before he forgets the run, and what alice answers until her power fails: in parts of the job.
    patience: f64,
    crashes: u32,
    lies: Lies,
    /// How often each lane was begun.
    lanes: BTreeMap<[u8; 32], u64>,
    /// The ledger to which bob goes back, how often he still does, and how many units alice is to finish before the next time.
    back: (Vec<(PathBuf, Vec<u8>)>, u64, u64),
    /// Units that alice has finished.
    finished: BTreeSet<u32>,
    /// Units of which alice has said the first thing and not the second.
    half: BTreeSet<(usize, String)>,
    /// Whether a party has had enough of answering.
    pub refused: bool,
    /// What did not hold.
    pub failures: Vec<String>,
    over: bool,
}

/// A folder for a case's real files. Each output is synced to the disk, and nobody needs it there: so the folder is in memory, where the system
/// has a place for that.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("there is a temporary folder")
}

/// The lines of a text in ascending order.
fn in_order(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A table whose keys are numbers: those from `first` on.
fn table(path: &Path, first: u32, count: u32) -> String {
    let mut text = "id,v\n".to_owned();
    // In another order than that of the keys.
    for row in 0..count {
        let key = first + row * 7919 % count;
        let _ = writeln!(text, "{key},of {key}");
    }
    std::fs::write(path, &text).expect("the temporary folder takes files");
    text
}

impl Case {
    /// The case of a seed. With `overlap` the parties have half of their keys in common, and else none.
    pub fn new(kind: Kind, dice: &mut Dice, overlap: bool) -> Self {
        let dir = folder();
        if kind == Kind::Service {
            let shop = Shop::new(dir.path(), dice, overlap);
            return Self { shop: Some(shop), ..Self::of(kind, dir, dice) };
        }
        let learns: &[&str] = match (kind, dice.below(3)) {
            (Kind::Honest, 0) => &["alice"],
            (Kind::Honest, 1) => &["alice", "bob"],
            (Kind::Rollback, _) | (Kind::Three, 0) => &["alice"],
            (Kind::Three, 1) => &NAMES,
            _ => &["bob"],
        };
        let lanes = match kind {
            Kind::Liar => 2,
            Kind::Honest if dice.percent(30) => 2,
            Kind::Rollback if dice.percent(50) => 2,
            _ => 0,
        };
        let protocol = match kind {
            // Its sender says two things in a unit, so that it can be answered and not finished.
            Kind::Liar => "protocol = \"ecdh\"",
            Kind::Three => "protocol = \"rr22\"\nduplicates = \"error\"",
            _ => "protocol = \"hash\"\naccept = [\"guessable_keys\"]",
        };
        let (keys, unit, answers) = match kind {
            Kind::Honest | Kind::Service => ([KEYS, KEYS], "unit = 10\n", 8),
            Kind::Greedy => ([KEYS, MANY], "", 2 + dice.below(3) as u32),
            Kind::Power => ([KEYS, KEYS], "unit = 10\n", 2 + dice.below(3) as u32),
            Kind::Liar => {
                ([KEYS, KEYS], ["unit = 10\n", "unit = 5\n"][dice.below(2) as usize], 1 + dice.below(3) as u32)
            }
            Kind::Rollback => ([KEYS, KEYS], "unit = 10\n", 8),
            Kind::Three => ([FEW, FEW], "unit = 6\n", 8),
        };
        let workers = if kind == Kind::Liar { 8 } else { 1 + dice.below(3) };
        // Of two parties each has half of the other's keys, and of three all have a third of each one's.
        let parties = kind.parties();
        let step = if overlap { keys[0] / parties as u32 } else { 1_000_000 };
        let keys_of = |party: usize| {
            let first = step * party as u32;
            first..first + keys[party.min(1)]
        };
        let names = &NAMES[..parties];
        let sides: Vec<Side> = (0..parties).map(|party| {
            let (name, path) = (NAMES[party], dir.path().join(format!("{}.csv", NAMES[party])));
            let text = table(&path, keys_of(party).start, keys[party.min(1)]);
            let common = |line: &&str| {
                let key = line.split(',').next().and_then(|key| key.parse::<u32>().ok());
                key.is_none_or(|key| (0..parties).all(|party| keys_of(party).contains(&key)))
            };
            let wanted = learns.contains(&name).then(|| text.lines().filter(common).map(|line| format!("{line}\n")).collect());
            let connect = |peer: usize| format!("connect.{} = \"h:{}\"\n", NAMES[peer], peer + 1);
            let connects: String = (0..party).map(connect).collect();
            let listens = if party + 1 < parties { format!("listen = \"h:{}\"\n", party + 1) } else { String::new() };
            let reach = connects + &listens;
            let output = if wanted.is_some() {
                format!("output = {{ path = \"{}\" }}\n", dir.path().join(format!("{name}.out.csv")).display())
            } else {
                String::new()
            };
            let keeps = match kind {
                Kind::Honest | Kind::Three => dice.percent(70),
                Kind::Rollback => true,
                // A greedy party keeps nothing anyway.
                _ => party == 0,
            };
            let resume = if keeps { format!("resume = \"/{name}\"\n") } else { String::new() };
            let lanes = if lanes > 0 { format!("lanes = {lanes}\n") } else { String::new() };
            // Three parties take no "rr22" without TLS, of which the network here has none.
            let (insecure, tls) = match kind {
                Kind::Three => ("", "tls = { identity = \"none\", ca = \"none\" }\n"),
                _ => ("insecure = true\n", ""),
            };
            let text = format!(
                "[shared]\nid = \"j\"\nparties = {names:?}\n{protocol}\n\
                 learns = {learns:?}\n{unit}limits.answers = {answers}\n{insecure}[mine]\nname = \"{name}\"\n{reach}\
                 workers = {workers}\nmemory = \"256MB\"\npatience = \"60s\"\ninput = {{ path = \"{}\", keys = [\"id\"] }}\n\
                 {output}{resume}{lanes}{tls}",
                path.display()
            );
            let spec = vesica_spec::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let mut plan = vesica_spec::plan(&spec).unwrap_or_else(|error| panic!("{error}\n{text}"));
            plan.identity = None;
            plan.peers.iter_mut().for_each(|peer| peer.trust = None);
            Side {
                plan,
                wanted,
                process: None,
                done: false,
                starts: 0,
                answered: 0.0,
                said: BTreeSet::new(),
                units: 1,
                links: 0,
            }
        })
        .collect();
        Self { answers, sides, ..Self::of(kind, dir, dice) }
    }

    /// A case without parties: what goes wrong in it.
    fn of(kind: Kind, dir: TempDir, dice: &mut Dice) -> Self {
        let mut faults = Vec::new();
        let count = match kind {
            Kind::Honest | Kind::Service | Kind::Three => 1 + dice.below(6),
            Kind::Liar | Kind::Rollback => 0,
            Kind::Greedy | Kind::Power => dice.below(3),
        };
        for _ in 0..count {
            // A run that nothing disturbs has one to three hundred steps, and so has a service with its clients.
            let step = dice.below(300);
            let who = dice.below(kind.parties() as u64) as usize;
            let fault = match (kind, dice.below(12)) {
                (Kind::Honest | Kind::Three, 0..3) => Fault::Kill(who),
                (Kind::Honest | Kind::Three, 3..5) => Fault::Power(who),
                (Kind::Honest | Kind::Three, 5) => Fault::Full(who),
                (Kind::Honest | Kind::Three, 6) => Fault::Failing(who),
                (_, 7) => Fault::Jump(who, dice.below(2_000_000) as i64 - 1_000_000),
                (_, 8) => Fault::Stop(who, dice.millis(40_000)),
                (Kind::Service, 0..2) => Fault::Kill(who),
                (Kind::Service, 2..4) => Fault::Power(who),
                (Kind::Service, 4) => Fault::Full(who),
                (Kind::Service, 5) => Fault::Failing(who),
                (Kind::Service, 6) => Fault::Prepare,
                (_, 9) => Fault::Named(who),
                _ => Fault::Cut,
            };
            // Most names are given at the beginning.
            let is_early = matches!(fault, Fault::Named(_)) && step.is_multiple_of(2);
            faults.push((if is_early { step / 50 } else { step }, fault));
        }
        faults.sort_by_key(|(step, _)| *step);
        faults.reverse();
        let lies = Lies::new(dice);
        let back = (Vec::new(), 1 + dice.below(3), 1 + dice.below(5));
        Self {
            kind,
            dir,
            answers: 0,
            sides: Vec::new(),
            shop: None,
            faults,
            steps: 0,
            rounds: 0,
            patience: f64::INFINITY,
            crashes: 0,
            lies,
            lanes: BTreeMap::new(),
            back,
            finished: BTreeSet::new(),
            half: BTreeSet::new(),
            refused: false,
            failures: Vec::new(),
            over: false,
        }
    }

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.shop.as_ref().map_or(self.sides.len(), |shop| shop.processes.len())
    }

    /// The process of a party.
    pub fn process(&self, party: usize) -> Option<usize> {
        self.shop.as_ref().map_or_else(|| self.sides[party].process, |shop| shop.processes[party])
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Words without the name of the folder, which is another one each time.
    pub fn plain(&self, words: &str) -> String {
        words.replace(&*self.dir.path().to_string_lossy(), "")
    }

    /// Whether nothing is to go wrong any more.
    pub fn faults_are_over(&self) -> bool {
        self.faults.is_empty()
    }

    /// How often what a party answered would be its whole table, by party; of a service, how many keys each client was answered.
    pub fn answered(&self) -> Vec<f64> {
        if let Some(shop) = &self.shop {
            return shop.answered();
        }
        self.sides.iter().map(|side| side.answered).collect()
    }

    /// No faults: the case as it goes if nothing disturbs it.
    pub fn undisturbed(mut self) -> Self {
        self.faults.clear();
        self
    }

    /// A party has removed a file. Without its ledger the count of what it answers begins anew, also where its process is killed before it says
    /// that it is done. Who is to have an output and removes its ledger before that is there goes on being counted.
    pub fn removed(&mut self, party: usize, path: &Path) {
        let is_ledger = path.extension().is_some_and(|name| name == "ledger");
        let Some(side) = self.sides.get(party) else { return };
        if is_ledger && (side.wanted.is_none() || self.has_output(party)) {
            self.sides[party].answered = 0.0;
        }
    }

    /// Something did not hold.
    pub fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    /// Every output that is there has all rows and no others. They are in the order of the input where one party learns; for their order
    /// where both do, see [`Case::aligned`].
    fn look_at_outputs(&mut self) {
        for party in 0..self.sides.len() {
            let path = self.dir.path().join(format!("{}.out.csv", NAMES[party]));
            let Ok(text) = std::fs::read_to_string(path) else { continue };
            match &self.sides[party].wanted {
                None => self.fail(format!("{} does not learn and has an output", NAMES[party])),
                Some(wanted) if *wanted != text && (!self.both_learn() || in_order(wanted) != in_order(&text)) => {
                    let rows = text.lines().count();
                    self.fail(format!(
                        "the output of {}, {rows} lines, is not what an undisturbed run gives",
                        NAMES[party]
                    ));
                }
                Some(_) => {}
            }
        }
    }

    fn both_learn(&self) -> bool {
        self.sides.iter().all(|side| side.wanted.is_some())
    }

    /// Where both learn, the keys of each output that there is, in its order. A disturbed run has the same order as one that is not.
    pub fn aligned(&self) -> Vec<Vec<String>> {
        let there = (0..self.sides.len()).filter(|&party| self.both_learn() && self.has_output(party));
        there.map(|party| self.keys(party)).collect()
    }

    fn all_have_what_they_learn(&self) -> bool {
        (0..self.sides.len()).all(|party| {
            self.sides[party].wanted.is_none() || self.dir.path().join(format!("{}.out.csv", NAMES[party])).exists()
        })
    }

    /// Whether an honest party may end with this error among honest parties.
    fn is_allowed(&self, error: &JobError, disk: &FileSystem) -> bool {
        use vesica_session::Error::Stopped;
        match error {
            JobError::LastWord(_) | JobError::Over { .. } | JobError::Answers { .. } => true,
            JobError::File { .. } => disk.failed,
            JobError::Session(Stopped { fault, .. })
            | JobError::Net(vesica_net::Error::Session(Stopped { fault, .. })) => {
                // It accuses nobody, and knows of no bug.
                !matches!(fault, Whose::Bug)
            }
            error => error.fault() == Whose::Network,
        }
    }
}

impl Seen {
    /// The world as the process has it.
    pub fn world(&self) -> World {
        World {
            time: Arc::new(self.clone()),
            connector: Arc::new(self.clone()),
            disk: Arc::new(self.clone()),
            chance: Arc::new(self.clone()),
            turns: Arc::new(self.clone()),
        }
    }
}

/// Hears what a run says.
struct Hears(Seen);

impl Watch for Hears {
    fn event(&self, event: Event) {
        let mut state = self.0.sim.lock();
        let party = state.processes[self.0.process].party;
        match event {
            Event::Phase { name: "match", total: Some(units), .. } => state.case.sides[party].units = units,
            Event::Unit { id, .. } => state.case_finished(party, id),
            Event::Note(note) => {
                let now = state.now;
                state.trace.tell(now, || format!("{}: {note}", NAMES[party]));
            }
            _ => {}
        }
    }
}

impl State {
    /// All parties are to be started.
    pub fn begin_case(&mut self) {
        for party in 0..self.case.parties() {
            let when = self.now + self.dice.millis(2000);
            self.at(when, Happening::Start(party));
        }
    }

    /// A party's process begins.
    pub fn begin_party(&mut self, party: usize) {
        if self.case.over {
            return;
        }
        if self.case.shop.is_some() {
            return self.begin_in_shop(party);
        }
        if self.case.sides[party].process.is_some() {
            return;
        }
        let mut plan = self.case.sides[party].plan.clone();
        self.case.sides[party].starts += 1;
        if self.case.kind == Kind::Greedy && party == 1 {
            // He says what suits him.
            plan.workers = 1 + self.dice.below(4) as u32;
            plan.memory = [32 << 20, 256 << 20][self.dice.below(2) as usize];
            // Often just before the end of a run, at which there is nothing more to be had of it.
            let quarter = self.dice.below(6).min(4);
            self.case.patience = quarter as f64 / 4.0;
        }
        if self.case.kind == Kind::Power {
            self.case.patience = 0.15 + self.dice.below(9) as f64 / 10.0;
        }
        let now = self.now;
        let (starts, workers, memory) = (self.case.sides[party].starts, plan.workers, plan.memory);
        self.trace.tell(now, || {
            format!("{} starts for time {starts}, with {workers} workers and {memory} bytes", NAMES[party])
        });
        let process = self.start(party, move |sim, process| {
            let seen = Seen { sim: sim.clone(), process };
            let io = Io { world: seen.world(), ..Io::files(&plan)? };
            vesica_job::run(&plan, io, &Control::new(Hears(seen)))?;
            Ok(())
        });
        self.case.sides[party].process = Some(process);
    }

    /// A party's process is at its end.
    pub fn exited(&mut self, process: usize, outcome: Outcome) {
        let party = self.processes[process].party;
        if self.case.shop.is_some() {
            return self.exited_in_shop(party, &outcome);
        }
        self.case.sides[party].process = None;
        self.case.sides[party].done = matches!(outcome, Outcome::Done);
        let now = self.now;
        let words = match &outcome {
            Outcome::Failed(error) => format!("failed: {error}"),
            outcome => format!("{outcome:?}"),
        };
        self.trace.tell(now, || format!("{} {words}", NAMES[party]));
        self.case.look_at_outputs();
        // A link gives no more than one attempt at the job, or at a lane, so each counts as one whole answer at most. Where the number of units
        // changes, parts are rounded up.
        let (links, answers) = (self.case.sides[party].links, self.case.answers);
        let least = if self.case.kind == Kind::Greedy { answers } else { answers + 1 };
        let ran_out = matches!(outcome, Outcome::Failed(vesica_service::Error::Job(JobError::Answers { .. })));
        if links < least && ran_out {
            let name = NAMES[party];
            self.case.fail(format!("{name} refuses after {links} links, and {answers} answers are allowed"));
        }
        // Who is done has removed the ledger, and who keeps none forgets: then the count begins anew.
        if matches!(outcome, Outcome::Done) || self.case.sides[party].plan.resume.is_none() {
            (self.case.sides[party].answered, self.case.sides[party].links) = (0.0, 0);
        }
        match &outcome {
            Outcome::Panicked => self.case.fail(format!("{} panicked", NAMES[party])),
            Outcome::Failed(error) => {
                // A liar's own program sees a partner that takes him at his word.
                let lies = !self.case.kind.bob_is_honest() && party == 1;
                let is_allowed = match error {
                    vesica_service::Error::Job(error) => self.case.is_allowed(error, &self.disks[party]),
                    _ => false,
                };
                if !lies && !is_allowed {
                    self.case.fail(format!("{}: {error}", NAMES[party]));
                }
                // Of a partner who does not follow the program it is alice's word that ends the case.
                let counts = party == 0 || self.case.kind.is_honest();
                self.case.refused |= counts && ran_out;
            }
            Outcome::Done if self.case.sides[party].wanted.is_some() && !self.case.has_output(party) => {
                self.case.fail(format!("{} is done and has no output", NAMES[party]));
            }
            Outcome::Done | Outcome::Killed => {}
        }
        if self.case.over {
            return;
        }
        if !self.case.failures.is_empty() {
            self.end_case();
            return;
        }
        let all_down = self.case.sides.iter().all(|side| side.process.is_none());
        let ends = match self.case.kind {
            Kind::Honest | Kind::Service | Kind::Three => self.case.refused && all_down,
            Kind::Greedy => {
                let side = &self.case.sides[1];
                (self.case.refused && party == 0) || side.starts >= GREEDY_STARTS
            }
            Kind::Power => (self.case.refused && party == 0) || self.case.crashes >= CRASHES,
            Kind::Liar => (self.case.refused && party == 0) || self.case.rounds >= LIES,
            Kind::Rollback => party == 0 && (self.case.refused || self.case.sides[0].done) || self.case.rounds >= LIES,
        };
        if ends {
            self.end_case();
        } else if matches!(outcome, Outcome::Killed) {
            let when = self.now + self.dice.millis(20_000);
            self.at(when, Happening::Start(party));
        } else if all_down && !self.agenda.values().any(|what| matches!(what, Happening::Start(_))) {
            self.round();
        }
    }

    /// No party runs any more: are they done, or is the same command given again everywhere?
    fn round(&mut self) {
        let done = self.case.sides.iter().all(|side| side.done);
        if self.case.kind.is_honest() && done {
            if !self.case.all_have_what_they_learn() {
                self.case.fail("all are done, and an output is missing".to_owned());
            }
            if !self.case.go_together() {
                self.case.fail("the rows of one output are not those of the other".to_owned());
            }
            self.end_case();
            return;
        }
        // What was to go wrong later goes wrong no more.
        self.case.rounds += 1;
        if self.case.rounds > 2 {
            self.case.faults.clear();
        }
        if self.case.kind.is_honest() && self.case.rounds > 2 + ROUNDS {
            self.case.fail("it does not end".to_owned());
            self.end_case();
            return;
        }
        self.begin_case();
    }

    /// Whoever still runs is killed.
    pub fn end_case(&mut self) {
        self.case.over = true;
        self.end_all();
    }

    /// The token is handed on by a task of the process.
    pub fn case_switched(&mut self, _: usize) {
        self.step();
    }

    /// A process calls the disk.
    pub fn case_touched(&mut self, process: usize, what: &str, path: &Path) {
        if self.processes[process].dead {
            return;
        }
        let (now, party) = (self.now, self.processes[process].party);
        let Self { case, trace, .. } = self;
        trace.tell(now, || format!("{}: {what} {}", NAMES[party], case.plain(&path.to_string_lossy())));
        if what == SYNC_NAME && std::mem::take(&mut self.disks[party].unnamed) {
            self.kill(process);
            self.disks[party].released(process);
        }
        let Self { case, dice, .. } = self;
        if case.shop.as_mut().is_some_and(|shop| shop.touched(party, what, path, dice)) {
            self.trace.tell(now, || format!("the power of {} fails", NAMES[party]));
            self.power_fails(party);
        }
        self.step();
    }

    fn step(&mut self) {
        if self.case.over {
            return;
        }
        self.case.steps += 1;
        while let Some((_, fault)) = self.case.faults.pop_if(|(step, _)| *step <= self.case.steps) {
            self.goes_wrong(fault);
        }
    }

    fn goes_wrong(&mut self, fault: Fault) {
        let now = self.now;
        self.trace.tell(now, || format!("fault: {fault:?}"));
        match fault {
            Fault::Cut => _ = self.cut_one(),
            Fault::Kill(party) => {
                if let Some(process) = self.case.process(party) {
                    self.kill(process);
                    self.disks[party].released(process);
                }
            }
            Fault::Power(party) => self.power_fails(party),
            Fault::Named(party) => self.disks[party].unnamed = true,
            Fault::Stop(party, span) => {
                if let Some(process) = self.case.process(party) {
                    self.processes[process].stopped = now + span;
                    self.silent(process, span);
                }
            }
            Fault::Jump(party, seconds) => {
                self.dates[party] += seconds;
                if let Some(shop) = self.case.shop.as_mut().filter(|_| party == 0) {
                    shop.moved();
                }
            }
            Fault::Prepare => {
                if let Some(shop) = &mut self.case.shop {
                    shop.change();
                }
            }
            Fault::Full(party) => self.disks[party].full += 1,
            Fault::Failing(party) => self.disks[party].failing += 1,
        }
    }

    /// A party loses its power.
    pub fn power_fails(&mut self, party: usize) {
        if let Some(process) = self.case.process(party) {
            self.kill(process);
        }
        let Self { disks, dice, .. } = self;
        disks[party].crash(dice);
        self.boots[party] = (self.boots[party].0 + 1, self.now);
        if let Some(shop) = self.case.shop.as_mut().filter(|_| party == 0) {
            shop.rebooted();
        }
    }

    /// A process says something on a line of a link, which is that of a lane or of a meeting. Gives what becomes of it.
    pub fn case_said(
        &mut self,
        process: usize,
        (link, lane): (usize, [u8; 32]),
        line: &str,
        msg: &[u8],
        times: u32,
    ) -> Said {
        if self.case.shop.is_some() {
            return self.said_in_shop(process, link, line, msg);
        }
        let party = self.processes[process].party;
        let lies = self.case.lies;
        if self.case.kind == Kind::Liar && party == 1 && line == "lane" {
            let begun = self.case.lanes.entry(lane).or_default();
            *begun += 1;
            let is_lie = match lies.when {
                When::InTurns => *begun % 2 == 1,
                When::First => *begun == 1,
                When::Often => self.dice.percent(40),
            };
            if is_lie {
                let said = msg.iter().map(|digit| if self.dice.percent(lies.units) { b'1' } else { *digit });
                return Said::Last(said.collect());
            }
        }
        if self.case.kind == Kind::Rollback && party == 1 && line.starts_with("unit ") && self.case.back.0.is_empty() {
            self.case.back.0 = self.disks[1].copy();
        }
        let deceived = self.case.kind == Kind::Liar && party == 0 && line.starts_with("unit ");
        if deceived && !self.case.half.insert((link, line.to_owned())) {
            // The units of a lane are all under way at once: he breaks off when he has the first thing of so many.
            let under_way = self.case.half.iter().filter(|(of, _)| *of == link).count();
            if under_way < lies.under_way && times < 40 {
                return Said::Later;
            }
            if !self.dice.percent(lies.finishes) {
                return Said::Nothing;
            }
        }
        // Of three parties each answers two, and how often each of them is not counted here.
        let counts = line.starts_with("unit ") && self.case.kind != Kind::Three;
        if counts && self.case.sides[party].said.insert((link, line.to_owned())) {
            let side = &mut self.case.sides[party];
            let part = 1.0 / side.units.max(1) as f64;
            side.answered += part;
            let answered = side.answered;
            let answers = f64::from(self.case.answers);
            if answered > answers + 1e-6 {
                let name = NAMES[party];
                self.case.fail(format!("{name} has answered {answered:.3} times her keys, and {answers} are allowed"));
                self.end_case();
                return Said::Nothing;
            }
            if party == 0 {
                self.answers_a_part(part);
            }
        }
        Said::As(msg.to_vec())
    }

    /// A party has finished a unit. Where alice alone learns and bob has forgotten no run, she does none again that she has finished: she has
    /// all that there is to have of it, and he could bring other keys, and see from how the run goes on whether they are hers.
    fn case_finished(&mut self, party: usize, unit: u32) {
        if self.case.kind != Kind::Rollback || party != 0 || self.case.over {
            return;
        }
        if !self.case.finished.insert(unit) {
            self.case.fail(format!("alice has done unit {unit} again, which she had finished"));
            return self.end_case();
        }
        let (copy, times, units) = &mut self.case.back;
        *units = units.saturating_sub(1);
        if *units > 0 || *times == 0 || copy.is_empty() {
            return;
        }
        *times -= 1;
        *units = 1 + self.dice.below(2);
        if let Some(process) = self.case.sides[1].process {
            let now = self.now;
            self.trace.tell(now, || "bob goes back to an older copy of his ledger".to_owned());
            self.kill(process);
            self.disks[1].put_back(&self.case.back.0);
        }
    }

    /// Two parties have a link.
    pub fn case_linked(&mut self, processes: [usize; 2]) {
        for process in processes.into_iter().filter(|_| self.case.shop.is_none()) {
            self.case.sides[self.processes[process].party].links += 1;
        }
    }

    /// alice has answered this part of the job.
    fn answers_a_part(&mut self, part: f64) {
        self.case.patience -= part;
        if self.case.patience > 1e-6 {
            return;
        }
        match self.case.kind {
            Kind::Honest | Kind::Liar | Kind::Rollback | Kind::Service | Kind::Three => {}
            Kind::Greedy => {
                if let Some(process) = self.case.sides[1].process {
                    let now = self.now;
                    self.trace.tell(now, || "bob forgets the run".to_owned());
                    self.kill(process);
                    self.disks[1].wipe();
                }
            }
            Kind::Power => {
                self.case.crashes += 1;
                let now = self.now;
                self.trace.tell(now, || "alice's power fails".to_owned());
                self.power_fails(0);
                self.case.patience = f64::INFINITY;
            }
        }
    }
}

impl Case {
    /// Whether all outputs have the same key in each row.
    fn go_together(&self) -> bool {
        let learners: Vec<usize> = (0..self.sides.len()).filter(|&party| self.sides[party].wanted.is_some()).collect();
        learners.windows(2).all(|two| self.keys(two[0]) == self.keys(two[1]))
    }

    fn keys(&self, party: usize) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join(format!("{}.out.csv", NAMES[party])));
        let text = text.unwrap_or_default();
        text.lines().map(|line| line.split(',').next().unwrap_or_default().to_owned()).collect()
    }

    fn has_output(&self, party: usize) -> bool {
        self.dir.path().join(format!("{}.out.csv", NAMES[party])).exists()
    }
}
