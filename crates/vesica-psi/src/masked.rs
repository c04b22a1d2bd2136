//! Lists of masked keys over a whole job: computed by the frame on several threads, put in one order, and sent by the frame.
//!
//! A list that leaves a party is in ascending order of its bytes over the whole job, so that it is a function of the set alone and a
//! place in it says nothing. It travels in *frames*, messages of a fixed number of items of which the last has what is left, so that
//! the lengths follow from the public sizes. Nothing holds a whole list in memory but the [`vesica_session::Room`].

use std::cmp::Ordering;
use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;
use vesica_curve::{Dst, Group, Points, SecretScalar};
use vesica_session::{Channel, Error, List, Misbehaviour, Result, SessionRng, Sorted, Sorter};
use vesica_types::{Digest, Party, TagLen};

/// Items of a frame in a job: with elements of 32 bytes a message of a mebibyte, which many threads can share.
pub const FRAME: usize = 1 << 15;

/// Bytes of a place in a list, behind what the list is sorted by.
pub const PLACE: usize = 8;

/// Frames that wait for the arithmetic while further ones are exchanged.
const AHEAD: usize = 1;

/// What a party computes with in one run: a fresh scalar, and the key of its tags.
pub struct Mask<'a, G: Group> {
    scalar: G::Scalar,
    dst: Dst,
    tag_key: [u8; 32],
    tag_len: TagLen,
    list: &'a List<'a>,
    /// Items of a frame.
    pub frame: usize,
}

impl<'a, G: Group> Mask<'a, G> {
    /// Draws the scalar. It is used for all lists of one run, for no other run, and is wiped at the end.
    pub fn open(
        dst: Dst,
        tag_key: [u8; 32],
        tag_len: TagLen,
        frame: usize,
        list: &'a List<'a>,
        rng: &mut SessionRng,
    ) -> Self {
        let mut coins = zeroize::Zeroizing::new([0; 64]);
        rng.fill(coins.as_mut());
        Self { scalar: G::Scalar::from_uniform(&coins), dst, tag_key, tag_len, list, frame }
    }

    /// { a·H(x) }, each with the place of x in the order of this party's keys, of which there are `n`.
    pub fn keys(&self, n: u64, ch: &dyn Channel) -> Result<Records> {
        let mut sorting = self.sorting(G::WIRE + PLACE, n)?;
        let (mut place, mut waiting) = (0u64, Vec::new());
        let mut blocks = self.list.keys.blocks();
        loop {
            let next = blocks.next().transpose()?;
            let last = next.is_none();
            waiting.extend(next.unwrap_or_default());
            while waiting.len() >= self.frame || (last && !waiting.is_empty()) {
                ch.alive()?;
                let keys: Vec<Digest> = waiting.drain(..self.frame.min(waiting.len())).collect();
                let share = keys.len().div_ceil(self.list.threads.max(1));
                let wire = on_threads(keys.chunks(share).collect(), |keys: &[Digest]| {
                    let mut wire = Vec::with_capacity(keys.len() * G::WIRE);
                    G::hash(&self.dst, keys).mul(&self.scalar).encode(&mut wire);
                    Ok(wire)
                })?;
                for element in wire.chunks_exact(G::WIRE) {
                    sorting.push([element, &place.to_be_bytes()])?;
                    place += 1;
                }
                (self.list.advance)(keys.len() as u64);
            }
            if last {
                break;
            }
        }
        if place != n {
            return Err(Error::Bug(format!("{place} keys in a job that was planned for {n}")));
        }
        sorting.sorted()
    }

    /// { a·v } in the order of a frame of a peer's list: nothing is computed on elements that are not of the group.
    pub fn again(&self, v: &Frame, peer: &Party, rng: &mut SessionRng) -> Result<Vec<u8>> {
        let share = (v.bytes.len() / G::WIRE).div_ceil(self.list.threads.max(1)).max(1);
        let shares = v.bytes.chunks(share * G::WIRE).enumerate().map(|(i, v)| (i * share, v, rng.bytes()));
        let wire = on_threads(shares.collect(), |(first, elements, coins): (usize, &[u8], [u8; 32])| {
            let points = G::decode(elements, &coins).map_err(|bad| {
                let index = v.first as usize + first + bad.index;
                accuse(peer, Misbehaviour::Element { index, why: bad.why })
            })?;
            let mut wire = Vec::with_capacity(elements.len());
            points.mul(&self.scalar).encode(&mut wire);
            Ok(wire)
        })?;
        (self.list.advance)((v.bytes.len() / G::WIRE) as u64);
        Ok(wire)
    }

    /// T of an element: the first L bits of a hash of its encoding.
    pub fn tag(&self, element: &[u8]) -> Vec<u8> {
        blake3::keyed_hash(&self.tag_key, element).as_bytes()[..self.tag_len.bytes()].to_vec()
    }

    /// Takes records of this many bytes, of which there will be about `records`.
    pub fn sorting(&self, bytes: usize, records: u64) -> Result<Sorting> {
        Ok(Sorting { sorter: self.list.room.sorter(bytes, records)?, record: Vec::with_capacity(bytes), bytes })
    }

    /// How a list of `len` items is cut into messages.
    pub fn frames(&self, len: u64) -> Frames {
        Frames { len, frame: self.frame }
    }
}

/// The error that says that this peer broke the protocol, where its channel is in other hands.
pub fn accuse(peer: &Party, fault: Misbehaviour) -> Error {
    Error::Peer { peer: peer.clone(), fault }
}

/// What `work` makes of all shares, in order, each on a thread of its own.
fn on_threads<T: Send>(mut shares: Vec<T>, work: impl Fn(T) -> Result<Vec<u8>> + Sync) -> Result<Vec<u8>> {
    match (shares.pop(), shares.is_empty()) {
        (None, _) => Ok(Vec::new()),
        (Some(only), true) => work(only),
        (Some(last), false) => thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || work(share))).collect();
            let last = work(last);
            let mut all = Vec::new();
            for done in others {
                all.extend(done.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            all.extend(last?);
            Ok(all)
        }),
    }
}

/// How a list is cut into messages.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Items of the list.
    pub len: u64,
    /// Items of a message; the last one has what is left.
    pub frame: usize,
}

impl Frames {
    /// A list that is not sent.
    pub const NONE: Frames = Frames { len: 0, frame: 1 };

    /// Each message's first item and how many it has.
    fn parts(self) -> impl Iterator<Item = (u64, usize)> {
        let frame = self.frame as u64;
        (0..self.len.div_ceil(frame)).map(move |i| (i * frame, (self.len - i * frame).min(frame) as usize))
    }
}

/// One message of a list that a peer sends.
pub struct Frame {
    /// The place of its first item in the list.
    pub first: u64,
    /// Its items.
    pub bytes: Vec<u8>,
}

/// Sends one list and receives another one, of items of `bytes` bytes, a frame at a time each way, so that neither side waits with a
/// full window for the other. What comes is handed to `work` on a thread of its own, that the next frames travel meanwhile.
/// `between` is called after each turn with the number of frames sent.
pub fn swap(
    ch: &mut dyn Channel,
    mut mine: impl Iterator<Item = Result<Vec<u8>>>,
    (theirs, bytes): (Frames, usize),
    mut work: impl FnMut(Frame) -> Result<()> + Send,
    mut between: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    thread::scope(|scope| {
        let (hand, taken) = sync_channel::<Frame>(AHEAD);
        let worker = scope.spawn(move || taken.into_iter().try_for_each(&mut work));
        let mut exchange = || -> Result<()> {
            let (mut parts, mut sent) = (theirs.parts(), 0);
            loop {
                let (out, part) = (mine.next().transpose()?, parts.next());
                if out.is_none() && part.is_none() {
                    return Ok(());
                }
                if let Some(out) = out {
                    ch.send(&out)?;
                    sent += 1;
                }
                if let Some((first, items)) = part {
                    let bytes = ch.recv_exact(items * bytes)?;
                    if hand.send(Frame { first, bytes }).is_err() {
                        // The worker has failed and says why.
                        return Ok(());
                    }
                }
                between(sent)?;
            }
        };
        let exchanged = exchange();
        drop(hand);
        let worked = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        match (worked, exchanged) {
            // That a connection ended says less than why.
            (Err(Error::Net { .. }), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(()), Ok(())) => Ok(()),
        }
    })
}

/// Holds a list that a peer sends to strictly ascending order, over all its frames.
#[derive(Default)]
pub struct Ascending {
    last: Vec<u8>,
}

impl Ascending {
    /// Looks at the next frame, of items of `bytes` bytes.
    pub fn check(&mut self, frame: &Frame, bytes: usize, peer: &Party) -> Result<()> {
        for (index, item) in (frame.first as usize..).zip(frame.bytes.chunks_exact(bytes)) {
            if index > 0 && self.last.as_slice() >= item {
                return Err(accuse(peer, Misbehaviour::Order { index }));
            }
            self.last.clear();
            self.last.extend_from_slice(item);
        }
        Ok(())
    }
}

/// Takes records in any order.
pub struct Sorting {
    sorter: Box<dyn Sorter>,
    record: Vec<u8>,
    bytes: usize,
}

impl Sorting {
    /// Takes the record of these parts.
    pub fn push<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<()> {
        self.record.clear();
        parts.iter().for_each(|part| self.record.extend_from_slice(part));
        self.sorter.push(&self.record)
    }

    /// Ends taking.
    pub fn sorted(self) -> Result<Records> {
        Ok(Records { sorted: self.sorter.sorted()?, bytes: self.bytes })
    }
}

/// Records of one length in ascending order.
pub struct Records {
    sorted: Box<dyn Sorted>,
    bytes: usize,
}

impl Records {
    /// Reads them from the first on.
    pub fn read(&self) -> Cursor<'_> {
        Cursor { blocks: self.sorted.blocks(), block: Vec::new(), at: 0, bytes: self.bytes }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.sorted.records()
    }

    /// The first `bytes` of each record, by the frame.
    pub fn frames(&self, frame: usize, bytes: usize) -> impl Iterator<Item = Result<Vec<u8>>> {
        let mut cursor = self.read();
        Frames { len: self.len(), frame }.parts().map(move |(_, items)| {
            let mut message = Vec::with_capacity(items * bytes);
            for _ in 0..items {
                message.extend_from_slice(&cursor.next_one()?[..bytes]);
            }
            Ok(message)
        })
    }
}

/// Reads [`Records`].
pub struct Cursor<'a> {
    blocks: Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + 'a>,
    block: Vec<u8>,
    at: usize,
    bytes: usize,
}

impl Cursor<'_> {
    /// The next record, which stays the next one.
    pub fn peek(&mut self) -> Result<Option<&[u8]>> {
        while self.at == self.block.len() {
            match self.blocks.next() {
                Some(block) => (self.block, self.at) = (block?, 0),
                None => return Ok(None),
            }
        }
        Ok(Some(&self.block[self.at..][..self.bytes]))
    }

    /// The next record.
    pub fn take(&mut self) -> Result<Option<&[u8]>> {
        if self.peek()?.is_none() {
            return Ok(None);
        }
        self.at += self.bytes;
        Ok(Some(&self.block[self.at - self.bytes..self.at]))
    }

    /// The next record of a list that has one more.
    pub fn next_one(&mut self) -> Result<&[u8]> {
        self.take()?.ok_or_else(|| Error::Bug("a list ended before its last record".into()))
    }

    /// The record that begins with `tag`, if there is one: to be asked for tags in ascending order.
    pub fn find(&mut self, tag: &[u8]) -> Result<Option<&[u8]>> {
        while let Some(record) = self.peek()? {
            match record[..tag.len()].cmp(tag) {
                Ordering::Less => self.at += self.bytes,
                Ordering::Equal => return self.take(),
                Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }
}
