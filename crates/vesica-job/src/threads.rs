//! Work that several threads do by turns.

use crate::error::JobError;

/// Threads for work that waits for nothing: no more than there are cores, whatever units are in flight.
pub fn cores(workers: u32) -> usize {
    (workers as usize).min(std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs `work` on so many threads, this one among them; the first error, if there is one.
pub fn on_threads(threads: usize, work: impl Fn() -> Result<(), JobError> + Sync) -> Result<(), JobError> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        others.into_iter().fold(work(), |result, other| result.and(other.join().expect("no worker panics")))
    })
}
