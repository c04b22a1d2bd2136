//! From common keys to rows of the output.

use crate::error::JobError;
use crate::keys::{KeyId, Keys};
use crate::report;
use crate::units::Match;
use std::path::Path;
use vesica_table::Picks;
use vesica_types::RowId;

/// The rows of an output.
pub struct Rows {
    /// Which row of the input stands at which place.
    pub picks: Picks,
    /// Rows of the input that are in the output at all.
    pub distinct: u64,
}

/// The most rows of an output; the same as the most keys a party may bring.
const MOST: u64 = crate::plan::MAX_KEYS;

/// The input's rows whose key is common, once each, in the input's order: what a party that learns alone gets.
///
/// # Errors
/// Those of reading and writing what is spilled.
pub fn semi(keys: &Keys, matches: &[Match], memory: u64, dir: &Path) -> Result<Rows, JobError> {
    let mut wanted: Vec<KeyId> = matches.iter().map(|m| m.key).collect();
    wanted.sort_unstable();
    let mut rows = Vec::new();
    keys.rows_of(&wanted, |_, list| rows.extend(list))?;
    rows.sort_unstable();
    let distinct = rows.len() as u64;
    let mut picks = picks(keys, memory, dir)?;
    for (row, place) in rows.into_iter().zip(0..) {
        picks.push(row, place)?;
    }
    Ok(Rows { picks, distinct })
}

/// An SQL inner join as this party's half of it: a key with m rows here and n there gives m·n rows on either side, and
/// the same place holds the two halves of one joined row. The first party's rows go round slowly, the second's fast.
///
/// # Errors
/// Those of reading and writing what is spilled; an output of an absurd size, which is also what a peer meets that lies
/// about its rows.
pub fn inner(keys: &Keys, matches: &[Match], i_am_first: bool, memory: u64, dir: &Path) -> Result<Rows, JobError> {
    // The places of a key's block depend on the row counts of all keys before it, so gather the rows first.
    let mut wanted: Vec<(KeyId, usize)> = matches.iter().zip(0..).map(|(m, place)| (m.key, place)).collect();
    wanted.sort_unstable();
    let ids: Vec<KeyId> = wanted.iter().map(|&(key, _)| key).collect();
    let mut rows_of: Vec<Vec<RowId>> = vec![Vec::new(); matches.len()];
    keys.rows_of(&ids, |i, list| rows_of[wanted[i].1] = list.collect())?;

    let total: u128 = rows_of.iter().zip(matches).map(|(r, m)| r.len() as u128 * u128::from(m.peer_rows)).sum();
    if total > u128::from(MOST) {
        return Err(JobError::Setup(format!(
            "the join has {total} rows, because a key with m rows here and n there gives m times n; the most is {}: remove \
             duplicate keys on one side",
            report::count(MOST)
        )));
    }
    let mut picks = picks(keys, memory, dir)?;
    let (mut base, mut distinct) = (0, 0);
    for (rows, m) in rows_of.iter().zip(matches) {
        let mine = rows.len() as u64;
        for (i, &row) in (0..).zip(rows) {
            for j in 0..m.peer_rows {
                let place = if i_am_first { i * m.peer_rows + j } else { j * mine + i };
                picks.push(row, base + place)?;
            }
        }
        base += mine * m.peer_rows;
        distinct += mine;
    }
    Ok(Rows { picks, distinct })
}

fn picks(keys: &Keys, memory: u64, dir: &Path) -> Result<Picks, JobError> {
    Ok(Picks::new(keys.rows, usize::try_from(memory / 4).unwrap_or(usize::MAX), dir)?)
}
