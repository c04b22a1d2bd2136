//! What goes wrong with stores.

use std::io;
use std::path::{Path, PathBuf};
use vesica_session::Fault;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What goes wrong with stores. Messages name the file, what is wrong with it and the remedy; they never hold an output or
/// a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum Error {
    /// There is no store, or a file of it is gone.
    #[error("{}: no such file; `vesica prepare` makes a store, `vesica fetch` copies one", .path.display())]
    Missing { path: PathBuf },
    /// A file that is truncated, changed, or no file of a store.
    #[error("{} is damaged: {why}; remove it and fetch it again, or prepare it again where it was prepared", .path.display())]
    Damaged { path: PathBuf, why: String },
    /// A file of another version.
    #[error("{} has format {found} and this program reads format {known}; use the version of Vesica that wrote it", .path.display())]
    Version { path: PathBuf, found: u32, known: u32 },
    /// The server sent what cannot be.
    #[error("the server sent {what} that cannot be: {why}; ask the server's operator to check its store")]
    Sent { what: String, why: String },
    /// A value that is too long.
    #[error(
        "a value has {length} bytes and the service pads values to {most}; give the service a larger padded length"
    )]
    TooLong { length: usize, most: u32 },
    /// Two values of one key.
    #[error(
        "rows {} and {} have the same key and different values, and a key has one value; remove one of the rows, or take the columns \
         that differ out of service.values", .first + 1, .second + 1
    )]
    Values { first: u64, second: u64 },
    /// Two keys with one tag.
    #[error("two keys have the same tag by chance; `vesica prepare --rotate` makes a new key")]
    Twice,
    /// More tags than their length allows for.
    #[error(
        "the store would hold {tags} tags, removed ones included, and its tags are long enough for {room}; `vesica prepare \
         --rotate` makes a new store"
    )]
    Full { tags: u64, room: u64 },
    /// A store with as many parts as there may be.
    #[error("{}: the store has {parts} parts, and no store has more; `vesica prepare` makes one of a single part", .path.display())]
    Parts { path: PathBuf, parts: usize },
    /// A shape that no store can have.
    #[error("{what} is {got}, and must be from {least} to {most}")]
    Shape { what: &'static str, got: u64, least: u64, most: u64 },
    /// Another program is writing the store.
    #[error("{}: another process is writing this store; wait for it to end", .path.display())]
    Busy { path: PathBuf },
    /// What a fetch has not brought yet.
    #[error("{}: part {part} was not fetched", .path.display())]
    Unfetched { path: PathBuf, part: usize },
    /// Spilling failed.
    #[error(transparent)]
    Spill(#[from] vesica_table::Error),
    /// The system has no randomness.
    #[error("the system has no randomness to give: {0}")]
    Randomness(getrandom::Error),
    /// Anything else that the operating system reports.
    #[error("{}: cannot {verb} it: {source}", .path.display())]
    Io { path: PathBuf, verb: &'static str, source: io::Error },
    /// This program broke a rule of its own.
    #[error("a bug in Vesica: {0}; please report it")]
    Bug(String),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Sent { .. } => Fault::Peer,
            Error::TooLong { .. } | Error::Values { .. } | Error::Twice | Error::Damaged { .. } => Fault::Input,
            Error::Missing { .. }
            | Error::Version { .. }
            | Error::Full { .. }
            | Error::Parts { .. }
            | Error::Shape { .. }
            | Error::Busy { .. }
            | Error::Unfetched { .. }
            | Error::Randomness(_)
            | Error::Io { .. } => Fault::Config,
            Error::Spill(error) => match error.fault() {
                vesica_table::Fault::Config => Fault::Config,
                vesica_table::Fault::Input => Fault::Input,
                vesica_table::Fault::Bug => Fault::Bug,
            },
            Error::Bug(_) => Fault::Bug,
        }
    }

    /// What an error of reading `path` means.
    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: path.into() },
            _ => Error::Io { path: path.into(), verb: "read", source },
        }
    }

    /// What an error of writing `path` means.
    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Error::Io { path: path.into(), verb: "write", source }
    }

    /// A file that is not what it must be.
    pub(crate) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Error::Damaged { path: path.into(), why: why.into() }
    }
}
