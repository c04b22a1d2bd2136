//! What a demo found, against a plain join of the two tables: sets of lines in memory, and nothing of the engine.

use std::collections::HashSet;
use std::path::Path;

/// Compares both outputs and `expected.csv` in `folder` with a join of `alice.csv` and `bob.csv`.
///
/// Returns the number of rows, or in words what is wrong.
pub fn demo(folder: &Path) -> Result<usize, String> {
    let read = |name: &str| {
        std::fs::read_to_string(folder.join(name))
            .map_err(|e| format!("cannot read {}: {e}", folder.join(name).display()))
    };
    let (alice, bob) = (read("alice.csv")?, read("bob.csv")?);
    let (a, b) = (lines(&alice), lines(&bob));
    let (a_keys, b_keys): (HashSet<&str>, HashSet<&str>) = (a.iter().map(key).collect(), b.iter().map(key).collect());
    let joined = [
        sorted(a.into_iter().filter(|line| b_keys.contains(key(line)))),
        sorted(b.into_iter().filter(|line| a_keys.contains(key(line)))),
    ];

    let outputs = [read("alice.matched.csv")?, read("bob.matched.csv")?];
    let outputs = outputs.each_ref().map(|text| lines(text));
    for ((name, joined), output) in ["alice", "bob"].into_iter().zip(&joined).zip(&outputs) {
        if sorted(output.iter().copied()) != *joined {
            return Err(format!(
                "{name}.matched.csv has {} rows, the plain join has {} other ones",
                output.len(),
                joined.len()
            ));
        }
    }
    if !outputs[0].iter().map(key).eq(outputs[1].iter().map(key)) {
        return Err("the two outputs do not line up row by row".to_owned());
    }
    let expected = read("expected.csv")?;
    if sorted(lines(&expected).into_iter()) != sorted(joined[0].iter().map(key)) {
        return Err("the plain join differs from expected.csv".to_owned());
    }
    Ok(joined[0].len())
}

/// The rows of a sample: its fields hold neither quotes nor newlines.
fn lines(text: &str) -> Vec<&str> {
    text.lines().skip(1).collect()
}

fn key<'a>(line: &&'a str) -> &'a str {
    line.split(',').next().unwrap_or(line)
}

fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = lines.collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: [(&str, &str); 5] = [
        ("alice.csv", "id,c1\n1,a\n2,b\n3,c\n"),
        ("bob.csv", "id,c1\n9,x\n3,y\n2,z\n"),
        ("expected.csv", "id\n3\n2\n"),
        ("alice.matched.csv", "id,c1\n3,c\n2,b\n"),
        ("bob.matched.csv", "id,c1\n3,y\n2,z\n"),
    ];

    fn with(change: Option<(&str, &str)>) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in RIGHT.into_iter().chain(change) {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        demo(dir.path())
    }

    #[test]
    fn a_right_result_passes_and_every_wrong_one_is_caught() {
        assert_eq!(with(None), Ok(2));
        for wrong in [
            ("alice.matched.csv", "id,c1\n3,c\n"),           // a row lost
            ("alice.matched.csv", "id,c1\n3,c\n2,b\n2,b\n"), // a row twice
            ("alice.matched.csv", "id,c1\n3,c\n1,a\n"),      // a wrong row
            ("bob.matched.csv", "id,c1\n3,y\n2,y\n"),        // a changed field
            ("bob.matched.csv", "id,c1\n2,z\n3,y\n"),        // not lined up
            ("expected.csv", "id\n3\n1\n"),                  // the generator is wrong
        ] {
            assert!(with(Some(wrong)).is_err(), "{wrong:?}");
        }
    }
}
