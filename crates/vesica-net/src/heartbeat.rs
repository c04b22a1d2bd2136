//! That this side lives, said once a second; and whether the other side does.

use crate::Control;
use crate::lock::lock;
use crate::shared::Shared;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vesica_session::Error;

/// How long a peer may say nothing before it counts as dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// Runs until the link is dead.
///
/// Silence is counted in ticks of this thread, not read off the clock: if this whole process was stopped for a minute (a
/// closed laptop, a debugger), the peer's words of that minute wait in the socket, and it must not be called silent.
pub(crate) fn beat(shared: &Shared, control: &dyn Control) {
    let limit = shared.silence;
    let tick = (limit / 10).min(Duration::from_millis(100));
    let period = (limit / 4).min(Duration::from_secs(1));
    let (mut last, mut silent, mut unsaid) = (Instant::now(), Duration::ZERO, period);
    loop {
        let mut state = lock(&shared.state);
        if !state.dead {
            state = shared.tick.wait_timeout(state, tick).map_or_else(|e| e.into_inner().0, |(state, _)| state);
        }
        if state.dead {
            return;
        }
        let passed = last.elapsed();
        last = Instant::now();
        unsaid += passed;
        if unsaid >= period {
            unsaid = Duration::ZERO;
            state.ping = true;
            shared.wake_writer(&mut state);
        }
        let overdue = state.deadline.is_some_and(|deadline| last >= deadline);
        let asked = state.cancelled;
        drop(state);

        if overdue {
            shared.kill();
            return;
        }
        silent =
            if shared.heard.swap(false, Ordering::Relaxed) { Duration::ZERO } else { silent + passed.min(5 * tick) };
        if silent >= limit {
            let phase = shared.phase().map(|phase| format!(" in phase {phase}")).unwrap_or_default();
            shared.fail(Error::Net {
                peer: shared.peer.clone(),
                why: format!(
                    "silent for {} s{phase}; its process is stopped or the network between is down",
                    limit.as_secs_f32()
                ),
            });
            return;
        }
        if !asked && control.cancelled() {
            shared.cancel();
        }
    }
}
