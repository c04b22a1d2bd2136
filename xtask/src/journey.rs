//! The pages that say where things are: every file, function and type that they name is there.

use crate::Chore;
use std::path::Path;

/// The pages. The last one has a table whose rows name a function and then its file.
const PAGES: [&str; 3] = ["ARCHITECTURE.md", "docs/src/glossary.md", "docs/src/journey.md"];

/// Where a path may begin, beside a crate's name.
const ROOTS: [&str; 4] = ["crates/", "docs/", "schema/", "xtask/"];

/// Fails with everything that a page names and that is not there.
pub fn check(root: &Path) -> Chore {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).map_err(|e| format!("{page}: {e}"))?;
        let found = examine(page, &text, |path| read(&root.join(path)));
        wrong.extend(found.wrong);
        rows += found.rows;
    }
    if rows == 0 {
        wrong.push("docs/src/journey.md: there is no table with a function in its first column".to_owned());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The text of a file; empty for a folder, and nothing where there is neither.
fn read(path: &Path) -> Option<String> {
    if path.is_dir() { Some(String::new()) } else { std::fs::read_to_string(path).ok() }
}

/// What a page says.
#[derive(Default)]
struct Examined {
    /// What is not so.
    wrong: Vec<String>,
    /// Rows of a table that name a function and its file.
    rows: usize,
}

/// Looks up what `text` names. `read` gives the text of a file of the repository.
fn examine(page: &str, text: &str, read: impl Fn(&str) -> Option<String>) -> Examined {
    let mut examined = Examined::default();
    // A name and its file may stand on two lines of a paragraph.
    for (number, block) in blocks(text) {
        let mut say = |what: String| examined.wrong.push(format!("{page}:{number}: {what}"));
        let pieces: Vec<&str> = block.split('`').collect();
        let mut named: Vec<(&str, &str)> = Vec::new();
        for at in (1..pieces.len()).step_by(2) {
            let Some(path) = path(pieces[at]) else { continue };
            if read(&path).is_none() {
                say(format!("{path} is not there"));
            } else if at >= 3 && matches!(pieces[at - 1], " in " | " | ") && is_name(pieces[at - 2]) {
                named.push((pieces[at - 2], pieces[at]));
                if pieces[at - 1] == " | " && at == 3 {
                    examined.rows += 1;
                }
            }
        }
        for (name, file) in named {
            let path = path(file).unwrap_or_default();
            let text = read(&path).unwrap_or_default();
            if !path.ends_with('/') && !defines(&path, &text, name) {
                examined.wrong.push(format!("{page}:{number}: {path} has no {name}"));
            }
        }
    }
    examined
}

/// The paragraphs and the rows of tables of a page, each in one line, with the number of its first line.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let row = line.starts_with('|');
        match blocks.last_mut().filter(|_| open && !row && !line.is_empty()) {
            Some((_, block)) => *block += &format!(" {}", line.trim()),
            None => blocks.push((number, line.trim().to_owned())),
        }
        open = !row && !line.is_empty();
    }
    blocks
}

/// The path in the repository that a piece of code on a page names, if it is one.
fn path(code: &str) -> Option<String> {
    let of_a_crate = code.starts_with("vesica-") && !code.contains(char::is_whitespace);
    if ROOTS.iter().any(|root| code.starts_with(root)) {
        Some(code.to_owned())
    } else if of_a_crate {
        Some(format!("crates/{code}"))
    } else {
        None
    }
}

/// Whether a piece of code on a page is the name of a function or a type, and not a line of a job.
fn is_name(code: &str) -> bool {
    code.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
}

/// Whether the file `path` with this `text` has the function or type `name`: `run`, `Stage`, `local::open` in a file `local.rs`,
/// or `Keys::extract`, where the file says something of `Keys` and has a function `extract`.
fn defines(path: &str, text: &str, name: &str) -> bool {
    let code = || text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let words = |line: &str| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned);
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>()
    };
    let after = |keywords: &[&str], name: &str| {
        code().any(|line| words(line).windows(2).any(|two| keywords.contains(&two[0].as_str()) && two[1] == name))
    };
    let is_type = |name: &str| name.starts_with(char::is_uppercase);
    let has = |name: &str| if is_type(name) { after(&["struct", "enum", "trait"], name) } else { after(&["fn"], name) };
    match name.split_once("::") {
        None => has(name),
        Some((of, function)) if is_type(of) => {
            let about = code().filter(|line| line.starts_with("impl") || line.starts_with("pub trait"));
            let mut about = about.flat_map(words);
            about.any(|word| word == of) && has(function)
        }
        Some((module, function)) => path.ends_with(&format!("/{module}.rs")) && has(function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "//! fn gone\npub struct Keys {\n}\nimpl Keys {\n    pub fn extract() {}\n}\nfn alone() {}\n";

    fn wrong(page: &str) -> Vec<String> {
        let read = |path: &str| match path {
            "crates/vesica-a/src/keys.rs" => Some(KEYS.to_owned()),
            "crates/vesica-a" | "crates/vesica-a/src/" => Some(String::new()),
            _ => None,
        };
        examine("P", page, read).wrong
    }

    #[test]
    fn what_is_there_is_right() {
        let page = "`vesica-a`, `vesica-a/src/`, `vesica run x`, `backend/`\n\n\
                    | `Keys::extract` | `vesica-a/src/keys.rs` | a |\n| `keys::alone` | `vesica-a/src/keys.rs` | b |\n\n\
                    | `a = 1` | `vesica-a/src/keys.rs` |\n\nThe type `Keys` in\n`crates/vesica-a/src/keys.rs`, and `alone` in `vesica-a/src/keys.rs`.\n";
        assert_eq!(wrong(page), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        assert_eq!(wrong("a\n\nb\n`vesica-b/src/keys.rs`"), ["P:3: crates/vesica-b/src/keys.rs is not there"]);
        assert_eq!(wrong("`docs/src/gone.md`"), ["P:1: docs/src/gone.md is not there"]);
    }

    #[test]
    fn a_name_that_its_file_does_not_have_is_named() {
        for name in ["Keys::gone", "Gone::extract", "gone", "Gone", "other::alone", "extrac"] {
            let says = format!("P:1: crates/vesica-a/src/keys.rs has no {name}");
            assert_eq!(wrong(&format!("| `{name}` | `vesica-a/src/keys.rs` | a |")), [says.as_str()]);
            assert_eq!(wrong(&format!("`{name}` in `vesica-a/src/keys.rs`")), [says.as_str()]);
        }
    }

    #[test]
    fn rows_that_name_a_function_are_counted() {
        let count = |page: &str| examine("P", page, |_| Some(KEYS.to_owned())).rows;
        assert_eq!(count("| a | b |\n|---|---|\n| `alone` | `vesica-a/src/keys.rs` | c |\n"), 1);
        assert_eq!(count("| a | `vesica-a/src/keys.rs` |\n"), 0);
    }
}
