//! Keys cut into units, run through a protocol, and what that found.

pub mod compare;
pub mod cut;
pub mod each;
pub mod found;
pub mod marks;
mod shares;
mod whole;
pub mod work;

use crate::error::JobError;
use crate::meet::peers::Peers;
use vesica_session::{Meter, SessionRng};
use vesica_spec::Plan;
use vesica_suite::{Opened, Terms};
use work::Work;

/// Opens the job's protocol and runs the units, if there are any that are not done. Returns what they cost.
///
/// # Errors
/// Those of opening, and of [`run`].
pub fn open_and_run(plan: &Plan, terms: &Terms, work: Work<'_>, rng: &mut SessionRng) -> Result<Meter, JobError> {
    if work.done.iter().all(|done| *done) {
        return Ok(Meter::default());
    }
    let (opened, mut meter) = open(plan, terms, work.peers, rng)?;
    meter.merge(&match opened {
        Opened::Units(protocol) => each::run(&*protocol, work, rng)?,
        Opened::Whole(protocol) => whole::run(protocol, plan, work, rng)?,
        Opened::Shares(protocol) => shares::run(&*protocol, plan, work, rng)?,
    });
    Ok(meter)
}

/// Sets up the protocol of the units that go over these links, and says what that cost.
///
/// # Errors
/// Those of the links, and of setting up.
pub fn open(plan: &Plan, terms: &Terms, peers: &Peers, rng: &mut SessionRng) -> Result<(Opened, Meter), JobError> {
    let mut lines = peers.line("base")?;
    lines.all().for_each(|ch| ch.step("base"));
    let opened = plan.suite.open(&plan.seat(), terms, &mut lines, rng)?;
    let mut meter = Meter::default();
    lines.all().for_each(|ch| meter.merge(&ch.meter()));
    Ok((opened, meter))
}
