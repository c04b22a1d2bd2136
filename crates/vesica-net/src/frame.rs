//! What travels over a connection after the hellos.
//!
//! ```text
//! frame    line u32 | kind u8 | length u24 | body
//! ```
//! Numbers are little-endian. `line` is the number that the speaker gave to the line, any that no other open line of its
//! has; for `CREDIT`, the number that the listener gave to it; 0 for what concerns the whole connection.

use crate::text::printable;
use vesica_session::{Fault, Misbehaviour};

/// The speaker opens a line: the body is its name.
pub(crate) const OPEN: u8 = 1;
/// A message begins: its whole length u32, and its first bytes.
pub(crate) const BEGIN: u8 = 2;
/// A message goes on.
pub(crate) const MORE: u8 = 3;
/// The listener may send so many more bytes (u32) on this line of its own.
pub(crate) const CREDIT: u8 = 4;
/// The speaker sends no more on this line, and reads no more of it.
pub(crate) const END: u8 = 5;
/// The speaker lives: done u64, total u64 (all ones if unknown), name of the phase.
pub(crate) const PING: u8 = 6;
/// The speaker ends the run: fault u8, reason.
pub(crate) const STOP: u8 = 7;
/// The speaker is done with everything; only pings may follow.
pub(crate) const GOODBYE: u8 = 8;

/// Bytes of a frame's head.
pub(crate) const HEAD: usize = 8;

/// The longest body. Long enough to be cheap, short enough that lines take turns: 0.5 s at 1 Mbit/s.
pub(crate) const MAX_BODY: usize = 64 << 10;

/// The longest name of a line, in bytes.
pub(crate) const MAX_NAME: usize = 64;

/// The longest name of a phase, in bytes.
pub(crate) const MAX_PHASE: usize = 32;

/// The longest reason of a stop, in characters and in bytes.
pub(crate) const MAX_WHY: (usize, usize) = (200, 800);

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub line: u32,
    pub kind: u8,
    pub len: usize,
}

impl Head {
    pub fn encode(self) -> [u8; HEAD] {
        let [a, b, c, d] = self.line.to_le_bytes();
        let [x, y, z, _] = (self.len as u32).to_le_bytes();
        [a, b, c, d, self.kind, x, y, z]
    }

    /// The head in `bytes`, if its length fits its kind.
    pub fn decode([a, b, c, d, kind, x, y, z]: [u8; HEAD]) -> Result<Self, Misbehaviour> {
        let head =
            Self { line: u32::from_le_bytes([a, b, c, d]), kind, len: u32::from_le_bytes([x, y, z, 0]) as usize };
        let (least, most) = match kind {
            OPEN => (1, MAX_NAME),
            BEGIN => (4, MAX_BODY),
            MORE => (1, MAX_BODY),
            CREDIT => (4, 4),
            END | GOODBYE => (0, 0),
            PING => (16, 16 + MAX_PHASE),
            STOP => (1, 1 + MAX_WHY.1),
            _ => return Err(Misbehaviour::Contradiction("it sent a frame of an unknown kind")),
        };
        if head.len < least {
            return Err(Misbehaviour::Contradiction("it sent a frame too short for its kind"));
        }
        if head.len > most {
            return Err(Misbehaviour::TooLong { got: head.len as u64, limit: most as u64 });
        }
        Ok(head)
    }
}

/// Appends a whole frame to `out`.
pub(crate) fn put(out: &mut Vec<u8>, line: u32, kind: u8, body: &[u8]) {
    out.extend_from_slice(&Head { line, kind, len: body.len() }.encode());
    out.extend_from_slice(body);
}

/// How far a party is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Progress {
    pub phase: String,
    pub done: u64,
    pub total: Option<u64>,
}

impl Progress {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = self.done.to_le_bytes().to_vec();
        body.extend_from_slice(&self.total.unwrap_or(u64::MAX).to_le_bytes());
        let phase = self.phase.as_bytes();
        body.extend_from_slice(phase.get(..self.phase.floor_char_boundary(MAX_PHASE)).unwrap_or_default());
        put(out, 0, PING, &body);
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let (done, rest) = body.split_first_chunk::<8>()?;
        let (total, phase) = rest.split_first_chunk::<8>()?;
        let total = Some(u64::from_le_bytes(*total)).filter(|total| *total != u64::MAX);
        let phase = printable(&String::from_utf8_lossy(phase), MAX_PHASE);
        Some(Self { phase, done: u64::from_le_bytes(*done), total })
    }
}

const FAULTS: [Fault; 6] = [Fault::Config, Fault::Input, Fault::Network, Fault::Peer, Fault::Bug, Fault::Interrupted];

/// A stop, as its frame.
pub(crate) fn stop(out: &mut Vec<u8>, fault: Fault, why: &str) {
    let why = printable(why, MAX_WHY.0);
    let code = FAULTS.iter().position(|f| *f == fault).unwrap_or_default();
    let mut body = vec![code as u8];
    body.extend_from_slice(why.as_bytes().get(..why.floor_char_boundary(MAX_WHY.1)).unwrap_or_default());
    put(out, 0, STOP, &body);
}

/// What a stop says.
pub(crate) fn stopped(body: &[u8]) -> Option<(Fault, String)> {
    let (code, why) = body.split_first()?;
    let fault = FAULTS.get(usize::from(*code))?;
    Some((*fault, printable(&String::from_utf8_lossy(why), MAX_WHY.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_on_the_wire() {
        let head = Head { line: 0x0403_0201, kind: MORE, len: 0x00_fffe };
        assert_eq!(head.encode(), [1, 2, 3, 4, 3, 0xfe, 0xff, 0]);
        assert_eq!(Head::decode(head.encode()), Ok(head));
    }

    #[test]
    fn a_length_must_fit_the_kind() {
        let decode = |kind, len| Head::decode(Head { line: 0, kind, len }.encode());
        assert!(decode(BEGIN, MAX_BODY).is_ok());
        assert_eq!(
            decode(BEGIN, MAX_BODY + 1).unwrap_err().to_string(),
            "a message of 65537 bytes where at most 65536 are allowed"
        );
        for (kind, len) in
            [(0, 0), (9, 0), (255, 1), (BEGIN, 3), (MORE, 0), (CREDIT, 3), (CREDIT, 5), (GOODBYE, 1), (PING, 15)]
        {
            assert!(decode(kind, len).is_err(), "{kind} {len}");
        }
    }

    #[test]
    fn progress_and_stop_are_read_as_they_are_written() {
        let mut out = Vec::new();
        let progress = Progress { phase: "units".into(), done: 3, total: Some(17) };
        progress.encode(&mut out);
        assert_eq!(Progress::decode(&out[HEAD..]), Some(progress));
        out.clear();
        Progress { phase: "ü".repeat(40), done: 0, total: None }.encode(&mut out);
        assert_eq!(Progress::decode(&out[HEAD..]).unwrap().phase, "ü".repeat(16));
        for fault in FAULTS {
            out.clear();
            stop(&mut out, fault, "a\nb");
            assert_eq!(stopped(&out[HEAD..]), Some((fault, "a?b".into())));
        }
        out.clear();
        stop(&mut out, Fault::Bug, &"磁".repeat(900));
        assert!(Head::decode(*out.first_chunk().unwrap()).is_ok());
        assert_eq!(stopped(&[6, b'x']), None);
        assert_eq!(stopped(&[]), None);
    }
}
