//! What lies in `deploy/`: the units for systemd, the job and the chart for Kubernetes, as systemd, Kubernetes and Helm read them, where they are
//! installed.

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

/// The folder of what is for Kubernetes.
fn deploy(path: &str) -> PathBuf {
    units().with_file_name(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands behind `name` on its line.
fn said<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).trim()
}

/// The command that a manifest starts is one that there is, and the exit codes for which it gives up are those for which a unit does.
fn starts_what_there_is(manifest: &str) {
    let args = said(manifest, "args:").trim_matches(['[', ']']);
    let words: Vec<&str> =
        args.split(", ").map(|word| if word.starts_with('/') { "/no/such/file" } else { word }).collect();
    assert!(words.contains(&"/no/such/file"), "{words:?}");
    let ended = Command::new(env!("CARGO_BIN_EXE_vesica")).args(&words).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(2) && told.contains("/no/such/file"), "{words:?}: {told}");
    if manifest.contains("onExitCodes") {
        let unit = read(&units().join("vesica-run@.service"));
        let codes = said(&unit, "RestartPreventExitStatus=").replace(' ', ", ");
        assert!(manifest.contains(&format!("values: [{codes}]")), "exit codes other than {codes} in\n{manifest}");
    }
    assert!(said(manifest, "image: registry.example/vesica:").starts_with(env!("CARGO_PKG_VERSION")), "{manifest}");
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that was not run says so")]
fn kubernetes_and_helm_have_no_word_against_the_job_and_the_chart() {
    starts_what_there_is(&read(&deploy("kubernetes/job.yaml")));
    let about = read(&deploy("helm/vesica/Chart.yaml"));
    assert_eq!(said(&about, "version:"), env!("CARGO_PKG_VERSION"));
    assert_eq!(said(&about, "appVersion:"), format!("{:?}", env!("CARGO_PKG_VERSION")));
    let Ok(looked) = Command::new("python3").arg(deploy("check.py")).output() else {
        return eprintln!("NOT RUN: there is no python3");
    };
    let words = String::from_utf8_lossy(&looked.stderr);
    if looked.status.code() == Some(3) {
        return eprintln!("NOT RUN: {words}");
    }
    assert!(looked.status.success(), "{words}");
    let made = String::from_utf8(looked.stdout).unwrap();
    let starting: Vec<&str> = made.split("\n---\n").filter(|part| part.contains("args:")).collect();
    assert_eq!(starting.len(), 7, "{made}");
    starting.into_iter().for_each(starts_what_there_is);
}
