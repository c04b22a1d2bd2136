//! The parties' shared documents must be the same: each field that differs is named on both sides, with both values.

use crate::two;

use two::Two;

/// Both end with 2 before any data moves, and both say `words`.
fn refused(two: &Two, words: &[&str]) {
    for ended in two.run() {
        ended.bad(2, words);
        assert!(!ended.stderr.contains("match"), "nothing was matched:\n{}", ended.stderr);
    }
    assert!(!two.path("alice.out.csv").exists() && !two.path("bob.out.csv").exists());
}

#[test]
fn each_shared_field_is_compared() {
    // There is one protocol so far; a second one joins this list when it comes.
    let cases = [
        ("shared.id", "id = \"test\"", "id = \"tset\"", "\"test\" for alice, \"tset\" for bob"),
        ("shared.curve", "\"curve25519\"", "\"p256\"", "\"curve25519\" for alice, \"p256\" for bob"),
        ("shared.accept", "curve =", "accept = \"all\"\ncurve =", "[] for alice, \"all\" for bob"),
        ("shared.duplicates", "curve =", "duplicates = \"first\"\ncurve =", "\"join\" for alice, \"first\" for bob"),
        (
            "shared.limits",
            "curve =",
            "limits.min_intersection = 1\ncurve =",
            "{\"answers\":8} for alice, {\"answers\":8,\"min_intersection\":1} for bob",
        ),
        ("shared.unit", "curve =", "unit = 4096\ncurve =", "(absent) for alice, 4096 for bob"),
        (
            "shared.parties",
            "parties = [\"alice\", \"bob\"]",
            "parties = [\"bob\", \"alice\"]",
            "[\"alice\",\"bob\"] for alice, [\"bob\",\"alice\"] for bob",
        ),
        (
            "shared.learns",
            "learns = [\"alice\", \"bob\"]",
            "learns = [\"bob\"]",
            "[\"alice\",\"bob\"] for alice, [\"bob\"] for bob",
        ),
    ];
    for (field, from, to, alice_first) in cases {
        let mut two = Two::with("id\n1\n2\n", "id\n2\n3\n");
        two.bob.change(from, to);
        let [alice, bob] = two.run();
        let (mine, theirs) = alice_first.split_once(" for alice, ").unwrap();
        alice.bad(2, &["bob holds a different job", field, alice_first]);
        let bob_first = format!("{theirs}, {mine} for alice");
        bob.bad(2, &["alice holds a different job", field, &bob_first]);
        assert!(!two.path("alice.out.csv").exists() && !two.path("bob.out.csv").exists());
    }
}

#[test]
fn every_difference_is_shown_at_once() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.bob.change("id = \"test\"", "id = \"other\"\nunit = 1000");
    refused(&two, &["shared.id", "shared.unit", "\"other\"", "1000"]);
}

#[test]
fn one_that_forgot_insecure_is_told() {
    // One side speaks TLS and the other does not: they cannot even compare jobs, but must not hang or run.
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.change("patience = \"60s\"", "patience = \"4s\"");
    two.bob.change("curve =", "insecure = true\ncurve =");
    for ended in two.run() {
        assert!(matches!(ended.code, Some(2 | 4 | 5)), "{ended:?}");
        let said = ended.stderr.to_lowercase();
        assert!(said.contains("insecure") || said.contains("tls"), "{}", ended.stderr);
    }
}

#[test]
fn plaintext_when_both_say_so_and_then_the_report_says_so() {
    let mut two = Two::with("id\n1\n2\n", "id\n2\n3\n");
    two.change("curve =", "insecure = true\ncurve =");
    for job in [&mut two.alice, &mut two.bob] {
        job.text = job.text.lines().filter(|l| !l.starts_with("tls")).map(|l| format!("{l}\n")).collect();
    }
    for ended in two.run_well() {
        assert!(ended.stdout.contains("INSECURE: plaintext"), "{}", ended.stdout);
    }
    assert_eq!(two.read("alice.out.csv"), "id\n2\n");
}

#[test]
fn what_is_mine_need_not_agree() {
    let mut two = Two::with("id,x\n1,a\n2,b\n", "y;z,key\np,2\nq,3\n");
    two.bob.change("keys = [\"id\"]", "keys = [\"key\"]");
    two.bob.change("patience = \"60s\"", "patience = \"2m\"\nmemory = \"64 MiB\"\nworkers = 1");
    two.run_well();
    assert_eq!(two.read("alice.out.csv"), "id,x\n2,b\n");
    assert_eq!(two.read("bob.out.csv"), "y;z,key\np,2\n");
}
