//! What goes wrong between two parties: every failure ends both sides, with the right exit code and a sentence that
//! says whose fault it was, and leaves no half file.

use crate::two;

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use two::{LONG, Running, Two, run, vesica};

/// Two parties whose matching takes some seconds, in many small steps: arithmetic without vectors on one worker.
fn slow(rows: &str) -> Two {
    let mut two = Two::sampled(rows, "100");
    two.change("patience = \"60s\"", "patience = \"60s\"\nworkers = 1");
    two.change("curve =", "unit = 20\ncurve =");
    two
}

/// Starts a slow party, with a log that says when each phase begins.
fn start_slow(job: &two::Job) -> Running {
    Running::start(job.command(&["--log", "json"]).env("VESICA_CPU", "portable"))
}

const MATCHING: &str = "\"phase\":\"match\"";

/// The same, with parties that wait only a moment for one that was lost.
fn slow_and_impatient(rows: &str) -> Two {
    let mut two = slow(rows);
    two.change("patience = \"60s\"", "patience = \"5s\"");
    two
}

#[test]
fn a_killed_partner_is_noticed_and_named_with_the_phase() {
    let two = slow_and_impatient("10000");
    let (alice, bob) = (start_slow(&two.alice), start_slow(&two.bob));
    alice.until(MATCHING);
    bob.until(MATCHING);
    bob.signal("KILL");
    alice.until("lost bob");
    let ended = alice.wait(Duration::from_secs(15));
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains("bob") && last.contains("match") && last.contains("\"exit_code\":4"), "{last}");
    assert!(last.contains("did not come back within 5s"), "{last}");
    drop(bob);
    two.nothing_left();
}

#[test]
fn a_frozen_partner_is_noticed_within_ten_seconds() {
    let two = slow_and_impatient("10000");
    let (alice, bob) = (start_slow(&two.alice), start_slow(&two.bob));
    alice.until(MATCHING);
    bob.until(MATCHING);
    bob.signal("STOP");
    let stopped = std::time::Instant::now();
    alice.until("lost bob");
    assert!(stopped.elapsed() < Duration::from_secs(20), "{:?}", stopped.elapsed());
    let ended = alice.wait(Duration::from_secs(20));
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(ended.stderr.lines().last().unwrap().contains("bob"), "{}", ended.stderr);
}

#[test]
fn ctrl_c_ends_both_sides_and_says_so() {
    for pressed in ["alice", "bob"] {
        let two = slow("10000");
        let (alice, bob) = (start_slow(&two.alice), start_slow(&two.bob));
        alice.until(MATCHING);
        bob.until(MATCHING);
        let (here, there) = if pressed == "alice" { (alice, bob) } else { (bob, alice) };
        here.signal("INT");
        let (here, there) = (here.wait(Duration::from_secs(15)), there.wait(Duration::from_secs(15)));
        assert_eq!((here.code, there.code), (Some(130), Some(5)), "{}\n{}", here.stderr, there.stderr);
        assert!(here.stderr.lines().last().unwrap().contains("interrupted"), "{}", here.stderr);
        assert!(
            there.stderr.lines().last().unwrap().contains(&format!("{pressed} was interrupted")),
            "{}",
            there.stderr
        );
        two.nothing_left();
    }
}

#[test]
fn ctrl_c_while_waiting() {
    let two = Two::with("id\n1\n", "id\n1\n");
    let alice = two.alice.start();
    alice.until("waiting for bob");
    alice.signal("INT");
    alice.wait(Duration::from_secs(10)).bad(130, &["interrupted"]);
    two.nothing_left();
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let two = Two::new();
    // Standard input that never ends: nothing but the second press can end this.
    let mut job = two.alice;
    job.change("path = \"alice.csv\"", "path = \"-\", format = \"csv\"");
    let alice = Running::start(job.command(&[]).stdin(std::process::Stdio::piped()));
    alice.until_it_catches_ctrl_c();
    alice.signal("INT");
    alice.until("interrupted");
    alice.signal("INT");
    assert_eq!(alice.wait(Duration::from_secs(10)).code, Some(130));
}

#[test]
fn a_late_partner_is_waited_for() {
    for late in ["alice", "bob"] {
        let two = Two::with("id\n1\n2\n", "id\n2\n");
        let (first, second) = if late == "bob" { (&two.alice, &two.bob) } else { (&two.bob, &two.alice) };
        let early = first.start();
        early.until(&format!("waiting for {late}"));
        std::thread::sleep(Duration::from_secs(2));
        let other = second.start();
        early.wait(two::LONG).good();
        other.wait(two::LONG).good();
        assert_eq!(two.read("alice.out.csv"), "id\n2\n");
    }
}

#[test]
fn patience_has_an_end() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.change("patience = \"60s\"", "patience = \"2s\"");
    let ended = two.alice.start().wait(Duration::from_secs(20));
    ended.bad(4, &["bob did not come within 2 s"]);
    let ended = two.bob.start().wait(Duration::from_secs(20));
    ended.bad(4, &["alice did not come within 2 s", &two.port.to_string()]);
    two.nothing_left();
}

#[test]
fn a_wrong_certificate_is_refused_with_both_fingerprints() {
    // Alice shows another certificate than bob pinned: bob calls, sees it and gives up.
    let mut two = Two::with("id\n1\n", "id\n1\n");
    let folder = two.dir.path().join("other");
    let print = two::run(&["cert", "alice", "--out", folder.to_str().unwrap()]).good().stdout.trim().to_owned();
    let pinned = two.bob.text.split('"').find(|word| word.starts_with("sha256:")).unwrap().to_owned();
    two.alice.change("alice.pem", "other/alice.pem");
    two.change("patience = \"60s\"", "patience = \"5s\"");
    let [alice, bob] = two.run();
    bob.bad(5, &["is not alice", &print, &pinned]);
    assert!(matches!(alice.code, Some(4 | 5)), "{}", alice.stderr);
    assert!(!two.path("alice.out.csv").exists() && !two.path("bob.out.csv").exists());
}

#[test]
fn a_caller_with_a_wrong_certificate_is_a_stranger() {
    // Bob shows another certificate than alice pinned: alice refuses it, names both, and goes on waiting.
    let mut two = Two::with("id\n1\n", "id\n1\n");
    let folder = two.dir.path().join("other");
    let print = two::run(&["cert", "bob", "--out", folder.to_str().unwrap()]).good().stdout.trim().to_owned();
    let pinned = two.alice.text.split('"').find(|word| word.starts_with("sha256:")).unwrap().to_owned();
    two.bob.change("bob.pem", "other/bob.pem");
    two.alice.change("patience = \"60s\"", "patience = \"6s\"");
    let [alice, bob] = two.run();
    assert!(matches!(bob.code, Some(4 | 5)), "{}", bob.stderr);
    assert!(matches!(alice.code, Some(4 | 5)), "{}", alice.stderr);
    let last = alice.error();
    assert!(
        last.contains(&print) && last.contains(&pinned) && last.contains("compare the fingerprints with bob"),
        "{last}"
    );
}

#[test]
fn strangers_neither_end_nor_disturb_a_run() {
    let two = Two::with("id\n1\n2\n", "id\n2\n");
    let alice = two.alice.start();
    alice.until("waiting for bob");
    let visit = |words: &[u8]| {
        let mut stranger = TcpStream::connect(("127.0.0.1", two.port)).unwrap();
        let _ = stranger.write_all(words);
        stranger
    };
    let _held = [
        visit(b""),
        visit(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        visit(&[0xff; 100_000]),
        visit(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"), // half a TLS hello
        visit(b"SSH-2.0-OpenSSH_9.6\r\n"),
    ];
    for _ in 0..20 {
        drop(visit(b"scan"));
    }
    let bob = two.bob.start();
    alice.wait(two::LONG).good();
    bob.wait(two::LONG).good();
    assert_eq!(two.read("alice.out.csv"), "id\n2\n");
}

#[test]
fn strangers_during_the_matching() {
    let two = slow("400");
    let (alice, bob) = (start_slow(&two.alice), start_slow(&two.bob));
    alice.until(MATCHING);
    for _ in 0..10 {
        if let Ok(mut stranger) = TcpStream::connect(("127.0.0.1", two.port)) {
            let _ = stranger.write_all(&[0x16; 1000]);
        }
    }
    alice.wait(two::LONG).good();
    bob.wait(two::LONG).good();
}

#[test]
fn a_full_disk_ends_both_and_leaves_no_half_file() {
    for full in ["alice", "bob"] {
        let two = Two::sampled("20000", "20000");
        let (here, there) = if full == "alice" { (&two.alice, &two.bob) } else { (&two.bob, &two.alice) };
        // No file of this process may grow beyond 64 KiB; without the trap a signal would kill it before it can say so.
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_vesica"), "run"]);
        let here = Running::start(shell.arg(here.file()));
        let there = there.start();
        let (here, there) = (here.wait(two::LONG), there.wait(two::LONG));
        here.bad(2, &[&format!("{full}.out.csv"), "no space left"]);
        there.bad(5, &[&format!("{full} stopped the run")]);
        two.nothing_left();
    }
}

#[test]
fn a_small_disk_of_its_own_ends_both_too() {
    let two = Two::sampled("20000", "20000");
    let disk = two.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        return; // not root, or in a container that may not mount
    }
    let _unmount = Unmount(disk.clone());
    let mut alice = two.alice;
    alice.change("path = \"alice.out.csv\"", "path = \"disk/alice.out.csv\"");
    let (alice, bob) = (alice.start(), two.bob.start());
    let (alice, bob) = (alice.wait(two::LONG), bob.wait(two::LONG));
    assert!(matches!(alice.code, Some(2 | 3)), "{}", alice.stderr);
    assert!(alice.error().contains("disk"), "{}", alice.stderr);
    bob.bad(5, &["alice"]);
    assert!(two::names(&disk).is_empty());
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Local faults are found before contact: nobody listens here, and nobody is called.
#[test]
fn local_faults_are_found_before_contact() {
    let fails = |change: &dyn Fn(&mut Two), code: i32, words: &[&str]| {
        let mut two = Two::with("id,name\n1,a\n", "id\n1\n");
        change(&mut two);
        let ended = two.alice.start().wait(Duration::from_secs(30));
        ended.bad(code, words);
        assert!(!ended.stderr.contains("waiting"), "{}", ended.stderr);
        assert!(!two.path("alice.out.csv").exists());
    };
    fails(&|two| std::fs::remove_file(two.path("alice.csv")).unwrap(), 3, &["alice.csv", "no such file"]);
    fails(&|two| two.write("alice.csv", ""), 3, &["alice.csv", "no header"]);
    fails(&|two| two.alice.change("keys = [\"id\"]", "keys = [\"nmae\"]"), 2, &["\"nmae\"", "did you mean \"name\"?"]);
    fails(&|two| two.alice.change("alice.out.csv", "alice.csv"), 2, &["is the input", "choose another output"]);
    fails(
        &|two| {
            std::fs::hard_link(two.path("alice.csv"), two.path("same.csv")).unwrap();
            two.alice.change("alice.out.csv", "same.csv");
        },
        2,
        &["is the input"],
    );
    fails(&|two| two.alice.change("alice.out.csv", "nowhere/alice.out.csv"), 2, &["nowhere", "does not exist"]);
    for field in ["report", "trace"] {
        let more = |two: &mut Two, path| two.alice.text.push_str(&format!("{field} = \"{path}\"\n"));
        let named = format!("mine.{field}: ");
        fails(
            &|two| more(two, "nowhere/file.json"),
            2,
            &[named.as_str(), "nowhere/file.json", "nowhere does not exist"],
        );
        fails(&|two| more(two, "."), 2, &[named.as_str(), "is a folder"]);
    }
    let two = Two::with("id\n1\n", "id\n1\n");
    two.alice
        .start_with(&["--report", "nowhere/r.json"])
        .wait(LONG)
        .bad(2, &["--report: nowhere/r.json", "the folder nowhere does not exist"]);
    // Before anybody is called or awaited.
    two.alice
        .start_with(&["--report", "r.html", "--report-format", "markdown"])
        .wait(LONG)
        .bad(2, &["r.html", "named as HTML", "--report-format markdown", "ends in .md"]);
    fails(&|two| two.alice.change("\"60s\"", "\"0s\""), 2, &["mine.patience", "\"0s\"", "write \"90s\""]);
    fails(&|two| two.alice.change("alice.pem", "nobody.pem"), 2, &["nobody.pem"]);
    fails(&|two| two.alice.change("listen = \"127.0.0.1:", "listen = \"192.0.2.1:"), 2, &["192.0.2.1"]);
    fails(
        &|two| two.alice.change("learns =", "learn ="),
        2,
        &["alice.toml:6:1", "unknown field `learn`", "did you mean `learns`?"],
    );
    let own = |two: &mut Two| {
        let print = |job: &two::Job| job.text.split('"').find(|word| word.starts_with("sha256:")).unwrap().to_owned();
        two.alice.change(&print(&two.alice), &print(&two.bob));
    };
    fails(&own, 2, &["bob is to be known by sha256:", "the fingerprint of this side's own certificate"]);
    fails(
        &|two| two.alice.change("identity = \"alice.pem\"", "identity = \"bob.pem\""),
        2,
        &["side's own certificate"],
    );
    fails(&|two| two.alice.change("curve25519", "curve25518"), 2, &["alice.toml:5:", "curve25519"]);
    fails(&|two| two.write("alice.csv", b"id\n1\n\xff\n"), 3, &["row 2", "not UTF-8"]);
    fails(&|two| two.write("alice.csv", "id,x\n1,2\n\"3,4\n"), 3, &["row 2", "never closed"]);
}

#[test]
fn a_port_that_is_taken_is_a_local_fault() {
    let two = Two::with("id\n1\n", "id\n1\n");
    let _taken = std::net::TcpListener::bind(("127.0.0.1", two.port)).unwrap();
    two.alice.start().wait(Duration::from_secs(30)).bad(2, &["cannot listen on", &two.port.to_string()]);
}

#[test]
fn an_unreadable_input_is_a_local_fault() {
    let two = Two::with("id\n1\n", "id\n1\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(two.path("alice.csv"), mode).unwrap();
    if std::fs::read(two.path("alice.csv")).is_ok() {
        return; // root reads everything
    }
    two.alice.start().wait(Duration::from_secs(30)).bad(3, &["alice.csv", "permission"]);
}

#[test]
fn an_output_that_stands_already_survives_a_failed_run_and_gives_way_to_a_good_one() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.write("alice.out.csv", "old\n");
    let patience = two.alice.text.clone();
    two.alice.change("patience = \"60s\"", "patience = \"1s\"");
    assert_eq!(two.alice.start().wait(two::LONG).code, Some(4));
    assert_eq!(two.read("alice.out.csv"), "old\n");
    two.alice.text = patience;
    two.run_well();
    assert_eq!(two.read("alice.out.csv"), "id\n1\n");
}

#[test]
fn an_unknown_back_end_is_refused_with_the_known_ones() {
    let two = Two::with("id\n1\n", "id\n1\n");
    let ended = Running::start(two.alice.command(&[]).env("VESICA_CPU", "neon")).wait(two::LONG);
    ended.bad(2, &["VESICA_CPU=neon", "portable"]);
    let ended = Running::start(vesica().arg("info").env("VESICA_CPU", "neon")).wait(two::LONG);
    ended.bad(2, &["VESICA_CPU=neon", "portable"]);
}

#[test]
fn the_doctor_says_what_would_fail_and_what_to_do() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    let doctor = |two: &Two| run(&["doctor", two.bob.file().to_str().unwrap()]);

    // The partner may come later: no failure, and not all is well.
    let nobody = doctor(&two).good().stdout;
    assert!(nobody.contains("processor") && nobody.contains("later   connect"), "{nobody}");
    assert!(nobody.contains("until the other side has started") && !nobody.contains("Nothing of what"), "{nobody}");
    assert!(nobody.contains("ok      identity    sha256:") && nobody.contains("`vesica check FILE`"), "{nobody}");
    let listener = std::net::TcpListener::bind(("127.0.0.1", two.port)).unwrap();
    let there = doctor(&two).good().stdout;
    assert!(there.contains("somebody listens"), "{there}");
    drop(listener);

    let well = two.bob.text.clone();
    two.bob.text.push_str("scratch = \"/nowhere/at/all\"\n");
    let ended = doctor(&two);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stdout.contains("BROKEN  scratch") && ended.error().contains("one thing"), "{}", ended.stdout);
    two.bob.text = well;
    two.bob.change("bob.pem", "nobody.pem");
    let ended = doctor(&two);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stdout.contains("BROKEN  identity") && ended.stdout.contains("nobody.pem"), "{}", ended.stdout);
}
