//! From a client's plan to a connection with the server.

use crate::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use vesica_job::rooms::{Authorities, Listening, identity, road};
use vesica_job::{Control, Fault, JobError, World};
use vesica_net::{Endpoint, PeerLink, PeerSpec, Security};
use vesica_spec::KeyPlace;
use vesica_spec::service::AskPlan;

/// What names the service on the wire: who looks for another one is turned away at the door.
pub fn name(id: &str) -> [u8; 32] {
    blake3::derive_key("vesica 2026 service", id.as_bytes())
}

/// The largest message of a service, for chunks of a store and the sums of its parts.
pub const WINDOW: u32 = 4 << 20;

/// The most bytes that a side takes before it has asked for them: what a client sends ahead on its lanes.
pub const UNASKED: usize = 8 << 20;

/// How connections are secured, by the files of a plan. A program that prints the private key is ended once `ctl` is cancelled.
///
/// # Errors
/// If the private key or the certificate cannot be read; being cancelled meanwhile.
pub fn security(files: Option<&(PathBuf, Option<KeyPlace>)>, ctl: &Control) -> Result<Security, Error> {
    let Some(files) = files else { return Ok(Security::Insecure) };
    let identity = identity(files, &|| ctl.is_cancelled());
    // A program that was ended because this was cancelled is no fault of the document.
    ctl.check().map_err(JobError::from)?;
    Ok(Security::Tls { identity: identity? })
}

/// The client's endpoint. Nobody is contacted.
///
/// # Errors
/// Certificates that cannot be read; what is wrong with the endpoint.
pub fn endpoint(plan: &AskPlan, ctl: &Control) -> Result<Endpoint, Error> {
    let mut endpoint = Endpoint::new(plan.me.clone(), name(&plan.id), security(plan.identity.as_ref(), ctl)?);
    endpoint.patience = plan.patience;
    (endpoint.window, endpoint.unasked) = (WINDOW, Some(UNASKED));
    endpoint.peers.push(PeerSpec {
        party: plan.server.clone(),
        connect: Some(plan.address.clone()),
        trust: Authorities::default().trust(plan.trust.as_ref(), &plan.server)?,
        road: road(&plan.proxy, &plan.address, &plan.road)?,
    });
    endpoint.check()?;
    Ok(endpoint)
}

/// The call to the server. Nobody is contacted before it is made: then it gives the connection, or fails as [`vesica_net::connect`] does.
///
/// # Errors
/// Those of [`endpoint`].
pub fn call(
    plan: &AskPlan,
    world: &World,
    ctl: &Control,
) -> Result<impl FnOnce() -> Result<Box<dyn PeerLink>, Error>, Error> {
    let endpoint = endpoint(plan, ctl)?;
    let (connector, watch) = (world.connector.clone(), Arc::new(Listening(ctl.clone())));
    Ok(move || {
        let mut links = connector.connect(endpoint, watch)?;
        links.pop().ok_or_else(|| Error::bug("nobody to connect to"))
    })
}

/// Ends the connection after `error`, and tells the server whose fault it was and nothing of this party's data or files.
pub fn leave(link: &dyn PeerLink, error: &Error) {
    let words = match error.fault() {
        // Its words are for this party's user: they name its cache and the newest epoch that it has had.
        // How large its cache is, and what it had before, is its own.
        _ if matches!(error, Error::Store(vesica_store::Error::Sent { .. })) => {
            "it was sent a store that cannot be, or an older one than it had; its user sees which".to_owned()
        }
        _ if matches!(error, Error::Older { .. }) => {
            "it was shown an older state of the table, or another one of a number that it knows".to_owned()
        }
        // How its clock stands is its own.
        _ if matches!(error, Error::NotInTime { .. }) => {
            "by its clock, this is not the time of the epoch that it was shown".to_owned()
        }
        Fault::Peer => error.to_string(),
        Fault::Interrupted => "it was interrupted".to_owned(),
        _ => "it failed; its user sees why".to_owned(),
    };
    link.abort(error.fault(), &words);
}
