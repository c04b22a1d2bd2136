//! Which parts the program is made of: the crates that were compiled for its target, the C code in some of them, and what comes
//! with Rust. As a bill of materials (CycloneDX 1.5), and as the text of their licences.

use crate::root;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// C code that a crate brings with it: the crate, what it is called, its licence. `A` in a version `1.0.0+zstd.A` is its own.
const INSIDE: [(&str, &str, &str); 2] =
    [("zstd-sys", "zstd", "BSD-3-Clause OR GPL-2.0-only"), ("libmimalloc-sys", "mimalloc", "MIT")];

/// What comes with Rust's target for musl, and its licence.
const RUNTIME: [(&str, &str); 3] =
    [("rust-std", "MIT OR Apache-2.0"), ("libunwind", "Apache-2.0 WITH LLVM-exception"), ("musl", "MIT")];

/// What musl asks to be told: its COPYRIGHT, as far as it is about its code.
const MUSL: &str = include_str!("musl.txt");

/// Names under which crates keep the texts of their licences.
const TEXTS: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"];

/// All parts, sorted by name and version.
pub struct Parts {
    crates: Vec<Part>,
    /// The triple.
    target: String,
    /// The version of Rust.
    rust: String,
}

struct Part {
    id: String,
    name: String,
    version: String,
    licence: String,
    /// Whether it is of this repository.
    own: bool,
    folder: PathBuf,
    /// The SHA-256 of the package that crates.io has.
    checksum: Option<String>,
    /// The ids of the parts that it uses.
    uses: Vec<String>,
}

impl Parts {
    /// The crates among `artifacts`, what `cargo build` says in JSON, that were compiled for `target`. `metadata` is what `cargo
    /// metadata` prints, `lock` the text of Cargo.lock, `rust` what `rustc --version` prints.
    ///
    /// # Errors
    /// If one of these is not what it should be.
    pub fn of(artifacts: &str, metadata: &str, lock: &str, target: &str, rust: &str) -> Result<Self, String> {
        let linked = compiled(artifacts, target)?;
        let metadata: Value = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
        let checksums = checksums(lock)?;
        let list = |value: &Value, what: &str| {
            value.as_array().cloned().ok_or_else(|| format!("cargo metadata has no {what}"))
        };
        let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"], "graph")? {
            let normal = |dep: &&Value| {
                dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
            };
            let deps = list(&node["deps"], "dependencies")?;
            let deps = deps.iter().filter(normal).map(|dep| text(&dep["pkg"])).filter(|id| linked.contains(id));
            uses.insert(text(&node["id"]), deps.collect());
        }
        let mut crates = Vec::new();
        for package in list(&metadata["packages"], "packages")? {
            let id = text(&package["id"]);
            if !linked.contains(&id) {
                continue;
            }
            let (name, version) = (text(&package["name"]), text(&package["version"]));
            let licence = text(&package["license"]).replace('/', " OR ");
            if licence.is_empty() {
                return Err(format!("{name} {version} names no licence; find out which it has before it is published"));
            }
            let folder = Path::new(&text(&package["manifest_path"])).parent().unwrap_or(Path::new("")).to_owned();
            let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
            let used = uses.remove(&id).unwrap_or_default();
            crates.push(Part {
                own: package["source"].is_null(),
                id,
                name,
                version,
                licence,
                folder,
                checksum,
                uses: used,
            });
        }
        if crates.len() != linked.len() {
            return Err(format!(
                "{} crates were compiled, and cargo metadata knows {} of them",
                linked.len(),
                crates.len()
            ));
        }
        crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        let rust = rust.split_whitespace().nth(1).unwrap_or_default().to_owned();
        Ok(Self { crates, target: target.to_owned(), rust })
    }

    /// The version of the program.
    pub fn version(&self) -> &str {
        self.crates.iter().find(|part| part.name == "vesica-cli").map_or("", |part| &part.version)
    }

    /// Fails if the crates are not those of `names`, `NAME VERSION` each.
    ///
    /// # Errors
    /// With the first that only one side has.
    pub fn are(&self, names: &[String]) -> Result<(), String> {
        let ours: BTreeSet<String> = self.crates.iter().map(|part| format!("{} {}", part.name, part.version)).collect();
        let theirs: BTreeSet<String> = names.iter().cloned().collect();
        match ours.symmetric_difference(&theirs).next() {
            None => Ok(()),
            Some(one) if ours.contains(one) => {
                Err(format!("{one} was compiled into the program, and `cargo tree` does not have it"))
            }
            Some(one) => Err(format!("`cargo tree` has {one}, and it was not compiled into the program")),
        }
    }

    /// The bill of materials.
    pub fn bill(&self) -> String {
        let program = self.crates.iter().find(|part| part.name == "vesica-cli");
        let mut components = Vec::new();
        for part in &self.crates {
            let mut component = json!({
                "type": "library",
                "bom-ref": part.id,
                "name": part.name,
                "version": part.version,
                "licenses": [{ "expression": part.licence }],
            });
            if !part.own {
                component["purl"] = json!(format!("pkg:cargo/{}@{}", part.name, part.version.replace('+', "%2B")));
            }
            if let Some(checksum) = &part.checksum {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
            }
            if let Some((_, name, licence)) = INSIDE.iter().find(|(of, ..)| *of == part.name) {
                let own = part.version.split_once(&format!("+{name}.")).map(|(_, version)| version);
                let mut inside = json!({
                    "type": "library",
                    "name": name,
                    "description": format!("C code in the crate {}", part.name),
                    "licenses": [{ "expression": licence }],
                });
                if let Some(own) = own {
                    inside["version"] = json!(own);
                }
                component["components"] = json!([inside]);
            }
            components.push(component);
        }
        for (name, licence) in RUNTIME {
            components.push(json!({
                "type": "library",
                "name": name,
                "description": format!("as it comes with the target {} of Rust {}", self.target, self.rust),
                "licenses": [{ "expression": licence }],
            }));
        }
        let uses = self.crates.iter().map(|part| json!({ "ref": part.id, "dependsOn": part.uses }));
        let bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": "vesica",
                    "name": "vesica",
                    "version": self.version(),
                    "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }],
                },
                "properties": [
                    { "name": "rust:target", "value": self.target },
                    { "name": "rust:version", "value": self.rust },
                ],
            },
            "components": components,
            "dependencies": program
                .map(|program| json!({ "ref": "vesica", "dependsOn": [program.id] }))
                .into_iter()
                .chain(uses)
                .collect::<Vec<_>>(),
        });
        // Where the repository lies on the machine that built it is nobody's business.
        let here = root().to_string_lossy().into_owned();
        format!("{:#}\n", bill).replace(&here, "")
    }

    /// The licences of all parts that are not of this repository, each text once.
    ///
    /// # Errors
    /// If a crate has no text of its own, and its licence is not Apache-2.0, whose text the archive has anyway.
    pub fn licences(&self) -> Result<String, String> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut list = String::from(
            "The program vesica is under the Apache License, Version 2.0: see LICENSE. It is linked with the parts in this list. Their\n\
             licences follow; where a part may be taken under one of several, it is taken under the first that is permissive.\n\n",
        );
        let mut without = Vec::new();
        for part in self.crates.iter().filter(|part| !part.own) {
            let name = format!("{} {}", part.name, part.version);
            list += &format!("{name}: {}\n", part.licence);
            let texts = texts(&part.folder)?;
            if texts.is_empty() && !part.licence.contains("Apache-2.0") {
                return Err(format!("{name} has no text of its licence, {}; add it by hand", part.licence));
            }
            if texts.is_empty() {
                without.push(name.clone());
            }
            texts.into_iter().for_each(|text| all.entry(text).or_default().push(name.clone()));
        }
        for (name, licence) in RUNTIME {
            list += &format!("{name}, as it comes with Rust {}: {licence}\n", self.rust);
        }
        all.entry(MUSL.trim().to_owned()).or_default().push("musl".to_owned());
        list += &format!(
            "\nUnder the Apache License, Version 2.0, without a text of their own: {}, rust-std, libunwind.\n",
            without.join(", ")
        );
        for (text, of) in all {
            list += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), of.join(", "));
        }
        Ok(list)
    }
}

/// The ids of the packages whose libraries `cargo build` compiled for `target`, by its messages in JSON. Macros and what only build
/// scripts use are compiled for the machine that builds, and are not in the program.
fn compiled(artifacts: &str, target: &str) -> Result<BTreeSet<String>, String> {
    let mut ids = BTreeSet::new();
    for line in artifacts.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).map_err(|e| format!("cargo build: {e}"))?;
        let within = format!("/{target}/");
        let files = message["filenames"].as_array();
        let for_target = files.is_some_and(|files| files.iter().any(|file| text(file).contains(&within)));
        let is_script =
            message["target"]["kind"].as_array().is_some_and(|kinds| kinds.contains(&json!("custom-build")));
        if message["reason"] == "compiler-artifact" && for_target && !is_script {
            ids.insert(text(&message["package_id"]));
        }
    }
    if ids.is_empty() { Err(format!("cargo build compiled nothing for {target}")) } else { Ok(ids) }
}

/// The checksums of Cargo.lock, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let lock: toml::Table = lock.parse().map_err(|e| format!("Cargo.lock: {e}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).ok_or("Cargo.lock lists no packages")?;
    let field = |package: &toml::Value, name: &str| package.get(name).and_then(|v| v.as_str()).map(str::to_owned);
    Ok(packages
        .iter()
        .filter_map(|package| {
            Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
        })
        .collect())
}

/// The texts of licences in the folder of a crate and below it, sorted by their paths.
fn texts(folder: &Path) -> Result<Vec<String>, String> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().to_uppercase();
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if TEXTS.iter().any(|text| name.starts_with(text)) && !name.ends_with(".RS") => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(String::from_utf8_lossy(&text).replace('\r', "").trim().to_owned())
    };
    files.iter().map(read).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "x86_64-unknown-linux-musl";

    /// A program of three crates, a macro and a build script, in a folder with the texts of licences.
    fn made(folder: &Path) -> Result<Parts, String> {
        let artifact = |id: &str, kind: &str, file: &str| {
            let message = json!({
                "reason": "compiler-artifact", "package_id": id, "target": { "kind": [kind] }, "filenames": [file],
            });
            format!("{message}\n")
        };
        let messages = [
            artifact("own#vesica-cli@0.1.0", "bin", "/t/x86_64-unknown-linux-musl/release/vesica"),
            artifact("reg#zstd-sys@2.0.0+zstd.1.5.7", "lib", "/t/x86_64-unknown-linux-musl/release/deps/z.rlib"),
            artifact("reg#old@1.0.0", "lib", "/t/x86_64-unknown-linux-musl/release/deps/o.rlib"),
            artifact("reg#macros@1.0.0", "proc-macro", "/t/release/deps/libm.so"),
            artifact("reg#cc@1.0.0", "lib", "/t/release/deps/libcc.rlib"),
            "{\"reason\":\"build-finished\",\"success\":true}\n".to_owned(),
        ];
        let package = |id: &str, name: &str, version: &str, licence: &str| {
            let source = if id.starts_with("own") { Value::Null } else { json!("registry") };
            let manifest = folder.join(name).join("Cargo.toml");
            json!({
                "id": id, "name": name, "version": version, "license": licence, "source": source, "manifest_path": manifest,
            })
        };
        let dep = |pkg: &str, kind: Value| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                package("own#vesica-cli@0.1.0", "vesica-cli", "0.1.0", "Apache-2.0"),
                package("reg#zstd-sys@2.0.0+zstd.1.5.7", "zstd-sys", "2.0.0+zstd.1.5.7", "MIT/Apache-2.0"),
                package("reg#old@1.0.0", "old", "1.0.0", "MIT"),
                package("reg#macros@1.0.0", "macros", "1.0.0", "MIT"),
                package("reg#cc@1.0.0", "cc", "1.0.0", "MIT"),
            ],
            "resolve": { "nodes": [
                { "id": "own#vesica-cli@0.1.0", "deps": [
                    dep("reg#zstd-sys@2.0.0+zstd.1.5.7", Value::Null), dep("reg#macros@1.0.0", Value::Null),
                    dep("reg#old@1.0.0", json!("dev")),
                ] },
                { "id": "reg#zstd-sys@2.0.0+zstd.1.5.7", "deps": [dep("reg#cc@1.0.0", json!("build"))] },
            ] },
        });
        let lock = "[[package]]\nname = \"old\"\nversion = \"1.0.0\"\nchecksum = \"abcd\"\n";
        Parts::of(&messages.concat(), &metadata.to_string(), lock, TARGET, "rustc 1.95.0 (abc 2026-04-14)")
    }

    #[test]
    fn the_bill_lists_what_was_compiled_for_the_target_and_nothing_else() {
        let parts = made(Path::new("/nowhere")).unwrap();
        let bill: Value = serde_json::from_str(&parts.bill()).unwrap();
        assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
        assert_eq!(bill["metadata"]["component"]["version"], "0.1.0");
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["old", "vesica-cli", "zstd-sys", "rust-std", "libunwind", "musl"]);
        let [old, own, zstd] = [0, 1, 2].map(|place| &bill["components"][place]);
        assert_eq!(old["hashes"][0]["content"], "abcd");
        assert_eq!(old["purl"], "pkg:cargo/old@1.0.0");
        assert!(own["purl"].is_null(), "it is on no registry");
        assert_eq!(zstd["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(zstd["purl"], "pkg:cargo/zstd-sys@2.0.0%2Bzstd.1.5.7");
        assert_eq!(
            (&zstd["components"][0]["name"], &zstd["components"][0]["version"]),
            (&json!("zstd"), &json!("1.5.7"))
        );
        // Only what is linked is a dependency: no macro, nothing of a build script, nothing of tests.
        let uses = |id: &str| {
            bill["dependencies"].as_array().unwrap().iter().find(|d| d["ref"] == id).unwrap()["dependsOn"].clone()
        };
        assert_eq!(uses("vesica"), json!(["own#vesica-cli@0.1.0"]));
        assert_eq!(uses("own#vesica-cli@0.1.0"), json!(["reg#zstd-sys@2.0.0+zstd.1.5.7"]));
        assert_eq!(uses("reg#zstd-sys@2.0.0+zstd.1.5.7"), json!([]));
    }

    #[test]
    fn a_crate_that_only_one_account_has_is_found() {
        let parts = made(Path::new("/nowhere")).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = ["vesica-cli 0.1.0", "old 1.0.0", "zstd-sys 2.0.0+zstd.1.5.7"];
        assert_eq!(parts.are(&names(&all)), Ok(()));
        assert!(parts.are(&names(&all[..2])).unwrap_err().contains("zstd-sys"));
        assert!(parts.are(&names(&[&all[..], &["cc 1.0.0"]].concat())).unwrap_err().contains("cc 1.0.0"));
    }

    #[test]
    fn every_part_has_the_text_of_its_licence_or_it_is_not_published() {
        let dir = std::env::temp_dir().join(format!("xtask-parts-{}", std::process::id()));
        fs::create_dir_all(dir.join("old")).unwrap();
        fs::create_dir_all(dir.join("zstd-sys/zstd")).unwrap();
        fs::write(dir.join("zstd-sys/zstd/COPYING"), "the text of zstd\r\n").unwrap();
        assert!(made(&dir).unwrap().licences().unwrap_err().contains("old 1.0.0 has no text of its licence"));
        fs::write(dir.join("old/LICENSE-MIT"), "the text of old").unwrap();
        let text = made(&dir).unwrap().licences().unwrap();
        assert!(text.contains("zstd-sys 2.0.0+zstd.1.5.7\n\nthe text of zstd\n"), "{text}");
        assert!(text.contains("the text of old") && text.contains("Rich Felker"), "{text}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
