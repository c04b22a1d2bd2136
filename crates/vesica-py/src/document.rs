//! Documents as Python gives them: a file, or a dict as JSON.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::Path;
use vesica_spec::service::{ClientSpec, ServerSpec};
use vesica_spec::{Document, Input, Output, Spec};

/// Where rows go that are kept in memory: the engine asks for a path, and never writes there.
const MEMORY: &str = "rows that are kept in memory";

/// A job, and whether its rows are to be kept in memory.
pub struct Meant {
    /// The job.
    pub spec: Spec,
    /// Whether it names no file for the rows.
    pub keep: bool,
}

/// The job in `document`, which is a path, or JSON if `is_json`. With a table `given`, it needs to name no file to read; nor does it
/// with `files`, which is JSON of what stands in `mine.input` besides its columns, and holds in the place of what stands there.
pub fn job(document: &str, is_json: bool, given: bool, files: Option<&str>) -> Result<Meant, Failure> {
    let given = given || files.is_some();
    let document = match any(document, is_json) {
        Ok(document) => document,
        Err(error) if error.says("missing field `path`") && is_json && !given && lacks_table(document) => {
            return Err(Failure::config(
                "mine.input names no table: give it with input=, or the name of its file in mine.input.path",
            ));
        }
        Err(error) => completed(document, is_json, given).ok_or(error)??,
    };
    let mut spec = match document {
        Document::Job(spec) => *spec,
        Document::Server(_) => return Err(Failure::config("this document is a server's: use vesica.Service")),
        Document::Client(_) => return Err(Failure::config("this document is a client's: use vesica.Client")),
    };
    if let Some(files) = files {
        spec.mine.input.origin = input(files)?.origin;
    }
    let learns = spec.shared.learns.contains(&spec.mine.name) && spec.shared.result.has_rows();
    let keep = keeps(spec.mine.output.as_mut(), is_json);
    if keep && learns && spec.mine.output.is_none() {
        let output = json!({ "path": MEMORY });
        spec.mine.output = Some(serde_json::from_value::<Output>(output).map_err(|e| Failure::bug(e.to_string()))?);
    }
    Ok(Meant { spec, keep: keep && learns })
}

/// Whether rows are kept in memory: no file is named for them. Of a document that is a file, a path that it lacks is told.
fn keeps(output: Option<&mut Output>, is_json: bool) -> bool {
    let Some(output) = output else { return true };
    if is_json && output.path.as_os_str().is_empty() {
        output.path = MEMORY.into();
    }
    output.path == Path::new(MEMORY)
}

/// A table that is named by JSON without its columns.
fn input(files: &str) -> Result<Input, Failure> {
    let mut value: Value = serde_json::from_str(files).map_err(|error| Failure::bug(error.to_string()))?;
    if let Some(table) = value.as_object_mut() {
        table.insert("keys".into(), json!([]));
    }
    serde_json::from_value(value).map_err(|error| Failure::config(format!("input: {error}")))
}

/// The document with the paths that it need not have, if it lacks one. Of a file none is added: what it lacks is told with its name
/// and line.
fn completed(document: &str, is_json: bool, given: bool) -> Option<Result<Document, Failure>> {
    let mut value: Value = serde_json::from_str(document).ok().filter(|_| is_json)?;
    complete(&mut value, given).then(|| any(&value.to_string(), true))
}

/// Whether the document says of its table neither which file it is nor who prints it.
fn lacks_table(document: &str) -> bool {
    let value: Value = serde_json::from_str(document).unwrap_or_default();
    let input = value.pointer("/mine/input").and_then(Value::as_object);
    input.is_some_and(|table| !table.contains_key("path") && !table.contains_key("command"))
}

/// Adds paths that a job in memory does not need. Says whether there were any to add.
fn complete(value: &mut Value, given: bool) -> bool {
    let Some(mine) = value.get_mut("mine").and_then(Value::as_object_mut) else { return false };
    let mut added = false;
    let mut add = |table: Option<&mut Value>| {
        if let Some(table) = table
            .and_then(Value::as_object_mut)
            .filter(|table| !table.contains_key("path") && !table.contains_key("command"))
        {
            table.insert("path".into(), MEMORY.into());
            added = true;
        }
    };
    add(mine.get_mut("output"));
    if given {
        add(mine.get_mut("input"));
    }
    added
}

/// The server's document.
pub fn server(document: &str, is_json: bool) -> Result<ServerSpec, Failure> {
    match any(document, is_json)? {
        Document::Server(spec) => Ok(*spec),
        Document::Client(_) => Err(Failure::config("this document is a client's: use vesica.Client")),
        Document::Job(_) => Err(Failure::config("this document is a job's: use vesica.run")),
    }
}

/// The client's document. With a table `given`, it needs to name no file to read and none to write.
pub fn client(document: &str, is_json: bool, given: bool) -> Result<(ClientSpec, bool), Failure> {
    let read = match any(document, is_json) {
        Ok(read) => read,
        Err(error) => completed(document, is_json, given).ok_or(error)??,
    };
    let mut spec = match read {
        Document::Client(spec) => *spec,
        Document::Server(_) => return Err(Failure::config("this document is a server's: use vesica.Service")),
        Document::Job(_) => return Err(Failure::config("this document is a job's: use vesica.run")),
    };
    let keep = keeps(spec.mine.output.as_mut(), is_json);
    if keep && spec.mine.output.is_none() {
        let output = json!({ "path": MEMORY });
        spec.mine.output = Some(serde_json::from_value(output).map_err(|e| Failure::bug(e.to_string()))?);
    }
    Ok((spec, keep))
}

fn any(document: &str, is_json: bool) -> Result<Document, Failure> {
    Ok(match is_json {
        // The places would be those of a text that nobody has seen.
        true => {
            vesica_spec::document(document, true).map_err(|error| vesica_spec::SpecError { place: None, ..error })?
        }
        false => vesica_spec::load_any(Path::new(document))?,
    })
}
