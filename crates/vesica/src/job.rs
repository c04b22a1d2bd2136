//! What the parties agree on.

use crate::run::{Given, run};
use crate::side::{Joined, Side};
use crate::{Connection, Control, Error};
use vesica_spec::{ProtocolName, Shared};
use vesica_table::Table;

/// What the parties agree on. All must hold the same job: they compare it before any data moves, and a difference is
/// [`Error::Disagree`], field by field.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The document: `[shared]` of a job file. [`Job::new`] fills it, and whoever wants more than that changes it.
    pub shared: Shared,
}

impl Job {
    /// A job called `id` between `parties`, whose result the parties in `learns` get.
    ///
    /// Everything else is as in a job file that does not say it: an inner join, keys compared as they are written. Instead of
    /// certificates the parties rely on the connection that they bring ([`Side::tls`] changes that). More than two parties by RR22 need
    /// certificates: the run of a side without them is refused.
    ///
    /// Names are not looked at here: what is wrong with them is an error of the run.
    pub fn new(id: &str, parties: &[&str], protocol: ProtocolName, learns: &[&str]) -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            shared: Shared {
                id: id.to_owned(),
                parties: names(parties),
                protocol,
                learns: names(learns),
                insecure: true,
                ..Shared::default()
            },
        }
    }

    /// The side of the party called `name`.
    pub fn side(&self, name: &str) -> Side {
        Side::new(self, name)
    }

    /// Runs both sides in this process, for somebody who has both tables: two threads, and no network. `tables` are in the
    /// order of the job's parties, each with its key columns. Messages are of the first side; `ctl` stops both.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use vesica::{Control, Job, Memory, Protocol};
    /// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    /// # let numbers = |n: &[i64]| RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(n.to_vec())) as ArrayRef)]);
    /// # let (a, b) = (numbers(&[3, 1, 2])?, numbers(&[2, 3, 4])?);
    /// // a and b are record batches with a column "id": 3, 1, 2 and 2, 3, 4.
    /// let left = Memory::new("left", a.schema(), vec![a])?;
    /// let right = Memory::new("right", b.schema(), vec![b])?;
    /// let job = Job::new("both-mine", &["left", "right"], Protocol::Rr22, &["left", "right"]);
    /// let id = || vec!["id".to_owned()];
    /// let [l, r] = job.here([(Box::new(left), id()), (Box::new(right), id())], &Control::new(()))?;
    ///
    /// let ids = |rows: Option<vesica::Rows>| -> Vec<_> { rows.unwrap().map(|b| format!("{:?}", b.unwrap().column(0))).collect() };
    /// assert_eq!(ids(l.rows), ids(r.rows)); // 2 and 3, in the same order
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of either side; what one side found is told rather than that the other noticed it.
    pub fn here(&self, tables: [(Box<dyn Table>, Vec<String>); 2], ctl: &Control) -> Result<[Joined; 2], Error> {
        let system = |error| Error::Setup(format!("the system has no sockets to give: {error}"));
        let (here, there) = Connection::pair().map_err(system)?;
        let names: Vec<String> = self.shared.parties.iter().take(2).cloned().collect();
        let [name, other] = <[String; 2]>::try_from(names)
            .map_err(|names| Error::Setup(format!("{} parties; both tables of two are matched here", names.len())))?;
        let [(left, left_keys), (right, right_keys)] = tables;
        let side = |name: &str, table, keys: Vec<String>, connection, ctl: Control| {
            let plan = self.side(name).plan(keys)?;
            let ran =
                run(plan, Given { table: Some(table), keep: true, connections: vec![connection], spool: None }, &ctl)?;
            Ok(Joined { rows: ran.rows, report: ran.report })
        };
        let (left, right): (Result<_, Error>, Result<_, Error>) = std::thread::scope(|scope| {
            let right = scope.spawn(|| side(&other, right, right_keys, there, ctl.unwatched()));
            let left = side(&name, left, left_keys, here, ctl.clone());
            (left, right.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        match (left, right) {
            (Ok(left), Ok(right)) => Ok([left, right]),
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
            (Err(left), Err(right)) => Err(if left.is_an_echo() { right } else { left }),
        }
    }
}
