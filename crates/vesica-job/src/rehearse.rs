//! What it costs to read, cut, join and write a table, from doing so with its first rows.

use crate::error::JobError;
use crate::input::keys::Keys;
use crate::output::any::ByRow;
use crate::output::join;
use crate::seal::ledger::Ledger;
use crate::seal::record::Start;
use crate::tell::control::Control;
use crate::threads::cores;
use crate::units::cut::Units;
use crate::units::each::Ended;
use crate::units::found::{Match, matches};
use nix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use vesica_net::{SystemClock, Time};
use vesica_spec::{Plan, Share};
use vesica_suite::ResultKind;
use vesica_table::{Batches, Emit, Error, Facts, Output, RowIds, Selection, Table, View, on_threads};
use vesica_types::{Coins, UnitId};

/// Rows that are tried: enough that a thread's start does not count.
const ROWS: u64 = 200_000;

/// What so many rows took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Took {
    /// Seconds by the clock.
    pub wall_s: f64,
    /// Seconds of CPU.
    pub cpu_s: f64,
}

impl Took {
    fn times(self, factor: f64) -> Self {
        Self { wall_s: self.wall_s * factor, cpu_s: self.cpu_s * factor }
    }

    /// What `work` takes, all its threads together.
    fn by<T>(work: impl FnOnce() -> Result<T, JobError>) -> Result<(T, Self), JobError> {
        let cpu = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        let (wall, before) = (SystemClock.now(), cpu());
        let made = work()?;
        let cpu_s = cpu().saturating_sub(before).as_secs_f64();
        Ok((made, Self { wall_s: SystemClock.since(wall).as_secs_f64(), cpu_s }))
    }
}

/// What a table costs on this machine.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tables {
    /// Reading the keys of this party's table, cutting them into units, and reading those.
    pub read: Took,
    /// Joining and writing half of its rows, or all of them if each gets an id; nothing if this party gets no rows.
    pub write: Took,
}

/// What the table of `plan` costs, which has about `rows` rows.
///
/// # Errors
/// Those of reading its first rows.
pub fn tables(plan: &Plan, table: &dyn Table, rows: u64) -> Result<Tables, JobError> {
    let scratch = plan.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let beginning = Beginning { table, rows: ROWS };
    // Beside ids all rows are written.
    let every = if plan.shared.result == ResultKind::Ids { 1 } else { 2 };
    let read = || -> Result<(Keys, Units, Matched), JobError> {
        let ctl = Control::new(());
        let keys = Keys::count(&beginning, plan, &scratch, &ctl)?;
        let sizes = plan.sizes(&vec![keys.distinct; plan.parties.len()], plan.workers, plan.memory);
        let mut units = Units::cut(&beginning, plan, &keys, None, &[0; 32], sizes, plan.me.place(), &scratch, &ctl)?;
        units.mark_rows(plan, &keys, &scratch)?;
        // Units are read and sorted by the threads that match them.
        let ids = Mutex::new((0..units.sizes.units).map(UnitId));
        let matched = Mutex::new(Vec::new());
        on_threads::<JobError>(cores(plan.workers), || {
            loop {
                let next = ids.lock().expect("no worker panics").next();
                let Some(id) = next else { return Ok(()) };
                let (unit, counts, firsts) = units.unit_to_mark(id)?;
                let places: Vec<u32> = (0..unit.keys.len() as u32).step_by(every).collect();
                let common: Vec<Match> = matches(&counts, &places).collect();
                let ended = Ended { matches: common, digest: [0; 32], firsts };
                matched.lock().expect("no worker panics").push((id, ended));
            }
        })?;
        Ok((keys, units, matched.into_inner().expect("no worker panics")))
    };
    let ((keys, units, matched), read) = Took::by(read)?;
    if keys.rows == 0 {
        return Ok(Tables::default());
    }
    let factor = rows as f64 / keys.rows as f64;
    let write = match &plan.output {
        // Of groups there are no more than some hundred rows.
        Some(_) if plan.shared.result == ResultKind::Groups => Took::default(),
        None => Took::default(),
        Some(output) => Took::by(|| written(plan, output, &beginning, &keys, &units, matched, &scratch))?.1,
    };
    Ok(Tables { read: read.times(factor), write: write.times(factor) })
}

/// Every other key of each unit, or every key, as if it were common.
type Matched = Vec<(UnitId, Ended)>;

/// Joins what `matched` with the rows of `keys`, and writes these to a file that is gone afterwards. It stands in the output's
/// folder, where such rows are to be readable: those in `scratch` are not. Where that folder is still to be made, nothing is tried.
fn written(
    plan: &Plan,
    output: &Output,
    table: &dyn Table,
    keys: &Keys,
    units: &Units,
    matched: Matched,
    scratch: &Path,
) -> Result<(), JobError> {
    if !vesica_table::folder(&output.path).is_dir() {
        return Ok(());
    }
    let mut ledger = Ledger::new(plan.memory, scratch);
    ledger.start(Start { salt: [0; 32], coins: Coins::new([0; 32]), sizes: units.sizes.clone(), lists: vec![0; 2] })?;
    for (id, ended) in matched {
        ended.keep(id, units, &mut ledger)?;
    }
    let found = ledger.found()?;
    let picks = match !plan.lists.is_empty() {
        true => ByRow::of(plan, keys, units, &found, false, scratch)?.picks(plan, keys, scratch)?,
        false => join::rows(plan, keys, units, &found, 0, scratch)?,
    };
    let (memory, workers) = (Share::Output.of(plan.memory), cores(plan.workers));
    let view = plan.columns.as_ref().map(|names| View::new(table, names)).transpose()?;
    let table = view.as_ref().map_or(table, |view| view);
    // What is not committed never gets its name: an output that is there already stays.
    let mut sink = vesica_table::create(output, &table.facts())?;
    vesica_table::gather(table, picks, memory, workers, scratch, &mut *sink)?;
    sink.finish()?;
    Ok(())
}

/// The first rows of a table.
struct Beginning<'a> {
    table: &'a dyn Table,
    rows: u64,
}

impl Table for Beginning<'_> {
    fn facts(&self) -> Facts<'_> {
        let facts = self.table.facts();
        Facts { rows: facts.rows.map(|rows| rows.min(self.rows)), ..facts }
    }

    fn texts(&self, keys: &[String], values: &[String], workers: usize) -> Result<Batches, Error> {
        let mut left = self.rows as usize;
        let batches = self.table.texts(keys, values, workers)?.map_while(move |batch| {
            if left == 0 {
                return None;
            }
            Some(batch.map(|batch| {
                let part = batch.slice(0, batch.num_rows().min(left));
                left -= part.num_rows();
                part
            }))
        });
        Ok(Box::new(batches))
    }

    fn select(&self, rows: &mut RowIds<'_>, selection: Selection<'_>, emit: &mut Emit<'_>) -> Result<(), Error> {
        self.table.select(rows, selection, emit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a table of 5000 rows, and alice's plan for it whose output is `output`.
    fn plan_for(output: &str) -> (tempfile::TempDir, Plan) {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..5000).map(|i| format!("{i},{i}\n")).collect();
        std::fs::write(dir.path().join("a.csv"), format!("id,v\n{text}")).unwrap();
        std::fs::create_dir(dir.path().join("scratch")).unwrap();
        let output = output.replace("DIR", &dir.path().display().to_string());
        let job = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"alice\"]\ninsecure = true\n\
             [mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = {{ path = \"{0}/a.csv\", keys = [\"id\"] }}\n\
             output = {{ path = \"{output}\" }}\nscratch = \"{0}/scratch\"\n",
            dir.path().display()
        );
        let plan = vesica_spec::plan(&vesica_spec::parse(&job).unwrap()).unwrap();
        (dir, plan)
    }

    #[test]
    fn a_table_costs_something_and_nothing_is_left_behind() {
        let (dir, plan) = plan_for("DIR/o.csv");
        std::fs::write(dir.path().join("o.csv"), "an older one").unwrap();
        let table = vesica_table::open(&plan.input).unwrap();
        let costs = tables(&plan, &*table, 50_000).unwrap();
        assert!(costs.read.cpu_s > 0.0 && costs.write.wall_s > 0.0, "{costs:?}");
        let fewer = Beginning { table: &*table, rows: 7 };
        let rows: usize = fewer.keys(&["id".into()], 1).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 7);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        assert_eq!(std::fs::read_to_string(dir.path().join("o.csv")).unwrap(), "an older one");
    }

    /// Rows in the clear are tried where the output goes, and never among what is masked: not even a scratch folder is needed for them.
    #[test]
    fn rows_are_not_written_into_scratch() {
        let (dir, plan) = plan_for("DIR/o.csv");
        std::fs::remove_dir(dir.path().join("scratch")).unwrap();
        let table = vesica_table::open(&plan.input).unwrap();
        assert!(tables(&plan, &*table, 5000).unwrap().write.wall_s > 0.0);
    }

    /// A forecast needs no folder for the output, and standard output has none.
    #[test]
    fn an_output_that_is_no_file_yet_can_be_forecast() {
        for output in ["-", "DIR/missing/o.csv"] {
            let (_dir, plan) = plan_for(output);
            let table = vesica_table::open(&plan.input).unwrap();
            assert!(tables(&plan, &*table, 5000).unwrap().read.cpu_s > 0.0, "{output}");
        }
    }
}
