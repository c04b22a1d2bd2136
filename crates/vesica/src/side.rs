//! One party's side of a job.

use crate::positions::Positions;
use crate::run::{Given, run};
use crate::{Connection, Control, Error, Job, Report};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vesica_spec::{Budget, Input, Mine, Output, Plan, Spec, Tls};
use vesica_table::{Memory, Origin, Rows, Table, spool};

/// What messages call a table that stands in no file.
const TABLE: &str = "the table in memory";

/// An address that nobody dials: the parties meet on the caller's connections.
const NOWHERE: &str = "nowhere:0";

/// One party's side of a job, before it is run.
#[derive(Clone, Debug)]
pub struct Side {
    spec: Spec,
    ctl: Control,
}

/// Which of a party's keys the others hold too.
#[derive(Debug)]
pub struct Found {
    /// The places of these keys in the party's list, from 0. They ascend if one party learns. Where both do, place `i` of one
    /// side and place `i` of the other hold the same key, and ascend on neither. None for a party that does not learn, and where
    /// the result is a count.
    pub positions: Option<Vec<u64>>,
    /// What happened.
    pub report: Report,
}

/// Which of a party's rows have a key that the others hold too.
pub struct Joined {
    /// These rows, with all columns and their types. None for a party that does not learn, and where the result is a count.
    pub rows: Option<Rows>,
    /// What happened.
    pub report: Report,
}

impl Side {
    pub(crate) fn new(job: &Job, name: &str) -> Self {
        let others = job.shared.parties.iter().filter(|party| *party != name);
        let mine = Mine {
            connect: others.map(|party| (party.clone(), NOWHERE.into())).collect(),
            ..Mine::of(name.to_owned(), Input::of(Origin::of(TABLE)))
        };
        Self { spec: Spec { shared: job.shared.clone(), mine }, ctl: Control::new(()) }
    }

    /// Takes at most about so many bytes of memory, 2 GiB by default. What is more is spilled to disk. A table that is given
    /// in memory is not counted.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.spec.mine.memory = format!("{bytes} B");
        self
    }

    /// Spills to this folder, and not to the system's temporary one.
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spec.mine.scratch = Some(folder.into());
        self
    }

    /// Adds up in this file what noisy runs tell, of all jobs that name it, and refuses a run that would bring it above `epsilon`.
    /// Without it no job with `dp` runs.
    pub fn budget(mut self, path: impl Into<PathBuf>, epsilon: f64) -> Self {
        self.spec.mine.budget = Some(Budget { path: path.into(), epsilon });
        self
    }

    /// Waits so long for a party to say its first words, 10 minutes by default.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.spec.mine.patience = humantime::format_duration(patience).to_string();
        self
    }

    /// Is watched and stopped through `ctl`.
    pub fn watched(mut self, ctl: &Control) -> Self {
        self.ctl = ctl.clone();
        self
    }

    /// Speaks TLS over the connection. All sides of the job must, for it is a part of what they agree on. `identity` is a file
    /// that `vesica cert` made, and `peers` has the fingerprint of each other party's certificate.
    pub fn tls(mut self, identity: impl Into<PathBuf>, peers: &[(&str, &str)]) -> Self {
        let pins: BTreeMap<_, _> = peers.iter().map(|(party, pin)| ((*party).into(), (*pin).into())).collect();
        self.spec.mine.tls = Some(Tls { identity: identity.into(), key: None, peers: pins, ca: None });
        self.spec.shared.insecure = false;
        self
    }

    /// Finds which of `keys` the others hold too, over a connection to each of them, in the job's order. An empty key matches
    /// nothing. A key may stand in the list several times.
    ///
    /// # Errors
    /// Whatever ends the run; [`Error::fault`] says whose fault it is.
    pub fn find(
        self,
        keys: &[impl AsRef<str>],
        connections: impl IntoIterator<Item = Connection>,
    ) -> Result<Found, Error> {
        let table = Positions::new(TABLE, keys)?;
        let plan = self.plan(vec![Positions::KEY.to_owned()])?;
        let given = given(Box::new(table), connections, None);
        let ran = run(plan, given, &self.ctl)?;
        Ok(Found { positions: ran.rows.map(Positions::read).transpose()?, report: ran.report })
    }

    /// Matches a table that is read once, from beginning to end, by the columns called `keys`. The rows that matched come out
    /// as a reader, too. Neither is held in memory: both stand, while they are needed, in files in [`Side::scratch`] that
    /// have no name and are gone however the program ends.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, StringArray};
    /// # use vesica::{Connection, Job, Protocol};
    /// # let reader = |zips: Vec<&str>| {
    /// #     let batch = RecordBatch::try_from_iter([("zip", Arc::new(StringArray::from(zips)) as ArrayRef)]).unwrap();
    /// #     RecordBatchIterator::new([Ok(batch.clone())], batch.schema())
    /// # };
    /// let job = Job::new("zips", &["alice", "bob"], Protocol::Ecdh, &["alice"]);
    /// let (alices, bobs) = Connection::pair()?;
    /// # let theirs = job.clone();
    /// # let bob = std::thread::spawn(move || theirs.side("bob").stream(reader(vec!["00501", "10001"]), &["zip"], [bobs]));
    /// // alice's reader has a column "zip": 00501 and 94105. bob has 00501 and 10001.
    /// let joined = job.side("alice").stream(reader(vec!["00501", "94105"]), &["zip"], [alices])?;
    /// for batch in joined.rows.unwrap() {
    ///     assert_eq!(batch?.num_rows(), 1); // 00501, with its zeros
    /// }
    /// # bob.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Side::find`].
    pub fn stream(
        self,
        mut table: impl RecordBatchReader,
        keys: &[&str],
        connections: impl IntoIterator<Item = Connection>,
    ) -> Result<Joined, Error> {
        let plan = self.plan(names(keys))?;
        let scratch = self.spec.mine.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let table = spool(Path::new(TABLE), &mut table, &scratch)?;
        let given = given(table, connections, Some(scratch));
        let ran = run(plan, given, &self.ctl)?;
        Ok(Joined { rows: ran.rows, report: ran.report })
    }

    /// Matches a table that is in memory, by the columns called `keys`. Nothing of it is copied but the rows that matched.
    ///
    /// # Errors
    /// As [`Side::find`].
    pub fn table(
        self,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        keys: &[&str],
        connections: impl IntoIterator<Item = Connection>,
    ) -> Result<Joined, Error> {
        let plan = self.plan(names(keys))?;
        let table = Box::new(Memory::new(TABLE, schema, batches)?);
        let given = given(table, connections, None);
        let ran = run(plan, given, &self.ctl)?;
        Ok(Joined { rows: ran.rows, report: ran.report })
    }

    /// The plan of this side, of a table with these key columns.
    pub(crate) fn plan(&self, keys: Vec<String>) -> Result<Plan, Error> {
        let mut spec = self.spec.clone();
        spec.mine.input.keys = keys;
        let learns = spec.shared.learns.contains(&spec.mine.name);
        let rows = spec.shared.result.has_rows();
        // A plan wants a place for the rows that a party learns; `run` keeps them instead.
        spec.mine.output = (learns && rows).then(|| Output { path: TABLE.into(), ..Output::default() });
        let mut plan = vesica_spec::plan(&spec)?;
        plan.peers.iter_mut().for_each(|peer| peer.connect = None);
        Ok(plan)
    }
}

fn given(table: Box<dyn Table>, connections: impl IntoIterator<Item = Connection>, spool: Option<PathBuf>) -> Given {
    Given { table: Some(table), keep: true, connections: connections.into_iter().collect(), spool }
}

fn names(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}
