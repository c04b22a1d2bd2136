//! What the parties tell each other between the last unit and the output.

use crate::error::JobError;
use crate::meet::agree::Agreed;
use crate::units::found::Common;
use vesica_session::{Error, Lines, Misbehaviour};
use vesica_spec::{MAX_KEYS, Plan};
use vesica_suite::Cut;

/// The least number of common keys, if this side knows that there are fewer. Who does not learn knows nothing against them. Where
/// shares are opened, that was seen before anything was. Where rows match by any of several identifiers, this side must have as many rows
/// that match too: 334 people with three identifiers each are not 1000. Rows of a party that does not learn are counted by nobody, but
/// so many common keys are rows of its too, by as many as one of them may have: `lists`, by place.
pub fn too_small(plan: &Plan, common: Common, lists: &[u32]) -> Option<u64> {
    let known = plan.i_learn() && plan.suite.cut() != Cut::Shares;
    let mut there_are = common.keys;
    if !plan.lists.is_empty() {
        let unheard = plan.parties.iter().zip(lists).filter(|(party, _)| !plan.learns(party));
        let of_a_row = unheard.map(|(_, &lists)| u64::from(lists)).fold(1, u64::max);
        there_are = common.rows.min(common.keys / of_a_row);
    }
    plan.shared.limits.min_intersection.filter(|&least| known && there_are < least)
}

/// Settles whether the result may be learned, where `alone` rows of this side have no partner, and how many rows of nulls the output has: the peer's rows without a partner,
/// where the job shows them.
///
/// # Errors
/// [`JobError::TooSmall`] on all sides; counts of a peer's that cannot be.
pub fn settle(plan: &Plan, alone: u64, common: Common, agreed: &Agreed, lines: &mut Lines) -> Result<u64, JobError> {
    lines.all().for_each(|ch| ch.step("settle"));
    if let Some(least) = plan.shared.limits.min_intersection {
        let enough = too_small(plan, common, &agreed.lists).is_none();
        let mut all_say = || -> Result<bool, Error> {
            lines.all().try_for_each(|ch| ch.send(&[u8::from(enough)]))?;
            let mut all = true;
            for ch in lines.all() {
                all &= ch.recv_exact(1)? == [1];
            }
            Ok(all)
        };
        let others = all_say();
        // A side that knows by itself needs nobody's answer to forget what it found.
        if !enough || !others? {
            return Err(JobError::too_small(plan, least));
        }
    }
    let half = plan.half();
    if !plan.all_learn() || !(half.mine || half.theirs) {
        return Ok(0);
    }
    let ch = lines.peer()?;
    let mine = if half.mine { alone } else { 0 };
    let theirs = ch.swap_exact(&mine.to_le_bytes(), 8)?;
    let theirs = u64::from_le_bytes(theirs.try_into().expect("it has 8 bytes"));
    // Each key without a partner has a row at least.
    let keys = agreed.sizes.keys[usize::from(ch.peer().place())];
    let possible = if half.theirs { keys.saturating_sub(common.keys)..=MAX_KEYS } else { 0..=0 };
    if !possible.contains(&theirs) {
        let fault = Misbehaviour::Contradiction("it claims an impossible number of rows without a partner");
        return Err(ch.accuse(fault).into());
    }
    Ok(theirs)
}
