//! The job as it is written down: what the parties agree on, and what is only mine.
//!
//! The types here are the one source of the format: serde reads TOML or JSON into them, the JSON Schema and the book's
//! reference are generated from them and their comments. Nothing is checked here but the form; [`crate::plan()`] gives
//! the meaning.

use rlibphonenumber::enums::Region;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
pub use vesica_suite::{CurveName, Mode, ProtocolName, Security};

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
    /// What `rr22` saves: time or traffic.
    #[serde(default)]
    pub mode: Mode,
    /// Against whom the protocol protects.
    #[serde(default)]
    pub security: Security,
    /// Which rows the output holds. The left table is that of the first of `parties`.
    #[serde(default)]
    pub join: Join,
    /// What is done with a key that stands in several rows of one table.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// What is done to keys before they are compared, so that both sides write them in one way.
    #[serde(default)]
    pub rules: Rules,
    /// The parties that get the result. Everyone else gets nothing, not even its size.
    pub learns: Vec<String>,
    /// What the parties agree to tell each other beyond the intersection; what a job tells is shown by `vesica plan`.
    #[serde(default)]
    pub accept: Accept,
    /// Results that nobody is to learn.
    #[serde(default)]
    pub limits: Limits,
    /// Mean number of keys a unit. Chosen from the sizes and the parties' cores when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<u32>,
    /// Whether the parties talk without TLS: readable and forgeable by anyone between them. For tests only.
    #[serde(default)]
    pub insecure: bool,
}

/// Which rows the output holds, as SQL has it: a party's output is its half of the joined rows. Where both parties learn,
/// the two outputs line up row by row; a key with m rows on one side and n on the other gives m·n rows, and where a row
/// has no partner, the other output has a row of nulls. Where one party learns, it gets each of its own rows that the join
/// holds once, in the input's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// Rows whose key both have.
    #[default]
    Inner,
    /// Those, and the rest of the left table. Both parties must learn.
    Left,
    /// Those of `inner`, and the rest of the right table. Both parties must learn.
    Right,
    /// Those of `inner`, and the rest of both tables. Both parties must learn.
    Full,
    /// What `full` holds beyond `inner`: the rows of either table whose key the other does not have.
    Difference,
    /// Rows of the left table whose key the right has, once each. Only the left party can learn.
    Semi,
    /// Rows of the left table whose key the right does not have. Only the left party can learn.
    Anti,
}

impl Join {
    /// Every join.
    pub const ALL: &'static [Join] =
        &[Join::Inner, Join::Left, Join::Right, Join::Full, Join::Difference, Join::Semi, Join::Anti];

    /// As it stands in a job.
    pub fn name(self) -> &'static str {
        match self {
            Join::Inner => "inner",
            Join::Left => "left",
            Join::Right => "right",
            Join::Full => "full",
            Join::Difference => "difference",
            Join::Semi => "semi",
            Join::Anti => "anti",
        }
    }
}

/// What is done with a key that stands in several rows of one table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// All its rows take part, as in SQL.
    #[default]
    Join,
    /// It is an error, found before the other party is contacted.
    Error,
    /// The first of its rows takes part, the others are left out as if they were not in the table.
    First,
}

/// What is done to keys: a list of rules for every key column, as `["trim", "lower"]`, or a list for each of them, as
/// `[["email"], []]`. Rules are applied from left to right; a key with a column that is empty then matches nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Rules {
    /// The same for every key column.
    All(Vec<Rule>),
    /// A list for each key column.
    Each(Vec<Vec<Rule>>),
}

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// No white space at either end.
    Trim,
    /// Lower case.
    Lower,
    /// Unicode's compatibility composition (NFKC): one spelling for what looks the same, such as letters of full width.
    Nfkc,
    /// Mail addresses: trimmed, in lower case; those of Gmail without dots and without what follows a plus. What is no
    /// address becomes empty.
    Email,
    /// The digits 0 to 9, and nothing else.
    Digits,
    /// Telephone numbers as E.164, such as `+41791234567`; those without a country code are of this region. What is no valid
    /// number becomes empty.
    Phone(Region),
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// By hand, because a region is part of a name.
impl JsonSchema for Rule {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let plain: Vec<String> = Rule::PLAIN.iter().map(Rule::to_string).collect();
        json_schema!({
            "description": "A rule: `trim` (no white space at either end), `lower` (lower case), `nfkc` (Unicode's compatibility \
                composition), `email` (mail addresses; what is none becomes empty), `digits` (the digits 0 to 9 and nothing else), \
                or `phone:` and the two letters of a country (telephone numbers as E.164; those without a country code are of \
                that country, what is no valid number becomes empty).",
            "type": "string",
            "anyOf": [{ "enum": plain }, { "pattern": "^phone:[A-Z]{2}$" }],
        })
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules::All(Vec::new())
    }
}

impl Rules {
    /// The lists as they stand in a job, with the rules' ids.
    fn ids(&self) -> serde_json::Value {
        let ids = |rules: &Vec<Rule>| rules.iter().map(|rule| rule.id()).collect::<serde_json::Value>();
        match self {
            Rules::All(rules) => ids(rules),
            Rules::Each(lists) => lists.iter().map(ids).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let lists: Vec<serde_json::Value> = Vec::deserialize(from)?;
        let each = !lists.is_empty() && lists.iter().all(serde_json::Value::is_array);
        let lists = serde_json::Value::Array(lists);
        let rules = if each {
            serde_json::from_value(lists).map(Rules::Each)
        } else {
            serde_json::from_value(lists).map(Rules::All)
        };
        rules.map_err(de::Error::custom)
    }
}

/// What the parties agree to tell each other beyond the intersection: `"all"`, or a list of names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Accept {
    /// Whatever the job tells.
    All(All),
    /// These.
    Named(Vec<Extra>),
}

/// Everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum All {
    /// Everything.
    All,
}

/// Something that some jobs tell beyond the intersection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// How many rows of the left table have no partner, told to the right party.
    LeftUnmatched,
    /// How many rows of the right table have no partner, told to the left party.
    RightUnmatched,
    /// Every key that can be guessed, told to whoever learns: what `protocol = "hash"` does not hide. Must be accepted by
    /// its name.
    GuessableKeys,
}

impl Extra {
    /// Every one.
    pub const ALL: &'static [Extra] = &[Extra::LeftUnmatched, Extra::RightUnmatched, Extra::GuessableKeys];

    /// As it stands in a job; also the name of the reveal in plans and reports.
    pub fn name(self) -> &'static str {
        match self {
            Extra::LeftUnmatched => "left_unmatched",
            Extra::RightUnmatched => "right_unmatched",
            Extra::GuessableKeys => "guessable_keys",
        }
    }
}

impl Default for Accept {
    fn default() -> Self {
        Accept::Named(Vec::new())
    }
}

impl Accept {
    /// Whether `extra` is among what is accepted.
    pub fn covers(&self, extra: Extra) -> bool {
        match self {
            // Who accepts whatever a join tells has not accepted that nothing is hidden.
            Accept::All(All::All) => extra != Extra::GuessableKeys,
            Accept::Named(names) => names.contains(&extra),
        }
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for Accept {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Accept;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\" or a list of names")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Accept, E> {
                All::deserialize(word.into_deserializer()).map(Accept::All)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Accept, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Accept::Named)
            }
        }

        from.deserialize_any(Either)
    }
}

/// Results that nobody is to learn, and how much may be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// With fewer common keys than this the run ends on both sides, and neither is told more than that they are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_intersection: Option<u64>,
    /// The most distinct keys that a party may bring: so many guesses at the other's keys it has, padding apart. The run ends
    /// on both sides before anything is matched if one brings more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_keys: Option<u64>,
    /// How many times over each party's keys are answered at most, however often connections break and runs begin anew.
    /// After a break the units that were under way are answered again; a party that has forgotten the run is answered
    /// for all its keys again. To a dishonest party every answer is a guess at the other's keys. Above this the run ends.
    /// An honest run comes near it only on a network that breaks all the time.
    #[serde(default = "answers")]
    pub answers: u32,
}

/// The default of `limits.answers`.
fn answers() -> u32 {
    8
}

impl Default for Limits {
    fn default() -> Self {
        Self { min_intersection: None, max_keys: None, answers: answers() }
    }
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
    /// Memory that the run may take, whatever the size of the tables, besides some 100 MiB for the program and its
    /// buffers: a number with a unit, such as `"2 GiB"`. What is more is spilled to disk.
    #[serde(default = "default_memory")]
    pub memory: String,
    /// A folder for what does not fit in memory; the system's temporary folder when absent. The files there have no name,
    /// are masked by a key that is never written, and are gone however the program ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<PathBuf>,
    /// Units worked on at once; twice the number of cores when absent, as some wait for the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Where the report goes, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// Where a trace of phases and units goes, for chrome://tracing or ui.perfetto.dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// A folder for the units and for what finished ones found. With it, a run that was killed goes on where it stopped
    /// when it is started again; the folder's files are removed at the end. Not for an input from standard input.
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

pub(crate) fn default_memory() -> String {
    "2 GiB".to_owned()
}

pub(crate) fn default_patience() -> String {
    "10m".to_owned()
}

/// Who this party is and whom it trusts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// This party's private key and certificate, as `vesica cert` makes them.
    pub identity: PathBuf,
    /// The private key, where it stands in a file of its own and `identity` holds the certificate alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
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
    /// The columns to write, in this order; all of the input's when absent. A CSV's rows then keep their text but not
    /// their quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// The text of a null in CSV. When absent, `NULL` if the join has rows without a partner here, else nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<String>,
    /// In which order rows come.
    #[serde(default)]
    pub order: Order,
}

/// In which order the rows of an output come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Where both parties learn: an order that both share, so that the two outputs line up row by row. Where one does: the
    /// input's.
    #[default]
    Aligned,
    /// The input's, then the rows of nulls. The outputs do not line up.
    Input,
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

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
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

impl Spec {
    /// The job as it is written in a file, in TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("plain data without maps of odd keys")
    }
}

impl Mine {
    /// Makes relative paths start at `folder`.
    pub fn anchor(&mut self, folder: &Path) {
        let mut paths = vec![&mut self.input.path];
        paths.extend(self.output.as_mut().map(|output| &mut output.path));
        if let Some(tls) = &mut self.tls {
            paths.push(&mut tls.identity);
            paths.extend(&mut tls.key);
            paths.extend(&mut tls.ca);
        }
        paths.extend(&mut self.report);
        paths.extend(&mut self.scratch);
        paths.extend(&mut self.trace);
        paths.extend(&mut self.resume);
        paths.extend(&mut self.resume_key);
        for path in paths.into_iter().filter(|path| path.as_os_str() != "-") {
            *path = folder.join(&*path);
        }
    }
}

impl Shared {
    /// The document as it is compared: every field, defaults written out, rules by their ids, in alphabetical order.
    pub fn canonical(&self) -> serde_json::Value {
        let mut document = serde_json::to_value(self).expect("plain data without maps of odd keys");
        document["rules"] = self.rules.ids();
        document
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
        assert!(error.message.contains("ecdh"), "{error}");
    }

    #[test]
    fn what_is_accepted_is_all_or_a_list_of_names() {
        let accept = |value: &str| {
            parse(&JOB.replace("learns =", &format!("accept = {value}\nlearns ="))).map(|s| s.shared.accept)
        };
        assert!(Extra::ALL.iter().all(|e| accept("\"all\"").unwrap().covers(*e) == (*e != Extra::GuessableKeys)));
        let one = accept("[\"left_unmatched\"]").unwrap();
        assert!(one.covers(Extra::LeftUnmatched) && !one.covers(Extra::RightUnmatched));
        for (wrong, near) in [("\"al\"", "all"), ("[\"left_unmached\"]", "left_unmatched")] {
            let error = accept(wrong).unwrap_err();
            assert!(error.message.ends_with(&format!("did you mean `{near}`?")), "{error}");
        }
        assert!(accept("7").unwrap_err().message.contains("\"all\" or a list of names"));
    }

    #[test]
    fn rules_are_a_list_or_a_list_for_each_column() {
        let rules =
            |value: &str| parse(&JOB.replace("learns =", &format!("rules = {value}\nlearns ="))).map(|s| s.shared);
        let all = rules("[\"trim\", \"lower\"]").unwrap();
        assert_eq!(all.rules, Rules::All(vec![Rule::Trim, Rule::Lower]));
        assert_eq!(rules("[[\"email\"], []]").unwrap().rules, Rules::Each(vec![vec![Rule::Email], vec![]]));
        assert_eq!(rules("[]").unwrap().rules, Rules::default());
        assert!(
            all.canonical()["rules"][1].as_str().unwrap().starts_with("lower-v1-unicode-"),
            "versions are compared"
        );
        let error = rules("[\"trimm\"]").unwrap_err();
        assert!(error.message.ends_with("did you mean `trim`?") && error.place.is_some(), "{error}");
        let phone = rules("[\"phone:CH\"]").unwrap();
        assert_eq!(serde_json::to_value(&phone.rules).unwrap()[0], "phone:CH");
        assert!(phone.canonical()["rules"][0].as_str().unwrap().starts_with("phone:CH-v1-"), "versions are compared");
        for (wrong, words) in [
            ("[\"phone\"]", "`phone:CH`"),
            ("[\"phone:ch\"]", "`phone:CH`"),
            ("[\"phone:XX\"]", "`XX` is no country"),
            ("[[\"trim\"], \"trim\"]", "string"),
            ("\"trim\"", "sequence"),
        ] {
            let error = rules(wrong).unwrap_err();
            assert!(error.message.contains(words), "{error}");
        }
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
