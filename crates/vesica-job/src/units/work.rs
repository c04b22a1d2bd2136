//! What running a job's protocol takes.

use crate::input::values::Brought;
use crate::meet::peers::Peers;
use crate::output::shares::Left;
use crate::seal::ledger::Ledger;
use crate::tell::control::Control;
use crate::units::compare::Both;
use crate::units::cut::Units;
use crate::world::World;
use std::path::Path;

/// The units of a job that are to be run, and who is to hear of it.
pub struct Work<'a> {
    /// The keys.
    pub units: &'a Units,
    /// Which units are finished.
    pub done: &'a [bool],
    /// How results are compared, where all parties learn.
    pub both: Option<Both>,
    /// What is added up, if this party has values or groups.
    pub values: Option<&'a Brought>,
    /// Where goes what the units leave, if that is the result.
    pub left: &'a mut Option<Left>,
    /// Where finished units go.
    pub ledger: &'a mut Ledger,
    /// The peers.
    pub peers: &'a Peers,
    /// Where lists go that do not fit in memory.
    pub scratch: &'a Path,
    /// The machine around the run.
    pub world: &'a World,
    /// Who watches.
    pub ctl: &'a Control,
}
