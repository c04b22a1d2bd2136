//! Whether the simulator finds what it is there to find: each defect of `crates/vesica-sim/defects` is put into a copy of the sources, and
//! seeds are played until one fails.
//!
//! A defect is a patch. Above it stand what the defect lets happen, and the kind of case that can show it.

use crate::{Chore, machines, output, root, say};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Seeds within which each defect has to be found.
const WITHIN: &str = "10000";

/// Puts each defect in, plays, and takes it out again.
pub fn find() -> Chore {
    let copy = root().join("target/defects");
    sources(&copy)?;
    let mut missed = Vec::new();
    let mut patches: Vec<_> =
        fs::read_dir(root().join("crates/vesica-sim/defects")).and_then(Iterator::collect).map_err(words)?;
    patches.sort_by_key(fs::DirEntry::file_name);
    for patch in patches {
        let (patch, name) = (patch.path(), patch.file_name().display().to_string());
        let text = fs::read_to_string(&patch).map_err(words)?;
        let kind = text.lines().find_map(|line| line.strip_prefix("kind: "));
        let kind = kind.ok_or_else(|| format!("{name}: no line says `kind: KIND`"))?;
        apply(&copy, &patch, &[])?;
        let manifest = copy.join("Cargo.toml").display().to_string();
        let target = root().join("target").display().to_string();
        let program = machines::built(
            &[
                "build",
                "--quiet",
                "--manifest-path",
                &manifest,
                "--target-dir",
                &target,
                "--package",
                "vesica-sim",
                "--bin",
                "vesica-sim",
            ],
            &[],
        )?;
        let played = Command::new(program).args(["--kind", kind, "--first", "0", WITHIN]).output().map_err(words)?;
        apply(&copy, &patch, &["--reverse"])?;
        let said = String::from_utf8_lossy(&played.stdout).into_owned();
        match said.lines().find(|line| line.starts_with("seed ")) {
            Some(seed) => say(&format!("{name}: {seed}")),
            None => missed.push(format!("{name}: no seed of {WITHIN} found it\n{said}")),
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

/// A copy of what git knows of, as it stands.
fn sources(copy: &Path) -> Chore {
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(words)?;
    }
    for name in output("git", &["ls-files", "-z"])?.split_terminator('\0') {
        let (from, to) = (root().join(name), copy.join(name));
        fs::create_dir_all(to.parent().unwrap_or(copy)).map_err(words)?;
        // What was removed and not committed yet is no part of it.
        if from.exists() {
            fs::copy(from, to).map_err(words)?;
        }
    }
    Ok(())
}

/// Applies a patch to the copy, as if that were in no repository: else git takes the paths for those of this one.
fn apply(copy: &Path, patch: &Path, more: &[&str]) -> Chore {
    let mut git = Command::new("git");
    git.arg("-C").arg(copy).env("GIT_CEILING_DIRECTORIES", root().join("target")).arg("apply").args(more).arg(patch);
    match git.status() {
        Ok(status) if status.success() => Ok(()),
        ended => Err(format!("{} does not fit the code, {ended:?}: write it anew", patch.display())),
    }
}

fn words(error: std::io::Error) -> String {
    error.to_string()
}
