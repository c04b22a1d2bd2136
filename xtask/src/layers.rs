//! The crates' dependencies against `layers.toml`, those of the rooms in large crates, and where `unsafe` stands.
//!
//! A *room* is a folder of a crate, or a file beside its folders. Example: in vesica-job the room `seal` is below `units`, so a file of `units` may
//! name one of `seal`, and not the other way round.

use crate::Chore;
use crate::circles::{self, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Fails with every edge that points up or sideways, between crates or rooms, and every `unsafe` outside the folders for it.
pub fn check(root: &Path) -> Chore {
    let text =
        std::fs::read_to_string(root.join("xtask/layers.toml")).map_err(|e| format!("xtask/layers.toml: {e}"))?;
    let rules: toml::Table = text.parse().map_err(|e| format!("xtask/layers.toml: {e}"))?;
    let mut wrong = edges(&rules)?;
    wrong.extend(rooms(root, &rules)?);
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

fn rooms(root: &Path, rules: &toml::Table) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for (name, rules) in rules["rooms"].as_table().into_iter().flatten() {
        let sources = circles::sources(root, &root.join("crates").join(name).join("src"))?;
        wrong.extend(arrows(rules, &circles::edges(&sources)).into_iter().map(|what| format!("{name}: {what}")));
    }
    Ok(wrong)
}

/// What is wrong with the arrows between the rooms of a crate. `rules` has its `levels`, the lowest first, each a list of rooms, and the arrows that
/// point `up` or sideways all the same, each from a file to a room. The file of the crate itself is in no room.
fn arrows(rules: &toml::Value, edges: &BTreeMap<&Module, BTreeSet<&Module>>) -> Vec<String> {
    let words = |list: &toml::Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
    };
    let list = |key: &str| rules.get(key).and_then(toml::Value::as_array).into_iter().flatten();
    let levels =
        list("levels").zip(0..).flat_map(|(rooms, level)| words(rooms).into_iter().map(move |room| (room, level)));
    let levels: BTreeMap<String, u32> = levels.collect();
    let listed: BTreeSet<String> = list("up").filter_map(|arrow| Some(arrow.as_str()?.to_owned())).collect();
    let (mut rooms, mut up) = (BTreeSet::new(), BTreeSet::new());
    for (from, all) in edges {
        let Some(room) = from.first() else { continue };
        rooms.insert(room.clone());
        let others = all.iter().filter_map(|to| to.first()).filter(|to| *to != room);
        let arrows = others.filter(|to| levels.get(*to) >= levels.get(room));
        up.extend(arrows.map(|to| format!("{} -> {to}", from.join("/"))));
    }
    let known: BTreeSet<String> = levels.into_keys().collect();
    let new =
        up.difference(&listed).map(|arrow| format!("{arrow} points up or sideways: rooms may name lower ones only"));
    let gone = listed.difference(&up).map(|arrow| format!("xtask/layers.toml lists {arrow}, which is gone"));
    let unknown = rooms.difference(&known).map(|room| format!("the room {room} has no level in xtask/layers.toml"));
    let empty =
        known.difference(&rooms).map(|room| format!("xtask/layers.toml has a level for {room}, which is no room"));
    new.chain(gone).chain(unknown).chain(empty).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_name_lower_ones_only() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::c::C;"),
            ("a.rs", "use crate::b::d::D;"),
            ("b/mod.rs", "mod c; mod d;"),
            ("b/c.rs", "use super::d::D;"),
            ("b/d.rs", ""),
        ];
        let said = |files: &[(&str, &str)], rules: &str| -> Vec<String> {
            let sources = files.iter().map(|(path, text)| circles::parse(path, text).unwrap()).collect();
            arrows(&rules.parse::<toml::Table>().unwrap().into(), &circles::edges(&sources))
        };
        assert_eq!(said(&files, "levels = [[\"b\"], [\"a\"]]"), [""; 0]);
        let up = "a -> b points up or sideways: rooms may name lower ones only";
        for levels in ["[[\"a\"], [\"b\"]]", "[[\"a\", \"b\"]]"] {
            assert_eq!(said(&files, &format!("levels = {levels}")), [up]);
            assert_eq!(said(&files, &format!("levels = {levels}\nup = [\"a -> b\"]")), [""; 0]);
        }
        let gone = "xtask/layers.toml lists b/c -> a, which is gone";
        assert_eq!(said(&files, "levels = [[\"b\"], [\"a\"]]\nup = [\"b/c -> a\"]"), [gone]);
        let known =
            ["the room a has no level in xtask/layers.toml", "xtask/layers.toml has a level for c, which is no room"];
        assert_eq!(said(&files, "levels = [[\"b\", \"c\"]]")[1..], known);
    }
}
