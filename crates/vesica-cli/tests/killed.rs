//! Runs that are killed in each of their stages, again and again, and started again: what they write is byte for byte what a run writes that nothing
//! happens to, in every format, in one file and in parts. Nothing else is left.

use crate::resume::has_unit;
use crate::two;

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use two::{Job, LONG, Running, Two};

/// Rows of a table, of which half match: few enough for a test, and so many that every stage lasts longer than it takes to kill a process.
const ROWS: u32 = 20_000;

/// How often a case is begun anew whose party came through a stage before it was killed in it.
const TRIES: u32 = 20;

/// What a table and an output are.
struct Kind {
    /// Writes alice's table, which has the keys that it is given, and names it.
    table: fn(&Two, &[u32]) -> &'static str,
    /// The output of each party, behind its name.
    out: &'static str,
    /// What is said of it beside its name.
    more: &'static str,
    /// Whether both learn, with rows in the order of their tables: another order is one of the run's salt.
    both: bool,
    /// How many rows each key has in alice's table.
    repeats: u32,
}

const KINDS: [Kind; 4] = [
    Kind { table: csv, out: "out.csv", more: "", both: false, repeats: 1 },
    Kind { table: csv, out: "out.arrow", more: ", order = \"input\"", both: true, repeats: 3 },
    Kind { table: parquet, out: "out", more: ", parts = \"1 MiB\"", both: false, repeats: 1 },
    Kind { table: folder, out: "out", more: ", parts = \"files\", order = \"input\"", both: true, repeats: 1 },
];

/// A value as long as that there are several parts.
fn value(key: u32) -> String {
    format!("row {key:0>150}")
}

fn lines(keys: &[u32]) -> String {
    keys.iter().fold("id,v\n".to_owned(), |text, key| text + &format!("{key},{}\n", value(*key)))
}

fn csv(two: &Two, keys: &[u32]) -> &'static str {
    two.write("alice.csv", lines(keys));
    "alice.csv"
}

/// The same rows in three files.
fn folder(two: &Two, keys: &[u32]) -> &'static str {
    fs::create_dir(two.path("in")).unwrap();
    let part = keys.len().div_ceil(3);
    keys.chunks(part).enumerate().for_each(|(day, keys)| two.write(&format!("in/{day}.csv"), lines(keys)));
    "in"
}

/// In several row groups.
fn parquet(two: &Two, keys: &[u32]) -> &'static str {
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(keys.iter().map(|key| i64::from(*key)).collect::<Int64Array>())),
        ("v", Arc::new(keys.iter().map(|key| Some(value(*key))).collect::<StringArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(3000)).build();
    let file = File::create(two.path("alice.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(groups)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    "alice.parquet"
}

impl Kind {
    /// Two parties that have not begun, with ledgers and several units.
    fn two(&self) -> Two {
        let keys: Vec<u32> = (0..ROWS).map(|row| row * 7919 % (ROWS / self.repeats)).collect();
        let mut two = Two::new();
        let path = (self.table)(&two, &keys);
        two.write("bob.csv", lines(&(0..ROWS / 2).map(|row| 2 * row).collect::<Vec<_>>()));
        two.change(
            "protocol = \"ecdh\"\ncurve = \"curve25519\"",
            "protocol = \"hash\"\naccept = [\"guessable_keys\"]\nunit = 3000",
        );
        two.alice.change("path = \"alice.csv\"", &format!("path = \"{path}\""));
        for job in [&mut two.alice, &mut two.bob] {
            let (name, resume) = (job.name.clone(), "workers = 1\nresume = \"ledger\"\n");
            job.change("output = ", &format!("{resume}output = "));
            // What bob writes is of the kind of his table.
            let (out, more) = if name == "alice" { (self.out, self.more) } else { ("out.csv", ", order = \"input\"") };
            let more = if self.both { more } else { more.trim_end_matches(", order = \"input\"") };
            job.change(&format!("{{ path = \"{name}.out.csv\" }}"), &format!("{{ path = \"{name}.{out}\"{more} }}"));
        }
        if !self.both {
            two.only("alice");
        }
        two
    }

    /// What stands where both write: names and bytes.
    fn outputs(&self, two: &Two) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let outs = [Some(format!("alice.{}", self.out)), self.both.then(|| "bob.out.csv".to_owned())];
        for out in outs.into_iter().flatten().map(PathBuf::from) {
            let at = two.path(out.to_str().unwrap());
            match at.is_dir() {
                true => {
                    found.extend(two::names(&at).iter().map(|name| (out.join(name), fs::read(at.join(name)).unwrap())))
                }
                false => found.push((out, fs::read(at).unwrap())),
            }
        }
        assert!(found.iter().all(|(_, bytes)| bytes.len() > 1000), "something is written");
        found
    }
}

/// A party whose standard error says what phase it is in.
fn start(job: &Job) -> Child {
    let mut command = job.command(&["--log", "json"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts a party and kills it when it begins phase `name`. Says whether it was in it to its end.
fn killed_in(job: &Job, name: &str) -> bool {
    let mut party = start(job);
    let mut ended = false;
    for line in BufReader::new(party.stderr.take().unwrap()).lines() {
        let entry: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap_or_default();
        if entry["phase"] == name {
            match entry["message"].as_str() {
                Some("begin") => party.kill().unwrap(),
                Some("end") => ended = true,
                _ => {}
            }
        }
    }
    // The ninth signal.
    party.wait().unwrap().signal() == Some(9) && !ended
}

/// Starts a party and kills it when it has finished a unit. Says whether others were not finished then.
fn killed_at_a_unit(two: &Two, job: &Job) -> bool {
    let mut party = Running::start(&mut job.command(&["--log", "json"]));
    let began = Instant::now();
    while !has_unit(two, &job.name) && !party.is_over() {
        assert!(began.elapsed() < LONG, "no unit is finished:\n{}", party.said());
        std::thread::sleep(Duration::from_millis(1));
    }
    if party.is_over() {
        return false;
    }
    party.signal("KILL");
    let ended = party.wait(LONG);
    ended.code.is_none()
        && !ended.stderr.lines().any(|line| line.contains("\"phase\":\"match\"") && line.contains("\"end\""))
}

/// Kills alice in each stage of one run, one after the other, and lets her come to her end; none if she came through a stage. Bob is killed
/// once where he learns too.
fn killed_in_each(kind: &Kind) -> Option<Two> {
    let mut two = kind.two();
    let bob = two.bob.start();
    let killed = ["read", "partition", "keep"].iter().all(|stage| killed_in(&two.alice, stage))
        && killed_at_a_unit(&two, &two.alice);
    if !killed {
        return None;
    }
    let bob = if kind.both {
        drop(bob);
        two.bob.start()
    } else {
        bob
    };
    if !killed_in(&two.alice, "write") {
        return None;
    }
    if !kind.both {
        // Bob is done, and she need not wait for him.
        bob.wait(LONG).good();
        two.alice.change("patience = \"60s\"", "patience = \"1s\"");
        two.alice.start().wait(LONG).good();
        return Some(two);
    }
    two.alice.start().wait(LONG).good();
    bob.wait(LONG).good();
    Some(two)
}

#[test]
fn a_run_that_is_killed_in_each_stage_writes_the_same_bytes() {
    for kind in KINDS {
        let two = kind.two();
        two.run_well();
        let wanted = kind.outputs(&two);
        let killed = (0..TRIES).find_map(|_| killed_in_each(&kind));
        let two = killed.expect("it is killed in each stage once");
        let found = kind.outputs(&two);
        assert_eq!(names(&found), names(&wanted));
        assert!(found == wanted, "other bytes in {}", kind.out);
        assert!(two::names(&two.path("ledger")).is_empty());
        nothing_under_way(two.dir.path());
    }
}

fn names(outputs: &[(PathBuf, Vec<u8>)]) -> Vec<&Path> {
    outputs.iter().map(|(name, _)| &**name).collect()
}

/// What a killed run had begun is gone.
#[track_caller]
fn nothing_under_way(dir: &Path) {
    let names = two::names(dir);
    assert!(!names.iter().any(|name| name.starts_with(".vesica-")), "{names:?}");
}

/// Where a folder of parts is under way, a run that is killed leaves it. The next one removes it, and not that of a run that lives.
#[test]
fn what_a_killed_run_had_begun_is_removed_by_the_next() {
    let kind = &KINDS[2];
    let two = kind.two();
    let begun = || {
        let names = two::names(two.dir.path());
        names.into_iter().filter(|name| name.starts_with(".vesica-")).collect::<Vec<_>>()
    };
    assert!(killed_in(&two.alice, "connect"), "nobody is there whom she could meet");
    let left = begun();
    assert_eq!(left.len(), 1, "{left:?}");
    let living = two.alice.start();
    let since = Instant::now();
    while begun().is_empty() || begun() == left {
        assert!(since.elapsed() < LONG, "{:?}", begun());
        std::thread::sleep(Duration::from_millis(10));
    }
    let now = begun();
    assert!(now.len() == 1 && now != left, "{left:?} {now:?}");
    // The ledger is the living run's. One that keeps nothing writes to another folder of the same place.
    let mut other = Job { name: "alice".into(), folder: two.dir.path().join("beside"), text: two.alice.text.clone() };
    fs::create_dir(&other.folder).unwrap();
    for name in ["alice.pem", "alice.parquet"] {
        fs::copy(two.path(name), other.folder.join(name)).unwrap();
    }
    other.change("resume = \"ledger\"\n", "");
    other.change("path = \"alice.out\"", "path = \"../other\"");
    other.change(&two.port.to_string(), &two::port().to_string());
    assert!(killed_in(&other, "connect"));
    assert!(begun().contains(&now[0]) && begun().len() == 2, "{:?}", begun());
    let bob = two.bob.start();
    living.wait(LONG).good();
    bob.wait(LONG).good();
    // The living one has come to its end, and that of the other waits for whoever writes there next.
    assert_eq!(begun().len(), 1);
}
