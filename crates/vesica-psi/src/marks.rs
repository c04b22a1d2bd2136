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
        let mut places = self.places.read();
        for (first, items) in self.list.parts() {
            let mut bits = vec![0u8; items.div_ceil(8)];
            while let Some(record) = places.peek()? {
                let Some(at) = Some((number(&record[HEAD..]) - first) as usize).filter(|&at| at < items) else { break };
                bits[at / 8] |= 1 << (at % 8);
                places.take()?;
            }
            ch.send(&bits)?;
        }
        Ok(())
    }

    /// The marked keys, if the list was one of keys.
    pub fn found(self) -> Found {
        Found::Places(Box::new(Places(self.places.into_sorted())))
    }
}

/// Receives which records of a list are marked, a bit each. Returns the places that stand in those: for each of `places` the one behind so
/// many bytes of a record, which is a place in a list of so many items. Any number of records may be marked, or as many as are known to be.
pub fn told<G: Group, const N: usize>(
    mask: &Mask<'_, G>,
    ch: &mut dyn Channel,
    list: &Records,
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
const NO_KEY: Misbehaviour = Misbehaviour::Contradiction("it marks what is no key");

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
