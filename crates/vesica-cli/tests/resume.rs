//! Runs that survive: a broken connection, a killed process, both processes killed, at every stage; the output is byte
//! for byte that of a run that nothing happened to.

use crate::two;

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use two::{Ended, Job, LONG, Proxy, Running, Two};

/// Two parties whose five units take a while each, with duplicate keys and rows without one, and with ledgers.
fn two() -> Two {
    let table = |range: std::ops::Range<u32>| {
        let rows = range.map(|i| format!("{},row {i}\n", i % 200)).collect::<String>();
        format!("id,v\n{rows},none\n")
    };
    let mut two = Two::with(&table(0..210), &table(60..275));
    two.change("curve =", "unit = 42\ncurve =");
    two.change("output =", "workers = 1\nresume = \"ledger\"\noutput =");
    two
}

/// The same with sealed ledgers and all rows of both tables in the output.
fn sealed() -> Two {
    let mut two = two();
    two.change("curve =", "join = \"full\"\naccept = \"all\"\ncurve =");
    two.change("resume =", "resume_key = \"key\"\nresume =");
    two.write_key("key", &[5; 32]);
    // A program prints alice's keys.
    two.alice.change("resume_key = \"key\"", "resume_key = { program = [\"cat\", \"key\"] }");
    let tls = "identity = \"alice.pem\"";
    two.alice.change(tls, "identity = \"alice.cert.pem\", key = { program = [\"cat\", \"alice.pem\"] }");
    two
}

fn start(job: &Job) -> Running {
    Running::start(job.command(&[]).env("VESICA_CPU", "portable"))
}

fn ledger(two: &Two, name: &str) -> PathBuf {
    two.path(&format!("ledger/{name}.ledger"))
}

/// Whether a unit stands in a ledger: a fourth record (head, attempt, start and then units), behind the front of 48 bytes. Where a
/// length is zero, a stretch begins, with 32 bytes of its own.
pub fn has_unit(two: &Two, name: &str) -> bool {
    let bytes = std::fs::read(ledger(two, name)).unwrap_or_default();
    let mut rest = bytes.get(48..).unwrap_or_default();
    let mut records = 0;
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (bytes, record) = match u32::from_le_bytes(*len) {
            0 => (32, 0),
            len => (len as usize, 1),
        };
        let Some(next) = behind.get(bytes..) else { break };
        (records, rest) = (records + record, next);
    }
    records >= 4
}

/// Two parties that were both killed when alice had finished a unit.
fn killed_at_a_unit() -> Two {
    killed(two)
}

/// The same of these parties.
fn killed(two: impl Fn() -> Two) -> Two {
    for _ in 0..20 {
        let two = two();
        let (mut alice, bob) = (start(&two.alice), start(&two.bob));
        let began = Instant::now();
        while !has_unit(&two, "alice") && !alice.is_over() {
            assert!(began.elapsed() < LONG, "no unit is finished:\n{}", alice.said());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop((alice, bob));
        // On a busy machine they may have come to their end before they were killed.
        if has_unit(&two, "alice") {
            return two;
        }
    }
    panic!("no unit stands in a ledger");
}

/// Whether a run had a phase of this name.
fn had(run: &Ended, phase: &str) -> bool {
    run.stderr.lines().any(|line| line.split_whitespace().next() == Some(phase))
}

/// The run went on from what was kept: the table was read for its rows alone.
fn went_on(run: &Ended) {
    let phases = ["resume", "read", "partition", "keep", "match"].map(|phase| had(run, phase));
    assert_eq!(phases, [true, false, false, false, true], "{}", run.stderr);
}

/// The run read the table and cut it into units.
fn began_anew(run: &Ended) {
    let phases = ["read", "partition", "keep", "match"].map(|phase| had(run, phase));
    assert_eq!(phases, [true; 4], "{}", run.stderr);
}

/// Waits until a ledger has records of so many bytes; false if the run is over before.
fn grown(two: &Two, name: &str, bytes: u64, run: &mut Running) -> bool {
    let began = Instant::now();
    while std::fs::metadata(ledger(two, name)).map_or(0, |m| m.len()) < bytes {
        assert!(began.elapsed() < LONG, "the ledger does not grow:\n{}", run.said());
        if run.is_over() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The outputs of a run that nothing happens to, the bytes that its ledgers reach, and those that alice sends.
fn undisturbed(two: Two) -> ([String; 2], u64, u64) {
    let (mut alice, bob) = (start(&two.alice), start(&two.bob));
    // An open file tells its length also when its name is gone.
    let mut open = None;
    while !alice.is_over() {
        open = File::open(ledger(&two, "alice")).ok().or(open);
        std::thread::sleep(Duration::from_millis(1));
    }
    let most = open.expect("a ledger").metadata().unwrap().len();
    let (alice, bob) = (alice.wait(LONG).good(), bob.wait(LONG).good());
    [&alice, &bob].into_iter().for_each(began_anew);
    assert!(two::names(&two.path("ledger")).is_empty(), "ledgers are removed at the end");
    (two.lined_up(), most, sent(&alice.stdout))
}

/// Ledger sizes at which something is to happen: from the first record on, evenly.
fn stages(most: u64, n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| 1 + most * i / n)
}

/// Rows that match by any of two identifiers: what is kept of them is enough to go on.
#[test]
fn killed_parties_that_match_by_identifiers_go_on_where_they_were() {
    let identified = || {
        let mut two = two();
        two.change("keys = [\"id\"]", "keys = { id = \"id\", v = \"v\" }");
        two.change("curve =", "match = \"any\"\nidentifiers = [{ name = \"id\" }, { name = \"v\" }]\ncurve =");
        two.alice.change("output =", "report = \"alice.report.json\"\noutput =");
        two
    };
    let outputs = |two: &Two| ["alice.out.csv", "bob.out.csv"].map(|name| two.read(name));
    let undisturbed = identified();
    undisturbed.run_well();
    let two = killed(identified);
    let (alice, bob) = (start(&two.alice), start(&two.bob));
    let ended = [alice.wait(LONG).good(), bob.wait(LONG).good()];
    went_on(&ended[0]);
    assert_eq!(outputs(&two), outputs(&undisturbed));
    let report = two.report("alice");
    assert!(report["outcome"]["matched"].as_u64() > report["outcome"]["matched_rows"].as_u64(), "{report}");
    assert!(two::names(&two.path("ledger")).is_empty());
}

#[test]
fn a_killed_party_that_starts_again_goes_on_where_it_was() {
    let (expected, most, _) = undisturbed(two());
    for (bytes, victim) in stages(most, 4).zip(["alice", "bob"].into_iter().cycle()) {
        let two = two();
        let (alice, bob) = (start(&two.alice), start(&two.bob));
        let (mut gone, other, job) = if victim == "alice" { (alice, bob, &two.alice) } else { (bob, alice, &two.bob) };
        if grown(&two, victim, bytes, &mut gone) {
            gone.signal("KILL");
            let ended = gone.wait(LONG);
            // On a busy machine it may have come to its end before it was killed.
            if ended.code.is_none() {
                let had_unit = has_unit(&two, victim);
                let again = start(job).wait(LONG).good();
                if had_unit {
                    went_on(&again);
                }
            } else {
                ended.good();
            }
        } else {
            gone.wait(LONG).good();
        }
        other.wait(LONG).good();
        assert_eq!(two.lined_up(), expected, "{victim} killed at {bytes}");
    }
}

/// Kills both when alice's ledger has so many bytes.
fn kill_both(two: &Two, bytes: u64) {
    let (mut alice, mut bob) = (start(&two.alice), start(&two.bob));
    grown(two, "alice", bytes, &mut alice);
    for party in [&mut alice, &mut bob] {
        if !party.is_over() {
            party.signal("KILL");
        }
    }
}

/// Starts both, which must succeed.
fn start_both(two: &Two) -> [Ended; 2] {
    let (alice, bob) = (start(&two.alice), start(&two.bob));
    [alice.wait(LONG).good(), bob.wait(LONG).good()]
}

#[test]
fn both_killed_and_started_again_go_on_where_they_were() {
    for make in [two, sealed] {
        let (expected, most, whole) = undisturbed(make());
        for bytes in stages(most, 4) {
            let two = make();
            kill_both(&two, bytes);
            let before = std::fs::metadata(ledger(&two, "alice")).map_or(0, |m| m.len());
            let had_units = ["alice", "bob"].map(|name| has_unit(&two, name));
            let runs = start_both(&two);
            assert_eq!(two.lined_up(), expected, "both killed at {bytes}");
            // Where one of them never came so far as to begin, the other begins anew with it.
            if had_units == [true; 2] {
                runs.iter().for_each(went_on);
            }
            if before > most / 2 {
                // What was finished was not done again.
                assert!(sent(&runs[0].stdout) < whole * 3 / 4, "{} of {whole}", sent(&runs[0].stdout));
            }
        }
    }
}

#[test]
fn what_was_kept_and_is_damaged_is_made_again() {
    let (expected, ..) = undisturbed(two());
    let damages: [fn(&mut Vec<u8>); 3] =
        [|bytes| bytes.truncate(bytes.len() / 2), |bytes| bytes[100] ^= 1, |bytes| bytes.clear()];
    for damage in damages {
        let two = killed_at_a_unit();
        let path = two.path("ledger/alice.units");
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let [alice, _] = start_both(&two);
        assert!(alice.stderr.contains("alice.units is not whole"), "{}", alice.stderr);
        began_anew(&alice);
        assert_eq!(two.lined_up(), expected);
    }
}

/// A party that goes on from what it kept meets one that has lost its folder: both begin anew.
#[test]
fn a_party_that_goes_on_begins_anew_with_one_that_cannot() {
    let (expected, ..) = undisturbed(two());
    let two = killed_at_a_unit();
    for name in two::names(&two.path("ledger")).iter().filter(|name| name.starts_with("bob")) {
        std::fs::remove_file(two.path("ledger").join(name)).unwrap();
    }
    let [alice, bob] = start_both(&two);
    began_anew(&bob);
    // How many keys there are stands in what was kept.
    let phases = ["resume", "read", "partition", "keep", "match"].map(|phase| had(&alice, phase));
    assert_eq!(phases, [true, false, true, true, true], "{}", alice.stderr);
    assert_eq!(two.lined_up(), expected);
}

/// Bytes sent, as the result says them in KiB.
fn sent(stdout: &str) -> u64 {
    let words: Vec<&str> = stdout.split_whitespace().collect();
    let at = words.windows(2).position(|w| w[1].starts_with("sent")).unwrap_or_else(|| panic!("{stdout}"));
    let (number, unit) = (words[at - 1].parse::<f64>().unwrap(), words[at]);
    (number * if unit.starts_with("KiB") { 1024.0 } else { 1.0 }) as u64
}

/// A process killed without a ledger begins anew, and the other one, which remembers, begins anew with it.
#[test]
fn a_party_without_memory_begins_anew() {
    let (expected, ..) = undisturbed(two());
    let mut two = two();
    two.change("resume = \"ledger\"\n", "");
    for _ in 0..20 {
        let alice = Running::start(two.alice.command(&["--log", "json"]).env("VESICA_CPU", "portable"));
        let bob = start(&two.bob);
        alice.until("\"phase\":\"match\"");
        bob.signal("KILL");
        // On a busy machine they may have come to their end before that.
        if bob.wait(LONG).code.is_some() {
            alice.wait(LONG).good();
            continue;
        }
        let bob = start(&two.bob);
        assert!(alice.wait(LONG).good().stderr.contains("lost bob"));
        bob.wait(LONG).good();
        assert_eq!(two.lined_up(), expected);
        return;
    }
    panic!("bob was never killed in time");
}

#[test]
fn a_broken_connection_is_made_again() {
    let (expected, ..) = undisturbed(two());
    let mut two = two();
    two.change("resume = \"ledger\"\n", "");
    let proxy = Proxy::before(two.port);
    two.bob.change(&two.port.to_string(), &proxy.port.to_string());
    for cut in [10_000, 30_000] {
        proxy.cut_after(cut);
        let (alice, bob) = (start(&two.alice), start(&two.bob));
        let (alice, bob) = (alice.wait(LONG).good(), bob.wait(LONG).good());
        assert!(alice.stderr.contains("lost bob") || bob.stderr.contains("lost alice"), "{}", alice.stderr);
        assert_eq!(two.lined_up(), expected, "cut after {cut} bytes");
    }
}

/// Wherever a connection is cut, in the last bytes above all: both end well. Who did not hear the other's goodbye stays for
/// as long as its patience.
#[test]
#[ignore = "takes minutes"]
fn a_connection_cut_anywhere_is_made_again() {
    let (expected, ..) = undisturbed(two());
    let mut two = two();
    two.change("patience = \"60s\"", "patience = \"8s\"");
    let proxy = Proxy::before(two.port);
    two.bob.change(&two.port.to_string(), &proxy.port.to_string());
    proxy.cut_after(u64::MAX);
    start_both(&two);
    let all = u64::MAX - proxy.left.load(Ordering::SeqCst);
    for cut in (1..40).map(|i| all * i / 40).chain((0..32).map(|i| all - 16 * i)) {
        proxy.cut_after(cut);
        start_both(&two);
        assert_eq!(two.lined_up(), expected, "cut after {cut} of {all} bytes");
        assert!(two::names(&two.path("ledger")).is_empty());
        ["alice.out.csv", "bob.out.csv"].iter().for_each(|name| std::fs::remove_file(two.path(name)).unwrap());
    }
}

/// One side or both, up to three times a run, at any moment. A party may be left alone that was killed when the other was
/// done; then both run once more.
#[test]
#[ignore = "takes minutes"]
fn parties_killed_at_any_moment_go_on() {
    let (expected, ..) = undisturbed(two());
    let mut chance = 1u64;
    let mut below = |n: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) % n
    };
    for round in 0..40 {
        let mut two = two();
        two.change("patience = \"60s\"", "patience = \"10s\"");
        let jobs = [&two.alice, &two.bob];
        let mut runs = jobs.map(|job| Some(start(job)));
        for _ in 0..=below(3) {
            std::thread::sleep(Duration::from_millis(below(1500)));
            let victims = 1 + below(3);
            for (i, job) in jobs.into_iter().enumerate() {
                if victims >> i & 1 == 1 && !runs[i].as_mut().unwrap().is_over() {
                    drop(runs[i].take());
                    runs[i] = Some(start(job));
                }
            }
        }
        let runs = runs.map(|run| run.unwrap().wait(LONG));
        if runs.iter().any(|run| run.code != Some(0)) {
            let codes = runs.each_ref().map(|run| run.code);
            assert!(matches!(codes, [Some(0), Some(4 | 5)] | [Some(4 | 5), Some(0)]), "round {round}: {runs:?}");
            start_both(&two);
        }
        assert_eq!(two.lined_up(), expected, "round {round}");
        assert!(two::names(&two.path("ledger")).is_empty(), "round {round}");
    }
}

#[test]
fn another_input_job_or_key_is_refused_by_name() {
    let mut two = killed_at_a_unit();
    let table = two.read("alice.csv");
    two.write("alice.csv", format!("{table}900,more\n"));
    // By the hash alone, and where all has to be read anyway.
    let refused = || two.alice.start().wait(LONG).bad(2, &["alice.ledger", "another input", "remove the ledger"]);
    refused();
    std::fs::remove_file(two.path("ledger/alice.units")).unwrap();
    refused();
    two.write("alice.csv", table);
    two.alice.change("id = \"test\"", "id = \"other\"");
    two.alice.start().wait(LONG).bad(2, &["another [shared] part of the job"]);
    two.alice.change("id = \"other\"", "id = \"test\"");
    two.write_key("key", &[1; 32]);
    two.alice.change("resume =", "resume_key = \"key\"\nresume =");
    two.alice.start().wait(LONG).bad(2, &["without a key"]);
    std::fs::set_permissions(two.path("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let words = ["mine.resume_key", "other users may read this key (mode 0644); run `chmod 600 "];
    for command in ["check", "run"] {
        two::run(&[command, two.alice.file().to_str().unwrap()]).bad(2, &words);
    }
    let vault = "resume_key = { program = [\"sh\", \"-c\", \"echo it is shut >&2; exit 3\"] }";
    two.alice.change("resume_key = \"key\"", vault);
    two.alice
        .start()
        .wait(LONG)
        .bad(2, &["mine.resume_key: the program \"sh\" failed with exit code 3 and said: it is shut"]);
}
