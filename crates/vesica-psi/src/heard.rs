//! A channel that keeps a hash of all that the peer has said, and of all that it was told.

use vesica_session::{Channel, Result};

/// A channel to a peer, a hash of the messages that came from it, and one of those that went to it.
pub struct Heard<'a> {
    ch: &'a mut dyn Channel,
    heard: blake3::Hasher,
    said: blake3::Hasher,
}

impl<'a> Heard<'a> {
    /// Begins to listen.
    pub fn new(ch: &'a mut dyn Channel) -> Self {
        let none = blake3::Hasher::new_derive_key("vesica 2026 messages of a peer");
        Self { ch, heard: none.clone(), said: none }
    }

    /// A hash of the peer's messages so far, and of their lengths.
    pub fn hash(&self) -> [u8; 32] {
        *self.heard.finalize().as_bytes()
    }

    /// The same of this side's: what the peer has for [`Heard::hash`], if nobody changed a message.
    pub fn said(&self) -> [u8; 32] {
        *self.said.finalize().as_bytes()
    }
}

/// Adds a message, with its length.
fn note(hash: &mut blake3::Hasher, msg: &[u8]) {
    hash.update(&(msg.len() as u64).to_le_bytes()).update(msg);
}

impl Channel for Heard<'_> {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        self.ch.send(msg)?;
        note(&mut self.said, msg);
        Ok(())
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        let msg = self.ch.recv(limit)?;
        note(&mut self.heard, &msg);
        Ok(msg)
    }

    vesica_session::forward_channel!(ch);
}
