//! `vesica run`: a job from start to end, or what a SecretFlow configuration asks for.

use crate::failure::Outcome;
use crate::flags::Run;
use crate::progress::{self, How, Screen};
use crate::report::{on_screen, told};
use crate::{interrupt, output, service, source};
use std::path::Path;
use vesica_job::{Event, JobError};
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

fn job(args: Run, spec: &Spec, screen: Screen) -> Outcome {
    screen.of(&spec.shared.id, &spec.mine.name);
    let mut plan = vesica_spec::plan(spec)?;
    let asked = args.report.is_some();
    if asked {
        plan.report = args.report;
    }
    let form = on_screen(plan.report.as_deref(), args.report_format)?;
    interrupt::stops(screen.control())?;
    let report = vesica_job::Io::open(&plan, screen.control())
        .and_then(|io| vesica_job::run(&plan, io, screen.control()))
        .map_err(|error| match error {
            JobError::Spec(wrong) if asked && wrong.field.as_deref() == Some("mine.report") => {
                SpecError::field("--report", wrong.message).into()
            }
            error => error,
        })?;
    drop(screen);

    let text = told(&report, form);
    // Standard output carries the rows where the job says so; then the report goes to the other stream.
    if plan.output.is_some_and(|output| output.path == Path::new("-")) {
        output::tell(&text);
        return Ok(());
    }
    output::result(&text)
}
