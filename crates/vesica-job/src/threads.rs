//! Work that several threads do by turns.

use crate::error::JobError;

/// Runs `work` on so many threads, this one among them; the first error, if there is one.
pub fn on_threads(threads: usize, work: impl Fn() -> Result<(), JobError> + Sync) -> Result<(), JobError> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        others.into_iter().fold(work(), |result, other| result.and(other.join().expect("no worker panics")))
    })
}
