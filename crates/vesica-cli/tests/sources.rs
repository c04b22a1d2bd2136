//! Tables of several files, and tables that a program prints.

use crate::two;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use two::{LONG, Two, run};

/// alice's table as a folder with columns of its folders, bob's by a pattern.
fn parted() -> Two {
    let mut two = Two::new();
    for (name, text) in [
        ("a/year=2025/1.csv", "id,x\n1,a\n2,b\n"),
        ("a/year=2026/1.csv", "id,x\n3,c\n"),
        ("a/year=2026/2.csv", "id,x\n4,\"d\"\n"),
        ("b/x-1.csv", "id,y\n2,p\n"),
        ("b/x-2.csv", "id,y\n4,\"q\"\n9,r\n"),
        ("b/other.csv", "nothing\nof this\n"),
    ] {
        std::fs::create_dir_all(two.path(name).parent().unwrap()).unwrap();
        two.write(name, text);
    }
    two.alice.change("path = \"alice.csv\"", "path = \"a\"");
    two.bob.change("path = \"bob.csv\"", "path = \"b/x-*.csv\"");
    two
}

#[test]
fn folders_and_patterns_are_matched_planned_and_checked() {
    let two = parted();
    two.run_well();
    assert_eq!(two.rows("alice.out.csv"), ["2,b,2025", "4,d,2026"]);
    // Without columns of folders, rows keep their bytes.
    assert_eq!(two.rows("bob.out.csv"), ["2,p", "4,\"q\""]);
    let (alice, bob) = (two.alice.file(), two.bob.file());
    let checked = run(&["check", bob.to_str().unwrap()]).good();
    assert!(
        checked.stdout.contains("b/x-*.csv: id (text), y (text)") && checked.stdout.contains("3 rows"),
        "{}",
        checked.stdout
    );
    let planned = run(&["plan", alice.to_str().unwrap()]).good();
    assert!(planned.stdout.contains("Rows"), "{}", planned.stdout);
    let again = run(&["check", alice.to_str().unwrap()]).good();
    assert!(
        again.stdout.contains("year (text, of the folders)") && again.stdout.contains("4 rows"),
        "{}",
        again.stdout
    );
}

#[test]
fn a_file_that_differs_is_refused_before_contact() {
    let two = parted();
    two.write("a/year=2026/3.csv", "id,z\n1,1\n");
    let ended = two.alice.start().wait(LONG);
    ended.bad(3, &["a/year=2026/3.csv", "column \"x\" is missing"]);
}

#[test]
fn a_table_in_several_files_may_be_an_invitations() {
    let two = parted();
    let out = two.path("invited");
    let table = two.path("b/x-*.csv");
    let address = format!("127.0.0.1:{}", two.port);
    let args = ["invite", "--as", "carol", "--to", "dave", "--table", table.to_str().unwrap(), "--key", "id"];
    run(&[&args[..], &["--listen", &address, "--out", out.to_str().unwrap()]].concat()).good();
    let job = std::fs::read_to_string(out.join("carol.toml")).unwrap();
    assert!(job.contains("b/x-*.csv"), "{job}");
}

#[test]
fn a_program_prints_the_table() {
    let mut two = Two::with("id,x\n1,a\n2,b\n", "id,y\n2,p\n");
    // In the job's folder, and without a shell.
    two.alice.change("path = \"alice.csv\"", "command = [\"cat\", \"alice.csv\"]");
    two.write("print.sh", "#!/bin/sh\ncat bob.csv\n");
    std::fs::set_permissions(two.path("print.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    two.bob.change("path = \"bob.csv\"", "command = [\"./print.sh\"]");
    two.run_well();
    assert_eq!((two.rows("alice.out.csv"), two.rows("bob.out.csv")), (vec!["2,b".to_owned()], vec!["2,p".to_owned()]));
    let alice = two.alice.file();
    let planned = run(&["plan", alice.to_str().unwrap()]);
    planned.bad(2, &["the number of rows is not known"]);
    run(&["plan", alice.to_str().unwrap(), "--rows", "1000"]).good();
    let checked = run(&["check", alice.to_str().unwrap()]).good();
    assert!(checked.stdout.contains("the output of cat: id (text), x (text)"), "{}", checked.stdout);
}

/// bob waits for a connection all the time, and none comes.
#[test]
fn a_program_that_fails_fails_the_run_before_contact() {
    let mut two = Two::with("id,x\n1,a\n2,b\n", "id,y\n2,p\n");
    let script = "command = [\"sh\", \"-c\", \"head -2 alice.csv; echo 'server closed the connection' >&2; exit 7\"]";
    two.alice.change("path = \"alice.csv\"", script);
    let mut bob = two.bob.start();
    two.alice.start().wait(LONG).bad(3, &["\"sh\" failed with exit code 7 and said: server closed the connection"]);
    assert!(!bob.is_over() && !bob.said().contains("alice is there"), "{}", bob.said());
    two.alice.change("command = [\"sh\"", "command = [\"no-such-program\"");
    two.alice.start().wait(LONG).bad(2, &["cannot start \"no-such-program\""]);
}

#[test]
fn a_program_that_hangs_ends_with_ctrl_c() {
    let mut two = Two::with("id,x\n1,a\n", "id,y\n2,p\n");
    two.alice.change("path = \"alice.csv\"", "command = [\"sleep\", \"3600\"]");
    let alice = two.alice.start();
    alice.until_it_catches_ctrl_c();
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    alice.signal("INT");
    alice.wait(LONG).bad(130, &["the output of sleep"]);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// The key of a run's files, that of the identity, and that which seals a service's secret.
#[test]
fn a_program_with_a_key_ends_when_the_command_is_told_to() {
    let mut two = Two::with("id,x\n1,a\n", "id,y\n2,p\n");
    let pid = two.path("pid");
    let key = format!("{{ program = [\"sh\", \"-c\", \"echo $$ > {}; exec sleep 3600\"] }}", pid.display());
    let ends = |two: &Two, command: &[&str]| {
        let _ = std::fs::remove_file(&pid);
        let mut running = two::Running::start(two::vesica().args(command).current_dir(two.dir.path()));
        while !std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
            assert!(!running.is_over(), "{command:?}: {}", running.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        let begun = Instant::now();
        running.signal("TERM");
        running.wait(LONG).bad(130, &["interrupted"]);
        assert!(begun.elapsed() < Duration::from_secs(30), "{command:?}");
        let program = std::fs::read_to_string(&pid).unwrap();
        assert!(!std::path::Path::new("/proc").join(program.trim()).exists(), "{command:?}: the program runs on");
    };
    let job = two.alice.text.clone();
    two.alice.change("[mine]\n", &format!("[mine]\nresume = \"kept\"\nresume_key = {key}\n"));
    for command in ["run", "check"] {
        ends(&two, &[command, two.alice.file().to_str().unwrap()]);
    }
    two.alice.text = job;
    two.alice.change("\"alice.pem\"", &format!("\"alice.cert.pem\", key = {key}"));
    for command in ["run", "doctor"] {
        ends(&two, &[command, two.alice.file().to_str().unwrap()]);
    }
    let server = "[service]\nid = \"list\"\nprotocol = \"ecdh-oprf\"\ninsecure = true\n[mine]\nname = \"bob\"\nlisten = \"127.0.0.1:0\"\n\
                  input = { path = \"bob.csv\", keys = [\"id\"] }\nstore = \"store\"\nclients = {}\n";
    std::fs::write(two.path("server.toml"), format!("{server}secret_key = {key}\n")).unwrap();
    ends(&two, &["prepare", "server.toml"]);
    ends(&two, &["check", "server.toml"]);
}

#[test]
fn a_run_over_several_files_goes_on_and_one_over_a_program_cannot() {
    let mut two = parted();
    two.alice.change("[mine]\n", "[mine]\nresume = \"kept\"\nresume_key = \"key\"\n");
    two.write_key("key", &[7; 32]);
    two.run_well();
    assert_eq!(two.rows("alice.out.csv").len(), 2);
    two.alice.change("path = \"a\"", "command = [\"cat\", \"a/year=2026/1.csv\"]");
    two.alice.start().wait(LONG).bad(2, &["mine.resume", "the output of cat cannot be read again"]);
}
