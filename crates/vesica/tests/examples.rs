//! The examples end well. Cargo builds them before it runs tests.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example with `args`, and gives what it printed.
fn run(name: &str, args: &[&str]) -> String {
    let test = std::env::current_exe().unwrap();
    let built: PathBuf = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let done = Command::new(&built).args(args).output().unwrap_or_else(|e| panic!("{}: {e}", built.display()));
    assert!(done.status.success(), "{name}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn in_memory() {
    assert!(run("in_memory", &["2001"]).starts_with("1001 of 2001 keys are common"));
}

#[test]
fn streaming() {
    assert!(run("streaming", &["20000"]).starts_with("6667 of 20000 rows matched"));
}

#[test]
fn own_transport() {
    assert!(run("own_transport", &[]).starts_with("bob has +41 31 320 00 00 too"));
}
