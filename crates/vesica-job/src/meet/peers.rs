//! From a plan to a connection with every peer.

use crate::error::JobError;
use crate::tell::control::Control;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vesica_net::{
    Connection, Connector, Endpoint, Fingerprint, Identity, PeerLink, PeerSpec, Proxies, Proxy, Road, Roots, Security,
    Traffic, Trust,
};
use vesica_session::{Fault, Lines};
use vesica_spec::{KeyPlace, Plan, ProxyPlan, RoadPlan, TrustPlan};
use vesica_types::Party;
use zeroize::Zeroizing;

/// The largest message: a unit's list of elements. Holds the largest unit that a job may ask for, with its padding.
pub const WINDOW: u32 = 40 << 20;

/// How long a run waits for the goodbye of a check, so that no check keeps it long from waiting on for the peer that is to come. A check says it
/// at once.
const SOON: Duration = Duration::from_secs(2);

/// How long any other peer may take to see by itself that the connection is over. It may still have to hear what this side has said, over a
/// line that stands still. Without a bound it could keep this side from ending.
const GOODBYE: Duration = Duration::from_secs(30);

/// The plan's endpoint; `carried` if the caller brings the connections. Nothing is contacted.
///
/// # Errors
/// Certificates that cannot be read; everything that [`Connector::check`] finds: names, ages, the port.
pub fn endpoint(
    plan: &Plan,
    identity: Option<&Identity>,
    carried: bool,
    connector: &dyn Connector,
) -> Result<Endpoint, JobError> {
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
    endpoint.carried = carried;
    endpoint.gateways = plan.gateways.clone();
    let mut authorities = Authorities::default();
    for peer in &plan.peers {
        let trust = authorities.trust(peer.trust.as_ref(), &peer.party)?;
        let road = match &peer.connect {
            Some(address) if !carried => road(&plan.proxy, address, &peer.road)?,
            _ => Road::default(),
        };
        endpoint.peers.push(PeerSpec { party: peer.party.clone(), connect: peer.connect.clone(), trust, road });
    }
    connector.check(&endpoint)?;
    Ok(endpoint)
}

/// The files of authorities that were read so far. Each is read once, for however many the authorities in it vouch.
#[derive(Default)]
pub struct Authorities(HashMap<PathBuf, Roots>);

impl Authorities {
    /// How `party` is known, by what the plan says of it.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub fn trust(&mut self, plan: Option<&TrustPlan>, party: &Party) -> Result<Option<Trust>, JobError> {
        Ok(match plan {
            None => None,
            Some(TrustPlan::Pinned(pins)) => Some(Trust::Pinned(pins.clone())),
            Some(TrustPlan::Ca(file)) => {
                let roots = match self.0.get(file) {
                    Some(roots) => roots.clone(),
                    None => self.0.entry(file.clone()).insert_entry(Roots::load(file)?).get().clone(),
                };
                Some(Trust::Ca { roots, name: party.name().to_owned() })
            }
        })
    }
}

/// The most bytes of a file with the user and the password of a proxy.
const MOST_CREDENTIALS: u64 = 4096;

/// How `address` is reached: straight, through the proxy that the document names or the environment, or by a command.
///
/// # Errors
/// A proxy of the environment's that cannot be used; a file with its user and password that cannot be read, or that others can.
pub fn road(plan: &ProxyPlan, address: &str, said: &RoadPlan) -> Result<Road, JobError> {
    let road = match &said.command {
        Some(words) => Road::by(words.clone()),
        None => to(plan, address)?,
    };
    match &said.sni {
        None => Ok(road),
        Some(name) => Ok(road.with_sni(name).map_err(vesica_net::Error::Setup)?),
    }
}

fn to(plan: &ProxyPlan, address: &str) -> Result<Road, JobError> {
    let proxies = match plan {
        ProxyPlan::Environment => Proxies::Environment,
        ProxyPlan::None => Proxies::None,
        ProxyPlan::Through(proxy, None) => Proxies::Through(proxy.clone()),
        ProxyPlan::Through(proxy, Some(file)) => Proxies::Through(known(proxy, file)?),
    };
    Road::to(address, &proxies, |name| std::env::var(name).ok())
        .map_err(|why| vesica_net::Error::Setup(format!("cannot call {address}: {why}")).into())
}

/// The proxy with the user and the password that are in this file.
fn known(proxy: &Proxy, path: &Path) -> Result<Proxy, JobError> {
    let bad = |why: String| vesica_net::Error::Setup(format!("mine.proxy_credentials {}: {why}", path.display()));
    let file = File::open(path).map_err(|e| bad(format!("cannot be read ({e})")))?;
    let meta = file.metadata().map_err(|e| bad(format!("cannot be read ({e})")))?;
    if let Some((why, remedy)) = vesica_net::exposed(&meta, path, "password") {
        return Err(bad(format!("{why}; {remedy}")).into());
    }
    let mut text = Zeroizing::new(String::with_capacity(MOST_CREDENTIALS as usize + 1));
    let read = file.take(MOST_CREDENTIALS + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 <= MOST_CREDENTIALS => {}
        Ok(_) => return Err(bad("it is larger than 4 KiB; write user:password on its first line".into()).into()),
        Err(e) => return Err(bad(format!("cannot be read ({e})")).into()),
    }
    Ok(proxy.clone().with_credentials(text.lines().next().unwrap_or_default()).map_err(bad)?)
}

/// The private key and certificate in these files; a key may have a file of its own, or a program that prints it, which is ended once `stop`
/// says so.
///
/// # Errors
/// Files that cannot be read, or hold no such things; a program that prints none.
pub fn identity((identity, key): &(PathBuf, Option<KeyPlace>), stop: &dyn Fn() -> bool) -> Result<Identity, JobError> {
    Ok(match key {
        None => Identity::load(identity)?,
        Some(KeyPlace::File(key)) => Identity::load_pair(identity, key)?,
        Some(KeyPlace::By(by)) => Identity::load_printed(identity, &by.program, &by.folder, stop)?,
    })
}

/// The identity of a plan's party, if it has one. A program that was ended because the run was cancelled is no fault of the job.
///
/// # Errors
/// As [`identity`]; being cancelled.
pub fn own(plan: &Plan, ctl: &Control) -> Result<Option<Identity>, JobError> {
    let own = plan.identity.as_ref().map(|files| identity(files, &|| ctl.is_cancelled()));
    ctl.check()?;
    own.transpose()
}

/// The connections to all peers of a job, in the parties' order.
pub struct Peers(Vec<Box<dyn PeerLink>>);

impl Peers {
    /// Connects to every peer, and waits for those that are late.
    ///
    /// # Errors
    /// Those of [`Connector::connect`].
    pub fn connect(connector: &dyn Connector, endpoint: Endpoint, ctl: &Control) -> Result<Self, JobError> {
        Ok(Self::of(connector.connect(endpoint, Arc::new(Listening(ctl.clone())))?))
    }

    /// Meets every peer on a connection that the caller brought.
    ///
    /// # Errors
    /// Those of [`Endpoint::carry`].
    pub fn carry(endpoint: Endpoint, connections: Vec<Connection>, ctl: &Control) -> Result<Self, JobError> {
        Ok(Self::of(endpoint.carry(connections, Arc::new(Listening(ctl.clone())))?))
    }

    /// These connections.
    pub fn of(mut links: Vec<Box<dyn PeerLink>>) -> Self {
        links.sort_by_key(|link| link.peer().place());
        Self(links)
    }

    /// The connections.
    pub fn links(&self) -> &[Box<dyn PeerLink>] {
        &self.0
    }

    /// The certificates of all parties of the job, by place, as TLS has shown them over these connections: of each peer the one that this
    /// side has seen, and of `me` the one that the peers have seen. None of a party that is met without TLS.
    pub fn certificates(&self, me: &Party) -> Vec<Option<Fingerprint>> {
        let mut certificates = vec![None; self.0.len() + 1];
        for link in &self.0 {
            let secured = link.secured();
            certificates[usize::from(link.peer().place())] = secured.fingerprint;
            certificates[usize::from(me.place())] = secured.ours;
        }
        certificates
    }

    /// A line of the same name to every peer.
    ///
    /// # Errors
    /// Those of [`PeerLink::line`].
    pub fn line(&self, name: &str) -> Result<Lines, vesica_session::Error> {
        Ok(Lines::new(self.0.iter().map(|link| link.line(name)).collect::<Result<_, _>>()?))
    }

    /// Says how far this side is.
    pub fn set_progress(&self, phase: &str, done: u64, total: Option<u64>) {
        self.0.iter().for_each(|link| link.set_progress(phase, done, total));
    }

    /// Bytes on the wire so far, over all connections.
    pub fn traffic(&self) -> Traffic {
        self.0.iter().map(|link| link.traffic()).fold(Traffic::default(), |sum, link| Traffic {
            sent: sum.sent + link.sent,
            received: sum.received + link.received,
        })
    }

    /// Time in which this side waited for a peer so far. Lines that wait at once are counted each.
    pub fn waited(&self) -> Duration {
        self.0.iter().map(|link| link.waited()).sum()
    }

    /// Ends the run, and tells every peer why.
    pub fn abort(&self, error: &JobError) {
        self.stop(error.fault_for_peer(), |peer| error.for_peer(peer));
    }

    fn stop(&self, fault: Fault, why: impl Fn(&Party) -> String) {
        self.0.iter().for_each(|link| link.stop(fault, &why(link.peer())));
        // Each of them may take a second to hear it, the same second for all.
        self.0.iter().for_each(|link| link.hang_up());
    }

    /// Ends the run in good order.
    ///
    /// # Errors
    /// What ended a connection before both of its ends had said goodbye.
    pub fn close(&self) -> Result<(), vesica_session::Error> {
        self.close_each(None)
    }

    /// The same, but waits no longer for a goodbye than a peer needs that means to say it.
    ///
    /// # Errors
    /// Those of [`Peers::close`]; [`vesica_session::Error::Net`] if a goodbye does not come in time.
    pub fn close_in_time(&self) -> Result<(), vesica_session::Error> {
        self.close_each(Some(GOODBYE))
    }

    /// All are told before any is waited for, or three parties would wait for each other in a circle.
    fn close_each(&self, limit: Option<Duration>) -> Result<(), vesica_session::Error> {
        self.0.iter().for_each(|link| link.part());
        let closed: Vec<_> = self.0.iter().map(|link| link.parted(limit)).collect();
        closed.into_iter().collect()
    }

    /// Ends the connections after `error`: in good order where the peers see the same from what they were sent, which a stop could
    /// overtake; else by telling them whose fault it was.
    pub fn leave(&self, error: &JobError) {
        if error.both_see() {
            // A peer may be gone already, and then there is nothing to say.
            let _ = match error {
                JobError::Checked { .. } => self.close_each(Some(SOON)),
                _ => self.close_in_time(),
            };
        } else {
            self.abort(error);
        }
    }

    /// The same for a check. A run that waits loses nothing by a check that is given up, and goes on waiting: so the peers are told of a
    /// connection that ends, and of nobody's fault.
    pub fn leave_check(&self, error: &JobError) {
        if error.both_see() {
            self.leave(error);
        } else {
            self.stop(Fault::Network, |_| "it only checked the job".to_owned());
        }
    }
}

/// Passes what the network says on to the run's watcher.
pub struct Listening(pub Control);

impl vesica_net::Control for Listening {
    fn event(&self, event: &vesica_net::Event) {
        self.0.note(event.to_string());
    }

    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
