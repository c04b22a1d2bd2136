//! What a run sees of time, as an argument: the system's clocks, or a clock that a test moves.

use std::fmt::Debug;
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

    /// Lets `span` pass, or less if `stop` becomes true: that is looked at now and then, and at once when the thread is unparked.
    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool);
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

    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool) {
        let began = Instant::now();
        while let Some(left) = span.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            if stop() {
                return;
            }
            std::thread::park_timeout(left.min(LOOK));
        }
    }
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
    }
}
