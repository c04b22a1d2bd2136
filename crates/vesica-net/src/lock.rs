//! Locking that survives a panic of another thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks, whatever happened to others who held the lock: what it guards is whole between any two statements that could
/// panic, and a peer's bytes reach none of them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(signal: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    signal.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// The same, and no longer than `limit`.
pub(crate) fn wait_for<'a, T>(signal: &Condvar, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
    signal.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
}
