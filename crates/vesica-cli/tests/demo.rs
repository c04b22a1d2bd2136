//! `vesica demo`, from nothing to a checked result.

use crate::two;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use two::Two;

/// Runs a demo, which says all of these words: where its files are, for as long as the folder is there, and what it said.
#[track_caller]
fn shown(args: &[&str], words: &[&str]) -> (tempfile::TempDir, PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo");
    let said = two::run(&[&["demo", "--out", out.to_str().unwrap()], args].concat()).good().stdout;
    words.iter().for_each(|words| assert!(said.contains(words), "{words:?} is not in {said}"));
    (dir, out, said)
}

#[test]
fn the_demo_works_and_its_outputs_are_the_plain_join() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a demo");
    let ended = two::run(&["demo", "--rows", "2000", "--out", out.to_str().unwrap()]).good();
    for words in [
        "1,000 of your 2,000 rows (50.0 %) have a key that bob holds too",
        "Who learned what:",
        "Checked: both outputs hold exactly the 1,000 rows of a plain join",
        &format!("run '{}'", out.join("bob.toml").display()),
    ] {
        assert!(ended.stdout.contains(words), "{words:?} is not in {}", ended.stdout);
    }

    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let keys = |name: &str| -> Vec<String> {
        read(name).lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
    };
    let set = |name: &str| keys(name).into_iter().collect::<BTreeSet<String>>();
    let common: BTreeSet<String> = set("alice.csv").intersection(&set("bob.csv")).cloned().collect();
    assert_eq!(set("expected.csv"), common);
    assert_eq!(keys("alice.matched.csv"), keys("bob.matched.csv"), "the outputs line up");
    for name in ["alice", "bob"] {
        let table: BTreeSet<String> = read(&format!("{name}.csv")).lines().map(str::to_owned).collect();
        let output = read(&format!("{name}.matched.csv"));
        assert_eq!(output.lines().count(), 1001);
        assert!(output.lines().all(|line| table.contains(line)), "rows keep every byte");
        assert_eq!(set(&format!("{name}.matched.csv")), common);
        let report: serde_json::Value = serde_json::from_str(&read(&format!("{name}.report.json"))).unwrap();
        assert_eq!(report["outcome"]["matched"], 1000);
        assert!(report["chosen"]["tls"].as_str().unwrap().contains("TLS"), "{report}");
    }
}

/// Some rows have an address, some a number, and one of them is enough.
#[test]
fn the_demo_of_identifiers_works() {
    let (_dir, out, _) = shown(
        &["--any", "--rows", "600"],
        &[
            "which of their own identifiers the other party holds too",
            "how many distinct, non-empty identifiers each party holds, those of all kinds together",
            "whose mail address or telephone number the other table has, each once and in its table's order",
            "alice.matched.csv, bob.matched.csv",
        ],
    );
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("alice.report.json")).unwrap()).unwrap();
    let rows = fs::read_to_string(out.join("alice.matched.csv")).unwrap().lines().count() as u64 - 1;
    assert_eq!(report["outcome"]["matched_rows"], rows);
    assert!((200..300).contains(&rows) && report["outcome"]["matched"].as_u64().unwrap() > rows, "{report}");
}

/// Every row has an id, and whoever joins both files by it has the plain join.
#[test]
fn the_demo_of_ids_works_and_joined_by_them_the_outputs_are_the_plain_join() {
    let (_dir, out, _) = shown(
        &["--ids", "--rows", "600"],
        &[
            "It is the id that bob has for the same key",
            "alice and bob together: if alice and bob put their files together",
            "joined by vesica_id they are exactly the 300 rows of a plain join",
            "alice.ids.csv, bob.ids.csv",
        ],
    );
    for name in ["alice", "bob"] {
        let read = |name: String| fs::read_to_string(out.join(name)).unwrap();
        let rows = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let table = rows(&read(format!("{name}.csv")));
        let output = rows(&read(format!("{name}.ids.csv")));
        assert!(output.len() == 601 && output.iter().zip(&table).all(|(wide, row)| wide.starts_with(row.as_str())));
    }
    two::run(&["demo", "--ids", "--protocol", "ecdh"]).bad(2, &["--ids", "--protocol"]);
}

/// Three days, of which the second changes both tables and the third nothing: what is told is a plain join each day, and its differences.
#[test]
fn the_demo_of_a_standing_match_works() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo");
    let ended = two::run(&["demo", "--standing", "--rows", "2500", "--out", out.to_str().unwrap()]).good();
    // Of 2500 rows, three come and three go on each side, and three more of alice's go.
    for words in [
        "Day 1: the first run.",
        "day 1: 1,250 keys of 2,500; 2,500 asked for, 1,250 gained, 0 lost",
        "day 2: 1,250 keys of 2,497; 3 asked for, 6 gained, 3 lost",
        "day 3: 1,250 keys of 2,497; 0 asked for, 0 gained, 0 lost",
        &format!("serve {}", out.join("bob.toml").display()),
    ] {
        assert!(ended.stdout.contains(words), "{words:?} is not in {}", ended.stdout);
    }
    let rows = |name: &str| fs::read_to_string(out.join(name)).unwrap().lines().count() - 1;
    assert_eq!(["matched.csv", "gained.csv", "lost.csv"].map(rows), [1250, 0, 0]);
    assert!(!out.join("alice.kept.log").exists());
    two::run(&["demo", "--standing", "--sum"]).bad(2, &["--standing", "--sum"]);
}

/// Of two parties the one that has no values is told their sum, and of three the leader, with a pivot: as a plain join says, and no rows.
#[test]
fn the_demo_of_a_sum_works_for_two_and_for_three() {
    for (parties, told) in
        [("2", ["bob.report.json", "intersection_sum"]), ("3", ["carol.report.json", "chosen_values"])]
    {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("demo");
        let args = ["demo", "--sum", "--parties", parties, "--rows", "600", "--out", out.to_str().unwrap()];
        let ended = two::run(&args).good();
        for words in ["what alice is told is exactly the sum of a plain join, over 300 common keys", told[0]] {
            assert!(ended.stdout.contains(words), "{words:?} is not in {}", ended.stdout);
        }
        assert!(!ended.stdout.contains("matched.csv") && !out.join("alice.matched.csv").exists());
        let report = fs::read_to_string(out.join("alice.report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert!(report["outcome"]["sum"].as_i64().unwrap() > 0);
        assert!(report["revealed"].as_array().unwrap().iter().any(|one| one["name"] == told[1]), "{report}");
    }
    two::run(&["demo", "--sum", "--protocol", "ecdh"]).bad(2, &["--sum", "--protocol"]);
}

/// Regions, spend of bob's and views of alice's, as a plain join says; the small regions are told to nobody.
#[test]
fn the_demo_of_groups_works() {
    let (_dir, out, said) = shown(
        &["--groups", "--rows", "600"],
        &[
            "regions is exactly what a plain join says of them, over 300 common keys",
            "with fewer than 50 are not in it",
            "alice.groups.csv",
            "for each group of one party's rows",
        ],
    );
    let told = fs::read_to_string(out.join("alice.groups.csv")).unwrap();
    assert!(told.starts_with("region,keys,spend,spend_mean,views,views_mean\n"), "{told}");
    let rows = told.lines().count() - 1;
    assert!((1..6).contains(&rows), "some are told and some are not: {told}");
    assert!(!out.join("bob.groups.csv").exists() && !said.contains("bob.groups.csv"));
    two::run(&["demo", "--groups", "all"]).bad(2, &["--groups", "one", "both"]);
    two::run(&["demo", "--groups", "--sum"]).bad(2, &["--groups", "--sum"]);
    two::run(&["demo", "--groups", "--protocol", "ecdh"]).bad(2, &["--groups", "--protocol"]);
}

/// The same for each region with each campaign of alice's: some pairs are told, and those with few common keys are not.
#[test]
fn the_demo_of_groups_of_both_works() {
    let (_dir, out, _) = shown(
        &["--groups", "both", "--rows", "3000"],
        &[
            "pairs of a region and a campaign is exactly what a plain join says of them, over 1,500 common keys",
            "with fewer than 50 are not in it",
            "alice.groups.csv",
            "in which of the other party's groups",
        ],
    );
    let told = fs::read_to_string(out.join("alice.groups.csv")).unwrap();
    assert!(told.starts_with("region,campaign,keys,spend,spend_mean,views,views_mean\n"), "{told}");
    let pairs: BTreeSet<(&str, &str)> =
        told.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>()).map(|row| (row[0], row[1])).collect();
    assert!(pairs.contains(&("north", "spring")) && pairs.contains(&("north", "autumn")), "{told}");
    assert!(!pairs.iter().any(|(_, campaign)| *campaign == "gala"), "the small campaign is left out: {told}");
    assert!(!out.join("bob.groups.csv").exists());
}

/// Each party calls those before it. Two of the three have more keys in common than all three.
#[test]
fn the_demo_of_three_works_and_its_outputs_are_the_plain_join() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo");
    let ended = two::run(&["demo", "--parties", "3", "--rows", "500", "--out", out.to_str().unwrap()]).good();
    for words in [
        "250 of your 500 rows (50.0 %) have a key that bob and carol hold too",
        "bob: how many keys",
        "Checked: all outputs hold exactly the 250 rows of a plain join",
        &format!("run {}", out.join("carol.toml").display()),
    ] {
        assert!(ended.stdout.contains(words), "{words:?} is not in {}", ended.stdout);
    }
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let keys = |name: &str| -> Vec<String> {
        read(name).lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
    };
    let [a, b, c] = ["alice", "bob", "carol"].map(|name| BTreeSet::from_iter(keys(&format!("{name}.csv"))));
    let common: BTreeSet<String> = &(&a & &b) & &c;
    assert_eq!((common.len(), (&a & &b).len(), (&b & &c).len()), (250, 375, 375));
    for name in ["alice", "bob", "carol"] {
        let matched = keys(&format!("{name}.matched.csv"));
        assert_eq!(matched, keys("alice.matched.csv"), "the outputs line up");
        assert_eq!(BTreeSet::from_iter(matched), common);
        let report: serde_json::Value = serde_json::from_str(&read(&format!("{name}.report.json"))).unwrap();
        assert_eq!(report["outcome"]["matched"], 250);
        assert!(report["chosen"]["tls"].as_str().unwrap().contains("TLS"), "{report}");
    }
    assert_eq!(two::run(&["demo", "--parties", "4"]).code, Some(2));
    let ended = two::run(&["demo", "--parties", "3", "--rows", "500", "--protocol", "rr22"]).good();
    assert!(!ended.stdout.contains("bob: how many keys"), "nobody learns what two share: {}", ended.stdout);
}

#[test]
fn a_demo_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("alice.csv"), "precious").unwrap();
    let ended = two::run(&["demo", "--rows", "10", "--out", dir.path().to_str().unwrap()]);
    ended.bad(2, &["is not empty; name a new folder"]);
    assert_eq!(two::names(dir.path()), ["alice.csv"]);
}

#[test]
fn what_does_not_exist_is_refused_with_the_nearest_name_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo");
    let demo = |flag: &str, value: &str| two::run(&["demo", flag, value, "--out", out.to_str().unwrap()]);
    demo("--curve", "curve25518").bad(2, &["curve25518", "curve25519"]);
    demo("--protocol", "edch").bad(2, &["edch", "ecdh"]);
    assert_eq!(demo("--rows", "0").code, Some(2));
    assert_eq!(demo("--rows", "1e9").code, Some(2));
    assert!(!out.exists());
}

/// The two job files of the README, with other tables and another port.
#[test]
fn the_jobs_of_the_readme_run() {
    let page = include_str!("../../../README.md");
    let jobs: Vec<&str> = page.split("```toml\n").skip(1).map(|text| text.split("```").next().unwrap()).collect();
    assert_eq!(jobs.len(), 2, "alice's and bob's");
    let mut two = Two::sampled("100", "50");
    let port = two.port.to_string();
    for (job, text) in [&mut two.alice, &mut two.bob].into_iter().zip(jobs) {
        let print = job.text.split('"').find(|word| word.starts_with("sha256:")).unwrap().to_owned();
        let mut text = text.replace("sha256:aaaa…", &print).replace("sha256:bbbb…", &print);
        for (from, to) in [("0.0.0.0", "127.0.0.1"), ("alice.example", "127.0.0.1"), ("5300", &port)] {
            text = text.replace(from, to);
        }
        for (from, to) in [("customers.csv", "alice.csv"), ("clients.parquet", "bob.csv"), ("client_id", "id")] {
            text = text.replace(from, to);
        }
        job.text = text;
    }
    two.run_well();
    assert_eq!(two.rows("matched.csv").len(), 50);
    // The commands that stand below the jobs; the run was the last of them.
    let (_, block) = page.split_once("vesica check alice.toml").expect("commands");
    let (block, _) = block.split_once("vesica run alice.toml").expect("the last of them");
    assert!(block.contains("vesica plan alice.toml"), "{block}");
    let alice = two.path("alice.toml");
    for command in ["check", "plan"] {
        two::run(&[command, alice.to_str().unwrap()]).good();
    }
}

/// The commands and jobs that stand at the head of the page of benchmarks, with fewer rows and another port.
#[test]
fn the_jobs_of_the_page_of_benchmarks_run() {
    let page = include_str!("../../../docs/src/benchmarks/README.md");
    let jobs: Vec<&str> = page.split("```toml\n").skip(1).map(|text| text.split("```").next().unwrap()).collect();
    let (shared, _) = jobs[0].split_once("[mine]").unwrap();
    let mut two = Two::sampled("100", "50");
    let port = two.port.to_string();
    let texts = [jobs[0].to_owned(), format!("{shared}{}", jobs[1])];
    for (job, text) in [&mut two.alice, &mut two.bob].into_iter().zip(texts) {
        assert!(text.contains("sha256:…") && text.contains("5300"), "{text}");
        let print = job.text.split('"').find(|word| word.starts_with("sha256:")).unwrap().to_owned();
        // In this order: a fingerprint may have these digits too.
        job.text = text.replace("5300", &port).replace("sha256:…", &print);
    }
    two.run_well();
    assert_eq!(two.rows("alice.out.csv").len(), 50);
}
