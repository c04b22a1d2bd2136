//! The server's table, read once by many threads: what opens each row, and what is made of its values.

use crate::error::Error;
use crate::{prepare, values};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use std::sync::Arc;
use vesica_job::rooms::digests;
use vesica_job::{Control, Event};
use vesica_net::{SystemClock, Time};
use vesica_oprf::function::ServerFunction;
use vesica_spec::Rule;
use vesica_spec::service::{By, ServePlan};
use vesica_table::{InOrder, Input, Table};
use vesica_types::KeyDigest;

/// A table that is read: keys, and values where there are any.
pub struct Reader<'a> {
    plan: &'a ServePlan,
    table: Box<dyn Table>,
    rules: Vec<Vec<Rule>>,
    values: Vec<String>,
}

/// How much was read.
#[derive(Clone, Copy, Default)]
pub struct Read {
    /// Rows.
    pub rows: u64,
    /// Rows without a key.
    pub empty: u64,
}

impl std::ops::AddAssign for Read {
    fn add_assign(&mut self, more: Self) {
        self.rows += more.rows;
        self.empty += more.empty;
    }
}

/// The rows of a batch that can be looked up.
pub struct Batch<T> {
    /// What comes of the function at the key or number of each; the digest of that where there is no function.
    pub keys: Vec<[u8; 32]>,
    /// The number of each row in the table.
    pub rows: Vec<u64>,
    /// What was made of all of them.
    pub made: T,
    read: Read,
}

/// The columns of values of a batch, and the place in them of each row that can be looked up.
pub struct Values<'a>(Vec<&'a StringArray>, &'a [usize]);

impl Values<'_> {
    /// The texts of row `at` of those that can be looked up; none where it has a null.
    pub fn texts(&self, at: usize) -> impl Iterator<Item = Option<&str>> {
        self.0.iter().map(move |column| text(column, self.1[at]))
    }
}

impl<'a> Reader<'a> {
    /// Opens `input`, and finds its columns.
    ///
    /// # Errors
    /// Those of opening it; a column that is not there.
    pub fn open(plan: &'a ServePlan, input: &Input, with_values: bool) -> Result<Self, Error> {
        // Its key columns are those of the table that is added or taken out, too.
        prepare::table(plan)?;
        let table = vesica_table::open(input)?;
        let values = if with_values { plan.service.values.clone() } else { Vec::new() };
        drop(table.texts(&plan.keys, &values, 1)?);
        Ok(Self {
            plan,
            table,
            rules: vesica_spec::rules("service.rules", &plan.service.rules, plan.keys.len())?,
            values,
        })
    }

    /// The most bytes that the values of a row have, 1 at least.
    ///
    /// # Errors
    /// What is wrong with the table.
    pub fn longest(&self, ctl: &Control) -> Result<u32, Error> {
        ctl.event(Event::Phase { name: "measure", of: "rows", total: self.table.rows() });
        let (mut longest, mut rows) = (1, 0);
        for batch in self.table.texts(&[], &self.values, self.plan.workers)? {
            ctl.check()?;
            let batch = batch?;
            longest = longest.max(longest_in(&batch, 0));
            rows += batch.num_rows() as u64;
            ctl.event(Event::Done(rows));
        }
        u32::try_from(longest).map_err(|_| Error::Setup("the values of a row are longer than 4 GiB".into()))
    }

    /// Evaluates the function at the key or number of each row, makes something of its values, and gives that to `take`, in the order of
    /// rows.
    ///
    /// # Errors
    /// What is wrong with the table; those of `make` and `take`.
    pub fn each<T: Send + 'static>(
        &self,
        function: Option<&Arc<dyn ServerFunction>>,
        make: impl Fn(&[[u8; 32]], &[u64], &Values<'_>) -> Result<T, Error> + Clone + Send + 'static,
        ctl: &Control,
        mut take: impl FnMut(Batch<T>) -> Result<(), Error>,
    ) -> Result<Read, Error> {
        ctl.event(Event::Phase { name: "evaluate", of: "rows", total: self.table.rows() });
        let start = SystemClock.now();
        let mut next = 0;
        let batches = self.table.texts(&self.plan.keys, &self.values, self.plan.workers)?.map(move |batch| {
            let from = next;
            next += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            (from, batch)
        });
        let worker = || {
            let (by, rules, function, make) =
                (self.plan.service.by, self.rules.clone(), function.cloned(), make.clone());
            move |(from, batch): (u64, Result<RecordBatch, vesica_table::Error>)| -> Result<Batch<T>, Error> {
                let batch = batch?;
                let (hashed, places, empty) = hashed(by, &rules, from, &batch)?;
                let keys: Vec<[u8; 32]> = match &function {
                    None => hashed.iter().map(|digest| digest.0).collect(),
                    Some(function) => {
                        let mut outputs = Vec::with_capacity(hashed.len());
                        function.eval(&hashed, &mut outputs);
                        outputs.iter().map(|output| output.0).collect()
                    }
                };
                let rows: Vec<u64> = places.iter().map(|&place| from + place as u64).collect();
                let made = make(&keys, &rows, &Values(texts(&batch, rules.len()), &places))?;
                Ok(Batch { keys, rows, made, read: Read { rows: batch.num_rows() as u64, empty } })
            }
        };
        let mut read = Read::default();
        for batch in InOrder::new(self.plan.workers, batches, worker) {
            ctl.check()?;
            let batch = batch?;
            read += batch.read;
            take(batch)?;
            ctl.event(Event::Done(read.rows));
        }
        ctl.event(Event::PhaseEnd { name: "evaluate", of: "rows", wall: SystemClock.since(start), bytes: (0, 0) });
        Ok(read)
    }
}

/// Digests of what the rows of a batch are looked up by, the place of each in the batch, and how many rows have no key.
fn hashed(
    by: By,
    rules: &[Vec<Rule>],
    from: u64,
    batch: &RecordBatch,
) -> Result<(Vec<KeyDigest>, Vec<usize>, u64), Error> {
    if by == By::Index {
        let places: Vec<usize> = (0..batch.num_rows()).collect();
        let digest = |&place: &usize| KeyDigest(values::digest_of_index(from + place as u64));
        return Ok((places.iter().map(digest).collect(), places, 0));
    }
    let bug = |e: arrow_schema::ArrowError| Error::from(vesica_table::Error::Bug(e.to_string()));
    let keys = batch.project(&(0..rules.len()).collect::<Vec<_>>()).map_err(bug)?;
    let (mut hashed, mut places) = (Vec::new(), Vec::new());
    let empty = digests(rules, &keys, |digest, place| {
        hashed.push(KeyDigest(*digest));
        places.push(place);
    });
    Ok((hashed, places, empty))
}

/// The most bytes that the values of a row have, which stand in the columns behind the first `from`.
pub fn longest_in(batch: &RecordBatch, from: usize) -> usize {
    let columns = texts(batch, from);
    let bytes = |row| values::encoded_bytes(columns.iter().map(|column| text(column, row)));
    (0..batch.num_rows()).map(bytes).max().unwrap_or(0)
}

/// The columns of text behind the first `from`.
fn texts(batch: &RecordBatch, from: usize) -> Vec<&StringArray> {
    batch.columns()[from..].iter().map(|column| column.as_string::<i32>()).collect()
}

/// The text in a row of a column; none if it is a null.
fn text(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}
