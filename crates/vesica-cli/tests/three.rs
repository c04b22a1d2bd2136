//! Three parties, each a process: what they find, and that trouble between two of them ends or mends all three.

use crate::two;

use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use two::{Job, LONG, Proxy, Running, Three, run};

/// A table with keys that come twice and more, in no order, and with rows that have none.
fn table(keys: std::ops::Range<u32>, rows: u32) -> String {
    let n = keys.end - keys.start;
    let row = |i: u32| format!("{},row {i}\n", keys.start + i * 7 % n);
    let rows: String = (0..rows).map(row).collect();
    format!("id,v\n,none\n{rows},none\n")
}

/// Of 30, 40 and 50 keys 20 are in all three tables, 30 in the first two, 30 in the last two.
fn tables() -> [String; 3] {
    [table(0..30, 70), table(0..40, 55), table(10..60, 50)]
}

fn three(tables: &[String; 3]) -> Three {
    Three::with(tables.each_ref().map(String::as_str))
}

fn key(row: &str) -> &str {
    row.split(',').next().unwrap()
}

/// A plain join: the rows of each table, in its order, whose keys are in all.
fn joined(tables: &[String; 3]) -> [String; 3] {
    let keys = tables.each_ref().map(|table| table.lines().skip(1).map(key).collect::<BTreeSet<_>>());
    let common: BTreeSet<&str> = &(&keys[0] & &keys[1]) & &keys[2];
    tables.each_ref().map(|table| {
        let kept = table.lines().skip(1).filter(|row| common.contains(key(row)) && !key(row).is_empty());
        let rows: String = kept.map(|row| format!("{row}\n")).collect();
        format!("{}\n{rows}", table.lines().next().unwrap())
    })
}

fn report(three: &Three, name: &str) -> Value {
    let text = std::fs::read_to_string(three.path(&format!("{name}.report.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Who is told how many keys two of the parties have in common.
fn told_the_pair_count(report: &Value) -> &Value {
    let revealed = report["revealed"].as_array().unwrap();
    &revealed.iter().find(|one| one["name"] == "pair_count").unwrap()["to"]
}

fn with_reports(three: &mut Three) {
    for job in &mut three.jobs {
        let report = format!("[mine]\nreport = \"{}.report.json\"", job.name);
        job.change("[mine]", &report);
    }
}

#[test]
fn all_find_the_plain_join() {
    let tables = tables();
    let mut three = three(&tables);
    with_reports(&mut three);
    for ended in three.run() {
        let ended = ended.good();
        assert!(ended.stdout.contains("hold too: 20 distinct keys."), "{}", ended.stdout);
        assert!(ended.stderr.contains("the rows stand in the input's order"), "{}", ended.stderr);
    }
    assert_eq!(three.outputs(), joined(&tables));
    let keys = [30, 40, 50];
    for (place, name) in Three::NAMES.into_iter().enumerate() {
        let (report, output) = (report(&three, name), &three.outputs()[place]);
        let outcome = &report["outcome"];
        assert_eq!((&outcome["matched"], &outcome["keys"]), (&20.into(), &keys[place].into()));
        assert_eq!(outcome["matched_rows"], output.lines().count() - 1);
        assert_eq!(outcome["output"]["rows"], outcome["matched_rows"]);
        assert_eq!(report["chosen"]["peers"].as_array().unwrap().len(), 2);
        // All learn, so alice is the one who collects, and bob after her is told.
        assert_eq!(*told_the_pair_count(&report), serde_json::json!(["bob"]));
    }
}

#[test]
fn one_finds_the_plain_join_alone() {
    let tables = tables();
    for (place, name) in Three::NAMES.into_iter().enumerate() {
        let mut three = three(&tables);
        three.only(name);
        with_reports(&mut three);
        let ends = three.run_well();
        let output = std::fs::read_to_string(three.path(&format!("{name}.out.csv"))).unwrap();
        assert_eq!(output, joined(&tables)[place]);
        for (other, ended) in Three::NAMES.into_iter().zip(&ends) {
            let report = report(&three, other);
            let next = Three::NAMES[(place + 1) % 3];
            assert_eq!(*told_the_pair_count(&report), serde_json::json!([next]), "{name}");
            assert_eq!(report["outcome"]["matched"], if other == name { 20.into() } else { Value::Null });
            if other != name {
                assert!(ended.stdout.contains(&format!("were matched for {name}.")), "{}", ended.stdout);
                assert!(!three.path(&format!("{other}.out.csv")).exists());
            }
        }
    }
}

/// Where a key stands in one row of a table, or the first row counts, outputs line up.
#[test]
fn outputs_line_up_where_keys_are_not_joined() {
    let tables = tables();
    let mut three = three(&tables);
    three.change("[mine]", "duplicates = \"first\"\n[mine]");
    three.run_well();
    let outputs = three.outputs();
    let keys = outputs.each_ref().map(|text| text.lines().skip(1).map(key).collect::<Vec<_>>());
    assert_eq!((&keys[0], &keys[1], keys[0].len()), (&keys[1], &keys[2], 20));
    for (table, output) in tables.iter().zip(&outputs) {
        for row in output.lines() {
            assert_eq!(table.lines().find(|first| key(first) == key(row)), Some(row));
        }
    }
    three.change("duplicates = \"first\"", "duplicates = \"error\"");
    three.change("patience = \"60s\"", "patience = \"1s\"");
    let ends = three.run();
    let faults = ends.iter().filter(|ended| ended.code == Some(3) && ended.error().contains("rows")).count();
    assert!(faults > 0 && ends.iter().all(|ended| ended.code != Some(0)), "{ends:?}");
}

#[test]
fn an_empty_table_matches_nothing() {
    for empty in 0..3 {
        let mut tables = tables();
        tables[empty] = if empty == 1 { "id,v\n,x\n,y\n".into() } else { "id,v\n".into() };
        for learner in [None, Some("alice"), Some("carol")] {
            let mut three = three(&tables);
            learner.iter().for_each(|name| three.only(name));
            three.run_well();
            for name in Three::NAMES.into_iter().filter(|name| learner.is_none_or(|learner| learner == *name)) {
                assert_eq!(std::fs::read_to_string(three.path(&format!("{name}.out.csv"))).unwrap(), "id,v\n");
            }
        }
    }
}

#[test]
fn each_curve_and_a_disk_serve_three() {
    let tables = tables();
    for curve in ["fourq", "p256", "ristretto255"] {
        let mut three = three(&tables);
        three.change("curve25519", curve);
        three.change("[mine]", "[mine]\nmemory = \"64 MiB\"");
        three.run_well();
        assert_eq!(three.outputs(), joined(&tables), "{curve}");
    }
}

/// The job must say that it accepts what one party is told.
#[test]
fn what_a_party_is_told_must_be_accepted() {
    let mut three = three(&tables());
    three.change("accept = [\"pair_count\"]\n", "");
    for job in &three.jobs {
        job.start().wait(LONG).bad(2, &["shared.accept", "write accept = [\"pair_count\"]"]);
    }
    for job in &three.jobs {
        run(&["plan", job.file().to_str().unwrap(), "--rows", "1000"]).bad(2, &["pair_count"]);
    }
}

/// Tables whose matching takes a second or so without vectors.
fn slow_tables() -> [String; 3] {
    [table(0..1500, 1600), table(100..1600, 1700), table(200..1700, 1500)]
}

fn slow(tables: &[String; 3]) -> Three {
    let mut three = three(tables);
    three.change("patience = \"60s\"", "patience = \"60s\"\nworkers = 1\nresume = \"ledger\"");
    three
}

fn start_slow(job: &Job) -> Running {
    Running::start(job.command(&["--log", "json"]).env("VESICA_CPU", "portable"))
}

/// Starts all, and waits until they are in a phase.
fn all_in(three: &Three, phase: &str) -> [Running; 3] {
    let runs = three.jobs.each_ref().map(start_slow);
    runs.iter().for_each(|run| run.until(&format!("\"phase\":\"{phase}\"")));
    runs
}

#[track_caller]
fn no_ledgers(three: &Three) {
    assert!(two::names(&three.path("ledger")).is_empty(), "{:?}", two::names(&three.path("ledger")));
}

#[test]
fn a_killed_party_that_starts_again_goes_on_with_the_others() {
    let tables = slow_tables();
    for (victim, learner) in [(0, None), (1, None), (2, None), (1, Some("carol")), (2, Some("carol"))] {
        let mut three = slow(&tables);
        learner.iter().for_each(|name| three.only(name));
        let mut runs = all_in(&three, "match").map(Some);
        let gone = runs[victim].take().unwrap();
        gone.signal("KILL");
        assert_eq!(gone.wait(LONG).code, None);
        let again = start_slow(&three.jobs[victim]);
        for run in runs.into_iter().flatten() {
            let ended = run.wait(LONG).good();
            assert!(ended.stderr.contains(&format!("lost {}", Three::NAMES[victim])), "{ended:?}");
        }
        let again = again.wait(LONG).good();
        // Its keys were kept, so that they were not cut again.
        assert!(again.stderr.contains("\"phase\":\"resume\"") && !again.stderr.contains("partition"), "{again:?}");
        match learner {
            None => assert_eq!(three.outputs(), joined(&tables)),
            Some(name) => {
                let output = std::fs::read_to_string(three.path(&format!("{name}.out.csv"))).unwrap();
                assert_eq!(output, joined(&tables)[2]);
            }
        }
        no_ledgers(&three);
    }
}

/// All have finished the protocol, and none has an output: the others know that they need not do it again.
#[test]
fn all_killed_after_the_protocol_do_not_run_it_again() {
    let tables = slow_tables();
    let three = slow(&tables);
    // Two of three wait for carol's word.
    let runs = three.jobs.each_ref().map(start_slow);
    let began = Instant::now();
    while !runs.iter().any(|run| run.said().contains("\"phase\":\"compare\"")) {
        assert!(began.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(runs);
    three.run_well();
    assert_eq!(three.outputs(), joined(&tables));
    no_ledgers(&three);
}

/// A connection between two of them breaks. The third hears of it, and all meet again.
#[test]
fn a_connection_of_two_that_breaks_is_made_again() {
    let tables = slow_tables();
    // Who calls whom, and some moments within the matching: between carol and alice there is little to say.
    for (caller, called, cuts) in [(1, 0, [10_000, 60_000]), (2, 0, [7_000, 14_000]), (2, 1, [10_000, 60_000])] {
        for cut in cuts {
            let mut three = slow(&tables);
            three.change("resume = \"ledger\"", "");
            let port = three.ports[called];
            let proxy = Proxy::before(port);
            proxy.cut_after(cut);
            three.jobs[caller].change(&port.to_string(), &proxy.port.to_string());
            let ends = three.jobs.each_ref().map(start_slow).map(|run| run.wait(LONG).good());
            for ended in &ends {
                assert!(ended.stderr.contains("lost "), "{caller} to {called} cut after {cut}: {ended:?}");
            }
            assert_eq!(three.outputs(), joined(&tables), "{caller} to {called} cut after {cut}");
        }
    }
}

/// Killed when the protocol is over, at each of the steps that end a run. The others may be done and gone by then: in that case the
/// victim says what to do, which is to run all three again.
#[test]
fn a_party_killed_at_the_end_of_a_run_goes_on() {
    let tables = slow_tables();
    let check = |phase: &str, victim: usize| {
        let mut three = slow(&tables);
        // Fifteen processes begin at once, and those of a run have to meet in this time.
        three.change("patience = \"60s\"", "patience = \"12s\"");
        let mut runs = three.jobs.each_ref().map(start_slow).map(Some);
        let gone = runs[victim].take().unwrap();
        gone.until(&format!("\"phase\":\"{phase}\""));
        drop(gone);
        let again = start_slow(&three.jobs[victim]).wait(LONG);
        let others: Vec<_> = runs.into_iter().flatten().map(|run| run.wait(LONG)).collect();
        if again.code != Some(0) || others.iter().any(|run| run.code != Some(0)) {
            // Unless the victim had removed its ledger already.
            let words = ["did not come within 12 s", "run the same command again on every side"];
            let kept = again.stderr.contains("\"phase\":\"resume\"");
            let told = words.map(|words| again.stderr.contains(words));
            assert!(told[0] && (told[1] || !kept), "{phase}: {again:?} {others:?}");
            three.run_well();
        }
        assert_eq!(three.outputs(), joined(&tables), "{phase}");
        no_ledgers(&three);
    };
    std::thread::scope(|scope| {
        for (victim, phase) in ["compare", "settle", "write", "finish", "close"].into_iter().enumerate() {
            scope.spawn(move || check(phase, victim % 3));
        }
    });
}

/// One party or more, up to three times a run, at any moment. Parties may be left alone that were killed when the others were done;
/// then all run once more.
#[test]
#[ignore = "takes minutes"]
fn parties_killed_at_any_moment_go_on() {
    let tables = slow_tables();
    let mut chance = 1u64;
    let mut below = |n: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) % n
    };
    for round in 0..40 {
        let mut three = slow(&tables);
        three.change("patience = \"60s\"", "patience = \"10s\"");
        let mut runs = three.jobs.each_ref().map(|job| Some(start_slow(job)));
        for _ in 0..=below(3) {
            std::thread::sleep(Duration::from_millis(below(2500)));
            let victims = 1 + below(7);
            for (i, job) in three.jobs.iter().enumerate() {
                if victims >> i & 1 == 1 && !runs[i].as_mut().unwrap().is_over() {
                    drop(runs[i].take());
                    runs[i] = Some(start_slow(job));
                }
            }
        }
        let runs = runs.map(|run| run.unwrap().wait(LONG));
        if runs.iter().any(|run| run.code != Some(0)) {
            assert!(runs.iter().all(|run| matches!(run.code, Some(0 | 4 | 5))), "round {round}: {runs:?}");
            // Only a party that was done is not there any more.
            assert!(runs.iter().any(|run| run.code == Some(0)), "round {round}: {runs:?}");
            three.jobs.each_ref().map(start_slow).into_iter().for_each(|run| _ = run.wait(LONG).good());
        }
        assert_eq!(three.outputs(), joined(&tables), "round {round}");
        no_ledgers(&three);
    }
}

#[test]
fn a_party_that_does_not_come_back_is_named_by_both() {
    let mut three = slow(&slow_tables());
    three.change("patience = \"60s\"", "patience = \"4s\"");
    let mut runs = all_in(&three, "match").map(Some);
    drop(runs[1].take());
    for run in runs.into_iter().flatten() {
        let ended = run.wait(Duration::from_secs(30));
        let last = ended.stderr.lines().last().unwrap();
        // Whose patience ends first says so to the other.
        assert!(matches!(ended.code, Some(4 | 5)), "{ended:?}");
        assert!(last.contains("bob") && (last.contains("within 4s") || last.contains("within 4 s")), "{last}");
    }
    three.no_outputs();
}

#[test]
fn a_late_party_is_waited_for_by_both() {
    let tables = tables();
    let three = three(&tables);
    for late in 0..3 {
        let others: Vec<usize> = (0..3).filter(|place| *place != late).collect();
        let early = others.iter().map(|&place| three.jobs[place].start()).collect::<Vec<_>>();
        early.iter().for_each(|run| run.until(Three::NAMES[late]));
        std::thread::sleep(Duration::from_millis(500));
        three.jobs[late].start().wait(LONG).good();
        early.into_iter().for_each(|run| _ = run.wait(LONG).good());
        assert_eq!(three.outputs(), joined(&tables));
    }
}

#[test]
fn ctrl_c_ends_all_three_and_names_who_pressed_it() {
    for pressed in 0..3 {
        let three = slow(&slow_tables());
        let runs = all_in(&three, "match");
        runs[pressed].signal("INT");
        for (place, ended) in runs.map(|run| run.wait(Duration::from_secs(20))).into_iter().enumerate() {
            assert_eq!(ended.code, Some(if place == pressed { 130 } else { 5 }), "{ended:?}");
            let words = format!("{} was interrupted", Three::NAMES[pressed]);
            assert!(place == pressed || ended.stderr.lines().last().unwrap().contains(&words), "{ended:?}");
        }
        three.no_outputs();
    }
}

#[test]
fn a_wrong_certificate_of_one_ends_all_three() {
    let mut three = three(&tables());
    three.change("patience = \"60s\"", "patience = \"10s\"");
    let other = three.path("other");
    let print = run(&["cert", "bob", "--out", other.to_str().unwrap()]).good().stdout.trim().to_owned();
    three.jobs[1].change("bob.pem", "other/bob.pem");
    let [alice, bob, carol] = three.run();
    // Bob calls alice, who does not let him in. Carol calls bob and sees who answers, unless he has given up by then.
    assert!(alice.stderr.contains(&print), "{alice:?}");
    assert!(carol.error().contains("is not bob") || carol.error().contains("bob did not come"), "{carol:?}");
    assert!([alice, bob, carol].iter().all(|party| matches!(party.code, Some(4 | 5))), "one of them goes on");
    three.no_outputs();
}

/// Carol holds another job than the other two: each of the three is told.
#[test]
fn a_job_of_one_that_differs_is_named_by_all() {
    for odd in 0..3 {
        let mut three = three(&tables());
        three.jobs[odd].change("id = \"test\"", "id = \"tset\"");
        for (place, ended) in three.run().into_iter().enumerate() {
            let values = if place == odd { "\"tset\" for" } else { "\"test\" for" };
            ended.bad(2, &["holds a different job", "shared.id", values]);
            if place != odd {
                ended.bad(2, &[&format!("{} holds a different job", Three::NAMES[odd])]);
            }
        }
        three.no_outputs();
    }
}

#[test]
fn too_few_common_keys_are_told_to_nobody() {
    let tables = tables();
    for learner in [None, Some("alice"), Some("bob"), Some("carol")] {
        let mut three = three(&tables);
        learner.iter().for_each(|name| three.only(name));
        three.change("patience = \"60s\"", "patience = \"60s\"\nresume = \"ledger\"");
        three.change("[mine]", "limits.min_intersection = 21\n[mine]");
        for ended in three.run() {
            ended.bad(3, &["fewer keys are common", "21"]);
        }
        three.no_outputs();
        no_ledgers(&three);
        three.change("min_intersection = 21", "min_intersection = 20");
        three.run_well();
        for (name, joined) in Three::NAMES.into_iter().zip(joined(&tables)) {
            if learner.is_none_or(|learner| learner == name) {
                assert_eq!(std::fs::read_to_string(three.path(&format!("{name}.out.csv"))).unwrap(), joined);
            }
        }
    }
}

/// A full disk of one leaves no file with anybody.
#[test]
fn a_full_disk_of_one_ends_all_three() {
    let long: String = "x".repeat(400);
    let table = |keys: std::ops::Range<u32>| {
        let rows: String = keys.map(|i| format!("{i},{long}\n")).collect();
        format!("id,v\n{rows}")
    };
    let three = three(&[table(0..400), table(0..400), table(0..400)]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_vesica"), "run"]);
    let bob = Running::start(shell.arg(three.jobs[1].file()));
    let others = [&three.jobs[0], &three.jobs[2]].map(Job::start);
    bob.wait(LONG).bad(2, &["bob.out.csv", "no space left"]);
    others.into_iter().for_each(|run| run.wait(LONG).bad(5, &["bob stopped the run"]));
    three.no_outputs();
}

/// All check at once: each finds the other two.
#[test]
fn three_parties_check_each_other() {
    let mut three = three(&tables());
    let check = |job: &Job| Running::start(two::vesica().arg("check").arg(job.file()).arg("--peer"));
    for ended in three.jobs.each_ref().map(check).map(|run| run.wait(LONG).good()) {
        assert!(Three::NAMES.iter().filter(|name| ended.stdout.contains(*name)).count() == 3, "{}", ended.stdout);
    }
    three.jobs[2].change("learns = [\"alice\", \"bob\", \"carol\"]", "learns = [\"carol\"]");
    for ended in three.jobs.each_ref().map(check).map(|run| run.wait(LONG)) {
        ended.bad(2, &["shared.learns", "carol"]);
    }
}

/// carol only checks while alice and bob wait for her run: she hears that both hold the same job, and they wait on.
#[test]
fn one_of_three_checks_while_the_others_wait() {
    let three = three(&tables());
    let [alice, bob, carol] = &three.jobs;
    let (alice, bob) = (alice.start(), bob.start());
    let check = Running::start(two::vesica().arg("check").arg(carol.file()).arg("--peer")).wait(LONG).good();
    assert_eq!(check.stdout.matches("and waits for this side to run it").count(), 2, "{}", check.stdout);
    [&alice, &bob].iter().for_each(|run| run.until("carol has checked the job: it fits; still waiting for its run"));
    for run in [alice, bob, carol.start()] {
        run.wait(LONG).good();
    }
    three.outputs();
}

/// bob's check has met alice's run and waits for carol. That bob gives it up is not the end of alice's run.
#[test]
fn a_check_that_is_given_up_leaves_a_run_waiting() {
    let three = three(&tables());
    let [alice, bob, carol] = &three.jobs;
    let alice = alice.start();
    let check = Running::start(two::vesica().arg("check").arg(bob.file()).arg("--peer"));
    alice.until("connected to bob");
    check.signal("INT");
    assert_eq!(check.wait(LONG).code, Some(130));
    alice.until("bob broke away and is awaited again: it only checked the job");
    for run in [alice, bob.start(), carol.start()] {
        run.wait(LONG).good();
    }
    three.outputs();
}

#[test]
fn a_plan_of_three_says_who_is_told_what() {
    let three = three(&tables());
    for job in &three.jobs {
        let plan = run(&["plan", job.file().to_str().unwrap(), "--rows", "10000"]).good();
        assert!(plan.stdout.contains("bob: how many keys bob and carol have in common"), "{}", plan.stdout);
    }
}

/// The job of the reference: what all share, and bob's own part.
#[test]
fn the_three_party_job_of_the_reference_is_one() {
    let page = include_str!("../../../docs/src/reference/job.md");
    let (_, section) = page.split_once("### Three parties by `ecdh`").unwrap();
    let blocks: Vec<&str> = section.split("```toml\n").skip(1).map(|text| text.split("```").next().unwrap()).collect();
    let text = format!("{}\n{}", blocks[0], blocks[1]).replace("sha256:…", &format!("sha256:{}", "ab".repeat(32)));
    let plan = vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap();
    assert_eq!((plan.parties.len(), plan.me.name(), plan.i_learn()), (3, "bob", false));
    assert!(plan.reveals().iter().any(|one| one.name == "pair_count" && format!("{:?}", one.to) == "Place(0)"));
}
