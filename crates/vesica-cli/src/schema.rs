//! `vesica schema`: the form of documents and reports, for programs.

use crate::failure::Outcome;
use crate::flags::{Document, Schema};
use crate::output;

pub fn run(args: Schema) -> Outcome {
    output::result(&pretty(&match args.of {
        Document::Job => vesica_spec::schema::job(),
        Document::Service => vesica_spec::schema::service(),
        Document::Client => vesica_spec::schema::client(),
        Document::Report => vesica_job::schema::report(),
    }))
}

/// JSON as it stands in files: indented, with a newline at its end.
pub fn pretty(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    format!("{text}\n")
}
