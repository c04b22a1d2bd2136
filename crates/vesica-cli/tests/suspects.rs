//! Traps that other tools are suspected of having fallen into, one test each. (Those that other files hold: m by n rows as a
//! true product, quoted everything, keys of several columns, file names that a shell would run.)

use crate::two;

use two::Two;

/// Rows line up though the key is not the first column, and sorting by the first would tell another order.
#[test]
fn outputs_line_up_wherever_the_key_stands() {
    let two = Two::with("id,x\n1,q\n2,p\n3,o\n", "y,id\nb,1\na,2\nc,3\n");
    two.run_well();
    let (a, b) = (two.read("alice.out.csv"), two.read("bob.out.csv"));
    let mut pairs: Vec<String> = a.lines().zip(b.lines()).skip(1).map(|(a, b)| format!("{a} {b}")).collect();
    pairs.sort();
    assert_eq!(pairs, ["1,q b,1", "2,p a,2", "3,o c,3"]);
}

/// Only one side quotes, and keys begin with each other: any order by raw text differs between the two.
#[test]
fn outputs_line_up_if_only_one_side_quotes() {
    let keys = ["John", "John Smith", "John!", "John, Jr", "Joh"];
    let quoted: String = keys.iter().map(|k| format!("\"{k}\",a\n")).collect();
    let plain: String =
        keys.iter().rev().map(|k| if k.contains(',') { format!("\"{k}\",b\n") } else { format!("{k},b\n") }).collect();
    let two = Two::with(&format!("id,x\n{quoted}"), &format!("id,y\n{plain}"));
    two.run_well();
    let key = |line: &str| line.rsplit_once(',').unwrap().0.trim_matches('"').to_owned();
    let rows = |name: &str| two.read(name).lines().skip(1).map(key).collect::<Vec<_>>();
    assert_eq!(rows("alice.out.csv"), rows("bob.out.csv"));
    assert_eq!(rows("alice.out.csv").len(), keys.len());
}

/// One key in two spellings with another between them is one key: both sides count it once.
#[test]
fn one_key_in_two_spellings_is_one_key() {
    let two = Two::with("id,x\na,1\n\" \",2\n\"a\",3\n", "id\na\n!\n\"a\"\n");
    let [alice, bob] = two.run_well();
    assert!(alice.stdout.starts_with("2 of your 3 rows"), "{}", alice.stdout);
    assert!(alice.stdout.contains(": 1 distinct key.") && bob.stdout.contains(": 1 distinct key."), "{}", bob.stdout);
    assert_eq!(two.rows("alice.out.csv"), ["\"a\",3", "\"a\",3", "a,1", "a,1"]);
}

/// Rows without a key match nothing, not each other either.
#[test]
fn empty_keys_do_not_multiply() {
    let empties = ",x\n".repeat(500);
    let two = Two::with(&format!("id,v\n{empties}1,x\n"), &format!("id,v\n{empties}1,y\n"));
    two.run_well();
    assert_eq!((two.rows("alice.out.csv"), two.rows("bob.out.csv")), (vec!["1,x".to_owned()], vec!["1,y".to_owned()]));
}

/// Keys of one column and of two can never be equal: an error on both sides, not an empty result.
#[test]
fn another_number_of_key_columns_is_refused() {
    let mut two = Two::with("id,x\n1,a\n", "id,x\n1,a\n");
    two.bob.change("keys = [\"id\"]", "keys = [\"id\", \"x\"]");
    let [alice, bob] = two.run();
    alice.bad(2, &["bob holds a different job", "the number of mine.input.keys: 1 for alice, 2 for bob"]);
    bob.bad(2, &["the number of mine.input.keys: 2 for bob, 1 for alice"]);
    assert!(!two.path("alice.out.csv").exists() && !two.path("bob.out.csv").exists());
}

/// Nothing is remembered of an earlier run: a file of the same size with other digits gives its own result.
#[test]
fn a_changed_input_of_the_same_size_is_read_again() {
    let two = Two::with("id\n11\n22\n", "id\n22\n33\n");
    two.run_well();
    assert_eq!(two.rows("alice.out.csv"), ["22"]);
    two.write("alice.csv", "id\n33\n44\n");
    two.run_well();
    assert_eq!((two.rows("alice.out.csv"), two.rows("bob.out.csv")), (vec!["33".to_owned()], vec!["33".to_owned()]));
    let strangers = two::names(two.dir.path()).into_iter().filter(|n| n.contains("meta") || n.contains("temp")).count();
    assert_eq!(strangers, 0, "nothing is written beside an input");
}
