//! Every protocol, in every mode, from job to output.

use crate::two;

use two::{LONG, Two};

/// Every way to say a protocol in `[shared]`, and whether it allows that both learn.
const WAYS: [(&str, bool); 14] = [
    ("protocol = \"ecdh\"", true),
    ("protocol = \"ecdh-oprf\"", true),
    ("protocol = \"rr22\"", true),
    ("protocol = \"rr22\"\nmode = \"low-comm\"", true),
    ("protocol = \"rr22\"\nsecurity = \"malicious\"", false),
    ("protocol = \"rr22\"\nmode = \"low-comm\"\nsecurity = \"malicious\"", false),
    ("protocol = \"kkrt\"", true),
    ("protocol = \"ot\"", true),
    ("protocol = \"ot\"\nsecurity = \"malicious\"", false),
    ("protocol = \"mini-psi\"", false),
    ("protocol = \"mini-psi\"\nsecurity = \"malicious\"", false),
    ("protocol = \"bc22\"", true),
    ("protocol = \"bc22\"\nsecurity = \"malicious\"", false),
    ("protocol = \"hash\"\naccept = [\"guessable_keys\"]", true),
];

/// The keys from..to, each in two rows, in scattered order.
fn table(from: u64, to: u64) -> String {
    let mut rows: Vec<u64> = (from..to).chain(from..to).collect();
    rows.sort_by_key(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    "id,v\n".to_owned() + &rows.iter().map(|n| format!("k{n},{n}\n")).collect::<String>()
}

#[test]
fn all_give_the_same_rows_in_several_units() {
    for (way, both) in WAYS {
        for learner in ["alice", "bob", "both"] {
            if learner == "both" && !both {
                continue;
            }
            let mut two = Two::with(&table(0, 300), &table(200, 450));
            two.change("protocol = \"ecdh\"", way);
            two.change("curve = \"curve25519\"", "unit = 100");
            if learner != "both" {
                two.only(learner);
            }
            two.run_well();
            // Both learn: the joined rows, two by two of each key. One learns: its own rows, each once.
            let times = if learner == "both" { 4 } else { 2 };
            let mut expected: Vec<String> =
                (200..300).flat_map(|n| std::iter::repeat_n(format!("k{n},{n}"), times)).collect();
            expected.sort();
            for name in ["alice", "bob"].iter().filter(|name| learner == "both" || learner == **name) {
                assert_eq!(two.rows(&format!("{name}.out.csv")), expected, "{way}: {learner}");
            }
            if learner == "both" {
                assert_eq!(two.read("alice.out.csv"), two.read("bob.out.csv"), "{way}: rows line up");
            }
        }
    }
}

#[test]
fn empty_tables_and_single_rows_too() {
    for (way, _) in WAYS {
        for (a, b, out) in [("", "", ""), ("x\n", "", ""), ("", "x\n", ""), ("x\n", "x\n", "x\n"), ("x\n", "y\n", "")] {
            let mut two = Two::with(&format!("id\n{a}"), &format!("id\n{b}"));
            two.change("protocol = \"ecdh\"", way);
            two.only("alice");
            two.run_well();
            assert_eq!(two.read("alice.out.csv"), format!("id\n{out}"), "{way}: {a:?} {b:?}");
        }
    }
}

#[test]
fn what_a_protocol_cannot_do_is_refused_before_contact() {
    let refused = |from: &str, to: &str, words: &[&str]| {
        let mut two = Two::with("id\n1\n", "id\n1\n");
        two.alice.change(from, to);
        two.alice.start().wait(LONG).bad(2, words);
    };
    let ecdh = "protocol = \"ecdh\"";
    refused(ecdh, "protocol = \"rr22\"\nsecurity = \"malicious\"", &["shared.learns", "only one can learn"]);
    refused(ecdh, "protocol = \"ot\"\nsecurity = \"malicious\"", &["shared.learns", "only one can learn"]);
    refused(ecdh, "protocol = \"bc22\"\nsecurity = \"malicious\"", &["shared.learns", "only one can learn"]);
    refused(ecdh, "protocol = \"ecdh\"\nsecurity = \"malicious\"", &["shared.security", "semi-honest", "rr22"]);
    refused(ecdh, "protocol = \"mini-psi\"", &["shared.learns", "only one can learn", "ecdh"]);
    refused(ecdh, "protocol = \"kkrt\"\nmode = \"low-comm\"", &["shared.mode", "only with protocol = \"rr22\""]);
    refused(
        "protocol = \"ecdh\"\ncurve = \"curve25519\"",
        "protocol = \"kkrt\"\ncurve = \"sm2\"",
        &["shared.curve", "only with protocol = \"ecdh\""],
    );
}

#[test]
fn modes_that_differ_are_named_on_both_sides() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.change("protocol = \"ecdh\"", "protocol = \"rr22\"");
    two.alice.change("\"rr22\"", "\"rr22\"\nmode = \"low-comm\"");
    for ended in two.run() {
        ended.bad(2, &["shared.mode", "\"low-comm\"", "\"fast\""]);
    }
}

#[test]
fn a_plan_says_parameters_traffic_and_who_learns_what() {
    for (way, _) in WAYS {
        let mut two = Two::with("id\n1\n", "id\n1\n");
        two.change("protocol = \"ecdh\"", way);
        two.only("alice");
        let job = two.alice.file();
        let plan = |more: &[&str]| {
            let args = [&["plan", job.to_str().unwrap(), "--rows", "20000"], more].concat();
            two::run(&args).good().stdout
        };
        let words = plan(&[]);
        assert!(words.contains("-v1") && words.contains("alice: which of their own keys"), "{words}");
        let json: serde_json::Value = serde_json::from_str(&plan(&["--json"])).unwrap();
        let alice = &json["parties"][0];
        let bytes = alice["sent"].as_u64().unwrap() + alice["received"].as_u64().unwrap();
        assert!((20_000 * 6..20_000 * 150).contains(&bytes), "{way}: {bytes}");
    }
}
