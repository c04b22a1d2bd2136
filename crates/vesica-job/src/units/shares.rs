//! The loop over units that leave shares, and the one opening at the end.

use crate::error::JobError;
use crate::input::groups::encoded;
use crate::output::groups;
use crate::output::shares::Leaving;
use crate::units::each;
use crate::units::work::Work;
use vesica_session::{Error, Found, Meter, SessionRng, Shared, Shares};
use vesica_spec::Plan;
use vesica_types::UnitId;

/// Runs all units, `in_flight` at a time, and opens what they left, or keeps it where it is the result. Nothing is kept before all units
/// are done: shares of an attempt that was broken off are of no use for another.
///
/// # Errors
/// The first that a unit met; [`JobError::TooSmall`]; those of opening and of storing what was found.
pub fn run(protocol: &dyn Shared, plan: &Plan, work: Work<'_>, rng: &mut SessionRng) -> Result<Meter, JobError> {
    let Work { units, values, left, ledger, peers, scratch, world, ctl, .. } = work;
    let total = units.sizes.units;
    *left = None;
    let mut leaving = Leaving::begin(plan, total, scratch)?;
    let mut shares: Vec<Shares> = Vec::with_capacity(total as usize);
    let chance = &*rng;
    let one = |id, lines: &mut _| {
        let (unit, rows) = units.unit_and_rows(id)?;
        let values = values.map(|values| values.of(&rows)?.ok_or_else(|| units.changed())).transpose()?;
        let shares = protocol.unit(&unit, &values.unwrap_or_default(), lines, &mut chance.unit(id)?)?;
        Ok((shares, rows))
    };
    let all = (0..total).map(UnitId).collect();
    let mut meter = each::all(all, units.sizes.in_flight, peers, &*world.turns, ctl, one, |_, (mut of_unit, rows)| {
        leaving.as_mut().map_or(Ok(()), |leaving| leaving.take(&mut of_unit, &rows))?;
        shares.push(of_unit);
        peers.set_progress("match", shares.len() as u64, Some(total.into()));
        Ok(shares.len() as u64)
    })?;
    shares.sort_by_key(|shares| shares.unit);
    let mut lines = peers.line("open")?;
    // What the groups of shared.groups.of are called, and those of the other party: where it was agreed on, and of this party's own.
    let of = plan.shared.groups.as_ref();
    let agreed = [of.map(|of| &of.labels), of.and_then(|of| of.other.as_ref()).map(|other| &other.labels)];
    let [first, other] = agreed.map(|labels| encoded(labels.map(Vec::as_slice).unwrap_or_default()));
    let (first, other) = (first?, other?);
    let mut known = [&first[..], &other[..]];
    if let (Some(values), Some(groups)) = (values, plan.choice.groups) {
        known[usize::from(groups.of != plan.me.place())] = values.labels();
    }
    let found = protocol.open(&shares, known, &mut lines, rng)?;
    match found {
        Found::Nothing => {}
        Found::Count(keys) => ledger.total(keys)?,
        Found::Sum(sum) => ledger.total(sum as u64)?,
        Found::Groups(groups) => {
            let ch = lines.peer()?;
            ledger.groups(groups::named(&groups, plan, ch)?)?;
        }
        Found::TooFew => {
            return Err(JobError::too_small(plan, plan.shared.limits.min_intersection.unwrap_or_default()));
        }
        Found::Places(_) => return Err(Error::Bug("shares named keys".into()).into()),
    }
    lines.all().for_each(|ch| meter.merge(&ch.meter()));
    match leaving {
        // They are written with this attempt or not at all, so the ledger is not to say that the units are done.
        Some(leaving) => {
            *left = Some(leaving.end(&shares)?);
            ledger.left();
        }
        None => (0..total).map(UnitId).try_for_each(|id| ledger.commit(id, &[0; 32], &[]))?,
    }
    Ok(meter)
}
