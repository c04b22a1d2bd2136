//! What cargo has built, and where it stands.
//!
//! Example: `cargo test -p vesica-psi` compiles `digest` without the feature that the workspace's other tests ask for, and with it
//! `vesica-curve`, `vesica-ot` and all that rests on them, a second time. So the check of the whole repository builds all tests together,
//! once, and runs tests, simulator and command from what that made. The command and the Python package ask for the same features as the tests
//! ([`once`]), so they are built of the same libraries.

use crate::{Chore, machines, output};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A program or a test.
struct Built {
    package: String,
    name: String,
    is_test: bool,
    path: PathBuf,
    /// The folder of the package, in which cargo runs a test.
    folder: PathBuf,
}

/// All of them, if they were built together.
static ALL: OnceLock<Vec<Built>> = OnceLock::new();

/// Builds all programs and tests of the workspace together, if that was not done. What is asked for later is one of these.
pub fn all() -> Result<(), String> {
    if ALL.get().is_none() {
        let messages = machines::messages(&["test", "--workspace", "--no-run"], &[])?;
        let _ = ALL.set(messages.lines().filter_map(built).collect());
    }
    Ok(())
}

/// What one of cargo's messages says was built, if it does.
fn built(message: &str) -> Option<Built> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = message["executable"].as_str()?.into();
    // path+file:///…/crates/vesica-psi#0.1.0
    let package = message["package_id"].as_str()?.rsplit_once('#')?.0.rsplit('/').next()?.to_owned();
    let name = message["target"]["name"].as_str()?.to_owned();
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.into();
    Some(Built { package, name, is_test: message["profile"]["test"] == true, path, folder })
}

/// The program of this name, of a package.
pub fn program(package: &str, name: &str) -> Result<PathBuf, String> {
    let Some(all) = ALL.get() else {
        return machines::built(&["build", "--quiet", "--package", package, "--bin", name], &[]);
    };
    let program = all.iter().find(|built| built.package == package && built.name == name && !built.is_test);
    program.map(|program| program.path.clone()).ok_or_else(|| format!("cargo built no program {name}"))
}

/// The tests of a package, or of all of them, as programs, each with the folder that it runs in.
pub fn tests(of: Option<&str>) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    all()?;
    let asked =
        ALL.get().into_iter().flatten().filter(|built| built.is_test && of.is_none_or(|of| built.package == of));
    let tests: Vec<(PathBuf, PathBuf)> = asked.map(|built| (built.path.clone(), built.folder.clone())).collect();
    if tests.is_empty() { Err(format!("cargo built no test of {}", of.unwrap_or("any package"))) } else { Ok(tests) }
}

/// Fails with every crate of the Python package and the command that would be compiled a second time, for it has other features where tests are
/// built: one that only a test asks for belongs in the workspace's dependencies too. And with every test that no program has.
pub fn once(root: &Path) -> Chore {
    let tree = |which: &[&str]| {
        let said = output(
            "cargo",
            &[&["tree", "--quiet", "--prefix", "none", "--format", "{p} {f}", "--edges"], which].concat(),
        )?;
        Ok::<_, String>(said.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect::<BTreeSet<_>>())
    };
    let tested = tree(&["normal,build,dev", "--workspace"])?;
    let shipped = tree(&["normal,build", "--package", "vesica-py"])?;
    let twice = shipped.difference(&tested).map(|name| format!("{name}: tests have it with other features"));
    let wrong: Vec<String> = twice.chain(unnamed(root)?).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The files of tests that the program of their crate's tests, `tests/all.rs`, does not name.
fn unnamed(root: &Path) -> Result<Vec<String>, String> {
    let mut unnamed = Vec::new();
    for all in
        standing(&root.join("crates"))?.into_iter().map(|folder| folder.join("tests/all.rs")).filter(|all| all.exists())
    {
        let text = std::fs::read_to_string(&all).map_err(|e| format!("{}: {e}", all.display()))?;
        for file in
            standing(&all.with_file_name(""))?.into_iter().filter(|file| *file != all && file.extension().is_some())
        {
            let name = file.file_stem().unwrap_or_default().display();
            if !text.contains(&format!("\nmod {name};")) {
                unnamed.push(format!("{}: {} does not name it, so it is not run", file.display(), all.display()));
            }
        }
    }
    Ok(unnamed)
}

/// What stands in a folder, in order.
fn standing(folder: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_read_from_cargos_messages() {
        let message = |executable: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/crates/vesica-psi#0.1.0\",\
                 \"manifest_path\":\"/w/crates/vesica-psi/Cargo.toml\",\
                 \"target\":{{\"name\":\"dp\"}},\"profile\":{{\"test\":{test}}},\"executable\":{executable}}}"
            )
        };
        let test = built(&message("\"/w/target/debug/deps/dp-1\"", true)).unwrap();
        assert_eq!((&*test.package, &*test.name, test.is_test), ("vesica-psi", "dp", true));
        assert_eq!(test.path, PathBuf::from("/w/target/debug/deps/dp-1"));
        assert_eq!(test.folder, PathBuf::from("/w/crates/vesica-psi"));
        assert!(!built(&message("\"/w/target/debug/dp\"", false)).unwrap().is_test);
        assert!(built(&message("null", true)).is_none() && built("{}").is_none() && built("warning").is_none());
    }
}
