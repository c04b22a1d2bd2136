//! What differentially private runs have told each peer, over all jobs: a file with a line for each run, to which a run adds its own
//! before it sends anything that its noise hides.
//!
//! The epsilons of runs add up, whatever each of them was about (Dwork, Roth 2014, theorem 3.16): whoever asks often enough averages the
//! noise away. Example: with epsilon = 3 a majority over 36 runs has all of a million answers right with probability one half. A run that goes
//! on after a break has the salt that it began with, sends the same noise again, and is counted once.

use crate::disk::{self, DiskFile, rewrite};
use crate::error::JobError;
use crate::output::part;
use crate::tell::control::Control;
use crate::world::World;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use vesica_spec::{Budget, Plan};

/// How long another run is waited for, which has the file for as long as it takes to add its lines.
const MOMENT: Duration = Duration::from_secs(60);

/// One run: a line of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spent {
    peer: String,
    epsilon: f64,
    job: String,
    /// Names the run: a hash of its salt.
    run: String,
}

/// Sees that there is enough left for a run, before anybody is met: for the one that began with this salt, or for a new one.
///
/// # Errors
/// [`JobError::Budget`]; those of the file, also if another program has it; [`vesica_session::Error::Cancelled`].
pub fn room(plan: &Plan, salt: Option<&[u8; 32]>, world: &World, ctl: &Control) -> Result<(), JobError> {
    let Some(budget) = &plan.budget else { return Ok(()) };
    part::probe("mine.budget.path", &budget.path)?;
    // The first run makes it, when it spends.
    let text = if world.disk.has(&budget.path) { held(budget, world, ctl)?.1 } else { String::new() };
    missing(plan, budget, &read(budget, &text)?, salt).map(drop)
}

/// Spends what the run tells that began with this salt, unless it did so before. On return it is spent for good.
///
/// # Errors
/// As [`room`].
pub fn spend(plan: &Plan, salt: &[u8; 32], world: &World, ctl: &Control) -> Result<(), JobError> {
    let Some(budget) = &plan.budget else { return Ok(()) };
    let (mut file, text) = held(budget, world, ctl)?;
    let missing = missing(plan, budget, &read(budget, &text)?, Some(salt))?;
    // A line whose end was lost is whole, or it would have been refused. It gets an end before another line follows.
    let mut lines = String::from(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
    missing.iter().for_each(|spent| lines += &(serde_json::to_string(spent).expect("a line is plain data") + "\n"));
    // What was found may be on the disk or not: who wrote it may have been killed before the sync, or failed in it. A new file needs its name there
    // too.
    let written = rewrite(&mut *file, 0..text.len() as u64).and_then(|()| file.write_all(lines.as_bytes()));
    let synced = written.and_then(|()| file.sync());
    synced.and_then(|()| world.disk.sync_name(&budget.path)).map_err(|error| failed(budget, error))
}

/// The file, locked as long as it is held, and what it says. So nobody reads a line that another run has half written, or before that one has.
fn held(budget: &Budget, world: &World, ctl: &Control) -> Result<(Box<dyn DiskFile>, String), JobError> {
    let failed = |error| failed(budget, error);
    let mut file = world.disk.open(&budget.path).map_err(failed)?;
    let is_ours = disk::lock(&*file, &*world.time, MOMENT, &|| ctl.is_cancelled()).map_err(failed)?;
    ctl.check()?;
    if !is_ours {
        let why = "another program has had it locked for a minute: run again when the other runs that use it have begun, or see which program holds it";
        return Err(failed(io::Error::other(why)));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok((file, text))
}

/// What has been spent in the file that says `text`.
fn read(budget: &Budget, text: &str) -> Result<Vec<Spent>, JobError> {
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            JobError::Setup(format!(
                "mine.budget: {} line {} is no run of a budget ({error}): if it is the last line and lacks its end, the machine stopped while \
                 it was written and before anything was sent, so remove it; any other line counts what a peer was told, so restore it from a copy",
                budget.path.display(),
                number + 1
            ))
        })
    };
    text.lines().enumerate().map(line).collect()
}

/// The lines that the run with this salt still has to write.
fn missing(plan: &Plan, budget: &Budget, before: &[Spent], salt: Option<&[u8; 32]>) -> Result<Vec<Spent>, JobError> {
    let epsilon = plan.shared.dp.map_or(0.0, |noise| noise.epsilon);
    let run = salt.map_or(String::new(), |salt| {
        blake3::Hash::from(blake3::derive_key("vesica 2026 name of a run in a budget", salt)).to_string()
    });
    let mut lines = Vec::new();
    for peer in &plan.peers {
        let peer = peer.party.name();
        let of_peer = || before.iter().filter(|spent| spent.peer == peer);
        if of_peer().any(|spent| spent.run == run) {
            continue;
        }
        let spent: f64 = of_peer().map(|spent| spent.epsilon).sum();
        // A sum of tenths is not exact.
        if spent + epsilon > budget.epsilon * (1.0 + 1e-9) {
            let (most, path) = (budget.epsilon, budget.path.clone());
            return Err(JobError::Budget { peer: peer.to_owned(), epsilon, spent, most, path });
        }
        lines.push(Spent { peer: peer.to_owned(), epsilon, job: plan.shared.id.clone(), run: run.clone() });
    }
    Ok(lines)
}

fn failed(budget: &Budget, error: io::Error) -> JobError {
    JobError::File { what: "cannot keep the budget", path: budget.path.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frail::Frail;
    use vesica_session::Fault;

    /// Alice's plan, with so much to spend by runs of epsilon 0.1, and the folder of its budget.
    fn plan(most: f64) -> (Plan, tempfile::TempDir, World, Control) {
        let dir = tempfile::tempdir().unwrap();
        let job = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"dp\"\ndp = {{ epsilon = 0.1 }}\nlearns = [\"bob\"]\n\
             insecure = true\n[mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = {{ path = \"a.csv\", keys = [\"id\"] }}\n\
             budget = {{ path = \"{}/budget\", epsilon = {most} }}\n",
            dir.path().display()
        );
        let plan = vesica_spec::plan(&vesica_spec::parse(&job).unwrap()).unwrap();
        (plan, dir, World::default(), Control::new(()))
    }

    #[test]
    fn what_is_spent_is_spent_for_good() {
        let (plan, dir, _, ctl) = plan(0.4);
        let ((world, disk), path) = (Frail::world(1000), dir.path().join("budget"));
        // A process that made the file and could not bring its name to the disk has spent nothing.
        disk.name_fails(&path);
        assert!(spend(&plan, &[1; 32], &world, &ctl).is_err());
        for salt in [1, 2] {
            spend(&plan, &[salt; 32], &world, &ctl).unwrap();
            assert!(disk.is_for_good(&path));
        }
        // Nor has one whose sync failed. The same run finds its line when it goes on, and must not take it for one that is there for good.
        for (salt, is_killed) in [(3, false), (4, true)] {
            disk.sync_fails();
            assert!(spend(&plan, &[salt; 32], &world, &ctl).is_err() && !disk.is_for_good(&path));
            if is_killed {
                // Killed in the middle of what it writes, which is what is there.
                disk.revive(1);
                assert!(spend(&plan, &[salt; 32], &world, &ctl).is_err());
                disk.revive(1000);
            }
            spend(&plan, &[salt; 32], &world, &ctl).unwrap();
            assert!(disk.is_for_good(&path));
        }
        disk.power_fails();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
        assert!(matches!(spend(&plan, &[5; 32], &world, &ctl), Err(JobError::Budget { .. })));
    }

    #[test]
    fn each_run_is_counted_once_and_none_is_begun_beyond_the_budget() {
        let (plan, dir, world, ctl) = plan(0.3);
        room(&plan, None, &world, &ctl).unwrap();
        for salt in [1, 1, 2, 2, 1, 3, 3] {
            room(&plan, Some(&[salt; 32]), &world, &ctl).unwrap();
            spend(&plan, &[salt; 32], &world, &ctl).unwrap();
        }
        let text = std::fs::read_to_string(dir.path().join("budget")).unwrap();
        assert_eq!(text.lines().count(), 3);
        for refused in [
            room(&plan, None, &world, &ctl),
            room(&plan, Some(&[4; 32]), &world, &ctl),
            spend(&plan, &[4; 32], &world, &ctl),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.fault(), Fault::Config);
            assert!(error.to_string().contains("of the 0.3 that mine.budget allows for bob"), "{error}");
        }
        // What was begun may go on, and what is refused leaves nothing behind.
        room(&plan, Some(&[3; 32]), &world, &ctl).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("budget")).unwrap(), text);
    }

    /// Another program has the file locked for long, and somebody presses Ctrl-C.
    #[test]
    fn who_waits_for_the_file_can_be_stopped() {
        let (plan, dir, world, ctl) = plan(0.3);
        spend(&plan, &[1; 32], &world, &ctl).unwrap();
        let path = dir.path().join("budget");
        let text = std::fs::read_to_string(&path).unwrap();
        let other = std::fs::File::open(&path).unwrap();
        other.lock().unwrap();
        let began = std::time::Instant::now();
        std::thread::scope(|scope| {
            let asked =
                [scope.spawn(|| room(&plan, None, &world, &ctl)), scope.spawn(|| spend(&plan, &[2; 32], &world, &ctl))];
            std::thread::sleep(Duration::from_millis(100));
            ctl.cancel();
            for asked in asked {
                let error = asked.join().unwrap().unwrap_err();
                assert!(matches!(error, JobError::Session(vesica_session::Error::Cancelled)), "{error}");
            }
        });
        assert!(began.elapsed() < MOMENT / 2);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        drop(other);
        room(&plan, None, &world, &Control::new(())).unwrap();
    }

    #[test]
    fn what_another_peer_was_told_does_not_count() {
        let (plan, dir, world, ctl) = plan(0.1);
        let line = "{\"peer\":\"carol\",\"epsilon\":9.0,\"job\":\"j\",\"run\":\"\"}\n";
        std::fs::write(dir.path().join("budget"), line).unwrap();
        spend(&plan, &[1; 32], &world, &ctl).unwrap();
        assert!(spend(&plan, &[2; 32], &world, &ctl).is_err());
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let (plan, dir, world, ctl) = plan(9.0);
        spend(&plan, &[1; 32], &world, &ctl).unwrap();
        let torn = std::fs::read_to_string(dir.path().join("budget")).unwrap() + "{\"peer\":\"bo";
        std::fs::write(dir.path().join("budget"), torn).unwrap();
        for refused in [room(&plan, None, &world, &ctl), spend(&plan, &[2; 32], &world, &ctl)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("line 2 is no run"), "{error}");
        }
    }

    /// A machine that stopped while a line was written may have written all of it but its end.
    #[test]
    fn a_line_without_its_end_is_counted_and_none_is_joined_to_it() {
        let (plan, dir, world, ctl) = plan(0.3);
        spend(&plan, &[1; 32], &world, &ctl).unwrap();
        let path = dir.path().join("budget");
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().trim_end()).unwrap();
        // What is counted already only gets its end.
        spend(&plan, &[1; 32], &world, &ctl).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().trim_end()).unwrap();
        for salt in [2, 3] {
            spend(&plan, &[salt; 32], &world, &ctl).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        assert!(matches!(spend(&plan, &[4; 32], &world, &ctl), Err(JobError::Budget { .. })));
    }
}
