//! Which items of a list are marked: as places in ascending order, and on the wire as a bit for each item, by the frame.

use crate::masked::{Frames, Mask, PLACE, Records, Sorting};
use vesica_curve::Group;
use vesica_session::{Channel, Found, Misbehaviour, Result, Sorted};

/// Bytes before a place in a record: how far into the list it is, as a fraction of 2^32. Places themselves are too alike in their first
/// bytes for a [`vesica_session::Room`] to part.
const HEAD: usize = 4;

/// Takes places in any order.
pub struct Marking {
    sorting: Sorting,
    list: Frames,
}

impl Marking {
    /// Marks in a list of `len` items, of which at most `most` are marked.
    pub fn open<G: Group>(mask: &Mask<'_, G>, len: u64, most: u64) -> Result<Self> {
        Ok(Self { sorting: mask.sorting(HEAD + PLACE, most)?, list: mask.frames(len) })
    }

    /// Marks the item at a place that stands in a record.
    pub fn push(&mut self, place: &[u8]) -> Result<()> {
        let head = ((u128::from(number(place)) << 32) / u128::from(self.list.len)) as u32;
        self.sorting.push([&head.to_be_bytes(), place])
    }

    /// Ends taking.
    pub fn sorted(self) -> Result<Marked> {
        Ok(Marked { places: self.sorting.sorted()?, list: self.list })
    }
}

/// The marked items of a list.
pub struct Marked {
    places: Records,
    list: Frames,
}

impl Marked {
    /// How many are marked.
    pub fn count(&self) -> u64 {
        self.places.len()
    }

    /// A bit for each item, the lowest of a byte first.
    pub fn send(&self, ch: &mut dyn Channel) -> Result<()> {
        self.send_as(ch, |marked| marked)
    }

    /// A bit for each item: what `say` makes of whether it is marked.
    pub fn send_as(&self, ch: &mut dyn Channel, mut say: impl FnMut(bool) -> bool) -> Result<()> {
        let mut places = self.places.read();
        for (first, items) in self.list.parts() {
            let mut bits = vec![0u8; items.div_ceil(8)];
            while let Some(record) = places.peek()? {
                let Some(at) = Some((number(&record[HEAD..]) - first) as usize).filter(|&at| at < items) else { break };
                bits[at / 8] |= 1 << (at % 8);
                places.take()?;
            }
            for at in 0..items {
                let marked = bits[at / 8] >> (at % 8) & 1 == 1;
                bits[at / 8] ^= u8::from(marked ^ say(marked)) << (at % 8);
            }
            ch.send(&bits)?;
        }
        Ok(())
    }

    /// The marked items that `keep` says yes to, which it is asked for in ascending order: as marks in a list of `len` items, of which they
    /// must be.
    pub fn those<G: Group>(self, mask: &Mask<'_, G>, len: u64, mut keep: impl FnMut(u64) -> bool) -> Result<Self> {
        let mut kept = Marking::open(mask, len, self.count())?;
        let mut places = self.places.read();
        while let Some(record) = places.take()? {
            let place = &record[HEAD..];
            if keep(number(place)) {
                kept.push(place)?;
            }
        }
        kept.sorted()
    }

    /// The marked keys, if the list was one of keys.
    pub fn found(self) -> Found {
        Found::Places(Box::new(Places(self.places.into_sorted())))
    }
}

/// Receives which records of a list are marked, a bit each. Returns the places that stand in those: for each of `places` the one behind so
/// many bytes of a record, which is a place in a list of so many items. The list is not needed afterwards. Any number of records may be marked, or as many as are known to be.
pub fn told<G: Group, const N: usize>(
    mask: &Mask<'_, G>,
    ch: &mut dyn Channel,
    list: Records,
    places: [(usize, u64); N],
    known: Option<u64>,
) -> Result<[Marked; N]> {
    let most = known.unwrap_or(list.len());
    let mut markings = Vec::with_capacity(N);
    for (_, len) in places {
        markings.push(Marking::open(mask, len, most)?);
    }
    let (mut records, mut marked) = (list.read(), 0);
    for (_, items) in mask.frames(list.len()).parts() {
        let bits = ch.recv_exact(items.div_ceil(8))?;
        for at in 0..bits.len() * 8 {
            let record = if at < items { Some(records.next_one()?) } else { None };
            if bits[at / 8] >> (at % 8) & 1 == 0 {
                continue;
            }
            marked += 1;
            for (marking, (bytes, len)) in markings.iter_mut().zip(places) {
                // Behind the end of the list is no key, and no place is that of one where the record is padding.
                let place = record.map(|record| &record[bytes..][..PLACE]).filter(|place| number(place) < len);
                marking.push(place.ok_or_else(|| ch.accuse(NO_KEY))?)?;
            }
        }
    }
    if known.is_some_and(|known| known != marked) {
        return Err(ch.accuse(Misbehaviour::Contradiction("it marks another number of keys than are common")));
    }
    let marked = markings.into_iter().map(Marking::sorted).collect::<Result<Vec<_>>>()?;
    Ok(marked.try_into().ok().expect("a marking for each list of places"))
}

/// What a party says of another one that marks what it cannot.
const NO_KEY: Misbehaviour = Misbehaviour::Contradiction("it marks a key that does not exist");

/// A place as a number.
fn number(place: &[u8]) -> u64 {
    u64::from_be_bytes(place.try_into().expect("a place has eight bytes"))
}

/// Records without their heads.
struct Places(Box<dyn Sorted>);

impl Sorted for Places {
    fn records(&self) -> u64 {
        self.0.records()
    }

    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + '_> {
        let places =
            |block: Vec<u8>| block.chunks_exact(HEAD + PLACE).flat_map(|record| &record[HEAD..]).copied().collect();
        Box::new(self.0.blocks().map(move |block| block.map(places)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_curve::{Curve25519, Dst};
    use vesica_session::memory::Memories;
    use vesica_session::{Error, List};
    use vesica_testkit::{digests, fixed_rng, two};
    use vesica_types::{Digest, TagLen};

    /// Calls `work` with a mask whose frames have eight items.
    fn with<T>(work: impl FnOnce(&Mask<'_, Curve25519>) -> Result<T>) -> Result<T> {
        let keys: Vec<Digest> = digests(0, 0);
        let list = List { keys: &keys, room: &Memories, threads: 1, advance: &|_| (), same: &|_| Ok(true) };
        let tag_len = TagLen::new(10).unwrap();
        work(&Mask::open(Dst::new(b"test"), [0; 32], tag_len, 8, &list, &mut fixed_rng(1)))
    }

    /// Records of a place each: those of a list in order, but for one that is none.
    fn records(mask: &Mask<'_, Curve25519>, len: u64) -> Result<Records> {
        let mut sorting = mask.sorting(2 * PLACE, len)?;
        (0..len).try_for_each(|at| {
            sorting.push([&at.to_be_bytes(), &(if at == 3 { u64::MAX } else { at }).to_be_bytes()])
        })?;
        sorting.sorted()
    }

    /// What one who is told by `bits` finds in a list of `len`.
    fn told_by(len: u64, known: Option<u64>, bits: &[&[u8]]) -> Result<Vec<u64>> {
        let (found, ()) = two(
            |lines, _| {
                with(|mask| {
                    let [marked] = told(mask, lines.peer()?, records(mask, len)?, [(PLACE, len)], known)?;
                    let Found::Places(places) = marked.found() else { panic!("places") };
                    let bytes = places.blocks().collect::<Result<Vec<_>>>()?.concat();
                    assert_eq!(bytes.len() as u64, places.records() * PLACE as u64);
                    Ok(bytes.chunks(PLACE).map(number).collect())
                })
            },
            // The end that is told may refuse the first frame and be gone before the second is sent.
            |lines, _| bits.iter().for_each(|bits| drop(lines.peer().unwrap().send(bits))),
        );
        found
    }

    #[test]
    fn marks_are_read_as_they_are_written() {
        for len in [0u64, 1, 7, 8, 9, 16, 30] {
            let want: Vec<u64> = (0..len).filter(|place| place % 4 != 3 && place % 5 != 1).collect();
            let (sent, got) = two(
                |lines, _| {
                    with(|mask| {
                        let mut marking = Marking::open(mask, len, len)?;
                        // In an order of no kind.
                        want.iter().rev().try_for_each(|place| marking.push(&place.to_be_bytes()))?;
                        marking.sorted()?.send(lines.peer()?)
                    })
                },
                |lines, _| {
                    with(|mask| {
                        let marks = [(PLACE, len), (0, len)];
                        let list = records(mask, len)?;
                        let [marked, again] = told(mask, lines.peer()?, list, marks, Some(want.len() as u64))?;
                        Ok([marked, again].map(|marked| {
                            let Found::Places(places) = marked.found() else { panic!("places") };
                            places.blocks().flat_map(Result::unwrap).collect::<Vec<u8>>()
                        }))
                    })
                },
            );
            sent.unwrap();
            let bytes: Vec<u8> = want.iter().flat_map(|place| place.to_be_bytes()).collect();
            assert_eq!(got.unwrap(), [bytes.clone(), bytes], "{len}");
        }
    }

    #[test]
    fn what_cannot_be_marked_is_refused() {
        assert_eq!(told_by(11, None, &[&[0b1000_0101], &[0b101]]), Ok(vec![0, 2, 7, 8, 10]));
        assert_eq!(told_by(11, Some(1), &[&[0], &[0b100]]), Ok(vec![10]));
        let refused = |known, bits: &[&[u8]]| match told_by(11, known, bits) {
            Err(Error::Peer { peer, fault }) => {
                assert_eq!(peer.name(), "bob");
                fault
            }
            other => panic!("{other:?}"),
        };
        // Behind the end; padding; too many and too few; another length.
        assert_eq!(refused(None, &[&[0], &[0b1000]]), NO_KEY);
        assert_eq!(refused(None, &[&[0b1000], &[0]]), NO_KEY);
        assert!(matches!(refused(Some(1), &[&[0b11], &[0]]), Misbehaviour::Contradiction(_)));
        assert!(matches!(refused(Some(1), &[&[0], &[0]]), Misbehaviour::Contradiction(_)));
        assert_eq!(refused(None, &[&[0, 0]]), Misbehaviour::TooLong { got: 2, limit: 1 });
        assert_eq!(refused(None, &[&[]]), Misbehaviour::Length { got: 0, want: 1 });
    }
}
