//! `result = "ids"`: every row with an id, that two files join by as two tables join by their keys.

use crate::two;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use two::{LONG, Two};

/// Alice has 60 keys of which every third stands in two rows, a row without a key and a field in quotes; Bob has 70 keys; 40 are common.
fn tables() -> (String, String) {
    let rows = (0..60).map(|i| format!("k{i},\"a, {i}\"\n"));
    let again = (0..60).step_by(3).map(|i| format!("k{i},again\n"));
    let alice = rows.chain(again).chain([",none\n".into()]).collect::<String>();
    let bob = (20..90).map(|i| format!("k{i},x\n")).collect::<String>();
    (format!("id,v\n{alice}"), format!("id,v\n{bob}"))
}

fn job() -> Two {
    let (alice, bob) = tables();
    asking(Two::with(&alice, &bob))
}

fn asking(mut two: Two) -> Two {
    two.change("protocol = \"ecdh\"\ncurve = \"curve25519\"", "protocol = \"rr22\"\nresult = \"ids\"\nunit = 25");
    for job in [&mut two.alice, &mut two.bob] {
        let output = format!("output = {{ path = \"{}.out.csv\" }}", job.name);
        let report = format!("report = \"{}.report.json\"", job.name);
        job.change(&output, &format!("{output}\n{report}"));
    }
    two
}

fn report(two: &Two, name: &str) -> Value {
    two.report(name)
}

/// The rows of an output without their ids, and the id of each; the first of both is that of the header.
fn read(two: &Two, name: &str) -> (Vec<String>, Vec<String>) {
    let text = two.read(&format!("{name}.out.csv"));
    text.lines().map(|line| line.rsplit_once(',').unwrap()).map(|(row, id)| (row.to_owned(), id.to_owned())).unzip()
}

/// The key of a row of these tables.
fn key(row: &str) -> &str {
    row.split(',').next().unwrap()
}

/// Both outputs are their tables, byte for byte, with ids behind: one for each key, none without a key, and equal exactly where keys are.
fn joins(two: &Two) -> BTreeSet<String> {
    let mut by_key: Vec<BTreeMap<String, String>> = Vec::new();
    for name in ["alice", "bob"] {
        let (rows, ids) = read(two, name);
        assert_eq!(rows.join("\n") + "\n", two.read(&format!("{name}.csv")), "{name}");
        assert_eq!(ids[0], "vesica_id");
        let mut of_this = BTreeMap::new();
        for (row, id) in rows.iter().zip(&ids).skip(1) {
            assert_eq!(id.is_empty(), key(row).is_empty(), "{row} {id}");
            if !id.is_empty() {
                assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
                let before = of_this.insert(key(row).to_owned(), id.clone());
                assert!(before.is_none_or(|before| before == *id), "all rows of a key have one id: {row}");
            }
        }
        assert_eq!(of_this.values().collect::<BTreeSet<_>>().len(), of_this.len(), "two keys have two ids");
        by_key.push(of_this);
    }
    for (key, id) in &by_key[0] {
        let there = by_key[1].get(key);
        assert_eq!(there.is_some(), by_key[1].values().any(|other| other == id), "{key}");
        assert!(there.is_none_or(|other| other == id), "{key}");
    }
    let [alice, bob] =
        ["alice", "bob"].map(|name| report(two, name)["outcome"]["attempt"].as_str().unwrap().to_owned());
    assert_eq!(alice, bob, "both reports name one attempt");
    by_key.into_iter().flat_map(|of_one| of_one.into_values()).collect()
}

#[test]
fn two_files_join_by_ids_as_two_tables_by_keys() {
    let two = job();
    let ended = two.run_well();
    assert!(ended[0].stdout.contains("It is the id that bob has for the same key"), "{}", ended[0].stdout);
    assert!(
        ended[1].stdout.contains("alice and bob together: if alice and bob put their files"),
        "{}",
        ended[1].stdout
    );
    let first = joins(&two);
    assert_eq!(first.len(), 60 + 70 - 40);
    for name in ["alice", "bob"] {
        let outcome = &report(&two, name)["outcome"];
        assert_eq!([&outcome["matched"], &outcome["matched_rows"], &outcome["sum"]], [&Value::Null; 3]);
        let told: Vec<String> = report(&two, name)["revealed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(told, ["ids_together", "key_count", "traffic"]);
        let chosen = &report(&two, name)["chosen"];
        let number = |of: &Value, field: &str| of[field].as_u64().unwrap();
        let peer = &chosen["peers"][0];
        assert_eq!(
            number(peer, "answered"),
            number(chosen, "units") * number(peer, "unit_capacity"),
            "all units were answered once"
        );
        assert!(chosen["parameters"].as_array().unwrap().contains(&"ids-1".into()));
    }
    // Another run has other ids, all of them, and another name.
    let attempt = report(&two, "alice")["outcome"]["attempt"].clone();
    two.run_well();
    assert!(joins(&two).is_disjoint(&first));
    assert_ne!(report(&two, "bob")["outcome"]["attempt"], attempt);
}

/// Tables of nothing, of one row, of the same keys, of no common one, and of no key at all.
#[test]
fn tables_of_every_kind() {
    let rows = |range: std::ops::Range<u32>| range.map(|i| format!("{i},x\n")).collect::<String>();
    for (alice, bob) in [
        (String::new(), String::new()),
        (String::new(), rows(0..5)),
        (rows(3..4), rows(3..4)),
        (rows(3..4), rows(4..5)),
        (rows(0..70), rows(0..70)),
        (rows(0..50), rows(50..110)),
        (",a\n,b\n".to_owned(), rows(0..3)),
        ("1,a\n1,b\n1,c\n".to_owned(), "1,x\n2,y\n1,z\n".to_owned()),
    ] {
        let two = asking(Two::with(&format!("id,v\n{alice}"), &format!("id,v\n{bob}")));
        two.run_well();
        joins(&two);
    }
}

/// What either party sends in each step is as long, whatever is common. (What TLS makes of it depends on when acknowledgements go.)
#[test]
fn the_traffic_does_not_depend_on_what_is_common() {
    let rows = |from: u32| format!("id,v\n{}", (from..from + 60).map(|i| format!("{:04},x\n", i)).collect::<String>());
    let sent = [0, 30, 60].map(|from| {
        let two = asking(Two::with(&rows(0), &rows(from)));
        two.run_well();
        joins(&two);
        ["alice", "bob"].map(|name| {
            let steps = report(&two, name)["cost"].as_array().unwrap().clone();
            let of_match = steps.iter().filter(|step| step["phase"] == "match" && step["began_s"].is_null());
            of_match
                .map(|step| (step["sent"].as_u64().unwrap(), step["received"].as_u64().unwrap()))
                .collect::<Vec<_>>()
        })
    });
    assert!(sent[0].iter().all(|steps| steps.len() >= 3), "{sent:?}");
    assert!(sent.iter().all(|of_one| *of_one == sent[0]), "{sent:?}");
}

/// Rows that the job leaves out have no id, chosen columns are written with the ids behind them, and so are nulls as the job asks.
#[test]
fn columns_nulls_and_rows_that_are_left_out() {
    let mut two = job();
    two.change("unit = 25", "unit = 25\nduplicates = \"first\"");
    two.alice
        .change("{ path = \"alice.out.csv\" }", "{ path = \"alice.out.csv\", columns = [\"v\"], null = \"NULL\" }");
    two.run_well();
    let text = two.read("alice.out.csv");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("v,vesica_id", 82));
    assert!(lines[1].starts_with("\"a, 0\",") && !lines[60].ends_with("NULL"), "{}", lines[60]);
    assert!(lines[61..].iter().all(|line| line.ends_with(",NULL")), "the second row of a key, and one without");
    let bobs: BTreeSet<String> = read(&two, "bob").1.into_iter().collect();
    let common = lines[1..61].iter().filter(|line| bobs.contains(line.rsplit_once(',').unwrap().1)).count();
    assert_eq!(common, 40);
}

#[test]
fn ids_stand_in_parquet_too() {
    let mut two = job();
    two.alice.change("alice.out.csv", "alice.out.parquet");
    two.run_well();
    let file = File::open(two.path("alice.out.parquet")).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let attempt = builder.schema().metadata()["vesica.attempt"].clone();
    assert_eq!(report(&two, "alice")["outcome"]["attempt"], attempt);
    let mut batches = builder.with_batch_size(1 << 20).build().unwrap();
    let batch = batches.next().unwrap().unwrap();
    let (ids, keys) = (batch["vesica_id"].as_string::<i32>(), batch["id"].as_string::<i32>());
    assert_eq!((batch.num_rows(), ids.null_count()), (81, 1));
    let of_bob: BTreeSet<String> = read(&two, "bob").1.into_iter().collect();
    for row in 0..81 {
        let common = !keys.value(row).is_empty() && keys.value(row)[1..].parse::<u32>().unwrap() >= 20;
        assert_eq!(ids.is_valid(row) && of_bob.contains(ids.value(row)), common, "{}", keys.value(row));
    }
}

#[test]
fn what_ids_are_not_for_is_refused() {
    for (from, to, field) in [
        ("learns = [\"alice\", \"bob\"]", "learns = [\"alice\"]", "name both"),
        ("unit = 25", "unit = 25\nsecurity = \"malicious\"", "shared.security"),
        ("unit = 25", "unit = 25\nlimits.min_intersection = 5", "shared.limits.min_intersection"),
        ("unit = 25", "unit = 25\njoin = \"left\"", "shared.join"),
        ("unit = 25", "unit = 25\ndp = { epsilon = 1.0 }", "shared.dp"),
        ("protocol = \"rr22\"", "protocol = \"kkrt\"", "shared.result"),
        ("protocol = \"rr22\"", "protocol = \"ecdh\"", "shared.result"),
    ] {
        let mut two = job();
        two.change(from, to);
        two.alice.start().wait(LONG).bad(2, &[field]);
    }
    let mut two = job();
    two.alice.change("keys = [\"id\"]", "keys = [\"id\"], value = \"v\"");
    two.alice.start().wait(LONG).bad(2, &["mine.input.value", "\"ids\""]);
    let mut two = job();
    two.alice.change("report =", "lanes = 2\nreport =");
    two.alice.start().wait(LONG).bad(2, &["mine.lanes"]);
    // A column of the name that ids have, found before anybody is met; it need not be written.
    let mut two = asking(Two::with("id,vesica_id\n1,a\n", "id,v\n1,b\n"));
    two.alice.start().wait(LONG).bad(2, &["vesica_id", "mine.output.columns"]);
    two.alice.change("{ path = \"alice.out.csv\" }", "{ path = \"alice.out.csv\", columns = [\"id\"] }");
    two.run_well();
    let (alice, bob) = (two.read("alice.out.csv"), two.read("bob.out.csv"));
    let id = |text: &str| text.trim_end().rsplit_once(',').unwrap().1.to_owned();
    assert_eq!(id(&alice), id(&bob));
}

/// A connection that breaks in the base, and in some of the units: the run begins anew, and all ids are of one attempt.
#[test]
fn a_broken_connection_does_not_mix_attempts() {
    let mut two = job();
    two.run_broken(&[12_000, 60_000], |two| drop(joins(two)));
}

/// A party that is killed at any time starts again with the same command, and so does the other if it is told to: both then have the ids of one
/// run, whether or not one of them had written its file before.
#[test]
fn a_killed_party_leaves_no_mix_of_two_attempts() {
    let mut two = job();
    // Who is started again may find the other done, and then waits for nobody.
    two.change("patience = \"60s\"", "resume = \"ledger\"\npatience = \"20s\"");
    let mut before: BTreeSet<String> = BTreeSet::new();
    for (round, moment) in [0u64, 15, 40, 80, 160].into_iter().enumerate() {
        let (alice, bob) = (two.alice.start(), two.bob.start());
        std::thread::sleep(std::time::Duration::from_millis(moment));
        let (killed, other, job) = if round % 2 == 0 { (bob, alice, &two.bob) } else { (alice, bob, &two.alice) };
        drop(killed);
        let (again, other) = (job.start().wait(LONG), other.wait(LONG));
        if again.code != Some(0) || other.code != Some(0) {
            // The other was done, or had not begun: both run again, as the one that failed says.
            two.run_well();
        }
        let ids = joins(&two);
        assert!(ids.is_disjoint(&before), "a run has ids of its own");
        before = ids;
    }
}

#[test]
fn a_plan_a_check_and_a_comparison_know_ids() {
    let two = job();
    let file = two.alice.file();
    let text = two::run(&["plan", file.to_str().unwrap(), "--rows", "20000"]).good().stdout;
    assert!(text.contains("alice and bob together") && text.contains("base-field-64"), "{text}");
    let text = two::run(&["plan", file.to_str().unwrap(), "--rows", "20000", "--compare"]).good().stdout;
    assert!(text.contains("rr22") && text.contains("low-comm") && !text.contains("ecdh"), "{text}");
    two::run(&["check", file.to_str().unwrap()]).good();
}
