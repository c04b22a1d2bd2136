//! From a plan to a link with the peer.

use crate::control::Control;
use crate::error::JobError;
use std::sync::Arc;
use vesica_net::{Endpoint, Identity, Link, PeerSpec, Roots, Security, Trust};
use vesica_spec::{Plan, TrustPlan};

/// The largest message: a unit's list of elements. Holds the largest unit that a job may ask for, with its padding.
const WINDOW: u32 = 40 << 20;

/// The plan's endpoint. Nothing is contacted.
///
/// # Errors
/// Certificates that cannot be read; everything that [`Endpoint::check`] finds: names, ages, the port.
pub fn endpoint(plan: &Plan, identity: Option<&Identity>) -> Result<Endpoint, JobError> {
    let security = match identity {
        Some(identity) => Security::Tls { identity: identity.clone() },
        None => Security::Insecure,
    };
    // The parties compare the whole shared document once they are connected; a difference is then shown field by field.
    let any_job = [0; 32];
    let mut endpoint = Endpoint::new(plan.me.clone(), any_job, security);
    endpoint.listen = plan.listen.clone();
    endpoint.patience = plan.patience;
    endpoint.window = WINDOW;
    for peer in &plan.peers {
        let trust = match &peer.trust {
            None => None,
            Some(TrustPlan::Pinned(fingerprint)) => Some(Trust::Pinned(*fingerprint)),
            Some(TrustPlan::Ca(file)) => {
                Some(Trust::Ca { roots: Roots::load(file)?, name: peer.party.name().to_owned() })
            }
        };
        endpoint.peers.push(PeerSpec { party: peer.party.clone(), connect: peer.connect.clone(), trust });
    }
    endpoint.check()?;
    Ok(endpoint)
}

/// Connects to the peer, and waits for one that is late.
///
/// # Errors
/// Those of [`vesica_net::connect`].
pub fn connect(endpoint: Endpoint, ctl: &Control) -> Result<Link, JobError> {
    let mut links = vesica_net::connect(endpoint, Arc::new(Listening(ctl.clone())))?;
    match (links.pop(), links.is_empty()) {
        (Some(link), true) => Ok(link),
        _ => Err(vesica_session::Error::Bug("a two-party job has another number of links".into()).into()),
    }
}

/// Ends a connection after `error`: in good order where the peer sees the same from what it was sent, which a stop could
/// overtake; else by telling it whose fault it was.
pub fn leave(link: &Link, error: &JobError) {
    if error.both_see() {
        // The peer may be gone already, and then there is nothing to say.
        let _ = link.close();
    } else {
        link.abort(error.fault(), &error.for_peer());
    }
}

/// Passes what the network says on to the run's watcher.
struct Listening(Control);

impl vesica_net::Control for Listening {
    fn event(&self, event: &vesica_net::Event) {
        self.0.note(event.to_string());
    }

    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
