//! That this side lives, said once a second; and whether the other side does.
//!
//! One thread does this for all links of a meeting or of a service's door. A service has a thousand links that are idle,
//! and a thread for each would wake ten times a second to find nothing to do.

use crate::Control;
use crate::lock::lock;
use crate::shared::Shared;
use crate::spawn::spawn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use vesica_session::Error;

/// How long a peer may say nothing before it counts as dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// The heartbeats of many links. Its thread ends when nobody holds it any more.
pub(crate) struct Pulse {
    control: Arc<dyn Control>,
    links: Mutex<Vec<Beat>>,
    /// How long each peer may say nothing.
    silence: Duration,
}

impl Pulse {
    /// The heartbeats of links whose peers may say nothing for as long as `silence`.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn start(control: Arc<dyn Control>, silence: Duration) -> crate::Result<Arc<Self>> {
        let pulse = Arc::new(Self { control, links: Mutex::default(), silence });
        let weak = Arc::downgrade(&pulse);
        let tick = (silence / 10).min(Duration::from_millis(100));
        spawn("beat", move || {
            let mut last = Instant::now();
            loop {
                std::thread::sleep(tick);
                let Some(pulse) = weak.upgrade() else { return };
                // Silence is counted in ticks of this thread, not read off the clock: if this whole process was stopped for
                // a minute (a closed laptop, a debugger), the peer's words of that minute wait in the socket, and it must
                // not be called silent.
                let now = Instant::now();
                pulse.round(now, now.saturating_duration_since(last), 5 * tick);
                last = now;
            }
        })?;
        Ok(pulse)
    }

    /// Takes care of one link more, until it is dead or dropped.
    pub fn keep(&self, link: &Arc<Shared>) {
        let mut beat = Beat { link: Arc::downgrade(link), silent: Duration::ZERO, unsaid: Duration::ZERO };
        beat.say(link);
        lock(&self.links).push(beat);
    }

    /// Looks at every link: `passed` is the time since the last round, of which at most `counted` counts as silence.
    fn round(&self, now: Instant, passed: Duration, counted: Duration) {
        let cancelled = self.control.cancelled();
        let period = (self.silence / 4).min(Duration::from_secs(1));
        // Nothing is locked while the links are looked at, so that none waits for another to begin.
        let mut links = std::mem::take(&mut *lock(&self.links));
        links.retain_mut(|beat| {
            let Some(link) = beat.link.upgrade() else { return false };
            beat.unsaid += passed;
            if beat.unsaid >= period {
                beat.say(&link);
            }
            beat.silent = match link.heard.swap(false, Ordering::Relaxed) {
                true => Duration::ZERO,
                false => beat.silent + passed.min(counted),
            };
            link.goes_on(now, beat.silent < self.silence, self.silence, cancelled)
        });
        lock(&self.links).append(&mut links);
    }
}

/// One link, as its heartbeat sees it.
struct Beat {
    link: Weak<Shared>,
    /// How long the peer has said nothing, and how long this side.
    silent: Duration,
    unsaid: Duration,
}

impl Beat {
    /// Has the writer say that this side lives.
    fn say(&mut self, link: &Shared) {
        self.unsaid = Duration::ZERO;
        let mut state = lock(&link.state);
        state.ping = true;
        link.wake_writer(&mut state);
    }
}

impl Shared {
    /// Ends the link if its time is over or its peer has been silent for too long; says whether it goes on.
    fn goes_on(&self, now: Instant, heard: bool, silence: Duration, cancelled: bool) -> bool {
        let state = lock(&self.state);
        let overdue = state.deadline.is_some_and(|deadline| now >= deadline);
        let (dead, told) = (state.dead, state.cancelled);
        drop(state);
        if dead {
            return false;
        }
        if overdue {
            self.kill();
            return false;
        }
        if !heard {
            let phase = self.phase().map(|phase| format!(" in phase {phase}")).unwrap_or_default();
            self.fail(Error::Net {
                peer: self.peer.clone(),
                why: format!(
                    "silent for {} s{phase}; its process is stopped or the network between is down",
                    silence.as_secs_f32()
                ),
            });
            return false;
        }
        if cancelled && !told {
            self.cancel();
        }
        true
    }
}
