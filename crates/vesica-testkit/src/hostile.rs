use vesica_session::{Channel, Result};

/// What a hostile peer does to one of its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// Its last byte is missing.
    Cut,
    /// It is sent empty.
    Empty,
    /// It has one byte more.
    Grow,
    /// One bit of it is the other way: bit `n`, counted modulo the message's length.
    Flip(usize),
    /// The message before it is sent in its place; the first one is sent twice.
    Replay,
}

impl Attack {
    /// One of each kind, with flips at both ends and in the middle.
    pub const ALL: [Attack; 7] = [
        Attack::Cut,
        Attack::Empty,
        Attack::Grow,
        Attack::Flip(0),
        Attack::Flip(255),
        Attack::Flip(usize::MAX),
        Attack::Replay,
    ];

    /// What becomes of a message that came after `last`.
    pub fn spoiled(self, msg: &[u8], last: &[u8]) -> Vec<u8> {
        let mut msg = msg.to_vec();
        match self {
            Attack::Cut => {
                msg.pop();
            }
            Attack::Empty => msg.clear(),
            Attack::Grow => msg.push(0),
            Attack::Flip(bit) => {
                let bits = msg.len() * 8;
                if bits > 0 {
                    msg[bit % bits / 8] ^= 1 << (bit % bits % 8);
                }
            }
            Attack::Replay => msg = last.to_vec(),
        }
        msg
    }
}

/// A channel whose owner is hostile in message number `at` (from 0) and honest in all others.
pub struct Hostile<C> {
    inner: C,
    attack: Attack,
    at: usize,
    sent: usize,
    last: Vec<u8>,
}

impl<C: Channel> Hostile<C> {
    /// `inner`, with `attack` on the message number `at` that is sent over it.
    pub fn new(inner: C, attack: Attack, at: usize) -> Self {
        Self { inner, attack, at, sent: 0, last: Vec::new() }
    }
}

impl<C: Channel> Channel for Hostile<C> {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        let number = self.sent;
        self.sent += 1;
        if number != self.at {
            self.last = msg.to_vec();
            return self.inner.send(msg);
        }
        if self.attack == Attack::Replay && number == 0 {
            self.inner.send(msg)?;
            return self.inner.send(msg);
        }
        let spoiled = self.attack.spoiled(msg, &self.last);
        self.last = msg.to_vec();
        self.inner.send(&spoiled)
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        self.inner.recv(limit)
    }

    forward!(inner);
}
