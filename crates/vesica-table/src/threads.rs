//! Work that several threads do by turns.

/// Runs `work` on so many threads, this one among them; the first error, if there is one.
///
/// # Errors
/// Those of `work`.
///
/// # Panics
/// If `work` does.
pub fn on_threads<E: Send>(threads: usize, work: impl Fn() -> Result<(), E> + Sync) -> Result<(), E> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        others.into_iter().fold(work(), |result, other| result.and(other.join().expect("no worker panics")))
    })
}
