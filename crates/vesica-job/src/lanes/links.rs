//! The links of lanes: dialled, or taken in at a door. The parties told each other over their first link which certificates their lanes
//! show. A run on one machine that listens shows its own, because its door stands where the parties meet. Who dials, and a cluster on either
//! side, makes one for each meeting: so no worker holds the party's own key, and no address that the other side named sees its certificate.
//!
//! Example: lanes are under way, and bob's process is killed and started again before alice notices. He comes to her door in place of a
//! meeting, sees her certificate there, and is told to come later.

use crate::error::JobError;
use crate::lanes::name;
use crate::meet::peers::{Peers, WINDOW, road};
use crate::tell::control::Control;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vesica_net::{Connector, Endpoint, Event, Fingerprint, Identity, LaneDoor, PeerLink, PeerSpec, Security, Trust};
use vesica_session::Misbehaviour;
use vesica_spec::{Plan, RoadPlan};

/// What the name in a lane's certificate is: nobody looks at it, for the certificate is known by its fingerprint.
const CERTIFICATE: &str = "vesica-lane";

/// How the lanes of a meeting are known: nothing in an insecure job.
#[derive(Clone)]
pub struct Certificates {
    /// This side's.
    pub mine: Option<Identity>,
    /// The other side's.
    pub theirs: Option<Fingerprint>,
}

impl Certificates {
    /// A new certificate for the workers of this side, unless the job is insecure.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn fresh(plan: &Plan) -> Result<Option<Identity>, JobError> {
        Ok(plan.identity.as_ref().map(|_| Identity::generate(CERTIFICATE)).transpose()?)
    }
}

/// Listens for the lanes of a run, which are over when it is.
#[derive(Clone)]
pub struct Watcher {
    /// Whoever watches the run.
    pub ctl: Control,
    /// Whether the lanes are to end.
    pub over: Arc<AtomicBool>,
}

impl vesica_net::Control for Watcher {
    fn event(&self, event: &Event) {
        // Lanes come and go, which is not worth a line each; that one is waited for is.
        if !matches!(event, Event::Connected { .. } | Event::Listening { .. } | Event::Calling { .. }) {
            self.ctl.note(format!("lanes: {event}"));
        }
    }

    fn cancelled(&self) -> bool {
        self.ctl.is_cancelled() || self.over.load(Ordering::SeqCst)
    }
}

/// Where lanes are met, and how.
pub struct Meeting<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// Its salt.
    pub salt: &'a [u8; 32],
    /// How the lanes are known.
    pub certificates: &'a Certificates,
    /// How the peer itself is known, where a door stands at the place at which the parties meet.
    pub peer: Option<&'a Trust>,
    /// How links are made.
    pub connector: &'a dyn Connector,
}

impl Meeting<'_> {
    fn endpoint(&self) -> Endpoint {
        let security = match &self.certificates.mine {
            Some(identity) => Security::Tls { identity: identity.clone() },
            None => Security::Insecure,
        };
        let mut endpoint = Endpoint::new(self.plan.me.clone(), [0; 32], security);
        endpoint.window = WINDOW;
        endpoint.patience = self.plan.patience;
        endpoint
    }

    fn trust(&self) -> Option<Trust> {
        self.certificates.theirs.map(|pin| Trust::Pinned(vec![pin]))
    }

    /// The link of lane `number`, whose door is at `address`.
    ///
    /// # Errors
    /// Those of [`Connector::connect`].
    pub fn dial(&self, number: u32, address: &str, watcher: Watcher) -> Result<Peers, JobError> {
        let mut endpoint = self.endpoint();
        endpoint.job = name(self.salt, number);
        let peer = &self.plan.peers[0];
        // Another address is one that the other side has named: there is no word of this side's about the road there.
        let said = if peer.connect.as_deref() == Some(address) { peer.road.clone() } else { RoadPlan::default() };
        let road = road(&self.plan.proxy, address, &said)?;
        let party = peer.party.clone();
        endpoint.peers.push(PeerSpec { party, connect: Some(address.to_owned()), trust: self.trust(), road });
        Ok(Peers::of(self.connector.connect(endpoint, Arc::new(watcher))?))
    }

    /// A door at `listen` for all of `lanes`, up to `seats` at once. Who comes to meet this party is told to come later, and who names
    /// another lane is sent away.
    ///
    /// # Errors
    /// Those of [`Connector::lane_door`].
    pub fn door(&self, lanes: u32, listen: &str, seats: u32, watcher: Watcher) -> Result<Box<dyn LaneDoor>, JobError> {
        let endpoint = self.at_door(lanes, listen);
        let party = self.plan.peers[0].party.clone();
        let known = self.trust().into_iter().chain(self.peer.cloned()).collect();
        Ok(self.connector.lane_door(endpoint, party, known, seats as usize, Arc::new(watcher))?)
    }

    fn at_door(&self, lanes: u32, listen: &str) -> Endpoint {
        let mut endpoint = self.endpoint();
        endpoint.lanes = (0..lanes).map(|number| name(self.salt, number)).collect();
        endpoint.listen = Some(listen.to_owned());
        // A gateway leads to the address of the job, and not to those of a cluster's workers.
        if self.plan.listen.as_deref() == Some(listen) {
            endpoint.gateways = self.plan.gateways.clone();
        }
        endpoint
    }

    /// Which lane came to the door.
    ///
    /// # Errors
    /// The peer's, if it is no lane.
    pub fn number(&self, lanes: u32, link: &dyn PeerLink) -> Result<u32, JobError> {
        let job = link.job();
        let number = (0..lanes).find(|number| Some(name(self.salt, *number)) == job);
        let fault = Misbehaviour::Contradiction("it came to a door for lanes, and is none");
        number.ok_or_else(|| vesica_session::Error::Peer { peer: link.peer().clone(), fault }.into())
    }
}
