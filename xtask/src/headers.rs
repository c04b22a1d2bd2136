//! The headers of the protocol files: always the same items, so that any two protocols can be compared line by line.

use crate::Chore;
use std::path::{Path, PathBuf};

/// Where protocols live, one a file.
const ROOM: &str = "crates/vesica-psi/src";

/// Files of the room that are not protocols.
const OTHERS: [&str; 20] = [
    "answer.rs",
    "cells.rs",
    "entries.rs",
    "gmw.rs",
    "groups.rs",
    "heard.rs",
    "ideal.rs",
    "lib.rs",
    "many.rs",
    "marks.rs",
    "masked.rs",
    "noise.rs",
    "ordered.rs",
    "products.rs",
    "reveals.rs",
    "same.rs",
    "scatter.rs",
    "sorted.rs",
    "star.rs",
    "sums.rs",
];

/// The longest that a protocol may be, tests not counted; one that grows misses a building block below.
const MOST_LINES: usize = 200;

/// A protocol file's header.
pub struct Header {
    /// The file's stem.
    pub name: String,
    /// Its first sentence.
    pub title: String,
    /// What it reveals.
    pub reveals: String,
    /// Its rounds.
    pub rounds: String,
    /// Its bytes.
    pub bytes: String,
}

/// Fails with every protocol file whose header lacks an item, or that is too long.
pub fn check(root: &Path) -> Chore {
    let mut wrong = Vec::new();
    for path in protocols(root)? {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let head = head(&text);
        for item in ["Reveals:", "Rounds:", "Bytes:", "Differs from the paper", "["] {
            if !head.contains(item) {
                wrong.push(format!("{}: the header has no `{item}`", path.display()));
            }
        }
        let lines = text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")).count();
        if lines > MOST_LINES {
            wrong.push(format!("{}: {lines} lines; a protocol has at most {MOST_LINES}", path.display()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The headers of all protocols, by name.
pub fn all(root: &Path) -> Result<Vec<Header>, String> {
    protocols(root)?
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let head = head(&text);
            let item = |name: &str| {
                let from = head.split_once(name).map_or("", |(_, rest)| rest);
                let line = from.split("   ").next().unwrap_or_default();
                line.lines().next().unwrap_or_default().trim().trim_end_matches('.').to_owned()
            };
            Ok(Header {
                name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                title: title(&head),
                reveals: item("Reveals:"),
                rounds: item("Rounds:"),
                bytes: item("Bytes:"),
            })
        })
        .collect()
}

/// The first sentence of a header, in one line.
fn title(head: &str) -> String {
    let first: Vec<&str> = head.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let first = first.join(" ");
    first.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

fn protocols(root: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(root.join(ROOM)).map_err(|e| format!("{ROOM}: {e}"))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "rs") && !OTHERS.iter().any(|o| f.ends_with(o)));
    files.sort();
    Ok(files)
}

fn head(text: &str) -> String {
    text.lines().map_while(|l| l.strip_prefix("//!")).map(|l| format!("{l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_a_sentence_and_not_a_line() {
        assert_eq!(title(" One sentence that goes\n on. Another one.\n\n More.\n"), "One sentence that goes on");
        assert_eq!(title(" One.\n\n Two.\n"), "One");
    }
}
