//! SecretFlow's launch configurations, as JSON.

use crate::failure::Failure;
use crate::work::{Stop, work};
use pyo3::prelude::*;
use std::path::PathBuf;
use vesica_job::{Control, Io, Report, World};
use vesica_secretflow::{Client, Kind, Server, Trust, What};
use vesica_service::{Change, Offer};

/// Does what a launch configuration asks for. Gives the report as JSON where there is one, the rows that were read where there is
/// none, and what is not as with SecretFlow.
#[pyfunction]
#[pyo3(signature = (config, identity=None, peers=Vec::new(), insecure=false, watch=None, stop=None))]
pub fn secretflow_run(
    py: Python<'_>,
    config: String,
    identity: Option<PathBuf>,
    peers: Vec<String>,
    insecure: bool,
    watch: Option<Bound<'_, PyAny>>,
    stop: Option<Bound<'_, Stop>>,
) -> PyResult<(Option<String>, u64, Vec<String>)> {
    work(py, watch, stop.as_ref().map(Bound::get), move |ctl| {
        let trust = match identity {
            Some(identity) => Trust::Tls { identity, peers },
            None if insecure => Trust::Insecure,
            None => Trust::AsWritten,
        };
        let imported = vesica_secretflow::read(&config, Kind::Launch, &trust)
            // The places are those of a text that nobody has seen.
            .map_err(|error| vesica_spec::SpecError { place: None, ..error })?;
        let notes = imported.notes.iter().map(ToString::to_string).collect();
        let (report, rows) = match imported.what {
            What::Job(spec) => {
                let plan = vesica_spec::plan(&spec)?;
                (Some(vesica_job::run(&plan, Io::open(&plan, ctl)?, ctl)?), 0)
            }
            What::Server(server) => (None, serve(&server, ctl)?),
            What::Client(client) => (ask(&client, ctl)?, 0),
        };
        Ok((report.map(|report| report.to_json()), rows, notes))
    })
}

/// The server's part: makes the store, serves one client, or both. Gives the rows that it read.
fn serve(server: &Server, ctl: &Control) -> Result<u64, Failure> {
    let plan = server.plan()?;
    let mut rows = 0;
    if server.prepares {
        // As with SecretFlow, a new cache has a new key unless the configuration names one.
        let change = Change { rotate: plan.seed.is_none(), ..Change::default() };
        rows = vesica_service::prepare(&plan, &change, &World::default(), ctl)?.rows;
    }
    if server.serves {
        vesica_service::serve(&plan, &World::default(), &|| None, ctl)?;
        ctl.check().map_err(vesica::Error::from)?;
    }
    Ok(rows)
}

/// The client's part: fetches, asks, or both. Gives the report, if it asked.
fn ask(client: &Client, ctl: &Control) -> Result<Option<Report>, Failure> {
    let mut plan = client.plan()?;
    if !client.asks {
        vesica_service::fetch(&plan, &World::default(), ctl)?;
        return Ok(None);
    }
    if !client.fetches {
        let kept = Offer::load(&plan.cache).map_err(|_| {
            let path = plan.cache.display();
            let why = "has nothing that was fetched: run MODE_OFFLINE or MODE_OFFLINE_TRANSFER_CACHE first";
            Failure::config(format!("ub_psi_config.cache_path: {path} {why}"))
        })?;
        plan.offer = Some(kept.hash());
    }
    Ok(Some(vesica_service::ask(&plan, vesica_service::files(&plan)?, ctl)?.end()?))
}
