//! "null": a protocol for tests alone, which hides nothing. It shows what a protocol has to say of itself, and that nothing between a plan
//! and a report knows of it: units, padding, agreement, forecast and report are its own without a line about it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use vesica_job::{Control, Io, JobError, Report, forecast, run};
use vesica_session::{Learner, Lines, Protocol, Result, Reveal, SessionRng, Unit};
use vesica_spec::{Plan, parse, plan};
use vesica_suite::{Error, Opened, Seat, Suite, Terms};
use vesica_testkit::port;
use vesica_types::Digest;

/// What it is for the rest of the house.
struct Null;

const REVEALS: [Reveal; 1] = [Reveal { name: "everything", to: Learner::Everyone, what: "all keys of every party" }];

impl Suite for Null {
    fn sets(&self) -> Vec<&'static str> {
        vec!["null-v1"]
    }

    fn reveals(&self) -> Vec<Reveal> {
        REVEALS.to_vec()
    }

    fn assumption(&self) -> &'static str {
        "that nobody minds"
    }

    fn memory(&self) -> u64 {
        100
    }

    fn open(&self, seat: &Seat, _: &Terms, _: &mut Lines, _: &mut SessionRng) -> std::result::Result<Opened, Error> {
        Ok(Keys { learns: seat.learns }.into())
    }
}

/// A side: each sends its keys, and who learns looks which of its own the other sent.
struct Keys {
    learns: bool,
}

impl Protocol for Keys {
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>> {
        let ch = lines.peer()?;
        ch.step("null");
        let mut keys = unit.keys.clone();
        keys.resize_with(unit.capacity(), || Digest(rng.bytes()));
        let length = unit.capacity_of(ch.peer()) * size_of::<Digest>();
        let theirs = ch.swap_exact(&keys.iter().flat_map(|key| key.0).collect::<Vec<_>>(), length)?;
        let theirs: BTreeSet<&[u8; 16]> = theirs.as_chunks().0.iter().collect();
        let common = (0..).zip(&unit.keys).filter(|(_, key)| self.learns && theirs.contains(&key.0));
        Ok(common.map(|(place, _)| place).collect())
    }
}

/// Both parties' plans, with this protocol where `null` says so. alice has the keys 0 to 99, bob those from 60 on.
fn plans(dir: &Path, learns: &str, null: [bool; 2]) -> [Plan; 2] {
    let port = port();
    let road = [format!("listen = \"127.0.0.1:{port}\""), format!("connect = {{ alice = \"127.0.0.1:{port}\" }}")];
    [0, 1].map(|place| {
        let (name, first) = (["alice", "bob"][place], [0, 60][place]);
        let rows: String = (first..first + 100).map(|key| format!("{key}\n")).collect();
        let input = dir.join(format!("{name}.csv"));
        std::fs::write(&input, format!("id\n{rows}")).unwrap();
        let output = match learns.contains(name) {
            true => format!("output = {{ path = \"{}\" }}", dir.join(format!("{name}.out.csv")).display()),
            false => String::new(),
        };
        let job = format!(
            "[shared]\nid = \"null\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"ecdh\"\nlearns = {learns}\nunit = 30\ninsecure = true\n\
             [mine]\nname = \"{name}\"\n{}\npatience = \"60s\"\ninput = {{ path = \"{}\", keys = [\"id\"] }}\n{output}\n",
            road[place],
            input.display()
        );
        let mut plan = plan(&parse(&job).unwrap()).unwrap();
        if null[place] {
            plan.suite = Arc::new(Null);
        }
        plan
    })
}

/// Runs both parties in this process.
fn both(plans: [Plan; 2]) -> [std::result::Result<Report, JobError>; 2] {
    plans
        .map(|plan| std::thread::spawn(move || run(&plan, Io::files(&plan).unwrap(), &Control::new(()))))
        .map(|thread| thread.join().unwrap())
}

#[test]
fn a_protocol_runs_that_nothing_but_its_own_file_knows() {
    for learns in ["[\"alice\"]", "[\"alice\", \"bob\"]"] {
        let dir = tempfile::tempdir().unwrap();
        let reports = both(plans(dir.path(), learns, [true; 2])).map(std::result::Result::unwrap);
        for (report, name) in reports.iter().zip(["alice", "bob"]) {
            assert_eq!(report.chosen.parameters, ["null-v1"]);
            assert!(report.chosen.units > 1);
            let told: Vec<_> = report.revealed.iter().map(|told| &*told.name).collect();
            // The network reads along where a job goes without TLS. Where both learn, lines of the outputs go together.
            let rest: &[_] = if learns.contains("bob") { &["multiplicity", "traffic"] } else { &["traffic"] };
            assert_eq!((told[0], &told[1..]), ("everything", rest));
            assert!(report.cost.iter().any(|cost| cost.step == "null" && cost.sent >= 16 * 100), "{:?}", report.cost);
            let output = dir.path().join(format!("{name}.out.csv"));
            assert_eq!(output.exists(), learns.contains(name));
            if output.exists() {
                let text = std::fs::read_to_string(output).unwrap();
                let keys: BTreeSet<u32> = text.lines().skip(1).map(|line| line.parse().unwrap()).collect();
                assert_eq!(keys, (60..100).collect(), "{name}");
                assert_eq!(text.lines().count(), 41);
            }
        }
    }
}

#[test]
fn it_is_forecast_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let [alice, _] = plans(dir.path(), "[\"alice\"]", [true; 2]);
    let forecast = forecast(&alice, None, Some(100)).unwrap();
    assert_eq!(forecast.parameters, ["null-v1"]);
    // Both send all keys of all padded units.
    for side in &forecast.parties {
        assert!(side.sent >= 16 * u64::from(forecast.units) * side.unit_capacity, "{} {}", side.name, side.sent);
    }
}

/// What each side has is compared by the names of the sets, whatever the document says.
#[test]
fn who_has_another_protocol_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for ended in both(plans(dir.path(), "[\"alice\"]", [true, false])) {
        let error = ended.unwrap_err();
        assert!(matches!(error, JobError::Disagree { .. }), "{error}");
        assert!(error.to_string().contains("null-v1"), "{error}");
    }
}
