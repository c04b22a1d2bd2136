//! The job as it is written down: what the parties agree on, and what is only mine.
//!
//! The types here are the one source of the format: serde reads TOML or JSON into them, the JSON Schema and the book's
//! reference are generated from them and their comments. Nothing is checked here but the form; [`crate::plan()`] gives
//! the meaning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A job: `[shared]` must be the same for every party, `[mine]` never leaves this machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Vesica job")]
pub struct Spec {
    /// What the parties agree on: compared whole before any data moves, a difference is shown field by field.
    pub shared: Shared,
    /// What is only this party's: never sent, never compared.
    pub mine: Mine,
}

/// What the parties agree on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Names the job, for people and logs: letters, digits and `.-_`, at most 64.
    pub id: String,
    /// The parties' names, in an order that all use; each also is the name of a certificate.
    pub parties: Vec<String>,
    /// The protocol.
    pub protocol: ProtocolName,
    /// The group that `ecdh` works in.
    #[serde(default)]
    pub curve: CurveName,
    /// What the output holds.
    #[serde(default)]
    pub join: Join,
    /// The parties that get the result. Everyone else gets nothing, not even its size.
    pub learns: Vec<String>,
    /// Mean number of keys a unit. Chosen from the sizes and the parties' cores when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<u32>,
    /// Whether the parties talk without TLS: readable and forgeable by anyone between them. For tests only.
    #[serde(default)]
    pub insecure: bool,
}

/// A protocol's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// Diffie-Hellman masking: least traffic, most arithmetic.
    #[default]
    Ecdh,
}

impl ProtocolName {
    /// As it stands in a job.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolName::Ecdh => "ecdh",
        }
    }
}

/// A curve's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CurveName {
    /// Curve25519: the default, and a good choice wherever no standard asks for another.
    #[default]
    Curve25519,
    /// ristretto255: the same curve as a group of prime order; the group of RFC 9497.
    Ristretto255,
    /// FourQ: the fastest, with about 123 bits of security instead of 126.
    FourQ,
    /// SM2: where Chinese standards ask for it.
    Sm2,
    /// secp256k1.
    Secp256k1,
    /// P-256: where NIST standards ask for it.
    P256,
}

impl CurveName {
    /// Every curve.
    pub const ALL: &'static [CurveName] = &[
        CurveName::Curve25519,
        CurveName::Ristretto255,
        CurveName::FourQ,
        CurveName::Sm2,
        CurveName::Secp256k1,
        CurveName::P256,
    ];

    /// As it stands in a job.
    pub fn name(self) -> &'static str {
        match self {
            CurveName::Curve25519 => "curve25519",
            CurveName::Ristretto255 => "ristretto255",
            CurveName::FourQ => "fourq",
            CurveName::Sm2 => "sm2",
            CurveName::Secp256k1 => "secp256k1",
            CurveName::P256 => "p256",
        }
    }
}

/// What the output holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// The rows whose key the other party has too. Where one party learns: each such row of its own, once, in the
    /// input's order. Where both learn: the two outputs line up row by row, as an SQL inner join would; a key with m
    /// and n rows gives m·n rows on either side.
    #[default]
    Inner,
}

/// What is only this party's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mine {
    /// Which of `shared.parties` this is.
    pub name: String,
    /// Wait for the other party here: `host:port`. Give this or `connect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Where to reach the other party: `{ alice = "host:port" }`. Give this or `listen`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connect: BTreeMap<String, String>,
    /// Who this party is and whom it trusts. Needed unless `shared.insecure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The table.
    pub input: Input,
    /// Where the result goes; for a party that learns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Memory that keys may take before they are spilled to disk: a number with a unit, such as `"2 GiB"`.
    #[serde(default = "default_memory")]
    pub memory: String,
    /// Units worked on at once; the number of cores when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Where the report goes, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// A folder for what finished units found. With it, a run that was killed goes on where it stopped when it is
    /// started again; the folder's file is removed at the end. Not for an input from standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<PathBuf>,
    /// A file of at least 16 random bytes that seals what `resume` keeps; or give a passphrase in the environment
    /// variable `VESICA_RESUME_PASSPHRASE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_key: Option<PathBuf>,
    /// How long to wait for a party that is late or was lost: a duration, such as `"10m"`.
    #[serde(default = "default_patience")]
    pub patience: String,
}

fn default_memory() -> String {
    "2 GiB".to_owned()
}

fn default_patience() -> String {
    "10m".to_owned()
}

/// Who this party is and whom it trusts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// This party's private key and certificate, as `vesica cert` makes them.
    pub identity: PathBuf,
    /// The fingerprint of each other party's certificate: `{ bob = "sha256:…" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, String>,
    /// Instead of fingerprints: certificates of the authorities that sign the parties' certificates. The name in a
    /// certificate must be the party's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// A table to read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The file, or `-` for standard input. A name that is not absolute starts at the job file's folder.
    pub path: PathBuf,
    /// The columns that make up the key, in the same order for every party (their names may differ).
    pub keys: Vec<String>,
    /// What the file is, where its name does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
}

/// A table to write.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The file. A name that is not absolute starts at the job file's folder. Written beside it and renamed at the end.
    pub path: PathBuf,
    /// What the file is to be, where its name does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
}

/// A table's format. By default the name's ending says it: `.csv`, `.csv.gz`, `.csv.zst`, `.parquet`, `.arrow`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// RFC 4180, with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC, file or stream.
    Arrow,
}

/// Why a document is not a job: where, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The file, if it came from one.
    pub file: Option<PathBuf>,
    /// Line and column, from 1, where the document's text is at fault.
    pub place: Option<(usize, usize)>,
    /// The field, such as `mine.listen`, where its meaning is at fault.
    pub field: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

impl SpecError {
    /// An error about the meaning of `field`.
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self { file: None, place: None, field: Some(field.to_owned()), message: message.into() }
    }
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some((line, column)) = self.place {
                write!(f, ":{line}:{column}")?;
            }
            f.write_str(": ")?;
        } else if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpecError {}

/// Reads a job file: JSON if its name ends in `.json`, else TOML. Relative paths in it start at its own folder.
///
/// # Errors
/// If the file cannot be read or is not a job; with line, column and the nearest valid name.
pub fn load(path: &Path) -> Result<Spec, SpecError> {
    let at = |error: SpecError| SpecError { file: Some(path.to_owned()), ..error };
    let text = std::fs::read_to_string(path).map_err(|e| {
        at(SpecError { file: None, place: None, field: None, message: format!("cannot read the job file: {e}") })
    })?;
    let json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    let mut spec = if json { parse_json(&text) } else { parse(&text) }.map_err(at)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    spec.mine.anchor(folder);
    Ok(spec)
}

/// Reads a job written in TOML.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    toml::from_str(text).map_err(|e| {
        let place = e.span().map(|span| line_and_column(text, span.start));
        form_error(place, e.message())
    })
}

/// Reads a job written in JSON.
///
/// # Errors
/// As [`load`].
pub fn parse_json(text: &str) -> Result<Spec, SpecError> {
    serde_json::from_str(text).map_err(|e| {
        let message = e.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        form_error(Some((e.line(), e.column())), message)
    })
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
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
        && let Some(near) = nearest(wrong, known)
    {
        message = format!("{message}; did you mean `{near}`?");
    }
    SpecError { file: None, place, field: None, message }
}

/// The one of `known` that is nearest to `wrong`, if any is near.
pub(crate) fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&wrong.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3))
        .min()
        .map(|(_, name)| name)
}

impl Mine {
    /// Makes relative paths start at `folder`.
    fn anchor(&mut self, folder: &Path) {
        let mut paths = vec![&mut self.input.path];
        paths.extend(self.output.as_mut().map(|output| &mut output.path));
        if let Some(tls) = &mut self.tls {
            paths.push(&mut tls.identity);
            paths.extend(&mut tls.ca);
        }
        paths.extend(&mut self.report);
        paths.extend(&mut self.resume);
        paths.extend(&mut self.resume_key);
        for path in paths.into_iter().filter(|path| path.as_os_str() != "-") {
            *path = folder.join(&*path);
        }
    }
}

impl Shared {
    /// The document as it is compared: every field, defaults written out, in alphabetical order.
    pub fn canonical(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("plain data without maps of odd keys")
    }

    /// The hash of the canonical document; it names the job on the wire.
    pub fn hash(&self) -> [u8; 32] {
        blake3::derive_key("vesica 2026 shared document", self.canonical().to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(spec.mine.memory, "2 GiB");
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
        assert!(error.message.contains("ecdh"), "{error}");
    }

    #[test]
    fn json_is_read_too_and_its_errors_have_places() {
        let spec = parse(JOB).unwrap();
        let text = serde_json::to_string_pretty(&spec).unwrap();
        assert_eq!(parse_json(&text).unwrap(), spec);
        let error = parse_json(&text.replace("\"join\"", "\"jion\"")).unwrap_err();
        assert!(error.place.is_some_and(|(line, _)| line > 1), "{error}");
        assert!(error.message.contains("did you mean `join`?"), "{error}");
    }

    #[test]
    fn the_hash_covers_defaults_and_nothing_of_mine() {
        let (a, mut b) =
            (parse(JOB).unwrap(), parse(&JOB.replace("\"ecdh\"", "\"ecdh\"\ncurve = \"curve25519\"")).unwrap());
        b.mine.name = "bob".into();
        assert_eq!(a.shared.hash(), b.shared.hash());
        b.shared.learns.push("bob".into());
        assert_ne!(a.shared.hash(), b.shared.hash());
    }

    #[test]
    fn paths_start_at_the_job_files_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.toml");
        std::fs::write(&path, JOB.replace("\"out.csv\"", "\"/abs/out.csv\"")).unwrap();
        let spec = load(&path).unwrap();
        assert_eq!(spec.mine.input.path, dir.path().join("alice.csv"));
        assert_eq!(spec.mine.output.unwrap().path, Path::new("/abs/out.csv"));
        assert_eq!(spec.mine.tls.unwrap().identity, dir.path().join("alice.pem"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = parse(&text);
            let _ = parse_json(&text);
        }
    }
}
