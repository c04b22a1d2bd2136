//! A client that asks day after day, and remembers: against a full join of both tables, killed at every write, with servers that lie, and as
//! the server sees it.

use crate::client::kept::Kept;
use crate::client::output::room;
use crate::error::Error;
use crate::hostile::{House, STORE, Said, put_back};
use crate::offer::Offer;
use crate::wants::Wants;
use crate::{Change, Run, ask, files};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use vesica_job::report::{Changes, Report};
use vesica_job::worlds::Frail;
use vesica_job::{Control, Fault, Io, World};
use vesica_session::SessionRng;
use vesica_spec::service::{AskPlan, DayPlan, KeptPlan};
use vesica_store::Store;
use vesica_types::KeyDigest;
use zeroize::Zeroizing;

/// Both parties' tables.
struct Street {
    house: House,
    /// The server's keys; the value of key k is `k.5`.
    list: BTreeSet<u64>,
    /// The client's rows, in their order; none is a row without a key.
    rows: Vec<Option<u64>>,
    /// The keys that the client had in its last run, and those of them that were found.
    last: (BTreeSet<u64>, BTreeSet<u64>),
}

fn street(more: &str) -> Street {
    let house = House::with(STORE, 40, more);
    vesica_job::rooms::replace_privately(&house.dir.path().join("seal.key"), &[7; 32]).unwrap();
    let list = (0..40).map(|row| 3 * row).collect();
    let street = Street { house, list, rows: Vec::new(), last: Default::default() };
    street.prepare_anew();
    street
}

/// The rows of an output, without its header.
fn rows(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().skip(1).map(str::to_owned).collect()
}

impl Street {
    fn path(&self, name: &str) -> PathBuf {
        self.house.dir.path().join(name)
    }

    /// The plan of the client that keeps its answers under this name.
    fn plan(&self, name: &str) -> AskPlan {
        let output = |what: &str| Some(vesica_table::Output::new(self.path(&format!("{what}.csv"))));
        let kept = KeptPlan {
            path: self.path(&format!("{name}.kept")),
            key: self.path("seal.key").into(),
            gained: output("gained"),
            lost: output("lost"),
        };
        AskPlan { kept: Some(kept), ..self.house.plan(name) }
    }

    fn write(&self) {
        let line = |row: &Option<u64>| row.map_or("\n".to_owned(), |key| format!("{key}\n"));
        // A row without a key is none in a table of one column: there is another one.
        let lines: String =
            self.rows.iter().zip(0..).map(|(row, n)| line(row).replace('\n', &format!(",row {n}\n"))).collect();
        fs::write(self.path("alice.csv"), format!("id,what\n{lines}")).unwrap();
    }

    fn ask_on(&self, plan: &AskPlan, world: World) -> Result<Report, Error> {
        self.write();
        let io = Io { world, ..files(plan).unwrap() };
        ask(plan, io, &Control::new(())).and_then(Run::end)
    }

    #[track_caller]
    fn ask(&self, plan: &AskPlan) -> Report {
        self.ask_on(plan, World::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The whole list is prepared.
    fn prepare_anew(&self) {
        let lines: String = self.list.iter().map(|key| format!("{key},{key}.5\n")).collect();
        fs::write(self.path("list.csv"), format!("id,size\n{lines}")).unwrap();
        let prepared =
            crate::prepare(&self.house.server, &Change::default(), &World::default(), &Control::new(())).unwrap();
        assert!(!prepared.offer_changed);
    }

    /// The list changes as `prepare --append --remove` changes it.
    fn change(&mut self, more: &[u64], gone: &[u64]) {
        let write = |name: &str, text: String| {
            fs::write(self.path(name), text).unwrap();
            Some(self.path(name))
        };
        let lines = |keys: &[u64]| -> String { keys.iter().map(|key| format!("{key},{key}.5\n")).collect() };
        let append = write("more.csv", format!("id,size\n{}", lines(more)));
        let remove = write("gone.csv", format!("id,size\n{}", lines(gone)));
        let change = Change { rotate: false, append, remove };
        crate::prepare(&self.house.server, &change, &World::default(), &Control::new(())).unwrap();
        self.list.retain(|key| !gone.contains(key));
        self.list.extend(more);
    }

    /// A part of a day, whose server is started anew: it takes up what was prepared.
    fn open(&mut self) {
        self.house.stop();
        self.house.serve();
    }

    /// Keys that clients were granted, by the server's own record.
    fn granted(&self) -> u64 {
        let lines = fs::read_to_string(&self.house.server.audit).unwrap_or_default();
        let keys = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        keys.filter(|line| line["what"] == "asked").filter_map(|line| line["keys"].as_u64()).sum()
    }

    fn keys(&self) -> BTreeSet<u64> {
        self.rows.iter().flatten().copied().collect()
    }

    /// What a run must say of keys, if `asked` of them were asked for.
    fn expected(&self) -> (BTreeSet<u64>, [u64; 3]) {
        let (keys, (last, found)) = (self.keys(), &self.last);
        let now: BTreeSet<u64> = keys.intersection(&self.list).copied().collect();
        let lost = found.intersection(&keys).filter(|key| !self.list.contains(key)).count() as u64;
        let numbers = [keys.difference(last).count() as u64, now.difference(found).count() as u64, lost];
        (now, numbers)
    }

    /// Compares the outputs with a join of both tables, and a run with the one before.
    #[track_caller]
    fn compare(&self, changes: &Changes, day: u64) {
        let (now, [asked, gained, lost]) = self.expected();
        let lines = |take: &dyn Fn(u64) -> bool, values: bool| -> Vec<String> {
            let rows = self.rows.iter().zip(0..).filter_map(|(row, n)| row.map(|key| (key, n)));
            let value = |key: u64| if values { format!(",{key}.5") } else { String::new() };
            rows.filter(|(key, _)| take(*key)).map(|(key, n)| format!("{key},row {n}{}", value(key))).collect()
        };
        let found = &self.last.1;
        assert_eq!(rows(&self.path("out.csv")), lines(&|key| now.contains(&key), true), "day {day}");
        let is_gained = |key: u64| now.contains(&key) && !found.contains(&key);
        assert_eq!(rows(&self.path("gained.csv")), lines(&is_gained, true), "day {day}");
        let is_lost = |key: u64| found.contains(&key) && !self.list.contains(&key);
        assert_eq!(rows(&self.path("lost.csv")), lines(&is_lost, false), "day {day}");
        assert_eq!((changes.asked, changes.gained, changes.lost), (asked, gained, lost), "day {day}");
        assert_eq!(changes.kept, self.keys().len() as u64 - asked, "day {day}");
    }

    /// The run is over: it is the last one now.
    fn passed(&mut self) {
        self.last = (self.keys(), self.expected().0);
    }
}

fn changes(report: Report) -> Changes {
    report.outcome.changes.expect("it keeps")
}

/// Thirty days of both tables: keys that come, go and come back on either side, keys in several rows, rows without one, days on which nothing
/// changes, and a day on which the whole list is prepared anew.
#[test]
fn thirty_days_are_as_a_full_join_each_day() {
    let mut rng = SessionRng::from_seed(Zeroizing::new([27; 32]));
    let mut below = |n: u64| u64::from_le_bytes(rng.bytes()) % n;
    let mut street = street("");
    street.rows = (0..30).map(|i| Some(4 * i)).collect();
    let plan = street.plan("alice");
    let mut granted = 0;
    for day in 1..=30 {
        if day % 5 != 0 {
            let more: Vec<u64> = (0..below(6)).map(|_| below(150)).collect();
            let gone: Vec<u64> = (0..below(6)).map(|_| below(150)).filter(|key| !more.contains(key)).collect();
            if day == 17 {
                street.list.retain(|key| !gone.contains(key));
                street.list.extend(&more);
                street.prepare_anew();
            } else {
                street.change(&more, &gone);
            }
        }
        if day % 7 != 0 {
            let n = street.rows.len() as u64;
            let drop: BTreeSet<u64> = (0..below(5)).map(|_| below(n)).collect();
            let mut place = 0..;
            street.rows.retain(|_| !drop.contains(&place.next().unwrap()));
            for _ in 0..below(6) {
                let (at, key) = (below(street.rows.len() as u64 + 1) as usize, below(160));
                street.rows.insert(at, (key < 150).then_some(key));
            }
        }
        street.open();
        let changes = changes(street.ask(&plan));
        street.compare(&changes, day);
        assert_eq!((changes.run, changes.since.is_some()), (day, day > 1));
        granted += changes.asked;
        assert_eq!(street.granted(), granted, "day {day}");
        street.passed();
    }
    assert!(granted < 150, "{granted} keys were asked for");
    assert!(!street.path("alice.kept.log").exists() && !street.path("alice.kept.new").exists());
    // The same day once more: nothing has changed, and nothing is asked for.
    let changes = changes(street.ask(&plan));
    street.compare(&changes, 31);
    assert_eq!((changes.asked, changes.gained, changes.lost), (0, 0, 0));
}

/// A run is killed at each of its writes, and once more at each while it is repeated: the same command does the day that was not over, says the
/// same of it, and asks for no key whose answer had reached the disk.
#[test]
fn a_run_that_is_killed_at_any_write_is_the_run_of_its_day() {
    each_write_may_be_the_last(false);
}

/// The same where the power fails, so that what was not synced is gone.
#[test]
fn a_run_whose_power_fails_at_any_write_is_the_run_of_its_day() {
    each_write_may_be_the_last(true);
}

fn each_write_may_be_the_last(power: bool) {
    let mut street = street("");
    street.rows = (0..12).map(|i| Some(2 * i)).collect();
    street.house.serve();
    let plan = street.plan("alice");
    let (kept, log) = (street.path("alice.kept"), street.path("alice.kept.log"));
    let before = street.path("before");
    // The first day begins without a kept file, the second with one.
    for day in [1, 2] {
        if day == 2 {
            street.change(&[10, 14], &[0, 12]);
            street.rows.drain(..2);
            street.rows.extend([Some(3), None, Some(57), Some(77), Some(3)]);
            street.open();
        }
        fs::create_dir_all(&before).unwrap();
        let set_back = || {
            let _ = (fs::remove_file(&kept), fs::remove_file(&log), fs::remove_file(street.path("alice.kept.new")));
            if day == 2 {
                fs::copy(before.join("kept"), &kept).unwrap();
            }
        };
        let asked = street.expected().1[0];
        let (mut writes, mut lost) = (0, 0);
        loop {
            set_back();
            let (world, disk) = Frail::world(writes);
            let from = street.granted();
            let first = street.ask_on(&plan, world);
            if power {
                disk.power_fails();
            }
            if first.is_ok() {
                assert!(disk.left() == 0 && writes > 6, "{writes} writes are too few for a run");
                break;
            }
            assert!(first.unwrap_err().to_string().contains("the process was killed"), "day {day}, write {writes}");
            let was_answered = street.granted() > from;
            // It is killed at another write, or comes to its end before, and then it is not.
            let (world, disk) = Frail::world(writes / 2);
            let second = street.ask_on(&plan, world);
            if power {
                disk.power_fails();
            }
            let changes = changes(second.unwrap_or_else(|_| street.ask(&plan)));
            street.compare(&changes, day);
            assert_eq!(changes.run, day);
            // What was answered in vain is a request whose answers could not be written.
            let vain = street.granted() - from - asked;
            assert!(vain.is_multiple_of(asked) && vain <= 2 * asked, "day {day}, write {writes}: {vain}");
            if !was_answered {
                assert!(vain <= asked);
            }
            lost += u64::from(was_answered && vain > 0);
            assert!(!log.exists());
            writes += 1;
        }
        // Answers are lost where they are just being written, or synced.
        assert!((1..=2).contains(&lost), "day {day}: answers were lost at {lost} of {writes} writes");
        street.passed();
        fs::copy(&kept, before.join("kept")).unwrap();
    }
}

/// A client that gives day files in the place of its table.
struct Daily {
    street: Street,
    plan: AskPlan,
    /// The keys of its table, and what the day does to them.
    keys: BTreeSet<u64>,
    added: Vec<u64>,
    removed: Vec<u64>,
    /// The keys of the last run, and those of them that were found.
    last: (BTreeSet<u64>, BTreeSet<u64>),
    /// What stands before each key in its files.
    pad: &'static str,
}

impl Daily {
    fn new() -> Self {
        Self::with("")
    }

    /// Of a service with these lines more.
    fn with(more: &str) -> Self {
        let street = street(more);
        let input = |name: &str| vesica_table::Input::new(street.path(name));
        let plan = street.plan("alice");
        let plan = AskPlan {
            input: Some((input("added.csv"), vec!["id".into()])),
            day: Some(DayPlan { removed: Some(input("removed.csv")) }),
            columns: Some(vec!["id".into()]),
            ..plan
        };
        let [keys, found] = [BTreeSet::new(), BTreeSet::new()];
        let last = (keys, found);
        Self { street, plan, keys: BTreeSet::new(), added: Vec::new(), removed: Vec::new(), last, pad: "" }
    }

    fn ask_on(&self, world: World) -> Result<Report, Error> {
        self.run_on(world).and_then(Run::end)
    }

    fn run_on(&self, world: World) -> Result<Run, Error> {
        for (name, keys) in [("added", &self.added), ("removed", &self.removed)] {
            // A row without a key is none of either.
            let lines: String = keys.iter().map(|key| format!("{}{key},\"a, row\"\n", self.pad)).collect();
            fs::write(self.street.path(&format!("{name}.csv")), format!("id,what\n{lines},none\n")).unwrap();
        }
        let io = Io { world, ..files(&self.plan).unwrap() };
        ask(&self.plan, io, &Control::new(()))
    }

    fn ask(&self) -> Changes {
        changes(self.ask_on(World::default()).unwrap_or_else(|error| panic!("{error}")))
    }

    /// The table as the day leaves it.
    fn now(&self) -> BTreeSet<u64> {
        let stay = self.keys.iter().filter(|key| !self.removed.contains(key));
        stay.chain(&self.added).copied().collect()
    }

    /// How many keys are new, and which are found.
    fn expected(&self) -> (u64, BTreeSet<u64>) {
        let now = self.now();
        (now.difference(&self.last.0).count() as u64, now.intersection(&self.street.list).copied().collect())
    }

    /// Compares the outputs with a join of both tables, and a run with the one before.
    #[track_caller]
    fn compare(&self, changes: &Changes, day: u64) {
        let (asked, found) = self.expected();
        let set = |name: &str| rows(&self.street.path(name)).into_iter().collect::<BTreeSet<_>>();
        let with = |keys: &mut dyn Iterator<Item = &u64>| -> BTreeSet<String> {
            keys.map(|key| format!("{key},{key}.5")).collect()
        };
        assert_eq!(set("out.csv"), with(&mut found.iter()), "day {day}");
        assert_eq!(rows(&self.street.path("out.csv")).len(), found.len(), "day {day}");
        assert_eq!(set("gained.csv"), with(&mut found.difference(&self.last.1)), "day {day}");
        let now = self.now();
        let lost: BTreeSet<&u64> = self.last.1.iter().filter(|key| now.contains(key) && !found.contains(key)).collect();
        assert_eq!(set("lost.csv"), lost.iter().map(|key| key.to_string()).collect(), "day {day}");
        let gained = found.difference(&self.last.1).count();
        assert_eq!(
            (changes.asked, changes.gained, changes.lost),
            (asked, gained as u64, lost.len() as u64),
            "day {day}"
        );
        assert_eq!((changes.run, changes.kept), (day, now.len() as u64 - asked), "day {day}");
    }

    /// The run is over.
    fn passed(&mut self) {
        self.keys = self.now();
        self.last = (self.keys.clone(), self.expected().1);
    }
}

/// Thirty days of both tables, of which the client says what changed: keys that come and go on either side, that are there already or not there, in
/// both files, or twice in one; and days on which nothing changes.
#[test]
fn thirty_days_of_day_files_are_as_a_full_join_each_day() {
    let mut rng = SessionRng::from_seed(Zeroizing::new([29; 32]));
    let mut below = |n: u64| u64::from_le_bytes(rng.bytes()) % n;
    let mut daily = Daily::new();
    let mut granted = 0;
    for day in 1..=30 {
        if day % 5 != 0 {
            let more: Vec<u64> = (0..below(6)).map(|_| below(150)).collect();
            let gone: Vec<u64> = (0..below(6)).map(|_| below(150)).filter(|key| !more.contains(key)).collect();
            daily.street.change(&more, &gone);
            if day == 17 {
                daily.street.prepare_anew();
            }
        }
        (daily.added, daily.removed) = match day {
            1 => ((0..30).map(|i| 4 * i).collect(), vec![7, 4]),
            _ if day % 7 == 0 => (Vec::new(), Vec::new()),
            _ => {
                let added: Vec<u64> = (0..below(9)).map(|_| below(150)).collect();
                // The number of the day, so that no two days have the same files.
                let removed = (0..below(9)).map(|_| below(150)).chain(added.first().copied()).chain([1000 + day]);
                (added.iter().copied().chain(added.first().copied()).collect(), removed.collect())
            }
        };
        daily.street.open();
        let changes = daily.ask();
        daily.compare(&changes, day);
        granted += changes.asked;
        assert_eq!(daily.street.granted(), granted, "day {day}");
        daily.passed();
    }
    assert!(daily.keys.len() > 30 && !daily.street.path("alice.kept.log").exists());
}

/// A run with day files that is killed at any write is the run of its day; and files that were given before change nothing, or are refused.
#[test]
fn day_files_count_once() {
    let mut daily = Daily::new();
    daily.street.house.serve();
    (daily.added, daily.removed) = ((0..12).map(|i| 2 * i).collect(), Vec::new());
    let (kept, before) = (daily.street.path("alice.kept"), daily.street.path("before"));
    for day in [1, 2] {
        if day == 2 {
            daily.street.change(&[10, 14], &[0, 12]);
            (daily.added, daily.removed) = (vec![3, 57, 77, 3, 2], vec![0, 2, 6, 99]);
            daily.street.open();
        }
        let mut writes = 0;
        loop {
            for name in ["alice.kept", "alice.kept.log", "alice.kept.new"] {
                let _ = fs::remove_file(daily.street.path(name));
            }
            if day == 2 {
                fs::copy(&before, &kept).unwrap();
            }
            let (world, disk) = Frail::world(writes);
            if daily.ask_on(world).is_ok() {
                assert!(disk.left() == 0 && writes > 6);
                break;
            }
            let second = daily.ask_on(Frail::world(writes / 2).0).map(changes);
            let changes = second.unwrap_or_else(|_| daily.ask());
            daily.compare(&changes, day);
            writes += 1;
        }
        if day == 1 {
            fs::copy(&kept, &before).unwrap();
        }
        daily.passed();
    }
    let refused = |daily: &Daily, words: &[&str]| {
        daily.street.house.wire.said();
        let was = fs::read(&kept).unwrap();
        let error = daily.ask_on(World::default()).unwrap_err();
        assert!(matches!(error.fault(), Fault::Config), "{error}");
        let error = error.to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        // It is refused before anybody is contacted.
        assert!(daily.street.house.wire.said().is_empty() && fs::read(&kept).unwrap() == was);
    };
    // Those of the run before change nothing.
    let same = daily.ask();
    assert_eq!((same.run, same.asked, same.gained, same.lost), (3, 0, 0, 0));
    daily.compare(&same, 3);
    // Those of a day before that would bring keys back.
    let today = (daily.added.clone(), daily.removed.clone());
    (daily.added, daily.removed) = ((0..12).map(|i| 2 * i).collect(), Vec::new());
    refused(&daily, &["mine.input.added", "run 1", "of run 3"]);
    // A run that was written and not ended is done again with its own files, whether or not the new kept file has its place.
    for is_renamed in [false, true] {
        (daily.added, daily.removed) = (vec![400], vec![3]);
        drop(daily.run_on(World::default()).unwrap());
        if is_renamed {
            fs::rename(daily.street.path("alice.kept.new"), &kept).unwrap();
        }
        for other in [today.clone(), (vec![400], Vec::new()), (Vec::new(), Vec::new())] {
            (daily.added, daily.removed) = other;
            refused(&daily, &["mine.input.added", "run 4", "not ended"]);
        }
        if !is_renamed {
            let planned = crate::plan_client(&daily.plan, None).unwrap_err().to_string();
            assert!(planned.contains("run 4") && planned.contains("not ended"), "{planned}");
        }
    }
    (daily.added, daily.removed) = (vec![400], vec![3]);
    let changes = daily.ask();
    daily.compare(&changes, 4);
    // Neither kind of run takes the other's file.
    let by_tables = AskPlan { day: None, columns: None, ..daily.plan.clone() };
    daily.plan = by_tables;
    refused(&daily, &["alice.kept", "day files", "mine.input.added"]);
}

/// The same of a first run, which has no kept file before it. What was not written whole is of no run whose outputs are in their places.
#[test]
fn the_day_files_of_a_first_run_that_was_not_ended_are_given_again() {
    let mut daily = Daily::new();
    daily.street.house.serve();
    daily.added = vec![0, 3, 4];
    let (world, disk) = Frail::world(1000);
    drop(daily.run_on(world).unwrap());
    daily.street.house.wire.said();
    // Its outputs are in their places, so it is known also when the power fails.
    disk.power_fails();
    daily.added = vec![6];
    let error = daily.ask_on(World::default()).unwrap_err().to_string();
    assert!(error.contains("mine.input.added: run 1 of") && error.contains("not ended"), "{error}");
    assert!(daily.street.house.wire.said().is_empty());
    // Nor where the same day was begun again and broke off, at whatever write.
    for writes in 0..40 {
        daily.added = vec![0, 3, 4];
        let (world, disk) = Frail::world(writes);
        drop(daily.run_on(world));
        disk.power_fails();
        daily.added = vec![6];
        let error = daily.ask_on(World::default()).unwrap_err().to_string();
        assert!(error.contains("not ended"), "{writes}: {error}");
    }
    daily.added = vec![0, 3, 4];
    daily.compare(&daily.ask(), 1);
    daily.passed();
    (daily.added, daily.removed) = (vec![6], vec![0]);
    drop(daily.run_on(World::default()).unwrap());
    let new = daily.street.path("alice.kept.new");
    fs::write(&new, &fs::read(&new).unwrap()[..200]).unwrap();
    (daily.added, daily.removed) = (vec![9], Vec::new());
    daily.compare(&daily.ask(), 2);
}

/// Which day's the files are is told by the keys in them, so by the rules of the offer, which a client that has lost its copy does not know before it
/// is connected.
#[test]
fn day_files_are_known_again_by_the_rules_of_the_offer() {
    for rules in ["", "rules = [\"trim\"]"] {
        let mut daily = Daily { pad: " ", ..Daily::with(rules) };
        daily.street.house.serve();
        daily.added = vec![0, 3, 4];
        daily.ask();
        let [cache, kept, new] =
            [&daily.plan.cache, &daily.street.path("alice.kept"), &daily.street.path("alice.kept.new")]
                .map(|path| path.clone());
        (daily.added, daily.removed) = (vec![6], vec![0]);
        drop(daily.run_on(World::default()).unwrap());
        fs::rename(new, &kept).unwrap();
        let forget = || fs::remove_dir_all(&cache).unwrap();
        let refused = |daily: &Daily, words: [&str; 2]| {
            forget();
            let error = daily.ask_on(World::default()).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        daily.added = vec![9];
        refused(&daily, ["run 2", "not ended"]);
        daily.added = vec![6];
        forget();
        let changes = daily.ask();
        assert_eq!((changes.run, changes.asked), (2, 1));
        (daily.added, daily.removed) = (vec![0, 3, 4], Vec::new());
        refused(&daily, ["given in run 1", "of run 2"]);
    }
}

/// What a run writes has a place of its own, by whatever name. Else one output took the place of another one, and of the kept file or its key.
#[test]
fn no_file_that_a_run_writes_is_another_one_by_whatever_name() {
    let mut daily = Daily::new();
    daily.street.house.serve();
    daily.added = vec![3];
    daily.compare(&daily.ask(), 1);
    let (dir, path) = (daily.street.house.dir.path(), |name: &str| daily.street.path(name));
    std::os::unix::fs::symlink(dir, path("link")).unwrap();
    std::os::unix::fs::symlink(path("gained.csv"), path("to gained.csv")).unwrap();
    let all = || -> Vec<_> {
        let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        paths.map(|path| (fs::read(&path).unwrap(), path)).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let (before, mut plans) = (all(), Vec::new());
    daily.street.house.wire.said();
    for (field, name, other) in [
        ("mine.output.lost", "link/gained.csv", "a file of mine.output.gained"),
        ("mine.output.lost", "to gained.csv", "a file of mine.output.gained"),
        ("mine.output.lost", "alice/../link/seal.key", "a file of mine.kept.key"),
        ("mine.output.gained", "link/out.csv", "a file of mine.output.path"),
        ("mine.output.gained", "link/alice.kept", "a file of mine.kept.path"),
        ("mine.output.gained", "alice/../alice.kept.log", "a file of mine.kept.path"),
        ("mine.output.gained", "link/alice.kept.new", "a file of mine.kept.path"),
        ("mine.output.gained", "link/alice/offer.json", "a file of mine.cache"),
        ("mine.report", "link/gained.csv", "a file of mine.output.gained"),
        ("mine.report", "link/removed.csv", "one of the files of the input"),
        ("mine.report", "added.csv", "one of the files of the input"),
        ("mine.report", "link/seal.key", "a file of mine.kept.key"),
    ] {
        let mut plan = daily.plan.clone();
        let csv = Some(vesica_table::Format::Csv);
        let output = Some(vesica_table::Output { format: csv, ..vesica_table::Output::new(path(name)) });
        let kept = plan.kept.as_mut().unwrap();
        match field {
            "mine.output.gained" => kept.gained = output,
            "mine.output.lost" => kept.lost = output,
            _ => plan.report = Some(path(name)),
        }
        let (before, all) = (&before, &all);
        let refused = move |error: crate::Error| {
            assert!(matches!(error.fault(), Fault::Config), "{error}");
            let error = error.to_string();
            assert!(error.starts_with(field) && error.contains(other), "{name}: {error}");
            assert!(all() == *before, "{name}");
        };
        refused(ask(&plan, files(&plan).unwrap(), &Control::new(())).err().unwrap());
        plans.push((plan, refused));
    }
    // A check looks whether the server listens, and the rest does not.
    assert!(daily.street.house.wire.said().is_empty());
    for (plan, refused) in plans {
        refused(crate::check_client(&plan, &Control::new(())).unwrap_err());
    }
}

/// Nothing is written over the keys that were removed, by whatever name.
#[test]
fn an_output_is_not_the_file_of_what_was_removed() {
    let mut daily = Daily::new();
    daily.street.house.serve();
    daily.added = vec![3];
    std::os::unix::fs::symlink(daily.street.path("removed.csv"), daily.street.path("lost.csv")).unwrap();
    let error = daily.ask_on(World::default()).unwrap_err();
    assert!(matches!(error.fault(), Fault::Config) && error.to_string().contains("choose another output"), "{error}");
    fs::remove_file(daily.street.path("lost.csv")).unwrap();
    daily.compare(&daily.ask(), 1);
}

/// A run is over when it is ended, which whoever has told of it does. If that fails, the same command does the day again, also with a table that has
/// changed meanwhile; and it is seen before anything is asked for that there is no room.
#[test]
fn a_run_is_done_again_until_it_is_ended() {
    let mut street = street("");
    street.rows = (0..12).map(|i| Some(2 * i)).collect();
    let plan = street.plan("alice");
    for day in [1, 2] {
        street.change(&[10, 14 + day], &[6 * day]);
        street.open();
        let asked = street.expected().1[0];
        let from = street.granted();
        for _ in 0..2 {
            street.write();
            let run = ask(&plan, files(&plan).unwrap(), &Control::new(())).unwrap();
            street.compare(run.report.outcome.changes.as_ref().unwrap(), day);
        }
        assert_eq!(street.granted() - from, asked);
        // One of its keys is no more in the table, and one is new there.
        street.rows.remove(3);
        street.rows.push(Some(300 + 2 * day));
        let changes = changes(street.ask(&plan));
        street.compare(&changes, day);
        assert_eq!((changes.run, street.granted() - from), (day, asked + 1));
        street.passed();
        street.rows.extend([Some(33 * day), Some(33 * day)]);
    }
    let (offer, io) = (Offer::load(&plan.cache).unwrap(), files(&plan).unwrap());
    room(&plan, &io, &offer, (1, 1), 1).unwrap();
    let error = room(&plan, &io, &offer, (1, 1), 1 << 62).unwrap_err().to_string();
    assert!(["mine.kept: ", "alice.kept", "out.csv", "gained.csv"].iter().all(|word| error.contains(word)), "{error}");
    // Each output is reckoned with as it is written: in CSV a value may be twice as long.
    let value = offer.value_bytes.unwrap();
    for (format, each) in [(None, 4 * value), (Some(vesica_table::Format::Parquet), 3 * value)] {
        let mut plan = plan.clone();
        plan.output.as_mut().unwrap().format = format;
        let error = room(&plan, &io, &offer, (1 << 56, 1), 1).unwrap_err().to_string();
        assert!(error.contains(&format!(" {each} for each")), "{error}");
    }
}

/// Where only what changed is wanted, nothing else is written, and the same is said.
#[test]
fn what_changed_may_be_all_that_is_written() {
    let mut street = street("");
    street.rows = (0..12).map(|i| Some(2 * i)).collect();
    let mut plan = street.plan("alice");
    for day in [1, 2] {
        street.change(&[10, 14], &[12 * (day - 1)]);
        street.open();
        let whole = changes(street.ask(&AskPlan { cache: street.path("other"), ..street.plan("other") }));
        street.compare(&whole, day);
        let written = ["gained.csv", "lost.csv"].map(|name| fs::read(street.path(name)).unwrap());
        fs::remove_file(street.path("out.csv")).unwrap();
        plan.output = None;
        let report = street.ask(&plan);
        assert!(
            report.outcome.output.is_none() && report.outcome.matched_rows == Some(street.expected().0.len() as u64)
        );
        assert!(!street.path("out.csv").exists());
        assert!(["gained.csv", "lost.csv"].map(|name| fs::read(street.path(name)).unwrap()) == written);
        let changes = changes(report);
        assert_eq!((changes.gained, changes.lost), (whole.gained, whole.lost));
        street.passed();
    }
    let nowhere =
        AskPlan { kept: plan.kept.map(|kept| KeptPlan { gained: None, lost: None, ..kept }), ..street.plan("alice") };
    assert!(files(&AskPlan { output: None, ..nowhere }).err().unwrap().to_string().contains("mine.output"));
}

/// Less is left of an allowance than a request has keys: it is asked for and kept, and the same command goes on behind it when there is more.
#[test]
fn what_is_left_of_an_allowance_is_asked_for() {
    let mut street = street("");
    street.rows = (0..40).map(Some).collect();
    let plan = street.plan("alice");
    for allowed in [20, 21, 40] {
        street.house.server.guests[0].keys_a_day = allowed;
        street.open();
        let run = street.ask_on(&plan, World::default());
        assert_eq!(street.granted(), allowed);
        if allowed < 40 {
            let error = run.unwrap_err();
            assert!(error.to_string().contains("bob does not answer: 0 keys are left"), "{error}");
        } else {
            street.compare(&changes(run.unwrap()), 1);
        }
    }
}

/// A server that answers a part of a run, of whatever size it names, does not learn by the rest how many keys are new.
#[test]
fn parts_of_an_allowance_are_whole_batches() {
    let said = |new: u64| {
        let mut street = street("");
        street.rows = (0..new).map(Some).collect();
        let plan = AskPlan { batch: 5, ..street.plan("alice") };
        let of = [(7, "2 keys are left"), (40, "")].map(|(allowed, why)| {
            street.house.server.guests[0].keys_a_day = allowed;
            street.open();
            let run = street.ask_on(&plan, World::default());
            let error = run.err().map_or(String::new(), |error| error.to_string());
            assert!(error.contains(why) && error.is_empty() == why.is_empty(), "{error}");
            assert!(error.contains("mine.batch = 5") != why.is_empty(), "{error}");
            (street.granted(), street.house.wire.said())
        });
        assert_eq!(of.each_ref().map(|(granted, _)| *granted), [5, 15]);
        of
    };
    // A client's goodbye repeats why the server refused, with the moment at which the server's clock says that more is allowed. A server that has
    // refused may close the connection before it.
    let timeless = |bye: Option<Vec<u8>>| {
        bye.map(|words| words.into_iter().filter(|byte| !byte.is_ascii_digit()).collect::<Vec<_>>())
    };
    for ((granted, one), (again, other)) in said(11).into_iter().zip(said(14)) {
        assert_eq!((granted, one.len()), (again, other.len()));
        for ((lines, bye), (others, and_bye)) in one.into_iter().zip(other) {
            assert_eq!(lines, others);
            let (bye, and_bye) = (timeless(bye), timeless(and_bye));
            assert!(bye == and_bye || bye.is_none() || and_bye.is_none(), "{bye:?} {and_bye:?}");
        }
    }
}

/// Answers of a run that was broken off are of use to the next one, from whatever file that begins. Under another offer they are left where they are.
#[test]
fn answers_of_a_run_that_was_broken_off_are_not_lost() {
    let mut street = street("");
    street.rows = (0..20).map(|i| Some(2 * i)).collect();
    street.house.serve();
    let plan = street.plan("alice");
    street.ask(&plan);
    street.passed();
    // The kept file is gone, so everything is asked for again; and then that run is not ended.
    let (kept, log) = (street.path("alice.kept"), street.path("alice.kept.log"));
    let good = fs::read(&kept).unwrap();
    fs::remove_file(&kept).unwrap();
    street.rows.push(Some(3));
    street.write();
    drop(ask(&plan, files(&plan).unwrap(), &Control::new(())).unwrap());
    let (left, granted) = (fs::read(&log).unwrap(), street.granted());
    assert_eq!(granted, 41);
    let other = AskPlan { offer: Some([1; 32]), ..plan.clone() };
    let error = street.ask_on(&other, World::default()).unwrap_err().to_string();
    assert!(error.contains("alice.kept.log") && error.contains(&street.house.offer), "{error}");
    assert!(fs::read(&log).unwrap() == left);
    // The kept file is put back. What was answered meanwhile is in the log, and the run is the one after the file's.
    fs::write(&kept, &good).unwrap();
    for _ in 0..2 {
        street.write();
        let run = ask(&plan, files(&plan).unwrap(), &Control::new(())).unwrap();
        let changes = run.report.outcome.changes.as_ref().unwrap();
        street.compare(changes, 2);
        assert_eq!((changes.run, street.granted()), (2, granted));
    }
    street.compare(&changes(street.ask(&plan)), 2);
    assert!(!log.exists());
}

/// Between two of its messages a client writes as much to its disk whether or not keys are new, if `mine.batch` makes up for them.
#[test]
fn as_much_is_written_on_a_night_without_new_keys() {
    let writes = |new: u64, batch: u64| {
        let mut street = street("");
        street.house.serve();
        let plan = AskPlan { batch, ..street.plan("alice") };
        street.rows = (0..8).map(Some).collect();
        street.ask(&plan);
        street.rows = (new..8 + new).map(Some).collect();
        let (world, disk) = Frail::world(1000);
        street.ask_on(&plan, world).unwrap();
        1000 - disk.left()
    };
    let none = writes(0, 20);
    assert_eq!([writes(1, 20), writes(8, 20)], [none; 2]);
    assert!(writes(1, 1) > writes(0, 1) && none > writes(1, 1), "what is compared can differ");
}

/// What a server sees is how many keys are new, in one conversation: not how many there are, which were found, gained, lost or left out, and with
/// `mine.batch` not even that.
#[test]
fn the_server_sees_how_many_keys_are_new() {
    let said = |changed: &[(bool, &[u64])], batch: u64| -> Vec<Vec<Said>> {
        let mut street = street("");
        street.house.serve();
        let plan = AskPlan { batch, ..street.plan("alice") };
        let day = |(changes, rows): &(bool, &[u64])| {
            street.change(if *changes { &[9, 500] } else { &[9, 6] }, if *changes { &[3, 6] } else { &[0, 500] });
            street.open();
            street.rows = rows.iter().copied().map(Some).collect();
            street.ask(&plan);
            street.house.wire.said()
        };
        changed.iter().map(day).collect()
    };
    // Two keys, then one that is new, then none; all are found or none is.
    let all = said(&[(false, &[6, 9]), (false, &[6, 9, 12]), (false, &[12])], 1);
    let none = said(&[(false, &[1, 2]), (false, &[2, 4]), (false, &[2, 4, 4, 4])], 1);
    assert!(all == none);
    let lines = |said: &Vec<Said>| said.iter().flat_map(|(lines, _)| lines.keys().cloned()).collect::<Vec<_>>();
    assert!(lines(&all[1]).iter().any(|line| line.starts_with("ask")) && lines(&all[2]) == ["service"]);
    // The same changes of the list: gained and lost by one client, nothing of the other.
    let changes = said(&[(true, &[3, 6, 500]), (false, &[3, 6, 500]), (true, &[3, 6, 500, 7])], 1);
    let nothing = said(&[(true, &[1, 2, 4]), (false, &[1, 2, 4]), (true, &[1, 2, 4, 8])], 1);
    assert!(changes == nothing);
    let padded = [said(&[(false, &[6, 9]), (false, &[6, 9])], 4), said(&[(false, &[1]), (false, &[1, 2, 3, 4])], 4)];
    assert!(padded[0] == padded[1]);
    assert!(all[..2] != padded[0], "what is compared can differ");
}

/// A server that is set back, also to a client that has lost its copy of the store; one that answers by another key, and one that breaks off. Each
/// is named, and what was kept stays as it was.
#[test]
fn a_server_that_lies_is_named_and_harms_nothing_that_is_kept() {
    let mut street = street("verifiable = true");
    street.rows = vec![Some(3), Some(4)];
    let first = street.path("first");
    put_back(street.house.store(), &first);
    street.change(&[4], &[]);
    let newer = street.path("newer");
    put_back(street.house.store(), &newer);
    street.house.serve();
    let plan = street.plan("alice");
    street.ask(&plan);
    street.passed();
    let kept = fs::read(street.path("alice.kept")).unwrap();
    let refused = |street: &Street, words: &[&str]| {
        let error = street.ask_on(&plan, World::default()).unwrap_err();
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{text}");
        assert!(fs::read(street.path("alice.kept")).unwrap() == kept, "{text}");
        street.house.wire.said()
    };
    // It goes back to a list without key 4.
    put_back(&first, street.house.store());
    street.open();
    refused(&street, &["manifest", "has 1 parts", "had 2"]);
    fs::remove_dir_all(street.path("alice")).unwrap();
    let said = refused(&street, &["bob serves a store of 1 parts", "has a store of 2 parts", "alice.kept"]);
    assert!(said.iter().all(|(lines, _)| lines.keys().all(|line| line == "service")));
    // It is right again, and what it answers is changed on the way: a key is new, so there is an answer.
    put_back(&newer, street.house.store());
    street.open();
    street.rows.push(Some(5));
    // The proof has a challenge and a response.
    for at in [0, 40] {
        street.house.wire.spoil(64, move |proof| proof[at] ^= 1);
        refused(&street, &["bob"]);
    }
    street.house.wire.spoil(32, |element| element[3] ^= 4);
    refused(&street, &["bob"]);
    street.house.wire.spoil(0, |_| ());
    let changes = changes(street.ask(&plan));
    street.compare(&changes, 2);
    assert_eq!((changes.run, changes.asked), (2, 1));
}

/// A server appends a part in which a search meets an entry, with the value of another one, for a key whose tag is none of the part's. It does not
/// see who had found that key: nobody's run fails by it.
#[test]
fn a_part_that_is_searched_otherwise_than_it_reads_ends_nobodys_run() {
    let mut street = street("");
    let (holder, other) = (street.plan("holder"), street.plan("other"));
    // The tags of the server's keys: it knows its function.
    street.rows = (0..40).map(|row| Some(3 * row)).collect();
    street.write();
    let (ctl, store) = (Control::new(()), street.house.store().to_owned());
    let table = vesica_table::open(&holder.input.as_ref().unwrap().0).unwrap();
    let wants = Wants::read(&holder, &*table, &[Vec::new()], &ctl).unwrap();
    let public = Offer::load(&store).unwrap().public().unwrap();
    let function = crate::prepare::secret::root(&street.house.server, &public, &ctl).unwrap().0.function().unwrap();
    let (keys, mut outputs) = (wants.digests.iter().copied().map(KeyDigest).collect::<Vec<_>>(), Vec::new());
    function.eval(&keys, &mut outputs);
    let bits = Store::open(&store).unwrap().manifest().tag_bits();
    let mut tags = Vec::new();
    let tag = |row: u64, want: usize| {
        let hash = blake3::derive_key("vesica 2026 store tag", &outputs[want].0);
        tags.push((3 * row, u128::from_be_bytes(*hash.first_chunk().unwrap()) >> (128 - bits)));
        Ok(())
    };
    wants.each(tag).unwrap();
    // 980 tags have 1024 heads in two blocks, of which the second one's word of the directory is made larger: a search in it begins behind the
    // first head's tags and zero, so that it takes the next head's tags for those of its own, and each for the one behind it.
    let (first, crooked) = (street.path("first"), street.path("crooked"));
    put_back(&store, &first);
    street.change(&(10_000..10_980).collect::<Vec<_>>(), &[]);
    let mut chosen = None;
    street.house.spoil_part(1, |part, directory, _| {
        let (high, low_bits) = (directory + 24, bits as usize - 10);
        let low = high + (1024 + 980_usize).div_ceil(64) * 8;
        let is_one = |bit: usize| part[high + bit / 8] >> (bit % 8) & 1 == 1;
        // How many tags stand before each head.
        let mut before = vec![0];
        for head in 0..1024 {
            let begin = before[head];
            before.push(begin + (0..).take_while(|more| is_one(head + begin + more)).count());
        }
        assert_eq!(before[1024], 980);
        let head = |tag: u128| (tag >> low_bits) as usize;
        let has_next = |head: usize| before[head + 1] < before[head + 2] && before[head + 1] < 979;
        let (key, tag) =
            *tags.iter().find(|(_, tag)| (512..1023).contains(&head(*tag)) && has_next(head(*tag))).unwrap();
        part[directory + 8..][..8].copy_from_slice(&(before[513] as u64 + 1).to_le_bytes());
        let at = (before[head(tag) + 1] + 1) * low_bits;
        for bit in 0..low_bits {
            let (byte, mask) = (low + (at + bit) / 8, 1 << ((at + bit) % 8));
            part[byte] = part[byte] & !mask | if tag >> bit & 1 == 1 { mask } else { 0 };
        }
        chosen = Some((key, tags.iter().find(|(_, tag)| head(*tag) < 512).unwrap().0));
    });
    put_back(&store, &crooked);
    let (key, bystander) = chosen.unwrap();
    let mut day = |store: &Path| {
        put_back(store, street.house.store());
        street.open();
        [(key, &holder), (bystander, &other)].map(|(key, plan)| {
            street.rows = vec![Some(key)];
            (street.ask(plan).outcome, street.house.wire.said())
        })
    };
    let [(outcome, _), (of_other, _)] = day(&first);
    assert_eq!([outcome.matched, of_other.matched], [Some(1); 2]);
    let [(outcome, said), (of_other, said_by_other)] = day(&crooked);
    assert!(!said.is_empty() && said == said_by_other);
    assert_eq!([outcome.matched, of_other.matched], [Some(0), Some(1)]);
    assert_eq!((&*outcome.left_out[0].name, outcome.changes.unwrap().lost), ("unreadable", 1));
}

/// A kept file is of one key, one service and offer, one party and its key columns; and every byte of it counts.
#[test]
fn a_kept_file_is_of_use_to_its_own_run_alone() {
    let mut street = street("");
    street.rows = (0..40).map(|key| Some(2 * key)).collect();
    street.house.serve();
    let plan = street.plan("alice");
    street.ask(&plan);
    street.house.wire.said();
    let path = street.path("alice.kept");
    let good = fs::read(&path).unwrap();
    let table = vesica_table::open(&plan.input.as_ref().unwrap().0).unwrap();
    let ctl = Control::new(());
    let wants = Wants::read(&plan, &*table, &[Vec::new()], &ctl).unwrap();
    let recall = |plan: &AskPlan| -> Result<(), Error> {
        let kept = Kept::open(plan, &World::default(), &ctl)?.unwrap();
        let wants = Wants::of_each(wants.digests.clone());
        let (wants, known) = kept.past().recall((wants, None), &ctl)?;
        assert!(known.new.is_empty() && (0..wants.digests.len()).filter(|want| known.before(*want)).count() == 14);
        Ok(())
    };
    recall(&plan).unwrap();
    let why = |plan: &AskPlan| {
        let error = recall(plan).unwrap_err();
        assert!(matches!(error.fault(), Fault::Config | Fault::Input), "{error}");
        error.to_string()
    };
    let with = |change: &dyn Fn(&mut AskPlan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        why(&plan)
    };
    vesica_job::rooms::replace_privately(&street.path("other.key"), &[8; 32]).unwrap();
    let other_key = with(&|plan| plan.kept.as_mut().unwrap().key = street.path("other.key").into());
    assert!(other_key.contains("alice.kept") && other_key.contains("mine.kept.key"), "{other_key}");
    let other_offer = with(&|plan| plan.offer = Some([1; 32]));
    assert!(other_offer.contains(&street.house.offer) && other_offer.contains("Name a new file"), "{other_offer}");
    for other in [
        with(&|plan| plan.id = "another".into()),
        with(&|plan| plan.me = vesica_types::Party::new(1, "carol")),
        with(&|plan| plan.server = vesica_types::Party::new(0, "dan")),
        with(&|plan| plan.input.as_mut().unwrap().1 = vec!["what".into()]),
    ] {
        assert!(other.contains("another service, another party"), "{other}");
    }
    // Cut anywhere, changed anywhere, or longer.
    for at in (0..good.len()).step_by(7).chain(good.len() - 40..good.len()) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        assert!(why(&plan).contains("alice.kept"), "{at}");
        fs::write(&path, &good[..at]).unwrap();
        assert!(why(&plan).contains("alice.kept"), "{at}");
    }
    fs::write(&path, [&good[..], b"more"].concat()).unwrap();
    why(&plan);
    fs::write(&path, &good).unwrap();
    recall(&plan).unwrap();
    // Nobody was contacted for any of it, and two runs do not work on one file.
    assert!(street.house.wire.said().is_empty());
    let held = Kept::open(&plan, &World::default(), &ctl).unwrap();
    assert!(why(&plan).contains("another run is at work"));
    drop(held);
    // An older kept file is one of an earlier day: what changed since is told, and asked for.
    street.change(&[2], &[6]);
    street.open();
    street.last = (street.keys(), street.keys().into_iter().filter(|key| key % 6 == 0).collect());
    street.last.1.retain(|key| *key < 120);
    for _ in 0..2 {
        let changes = changes(street.ask(&plan));
        street.compare(&changes, 2);
        assert_eq!((changes.run, changes.gained, changes.lost), (2, 1, 1));
        fs::write(&path, &good).unwrap();
    }
}

/// What a process that is killed within a request has on the disk is whole batches, whatever their size.
#[test]
fn records_of_answers_are_whole_batches() {
    for batch in [1, 2, 10_000, 1 << 15, (1 << 15) + 1, 1 << 20] {
        let record = crate::client::kept::record(batch) as u64;
        assert!(record.is_multiple_of(batch) && record * 64 <= 64 << 20 && record > 1 << 14, "{batch}: {record}");
    }
}
