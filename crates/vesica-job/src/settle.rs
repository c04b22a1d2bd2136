//! What the parties tell each other between the last unit and the output.

use crate::error::JobError;
use crate::keys::Keys;
use crate::units::Common;
use vesica_session::{Channel, Misbehaviour};
use vesica_spec::{MAX_KEYS, Plan};

/// The least number of common keys, if this side knows that there are fewer. Who does not learn knows nothing against them.
pub fn too_small(plan: &Plan, common: Common) -> Option<u64> {
    plan.shared.limits.min_intersection.filter(|&least| plan.i_learn() && common.keys < least)
}

/// Settles whether the result may be learned, and how many rows of nulls the output has: the peer's rows without a partner,
/// where the job shows them.
///
/// # Errors
/// [`JobError::TooSmall`] on both sides; counts of the peer's that cannot be.
pub fn settle(plan: &Plan, keys: &Keys, common: Common, peer_keys: u64, ch: &mut dyn Channel) -> Result<u64, JobError> {
    ch.step("settle");
    if let Some(least) = plan.shared.limits.min_intersection {
        let enough = too_small(plan, common).is_none();
        let theirs = ch.swap_exact(&[u8::from(enough)], 1);
        // A side that knows by itself needs nobody's answer to forget what it found.
        if !enough || theirs? != [1] {
            return Err(JobError::TooSmall(least));
        }
    }
    let half = plan.half();
    if !plan.all_learn() || !(half.mine || half.theirs) {
        return Ok(0);
    }
    let mine = if half.mine { keys.kept() - common.rows } else { 0 };
    let theirs = ch.swap_exact(&mine.to_le_bytes(), 8)?;
    let theirs = u64::from_le_bytes(theirs.try_into().expect("it has 8 bytes"));
    // Each key without a partner has a row at least.
    let possible = if half.theirs { peer_keys.saturating_sub(common.keys)..=MAX_KEYS } else { 0..=0 };
    if !possible.contains(&theirs) {
        let fault = Misbehaviour::Contradiction("it claims a number of rows without a partner that cannot be");
        return Err(ch.accuse(fault).into());
    }
    Ok(theirs)
}
