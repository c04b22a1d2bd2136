//! What an invitation to ask a service is made of, and what its reader is told before they accept.

use crate::error::Error;
use crate::offer::Offer;
use crate::{prepare, suite};
use vesica_job::JobError;
use vesica_job::report::{revealed, who_learns_what};
use vesica_spec::service::{AskPlan, ServePlan, Service};

/// The offer of what was prepared, which is what the document says.
///
/// # Errors
/// If nothing was prepared, or the document has changed since.
pub fn offered(plan: &ServePlan) -> Result<Offer, Error> {
    let offer = Offer::load(&plan.store).map_err(|error| match error {
        Error::Job(JobError::File { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = "nothing is prepared there yet; run `vesica prepare` first, for an invitation names the offer";
            Error::Setup(format!("{}: {why}", plan.store.display()))
        }
        other => other,
    })?;
    prepare::agrees(plan, &offer)?;
    Ok(offer)
}

/// Fails if the table of `plan` cannot be opened or lacks a key column. No row is read.
///
/// # Errors
/// Those of opening it.
pub fn has_keys(plan: &AskPlan) -> Result<(), Error> {
    if let Some((input, keys)) = &plan.input {
        drop(vesica_table::open(input)?.keys(keys, 1)?);
    }
    Ok(())
}

/// Who would learn what if `client` asks this service of `server`, a line each.
pub fn would_learn(service: &Service, server: &str, client: &str) -> String {
    let names = [server.to_owned(), client.to_owned()];
    who_learns_what(&revealed(&suite::reveals_of(service), &names, &names[1..]))
}
