//! The command itself: help, exit codes, streams, samples, identities, schemas, completions, manual.

use crate::two;

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use two::{LONG, Running, Two, run, vesica};

const COMMANDS: [&str; 11] =
    ["demo", "gen", "cert", "check", "plan", "run", "import", "schema", "info", "completions", "man"];

#[test]
fn the_help_of_every_command_has_an_example() {
    let all = run(&["--help"]).good().stdout;
    assert!(all.contains("Exit codes:") && all.contains("Example:"), "{all}");
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{command} is not in {all}");
        let help = run(&[command, "--help"]).good().stdout;
        assert!(
            help.contains("Example") && help.contains(&format!("vesica {command}")) || help.contains("vesica info"),
            "{help}"
        );
    }
}

#[test]
fn usage_errors_end_with_2_and_name_the_nearest() {
    for (args, word) in [
        (&["runn"][..], "'run'"),
        (&["run"], "<JOB|--config <FILE>|--kuscia <FILE>|--json <STRING>>"),
        (&["run", "x.toml", "--quite"], "--quiet"),
        (&["run", "x.toml", "--quiet", "--log", "text"], "--log"),
        (&["gen", "--rows", "1,2,3,4", "--overlap", "1", "--out", "/nowhere"], "rows"),
        (&["gen", "--rows", "ten", "--overlap", "1", "--out", "/nowhere"], "1_000_000"),
        (&["gen", "--rows", "10", "--overlap", "1", "--format", "xls", "--out", "/nowhere"], "parquet"),
        (&["gen", "--rows", "10", "--overlap", "1", "--keys", "ssn", "--out", "/nowhere"], "phone"),
        (&["schema", "jobs"], "job"),
        (&[], "Usage"),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.stderr.contains(word), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_job_that_cannot_be_read_is_named() {
    run(&["run", "/nowhere/job.toml"]).bad(2, &["/nowhere/job.toml", "cannot read the job file"]);
    run(&["plan", "/nowhere/job.json"]).bad(2, &["/nowhere/job.json"]);
    let dir = tempfile::tempdir().unwrap();
    let document = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        run(&["run", path.to_str().unwrap()])
    };
    document("sales.csv", "id,x\n1,2\n").bad(2, &["sales.csv: is no job file", "TOML"]);
    let of = |offer: &str| format!("[service]\nid = \"list\"\nprotocol = \"ecdh-oprf\"\n{offer}[mine]\n");
    let server = of("") + "name = \"bob\"\nstore = \"s\"\nclients = {}\n";
    document("server.toml", &server).bad(2, &["this document is a server's, for `vesica prepare` and `vesica serve`"]);
    let client = of("offer = \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"\n")
        + "name = \"alice\"\nconnect = { bob = \"b:1\" }\ncache = \"c\"\n";
    document("client.toml", &client).bad(2, &["this document is a client's, for `vesica fetch` and `vesica ask`"]);
}

#[test]
fn same_seed_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, more: &[&str]| -> Vec<Vec<u8>> {
        let out = dir.path().join(name);
        let args = ["gen", "--rows", "3000,1_000", "--overlap", "400", "--out", out.to_str().unwrap()];
        let ended = run(&[&args[..], more].concat()).good();
        ended.stdout.lines().map(|path| std::fs::read(path).unwrap()).collect()
    };
    for format in ["csv", "parquet"] {
        let one = make(&format!("{format}1"), &["--format", format, "--seed", "7"]);
        assert_eq!(one, make(&format!("{format}2"), &["--format", format, "--seed", "7"]));
        assert_ne!(one[0], make(&format!("{format}3"), &["--format", format, "--seed", "8"])[0]);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let made = make("keys", &["--keys", "email", "--columns", "3"]);
    assert!(text(&made[0]).starts_with("id,c1,c2,c3\n"));
    assert!(text(&made[1]).lines().nth(1).unwrap().contains('@'));
    assert_eq!([0, 1, 2].map(|i| text(&made[i]).lines().count()), [3001, 1001, 401]);
}

#[test]
fn more_common_keys_than_rows_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new");
    let ended = run(&["gen", "--rows", "10,5", "--overlap", "6", "--out", out.to_str().unwrap()]);
    ended.bad(2, &["6 common keys", "5 rows"]);
    assert!(!out.exists());
}

#[test]
fn an_identity_is_two_files_and_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let make = || run(&["cert", "acme-1", "--out", dir.path().to_str().unwrap()]);
    let ended = make().good();
    let print = ended.stdout.trim();
    assert!(print.starts_with("sha256:") && print.len() == 71, "{print}");
    assert_eq!(two::names(dir.path()), ["acme-1.cert.pem", "acme-1.pem"]);
    let secret = dir.path().join("acme-1.pem");
    assert_eq!(secret.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let public = std::fs::read_to_string(dir.path().join("acme-1.cert.pem")).unwrap();
    assert!(public.contains("BEGIN CERTIFICATE") && !public.contains("PRIVATE"));

    let before = std::fs::read(&secret).unwrap();
    make().bad(2, &["acme-1", "never overwritten"]);
    assert_eq!(std::fs::read(&secret).unwrap(), before);
    run(&["cert", "a b"]).bad(2, &["a b"]);
}

#[test]
fn schemas_are_those_that_are_checked_in() {
    for name in ["job", "report"] {
        let printed = run(&["schema", name]).good().stdout;
        let path = format!("{}/../../schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let kept = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(printed == kept, "{path} is stale: run `cargo xtask gen`");
    }
}

#[test]
fn info_names_what_runs() {
    let text = run(&["info"]).good().stdout;
    for word in [
        "version",
        env!("CARGO_PKG_VERSION"),
        "portable",
        "curve25519",
        "ecdh, ecdh-oprf, rr22, kkrt, ot, mini-psi, bc22, dp, hash",
        "malicious",
        "limits",
    ] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let lowered = Running::start(vesica().arg("info").env("VESICA_CPU", "portable")).wait(LONG).good().stdout;
    assert!(lowered.contains("portable: because VESICA_CPU says so"), "{lowered}");
}

#[test]
fn completions_and_manual_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).good().stdout;
        assert!(COMMANDS.iter().all(|command| script.contains(command)), "{shell}");
    }
    assert!(run(&["man"]).good().stdout.contains(".TH vesica 1"));
    let dir = tempfile::tempdir().unwrap();
    run(&["man", "--out", dir.path().join("man1").to_str().unwrap()]).good();
    let pages = two::names(&dir.path().join("man1"));
    assert!(COMMANDS.iter().all(|command| pages.contains(&format!("vesica-{command}.1"))), "{pages:?}");
}

#[test]
fn check_finds_what_can_be_known_and_leaves_nothing() {
    let two = Two::with("id,x\n1,a\n1,b\n,c\n", "id\n1\n");
    let job = two.alice.file();
    let ended = run(&["check", job.to_str().unwrap()]).good();
    for word in
        ["3 rows", "1 distinct key of", "1 empty", "alice.out.csv can be written", "sha256:", &two.port.to_string()]
    {
        assert!(ended.stdout.contains(word), "{word} is not in {}", ended.stdout);
    }
    two.nothing_left();

    let mut broken = two;
    broken.alice.text.push_str("report = \"nowhere/report.json\"\n");
    run(&["check", broken.alice.file().to_str().unwrap()])
        .bad(2, &["mine.report: ", "nowhere/report.json", "does not exist"]);
    broken.alice.change("nowhere/", "");
    assert!(
        run(&["check", broken.alice.file().to_str().unwrap()]).good().stdout.contains("report.json can be written")
    );
    broken.alice.change("keys = [\"id\"]", "keys = [\"ID\"]");
    run(&["check", broken.alice.file().to_str().unwrap()]).bad(2, &["\"ID\"", "did you mean \"id\"?"]);
}

#[test]
fn check_does_not_call_good_what_is_not() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    let address = format!("127.0.0.1:{}", two.port);
    two.bob.change(&address, "no-such-host.invalid:7744");
    let said = run(&["check", two.bob.file().to_str().unwrap()]).good().stdout;
    let line = said.lines().find(|line| line.contains("peer")).unwrap();
    assert!(line.starts_with("?   peer         alice is to be called at no-such-host.invalid:7744"), "{said}");
    assert!(line.contains("the host name does not resolve") && said.contains("ok  keys"), "{said}");
}

#[test]
fn check_with_the_peer_proves_both_and_moves_no_data() {
    let check = |two: &Two| {
        let [a, b] =
            [&two.alice, &two.bob].map(|job| Running::start(vesica().arg("check").arg(job.file()).arg("--peer")));
        [a.wait(LONG), b.wait(LONG)]
    };
    let mut two = Two::with("id\n1\n", "id\n1\n2\n");
    let [alice, bob] = check(&two).map(two::Ended::good);
    assert!(alice.stdout.contains("bob holds the same job and 2 distinct keys"), "{}", alice.stdout);
    assert!(bob.stdout.contains("alice holds the same job and 1 distinct key;"), "{}", bob.stdout);
    two.nothing_left();

    two.bob.change("id = \"test\"", "id = \"tset\"");
    for ended in check(&two) {
        ended.bad(2, &["shared.id", "\"test\"", "\"tset\""]);
    }
}

/// bob checks while alice's run waits for his, and alice checks while bob's run calls her. A check ends, the run waits on, and what comes of
/// it is its first attempt.
#[test]
fn a_check_leaves_a_run_that_waits_waiting() {
    for alice_runs in [true, false] {
        let mut two = Two::with("id\n1\n2\n", "id\n2\n3\n");
        for job in [&mut two.alice, &mut two.bob] {
            let report = format!("[mine]\nreport = \"{}.report.json\"", job.name);
            job.change("[mine]", &report);
        }
        let (runs, checks) = if alice_runs { (&two.alice, &two.bob) } else { (&two.bob, &two.alice) };
        let run = runs.start();
        for _ in 0..2 {
            let checked = Running::start(vesica().arg("check").arg(checks.file()).arg("--peer")).wait(LONG).good();
            let found =
                format!("{} holds the same job and 2 distinct keys, and waits for this side to run it", runs.name);
            assert!(checked.stdout.contains(&found), "{}", checked.stdout);
        }
        run.until(&format!("{} has checked the job: it fits; still waiting for its run", checks.name));
        for run in [run, checks.start()] {
            run.wait(LONG).good();
        }
        assert_eq!(two.rows("alice.out.csv"), ["2"]);
        for name in ["alice", "bob"] {
            let report = two.report(name);
            assert_eq!(report["chosen"]["peers"][0]["attempts"], 1, "{report}");
        }
    }
}

/// Neither does a check that does not fit end alice's run, nor does any check make her patience longer.
#[test]
fn patience_ends_a_run_that_was_only_checked() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.alice.change("patience = \"60s\"", "patience = \"10s\"");
    two.bob.change("id = \"test\"", "id = \"tset\"");
    let run = two.alice.start();
    // A patience that began anew with the check would end after 15 s.
    std::thread::sleep(Duration::from_secs(5));
    let check = Running::start(vesica().arg("check").arg(two.bob.file()).arg("--peer"));
    check.wait(LONG).bad(2, &["shared.id", "\"test\"", "\"tset\""]);
    run.until("bob has checked the job: it does not fit; still waiting for its run. bob holds a different job");
    let ended = run.wait(LONG);
    ended.bad(4, &["bob did not come within 10 s", "it has only checked the job; since then: nobody connected"]);
    assert!(ended.took < Duration::from_secs(14), "{:?}", ended.took);
    two.nothing_left();
}

#[test]
fn plan_says_what_a_run_would_do() {
    let two = Two::sampled("1000", "10");
    let job = two.alice.file();
    let job = job.to_str().unwrap();
    let words = run(&["plan", job]).good().stdout;
    for word in ["ecdh", "curve25519", "alice and bob", "1,000"] {
        assert!(words.contains(word), "{word} is not in {words}");
    }
    let plan = |rows: &str| -> serde_json::Value {
        serde_json::from_str(&run(&["plan", job, "--rows", rows, "--peer-rows", "5e5", "--json"]).good().stdout)
            .unwrap()
    };
    let (small, large) = (plan("1e6"), plan("1e8"));
    let rows = |place: usize| &small["parties"][place]["rows"];
    assert_eq!((rows(0), rows(1)), (&1_000_000.into(), &500_000.into()));
    let sent = |plan: &serde_json::Value| plan["parties"][0]["sent"].as_u64().unwrap();
    assert!(sent(&large) > 10 * sent(&small), "{large}");
}

#[test]
fn plan_compares_all_protocols_that_could_do_the_job() {
    let mut two = Two::sampled("1000", "10");
    two.only("alice");
    let words = run(&["plan", two.alice.file().to_str().unwrap(), "--compare"]).good().stdout;
    assert!(["mini-psi", "ot", "bc22"].iter().all(|name| words.contains(&format!("{name}, malicious"))), "{words}");
    let two = Two::sampled("1000", "10");
    let job = two.alice.file();
    let job = job.to_str().unwrap();
    let words = run(&["plan", job, "--compare", "--mbit", "100"]).good().stdout;
    for word in
        ["ecdh on curve25519", "rr22, low-comm", "kkrt", "  ot ", "tells guessable_keys, not accepted", "\nTake "]
    {
        assert!(words.contains(word), "{word} is not in {words}");
    }
    assert!(words.contains(" ms ") && !words.contains(" 0.0 s"), "{words}");
    let all = run(&["plan", job, "--compare", "--json"]).good().stdout;
    let all: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap();
    let chosen: Vec<&str> = all.iter().filter(|c| c["chosen"] == true).map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(chosen, ["ecdh on curve25519"]);
    let best: Vec<&serde_json::Value> = all.iter().filter(|c| c["best"] == true).collect();
    assert!(best.len() == 1 && best[0]["name"] != "hash" && best[0]["accepted"] == true, "{best:?}");
    // Ten bits a second make the network the bottleneck of all.
    let slow = run(&["plan", job, "--compare", "--mbit", "0.00001", "--json"]).good().stdout;
    let slow: Vec<serde_json::Value> = serde_json::from_str(&slow).unwrap();
    let time = |c: &serde_json::Value| c["wall_s"].as_f64().unwrap();
    assert!(slow.iter().all(|c| time(c) > 100.0), "{slow:?}");
    assert!(slow.is_sorted_by(|a, b| time(a) <= time(b)));
    run(&["plan", job, "--mbit", "100"]).bad(2, &["--compare"]);
    run(&["plan", job, "--compare", "--mbit", "0"]).bad(2, &["not a rate"]);
}

#[test]
fn progress_is_a_line_a_phase_and_results_stand_alone() {
    let two = Two::with("id\n1\n2\n", "id\n2\n");
    for ended in two.run_well() {
        for phase in ["read", "connect", "agree", "match"] {
            assert!(ended.stderr.lines().any(|line| line.starts_with(phase)), "{phase} is not in {}", ended.stderr);
        }
        assert!(!ended.stderr.contains('\x1b') && !ended.stderr.contains('\r'), "no control codes in a pipe");
        assert!(ended.stdout.contains("of your") && ended.stdout.contains("Who learned what:"), "{}", ended.stdout);
    }
}

#[test]
fn quiet_is_quiet_and_a_log_is_a_log() {
    let two = Two::with("id\n1\n2\n", "id\n2\n");
    let (alice, bob) = (two.alice.start_with(&["--quiet"]), two.bob.start_with(&["--log", "json"]));
    let (alice, bob) = (alice.wait(LONG).good(), bob.wait(LONG).good());
    assert_eq!(alice.stderr, "");
    for line in bob.stderr.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(entry["level"].is_string() && entry["message"].is_string(), "{line}");
        assert_eq!((&entry["job"], &entry["party"]), (&"test".into(), &"bob".into()), "{line}");
        let run = entry["run"].as_str().unwrap();
        assert!(
            run.len() == 16 && bob.stdout.contains(&format!("\nRun: {run}. All parties call it ")),
            "{run} is not in {}",
            bob.stdout
        );
    }
    assert!(bob.stderr.contains("\"phase\":\"match\""), "{}", bob.stderr);
    // One name that both sides know the run by: in the log, and at the end of either's report.
    let name =
        |stdout: &str| stdout.split_once(" All parties call it ").unwrap().1.split_once(".\n").unwrap().0.to_owned();
    assert_eq!(name(&alice.stdout), name(&bob.stdout));
    assert!(bob.stderr.contains(&format!("all parties call this run {}", name(&bob.stdout))), "{}", bob.stderr);

    let (alice, bob) = (two.alice.start_with(&["--log", "text"]), two.bob.start());
    let (alice, _) = (alice.wait(LONG).good(), bob.wait(LONG).good());
    assert!(alice.stderr.contains("INFO") && !alice.stderr.contains('\x1b'), "{}", alice.stderr);
    let named = |line: &str| line.contains(" run=\"") && line.ends_with(" job=\"test\" party=\"alice\"");
    assert!(alice.stderr.lines().all(named), "{}", alice.stderr);
}

#[test]
fn a_failure_in_a_json_log_is_json() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.alice.change("keys = [\"id\"]", "keys = [\"no\"]");
    let ended = two.alice.start_with(&["--log", "json"]).wait(LONG);
    assert_eq!(ended.code, Some(2));
    let last: serde_json::Value = serde_json::from_str(ended.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["level"], &last["exit_code"]), (&"ERROR".into(), &2.into()));
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    for args in [&["schema", "job"][..], &["completions", "bash"], &["--help"], &["info"]] {
        let mut child = vesica().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            !said.contains("bug in Vesica") && ended.status.code() == Some(0),
            "{args:?}: {:?} {said}",
            ended.status
        );
    }
    // The same for a closed standard error, in a run.
    let two = Two::with("id\n1\n", "id\n1\n");
    let mut alice = two.alice.command(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(alice.stderr.take());
    two.bob.start().wait(LONG).good();
    assert_eq!(alice.wait().unwrap().code(), Some(0));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
    let ended = vesica().args(["schema", "job"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write to standard output"));
}

#[test]
fn ctrl_c_in_gen_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("big");
    let gen_ =
        Running::start(vesica().args(["gen", "--rows", "1e9", "--overlap", "0", "--out", out.to_str().unwrap()]));
    // In the middle of it, when there is a file that it takes away.
    let began = Instant::now();
    while !out.exists() || two::names(&out).is_empty() {
        assert!(began.elapsed() < LONG, "{}", gen_.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    gen_.signal("INT");
    assert_eq!(gen_.wait(Duration::from_secs(20)).code, Some(130));
    assert!(two::names(&out).is_empty(), "{:?}", two::names(&out));
}

/// What `GET path` at the port says: the status line's code, and the body.
fn asked(port: u16, path: &str) -> Option<(String, String)> {
    use std::io::{Read, Write};
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head[9..12].to_owned(), body.to_owned()))
}

#[test]
fn a_run_tells_how_it_is_where_the_job_says_so() {
    let mut two = Two::with("id\n1\n2\n", "id\n2\n");
    let port = two::port();
    two.alice.text.push_str(&format!("metrics = \"{port}\"\n"));
    let alice = two.alice.start();
    let began = std::time::Instant::now();
    let waits = loop {
        match asked(port, "/metrics") {
            Some((_, text)) if text.contains("vesica_phase{phase=\"connect\"} 1") => break text,
            _ => assert!(began.elapsed() < LONG),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(
        waits.contains("vesica_run_info{job=\"test\",party=\"alice\",run=\"") && waits.contains("vesica_ready 0"),
        "{waits}"
    );
    assert_eq!(asked(port, "/readyz").unwrap().0, "503");
    assert_eq!(asked(port, "/healthz").unwrap(), ("200".into(), "alive\n".into()));
    let taken = run(&["check", two.alice.file().to_str().unwrap()]);
    taken.bad(2, &["listen"]);
    let bob = two.bob.start();
    let ended = alice.wait(LONG).good();
    assert!(
        ended.stderr.contains(&format!("health and metrics at http://127.0.0.1:{port}/metrics")),
        "{}",
        ended.stderr
    );
    bob.wait(LONG).good();
    assert!(asked(port, "/healthz").is_none());
    // Another program has the port.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    two.alice.start().wait(LONG).bad(2, &[&format!("mine.metrics = \"{port}\""), "free port"]);
    run(&["check", two.alice.file().to_str().unwrap()]).bad(2, &["mine.metrics"]);
}
