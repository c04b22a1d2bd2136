//! The tables of SECURITY.md: every claim names the tests that hold the code to it, and what it names is there.

use crate::Chore;
use std::path::Path;

/// The document with the claims.
const DOCUMENT: &str = "SECURITY.md";

/// The heading of the last column of a table of claims.
const TESTED: &str = "tested in";

/// What a row says that makes no claim, so that there is nothing to test.
const NO_CLAIM: &str = "no bound is claimed";

/// Where a path in the document may begin.
const ROOTS: [&str; 4] = ["crates/", "docs/", "python/", "xtask/"];

/// Fails with every claim that names no test, and with every path that is named and not there.
pub fn check(root: &Path) -> Chore {
    let text = std::fs::read_to_string(root.join(DOCUMENT)).map_err(|e| format!("{DOCUMENT}: {e}"))?;
    let wrong = wrong(&text, |path| root.join(path).exists());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What is wrong with the tables in `text`.
fn wrong(text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut claims = 0;
    let mut in_table = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(cells) = cells(line) else {
            in_table = false;
            continue;
        };
        let say = |what: String| format!("{DOCUMENT}:{number}: {what}");
        for path in cells.iter().flat_map(|cell| paths(cell)).filter(|path| !exists(path)) {
            wrong.push(say(format!("{path} is not there")));
        }
        let (first, last) = (cells[0], cells[cells.len() - 1]);
        if last == TESTED {
            in_table = true;
        } else if in_table && first.chars().any(char::is_alphanumeric) {
            claims += 1;
            if paths(last).is_empty() && !line.contains(NO_CLAIM) {
                wrong.push(say(format!("{first} names no test")));
            }
        }
    }
    if claims == 0 {
        wrong.push(format!("{DOCUMENT}: there is no table with a last column `{TESTED}`"));
    }
    wrong
}

/// The cells of a line of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

/// The paths in a cell: what stands in backticks and begins with a folder of the repository.
fn paths(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter(|code| ROOTS.iter().any(|root| code.starts_with(root))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "| row | who | tested in |\n|---|---|---|\n";

    fn with(rows: &str) -> Vec<String> {
        wrong(&format!("{HEAD}{rows}"), |path| path == "crates/a/tests/b.rs" || path == "docs/c.md")
    }

    #[test]
    fn a_claim_whose_paths_exist_is_right() {
        assert_eq!(with("| E1 | `docs/c.md` | `crates/a/tests/b.rs`, `not_a_path` |\n"), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_there_is_named_with_its_line_in_whatever_column() {
        let wrong = with("| E1 | `docs/gone.md` | `crates/a/tests/b.rs`, `crates/a/tests/gone.rs` |\n");
        assert_eq!(
            wrong,
            ["SECURITY.md:3: docs/gone.md is not there", "SECURITY.md:3: crates/a/tests/gone.rs is not there"]
        );
    }

    #[test]
    fn a_claim_without_a_test_is_named_and_a_row_without_a_claim_is_not() {
        assert_eq!(with("| E1 | anybody | – |\n"), ["SECURITY.md:3: E1 names no test"]);
        assert_eq!(with("| E1 | no bound is claimed | – |\n"), Vec::<String>::new());
    }

    #[test]
    fn a_document_without_claims_is_wrong() {
        assert_eq!(with("").len(), 1);
        assert_eq!(wrong("| a | b |\n|---|---|\n| c | d |\n", |_| true).len(), 1);
    }
}
