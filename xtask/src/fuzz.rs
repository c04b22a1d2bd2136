//! Fuzzing: a target in `fuzz/` for each decoder of bytes that somebody else wrote.

use crate::{Chore, output, root};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{fmt, fs};

/// A target and its bounds.
struct Target {
    name: &'static str,
    /// The longest input, in bytes: what the decoder needs to be reached in all its parts.
    max_len: u32,
    /// The largest allocation that the decoder may make for such an input, in MiB.
    allocation: u32,
    /// The most memory that the process may take, in MiB, the sanitizer's own among it.
    memory: u32,
    /// The most seconds that one input may take.
    timeout: u32,
}

const TARGETS: [Target; 19] = [
    // A message is as long as a line's window, which the target sets to 64 KiB.
    Target { name: "frames", max_len: 4096, allocation: 1, memory: 1024, timeout: 10 },
    Target { name: "greeting", max_len: 4096, allocation: 1, memory: 1024, timeout: 10 },
    Target { name: "certificates", max_len: 4096, allocation: 1, memory: 1024, timeout: 10 },
    // A file of 1 MiB at most is read.
    Target { name: "identity", max_len: 4096, allocation: 4, memory: 1024, timeout: 10 },
    // A hello has 1 MiB at most, and what it holds of JSON takes some times that.
    Target { name: "agree", max_len: 4096, allocation: 16, memory: 1024, timeout: 10 },
    Target { name: "lanes", max_len: 2048, allocation: 1, memory: 1024, timeout: 10 },
    // Units of a few hundred keys, with the matrices and trees of silent OT.
    Target { name: "protocols", max_len: 512, allocation: 64, memory: 1024, timeout: 10 },
    // Matches are held in `Share::Found` of the job's memory, which the target sets to 1 GiB.
    Target { name: "ledger", max_len: 4096, allocation: 128, memory: 1024, timeout: 10 },
    Target { name: "kept", max_len: 8192, allocation: 16, memory: 1024, timeout: 10 },
    Target { name: "spill", max_len: 4096, allocation: 1, memory: 1024, timeout: 10 },
    // A row has 64 MiB at most.
    Target { name: "csv", max_len: 4096, allocation: 129, memory: 1024, timeout: 10 },
    // The parquet crate makes room for what a page's head says: 2 GiB at most, and 8 bytes for each of 2^31 entries of a
    // dictionary, of which it touches those that are there. It also counts through a list of booleans of any length that the file
    // claims, up to 2^31, in a field that it does not know.
    Target { name: "parquet", max_len: 16384, allocation: 17000, memory: 4096, timeout: 60 },
    // A byte of a compressed buffer stands for 32 KiB at most.
    Target { name: "arrow", max_len: 16384, allocation: 520, memory: 2048, timeout: 10 },
    // A manifest has at most 1024 parts. A part is searched where it stands.
    Target { name: "store", max_len: 4096, allocation: 1, memory: 1024, timeout: 10 },
    // Small tables; a ciphertext of BFV and its expansion.
    Target { name: "retrieval", max_len: 4096, allocation: 64, memory: 1024, timeout: 10 },
    Target { name: "job-file", max_len: 4096, allocation: 16, memory: 1024, timeout: 10 },
    Target { name: "invitation", max_len: 2048, allocation: 16, memory: 1024, timeout: 10 },
    Target { name: "secretflow", max_len: 8192, allocation: 16, memory: 1024, timeout: 10 },
    Target { name: "rules", max_len: 512, allocation: 16, memory: 1024, timeout: 10 },
];

/// Seconds that a target runs, unless others are asked for.
const SECONDS: u32 = 60;

const USAGE: &str = "cargo xtask fuzz [TARGET...] [SECONDS [AT-ONCE]]";

/// Which targets run, each for how many seconds, and how many of them at a time.
struct Asked {
    targets: Vec<&'static Target>,
    seconds: u32,
    at_once: usize,
}

impl Asked {
    /// What `args` say: names, of which none stands for all targets, and then up to two numbers.
    fn of(args: &[&str]) -> Result<Self, String> {
        let named = args.iter().take_while(|arg| arg.parse::<u32>().is_err()).count();
        let (names, numbers) = args.split_at(named);
        let numbers: Result<Vec<u32>, _> = numbers.iter().map(|number| number.parse()).collect();
        let (seconds, at_once) = match numbers.as_deref() {
            Ok([]) => (SECONDS, 1),
            Ok([seconds]) => (*seconds, 1),
            Ok([seconds, at_once]) if *at_once > 0 => (*seconds, *at_once as usize),
            _ => return Err(USAGE.into()),
        };
        let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        let find = |name: &&str| {
            let found = TARGETS.iter().find(|target| target.name == *name);
            found.ok_or_else(|| format!("there is no target {name:?}; the targets are {}\n{USAGE}", known()))
        };
        let targets = match names {
            [] => TARGETS.iter().collect(),
            names => names.iter().map(find).collect::<Result<_, _>>()?,
        };
        Ok(Self { targets, seconds, at_once })
    }
}

/// Runs what `args` say, and prints what came of it. A finding ends its target and no other.
pub fn run(args: &[&str]) -> Chore {
    let asked = Asked::of(args)?;
    ready()?;
    // Once for all, so that no target waits for another's compiler. Seeds are made of what the decoders take today: of yesterday's
    // hello or ledger most would be refused at the first word.
    match asked.targets[..] {
        [target] => ["seeds", target.name].iter().try_for_each(|bin| cargo_fuzz("build", &[bin]))?,
        _ => cargo_fuzz("build", &[])?,
    }
    cargo_fuzz("run", &["seeds"])?;
    let (waiting, ended) = (Mutex::new(asked.targets.iter()), Mutex::new(Vec::new()));
    let work = || {
        while let Some(target) = next(&waiting) {
            let end = target.run(asked.seconds);
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((target.name, end));
        }
    };
    std::thread::scope(|scope| (0..asked.at_once).for_each(|_| drop(scope.spawn(work))));
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(name, _)| TARGETS.iter().position(|target| target.name == *name));
    crate::say(&format!("{:<13}{:>12}{:>9}{:>18}  finding", "target", "executions", "a second", "edges (new)"));
    let mut failed = Vec::new();
    for (name, end) in ended {
        let end = end?;
        crate::say(&format!("{name:<13}{end}"));
        if !end.ok {
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("findings in {}", failed.join(", "))) }
}

/// Runs `cargo fuzz` with nightly Rust, and shows what it prints.
fn cargo_fuzz(chore: &str, args: &[&str]) -> Chore {
    let args: Vec<&str> = ["run", "nightly", "cargo", "fuzz", chore].iter().chain(args).copied().collect();
    crate::run("rustup", &args, &[])
}

/// The next target that nobody runs yet.
fn next(waiting: &Mutex<std::slice::Iter<'_, &'static Target>>) -> Option<&'static Target> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).next().copied()
}

/// What came of a target, as libFuzzer tells it.
#[derive(Debug, PartialEq, Eq)]
struct End {
    ok: bool,
    executions: u64,
    a_second: u64,
    /// Edges that inputs reach, and how many of these the corpus did not reach at the beginning.
    edges: (u64, u64),
    /// The input that failed, or else the last words.
    finding: Option<String>,
}

impl End {
    /// Reads what a target has printed.
    fn read(log: &str, ok: bool) -> Self {
        let number = |line: &str| line.split_whitespace().find_map(|word| word.parse().ok());
        let stat = |name: &str| log.lines().find(|line| line.starts_with(name)).and_then(number).unwrap_or(0);
        let mut edges = log.lines().filter_map(|line| line.split_once(" cov: ")).filter_map(|(_, rest)| number(rest));
        let first: u64 = edges.next().unwrap_or(0);
        let last = edges.next_back().unwrap_or(first);
        let finding = || {
            let input = log.lines().find_map(|line| Some(line.split_once("Test unit written to ")?.1));
            input.or_else(|| log.lines().last()).unwrap_or("nothing was printed").to_owned()
        };
        Self {
            ok,
            executions: stat("stat::number_of_executed_units:"),
            a_second: stat("stat::average_exec_per_sec:"),
            edges: (last, last.saturating_sub(first)),
            finding: (!ok).then(finding),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (edges, new) = self.edges;
        let edges = format!("{edges} ({new})");
        write!(f, "{:>12}{:>9}{edges:>18}  ", self.executions, self.a_second)?;
        f.write_str(self.finding.as_deref().unwrap_or("none"))
    }
}

/// Whether the tools are there that only fuzzing needs.
fn ready() -> Chore {
    output("rustup", &["run", "nightly", "cargo", "--version"])
        .map_err(|e| format!("fuzzing needs nightly Rust; install it with `rustup toolchain install nightly`\n{e}"))?;
    output("rustup", &["run", "nightly", "cargo", "fuzz", "--version"])
        .map_err(|e| format!("fuzzing needs cargo-fuzz; install it with `cargo install cargo-fuzz --locked`\n{e}"))?;
    Ok(())
}

impl Target {
    /// What is found is kept in `fuzz/corpus`, which is not committed; what fails, and what libFuzzer prints, in
    /// `fuzz/artifacts`.
    fn run(&self, seconds: u32) -> Result<End, String> {
        let folder = |kind: &str| {
            let folder = format!("fuzz/{kind}/{}", self.name);
            fs::create_dir_all(root().join(&folder)).map(|()| folder.clone()).map_err(|e| format!("{folder}: {e}"))
        };
        let (corpus, seeds) = (folder("corpus")?, format!("fuzz/seeds/{}", self.name));
        let log = root().join(folder("artifacts")?).join("log");
        let words = root().join("fuzz/dictionaries").join(self.name);
        let bounds = [
            format!("-max_total_time={seconds}"),
            format!("-max_len={}", self.max_len),
            format!("-malloc_limit_mb={}", self.allocation),
            format!("-rss_limit_mb={}", self.memory),
            format!("-timeout={}", self.timeout),
            // A thread that a reader no longer needs ends by itself, and what it holds until then is no leak.
            "-detect_leaks=0".to_owned(),
            "-print_final_stats=1".to_owned(),
        ];
        // Words of the format, where chance does not find them.
        let words = words.is_file().then(|| format!("-dict={}", words.display()));
        crate::say(&format!("{}: {seconds} s; what it prints stands in {}", self.name, log.display()));
        let out = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let err = out.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
        let status = Command::new("rustup")
            .args(["run", "nightly", "cargo", "fuzz", "run", self.name, &corpus, &seeds, "--"])
            .args(bounds.into_iter().chain(words))
            .current_dir(root())
            .stdout(out)
            .stderr(err)
            .status()
            .map_err(|e| format!("rustup: {e}"))?;
        let log = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        Ok(End::read(&String::from_utf8_lossy(&log), status.success()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_bounds_and_its_seeds() {
        let names = |folder: &str| -> Vec<String> {
            let files = fs::read_dir(root().join("fuzz").join(folder)).unwrap();
            let name = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().replace('_', "-");
            let mut names: Vec<String> = files.map(|file| name(file.unwrap().path())).collect();
            names.sort();
            names
        };
        let mut known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        known.sort();
        assert_eq!(names("fuzz_targets"), known);
        let seeds = fs::read_to_string(root().join("fuzz/src/bin/seeds.rs")).unwrap();
        assert!(known.iter().all(|name| seeds.contains(&format!("(\"{name}\", "))));
        assert!(names("dictionaries").iter().all(|name| known.contains(&name.as_str())));
    }

    #[test]
    fn targets_and_numbers_are_asked_for_in_this_order() {
        let asked = |args: &[&str]| {
            Asked::of(args).map(|asked| {
                let names: Vec<&str> = asked.targets.iter().map(|target| target.name).collect();
                (names, asked.seconds, asked.at_once)
            })
        };
        assert_eq!(asked(&["csv", "rules", "600", "3"]).unwrap(), (vec!["csv", "rules"], 600, 3));
        assert_eq!(asked(&["csv"]).unwrap(), (vec!["csv"], SECONDS, 1));
        let (all, seconds, at_once) = asked(&["600"]).unwrap();
        assert_eq!((all.len(), seconds, at_once), (TARGETS.len(), 600, 1));
        assert!(asked(&["cvs"]).unwrap_err().contains("csv, parquet"));
        for wrong in [&["csv", "1", "0"][..], &["1", "2", "3"], &["1", "csv"]] {
            assert_eq!(asked(wrong).unwrap_err(), USAGE);
        }
    }

    #[test]
    fn what_a_target_printed_is_read() {
        let log = "#6\tINITED cov: 2053 ft: 3186 corp: 6/7Kb exec/s: 0 rss: 62Mb\n\
                   #9\tNEW    cov: 2061 ft: 3200 corp: 7/8Kb lim: 4096 exec/s: 0 rss: 62Mb L: 5/9 MS: 1 -\n\
                   #700\tDONE   cov: 2100 ft: 3300 corp: 9/9Kb lim: 4096 exec/s: 70 rss: 70Mb\n\
                   stat::number_of_executed_units: 700\nstat::average_exec_per_sec:     70\n";
        let good = End { ok: true, executions: 700, a_second: 70, edges: (2100, 47), finding: None };
        assert_eq!(End::read(log, true), good);
        let log = format!("{log}artifact_prefix='x/'; Test unit written to x/crash-1\nBase64: AA==\n");
        assert_eq!(End::read(&log, false), End { ok: false, finding: Some("x/crash-1".into()), ..good });
    }
}
