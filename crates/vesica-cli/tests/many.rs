//! Three and five parties by `rr22`, each a process: what they find, who is told, and that trouble of one ends or mends all.

use crate::two;

use serde_json::Value;
use std::collections::BTreeSet;
use two::{Ended, Job, LONG, Running, run};

const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

/// Parties that have nothing yet but identities, tables and matching jobs: all but the last one listen.
struct Many<const N: usize> {
    dir: tempfile::TempDir,
    jobs: [Job; N],
    tables: [String; N],
}

/// Which way the parties go: with this pivot, or against any coalition.
const WAYS: [Option<&str>; 2] = [None, Some("carol")];

/// A table with keys that come twice and more, in no order, and with rows that have none.
fn table(keys: std::ops::Range<u32>, rows: u32) -> String {
    let n = (keys.end - keys.start).max(1);
    let row = |i: u32| format!("{},row {i}\n", keys.start + i * 7 % n);
    let rows: String = (0..rows).map(row).collect();
    format!("id,v\n,none\n{rows},none\n")
}

/// Tables of as many keys as rows, of which the middle ones are in all.
fn tables<const N: usize>(rows: u32) -> [String; N] {
    std::array::from_fn(|i| table(i as u32 * rows / 10..i as u32 * rows / 20 + rows, rows + rows / 4))
}

impl<const N: usize> Many<N> {
    fn with(tables: [String; N], pivot: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let names: [&str; N] = std::array::from_fn(|i| NAMES[i]);
        let ports: Vec<u16> = (1..N).map(|_| two::port()).collect();
        let mut jobs = two::jobs(dir.path(), names, &ports);
        for (job, table) in jobs.iter_mut().zip(&tables) {
            job.change("curve = \"curve25519\"\n", "");
            job.change("\"ecdh\"", "\"rr22\"");
            if let Some(pivot) = pivot {
                job.change("[mine]", &format!("pivot = \"{pivot}\"\naccept = [\"leader_and_pivot\"]\n\n[mine]"));
            }
            job.change("[mine]", &format!("[mine]\nreport = \"{}.report.json\"", job.name));
            std::fs::write(dir.path().join(format!("{}.csv", job.name)), table).unwrap();
        }
        Self { dir, jobs, tables }
    }

    fn change(&mut self, from: &str, to: &str) {
        self.jobs.iter_mut().for_each(|job| job.change(from, to));
    }

    /// Only these are to learn.
    fn only(&mut self, learners: &[&str]) {
        let all: Vec<String> = self.jobs.iter().map(|job| format!("{:?}", job.name)).collect();
        self.change(&format!("learns = [{}]", all.join(", ")), &format!("learns = {learners:?}"));
        for job in self.jobs.iter_mut().filter(|job| !learners.contains(&job.name.as_str())) {
            let output = format!("output = {{ path = \"{}.out.csv\" }}\n", job.name);
            job.change(&output, "");
        }
    }

    fn run_well(&self) -> [Ended; N] {
        self.jobs.each_ref().map(Job::start).map(|run| run.wait(LONG)).map(Ended::good)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }

    fn report(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{name}.report.json")).unwrap()).unwrap()
    }

    /// The outputs of those that learn are a plain join's, and the others have none.
    fn joined(&self, learners: &[&str]) {
        fn key(row: &str) -> &str {
            row.split(',').next().unwrap()
        }
        let keys = self.tables.each_ref().map(|table| table.lines().skip(1).map(key).collect::<BTreeSet<_>>());
        let common = |row: &str| !key(row).is_empty() && keys.iter().all(|keys| keys.contains(key(row)));
        for (job, table) in self.jobs.iter().zip(&self.tables) {
            let rows: String = table.lines().skip(1).filter(|row| common(row)).map(|row| format!("{row}\n")).collect();
            let want = learners.contains(&job.name.as_str()).then(|| format!("id,v\n{rows}"));
            assert_eq!(self.read(&format!("{}.out.csv", job.name)), want, "{}", job.name);
        }
    }
}

#[test]
fn three_and_five_parties_find_the_plain_join() {
    for pivot in WAYS {
        let three = Many::<3>::with(tables(60), pivot);
        three.run_well();
        three.joined(&NAMES);
        let five = Many::<5>::with(tables(60), pivot);
        for ended in five.run_well() {
            assert!(ended.stdout.contains("distinct keys."), "{}", ended.stdout);
        }
        five.joined(&NAMES);
        let report = five.report("bob");
        assert_eq!(report["chosen"]["peers"].as_array().unwrap().len(), 4);
        let told = |name: &str| {
            let revealed = report["revealed"].as_array().unwrap();
            revealed.iter().find(|one| one["name"] == name).map(|one| one["to"].clone())
        };
        assert_eq!(told("pair_count"), None);
        assert_eq!(told("leader_and_pivot"), pivot.map(|_| serde_json::json!(["alice and carol together"])));
        assert_eq!(told("joined_lists"), pivot.is_none().then(|| serde_json::json!(["alice"])));
    }
}

/// One, some, the pivot among them: each finds its rows, the others nothing, and no other party's report says how many there are.
#[test]
fn any_set_of_parties_may_learn() {
    for pivot in WAYS {
        for learners in [&["dave"][..], &["bob", "erin"], &["alice", "carol", "dave"]] {
            let mut five = Many::<5>::with(tables(40), pivot);
            five.only(learners);
            five.run_well();
            five.joined(learners);
            for name in NAMES {
                let matched = &five.report(name)["outcome"]["matched"];
                assert_eq!(matched.is_number(), learners.contains(&name), "{name} {learners:?}: {matched}");
            }
        }
    }
}

/// Of several that learn the outputs line up, where a key stands for one row.
#[test]
fn outputs_of_some_line_up_where_keys_are_not_joined() {
    let mut five = Many::<5>::with(tables(40), None);
    five.only(&["bob", "erin"]);
    five.change("[mine]", "duplicates = \"first\"\n[mine]");
    five.run_well();
    let keys = |name: &str| {
        let output = five.read(&format!("{name}.out.csv")).unwrap();
        output.lines().map(|row| row.split(',').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys("bob"), keys("erin"));
    assert!(keys("bob").len() > 10);
}

#[test]
fn an_empty_table_matches_nothing() {
    for pivot in WAYS {
        for empty in 0..3 {
            let mut tables = tables(30);
            tables[empty] = "id,v\n,x\n".to_owned();
            let three = Many::<3>::with(tables, pivot);
            three.run_well();
            three.joined(&NAMES);
        }
    }
}

#[test]
fn traffic_can_be_saved_and_the_result_is_the_same() {
    for pivot in WAYS {
        let mut three = Many::<3>::with(tables(60), pivot);
        three.change("[mine]", "mode = \"low-comm\"\n[mine]");
        three.run_well();
        three.joined(&NAMES);
    }
}

fn start_slow(job: &Job) -> Running {
    Running::start(job.command(&["--log", "json"]).env("VESICA_CPU", "portable"))
}

/// A party that is killed in the middle comes back; finished units are not done again, and the result is right.
#[test]
fn a_killed_party_that_starts_again_goes_on_with_the_others() {
    for (victim, pivot, learners) in [
        (0, None, &["alice"][..]),
        (1, None, &["alice", "bob", "carol"]),
        (2, Some("carol"), &["alice"]),
        (1, Some("carol"), &["alice", "bob"]),
    ] {
        let mut three = Many::<3>::with(tables(4000), pivot);
        if learners.len() < 3 {
            three.only(learners);
        }
        three.change("[mine]", "unit = 60\n[mine]");
        three.change("patience = \"60s\"", "patience = \"60s\"\nworkers = 1\nresume = \"ledger\"");
        let mut runs = three.jobs.each_ref().map(start_slow).map(Some);
        runs.iter().flatten().for_each(|run| run.until("\"phase\":\"match\""));
        let gone = runs[victim].take().unwrap();
        gone.signal("KILL");
        assert_eq!(gone.wait(LONG).code, None);
        let again = start_slow(&three.jobs[victim]);
        for run in runs.into_iter().flatten() {
            let ended = run.wait(LONG).good();
            assert!(ended.stderr.contains(&format!("lost {}", NAMES[victim])), "{ended:?}");
        }
        let again = again.wait(LONG).good();
        assert!(again.stderr.contains("\"phase\":\"resume\"") && !again.stderr.contains("partition"), "{again:?}");
        three.joined(learners);
        assert!(two::names(&three.dir.path().join("ledger")).is_empty());
    }
}

#[test]
fn a_party_that_does_not_come_back_is_named_by_all() {
    let mut three = Many::<3>::with(tables(4000), None);
    three.change("[mine]", "unit = 60\n[mine]");
    three.change("patience = \"60s\"", "patience = \"4s\"\nworkers = 1");
    let mut runs = three.jobs.each_ref().map(start_slow).map(Some);
    runs.iter().flatten().for_each(|run| run.until("\"phase\":\"match\""));
    drop(runs[1].take());
    for run in runs.into_iter().flatten() {
        let ended = run.wait(LONG);
        assert!(matches!(ended.code, Some(4 | 5)), "{ended:?}");
        assert!(ended.stderr.lines().last().unwrap().contains("bob"), "{ended:?}");
    }
    three.joined(&[]);
}

#[test]
fn too_few_common_keys_are_told_to_nobody() {
    for pivot in WAYS {
        let mut three = Many::<3>::with(tables(40), pivot);
        three.only(&["bob"]);
        three.change("[mine]", "limits.min_intersection = 39\n[mine]");
        for run in three.jobs.each_ref().map(Job::start) {
            run.wait(LONG).bad(3, &["fewer keys are common", "39"]);
        }
        three.joined(&[]);
    }
}

/// Parties whose result is a total, with carol as the pivot: the first that learns and is not carol has values.
fn totals<const N: usize>(result: &str, learners: &[&str]) -> Many<N> {
    let numbers = tables(60).map(|table: String| table.replace("row ", "").replace("none", "5"));
    let mut many = Many::<N>::with(numbers, Some("carol"));
    many.change("[mine]", &format!("result = {result:?}\nunit = 25\n[mine]"));
    for job in &mut many.jobs {
        let output = format!("output = {{ path = \"{}.out.csv\" }}\n", job.name);
        job.change(&output, "");
    }
    let all: Vec<String> = many.jobs.iter().map(|job| format!("{:?}", job.name)).collect();
    many.change(&format!("learns = [{}]", all.join(", ")), &format!("learns = {learners:?}"));
    let leader = learners.iter().find(|name| **name != "carol").unwrap();
    if result == "sum" {
        many.change("accept = [\"leader_and_pivot\"]", "accept = [\"leader_and_pivot\", \"chosen_values\"]");
        let leads = many.jobs.iter_mut().find(|job| job.name == *leader).unwrap();
        leads.change("keys = [\"id\"]", "keys = [\"id\"], value = \"v\"");
    }
    many
}

/// What a database says: the number of keys that all tables have, and what their values in this party's table add up to.
fn plain_total<const N: usize>(many: &Many<N>, owner: &str) -> (u64, i64) {
    fn cells(table: &str) -> impl Iterator<Item = (&str, i64)> {
        table.lines().skip(1).map(|row| row.split_once(',').unwrap()).map(|(key, v)| (key, v.parse().unwrap()))
    }
    let keys = many.tables.each_ref().map(|table| cells(table).map(|(key, _)| key).collect::<BTreeSet<_>>());
    let common = |key: &str| !key.is_empty() && keys.iter().all(|keys| keys.contains(key));
    let place = NAMES.iter().position(|name| *name == owner).unwrap();
    let sum = cells(&many.tables[place]).filter(|(key, _)| common(key)).map(|(_, value)| value).sum();
    (keys[0].iter().filter(|key| common(key)).count() as u64, sum)
}

/// Any set of parties may learn a total: each is told what a database says, the others nothing, and nobody gets a row.
#[test]
fn those_that_learn_are_told_the_total_of_all_and_no_more() {
    for (result, field) in [("count", "matched"), ("sum", "sum")] {
        for learners in [&["alice"][..], &["bob", "carol"], &["alice", "bob", "carol", "dave", "erin"], &["dave"]] {
            let five = totals::<5>(result, learners);
            let owner = learners.iter().find(|name| **name != "carol").unwrap();
            let (count, sum) = plain_total(&five, owner);
            assert!(count > 20 && sum > 0);
            five.run_well();
            for name in NAMES {
                let report = five.report(name);
                let want: Value = match (learners.contains(&name), field) {
                    (false, _) => Value::Null,
                    (true, "sum") => sum.into(),
                    (true, _) => count.into(),
                };
                assert_eq!(report["outcome"][field], want, "{result} {name} {learners:?}");
                assert_eq!(report["outcome"]["output"], Value::Null);
                let told = |name: &str| report["revealed"].as_array().unwrap().iter().any(|one| one["name"] == name);
                assert!(told("leader_and_pivot") && !told("intersection"));
                assert_eq!(told("chosen_values"), field == "sum");
                assert!(told(if field == "sum" { "intersection_sum" } else { "intersection_size" }));
            }
        }
    }
}

/// The least number is compared over all units, and below it all hear that and no more.
#[test]
fn a_total_of_too_few_keys_is_told_to_nobody() {
    for result in ["count", "sum"] {
        let mut three = totals::<3>(result, &["bob"]);
        let (count, _) = plain_total(&three, "bob");
        three.change("unit = 25", &format!("unit = 25\nlimits.min_intersection = {}", count + 1));
        for run in three.jobs.each_ref().map(Job::start) {
            run.wait(LONG).bad(3, &["fewer keys are common", &(count + 1).to_string()]);
        }
        assert!(NAMES[..3].iter().all(|name| !three.dir.path().join(format!("{name}.report.json")).exists()));
        three.change(&format!("min_intersection = {}", count + 1), &format!("min_intersection = {count}"));
        three.run_well();
        assert!(three.report("bob")["outcome"][if result == "sum" { "sum" } else { "matched" }].is_number());
    }
}

/// A party that is killed and comes back: all units are done again, and the total is that of one attempt.
#[test]
fn a_total_does_not_mix_attempts() {
    let mut three = totals::<3>("sum", &["alice", "bob"]);
    let tables: [String; 3] = tables(4000).map(|table: String| table.replace("row ", "").replace("none", "5"));
    for (job, table) in three.jobs.iter().zip(&tables) {
        std::fs::write(three.dir.path().join(format!("{}.csv", job.name)), table).unwrap();
    }
    three.tables = tables;
    three.change("patience = \"60s\"", "patience = \"60s\"\nworkers = 1\nresume = \"ledger\"");
    let mut runs = three.jobs.each_ref().map(start_slow).map(Some);
    runs.iter().flatten().for_each(|run| run.until("\"phase\":\"match\""));
    let gone = runs[1].take().unwrap();
    gone.signal("KILL");
    assert_eq!(gone.wait(LONG).code, None);
    let again = start_slow(&three.jobs[1]);
    for run in runs.into_iter().flatten() {
        run.wait(LONG).good();
    }
    again.wait(LONG).good();
    let (_, sum) = plain_total(&three, "alice");
    for name in ["alice", "bob"] {
        assert_eq!(three.report(name)["outcome"]["sum"], sum);
    }
}

/// What a total of many does not do is refused by name before contact, and so are values of the wrong party.
#[test]
fn what_a_total_of_many_has_not_is_refused_by_name() {
    for (from, to, words) in [
        ("pivot = \"carol\"", "", &["shared.pivot", "takes a pivot"][..]),
        ("unit = 25", "unit = 25\nmode = \"low-comm\"", &["shared.mode", "one mode"]),
        ("unit = 25", "unit = 25\nsecurity = \"malicious\"", &["shared.security", "semi-honest"]),
        ("unit = 25", "unit = 25\ndp = { epsilon = 1.0, largest = 9 }", &["shared.dp", "remove it"]),
        ("[mine]", "[mine]\nlanes = 2", &["mine.lanes", "two parties"]),
        (", value = \"v\"", "", &["mine.input.value", "is missing", "alice"]),
    ] {
        let mut three = totals::<3>("sum", &["alice"]);
        three.jobs[0].change(from, to);
        three.jobs[0].start().wait(LONG).bad(2, words);
    }
    let mut three = totals::<3>("sum", &["alice"]);
    three.jobs[1].change("keys = [\"id\"]", "keys = [\"id\"], value = \"v\"");
    three.jobs[1].start().wait(LONG).bad(2, &["mine.input.value", "alice", "remove it"]);
}

#[test]
fn a_pivot_that_is_not_accepted_is_refused_before_contact() {
    let mut three = Many::<3>::with(tables(10), Some("carol"));
    three.change("accept = [\"leader_and_pivot\"]\n", "");
    for job in &three.jobs {
        job.start().wait(LONG).bad(2, &["shared.accept", "alice and carol", "write accept = [\"leader_and_pivot\"]"]);
    }
}

/// Another pivot in one file is another job, and each party is told.
#[test]
fn another_pivot_is_another_job() {
    let mut three = Many::<3>::with(tables(10), Some("carol"));
    three.jobs[1].change("pivot = \"carol\"", "pivot = \"bob\"");
    for run in three.jobs.each_ref().map(Job::start) {
        run.wait(LONG).bad(2, &["shared.pivot", "\"carol\"", "\"bob\""]);
    }
}

#[test]
fn plan_says_what_each_way_tells_and_compares_them() {
    let five = Many::<5>::with(tables(40), Some("carol"));
    let plan = |more: &[&str]| {
        let file = five.jobs[0].file();
        let args = [&["plan", file.to_str().unwrap(), "--rows", "1000"], more].concat();
        run(&args).good().stdout
    };
    let told = plan(&[]);
    assert!(told.contains("alice and carol together: if alice and carol put together"), "{told}");
    let compared = plan(&["--compare"]);
    for words in ["* rr22, pivot carol", "rr22, low-comm", "tells leader_and_pivot, accepted by the job"] {
        assert!(compared.contains(words), "{words}: {compared}");
    }
    // Of a total there is one way.
    let five = totals::<5>("sum", &["alice", "erin"]);
    let file = five.jobs[0].file();
    let plan = |more: &[&str]| run(&[&["plan", file.to_str().unwrap(), "--rows", "1000"], more].concat()).good().stdout;
    let told = plan(&[]);
    assert!(told.contains("the sum of the values of the rows of one party whose keys all others hold"), "{told}");
    assert!(told.contains("alice and carol together"), "{told}");
    let compared = plan(&["--compare"]);
    assert!(compared.contains("* rr22, pivot carol") && !compared.contains("low-comm"), "{compared}");
}
