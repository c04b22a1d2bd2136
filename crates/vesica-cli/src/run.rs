//! `vesica run`: a job from start to end, or what a SecretFlow configuration asks for.

use crate::failure::{Failure, Outcome};
use crate::flags::{ReportFormat, Run};
use crate::progress::{self, How, Screen};
use crate::{interrupt, output, service, source};
use std::path::Path;
use vesica_job::{Audience, Event, JobError, Page, Report};
use vesica_secretflow::{Kind, What};
use vesica_spec::{Spec, SpecError};

pub fn run(args: Run) -> Outcome {
    let how = match (args.log, args.quiet) {
        (Some(log), _) => How::Logged(log),
        (None, true) => How::Quiet,
        (None, false) => How::Shown,
    };
    let screen = progress::begin(how);
    let tell = |note: String| {
        tracing::warn!("{note}");
        screen.control().event(Event::Note(note));
    };
    let what = match &args.json {
        Some(text) => {
            source::told(None, vesica_secretflow::read(text, Kind::Launch, &args.source.trust.meant())?, tell)
        }
        None => args.source.what(tell)?,
    };
    match what {
        What::Job(spec) => job(args, &spec, screen),
        What::Server(server) => service::run_server(&args, &server, screen),
        What::Client(client) => service::run_client(args, &client, screen),
    }
}

/// `report` as it is asked for.
pub fn told(report: &Report, form: ReportFormat) -> Result<String, Failure> {
    let page = || Page::of(report, None, Audience::Own).map_err(Failure::usage);
    Ok(match form {
        ReportFormat::Words => report.in_words(),
        ReportFormat::Html => page()?.html(),
        ReportFormat::Markdown => page()?.markdown(),
        ReportFormat::Secretflow => vesica_secretflow::report(report),
    })
}

fn job(args: Run, spec: &Spec, screen: Screen) -> Outcome {
    let mut plan = vesica_spec::plan(spec)?;
    let asked = args.report.is_some();
    if asked {
        plan.report = args.report;
    }
    interrupt::stops(screen.control())?;
    let report =
        vesica_job::Io::files(&plan).and_then(|io| vesica_job::run(&plan, io, screen.control())).map_err(|error| {
            match error {
                JobError::Spec(wrong) if asked && wrong.field.as_deref() == Some("mine.report") => {
                    SpecError::field("--report", wrong.message).into()
                }
                error => error,
            }
        })?;
    drop(screen);

    let text = told(&report, args.report_format)?;
    // Standard output carries the rows where the job says so; then the report goes to the other stream.
    if plan.output.is_some_and(|output| output.path == Path::new("-")) {
        output::tell(&text);
        return Ok(());
    }
    output::result(&text)
}
