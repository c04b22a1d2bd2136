//! Who learns what, and how rows come out: duplicates, empty keys, several key columns, who listens.

use crate::two;

use two::Two;

const ALICE: &str = "id,city\n1,Oslo\n2,Rome\n3,Lima\n2,Bonn\n,Kyiv\n7,Baku\n";
const BOB: &str = "age,id\n30,2\n31,9\n32,3\n33,\n34,3\n35,3\n";

#[test]
fn both_learn_and_the_outputs_line_up_as_an_sql_join() {
    let two = Two::with(ALICE, BOB);
    let [alice, bob] = two.run_well();
    assert!(alice.stdout.contains("3 of your 6 rows"), "{}", alice.stdout);
    assert!(alice.stdout.contains("1 row has an empty key"), "{}", alice.stdout);
    assert!(bob.stdout.contains("4 of your 6 rows"), "{}", bob.stdout);

    // Key 2: two rows of alice, one of bob; key 3: one and three. Five pairs, side by side.
    let (a, b) = (two.read("alice.out.csv"), two.read("bob.out.csv"));
    assert_eq!((a.lines().next(), b.lines().next()), (Some("id,city"), Some("age,id")));
    let mut pairs: Vec<String> = a.lines().skip(1).zip(b.lines().skip(1)).map(|(a, b)| format!("{a}|{b}")).collect();
    assert_eq!(a.lines().count(), b.lines().count());
    pairs.sort();
    assert_eq!(pairs, ["2,Bonn|30,2", "2,Rome|30,2", "3,Lima|32,3", "3,Lima|34,3", "3,Lima|35,3"]);
}

#[test]
fn one_learns_and_the_other_gets_nothing() {
    for (learner, other, rows) in
        [("alice", "bob", "id,city\n2,Rome\n3,Lima\n2,Bonn\n"), ("bob", "alice", "age,id\n30,2\n32,3\n34,3\n35,3\n")]
    {
        let mut two = Two::with(ALICE, BOB);
        two.only(learner);
        let ended = two.run_well();
        assert_eq!(two.read(&format!("{learner}.out.csv")), rows, "each matched row once, in the input's order");
        assert!(!two.path(&format!("{other}.out.csv")).exists());
        let words = if other == "alice" { &ended[0].stdout } else { &ended[1].stdout };
        assert!(words.contains("You did not ask to learn the result"), "{words}");
        assert!(!words.contains("rows (") && !words.contains("matched keys"), "not even the size: {words}");
    }
}

#[test]
fn who_listens_does_not_decide_who_learns() {
    for learner in ["alice", "bob"] {
        let mut two = Two::with(ALICE, BOB);
        two.only(learner);
        let (port, address) = (two.port, format!("\"127.0.0.1:{}\"", two.port));
        two.alice.change(&format!("listen = {address}"), &format!("connect = {{ bob = {address} }}"));
        two.bob.change(&format!("connect = {{ alice = {address} }}"), &format!("listen = \"0.0.0.0:{port}\""));
        two.run_well();
        assert!(two.path(&format!("{learner}.out.csv")).exists());
    }
}

#[test]
fn tables_that_are_empty_or_have_nothing_in_common() {
    for (alice, bob) in
        [("id\n", "id\n"), ("id\n", "id\n1\n"), ("id\n1\n2\n", "id\n3\n"), ("id,x\n,1\n,2\n", "id\n\"\"\n")]
    {
        let two = Two::with(alice, bob);
        let ended = two.run_well();
        let header = alice.lines().next().unwrap();
        assert_eq!(two.read("alice.out.csv"), format!("{header}\n"), "a header and no rows");
        assert_eq!(two.read("bob.out.csv"), "id\n");
        assert!(ended[0].stdout.starts_with("0 of your "), "{}", ended[0].stdout);
    }
}

#[test]
fn keys_of_several_columns_do_not_run_together() {
    let mut two = Two::with("a,b\nx,yz\nxy,z\np,q\n,q\n", "n,b,a\n1,yz,x\n2,z,x\n3,\"q\",p\n4,q,\n");
    two.alice.change("keys = [\"id\"]", "keys = [\"a\", \"b\"]");
    two.bob.change("keys = [\"id\"]", "keys = [\"a\", \"b\"]");
    two.run_well();
    assert_eq!(two.rows("alice.out.csv"), ["p,q", "x,yz"]);
    assert_eq!(two.rows("bob.out.csv"), ["1,yz,x", "3,\"q\",p"]);
}

#[test]
fn keys_are_compared_exactly_as_written() {
    let two = Two::with("id\n007\nabc\n 5\né\n1e3\n", "id\n7\nABC\n5\ne\u{301}\n1000\n007\n");
    two.run_well();
    assert_eq!(two.rows("alice.out.csv"), ["007"]);
}

#[test]
fn a_sample_comes_out_as_expected_in_many_units() {
    let mut two = Two::sampled("3000,1700", "900");
    two.change("curve =", "unit = 100\ncurve =");
    two.run_well();
    let ids = |name: &str| -> Vec<String> {
        two.rows(name).into_iter().map(|row| row.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("alice.out.csv"), two.rows("expected.csv"));
    assert_eq!(ids("bob.out.csv"), two.rows("expected.csv"));
}

/// Rows without a partner stand beside rows of nulls, in every join that has them.
#[test]
fn a_full_join_has_rows_of_nulls_on_both_sides() {
    let mut two = Two::with(ALICE, BOB);
    two.change("learns =", "join = \"full\"\naccept = [\"left_unmatched\", \"right_unmatched\"]\nlearns =");
    two.change(".out.csv\" }", ".out.csv\", null = \"-\" }");
    let [alice, _] = two.run_well();
    assert!(alice.stdout.contains("alice: how many rows of the right party have no partner"), "{}", alice.stdout);
    let (a, b) = (two.read("alice.out.csv"), two.read("bob.out.csv"));
    let pairs: Vec<String> = a.lines().zip(b.lines()).skip(1).map(|(a, b)| format!("{a}|{b}")).collect();
    assert_eq!(a.lines().count(), b.lines().count());
    assert_eq!(pairs.len(), 5 + 3 + 2);
    assert_eq!(pairs[5..], ["1,Oslo|-,-", ",Kyiv|-,-", "7,Baku|-,-", "-,-|31,9", "-,-|33,"], "in their input's order");
}

#[test]
fn what_goes_beyond_the_intersection_is_refused_until_it_is_accepted() {
    let mut two = Two::with(ALICE, BOB);
    two.change("learns =", "join = \"left\"\nlearns =");
    let job = two.alice.file();
    for command in ["plan", "check", "run"] {
        let ended = two::run(&[command, job.to_str().unwrap()]);
        ended.bad(2, &["shared.accept", "left_unmatched (how many rows", "write accept = [\"left_unmatched\"]"]);
    }
    two.change("learns =", "accept = \"all\"\nlearns =");
    let plan = two::run(&["plan", two.alice.file().to_str().unwrap()]).good().stdout;
    assert!(plan.contains("Join        left") && plan.contains("bob: how many rows of the left party"), "{plan}");
}

#[test]
fn rules_make_one_key_of_many_spellings_and_check_says_what_they_did() {
    let mut two = Two::with(
        "mail,x\n Ana@Example.org,1\nbob@example.org,2\nno mail,3\n,4\nANA@example.org,5\n",
        "mail\nana@example.org\neve@example.org\n",
    );
    two.change("keys = [\"id\"]", "keys = [\"mail\"]");
    two.change("learns =", "rules = [\"email\"]\nlearns =");
    two.run_well();
    assert_eq!(two.rows("alice.out.csv"), [" Ana@Example.org,1", "ANA@example.org,5"]);
    let check = two::run(&["check", two.alice.file().to_str().unwrap()]).good().stdout;
    let words = "3 keys changed, 1 became empty, 1 collided: 3 distinct keys as they are written, 2 after the rules";
    assert!(check.contains(words), "{check}");
    // The other side must have the same rules, in the same version.
    two.bob.change("rules = [\"email\"]", "rules = [\"lower\", \"trim\"]");
    for ended in two.run() {
        ended.bad(2, &["shared.rules", "email-v1", "lower-v1", "trim-v1"]);
    }
}
