//! `vesica invite`, `accept`, `confirm`: from nothing to two job files that go together.

use crate::failure::{Failure, Outcome};
use crate::flags::{Accept, Confirm, Invite, OwnTable};
use crate::output;
use std::io::Write;
use std::path::{Path, PathBuf};
use vesica_job::JobError;
use vesica_job::identity::{Fingerprint, Identity};
use vesica_spec::{Head, Invitation, Reply, Shared, SpecError};

/// alice proposes: her identity if there is none, her job, and a file for bob.
pub fn invite(args: Invite) -> Outcome {
    let (from, to) = (&args.from, &args.to);
    let listen = listening(&args.listen)?;
    let identity = Own::of(from, &args.table.out)?;
    let invitation = Invitation {
        invitation: Head {
            from: from.clone(),
            to: to.clone(),
            address: args.listen.clone(),
            fingerprint: identity.fingerprint.to_string(),
            number: number()?,
        },
        shared: shared(&args)?,
    };
    // What the other side could not accept is not proposed.
    let invitation = Invitation::parse(&invitation.text())?;
    let job = args.table.job(|table| invitation.inviting_job(&listen, table));
    let someone = Reply { fingerprint: identity.fingerprint, number: invitation.invitation.number.clone() };
    args.table.try_out(&invitation.confirmed(&job, &someone)?)?;

    let (job_file, letter) = (args.table.file(from, "toml"), args.table.file(to, "invite"));
    new_files(&[&job_file, &letter])?;
    identity.write(&args.table.out)?;
    write_new(&job_file, &job)?;
    write_new(&letter, &invitation.text())?;
    output::result(&format!(
        "{letter}: send it to {to}; nothing in it is secret.\n\
         {job_file}: your side of the match. It waits for {to}'s reply.\n\n\
         {to} types:  vesica accept {to}.invite --table FILE --key COLUMN\n\
         and sends you a line. Then you type:  vesica confirm LINE\n",
        letter = letter.display(),
        job_file = job_file.display(),
    ))
}

/// bob accepts: his identity if there is none, his job, and a line for alice.
pub fn accept(args: Accept) -> Outcome {
    let invitation = read_invitation(&args.invitation)?;
    let Head { from, to, address, .. } = invitation.invitation.clone();
    let identity = Own::of(&to, &args.table.out)?;
    let job = args.table.job(|table| invitation.invited_job(table));
    let plan = args.table.try_out(&job)?;

    let reply = Reply { fingerprint: identity.fingerprint, number: number()? };
    let job_file = args.table.file(&to, "toml");
    new_files(&[&job_file])?;
    identity.write(&args.table.out)?;
    write_new(&job_file, &job)?;
    let learns = vesica_job::would_learn(&plan);
    output::tell(&format!(
        "{from} invites you, {to}, to match tables by {}, at {address}.",
        plan.choice.protocol.name()
    ));
    output::tell(&format!("If you run this job, this is who learns what:\n{learns}"));
    output::tell(&format!("{}: your side of the match.\n", job_file.display()));
    output::tell(&compare(&from, &invitation.words(&reply)));
    output::tell(&format!("Send this line to {from}, who types `vesica confirm LINE`:"));
    output::result(&format!("{}\n", invitation.reply_line(&reply)))
}

/// alice puts bob's reply into her job.
pub fn confirm(args: Confirm) -> Outcome {
    let to = args.line.split('/').next().unwrap_or_default();
    vesica_spec::check_name("LINE", to)?;
    let invitation = read_invitation(&args.dir.join(format!("{to}.invite")))?;
    let reply = invitation.reply(&args.line)?;
    let Head { from, to, .. } = &invitation.invitation;
    let job_file = args.dir.join(format!("{from}.toml"));
    let job = std::fs::read_to_string(&job_file).map_err(Failure::file("cannot read the job", &job_file))?;
    let confirmed = invitation.confirmed(&job, &reply)?;
    ours(&invitation, &job, &args.dir)?;
    let mut new = tempfile::NamedTempFile::new_in(&args.dir).map_err(Failure::file("cannot write in", &args.dir))?;
    new.write_all(confirmed.as_bytes()).map_err(Failure::file("cannot write", &job_file))?;
    new.persist(&job_file).map_err(|e| Failure::file("cannot write", &job_file)(e.error))?;
    output::tell(&compare(to, &invitation.words(&reply)));
    output::result(&format!("{} trusts {to} now. On both machines: vesica run FILE.toml\n", job_file.display()))
}

/// Fails if the words would be about something else than what will run: a letter that was replaced since, or another identity.
fn ours(invitation: &Invitation, job: &str, folder: &Path) -> Outcome {
    let mut spec = vesica_spec::parse(job)?;
    spec.mine.anchor(folder);
    let head = &invitation.invitation;
    let identity =
        spec.mine.tls.as_ref().map(|tls| Identity::load(&tls.identity)).transpose().map_err(JobError::from)?;
    let is_mine = identity.is_some_and(|identity| identity.fingerprint().to_string() == head.fingerprint);
    if spec.shared == invitation.shared && spec.mine.name == head.from && is_mine {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}.invite is not the invitation that {}.toml and its identity were made with; invite {} anew, in another folder",
        head.to, head.from, head.to
    )))
}

/// What both people are told of the six words.
fn compare(other: &str, words: &[&str]) -> String {
    format!(
        "Six words:  {}\n\
         Call {other} and compare them. If one differs, somebody stands between you: do not run the job.\n",
        words.join(" ")
    )
}

/// What both would agree on.
fn shared(args: &Invite) -> Result<Shared, SpecError> {
    let parties = [args.from.clone(), args.to.clone()];
    let learns = if args.learns.is_empty() { parties.to_vec() } else { args.learns.clone() };
    let id = args.id.clone().unwrap_or_else(|| format!("{}-{}", args.from, args.to));
    let quoted = |names: &[String]| serde_json::to_string(names).expect("names");
    let mut text = format!(
        "[shared]\nid = {id:?}\nparties = {}\nprotocol = {:?}\nlearns = {}\naccept = {}\n",
        quoted(&parties),
        args.protocol,
        quoted(&learns),
        quoted(&args.accept),
    );
    if let Some(curve) = &args.curve {
        text += &format!("curve = {curve:?}\n");
    }
    if let Some(security) = &args.security {
        text += &format!("security = {security:?}\n");
    }
    // The rest of a job, so that errors are those of a job's fields.
    text += &format!("[mine]\nname = {:?}\ninput = {{ path = \"-\", keys = [\"-\"] }}\n", args.from);
    // The text was made here, so a place in it says nothing to whoever typed the flags.
    let spec = vesica_spec::parse(&text).map_err(|error| SpecError { place: None, ..error })?;
    Ok(spec.shared)
}

/// Where to listen, of an address that the other party calls: on every interface, but for this machine alone.
fn listening(address: &str) -> Result<String, Failure> {
    let wrong = || Failure::usage(format!("--listen {address:?} is not HOST:PORT, such as alice.example:5300"));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().ok().filter(|port| *port > 0 && !host.is_empty()).ok_or_else(wrong)?;
    let local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    Ok(if local { address.to_owned() } else { format!("0.0.0.0:{port}") })
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
            return Ok(Self { fingerprint: identity.fingerprint(), fresh: None });
        }
        let identity = Identity::generate(name).map_err(JobError::from)?;
        Ok(Self { fingerprint: identity.fingerprint(), fresh: Some(identity) })
    }

    fn write(&self, folder: &Path) -> Outcome {
        if let Some(identity) = &self.fresh {
            let (secret, _) = identity.write(folder).map_err(JobError::from)?;
            output::tell(&format!("{}: your private key; give it to nobody", secret.display()));
        }
        Ok(())
    }
}

impl OwnTable {
    fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.out.join(format!("{name}.{ending}"))
    }

    /// A job about this table. A job's paths start at its own folder.
    fn job(&self, job: impl FnOnce(vesica_spec::OwnTable<'_>) -> String) -> String {
        let here = self.out == Path::new(".");
        let path = if here {
            self.table.clone()
        } else {
            std::path::absolute(&self.table).unwrap_or_else(|_| self.table.clone())
        };
        job(vesica_spec::OwnTable { path: &path, keys: &self.key })
    }

    /// The plan of a job whose table can be opened and has the key columns.
    fn try_out(&self, job: &str) -> Result<vesica_spec::Plan, Failure> {
        let mut spec = vesica_spec::parse(job)?;
        spec.mine.anchor(&self.out);
        let plan = vesica_spec::plan(&spec)?;
        vesica_job::has_keys(&plan)?;
        Ok(plan)
    }
}

fn read_invitation(path: &Path) -> Result<Invitation, Failure> {
    // Longer than any invitation; nobody is believed about how much to read.
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(Failure::file("cannot read the invitation", path))?;
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MOST), &mut text)
        .map_err(Failure::file("cannot read the invitation", path))?;
    Invitation::parse(&text).map_err(|error| SpecError { file: Some(path.to_owned()), ..error }.into())
}

/// Fails if one is there, before any is written.
fn new_files(files: &[&Path]) -> Outcome {
    match files.iter().find(|file| file.exists()) {
        Some(file) => Err(Failure::usage(format!(
            "{} is there already, and is not replaced; move it away, or name another folder with --out",
            file.display()
        ))),
        None => Ok(()),
    }
}

fn write_new(path: &Path, text: &str) -> Outcome {
    let new = std::fs::File::create_new(path);
    new.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Failure::file("cannot write", path))
}

/// A number that nobody could foresee: 32 hex digits.
fn number() -> Result<String, Failure> {
    vesica_job::fresh_number().map(|number| format!("{number:032x}")).map_err(Failure::from)
}
