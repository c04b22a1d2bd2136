use crate::{Lines, Result, SessionRng};
use vesica_types::{Digest, Party, UnitId};

/// Who comes to know something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Learner {
    /// The parties that the job lets learn the result.
    Learners,
    /// The party at this place of the job; the first one's table is the left one of a join.
    Place(u8),
    /// The parties at these two places, if they put together what they saw; neither of them alone.
    Together(u8, u8),
    /// Every party.
    Everyone,
    /// Whoever sees the traffic between the parties, TLS or not.
    Network,
}

/// One thing that a protocol tells somebody: data, so that plan, report and book print the same words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reveal {
    /// A name for lists and agreements, such as `intersection`.
    pub name: &'static str,
    /// Who comes to know it.
    pub to: Learner,
    /// What it is, in plain words; `{0}` stands for the name of the party at place 0, `{both}` for those of [`Learner::Together`].
    pub what: &'static str,
}

impl Reveal {
    /// [`Reveal::what`] with the parties' names, which stand in the job's order.
    pub fn in_words(&self, parties: &[impl AsRef<str>]) -> String {
        let what = match self.to {
            Learner::Together(one, other) => self.what.replace("{both}", &format!("{{{one}}} and {{{other}}}")),
            _ => self.what.to_owned(),
        };
        let named = |what: String, (place, name): (usize, &str)| what.replace(&format!("{{{place}}}"), name);
        parties.iter().map(AsRef::as_ref).enumerate().fold(what, named)
    }
}

/// A unit of work: one hash bucket of a party's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its number, from 0.
    pub id: UnitId,
    /// This party's keys in it: distinct, in ascending order.
    pub keys: Vec<Digest>,
    /// This party's place in the job.
    pub place: u8,
    /// The public size that each party pads the unit to, by its place: this party's is at least `keys.len()`.
    pub capacities: Vec<usize>,
}

impl Unit {
    /// The public size that this party pads the unit to.
    pub fn capacity(&self) -> usize {
        self.capacities[usize::from(self.place)]
    }

    /// The public size that `party` pads the unit to.
    pub fn capacity_of(&self, party: &Party) -> usize {
        self.capacities[usize::from(party.place())]
    }
}

/// One party's side of a protocol, opened: it is run a unit at a time, by many threads at once.
pub trait Protocol: Send + Sync {
    /// One unit, start to finish: the places in the unit's keys of those that match, in no order that means anything; none
    /// if this party does not learn. Knows nothing of threads, retries, checkpoints or time.
    ///
    /// # Errors
    /// Whatever the lines report, and the peer's faults that the protocol notices itself.
    fn unit(&self, unit: &Unit, lines: &mut Lines, rng: &mut SessionRng) -> Result<Vec<u32>>;
}

/// One party's side of a protocol that takes all keys at once, because its lists are put in one order over the whole job: a
/// number that it tells is told once, and not a unit at a time.
pub trait Whole: Send {
    /// How many elements this side works on, over all steps: what [`List::advance`] counts up to.
    fn elements(&self) -> u64;

    /// The whole job, start to finish. It is opened for one run and draws its secrets anew if the run begins again.
    ///
    /// # Errors
    /// Whatever the lines report, the peers' faults that the protocol notices itself, and those of [`List::keys`] and
    /// [`List::room`].
    fn whole(self: Box<Self>, list: &List<'_>, lines: &mut Lines, rng: &mut SessionRng) -> Result<Found>;
}

/// One party's side of a protocol whose units leave shares of what they found: units are run as those of [`Protocol`] are, and
/// nothing of the result is told before the shares of all of them are opened together.
pub trait Shared: Send + Sync {
    /// One unit, start to finish. `values` are this party's numbers for the unit's keys, and none if it has none.
    ///
    /// # Errors
    /// As [`Protocol::unit`]; a bug if values are of keys that the unit has not.
    fn unit(&self, unit: &Unit, values: &Values, lines: &mut Lines, rng: &mut SessionRng) -> Result<Shares>;

    /// What the shares of all units, in the units' order, come to, for whoever learns it. They are of one attempt: an attempt that was
    /// broken off leaves nothing that may be added to another's. `labels` has one of [`LABEL`] bytes for each group of the party with the groups,
    /// and one for each of the other's, if this party has these groups, or if it was agreed on what they are called.
    ///
    /// # Errors
    /// As [`Protocol::unit`]; the peer's if its shares are of another attempt.
    fn open(&self, shares: &[Shares], labels: [&[Label]; 2], lines: &mut Lines, rng: &mut SessionRng) -> Result<Found>;
}

/// Bytes of a group's label, with its padding: whoever sees it sealed sees no length.
pub const LABEL: usize = 256;

/// What a group is called, padded.
pub type Label = [u8; LABEL];

/// A party's numbers for the keys of a unit, modulo 2^64: each entry has as many, for a key and a group.
#[derive(Clone, Default, Debug)]
pub struct Values {
    entries: Vec<(u32, u32)>,
    width: usize,
    numbers: Vec<u64>,
}

impl Values {
    /// Entries of a key's place in the unit's keys and a group's number, with `width` numbers each: `numbers` has those of all entries.
    ///
    /// # Errors
    /// [`crate::Error::Bug`] if an entry does not come after the one before it, by its key and then by its group, or if there are not as many numbers.
    pub fn new(width: usize, entries: Vec<(u32, u32)>, numbers: Vec<u64>) -> Result<Self> {
        if !entries.is_sorted_by(|one, next| one < next) || numbers.len() != entries.len() * width {
            return Err(crate::Error::Bug("values are not in the order of their keys and groups, each once".into()));
        }
        Ok(Self { entries, width, numbers })
    }

    /// The key and the group of each entry, in ascending order of keys.
    pub fn entries(&self) -> &[(u32, u32)] {
        &self.entries
    }

    /// How many numbers an entry has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The numbers of the entry at this place.
    pub fn numbers(&self, entry: usize) -> &[u64] {
        &self.numbers[entry * self.width..][..self.width]
    }
}

/// One number for each key, in one group.
impl From<Vec<u64>> for Values {
    fn from(numbers: Vec<u64>) -> Self {
        Self { entries: (0..numbers.len() as u32).map(|key| (key, 0)).collect(), width: 1, numbers }
    }
}

/// A party's shares of a unit. Without the peer's they say nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shares {
    /// The unit.
    pub unit: UnitId,
    /// Names the attempt that they are of: the same on both sides, and other in every attempt.
    pub attempt: [u8; 32],
    /// Of each total that the protocol opens, modulo 2^64, in an order of its own.
    pub sums: Vec<u64>,
    /// Of each bin, where these are what the job asks for.
    pub bins: Vec<Share>,
    /// The id of each of the unit's keys, where these are what the job asks for.
    pub ids: Vec<[u8; 16]>,
}

/// A party's share of a bin, in which a key stands or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The place in the unit's keys of the key that stands in the bin: known to one party, who puts its keys into bins.
    pub key: Option<u32>,
    /// Of whether it is common: both parties' shares differ if it is.
    pub common: bool,
    /// Of its value if it is common, and of zero if it is not: both parties' shares add up to it modulo 2^64.
    pub value: u64,
}

/// What a party learns from a protocol that takes all keys at once, or opens what its units left at the end.
pub enum Found {
    /// Nothing: it does not learn.
    Nothing,
    /// Which keys match: their places in the order of [`Keys::blocks`], eight bytes each, big-endian, ascending.
    Places(Box<dyn Sorted>),
    /// How many keys match, and not which.
    Count(u64),
    /// The sum of the values of the keys that match, and not which these are.
    Sum(i64),
    /// What the keys that match come to in each group that has enough of them, in the order of the groups' numbers.
    Groups(Vec<Group>),
    /// That fewer keys match than the job asks for, and no more than that.
    TooFew,
}

/// A group that is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// What it is called.
    pub label: Label,
    /// And what the other party's group is called that it is told with, if both have groups.
    pub other: Option<Label>,
    /// Its keys that match.
    pub keys: u64,
    /// What their numbers add up to.
    pub sums: Vec<i64>,
}

/// A party's keys of the whole job, and what it takes to work on more of them than fit in memory.
pub struct List<'a> {
    /// The keys.
    pub keys: &'a dyn Keys,
    /// Where lists go that may not fit in memory.
    pub room: &'a dyn Room,
    /// Threads for the arithmetic.
    pub threads: usize,
    /// Is told of each batch of elements that were worked on.
    pub advance: &'a (dyn Fn(u64) + Sync),
    /// Is asked before an answer with noise that is drawn once for the run, and is given a hash of what the answer is to: whether no
    /// other hash was given before, in this attempt at the run or in an earlier one. On return the hash is kept for good.
    pub same: &'a (dyn Fn([u8; 32]) -> Result<bool> + Sync),
}

/// A party's distinct keys of the whole job.
pub trait Keys: Sync {
    /// The keys in blocks, in an order of this party's own, which is the same whenever this is called.
    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<Digest>>> + Send + '_>;
}

/// Lists that a protocol holds at once, at most: from the moment that a sorter is asked for until what it sorted is dropped. They
/// share the memory that a job has for its protocol.
pub const LISTS: usize = 4;

/// Room for lists that may not fit in memory. What leaves the memory is sealed.
pub trait Room: Sync {
    /// A sorter of records of `bytes` bytes each, of which there will be about `records`. The first four bytes of a record should
    /// be like random ones: that is how the list is parted.
    ///
    /// # Errors
    /// [`crate::Error::Store`].
    fn sorter(&self, bytes: usize, records: u64) -> Result<Box<dyn Sorter>>;
}

/// Takes records in any order.
pub trait Sorter: Send {
    /// Takes one record.
    ///
    /// # Errors
    /// [`crate::Error::Store`]; [`crate::Error::Bug`] for a record of another length.
    fn push(&mut self, record: &[u8]) -> Result<()>;

    /// Ends taking.
    ///
    /// # Errors
    /// [`crate::Error::Store`].
    fn sorted(self: Box<Self>) -> Result<Box<dyn Sorted>>;
}

/// Records in ascending order of their bytes.
pub trait Sorted: Send + Sync {
    /// How many there are.
    fn records(&self) -> u64;

    /// The records, one after the other, in blocks of whole records. May be read more than once.
    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<u8>>> + Send + '_>;
}
