//! Everything about a run that can be known before it: `vesica check`.

use crate::error::JobError;
use crate::forecast;
use crate::input::keys::Keys;
use crate::input::repeats::RowsByKey;
use crate::input::values::Brought;
use crate::io::Io;
use crate::local;
use crate::meet::agree::{self, Counted, Purpose};
use crate::meet::peers::{self, Peers};
use crate::seal::ledger::Ledger;
use crate::tell::control::{Control, Event};
use crate::tell::numbers::{count, counted, size, worded};
use crate::world::World;
use serde::Serialize;
use std::fmt::Write;
use vesica_net::{Endpoint, Unreached};
use vesica_session::{Lines, Misbehaviour};
use vesica_spec::{Plan, ProxyPlan, RoadPlan};
use vesica_types::Party;

/// What was looked at, all of it found good.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Checked {
    /// In the order in which it was looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// What it is like.
    pub found: String,
    /// Whether it is as it should be. What is not may still come right without anybody's doing here; it would end the run as it is now.
    pub good: bool,
}

impl Checked {
    /// Adds what was found of `what`.
    pub fn add(&mut self, what: &'static str, found: impl Into<String>) {
        self.put(what, found, true);
    }

    /// The same; not `good` if it would end the run as it is now.
    pub fn put(&mut self, what: &'static str, found: impl Into<String>, good: bool) {
        self.findings.push(Finding { what, found: found.into(), good });
    }

    /// The findings, a line each: `ok`, or `?` before what is not good yet.
    pub fn in_words(&self) -> String {
        self.findings.iter().fold(String::new(), |mut text, f| {
            let _ = writeln!(text, "{:<3} {:<12} {}", if f.good { "ok" } else { "?" }, f.what, f.found);
            text
        })
    }
}

/// Looks at everything that a run of `plan` with `io` needs: the job, the certificate, the port, the road to whom it calls, the table to its last
/// row, the output's folder and its free space; with `with_peer`, also that the peer is there, is who it should be and holds the same job.
///
/// # Errors
/// The first thing that would end the run.
pub fn check(plan: &Plan, io: Io, ctl: &Control, with_peer: bool) -> Result<Checked, JobError> {
    let mut checked = Checked::default();
    let hash: String = plan.shared.hash().iter().take(8).map(|b| format!("{b:02x}")).collect();
    checked.add("job", format!("\"{}\" as {}; [shared] hashes to {hash}…", plan.shared.id, plan.me));

    plan.notes.iter().for_each(|note| checked.add("note", note));
    let mut local = local::open(plan, io, ctl)?;
    match &local.identity {
        Some(identity) => checked.add(
            "identity",
            format!(
                "{}{}",
                identity.fingerprint(),
                identity.expires().map(|day| format!(", valid until {day}")).unwrap_or_default()
            ),
        ),
        None => checked.add("identity", "none: insecure = true, anyone between the parties can read and forge"),
    }
    if let Some(address) = &plan.listen {
        checked.add("port", format!("{address} can be listened on"));
    }
    for peer in &plan.peers {
        if let Some(address) = &peer.connect {
            let calls = format!("{} is to be called at {address}", peer.party);
            let (road, resolves) = tried(&peer.party, address, (&plan.proxy, &peer.road), with_peer)?;
            checked.put("peer", calls + &road, resolves);
        }
    }

    let mut ledger = Ledger::open(plan, &local.scratch, &local.io.world.disk, ctl)?;
    if plan.resume.is_some() {
        checked.add(
            "resume",
            match ledger.started() {
                None => "nothing is finished yet".to_owned(),
                Some(start) => format!("{} of {} units are finished", ledger.len(), start.sizes.units),
            },
        );
    }

    local.sink = None;
    let table = &*local.io.table;
    let columns: Vec<String> = table.columns().iter().map(|c| format!("{} ({})", c.name, c.kind)).collect();
    checked.add("input", format!("{}: {}", table.path().display(), columns.join(", ")));
    ctl.event(Event::Phase { name: "read", of: "rows", total: local.io.table.rows() });
    let keys = local.keys(plan, &mut ledger, ctl)?;
    // Nothing is cut here.
    local.slabs.release();
    let [distinct, one, many] = match plan.lists.is_empty() {
        true => ["distinct keys", "row that repeats a key", "rows that repeat a key"],
        false => ["distinct identifiers", "identifier that an earlier row has", "identifiers that an earlier row has"],
    };
    checked.add(
        "keys",
        format!(
            "{}, {} of {}, {} empty, {}",
            counted(keys.rows, "rows"),
            counted(keys.distinct, distinct),
            plan.keys_in_words().join(" and "),
            count(keys.empty),
            worded(keys.duplicates, one, many)
        ),
    );
    if plan.adds_up() {
        let gathered = RowsByKey::of(table, &plan.into(), &keys, &local.scratch, ctl)?;
        let by_key = gathered.rows(plan.shared.duplicates, ctl);
        Brought::read(plan, table, &keys, by_key, &mut local.io.world.rng()?, ctl)?;
    }
    let sums = plan.grouped.iter().flat_map(|grouped| grouped.sums.iter().map(|added| &added.column));
    for column in plan.value.iter().chain(sums) {
        checked.add("values", format!("{column}: whole numbers, and all that is made of them fits into 64 bits"));
    }
    if let Some(grouped) = plan.grouped.as_ref().filter(|grouped| !grouped.by.is_empty()) {
        let (by, most) = (grouped.by.join(" and "), grouped.most);
        let labels = match (grouped.labels.is_empty(), grouped.other) {
            (true, _) => "each with a label that is short enough",
            (false, false) => "each of them one of shared.groups.labels",
            (false, true) => "each of them one of shared.groups.other.labels",
        };
        checked.add("groups", format!("by {by}: no more than {most}, {labels}"));
    }
    if plan.rules.iter().any(|rules| !rules.is_empty()) {
        let ruled = keys.ruled.unwrap_or_default();
        let spellings = Keys::spellings(table, plan, &local.scratch, ctl)?;
        checked.add(
            "rules",
            format!(
                "{} changed, {} became empty, {} collided: {} as {} written, {} after the rules",
                counted(ruled.changed, "keys"),
                count(ruled.emptied),
                count(spellings.saturating_sub(keys.distinct)),
                counted(spellings, "distinct keys"),
                if spellings == 1 { "it is" } else { "they are" },
                count(keys.distinct)
            ),
        );
    }
    if let Some(output) = &plan.output {
        let free = forecast::free(&output.path).map_or("an unknown number of bytes".to_owned(), size);
        checked.add("output", format!("{} can be written, {free} free", output.path.display()));
    }
    for (what, path) in [("report", &plan.report), ("trace", &plan.trace)] {
        if let Some(path) = path {
            checked.add(what, format!("{} can be written", path.display()));
        }
    }
    if let Some(address) = &plan.metrics {
        let at = vesica_net::status::try_out(address)?;
        checked.add("metrics", format!("{at} can be listened on"));
    }
    if with_peer {
        checked.add("agreement", agreement(plan, local.endpoint, keys.distinct, &local.io.world, ctl)?);
    }
    Ok(checked)
}

/// What is to be said of the road to `party`, as the end of a sentence, and whether its host name resolves. It is gone to its end, unless the
/// peer is to be `met` anyway.
///
/// # Errors
/// A road that leads nowhere, now or later. That nobody is there yet is no fault; nor is a name that may be there tomorrow.
pub fn tried(
    party: &Party,
    address: &str,
    (proxy, said): (&ProxyPlan, &RoadPlan),
    met: bool,
) -> Result<(String, bool), JobError> {
    let road = peers::road(proxy, address, said)?;
    let by = road.in_words().map(|words| format!(", {words}")).unwrap_or_default();
    if met {
        return Ok((by, true));
    }
    match road.try_out(address) {
        Ok(found) => Ok((format!("{by}; {found}"), true)),
        Err(Unreached::Barred(why)) => {
            Err(vesica_net::Error::Road { peer: party.clone(), address: address.to_owned(), why }.into())
        }
        Err(why @ Unreached::Unknown { .. }) => {
            Ok((format!("{by}; {why}. A run waits for the name for a while; if it is wrong, correct it"), false))
        }
        Err(why) => Ok((format!("{by}; not to be reached at the moment ({why})"), true)),
    }
}

/// Connects, compares the jobs, and parts in good order without running. A peer may check too, or run: then it waits on for this side's
/// run.
fn agreement(plan: &Plan, endpoint: Endpoint, keys: u64, world: &World, ctl: &Control) -> Result<String, JobError> {
    let peers = Peers::connect(&*world.connector, Endpoint { only_checks: true, ..endpoint }, ctl)?;
    let said = (|| {
        let mut control = peers.line("control")?;
        let ledger = Ledger::new(plan.memory, &std::env::temp_dir());
        let certificates = peers.certificates(&plan.me);
        let said = agree::greet(plan, Purpose::Check, Counted::Now(keys), &ledger, &mut control, &certificates)?;
        if said.all_check() {
            let mut rng = world.rng()?;
            agree::toss(plan, &agree::session(plan, &certificates), &mut control, &mut rng)?;
            part(&mut control)?;
        }
        Ok(said)
    })();
    let said = said.inspect_err(|error| peers.leave_check(error))?;
    // All have agreed, and this side has heard it. So a connection that breaks now takes nothing from what it has found.
    if let Err(error) = peers.close_in_time() {
        JobError::from(error).broken()?;
    }
    let each = peers.links().iter().zip(said.of_peers()).map(|(link, (keys, runs))| {
        let keys = keys.map_or("keys that it has not counted yet".to_owned(), |keys| counted(keys, "distinct keys"));
        let waits = if runs { ", and waits for this side to run it" } else { "" };
        format!("{} holds the same job and {keys}{waits}; {}", link.peer(), link.secured())
    });
    Ok(each.collect::<Vec<_>>().join("; "))
}

/// All have seen the agreement.
fn part(control: &mut Lines) -> Result<(), JobError> {
    control.all().try_for_each(|ch| ch.send(b"checked"))?;
    for ch in control.all() {
        if ch.recv(7)? != b"checked" {
            return Err(ch.accuse(Misbehaviour::Malformed("end of a check")).into());
        }
    }
    Ok(())
}
