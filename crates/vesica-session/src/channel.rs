use crate::{Error, Meter, Misbehaviour, Result};
use vesica_types::Party;

/// A two-way pipe of messages to one peer: bytes in, bytes out, blocking.
///
/// The contract, for whoever implements it:
/// - Messages arrive whole, once and in order, or an error says why not.
/// - A message is never larger than [`Channel::window`]; one that is, is a bug of the caller.
/// - `send` blocks only while the peer has a full window of this line's messages to read; so a message into an empty
///   window never blocks, and [`Channel::swap`] never deadlocks.
/// - Two lines never wait for each other.
/// - Deadlines, heartbeats, reconnection and cancellation are the transport's; here they are [`Error::Net`],
///   [`Error::Stopped`] and [`Error::Cancelled`].
pub trait Channel: Send {
    /// Sends one message.
    fn send(&mut self, msg: &[u8]) -> Result<()>;

    /// Receives the next message. One longer than `limit` bytes is the peer's fault, and is never allocated.
    fn recv(&mut self, limit: usize) -> Result<Vec<u8>>;

    /// Both speak at once: the two-headed arrow of a figure.
    fn swap(&mut self, msg: &[u8], limit: usize) -> Result<Vec<u8>> {
        self.send(msg)?;
        self.recv(limit)
    }

    /// An independent pipe over the same connection; both sides open it by the same name, once.
    fn line(&self, name: &str) -> Result<Box<dyn Channel>>;

    /// The largest message, in bytes.
    fn window(&self) -> usize;

    /// Names what the next bytes and seconds of this line are charged to.
    fn step(&mut self, name: &'static str);

    /// What this line has cost so far, by step.
    fn meter(&self) -> Meter;

    /// Who is at the other end.
    fn peer(&self) -> &Party;

    /// The error that ended the connection, if one did: long arithmetic asks now and then, so that a run ends soon after
    /// its peer.
    fn alive(&self) -> Result<()> {
        Ok(())
    }

    /// The error that says this peer broke the protocol.
    fn accuse(&self, fault: Misbehaviour) -> Error {
        Error::Peer { peer: self.peer().clone(), fault }
    }

    /// Receives a message that must be exactly `bytes` long; any other length is the peer's fault.
    fn recv_exact(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let msg = self.recv(bytes)?;
        if msg.len() == bytes {
            Ok(msg)
        } else {
            Err(self.accuse(Misbehaviour::Length { got: msg.len() as u64, want: bytes as u64 }))
        }
    }

    /// [`Channel::swap`] where the peer's message must be exactly `bytes` long.
    fn swap_exact(&mut self, msg: &[u8], bytes: usize) -> Result<Vec<u8>> {
        self.send(msg)?;
        self.recv_exact(bytes)
    }
}

/// What a [`Channel`] around another one, which is its field `$inner`, leaves as it is: all but sending and receiving. Its lines are the
/// other one's, and what it does to messages is not done there, unless it says `but line` and makes lines of its own.
#[macro_export]
macro_rules! forward_channel {
    ($inner:tt) => {
        fn line(&self, name: &str) -> $crate::Result<Box<dyn $crate::Channel>> {
            self.$inner.line(name)
        }

        $crate::forward_channel!($inner but line);
    };
    ($inner:tt but line) => {
        fn window(&self) -> usize {
            self.$inner.window()
        }

        fn step(&mut self, name: &'static str) {
            self.$inner.step(name);
        }

        fn meter(&self) -> $crate::Meter {
            self.$inner.meter()
        }

        fn peer(&self) -> &vesica_types::Party {
            self.$inner.peer()
        }

        fn alive(&self) -> $crate::Result<()> {
            self.$inner.alive()
        }
    };
}
