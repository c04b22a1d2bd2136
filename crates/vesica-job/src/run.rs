//! A job from start to end: one record's journey, a call a stage.

use crate::agree::{self, Agreed, Purpose};
use crate::clock::Clock;
use crate::control::Control;
use crate::curve::{WithGroup, with_group};
use crate::error::JobError;
use crate::keys::Keys;
use crate::local::{self, Local};
use crate::plan::Plan;
use crate::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use crate::spec::ProtocolName;
use crate::units::{self, Found, Units};
use crate::{join, peer, settle};
use vesica_curve::Group;
use vesica_net::Link;
use vesica_psi::ecdh::{self, Ecdh};
use vesica_session::{Channel, Misbehaviour, SessionRng};

/// Runs a job: finds local faults before contact, matches with the peer, writes the output.
///
/// # Errors
/// Whatever ends the run without a result; nothing is left of the output then, and a peer that was there is told whose
/// fault it was.
pub fn run(plan: &Plan, ctl: &Control) -> Result<Report, JobError> {
    let mut clock = Clock::start(ctl);
    let local = local::open(plan)?;
    let keys =
        clock.phase("read", "rows", local.table.rows(), || Keys::extract(&*local.table, plan, &local.scratch, ctl))?;
    let link = clock.wait("connect", || peer::connect(local.endpoint.clone(), ctl))?;
    match together(plan, local, &keys, &link, &mut clock, ctl) {
        Ok(report) => {
            link.close()?;
            if let Some(path) = &plan.report {
                report::save(path, &report)?;
            }
            Ok(report)
        }
        Err(error) => {
            peer::leave(&link, &error);
            Err(error)
        }
    }
}

/// What happens while the peer is there.
fn together(
    plan: &Plan,
    mut local: Local,
    keys: &Keys,
    link: &Link,
    clock: &mut Clock<'_>,
    ctl: &Control,
) -> Result<Report, JobError> {
    let mut rng =
        SessionRng::from_os().map_err(|e| JobError::Setup(format!("the system has no randomness to give: {e}")))?;
    let mut control = link.line("control")?;
    let agreed = clock
        .follow(link, "agree", "", None, || agree::agree(plan, Purpose::Run, keys.distinct, &mut *control, &mut rng))?;
    let units = clock.follow(link, "partition", "units", None, || {
        Units::partition(keys, &agreed.salt, agreed.sizes, plan.memory, &local.scratch)
    })?;
    let total = u64::from(agreed.sizes.units);
    let found = clock.follow(link, "match", "units", Some(total), || {
        let work = MatchUnits { plan, agreed: &agreed, units: &units, link, rng: &mut rng, ctl };
        with_group(plan.shared.curve, work)
    })?;
    drop(units);
    clock.steps("match", &found.meter);

    let absent = clock
        .follow(link, "settle", "", None, || settle::settle(plan, keys, &found, agreed.peer_keys, &mut *control))?;
    let i_learn = plan.i_learn();
    let mut outcome = Outcome {
        rows: keys.rows,
        keys: keys.distinct,
        empty: keys.empty,
        duplicates: keys.duplicates,
        matched: i_learn.then_some(found.matches.total()),
        matched_rows: i_learn.then_some(found.rows),
        output: None,
    };
    let staged = clock.follow(link, "write", "rows", None, || match local.sink.take() {
        None => Ok(None),
        Some(sink) => {
            let picks = join::rows(plan, keys, &found, absent, &local.scratch)?;
            local.write(plan, picks, keys.rows, sink).map(Some)
        }
    })?;

    // Nobody's output appears before everybody's is written: a full disk over there leaves no file here either.
    clock.follow(link, "finish", "", None, || finish(plan, &found, &mut *control))?;
    if let Some(staged) = staged {
        let written = staged.commit()?;
        outcome.output = Some(report::Written { path: written.path, rows: written.rows, bytes: written.bytes });
    }
    Ok(close(plan, &agreed, link, outcome, clock))
}

/// Matches the units by the job's protocol, in the job's group.
struct MatchUnits<'a> {
    plan: &'a Plan,
    agreed: &'a Agreed,
    units: &'a Units,
    link: &'a Link,
    rng: &'a mut SessionRng,
    ctl: &'a Control,
}

impl WithGroup for MatchUnits<'_> {
    type Out = Result<Found, JobError>;

    fn with<G: Group>(self) -> Self::Out {
        let Self { plan, agreed, units, link, rng, ctl } = self;
        let multiply = plan.multiplies();
        match plan.shared.protocol {
            ProtocolName::Ecdh => {
                let params = ecdh::Params {
                    session: agreed.salt,
                    tag_len: agreed.sizes.tag_len,
                    i_learn: plan.i_learn(),
                    peer_learns: plan.learns(&plan.peer().party),
                };
                units::run(&Ecdh::<G>::open(&params, rng), units, multiply, link, rng, ctl)
            }
        }
    }
}

/// Both say that all is written; where both learned, that they learned the same.
fn finish(plan: &Plan, found: &Found, control: &mut dyn Channel) -> Result<(), JobError> {
    control.step("finish");
    let mine = if plan.all_learn() { found.digest } else { [0; 32] };
    if control.swap_exact(&mine, 32)? != mine {
        let fault = Misbehaviour::Contradiction("the result that it found is not the one that this side found");
        return Err(control.accuse(fault).into());
    }
    Ok(())
}

fn close(plan: &Plan, agreed: &Agreed, link: &Link, outcome: Outcome, clock: &mut Clock<'_>) -> Report {
    let names = |parties: &[vesica_types::Party]| parties.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>();
    let traffic = link.traffic();
    let (costs, times) = clock.close();
    Report {
        job: JobId {
            id: plan.shared.id.clone(),
            shared_hash: plan.shared.hash().iter().map(|b| format!("{b:02x}")).collect(),
            party: plan.me.name().to_owned(),
            parties: names(&plan.parties),
        },
        outcome,
        revealed: report::revealed(&plan.reveals(), &names(&plan.parties), &names(&plan.learners)),
        chosen: Chosen {
            protocol: plan.shared.protocol.name().to_owned(),
            curve: plan.shared.curve.name().to_owned(),
            parameters: vec![plan.curve.id.to_owned()],
            wire_version: vesica_net::WIRE_VERSION,
            units: agreed.sizes.units,
            in_flight: agreed.sizes.in_flight,
            unit_capacity: agreed.sizes.capacity,
            peer_unit_capacity: agreed.sizes.peer_capacity,
            tag_bytes: agreed.sizes.tag_len.bytes() as u32,
            cpu: vesica_cpu::Backend::chosen().name().to_owned(),
            tls: link.secured().to_string(),
            peers: vec![PeerId {
                name: plan.peer().party.name().to_owned(),
                fingerprint: link.secured().fingerprint.map(|f| f.to_string()),
                keys: agreed.peer_keys,
                version: agreed.peer_version.clone(),
            }],
        },
        cost: costs,
        total: TotalCost {
            wall_s: times.wall.as_secs_f64(),
            waited_s: times.waited.as_secs_f64(),
            cpu_s: times.cpu.as_secs_f64(),
            sent: traffic.sent,
            received: traffic.received,
            peak_memory: times.peak_memory,
        },
        host: Host::here(),
    }
}
