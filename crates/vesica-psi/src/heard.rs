//! A channel that keeps a hash of all that the peer has said.

use vesica_session::{Channel, Meter, Result};
use vesica_types::Party;

/// A channel to a peer, and a hash of the messages that came from it.
pub struct Heard<'a> {
    ch: &'a mut dyn Channel,
    hash: blake3::Hasher,
}

impl<'a> Heard<'a> {
    /// Begins to listen.
    pub fn new(ch: &'a mut dyn Channel) -> Self {
        Self { ch, hash: blake3::Hasher::new_derive_key("vesica 2026 messages of a peer") }
    }

    /// A hash of the messages so far, and of their lengths.
    pub fn hash(&self) -> [u8; 32] {
        *self.hash.finalize().as_bytes()
    }
}

impl Channel for Heard<'_> {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        self.ch.send(msg)
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        let msg = self.ch.recv(limit)?;
        self.hash.update(&(msg.len() as u64).to_le_bytes()).update(&msg);
        Ok(msg)
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        self.ch.line(name)
    }

    fn window(&self) -> usize {
        self.ch.window()
    }

    fn step(&mut self, name: &'static str) {
        self.ch.step(name);
    }

    fn meter(&self) -> Meter {
        self.ch.meter()
    }

    fn peer(&self) -> &Party {
        self.ch.peer()
    }

    fn alive(&self) -> Result<()> {
        self.ch.alive()
    }
}
