//! A table that a program prints.

use crate::kit;

use kit::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use vesica_table::{Error, Fault, Format, Input, Origin, Program, open, open_until};

fn input(args: &[&str], folder: Option<&Path>) -> Input {
    let program = Program { args: strings(args), folder: folder.map(Path::to_owned) };
    Input { origin: Origin::Command(program), format: None, temp: None }
}

fn failed(args: &[&str]) -> Error {
    open(&input(args, None)).err().expect("failed")
}

#[test]
fn what_a_program_prints_can_be_read_twice() {
    let table = open(&input(&["printf", "id,v\\n1,a\\n2,b\\n"], None)).unwrap();
    for _ in 0..2 {
        assert_eq!(key(&*table, "id"), ["1", "2"]);
    }
    assert_eq!(csv(&*table, &[1]), "id,v\n2,b\n");
    // No shell reads the arguments.
    let table = open(&input(&["printf", "%s\\n", "id", "$HOME", "`id`", "a;b"], None)).unwrap();
    assert_eq!(key(&*table, "id"), ["$HOME", "`id`", "a;b"]);
    // Much of it.
    let table = open(&input(&["sh", "-c", "echo id; seq 1 300000; echo done >&2"], None)).unwrap();
    assert_eq!(key(&*table, "id").len(), 300_000);
}

#[test]
fn a_program_works_in_its_folder_and_prints_any_format() {
    let dir = dir();
    let script = file(&dir, "export.sh", "#!/bin/sh\ncat table\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let arrow = dir.path().join("t.arrow");
    let source = table(&file(&dir, "t.csv", "id\nx\ny\n"));
    write(&*source, &vesica_table::Output::new(&arrow), &[Some(0), Some(1)], 1 << 20).unwrap();
    for name in ["t.arrow", "t.csv"] {
        fs::copy(dir.path().join(name), dir.path().join("table")).unwrap();
        let table = open(&input(&["./export.sh"], Some(dir.path()))).unwrap();
        assert_eq!(key(&*table, "id"), ["x", "y"], "{name}");
        assert!(
            table.path().ends_with("the output of ./export.sh") || table.path().to_str().unwrap().contains("export.sh")
        );
    }
    let named = Input { format: Some(Format::Parquet), ..input(&["printf", "id\\n1\\n"], None) };
    assert!(matches!(open(&named), Err(Error::Mislabelled { named: "parquet", .. })));
}

#[test]
fn a_program_that_fails_is_told_with_its_exit_code_and_its_last_words() {
    // After half of its rows.
    let error = failed(&["sh", "-c", "echo id; echo 1; echo 'connection lost' >&2; exit 3"]);
    let text = error.to_string();
    assert!(text.contains("\"sh\" failed with exit code 3 and said: connection lost"), "{text}");
    assert_eq!(error.fault(), Fault::Input);
    let text = failed(&["sh", "-c", "echo id; kill -9 $$"]).to_string();
    assert!(text.contains("was ended by signal 9 and said nothing"), "{text}");
    // The end of much.
    let text = failed(&["sh", "-c", "seq 1 100000 >&2; echo 'the end' >&2; exit 1"]).to_string();
    assert!(text.ends_with(" and said: 99998 / 99999 / 100000 / the end"), "{text}");
    let text = failed(&["sh", "-c", "printf '\\033[2Jwhy' >&2; exit 1"]).to_string();
    assert!(text.ends_with("and said: ?[2Jwhy"), "{text}");
    let error = failed(&["/no/such/program", "x"]);
    assert!(error.to_string().contains("cannot start \"/no/such/program\""), "{error}");
    assert_eq!(error.fault(), Fault::Config);
    assert!(matches!(failed(&["true"]), Error::NoHeader { .. }), "nothing is no table");
}

/// Ctrl-C in a terminal goes to the program too, which may end of it first, well or not.
#[test]
fn a_program_that_ends_of_what_ends_this_process_has_not_failed() {
    let dir = dir();
    for end in ["kill -INT $$", "exit 0"] {
        let sign = dir.path().join(&end[..4]);
        let script = format!("echo id; echo 1; touch {}; {end}", sign.display());
        let error = open_until(&input(&["sh", "-c", &script], None), &|| sign.exists()).err().expect("stopped");
        assert!(matches!(error, Error::Stopped { .. }), "{end}: {error}");
    }
}

/// One that hangs before it prints, while it prints, after it has closed its output, and one that leaves another behind.
#[test]
fn a_program_that_hangs_can_be_stopped() {
    for script in [
        "exec sleep 600",
        "echo id; echo 1; exec sleep 600",
        "echo id; exec >&-; exec sleep 600",
        "while :; do echo id; done",
    ] {
        let (asked, begun) = (AtomicUsize::new(0), Instant::now());
        let stop = || asked.fetch_add(1, SeqCst) > 3;
        let error = open_until(&input(&["sh", "-c", script], None), &stop).err().expect("stopped");
        assert!(matches!(error, Error::Stopped { .. }), "{script}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{script}");
    }
    // Somebody else holds its standard error open.
    let text = failed(&["sh", "-c", "echo id; echo why >&2; sleep 20 >/dev/null & exit 4"]).to_string();
    assert!(text.contains("exit code 4 and said: why"), "{text}");
}
