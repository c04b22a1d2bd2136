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
    frame: usize,
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

    /// Sends a list of elements or nothing, and receives the `n` elements { v } of the peer's, in ascending order. Returns { (T(a·v), place of v)
    /// }, and a·v behind them if they are to be kept, in ascending order of the tags. `between` is called as [`swap`] does.
    pub fn exchange(
        &self,
        ch: &mut dyn Channel,
        mine: impl Iterator<Item = Result<Vec<u8>>> + Send,
        (n, keep): (u64, bool),
        between: impl FnMut(u64) -> Result<()> + Send,
        rng: &mut SessionRng,
    ) -> Result<Records> {
        let kept = if keep { G::WIRE } else { 0 };
        let mut sorting = self.sorting(self.tag_bytes() + PLACE + kept, n)?;
        let (peer, mut order) = (ch.peer().clone(), Ascending::default());
        let raise = |v: Frame| {
            order.check(&v, G::WIRE, &peer)?;
            let points = self.again(&v, &peer, rng)?;
            (v.first..)
                .zip(points.chunks_exact(G::WIRE))
                .try_for_each(|(place, point)| sorting.push([&self.tag(point), &place.to_be_bytes(), &point[..kept]]))
        };
        swap(ch, mine, (self.frames(n), G::WIRE), raise, between)?;
        sorting.sorted()
    }

    /// Sends a list of tags or nothing, and receives `n` tags of the peer's, in ascending order. Calls `both` with each record that begins
    /// with one of them, and with the tag's place in the peer's list.
    pub fn compare(
        &self,
        ch: &mut dyn Channel,
        mine: impl Iterator<Item = Result<Vec<u8>>> + Send,
        n: u64,
        records: &Records,
        mut both: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let (peer, mut order, mut records) = (ch.peer().clone(), Ascending::default(), records.read());
        let find = |tags: Frame| {
            order.check(&tags, self.tag_bytes(), &peer)?;
            let mut tags = (tags.first..).zip(tags.bytes.chunks_exact(self.tag_bytes()));
            tags.try_for_each(|(place, tag)| records.find(tag)?.map_or(Ok(()), |record| both(record, place)))
        };
        swap(ch, mine, (self.frames(n), self.tag_bytes()), find, nothing)
    }

    /// Sends a list of elements or nothing, and receives `n` elements { v } of the peer's: in ascending order, or in the order of a third
    /// party's list. Calls `on` with { a·v }, frame by frame in that order.
    pub fn relay(
        &self,
        ch: &mut dyn Channel,
        mine: impl Iterator<Item = Result<Vec<u8>>> + Send,
        (n, ascending): (u64, bool),
        mut on: impl FnMut(Vec<u8>) -> Result<()>,
        rng: &mut SessionRng,
    ) -> Result<()> {
        let (peer, mut order) = (ch.peer().clone(), Ascending::default());
        let raise = |v: Frame| {
            if ascending {
                order.check(&v, G::WIRE, &peer)?;
            }
            on(self.again(&v, &peer, rng)?)
        };
        swap(ch, mine, (self.frames(n), G::WIRE), raise, nothing)
    }

    /// { a·v } in the order of a frame of a peer's list: nothing is computed on elements that are not of the group.
    fn again(&self, v: &Frame, peer: &Party, rng: &mut SessionRng) -> Result<Vec<u8>> {
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

    /// Tags that come back from `ch` in the order of a list of this party's masked keys.
    pub fn returned<'b>(&self, ch: &'b mut dyn Channel, list: &'b Records) -> Result<Returned<'b>> {
        let (bytes, frames) = (self.tag_bytes(), self.frames(list.len()));
        let sorting = self.sorting(bytes + PLACE, list.len())?;
        let (parts, heads) = (Box::new(frames.parts()), Heads::of(list.len()));
        Ok(Returned { ch, parts, read: 0, list: list.read(), place: G::WIRE, bytes, heads, sorting })
    }

    /// T of an element: the first L bits of a hash of its encoding.
    pub fn tag(&self, element: &[u8]) -> Vec<u8> {
        blake3::keyed_hash(&self.tag_key, element).as_bytes()[..self.tag_len.bytes()].to_vec()
    }

    /// Bytes of a tag.
    pub fn tag_bytes(&self) -> usize {
        self.tag_len.bytes()
    }

    /// The elements that the records of a list of masked keys begin with, by the frame.
    pub fn elements(&self, list: &Records) -> impl Iterator<Item = Result<Vec<u8>>> + Send {
        list.frames(self.frame, G::WIRE)
    }

    /// The tags that the records of a list begin with, by the frame.
    pub fn tags(&self, list: &Records) -> impl Iterator<Item = Result<Vec<u8>>> + Send {
        list.frames(self.frame, self.tag_bytes())
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
fn accuse(peer: &Party, fault: Misbehaviour) -> Error {
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
    /// Each message's first item and how many it has.
    pub fn parts(self) -> impl Iterator<Item = (u64, usize)> {
        let frame = self.frame as u64;
        (0..self.len.div_ceil(frame)).map(move |i| (i * frame, (self.len - i * frame).min(frame) as usize))
    }
}

/// One message of a list that a peer sends.
struct Frame {
    /// The place of its first item in the list.
    first: u64,
    bytes: Vec<u8>,
}

/// Sends one list and receives another one, of items of `bytes` bytes, a frame at a time each way, so that neither side waits with a
/// full window for the other. A thread of its own sees to the messages, so that the next frames travel while `work` is busy with what
/// came. After each turn that thread calls `between` with the number of frames that it has sent.
fn swap(
    ch: &mut dyn Channel,
    mut mine: impl Iterator<Item = Result<Vec<u8>>> + Send,
    (theirs, bytes): (Frames, usize),
    work: impl FnMut(Frame) -> Result<()>,
    mut between: impl FnMut(u64) -> Result<()> + Send,
) -> Result<()> {
    thread::scope(|scope| {
        let (hand, taken) = sync_channel::<Frame>(AHEAD);
        let exchange = scope.spawn(move || -> Result<()> {
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
                        // The work has failed, and says why.
                        return Ok(());
                    }
                }
                between(sent)?;
            }
        });
        let worked = taken.into_iter().try_for_each(work);
        let exchanged = exchange.join().unwrap_or_else(|panic| resume_unwind(panic));
        match (worked, exchanged) {
            // That a connection ended says less than why.
            (Err(Error::Net { .. }), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(()), Ok(())) => Ok(()),
        }
    })
}

/// What is done between turns where there is nothing to do.
pub fn nothing(_: u64) -> Result<()> {
    Ok(())
}

/// A list that is not sent.
pub fn no_frames() -> impl Iterator<Item = Result<Vec<u8>>> + Send {
    std::iter::empty()
}

/// Holds a list that a peer sends to strictly ascending order, over all its frames.
#[derive(Default)]
struct Ascending {
    last: Vec<u8>,
}

impl Ascending {
    /// Looks at the next frame, of items of `bytes` bytes.
    fn check(&mut self, frame: &Frame, bytes: usize, peer: &Party) -> Result<()> {
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

/// Tags that come back in the order of a list.
pub struct Returned<'a> {
    ch: &'a mut dyn Channel,
    parts: Box<dyn Iterator<Item = (u64, usize)> + Send>,
    read: u64,
    list: Cursor<'a>,
    /// Where a record of the list has its place.
    place: usize,
    bytes: usize,
    heads: Heads,
    sorting: Sorting,
}

impl Returned<'_> {
    /// Receives frames until there were `upto`, or all.
    pub fn receive(&mut self, upto: u64) -> Result<()> {
        while self.read < upto
            && let Some((_, items)) = self.parts.next()
        {
            self.read += 1;
            for tag in self.ch.recv_exact(items * self.bytes)?.chunks_exact(self.bytes) {
                if !self.heads.take(tag) {
                    return Err(self.ch.accuse(Misbehaviour::Contradiction("its tags are too much alike")));
                }
                self.sorting.push([tag, &self.list.next_one()?[self.place..]])?;
            }
        }
        Ok(())
    }

    /// Receives the rest: { (tag, place of the key) } in ascending order of the tags.
    pub fn sorted(mut self) -> Result<Records> {
        self.receive(u64::MAX)?;
        self.sorting.sorted()
    }
}

/// How many tags begin with each two bytes. What a [`vesica_session::Room`] takes is parted by its first bytes, and a part is sorted in
/// memory. Other records begin with what a peer cannot foresee, but these tags are the peer's own words: it could put all into one part.
struct Heads {
    seen: Vec<u64>,
    most: u64,
}

impl Heads {
    /// For `n` tags. Of tags that are like random ones, more than four times their share and 64 begin alike with a probability below 2^-80.
    fn of(n: u64) -> Self {
        Self { seen: vec![0; 1 << 16], most: 4 * (n >> 16) + 64 }
    }

    /// Counts a tag; false if too many begin as it does.
    fn take(&mut self, tag: &[u8]) -> bool {
        let seen = &mut self.seen[usize::from(u16::from_be_bytes([tag[0], tag[1]]))];
        *seen += 1;
        *seen <= self.most
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

    /// Calls `on` with what stands before the place of each record whose place is less than `n`.
    pub fn of_first(&self, n: u64, mut on: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut records = self.read();
        while let Some((element, place)) = records.take()?.map(|record| record.split_at(self.bytes - PLACE)) {
            if place < n.to_be_bytes().as_slice() {
                on(element)?;
            }
        }
        Ok(())
    }

    /// Calls `both` with what stands behind the first `bytes` bytes of each two records that agree in these.
    pub fn meet(&self, others: &Records, bytes: usize, mut both: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let (mut mine, mut others) = (self.read(), others.read());
        while let Some(other) = others.take()? {
            let (tag, rest) = other.split_at(bytes);
            if let Some(mine) = mine.find(tag)? {
                both(&mine[bytes..], rest)?;
            }
        }
        Ok(())
    }

    /// The records without their length.
    pub fn into_sorted(self) -> Box<dyn Sorted> {
        self.sorted
    }

    /// The first `bytes` of each record, by the frame.
    fn frames(&self, frame: usize, bytes: usize) -> impl Iterator<Item = Result<Vec<u8>>> + Send {
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

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_curve::Curve25519;
    use vesica_session::memory::Memories;
    use vesica_testkit::{alice, bob, digests, fixed_rng, two};

    const N: u64 = 50;

    /// Calls `work` with the mask of a party that has 50 keys, `threads` threads and frames of 16 items.
    fn with<T>(threads: usize, work: impl FnOnce(&Mask<'_, Curve25519>) -> T) -> T {
        let keys = digests(0, N);
        let list = List { keys: &keys, room: &Memories, threads, advance: &|_| (), same: &|_| Ok(true) };
        let tag_len = TagLen::new(10).unwrap();
        work(&Mask::open(Dst::new(b"test"), [0; 32], tag_len, 16, &list, &mut fixed_rng(1)))
    }

    fn bytes(list: &Records) -> Vec<u8> {
        list.sorted.blocks().flat_map(Result::unwrap).collect()
    }

    /// The list of masked keys, by frames.
    fn frames(threads: usize) -> Vec<Vec<u8>> {
        let (ch, _other) = vesica_session::memory::pair(&alice(), &bob());
        with(threads, |mask| mask.elements(&mask.keys(N, &ch).unwrap()).map(Result::unwrap).collect())
    }

    #[test]
    fn threads_change_nothing() {
        let one = frames(1);
        assert_eq!(one.iter().map(|frame| frame.len() / 32).collect::<Vec<_>>(), [16, 16, 16, 2]);
        assert!(one.concat().chunks(32).is_sorted());
        let raised = |threads| {
            let (got, ()) = two(
                |lines, rng| {
                    let ch = lines.peer().unwrap();
                    with(threads, |mask| bytes(&mask.exchange(ch, no_frames(), (N, true), nothing, rng).unwrap()))
                },
                |lines, _| one.iter().for_each(|frame| lines.peer().unwrap().send(frame).unwrap()),
            );
            got
        };
        for threads in [2, 3, 7, 16, 40] {
            assert!(frames(threads) == one && raised(threads) == raised(1), "{threads}");
        }
        // Each place is there once, behind a tag of ten bytes.
        let mut places: Vec<u64> = raised(1)
            .chunks(10 + PLACE + 32)
            .map(|record| u64::from_be_bytes(record[10..][..PLACE].try_into().unwrap()))
            .collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..N));
    }

    /// Whatever frame it is in, and whichever thread works on it.
    #[test]
    fn a_bad_element_is_named_by_its_place_in_the_list() {
        let good = frames(1);
        for at in [0, 5, 15, 16, 33, 48, 49] {
            let mut frames = good.clone();
            // Not canonical, and behind it nothing is looked at.
            frames[at / 16][at % 16 * 32..][..32].fill(0xff);
            frames.truncate(at / 16 + 1);
            let (got, ()) = two(
                |lines, rng| {
                    let ch = lines.peer().unwrap();
                    with(3, |mask| mask.relay(ch, no_frames(), (N, false), |_| Ok(()), rng))
                },
                |lines, _| frames.iter().for_each(|frame| lines.peer().unwrap().send(frame).unwrap()),
            );
            let error = got.unwrap_err().to_string();
            assert!(error.starts_with(&format!("bob broke the protocol: element {at} of a list is")), "{error}");
        }
    }

    /// A peer that returns tags which all begin alike would put them into one part of the room, which is read into memory whole.
    #[test]
    fn tags_that_begin_alike_are_refused() {
        for (alike, refused) in [(64, false), (65, true), (100, true)] {
            let tag = |at: u8| if at < alike { [7, 7, at, 0, 0, 0, 0, 0, 0, 0] } else { [at; 10] };
            let (got, ()) = two(
                |lines, _| {
                    let keys = digests(0, 100);
                    let list = List { keys: &keys, room: &Memories, threads: 1, advance: &|_| (), same: &|_| Ok(true) };
                    let tag_len = TagLen::new(10).unwrap();
                    let mask =
                        Mask::<Curve25519>::open(Dst::new(b"test"), [0; 32], tag_len, 16, &list, &mut fixed_rng(1));
                    let ch = lines.peer()?;
                    let mine = mask.keys(100, ch)?;
                    let returned = mask.returned(ch, &mine)?.sorted();
                    returned.map(|returned| returned.len())
                },
                |lines, _| {
                    let tags: Vec<[u8; 10]> = (0..100).map(tag).collect();
                    // Who refuses is gone before the last frame.
                    tags.chunks(16).for_each(|tags| _ = lines.peer().unwrap().send(tags.as_flattened()));
                },
            );
            match got {
                Ok(returned) => assert!(!refused && returned == 100, "{alike}"),
                Err(error) => {
                    assert!(refused && error.to_string() == "bob broke the protocol: its tags are too much alike")
                }
            }
        }
    }

    /// An error of the work ends the exchange, and is what is said.
    #[test]
    fn the_reason_is_said_and_not_what_follows_from_it() {
        let (got, _) = two(
            |lines, _| {
                let ch = lines.peer().unwrap();
                let work = |_| Err(Error::Bug("for this reason".into()));
                swap(ch, no_frames(), (Frames { len: 1000, frame: 1 }, 1), work, nothing)
            },
            |lines, _| while lines.peer().unwrap().send(&[0]).is_ok() {},
        );
        assert_eq!(got, Err(Error::Bug("for this reason".into())));
    }

    #[test]
    fn a_list_is_searched_in_one_pass() {
        with(1, |mask| {
            let mut sorting = mask.sorting(3, 9).unwrap();
            [[5, 0, 1], [7, 7, 2], [7, 7, 3], [9, 9, 4]].iter().for_each(|record| sorting.push([record]).unwrap());
            let list = sorting.sorted().unwrap();
            let mut cursor = list.read();
            let mut find = |tag: [u8; 2]| cursor.find(&tag).unwrap().map(|record| record[2]);
            // A record is found once.
            let tags = [[0, 1], [5, 0], [5, 0], [6, 6], [7, 7], [8, 0], [9, 9], [9, 9]];
            let want = [None, Some(1), None, None, Some(2), None, Some(4), None];
            assert_eq!(tags.map(&mut find), want);
        });
    }
}
