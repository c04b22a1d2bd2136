//! The crates that we depend on, all the way down, against `deny.toml`: licences, bans, sources. Advisories are in a database on the network:
//! cargo-deny looks there, where it is installed.

use crate::Chore;
use serde_json::Value;
use std::path::Path;

/// Fails with every crate that `deny.toml` does not let in.
pub fn check(root: &Path) -> Chore {
    let text = std::fs::read_to_string(root.join("deny.toml")).map_err(|e| format!("deny.toml: {e}"))?;
    let rules: toml::Table = text.parse().map_err(|e| format!("deny.toml: {e}"))?;
    let metadata = crate::output("cargo", &["metadata", "--locked", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().filter(|packages| !packages.is_empty());
    let wrong: Vec<String> =
        packages.ok_or("cargo metadata lists no crates")?.iter().filter_map(|package| fault(package, &rules)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Looks for advisories, where cargo-deny is installed; else says what is missing.
pub fn advisories_where_it_is_there() -> Chore {
    match crate::output("cargo", &["deny", "--version"]) {
        Ok(_) => crate::run("cargo", &["deny", "check"], &[]),
        Err(_) => {
            crate::say(
                "cargo-deny is not installed, so nobody looked for advisories: cargo install cargo-deny --locked",
            );
            Ok(())
        }
    }
}

/// What is wrong with a crate.
fn fault(package: &Value, rules: &toml::Table) -> Option<String> {
    let strings = |table: &str, key: &str| -> Vec<String> {
        let list = rules.get(table).and_then(|table| table.get(key)).and_then(toml::Value::as_array);
        list.into_iter().flatten().filter_map(|one| Some(one.as_str()?.to_owned())).collect()
    };
    let name = package["name"].as_str().unwrap_or_default();
    let banned = rules.get("bans").and_then(|bans| bans.get("deny")).and_then(toml::Value::as_array);
    let banned = banned.into_iter().flatten().find(|ban| ban.get("crate").and_then(toml::Value::as_str) == Some(name));
    if let Some(ban) = banned {
        return Some(format!(
            "{name} is banned by deny.toml: {}",
            ban.get("reason").and_then(toml::Value::as_str).unwrap_or("")
        ));
    }
    if let Some(source) = package["source"].as_str() {
        let registries = strings("sources", "allow-registry");
        if !registries.iter().any(|registry| source.strip_prefix("registry+") == Some(registry)) {
            return Some(format!("{name} comes from {source}, which deny.toml does not name"));
        }
    }
    let licence = package["license"].as_str().unwrap_or_default();
    let allowed = strings("licenses", "allow");
    match granted(&licence.replace('/', " OR "), &|one| allowed.iter().any(|allowed| allowed == one)) {
        Some(true) => None,
        Some(false) => Some(format!("{name} has the licence {licence}, which deny.toml does not allow")),
        None => Some(format!("{name} has the licence {licence:?}, which is no expression of SPDX")),
    }
}

/// Whether the licences that `allows` lets in are enough for an expression of SPDX; none if it is not one. AND binds closer than OR.
fn granted(expression: &str, allows: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+WITH+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let granted = either(&mut rest, allows)?;
    rest.is_empty().then_some(granted)
}

fn either(words: &mut &[&str], allows: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut granted = both(words, allows)?;
    while let Some((&"OR", rest)) = words.split_first() {
        *words = rest;
        granted |= both(words, allows)?;
    }
    Some(granted)
}

fn both(words: &mut &[&str], allows: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut granted = one(words, allows)?;
    while let Some((&"AND", rest)) = words.split_first() {
        *words = rest;
        granted &= one(words, allows)?;
    }
    Some(granted)
}

fn one(words: &mut &[&str], allows: &dyn Fn(&str) -> bool) -> Option<bool> {
    let (word, rest) = words.split_first()?;
    *words = rest;
    match *word {
        "(" => {
            let granted = either(words, allows)?;
            let (end, rest) = words.split_first()?;
            *words = rest;
            (*end == ")").then_some(granted)
        }
        ")" | "OR" | "AND" => None,
        licence => Some(allows(&licence.replace("+WITH+", " WITH "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_are_read_as_spdx_has_them() {
        let allows = |one: &str| ["MIT", "A WITH e", "Unicode-3.0"].contains(&one);
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", Some(true)),
            ("MIT OR GPL-3.0 AND LGPL-2.1", Some(true)),
            ("(MIT OR GPL-3.0) AND LGPL-2.1", Some(false)),
            ("A WITH e", Some(true)),
            ("A", Some(false)),
            ("", None),
            ("MIT GPL", None),
            ("(MIT", None),
            ("MIT OR", None),
        ] {
            assert_eq!(granted(expression, &allows), expected, "{expression}");
        }
    }

    #[test]
    fn what_the_rules_do_not_let_in_is_named() {
        let rules: toml::Table = include_str!("../../deny.toml").parse().unwrap();
        let source = "registry+https://github.com/rust-lang/crates.io-index";
        let of = |name: &str, licence: &str, source: &str| {
            fault(&json!({ "name": name, "license": licence, "source": source }), &rules)
        };
        assert_eq!(of("a", "MIT/Apache-2.0", source), None);
        assert!(of("a", "BSD-3-Clause-Clear", source).unwrap().contains("does not allow"));
        assert!(of("a", "MIT", "git+https://example.com/a").unwrap().contains("comes from git+"));
        assert!(of("openssl-sys", "MIT", source).unwrap().contains("is banned"));
        assert!(fault(&json!({ "name": "a", "source": source }), &rules).unwrap().contains("no expression"));
    }
}
