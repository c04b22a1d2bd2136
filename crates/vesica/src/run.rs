//! A plan, run with a table and connections of the caller's, or with the plan's own.

use crate::{Connection, Control, Error, Report};
use std::path::PathBuf;
use std::sync::Arc;
use vesica_job::{Io, Target, World};
use vesica_spec::Plan;
use vesica_table::{Collect, Rows, Table};

/// What a caller gives in place of the plan's own.
#[derive(Default)]
pub struct Given {
    /// A table, in place of the file that the plan names.
    pub table: Option<Box<dyn Table>>,
    /// Whether the rows that matched are kept for the caller, in place of the file that the plan names.
    pub keep: bool,
    /// A connection to each other party, in the job's order, in place of addresses; empty for the plan's addresses.
    pub connections: Vec<Connection>,
    /// A folder for the rows that matched, if they are not to be held in memory.
    pub spool: Option<PathBuf>,
}

/// What a run gives.
pub struct Ran {
    /// The rows that matched, if they were kept for the caller and not written to the plan's file.
    pub rows: Option<Rows>,
    /// What happened.
    pub report: Report,
}

/// Does what `plan` says: what the command `vesica run` does with a job file, on the table and over the connections that are
/// given.
///
/// ```no_run
/// # use vesica::{Control, Error, Given, run};
/// # fn main() -> Result<(), Error> {
/// let plan = vesica_spec::plan(&vesica_spec::load(std::path::Path::new("alice.toml"))?)?;
/// let report = run(plan, Given::default(), &Control::new(()))?.report;
/// println!("{}", report.in_words());
/// # Ok(()) }
/// ```
///
/// # Errors
/// Those of [`vesica_job::run`].
pub fn run(mut plan: Plan, given: Given, ctl: &Control) -> Result<Ran, Error> {
    let Given { table, keep, connections, spool } = given;
    let table = table.map_or_else(|| vesica_table::open_until(&plan.input, &|| ctl.is_cancelled()), Ok)?;
    let (mut kept, mut target) = (None, None);
    if keep {
        kept = plan.output.take().map(|output| Arc::new(Collect::new(output.absent, spool)));
        target = kept.clone().map(|kept| Box::new(kept) as Box<dyn Target>);
    } else if let Some(output) = plan.output.clone() {
        target = Some(Box::new(output));
    }
    let report = vesica_job::run(&plan, Io { table, target, connections, world: World::default() }, ctl)?;
    Ok(Ran { rows: kept.and_then(|kept| kept.take()), report })
}
