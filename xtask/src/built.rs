//! What cargo has built, and where it stands.
//!
//! Example: `cargo test -p vesica-psi` compiles `digest` without the feature that the workspace's other tests ask for, and with it
//! `vesica-curve`, `vesica-ot` and all that rests on them, a second time. So the check of the whole repository builds all tests together,
//! once, and runs tests and simulator from what that made. What is generated and the benchmarks take the command as it is shipped, without
//! the features that are for tests.

use crate::machines;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A program or a test.
struct Built {
    package: String,
    name: String,
    is_test: bool,
    path: PathBuf,
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
    Some(Built { package, name, is_test: message["profile"]["test"] == true, path })
}

/// The simulator.
pub fn simulator() -> Result<PathBuf, String> {
    const NAME: &str = "vesica-sim";
    let Some(all) = ALL.get() else {
        return machines::built(&["build", "--quiet", "--package", NAME], &[]);
    };
    let program = all.iter().find(|built| built.name == NAME && !built.is_test);
    program.map(|program| program.path.clone()).ok_or_else(|| format!("cargo built no program {NAME}"))
}

/// The tests of a package, as programs.
pub fn tests(package: &str) -> Result<Vec<PathBuf>, String> {
    all()?;
    let of_package = ALL.get().into_iter().flatten().filter(|built| built.is_test && built.package == package);
    let tests: Vec<PathBuf> = of_package.map(|built| built.path.clone()).collect();
    if tests.is_empty() { Err(format!("cargo built no test of {package}")) } else { Ok(tests) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_read_from_cargos_messages() {
        let message = |executable: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/crates/vesica-psi#0.1.0\",\
                 \"target\":{{\"name\":\"dp\"}},\"profile\":{{\"test\":{test}}},\"executable\":{executable}}}"
            )
        };
        let test = built(&message("\"/w/target/debug/deps/dp-1\"", true)).unwrap();
        assert_eq!((&*test.package, &*test.name, test.is_test), ("vesica-psi", "dp", true));
        assert_eq!(test.path, PathBuf::from("/w/target/debug/deps/dp-1"));
        assert!(!built(&message("\"/w/target/debug/dp\"", false)).unwrap().is_test);
        assert!(built(&message("null", true)).is_none() && built("{}").is_none() && built("warning").is_none());
    }
}
