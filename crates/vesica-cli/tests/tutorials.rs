//! The book's tutorials: their commands are typed as they stand, from an empty folder, and print what the pages show.

use crate::two;

use std::path::Path;
use std::process::Command;
use two::{LONG, Running, port};

/// Ports that the pages name. Each becomes one that is free.
const PORTS: [&str; 4] = [":5300", ":5301", ":5302", ":5400"];

/// What is printed behind the commands of a block.
const END: &str = "~~~ the block is over ~~~";

/// The blocks of commands of a page, each with the lines that the page shows below it.
fn blocks(page: &str) -> Vec<(String, Vec<&str>)> {
    let mut blocks: Vec<(String, Vec<&str>)> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let block = lines.by_ref().take_while(|line| *line != "```");
        match line {
            "```sh" => blocks.push((block.map(|line| format!("{line}\n")).collect(), Vec::new())),
            "```text" => blocks.last_mut().unwrap().1.extend(block.filter(|line| !line.is_empty())),
            line => assert!(!line.starts_with("```"), "neither commands nor what they print: {line}"),
        }
    }
    blocks
}

/// Whether `line` is `shown`, in which `…` stands for anything.
fn is(line: &str, shown: &str) -> bool {
    let (line, shown) = (line.trim(), shown.trim());
    let Some((first, others)) = shown.split_once('…') else { return line == shown };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let (middle, last) = others.rsplit_once('…').unwrap_or(("", others));
    for part in middle.split('…') {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// Types the commands of a page in bash, in an empty folder.
fn type_page(page: &str) {
    let path = format!("{}/../../docs/src/{page}", env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(&path).unwrap();
    for named in PORTS {
        text = text.replace(named, &format!(":{}", port()));
    }
    let blocks = blocks(&text);
    assert!(blocks.iter().any(|(_, shown)| !shown.is_empty()), "{page} shows nothing that could be compared");
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2> gone || true' EXIT\n");
    blocks.iter().for_each(|(commands, _)| script += &format!("{commands}echo '{END}'\n"));
    let dir = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_vesica")).parent().unwrap().to_str().unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(dir.path()).env("PATH", path).env_remove("VESICA_LOG");
    let ended = Running::start(&mut bash).wait(LONG).good();
    let printed: Vec<&str> = ended.stdout.split(END).collect();
    assert_eq!(printed.len(), blocks.len() + 1, "{}\n{}", ended.stdout, ended.stderr);
    for ((commands, shown), printed) in blocks.iter().zip(printed) {
        let mut lines = printed.lines();
        for shown in shown {
            let found = lines.any(|line| is(line, shown));
            assert!(found, "{page}: after\n{commands}there is no line\n{shown}\nin its place in\n{printed}");
        }
    }
}

#[test]
fn a_shop_and_a_publisher_learn_two_totals() {
    type_page("tutorials/advertising.md");
}

#[test]
fn a_bank_asks_another_ones_list() {
    type_page("tutorials/fraud.md");
}

#[test]
fn three_hospitals_find_their_common_patients() {
    type_page("tutorials/hospitals.md");
}

#[test]
fn a_task_of_kuscia_runs() {
    type_page("howto/kuscia.md");
}

#[test]
fn two_files_line_up_for_federated_learning() {
    type_page("howto/federated.md");
}

#[test]
fn a_line_that_is_shown_is_the_line_that_is_printed() {
    assert!(is("sha256:12ab", "sha256:…") && is(" a 12 b", "a … b") && is("abc", "abc") && is("a", "…"));
    assert!(!is("sha25612ab", "sha256:…") && !is("a 12 c", "a … b") && !is("abcd", "abc") && !is("a 1 b c", "a … b"));
}
