//! The report as a page that people look at: what it says stands here once, and is drawn as HTML or as Markdown.
//!
//! A page is a list of sections, and a section a list of blocks: `vesica report FILE.json --html` writes one file that needs no network
//! and runs no script.

mod bars;
mod html;
mod markdown;
mod overlap;
mod scale;
mod timeline;
mod traffic;

use crate::tell::numbers::{count, counted, size};
use crate::tell::report::{Groups, PeerId, Report};
use crate::units::found::GroupTotal;
use bars::Bars;
use overlap::Overlap;
use std::path::Path;
use vesica_net::printable;
use vesica_session::LABEL;

/// Who a page is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience<'a> {
    /// The party whose report it is.
    Own,
    /// This other party: the page leaves out what the run did not tell it.
    Peer(&'a str),
}

/// What the file of a report holds. The ending of its name says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportFile {
    /// The report as data.
    Json,
    /// The report as a page, where the name ends in `.html`.
    Html,
    /// The same page as Markdown, where it ends in `.md`.
    Markdown,
}

impl ReportFile {
    /// What the file called `path` holds.
    pub fn named(path: &Path) -> Self {
        let ends_in = |end: &str| path.extension().is_some_and(|is| is.eq_ignore_ascii_case(end));
        if ends_in("html") {
            Self::Html
        } else if ends_in("md") {
            Self::Markdown
        } else {
            Self::Json
        }
    }

    /// `report` as it stands in such a file.
    pub fn text(self, report: &Report) -> String {
        match self {
            Self::Json => report.to_show().to_json(),
            Self::Html => Page::own(report).html(),
            Self::Markdown => Page::own(report).markdown(),
        }
    }
}

/// What a report says, in the order in which it is read.
pub struct Page {
    title: String,
    headline: String,
    sections: Vec<Section>,
}

struct Section {
    title: &'static str,
    blocks: Vec<Block>,
}

enum Block {
    Text(String),
    List(Vec<String>),
    Table { head: Vec<String>, rows: Vec<Vec<String>> },
    Code(String),
    Overlap(Overlap),
    Bars(Bars),
}

impl Page {
    /// What `report` says to `audience`. `other` is another party's report of the same run: its phases are drawn beside this one's.
    ///
    /// # Errors
    /// If `other` is of another run, if the page is for a party that was not there, or if it is for a party and another party's report
    /// would be in it.
    pub fn of(report: &Report, other: Option<&Report>, audience: Audience<'_>) -> Result<Self, String> {
        let job = &report.job;
        if let Audience::Peer(name) = audience {
            if !report.chosen.peers.iter().any(|peer| peer.name == name) {
                let peers: Vec<&str> = report.chosen.peers.iter().map(|peer| peer.name.as_str()).collect();
                return Err(format!(
                    "{name} is no other party of this run; the report is of {}, and the others are: {}",
                    job.party,
                    peers.join(", ")
                ));
            }
            if other.is_some() {
                return Err(format!(
                    "a page for {name} holds what {} alone may show; leave the other report out",
                    job.party
                ));
            }
        }
        if let Some(other) = other {
            if other.job.shared_hash != job.shared_hash || other.job.id != job.id {
                return Err(format!("the reports are of different jobs: \"{}\" and \"{}\"", job.id, other.job.id));
            }
            if let (Some(this), Some(that)) = (&job.called, &other.job.called)
                && this != that
            {
                return Err(format!(
                    "the reports are of two runs of the job: all parties call the one {this}, and the other {that}"
                ));
            }
            if other.job.party == job.party {
                return Err(format!("both reports are of {}; give one of each party", job.party));
            }
        }
        Ok(Self::drawn(report, other, audience))
    }

    /// What `report` says to the party whose it is.
    pub fn own(report: &Report) -> Self {
        Self::drawn(report, None, Audience::Own)
    }

    fn drawn(report: &Report, other: Option<&Report>, audience: Audience<'_>) -> Self {
        // Pages are passed on, whichever way they were made.
        let report = &report.to_show();
        let mut sections = vec![overlap_of(report, audience), learned(report)];
        if audience == Audience::Own {
            sections.extend([timeline::section(report, other), quality(report)]);
        }
        sections.extend([traffic::section(report, audience), security(report, audience), checks(report, audience)]);
        sections.extend(again(report, audience));
        Self {
            title: format!("{}, as {} saw it", report.job.id, report.job.party),
            headline: headline(report, audience),
            sections,
        }
    }

    /// One file of HTML: it needs no network and runs no script.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The same as Markdown.
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }
}

/// Whether the run told `audience` what the party of `report` learned: how many keys are common, or their sum.
fn may_see_result(report: &Report, audience: Audience<'_>) -> bool {
    let Audience::Peer(name) = audience else { return true };
    let told = |one: &crate::tell::report::Revealed| one.is_result() && one.to.iter().any(|to| to == name);
    // A result with noise is left out: with `dp` each party has another one.
    report.chosen.expects.is_empty() && report.revealed.iter().any(told)
}

/// Whether the run told the peers how many distinct keys this side holds: a job does, a service's client pads its questions.
fn tells_keys(report: &Report) -> bool {
    report.revealed.iter().any(|one| one.name == "key_count")
}

fn headline(report: &Report, audience: Audience<'_>) -> String {
    match audience {
        Audience::Own => report.headline(),
        Audience::Peer(name) => {
            let party = &report.job.party;
            match report.outcome.matched.filter(|_| may_see_result(report, audience)) {
                Some(keys) => format!("{} distinct keys are common to all parties, as {party} found too.", count(keys)),
                None => format!("{party} matched its table with {name}'s. This page shows what {name} may know of it."),
            }
        }
    }
}

fn overlap_of(report: &Report, audience: Audience<'_>) -> Section {
    let keys = Some(report.outcome.keys).filter(|_| audience == Audience::Own || tells_keys(report));
    let common = report.outcome.matched.filter(|_| may_see_result(report, audience));
    let holds = |peer: &PeerId| (peer.name.clone(), peer.keys);
    let sets = keys.map(|keys| (report.job.party.clone(), keys)).into_iter();
    let sets: Vec<_> = sets.chain(report.chosen.peers.iter().map(holds)).collect();
    let mut blocks = vec![Block::Overlap(Overlap { sets, common })];
    if !report.chosen.expects.is_empty() {
        blocks.push(Block::Text("The result has noise, so that no key can be told from it for certain:".to_owned()));
        blocks.push(Block::List(report.chosen.expects.clone()));
    }
    if let Some(groups) = report.outcome.groups.as_ref().filter(|_| may_see_result(report, audience)) {
        blocks.extend(by_group(groups));
    }
    Section { title: "What is common", blocks }
}

/// What a group is called, fit to print: the other party may have said so.
fn called(group: &GroupTotal) -> Vec<String> {
    group.by.iter().map(|text| printable(text, LABEL)).collect()
}

/// The totals of each group, and how many keys each has as bars.
fn by_group(groups: &Groups) -> Vec<Block> {
    let told = match groups.least {
        1 => "By group:".to_owned(),
        least => format!("By group. Groups with fewer than {} are left out:", counted(least, "common keys")),
    };
    let means = groups.sums.iter().flat_map(|sum| [sum.clone(), format!("{sum}, mean")]);
    let head = groups.by.iter().cloned().chain(["keys".to_owned()]).chain(means).collect();
    let cells = |group: &GroupTotal| {
        let sums = group.sums.iter().zip(group.means());
        let sums = sums.flat_map(|(sum, mean)| [sum.to_string(), format!("{mean:.2}")]);
        called(group).into_iter().chain([count(group.keys)]).chain(sums).collect()
    };
    let mut blocks = vec![Block::Text(told), Block::Table { head, rows: groups.groups.iter().map(cells).collect() }];
    // One group alone is no picture.
    if groups.groups.len() > 1 {
        let line = |group: &GroupTotal| (called(group).join(", "), vec![group.keys as f64]);
        let lines = groups.groups.iter().map(line).collect();
        blocks.push(Block::Bars(Bars::stacked(["common keys"], lines, |keys| count(keys as u64))));
    }
    blocks
}

fn learned(report: &Report) -> Section {
    let rows = report.revealed.iter().map(|one| vec![one.to.join(" and "), one.what.clone()]).collect();
    let table = Block::Table { head: vec!["Who".into(), "learned what".into()], rows };
    Section { title: "Who learned what", blocks: vec![table] }
}

fn quality(report: &Report) -> Section {
    let o = &report.outcome;
    let mut rows = vec![
        row("Rows of the table", count(o.rows)),
        row("Rows with an empty key, which match nothing", count(o.empty)),
        row("Rows that repeat the key of an earlier row", count(o.duplicates)),
        row("Distinct keys, which were matched", count(o.keys)),
    ];
    for (column, rules) in report.chosen.rules.iter().enumerate().filter(|(_, rules)| !rules.is_empty()) {
        rows.push(row(&format!("Rules of key column {}", column + 1), rules.join(", ")));
    }
    if let Some(ruled) = &o.ruled {
        rows.push(row("Rows whose key the rules changed", count(ruled.changed)));
        rows.push(row("Rows whose key became empty by the rules", count(ruled.emptied)));
    }
    if let Some(matched) = o.matched_rows {
        rows.push(row("Rows in the result", count(matched)));
    }
    if let Some(output) = &o.output {
        let what = format!("{} ({}, {})", output.path.display(), counted(output.rows, "rows"), size(output.bytes));
        rows.push(row("Written to", what));
    }
    if let Some(attempt) = &o.attempt {
        rows.push(row("It goes together with files of this attempt alone", attempt.clone()));
    }
    Section { title: "The data", blocks: vec![facts(rows)] }
}

fn security(report: &Report, audience: Audience<'_>) -> Section {
    let c = &report.chosen;
    let curve = c.curve.as_ref().map(|curve| format!(" on {curve}")).unwrap_or_default();
    let mut rows = vec![
        row("Protocol", format!("{}{curve}", c.protocol)),
        row("Protects against", model(&c.security)),
        row("Strength", "128 bits computational; the chance of a wrong result is at most 2^-40 a job".to_owned()),
        row("Parameters", c.parameters.join(", ")),
        row("Connections", c.tls.clone()),
    ];
    for peer in &c.peers {
        let known = peer.fingerprint.clone().unwrap_or_else(|| "nothing: the job is insecure".to_owned());
        rows.push(row(&format!("{} was recognised by", peer.name), known));
        if peer.answered > 0 {
            let attempts = if peer.attempts == 1 { "attempt" } else { "attempts" };
            let what = format!("{} keys, padding included, in {} {attempts}", count(peer.answered), peer.attempts);
            rows.push(row(&format!("This side answered {} for", peer.name), what));
        }
    }
    rows.extend(report.job.called.iter().map(|name| row("All parties call the run", name.clone())));
    if audience == Audience::Own {
        rows.extend(report.job.run.iter().map(|run| row("Run", format!("{run}, as on each line of its log"))));
        rows.push(row("Arithmetic", format!("{}, {} cores, {}", c.cpu, report.host.cores, report.host.os)));
    }
    rows.push(row("Program", format!("Vesica {}, wire format {}", report.host.version, c.wire_version)));
    Section { title: "Security", blocks: vec![facts(rows)] }
}

fn model(security: &str) -> String {
    match security {
        "semi-honest" => "parties that follow the protocol and are curious (semi-honest)".to_owned(),
        "malicious" => "parties that do whatever they like (malicious)".to_owned(),
        "verifiable" => "a server that answers with another key (verifiable)".to_owned(),
        other => other.to_owned(),
    }
}

/// What had to be right for the run to end well: a run that ends otherwise has no report.
fn checks(report: &Report, audience: Audience<'_>) -> Section {
    let (c, o) = (&report.chosen, &report.outcome);
    let hash: String = report.job.shared_hash.chars().take(16).collect();
    let mut list = vec![format!("Every party held the same agreement; it hashes to {hash}….")];
    for peer in c.peers.iter().filter(|peer| peer.fingerprint.is_some()) {
        list.push(format!("{} showed the certificate that this side trusts.", peer.name));
    }
    if report.cost.iter().any(|step| step.phase == "compare") {
        list.push("The parties that learn found the same common keys, by a comparison of digests.".to_owned());
    }
    if c.security == "malicious" {
        list.push("The protocol's own checks against a party that deviates were passed.".to_owned());
    }
    if c.peers.iter().all(|peer| peer.attempts == 1) && !c.peers.is_empty() {
        list.push("The job was done in one attempt: no connection broke.".to_owned());
    }
    // Whoever does not learn is not told by this, or by its absence, how many rows matched. An output of rows without a partner has as many by chance.
    if let (Audience::Own, Some(rows), Some(output)) = (audience, o.matched_rows, &o.output)
        && !matches!(c.join.as_str(), "anti" | "difference")
        && rows == output.rows
    {
        list.push("The output holds as many rows as were matched.".to_owned());
    }
    Section { title: "Checks that passed", blocks: vec![Block::List(list)] }
}

fn again(report: &Report, audience: Audience<'_>) -> Option<Section> {
    let job = &report.job;
    if job.shared.is_empty() {
        return None;
    }
    let own = audience == Audience::Own;
    let told = if own {
        "Save this as a job file in the folder of the first one, put the file of your identity and whole paths in the place of …, and run it while the other side does: vesica run FILE."
    } else {
        "This is what both sides agreed on; [mine] is each party's own."
    };
    let text = if own { format!("{}\n{}", job.shared, job.mine) } else { job.shared.clone() };
    Some(Section { title: "How to run it again", blocks: vec![Block::Text(told.to_owned()), Block::Code(text)] })
}

fn row(what: &str, value: String) -> Vec<String> {
    vec![what.to_owned(), value]
}

fn facts(rows: Vec<Vec<String>>) -> Block {
    Block::Table { head: Vec::new(), rows }
}

#[cfg(test)]
mod tests;
