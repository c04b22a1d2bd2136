//! What phases cost, and telling the watcher and the peer where the run stands.
//!
//! Durations that are reported come from here and from `trace.rs`, and are the system's. Other files look at a clock only to
//! wait, for a peer or for a link that broke, and ask the [`World`](crate::world::World) of the run.

use crate::meet::peers::Peers;
use crate::tell::control::{Control, Event};
use crate::tell::report::{Costs, StepCost};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};
use vesica_net::{SystemClock, Time};
use vesica_session::Meter;

/// Measures a run's phases.
pub struct Clock<'a> {
    ctl: &'a Control,
    start: Instant,
    waited: Duration,
    costs: Costs,
}

/// What went to the peers and came from them so far, and how long lines waited for it.
#[derive(Default)]
struct Passed {
    sent: u64,
    received: u64,
    waited: Duration,
}

/// Totals of a run.
pub struct Times {
    /// Since the start.
    pub wall: Duration,
    /// Of it, waiting for the peer to come.
    pub waited: Duration,
    /// CPU time of the process.
    pub cpu: Duration,
    /// The most memory that the process held, in bytes.
    pub peak_memory: u64,
}

/// Ends the thread that tells how far the peers are.
struct Ending<'a> {
    over: &'a AtomicBool,
    telling: &'a Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.telling.unpark();
    }
}

impl<'a> Clock<'a> {
    /// Starts now.
    pub fn start(ctl: &'a Control) -> Self {
        Self { ctl, start: SystemClock.now(), waited: Duration::ZERO, costs: Costs::default() }
    }

    /// What the run is called, as a report has it.
    pub fn run(&self) -> Option<String> {
        self.ctl.run().map(|run| run.to_string())
    }

    /// Runs a phase that no peer takes part in.
    pub fn phase<T, E>(
        &mut self,
        name: &'static str,
        of: &'static str,
        total: Option<u64>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.measure(name, of, total, Passed::default, work)
    }

    /// Runs the phase in which the peer is waited for.
    pub fn wait<T, E>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let start = SystemClock.now();
        let waited = || Passed { waited: SystemClock.since(start), ..Passed::default() };
        let result = self.measure(name, "", None, waited, work);
        self.waited += SystemClock.since(start);
        result
    }

    /// Runs a phase while the peers are there: they hear of it at once, and the watcher hears of them.
    pub fn follow<T, E>(
        &mut self,
        peers: &Peers,
        name: &'static str,
        of: &'static str,
        total: Option<u64>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        // The number of units is agreed on. How many rows a table has is nobody else's business.
        peers.set_progress(name, 0, total.filter(|_| of == "units"));
        let ctl = self.ctl;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let telling = scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    std::thread::park_timeout(Duration::from_secs(1));
                    for link in peers.links() {
                        let Some(p) = link.peer_progress() else { continue };
                        let name = link.peer().name().to_owned();
                        ctl.event(Event::Peer { name, phase: p.phase, done: p.done, total: p.total, age: p.age });
                    }
                }
            });
            let passed = || {
                let traffic = peers.traffic();
                Passed { sent: traffic.sent, received: traffic.received, waited: peers.waited() }
            };
            // Also if `work` panics, which the scope would not tell before the thread has ended.
            let _end = Ending { over: &over, telling: telling.thread() };
            self.measure(name, of, total, passed, work)
        })
    }

    fn measure<T, E>(
        &mut self,
        name: &'static str,
        of: &'static str,
        total: Option<u64>,
        passed: impl Fn() -> Passed,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.ctl.event(Event::Phase { name, of, total });
        let (start, cpu, before) = (SystemClock.now(), process().0, passed());
        let result = work();
        let (wall, cpu, after) = (SystemClock.since(start), process().0.saturating_sub(cpu), passed());
        let (sent, received) = (after.sent - before.sent, after.received - before.received);
        self.costs.phase(StepCost {
            phase: name.to_owned(),
            step: name.to_owned(),
            began_s: Some(start.duration_since(self.start).as_secs_f64()),
            wall_s: wall.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            waited_s: after.waited.saturating_sub(before.waited).as_secs_f64(),
            sent,
            received,
            rounds: 0,
        });
        if result.is_ok() {
            self.ctl.event(Event::PhaseEnd { name, of, wall, bytes: (sent, received) });
        }
        result
    }

    /// The last attempt to meet ended before the run began: somebody only checked the job, or a connection broke.
    pub fn unmet(&mut self) {
        self.costs.unmet();
    }

    /// Adds the steps of a phase that ended.
    pub fn steps(&mut self, phase: &'static str, meter: &Meter) {
        self.costs.steps(phase, meter);
    }

    /// Ends: every cost, and the totals.
    pub fn close(&mut self) -> (Vec<StepCost>, Times) {
        let (cpu, peak_memory) = process();
        let times = Times { wall: SystemClock.since(self.start), waited: self.waited, cpu, peak_memory };
        (std::mem::take(&mut self.costs).close(), times)
    }
}

/// CPU time of this process so far, and the most memory that it held, in bytes.
///
/// The system's own count of the most memory is not taken where there is a better one: it begins with what the process had that started this
/// one. Example: a program with 1 GiB starts `vesica`, which needs 20 MiB; then that count is 1 GiB.
fn process() -> (Duration, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return (Duration::ZERO, 0) };
    // The fields have other widths on other systems.
    let time = |t: nix::sys::time::TimeVal| Duration::from_micros(t.num_microseconds().unsigned_abs());
    let cpu = time(usage.user_time()) + time(usage.system_time());
    // Linux counts kilobytes, macOS bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    (cpu, high_water(&status).unwrap_or(usage.max_rss().unsigned_abs() * unit))
}

/// The most memory that Linux's `/proc/self/status` tells of, in bytes: of this program alone.
fn high_water(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kilobytes.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_memory_is_read_where_the_system_tells_it() {
        assert_eq!(high_water("VmPeak:\t    3896 kB\nVmHWM:\t    2084 kB\nVmRSS:\t    100 kB\n"), Some(2084 << 10));
        assert_eq!(high_water("VmRSS:\t    100 kB\n"), None);
        assert_eq!(high_water("VmHWM:\t    many kB\n"), None);
        assert_eq!(high_water("VmHWM:\t    18446744073709551615 kB\n"), None);
        assert!(process().1 > 1 << 20);
    }
}
