//! The memory that clients' keys take at a server.
//!
//! A client of `bfv-pir`, `bgv-pir` or `ckks-pir` sends keys before its queries, hundreds of kilobytes to some megabytes, and the server
//! holds them until the last of these queries is answered. Their length follows from the table's public sizes. What all sessions hold
//! together is bounded by `mine.memory`: who comes when that is used up is refused, and may come again.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may be held at once, and those that are.
pub struct Room {
    most: u64,
    held: AtomicU64,
}

/// A part of a [`Room`], which is free again when this is dropped.
pub struct Held<'a>(&'a Room, u64);

impl Room {
    /// Nothing is held.
    pub fn new(most: u64) -> Self {
        Self { most, held: AtomicU64::new(0) }
    }

    /// Room for so many bytes; none if there is not so much left. A session that is alone always has room.
    pub fn take(&self, bytes: u64) -> Option<Held<'_>> {
        let fits = |held: u64| {
            let sum = held.checked_add(bytes)?;
            (held == 0 || bytes == 0 || sum <= self.most).then_some(sum)
        };
        self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).ok()?;
        Some(Held(self, bytes))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(self.1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_held_up_to_the_bound() {
        let room = Room::new(100);
        let (first, second) = (room.take(60), room.take(40));
        assert!(first.is_some() && second.is_some() && room.take(1).is_none() && room.take(0).is_some());
        drop(first);
        assert!(room.take(61).is_none() && room.take(60).is_some());
        drop(second);
        // Who is alone is served, whatever the bound.
        let alone = room.take(101);
        assert!(alone.is_some() && room.take(1).is_none() && room.take(u64::MAX).is_none());
    }
}
