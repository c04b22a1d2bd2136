//! Tables that are larger than the memory that a run may take, under a hard limit that the system enforces.
//!
//! The limit is RLIMIT_DATA, which on Linux counts every private page that may be written to: heap, arenas, stacks of
//! threads. RLIMIT_AS counts what is only reserved and never touched too, such as 64 MiB for an arena of each thread, and
//! would measure the number of cores; RLIMIT_RSS is not enforced.

#![cfg(target_os = "linux")]

use crate::two;

use serde_json::Value;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;
use two::{Job, LONG, Running, Two};

/// What a run may take beyond `mine.memory`.
const BEYOND: u64 = 100 << 20;

/// `vesica run` with at most `bytes` of memory.
fn limited(job: &Job, bytes: u64) -> Running {
    let script = format!("ulimit -d {} && exec \"$0\" run \"$1\"", bytes >> 10);
    let mut shell = Command::new("sh");
    Running::start(shell.args(["-c", &script, env!("CARGO_BIN_EXE_vesica")]).arg(job.file()))
}

/// The most bytes that the process ever holds in files without a name, which is where spilled data is.
fn spilled(process: &Running) -> JoinHandle<u64> {
    let open = format!("/proc/{}/fd", process.id());
    std::thread::spawn(move || {
        let mut most = 0u64;
        while let Ok(open) = std::fs::read_dir(&open) {
            let files = open.flatten().filter_map(|entry| std::fs::metadata(entry.path()).ok());
            most = most.max(
                files.filter(|file| file.is_file() && file.nlink() == 0).map(|file| 512 * file.blocks()).sum::<u64>(),
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        most
    })
}

fn lines(path: &Path) -> impl Iterator<Item = String> + use<> {
    BufReader::with_capacity(1 << 20, File::open(path).unwrap()).lines().map(Result::unwrap)
}

/// A table of three million rows, a fifth of a gigabyte, of which half match, with 64 MiB and as few keys as a test has time
/// for. With the memory that a job has by default the same run does not fit.
#[test]
fn a_run_stays_under_a_hard_limit_and_spills() {
    const KEYS: u64 = 10_000;
    let mut two = Two::new();
    let mut table = BufWriter::with_capacity(1 << 20, File::create(two.path("alice.csv")).unwrap());
    writeln!(table, "id,pad").unwrap();
    (0..3_000_000u64).for_each(|i| writeln!(table, "{},{i:060}", i * 7919 % KEYS).unwrap());
    table.into_inner().unwrap();
    two.write("bob.csv", (0..KEYS).fold("id\n".to_owned(), |text, i| text + &format!("{}\n", 2 * i)));
    two.only("alice");
    let limit = (64 << 20) + BEYOND;
    // A busy machine reads three million rows for a minute and more.
    two.change("patience = \"60s\"", "patience = \"5m\"");

    let (alice, bob) = (limited(&two.alice, limit), limited(&two.bob, limit));
    assert_ne!(alice.wait(4 * LONG).code, Some(0), "the limit does not bite");
    drop(bob);
    two.change("[mine]\n", "[mine]\nmemory = \"64 MiB\"\n");
    let (alice, bob) = (limited(&two.alice, limit), limited(&two.bob, limit));
    let spill = spilled(&alice);
    alice.wait(4 * LONG).good();
    bob.wait(LONG).good();

    assert!(spill.join().unwrap() > 16 << 20, "nothing was spilled");
    let shared = |line: &String| line.split(',').next().unwrap().parse::<u64>().is_ok_and(|key| key % 2 == 0);
    let wanted = lines(&two.path("alice.csv")).skip(1).filter(shared);
    assert!(lines(&two.path("alice.out.csv")).skip(1).eq(wanted), "another result than without a limit");
}

/// Both parties of a sample of `rows` rows each, half of them common, under a hard limit of `memory` MiB and what goes
/// beyond it; both learn.
#[expect(clippy::print_stdout, reason = "a soak is made to know what it takes")]
fn sampled(rows: u64, memory: u64, folder: &Path) {
    let mut two = Two::within(folder);
    let dir = two.dir.path().to_str().unwrap().to_owned();
    let (all, half) = (rows.to_string(), (rows / 2).to_string());
    let made = Running::start(two::vesica().args(["gen", "--rows", &all, "--overlap", &half, "--out", &dir]));
    made.wait(DAY).good();
    two.change("protocol = \"ecdh\"\ncurve = \"curve25519\"", "protocol = \"rr22\"");
    two.change("[mine]\n", &format!("[mine]\nmemory = \"{memory} MiB\"\nscratch = \".\"\n"));
    for job in [&mut two.alice, &mut two.bob] {
        let report = format!("report = \"{}.json\"\n", job.name);
        job.text.push_str(&report);
    }

    let limit = (memory << 20) + BEYOND;
    let parties = [&two.alice, &two.bob].map(|job| limited(job, limit));
    let spill = parties.each_ref().map(spilled);
    for party in parties {
        party.wait(DAY).good();
    }
    for (name, spill) in ["alice", "bob"].into_iter().zip(spill) {
        let report: Value = serde_json::from_str(&two.read(&format!("{name}.json"))).unwrap();
        let (wall, peak) = (&report["total"]["wall_s"], report["total"]["peak_memory"].as_u64().unwrap());
        println!("{name}: {wall} s, {} MiB at most, {} MiB spilled at most", peak >> 20, spill.join().unwrap() >> 20);
        assert!(peak <= limit, "{name} took {peak} bytes");
    }

    let outputs = ["alice.out.csv", "bob.out.csv"].map(|name| two.path(name));
    let [alice, bob] = outputs.each_ref().map(|path| keys(path));
    assert!(alice.eq(bob), "the outputs do not line up");
    let hash = RandomState::new();
    let sum =
        |path: &PathBuf| keys(path).fold((0u64, 0u64), |(n, sum), key| (n + 1, sum.wrapping_add(hash.hash_one(key))));
    let found = sum(&outputs[0]);
    assert_eq!(found.0, rows / 2);
    assert_eq!(found, sum(&two.path("expected.csv")), "other keys than the common ones");
}

/// Longer than anything here takes.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The first column of a sample's rows.
fn keys(path: &Path) -> impl Iterator<Item = String> + use<> {
    lines(path).skip(1).map(|line| line.split(',').next().unwrap().to_owned())
}

#[test]
#[ignore = "takes a minute and 2 GB of disk"]
fn units_stay_under_a_hard_limit_too() {
    sampled(5_000_000, 64, &std::env::temp_dir());
}

/// How many rows and where to: `VESICA_SOAK_ROWS=1000000 VESICA_SOAK_DIR=/data cargo test --release -p vesica-cli --test all
/// large::soak -- --ignored --nocapture`. What it took is printed.
#[test]
#[ignore = "10^8 rows a side: takes minutes on a fast machine, and 30 GB of disk"]
fn soak() {
    let rows = std::env::var("VESICA_SOAK_ROWS").map_or(100_000_000, |rows| rows.parse().unwrap());
    let folder = std::env::var_os("VESICA_SOAK_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    sampled(rows, 2048, &folder);
}
