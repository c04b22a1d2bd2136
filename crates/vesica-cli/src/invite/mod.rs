//! `vesica invite`, `accept`, `confirm`: from nothing to two documents that go together. An invitation is to a match of two tables
//! ([`matching`]), or to a service ([`server`]).

mod matching;
mod pasted;
mod server;

use crate::failure::{Failure, Outcome};
use crate::flags::{Accept, Confirm, Invite, OwnTable};
use crate::output;
use pasted::Terminal;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use vesica_job::JobError;
use vesica_job::identity::{Fingerprint, Identity};
use vesica_job::numbers::count;
use vesica_job::rooms::on_disk;
use vesica_spec::service::plan_ask;
use vesica_spec::{Document, Head, Invitation, Proposal, Reply, SpecError, host_and_port, is_every_interface};

/// The party that invites proposes.
pub fn invite(args: Invite) -> Outcome {
    match (&args.service, args.keys_a_day) {
        (Some(document), Some(keys_a_day)) => server::invite(document, keys_a_day, &args),
        _ => matching::invite(&args),
    }
}

/// The invited party accepts: its identity if there is none, its document, and a line for who invites.
pub fn accept(args: Accept) -> Outcome {
    let invitation = read_invitation(&args.invitation)?;
    let Head { from, to, address, .. } = invitation.head.clone();
    let identity = Own::of(&to, &args.table.out)?;
    let reply = Reply { fingerprint: identity.fingerprint, number: number()? };
    let text = args.table.document(|table| invitation.invited_document(&reply, table));
    let Meant { what, learns, makes } = Meant::of(&invitation, &text, &args.table.out)?;

    let file = args.table.out.join(format!("{to}.toml"));
    // What the run would replace is found now, and not when the partner waits.
    new_files(&makes.iter().chain([&file]).map(PathBuf::as_path).collect::<Vec<_>>())?;
    identity.write(&args.table.out)?;
    write_new(&file, &text)?;
    output::tell(&format!("{from} invites you, {to}, to {what}, at {address}. What {from} proposes:"));
    output::tell(&indented(&invitation.proposed()));
    output::tell(&format!("If you run this, this is who learns what:\n{learns}"));
    let (then, confirm) = match &invitation.proposal {
        Proposal::Match(_) => ("run", "vesica confirm"),
        Proposal::Ask(..) => ("ask", "vesica confirm --service FILE"),
    };
    output::tell(&format!(
        "{file}: your side. Once {from} has the line below, and the words are the same, type:  vesica {then} {file}\n",
        file = output::shown(&file)
    ));
    output::tell(&compare(&from, &invitation.words(&reply)));
    output::tell(&format!("Send this line to {from}, who types `{confirm}` and pastes it there:"));
    output::result(&format!("{}\n", invitation.reply_line(&reply)))
}

/// The party that invited takes the reply.
pub fn confirm(args: Confirm) -> Outcome {
    // It is dropped when this command ends, however it ends: then the rest of a paste is thrown away.
    let terminal = if args.line.is_none() { Terminal::open()? } else { None };
    let line = match &args.line {
        Some(line) => pasted::join(line.as_bytes(), || true, || ()),
        None => pasted::ask(terminal.as_ref()),
    };
    let line = line.map_err(Failure::file("cannot read", "the reply"))?;
    let to = line.split('/').next().unwrap_or_default();
    if !Reply::is_whole(&line) || vesica_spec::check_name("LINE", to).is_err() {
        let begins: String = line.chars().take(80).collect();
        return Err(Failure::usage(format!(
            "{begins:?} is no reply, or not all of one: paste the whole line that your partner's `vesica accept` printed last; it begins \
             with the partner's name"
        )));
    }
    let letter = args.dir.join(format!("{to}.invite"));
    if matches!(letter.try_exists(), Ok(false)) {
        return Err(Failure::usage(format!(
            "{} is not there, and the line answers it: go to the folder where `vesica invite` wrote it, or name that folder with --dir",
            output::shown(&letter)
        )));
    }
    let invitation = read_invitation(&letter)?;
    let reply = invitation.reply(&line)?;
    match (&args.service, &invitation.proposal) {
        (Some(document), _) => server::confirm(document, &args.dir, args.compared.as_deref(), &invitation, &reply),
        (None, Proposal::Match(_)) if args.compared.is_some() => Err(Failure::usage(format!(
            "--compared: {to} was invited to a match, and nothing is compared here: the six words are shown, and whoever compares them \
             begins the run or does not; leave --compared out"
        ))),
        (None, Proposal::Match(_)) => matching::confirm(&args.dir, &invitation, &reply),
        (None, Proposal::Ask(service, _)) => {
            let document = server::beside(&letter, &service.id)?;
            server::confirm(&document, &args.dir, args.compared.as_deref(), &invitation, &reply)
        }
    }
}

/// What a document that was made of an invitation means.
struct Meant {
    /// What its reader is invited to.
    what: String,
    /// Who would learn what.
    learns: String,
    /// The files that running it makes.
    makes: Vec<PathBuf>,
}

impl Meant {
    /// Of the document `text`, whose paths start at `folder` and whose table can be opened and has the key columns.
    fn of(invitation: &Invitation, text: &str, folder: &Path) -> Result<Self, Failure> {
        match (&invitation.proposal, vesica_spec::document(text, false)?) {
            (Proposal::Match(shared), Document::Job(mut spec)) => {
                spec.mine.anchor(folder);
                let plan = vesica_spec::plan(&spec)?;
                vesica_job::has_keys(&plan)?;
                Ok(Self {
                    what: format!("match tables, with the protocol {}", shared.protocol.name()),
                    learns: vesica_job::would_learn(&plan),
                    makes: matching::makes(&plan),
                })
            }
            (Proposal::Ask(service, terms), Document::Client(mut spec)) => {
                spec.anchor(folder);
                let plan = plan_ask(&spec)?;
                vesica_service::has_keys(&plan)?;
                let Head { from, to, .. } = &invitation.head;
                let what =
                    format!("ask the service {}, for {} keys a day at most", service.id, count(terms.keys_a_day));
                let output = plan.output.map(|output| output.path);
                let makes = [Some(plan.cache), output, plan.report].into_iter().flatten().collect();
                Ok(Self { what, learns: vesica_service::would_learn(service, from, to), makes })
            }
            _ => Err(Failure::usage("the invitation makes no document that can be run")),
        }
    }
}

/// What both people are told of the six words.
fn compare(other: &str, words: &[&str]) -> String {
    format!(
        "Six words:  {}\n\
         Call {other} at a number that you had before, not at one that came with a letter, and compare them.\n\
         If one differs, somebody stands between you: do not go on.\n",
        words.join(" ")
    )
}

/// What `vesica confirm` must be told of the folder that the invitation stands in.
fn in_folder(folder: &Path) -> String {
    if folder == Path::new(".") { String::new() } else { format!(" --dir {}", folder.display()) }
}

/// The text of a proposal, in characters that show what they are.
fn indented(text: &str) -> String {
    let plain = |line: &str| -> String { line.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).collect() };
    text.lines().filter(|line| !line.is_empty()).map(|line| format!("  {}\n", plain(line))).collect()
}

/// An identity that is there, or one that is still to be written.
struct Own {
    fingerprint: Fingerprint,
    fresh: Option<Identity>,
}

impl Own {
    fn of(name: &str, folder: &Path) -> Result<Self, Failure> {
        let file = folder.join(format!("{name}.pem"));
        if file.exists() {
            let identity = Identity::load(&file).map_err(JobError::from)?;
            return Ok(Self { fingerprint: in_force(&identity)?, fresh: None });
        }
        let identity = Identity::generate(name).map_err(JobError::from)?;
        Ok(Self { fingerprint: identity.fingerprint(), fresh: Some(identity) })
    }

    fn write(&self, folder: &Path) -> Outcome {
        if let Some(identity) = &self.fresh {
            let (secret, _) = identity.write(folder).map_err(JobError::from)?;
            output::tell(&format!("{}: your private key; give it to nobody", output::shown(&secret)));
        }
        Ok(())
    }
}

/// The fingerprint of an identity that partners accept today. Another one would be refused by the run, after the telephone call.
fn in_force(identity: &Identity) -> Result<Fingerprint, Failure> {
    identity.check_age(0).map_err(JobError::from)?;
    Ok(identity.fingerprint())
}

/// The host and the port of `--listen`, where the partner `to` is to call.
fn reachable<'a>(address: &'a str, to: &str) -> Result<(&'a str, u16), Failure> {
    let Some((host, port)) = host_and_port(address) else {
        return Err(Failure::usage(format!(
            "--listen {address:?} is not HOST:PORT, such as alice.example:5300, 192.0.2.1:5300 or [2001:db8::1]:5300; write a number \
             of IPv4 with four decimal parts"
        )));
    };
    if is_every_interface(host) {
        return Err(Failure::usage(format!(
            "--listen {address}: {host} stands for every interface of a machine, and {to} would reach no machine but {to}'s own. Give \
             the name or the number by which {to} reaches this machine"
        )));
    }
    Ok((host, port))
}

impl OwnTable {
    /// A document about this table. A document's paths start at its own folder.
    fn document<T>(&self, make: impl FnOnce(vesica_spec::OwnTable<'_>) -> T) -> T {
        let here = self.out == Path::new(".");
        let path = if here {
            self.table.clone()
        } else {
            std::path::absolute(&self.table).unwrap_or_else(|_| self.table.clone())
        };
        make(vesica_spec::OwnTable { path: &path, keys: &self.key, value: self.value.as_deref() })
    }
}

fn read_invitation(path: &Path) -> Result<Invitation, Failure> {
    // Longer than any invitation; nobody is believed about how much to read.
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(Failure::file("cannot read the invitation", path))?;
    file.take(MOST).read_to_string(&mut text).map_err(Failure::file("cannot read the invitation", path))?;
    Invitation::parse(&text).map_err(|error| SpecError { file: Some(path.to_owned()), ..error }.into())
}

/// Fails if one is there, before any is written.
fn new_files(files: &[&Path]) -> Outcome {
    match files.iter().find(|file| file.symlink_metadata().is_ok()) {
        Some(file) => Err(Failure::usage(format!(
            "{} is there already, and is not replaced; move it away, or name another folder with --out",
            output::shown(file)
        ))),
        None => Ok(()),
    }
}

fn write_new(path: &Path, text: &str) -> Outcome {
    let written = std::fs::File::create_new(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        on_disk::contents(&file)
    });
    written.and_then(|()| on_disk::name(path)).map_err(Failure::file("cannot write", path))
}

/// Replaces the text of a document at once and for good, and keeps who may read it.
fn rewrite(path: &Path, text: &str) -> Outcome {
    let failed = || Failure::file("cannot write", path);
    // The file itself, where the name is a link.
    let path = path.canonicalize().map_err(failed())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(Failure::file("cannot write in", folder))?;
    new.write_all(text.as_bytes()).map_err(failed())?;
    let mode = path.metadata().map_err(failed())?.permissions();
    new.as_file().set_permissions(mode).and_then(|()| on_disk::contents(new.as_file())).map_err(failed())?;
    new.persist(&path).map_err(|e| failed()(e.error))?;
    on_disk::name(&path).map_err(failed())
}

/// A document that says already what it is to say stays as it is, for good: whoever wrote it may have been killed before its name was on the disk.
fn stays(path: &Path) -> Outcome {
    path.canonicalize().and_then(|path| on_disk::name(&path)).map_err(Failure::file("cannot write", path))
}

/// A number that nobody could foresee: 32 hex digits.
fn number() -> Result<String, Failure> {
    vesica_job::fresh_number().map(|number| format!("{number:032x}")).map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::Witness;

    #[track_caller]
    fn done(outcome: Outcome) {
        assert!(outcome.is_ok());
    }

    /// A reply is confirmed once: a document that went back to what it was would be confirmed again, by another line.
    #[test]
    fn documents_outlive_a_failure_of_power() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link] = ["alice.toml", "link.toml"].map(|name| dir.path().join(name));
        let witness = Witness::of(dir.path());
        done(write_new(&path, "[mine]\n"));
        witness.is_made(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for (named, text) in [(&path, "one"), (&link, "another")] {
            done(rewrite(named, text));
            witness.is_put(&path).unwrap();
            witness.forget();
            assert!(witness.is_named(&path).is_err());
            done(stays(named));
            witness.is_named(&path).unwrap();
        }
    }
}
