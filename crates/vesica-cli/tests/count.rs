//! A job whose result is a count: how many keys are common, and no rows of anybody.

use crate::two;

use serde_json::Value;
use std::time::{Duration, Instant};
use two::{LONG, Running, Two};

/// Two parties that count: of 30 and 40 keys 20 are common, some in several rows, and some rows have none.
fn count() -> Two {
    let table = |keys: std::ops::Range<u32>| {
        let n = keys.end - keys.start;
        let rows: String = (0..2 * n).map(|i| format!("{},{i}\n", keys.start + i % n)).collect();
        format!("id,v\n,none\n{rows}")
    };
    counting(Two::with(&table(0..30), &table(10..50)))
}

fn counting(mut two: Two) -> Two {
    two.change("curve =", "result = \"count\"\ncurve =");
    for job in [&mut two.alice, &mut two.bob] {
        let name = job.name.clone();
        job.change(&format!("output = {{ path = \"{name}.out.csv\" }}"), &format!("report = \"{name}.report.json\""));
    }
    two
}

fn outcome(two: &Two, name: &str) -> Value {
    two.report(name)["outcome"].clone()
}

/// There is no row of anybody in any file that a run made.
#[track_caller]
fn no_rows(two: &Two) {
    let known = |name: &String| ["csv", "pem", "toml", "report.json"].iter().any(|end| name.ends_with(end));
    let names = two::names(two.dir.path());
    assert!(names.iter().all(|name| known(name) && !name.contains("out")), "{names:?}");
}

#[test]
fn those_that_learn_are_told_the_count_and_no_more() {
    for learners in [&["alice", "bob"][..], &["alice"], &["bob"]] {
        let mut two = count();
        let learns = format!("learns = [{}]", learners.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", "));
        two.change("learns = [\"alice\", \"bob\"]", &learns);
        let ends = two.run_well();
        for (name, ended) in ["alice", "bob"].into_iter().zip(&ends) {
            let outcome = outcome(&two, name);
            let learns = learners.contains(&name);
            assert_eq!(outcome["matched"], if learns { 20.into() } else { Value::Null });
            assert_eq!((&outcome["matched_rows"], &outcome["output"]), (&Value::Null, &Value::Null));
            let words = if learns { "distinct keys are held by" } else { "You did not ask to learn the result" };
            assert!(ended.stdout.contains(words), "{}", ended.stdout);
            assert_eq!(ended.stdout.contains("20 of your"), learns, "{}", ended.stdout);
        }
        no_rows(&two);
    }
}

#[test]
fn an_output_that_is_named_is_noted_and_not_written() {
    let mut two = count();
    two.alice.change("report =", "output = { path = \"alice.out.csv\" }\nreport =");
    let [alice, bob] = two.run_well();
    assert!(alice.stderr.contains("alice.out.csv, for the result is a count"), "{}", alice.stderr);
    assert!(!bob.stderr.contains("mine.output"), "{}", bob.stderr);
    no_rows(&two);
}

#[test]
fn a_count_of_nothing() {
    for tables in [("id\n", "id\n1\n2\n"), ("id\n1\n", "id\n"), ("id\n", "id,v\n,1\n"), ("id\n1\n2\n", "id\n3\n4\n")] {
        let two = counting(Two::with(tables.0, tables.1));
        two.run_well();
        assert_eq!(
            [outcome(&two, "alice")["matched"].as_u64(), outcome(&two, "bob")["matched"].as_u64()],
            [Some(0); 2]
        );
    }
}

#[test]
fn too_small_a_count_is_told_to_nobody() {
    for learns in ["[\"alice\", \"bob\"]", "[\"alice\"]", "[\"bob\"]"] {
        let mut two = count();
        two.change("learns = [\"alice\", \"bob\"]", &format!("learns = {learns}\nlimits.min_intersection = 21"));
        two.change("patience =", "resume = \"ledger\"\npatience =");
        for ended in two.run() {
            ended.bad(3, &["fewer keys are common", "21"]);
        }
        assert!(!two.path("alice.report.json").exists() && !two.path("bob.report.json").exists());
        assert!(two::names(&two.path("ledger")).is_empty());
        two.change("min_intersection = 21", "min_intersection = 20");
        two.run_well();
        let matched = ["alice", "bob"].map(|name| outcome(&two, name)["matched"].as_u64());
        assert_eq!(matched, ["alice", "bob"].map(|name| learns.contains(name).then_some(20)));
    }
}

/// What takes a second or so without vectors.
fn slow() -> Two {
    let two = Two::sampled("2000,1500", "700");
    let mut two = counting(two);
    two.change("patience =", "resume = \"ledger\"\nworkers = 1\npatience =");
    two
}

fn start(job: &two::Job) -> Running {
    Running::start(job.command(&["--log", "json"]).env("VESICA_CPU", "portable"))
}

#[track_caller]
fn counted(two: &Two, learners: &str) {
    let matched = ["alice", "bob"].map(|name| outcome(two, name)["matched"].as_u64());
    assert_eq!(matched, ["alice", "bob"].map(|name| learners.contains(name).then_some(700)));
    assert!(two::names(&two.path("ledger")).is_empty());
}

#[test]
fn a_killed_count_that_starts_again_is_the_same() {
    for (victim, learns) in [
        ("alice", "[\"alice\", \"bob\"]"),
        ("bob", "[\"alice\", \"bob\"]"),
        ("alice", "[\"alice\"]"),
        ("bob", "[\"alice\"]"),
    ] {
        let mut two = slow();
        two.change("learns = [\"alice\", \"bob\"]", &format!("learns = {learns}"));
        let (alice, bob) = (start(&two.alice), start(&two.bob));
        [&alice, &bob].iter().for_each(|run| run.until("\"phase\":\"match\""));
        let (gone, other, job) = if victim == "alice" { (alice, bob, &two.alice) } else { (bob, alice, &two.bob) };
        gone.signal("KILL");
        assert_eq!(gone.wait(LONG).code, None);
        let again = start(job).wait(LONG).good();
        assert!(again.stderr.contains("\"phase\":\"resume\""), "{}", again.stderr);
        assert!(other.wait(LONG).good().stderr.contains(&format!("lost {victim}")));
        counted(&two, learns);
    }
}

/// Who is killed when the count is known has it in the ledger. Both killed and started again end with the same count.
#[test]
fn a_count_that_is_known_is_kept() {
    for phase in ["compare", "settle", "finish"] {
        let two = slow();
        let runs = [start(&two.alice), start(&two.bob)];
        let began = Instant::now();
        while !runs.iter().any(|run| run.said().contains(&format!("\"phase\":\"{phase}\""))) {
            assert!(began.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(runs);
        let whole = two.path("ledger/alice.ledger").exists() && two.path("ledger/bob.ledger").exists();
        two.run_well();
        if whole {
            counted(&two, "alice bob");
        }
    }
}
