//! What somebody who is invited to a job is told before they accept, and what is tried out for them.

use crate::error::JobError;
use crate::tell::report::{self, Revealed};
use crate::world::random;
use vesica_spec::Plan;

/// Fails if the table of `plan` cannot be opened or lacks a key column. No row is read.
///
/// # Errors
/// Those of opening it.
pub fn has_keys(plan: &Plan) -> Result<(), JobError> {
    drop(vesica_table::open(&plan.input)?.keys(&plan.keys, 1)?);
    Ok(())
}

/// Who would learn what, a line each.
pub fn would_learn(plan: &Plan) -> String {
    report::who_learns_what(&reveals(plan))
}

/// Who would learn what.
pub(crate) fn reveals(plan: &Plan) -> Vec<Revealed> {
    let names =
        |parties: &[vesica_types::Party]| -> Vec<String> { parties.iter().map(|p| p.name().to_owned()).collect() };
    report::revealed(&plan.reveals(), &names(&plan.parties), &names(&plan.learners))
}

/// A number that nobody could foresee.
///
/// # Errors
/// [`JobError::Setup`] if the system has no randomness.
pub fn fresh_number() -> Result<u128, JobError> {
    let random = random()?;
    Ok(u128::from_le_bytes(*random.first_chunk().expect("32 bytes")))
}
