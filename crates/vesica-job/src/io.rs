//! What a run works on: a table to read, a place for rows, and connections. Files and addresses for the command; whoever
//! embeds this may bring others.

use crate::error::JobError;
use crate::output::any::How;
use crate::output::{groups, ids, shares};
use crate::tell::control::Control;
use crate::world::World;
use arrow_schema::SchemaRef;
use std::sync::Arc;
use vesica_net::Connection;
use vesica_spec::Plan;
use vesica_suite::ResultKind;
use vesica_table::{Collect, Error, Output, Sink, Table, View};

/// A table, where the result goes, and how the peers are met.
pub struct Io {
    /// The table, its header or schema read.
    pub table: Box<dyn Table>,
    /// Where rows go, if this party gets any.
    pub target: Option<Box<dyn Target>>,
    /// Connections to the peers, in the job's order, where the caller brings them. With none, the peers are met at the
    /// addresses of the plan. A connection of the caller's cannot be made again: if it breaks, the run is over.
    pub connections: Vec<Connection>,
    /// The machine around the run.
    pub world: World,
}

/// A place for rows.
pub trait Target: Send + Sync {
    /// A sink for rows like those of `like`. It is asked for before contact, so that a place that cannot be written to is found
    /// then, and again if writing failed and is to be repeated.
    ///
    /// # Errors
    /// All that can be known before writing.
    fn sink(&self, like: &dyn Table) -> Result<Box<dyn Sink>, Error>;

    /// A sink for shares, which have columns of their own.
    ///
    /// # Errors
    /// As [`Target::sink`]. A place that takes rows of tables only has none.
    fn shares(&self, _like: &dyn Table, _schema: SchemaRef) -> Result<Box<dyn Sink>, Error> {
        Err(Error::Beside("the result goes to a place that takes rows only, and shares need a file".to_owned()))
    }
}

impl Target for Output {
    fn sink(&self, like: &dyn Table) -> Result<Box<dyn Sink>, Error> {
        vesica_table::create(self, like)
    }

    fn shares(&self, like: &dyn Table, schema: SchemaRef) -> Result<Box<dyn Sink>, Error> {
        vesica_table::create_as(self, like, schema)
    }
}

impl Target for Arc<Collect> {
    fn sink(&self, like: &dyn Table) -> Result<Box<dyn Sink>, Error> {
        Collect::sink(self, like)
    }
}

impl Io {
    /// What the job names: its table, and the file for the result. A program that prints the table is run to its end.
    ///
    /// # Errors
    /// Those of opening the table; [`Error::Stopped`] if `ctl` is cancelled meanwhile.
    pub fn open(plan: &Plan, ctl: &Control) -> Result<Self, JobError> {
        let target = plan.output.clone().map(|output| Box::new(output) as Box<dyn Target>);
        let table = vesica_table::open_until(&plan.input, &|| ctl.is_cancelled())?;
        Ok(Self { table, target, connections: Vec::new(), world: World::default() })
    }

    /// [`Io::open`] where nobody stops it.
    ///
    /// # Errors
    /// Those of opening the table.
    pub fn files(plan: &Plan) -> Result<Self, JobError> {
        Self::open(plan, &Control::new(()))
    }

    /// A sink for the columns that the job asks for, if this party gets rows.
    ///
    /// # Errors
    /// Those of [`Target::sink`]; a column that is not there.
    pub fn sink(&self, plan: &Plan) -> Result<Option<Box<dyn Sink>>, JobError> {
        if plan.shared.result.each_has_its_own() {
            return shares::sink(plan, self, None);
        }
        if plan.shared.result == ResultKind::Groups {
            return groups::sink(plan, self, &[]);
        }
        let Some(target) = &self.target else { return Ok(None) };
        if plan.says_how {
            return ids::beside(plan, self, &How::unmade(), None, |wide| Ok(Some(target.sink(wide)?)));
        }
        Ok(Some(match &plan.columns {
            None => target.sink(&*self.table)?,
            Some(names) => target.sink(&View::new(&*self.table, names)?)?,
        }))
    }
}
