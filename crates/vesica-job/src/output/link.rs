//! Rows of both parties that line up by several identifiers: which of the common ones belong to one row, on each side.
//!
//! Both hold the same list of common identifiers, in the order of their numbers. Of each, a party says which is the first in the list that
//! the same row of its table has. Example: the list is an address, a number and another number; alice has the address and the first number
//! in one row, and says 0, 0, 2. Bob has both numbers in one row, and says 0, 1, 1. So both know that alice's rows are {0, 1} and {2}, and
//! bob's {0} and {1, 2}, and which of them agree in what. It says no more than that: how the rows part the common identifiers.

use crate::error::JobError;
use crate::input::keys::{Keys, of_identifier};
use crate::output::any::ByRow;
use crate::tell::numbers::{counted, size};
use crate::units::cut::Units;
use crate::units::found::{Found, OfUnit};
use std::path::Path;
use vesica_session::{Channel, Error, Lines, Misbehaviour};
use vesica_spec::{Match, Order, Plan, Share};
use vesica_suite::Sizes;
use vesica_table::Picks;
use vesica_types::{Party, RowId, UnitId};

/// Bytes of a number on the wire.
const NUMBER: usize = 5;

/// Numbers that are sent together.
const TOGETHER: usize = 1 << 16;

/// Bytes that a common identifier takes in memory.
const HELD: u64 = 64;

/// How many identifiers may be common, going by how many each party has.
fn most(sizes: &Sizes) -> u64 {
    sizes.keys.iter().copied().min().unwrap_or(0)
}

/// Sees that there is room for as many common identifiers as there may be.
///
/// # Errors
/// [`JobError::Setup`] with what `mine.memory` should be.
pub fn room(plan: &Plan, sizes: &Sizes) -> Result<(), JobError> {
    let need = most(sizes).saturating_mul(HELD);
    if need <= Share::Joining.of(plan.memory) as u64 && most(sizes) < u64::from(u32::MAX) {
        return Ok(());
    }
    let (name, keys) = (plan.shared.matching.map_or("", Match::name), counted(most(sizes), "identifiers"));
    let why = match most(sizes) < u64::from(u32::MAX) {
        true => format!("in mine.memory: give {} or more, or take match = \"any\"", size(need.saturating_mul(4))),
        false => "in 32 bits: take match = \"any\"".to_owned(),
    };
    Err(JobError::Setup(format!("match = \"{name}\" of up to {keys} that are common does not fit {why}")))
}

/// Sees that as many identifiers as are `common` can be, before memory is taken for them. Example: the peer said that it has 10, and hides
/// more among what fills its units up.
///
/// # Errors
/// The peer's, if it said that it has fewer; [`Error::Bug`] if this side has fewer.
pub fn possible(me: &Party, sizes: &Sizes, common: u64, lines: &mut Lines) -> Result<(), JobError> {
    let of = |place: u8| sizes.keys.get(usize::from(place)).copied().unwrap_or(0);
    let ch = lines.peer()?;
    if common > of(me.place()) {
        return Err(Error::Bug(format!("{common} of {} identifiers are common", of(me.place()))).into());
    }
    if common > of(ch.peer().place()) {
        return Err(ch
            .accuse(Misbehaviour::Contradiction("more identifiers are common than it says that it has"))
            .into());
    }
    Ok(())
}

/// The common identifiers, in the order of their numbers.
pub struct Mine {
    /// The row of this side's that has it.
    rows: Vec<u64>,
    /// Of which kind it is: the same on both sides.
    kinds: Vec<u8>,
    /// The first in the list that the same row has.
    firsts: Vec<u32>,
}

impl Mine {
    /// Those that were `found`, of a table whose identifiers are in `units`. No identifier has several rows.
    ///
    /// # Errors
    /// Those of reading what was spilled; [`Error::Bug`].
    pub fn of(plan: &Plan, keys: &Keys, units: &Units, found: &Found<'_>) -> Result<Self, JobError> {
        let lists = &plan.lists;
        let (mut rows, mut kinds, mut common) = (Vec::new(), Vec::new(), OfUnit::default());
        for id in (0..units.sizes.units).map(UnitId) {
            common.read(found, id)?;
            let mut key = 0;
            units.each(id, |first, entry| {
                let (row, list) = of_identifier(lists, entry);
                if !first || row >= keys.rows {
                    return Err(units.changed());
                }
                if common.times(key).is_some() {
                    rows.push(row);
                    kinds.push(list.kind as u8);
                }
                key += 1;
                Ok(())
            })?;
            common.are_below(key)?;
        }
        let mut order: Vec<(u64, u32)> = rows.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut firsts = vec![0; rows.len()];
        for of_row in order.chunk_by(|a, b| a.0 == b.0) {
            of_row.iter().for_each(|&(_, at)| firsts[at as usize] = of_row[0].1);
        }
        Ok(Self { rows, kinds, firsts })
    }

    /// Rows of this side with one of them.
    pub fn rows(&self) -> u64 {
        self.firsts.iter().zip(0..).filter(|(first, at)| *first == at).count() as u64
    }

    /// Tells the peer which of them belong to one row, hears the same, and lines up the rows of both.
    ///
    /// # Errors
    /// Those of the channel; the peer's, if it says what cannot be.
    pub fn linked(&self, plan: &Plan, sizes: &Sizes, lines: &mut Lines) -> Result<Linked, JobError> {
        let ch = lines.peer()?;
        ch.step("links");
        let theirs = swap(&self.firsts, most(sizes) as usize, ch)?;
        let (left, right) = if plan.me.place() == 0 { (&self.firsts, &theirs) } else { (&theirs, &self.firsts) };
        let edges = left.iter().copied().zip(right.iter().copied());
        let mut pairs: Vec<(u32, u32)> = match plan.shared.matching {
            Some(Match::Once) => {
                let mut taken = [vec![false; self.rows.len()], vec![false; self.rows.len()]];
                let edges: Vec<(u32, u32)> = edges.collect();
                let mut once = Vec::new();
                for kind in 0..plan.shared.identifiers.len() {
                    let of_kind = edges.iter().zip(&self.kinds).filter(|(_, of)| usize::from(**of) == kind);
                    for (&(one, other), _) in of_kind {
                        let ends = [(0, one), (1, other)];
                        if ends.iter().all(|&(side, end)| !taken[side][end as usize]) {
                            ends.iter().for_each(|&(side, end)| taken[side][end as usize] = true);
                            once.push((one, other));
                        }
                    }
                }
                once
            }
            _ => edges.collect(),
        };
        pairs.sort_unstable();
        pairs.dedup();
        Ok(Linked { pairs })
    }
}

/// What is known of this side's rows where they match by identifiers.
pub enum Identified {
    /// Which of them match.
    Any(ByRow),
    /// Which identifiers are common and, when the peer has said which of its rows have them, what lines up.
    Lined(Mine, Option<Linked>),
}

impl Identified {
    /// What was `found`, as [`ByRow::of`] has it and [`Mine::of`].
    ///
    /// # Errors
    /// Those of both.
    pub fn of(
        plan: &Plan,
        keys: &Keys,
        units: &Units,
        found: &Found<'_>,
        waited: bool,
        dir: &Path,
    ) -> Result<Self, JobError> {
        Ok(match plan.links() {
            true => Self::Lined(Mine::of(plan, keys, units, found)?, None),
            false => Self::Any(ByRow::of(plan, keys, units, found, waited, dir)?),
        })
    }

    /// Rows of this side with a common identifier.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Any(by_row) => by_row.matched,
            Self::Lined(mine, _) => mine.rows(),
        }
    }

    /// Has both sides say which of their rows have what is common, where these are to line up.
    ///
    /// # Errors
    /// Those of [`Mine::linked`].
    pub fn link(&mut self, plan: &Plan, sizes: &Sizes, lines: &mut Lines) -> Result<(), JobError> {
        if let Self::Lined(mine, linked) = self {
            *linked = Some(mine.linked(plan, sizes, lines)?);
        }
        Ok(())
    }

    /// The rows of the output.
    ///
    /// # Errors
    /// Those of spilling; [`Error::Bug`].
    pub fn picks(&self, plan: &Plan, keys: &Keys, dir: &Path) -> Result<Picks, JobError> {
        match self {
            Self::Any(by_row) => by_row.picks(plan, keys, dir),
            Self::Lined(mine, Some(linked)) => linked.picks(mine, plan, keys, dir),
            Self::Lined(_, None) => Err(Error::Bug("rows are to line up, and the peer was not asked".into()).into()),
        }
    }
}

/// Rows that line up: the first identifier of the left one, and of the right one.
pub struct Linked {
    pairs: Vec<(u32, u32)>,
}

impl Linked {
    /// This side's halves, in an order that both share, or in that of its table.
    ///
    /// # Errors
    /// Those of writing what is spilled.
    pub fn picks(&self, mine: &Mine, plan: &Plan, keys: &Keys, dir: &Path) -> Result<Picks, JobError> {
        let mut picks = Picks::new(keys.rows, Share::Picks.of(plan.memory), dir)?;
        for (place, &(left, right)) in (0..).zip(&self.pairs) {
            let end = if plan.me.place() == 0 { left } else { right };
            let row = RowId(mine.rows[end as usize]);
            match plan.order {
                Order::Aligned => picks.push(row, place)?,
                Order::Input => picks.push_turn(row, 1)?,
            }
        }
        Ok(picks)
    }
}

/// Sends `firsts`, with zeros behind them up to as many as there could be, and hears the peer's.
fn swap(firsts: &[u32], most: usize, ch: &mut dyn Channel) -> Result<Vec<u32>, JobError> {
    if firsts.len() > most {
        return Err(Error::Bug(format!("{} of {most} identifiers are common", firsts.len())).into());
    }
    let mut theirs = Vec::with_capacity(firsts.len());
    let mut possible = true;
    for from in (0..most).step_by(TOGETHER) {
        let end = most.min(from + TOGETHER);
        let mut words = vec![0; (end - from) * NUMBER];
        let mine = firsts.get(from..).unwrap_or_default();
        for (word, first) in words.as_chunks_mut::<NUMBER>().0.iter_mut().zip(mine) {
            word[..4].copy_from_slice(&first.to_le_bytes());
        }
        let heard = ch.swap_exact(&words, words.len())?;
        for (at, word) in (from..).zip(heard.as_chunks::<NUMBER>().0) {
            let [a, b, c, d, e] = *word;
            let first = u32::from_le_bytes([a, b, c, d]);
            if at >= firsts.len() {
                possible &= *word == [0; NUMBER];
                continue;
            }
            // The first of a row is the first of itself.
            let is_first = first as usize == at || theirs.get(first as usize) == Some(&first);
            possible &= e == 0 && first as usize <= at && is_first;
            theirs.push(first);
        }
    }
    if !possible {
        let fault =
            Misbehaviour::Contradiction("it says which common identifiers belong to one row, and that cannot be");
        return Err(ch.accuse(fault).into());
    }
    Ok(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_session::{Fault, Result, memory};
    use vesica_types::TagLen;

    /// What this side makes of `theirs`, where it has `mine` and five could be common.
    fn swapped(mine: &[u32], theirs: Vec<u8>) -> std::result::Result<Vec<u32>, JobError> {
        let (mut here, mut there) = memory::pair(&Party::new(0, "alice"), &Party::new(1, "bob"));
        std::thread::scope(|scope| {
            scope.spawn(move || -> Result<()> {
                there.send(&theirs)?;
                assert_eq!(there.recv(1 << 10)?.len(), 5 * NUMBER, "the length says nothing of what is common");
                Ok(())
            });
            swap(mine, 5, &mut here)
        })
    }

    fn words(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(NUMBER)).collect()
    }

    #[test]
    fn who_hides_more_identifiers_than_it_said_is_named() {
        let (alice, bob) = (Party::new(0, "alice"), Party::new(1, "bob"));
        let (here, _there) = memory::pair(&alice, &bob);
        let mut lines = Lines::new(vec![Box::new(here)]);
        let sizes = |keys: [u64; 2]| Sizes {
            units: 1,
            in_flight: 1,
            keys: keys.to_vec(),
            capacities: vec![64, 64],
            tag_len: TagLen::new(16).unwrap(),
        };
        possible(&alice, &sizes([20, 10]), 10, &mut lines).unwrap();
        let error = possible(&alice, &sizes([20, 10]), 11, &mut lines).unwrap_err();
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert!(error.to_string().starts_with("bob"), "{error}");
        assert_ne!(possible(&alice, &sizes([10, 20]), 11, &mut lines).unwrap_err().fault(), Fault::Peer);
    }

    #[test]
    fn what_is_said_of_rows_is_a_partition() {
        assert_eq!(swapped(&[0, 0, 2, 0], words(&[0, 1, 1, 0, 0])).unwrap(), [0, 1, 1, 0]);
        assert_eq!(swapped(&[], words(&[0; 5])).unwrap(), [0; 0]);
        for wrong in [
            words(&[1, 1, 1, 1, 0]),       // not yet there
            words(&[0, 0, 1, 0, 0]),       // the first of a row that is not its first
            words(&[0, 1, 2, 3, 4]),       // one more than are common
            words(&[0, 1, 1 << 32, 0, 0]), // no number of one
            words(&[0, 1, 2, 3]),
            vec![0; 26],
        ] {
            let error = swapped(&[0, 1, 2, 3], wrong).unwrap_err();
            assert_eq!(error.fault(), Fault::Peer, "{error}");
            assert!(error.to_string().starts_with("bob"), "{error}");
        }
    }
}
