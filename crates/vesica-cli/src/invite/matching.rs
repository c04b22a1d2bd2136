//! An invitation to match two tables.

use super::{Meant, Own, compare, in_folder, in_force, new_files, number, reachable, rewrite, stays, write_new};
use crate::failure::{Failure, Outcome};
use crate::flags::{Invite, OwnTable};
use crate::output;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use vesica_job::JobError;
use vesica_job::identity::Identity;
use vesica_spec::{Head, Invitation, Plan, Proposal, Reply, Shared, SpecError};

/// alice proposes: her identity if there is none, her job, and a file for bob.
pub fn invite(args: &Invite) -> Outcome {
    let (Some(from), Some(table), Some(address)) = (&args.from, &args.table, &args.listen) else {
        return Err(Failure::usage("give --as, --table and --listen, or --service"));
    };
    let (key, value, out) = (args.key.clone(), args.value.clone(), args.out.clone());
    let table = OwnTable { table: table.clone(), key, value, out };
    let to = &args.to;
    let (host, port) = reachable(address, to)?;
    let listen = listening(host, port);
    let identity = Own::of(from, &args.out)?;
    let invitation = Invitation {
        head: Head {
            from: from.clone(),
            to: to.clone(),
            address: address.clone(),
            fingerprint: identity.fingerprint.to_string(),
            number: number()?,
        },
        proposal: Proposal::Match(Box::new(shared(from, args).map_err(with_flag)?)),
    };
    // What the other side could not accept is not proposed, nor what could not be confirmed.
    let invitation = Invitation::parse(&invitation.text())?;
    let job = table.document(|table| invitation.inviting_job(&listen, table))?;
    let someone = Reply { fingerprint: identity.fingerprint, number: invitation.head.number.clone() };
    let confirmed = invitation.confirmed(&job, &someone)?;
    // Before anything else is looked at, because here an error can still name the flag.
    vesica_spec::parse(&confirmed).and_then(|spec| vesica_spec::plan(&spec)).map_err(with_flag)?;
    let meant = Meant::of(&invitation, &confirmed, &args.out)?;

    let (job_file, letter) = (args.out.join(format!("{from}.toml")), args.out.join(format!("{to}.invite")));
    let makes = meant.makes.iter().chain([&job_file, &letter]);
    new_files(&makes.map(PathBuf::as_path).collect::<Vec<_>>())?;
    identity.write(&args.out)?;
    write_new(&job_file, &job)?;
    write_new(&letter, &invitation.text())?;
    output::result(&format!(
        "{letter}: send it to {to}; nothing in it is secret.\n\
         {job_file}: your side of the match. It waits for {to}'s reply.\n\n\
         {to} types:  vesica accept {to}.invite --table FILE {keys}\n\
         and sends you a line. Then you type:  vesica confirm{dir}\nand paste the line.\n",
        letter = output::shown(&letter),
        job_file = output::shown(&job_file),
        keys = invitation.key_flags(),
        dir = in_folder(&args.out),
    ))
}

/// alice puts bob's reply into her job.
pub fn confirm(folder: &Path, invitation: &Invitation, reply: &Reply) -> Outcome {
    let Head { from, to, .. } = &invitation.head;
    let job_file = folder.join(format!("{from}.toml"));
    let job = std::fs::read_to_string(&job_file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!(
            "{} is not there: `vesica confirm` is for {from}, who invited, in the folder where `vesica invite` wrote that file. If you are \
             {to}, you have nothing to confirm: send the line to {from}",
            output::shown(&job_file)
        )),
        _ => Failure::file("cannot read the job", &job_file)(error),
    })?;
    let confirmed = invitation.confirmed(&job, reply)?;
    ours(invitation, &job, folder)?;
    if confirmed == job {
        stays(&job_file)?
    } else {
        rewrite(&job_file, &confirmed)?
    }
    output::tell(&compare(to, &invitation.words(reply)));
    output::result(&format!(
        "{job_file} is ready. When all six words are the same, you type:  vesica run {job_file}\n\
         and {to} types:  vesica run {to}.toml\n",
        job_file = output::shown(&job_file),
    ))
}

/// The files that running a job makes.
pub fn makes(plan: &Plan) -> Vec<PathBuf> {
    let output = plan.output.as_ref().map(|output| output.path.clone());
    [output, plan.report.clone()].into_iter().flatten().collect()
}

/// Fails if the words would be about something else than what will run: a letter that was replaced since, or another identity.
fn ours(invitation: &Invitation, job: &str, folder: &Path) -> Outcome {
    let mut spec = vesica_spec::parse(job)?;
    spec.mine.anchor(folder);
    let head = &invitation.head;
    let identity =
        spec.mine.tls.as_ref().map(|tls| Identity::load(&tls.identity)).transpose().map_err(JobError::from)?;
    let own = identity.as_ref().map(in_force).transpose()?;
    let is_mine = own.is_some_and(|own| own.to_string() == head.fingerprint);
    if Proposal::Match(Box::new(spec.shared)) == invitation.proposal && spec.mine.name == head.from && is_mine {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}.invite is not the invitation that {}.toml and its identity were made with; invite {} anew, in another folder",
        head.to, head.from, head.to
    )))
}

/// What both would agree on.
fn shared(from: &str, args: &Invite) -> Result<Shared, SpecError> {
    let parties = [from.to_owned(), args.to.clone()];
    let learns = if args.learns.is_empty() { parties.to_vec() } else { args.learns.clone() };
    let id = args.id.clone().unwrap_or_else(|| format!("{from}-{}", args.to));
    let quoted = |names: &[String]| serde_json::to_string(names).expect("names");
    let mut text = format!(
        "[shared]\nid = {id:?}\nparties = {}\nprotocol = {:?}\nlearns = {}\naccept = {}\n",
        quoted(&parties),
        args.protocol,
        quoted(&learns),
        quoted(&args.accept),
    );
    if let Some(result) = &args.result {
        text += &format!("result = {result:?}\n");
    }
    if let Some(curve) = &args.curve {
        text += &format!("curve = {curve:?}\n");
    }
    if let Some(security) = &args.security {
        text += &format!("security = {security:?}\n");
    }
    if let Some(matching) = &args.matching {
        text += &format!("match = {matching:?}\n");
    }
    if !args.identifier.is_empty() {
        let all: Vec<String> = args.identifier.iter().map(|given| identifier(given)).collect();
        text += &format!("identifiers = [{}]\n", all.join(", "));
    }
    // The rest of a job, so that errors are those of a job's fields.
    text += &format!("[mine]\nname = {from:?}\ninput = {{ path = \"-\", keys = [\"-\"] }}\n");
    // The text was made here, so a place in it says nothing to whoever typed the flags.
    let spec = vesica_spec::parse(&text).map_err(|error| SpecError { place: None, ..error })?;
    Ok(spec.shared)
}

/// `person=trim,lower;digits` as it stands in a job.
fn identifier(given: &str) -> String {
    let (name, rules) = given.split_once('=').unwrap_or((given, ""));
    let list = |rules: &str| {
        let rules = rules.split(',').filter(|rule| !rule.is_empty()).map(|rule| format!("{rule:?}"));
        format!("[{}]", rules.collect::<Vec<_>>().join(", "))
    };
    let lists = rules.split(';').map(list).collect::<Vec<_>>().join(", ");
    format!("{{ name = {name:?}, rules = [{lists}] }}")
}

/// An error about a field of the job, with the flag that the field comes from: who typed flags has written no field.
fn with_flag(error: SpecError) -> SpecError {
    let field = error.field.clone().unwrap_or_default();
    let Some(name) = field.strip_prefix("shared.") else { return error };
    let flag = match name {
        "id" | "protocol" | "result" | "curve" | "security" => format!("with `vesica invite` this is --{name}"),
        "accept" | "learns" => format!("with `vesica invite` this is --{name} NAME, once for each name"),
        "match" | "identifiers" | "identifiers.name" => {
            "with `vesica invite` these are --match and --identifier NAME=RULES, once for each kind".to_owned()
        }
        "parties" => "with `vesica invite` these are --as and --to".to_owned(),
        _ => "`vesica invite` has no flag for this: write both jobs by hand; `vesica cert` makes the identities"
            .to_owned(),
    };
    SpecError { message: format!("{} ({flag})", error.message), ..error }
}

/// Where to listen, so that the partner can call `host` and `port`: on every interface, but for calls from this machine on that one alone.
fn listening(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip.is_loopback() => SocketAddr::new(ip, port).to_string(),
        Ok(IpAddr::V6(_)) => format!("[::]:{port}"),
        Err(_) if host == "localhost" => format!("{host}:{port}"),
        _ => format!("0.0.0.0:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_given_with_their_rules() {
        for (given, written) in [
            ("email=email", r#"{ name = "email", rules = [["email"]] }"#),
            ("phone=nfkc,phone:CH", r#"{ name = "phone", rules = [["nfkc", "phone:CH"]] }"#),
            ("person=lower;digits;", r#"{ name = "person", rules = [["lower"], ["digits"], []] }"#),
            ("account", r#"{ name = "account", rules = [[]] }"#),
        ] {
            assert_eq!(identifier(given), written);
        }
    }

    #[test]
    fn a_job_listens_where_its_invitation_says_that_it_can_be_called() {
        for (address, listen) in [
            ("alice.example:5300", "0.0.0.0:5300"),
            ("192.0.2.1:5300", "0.0.0.0:5300"),
            ("[2001:db8::1]:5300", "[::]:5300"),
            ("[::ffff:192.0.2.1]:5300", "0.0.0.0:5300"),
            ("localhost:5300", "localhost:5300"),
            ("127.0.0.1:5300", "127.0.0.1:5300"),
            ("[::1]:5300", "[::1]:5300"),
            ("[::ffff:127.0.0.1]:5300", "127.0.0.1:5300"),
        ] {
            let (host, port) = vesica_spec::host_and_port(address).unwrap();
            assert_eq!(listening(host, port), listen, "{address}");
        }
    }
}
