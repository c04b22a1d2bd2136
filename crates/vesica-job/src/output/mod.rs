//! From what was found to files.

pub mod any;
pub mod groups;
pub mod ids;
pub mod join;
pub mod link;
pub mod part;
pub mod places;
pub mod shares;

use crate::error::JobError;
use crate::io::Io;
use crate::output::any::How;
use vesica_spec::Plan;
use vesica_suite::ResultKind;
use vesica_table::{Sink, Table, View};

/// A sink for what the job's result is, if this party gets any: for rows, those of the columns that it asks for.
///
/// # Errors
/// Those of opening it; a column that is not there.
pub fn sink(plan: &Plan, io: &Io) -> Result<Option<Box<dyn Sink>>, JobError> {
    if plan.shared.result.each_has_its_own() {
        return shares::sink(plan, io, None);
    }
    if plan.shared.result == ResultKind::Groups {
        return groups::sink(plan, io, &[]);
    }
    let Some(target) = &io.target else { return Ok(None) };
    if plan.says_how {
        return ids::beside(plan, io, &How::unmade(), None, |wide| Ok(Some(target.sink(&wide.facts())?)));
    }
    Ok(Some(match &plan.columns {
        None => target.sink(&io.table.facts())?,
        Some(names) => target.sink(&View::new(&*io.table, names)?.facts())?,
    }))
}
