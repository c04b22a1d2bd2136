//! Where several parties learn: that they found the same, and where two do, how many rows each has for it.

use crate::error::JobError;
use crate::meet::peers::Peers;
use crate::units::found::{Counts, Match, matches};
use vesica_session::{Error, Lines, Misbehaviour, SessionRng, Unit};
use vesica_spec::Plan;

/// Bytes of a number of rows on the wire: 2^40 rows are more than a table has.
const COUNT: usize = 5;

/// What parties that learn do with what a unit found, so that their outputs go together.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// The run's salt.
    pub salt: [u8; 32],
    /// This party's place.
    pub place: u8,
    /// Whether they also tell each other how many rows each common key has.
    pub multiply: bool,
}

impl Both {
    /// How results are compared in the run with this salt, if this party learns and so does another.
    pub fn of(plan: &Plan, salt: [u8; 32]) -> Option<Self> {
        let several = plan.i_learn() && plan.several_learn();
        several.then(|| Self { salt, place: plan.me.place(), multiply: plan.multiplies() })
    }

    /// The matches of a unit, with the peer's row counts, and a digest of them that is the same on both sides. Row counts are told
    /// of keys that both found: that is seen first.
    pub fn compare(
        self,
        unit: &Unit,
        counts: &Counts,
        places: &mut [u32],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<(Vec<Match>, [u8; 32]), JobError> {
        // The order of the digests is the same on both sides, whatever the protocol's.
        places.sort_unstable();
        let mut hash = blake3::Hasher::new();
        places.iter().for_each(|&place| _ = hash.update(&unit.keys[place as usize].0));
        if !self.multiply {
            return Ok((matches(counts, places).collect(), *hash.finalize().as_bytes()));
        }
        lines.peer()?.step("same");
        self.same("unit", unit.id.0, hash.finalize().as_bytes(), lines, rng)?;
        let most = unit.capacity().min(unit.capacity_of(lines.peer()?.peer()));
        let matches = count_rows(counts, places, most, lines)?;
        for m in &matches {
            // The same on both sides, like the rest.
            let (fewer, more) = (m.rows.min(m.times), m.rows.max(m.times));
            hash.update(&fewer.to_le_bytes()).update(&more.to_le_bytes());
        }
        Ok((matches, *hash.finalize().as_bytes()))
    }

    /// Sees that every other party that learns found the same.
    ///
    /// # Errors
    /// As [`Both::same`].
    pub fn same_as_learners(
        self,
        what: &str,
        digest: &[u8; 32],
        plan: &Plan,
        peers: &Peers,
        rng: &mut SessionRng,
    ) -> Result<(), JobError> {
        for link in peers.links().iter().filter(|link| plan.learns(link.peer())) {
            self.same(what, 0, digest, &mut Lines::new(vec![link.line("result")?]), rng)?;
        }
        Ok(())
    }

    /// Sees that the peer found the same.
    ///
    /// # Errors
    /// The peer's if it did not; those of the channel.
    pub fn same(
        self,
        what: &str,
        number: u32,
        digest: &[u8; 32],
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<(), JobError> {
        let peer = lines.peer()?.peer().place();
        let mut session = blake3::Hasher::new_derive_key("vesica 2026 same result");
        session.update(&self.salt).update(what.as_bytes()).update(&number.to_le_bytes());
        session.update(&[self.place.min(peer), self.place.max(peer)]);
        if vesica_psi::same(digest, *session.finalize().as_bytes(), self.place, lines, rng)? {
            return Ok(());
        }
        let fault = Misbehaviour::Contradiction("it found another result than this side");
        Err(lines.peer()?.accuse(fault).into())
    }
}

/// The matches at `places` of a unit, with the peer's row counts. These are sent as a list that is as long as the keys that could be
/// common, with zeros behind those that are: its length tells nobody how many are.
fn count_rows(counts: &Counts, places: &[u32], most: usize, lines: &mut Lines) -> Result<Vec<Match>, JobError> {
    let mine = places.iter().map(|&place| counts.at(place));
    let ch = lines.peer()?;
    ch.step("multiplicity");
    let mut said = Vec::with_capacity(most * COUNT);
    for (_, rows) in mine.clone() {
        if rows >> (8 * COUNT) != 0 {
            return Err(Error::Bug(format!("a key has {rows} rows")).into());
        }
        said.extend_from_slice(&rows.to_le_bytes()[..COUNT]);
    }
    said.resize(most * COUNT, 0);
    // Both found the same keys in the same order, or the peer did not follow the protocol.
    let theirs = ch.swap_exact(&said, most * COUNT)?;
    let mut theirs = theirs.as_chunks::<COUNT>().0.iter().map(|count| {
        let mut word = [0; 8];
        word[..COUNT].copy_from_slice(count);
        u64::from_le_bytes(word)
    });
    let matches: Vec<Match> =
        mine.zip(theirs.by_ref()).map(|((key, rows), times)| Match { key, rows, times }).collect();
    if matches.len() < places.len() || matches.iter().any(|m| m.times == 0) || theirs.any(|count| count != 0) {
        let fault = Misbehaviour::Contradiction("it found another number of common keys than this side");
        return Err(ch.accuse(fault).into());
    }
    Ok(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::keys::KeyId;
    use vesica_session::Fault;
    use vesica_session::{Channel, Result, memory};
    use vesica_types::Party;
    use vesica_types::{Digest, UnitId};

    fn rows() -> Counts {
        Counts::of(UnitId(0), vec![1, 20, 3])
    }

    /// What this side makes of the counts, if the peer answers with `reply`.
    fn counted(reply: Vec<u8>) -> std::result::Result<Vec<Match>, JobError> {
        let (here, mut there) = memory::pair(&Party::new(0, "alice"), &Party::new(1, "bob"));
        std::thread::scope(|scope| {
            scope.spawn(move || -> Result<()> {
                there.send(&reply)?;
                there.recv(1 << 10).map(drop)
            });
            count_rows(&rows(), &[2, 1], 3, &mut Lines::new(vec![Box::new(here)]))
        })
    }

    fn bytes(counts: &[u64]) -> Vec<u8> {
        counts.iter().flat_map(|c| c.to_le_bytes().into_iter().take(COUNT)).collect()
    }

    #[test]
    fn counts_stand_beside_their_keys() {
        let matches = counted(bytes(&[5, 1 << 33, 0])).unwrap();
        let wanted = [Match { key: KeyId(2), rows: 3, times: 5 }, Match { key: KeyId(1), rows: 20, times: 1 << 33 }];
        assert_eq!(matches, wanted);
        assert_eq!(wanted.map(|m| Match::from_bytes(&m.to_bytes())), wanted);
    }

    /// A party whose result was spoiled does not tell how many rows it has for what only seems common.
    #[test]
    fn row_counts_are_told_only_where_both_found_the_same() {
        let unit = |keys: &[u8]| Unit {
            id: UnitId(0),
            keys: keys.iter().map(|&key| Digest([key; 16])).collect(),
            place: 0,
            capacities: vec![3; 2],
        };
        let side = |channel: memory::Memory, place: u8, mut places: Vec<u32>| {
            let mut lines = Lines::new(vec![Box::new(channel)]);
            let mut rng = SessionRng::from_seed(zeroize::Zeroizing::new([place; 32]));
            let both = Both { salt: [7; 32], place, multiply: true };
            let result = both.compare(&unit(&[1, 2, 3]), &rows(), &mut places, &mut lines, &mut rng);
            let told = lines.peer().unwrap().meter().steps.iter().any(|step| step.name == "multiplicity");
            (result.map(|(matches, _)| matches.len()), told)
        };
        for (theirs, same) in [(vec![2, 1], true), (vec![1], false)] {
            let (here, there) = memory::pair(&Party::new(0, "alice"), &Party::new(1, "bob"));
            let (a, b) = std::thread::scope(|scope| {
                let b = scope.spawn(|| side(there, 1, theirs));
                (side(here, 0, vec![1, 2]), b.join().unwrap())
            });
            for (result, told) in [a, b] {
                assert_eq!(told, same);
                match result {
                    Ok(found) => assert!(same && found == 2),
                    Err(error) => assert!(!same && error.fault() == Fault::Peer, "{error}"),
                }
            }
        }
    }

    #[test]
    fn counts_that_cannot_be_are_the_peers_fault() {
        let long = bytes(&[1, 2, 0, 0]);
        for reply in
            [vec![], bytes(&[1, 2]), bytes(&[1, 2, 3]), bytes(&[1, 0, 0]), bytes(&[0, 2, 0]), vec![1; 15], long]
        {
            let error = counted(reply).unwrap_err();
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            assert!(error.to_string().starts_with("bob"), "{error}");
        }
    }
}
