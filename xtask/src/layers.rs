//! The crates' dependencies against `layers.toml`, and where `unsafe` stands.

use crate::Chore;
use std::path::Path;

/// Fails with every edge that points up or sideways, and every `unsafe` outside the folders for it.
pub fn check(root: &Path) -> Chore {
    let text =
        std::fs::read_to_string(root.join("xtask/layers.toml")).map_err(|e| format!("xtask/layers.toml: {e}"))?;
    let rules: toml::Table = text.parse().map_err(|e| format!("xtask/layers.toml: {e}"))?;
    let mut wrong = edges(&rules)?;
    wrong.extend(unsafety(root, &rules)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn edges(rules: &toml::Table) -> Result<Vec<String>, String> {
    let layer = |name: &str| rules["layers"].get(name).and_then(toml::Value::as_integer);
    let tests_only = |name: &str| rules["tests-only"].get(name).and_then(toml::Value::as_integer);
    let metadata = crate::output("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        if name == "xtask" {
            continue;
        }
        let Some(from) = layer(name).or(tests_only(name)) else {
            wrong.push(format!("{name} has no layer in xtask/layers.toml"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"] == "dev";
            if !to.starts_with("vesica") || (for_tests && (tests_only(to).is_some() || layer(to).is_some())) {
                continue;
            }
            // What is for tests alone may rest on other such crates below it.
            let rests_on = layer(to).or(tests_only(name).and(tests_only(to)));
            if rests_on.is_none_or(|to| to >= from) {
                wrong.push(format!("{name} must not depend on {to}: arrows point to lower layers only"));
            }
            if let Some(only) = rules["only"].get(name).and_then(toml::Value::as_array)
                && !only.iter().any(|o| o.as_str() == Some(to))
            {
                wrong.push(format!("{name} must not depend on {to}: it may use {only:?} only"));
            }
        }
    }
    Ok(wrong)
}

fn unsafety(root: &Path, rules: &toml::Table) -> Result<Vec<String>, String> {
    let allowed: Vec<&str> =
        rules["unsafe"]["allowed"].as_array().into_iter().flatten().filter_map(toml::Value::as_str).collect();
    let files = crate::output("git", &["ls-files", "--cached", "--others", "--exclude-standard", "crates/*.rs"])?;
    let mut wrong = Vec::new();
    for file in files.lines().filter(|f| !allowed.iter().any(|a| f.starts_with(a))) {
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains("unsafe ") || code.contains("allow(unsafe_code") {
                wrong.push(format!("{file}:{number}: `unsafe` stands only in {}", allowed.join(", ")));
            }
        }
    }
    Ok(wrong)
}
