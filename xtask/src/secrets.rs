//! No branch and no address depends on a secret, and no time where Valgrind cannot look: `crates/vesica-secrets` on every back end.
//!
//! Valgrind's memcheck reports each branch and each address that depends on bytes which it was told are undefined; here these are the
//! secrets (A. Langley, "ctgrind", 2010). The places where that is so by design stand in `secrets.toml`, each with its reason and with
//! the words of SECURITY.md that say so. What is found elsewhere fails, and so does an entry that is not found any more.

use crate::{Chore, output, run, say};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use vesica_cpu::Backend;

/// The profile that the cases are compiled by: what is released, with the lines of findings.
const PROFILE: &str = "secrets";
const CRATE: &str = "vesica-secrets";
const ALLOWED: &str = "xtask/secrets.toml";
/// The crate whose functions are blamed on their callers; it has cases of its own, which call it themselves.
const BLOCKS: &str = "crates/vesica-block/";
/// The section of SECURITY.md that says what is not covered.
const SECTION: &str = "## What constant time covers";
/// Stands for every function of a file.
const ALL: &str = "*";
/// The cases with a leak on purpose.
pub const SEEDED: &str = "seeded/";
/// The back ends whose instructions Valgrind knows. It knows nothing of AVX-512.
const WATCHED: [Backend; 2] = [Backend::Portable, Backend::Avx2];

/// A place in the sources where a branch or an address depends on a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    /// Its path in the repository.
    file: String,
    function: String,
}

/// What memcheck reported: of a case on a back end.
struct Finding {
    case: String,
    place: Place,
    /// The line, the back end and what was found, in words.
    told: String,
}

/// Places that are as they are by design.
struct Allowed {
    file: String,
    functions: Vec<String>,
    /// How the names of the cases begin in which it is found.
    cases: Vec<String>,
}

impl Allowed {
    fn holds(&self, finding: &Finding) -> bool {
        self.file == finding.place.file
            && self.functions.iter().any(|name| *name == finding.place.function || name == ALL)
            && self.cases.iter().any(|case| finding.case.starts_with(case))
    }
}

/// Runs each case, or those whose names begin with one of `names`, under Valgrind.
pub fn watch(root: &Path, names: &[&str]) -> Chore {
    let start = Instant::now();
    let allowed = allowed(root)?;
    let program = build(root)?;
    let list = output(&program.to_string_lossy(), &["list"])?;
    let wanted = |case: &&str| names.is_empty() || names.iter().any(|name| case.starts_with(name));
    let cases: Vec<&str> = list.lines().filter(wanted).collect();
    if cases.is_empty() {
        return Err(format!("no case begins with {}; {CRATE} has {}", names.join(", "), list.replace('\n', " ")));
    }
    let backends: Vec<&str> = WATCHED.into_iter().filter(|cpu| cpu.is_available()).map(Backend::name).collect();
    let findings = all(root, &program, &backends, &cases)?;
    let mut wrong = judge(&findings, &allowed, &backends, &cases);
    if names.is_empty() {
        wrong.extend(stale(&findings, &allowed));
    }
    if !wrong.is_empty() {
        return Err(format!(
            "{}\nMend the place; or, if it is so by design, give it an entry in {ALLOWED} with its reason.",
            wrong.join("\n")
        ));
    }
    say(&format!(
        "secrets: {} cases on each of {}; {} places where a branch or an address depends on a secret, all of them listed in {ALLOWED}; \
         the seeded leaks were found; {:.0} s",
        cases.len(),
        backends.join(" and "),
        findings.iter().filter(|f| !f.case.starts_with(SEEDED)).map(|f| &f.place).collect::<BTreeSet<_>>().len(),
        start.elapsed().as_secs_f64()
    ));
    if !backends.contains(&"avx2") {
        say("secrets: this CPU has no AVX2, so only the portable back end was looked at");
    }
    say("secrets: Valgrind does not know AVX-512 (the back end ifma): `cargo xtask secrets time` measures it");
    Ok(())
}

/// Measures the time of each case that takes as long for every secret, or of those whose names begin with one of `names`, on the best back
/// end that this CPU has.
pub fn time(root: &Path, names: &[&str]) -> Chore {
    let program = build(root)?;
    let args: Vec<&str> = ["time"].into_iter().chain(names.iter().copied()).collect();
    run(&program.to_string_lossy(), &args, &[])
}

/// Compiles the cases and says where the program is.
fn build(root: &Path) -> Result<PathBuf, String> {
    run("cargo", &["build", "--quiet", "--profile", PROFILE, "--package", CRATE], &[])?;
    let metadata = output("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let target = metadata["target_directory"].as_str().map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join(PROFILE).join(CRATE))
}

/// The list, each entry of which SECURITY.md has too.
fn allowed(root: &Path) -> Result<Vec<Allowed>, String> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"));
    let table: toml::Table = read(ALLOWED)?.parse().map_err(|e| format!("{ALLOWED}: {e}"))?;
    let security = read("SECURITY.md")?;
    let section = security.split(SECTION).nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or_default();
    let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut all = Vec::new();
    for entry in table.get("place").and_then(toml::Value::as_array).into_iter().flatten() {
        let text = |key: &str| {
            let text = entry.get(key).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("{ALLOWED}: an entry has no `{key}`: {entry}"))
        };
        let list = |key: &str| -> Result<Vec<String>, String> {
            let list = entry.get(key).and_then(toml::Value::as_array).filter(|list| !list.is_empty());
            let list = list.ok_or_else(|| format!("{ALLOWED}: an entry has no `{key}`: {entry}"))?;
            Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
        };
        text("why")?;
        let says = text("security")?;
        if !section.contains(&says) {
            return Err(format!("{ALLOWED}: \"{says}\" does not stand in SECURITY.md under \"{SECTION}\""));
        }
        all.push(Allowed { file: text("file")?, functions: list("functions")?, cases: list("cases")? });
    }
    Ok(all)
}

/// All findings of all cases on all back ends; as many processes at once as there are cores.
fn all(root: &Path, program: &Path, backends: &[&str], cases: &[&str]) -> Result<Vec<Finding>, String> {
    let missing =
        "Valgrind is needed to look for branches and addresses that depend on secrets: `apt-get install valgrind`";
    Command::new("valgrind").arg("--version").output().map_err(|e| format!("valgrind: {e}. {missing}"))?;
    let runs: Vec<(&str, &str)> = cases.iter().flat_map(|case| backends.iter().map(move |cpu| (*cpu, *case))).collect();
    let folder = program.with_file_name("secrets-found");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let made = at_once(&runs, |(cpu, case)| one(root, program, &folder, cpu, case));
    Ok(made.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Does a work for each of many things, as many at once as there are cores. What it gave stands in the order of the things.
pub fn at_once<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, made) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(thing) = things.get(i) else { break };
                    let done = work(thing);
                    made.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(i, done);
                }
            });
        }
    });
    // A thread that panicked has made the scope panic.
    made.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).into_values().collect()
}

/// What memcheck finds in one case on one back end.
fn one(root: &Path, program: &Path, folder: &Path, cpu: &str, case: &str) -> Result<Vec<Finding>, String> {
    let file = folder.join(format!("{cpu}-{}.xml", case.replace('/', "-")));
    let out = Command::new("valgrind")
        .args(["--quiet", "--error-limit=no", "--num-callers=40", "--xml=yes"])
        .arg(format!("--xml-file={}", file.display()))
        .args([program.as_os_str(), "run".as_ref(), case.as_ref()])
        .env("VESICA_CPU", cpu)
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{case} on {cpu} under Valgrind: {}\n{why}", out.status));
    }
    let xml = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(findings(root, cpu, case, &xml))
}

/// One for each error of memcheck's XML, which has a tag a line.
fn findings(root: &Path, cpu: &str, case: &str, xml: &str) -> Vec<Finding> {
    let mut all = Vec::new();
    for error in xml.split("<error>").skip(1) {
        let error = error.split("</error>").next().unwrap_or_default();
        // That memory is not given back is no concern here.
        if tag(error, "kind").is_some_and(|kind| kind.starts_with("Leak_")) {
            continue;
        }
        // A second stack, if there is one, says where memory is from.
        let stack = error.split("</stack>").next().unwrap_or_default();
        let frames = stack.split("<frame>").skip(1);
        let ours = frames.clone().find_map(|frame| {
            let path = format!("{}/{}", tag(frame, "dir")?, tag(frame, "file")?);
            let file = Path::new(&path).strip_prefix(root).ok()?.to_string_lossy().into_owned();
            let line = tag(frame, "line")?.parse::<usize>().ok()?;
            // What adds up blocks has nothing to do with where they are from.
            (!file.starts_with(BLOCKS)).then_some((file, line))
        });
        let what = tag(error, "what").unwrap_or_else(|| "an error".to_owned());
        let (file, line) = ours.unwrap_or_else(|| ("code of other crates".to_owned(), 0));
        let source = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        let function = enclosing(&source, line).unwrap_or_else(|| "?".to_owned());
        let at = frames.clone().next().and_then(|frame| tag(frame, "fn")).unwrap_or_default();
        let told = format!("{file}:{line}: in `{function}`, case {case} on {cpu}: {what} (at {at})");
        all.push(Finding { case: case.to_owned(), place: Place { file, function }, told });
    }
    all
}

/// The text of a tag that stands on one line.
fn tag(text: &str, name: &str) -> Option<String> {
    let after = text.split(&format!("<{name}>")).nth(1)?;
    let inner = after.split(&format!("</{name}>")).next()?;
    Some(inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

/// The name of the function around a line, by indentation: what rustfmt makes of every file here. The debug information would say
/// `{closure#0}` of a closure.
fn enclosing(source: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = source.lines().take(line).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depth = indent(lines.last()?) + 1;
    lines.iter().rev().find_map(|line| {
        // A signature's own last line stands no deeper than its first.
        let continues = |line: &str| [")", "{", "where"].iter().any(|start| line.trim_start().starts_with(start));
        if line.trim().is_empty() || indent(line) >= depth || continues(line) {
            return None;
        }
        depth = indent(line);
        let (before, name) = line.split_once("fn ")?;
        let words = ["", "pub", "const", "pub(crate)", "pub(super)", "unsafe"];
        let is_start = before.trim().split(' ').all(|word| words.contains(&word));
        is_start.then(|| name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
    })
}

/// What was found and is not allowed, and the seeded leaks that were not found.
fn judge(findings: &[Finding], allowed: &[Allowed], backends: &[&str], cases: &[&str]) -> Vec<String> {
    let mut wrong: BTreeMap<String, ()> = BTreeMap::new();
    for finding in findings.iter().filter(|f| !f.case.starts_with(SEEDED)) {
        if !allowed.iter().any(|allowed| allowed.holds(finding)) {
            wrong.insert(finding.told.clone(), ());
        }
    }
    let mut wrong: Vec<String> = wrong.into_keys().collect();
    for case in cases.iter().filter(|case| case.starts_with(SEEDED)) {
        for cpu in backends {
            let name = &case[SEEDED.len()..];
            let there =
                |f: &&Finding| f.case == *case && f.place.function == name && f.told.contains(&format!("on {cpu}:"));
            if findings.iter().filter(there).count() == 0 {
                wrong.push(format!(
                    "{case} on {cpu}: a leak on purpose was not found, so what is said of other cases means nothing"
                ));
            }
        }
    }
    wrong
}

/// Entries of which some function or some case is not found any more.
fn stale(findings: &[Finding], allowed: &[Allowed]) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in allowed {
        let held: Vec<&Finding> = findings.iter().filter(|finding| entry.holds(finding)).collect();
        let function =
            |name: &&String| !held.iter().any(|finding| finding.place.function == **name || name.as_str() == ALL);
        let case = |name: &&String| !held.iter().any(|finding| finding.case.starts_with(name.as_str()));
        for name in entry.functions.iter().filter(function) {
            wrong.push(format!("{ALLOWED}: `{name}` of {} depends on no secret any more; take it out", entry.file));
        }
        for name in entry.cases.iter().filter(case) {
            wrong.push(format!(
                "{ALLOWED}: nothing of {} is found in the cases {name} any more; take it out",
                entry.file
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_around_a_line_is_found_in_spite_of_closures_and_inner_functions() {
        let source = "impl A {\n    pub fn a(&self) {\n        fn inner() {\n            x\n        }\n        let c = || {\n            y\n        };\n    }\n\n    fn b<T>(\n        t: T,\n    ) {\n        z\n    }\n}\n";
        let at = |line| enclosing(source, line);
        assert_eq!([4, 7, 14].map(at).map(Option::unwrap), ["inner", "a", "b"]);
        assert_eq!(at(1), None);
    }

    fn finding(case: &str, file: &str, function: &str) -> Finding {
        let place = Place { file: file.into(), function: function.into() };
        Finding { case: case.into(), place, told: format!("{file} {case} on portable: x") }
    }

    #[test]
    fn what_is_not_listed_fails_and_so_does_a_seeded_leak_that_is_not_found_and_an_entry_that_is_stale() {
        let seeded = || finding("seeded/branch", "s.rs", "branch");
        let allowed =
            [Allowed { file: "a.rs".into(), functions: vec!["f".into(), "g".into()], cases: vec!["own/".into()] }];
        let judged = |findings: &[Finding]| judge(findings, &allowed, &["portable"], &["seeded/branch", "own/a"]).len();
        assert_eq!(judged(&[seeded(), finding("own/a", "a.rs", "f")]), 0);
        assert_eq!(judged(&[finding("own/a", "a.rs", "f")]), 1);
        assert_eq!(judged(&[seeded(), finding("own/a", "a.rs", "h")]), 1);
        assert_eq!(judged(&[seeded(), finding("other/a", "a.rs", "f")]), 1);
        assert_eq!(judged(&[seeded(), finding("own/a", "b.rs", "f")]), 1);
        assert_eq!(stale(&[finding("own/a", "a.rs", "f")], &allowed).len(), 1);
        assert_eq!(stale(&[finding("own/a", "a.rs", "f"), finding("own/b", "a.rs", "g")], &allowed).len(), 0);
    }

    #[test]
    fn an_error_of_memcheck_is_a_finding_at_the_first_place_of_ours() {
        let frame = |dir: &str, file: &str, line: u32| {
            format!(
                "<frame>\n<fn>f&lt;u8&gt;</fn>\n<dir>{dir}</dir>\n<file>{file}</file>\n<line>{line}</line>\n</frame>\n"
            )
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let here = format!("{}/src", root.display());
        let stack = frame("/rustc/1/library", "sort.rs", 9) + &frame(&here, "secrets.rs", line!());
        let xml = format!("<error>\n<what>a jump</what>\n<stack>\n{stack}</stack>\n<auxwhat>x</auxwhat>\n</error>\n");
        let found = findings(root, "avx2", "a/b", &xml);
        assert_eq!(found.len(), 1);
        let place = Place {
            file: "src/secrets.rs".into(),
            function: "an_error_of_memcheck_is_a_finding_at_the_first_place_of_ours".into(),
        };
        assert_eq!(found[0].place, place);
        assert!(found[0].told.contains("a jump (at f<u8>)"), "{}", found[0].told);
    }
}
