//! Jobs: run, matched here, planned, checked; and the small commands around them.

use crate::failure::Failure;
use crate::table::{NAME, Table};
use crate::work::{Stop, work};
use crate::{backend, document};
use arrow_array::RecordBatchReader;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use vesica::{Control, Given, Job, Ran};
use vesica_job::identity::Identity;
use vesica_job::sample::Sample;
use vesica_job::{Audience, Io, Page, Report, ReportFile, World};
use vesica_spec::{Plan, SpecError};

/// The table that Python gave for a run: as it is in memory or, if it is a `stream` that can be read once, in a file beside what the run spills.
fn given(
    plan: &Plan,
    table: impl RecordBatchReader,
    stream: bool,
    ctl: &Control,
) -> Result<Box<dyn vesica::Table>, Failure> {
    if !stream {
        return Table::read(NAME, table, ctl);
    }
    if plan.resume.is_some() {
        let why = "a stream cannot be read again after a restart: name files in mine.input.path, or remove mine.resume";
        return Err(vesica::Error::from(SpecError::field("mine.resume", why)).into());
    }
    let scratch = plan.scratch.clone().unwrap_or_else(std::env::temp_dir);
    Table::spooled(NAME, table, &scratch, ctl)
}

/// Runs a job. Gives the report as JSON, and the rows if they are kept in memory. A table that is a `stream` can be read once.
#[pyfunction]
#[pyo3(signature = (document, is_json, table=None, files=None, stream=false, watch=None, stop=None))]
pub fn run(
    py: Python<'_>,
    document: String,
    is_json: bool,
    table: Option<Bound<'_, PyAny>>,
    files: Option<String>,
    stream: bool,
    watch: Option<Bound<'_, PyAny>>,
    stop: Option<Bound<'_, Stop>>,
) -> PyResult<(String, Option<Table>)> {
    let table = table.map(|table| backend::import(&table)).transpose()?;
    work(py, watch, stop.as_ref().map(Bound::get), move |ctl| {
        let meant = document::job(&document, is_json, table.is_some(), files.as_deref())?;
        let plan = vesica_spec::plan(&meant.spec)?;
        let table = table.map(|table| given(&plan, table, stream, ctl)).transpose()?;
        let given = Given { table, keep: meant.keep, ..Given::default() };
        let Ran { rows, report } = vesica::run(plan, given, ctl)?;
        Ok((report.to_json(), rows.map(Table::of).transpose()?))
    })
}

/// Matches two tables that are both here. `shared` is the shared document as JSON, `left_on` and `right_on` are the key columns. Gives
/// each side's report as JSON and its rows.
#[pyfunction]
#[pyo3(signature = (left, right, left_on, right_on, shared, watch=None, stop=None))]
pub fn intersect(
    py: Python<'_>,
    left: Bound<'_, PyAny>,
    right: Bound<'_, PyAny>,
    left_on: Vec<String>,
    right_on: Vec<String>,
    shared: &str,
    watch: Option<Bound<'_, PyAny>>,
    stop: Option<Bound<'_, Stop>>,
) -> PyResult<[(String, Option<Table>); 2]> {
    // One after the other: two relations of one DuckDB connection cannot be read at once.
    let read = |name, table: &Bound<'_, PyAny>| {
        let reader = backend::import(table)?;
        work(py, None, stop.as_ref().map(Bound::get), move |ctl| Table::read(name, reader, ctl))
    };
    let (left, right) = (read("the left table", &left)?, read("the right table", &right)?);
    work(py, watch, stop.as_ref().map(Bound::get), move |ctl| {
        let shared = vesica_spec::parse_shared(shared).map_err(|error| SpecError { place: None, ..error })?;
        let tables = [(left, left_on), (right, right_on)];
        let [left, right] = Job { shared }.here(tables, ctl)?;
        let side = |joined: vesica::Joined| -> Result<_, Failure> {
            Ok((joined.report.to_json(), joined.rows.map(Table::of).transpose()?))
        };
        Ok([side(left)?, side(right)?])
    })
}

/// What a job will cost and tell whom, as JSON and in words.
#[pyfunction]
#[pyo3(signature = (document, is_json, given, files=None, rows=None, peer_rows=None))]
pub fn plan(
    py: Python<'_>,
    document: String,
    is_json: bool,
    given: bool,
    files: Option<String>,
    rows: Option<u64>,
    peer_rows: Option<u64>,
) -> PyResult<(String, String)> {
    work(py, None, None, move |_| {
        let meant = document::job(&document, is_json, given, files.as_deref())?;
        let mut plan = vesica_spec::plan(&meant.spec)?;
        if meant.keep {
            plan.output = None;
        }
        let forecast = vesica_job::forecast(&plan, rows, peer_rows)?;
        let json = serde_json::to_string(&forecast).map_err(|error| Failure::bug(error.to_string()))?;
        Ok((json, forecast.in_words()))
    })
}

/// A report, which is JSON, as the file that the command would write.
#[pyfunction]
pub fn report_file(py: Python<'_>, report: &str) -> PyResult<String> {
    Ok(ReportFile::Json.text(&read(py, report)?))
}

fn read(py: Python<'_>, report: &str) -> PyResult<Report> {
    let read = serde_json::from_str::<Report>(report);
    read.map_err(|error| Failure::input(format!("this is no report of a run: {error}")).raised(py))
}

/// A report, which is JSON, as a page: one file of HTML.
#[pyfunction]
pub fn page(py: Python<'_>, report: &str) -> PyResult<String> {
    let page = Page::of(&read(py, report)?, None, Audience::Own);
    page.map(|page| page.html()).map_err(|error| Failure::input(error).raised(py))
}

/// Looks at everything that a run needs; gives what was looked at, what it is like, and whether that is as it should be.
#[pyfunction]
#[pyo3(signature = (document, is_json, table=None, files=None, stream=false, peer=false))]
pub fn check(
    py: Python<'_>,
    document: String,
    is_json: bool,
    table: Option<Bound<'_, PyAny>>,
    files: Option<String>,
    stream: bool,
    peer: bool,
) -> PyResult<Vec<(String, String, bool)>> {
    let table = table.map(|table| backend::import(&table)).transpose()?;
    work(py, None, None, move |ctl| {
        let meant = document::job(&document, is_json, table.is_some(), files.as_deref())?;
        let mut plan = vesica_spec::plan(&meant.spec)?;
        if meant.keep {
            plan.output = None;
        }
        let io = match table {
            None => Io::open(&plan, ctl)?,
            Some(table) => {
                let target = plan.output.clone().map(|output| Box::new(output) as Box<dyn vesica_job::Target>);
                Io {
                    table: given(&plan, table, stream, ctl)?,
                    target,
                    connections: Vec::new(),
                    world: World::default(),
                }
            }
        };
        let checked = vesica_job::check(&plan, io, ctl, peer)?;
        Ok(checked.findings.into_iter().map(|finding| (finding.what.to_owned(), finding.found, finding.good)).collect())
    })
}

/// Writes tables with a known intersection; gives the tables' paths, and that of the common keys.
#[pyfunction]
pub fn r#gen(
    py: Python<'_>,
    out: PathBuf,
    rows: Vec<u64>,
    overlap: u64,
    columns: u32,
    keys: String,
    format: String,
    seed: u64,
) -> PyResult<(Vec<PathBuf>, PathBuf)> {
    work(py, None, None, move |ctl| {
        let keys = keys.parse().map_err(Failure::config)?;
        let format = format.parse().map_err(Failure::config)?;
        let made = Sample { rows, overlap, columns, keys, format, seed }.write(&out, ctl)?;
        Ok((made.tables, made.expected))
    })
}

/// Makes an identity; gives the private key's file, the certificate's file and the fingerprint.
#[pyfunction]
pub fn cert(py: Python<'_>, name: &str, out: PathBuf) -> PyResult<(PathBuf, PathBuf, String)> {
    let made = Identity::generate(name).and_then(|identity| {
        let (secret, public) = identity.write(&out)?;
        Ok((secret, public, identity.fingerprint().to_string()))
    });
    made.map_err(|error| Failure::from(vesica::Error::from(error)).raised(py))
}

/// Runs the `vesica` command; gives its exit code. `itself` is how it starts itself once more.
#[pyfunction]
pub fn command(py: Python<'_>, args: Vec<OsString>, itself: Vec<OsString>) -> u8 {
    py.detach(|| vesica_cli::main(args, &itself))
}
