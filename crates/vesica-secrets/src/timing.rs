//! Whether the time of a kernel depends on its secrets, as in O. Reparaz, J. Balasch, I. Verbauwhede, "Dude, is my code constant time?",
//! DATE 2017: Welch's t between secrets that are zeros and random ones, in random order, without the slowest runs. A leak makes |t| grow
//! with the number of runs; noise does not.

use crate::cases::{Case, SEEDED};
use crate::watch::Watch;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vesica_cpu::Backend;

/// Runs of a case, of both kinds together.
const RUNS: usize = 1_000_000;

/// A case ends before that when it took so long, and has [`FEWEST`] runs: a batch on a curve takes up to some milliseconds.
const LONGEST: Duration = Duration::from_secs(20);

/// With fewer runs nothing is said.
const FEWEST: usize = 10_000;

/// Runs before the first one that counts.
const WARM: u64 = 100;

/// The shares of the fastest runs that are compared, in hundredths: what a neighbour on the machine disturbs is slow.
const KEPT: [usize; 2] = [90, 50];

/// |t| from which a case has a leak, and from which it is to be looked at: a t of 4.5 comes by chance once in 10^5 cases.
const LEAK: f64 = 10.0;
const SUSPICIOUS: f64 = 4.5;

/// Measures all cases that are timed, or those whose names begin with one of `names`; fails for a leak, and for a seeded one that is not found.
#[expect(clippy::print_stdout, reason = "what was measured")]
pub fn all(cases: &[Case], names: &[&str]) -> ExitCode {
    let wanted =
        |case: &&Case| case.timed && (names.is_empty() || names.iter().any(|name| case.name.starts_with(name)));
    let mut wrong = 0;
    for case in cases.iter().filter(wanted) {
        let seeded = case.name.starts_with(SEEDED);
        let Measured { t, runs, means } = measure(case);
        let verdict = match (t >= LEAK, seeded) {
            (true, true) => "the seeded leak is found",
            (false, true) => "THE SEEDED LEAK IS NOT FOUND",
            (true, false) => "A LEAK",
            (false, false) if t >= SUSPICIOUS => "suspicious: run it again",
            (false, false) => "no leak seen",
        };
        wrong += usize::from((t >= LEAK) != seeded);
        let [zeros, random] = means;
        let name = format!("{} on {}", case.name, Backend::chosen());
        println!("{name:40} |t| = {t:6.1}  {runs:7} runs  {zeros:9.0} and {random:9.0} ns  {verdict}");
        if runs < FEWEST {
            println!("{name}: {runs} runs are too few to say anything");
            wrong += 1;
        }
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Measured {
    /// |t|: the largest of those of [`KEPT`].
    t: f64,
    runs: usize,
    /// Of all runs: with zeros, and with random secrets, in ns.
    means: [f64; 2],
}

fn measure(case: &Case) -> Measured {
    let mut classes = blake3::Hasher::new().update(case.name.as_bytes()).finalize_xof();
    let mut times: Vec<(u32, bool)> = Vec::new();
    let start = Instant::now();
    for seed in 0..RUNS as u64 + WARM {
        let mut class = [0];
        classes.fill(&mut class);
        // Zeros and random bytes come from the same instructions.
        let mask = black_box(class[0] & 1).wrapping_neg();
        let mut watch = Watch::new(seed, mask);
        (case.run)(&mut watch);
        if seed >= WARM {
            times.push((u32::try_from(watch.time.as_nanos()).unwrap_or(u32::MAX), mask == 0));
        }
        if seed % 64 == 0 && times.len() >= FEWEST && start.elapsed() > LONGEST {
            break;
        }
    }
    let runs = times.len();
    let means = [true, false].map(|class| mean(&times, class).0);
    times.sort_unstable();
    let t = KEPT.map(|kept| {
        // Runs that took as long are kept or left out together, whichever secrets they had.
        let slowest = times[runs * kept / 100].0;
        welch(&times[..times.partition_point(|time| time.0 <= slowest)])
    });
    Measured { t: t[0].abs().max(t[1].abs()), runs, means }
}

/// The mean of a class, its variance divided by how many runs it has.
fn mean(times: &[(u32, bool)], class: bool) -> (f64, f64) {
    let of = || times.iter().filter(|time| time.1 == class).map(|time| f64::from(time.0));
    let n = of().count() as f64;
    let mean = of().sum::<f64>() / n;
    (mean, of().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
}

fn welch(times: &[(u32, bool)]) -> f64 {
    let [(a, of_a), (b, of_b)] = [true, false].map(|class| mean(times, class));
    // All took the same time.
    if a == b { 0.0 } else { (a - b) / (of_a + of_b).sqrt() }
}
