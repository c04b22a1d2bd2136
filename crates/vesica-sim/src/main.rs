//! `vesica-sim [SEED] [COUNT]`: plays the cases of so many seeds from this one on. Without a count, one seed, in words.

#[cfg(target_os = "linux")]
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use vesica_sim::case::Kind;
use vesica_sim::{Played, kind, play};

const HELP: &str = "vesica-sim [--kind KIND] [SEED] [COUNT]: plays so many seeds, or one seed in words; --long until ten fail, --first until one does";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let long = args.iter().position(|arg| arg == "--long").map(|at| args.remove(at)).is_some();
    let first = args.iter().position(|arg| arg == "--first").map(|at| args.remove(at)).is_some();
    let most = if first { 1 } else { 10 };
    let only =
        args.iter().position(|arg| arg == "--kind").map(|at| args.drain(at..(at + 2).min(args.len())).next_back());
    let only = only.flatten().map(|name| Kind::ALL.into_iter().find(|kind| format!("{kind:?}").to_lowercase() == name));
    let numbers: Result<Vec<u64>, _> = args.iter().map(|arg| arg.parse()).collect();
    let (Ok(numbers), None | Some(Some(_))) = (numbers, only) else {
        say(HELP);
        return ExitCode::FAILURE;
    };
    let only = only.flatten();
    let fits = |seed: u64| only.is_none_or(|only| only == kind(seed));
    match numbers[..] {
        [] if long => all(0, u64::MAX, (&fits, most)),
        [seed] if long => all(seed, u64::MAX, (&fits, most)),
        [] => all(0, 1000, (&fits, most)),
        [seed] => one(seed),
        [seed, count] => all(seed, count, (&fits, most)),
        _ => {
            say(HELP);
            ExitCode::FAILURE
        }
    }
}

fn say(what: &str) {
    // Whoever closed the output wants no more.
    let _ = writeln!(std::io::stdout(), "{what}");
}

/// A seed, in words.
fn one(seed: u64) -> ExitCode {
    let played = play(seed, true, true);
    played.trace.words().iter().for_each(|line| say(line));
    say(&format!(
        "{:?}, {} steps, answered {:?}, refused: {}, trace {}",
        played.kind,
        played.steps,
        played.answered,
        played.refused,
        played.trace.all()
    ));
    // What fails only when it is played again is to be seen here too.
    let failed = if played.failures.is_empty() { wrong(seed).1 } else { played.failures };
    failed.iter().for_each(|failure| say(&format!("FAILED: {failure}")));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a seed is played again, and without common keys.
fn is_compared(seed: u64) -> bool {
    match kind(seed) {
        Kind::Service | Kind::Three => (seed / 16).is_multiple_of(2),
        _ => seed.is_multiple_of(4),
    }
}

/// What is wrong with a seed, if something is: its case, and sometimes the same again and the same without common keys.
fn wrong(seed: u64) -> (Played, Vec<String>) {
    let played = play(seed, true, false);
    let mut wrong = played.failures.clone();
    if wrong.is_empty() && is_compared(seed) {
        if play(seed, true, false).trace.all() != played.trace.all() {
            wrong.push("the same seed went another way".to_owned());
        }
        let other = play(seed, false, false);
        if other.failures.is_empty() && other.trace.shown() != played.trace.shown() {
            wrong.push("what the parties show each other depends on which keys are common".to_owned());
        }
        wrong.extend(other.failures.into_iter().map(|failure| format!("without common keys: {failure}")));
    }
    (played, wrong)
}

/// Keeps this thread, and all that it starts, on one of the cores that it may use, the one of this number. Of the threads of a case one
/// goes on at a time, and waking the next one on another core takes several times as long.
#[cfg(target_os = "linux")]
fn stay_on(number: usize) {
    let this = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(this) else { return };
    let mut cores = (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false));
    let mut one = CpuSet::new();
    if cores.nth(number).is_some_and(|core| one.set(core).is_ok()) {
        // Where that is not allowed, it is slower.
        let _ = sched_setaffinity(this, &one);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_on(_: usize) {}

fn all(first: u64, count: u64, (fits, most): (&(dyn Fn(u64) -> bool + Sync), usize)) -> ExitCode {
    let next = AtomicU64::new(0);
    let found = Mutex::new((0_u64, 0_u64, 0_u64, Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (next, found) = (&next, &found);
            scope.spawn(move || {
                stay_on(number);
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || found.lock().unwrap_or_else(PoisonError::into_inner).3.len() >= most {
                        return;
                    }
                    let seed = first.wrapping_add(at);
                    if !fits(seed) {
                        continue;
                    }
                    let (played, wrong) = wrong(seed);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.0 += 1;
                    found.1 += played.steps;
                    found.2 += u64::from(played.refused);
                    if !wrong.is_empty() {
                        say(&format!("seed {seed}: {:?}: {}", played.kind, wrong.join("\n  ")));
                        found.3.push(seed);
                    }
                }
            });
        }
    });
    let (seeds, steps, refused, bad) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    say(&format!(
        "{seeds} seeds, {steps} steps, {refused} of them came to a limit of what is answered, {} failed",
        bad.len()
    ));
    match bad.first() {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            say(&format!("to see one in words: cargo xtask sim {seed}"));
            ExitCode::FAILURE
        }
    }
}
