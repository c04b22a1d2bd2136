//! The log of changes: what happened to the records since the hint of an epoch was made, so that a client with that hint need not copy a
//! new one.
//!
//! ```text
//! bytes     what, for each change
//! 32        a salt, by which groups were drawn and values sealed
//! 4         n: how many groups of keys were drawn anew
//! 4         m: bytes of the patch
//! 5·n       for each of them its number, and how many seeds failed
//! m         the patch of the hint, as `vesica_pir` reads it
//! ```
//!
//! Numbers are little-endian. A log only grows, so a client that has its beginning copies the rest. The first change leads from the epoch
//! whose hint it is to the next one, and so on.

use super::body_bytes;
use super::epoch::Epoch;
use crate::offer::Offer;
use vesica_pir::keyword::{Drawn, Filter};
use vesica_pir::{PirError, Shape};

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// What groups were drawn by, and the values in them sealed under.
    pub salt: [u8; 32],
    /// Groups that were drawn anew, and how many seeds failed for each.
    pub drawn: Vec<(u32, u8)>,
    /// The patch of the hint.
    pub patch: &'a [u8],
}

impl Entry<'_> {
    /// Bytes in a log, of an entry with so many groups and a patch of so many bytes.
    pub fn bytes(groups: usize, patch: u64) -> u64 {
        32 + 8 + 5 * groups as u64 + patch
    }

    /// Appends it to a log.
    pub fn append(&self, log: &mut Vec<u8>) {
        log.extend_from_slice(&self.salt);
        log.extend_from_slice(&(self.drawn.len() as u32).to_le_bytes());
        log.extend_from_slice(&(self.patch.len() as u32).to_le_bytes());
        for (group, tries) in &self.drawn {
            log.extend_from_slice(&group.to_le_bytes());
            log.push(*tries);
        }
        log.extend_from_slice(self.patch);
    }
}

/// The changes in a log; none if it is no log.
pub fn entries(mut log: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !log.is_empty() {
        let (salt, rest) = log.split_first_chunk::<32>()?;
        let (counts, rest) = rest.split_first_chunk::<8>()?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| counts[at + i])) as usize;
        let (drawn, rest) = rest.split_at_checked(number(0).checked_mul(5)?)?;
        let (patch, rest) = rest.split_at_checked(number(4))?;
        let group = |five: &[u8; 5]| (u32::from_le_bytes([five[0], five[1], five[2], five[3]]), five[4]);
        entries.push(Entry { salt: *salt, drawn: drawn.as_chunks().0.iter().map(group).collect(), patch });
        log = rest;
    }
    Some(entries)
}

/// The filter of an epoch, where keys stand in one. `tries` stands behind the hint of the base.
///
/// # Errors
/// If these do not belong together.
pub fn filter(
    (offer, epoch): (&Offer, &Epoch),
    shape: &Shape,
    tries: &[u8],
    changes: &[Entry<'_>],
) -> Result<Filter, PirError> {
    let mut filter = Filter::new(shape, body_bytes(offer), epoch.seed(), epoch.sealed(), tries)?;
    for Entry { salt, drawn, .. } in changes {
        for &(group, tries) in drawn {
            filter.follow(group as usize, Drawn { salt: *salt, tries })?;
        }
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_is_written() {
        let (mut log, all) = (
            Vec::new(),
            [
                Entry { salt: [1; 32], drawn: vec![(3, 1), (70_000, 63)], patch: b"patch" },
                Entry { salt: [2; 32], drawn: Vec::new(), patch: b"" },
                Entry { salt: [3; 32], drawn: vec![(0, 0)], patch: b"another" },
            ],
        );
        all.iter().for_each(|entry| entry.append(&mut log));
        let bytes = |entry: &Entry<'_>| Entry::bytes(entry.drawn.len(), entry.patch.len() as u64);
        assert_eq!(all.iter().map(bytes).sum::<u64>(), log.len() as u64);
        assert_eq!(entries(&log).unwrap(), all);
        assert!(entries(&[]).unwrap().is_empty());
        // Cut anywhere but between changes, it is none.
        let whole = [0, 32 + 8 + 10 + 5, 2 * 40 + 10 + 5, log.len()];
        for end in (0..log.len()).filter(|end| !whole.contains(end)) {
            assert!(entries(&log[..end]).is_none(), "{end}");
        }
        assert!(entries(&[0xff; 60]).is_none());
    }
}
