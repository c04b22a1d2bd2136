//! Tests that run beside each other: as many programs at a time as there are cores.
//!
//! Example: one test of `vesica-table` takes half a minute by itself after all others of its program have ended. Cargo runs one program
//! after another, so all cores but one would wait for it. Here the next program of tests runs meanwhile.

use crate::{Chore, root, say};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A program, and how it is told to run.
pub struct Task {
    shown: String,
    command: Command,
}

impl Task {
    /// A program of tests, in the folder of its package.
    pub fn test(program: PathBuf, folder: PathBuf) -> Self {
        let shown = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        // Many tests wait, for a peer that has died or a patience that ends: three at once for each core.
        command.current_dir(folder).env("RUST_TEST_THREADS", "3");
        Self { shown, command }
    }

    /// Of a program of tests those whose names have one of these words.
    pub fn only(mut self, words: &[&str]) -> Self {
        self.shown = format!("{} {}", self.shown, words.join(" "));
        self.command.args(words);
        self
    }

    /// On this instruction set.
    pub fn on(mut self, cpu: &str) -> Self {
        self.shown = format!("VESICA_CPU={cpu} {}", self.shown);
        self.command.env("VESICA_CPU", cpu);
        self
    }

    /// Cargo, in the workspace's folder.
    pub fn cargo(args: &[&str]) -> Self {
        let mut command = Command::new("cargo");
        command.args(args).current_dir(root());
        Self { shown: format!("cargo {}", args.join(" ")), command }
    }

    /// Runs it, and passes on what it prints line by line, so that what hangs is the last that was told.
    fn run(mut self) -> Chore {
        let shown = self.shown;
        say(&format!("> {shown}"));
        let started = self.command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("{shown}: {error}"))?;
        let mut lines = Vec::new();
        for line in
            child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n')).map_while(Result::ok)
        {
            let line = String::from_utf8_lossy(&line).into_owned();
            say(&line);
            lines.push(line);
        }
        let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
        if status.success() {
            return Ok(());
        }
        // Lines of two programs stand among each other above: what failed is told once more by itself.
        let failures = lines.iter().position(|line| line == "failures:").unwrap_or_default();
        Err(format!("{}\n{shown}: {status}", lines[failures..].join("\n")))
    }
}

/// Runs all of them, whatever fails, in this order.
///
/// # Errors
/// What those say that failed.
pub fn run(tasks: Vec<Task>) -> Chore {
    let (tasks, failed) = (Mutex::new(tasks.into_iter()), Mutex::new(Vec::new()));
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(task) = next() {
            if let Err(why) = task.run() {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(why);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Task {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Task { shown: script.to_owned(), command }
    }

    #[test]
    fn all_run_whatever_fails_and_failures_are_told_by_themselves() {
        let folder = std::env::temp_dir().join(format!("vesica-abreast-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let marked = |name: &str| format!("touch {}", folder.join(name).display());
        let fails = format!("{}; echo test a ... FAILED; echo failures:; echo it is two; exit 3", marked("1"));
        let all = vec![shell(&fails), shell("exit 4"), shell(&marked("2")), shell(&marked("3"))];
        let told = run(all).unwrap_err();
        assert!(told.contains("\n\nfailures:\nit is two\n") || told.starts_with("failures:\nit is two\n"), "{told}");
        assert!(told.contains("exit status: 3") && told.contains("exit 4: exit status: 4"), "{told}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
        std::fs::remove_dir_all(&folder).unwrap();
        run(vec![shell("exit 0")]).unwrap();
    }
}
