//! A job's text: read with errors that say where and what would be right, and written.

use crate::error::{SpecError, refuse};
use crate::key::KeyPlace;
use crate::service::{ClientSpec, ServerSpec};
use crate::types::{Mine, Shared, Spec};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A document of any kind.
#[derive(Clone, PartialEq, Debug)]
pub enum Document {
    /// A job: it has `[shared]`.
    Job(Box<Spec>),
    /// Of who prepares and serves: it has `[service]` and `mine.store`.
    Server(Box<ServerSpec>),
    /// Of who asks: it has `[service]` and `mine.cache`.
    Client(Box<ClientSpec>),
}

/// Reads a document of any kind: JSON if its name ends in `.json`, else TOML. Relative paths in it start at its own folder.
///
/// # Errors
/// As [`load`].
pub fn load_any(path: &Path) -> Result<Document, SpecError> {
    let (text, json) = read(path)?;
    let mut document = document(&text, json).map_err(|error| of_file(path, error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    match &mut document {
        Document::Job(spec) => spec.mine.anchor(folder),
        Document::Server(spec) => spec.anchor(folder),
        Document::Client(spec) => spec.anchor(folder),
    }
    Ok(document)
}

/// How files end that hold a table, or a key or certificate.
const NO_DOCUMENTS: [&str; 12] =
    ["csv", "tsv", "parquet", "arrow", "feather", "ipc", "gz", "zst", "pem", "key", "crt", "cer"];

/// The error of what was taken for the document in this file. A file that holds a table by its name is called what it is.
fn of_file(path: &Path, error: SpecError) -> SpecError {
    let file = Some(path.to_owned());
    if !path.extension().is_some_and(|end| NO_DOCUMENTS.iter().any(|known| end.eq_ignore_ascii_case(known))) {
        return SpecError { file, ..error };
    }
    let message =
        "is no job file: one is written in TOML, or in JSON where its name ends in .json, and has [shared] and [mine]";
    SpecError { file, place: None, field: None, message: message.to_owned() }
}

/// The text of a document, and whether it is JSON.
fn read(path: &Path) -> Result<(String, bool), SpecError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read the job file: {error}");
        let unread = SpecError { file: Some(path.to_owned()), place: None, field: None, message };
        // A table may be no text.
        if error.kind() == std::io::ErrorKind::InvalidData { of_file(path, unread) } else { unread }
    })?;
    Ok((text, path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))))
}

/// The document that is written as `text`. What kind it is, `[service]` says, and then `mine.store` or `mine.cache`.
///
/// # Errors
/// As [`load`].
pub fn document(text: &str, json: bool) -> Result<Document, SpecError> {
    let outline: serde_json::Value =
        if json { serde_json::from_str(text).unwrap_or_default() } else { toml::from_str(text).unwrap_or_default() };
    let mine = |field: &str| outline.get("mine").is_some_and(|mine| mine.get(field).is_some());
    match (outline.get("service").is_some(), mine("store"), mine("cache")) {
        (true, true, _) => Ok(Document::Server(Box::new(form(text, json)?))),
        (true, false, true) => Ok(Document::Client(Box::new(form(text, json)?))),
        (true, false, false) => refuse(
            "mine",
            "has neither store, which makes it a server's, nor cache, which makes it a client's; give one of them a folder",
        ),
        (false, ..) => Ok(Document::Job(Box::new(form(text, json)?))),
    }
}

/// What `text` holds, if it has the form.
fn form<T: DeserializeOwned>(text: &str, json: bool) -> Result<T, SpecError> {
    if json {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let field = error.path().to_string();
            // It is `.` for the whole document, and has `?` in it where the kind of a value is looked for.
            let field = Some(field).filter(|field| error.inner().is_data() && !field.contains(['?']) && field != ".");
            SpecError { field, ..json_error(error.inner()) }
        })?;
        return reader.end().map(|()| read).map_err(|error| json_error(&error));
    }
    toml::from_str(text).map_err(|e| {
        let place = e.span().map(|span| line_and_column(text, span.start));
        form_error(place, e.message())
    })
}

fn json_error(error: &serde_json::Error) -> SpecError {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    form_error(Some((error.line(), error.column())), message)
}

/// Reads a job file: JSON if its name ends in `.json`, else TOML. Relative paths in it start at its own folder.
///
/// # Errors
/// If the file cannot be read or is not a job; with line, column and the nearest valid name.
pub fn load(path: &Path) -> Result<Spec, SpecError> {
    let (text, json) = read(path)?;
    let mut spec: Spec = form(&text, json).map_err(|error| of_file(path, error))?;
    spec.mine.anchor(path.parent().unwrap_or(Path::new("")));
    Ok(spec)
}

/// Reads a job written in TOML.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    form(text, false)
}

/// Reads the shared part of a job alone, written in JSON.
///
/// # Errors
/// As [`load`].
pub fn parse_shared(text: &str) -> Result<Shared, SpecError> {
    form(text, true)
}

/// The line and the column, from 1, of the character at `offset` bytes into `text`.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// serde's message, with the nearest of the names that it lists when it lists some.
fn form_error(place: Option<(usize, usize)>, message: &str) -> SpecError {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let mut message = message.trim().to_owned();
    if message.starts_with("unknown")
        && let Some((wrong, known)) = quoted.split_first()
    {
        // The name that it had for some days.
        if *wrong == "packed-pir" {
            message += "; write protocol = \"simple-pir\" and hint = \"none\"";
        } else if let Some(near) = nearest(wrong, known) {
            message = format!("{message}; did you mean `{near}`?");
        }
    }
    SpecError { file: None, place, field: None, message }
}

/// The one of `known` that is nearest to `wrong`, if any is near: one letter in three may differ, and of a shorter name one letter. So `foo`
/// is not taken for `ot`.
pub fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&wrong.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= 1.max(wrong.len().max(name.len()) / 3))
        .min()
        .map(|(_, name)| name)
}

impl Spec {
    /// The job as it is written in a file, in TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("plain data without maps of odd keys")
    }
}

impl Mine {
    /// Makes relative paths start at `folder`.
    pub fn anchor(&mut self, folder: &Path) {
        self.input.origin.anchor(folder);
        crate::service::anchor(folder, self.paths());
        self.folder = folder.join(&self.folder);
    }

    /// Takes back [`Mine::anchor`]: what is below the folder is named from there.
    pub(crate) fn unanchor(&mut self) {
        let folder = std::mem::take(&mut self.folder);
        self.input.origin.unanchor(&folder);
        for path in self.paths() {
            vesica_table::unanchor(path, &folder);
        }
    }

    /// Every path but the input's.
    pub(crate) fn paths(&mut self) -> Vec<&mut PathBuf> {
        let output = self.output.as_mut().map(|output| &mut output.path);
        let mut paths: Vec<_> = output.filter(|path| !path.as_os_str().is_empty()).into_iter().collect();
        paths.extend(self.budget.as_mut().map(|budget| &mut budget.path));
        if let Some(tls) = &mut self.tls {
            paths.push(&mut tls.identity);
            paths.extend(tls.key.as_mut().map(KeyPlace::path));
            paths.extend(&mut tls.ca);
        }
        paths.extend(&mut self.report);
        paths.extend(&mut self.scratch);
        paths.extend(&mut self.trace);
        paths.extend(&mut self.resume);
        paths.extend(self.resume_key.as_mut().map(KeyPlace::path));
        paths.extend(&mut self.proxy_credentials);
        paths
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::accept::Accept;
    use crate::invitation::in_table;
    use crate::join::Join;
    use crate::types::{Duplicates, Order};
    use vesica_suite::CurveName;
    use vesica_table::{Origin, Program};

    /// A job that is read without complaint.
    pub(crate) const JOB: &str = r#"
[shared]
id = "acme-globex"
parties = ["alice", "bob"]
protocol = "ecdh"
learns = ["alice"]

[mine]
name = "alice"
listen = "127.0.0.1:5300"
tls = { identity = "alice.pem", peers = { bob = "sha256:00" } }
input = { path = "alice.csv", keys = ["id"] }
output = { path = "out.csv" }
"#;

    #[test]
    fn a_job_has_defaults() {
        let spec = parse(JOB).unwrap();
        assert_eq!(spec.shared.curve, CurveName::Curve25519);
        assert_eq!(spec.shared.join, Join::Inner);
        assert_eq!((spec.shared.duplicates, spec.shared.accept), (Duplicates::Join, Accept::Named(vec![])));
        assert_eq!((spec.mine.output.unwrap().order, spec.mine.memory.as_str()), (Order::Aligned, "2 GiB"));
        assert!(!spec.shared.insecure);
    }

    #[test]
    fn an_unknown_field_is_an_error_with_line_column_and_the_nearest_name() {
        let text = JOB.replace("learns =", "learn =");
        let error = parse(&text).unwrap_err();
        assert_eq!(error.place, Some((6, 1)));
        assert!(error.message.contains("unknown field `learn`"), "{error}");
        assert!(error.message.ends_with("did you mean `learns`?"), "{error}");
    }

    #[test]
    fn an_unknown_value_is_an_error_with_the_nearest_name() {
        let error = parse(&JOB.replace("\"ecdh\"", "\"ecdhh\"")).unwrap_err();
        assert_eq!(error.place.map(|p| p.0), Some(5));
        assert!(error.message.ends_with("did you mean `ecdh`?"), "{error}");
        let error = parse(&JOB.replace("\"ecdh\"", "\"foo\"")).unwrap_err();
        assert!(error.message.contains("ecdh") && !error.message.contains("did you mean"), "{error}");
    }

    #[test]
    fn only_a_near_name_is_the_nearest() {
        let known = ["ot", "dp", "ecdh", "kkrt", "mini-psi", "ecdh-oprf"];
        for (wrong, near) in
            [("to", "ot"), ("ECHD", "ecdh"), ("krt", "kkrt"), ("minipsi", "mini-psi"), ("ecdh_opfr", "ecdh-oprf")]
        {
            assert_eq!(nearest(wrong, &known), Some(near));
        }
        for wrong in ["", "foo", "psi", "tls", "simple-pir"] {
            assert_eq!(nearest(wrong, &known), None);
        }
    }

    #[test]
    fn json_is_read_too_and_its_errors_have_places() {
        let spec = parse(JOB).unwrap();
        let text = serde_json::to_string_pretty(&spec).unwrap();
        let parse_json = |text: &str| form::<Spec>(text, true);
        assert_eq!(parse_json(&text).unwrap(), spec);
        let error = parse_json(&text.replace("\"join\"", "\"jion\"")).unwrap_err();
        assert!(error.place.is_some_and(|(line, _)| line > 1), "{error}");
        assert!(error.message.contains("did you mean `join`?"), "{error}");
        let error = parse_json(&text.replace("\"path\": \"alice.csv\",", "")).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("mine.input"), "{error}");
        assert!(parse_json(&(text + "x")).is_err());
        let error = parse_shared("{\"rules\": \"email\"}").unwrap_err();
        assert!(error.to_string().ends_with("rules: invalid type: string \"email\", expected a sequence"), "{error}");
    }

    #[test]
    fn a_table_is_a_file_several_a_program_or_standard_input() {
        let job = |input: &str| parse(&JOB.replace("path = \"alice.csv\"", input));
        let origin = |input: &str| job(input).unwrap().mine.input.origin;
        assert_eq!(origin("path = \"-\""), Origin::Stdin);
        assert_eq!(origin("path = [\"a.csv\", \"b/*.csv\"]"), Origin::Paths(vec!["a.csv".into(), "b/*.csv".into()]));
        let args = ["psql", "-c", "copy t to stdout csv header"].map(str::to_owned).to_vec();
        let command = "command = [\"psql\", \"-c\", \"copy t to stdout csv header\"]";
        assert_eq!(origin(command), Origin::Command(Program { args, folder: None }));
        for input in ["path = \"-\"", "path = [\"a.csv\", \"b/*.csv\"]", command] {
            let spec = job(input).unwrap();
            assert_eq!(parse(&spec.text()).unwrap(), spec, "{input}");
        }
        // What a report shows of a command has no arguments: there may be a password among them.
        let shown = job(command).unwrap().mine.without_keys();
        assert!(shown.contains("psql") && !shown.contains("copy"), "{shown}");
        // And nothing has a path from the root of this machine.
        for input in
            ["path = \"/srv/data/a.csv\"", "path = [\"/srv/data/a.csv\", \"b.csv\"]", "command = [\"/srv/data/a.csv\"]"]
        {
            let mut mine = job(input).unwrap().mine;
            (mine.scratch, mine.resume) = (Some("/srv/scratch".into()), Some("/srv/kept".into()));
            mine.anchor(Path::new("/jobs"));
            let shown = mine.without_keys();
            assert!(shown.contains("…/a.csv") && shown.contains("…/scratch") && shown.contains("…/kept"), "{shown}");
            assert!(!shown.contains("/srv") && !shown.contains("/jobs"), "{shown}");
        }
        for (input, why) in [
            ("command = []", "names no program"),
            ("command = [\"\"]", "names no program"),
            ("path = []", "empty list"),
            ("path = [\"a.csv\", \"-\"]", "name it alone"),
            ("path = \"a.csv\", command = [\"x\"]", "give one of them"),
            ("path = 7", "a path or a list of paths"),
            ("command = \"psql -c copy\"", "expected a sequence"),
            ("paths = \"a.csv\"", "did you mean `path`"),
        ] {
            let error = job(input).unwrap_err();
            assert!(error.to_string().contains(why) && error.place.is_some(), "{input}: {error}");
        }
        let missing = parse(&JOB.replace("path = \"alice.csv\", ", "")).unwrap_err();
        assert!(missing.to_string().contains("missing field `path`"), "{missing}");
    }

    #[test]
    fn paths_start_at_the_job_files_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.toml");
        std::fs::write(&path, JOB.replace("\"out.csv\"", "\"/abs/out.csv\"")).unwrap();
        let spec = load(&path).unwrap();
        assert_eq!(spec.mine.input.origin, Origin::Path(dir.path().join("alice.csv")));
        assert_eq!(spec.mine.output.unwrap().path, Path::new("/abs/out.csv"));
        assert_eq!(spec.mine.tls.unwrap().identity, dir.path().join("alice.pem"));
    }

    /// A budget that is not found would begin anew.
    #[test]
    fn a_path_that_a_report_left_something_out_of_is_refused() {
        for path in ["out.csv", "alice.csv", "alice.pem"] {
            let job = JOB.replace(&format!("\"{path}\""), "\"…/file\"");
            assert!(job != JOB, "{path}");
            let why = crate::plan(&parse(&job).unwrap()).unwrap_err().to_string();
            assert!(why.contains("…/file") && why.contains("write the whole path"), "{why}");
        }
        // Nor is a program started with arguments that were left out, or a ledger that was sealed begun again unsealed.
        let with = |line: &str, from: &str| {
            let job = JOB.replace(from, line);
            assert!(job != JOB, "{from}");
            let mine = parse(&job).unwrap().mine;
            let shown = mine.without_keys();
            assert_eq!(Mine::shown_again(&shown).as_ref(), Some(&shown));
            assert_eq!(Mine::shown_again(&in_table("mine", &mine)), Some(shown.clone()));
            let shared = &job[..job.find("[mine]").unwrap()];
            crate::plan(&parse(&format!("{shared}{}", shown.replace("\"…\"\n", "\"alice.pem\"\n"))).unwrap())
                .unwrap_err()
                .to_string()
        };
        let why = with("command = [\"cat\", \"alice.csv\"]", "path = \"alice.csv\"");
        assert!(why.starts_with("mine.input.command") && why.contains("write them"), "{why}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = parse(&text);
            let _ = form::<Spec>(&text, true);
        }
    }
}
