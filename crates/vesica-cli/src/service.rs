//! `vesica prepare`, `serve`, `fetch` and `ask`: one party prepares and serves, many ask.

use crate::failure::{Failure, Outcome};
use crate::flags::{Ask, Audit, Fetch, Prepare, ReportFormat, Run, Serve};
use crate::progress::{self, How, Screen};
use crate::report::{on_screen, told};
use crate::source::{client, read_server, server};
use crate::{interrupt, output};
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;
use vesica_job::numbers::{count, counted, size, worded};
use vesica_job::{JobError, World};
use vesica_secretflow::{Client, Server};
use vesica_service::{Again, Brought, Built, Change, Changed, Offer, Prepared, Product, spelled};
use vesica_spec::SpecError;
use vesica_spec::service::{AskPlan, ServePlan};

pub fn prepare(args: Prepare) -> Outcome {
    let plan = server(&args.document)?;
    let screen = progress::begin(if args.quiet { How::Quiet } else { How::Shown });
    interrupt::stops(screen.control())?;
    let change = Change { rotate: args.rotate, append: args.append, remove: args.remove };
    let prepared = vesica_service::prepare(&plan, &change, &World::default(), screen.control())?;
    drop(screen);
    output::result(&in_words(&plan, &prepared))
}

pub fn audit(args: Audit) -> Outcome {
    let plan = if args.store.is_dir() { None } else { Some(server(&args.store)?) };
    let folder = plan.as_ref().map_or(&args.store, |plan| &plan.store);
    let workers = match &plan {
        Some(plan) => plan.workers,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let screen = progress::begin(How::Shown);
    interrupt::stops(screen.control())?;
    let checked = vesica_service::audit_store(folder, plan.as_ref(), workers, &World::default(), screen.control())?;
    drop(screen);
    output::result(&checked.in_words())?;
    match checked.findings.iter().find(|finding| !finding.good) {
        None => Ok(()),
        Some(bad) => Err(Failure::new(
            3,
            format!("{}: {}: {}. Clients refuse it; run `vesica prepare`", folder.display(), bad.what, bad.found),
        )),
    }
}

/// What was prepared; the last line is the offer.
fn in_words(plan: &ServePlan, prepared: &Prepared) -> String {
    let mut text = match &prepared.product {
        Product::Store(built) => store_in_words(plan, prepared, built),
        Product::Table(made) => format!(
            "{}: {}, {}: {} in {} of {}, {}; clients copy {} first. {}Read {}{}.\n",
            plan.store.display(),
            prepared.offer.kind(),
            made.epoch.spelled(),
            counted(made.epoch.rows, "rows"),
            counted(made.epoch.records, "records"),
            counted(made.epoch.width.into(), "bytes"),
            size(made.epoch.records * u64::from(made.epoch.width)),
            size(made.epoch.copy + made.epoch.log),
            made.changed.as_ref().map_or(String::new(), changed_in_words),
            counted(prepared.rows, "rows"),
            without_key(prepared.empty)
        ),
    };
    if let Product::Table(made) = &prepared.product
        && let Some(until) = made.epoch.until_in_words()
    {
        text += &format!("Clients take this epoch until {until}; prepare it again before that.\n");
    }
    text += &before_in_words(plan, prepared);
    if prepared.offer_changed {
        text += "The offer is another one than before: clients need the new one, and fetch everything again.\n";
    }
    for (of, path) in &prepared.unsealed {
        text += &format!(
            "Note: {} is not sealed. Whoever reads this {} can {}; give mine.secret_key, or a passphrase in VESICA_SERVICE_PASSPHRASE, and \
             prepare again with --rotate.\n",
            path.display(),
            of.what(),
            of.opens()
        );
    }
    format!("{text}offer {}\n", spelled(&prepared.offer.hash()))
}

/// What a store that was made anew no longer has of the one before: what was appended to that one stands in no table of this document.
fn before_in_words(plan: &ServePlan, prepared: &Prepared) -> String {
    let Some(before) = prepared.before else { return String::new() };
    let (now, what) = match &prepared.product {
        Product::Store(built) => (built.manifest.entries(), "keys"),
        // What changed is said already.
        Product::Table(made) if made.changed.is_some() => return String::new(),
        Product::Table(made) => (made.epoch.rows, "rows"),
    };
    let input = plan.input.as_ref().map(|input| input.origin.name().display().to_string()).unwrap_or_default();
    match (before.changed, before.keys > now) {
        (true, _) => format!(
            "Before, there were {}, as --append and --remove had changed them. Now there is what {input} holds: a key that was appended \
             and is not in it is gone, and one that was removed and is in it is back.\n",
            counted(before.keys, what)
        ),
        (false, true) => {
            format!("Before, there were {}: what {input} does not hold is gone.\n", counted(before.keys, what))
        }
        (false, false) => String::new(),
    }
}

/// What changed in a table of records.
fn changed_in_words(changed: &Changed) -> String {
    let Changed { rows, replaced, removed, absent, patch } = *changed;
    let follow = match patch {
        Some(bytes) => format!("clients with the epoch before copy {}", size(bytes)),
        None => "clients copy everything anew".to_owned(),
    };
    format!(
        "Added {}, changed {}, removed {}; {} to be removed were not there; {follow}. ",
        count(rows - replaced),
        count(replaced),
        count(removed),
        count(absent)
    )
}

fn without_key(rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => {
            let (one, many) = ("has no key and cannot be asked for", "have no key and cannot be asked for");
            format!(", of which {}", worded(rows, one, many))
        }
    }
}

fn store_in_words(plan: &ServePlan, prepared: &Prepared, built: &Built) -> String {
    let (part, manifest) = (&built.part, &built.manifest);
    let mut text = format!(
        "{}: {} in {}, {}; read {}{}.\n",
        plan.store.display(),
        counted(manifest.entries(), "keys"),
        counted(manifest.parts.len() as u64, "parts"),
        size(manifest.bytes()),
        counted(prepared.rows, "rows"),
        without_key(prepared.empty),
    );
    if part.number > 0 {
        text += &format!(
            "Added {}, {} of them with a new value for one that was there; removed {}.\n",
            counted(part.entries, "keys"),
            count(part.replaced),
            count(part.removed)
        );
    }
    if built.absent > 0 {
        let (one, many) = ("key that was to be removed is not there", "keys that were to be removed are not there");
        text += &format!("{}.\n", worded(built.absent, one, many));
    }
    text
}

pub fn serve(args: Serve) -> Outcome {
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    // Looked at before it is read: a change in between is then seen as one.
    let seen: Mutex<Option<SystemTime>> = Mutex::new(changed(&args.document));
    let plan = server(&args.document)?;
    let hung_up = interrupt::hangups()?;
    let screen = progress::begin(args.log.map_or(How::Shown, How::Logged));
    screen.of(&plan.service.id, plan.me.name());
    interrupt::stops(screen.control())?;
    let again = || {
        let asked = hung_up();
        let now = changed(&args.document);
        let mut seen = seen.lock().expect("nobody panics with it");
        // A file that is just being replaced is looked at in the next turn.
        if !asked && (now.is_none() || *seen == now) {
            return None;
        }
        *seen = now;
        Some(Again { plan: read_server(&args.document), asked })
    };
    Ok(vesica_service::serve(&plan, &World::default(), &again, screen.control())?)
}

pub fn fetch(args: Fetch) -> Outcome {
    let plan = client(&args.document)?;
    let screen = progress::begin(if args.quiet { How::Quiet } else { How::Shown });
    interrupt::stops(screen.control())?;
    let fetched = vesica_service::fetch(&plan, &World::default(), screen.control())?;
    drop(screen);
    output::result(&fetched_in_words(&plan, &fetched))
}

fn fetched_in_words(plan: &AskPlan, brought: &Brought) -> String {
    let what = brought.new.as_deref().unwrap_or("nothing is new");
    format!("{}: {} of {}; {what}.\n", plan.cache.display(), counted(brought.rows, brought.of), plan.id)
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
    screen.of(&plan.id, plan.me.name());
    interrupt::stops(screen.control())?;
    let run = vesica_service::ask(&plan, vesica_service::files(&plan)?, screen.control())?;
    drop(screen);
    // Standard output carries the rows where the document says so; then the report goes to the other stream.
    match plan.output.as_ref().is_some_and(|output| output.path == Path::new("-")) {
        true => output::tell(&run.report.in_words()),
        false => output::result(&run.report.in_words())?,
    }
    // Last of all: whoever is told that the command failed starts it again, and is to be told the same then.
    run.end()?;
    Ok(())
}

/// The server's part of a SecretFlow configuration: makes the store, serves one client, or both.
pub fn run_server(args: &Run, server: &Server, screen: Screen) -> Outcome {
    no_report(args)?;
    let plan = server.plan()?;
    interrupt::stops(screen.control())?;
    let (mut text, mut rows) = (String::new(), 0);
    if server.prepares {
        // As with SecretFlow, a new cache has a new key unless the file names one.
        let change = Change { rotate: plan.seed.is_none(), ..Change::default() };
        let prepared = vesica_service::prepare(&plan, &change, &World::default(), screen.control())?;
        (text, rows) = (in_words(&plan, &prepared), prepared.rows);
    }
    if server.serves {
        vesica_service::serve(&plan, &World::default(), &|| None, screen.control())?;
        screen.control().check().map_err(JobError::from)?;
    }
    drop(screen);
    result(args.report_format, text, rows)
}

/// The client's part of a SecretFlow configuration: fetches, asks, or both.
pub fn run_client(args: Run, client: &Client, screen: Screen) -> Outcome {
    let mut plan = client.plan()?;
    interrupt::stops(screen.control())?;
    if !client.asks {
        no_report(&args)?;
        let fetched = vesica_service::fetch(&plan, &World::default(), screen.control())?;
        drop(screen);
        return result(args.report_format, fetched_in_words(&plan, &fetched), 0);
    }
    if !client.fetches {
        let kept = Offer::load(&plan.cache).map_err(|_| {
            let path = plan.cache.display();
            let why =
                format!("{path} has nothing that was fetched: run MODE_OFFLINE or MODE_OFFLINE_TRANSFER_CACHE first");
            SpecError::field("ub_psi_config.cache_path", why)
        })?;
        plan.offer = Some(kept.hash());
    }
    let form = on_screen(args.report.as_deref(), args.report_format)?;
    plan.report = args.report;
    let asked = vesica_service::ask(&plan, vesica_service::files(&plan)?, screen.control())?;
    drop(screen);
    output::result(&told(&asked.report, form))?;
    asked.end()?;
    Ok(())
}

/// A report is of a result, and only who asks gets one.
fn no_report(args: &Run) -> Outcome {
    match args.report {
        Some(_) => {
            Err(Failure::usage("--report: this party gets no result, so there is no report to write; leave it out"))
        }
        None => Ok(()),
    }
}

/// The end of a step that tells nobody a result: `text`, or the numbers that SecretFlow would print.
fn result(format: ReportFormat, text: String, rows: u64) -> Outcome {
    output::result(&match format {
        ReportFormat::Words | ReportFormat::Html | ReportFormat::Markdown => text,
        ReportFormat::Secretflow => vesica_secretflow::report_without_result(rows),
    })
}
