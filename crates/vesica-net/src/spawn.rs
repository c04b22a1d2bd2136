//! Threads that nobody waits for.

use crate::{Error, Result};

pub(crate) fn spawn(what: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = std::thread::Builder::new().name(what.into()).spawn(body);
    started.map(drop).map_err(|source| Error::System { what: "starting a thread", source })
}
