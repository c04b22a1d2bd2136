//! An invitation to match two tables: the jobs of both parties.

use super::{Head, Invitation, OwnTable, Proposal, Reply, in_table, input, quoted, said_by, trust, without_defaults};
use crate::ResultKind;
use crate::error::{SpecError, refuse};
use crate::types::Shared;

impl Invitation {
    /// The job of the party that invites, without the fingerprint of the other, which [`Invitation::confirmed`] writes.
    ///
    /// # Errors
    /// If the invitation is to a service.
    pub fn inviting_job(&self, listen: &str, table: OwnTable<'_>) -> Result<String, SpecError> {
        let Head { from, to, .. } = &self.head;
        let contact = format!("listen = {} # {to} calls here\n{}\n", quoted(listen), waiting(to));
        Ok(job(from, to, self.shared()?, &made_with(&self.head), &contact, table))
    }

    /// The job of the party that invites, with the fingerprint of the reply.
    ///
    /// # Errors
    /// If the invitation is to a service, if the job waits for no reply, or if it was confirmed by another one.
    pub fn confirmed(&self, job: &str, reply: &Reply) -> Result<String, SpecError> {
        self.shared()?;
        let to = &self.head.to;
        let lines = format!("{}\n{}", trust(to, &reply.fingerprint.to_string()), said_by(to, reply));
        let has = |wanted: &str| job.lines().any(|line| line == wanted);
        // First, for the words that are shown are about the invitation.
        if !has(made_with(&self.head).trim_end()) {
            let why = format!(
                "the job was made with another invitation to {to}, or edited; invite {to} anew, in another folder"
            );
            return refuse("invitation.number", why);
        }
        if lines.lines().all(has) {
            return Ok(job.to_owned());
        }
        if !has(&waiting(to)) {
            let why = format!(
                "the job waits for no reply of {to}: it was confirmed by another one, or edited. If {to} replied twice, take the \
                 first reply; else invite {to} anew, in another folder"
            );
            return refuse("mine.tls.peers", why);
        }
        Ok(job.replacen(&waiting(to), &lines, 1))
    }

    /// What both would agree on.
    pub(super) fn shared(&self) -> Result<&Shared, SpecError> {
        match &self.proposal {
            Proposal::Match(shared) => Ok(&**shared),
            Proposal::Ask(service, _) => {
                let why =
                    format!("it is to the service {}; name the server's document with --service FILE", service.id);
                refuse("invitation", why)
            }
        }
    }
}

/// `[shared]` without what is the default anyway.
pub(super) fn shared_text(shared: &Shared) -> String {
    in_table("shared", &without_defaults(shared, &["id", "parties", "protocol", "learns"]))
}

/// The job of the party that is invited.
pub(super) fn invited_job(head: &Head, shared: &Shared, kept: &str, table: OwnTable<'_>) -> String {
    let Head { from, to, address, fingerprint, .. } = head;
    let contact = format!("connect.{} = {}\n{}\n", quoted(from), quoted(address), trust(from, fingerprint));
    job(to, from, shared, kept, &contact, table)
}

fn job(me: &str, other: &str, shared: &Shared, kept: &str, contact: &str, table: OwnTable<'_>) -> String {
    let ending = match shared.result {
        ResultKind::Rows => Some("matched.csv"),
        ResultKind::Groups => Some("groups.csv"),
        ResultKind::Ids => Some("ids.csv"),
        ResultKind::Shares => Some("shares.parquet"),
        ResultKind::Count | ResultKind::Sum => None,
    };
    let ending = ending.filter(|_| shared.learns.iter().any(|name| name == me));
    let output =
        ending.map_or(String::new(), |end| format!("output = {{ path = {} }}\n", quoted(&format!("{me}.{end}"))));
    format!(
        "# {me}'s side of a match with {other}. Run it while {other} runs theirs: vesica run {me}.toml\n{kept}\n\
         # The same for both, and compared before any data moves.\n{shared}\n\
         # Never sent. Paths start at this file's folder.\n[mine]\nname = {name}\n{contact}\
         tls.identity = {identity} # as `vesica cert {me}` makes it\n{input}\n{output}report = {report}\n",
        shared = shared_text(shared),
        name = quoted(me),
        identity = quoted(&format!("{me}.pem")),
        input = input(table, &shared.identifiers),
        report = quoted(&format!("{me}.report.json")),
    )
}

/// The line of the inviting party's job that says of which invitation it is. Its number must be the fresh one that was drawn then.
fn made_with(head: &Head) -> String {
    format!("# Invitation {} to {}.\n", head.number, head.to)
}

/// The line in the place of the fingerprint until the party has replied.
fn waiting(name: &str) -> String {
    format!("# `vesica confirm` writes here whom to trust as {name}, from {name}'s reply.")
}
