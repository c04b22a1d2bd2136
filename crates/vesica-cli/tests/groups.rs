//! Jobs of `rr22` whose result is totals by group: CSV to CSV, for either learner and for both.

use crate::two;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::TcpListener;
use two::{LONG, Three, Two};

/// Alice has sales: 60 customers in up to three groups each by their rows, some of which have no customer, no region or no amount. Bob has 70
/// customers; 40 are common.
fn tables() -> (String, String) {
    let region = |i: i64| ["north", "south, \"old\"", "Zürich", ""][(i % 4) as usize];
    let rows = (0..60).map(|i| format!("k{i},{},{},{}\n", quoted(region(i)), 20 + i % 2 * 10, (i - 20) * (i * i + 7)));
    let again = (0..60).step_by(3).map(|i| format!("k{i},{},{},{}\n", quoted(region(i)), 20 + i % 2 * 10, -i));
    let other = (0..60).step_by(5).map(|i| format!("k{i},{},40,{i}\n", quoted(region(i + 1))));
    let loose = [",north,20,5\n".to_owned(), "k5,north,20,\n".to_owned(), ",elsewhere,99,1\n".to_owned()];
    let alice = rows.chain(again).chain(other).chain(loose).collect::<String>();
    let bob = (20..90).map(|i| format!("k{i},x\n")).collect::<String>();
    (format!("id,region,age,cents\n{alice}"), format!("id,v\n{bob}"))
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// The fields of a row.
fn fields(row: &str) -> Vec<String> {
    let (mut all, mut quoted) = (vec![String::new()], false);
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => all.last_mut().unwrap().push(chars.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            c => all.last_mut().unwrap().push(c),
        }
    }
    all
}

/// What a database says: SELECT region, age, COUNT(DISTINCT id), SUM(cents) FROM alice WHERE id IN (SELECT id FROM bob) GROUP BY region, age
/// HAVING COUNT(DISTINCT id) >= least.
fn plain(least: usize) -> Vec<(Vec<String>, usize, i64)> {
    let (alice, bob) = tables();
    let theirs: BTreeSet<String> = bob.lines().skip(1).map(|row| fields(row)[0].clone()).collect();
    let mut groups: BTreeMap<Vec<String>, (BTreeSet<String>, i64)> = BTreeMap::new();
    for row in alice.lines().skip(1).map(fields).filter(|row| theirs.contains(&row[0])) {
        let (keys, sum) = groups.entry(row[1..3].to_vec()).or_default();
        keys.insert(row[0].clone());
        *sum += row[3].parse::<i64>().unwrap_or(0);
    }
    let told = groups.into_iter().map(|(by, (keys, sum))| (by, keys.len(), sum));
    told.filter(|(_, keys, _)| *keys >= least).collect()
}

/// Both learn the groups of alice's table.
fn job(least: usize) -> Two {
    let (alice, bob) = tables();
    let mut two = Two::with(&alice, &bob);
    two.change(
        "protocol = \"ecdh\"\ncurve = \"curve25519\"",
        &format!(
            "protocol = \"rr22\"\nresult = \"groups\"\nunit = 25\n\
             groups = {{ of = \"alice\", by = [\"region\", \"age\"], most = 12, of_a_key = 3, least = {least} }}\n\
             sums = [{{ name = \"spend\", of = \"alice\", largest = 1000000 }}]{}",
            if least < 5 {
                "\naccept = [\"chosen_groups\", \"small_groups\"]"
            } else {
                "\naccept = [\"chosen_groups\"]"
            }
        ),
    );
    two.alice.change("keys = [\"id\"]", "keys = [\"id\"], values = { spend = \"cents\" }");
    for job in [&mut two.alice, &mut two.bob] {
        let output = format!("output = {{ path = \"{}.out.csv\" }}", job.name);
        job.change(&output, &format!("{output}\nreport = \"{}.report.json\"", job.name));
    }
    two
}

/// The rows of an output whose columns these are.
#[track_caller]
fn rows(two: &Two, name: &str, columns: &str) -> Vec<Vec<String>> {
    let text = two.read(&format!("{name}.out.csv"));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(columns));
    lines.map(fields).collect()
}

/// The groups of an output, and what its report says.
fn told(two: &Two, name: &str) -> Vec<(Vec<String>, usize, i64)> {
    let groups: Vec<(Vec<String>, usize, i64)> = rows(two, name, "region,age,keys,spend,spend_mean")
        .into_iter()
        .map(|row| {
            let (keys, sum): (usize, i64) = (row[2].parse().unwrap(), row[3].parse().unwrap());
            let mean: f64 = row[4].parse().unwrap();
            assert!((mean - sum as f64 / keys as f64).abs() < 1e-9, "{row:?}");
            (row[..2].to_vec(), keys, sum)
        })
        .collect();
    let reported = outcome(two, name)["groups"]["groups"].clone();
    let reported: Vec<(Vec<String>, usize, i64)> = reported
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let by = group["by"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
            (by.collect(), group["keys"].as_u64().unwrap() as usize, group["sums"][0].as_i64().unwrap())
        })
        .collect();
    assert_eq!(groups, reported);
    groups
}

fn outcome(two: &Two, name: &str) -> Value {
    two.report(name)["outcome"].clone()
}

#[test]
fn those_that_learn_are_told_each_group_and_no_more() {
    for (least, groups, learners) in
        [(1, 8, &["alice", "bob"][..]), (5, 4, &["bob"]), (10, 4, &["alice"]), (11, 0, &["alice", "bob"])]
    {
        let want = plain(least);
        assert_eq!(want.len(), groups);
        let mut two = job(least);
        if let [only] = learners {
            two.only(only);
        }
        for (name, ended) in ["alice", "bob"].into_iter().zip(two.run_well()) {
            let learns = learners.contains(&name);
            assert_eq!(two.path(&format!("{name}.out.csv")).exists(), learns);
            let outcome = outcome(&two, name);
            assert_eq!([&outcome["matched"], &outcome["sum"], &outcome["matched_rows"]], [&Value::Null; 3]);
            if learns {
                assert_eq!(told(&two, name), want, "{name}, {least}");
                assert!(ended.stdout.contains("which keys these are, nobody learned"), "{}", ended.stdout);
            } else {
                assert_eq!(outcome["groups"], Value::Null);
                assert!(ended.stdout.contains("You did not ask to learn the result"), "{}", ended.stdout);
            }
        }
    }
}

/// Values of both parties, in an order that is not the protocol's: each key's rows are added up first, and bob's count once in a group.
#[test]
fn values_of_both_parties_are_added_up() {
    let seen = |i: i64| [i * i - 900, 17 * i];
    let bob: String = (20..90).map(|i| format!("k{i},{}\nk{i},{}\n,5\n", seen(i)[0], seen(i)[1])).collect();
    let (alice, _) = tables();
    let theirs: BTreeMap<String, i64> = (20..90).map(|i| (format!("k{i}"), seen(i).iter().sum())).collect();
    let mut want: BTreeMap<Vec<String>, (BTreeSet<String>, i64, i64)> = BTreeMap::new();
    for row in alice.lines().skip(1).map(fields).filter(|row| theirs.contains_key(&row[0])) {
        let (keys, views, spend) = want.entry(row[1..3].to_vec()).or_default();
        *views += if keys.insert(row[0].clone()) { theirs[&row[0]] } else { 0 };
        *spend += row[3].parse::<i64>().unwrap_or(0);
    }
    let want: Vec<String> = want
        .into_iter()
        .filter(|(_, (keys, ..))| keys.len() >= 5)
        .map(|(by, (keys, views, spend))| format!("{by:?} {} {views} {spend}", keys.len()))
        .collect();
    assert!(want.len() > 3);
    for learners in [&["alice", "bob"][..], &["bob"], &["alice"]] {
        let mut two = job(5);
        let spend = "{ name = \"spend\", of = \"alice\", largest = 1000000 }";
        two.change(spend, &format!("{{ name = \"views\", of = \"bob\", largest = 9000 }}, {spend}"));
        let accept = match learners {
            ["alice"] => "[\"chosen_groups\"]",
            ["bob"] => "[\"chosen_values\"]",
            _ => "[\"chosen_groups\", \"chosen_values\"]",
        };
        two.change("[\"chosen_groups\"]", accept);
        two.bob.change("keys = [\"id\"]", "keys = [\"id\"], values = { views = \"times\" }");
        two.write("bob.csv", format!("id,times\n{bob}"));
        if let [only] = learners {
            two.only(only);
        }
        two.run_well();
        for name in learners {
            let told: Vec<String> = rows(&two, name, "region,age,keys,views,views_mean,spend,spend_mean")
                .into_iter()
                .map(|row| {
                    let mean = row[3].parse::<i64>().unwrap() as f64 / row[2].parse::<f64>().unwrap();
                    assert!((row[4].parse::<f64>().unwrap() - mean).abs() < 1e-9, "{row:?}");
                    format!("{:?} {} {} {}", &row[..2], row[2], row[3], row[5])
                })
                .collect();
            assert_eq!(told, want, "{learners:?}");
        }
        // Values beyond what was agreed on are named before contact, with their row.
        two.bob.change("largest = 9000", "largest = 5000");
        two.bob.start().wait(LONG).bad(3, &["row", "times", "shared.sums"]);
    }
}

/// What bob showed to customers times what alice's rows of them come to, beside the sums of both or with nothing else told of these.
#[test]
fn products_of_values_of_both_parties_are_added_up() {
    let seen = |i: i64| i * i % 31 - 7;
    let bob: String = (20..90).map(|i| format!("k{i},{}\n", seen(i))).collect();
    let (alice, _) = tables();
    let mut want: BTreeMap<Vec<String>, (BTreeSet<String>, i64)> = BTreeMap::new();
    for row in alice.lines().skip(1).map(fields) {
        let Some(i) = row[0].strip_prefix('k').and_then(|i| i.parse().ok()).filter(|i| (20..90).contains(i)) else {
            continue;
        };
        let (keys, reach) = want.entry(row[1..3].to_vec()).or_default();
        keys.insert(row[0].clone());
        *reach += row[3].parse::<i64>().unwrap_or(0) * seen(i);
    }
    let told = want.into_iter().filter(|(_, (keys, _))| keys.len() >= 5);
    let want: Vec<String> = told.map(|(by, (keys, reach))| format!("{by:?} {} {reach}", keys.len())).collect();
    assert!(want.len() > 3);
    for (learners, factors_told) in [(&["alice", "bob"][..], true), (&["bob"], false), (&["alice"], false)] {
        let mut two = job(5);
        let spend = "{ name = \"spend\", of = \"alice\", largest = 1000000 }";
        let untold = if factors_told { "" } else { ", told = false" };
        let of = |name, of, largest| format!("{{ name = \"{name}\", of = \"{of}\", largest = {largest}{untold} }}");
        let product = "{ name = \"reach\", product = [\"views\", \"spend\"] }";
        two.change(spend, &[product, &of("spend", "alice", 200_000), &of("views", "bob", 30)].join(", "));
        // A key in up to three groups of nine has a factor for each of the nine.
        two.change("most = 12", "most = 9");
        two.change("[\"chosen_groups\"]", "[\"chosen_groups\", \"chosen_values\", \"chosen_factors\"]");
        two.write("bob.csv", format!("id,views\n{bob}"));
        if let [only] = learners {
            two.only(only);
        }
        two.run_well();
        for name in learners {
            let all = if factors_told { ",spend,spend_mean,views,views_mean" } else { "" };
            let rows = rows(&two, name, &format!("region,age,keys,reach,reach_mean{all}"));
            let told: Vec<String> = rows.iter().map(|row| format!("{:?} {} {}", &row[..2], row[2], row[3])).collect();
            assert_eq!(told, want, "{learners:?}");
        }
        // Alice's values times the most of bob's could be too much, which is seen before contact.
        two.alice.change("largest = 30", "largest = 20000000000000");
        two.alice.start().wait(LONG).bad(3, &["cents", "2^63 or more", "times up to 20000000000000", "shared.sums"]);
    }
}

/// Groups of both parties: bob's customers stand in one or two campaigns. Each group of alice's is told with each of these, and who learns gets the
/// names of both.
#[test]
fn groups_of_both_parties_are_told_together() {
    let campaigns = |i: i64| {
        if i % 7 == 0 { vec!["spring", "Ñandú, \"x\""] } else { vec![["spring", "autumn"][(i % 2) as usize]] }
    };
    let bob: String = (20..90)
        .flat_map(|i| campaigns(i).into_iter().map(move |campaign| format!("k{i},{}\n", quoted(campaign))))
        .collect();
    let (alice, _) = tables();
    let mut want: BTreeMap<Vec<String>, (BTreeSet<String>, i64)> = BTreeMap::new();
    for row in alice.lines().skip(1).map(fields) {
        let Some(i) = row[0].strip_prefix('k').and_then(|i| i.parse().ok()).filter(|i| (20..90).contains(i)) else {
            continue;
        };
        for campaign in campaigns(i) {
            let (keys, spend) = want.entry([&row[1..3], &[campaign.to_owned()]].concat()).or_default();
            keys.insert(row[0].clone());
            *spend += row[3].parse::<i64>().unwrap_or(0);
        }
    }
    let all = want.len();
    let told = want.into_iter().filter(|(_, (keys, _))| keys.len() >= 5);
    let want: Vec<String> = told.map(|(by, (keys, spend))| format!("{by:?} {} {spend}", keys.len())).collect();
    assert!(want.len() > 3 && want.len() < all);
    const MOST: &str = "most = 4";
    const AGREED: &str = "labels = [\"spring\", \"summer\", \"autumn\", \"Ñandú, \\\"x\\\"\"]";
    let two_of = |accept: &str, names: &str| {
        let mut two = job(5);
        two.change("least = 5 }", &format!("least = 5, other = {{ by = [\"campaign\"], {names} }} }}"));
        two.change("[\"chosen_groups\"]", accept);
        two.bob.change("keys = [\"id\"]", "keys = [\"id\"], groups = [\"c\"]");
        two.write("bob.csv", format!("id,c\n{bob}"));
        two
    };
    // Who agreed that the other one may choose groups has not agreed to what it can then read of its own.
    let two = two_of("[\"chosen_groups\"]", MOST);
    two.bob
        .start()
        .wait(LONG)
        .bad(2, &["shared.accept", "chosen_pairs", "in which of the other party's groups many keys"]);
    for (learners, names) in [
        (&["alice", "bob"][..], MOST),
        (&["bob"], MOST),
        (&["alice"], MOST),
        (&["alice", "bob"], AGREED),
        (&["bob"], AGREED),
        (&["alice"], AGREED),
    ] {
        let mut two = two_of("[\"chosen_groups\", \"chosen_pairs\"]", names);
        if names == AGREED {
            // Alice's are not.
            let text = two::run(&["check", two.bob.file().to_str().unwrap()]).good().stdout;
            assert!(text.contains("by c: no more than 4, each of them one of shared.groups.other.labels"), "{text}");
        }
        if let [only] = learners {
            two.only(only);
        }
        two.run_well();
        for name in learners {
            let text = two.read(&format!("{name}.out.csv"));
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some("region,age,campaign,keys,spend,spend_mean"));
            let told: Vec<String> =
                lines.map(fields).map(|row| format!("{:?} {} {}", &row[..3], row[3], row[4])).collect();
            assert_eq!(told, want, "{learners:?}");
            let outcome = &two.report(name)["outcome"]["groups"];
            assert_eq!(outcome["by"], serde_json::json!(["region", "age", "campaign"]));
            assert_eq!(outcome["groups"].as_array().unwrap().len(), want.len());
        }
        if names == AGREED {
            continue;
        }
        let text = two::run(&["check", two.bob.file().to_str().unwrap()]).good().stdout;
        assert!(text.contains("by c: no more than 4"), "{text}");
        for (from, to, words) in [
            ("most = 4", "most = 2", &["row", "c", "shared.groups.other.most"][..]),
            ("most = 4", "most = 4, of_a_key = 1", &["row", "c", "shared.groups.other.of_a_key"]),
        ] {
            let text = two.bob.text.clone();
            two.bob.change(from, to);
            two.bob.start().wait(LONG).bad(3, words);
            two.bob.text = text;
        }
    }
    // A run that begins anew has the totals of one attempt.
    let mut two = two_of("[\"chosen_groups\", \"chosen_pairs\"]", MOST);
    let outputs = |two: &Two| ["alice.out.csv", "bob.out.csv"].map(|name| two.read(name));
    two.run_well();
    let want = outputs(&two);
    two.run_broken(&[30_000, 400_000], |two| assert_eq!(outputs(two), want));
}

/// What there is not for groups of both is refused by a field and a remedy, and nobody is called.
#[test]
fn what_groups_of_both_are_not_for_is_refused_before_contact() {
    for (from, to, words) in [
        ("unit = 25", "unit = 25\ndp = { epsilon = 1.0 }", &["shared.dp", "remove it, or shared.groups.other"][..]),
        // And not for what noise would ask for besides.
        (
            "unit = 25\ngroups = { of = \"alice\", by = [\"region\", \"age\"], most = 12, of_a_key = 3",
            "unit = 25\ndp = { epsilon = 1.0 }\ngroups = { of = \"alice\", by = [\"region\", \"age\"], most = 12",
            &["shared.dp", "remove it, or shared.groups.other"],
        ),
        (
            "unit = 25",
            "unit = 25\nlimits.min_intersection = 9",
            &["shared.limits.min_intersection", "remove it", "shared.groups.least"],
        ),
        (
            "unit = 25",
            "unit = 25\nidentifiers = [{ name = \"email\" }]\nmatch = \"any\"",
            &["shared.result", "name one key in mine.input.keys"],
        ),
        ("sums = [", "sums = [{ name = \"views\", of = \"bob\" }, ", &["shared.groups.other.of_a_key", "of_a_key = 1"]),
        ("most = 4", "most = 17", &["shared.groups.other.most", "name the party with more groups"]),
        ("most = 12", "most = 129", &["shared.groups.most", "give 1 to 128 groups"]),
        ("unit = 25", "unit = 25\nsecurity = \"malicious\"", &["shared.security", "semi-honest"]),
        ("unit = 25", "unit = 25\nmode = \"low-comm\"", &["shared.mode", "remove it"]),
        ("unit = 25", "unit = 25\njoin = \"left\"", &["shared.join", "remove shared.join"]),
        ("protocol = \"rr22\"", "protocol = \"ot\"", &["shared.result", "protocol = \"rr22\""]),
        ("[mine]", "[mine]\nlanes = 2", &["mine.lanes"]),
    ] {
        let mut two = job(5);
        two.change("least = 5 }", "least = 5, other = { by = [\"c\"], most = 4 } }");
        two.change("[\"chosen_groups\"]", "[\"chosen_groups\", \"chosen_pairs\"]");
        two.bob.change(from, to);
        // Bob is the one that calls.
        let doors = doors(&[two.port]);
        two.bob.start().wait(LONG).bad(2, words);
        doors.iter().for_each(not_called);
    }
}

/// Groups, of one party or of two, are for two parties.
#[test]
fn groups_of_three_parties_are_refused_before_contact() {
    for protocol in ["protocol = \"rr22\"", "protocol = \"ecdh\""] {
        for other in ["", ", other = { by = [\"c\"], most = 4 }"] {
            let mut three = Three::with(["id,region\nk,north\n", "id,c\nk,spring\n", "id\nk\n"]);
            let groups = format!("groups = {{ of = \"alice\", by = [\"region\"], most = 4{other} }}");
            three.change(
                "protocol = \"ecdh\"\ncurve = \"curve25519\"",
                &format!("{protocol}\nresult = \"groups\"\n{groups}"),
            );
            // Carol calls the others.
            let doors = doors(&three.ports);
            three.jobs[2].start().wait(LONG).bad(2, &["shared.result", "for two parties only", "or two parties"]);
            doors.iter().for_each(not_called);
        }
    }
}

/// Where others would be met: whoever is called there is not answered.
fn doors(ports: &[u16]) -> Vec<TcpListener> {
    ports
        .iter()
        .map(|port| {
            let door = TcpListener::bind(("127.0.0.1", *port)).unwrap();
            door.set_nonblocking(true).unwrap();
            door
        })
        .collect()
}

#[track_caller]
fn not_called(door: &TcpListener) {
    assert_eq!(door.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A connection that breaks in the middle: the run begins anew, and its totals are those of one attempt.
#[test]
fn a_broken_connection_does_not_mix_attempts() {
    let mut two = job(1);
    // In the base transfers, and in some of the units.
    two.run_broken(&[30_000, 300_000], |two| {
        assert_eq!([told(two, "alice"), told(two, "bob")], [plain(1), plain(1)]);
    });
}

/// The same where values of the other party are added up, whose masks and flags are of one attempt too.
#[test]
fn a_broken_connection_does_not_mix_values_of_both() {
    let mut two = job(5);
    let spend = "{ name = \"spend\", of = \"alice\", largest = 1000000 }";
    two.change(spend, &format!("{spend}, {{ name = \"views\", of = \"bob\", largest = 9000 }}"));
    two.change("[\"chosen_groups\"]", "[\"chosen_groups\", \"chosen_values\"]");
    two.bob.change("keys = [\"id\"]", "keys = [\"id\"], values = { views = \"times\" }");
    let bob: String = (20..90).map(|i| format!("k{i},{}\n", i * i)).collect();
    two.write("bob.csv", format!("id,times\n{bob}"));
    let outputs = |two: &Two| ["alice.out.csv", "bob.out.csv"].map(|name| two.read(name));
    two.run_well();
    let want = outputs(&two);
    assert!(want[0] == want[1] && want[0].lines().count() == plain(5).len() + 1, "{}", want[0]);
    two.run_broken(&[30_000, 400_000], |two| assert_eq!(outputs(two), want));
}

/// A unit set by hand, in which so many flags are multiplied that it takes more memory than the party gives.
#[test]
fn a_unit_that_takes_more_than_the_memory_is_refused_before_contact() {
    let mut two = job(5);
    two.change("name = \"spend\", of = \"alice\"", "name = \"spend\", of = \"bob\"");
    two.change("[\"chosen_groups\"]", "[\"chosen_groups\", \"chosen_values\"]");
    two.change("most = 12, of_a_key = 3", "most = 128, of_a_key = 128");
    two.change("unit = 25", "unit = 1048576");
    two.bob.change("keys = [\"id\"]", "keys = [\"id\"], values = { spend = \"v\" }");
    two.bob.start().wait(LONG).bad(2, &["shared.unit", "mine.memory is 2048 MiB", "or fewer"]);
}

/// The least number of all common keys is told to both and to nobody more.
#[test]
fn too_few_common_keys_are_told_to_nobody() {
    let mut two = job(5);
    two.change("unit = 25", "unit = 25\nlimits.min_intersection = 41");
    for ended in two.run() {
        ended.bad(3, &["fewer keys are common", "41"]);
    }
    assert!(!two.path("alice.out.csv").exists() && !two.path("bob.out.csv").exists());
    two.change("min_intersection = 41", "min_intersection = 40");
    two.run_well();
    assert_eq!(told(&two, "bob"), plain(5));
}

#[test]
fn groups_of_nothing() {
    let header = "id,region,age,cents\n";
    for (alice, bob) in [("", "id\nk1\n"), ("k1,a,1,7\n", "id\n"), (",a,1,1\n", "id\nk\n"), ("k1,a,1,7\n", "id\nk2\n")]
    {
        let two = job(1);
        two.write("alice.csv", format!("{header}{alice}"));
        two.write("bob.csv", bob);
        two.run_well();
        assert_eq!([told(&two, "alice"), told(&two, "bob")], [vec![], vec![]], "{alice:?} {bob:?}");
    }
}

#[test]
fn what_does_not_keep_to_the_agreement_is_named_before_contact() {
    for (from, to, code, words) in [
        ("of_a_key = 3", "of_a_key = 1", 3, &["row", "region", "shared.groups.of_a_key"][..]),
        ("most = 12", "most = 7", 3, &["row", "region", "shared.groups.most"]),
        ("largest = 1000000", "largest = 100000", 3, &["row", "cents (mine.input.values)", "shared.sums"]),
        ("spend = \"cents\"", "spend = \"region\"", 3, &["row 1", "region", "no whole number"]),
        ("spend = \"cents\"", "spend = \"cent\"", 2, &["cent", "cents"]),
        ("spend = \"cents\"", "spent = \"cents\"", 2, &["mine.input.values", "spend"]),
        ("keys = [\"id\"]", "keys = [\"id\"], groups = [\"region\"]", 2, &["mine.input.groups", "age"]),
    ] {
        let mut two = job(5);
        two.alice.change(from, to);
        two.alice.start().wait(LONG).bad(code, words);
    }
    let two = job(5);
    two.write("alice.csv", format!("id,region,age,cents\nk,{},1,1\n", "x".repeat(260)));
    two.alice.start().wait(LONG).bad(3, &["row 1", "region", "256 bytes"]);
    two.write("alice.csv", "id,region,age,cents\nk,a,1,9223372036854775807\nl,a,1,1\n");
    let mut two = two;
    two.alice.change(", largest = 1000000", "");
    two.alice.start().wait(LONG).bad(3, &["cents (mine.input.values)", "2^63 or more"]);
}

#[test]
fn what_groups_are_not_for_is_refused() {
    for (from, to, words) in [
        ("groups = { of = \"alice\"", "# groups = { of = \"alice\"", &["shared."][..]),
        ("result = \"groups\"", "result = \"sum\"", &["shared.groups", "remove it"]),
        ("of = \"alice\", by", "of = \"eve\", by", &["shared.groups.of", "eve"]),
        ("by = [\"region\", \"age\"]", "by = []", &["shared.groups.by"]),
        ("by = [\"region\", \"age\"]", "by = [\"region\", \"keys\"]", &["shared.groups", "two columns"]),
        ("most = 12", "most = 0", &["shared.groups.most", "1 to"]),
        ("most = 12", "most = 513", &["shared.groups.most", "512"]),
        ("of_a_key = 3", "of_a_key = 13", &["shared.groups.of_a_key", "12"]),
        ("least = 5", "least = 4", &["shared.accept", "small_groups"]),
        (
            "accept = [\"chosen_groups\"]",
            "accept = \"all\"",
            &["shared.accept", "chosen_groups", "makes its groups up"],
        ),
        ("accept = [\"chosen_groups\"]", "accept = [\"small_groups\"]", &["shared.accept", "chosen_groups"]),
        (
            "name = \"spend\", of = \"alice\"",
            "name = \"spend\", of = \"bob\"",
            &["mine.input.values", "adds up values of bob"],
        ),
        ("unit = 25", "unit = 25\ndp = { epsilon = 1.0 }", &["shared.groups.labels", "in the place of most"]),
        ("unit = 25", "unit = 25\nsecurity = \"malicious\"", &["shared.security"]),
        ("unit = 25", "unit = 25\njoin = \"left\"", &["shared.join"]),
        ("protocol = \"rr22\"", "protocol = \"kkrt\"", &["shared.result", "rr22"]),
        ("keys = [\"id\"]", "keys = [\"id\"], value = \"cents\"", &["mine.input.value"]),
        ("alice.out.csv\"", "alice.out.csv\", columns = [\"region\"]", &["mine.output.columns"]),
    ] {
        let mut two = job(5);
        two.alice.change(from, to);
        two.alice.start().wait(LONG).bad(2, words);
    }
    let mut two = job(5);
    two.bob.change("keys = [\"id\"]", "keys = [\"id\"], values = { spend = \"v\" }");
    two.bob.start().wait(LONG).bad(2, &["mine.input.values", "adds up values of alice"]);
    // Values of bob's, and nobody has agreed that he may choose them; and too many groups of a key for them.
    let mut two = job(5);
    two.bob.change("name = \"spend\", of = \"alice\"", "name = \"spend\", of = \"bob\"");
    two.bob.start().wait(LONG).bad(2, &["shared.accept", "chosen_values", "each bit of a group's sum"]);
    two.bob.change("[\"chosen_groups\"]", "[\"chosen_groups\", \"chosen_values\"]");
    two.bob.change("most = 12, of_a_key = 3", "most = 129, of_a_key = 129");
    two.bob.start().wait(LONG).bad(2, &["shared.groups.of_a_key", "128 is the most", "of_a_key = 1"]);
    // Products of bits that are too many for a key, and one that nobody's values are in.
    let mut two = job(5);
    let sums = "name = \"views\", of = \"bob\", largest = 9 }, { name = \"reach\", product = [\"spend\", \"views\"] }, { name = \"spend\"";
    two.bob.change("name = \"spend\"", sums);
    two.bob.change("[\"chosen_groups\"]", "[\"chosen_groups\", \"chosen_values\"]");
    // Who agreed to values of bob's alone has not agreed to what a product says of alice's.
    two.bob.start().wait(LONG).bad(2, &["shared.accept", "chosen_factors", "the other party's values of keys"]);
    two.bob.change("\"chosen_values\"]", "\"chosen_values\", \"chosen_factors\"]");
    two.bob.change("most = 12", "most = 13");
    two.bob.start().wait(LONG).bad(2, &["shared.groups.of_a_key", "21 bits", "13 times", "of_a_key = 1"]);
    two.bob.change("[\"spend\", \"views\"]", "[\"spend\", \"view\"]");
    two.bob.start().wait(LONG).bad(2, &["shared.sums.product", "did you mean \"views\"?"]);
    let mut two = job(5);
    two.alice.change("alice.out.csv", "alice.csv");
    two.alice.start().wait(LONG).bad(2, &["alice.csv"]);
}

#[test]
fn a_plan_a_check_and_a_page_know_groups() {
    let mut two = job(5);
    two.only("bob");
    // Whoever has no groups can choose none.
    two.change("accept = [\"chosen_groups\"]", "accept = []");
    let file = two.alice.file();
    let text = two::run(&["plan", file.to_str().unwrap(), "--rows", "20000"]).good().stdout;
    assert!(text.contains("common keys as shared.groups.least or more"), "{text}");
    let text = two::run(&["plan", file.to_str().unwrap(), "--rows", "20000", "--compare"]).good().stdout;
    assert!(text.contains("rr22"), "{text}");
    let text = two::run(&["check", file.to_str().unwrap()]).good().stdout;
    assert!(text.contains("by region and age: no more than 12"), "{text}");
    two.run_well();
    let report = two.path("bob.report.json");
    let page = two::run(&["report", report.to_str().unwrap(), "--html"]).good().stdout;
    assert!(page.contains("Zürich") && page.contains("spend, mean"), "{page}");
    // bob alone was told.
    let page = two::run(&["report", report.to_str().unwrap(), "--html", "--for-peer", "alice"]).good().stdout;
    assert!(!page.contains("Zürich") && !page.contains("spend, mean"), "{page}");
}

/// What the groups of the tables may be called, and one more.
const LABELS: &str = "[[\"north\", \"20\"], [\"north\", \"30\"], [\"north\", \"40\"], [\"south, \\\"old\\\"\", \"20\"], [\"south, \\\"old\\\"\", \"30\"], \
                      [\"south, \\\"old\\\"\", \"40\"], [\"Zürich\", \"20\"], [\"Zürich\", \"30\"], [\"Zürich\", \"40\"], [\"\", \"20\"], [\"\", \"30\"], \
                      [\"\", \"40\"], [\"west\", \"20\"]]";

/// Names that are agreed on are told as those that are not, whoever learns; and a row of another group is named before contact.
#[test]
fn agreed_labels_are_told_and_no_row_of_another_group_is_taken() {
    for learners in [&["alice", "bob"][..], &["bob"], &["alice"]] {
        let mut two = job(1);
        two.change("most = 12", &format!("labels = {LABELS}"));
        if let [only] = learners {
            two.only(only);
        }
        two.run_well();
        learners.iter().for_each(|name| assert_eq!(told(&two, name), plain(1), "{name}"));
    }
    let mut two = job(1);
    two.change("most = 12", &format!("labels = {}", LABELS.replace("[\"Zürich\", \"20\"], ", "")));
    let words = ["row", "region", "shared.groups.labels does not list", "leave the row out"];
    two.alice.start().wait(LONG).bad(3, &words);
}

/// Both learn noisy groups, with so much to spend on each side.
fn noisy(least: usize, epsilon: f64, most: f64) -> Two {
    let mut two = job(least);
    two.change("most = 12", &format!("labels = {LABELS}"));
    two.change("unit = 25", &format!("unit = 25\ndp = {{ epsilon = {epsilon} }}"));
    if epsilon <= 2.9 {
        // Nothing is accepted by name, for noise hides each key.
        two.change("accept = [", "accept = [] # ");
    }
    for job in [&mut two.alice, &mut two.bob] {
        let budget = format!("budget = {{ path = \"{}.budget\", epsilon = {most} }}\npatience =", job.name);
        job.change("patience =", &budget);
    }
    two
}

/// With so large an epsilon noise on a number of keys is below 8 in a million runs of each group, and on a sum below 8 million.
#[test]
fn noisy_groups_are_near_the_true_ones() {
    let two = noisy(1, 16.0, 16.0);
    let all = plain(1);
    for ended in two.run_well() {
        for words in [
            "With noise, ",
            "the number of keys of a group that is told is the true one and noise that each party adds",
            "the sum \"spend\" of a group that is told",
            "whether a group has 1 keys or more is asked of the noisy number",
            "each key of alice is hidden from bob by (16, 0)",
            "each key of bob is hidden from alice by (16, 0)",
            "a key that is in more than 3 of the groups is refused",
        ] {
            assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
        }
    }
    let told_alice = told(&two, "alice");
    assert_eq!(told_alice, told(&two, "bob"));
    assert!(told_alice.len() > 3);
    for (by, keys, sum) in told_alice {
        let (keys_are, sum_is) = all.iter().find(|(of, ..)| *of == by).map_or((0, 0), |(_, keys, sum)| (*keys, *sum));
        assert!(
            keys.abs_diff(keys_are) < 8 && sum.abs_diff(sum_is) < 8_000_000,
            "{by:?}: {keys} {keys_are}, {sum} {sum_is}"
        );
    }
    for (name, peer) in [("alice", "bob"), ("bob", "alice")] {
        let report = two.report(name);
        let revealed: Vec<&str> =
            report["revealed"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        // So little noise hides nothing from a learner that chose its groups.
        assert_eq!(revealed, ["group_totals_noisy", "small_groups", "chosen_groups", "key_count", "traffic"]);
        let spent = two.read(&format!("{name}.budget"));
        assert!(
            spent.lines().count() == 1 && spent.contains(&format!("\"peer\":\"{peer}\",\"epsilon\":16.0")),
            "{spent}"
        );
    }
    // Another run is another draw, for which nothing is left.
    for ended in two.run() {
        ended.bad(2, &["16 are spent"]);
    }
}

/// Each run draws noise of its own. Each party counts it: the one that is told nothing for what is told of its keys, and the learner too, of whose
/// keys nothing is told here, for a budget does not ask who learns.
#[test]
fn noise_by_group_is_drawn_anew_in_each_run() {
    let mut two = noisy(1, 4.0, 9.0);
    two.only("bob");
    two.run_well();
    let first = told(&two, "bob");
    two.run_well();
    assert_ne!(told(&two, "bob"), first);
    assert!(!two.path("alice.out.csv").exists());
    assert_eq!(["alice.budget", "bob.budget"].map(|name| two.read(name).lines().count()), [2, 2]);
}

/// What is refused before contact costs nothing. That all common keys are too few is told, and paid for.
#[test]
fn noise_by_group_that_is_refused_before_contact_costs_nothing() {
    for (from, to, code, words) in [
        ("[\"Zürich\", \"20\"], ", "", 3, &["row", "region (mine.input.groups)", "shared.groups.labels"][..]),
        ("of_a_key = 3, ", "", 2, &["shared.groups.of_a_key", "is missing"]),
        ("of_a_key = 3", "of_a_key = 1", 3, &["row", "region", "shared.groups.of_a_key"]),
        (", largest = 1000000", "", 2, &["shared.sums.largest", "is missing for \"spend\""]),
        ("largest = 1000000", "largest = 100000", 3, &["row", "cents", "shared.sums"]),
        ("epsilon = 1 }", "epsilon = 1, largest = 5 }", 2, &["shared.dp.largest", "remove it"]),
        ("epsilon = 1 }", "epsilon = 17 }", 2, &["shared.dp.epsilon", "0.01 to 16"]),
        ("budget = { path = \"alice.budget\", epsilon = 5 }", "", 2, &["mine.budget", "averages out"]),
        // Above that noise does not hide what groups were chosen for.
        ("epsilon = 1 }", "epsilon = 3 }", 2, &["shared.accept", "chosen_groups"]),
        ("name = \"spend\"", "name = \"{1}\"", 2, &["shared.sums.name", "brace"]),
    ] {
        let mut two = noisy(5, 1.0, 5.0);
        two.alice.change(from, to);
        two.alice.start().wait(LONG).bad(code, words);
        assert!(!two.path("alice.budget").exists(), "{to}");
    }
    let two = noisy(5, 1.0, 5.0);
    two.write("alice.csv", "id,region,age,cents\nk1,north,20,4611686018427387904\n");
    let mut two = two;
    two.alice.change("largest = 1000000", "largest = 4611686018427387904");
    two.alice.start().wait(LONG).bad(2, &["shared.sums.largest", "no bound that there is noise for \"spend\""]);
    // Each of these keys keeps to the bound, and all of them together may come to what a sum with noise cannot be.
    let rows = (0..1 << 15).map(|i| format!("k{i},north,20,{}\n", 1u64 << 47)).collect::<String>();
    let mut two = noisy(5, 1.0, 5.0);
    two.write("alice.csv", format!("id,region,age,cents\n{rows}"));
    two.alice.change("largest = 1000000", "largest = 140737488355328");
    two.alice.start().wait(LONG).bad(3, &["cents (mine.input.values)", "2^62 or more", "a sum with noise"]);
    // Too few common keys: that bit is told, and has been paid for.
    let mut two = noisy(5, 16.0, 16.0);
    two.change("unit = 25", "unit = 25\nlimits.min_intersection = 60");
    for ended in two.run() {
        ended.bad(3, &["fewer keys are common", "(60, by a noisy count)"]);
    }
    assert_eq!(["alice.budget", "bob.budget"].map(|name| two.read(name).lines().count()), [1, 1]);
    assert!(!two.path("alice.out.csv").exists() && !two.path("bob.out.csv").exists());
}

/// The connection breaks while noisy groups are made: all units are done again with the same noise, and the run is paid for once.
#[test]
fn broken_noisy_groups_are_paid_for_once() {
    let mut two = noisy(1, 16.0, 16.0);
    two.run_broken(&[300_000], |two| assert_eq!(told(two, "alice"), told(two, "bob")));
    assert_eq!(["alice.budget", "bob.budget"].map(|name| two.read(name).lines().count()), [1, 1]);
}

/// A result goes to Parquet as to CSV, with the types that it has.
#[test]
fn groups_go_to_parquet() {
    let mut two = job(5);
    for name in ["alice", "bob"] {
        let job = if name == "alice" { &mut two.alice } else { &mut two.bob };
        job.change(&format!("{name}.out.csv"), &format!("{name}.out.parquet"));
    }
    two.run_well();
    let file = std::fs::File::open(two.path("bob.out.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let types: Vec<String> = reader.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Utf8", "Utf8", "UInt64", "Int64", "Float64"]);
    let rows: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, plain(5).len());
}
