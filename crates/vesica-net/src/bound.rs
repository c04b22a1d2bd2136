//! An endpoint that has been checked and whose port is open: the beginning of a meeting.

use crate::door::{self, Door, Entry};
use crate::trust::Guests;
use crate::{Endpoint, Error, Event, Result, Security, tls};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;

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
        let expiring = self.examine()?;
        let listener = match self.peers.iter().any(|peer| peer.connect.is_none()) {
            true => Some(door::listen(&self)?),
            false => None,
        };
        let mut dialled = Vec::new();
        let mut entry = Entry::Plain;
        if let Security::Tls { identity } = &self.security {
            let mut guests = Vec::new();
            for peer in &self.peers {
                let Some(trust) = &peer.trust else {
                    return Err(Error::Setup(format!(
                        "nothing says how to know {0}; give mine.tls.peers.{0} the fingerprint of its certificate",
                        peer.party
                    )));
                };
                trust.check(&peer.party)?;
                let guest = (peer.party.clone(), trust.clone());
                dialled.push(Some(tls::client(identity, guest.clone())?));
                guests.push(guest);
            }
            let guests = Guests(guests);
            entry = Entry::Tls(tls::server(identity, guests.clone())?, guests);
        } else {
            dialled.resize(self.peers.len(), None);
        }
        let endpoint = Arc::new(self);
        let door = match listener {
            Some(listener) => Some(Door::new(endpoint.clone(), listener, entry)?),
            None => None,
        };
        Ok(Bound { endpoint, door, dialled, expiring })
    }
}

/// An endpoint whose port is open.
pub struct Bound {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Where peers connect to us, if one does.
    pub(crate) door: Option<Door>,
    /// For each peer, what is needed to dial it.
    pub(crate) dialled: Vec<Option<Arc<ClientConfig>>>,
    /// That the certificate expires soon, if it does.
    pub(crate) expiring: Option<Event>,
}

impl Bound {
    /// The address that is listened on, if one is: with port 0, the port that the system chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.door.as_ref().map(Door::address)
    }
}
