//! The report of a run that asked.

use crate::error::Error;
use crate::offer::{Offer, hex};
use crate::suite;
use vesica_job::ReportFile;
use vesica_job::report::{self, Chosen, Host, JobId, Outcome, PeerId, Report, TotalCost};
use vesica_job::rooms::{Clock, save};
use vesica_net::{PeerLink, WIRE_VERSION};
use vesica_spec::Rule;
use vesica_spec::service::AskPlan;

/// How much there was to do.
pub struct Work {
    /// Pieces of work.
    pub units: u64,
    /// How many of them at once.
    pub lanes: u64,
    /// Keys or rows of the server.
    pub server_rows: u64,
}

/// What a report says of the protocol and the server.
fn chosen(plan: &AskPlan, offer: &Offer, rules: &[Vec<Rule>], link: &dyn PeerLink, work: Work) -> Chosen {
    // Where no function protects the server's rows, there is no group.
    let has_function = offer.public().is_ok_and(|public| !public.is_empty());
    let secured = link.secured();
    Chosen {
        protocol: offer.protocol.name().to_owned(),
        curve: has_function.then(|| offer.curve.name().to_owned()),
        security: if offer.verifiable { "verifiable" } else { "semi-honest" }.to_owned(),
        join: "inner".to_owned(),
        rules: rules.iter().map(|rules| rules.iter().map(|rule| rule.id()).collect()).collect(),
        parameters: (has_function.then(|| vesica_suite::function::set(offer.curve)).into_iter())
            .chain(offer.kind().set())
            .map(str::to_owned)
            .collect(),
        wire_version: WIRE_VERSION,
        cut: "whole".to_owned(),
        units: work.units as u32,
        in_flight: work.lanes as u32,
        tag_bytes: offer.tag_bits.div_ceil(8),
        cpu: vesica_job::cpu::Backend::chosen().name().to_owned(),
        tls: secured.to_string(),
        peers: vec![PeerId {
            name: plan.server.name().to_owned(),
            fingerprint: secured.fingerprint.map(|fingerprint| fingerprint.to_string()),
            keys: work.server_rows,
            attempts: 1,
            version: "not told".to_owned(),
            ..PeerId::default()
        }],
        ..Chosen::default()
    }
}

/// The report, which is written where the plan says.
///
/// # Errors
/// Those of writing.
pub fn report(
    plan: &AskPlan,
    (offer, rules): (&Offer, &[Vec<Rule>]),
    outcome: Outcome,
    work: Work,
    link: &dyn PeerLink,
    mut clock: Clock<'_>,
) -> Result<Report, Error> {
    let chosen = chosen(plan, offer, rules, link, work);
    let ((cost, times), traffic) = (clock.close(), link.traffic());
    let names = [plan.server.name().to_owned(), plan.me.name().to_owned()];
    let report = Report {
        job: JobId {
            id: plan.id.clone(),
            run: clock.run(),
            called: None,
            shared_hash: hex(&offer.hash()),
            party: plan.me.name().to_owned(),
            parties: names.to_vec(),
            shared: String::new(),
            mine: String::new(),
        },
        outcome,
        revealed: report::revealed(&suite::reveals(offer), &names, &names[1..]),
        chosen,
        cost,
        total: TotalCost {
            wall_s: times.wall.as_secs_f64(),
            waited_s: times.waited.as_secs_f64(),
            cpu_s: times.cpu.as_secs_f64(),
            sent: traffic.sent,
            received: traffic.received,
            peak_memory: times.peak_memory,
        },
        host: Host::here(),
    };
    if let Some(path) = &plan.report {
        save(path, "cannot write the report", &ReportFile::named(path).text(&report))?;
    }
    Ok(report)
}
