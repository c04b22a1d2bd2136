//! Services: one party prepares and serves, many ask.

use crate::failure::Failure;
use crate::table::{NAME, Table};
use crate::work::{Stop, work};
use crate::{backend, document};
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use vesica_job::{Io, Target, World};
use vesica_service::{Change, Product, Run, spelled};
use vesica_spec::service::{plan_ask, plan_serve};
use vesica_table::Collect;

/// Makes a store, or adds to one; gives what came of it as JSON.
#[pyfunction]
#[pyo3(signature = (document, is_json, rotate=false, append=None, remove=None, watch=None))]
pub fn prepare(
    py: Python<'_>,
    document: String,
    is_json: bool,
    rotate: bool,
    append: Option<PathBuf>,
    remove: Option<PathBuf>,
    watch: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    work(py, watch, None, move |ctl| {
        let plan = plan_serve(&document::server(&document, is_json)?)?;
        let prepared = vesica_service::prepare(&plan, &Change { rotate, append, remove }, &World::default(), ctl)?;
        let mut made = match &prepared.product {
            Product::Store(built) => json!({
                "keys": built.manifest.entries(),
                "parts": built.manifest.parts.len(),
                "bytes": built.manifest.bytes(),
                "added": built.part.entries,
                "replaced": built.part.replaced,
                "removed": built.part.removed,
                "absent": built.absent,
            }),
            Product::Table(made) => {
                let changed = made.changed.unwrap_or_default();
                json!({
                    "keys": made.epoch.rows,
                    "parts": if made.epoch.log > 0 { 2 } else { 1 },
                    "bytes": made.epoch.records * u64::from(made.epoch.width),
                    "added": made.rows,
                    "replaced": changed.replaced,
                    "removed": changed.removed,
                    "absent": changed.absent,
                })
            }
        };
        made["rows"] = prepared.rows.into();
        made["empty"] = prepared.empty.into();
        made["sealed"] = prepared.unsealed.is_empty().into();
        made["offer_changed"] = prepared.offer_changed.into();
        made["offer"] = spelled(&prepared.offer.hash()).into();
        Ok(made.to_string())
    })
}

/// Serves until `stop` is set.
#[pyfunction]
#[pyo3(signature = (document, is_json, stop, watch=None))]
pub fn serve(
    py: Python<'_>,
    document: String,
    is_json: bool,
    stop: Bound<'_, Stop>,
    watch: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    work(py, watch, Some(stop.get()), move |ctl| {
        let plan = plan_serve(&document::server(&document, is_json)?)?;
        Ok(vesica_service::serve(&plan, &World::default(), &|| None, ctl)?)
    })
}

/// Copies what the cache lacks; gives how many keys or rows can be looked up now.
#[pyfunction]
#[pyo3(signature = (document, is_json, watch=None, stop=None))]
pub fn fetch(
    py: Python<'_>,
    document: String,
    is_json: bool,
    watch: Option<Bound<'_, PyAny>>,
    stop: Option<Bound<'_, Stop>>,
) -> PyResult<u64> {
    work(py, watch, stop.as_ref().map(Bound::get), move |ctl| {
        // What is asked for later may come from memory: it is not looked at here.
        let (spec, _) = document::client(&document, is_json, true)?;
        Ok(vesica_service::fetch(&plan_ask(&spec)?, &World::default(), ctl)?.rows)
    })
}

/// A run that is written and not over. One whose caller gave up is told again by the next one, so whoever takes the rows ends it then.
#[pyclass(frozen, module = "vesica._core")]
pub struct Asked(Mutex<Option<Run>>);

#[pymethods]
impl Asked {
    /// The run is over: whoever asked has its rows.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        // Taken first: an interrupt's traceback keeps this alive, and the run would keep the files of it from the next one.
        let Some(run) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        // Whoever was stopped up to now takes no rows, and the next run tells them again.
        py.check_signals()?;
        py.detach(|| run.end().map(drop)).map_err(|error| Failure::from(error).raised(py))
    }
}

/// Asks for the keys of a table. Gives the report as JSON, the rows if they are kept in memory, and what is to be ended when the caller has them.
#[pyfunction]
#[pyo3(signature = (document, is_json, table=None, watch=None, stop=None))]
pub fn ask(
    py: Python<'_>,
    document: String,
    is_json: bool,
    table: Option<Bound<'_, PyAny>>,
    watch: Option<Bound<'_, PyAny>>,
    stop: Option<Bound<'_, Stop>>,
) -> PyResult<(String, Option<Table>, Asked)> {
    let table = table.map(|table| backend::import(&table)).transpose()?;
    work(py, watch, stop.as_ref().map(Bound::get), move |ctl| {
        let (spec, keep) = document::client(&document, is_json, table.is_some())?;
        let mut plan = plan_ask(&spec)?;
        let kept = keep.then(|| Arc::new(Collect::new(false, None)));
        let target: Option<Box<dyn Target>> = match (&kept, plan.output.clone()) {
            (Some(kept), _) => Some(Box::new(kept.clone())),
            (None, output) => output.map(|output| Box::new(output) as Box<dyn Target>),
        };
        if keep {
            plan.output = None;
        }
        let table = match (table, &plan.input) {
            (Some(table), _) => Table::read(NAME, table, ctl)?,
            (None, Some((input, _))) => vesica_table::open(input)?,
            (None, None) => return Err(Failure::config("mine.input: is missing: name a file, or give ask() a table")),
        };
        let io = Io { table, target, connections: Vec::new(), world: World::default() };
        let run = vesica_service::ask(&plan, io, ctl)?;
        let rows = kept.and_then(|kept| kept.take()).map(Table::of).transpose()?;
        Ok((run.report.to_json(), rows, Asked(Mutex::new(Some(run)))))
    })
}

/// What a service or its client will cost, in words.
#[pyfunction]
#[pyo3(signature = (document, is_json, rows=None))]
pub fn plan_service(py: Python<'_>, document: String, is_json: bool, rows: Option<u64>) -> PyResult<String> {
    work(py, None, None, move |_| match document::server(&document, is_json) {
        Ok(spec) => Ok(vesica_service::plan_server(&plan_serve(&spec)?, rows, None, None)?),
        Err(_) => Ok(vesica_service::plan_client(&plan_ask(&document::client(&document, is_json, false)?.0)?, rows)?),
    })
}

/// Looks at everything that a service or its client needs.
#[pyfunction]
pub fn check_service(py: Python<'_>, document: String, is_json: bool) -> PyResult<Vec<(String, String)>> {
    work(py, None, None, move |ctl| {
        let checked = match document::server(&document, is_json) {
            Ok(spec) => vesica_service::check_server(&plan_serve(&spec)?, ctl)?,
            Err(_) => vesica_service::check_client(&plan_ask(&document::client(&document, is_json, false)?.0)?, ctl)?,
        };
        Ok(checked.findings.into_iter().map(|finding| (finding.what.to_owned(), finding.found)).collect())
    })
}
