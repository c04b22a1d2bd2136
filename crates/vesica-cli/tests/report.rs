//! The report: valid by the schema that is checked in, and saying what happened.

use crate::two;

use serde_json::Value;
use two::Two;

#[test]
fn reports_are_valid_by_the_schema_and_say_what_happened() {
    let two = Two::with("id,x\n1,a\n2,b\n2,c\n,d\n9,e\n", "id\n2\n3\n9\n");
    let bob_report = two.path("bob.json");
    let (alice, bob) = (two.alice.start_with(&["--report", two.path("alice.json").to_str().unwrap()]), {
        let mut job = two::Job { name: "bob".into(), folder: two.dir.path().into(), text: two.bob.text.clone() };
        job.text.push_str("report = \"bob.json\"\n");
        job.start()
    });
    alice.wait(two::LONG).good();
    bob.wait(two::LONG).good();
    assert!(bob_report.exists());

    let path = format!("{}/../../schema/report.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let reports: Vec<Value> =
        ["alice.json", "bob.json"].iter().map(|name| serde_json::from_str(&two.read(name)).unwrap()).collect();
    for report in &reports {
        valid(report, &schema, &schema, "report");
    }
    let mut wrong = reports[0].clone();
    wrong["outcome"]["rows"] = "five".into();
    assert!(std::panic::catch_unwind(|| valid(&wrong, &schema, &schema, "report")).is_err(), "the check checks");

    let [alice, bob] = [&reports[0], &reports[1]];
    for (field, wanted) in
        [("rows", 5), ("keys", 3), ("empty", 1), ("duplicates", 1), ("matched", 2), ("matched_rows", 3)]
    {
        assert_eq!(alice["outcome"][field], wanted, "{field}");
    }
    assert_eq!(alice["outcome"]["output"]["rows"], 3);
    assert_eq!(bob["outcome"]["matched_rows"], 2);
    assert_eq!(alice["job"]["shared_hash"], bob["job"]["shared_hash"]);
    assert!(alice["job"]["called"].is_string() && alice["job"]["called"] == bob["job"]["called"]);
    assert_ne!(alice["job"]["run"], bob["job"]["run"]);
    assert_eq!(alice["chosen"]["peers"][0]["keys"], bob["outcome"]["keys"]);
    assert!(alice["chosen"]["peers"][0]["fingerprint"].as_str().unwrap().starts_with("sha256:"));
    assert!(!alice["cost"].as_array().unwrap().is_empty());
    assert!(alice["total"]["sent"].as_u64() > Some(0) && alice["total"]["peak_memory"].as_u64() > Some(0));
    assert!(alice["revealed"].as_array().unwrap().iter().any(|r| r["to"] == serde_json::json!(["alice", "bob"])));
}

/// A job that was named from the folder above, with paths that start at its own folder.
#[test]
fn what_the_page_says_of_running_again_runs() {
    let two = Two::with("id\n1\n2\n", "id\n2\n");
    let above = two.dir.path().parent().unwrap();
    let from_above = |job: &two::Job, more: &[&str]| {
        let file = job.file();
        let mut command = two::vesica();
        two::Running::start(command.current_dir(above).arg("run").arg(file.strip_prefix(above).unwrap()).args(more))
    };
    let page = two.path("alice.md");
    let running = [from_above(&two.alice, &["--report", page.to_str().unwrap()]), from_above(&two.bob, &[])];
    running.into_iter().for_each(|one| _ = one.wait(two::LONG).good());
    let page = two.read("alice.md");
    let (_, code) = page.split_once("```toml\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    std::fs::write(two.path("again.toml"), code.replace('…', "alice.pem")).unwrap();
    std::fs::remove_file(two.path("alice.out.csv")).unwrap();
    let alice = two::Running::start(two::vesica().current_dir(two.dir.path()).args(["run", "again.toml"]));
    let bob = two.bob.start();
    alice.wait(two::LONG).good();
    bob.wait(two::LONG).good();
    assert_eq!(two.read("alice.out.csv"), "id\n2\n");

    // A job file that was named from the root, and an output that stands there in it from the root: partners who show each other their
    // reports see of neither where it is.
    let mut two = Two::with("id\n1\n2\n", "id\n2\n");
    let output = two.path("alice.out.csv");
    two.alice.text = two.alice.text.replace("\"alice.out.csv\"", &format!("{output:?}"));
    assert!(two.alice.text.contains(output.to_str().unwrap()));
    // The table lies in a folder that is not the job's, and so does what the run keeps.
    let elsewhere = tempfile::tempdir().unwrap();
    let table = elsewhere.path().join("customers.csv");
    std::fs::copy(two.path("alice.csv"), &table).unwrap();
    two.alice.change("\"alice.csv\"", &format!("{table:?}"));
    two.alice.text.push_str(&format!("trace = {:?}\n", elsewhere.path().join("trace.json")));
    two.bob.text.push_str("report = \"bob.json\"\n");
    let data = two.path("alice.json");
    let running = [two.alice.start_with(&["--report", data.to_str().unwrap()]), two.bob.start()];
    running.into_iter().for_each(|one| _ = one.wait(two::LONG).good());
    let here = two.dir.path().to_str().unwrap();
    assert!(two.read("alice.json").contains("…/customers.csv"));
    for name in ["alice.json", "bob.json"] {
        let report = two.read(name);
        assert!(!report.contains(here) && !report.contains(elsewhere.path().to_str().unwrap()), "{report}");
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["outcome"]["output"]["path"], format!("{}.out.csv", &name[..name.len() - 5]));
    }
}

#[test]
fn who_does_not_learn_has_null_and_not_a_number() {
    let mut two = Two::with("id\n1\n2\n", "id\n2\n");
    two.only("alice");
    for job in [&mut two.alice, &mut two.bob] {
        job.text.push_str(&format!("report = \"{}.json\"\n", job.name));
    }
    two.run_well();
    let outcome = |name: &str| serde_json::from_str::<Value>(&two.read(name)).unwrap()["outcome"].clone();
    assert_eq!(outcome("alice.json")["matched"], 1);
    for field in ["matched", "matched_rows", "output"] {
        assert_eq!(outcome("bob.json")[field], Value::Null, "{field}");
    }
}

#[test]
fn a_report_whose_file_is_named_as_a_page_is_that_page() {
    let mut two = Two::with("id\n1\n2\n", "id\n2\n");
    two.bob.text.push_str("report = \"bob.md\"\n");
    let page = two.path("alice.html");
    let page = page.to_str().unwrap();
    let alice = two.alice.start_with(&["--report", page, "--report-format", "html"]);
    let bob = two.bob.start();
    let (alice, _) = (alice.wait(two::LONG).good(), bob.wait(two::LONG).good());
    assert!(two.read("alice.html").starts_with("<!doctype html>"));
    assert!(two.read("bob.md").starts_with("# test, as bob saw it"));
    assert!(alice.stdout.contains("distinct keys") && !alice.stdout.contains("<!doctype"), "{}", alice.stdout);
    two::run(&["report", page]).bad(2, &["alice.html is no report as data", "neither .html nor .md"]);
}

/// Panics unless `value` is valid by `schema`. Knows the keywords that schemars writes; any other one is a panic too, so
/// that nothing goes unchecked.
fn valid(value: &Value, schema: &Value, root: &Value, at: &str) {
    let Some(schema) = schema.as_object() else {
        assert_eq!(schema, &Value::Bool(true), "{at}");
        return;
    };
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "format" | "default" | "$defs" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                valid(value, &root["$defs"][name], root, at);
            }
            "type" => {
                let is = |kind: &str| match kind {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    other => panic!("{at}: unknown type {other}"),
                };
                let kinds: Vec<&str> = match rule {
                    Value::Array(kinds) => kinds.iter().map(|k| k.as_str().unwrap()).collect(),
                    one => vec![one.as_str().unwrap()],
                };
                assert!(kinds.into_iter().any(is), "{at}: {value} is not {rule}");
            }
            "minimum" => assert!(value.as_f64().is_none_or(|v| v >= rule.as_f64().unwrap()), "{at}: {value}"),
            "maximum" => assert!(value.as_f64().is_none_or(|v| v <= rule.as_f64().unwrap()), "{at}: {value}"),
            "enum" => assert!(rule.as_array().unwrap().contains(value), "{at}: {value}"),
            "const" => assert_eq!(value, rule, "{at}"),
            "required" => {
                for name in rule.as_array().unwrap() {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{at} lacks {name}");
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    value.get(name).inspect(|v| valid(v, rule, root, &format!("{at}.{name}")));
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (name, value) in value.as_object().unwrap() {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        valid(value, rule, root, &format!("{at}.{name}"));
                    }
                }
            }
            "items" => {
                value.as_array().into_iter().flatten().for_each(|item| valid(item, rule, root, at));
            }
            "anyOf" | "oneOf" => {
                let quiet = |rule: &Value| {
                    let (value, rule, root) = (value.clone(), rule.clone(), root.clone());
                    std::thread::spawn(move || valid(&value, &rule, &root, "")).join().is_ok()
                };
                assert!(rule.as_array().unwrap().iter().any(quiet), "{at}: {value} is none of {rule}");
            }
            other => panic!("{at}: the schema has a keyword that this check does not know: {other}"),
        }
    }
    // Fields that the schema does not know would pass unseen.
    if let (Some(object), Some(known)) = (value.as_object(), schema.get("properties").and_then(Value::as_object)) {
        object.keys().for_each(|name| assert!(known.contains_key(name), "{at}.{name} is not in the schema"));
    }
}
