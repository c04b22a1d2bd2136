//! The cases: each runs one kernel on secrets, once.

mod blocks;
mod curves;
mod jobs;
mod lattice;
mod seals;
mod seeded;
mod stores;
mod transfers;

use crate::watch::Watch;

/// How the names of the cases begin whose leak must be found.
pub const SEEDED: &str = "seeded/";

/// What runs a kernel on the secrets of a [`Watch`].
pub struct Case {
    /// Its folder and name, as in `curve25519/multiply`.
    pub name: String,
    /// The kernel.
    pub run: fn(&mut Watch),
    /// Whether its time must not depend on its secrets: it draws nothing anew, and no other thread has a part in it.
    pub timed: bool,
}

impl Case {
    fn new(name: impl Into<String>, run: fn(&mut Watch)) -> Self {
        Self { name: name.into(), run, timed: false }
    }

    fn timed(name: impl Into<String>, run: fn(&mut Watch)) -> Self {
        Self { timed: true, ..Self::new(name, run) }
    }

    /// Whether its trace says something: it is to be the same for all secrets, or, where there is a leak on purpose, must not be.
    pub fn traced(&self) -> bool {
        self.timed || self.name.starts_with(SEEDED)
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    [
        seeded::cases(),
        blocks::cases(),
        curves::cases(),
        transfers::cases(),
        stores::cases(),
        lattice::cases(),
        seals::cases(),
        jobs::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
