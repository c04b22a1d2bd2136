//! An endpoint that has been checked and whose port is open: the beginning of a meeting.

use crate::greet::Keeper;
use crate::port::{self, Port};
use crate::trust::{Guests, Register};
use crate::{Endpoint, Error, Event, Result, Security, tls};
use std::net::SocketAddr;
use std::sync::Arc;

/// The most handshakes at once at the port of a meeting, which has few guests.
pub(crate) const HANDSHAKES: usize = 32;

impl Endpoint {
    /// Finds the faults that can be found without any contact: names, addresses, the certificate's age, the port.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<()> {
        self.clone().bind().map(drop)
    }

    /// Checks like [`Endpoint::check`] and keeps the port.
    ///
    /// # Errors
    /// The first fault.
    pub fn bind(self) -> Result<Bound> {
        let mut news = Vec::from_iter(self.examine()?);
        let awaited = self.peers.iter().filter(|peer| !self.carried && peer.connect.is_none());
        let awaited: Vec<&str> = awaited.map(|peer| peer.party.name()).collect();
        let listener = match &self.listen {
            _ if awaited.is_empty() => None,
            Some(address) => Some(port::listen(address)?),
            None => {
                let names = awaited.join(", ");
                return Err(Error::Setup(format!(
                    "nothing says how to meet {names}; set mine.listen = \"host:port\" here, or mine.connect with the address \
                     where {names} listens"
                )));
            }
        };
        let mut dialled = Vec::new();
        for peer in &self.peers {
            let Security::Tls { identity } = &self.security else {
                dialled.push(None);
                continue;
            };
            let Some(trust) = &peer.trust else {
                return Err(Error::Setup(format!(
                    "nothing says how to know {0}; give mine.tls.peers.{0} the fingerprint of its certificate",
                    peer.party
                )));
            };
            trust.check(&peer.party, Some(&identity.fingerprint()))?;
            dialled.push(Some(tls::client(identity, (peer.party.clone(), trust.clone()), peer.road.sni())?));
        }
        let guests = self.peers.iter().map(|peer| (peer.party.clone(), peer.trust.clone())).collect();
        let guests = Guests::new(guests);
        news.extend(guests.idle_lists());
        let endpoint = Arc::new(self);
        let port = match listener {
            Some(listener) => {
                let keeper = Arc::new(Keeper::new(endpoint.clone(), Register::new(guests))?);
                Some(Port::new(keeper, listener, HANDSHAKES)?)
            }
            None => None,
        };
        Ok(Bound { endpoint, port, dialled, news })
    }
}

/// An endpoint whose port is open.
pub struct Bound {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Where peers connect to us, if one does.
    pub(crate) port: Option<Port>,
    /// For each peer, what is needed to dial it.
    pub(crate) dialled: Vec<Option<tls::Client>>,
    /// What is doubtful about the certificates: one that expires soon, a list of revoked ones that covers nobody.
    pub(crate) news: Vec<Event>,
}

impl Bound {
    /// The address that is listened on, if one is: with port 0, the port that the system chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(Port::address)
    }
}
