//! Lanes: one run over several links.
//!
//! A lane is a small job of its own. It has a fixed share of the units, a link of its own, a hello of its own with a list of the units of
//! its share that are finished, and base correlations of its own. So lanes need nothing of each other: each may run on another machine,
//! and one that broke begins again and reads its list.
//!
//! Example: 8 units and 3 lanes. Lane 1 has the units 1, 4 and 7. Its link breaks in unit 4. The side that dials dials lane 1 again, both
//! say that unit 1 is finished, and units 4 and 7 are done. Lanes 0 and 2 notice nothing.

pub mod hello;
pub mod here;
pub mod links;

use crate::error::JobError;
use crate::meet::peers::Peers;
use crate::units;
use vesica_session::{Error, Meter, Protocol, SessionRng};
use vesica_spec::Plan;
use vesica_suite::{Opened, Terms};
use vesica_types::UnitId;

/// The share of lane `number` of `lanes`, in ascending order: every unit is in one lane, and shares differ by one unit at most.
pub fn share(number: u32, lanes: u32, units: u32) -> impl Iterator<Item = UnitId> + Clone {
    (number..units).step_by(lanes.max(1) as usize).map(UnitId)
}

/// What names the lane where a link is made. It follows from the salt, so whoever does not know the run cannot ask for a lane of it.
pub fn name(salt: &[u8; 32], number: u32) -> [u8; 32] {
    blake3::derive_key("vesica 2026 name of a lane", &of(salt, number))
}

/// The terms of a lane's protocol. Its label is its own, so that correlations of two lanes are never the same.
pub fn terms(terms: &Terms, number: u32) -> Terms {
    let salt = blake3::derive_key("vesica 2026 base of a lane", &of(&terms.salt, number));
    Terms { salt, ..terms.clone() }
}

/// Sets up the protocol of lane `number`, and says what that cost.
///
/// # Errors
/// Those of the link, and of setting up.
pub fn open(
    plan: &Plan,
    of_run: &Terms,
    number: u32,
    peers: &Peers,
    rng: &mut SessionRng,
) -> Result<(Box<dyn Protocol>, Meter), JobError> {
    match units::open(plan, &terms(of_run, number), peers, rng)? {
        (Opened::Units(protocol), meter) => Ok((protocol, meter)),
        _ => Err(Error::Bug("lanes of a protocol that does not work by units".into()).into()),
    }
}

/// Whether a lane that ended with `error` may be dialled again, or awaited again: its link broke, or the peer stopped it. Why it did, it
/// says on the first link too, if it is the end of the run.
pub fn is_a_break(error: &JobError) -> bool {
    matches!(error, JobError::Session(Error::Net { .. } | Error::Stopped { .. }))
}

/// Whether whoever listens there did not take this lane in. While the other side has noticed that the first link broke and this one has not,
/// parties are awaited where the lane comes. Where these show another certificate than the lanes, this side is the one that refuses.
pub fn is_refused(error: &JobError) -> bool {
    use vesica_net::Error::{Certificate, Refused};
    matches!(error, JobError::Net(Refused { .. } | Certificate { .. }))
}

/// How a lane ended that was refused for too long: its link cannot be made any more, so the parties are to meet again.
pub fn given_up(plan: &Plan, number: u32, error: &JobError) -> JobError {
    let peer = plan.peers[0].party.clone();
    Error::Net { peer, why: format!("lane {number} is not let in any more: {error}") }.into()
}

fn of(salt: &[u8; 32], number: u32) -> [u8; 36] {
    let mut of = [0; 36];
    of[..32].copy_from_slice(salt);
    of[32..].copy_from_slice(&number.to_le_bytes());
    of
}

#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
mod shares {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_unit_is_in_one_lane_and_every_lane_has_a_name() {
        for (lanes, units) in [(1, 1), (3, 8), (8, 8), (5, 64)] {
            let shares: Vec<Vec<u32>> = (0..lanes).map(|k| share(k, lanes, units).map(|u| u.0).collect()).collect();
            let mut all = shares.concat();
            all.sort_unstable();
            assert_eq!(all, (0..units).collect::<Vec<_>>());
            let (least, most) = (shares.iter().map(Vec::len).min(), shares.iter().map(Vec::len).max());
            assert!(most.unwrap() - least.unwrap() <= 1);
        }
        assert_eq!(share(1, 3, 8).map(|u| u.0).collect::<Vec<_>>(), [1, 4, 7]);
        let names: BTreeSet<_> = (0..100).flat_map(|k| [name(&[1; 32], k), name(&[2; 32], k)]).collect();
        assert_eq!(names.len(), 200);
    }
}
