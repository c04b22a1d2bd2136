//! What goes wrong with services.

use std::io;
use std::path::{Path, PathBuf};
use vesica_job::{Fault, JobError};

/// Why a command of a service did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum Error {
    /// What jobs have in common with services: documents, tables, connections, files.
    #[error("{0}")]
    Job(JobError),
    /// A store.
    #[error("{0}")]
    Store(#[from] vesica_store::Error),
    /// A file that is not what it was.
    #[error("{} is damaged: {why}", .path.display())]
    Damaged { path: PathBuf, why: String },
    /// A server with another offer.
    #[error(
        "{server} offers {found}, and this client expects {wanted}. Either this is not the service that you mean, or its operator has changed \
         it (a new key makes a new offer): ask the operator over a way that you trust"
    )]
    OtherOffer { server: String, found: String, wanted: String },
    /// An offer that means something else than the document here.
    #[error("{field}: the server's offer says {offered}, and the document here says {mine}; write what the offer says")]
    Contradiction { field: &'static str, offered: String, mine: String },
    /// A server that shows an older state of its table than this client has had, or another one of the same number.
    #[error(
        "{server} serves {found}, and {} has {kept} of the same service already: nothing was asked. Either the server was set back to an older \
         table, or it shows its clients different ones. Ask its operator over a way that you trust, and if it is right, {remedy}",
        .cache.display()
    )]
    Older { server: String, found: String, kept: String, cache: PathBuf, remedy: Box<str> },
    /// A server that shows an epoch of which the time is over, or is to come.
    #[error(
        "{server} serves {found}, which was made at {} and which clients take until {}; the clock of this machine says {}, so nothing \
         was asked. Set the clock if it is wrong; else ask the server's operator to look at theirs and to run `vesica prepare`",
        .times[0], .times[1], .times[2]
    )]
    NotInTime { server: String, found: String, times: Box<[String; 3]> },
    /// A server that does not answer, and says why.
    #[error("{server} does not answer: {why}")]
    Refused { server: String, why: String },
    /// A client in the middle of its work with a state of the store that is served no more.
    #[error(
        "there is a newer state of the store, and the one that this connection was told of is served no more; run the command again, which \
         fetches what is new"
    )]
    Superseded,
    /// A server that says what cannot be.
    #[error("the server sent {0}; ask its operator to check the service")]
    Sent(String),
    /// Something is missing that the command needs.
    #[error("{field}: is missing: {why}")]
    Missing { field: &'static str, why: String },
    /// A store that the command does not fit.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Job(error) => error.fault(),
            Error::Store(error) => error.fault(),
            Error::Damaged { .. } => Fault::Input,
            Error::OtherOffer { .. }
            | Error::Older { .. }
            | Error::NotInTime { .. }
            | Error::Refused { .. }
            | Error::Superseded
            | Error::Sent(_) => Fault::Peer,
            Error::Contradiction { .. } | Error::Missing { .. } | Error::Setup(_) => Fault::Config,
        }
    }

    /// A rule of this program's own that it broke.
    pub fn bug(what: impl Into<String>) -> Self {
        vesica_session::Error::Bug(what.into()).into()
    }

    /// The error of the file at `path`, of which `what` was tried: `cannot write`.
    pub fn file(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Error::Job(JobError::File { what, path: path.clone(), error })
    }
}

impl From<vesica_pir::PirError> for Error {
    fn from(error: vesica_pir::PirError) -> Self {
        match error {
            vesica_pir::PirError::Message(what) => Error::Sent(what),
            vesica_pir::PirError::Shape(what) => Error::Setup(what),
        }
    }
}

/// Errors that jobs have too.
macro_rules! as_in_jobs {
    ($($error:ty),*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::Job(error.into())
            }
        })*
    };
}

as_in_jobs!(JobError, vesica_spec::SpecError, vesica_table::Error, vesica_net::Error, vesica_session::Error);
