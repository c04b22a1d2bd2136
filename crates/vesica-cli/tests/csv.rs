//! CSV as others write it, checked against Python's csv module: keys found, rows kept to the byte.

use crate::two;

use std::process::Command;
use two::Two;

/// The rows of `table` whose field in column `id` also stands in that column of `other`, as Python reads both: the
/// parsed rows, one JSON text a row, sorted.
const JOIN: &str = r#"
import csv, json, sys
def read(path):
    with open(path, encoding="utf-8-sig", newline="") as f:
        return list(csv.DictReader(f))
mine, other, output = map(read, sys.argv[1:])
keys = {row["id"] for row in other} - {""}
text = lambda rows: sorted(json.dumps(row, sort_keys=True) for row in rows)
wanted, got = text(row for row in mine if row["id"] in keys), text(output)
if wanted != got:
    sys.exit(f"wanted {wanted}\ngot {got}")
"#;

fn python(two: &Two, mine: &str, other: &str, output: &str) {
    let Ok(run) =
        Command::new("python3").args(["-c", JOIN]).args([mine, other, output].map(|name| two.path(name))).output()
    else {
        return; // no Python here; the byte comparisons remain
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Alice alone learns: her rows are those of Python's join, and each of her output's lines is one of her input's, byte
/// for byte and in its order.
fn same_as_python(alice: &str, bob: &str) -> Two {
    let mut two = Two::with(alice, bob);
    two.only("alice");
    two.run_well();
    python(&two, "alice.csv", "bob.csv", "alice.out.csv");
    two
}

#[test]
fn quotes_commas_and_newlines_in_fields() {
    let two = same_as_python(
        "name,id,note\n\"Smith, J\",\"a,1\",\"said \"\"hi\"\"\"\nLee,\"b\n2\",\"two\nlines\"\nKim,\"c\"\"3\",x\nPark,d,\n",
        "id,n\n\"a,1\",1\n\"b\n2\",2\n\"c\"\"3\",3\ne,4\n",
    );
    let output = two.read("alice.out.csv");
    assert!(output.starts_with("name,id,note\n\"Smith, J\",\"a,1\",\"said \"\"hi\"\"\"\n"), "{output}");
    assert!(output.contains("Lee,\"b\n2\",\"two\nlines\"\n"), "{output}");
}

#[test]
fn equal_keys_that_are_quoted_differently() {
    let two = same_as_python("id,x\na,1\n\"a\",2\nb,3\n", "id\n\"a\"\n");
    assert_eq!(two.read("alice.out.csv"), "id,x\na,1\n\"a\",2\n");
}

#[test]
fn a_byte_order_mark_is_kept_and_not_part_of_a_name() {
    let two = same_as_python("\u{feff}id,x\n1,a\n2,b\n", "id\n2\n");
    assert_eq!(two.read("alice.out.csv"), "\u{feff}id,x\n2,b\n");
}

#[test]
fn windows_line_endings_are_kept() {
    let two = same_as_python("id,x\r\n1,a\r\n2,\"b\r\nc\"\r\n3,d\r\n", "id\n2\n3\n");
    assert_eq!(two.read("alice.out.csv"), "id,x\r\n2,\"b\r\nc\"\r\n3,d\r\n");
}

#[test]
fn a_last_line_without_an_end() {
    let two = same_as_python("id,x\n1,a\n2,b", "id\n2\n1");
    assert_eq!(two.read("alice.out.csv"), "id,x\n1,a\n2,b\n");
}

#[test]
fn empty_keys_match_nothing_however_they_are_written() {
    let two = same_as_python("id,x\n,a\n\"\",b\n1,c\n", "id,y\n,p\n\"\",q\n1,r\n");
    assert_eq!(two.read("alice.out.csv"), "id,x\n1,c\n");
}

#[test]
fn duplicates_on_both_sides_multiply_when_both_learn() {
    let two = Two::with("id,x\n1,a\n2,b\n1,c\n3,d\n", "y,id\np,1\nq,1\nr,3\ns,1\nt,4\n");
    two.run_well();
    let (a, b) = (two.read("alice.out.csv"), two.read("bob.out.csv"));
    let mut pairs: Vec<(&str, &str)> = a.lines().zip(b.lines()).skip(1).collect();
    pairs.sort_unstable();
    let wanted = [
        ("1,a", "p,1"),
        ("1,a", "q,1"),
        ("1,a", "s,1"),
        ("1,c", "p,1"),
        ("1,c", "q,1"),
        ("1,c", "s,1"),
        ("3,d", "r,3"),
    ];
    assert_eq!(pairs, wanted);
}

#[test]
fn a_file_name_with_blanks_and_a_semicolon() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.write("a; rm -rf b $HOME.csv", "id,x\n1,a\n");
    two.alice.change("alice.csv", "a; rm -rf b $HOME.csv");
    two.run_well();
    assert_eq!(two.read("alice.out.csv"), "id,x\n1,a\n");
}

#[test]
fn many_odd_rows() {
    // Fields of every odd kind in every place, by a counter.
    let kinds =
        ["plain", "", "\"quo\"\"ted\"", "\"com,ma\"", "\"new\nline\"", "\"cr\r\nlf\"", " blank ", "é漢字", "\"\""];
    let table = |n: usize, step: usize| {
        let mut text = "a,id,b\n".to_owned();
        for i in 0..n {
            let key = i * step;
            let id = match i % 4 {
                0 => format!("k{key}"),
                1 => format!("\"k{key}\""),
                2 => format!("\"k{key},x\""),
                _ => format!("\"k\n{key}\""),
            };
            text += &format!("{},{id},{}\n", kinds[i % kinds.len()], kinds[(i / 7) % kinds.len()]);
        }
        text
    };
    // Steps 4 and 6 have every 12th number in common; the way in which a key is written depends on i, so only some match.
    same_as_python(&table(600, 4), &table(600, 6));
}
