//! The units for systemd, as systemd reads them, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the units.
fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd")
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that was not run says so")]
fn systemd_has_no_word_against_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("NOT RUN: there is no systemd-analyze; install systemd");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["serve", "run"] {
        let text = std::fs::read_to_string(units().join(format!("vesica-{name}@.service"))).unwrap();
        // The program stands elsewhere here, and systemd looks whether it is there.
        let placed = text.replace("/usr/bin/vesica", env!("CARGO_BIN_EXE_vesica"));
        assert_ne!(placed, text);
        let unit = dir.path().join(format!("vesica-{name}@list.service"));
        std::fs::write(&unit, placed).unwrap();
        let said = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        let words = String::from_utf8_lossy(&said.stderr);
        // What other units of this machine are like is not looked at.
        let of_ours: Vec<&str> = words.lines().filter(|line| line.contains("vesica-")).collect();
        assert!(said.status.success() && of_ours.is_empty(), "{words}");
        // The command that it starts is one that there is.
        let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/vesica ")).unwrap();
        let words: Vec<&str> =
            command.split(' ').filter(|word| !word.starts_with('/')).chain(["/no/such/file"]).collect();
        let ended = Command::new(env!("CARGO_BIN_EXE_vesica")).args(&words).output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && told.contains("/no/such/file"), "{words:?}: {told}");
    }
}
