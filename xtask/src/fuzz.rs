//! Fuzzing: a target in `fuzz/` for each decoder of bytes that somebody else wrote.

use crate::{Chore, output, root};
use std::fs;

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

const TARGETS: [Target; 18] = [
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
    Target { name: "secretflow", max_len: 8192, allocation: 16, memory: 1024, timeout: 10 },
    Target { name: "rules", max_len: 512, allocation: 16, memory: 1024, timeout: 10 },
];

/// Seconds that a target runs, unless more are asked for.
const SECONDS: u32 = 60;

/// Runs what `args` say: no target for all of them, or a target, and for how many seconds.
pub fn run(args: &[&str]) -> Chore {
    let (name, seconds) = match args {
        [] => (None, SECONDS),
        [name] => (Some(*name), SECONDS),
        [name, seconds] => (Some(*name), seconds.parse().map_err(|_| format!("{seconds:?} is no number of seconds"))?),
        _ => return Err("cargo xtask fuzz [TARGET] [SECONDS]".into()),
    };
    let chosen: Vec<&Target> = TARGETS.iter().filter(|target| name.is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("there is no target {:?}; the targets are {}", name.unwrap_or_default(), names.join(", ")));
    }
    ready()?;
    chosen.into_iter().try_for_each(|target| target.run(seconds))
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
    /// What is found is kept in `fuzz/corpus`, which is not committed, and what fails in `fuzz/artifacts`.
    fn run(&self, seconds: u32) -> Chore {
        let (corpus, seeds) = (format!("fuzz/corpus/{}", self.name), format!("fuzz/seeds/{}", self.name));
        fs::create_dir_all(root().join(&corpus)).map_err(|e| format!("{corpus}: {e}"))?;
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
        let fixed = ["run", "nightly", "cargo", "fuzz", "run", self.name, &corpus, &seeds, "--"];
        let args: Vec<&str> = fixed.into_iter().chain(bounds.iter().map(String::as_str)).collect();
        crate::run("rustup", &args, &[])
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
        assert_eq!(names("seeds"), known);
    }
}
