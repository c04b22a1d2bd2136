//! Why a client may not ask now, in words that its program reads as well as its user.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

/// Why a client may not ask for so many keys now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// Its day has so many keys left.
    Day {
        /// How many it may ask about today.
        left: u64,
        /// When there are more.
        again: SystemTime,
    },
    /// The life of the service's key has fewer keys left, for all clients together. How many is what others asked for, so it is not said, and
    /// a client that tries it out by asking for fewer and fewer hears the same until its day is over.
    Life,
    /// It asks too often.
    Minute {
        /// How long to wait.
        wait: Duration,
    },
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exhausted::Day { left, again } => write!(f, "{left}{DAY}{}", spelled(seconds(*again))),
            Exhausted::Life => write!(
                f,
                "too few are left of the keys that all clients together may ask about under the service's key; ask its operator for a new one. \
                 This client is granted nothing more today"
            ),
            Exhausted::Minute { wait } => {
                write!(f, "{TOO_OFTEN}{} s", wait.as_secs_f64().ceil())
            }
        }
    }
}

/// What stands behind the number of keys that are left of a day.
const DAY: &str = " keys are left of this client's day; ask about no more than that, or after ";

/// What stands before a number of seconds.
const TOO_OFTEN: &str = "this client asks too often; ask again in ";

/// What a client can do that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Ask about no more keys than this.
    Fewer(u64),
    /// Ask again after this time.
    Wait(Duration),
}

/// What a client can do, by the words of a refusal; none if they are others.
pub fn remedy(why: &str) -> Option<Remedy> {
    if let Some((left, _)) = why.split_once(DAY) {
        return left.parse().ok().map(Remedy::Fewer);
    }
    let seconds = why.strip_prefix(TOO_OFTEN)?.strip_suffix(" s")?.parse().ok()?;
    // Each minute has a request at least. A server that says more would have this side wait for nothing.
    (seconds <= 60).then(|| Remedy::Wait(Duration::from_secs(seconds)))
}

/// How often a client asks that was told that it asks too often: a server ends the connection of one that is told so again and again.
pub struct Pace {
    /// When the last request was made that was granted.
    last: Instant,
    /// From that one to the next.
    pause: Duration,
    due: Instant,
}

impl Pace {
    /// Nothing is known yet of how often one may ask.
    pub fn new(now: Instant) -> Self {
        Self { last: now, pause: Duration::ZERO, due: now }
    }

    /// How long to wait with the next request.
    pub fn left(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// A request that was made at a moment was granted.
    pub fn granted(&mut self, begun: Instant) {
        (self.last, self.due) = (begun, begun + self.pause);
    }

    /// A request was refused now, and is to be made again after `wait`.
    pub fn refused(&mut self, now: Instant, wait: Duration) {
        self.pause = self.pause.max(now.saturating_duration_since(self.last) + wait);
        self.due = now + wait;
    }
}

/// Seconds since 1970, and none before that.
pub fn seconds(wall: SystemTime) -> i64 {
    wall.duration_since(SystemTime::UNIX_EPOCH).map_or(0, whole_seconds)
}

pub fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// A moment as people write it, in UTC. What comes after the year 9999 is its end.
pub fn spelled(seconds: i64) -> impl fmt::Display {
    let seconds = u64::try_from(seconds).unwrap_or(0).min(253_402_300_799);
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
