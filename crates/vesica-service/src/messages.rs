//! What a client and a server say to each other, besides the steps of the protocol.
//!
//! The client asks, the server answers, on one line. A question has 17 bytes: what it is, and two numbers. An answer begins
//! with a message that says whether there is one.
//!
//! ```text
//! question                        answer
//! describe                        ok, the offer, the manifest
//! sums    part                    ok, the sums of the part
//! chunks  part, from              ok, each chunk of the part from that one on
//! ask     keys, lanes             ok; then, on as many lines of their own, the steps of the protocol
//! retrieve epoch, queries         ok; for Piano the window and how far it is; then rounds of queries and answers
//! end                             ok; both close the connection
//! ```
//!
//! No answer depends on anything but the question, the store and the client's allowance.

use crate::error::Error;
use crate::offer;
use std::ops::Range;
use vesica_net::PeerLink;
use vesica_session::{Channel, Misbehaviour, Result};
use vesica_store::MOST_MANIFEST_BYTES;

/// The line that questions and answers take.
pub const LINE: &str = "service";

/// The line of a lane of a request, which are both numbered from 0.
fn lane(request: u64, lane: u64) -> String {
    format!("ask {request}, lane {lane}")
}

/// The most lanes of a request.
pub const MOST_LANES: u64 = 16;

/// The most keys of a request: larger tables ask several times.
pub const MOST_KEYS: u64 = 1 << 24;

/// Refusals after which a connection is ended.
pub const MOST_REFUSALS: u64 = 10;

/// Bytes of an element, at most.
pub const ELEMENT: u64 = 33;

/// Bytes by which a client says which window of Piano its queries are of: the window's name, and the number of the first query.
pub const WINDOW_BYTES: usize = 24;

/// The longest reason for a refusal, in bytes.
const MOST_WORDS: usize = 1024;

/// Bytes of a question.
const QUESTION: usize = 17;

/// What a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// What the service is, and what its store consists of.
    Describe,
    /// The sums of a part's chunks.
    Sums {
        /// Which part.
        part: u64,
    },
    /// A part, or the rest of it.
    Chunks {
        /// Which part.
        part: u64,
        /// The first chunk.
        from: u64,
    },
    /// Nothing more: the client says goodbye.
    End,
    /// Leave to ask for keys.
    Ask {
        /// How many.
        keys: u64,
        /// On so many lines at once.
        lanes: u64,
    },
    /// Leave to retrieve records.
    Retrieve {
        /// Of the epoch of this name.
        epoch: u64,
        /// How many.
        queries: u64,
    },
}

impl Question {
    /// As it travels.
    pub fn encode(self) -> [u8; QUESTION] {
        let (kind, a, b) = match self {
            Question::Describe => (1u8, 0, 0),
            Question::Sums { part } => (2, part, 0),
            Question::Chunks { part, from } => (3, part, from),
            Question::Ask { keys, lanes } => (4, keys, lanes),
            Question::End => (5, 0, 0),
            Question::Retrieve { epoch, queries } => (6, epoch, queries),
        };
        let mut bytes = [0; QUESTION];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&a.to_le_bytes());
        bytes[9..].copy_from_slice(&b.to_le_bytes());
        bytes
    }

    /// The question of these bytes; none if they are no question.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; QUESTION] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        match (bytes[0], number(1), number(9)) {
            (1, 0, 0) => Some(Question::Describe),
            (2, part, 0) => Some(Question::Sums { part }),
            (3, part, from) => Some(Question::Chunks { part, from }),
            (4, keys, lanes) => Some(Question::Ask { keys, lanes }),
            (5, 0, 0) => Some(Question::End),
            (6, epoch, queries) => Some(Question::Retrieve { epoch, queries }),
            _ => None,
        }
    }

    /// Receives a question.
    ///
    /// # Errors
    /// Those of the channel; the client's, if it is none.
    pub fn receive(ch: &mut dyn Channel) -> Result<Self> {
        let bytes = ch.recv_exact(QUESTION)?;
        Self::decode(&bytes).ok_or_else(|| ch.accuse(Misbehaviour::Malformed("question")))
    }
}

/// Sends that there is an answer.
///
/// # Errors
/// Those of the channel.
pub fn accept(ch: &mut dyn Channel) -> Result<()> {
    ch.send(&[0])
}

/// Sends that there is none, and why.
///
/// # Errors
/// Those of the channel.
pub fn refuse(ch: &mut dyn Channel, why: &str) -> Result<()> {
    let mut end = why.len().min(MOST_WORDS - 1);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    ch.send(&[&[1], &why.as_bytes()[..end]].concat())
}

/// The client's end of the line.
pub struct Counter<'a> {
    ch: Box<dyn Channel>,
    link: &'a dyn PeerLink,
    requests: u64,
}

impl<'a> Counter<'a> {
    /// Opens the line.
    ///
    /// # Errors
    /// Those of the link.
    pub fn open(link: &'a dyn PeerLink) -> Result<Self> {
        Ok(Self { ch: link.line(LINE)?, link, requests: 0 })
    }

    /// The server's name.
    pub fn server(&self) -> String {
        self.ch.peer().name().to_owned()
    }

    /// Puts a question, and hears whether there is an answer. Gives the line on which that comes: for [`Question::Chunks`] one by one up to the last
    /// one, for [`Question::Retrieve`] to queries that go on it.
    ///
    /// # Errors
    /// Those of the channel; [`Error::Refused`].
    pub fn put(&mut self, question: Question) -> std::result::Result<&mut dyn Channel, Error> {
        self.ch.send(&question.encode())?;
        let said = self.ch.recv(MOST_WORDS)?;
        match said.split_first() {
            Some((0, [])) => Ok(&mut *self.ch),
            Some((1, words)) => {
                let words = String::from_utf8_lossy(words);
                // What a stranger writes is shown on a terminal.
                let why = vesica_net::printable(&words, MOST_WORDS);
                Err(Error::Refused { server: self.server(), why })
            }
            _ => Err(self.ch.accuse(Misbehaviour::Malformed("answer")).into()),
        }
    }

    /// The offer and the manifest, as they were sent.
    ///
    /// # Errors
    /// Those of the channel; [`Error::Refused`].
    pub fn describe(&mut self) -> std::result::Result<(Vec<u8>, Vec<u8>), Error> {
        let ch = self.put(Question::Describe)?;
        Ok((ch.recv(offer::MOST_BYTES)?, ch.recv(MOST_MANIFEST_BYTES)?))
    }

    /// The sums of a part, of which there are so many bytes.
    ///
    /// # Errors
    /// Those of the channel; [`Error::Refused`].
    pub fn sums(&mut self, part: usize, bytes: u64) -> std::result::Result<Vec<u8>, Error> {
        if bytes > self.ch.window() as u64 {
            return Err(Error::Sent(format!("a manifest whose part {part} is too large to be fetched")));
        }
        Ok(self.put(Question::Sums { part: part as u64 })?.recv_exact(bytes as usize)?)
    }

    /// Asks leave for so many keys, and gives the lines on which they are asked for, with the keys that go on each.
    ///
    /// # Errors
    /// Those of the channel; [`Error::Refused`].
    pub fn ask(&mut self, keys: u64, lanes: u64) -> std::result::Result<Vec<Lane>, Error> {
        self.put(Question::Ask { keys, lanes })?;
        let request = self.requests;
        self.requests += 1;
        Ok(lines(self.link, request, keys, lanes)?)
    }
}

/// A line of a request for keys, and those of the request's keys that go on it.
pub type Lane = (Box<dyn Channel>, Range<u64>);

/// The lines of a request for so many keys, on either side, with the keys that go on each.
///
/// # Errors
/// Those of the link.
pub fn lines(link: &dyn PeerLink, request: u64, keys: u64, lanes: u64) -> Result<Vec<Lane>> {
    let line = |(number, keys)| link.line(&lane(request, number)).map(|line| (line, keys));
    (0..).zip(shares(keys, lanes)).map(line).collect()
}

/// The keys of each lane: as even as can be, one behind the other.
fn shares(keys: u64, lanes: u64) -> impl Iterator<Item = Range<u64>> {
    let each = keys.div_ceil(lanes.max(1));
    (0..lanes).map(move |lane| (lane * each).min(keys)..((lane + 1) * each).min(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_testkit::two;

    #[test]
    fn questions_are_read_as_they_are_written() {
        for question in [
            Question::Describe,
            Question::End,
            Question::Sums { part: 3 },
            Question::Chunks { part: 3, from: 1 << 40 },
            Question::Ask { keys: 1 << 20, lanes: 4 },
            Question::Retrieve { epoch: u64::MAX, queries: 3 },
        ] {
            assert_eq!(Question::decode(&question.encode()), Some(question));
            assert_eq!(Question::decode(&question.encode()[1..]), None);
        }
        let mut odd = Question::Describe.encode();
        odd[5] = 1;
        assert_eq!(Question::decode(&odd), None);
        assert_eq!(Question::decode(&[9; QUESTION]), None);
    }

    #[test]
    fn a_client_that_asks_nonsense_is_named() {
        for nonsense in [&[0u8; 17][..], &[1; 16], &[], &[0; 100]] {
            let (_, heard) = two(
                |lines, _| lines.peer().unwrap().send(nonsense).unwrap(),
                |lines, _| Question::receive(lines.peer().unwrap()),
            );
            assert!(heard.unwrap_err().to_string().contains("alice"));
        }
    }

    #[test]
    fn a_refusal_is_cut_and_not_broken() {
        let long = "ä".repeat(2000);
        let (_, said) = two(
            |lines, _| refuse(lines.peer().unwrap(), &long).unwrap(),
            |lines, _| lines.peer().unwrap().recv(MOST_WORDS).unwrap(),
        );
        assert!(std::str::from_utf8(&said[1..]).unwrap().chars().all(|c| c == 'ä'));
    }

    proptest! {
        #[test]
        fn lanes_share_all_keys(keys in 0u64..1000, lanes in 1u64..20) {
            let all: Vec<u64> = shares(keys, lanes).flatten().collect();
            prop_assert_eq!(all, (0..keys).collect::<Vec<_>>());
            prop_assert_eq!(shares(keys, lanes).count() as u64, lanes);
        }
    }
}
