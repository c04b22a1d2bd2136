//! The records of a ledger, and how they are encoded.

use crate::meet::answers::Attempt;
use crate::units::found::{GroupTotal, Match};
use serde::{Deserialize, Serialize};
use vesica_spec::{PeerPlan, Plan};
use vesica_suite::Sizes;
use vesica_table::MAX_BUCKETS;
use vesica_types::{Coins, TagLen, UnitId};

/// What a run must be to go on where another stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    version: String,
    shared: String,
    party: String,
    peers: String,
    /// The key columns, and those that bring values or groups: totals of two choices of them under one noise tell the exact difference of both.
    keys: Vec<String>,
    /// The hash of the input's file, once it is known.
    pub input: Option<String>,
}

/// The most keys of a unit, whatever a ledger says that somebody else wrote.
pub const PLACES: u64 = 1 << 29;

/// What the parties agreed on when the run began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// The run's salt.
    pub salt: [u8; 32],
    /// This party's own chance for the run, from which all noise of a protocol comes that must not draw it twice.
    pub coins: Coins,
    /// Its sizes.
    pub sizes: Sizes,
    /// How many identifiers a row of each party's table may have, by place: 0 without `shared.identifiers`.
    pub lists: Vec<u32>,
}

/// The columns that bring values or groups, each with what it is for.
fn brought(plan: &Plan) -> impl Iterator<Item = String> + '_ {
    let grouped = plan.grouped.iter();
    let of_groups = grouped.flat_map(|of| {
        let by = of.by.iter().map(|column| format!("groups by {column:?}"));
        by.chain(of.sums.iter().map(|added| format!("sum of {:?}", added.column)))
    });
    plan.value.iter().map(|column| format!("sum of {column:?}")).chain(of_groups)
}

impl Head {
    /// The head of `plan`'s run, whose input is not known yet.
    pub fn of(plan: &Plan) -> Self {
        let peer = |peer: &PeerPlan| {
            format!("{} ({})", peer.party, peer.trust.as_ref().map_or("no TLS".to_owned(), |t| t.to_string()))
        };
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            shared: plan.shared.hash().iter().map(|b| format!("{b:02x}")).collect(),
            party: plan.me.name().into(),
            peers: plan.peers.iter().map(peer).collect::<Vec<_>>().join(", "),
            keys: plan.keys_in_words().into_iter().chain(brought(plan)).collect(),
            input: None,
        }
    }

    /// Why this run is not the one of `other`, as far as both are known.
    pub fn same_as(&self, other: &Head) -> Result<(), String> {
        let differs = |what: &str, remedy: &str| {
            Err(format!(
                "it is of a run with another {what}; {remedy}, or remove the ledger, and the run begins anew on every side"
            ))
        };
        match () {
            () if self.version != other.version => {
                differs(&format!("version of Vesica, {}", other.version), "take that one")
            }
            () if self.party != other.party => differs(&format!("party, {}", other.party), "name that one"),
            () if self.shared != other.shared => differs("[shared] part of the job", "restore it"),
            () if self.peers != other.peers => differs(&format!("partner, {}", other.peers), "restore it in [mine]"),
            () if self.keys != other.keys => {
                let restore = "restore mine.input.keys, value, values and groups";
                differs(&format!("choice of columns, {}", other.keys.join(", ")), restore)
            }
            () if self.input.is_some() && self.input != other.input => differs("input", "restore the file"),
            () => Ok(()),
        }
    }
}

impl Start {
    /// The start as it is written.
    pub fn encode(&self) -> Vec<u8> {
        let Start { salt, coins, sizes, lists } = self;
        let numbers = [sizes.units.into(), sizes.in_flight.into(), sizes.tag_len.bytes() as u64, lists.len() as u64];
        let lists: Vec<u64> = lists.iter().map(|&lists| lists.into()).collect();
        let numbers =
            numbers.iter().chain(&lists).chain(&sizes.keys).chain(&sizes.capacities).flat_map(|n| n.to_le_bytes());
        salt.iter().chain(coins.expose()).copied().chain(numbers).collect()
    }
}

/// What a record says.
pub enum Record {
    /// Whose ledger it is: always the first record, and never another.
    Head(Head),
    /// An attempt was begun.
    Attempt(Attempt),
    /// A run was begun, and the one before it forgotten.
    Start(Start),
    /// A unit was finished: a hash of its common keys' digests, and the keys.
    Unit(UnitId, [u8; 32], Vec<Match>),
    /// How many keys are common, or what their values add up to.
    Count(u64),
    /// What the common keys come to by group.
    Groups(Vec<GroupTotal>),
    /// A hash of what a peer was answered to with the run's noise.
    Asked([u8; 32]),
    /// So many units a cluster has begun in the run; none if it cannot tell.
    Begun(Option<u64>),
    /// All sides have said that they are done.
    Finished,
}

impl Record {
    /// The record as it is written.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Record::Head(head) => {
                let mut out = vec![0];
                out.extend(serde_json::to_vec(head).expect("a head is plain data"));
                out
            }
            Record::Start(start) => [&[1], start.encode().as_slice()].concat(),
            Record::Attempt(Attempt { of, missing, at_once }) => {
                [&[3], [(*of).into(), *missing, *at_once].map(u64::to_le_bytes).as_flattened()].concat()
            }
            Record::Count(keys) => [&[4], keys.to_le_bytes().as_slice()].concat(),
            Record::Asked(hash) => [&[5], hash.as_slice()].concat(),
            Record::Begun(begun) => {
                [&[6], begun.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>().as_slice()].concat()
            }
            Record::Finished => vec![7],
            Record::Groups(groups) => {
                let mut out = vec![8];
                out.extend(serde_json::to_vec(groups).expect("groups are plain data"));
                out
            }
            Record::Unit(id, digest, matches) => unit(*id, digest, matches),
        }
    }

    /// The record that was written as `bytes`; none if there is no such record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let numbers = |bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks::<8>();
            rest.is_empty().then(|| words.iter().map(|&w| u64::from_le_bytes(w)).collect::<Vec<_>>())
        };
        let (kind, rest) = bytes.split_first()?;
        match kind {
            0 => serde_json::from_slice(rest).ok().map(Record::Head),
            1 => {
                let (salt, rest) = rest.split_first_chunk()?;
                let (coins, rest) = rest.split_first_chunk()?;
                let numbers = numbers(rest)?;
                let ([units, in_flight, tag, parties], by_place) = numbers.split_first_chunk()?;
                let (lists, by_place) = by_place.split_at_checked(usize::try_from(*parties).ok()?)?;
                let lists: Vec<u32> = lists.iter().map(|&lists| lists.try_into().ok()).collect::<Option<_>>()?;
                let (keys, capacities) = by_place.split_at_checked(by_place.len() / 2)?;
                let sizes = Sizes {
                    units: u32::try_from(*units).ok().filter(|&units| (1..=MAX_BUCKETS as u32).contains(&units))?,
                    in_flight: (*in_flight).try_into().ok()?,
                    keys: keys.to_vec(),
                    capacities: capacities.to_vec(),
                    tag_len: TagLen::new((*tag).try_into().ok()?)?,
                };
                let possible = keys.len() == capacities.len() && capacities.iter().all(|keys| *keys <= PLACES);
                possible.then_some(Record::Start(Start { salt: *salt, coins: Coins::new(*coins), sizes, lists }))
            }
            2 => {
                let (id, rest) = rest.split_first_chunk()?;
                let (digest, rest) = rest.split_first_chunk()?;
                let (matches, rest) = rest.as_chunks();
                let matches = matches.iter().map(Match::from_bytes).collect();
                rest.is_empty().then(|| Record::Unit(UnitId(u32::from_le_bytes(*id)), *digest, matches))
            }
            3 => {
                let [of, missing, at_once] = numbers(rest)?.try_into().ok()?;
                Some(Record::Attempt(Attempt { of: of.try_into().ok().filter(|of| *of > 0)?, missing, at_once }))
            }
            4 => numbers(rest)?.try_into().ok().map(|[keys]: [u64; 1]| Record::Count(keys)),
            5 => rest.try_into().ok().map(Record::Asked),
            6 if rest.is_empty() => Some(Record::Begun(None)),
            6 => numbers(rest)?.try_into().ok().map(|[begun]: [u64; 1]| Record::Begun(Some(begun))),
            7 => rest.is_empty().then_some(Record::Finished),
            8 => serde_json::from_slice(rest).ok().map(Record::Groups),
            _ => None,
        }
    }
}

/// A [`Record::Unit`] as it is written.
pub fn unit(id: UnitId, digest: &[u8; 32], matches: &[Match]) -> Vec<u8> {
    let mut out = vec![2];
    out.reserve(4 + digest.len() + Match::BYTES * matches.len());
    out.extend(id.0.to_le_bytes());
    out.extend(digest);
    matches.iter().for_each(|m| out.extend_from_slice(&m.to_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::keys::KeyId;
    use proptest::collection::vec;
    use proptest::prelude::any;

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = Record::decode(&bytes);
        }

        #[test]
        fn a_start_survives_its_encoding(lists: Vec<u32>, keys in vec(0..=PLACES, 0..4), units in 1..9u32) {
            let sizes =
                Sizes { units, in_flight: 1, capacities: keys.clone(), keys, tag_len: TagLen::new(8).unwrap() };
            let start = Start { salt: [7; 32], coins: Coins::new([1; 32]), sizes, lists };
            let decoded = Record::decode(&Record::Start(start.clone()).encode());
            proptest::prop_assert!(matches!(decoded, Some(Record::Start(of)) if of == start));
        }

        #[test]
        fn groups_survive_their_encoding(
            // Up to a hundred of each, as proptest has it, were a million texts.
            groups in vec((vec(any::<String>(), 0..4), any::<u64>(), vec(any::<i64>(), 0..4)), 0..8)
        ) {
            let groups: Vec<GroupTotal> =
                groups.into_iter().map(|(by, keys, sums)| GroupTotal { by, keys, sums }).collect();
            let decoded = Record::decode(&Record::Groups(groups.clone()).encode());
            proptest::prop_assert!(matches!(decoded, Some(Record::Groups(g)) if g == groups));
        }

        #[test]
        fn units_survive_their_encoding(id: u32, digest: [u8; 32], words: Vec<(u64, u64, u64)>) {
            let m = |(key, rows, times)| Match { key: KeyId(key), rows, times };
            let matches: Vec<Match> = words.into_iter().map(m).collect();
            let decoded = Record::decode(&Record::Unit(UnitId(id), digest, matches.clone()).encode());
            proptest::prop_assert!(
                matches!(decoded, Some(Record::Unit(i, d, m)) if i.0 == id && d == digest && m == matches)
            );
        }
    }
}
