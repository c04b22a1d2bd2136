//! The README's own job goes the way that the map and the journey describe, and the jobs of the page on job files are jobs.

use std::collections::{BTreeMap, BTreeSet};
use vesica_session::{Unit, memory};
use vesica_spec::{Plan, ProtocolName};
use vesica_suite::{Opened, Terms};
use vesica_testkit::{digests, fixed_rng};
use vesica_types::UnitId;

/// A file of the repository.
fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The two jobs of the README: alice's and bob's.
fn jobs() -> [String; 2] {
    let readme = read("README.md");
    let mut jobs = readme.split("```toml\n").skip(1).filter_map(|text| text.split("```").next());
    [(); 2].map(|()| whole_fingerprints(jobs.next().expect("two jobs in TOML")))
}

/// A job whose fingerprints are as long as they are, which pages shorten.
fn whole_fingerprints(job: &str) -> String {
    let parts = job.split("sha256:").map(|part| part.split_once('…').map_or(part, |(_, rest)| rest));
    parts.collect::<Vec<_>>().join(&format!("sha256:{}", "ab".repeat(32)))
}

fn plan(job: &str) -> Plan {
    vesica_spec::plan(&vesica_spec::parse(job).expect("a job")).expect("a job that can be run")
}

/// The steps of a unit, by the names that protocols charge their bytes to: alice's, bob's.
fn steps(plans: &[Plan]) -> Vec<BTreeSet<&'static str>> {
    let sizes = plans[0].sizes(&[20, 30], 1, 1 << 30);
    let terms = Terms {
        salt: [7; 32],
        sizes,
        values: None,
        coins: vesica_types::Coins::new([0; 32]),
        judge: Default::default(),
    };
    let side = |(plan, mut lines): (&Plan, vesica_session::Lines)| {
        let (seat, mut rng) = (plan.seat(), fixed_rng(plan.me.place()));
        let Opened::Units(side) = plan.suite.open(&seat, &terms, &mut lines, &mut rng).unwrap() else {
            panic!("it works unit by unit")
        };
        let capacities = terms.sizes.capacities.iter().map(|&keys| keys as usize).collect();
        let keys = digests(0, terms.sizes.keys[usize::from(seat.place)]);
        side.unit(&Unit { id: UnitId(0), keys, place: seat.place, capacities }, &mut lines, &mut rng).unwrap();
        let names = lines.all().flat_map(|ch| ch.meter().steps);
        // What is charged before a protocol names a step is "open".
        names.map(|step| step.name).filter(|name| *name != "open").collect()
    };
    std::thread::scope(|scope| {
        let sides = plans.iter().zip(memory::mesh(&plans[0].parties));
        let sides: Vec<_> = sides.map(|seat| scope.spawn(move || side(seat))).collect();
        sides.into_iter().map(|side| side.join().unwrap()).collect()
    })
}

/// The files of protocols and of oblivious functions that a text names.
fn files(text: &str) -> BTreeSet<&str> {
    let names = text.split('`').filter(|name| name.ends_with(".rs"));
    let names = names.map(|name| name.strip_prefix("crates/").unwrap_or(name));
    names.filter(|name| name.starts_with("vesica-psi/src/") || name.starts_with("vesica-oprf/src/")).collect()
}

/// Sees that the `steps` of a protocol are those of these `files`: each step is in one of them, and none is without.
fn are_of(steps: &[BTreeSet<&str>], files: &BTreeSet<&str>) {
    let texts: Vec<(&str, String)> = files.iter().map(|file| (*file, read(&format!("crates/{file}")))).collect();
    let in_it = |text: &str, step: &str| text.contains(&format!(".step(\"{step}\")"));
    for step in steps.iter().flatten() {
        assert!(texts.iter().any(|(_, text)| in_it(text, step)), "no file of {files:?} has the step \"{step}\"");
    }
    for (file, text) in &texts {
        assert!(steps.iter().flatten().any(|step| in_it(text, step)), "nothing of {file} was run: {steps:?}");
    }
}

#[test]
fn the_job_is_the_one_that_the_pages_speak_of() {
    let plans = jobs().map(|job| plan(&job));
    assert_eq!(plans[0].shared, plans[1].shared);
    assert_eq!(plans[0].shared.protocol, ProtocolName::Ecdh);
    assert_eq!(plans.each_ref().map(|plan| plan.me.name()), ["alice", "bob"]);
    assert_eq!(plans.each_ref().map(Plan::learns_alone), [true, false]);
}

#[test]
fn the_job_goes_through_the_files_that_the_pages_name() {
    let steps = steps(&jobs().map(|job| plan(&job)));
    let journey = read("docs/src/journey.md");
    let rows: String = journey.lines().filter(|line| line.starts_with('|')).collect();
    are_of(&steps, &files(&rows));
    let map = read("ARCHITECTURE.md");
    let (_, path) = map.split_once("## The main path").expect("the main path");
    let (path, _) = path.split_once("\n|").expect("a table behind it");
    are_of(&steps, &files(path));
    assert!(path.contains("`crates/vesica-suite/src/ecdh.rs`") && rows.contains("`vesica-suite/src/ecdh.rs`"));
}

/// Each row of the map's table of other jobs that is about two parties and units.
#[test]
fn other_jobs_go_through_the_files_that_the_map_names() {
    let map = read("ARCHITECTURE.md");
    let row = |begins: &str| {
        let row = map.lines().find(|line| line.starts_with(begins));
        row.unwrap_or_else(|| panic!("no row begins with {begins}"))
    };
    for (begins, from, to) in [
        (
            "| `protocol = \"ecdh\"`, alice and bob both learn |",
            "learns = [\"alice\"]",
            "learns = [\"alice\", \"bob\"]",
        ),
        ("| `protocol = \"rr22\"` |", "\"ecdh\"", "\"rr22\""),
        ("| `protocol = \"ecdh-oprf\"` |", "\"ecdh\"", "\"ecdh-oprf\""),
        ("| `protocol = \"kkrt\"` |", "\"ecdh\"", "\"kkrt\""),
        ("| `protocol = \"ot\"` |", "\"ecdh\"", "\"ot\""),
        ("| `protocol = \"mini-psi\"` |", "\"ecdh\"", "\"mini-psi\""),
        ("| `protocol = \"bc22\"` |", "\"ecdh\"", "\"bc22\""),
        ("| `protocol = \"hash\"` |", "\"ecdh\"", "\"hash\"\naccept = [\"guessable_keys\"]"),
    ] {
        let other = |job: String| {
            let output = if job.contains("output") { "" } else { "output = { path = \"o.csv\" }\n" };
            plan(&(job.replace(from, to) + output))
        };
        are_of(&steps(&jobs().map(other)), &files(row(begins)));
    }
}

#[test]
fn the_jobs_of_the_page_on_job_files_can_be_run() {
    let page = read("docs/src/reference/job.md");
    let jobs: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|text| text.split("```").next()).collect();
    assert!(jobs.len() >= 3, "{jobs:?}");
    let mut shared = "";
    for job in jobs {
        // A part stands alone where the page is about that part.
        let (this, mine) = job.split_once("[mine]").unwrap_or((job, ""));
        shared = if this.is_empty() { shared } else { this };
        let named = ["carol", "dave", "erin"].into_iter().filter(|name| shared.contains(name));
        let others: String = named.map(|name| format!(", {name} = \"sha256:…\"")).collect();
        let alices = format!(
            "name = \"alice\"\nlisten = \"h:1\"\ninput = {{ path = \"a.csv\", keys = [\"id\"] }}\n\
             tls = {{ identity = \"alice.pem\", peers = {{ bob = \"sha256:…\"{others} }} }}\n"
        );
        let mine = if mine.is_empty() { &alices } else { mine };
        plan(&whole_fingerprints(&format!("{shared}\n[mine]\n{mine}")));
    }
}

/// The fields that a page on job files lists, and what stands behind each.
fn fields(page: &str) -> BTreeMap<&str, &str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    rows.filter(|(name, _)| name.starts_with("shared.") || name.starts_with("mine.")).collect()
}

/// The values that a row names: `"ecdh"`.
fn values(row: &str) -> BTreeSet<&str> {
    row.split('`').skip(1).step_by(2).filter(|word| word.starts_with('"') && word.ends_with('"')).collect()
}

/// A page that lacks a new field or a new value is out of date.
#[test]
fn the_pages_on_job_files_have_what_the_schema_has() {
    let schema: serde_json::Value = serde_json::from_str(&read("schema/job.schema.json")).unwrap();
    let page = read("docs/src/reference/job.md");
    let listed = fields(&page);
    for (part, of) in [("shared", "Shared"), ("mine", "Mine")] {
        for name in schema["$defs"][of]["properties"].as_object().unwrap().keys() {
            let (field, below) = (format!("{part}.{name}"), format!("{part}.{name}."));
            assert!(listed.keys().any(|row| *row == field || row.starts_with(&below)), "{field} has no row");
        }
    }
    for (field, of) in [("result", "ResultKind"), ("protocol", "ProtocolName"), ("match", "Match")] {
        let row = listed[format!("shared.{field}").as_str()];
        for kind in schema["$defs"][of]["oneOf"].as_array().unwrap() {
            let value = kind["const"].to_string();
            assert!(values(row).contains(value.as_str()), "shared.{field} does not say {value}");
        }
    }
}

#[test]
fn the_chinese_page_on_job_files_has_every_field_and_a_job_that_can_be_run() {
    let (english, chinese) = (read("docs/src/reference/job.md"), read("docs/src/reference/job.zh.md"));
    let (rows, translated) = (fields(&english), fields(&chinese));
    assert!(rows.len() > 30, "{rows:?}");
    assert!(translated.keys().eq(rows.keys()), "{:?}", translated.keys());
    for (field, row) in rows {
        let missing: Vec<_> = values(row).difference(&values(translated[field])).copied().collect();
        assert!(missing.is_empty(), "{field} lacks {missing:?}");
    }
    let (_, job) = chinese.split_once("```toml\n").expect("a job");
    let (job, _) = job.split_once("```").expect("its end");
    plan(&whole_fingerprints(job));
}

#[test]
fn the_chinese_readme_has_the_commands_and_the_protocols_of_the_english_one() {
    let (english, chinese) = (read("README.md"), read("README.zh.md"));
    let commands = chinese.lines().filter(|line| line.starts_with("vesica "));
    let commands: Vec<&str> = commands.map(|line| line.split('#').next().unwrap_or_default().trim()).collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        assert!(english.contains(command), "the English page does not have {command}");
    }
    for value in values(&english) {
        assert!(chinese.contains(value), "the Chinese page does not name {value}");
    }
}
