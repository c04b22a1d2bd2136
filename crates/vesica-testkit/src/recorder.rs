use std::sync::{Arc, Mutex};
use vesica_session::{Channel, Result};

/// What went over a channel, in the order in which its owner saw it: a byte for the direction, eight for the length, and the
/// bytes, message after message.
pub type Transcript = Arc<Mutex<Vec<u8>>>;

/// A channel that writes down what goes over it. With fixed randomness the transcript is fixed too, so its hash tells when
/// a wire format changes.
pub struct Recorder<C> {
    inner: C,
    transcript: Transcript,
}

impl<C: Channel> Recorder<C> {
    /// `inner`, written down in `transcript`; lines that are opened from it are not.
    pub fn new(inner: C, transcript: Transcript) -> Self {
        Self { inner, transcript }
    }

    fn note(&self, direction: u8, msg: &[u8]) {
        let mut transcript = self.transcript.lock().expect("no test panics while it writes this");
        transcript.push(direction);
        transcript.extend((msg.len() as u64).to_le_bytes());
        transcript.extend(msg);
    }
}

impl<C: Channel> Channel for Recorder<C> {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        self.note(0, msg);
        self.inner.send(msg)
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        let msg = self.inner.recv(limit)?;
        self.note(1, &msg);
        Ok(msg)
    }

    forward!(inner);
}
