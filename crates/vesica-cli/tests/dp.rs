//! Differentially private jobs: noise in the result, said aloud before and after, paid for from a budget, and drawn once.

use crate::two;

use serde_json::Value;
use std::collections::BTreeSet;
use two::{LONG, Running, Two};

/// Two parties with these tables, of which bob learns with this much noise, and each has so much to spend.
fn noisy(mut two: Two, noise: &str, most: f64) -> Two {
    two.change("protocol = \"ecdh\"", &format!("protocol = \"dp\"\ndp = {noise}"));
    two.only("bob");
    for job in [&mut two.alice, &mut two.bob] {
        let name = job.name.clone();
        let more = format!(
            "report = \"{name}.report.json\"\nbudget = {{ path = \"{name}.budget\", epsilon = {most} }}\npatience ="
        );
        job.change("patience =", &more);
    }
    two
}

fn table(keys: std::ops::Range<u32>) -> String {
    "id,v\n".to_owned() + &keys.map(|key| format!("{key},{}\n", key % 7)).collect::<String>()
}

fn keys(two: &Two) -> BTreeSet<u32> {
    two.rows("bob.out.csv").iter().map(|row| row.split(',').next().unwrap().parse().unwrap()).collect()
}

/// With so large an epsilon no answer is untrue in a million.
#[test]
fn the_result_is_bobs_rows_that_are_common() {
    let two = noisy(Two::with(&table(0..400), &table(300..900)), "{ epsilon = 16.0 }", 16.0);
    let [alice, bob] = two.run_well();
    assert_eq!(keys(&two), (300..400).collect());
    for ended in [&alice, &bob] {
        assert!(ended.stdout.contains("of bob's 600 keys, 100.0 % of those that are common"), "{}", ended.stdout);
        assert!(ended.stdout.contains("is hidden from alice by (16,"), "{}", ended.stdout);
    }
    assert!(bob.stdout.contains("100 of your 600 rows, of 100 distinct keys, are in the result"), "{}", bob.stdout);
    let report: Value = serde_json::from_str(&two.read("alice.report.json")).unwrap();
    assert_eq!(report["outcome"]["matched"], Value::Null);
    assert!(report["chosen"]["expects"].as_array().unwrap().len() > 4);
    let told: Vec<&str> =
        report["revealed"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(told, ["intersection_noisy", "key_count", "count_noisy", "traffic"]);
}

/// With a small one nearly half of all answers are untrue, and every row of the output is still a row of bob's.
#[test]
fn what_is_found_has_noise_and_nothing_but_own_rows() {
    let two = noisy(Two::with(&table(0..1000), &table(0..2000)), "{ epsilon = 0.2 }", 1.0);
    two.run_well();
    let found = keys(&two);
    let right = found.range(..1000).count();
    // 55 % of 1000 and 45 % of 1000, each give or take five deviations of 16.
    assert!((470..630).contains(&right) && (370..530).contains(&(found.len() - right)), "{right} {}", found.len());
    assert!(found.iter().all(|&key| key < 2000));
}

#[test]
fn a_budget_ends_and_the_peer_is_not_told_why() {
    let two = noisy(Two::with(&table(0..9), &table(5..20)), "{ epsilon = 3.0 }", 6.5);
    let mut two = two;
    two.bob.change("epsilon = 6.5", "epsilon = 100.0");
    two.run_well();
    two.run_well();
    assert_eq!(two.read("alice.budget").lines().count(), 2);
    assert!(two.read("alice.budget").contains("\"peer\":\"bob\",\"epsilon\":3.0"));
    // Before anybody is met.
    two.alice.start().wait(LONG).bad(2, &["epsilon 3", "of the 6.5 that mine.budget allows for bob 6 are spent"]);
    assert_eq!(two.read("bob.budget").lines().count(), 2);
}

#[test]
fn what_contradicts_is_refused_before_contact() {
    let refused = |from: &str, to: &str, words: &[&str]| {
        let mut two = noisy(Two::with("id\n1\n", "id\n1\n"), "{ epsilon = 3.0 }", 3.0);
        two.bob.change(from, to);
        two.bob.start().wait(LONG).bad(2, words);
    };
    refused("dp = { epsilon = 3.0 }", "", &["shared.dp", "epsilon = 3.0"]);
    refused("epsilon = 3.0 }\n", "epsilon = 0.0 }\n", &["shared.dp.epsilon", "0.01 to 16"]);
    refused("{ epsilon = 3.0 }", "{ epsilon = 3.0, sampling = 1.5 }", &["shared.dp.sampling", "0.01 to 0.99"]);
    refused("{ epsilon = 3.0 }", "{ epsilon = 3.0, sampling = 0.9 }", &["count_sampled", "hides nothing"]);
    refused("protocol = \"dp\"", "protocol = \"ecdh\"", &["shared.dp", "only with protocol = \"dp\""]);
    refused("learns = [\"bob\"]", "learns = [\"alice\", \"bob\"]", &["shared.learns", "one party learns"]);
    refused("budget = { path = \"bob.budget\", epsilon = 3 }", "", &["mine.budget", "averages out"]);
    refused("learns =", "limits.min_intersection = 3\nlearns =", &["min_intersection", "noisy"]);
}

#[test]
fn the_published_form_says_what_it_does_not_protect() {
    let mut two = noisy(Two::with(&table(0..2000), &table(0..4000)), "{ epsilon = 16.0, sampling = 0.5 }", 16.0);
    two.change("[mine]", "accept = [\"count_sampled\"]\n\n[mine]");
    let job = two.bob.file();
    let plan = two::run(&["plan", job.to_str().unwrap()]).good().stdout;
    for words in ["5.0e-1 if 0 are", "no protection at all", "50.0 % of those that are common"] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    two.run_well();
    let found = keys(&two);
    // Half of 2000, give or take five deviations of 22.
    assert!((890..1110).contains(&found.len()) && found.iter().all(|&key| key < 2000), "{}", found.len());
}

fn start(job: &two::Job) -> Running {
    Running::start(job.command(&["--log", "json"]).env("VESICA_CPU", "portable"))
}

/// A ledger holds the coins of the run. Whoever read them beside the learner's output drew the same noise, and had the result without it.
#[test]
fn coins_of_noise_are_not_kept_without_a_key() {
    let mut two = noisy(Two::with(&table(0..9), &table(5..20)), "{ epsilon = 3.0 }", 3.0);
    two.alice.change("patience =", "resume = \"ledger\"\npatience =");
    let words = ["mine.resume_key", "is missing", "VESICA_RESUME_PASSPHRASE", "remove mine.resume"];
    for command in ["plan", "check", "run"] {
        two::run(&[command, two.alice.file().to_str().unwrap()]).bad(2, &words);
    }
    assert!(!two.path("ledger").exists() && !two.path("alice.budget").exists());
    let plan = |job: &two::Job, passphrase: &str| {
        let mut command = two::vesica();
        command.env("VESICA_RESUME_PASSPHRASE", passphrase).arg("plan").arg(job.file());
        Running::start(&mut command).wait(LONG)
    };
    plan(&two.alice, "").bad(2, &words);
    plan(&two.alice, "four words of mine").good();
    // What a version of before this rule left there is told of, whether a key is given now or not.
    std::fs::create_dir(two.path("ledger")).unwrap();
    two.write("ledger/alice.ledger", [&b"vesica ledger 9\n"[..], &[7; 200]].concat());
    let holds = "holds the coins of its run's noise for everybody who can read it: remove it";
    plan(&two.alice, "").bad(2, &[&words[..], &["alice.ledger is not sealed", holds]].concat());
    let mut command = two::vesica();
    command.env("VESICA_RESUME_PASSPHRASE", "four words of mine").arg("run").arg(two.alice.file());
    Running::start(&mut command).wait(LONG).bad(2, &["another version of Vesica", "It is not sealed", holds]);
    std::fs::remove_dir_all(two.path("ledger")).unwrap();
    two.alice.change("resume =", "resume_key = \"key\"\nresume =");
    plan(&two.alice, "").good();
    // A ledger whose chance hides nothing needs no key.
    let mut plain = Two::with("id\n1\n", "id\n1\n");
    plain.change("patience =", "resume = \"ledger\"\npatience =");
    plain.run_well();
}

/// Both are killed while they match and start again. What each had sent it sends again, and it is paid for once.
#[test]
fn a_killed_run_that_starts_again_draws_no_second_noise() {
    let mut two = noisy(Two::sampled("3000,3000", "700"), "{ epsilon = 0.5 }", 0.5);
    two.change("patience =", "resume = \"ledger\"\nresume_key = \"key\"\nworkers = 1\npatience =");
    two.write_key("key", &[7; 32]);
    let runs = [start(&two.alice), start(&two.bob)];
    runs.iter().for_each(|run| run.until("\"phase\":\"match\""));
    for run in runs {
        run.signal("KILL");
        assert_eq!(run.wait(LONG).code, None);
    }
    two.run_well();
    assert_eq!(["alice.budget", "bob.budget"].map(|name| two.read(name).lines().count()), [1, 1]);
    // Another run is another draw, for which nothing is left.
    for ended in two.run() {
        ended.bad(2, &["0.5 are spent"]);
    }
}

/// The connection breaks while bob sends tags of alice's list, when he has bound himself to it. He refuses her if she comes back with another
/// one, such as the same keys under another mask: so all her chance is that of the first attempt.
#[test]
fn a_run_whose_connection_breaks_goes_on_with_the_same_list() {
    let mut two = noisy(Two::sampled("3000,3000", "700"), "{ epsilon = 0.5 }", 0.5);
    // Two lists of 3106 elements of 32 bytes have passed, and not all of the 3106 tags of nine bytes.
    two.run_broken(&[216_000], |two| {
        assert_eq!(["alice.budget", "bob.budget"].map(|name| two.read(name).lines().count()), [1, 1]);
    });
}
