//! The first words on a connection: which version, which job, who to whom.
//!
//! ```text
//! hello    magic "vesica\r\n" | version u32 | length u16 | body
//! body     job 32 | window u32 | n u8, speaker's name n | n u8, listener's name n
//! verdict  0 welcome, 1 later, 2 never | length u16 | the reason
//! ```
//! Numbers are little-endian. Everything up to `length` stays as it is in all versions, so that two versions can always
//! tell each other apart. The dialling side speaks first; each gives its verdict on the other's hello.

use crate::hitch::Hitch;
use crate::text::{beginning, printable};
use crate::version::{MAGIC, WIRE_VERSION};
use crate::wire::Wire;
use vesica_types::Party;

/// The longest body: two names of 255 bytes and the rest.
const MAX_BODY: usize = 32 + 4 + 2 * 256;

/// The longest reason of a verdict, in bytes.
const MAX_REASON: usize = 400;

/// The smallest and the largest window of a line.
pub(crate) const WINDOWS: std::ops::RangeInclusive<u32> = 64 << 10..=64 << 20;

/// What one side says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub job: [u8; 32],
    pub window: u32,
    pub from: String,
    pub to: String,
}

impl Hello {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(MAX_BODY);
        body.extend_from_slice(&self.job);
        body.extend_from_slice(&self.window.to_le_bytes());
        for name in [&self.from, &self.to] {
            // The endpoint has refused longer names before.
            let name = name.as_bytes().get(..name.len().min(255)).unwrap_or_default();
            body.push(name.len() as u8);
            body.extend_from_slice(name);
        }
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&WIRE_VERSION.to_le_bytes());
        out.extend_from_slice(&(body.len() as u16).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    fn decode(body: &[u8]) -> Option<Self> {
        fn name(rest: &[u8]) -> Option<(String, &[u8])> {
            let (len, rest) = rest.split_first()?;
            let (name, rest) = rest.split_at_checked(usize::from(*len))?;
            Some((std::str::from_utf8(name).ok()?.to_owned(), rest))
        }
        let (job, rest) = body.split_first_chunk::<32>()?;
        let (window, rest) = rest.split_first_chunk::<4>()?;
        let (from, rest) = name(rest)?;
        let (to, rest) = name(rest)?;
        rest.is_empty().then_some(Self { job: *job, window: u32::from_le_bytes(*window), from, to })
    }

    pub fn send(&self, wire: &mut Wire) -> Result<(), Hitch> {
        wire.write_all(&self.encode())
    }

    pub fn receive(wire: &mut Wire) -> Result<Self, Hitch> {
        let mut magic = [0; 8];
        wire.read_exact(&mut magic[..1])?;
        if magic.first() == Some(&0x15) {
            return Err(Hitch::Foreign(
                "it speaks TLS where this job says insecure = true; give both jobs the same".into(),
            ));
        }
        wire.read_exact(&mut magic[1..])?;
        if magic != MAGIC {
            return Err(Hitch::Foreign(format!("it is not Vesica, it begins with {}", beginning(&magic))));
        }
        let mut version = [0; 4];
        wire.read_exact(&mut version)?;
        let theirs = u32::from_le_bytes(version);
        if theirs != WIRE_VERSION {
            return Err(Hitch::Version { theirs });
        }
        let mut len = [0; 2];
        wire.read_exact(&mut len)?;
        let len = usize::from(u16::from_le_bytes(len));
        let garbled = || Hitch::Foreign("it sends a greeting that cannot be understood".into());
        if len > MAX_BODY {
            return Err(garbled());
        }
        let mut body = vec![0; len];
        wire.read_exact(&mut body)?;
        Self::decode(&body).filter(|hello| WINDOWS.contains(&hello.window)).ok_or_else(garbled)
    }

    /// Which of `peers` speaks here, and to us about our job; in words if none.
    pub fn judge<'a>(&self, ours: &Hello, peers: &[&'a Party]) -> Result<&'a Party, Hitch> {
        // In plaintext a service has every client as a candidate, and does not list them to whoever asks.
        let names = || match peers.len() {
            0..=2 => peers.iter().map(|p| p.name()).collect::<Vec<_>>().join(" or "),
            n => format!("one of the {n} that are known here"),
        };
        let Some(peer) = peers.iter().find(|p| p.name() == self.from) else {
            return Err(Hitch::Wrong(format!("it says that it is {:?}, not {}", printable(&self.from, 80), names())));
        };
        if self.to != ours.from {
            return Err(Hitch::Wrong(format!(
                "it looks for {:?}, and this is {:?}; check the addresses and the names of the parties in both jobs",
                printable(&self.to, 80),
                ours.from
            )));
        }
        if self.job != ours.job {
            return Err(Hitch::Elsewhere(format!(
                "it is {peer}, but it runs another job than {}; start both with the same shared part",
                ours.from
            )));
        }
        Ok(peer)
    }
}

/// Whether a side goes on after the other's hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Welcome,
    Later(String),
    Never(String),
}

impl Verdict {
    pub fn send(&self, wire: &mut Wire) -> Result<(), Hitch> {
        let (code, reason) = match self {
            Verdict::Welcome => (0, ""),
            Verdict::Later(reason) => (1, reason.as_str()),
            Verdict::Never(reason) => (2, reason.as_str()),
        };
        let reason = reason.get(..reason.floor_char_boundary(MAX_REASON)).unwrap_or_default();
        let mut out = vec![code];
        out.extend_from_slice(&(reason.len() as u16).to_le_bytes());
        out.extend_from_slice(reason.as_bytes());
        wire.write_all(&out)
    }

    /// Why not, in words.
    pub fn reason(self) -> String {
        match self {
            Verdict::Welcome => String::new(),
            Verdict::Later(reason) | Verdict::Never(reason) => reason,
        }
    }

    /// Waits for the other side's verdict.
    pub fn receive(wire: &mut Wire) -> Result<(), Hitch> {
        let mut head = [0; 3];
        wire.read_exact(&mut head)?;
        let [code, a, b] = head;
        let len = usize::from(u16::from_le_bytes([a, b]));
        if len > MAX_REASON || code > 2 {
            return Err(Hitch::Foreign("it sends a verdict that cannot be understood".into()));
        }
        let mut reason = vec![0; len];
        wire.read_exact(&mut reason)?;
        let reason = printable(&String::from_utf8_lossy(&reason), 300);
        match code {
            0 => Ok(()),
            1 => Err(Hitch::Later(reason)),
            _ => Err(Hitch::Refused(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello { job: [7; 32], window: 8 << 20, from: "alice".into(), to: "bob".into() }
    }

    #[test]
    fn the_hello_on_the_wire() {
        let mut want = b"vesica\r\n\x0b\0\0\0\x2e\0".to_vec();
        want.extend([7; 32]);
        want.extend(b"\0\0\x80\0\x05alice\x03bob");
        assert_eq!(hello().encode(), want);
        assert_eq!(Hello::decode(&want[14..]), Some(hello()));
        for cut in 14..want.len() {
            assert_eq!(Hello::decode(&want[14..cut]), None);
        }
        want.push(0);
        assert_eq!(Hello::decode(&want[14..]), None);
    }

    #[test]
    fn who_may_speak() {
        let ours = Hello { job: [7; 32], window: 1 << 20, from: "bob".into(), to: "alice".into() };
        let (alice, carol) = (Party::new(0, "alice"), Party::new(2, "carol"));
        assert_eq!(hello().judge(&ours, &[&carol, &alice]).unwrap(), &alice);
        let words = |hello: Hello| hello.judge(&ours, &[&alice]).unwrap_err().words();
        assert!(words(Hello { from: "mallory".into(), ..hello() }).contains("\"mallory\", not alice"));
        assert!(words(Hello { to: "carol".into(), ..hello() }).contains("looks for \"carol\", and this is \"bob\""));
        assert!(words(Hello { job: [8; 32], ..hello() }).contains("another job than bob"));
    }
}
