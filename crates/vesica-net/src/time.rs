//! What a run sees of time, as an argument: the system's clocks, or a clock that a test moves.

use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

/// The longest pause between two looks at the condition that ends a sleep.
const LOOK: Duration = Duration::from_millis(50);

/// A clock, and a way to let time pass.
///
/// Code that waits, counts patience or compares moments asks here and nowhere else, so that a test can run hours in a second and
/// repeat them.
pub trait Time: Debug + Send + Sync {
    /// A moment on a clock that never goes back.
    fn now(&self) -> Instant;

    /// The date, which may jump both ways.
    fn wall(&self) -> SystemTime;

    /// Which start of the machine this is, and how long ago that was; none if the system does not say.
    fn boot(&self) -> Option<Boot>;

    /// Lets `span` pass, or less if `stop` becomes true: that is looked at now and then, and at once when the thread is unparked.
    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool);

    /// The same, where whoever makes `stop` true calls [`Time::wake`] then. Nobody looks meanwhile.
    fn rest(&self, span: Duration, stop: &dyn Fn() -> bool);

    /// What a thread that [rests](Time::rest) waits for may have come.
    fn wake(&self, thread: &Thread);
}

/// A start of the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boot {
    /// What tells it from others.
    pub name: Box<[u8]>,
    /// The whole seconds since then, times of sleep included. Nobody sets that.
    pub up: Duration,
}

/// The system's clocks.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemClock;

impl SystemClock {
    /// How long ago `began` was: for durations that are only reported.
    pub fn since(self, began: Instant) -> Duration {
        self.now().saturating_duration_since(began)
    }
}

impl Time for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn boot(&self) -> Option<Boot> {
        static BOOT: OnceLock<Option<(Box<[u8]>, File)>> = OnceLock::new();
        let boot = BOOT.get_or_init(|| {
            let name = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
            let uptime = File::open("/proc/uptime").ok()?;
            read_uptime(&uptime)?;
            Some((name.into(), uptime))
        });
        let (name, uptime) = boot.as_ref()?;
        // If it cannot be read, no time has passed.
        Some(Boot { name: name.clone(), up: read_uptime(uptime).unwrap_or_default() })
    }

    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool) {
        park(span, LOOK, stop);
    }

    fn rest(&self, span: Duration, stop: &dyn Fn() -> bool) {
        park(span, span, stop);
    }

    fn wake(&self, thread: &Thread) {
        thread.unpark();
    }
}

/// Lets `span` pass in pieces of `look` at most, between which `stop` may end it.
fn park(span: Duration, look: Duration, stop: &dyn Fn() -> bool) {
    let began = Instant::now();
    while let Some(left) = span.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if stop() {
            return;
        }
        std::thread::park_timeout(left.min(look));
    }
}

/// The whole seconds since the machine was started.
fn read_uptime(uptime: &File) -> Option<Duration> {
    let mut bytes = [0; 64];
    let length = uptime.read_at(&mut bytes, 0).ok()?;
    let (seconds, _) = std::str::from_utf8(bytes.get(..length)?).ok()?.split_once('.')?;
    seconds.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_sleep_takes_its_time_unless_it_is_stopped() {
        let began = Instant::now();
        SystemClock.sleep(Duration::from_millis(120), &|| false);
        assert!(began.elapsed() >= Duration::from_millis(120));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| stop.store(true, Ordering::SeqCst));
            SystemClock.sleep(Duration::from_secs(600), &|| stop.load(Ordering::SeqCst));
        });
        assert!(began.elapsed() < Duration::from_secs(60));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| SystemClock.rest(Duration::from_secs(600), &|| stop.load(Ordering::SeqCst)));
            stop.store(true, Ordering::SeqCst);
            SystemClock.wake(resting.thread());
        });
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
