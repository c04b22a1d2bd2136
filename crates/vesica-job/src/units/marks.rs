//! Rows of common keys, marked as units end.
//!
//! Where the output has nothing but the rows of common keys, in the order of the input, the place of a row in it follows from
//! which other rows are there. So a row is marked when its unit ends, while the unit's rows are at hand, and the unit need not be
//! read and sorted once more when all are joined.
//!
//! A mark is of the run in which its unit ended: it is not in the ledger, and units that ended before a restart, or before keys
//! were cut anew, are read. So are those of a table whose keys repeat: a unit has no rows at hand but the first of each key.

use crate::units::found::Match;
use std::path::Path;
use vesica_spec::{Order, Plan, Share};
use vesica_suite::ResultKind;
use vesica_table::Picks;
use vesica_types::{RowId, UnitId};

/// The rows that are marked.
pub struct Marks {
    /// They.
    pub picks: Picks,
    /// Which units' rows are.
    pub units: Vec<bool>,
}

impl Marks {
    /// None yet, of a table of `rows` rows, and units of which there are so many; none ever, if rows are not marked in this job.
    ///
    /// # Errors
    /// Those of opening a spill; none is known.
    pub fn of(plan: &Plan, rows: u64, units: u32, dir: &Path) -> Result<Option<Self>, vesica_table::Error> {
        let aligned = plan.several_learn() && plan.order == Order::Aligned;
        let half = plan.half();
        let alone = half.pairs && !half.mine && plan.lists.is_empty() && plan.shared.result == ResultKind::Rows;
        if !alone || aligned || !plan.i_learn() {
            return Ok(None);
        }
        let picks = Picks::new(rows, Share::Picks.of(plan.memory), dir)?;
        // Beyond that each of them is written to the disk, and nothing is gained.
        Ok(picks.are_bits().then(|| Self { picks, units: vec![false; units as usize] }))
    }

    /// The unit has ended: it has these matches, whose keys have these rows.
    ///
    /// # Errors
    /// Those of spilling. The marks are of no use then.
    pub fn mark(&mut self, id: UnitId, matches: &[Match], rows: &[u64]) -> Result<(), vesica_table::Error> {
        matches.iter().zip(rows).try_for_each(|(m, &row)| self.picks.push_turn(RowId(row), m.times))?;
        self.units[id.0 as usize] = true;
        Ok(())
    }
}
