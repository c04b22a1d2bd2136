use std::sync::{Arc, Mutex};
use vesica_session::{Channel, Result};

/// What went over a channel, in the order in which its owner saw it: a byte for the direction, eight for the length, and the
/// bytes, message after message.
pub type Transcript = Arc<Mutex<Vec<u8>>>;

/// One message of a [`Transcript`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Whether the owner of the channel sent it; otherwise it received it.
    pub sent: bool,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The messages of a transcript.
///
/// # Panics
/// If a [`Recorder`] did not write it.
pub fn messages(transcript: &Transcript) -> Vec<Message> {
    let transcript = transcript.lock().expect("no test panics while it reads this");
    let (mut rest, mut messages) = (transcript.as_slice(), Vec::new());
    while let Some((&direction, after)) = rest.split_first() {
        let (len, after) = after.split_first_chunk().expect("a length");
        let (bytes, after) = after.split_at(u64::from_le_bytes(*len) as usize);
        messages.push(Message { sent: direction == 0, bytes: bytes.to_vec() });
        rest = after;
    }
    messages
}

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

    vesica_session::forward_channel!(inner);
}
