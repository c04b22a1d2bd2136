//! `vesica report`: a report that a run wrote, as people look at it.

use crate::failure::{Failure, Outcome};
use crate::flags::{Report as Args, ReportFormat};
use crate::output;
use std::path::Path;
use vesica_job::{Audience, Page, Report, ReportFile};

pub fn run(args: Args) -> Outcome {
    let report = read(&args.report)?;
    let other = args.other.as_deref().map(read).transpose()?;
    let audience = args.for_peer.as_deref().map_or(Audience::Own, Audience::Peer);
    if !args.html && !args.markdown && (other.is_some() || args.for_peer.is_some()) {
        return Err(Failure::usage("a second report and --for-peer are for pages: add --html or --markdown"));
    }
    let page = Page::of(&report, other.as_ref(), audience).map_err(Failure::usage)?;
    let text = match (args.html, args.markdown) {
        (true, _) => page.html(),
        (_, true) => page.markdown(),
        _ => report.in_words(),
    };
    match &args.out {
        Some(path) => std::fs::write(path, text).map_err(Failure::file("cannot write", path)),
        None => output::result(&text),
    }
}

fn read(path: &Path) -> Result<Report, Failure> {
    let text = std::fs::read_to_string(path).map_err(Failure::file("cannot read", path))?;
    serde_json::from_str(&text).map_err(|why| {
        Failure::usage(format!(
            "{} is no report as data: {why}; a run writes one where its job has mine.report, or with --report FILE, if the file's name ends in \
             neither .html nor .md",
            path.display()
        ))
    })
}

/// `report` as it is asked for.
pub fn told(report: &Report, form: ReportFormat) -> String {
    match form {
        ReportFormat::Words => report.in_words(),
        ReportFormat::Html => Page::own(report).html(),
        ReportFormat::Markdown => Page::own(report).markdown(),
        ReportFormat::Secretflow => vesica_secretflow::report(report),
    }
}

/// What standard output gets where the form `asked` is asked for and the report goes to `file` besides. A page is written once: to the file, if
/// the file is named as that page.
///
/// # Errors
/// A file that is named as the page of the other form.
pub fn on_screen(file: Option<&Path>, asked: ReportFormat) -> Result<ReportFormat, Failure> {
    let Some(path) = file else { return Ok(asked) };
    let contradiction = |named: &str, option: &str, end: &str, instead: &str| {
        Err(Failure::usage(format!(
            "the report goes to {}, which is named as {named}, and --report-format {option} asks for another page: name a file that ends in \
             {end}, or take --report-format {instead}",
            path.display()
        )))
    };
    match (ReportFile::named(path), asked) {
        (ReportFile::Html, ReportFormat::Html) | (ReportFile::Markdown, ReportFormat::Markdown) => {
            Ok(ReportFormat::Words)
        }
        (ReportFile::Html, ReportFormat::Markdown) => contradiction("HTML", "markdown", ".md", "html"),
        (ReportFile::Markdown, ReportFormat::Html) => contradiction("Markdown", "html", ".html", "markdown"),
        _ => Ok(asked),
    }
}
