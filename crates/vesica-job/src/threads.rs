//! How many threads work on a table.

/// Threads for work that waits for nothing: no more than there are cores, whatever units are in flight.
pub fn cores(workers: u32) -> usize {
    (workers as usize).min(std::thread::available_parallelism().map_or(1, usize::from))
}
