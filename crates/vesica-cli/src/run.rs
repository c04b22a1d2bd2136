//! `vesica run`: a job from start to end.

use crate::failure::Outcome;
use crate::flags::Run;
use crate::progress::{self, How};
use crate::{interrupt, output};
use std::path::Path;
use vesica_job::spec;

pub fn run(args: Run) -> Outcome {
    let how = match (args.log, args.quiet) {
        (Some(log), _) => How::Logged(log),
        (None, true) => How::Quiet,
        (None, false) => How::Shown,
    };
    let screen = progress::begin(how);
    let mut plan = vesica_job::plan(&spec::load(&args.job)?)?;
    if args.report.is_some() {
        plan.report = args.report;
    }
    interrupt::stops(screen.control())?;
    let report = vesica_job::run(&plan, screen.control())?;
    drop(screen);

    // Standard output carries the rows where the job says so; then the words go to the other stream.
    if plan.output.is_some_and(|output| output.path == Path::new("-")) {
        output::tell(&report.in_words());
        return Ok(());
    }
    output::result(&report.in_words())
}
