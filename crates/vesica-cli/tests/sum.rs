//! Jobs of `rr22` whose result is a count, a sum or shares: CSV to report or Parquet, and no rows of anybody.

use crate::two;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::fs::File;
use two::{LONG, Two};

/// Alice has amounts: 60 keys of which every third stands in two rows, and some rows have no key or no amount. Bob has 70 keys; 40 are common.
fn tables() -> (String, String) {
    let amount = |i: i64| (i - 20) * (i * i + 7);
    let rows = (0..60).map(|i| format!("k{i},{}\n", amount(i)));
    let again = (0..60).step_by(3).map(|i| format!("k{i},{}\n", -i));
    let alice = rows.chain(again).chain([",5\n".into(), "k5,\n".into()]).collect::<String>();
    let bob = (20..90).map(|i| format!("k{i},x\n")).collect::<String>();
    (format!("id,amount\n{alice}"), format!("id,v\n{bob}"))
}

/// What a database says: SELECT SUM(amount) FROM alice WHERE id IN (SELECT id FROM bob).
fn plain_sum() -> i64 {
    let (alice, bob) = tables();
    let keys: Vec<&str> = bob.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    let rows = alice.lines().skip(1).map(|row| row.split_once(',').unwrap());
    rows.filter(|(key, _)| keys.contains(key)).map(|(_, amount)| amount.parse().unwrap_or(0)).sum()
}

fn job(result: &str) -> Two {
    let (alice, bob) = tables();
    asking(Two::with(&alice, &bob), result)
}

fn asking(mut two: Two, result: &str) -> Two {
    two.change(
        "protocol = \"ecdh\"\ncurve = \"curve25519\"",
        &format!("protocol = \"rr22\"\nresult = \"{result}\"\nunit = 25"),
    );
    for job in [&mut two.alice, &mut two.bob] {
        let (name, end) = (job.name.clone(), if result == "shares" { "parquet" } else { "csv" });
        let output = format!("output = {{ path = \"{name}.out.csv\" }}");
        let report = format!("report = \"{name}.report.json\"");
        job.change(
            &output,
            &if end == "csv" { report } else { format!("output = {{ path = \"{name}.{end}\" }}\n{report}") },
        );
    }
    if result == "sum" {
        two.change("[mine]", "accept = [\"chosen_values\"]\n\n[mine]");
    }
    if result != "count" {
        two.alice.change("keys = [\"id\"]", "keys = [\"id\"], value = \"amount\"");
    }
    two
}

fn outcome(two: &Two, name: &str) -> Value {
    two.report(name)["outcome"].clone()
}

#[test]
fn those_that_learn_are_told_the_total_and_no_more() {
    for (result, field, want) in [("count", "matched", 40.into()), ("sum", "sum", Value::from(plain_sum()))] {
        for learners in [&["alice", "bob"][..], &["bob"], &["alice"]] {
            let mut two = job(result);
            let learns =
                format!("learns = [{}]", learners.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", "));
            two.change("learns = [\"alice\", \"bob\"]", &learns);
            for (name, ended) in ["alice", "bob"].into_iter().zip(two.run_well()) {
                let (outcome, learns) = (outcome(&two, name), learners.contains(&name));
                assert_eq!(outcome[field], if learns { want.clone() } else { Value::Null }, "{result} {name}");
                let other = if field == "sum" { "matched" } else { "sum" };
                assert_eq!([&outcome[other], &outcome["matched_rows"], &outcome["output"]], [&Value::Null; 3]);
                let words = if field == "sum" { "add up to" } else { "40 of your" };
                assert_eq!(ended.stdout.contains(words), learns, "{}", ended.stdout);
            }
            let names = two::names(two.dir.path());
            let known = |name: &String| ["csv", "pem", "toml", "report.json"].iter().any(|end| name.ends_with(end));
            assert!(names.iter().all(|name| known(name) && !name.contains("out")), "{names:?}");
        }
    }
}

#[test]
fn totals_of_nothing() {
    let empty = ["id,amount\n", "id,amount\n,1\n", "id,amount\nk1,7\n"];
    for (alice, bob) in [(empty[0], "id\nk1\n"), (empty[2], "id\n"), (empty[1], "id\n"), (empty[2], "id\nk2\n")] {
        let two = asking(Two::with(alice, bob), "sum");
        two.run_well();
        assert_eq!([&outcome(&two, "alice")["sum"], &outcome(&two, "bob")["sum"]], [0, 0], "{alice:?} {bob:?}");
    }
}

#[test]
fn the_extremes_of_a_sum() {
    for (a, b) in [(i64::MAX - 1, 1), (-i64::MAX + 1, -1), (i64::MAX, 0)] {
        let two = asking(Two::with(&format!("id,amount\nx,{a}\ny,{b}\n"), "id\ny\nx\nz\n"), "sum");
        two.run_well();
        assert_eq!(outcome(&two, "bob")["sum"], a + b);
    }
}

#[test]
fn values_that_cannot_be_added_up_are_named_before_contact() {
    for (rows, words) in [
        ("x,1\ny,1.5\n", &["row 2", "amount", "no whole number"][..]),
        ("x,9223372036854775807\ny,1\n", &["may add up to 2^63 or more"]),
        ("x,-9223372036854775807\ny,-1\n", &["may add up to 2^63 or more"]),
    ] {
        let two = asking(Two::with(&format!("id,amount\n{rows}"), "id\nx\n"), "sum");
        two.alice.start().wait(LONG).bad(3, words);
    }
    let mut two = job("sum");
    two.alice.change("value = \"amount\"", "value = \"amuont\"");
    two.alice.start().wait(LONG).bad(2, &["amuont", "amount"]);
}

#[test]
fn one_of_two_has_the_values() {
    let mut two = job("sum");
    two.alice.change(", value = \"amount\"", "");
    for ended in two.run() {
        ended.bad(2, &["mine.input.value", "neither"]);
    }
    two.alice.change("keys = [\"id\"]", "keys = [\"id\"], value = \"amount\"");
    two.bob.change("keys = [\"id\"]", "keys = [\"id\"], value = \"v\"");
    two.write("bob.csv", "id,v\nk1,1\n");
    for ended in two.run() {
        ended.bad(2, &["mine.input.value", "as this side has"]);
    }
    let mut two = job("count");
    two.alice.change("keys = [\"id\"]", "keys = [\"id\"], value = \"amount\"");
    two.alice.start().wait(LONG).bad(2, &["mine.input.value", "\"count\""]);
}

/// Who has the values and learns can make them up, so both must have accepted that by its name. Where the other one learns alone, there is nothing
/// to accept, and noise hides what such values would say.
#[test]
fn values_of_a_learner_are_accepted_by_name() {
    for (learners, told) in [(&["alice", "bob"][..], true), (&["alice"], true), (&["bob"], false)] {
        for accept in ["[]", "\"all\"", "[\"chosen_values\"]"] {
            let mut two = job("sum");
            two.change("learns = [\"alice\", \"bob\"]", &format!("learns = {learners:?}"));
            two.change("accept = [\"chosen_values\"]", &format!("accept = {accept}"));
            if !told || accept.contains("chosen") {
                two.run_well();
                let report = two.report("bob");
                let named = report["revealed"].as_array().unwrap().iter().any(|one| one["name"] == "chosen_values");
                assert_eq!(named, told);
                continue;
            }
            // Neither calls the other one.
            for job in [&two.alice, &two.bob] {
                let words = ["shared.accept", "chosen_values (which of some 62 keys", "accept = [\"chosen_values\"]"];
                job.start().wait(LONG).bad(2, &words);
            }
        }
    }
    let mut two = noisy("sum", "{ epsilon = 16.0, largest = 200000 }", 100.0);
    two.change("accept = [\"chosen_values\"]", "accept = []");
    two.run_well();
}

#[test]
fn too_few_common_keys_are_told_to_nobody() {
    for result in ["count", "sum", "shares"] {
        let mut two = job(result);
        two.change("unit = 25", "unit = 25\nlimits.min_intersection = 41");
        for ended in two.run() {
            ended.bad(3, &["fewer keys are common", "41"]);
        }
        for name in ["alice.report.json", "bob.report.json", "alice.parquet", "bob.parquet"] {
            assert!(!two.path(name).exists(), "{name}");
        }
        two.change("min_intersection = 41", "min_intersection = 40");
        two.run_well();
        assert!(two.path("alice.report.json").exists());
    }
}

/// A connection that breaks in the middle: the run begins anew, and its total is that of one attempt.
#[test]
fn a_broken_connection_does_not_mix_attempts() {
    for result in ["sum", "shares"] {
        let mut two = job(result);
        // In the base transfers, and in some of the units.
        two.run_broken(&[30_000, 300_000], |two| match result {
            "sum" => assert_eq!(outcome(two, "bob")["sum"], plain_sum()),
            _ => added(two, true),
        });
    }
}

/// A file of shares: its rows, and what is said of it.
fn read(two: &Two, name: &str) -> (RecordBatch, std::collections::HashMap<String, String>) {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(two.path(&format!("{name}.parquet"))).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let mut batches: Vec<RecordBatch> = reader.with_batch_size(1 << 20).build().unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.len(), 1);
    (batches.remove(0), schema.metadata().clone().into())
}

/// Adds two files of shares, and compares with the plain tables.
fn added(two: &Two, values: bool) {
    let [(alice, of_alice), (bob, of_bob)] = ["alice", "bob"].map(|name| read(two, name));
    assert_eq!(alice.num_rows(), bob.num_rows());
    for name in ["vesica.attempt", "vesica.job", "vesica.units", "vesica.shares"] {
        assert!(of_alice.contains_key(name) && of_alice[name] == of_bob[name], "{name}");
    }
    let bits = |batch: &RecordBatch| batch["common"].as_boolean().values().iter().collect::<Vec<_>>();
    let words = |batch: &RecordBatch| batch["value"].as_primitive::<UInt64Type>().values().to_vec();
    let [x, y] = [bits(&alice), bits(&bob)];
    let [v, w] = [words(&alice), words(&bob)];
    // Whoever put keys into bins knows which row a bin is of.
    let (mine, other) = if alice["row"].null_count() < alice.num_rows() { ("alice", &bob) } else { ("bob", &alice) };
    assert_eq!(other["row"].null_count(), other.num_rows());
    let puts = if mine == "alice" { &alice } else { &bob };
    let rows = puts["row"].as_primitive::<UInt64Type>();
    let text = two.read(&format!("{mine}.csv"));
    let keys: Vec<&str> = text.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    let theirs = two.read(if mine == "alice" { "bob.csv" } else { "alice.csv" });
    let theirs: Vec<&str> = theirs.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    let (mut common, mut sum) = (0, 0u64);
    for i in 0..rows.len() {
        let key = (!rows.is_null(i)).then(|| keys[rows.value(i) as usize - 1]);
        assert_eq!(x[i] ^ y[i], key.is_some_and(|key| theirs.contains(&key)));
        common += i32::from(x[i] ^ y[i]);
        sum = sum.wrapping_add(v[i]).wrapping_add(w[i]);
    }
    assert_eq!((common, sum as i64), (40, if values { plain_sum() } else { 0 }));
}

#[test]
fn shares_add_up_to_what_is_common() {
    for values in [true, false] {
        let mut two = job("shares");
        if !values {
            two.alice.change(", value = \"amount\"", "");
        }
        let [alice, _] = two.run_well();
        assert!(alice.stdout.contains("alone nothing"), "{}", alice.stdout);
        added(&two, values);
        let outcome = outcome(&two, "alice");
        assert_eq!([&outcome["matched"], &outcome["sum"], &outcome["matched_rows"]], [&Value::Null; 3]);
    }
    // Another attempt has other shares and another name.
    let two = job("shares");
    two.run_well();
    let first = read(&two, "alice");
    two.run_well();
    let second = read(&two, "alice");
    assert!(first.0 != second.0 && first.1["vesica.attempt"] != second.1["vesica.attempt"]);
}

#[test]
fn what_shares_are_not_for_is_refused() {
    let mut two = job("shares");
    two.change("learns = [\"alice\", \"bob\"]", "learns = [\"alice\"]");
    two.alice.start().wait(LONG).bad(2, &["shared.learns", "name both"]);
    let mut two = job("shares");
    two.alice.change("alice.parquet", "alice.out.csv");
    two.alice.start().wait(LONG).bad(2, &["alice.out.csv", "Parquet"]);
    for (from, to, field) in [
        ("result = \"shares\"", "result = \"sum\"\nsecurity = \"malicious\"", "shared.security"),
        ("result = \"shares\"", "result = \"sum\"\nmode = \"low-comm\"", "shared.mode"),
        ("result = \"shares\"", "result = \"sum\"\njoin = \"left\"", "shared.join"),
        ("result = \"shares\"", "result = \"shares\"\ndp = { epsilon = 1.0 }", "shared.dp"),
        ("protocol = \"rr22\"", "protocol = \"kkrt\"", "shared.result"),
    ] {
        let mut two = job("shares");
        two.change(from, to);
        two.alice.start().wait(LONG).bad(2, &[field]);
    }
}

#[test]
fn a_plan_and_a_check_know_totals() {
    let two = job("sum");
    let file = two.alice.file();
    let text = two::run(&["plan", file.to_str().unwrap(), "--rows", "20000"]).good().stdout;
    assert!(text.contains("sum of the values") && text.contains("targets-"), "{text}");
    let text = two::run(&["check", file.to_str().unwrap()]).good().stdout;
    assert!(text.contains("all that is made of them fits"), "{text}");
}

/// A job with noise on its total, and so much to spend on each side.
fn noisy(result: &str, noise: &str, most: f64) -> Two {
    let mut two = job(result);
    two.change("unit = 25", &format!("unit = 25\ndp = {noise}"));
    for job in [&mut two.alice, &mut two.bob] {
        let name = job.name.clone();
        let budget = format!("budget = {{ path = \"{name}.budget\", epsilon = {most} }}\npatience =");
        job.change("patience =", &budget);
    }
    two
}

/// With so large an epsilon a count has no noise in a million runs, and a sum less than twice what one key may have.
#[test]
fn a_noisy_total_is_near_the_true_one() {
    let two = noisy("count", "{ epsilon = 16.0 }", 16.0);
    for ended in two.run_well() {
        assert!(ended.stdout.contains("About 40 of your"), "{}", ended.stdout);
        assert!(ended.stdout.contains("19 draws in 20 are no larger than 0"), "{}", ended.stdout);
        assert!(ended.stdout.contains("each key of alice is hidden from bob by (16, 0)"), "{}", ended.stdout);
    }
    assert_eq!(outcome(&two, "alice")["matched"], 40);
    assert!(two.read("alice.budget").contains("\"peer\":\"bob\",\"epsilon\":16.0"));
    for ended in two.run() {
        ended.bad(2, &["16 are spent"]);
    }

    let mut two = noisy("sum", "{ epsilon = 16.0, largest = 200000 }", 100.0);
    // A sum has no output that `only` could take away.
    two.change("learns = [\"alice\", \"bob\"]", "learns = [\"bob\"]");
    let [alice, _] = two.run_well();
    assert!(alice.stdout.contains("noise that the party that does not learn it adds unseen"), "{}", alice.stdout);
    assert!(alice.stdout.contains("of the keys of bob alice is told nothing but how many"), "{}", alice.stdout);
    assert!(
        alice.stdout.contains("intersection_sum_noisy") || alice.stdout.contains("give or take"),
        "{}",
        alice.stdout
    );
    let first = outcome(&two, "bob")["sum"].as_i64().unwrap();
    assert!((first - plain_sum()).abs() < 400_000, "{first}");
    assert_eq!(outcome(&two, "alice")["sum"], Value::Null);
    // Another run draws other noise.
    two.run_well();
    assert_ne!(outcome(&two, "bob")["sum"], first);
}

#[test]
fn a_least_number_is_asked_of_a_noisy_count() {
    for (result, noise) in [("count", "{ epsilon = 16.0 }"), ("sum", "{ epsilon = 16.0, largest = 200000 }")] {
        let mut two = noisy(result, noise, 100.0);
        two.change("unit = 25", "unit = 25\nlimits.min_intersection = 50");
        for ended in two.run() {
            ended.bad(3, &["fewer keys are common", "50"]);
        }
        two.change("min_intersection = 50", "min_intersection = 30");
        let [alice, _] = two.run_well();
        assert!(
            alice.stdout.contains("whether there are 30 common keys or more is asked of a noisy count"),
            "{}",
            alice.stdout
        );
    }
}

#[test]
fn noise_that_means_nothing_is_refused_before_contact() {
    for (result, from, to, code, words) in [
        ("sum", ", largest = 200000", "", 2, &["shared.dp.largest", "largest = 500"][..]),
        ("sum", "largest = 200000", "largest = 100000", 3, &["row", "amount", "shared.dp.largest"]),
        ("count", "epsilon = 1 }", "epsilon = 17 }", 2, &["shared.dp.epsilon", "0.01 to 16"]),
        ("count", "epsilon = 1 }", "epsilon = 1, largest = 5 }", 2, &["shared.dp.largest", "remove it"]),
        ("count", "budget = { path = \"alice.budget\", epsilon = 5 }", "", 2, &["mine.budget", "averages out"]),
    ] {
        let noise = if result == "sum" { "{ epsilon = 1, largest = 200000 }" } else { "{ epsilon = 1 }" };
        let mut two = noisy(result, noise, 5.0);
        two.alice.change(from, to);
        two.alice.start().wait(LONG).bad(code, words);
    }
    let mut two = job("count");
    two.alice.change("patience =", "budget = { path = \"alice.budget\", epsilon = 1.0 }\npatience =");
    two.alice.start().wait(LONG).bad(2, &["mine.budget", "shared.dp"]);
}

/// The connection breaks while a noisy total is made: all units are done again, and the run is paid for once.
#[test]
fn a_broken_connection_is_paid_for_once() {
    let mut two = noisy("count", "{ epsilon = 16.0 }", 16.0);
    two.run_broken(&[300_000], |two| assert_eq!(outcome(two, "bob")["matched"], 40));
    assert_eq!(["alice.budget", "bob.budget"].map(|name| two.read(name).lines().count()), [1, 1]);
}
