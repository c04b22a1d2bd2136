//! Where a command's job comes from: a job file, or a configuration of SecretFlow's.

use crate::failure::Failure;
use crate::flags::{Source, Trust};
use std::path::Path;
use vesica_secretflow::{Imported, Kind, What};
use vesica_spec::service::{AskPlan, ServePlan, plan_ask, plan_serve};
use vesica_spec::{Document, Plan, SpecError};

/// What a document means.
pub enum Meant {
    /// A job.
    Job(Box<Plan>),
    /// A server.
    Server(Box<ServePlan>),
    /// A client.
    Client(Box<AskPlan>),
}

impl Source {
    /// What the document means: a job's, a server's or a client's.
    pub fn meant(&self, tell: impl Fn(String)) -> Result<Meant, Failure> {
        if let Some(path) = &self.from.job {
            match vesica_spec::load_any(path)? {
                Document::Server(spec) => return Ok(Meant::Server(Box::new(plan_serve(&spec)?))),
                Document::Client(spec) => return Ok(Meant::Client(Box::new(plan_ask(&spec)?))),
                Document::Job(_) => {}
            }
        }
        Ok(match self.what(tell)? {
            What::Job(spec) => Meant::Job(Box::new(vesica_spec::plan(&spec)?)),
            What::Server(server) => Meant::Server(Box::new(server.plan()?)),
            What::Client(client) => Meant::Client(Box::new(client.plan()?)),
        })
    }

    /// What is to run. What an imported file does not do as SecretFlow would goes to `tell`.
    pub fn what(&self, tell: impl Fn(String)) -> Result<What, Failure> {
        let trust = self.trust.meant();
        let (path, kind) = match (&self.from.job, &self.from.config, &self.from.kuscia) {
            (Some(_), _, _) if trust != vesica_secretflow::Trust::AsWritten => {
                return Err(Failure::usage("a job file says itself how the parties know each other: see mine.tls"));
            }
            (Some(job), _, _) => {
                return match vesica_spec::load_any(job)? {
                    Document::Job(spec) => Ok(What::Job(spec)),
                    Document::Server(_) => Err(other(job, OF_A_SERVER).into()),
                    Document::Client(_) => Err(other(job, OF_A_CLIENT).into()),
                };
            }
            (_, Some(config), _) => (config, Kind::Launch),
            (_, _, Some(task)) => (task, Kind::Kuscia),
            (None, None, None) => return Err(Failure::usage("name a job file, or give --config or --kuscia FILE")),
        };
        Ok(told(Some(path), vesica_secretflow::load(path, kind, &trust)?, tell))
    }
}

/// What an import asks for, after its notes were told.
pub fn told(path: Option<&Path>, imported: Imported, tell: impl Fn(String)) -> What {
    let file = path.map(|path| format!("{}: ", path.display())).unwrap_or_default();
    imported.notes.iter().for_each(|note| tell(format!("note: {file}{note}")));
    imported.what
}

impl Trust {
    /// As the import takes it.
    pub fn meant(&self) -> vesica_secretflow::Trust {
        match &self.identity {
            Some(identity) => vesica_secretflow::Trust::Tls { identity: identity.clone(), peers: self.trust.clone() },
            _ if self.insecure => vesica_secretflow::Trust::Insecure,
            _ => vesica_secretflow::Trust::AsWritten,
        }
    }
}

/// The plan of a server's document.
pub fn server(path: &Path) -> Result<ServePlan, Failure> {
    Ok(read_server(path)?)
}

/// The same of one that is read again.
pub fn read_server(path: &Path) -> Result<ServePlan, SpecError> {
    match vesica_spec::load_any(path)? {
        Document::Server(spec) => plan_serve(&spec),
        Document::Client(_) => Err(other(path, OF_A_CLIENT)),
        Document::Job(_) => Err(other(path, "a job's, for `vesica run`")),
    }
}

/// The plan of a client's document.
pub fn client(path: &Path) -> Result<AskPlan, Failure> {
    Ok(match vesica_spec::load_any(path)? {
        Document::Client(spec) => plan_ask(&spec)?,
        Document::Server(_) => return Err(other(path, OF_A_SERVER).into()),
        Document::Job(_) => return Err(other(path, "a job's, for `vesica run`").into()),
    })
}

/// What a server's document is for.
const OF_A_SERVER: &str = "a server's, for `vesica prepare` and `vesica serve`";

/// What a client's document is for.
const OF_A_CLIENT: &str = "a client's, for `vesica fetch` and `vesica ask`";

/// A document for other commands.
fn other(path: &Path, what: &str) -> SpecError {
    SpecError { file: Some(path.to_owned()), ..SpecError::field("service", format!("this document is {what}")) }
}
