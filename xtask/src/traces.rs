//! No branch and no address depends on a secret on ARM, where Valgrind is not asked: each kernel runs under qemu with several secrets, and
//! its *trace*, every instruction and every address in their order, must be the same for all of them. Zeros are one of the secrets.
//!
//! That says less than Valgrind does: a branch that none of these secrets takes is not seen. And it says more: how many instructions a kernel
//! takes, and where it divides. A division takes longer for some numbers; whether those are secret is for the reader to see.

use crate::secrets::{SEEDED, at_once};
use crate::{Chore, machines, output, root, say};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The back ends of ARM.
const BACKENDS: [&str; 2] = ["portable", "neon"];

/// The secrets: zeros, and random ones of these seeds. All have as many digits, for the arguments of a program lie on its stack.
const SEEDS: [&str; 5] = ["0", "1", "2", "3", "4"];

/// Runs the cases, or those whose names begin with one of `names`, and prints how many instructions each takes.
pub fn compare(names: &[&str]) -> Chore {
    let (qemu, env) = machines::arm()?;
    let folder = root().join("target/trace");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let plugin = folder.join("trace.so");
    let [made, source] = [&plugin, &root().join("xtask/src/trace.c")].map(|path| path.display().to_string());
    crate::run("cc", &["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", &made, &source], &[])?;
    let args = ["build", "--profile", "secrets", "--package", "vesica-secrets", "--target", machines::ARM];
    let program = machines::built(&args, &env)?;
    let list = output(qemu, &[&program.display().to_string(), "list", "traced"])?;
    let wanted = |case: &&str| names.is_empty() || names.iter().any(|name| case.starts_with(name));
    let runs: Vec<(&str, &str)> =
        list.lines().filter(wanted).flat_map(|case| BACKENDS.map(|backend| (case, backend))).collect();
    if runs.is_empty() {
        return Err(format!("no case begins with {}; there are {}", names.join(", "), list.replace('\n', " ")));
    }
    let tracer = Tracer { qemu, plugin, program, folder };
    let mut wrong = Vec::new();
    for ((case, backend), told) in runs.iter().zip(at_once(&runs, |(case, backend)| tracer.compared(case, backend))) {
        match told {
            Ok(told) => say(&format!("{case} on {backend}: {told}")),
            Err(why) => wrong.push(format!("{case} on {backend}: {why}")),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The same where it can be done, else a sentence.
pub fn compare_where_it_can_run() -> Chore {
    match machines::arm() {
        Ok(_) => compare(&[]),
        Err(why) => {
            say(&format!("no kernel's branches and addresses were looked at on ARM: {why}"));
            Ok(())
        }
    }
}

struct Tracer {
    qemu: &'static str,
    plugin: PathBuf,
    program: PathBuf,
    folder: PathBuf,
}

impl Tracer {
    /// What is told of a case if all is well.
    fn compared(&self, case: &str, backend: &str) -> Result<String, String> {
        let file = |seed: &str| self.folder.join(format!("{}-{backend}-{seed}", case.replace('/', "-")));
        let traces: Result<Vec<Trace>, String> = SEEDS
            .iter()
            .map(|seed| {
                let out = file(seed);
                self.run(case, backend, seed, &[("out", &out)])?;
                Trace::read(&out)
            })
            .collect();
        let traces = traces?;
        let other = SEEDS.iter().zip(&traces).find(|(_, trace)| trace.same != traces[0].same);
        match (other, case.starts_with(SEEDED)) {
            (None, true) => {
                Err("the leak on purpose is not found, so what is said of other cases means nothing".into())
            }
            (Some(_), true) => Ok("the leak on purpose is found".into()),
            (Some((seed, _)), false) => Err(self.parted(case, backend, [SEEDS[0], seed])?),
            (None, false) => Ok([format!("{} instructions, the same for {} secrets", traces[0].executed, SEEDS.len())]
                .iter()
                .chain(&traces[0].divisions)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; ")),
        }
    }

    /// Where the traces of two secrets part.
    fn parted(&self, case: &str, backend: &str, seeds: [&str; 2]) -> Result<String, String> {
        let file = |seed: &str, what: &str| {
            self.folder.join(format!("parted-{}-{backend}-{seed}.{what}", case.replace('/', "-")))
        };
        let mut traces = Vec::new();
        for seed in seeds {
            let [out, record, names] = ["out", "record", "names"].map(|what| file(seed, what));
            self.run(case, backend, seed, &[("out", &out), ("record", &record), ("names", &names)])?;
            traces.push(fs::read(&record).map_err(|e| format!("{}: {e}", record.display()))?);
        }
        let names = file(seeds[0], "names");
        let names = fs::read_to_string(&names).map_err(|e| format!("{}: {e}", names.display()))?;
        Ok(parting(&traces[0], &traces[1], &names))
    }

    fn run(&self, case: &str, backend: &str, seed: &str, files: &[(&str, &Path)]) -> Chore {
        let mut plugin = self.plugin.display().to_string();
        for (what, file) in files {
            let _ = write!(plugin, ",{what}={}", file.display());
        }
        // Addresses and what the system calls random are the same in each run.
        let mut qemu = Command::new("setarch");
        qemu.args(["-R", self.qemu, "-seed", "1", "-plugin", &plugin]).arg(&self.program).args(["trace", case, seed]);
        let out = qemu.env("VESICA_CPU", backend).output().map_err(|e| format!("setarch: {e}"))?;
        match out.status.success() {
            true => Ok(()),
            false => Err(format!("under qemu: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr))),
        }
    }
}

/// What the plugin says of a run.
struct Trace {
    executed: u64,
    /// The first line: instructions, and the sum of the trace.
    same: String,
    divisions: Vec<String>,
}

impl Trace {
    fn read(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut lines = text.lines().map(str::to_owned);
        let same = lines.next().unwrap_or_default();
        let executed = same.split(' ').next().and_then(|word| word.parse().ok()).filter(|executed| *executed > 0);
        let executed = executed.ok_or_else(|| format!("{}: no instruction was traced", file.display()))?;
        Ok(Self { executed, same, divisions: lines.collect() })
    }
}

/// The bit of an address in a trace; places of instructions have it clear.
const ADDRESS: u64 = 1 << 63;

/// Where two traces part, in words: the function, and whether it was an address or the next instruction. `names` has a place and its function
/// in each line.
fn parting(a: &[u8], b: &[u8], names: &str) -> String {
    let words =
        |bytes: &[u8]| -> Vec<u64> { bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect() };
    let (a, b) = (words(a), words(b));
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let place = a[..same].iter().rev().find(|word| *word & ADDRESS == 0);
    let named = |place: &u64| names.lines().find_map(|line| line.strip_prefix(&format!("{place} ")));
    let function = place.and_then(named).unwrap_or("?");
    match a.get(same).is_some_and(|word| word & ADDRESS != 0) {
        true => format!("an address depends on a secret in {function}"),
        false => format!("a branch depends on a secret in {function}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_part_at_a_branch_or_at_an_address_of_a_function() {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let names = "16 f\n20 g\n24 h\n";
        let parted = |a: &[u64], b: &[u64]| parting(&bytes(a), &bytes(b), names);
        assert_eq!(parted(&[16, 20, 24], &[16, 20, 28]), "a branch depends on a secret in g");
        assert_eq!(parted(&[16, 20], &[16, 20, 24]), "a branch depends on a secret in g");
        assert_eq!(parted(&[16, ADDRESS | 8, 20], &[16, ADDRESS | 9, 20]), "an address depends on a secret in f");
        assert_eq!(parted(&[16], &[20]), "a branch depends on a secret in ?");
    }
}
