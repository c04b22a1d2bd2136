//! How peers are met, as an argument: over sockets, or over a network that a test makes.
//!
//! A run sees a [`PeerLink`] to each peer and, where it has lanes, a [`LaneDoor`]; a service has a [`ClientDoor`]. Sockets, TLS, frames, heartbeats and the threads of a
//! link are behind them.

use crate::{
    Client, ClientDoor, Control, Endpoint, LaneDoor, Limits, PeerLink, Result, Trust, connect as connect_sockets,
};
use std::fmt::Debug;
use std::sync::Arc;
use vesica_types::Party;

/// Makes connections.
pub trait Connector: Debug + Send + Sync {
    /// Finds the faults that can be found without any contact, as [`Endpoint::check`] does.
    ///
    /// # Errors
    /// The first fault.
    fn check(&self, endpoint: &Endpoint) -> Result<()>;

    /// Connects to every peer of `endpoint`, and waits for those that are late, as [`connect`](crate::connect) does.
    ///
    /// # Errors
    /// Those of [`connect`](crate::connect).
    fn connect(&self, endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>>;

    /// Opens a door for the lanes of a run, as [`Endpoint::lane_door`] does.
    ///
    /// # Errors
    /// Those of [`Endpoint::lane_door`].
    fn lane_door(
        &self,
        endpoint: Endpoint,
        peer: Party,
        known: Vec<Trust>,
        seats: usize,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn LaneDoor>>;

    /// Opens the door of a service, as [`Endpoint::door`] does.
    ///
    /// # Errors
    /// Those of [`Endpoint::door`].
    fn door(
        &self,
        endpoint: Endpoint,
        clients: Vec<Client>,
        limits: Limits,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn ClientDoor>>;
}

/// Connections over TCP.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sockets;

impl Connector for Sockets {
    fn check(&self, endpoint: &Endpoint) -> Result<()> {
        endpoint.check()
    }

    fn connect(&self, endpoint: Endpoint, control: Arc<dyn Control>) -> Result<Vec<Box<dyn PeerLink>>> {
        connect_sockets(endpoint, control)
    }

    fn lane_door(
        &self,
        endpoint: Endpoint,
        peer: Party,
        known: Vec<Trust>,
        seats: usize,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn LaneDoor>> {
        Ok(Box::new(endpoint.lane_door(peer, known, seats, control)?))
    }

    fn door(
        &self,
        endpoint: Endpoint,
        clients: Vec<Client>,
        limits: Limits,
        control: Arc<dyn Control>,
    ) -> Result<Box<dyn ClientDoor>> {
        Ok(Box::new(endpoint.door(clients, limits, control)?))
    }
}
