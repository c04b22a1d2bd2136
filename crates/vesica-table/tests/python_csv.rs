//! Every field of random nasty files, as Python's `csv` module reads it.

use crate::kit;

use kit::*;
use std::process::Command;

/// Prints the rows of each file named on the command line: a line of hexadecimal fields each, the file's own rule
/// (blank lines are rows in a table of one column and none otherwise) applied.
const READER: &str = r#"
import csv, sys
csv.field_size_limit(1 << 30)
for path in sys.argv[1:]:
    with open(path, newline="", encoding="utf-8-sig") as f:
        reader = csv.reader(f)
        columns = len(next(reader))
        for row in reader:
            if not row:
                if columns > 1:
                    continue
                row = [""]
            assert len(row) == columns, (path, row)
            print(",".join(field.encode().hex() for field in row))
    print("end")
"#;

/// A small generator of its own, so that a failing file can be made again from its number.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A file of random shape; every row has as many fields as the header.
fn nasty(seed: u64) -> String {
    let random = &mut Random(seed);
    let columns = 1 + random.below(5);
    let newline = random.pick(&["\n", "\n", "\r\n", "\r"]);
    let mut text = random.pick(&["", "", "\u{feff}"]).to_owned();
    text.push_str(&(0..columns).map(|i| format!("c{i}")).collect::<Vec<_>>().join(","));
    text.push_str(newline);
    for _ in 0..random.below(60) {
        if random.below(12) == 0 {
            text.push_str(random.pick(&["\n", "\r\n", "\r"]));
            continue;
        }
        for column in 0..columns {
            if column > 0 {
                text.push(',');
            }
            if random.below(2) == 0 {
                text.push('"');
                for _ in 0..random.below(6) {
                    text.push_str(
                        random.pick(&["a", "é", ",", "\n", "\r\n", "\r", "\"\"", " ", "日本", "\u{feff}", "\t"]),
                    );
                }
                text.push('"');
                // Text behind the closing quote belongs to the field.
                if random.below(8) == 0 {
                    text.push_str(random.pick(&["x", "x\"", " \"y\""]));
                }
            } else {
                for i in 0..random.below(6) {
                    // A quote that does not open the field is a character like any other.
                    text.push_str(random.pick(&["a", "0", "ß", " ", "'", "\t", "💧", if i > 0 { "\"" } else { "-" }]));
                }
            }
        }
        // Line endings may be mixed.
        text.push_str(if random.below(6) == 0 { random.pick(&["\n", "\r\n", "\r"]) } else { newline });
    }
    // The last line may lack its ending, unless it is a blank one.
    if random.below(2) == 0 && !text.ends_with("\n\n") && !text.ends_with("\r\r") && !text.ends_with("\n\r\n") {
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
    }
    text
}

#[test]
fn every_field_is_what_python_reads() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success()) {
        // The point of this test is a second opinion; without one there is nothing to compare with.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: there is no python3\n").unwrap();
        return;
    }
    let dir = dir();
    const FILES: u64 = 1500;
    let paths: Vec<_> = (0..FILES).map(|seed| file(&dir, &format!("{seed}.csv"), nasty(seed))).collect();
    let python = Command::new("python3").arg("-c").arg(READER).args(&paths).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let mut lines = std::str::from_utf8(&python.stdout).unwrap().lines();
    let mut rows = 0;
    for (seed, path) in paths.iter().enumerate() {
        let expected: Vec<&str> = lines.by_ref().take_while(|l| *l != "end").collect();
        let table = table(path);
        let names: Vec<_> = table.columns().iter().map(|c| c.name.as_str()).collect();
        let hex = |row: Vec<String>| -> String {
            let field = |f: &String| f.bytes().map(|b| format!("{b:02x}")).collect::<String>();
            row.iter().map(field).collect::<Vec<_>>().join(",")
        };
        let found: Vec<String> = keys(&*table, &names).into_iter().map(hex).collect();
        assert_eq!(found, expected, "file {seed}: {:?}", nasty(seed as u64));
        rows += found.len();
        if seed % 20 > 0 {
            continue;
        }
        // And the second pass gives back the same rows. (Outputs go to the disk, which takes its time.)
        let all: Vec<u64> = (0..found.len() as u64).collect();
        let copy = file(&dir, "copy.csv", csv(&*table, &all));
        assert_eq!(keys(&*kit::table(&copy), &names).into_iter().map(hex).collect::<Vec<_>>(), expected, "file {seed}");
    }
    assert!(rows > 10_000, "{rows}");
}
