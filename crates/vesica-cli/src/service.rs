//! `vesica prepare`, `serve`, `fetch` and `ask`: one party prepares and serves, many ask.

use crate::failure::{Failure, Outcome};
use crate::flags::{Ask, Fetch, Prepare, Serve};
use crate::progress::{self, How};
use crate::{interrupt, output};
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;
use vesica_job::numbers::{count, size};
use vesica_service::{Change, spelled};
use vesica_spec::service::{AskPlan, ServePlan, plan_ask, plan_serve};
use vesica_spec::{Document, SpecError};

pub fn prepare(args: Prepare) -> Outcome {
    let plan = server(&args.document)?;
    let screen = progress::begin(if args.quiet { How::Quiet } else { How::Shown });
    interrupt::stops(screen.control())?;
    let change = Change { rotate: args.rotate, append: args.append, remove: args.remove };
    let prepared = vesica_service::prepare(&plan, &change, screen.control())?;
    drop(screen);
    let (part, manifest) = (&prepared.built.part, &prepared.built.manifest);
    let mut text = format!(
        "{}: {} keys in {} parts, {}; read {} rows{}.\n",
        plan.store.display(),
        count(manifest.entries()),
        manifest.parts.len(),
        size(manifest.bytes()),
        count(prepared.rows),
        match prepared.empty {
            0 => String::new(),
            empty => format!(", of which {} have no key and cannot be asked for", count(empty)),
        },
    );
    if part.number > 0 {
        text += &format!(
            "Added {} keys, {} of them with a new value for one that was there; removed {}.\n",
            count(part.entries),
            count(part.replaced),
            count(part.removed)
        );
    }
    if prepared.built.absent > 0 {
        text += &format!("{} keys that were to be removed are not there.\n", count(prepared.built.absent));
    }
    if prepared.offer_changed {
        text += "The offer is another one than before: clients need the new one, and fetch everything again.\n";
    }
    if !prepared.sealed {
        text += &format!(
            "Note: {} is not sealed. Whoever reads it can guess at every key; give mine.secret_key, or a passphrase in \
             VESICA_SERVICE_PASSPHRASE, and prepare again with --rotate.\n",
            plan.secret.path.display()
        );
    }
    output::result(&format!("{text}offer {}\n", spelled(&prepared.offer.hash())))
}

pub fn serve(args: Serve) -> Outcome {
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    // Looked at before it is read: a change in between is then seen as one.
    let seen: Mutex<Option<SystemTime>> = Mutex::new(changed(&args.document));
    let plan = server(&args.document)?;
    let screen = progress::begin(args.log.map_or(How::Shown, How::Logged));
    interrupt::stops(screen.control())?;
    let again = || {
        let now = changed(&args.document);
        let mut seen = seen.lock().expect("nobody panics with it");
        // A file that is just being replaced is looked at in the next turn.
        if now.is_none() || *seen == now {
            return None;
        }
        *seen = now;
        Some(read_server(&args.document))
    };
    Ok(vesica_service::serve(&plan, &again, screen.control())?)
}

pub fn fetch(args: Fetch) -> Outcome {
    let plan = client(&args.document)?;
    let screen = progress::begin(if args.quiet { How::Quiet } else { How::Shown });
    interrupt::stops(screen.control())?;
    let fetched = vesica_service::fetch(&plan, screen.control())?;
    drop(screen);
    let what = match fetched.parts {
        0 => "nothing is new".to_owned(),
        parts => format!("fetched {parts} parts, {}", size(fetched.bytes)),
    };
    let keys = count(fetched.store.len());
    output::result(&format!("{}: {keys} keys of {}; {what}.\n", plan.cache.display(), plan.id))
}

pub fn ask(args: Ask) -> Outcome {
    let mut plan = client(&args.document)?;
    if args.report.is_some() {
        plan.report = args.report;
    }
    let screen = progress::begin(match (args.log, args.quiet) {
        (Some(log), _) => How::Logged(log),
        (None, true) => How::Quiet,
        (None, false) => How::Shown,
    });
    interrupt::stops(screen.control())?;
    let report = vesica_service::ask(&plan, screen.control())?;
    drop(screen);
    // Standard output carries the rows where the document says so; then the report goes to the other stream.
    if plan.output.is_some_and(|output| output.path == Path::new("-")) {
        output::tell(&report.in_words());
        return Ok(());
    }
    output::result(&report.in_words())
}

/// The plan of a server's document.
fn server(path: &Path) -> Result<ServePlan, Failure> {
    Ok(read_server(path)?)
}

fn read_server(path: &Path) -> Result<ServePlan, SpecError> {
    match vesica_spec::load_any(path)? {
        Document::Server(spec) => plan_serve(&spec),
        Document::Client(_) => Err(other(path, "a client's, for `vesica fetch` and `vesica ask`")),
        Document::Job(_) => Err(other(path, "a job's, for `vesica run`")),
    }
}

/// The plan of a client's document.
fn client(path: &Path) -> Result<AskPlan, Failure> {
    Ok(match vesica_spec::load_any(path)? {
        Document::Client(spec) => plan_ask(&spec)?,
        Document::Server(_) => return Err(other(path, "a server's, for `vesica prepare` and `vesica serve`").into()),
        Document::Job(_) => return Err(other(path, "a job's, for `vesica run`").into()),
    })
}

/// A document for other commands.
fn other(path: &Path, what: &str) -> SpecError {
    SpecError { file: Some(path.to_owned()), ..SpecError::field("service", format!("this document is {what}")) }
}
