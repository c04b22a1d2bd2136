//! An invitation to ask a service that was prepared. The server's document is the operator's: it changes only when they have compared
//! the six words, for a running server lets a client in as soon as it stands there.

use super::{compare, in_folder, new_files, number, reachable, rewrite, stays, write_new};
use crate::failure::{Failure, Outcome};
use crate::flags::Invite;
use crate::output;
use crate::source::server;
use std::path::{Path, PathBuf};
use vesica_job::JobError;
use vesica_job::identity::Fingerprint;
use vesica_job::numbers::count;
use vesica_job::rooms::on_disk;
use vesica_service::spelled;
use vesica_spec::service::{ServePlan, Service};
use vesica_spec::{Head, Invitation, Proposal, Reply, SpecError, Terms, host_and_port, is_every_interface};

/// The server proposes: a file for the client.
pub fn invite(document: &Path, keys_a_day: u64, args: &Invite) -> Outcome {
    let (plan, text) = read(document)?;
    let (own, to) = (fingerprint(&plan)?, &args.to);
    if plan.guests.iter().any(|guest| guest.name == *to) {
        let why = format!(
            "{} lets {to} in already. To invite {to} anew, with another certificate or number of keys, take {to} out first; another client \
             needs another name",
            document.display()
        );
        return Err(SpecError::field(&format!("mine.clients.{to}"), why).into());
    }
    let invitation = Invitation {
        head: Head {
            from: plan.me.name().to_owned(),
            to: to.clone(),
            address: address(args.listen.as_deref(), plan.listen.as_deref(), to)?,
            fingerprint: own.to_string(),
            number: number()?,
        },
        proposal: proposal(&plan, keys_a_day)?,
    };
    // What the client could not accept is not proposed, nor what could not be confirmed.
    let invitation = Invitation::parse(&invitation.text())?;
    invitation.admitted(&text, &Reply { fingerprint: own, number: invitation.head.number.clone() })?;

    let letter = args.out.join(format!("{to}.invite"));
    new_files(&[&letter])?;
    on_disk::make_folder(&on_disk::Files, &args.out, 0o777)
        .map_err(Failure::file("cannot make the folder", &args.out))?;
    write_new(&letter, &invitation.text())?;
    output::result(&format!(
        "{letter}: send it to {to}; nothing in it is secret.\n\n\
         {to} types:  vesica accept {to}.invite --table FILE --key COLUMN\n\
         and sends you a line. Then you type:  vesica confirm --service {document}{dir}\nand paste the line.\n",
        letter = output::shown(&letter),
        document = document.display(),
        dir = in_folder(&args.out),
    ))
}

/// The server shows the six words, and lets the client in once they were compared.
pub fn confirm(
    document: &Path,
    folder: &Path,
    compared: Option<&str>,
    invitation: &Invitation,
    reply: &Reply,
) -> Outcome {
    let (plan, text) = read(document)?;
    let admitted = invitation.admitted(&text, reply)?;
    ours(invitation, &plan, document)?;
    let (to, shown) = (&invitation.head.to, document.display());
    let keys = match &invitation.proposal {
        Proposal::Ask(_, terms) => terms.keys_a_day,
        Proposal::Match(_) => 0,
    };
    let words = invitation.words(reply);
    match compared {
        None => {
            // The letter lay in a folder meanwhile: what it grants is shown before anything is granted.
            let at = &invitation.head.address;
            output::tell(&format!(
                "The letter grants {to} {} keys a day, at {at}. Is that what you wrote?\n",
                count(keys)
            ));
            output::tell(&compare(to, &words));
        }
        // A second line would be another person's, or another letter's: the words that were compared were not about it.
        Some(typed)
            if !typed
                .to_lowercase()
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .eq(words) =>
        {
            return Err(Failure::usage(
                "--compared: these are not the six words of this line; nothing is written. Type the words that you compared by telephone, \
                 and paste the line that they were shown for",
            ));
        }
        Some(_) => {}
    }
    if admitted == text {
        stays(document)?;
        return output::result(&format!("{shown} lets {to} in already, by this very reply.\n"));
    }
    if compared.is_none() {
        return output::result(&format!(
            "Nothing is written yet. When all six words are the same, type them behind this:\n  vesica confirm {} --service {shown}{} --compared \"…\"\n",
            invitation.reply_line(reply),
            in_folder(folder)
        ));
    }
    rewrite(document, &admitted)?;
    output::result(&format!(
        "{shown} lets {to} in now, for {} keys a day. A server that is running has heard of it within a second; where none \
         is, type:  vesica serve {shown}\n",
        count(keys)
    ))
}

/// The server's document where `confirm` names none: the only one of the service `id` in the folder of
/// the letter. Whether the letter is about it, [`confirm`] sees.
pub fn beside(letter: &Path, id: &str) -> Result<PathBuf, Failure> {
    let folder = letter.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder).map_err(Failure::file("cannot read the folder", folder))?;
    let mut found: Vec<PathBuf> = files
        .filter_map(|file| file.ok())
        .map(|file| if folder == Path::new(".") { file.file_name().into() } else { file.path() })
        .filter(|path| path.extension().is_some_and(|end| end == "toml" || end == "json"))
        // What is no document of a server is somebody else's file, or a job's.
        .filter(|path| server(path).is_ok_and(|plan| plan.service.id == id))
        .collect();
    found.sort();
    let why = match &found[..] {
        [document] => return Ok(document.clone()),
        [] => format!("{} has no document of that service", folder.display()),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            format!("{} are documents of that service", names.join(" and "))
        }
    };
    Err(Failure::usage(format!(
        "{} invites to the service {id}, and {why}; name the server's document with --service FILE",
        letter.display()
    )))
}

/// The plan of the server's document, and its text.
fn read(document: &Path) -> Result<(ServePlan, String), Failure> {
    let plan = server(document)?;
    let text = std::fs::read_to_string(document).map_err(Failure::file("cannot read the document", document))?;
    Ok((plan, text))
}

/// The fingerprint of the server's identity, which clients accept today. Whoever invites need not be able to read the private key.
fn fingerprint(plan: &ServePlan) -> Result<Fingerprint, Failure> {
    let Some((certificate, _)) = &plan.identity else {
        let why = "is true, so that the six words would protect nothing; take it out";
        return Err(SpecError::field("service.insecure", why).into());
    };
    Ok(Fingerprint::of_file_in_force(certificate).map_err(JobError::from)?)
}

fn proposal(plan: &ServePlan, keys_a_day: u64) -> Result<Proposal, Failure> {
    let offer = vesica_service::offered(plan)?;
    // What the document leaves to the store is said: the client is told what the store's choice rests on.
    let service = Service { hint: offer.kind().hint, ..plan.service.clone() };
    Ok(Proposal::Ask(service, Terms { offer: spelled(&offer.hash()), keys_a_day }))
}

/// Fails if the words would be about another service than the one of the document, or about another identity.
fn ours(invitation: &Invitation, plan: &ServePlan, document: &Path) -> Outcome {
    let head = &invitation.head;
    // How much may be asked stands in no document before: the words are about it, and the client's line of the document has it.
    let Proposal::Ask(_, Terms { keys_a_day, .. }) = invitation.proposal else { return Ok(()) };
    let same = proposal(plan, keys_a_day)? == invitation.proposal;
    if same && plan.me.name() == head.from && fingerprint(plan)?.to_string() == head.fingerprint {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}.invite is not an invitation to the service of {} as it is prepared now, and to its identity; invite {} anew, in another folder",
        head.to,
        document.display(),
        head.to
    )))
}

/// Where the client `to` reaches the server: what was typed, or where the server listens if that is an address and not every interface.
fn address(given: Option<&str>, listen: Option<&str>, to: &str) -> Result<String, Failure> {
    let one = |address: &&str| host_and_port(address).is_some_and(|(host, _)| !is_every_interface(host));
    match (given, listen.filter(one)) {
        (Some(given), _) => reachable(given, to).map(|_| given.to_owned()),
        (None, Some(listen)) => Ok(listen.to_owned()),
        (None, None) => {
            Err(Failure::usage("say with --listen HOST:PORT where clients reach the server, such as bob.example:5400"))
        }
    }
}
