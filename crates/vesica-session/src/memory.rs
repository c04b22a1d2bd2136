//! Channels inside one process, and lists that stay in memory: what forecasts, tests and benchmarks run protocols with.

use crate::{Channel, Error, Keys, Lines, Meter, Misbehaviour, Result, Room, Sorted, Sorter};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use vesica_types::{Digest, Party};

/// The most messages that wait in one direction of a line before `send` blocks.
const DEPTH: usize = 4;

/// The largest message.
const WINDOW: usize = 64 << 20;

type End = (SyncSender<Vec<u8>>, Receiver<Vec<u8>>);

/// Lines that one side has opened and the other has not yet, by name and by the place of the side they wait for.
type Unclaimed = Arc<Mutex<HashMap<(u8, String), End>>>;

/// One end of a pipe made by [`pair`].
pub struct Memory {
    here: Party,
    peer: Party,
    out: SyncSender<Vec<u8>>,
    inn: Receiver<Vec<u8>>,
    unclaimed: Unclaimed,
    meter: Meter,
    spoke: bool,
}

/// The two ends of a pipe: `a`'s, whose peer is `b`, and `b`'s.
pub fn pair(a: &Party, b: &Party) -> (Memory, Memory) {
    let (x, y) = pipe();
    let unclaimed = Unclaimed::default();
    let end = |here: &Party, peer: &Party, (out, inn): End| Memory {
        here: here.clone(),
        peer: peer.clone(),
        out,
        inn,
        unclaimed: unclaimed.clone(),
        meter: Meter::default(),
        spoke: false,
    };
    (end(a, b, x), end(b, a, y))
}

/// The lines of each party to all others.
pub fn mesh(parties: &[Party]) -> Vec<Lines> {
    let mut channels: Vec<Vec<Box<dyn Channel>>> = parties.iter().map(|_| Vec::new()).collect();
    for (b, bob) in parties.iter().enumerate() {
        for (a, alice) in parties[..b].iter().enumerate() {
            let (to_bob, to_alice) = pair(alice, bob);
            channels[a].push(Box::new(to_bob));
            channels[b].push(Box::new(to_alice));
        }
    }
    channels.into_iter().map(Lines::new).collect()
}

/// Keys that are all in memory, in blocks that are small enough to show a mistake at their bounds.
impl Keys for Vec<Digest> {
    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<Digest>>> + Send + '_> {
        Box::new(self.chunks(1000).map(|block| Ok(block.to_vec())))
    }
}

/// Room in memory, without a bound.
pub struct Memories;

impl Room for Memories {
    fn sorter(&self, bytes: usize, records: u64) -> Result<Box<dyn Sorter>> {
        Ok(Box::new(Records { bytes, all: Vec::with_capacity(records as usize * bytes) }))
    }
}

/// Records in memory, which are in order once they are [`Sorted`].
struct Records {
    bytes: usize,
    all: Vec<u8>,
}

impl Sorter for Records {
    fn push(&mut self, record: &[u8]) -> Result<()> {
        if record.len() != self.bytes {
            return Err(Error::Bug(format!("a record of {} bytes among records of {}", record.len(), self.bytes)));
        }
        self.all.extend_from_slice(record);
        Ok(())
    }

    fn sorted(self: Box<Self>) -> Result<Box<dyn Sorted>> {
        let mut records: Vec<&[u8]> = self.all.chunks_exact(self.bytes).collect();
        records.sort_unstable();
        let all = records.concat();
        Ok(Box::new(Records { bytes: self.bytes, all }))
    }
}

impl Sorted for Records {
    fn records(&self) -> u64 {
        (self.all.len() / self.bytes) as u64
    }

    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + '_> {
        Box::new(self.all.chunks(1000 * self.bytes).map(|block| Ok(block.to_vec())))
    }
}

fn pipe() -> (End, End) {
    let (to_b, from_a) = sync_channel(DEPTH);
    let (to_a, from_b) = sync_channel(DEPTH);
    ((to_b, from_b), (to_a, from_a))
}

impl Memory {
    fn gone(&self) -> Error {
        Error::Net { peer: self.peer.clone(), why: "the other end was dropped".into() }
    }
}

impl Channel for Memory {
    fn send(&mut self, msg: &[u8]) -> Result<()> {
        if msg.len() > WINDOW {
            return Err(Error::Bug(format!("a message of {} bytes is larger than the window", msg.len())));
        }
        self.out.send(msg.to_vec()).map_err(|_| self.gone())?;
        self.spoke = true;
        let step = self.meter.current();
        step.sent += msg.len() as u64;
        step.messages += 1;
        Ok(())
    }

    fn recv(&mut self, limit: usize) -> Result<Vec<u8>> {
        let msg = self.inn.recv().map_err(|_| self.gone())?;
        if msg.len() > limit {
            return Err(self.accuse(Misbehaviour::TooLong { got: msg.len() as u64, limit: limit as u64 }));
        }
        let round = std::mem::take(&mut self.spoke);
        let step = self.meter.current();
        step.received += msg.len() as u64;
        step.rounds += u64::from(round);
        Ok(msg)
    }

    fn line(&self, name: &str) -> Result<Box<dyn Channel>> {
        let mut unclaimed = self.unclaimed.lock().expect("no test panics while it opens a line");
        let end = unclaimed.remove(&(self.here.place(), name.to_owned())).unwrap_or_else(|| {
            let (ours, theirs) = pipe();
            unclaimed.insert((self.peer.place(), name.to_owned()), theirs);
            ours
        });
        Ok(Box::new(Memory {
            here: self.here.clone(),
            peer: self.peer.clone(),
            out: end.0,
            inn: end.1,
            unclaimed: self.unclaimed.clone(),
            meter: Meter::default(),
            spoke: false,
        }))
    }

    fn window(&self) -> usize {
        WINDOW
    }

    fn step(&mut self, name: &'static str) {
        self.meter.step(name);
    }

    fn meter(&self) -> Meter {
        self.meter.clone()
    }

    fn peer(&self) -> &Party {
        &self.peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (Memory, Memory) {
        pair(&Party::new(0, "alice"), &Party::new(1, "bob"))
    }

    #[test]
    fn messages_arrive_in_order_and_are_counted() {
        let (mut a, mut b) = ends();
        a.step("talk");
        a.send(b"one").unwrap();
        a.send(b"three").unwrap();
        assert_eq!(b.recv(3).unwrap(), b"one");
        assert_eq!(b.recv(9).unwrap(), b"three");
        b.send(b"ok").unwrap();
        a.recv(2).unwrap();
        let step = &a.meter().steps[0];
        assert_eq!((step.name, step.sent, step.received, step.messages, step.rounds), ("talk", 8, 2, 2, 1));
    }

    #[test]
    fn a_message_over_the_limit_is_the_peers_fault() {
        let (mut a, mut b) = ends();
        a.send(&[0; 9]).unwrap();
        let error = b.recv(8).unwrap_err();
        assert_eq!(error.to_string(), "alice broke the protocol: a message of 9 bytes where at most 8 are allowed");
        assert_eq!(error.fault(), crate::Fault::Peer);
    }

    #[test]
    fn lines_meet_by_name_in_any_order() {
        let (a, b) = ends();
        let mut a1 = a.line("1").unwrap();
        let mut b2 = b.line("2").unwrap();
        let mut b1 = b.line("1").unwrap();
        let mut a2 = a.line("2").unwrap();
        a1.send(b"first").unwrap();
        a2.send(b"second").unwrap();
        assert_eq!(b2.recv(10).unwrap(), b"second");
        assert_eq!(b1.recv(10).unwrap(), b"first");
    }

    #[test]
    fn a_mesh_joins_every_two_parties() {
        let parties = [Party::new(0, "alice"), Party::new(1, "bob"), Party::new(2, "carol")];
        let mut lines = mesh(&parties);
        for (from, line) in parties.iter().zip(&mut lines) {
            line.all().for_each(|ch| ch.send(from.name().as_bytes()).unwrap());
        }
        for (me, line) in parties.iter().zip(&mut lines) {
            for other in parties.iter().filter(|other| *other != me) {
                assert_eq!(line.at(other.place()).unwrap().recv(9).unwrap(), other.name().as_bytes());
            }
            assert!(line.at(me.place()).is_err());
            let (next, before) = ((me.place() + 1) % 3, (me.place() + 2) % 3);
            let (to_next, to_before) = line.two(next, before).unwrap();
            assert_eq!([to_next.peer().place(), to_before.peer().place()], [next, before]);
            assert!(line.two(next, me.place()).is_err() && line.two(next, next).is_err());
        }
    }

    #[test]
    fn records_come_back_in_order() {
        let mut sorter = Memories.sorter(2, 3).unwrap();
        [[3, 0], [1, 9], [1, 2]].iter().for_each(|record| sorter.push(record).unwrap());
        assert!(sorter.push(&[1]).is_err());
        let sorted = sorter.sorted().unwrap();
        assert_eq!(sorted.records(), 3);
        assert_eq!(sorted.blocks().map(Result::unwrap).collect::<Vec<_>>().concat(), [1, 2, 1, 9, 3, 0]);
    }

    #[test]
    fn a_dropped_end_is_an_error_not_a_hang() {
        let (mut a, b) = ends();
        drop(b);
        assert_eq!(a.recv(1).unwrap_err().fault(), crate::Fault::Network);
    }
}
