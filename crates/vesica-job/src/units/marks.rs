//! Rows of common keys, marked as units end.
//!
//! Where the output has nothing but the rows of common keys, in the order of the input, the place of a row in it follows from
//! which other rows are there. So a row is marked when its unit ends, while the unit's rows are at hand, and the unit need not be
//! read and sorted once more when all are joined.
//!
//! Each row of a unit gets its mark written, also one that says no. So how long that takes, which a peer may see by when the next unit
//! begins, does not depend on how many rows there are that match, but for some nanoseconds a match (A5).
//!
//! A mark is of the run in which its unit ended: it is not in the ledger, and units that ended before a restart, or before keys
//! were cut anew, are read. So are those of a table whose keys repeat: a unit has no rows at hand but the first of each key.

use crate::input::keys::Keys;
use crate::units::found::Match;
use std::path::Path;
use vesica_spec::{Order, Plan, Share};
use vesica_suite::ResultKind;
use vesica_table::{Error, Picks};
use vesica_types::{RowId, UnitId};

/// The rows that are marked.
pub struct Marks {
    /// They.
    pub picks: Picks,
    /// Which units' rows are.
    pub units: Vec<bool>,
}

impl Marks {
    /// None yet, of a table of which `keys` is known, and units of which there are so many; none ever, if rows are not marked in this job.
    ///
    /// # Errors
    /// Those of opening a spill; none is known.
    pub fn of(plan: &Plan, keys: &Keys, units: u32, dir: &Path) -> Result<Option<Self>, Error> {
        let aligned = plan.several_learn() && plan.order == Order::Aligned;
        let half = plan.half();
        let alone = half.pairs && !half.mine && plan.lists.is_empty() && plan.shared.result == ResultKind::Rows;
        // Which rows repeat a key is kept in the same share of the memory, also where only the first of them takes part.
        if !alone || aligned || !plan.i_learn() || keys.duplicates > 0 {
            return Ok(None);
        }
        let picks = Picks::new(keys.rows, Share::Picks.of(plan.memory), dir)?;
        // Beyond that each of them is written to the disk, and nothing is gained.
        Ok(picks.are_bits().then(|| Self { picks, units: vec![false; units as usize] }))
    }

    /// The unit has ended: it has these matches, and these are the first rows of all its keys.
    ///
    /// # Errors
    /// Those of spilling; [`Error::Bug`] for a match that is no key of the unit. The marks are of no use then.
    pub fn mark(&mut self, id: UnitId, matches: &[Match], firsts: &[u64]) -> Result<(), Error> {
        let mut once = vec![0; firsts.len().div_ceil(64)];
        for m in matches {
            let place = m.key.place() as usize;
            let row = *firsts.get(place).ok_or_else(|| Error::Bug("a common key is none of this side's".into()))?;
            match m.times {
                1 => once[place / 64] |= 1 << (place % 64),
                times => self.picks.push_turn(RowId(row), times)?,
            }
        }
        self.picks.push_turns(firsts, &once)?;
        self.units[id.0 as usize] = true;
        Ok(())
    }
}
