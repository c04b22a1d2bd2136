//! The job as it is written down: what the parties agree on, and what is only mine.
//!
//! The types here are the one source of the format: serde reads TOML or JSON into them, the JSON Schema and the book's
//! reference are generated from them and their comments. Nothing is checked here but the form; [`crate::plan()`] gives
//! the meaning.

use crate::accept::Accept;
use crate::checks::table_format;
use crate::connect::{Connect, shown};
use crate::error::{SpecError, refuse};
use crate::identifiers::{Identifier, KeyColumns, Match};
use crate::invitation::in_table;
use crate::join::Join;
use crate::key::KeyPlace;
use crate::pins::Pins;
use crate::rules::Rules;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use vesica_suite::{CurveName, Mode, Noise, ProtocolName, ResultKind, Security};
use vesica_table::{Origin, Program};

/// A job: `[shared]` must be the same for every party, `[mine]` is what one party alone says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Vesica job")]
pub struct Spec {
    /// What the parties agree on: compared whole before any data moves, a difference is shown field by field.
    pub shared: Shared,
    /// What is only this party's, and never compared. Of it the others are told `workers`, `memory` and `lanes`, how many key columns there are, and
    /// whether there is a value.
    pub mine: Mine,
}

/// What the parties agree on.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Names the job, for people and logs: letters, digits and `.-_`, at most 64.
    pub id: String,
    /// The parties' names, in an order that all use; each also is the name of a certificate.
    pub parties: Vec<String>,
    /// Of three and more parties with `rr22`: one that adds what the others send. It must not collude with the first party that learns,
    /// for these two could test guesses at the others' keys. In return a run takes less time. When absent, any parties may collude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pivot: Option<String>,
    /// The protocol.
    pub protocol: ProtocolName,
    /// The group that `ecdh`, `ecdh-oprf` and `dp` work in.
    #[serde(default)]
    pub curve: CurveName,
    /// What the parties that learn get: their rows whose keys are common, or only how many keys are, or what their values add up to, in all or
    /// by group, or shares of that; or all of their rows, with an id beside each that says nothing before both files lie side by side.
    #[serde(default)]
    pub result: ResultKind,
    /// For `result = "groups"`: whose rows are grouped, by what, and which groups are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// For `result = "groups"`: the sums that each group has, besides the number of its keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<Sum>,
    /// How much noise the result of `dp` has, or a count, a sum or totals by group by `rr22`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dp: Option<Noise>,
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
    /// Kinds of identifiers that rows are matched by, such as mail addresses and telephone numbers, in the place of one key; at most 8. A row
    /// matches if the other party holds one of them. For two parties and `result = "rows"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identifiers: Vec<Identifier>,
    /// With `identifiers`: what the output holds.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<Match>,
    /// The parties that get the result. Everyone else gets nothing, not even its size.
    pub learns: Vec<String>,
    /// What the parties agree to tell each other beyond the intersection; what a job tells is shown by `vesica plan`.
    #[serde(default)]
    pub accept: Accept,
    /// Results that nobody is to learn.
    #[serde(default)]
    pub limits: Limits,
    /// Mean number of keys a unit, which must fit into each party's `mine.memory`. Chosen from the sizes and the parties' cores when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<u32>,
    /// Whether the parties talk without TLS: readable and forgeable by anyone between them. For tests only.
    #[serde(default)]
    pub insecure: bool,
}

/// Whose rows are grouped, by what, and which groups are told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// The party whose rows are grouped.
    pub of: String,
    /// What they are grouped by, as it is called in the output: rows are in one group if they are the same in all of these columns
    /// (`mine.input.groups`).
    pub by: Vec<String>,
    /// How many groups there are at most, among the rows that have a key. What is sent grows with this number, and does not say how many there
    /// are. With the sums of each, there may be 1024 numbers in all. Needed unless there are `labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// In the place of `most`, all groups that there may be: of each the text in every column of `by`, such as `["north", "20-29"]`, or one text
    /// where there is one column. A table with a row of another group is refused. Needed with `shared.dp`, for a label that one key
    /// brings would name this key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<GroupLabel>,
    /// How many groups a key may be in, by its rows. A table with a key in more of them is refused. When absent, a key may be in all. Needed
    /// with `shared.dp`, whose noise grows with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_a_key: Option<u32>,
    /// A group with fewer common keys than this is not told, and nobody can tell it from a group without any. A number below 5 must be
    /// accepted as `small_groups`. With `shared.dp` the noisy number is compared, and with an epsilon of 2.9 or less none needs to be
    /// accepted.
    #[serde(default = "least_of_a_group")]
    pub least: u64,
    /// Groups of the other party's rows, if each of the first one's is told with each of these, and not by itself. Give the party with more groups
    /// in `of`. Not with `shared.dp` or `shared.limits.min_intersection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<OtherGroups>,
}

/// Groups of the party that `groups.of` does not name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherGroups {
    /// What its rows are grouped by, as in `groups.by`.
    pub by: Vec<String>,
    /// How many groups there are at most, among the rows that have a key: 1 to 16. `groups.most` times these, with a count and the sums of each, may
    /// be 1024 numbers. Needed unless there are `labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// In the place of `most`, all groups that there may be, as in `groups.labels`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<GroupLabel>,
    /// How many groups a key may be in, by its rows, as in `groups.of_a_key`. It is 1 if values of this party are added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_a_key: Option<u32>,
}

/// What a group is called: the text in each column that is grouped by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "LabelAs", into = "LabelAs")]
pub struct GroupLabel(pub Vec<String>);

/// A text, or several.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum LabelAs {
    One(String),
    Several(Vec<String>),
}

impl From<LabelAs> for GroupLabel {
    fn from(label: LabelAs) -> Self {
        match label {
            LabelAs::One(text) => Self(vec![text]),
            LabelAs::Several(texts) => Self(texts),
        }
    }
}

impl From<GroupLabel> for LabelAs {
    fn from(GroupLabel(mut texts): GroupLabel) -> Self {
        match texts.len() {
            1 => Self::One(texts.swap_remove(0)),
            _ => Self::Several(texts),
        }
    }
}

impl JsonSchema for GroupLabel {
    fn schema_name() -> Cow<'static, str> {
        "GroupLabel".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        LabelAs::json_schema(generator)
    }
}

/// The default of `groups.least`.
fn least_of_a_group() -> u64 {
    50
}

/// What is added up in each group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sum {
    /// What the sum is called in the output.
    pub name: String,
    /// The party whose values are added up: that of `groups.of`, or the other one. A key of the other one's adds all that its rows come to, in
    /// each of the groups that the key is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// In the place of `of`: two of `sums`, one of values of each party, by their names. What is added up is the product of both for each key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<[String; 2]>,
    /// The most that the rows of one key may come to, or to less than zero: over all of its groups, if the party has these. A table in which
    /// they come to more is refused. The factors of a product have one. Needed with `shared.dp`, whose noise grows with this number.
    /// When absent, there is no bound but that of all values together, 2^63 - 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<u64>,
    /// Whether the sum is told. A factor of a product may be told in the product alone.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub told: bool,
}

fn yes() -> bool {
    true
}

impl Sum {
    /// Whether it adds up values of this party.
    pub fn is_of(&self, party: &str) -> bool {
        self.of.as_deref() == Some(party)
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
    /// Gateways in front of this machine that speak the PROXY protocol, version 1 or 2, as addresses or networks: `["10.0.0.7", "10.1.0.0/16"]`. Each
    /// connection must come from one of them and begin with such a header, and counts as one from the address in it. When absent, no
    /// header is expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxy_protocol: Vec<String>,
    /// Where to reach the other party: `{ alice = "host:port" }`; or a command whose standard input and output are the connection,
    /// `{ alice = "exec:ssh -W alice:5300 bastion" }`; or a table. Give this or `listen`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connect: BTreeMap<String, Connect>,
    /// A proxy that other parties are called through: `http://host:port`, which is asked to CONNECT, or `socks5://host:port`, each with `user:password@`
    /// before the host if it wants that. The proxy resolves the names of those who are called. `"none"` takes no proxy. When absent, the
    /// environment variables `HTTPS_PROXY` and `ALL_PROXY` name one; `NO_PROXY` lists hosts that are called without one in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A file with `user:password` for `proxy` on its first line, which no other user may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_credentials: Option<PathBuf>,
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
    /// Connections that the units go over, besides the one on which the parties agree: 1 to 1024. More than one is of use where a single
    /// connection does not fill a fast network. The larger of both parties' numbers holds. When absent, and where the other party says
    /// none either, the units go over the first connection. For two parties and a result of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// Where the report goes: as a page if the name ends in `.html`, as the same page in Markdown if it ends in `.md`, otherwise as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// Where a trace of phases and units goes, for chrome://tracing or ui.perfetto.dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served while the run lasts, as `host:port`, or as a port of 127.0.0.1 alone; nowhere when
    /// absent. Whoever reaches it sees how far the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// A folder for the units and for what finished ones found. With it, a run that was killed goes on where it stopped
    /// when it is started again; the folder's files are removed at the end. Not for an input from standard input or from a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<PathBuf>,
    /// A file of at least 16 random bytes that seals what `resume` keeps, or a program that prints them; or give a passphrase in the environment
    /// variable `VESICA_RESUME_PASSPHRASE`. One of them is needed with `shared.dp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_key: Option<KeyPlace>,
    /// What noisy runs may tell each other party about a key of this table, all together. Needed with `shared.dp`, for noise that is drawn anew in many
    /// runs averages out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// How long to wait for a party that is late or was lost: a duration, such as `"10m"`.
    #[serde(default = "default_patience")]
    pub patience: String,
    /// At which folder [`Mine::anchor`] made relative paths start. It stands in no document.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Mine {
    /// A party with this table, and nothing that a job need not say.
    pub fn of(name: String, input: Input) -> Self {
        Self {
            name,
            listen: None,
            proxy_protocol: Vec::new(),
            connect: BTreeMap::new(),
            proxy: None,
            proxy_credentials: None,
            tls: None,
            input,
            output: None,
            memory: default_memory(),
            scratch: None,
            workers: None,
            lanes: None,
            report: None,
            trace: None,
            metrics: None,
            resume: None,
            resume_key: None,
            budget: None,
            patience: default_patience(),
            folder: PathBuf::new(),
        }
    }
}

/// A proxy: `http://host:port` or `socks5://host:port`, with `user:password@` before the host if it wants that; or `none`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProxyUrl(pub String);

impl ProxyUrl {
    /// What says that there is to be no proxy.
    pub const NONE: &'static str = "none";

    /// The same without a user and a password.
    pub fn shown(&self) -> Self {
        match self.0.as_str() {
            Self::NONE => self.clone(),
            url => Self(vesica_net::Proxy::shown(url)),
        }
    }
}

/// Without a user and a password.
impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown().0, f)
    }
}

/// What differentially private runs may tell each other party about a key of this table, all together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The file that keeps what was spent for whom. All jobs about the same people should name the same one.
    pub path: PathBuf,
    /// The most that the epsilons of all runs with one party may add up to. A run that would go beyond is refused.
    pub epsilon: f64,
}

/// What [`default_memory`] means, in bytes.
pub const USUAL_MEMORY: u64 = 2 << 30;

/// What `mine.memory` is where the job does not say it.
pub fn default_memory() -> String {
    "2 GiB".to_owned()
}

/// What `mine.patience` is where the job does not say it.
pub fn default_patience() -> String {
    "10m".to_owned()
}

/// Who this party is and whom it trusts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// This party's private key and certificate, as `vesica cert` makes them.
    pub identity: PathBuf,
    /// The private key, where it stands in a file of its own or a program prints it, as PEM, and `identity` holds the certificate alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyPlace>,
    /// The fingerprint of each other party's certificate: `{ bob = "sha256:…" }`. A list of them, `{ bob = ["sha256:…", "sha256:…"] }`, takes
    /// any of these, so that a partner can exchange its certificate for a new one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<String, Pins>,
    /// Instead of fingerprints: certificates of the authorities that sign the parties' certificates. The name in a
    /// certificate must be the party's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// A table to read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Input {
    /// Where it comes from.
    pub origin: Origin,
    /// The columns that make up the key, in the same order for every party (their names may differ).
    pub keys: Vec<String>,
    /// With `shared.identifiers`, in the place of those: for each identifier that the table has, the lists of columns that one of it is made
    /// up of.
    pub identifiers: BTreeMap<String, Vec<Vec<String>>>,
    /// The column with the values that `shared.result = "sum"` adds up, or `"shares"` shares.
    pub value: Option<String>,
    /// The columns that `shared.result = "groups"` groups rows by; where there are none those that are called as in `shared.groups`.
    pub groups: Vec<String>,
    /// The columns that those of `shared.sums` add up which are of this party, where they are called otherwise.
    pub values: BTreeMap<String, String>,
    /// What its files are, where their names do not say so.
    pub format: Option<Format>,
    /// For a service's client: whether `origin` has only what the table has more than on the day before.
    pub day: Option<DayFiles>,
}

/// What changed in a table, besides the rows that were added.
#[derive(Clone, PartialEq, Debug)]
pub struct DayFiles {
    /// The rows whose keys are in it no more.
    pub removed: Option<PathBuf>,
}

/// A table to read, as it is written in a document.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The file; or a folder, for all files in it; or a pattern with `*`, `?`, `[…]` or `**`; or a list of these; or `-` for standard
    /// input. The files of one table have the same columns, and are read in the order of their names. A name that is not absolute starts
    /// at the job file's folder. Give this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Paths>,
    /// A program that prints the table, and its arguments: `["psql", "shop", "-c", "copy orders to stdout csv header"]`. It is started as
    /// it is, without a shell, in the job file's folder. If it fails, so does the run, before another party is contacted. Give this or
    /// `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The columns that make up the key, in the same order for every party (their names may differ): `["id"]`. With `shared.identifiers`
    /// the columns of each identifier that this table has: `{ email = ["mail", "mail2"], person = [["name", "born"]] }` are two mail addresses
    /// in each row, and one person of two columns. A row without an identifier, or with an empty column of it, does not match by that one.
    keys: KeyColumns,
    /// The column with the values that `shared.result = "sum"` adds up, or `"shares"` shares: whole numbers of 64 bits with a sign, such as an amount in cents. One
    /// party has such a column. An empty field adds nothing; where rows have the same key, all that take part count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// For the party of `shared.groups.of`, and with `shared.groups.other` for the other one too: the columns that its rows are grouped by, in the order
    /// of `by` there. When absent, they are called as it is there. An empty field is a group of its own, as in SQL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// For a party of which `shared.sums` add up values: the columns that have these, `{ spend = "cents" }`, where a sum and
    /// its column are not called the same. Values are whole numbers of 64 bits with a sign. An empty field adds nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, String>,
    /// What the files are, where their names do not say so, or what the program prints, where its first bytes do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    /// For a service's client with `mine.kept`, in the place of `path`: the rows that the table has more than on the day before, where reading all
    /// of it takes too long. In the first run that is the whole table. Only the key columns are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    added: Option<PathBuf>,
    /// With `added`: rows whose keys no row of the table has any more. A key that stands in both files stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed: Option<PathBuf>,
}

/// A path, or several.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a path or a list of paths")]
enum Paths {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

impl TryFrom<Written> for Input {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { path, command, keys, value, groups, values, format, added, removed } = written;
        let (keys, identifiers) = keys.parts();
        let day = match (&added, removed) {
            (None, Some(_)) => {
                return Err(
                    "input.removed is for a table of which there is `added`: name that file too, which may have no rows",
                );
            }
            (None, None) => None,
            (Some(_), removed) => Some(DayFiles { removed }),
        };
        if day.is_some() && (path.is_some() || command.is_some()) {
            return Err(
                "input has both `added` and a whole table: give `path` or `command`, or else `added` and `removed`",
            );
        }
        let one = |path: &Path| path.as_os_str() == "-";
        if added.as_deref().is_some_and(one) || day.iter().flat_map(|day| &day.removed).any(|path| one(path)) {
            return Err("input.added and input.removed are files: name them");
        }
        let origin = match (path.or(added.map(Paths::One)), command) {
            (Some(Paths::One(path)), None) => Origin::of(path),
            (Some(Paths::Several(paths)), None) if paths.iter().any(|path| path.as_os_str() == "-") => {
                return Err("input.path: standard input, `-`, is a table by itself: name it alone");
            }
            (Some(Paths::Several(paths)), None) if paths.is_empty() => {
                return Err("input.path is an empty list: name a file, a folder or a pattern");
            }
            (Some(Paths::Several(paths)), None) => Origin::Paths(paths),
            (None, Some(args)) if args.first().is_none_or(String::is_empty) => {
                return Err("input.command names no program: write the program, then its arguments");
            }
            (None, Some(args)) => Origin::Command(Program { args, folder: None }),
            (None, None) => {
                return Err("missing field `path`: name a file, or give `command` a program that prints the table");
            }
            (Some(_), Some(_)) => return Err("input has both `path` and `command`: give one of them"),
        };
        Ok(Self { origin, keys, identifiers, value, groups, values, format, day })
    }
}

impl From<Input> for Written {
    fn from(input: Input) -> Self {
        let Input { origin, keys, identifiers, value, groups, values, format, day } = input;
        let keys = KeyColumns::of(keys, identifiers);
        let (path, command) = match origin {
            Origin::Stdin => (Some(Paths::One("-".into())), None),
            Origin::Path(path) => (Some(Paths::One(path)), None),
            Origin::Paths(paths) => (Some(Paths::Several(paths)), None),
            Origin::Command(program) => (None, Some(program.args)),
        };
        let (path, added) = match (path, &day) {
            (Some(Paths::One(path)), Some(_)) => (None, Some(path)),
            (path, _) => (path, None),
        };
        let removed = day.and_then(|day| day.removed);
        Self { path, command, keys, value, groups, values, format, added, removed }
    }
}

impl JsonSchema for Input {
    fn schema_name() -> Cow<'static, str> {
        "Input".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}

impl Input {
    /// All of this table, without a key.
    pub fn of(origin: Origin) -> Self {
        Self {
            origin,
            keys: Vec::new(),
            identifiers: BTreeMap::new(),
            value: None,
            groups: Vec::new(),
            values: BTreeMap::new(),
            format: None,
            day: None,
        }
    }

    /// The table as it is opened. What comes through a pipe is kept in the folder `scratch`.
    pub fn table(&self, scratch: Option<&Path>) -> vesica_table::Input {
        let format = self.format.map(table_format);
        vesica_table::Input { origin: self.origin.clone(), format, temp: scratch.map(Path::to_owned) }
    }
}

/// A table to write.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The file, or with `parts` the folder. A name that is not absolute starts at the job file's folder. Written beside it and renamed at
    /// the end. A service's client that has `gained` or `lost` may leave it out, and then only what changed is written.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
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
    /// Makes `path` a folder, a new or an empty one, and says how rows are cut into files there: `"files"`, a file for each file of the
    /// input that any of them come from; or a size such as `"256 MiB"`, with which a file ends, as its values take before they are encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<String>,
    /// With `shared.match = "any"`: whether each row says by which identifiers it matched, in a column `vesica_match` behind the others, as
    /// `email+phone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<Matched>,
    /// For a service's client with `mine.kept`: a file for the rows whose keys the service has now, and that it did not have in the run before or
    /// that were not in the table then, with their values. `format`, `columns` and `null` hold for it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gained: Option<PathBuf>,
    /// For a service's client with `mine.kept`: a file for the rows whose keys the service had in the run before and has no more, without
    /// values. Rows that left the client's own table are in no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<PathBuf>,
}

/// What a row says of its match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Matched {
    /// By which identifiers it matched.
    How,
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

/// How many groups there are, or may be; none if the job does not say it.
pub(crate) fn number(most: Option<u32>, labels: &[GroupLabel]) -> Option<u32> {
    match labels.len() {
        0 => most,
        labels => Some(u32::try_from(labels).unwrap_or(u32::MAX)),
    }
}

impl Groups {
    /// How many groups there are, or may be; none if the job does not say it.
    pub fn number(&self) -> Option<u32> {
        number(self.most, &self.labels)
    }

    /// What rows of both parties are grouped by, as it is called in the output.
    pub fn by_of_both(&self) -> Vec<String> {
        let other = self.other.iter().flat_map(|other| &other.by);
        self.by.iter().chain(other).cloned().collect()
    }
}

impl OtherGroups {
    /// How many groups there are, or may be; none if the job does not say it.
    pub fn number(&self) -> Option<u32> {
        number(self.most, &self.labels)
    }
}

impl Shared {
    /// The sums that are told, in the order of the output.
    pub fn told(&self) -> impl Iterator<Item = &Sum> {
        self.sums.iter().filter(|sum| sum.told)
    }

    /// The sums of a party's values: those that are told, and then the factors that are not.
    pub fn values_of(&self, party: &str) -> Vec<&Sum> {
        let all = |told| self.sums.iter().filter(move |sum| sum.told == told && sum.is_of(party));
        all(true).chain(all(false)).collect()
    }

    /// The document as it is compared: every field, defaults written out, rules by their ids, in alphabetical order.
    pub fn canonical(&self) -> serde_json::Value {
        let mut document = serde_json::to_value(self).expect("plain data without maps of odd keys");
        document["rules"] = self.rules.ids();
        for (place, identifier) in self.identifiers.iter().enumerate() {
            document["identifiers"][place]["rules"] = identifier.rules.ids();
        }
        document
    }

    /// The places of the sums that are told among these, in the order that a protocol has them: those of the party with the groups come first, and
    /// products last.
    pub fn order_of_sums(&self) -> Vec<usize> {
        let owner = self.groups.as_ref().map_or("", |groups| &groups.of);
        let told: Vec<&Sum> = self.told().collect();
        let mut order: Vec<usize> = (0..told.len()).collect();
        order.sort_by_key(|&place| (told[place].product.is_some(), !told[place].is_of(owner)));
        order
    }

    /// The document as it stands in a job file, every field and default written out.
    pub fn in_toml(&self) -> String {
        in_table("shared", self)
    }

    /// The hash of the canonical document; it names the job on the wire.
    pub fn hash(&self) -> [u8; 32] {
        blake3::derive_key("vesica 2026 shared document", self.canonical().to_string().as_bytes())
    }
}

impl Mine {
    /// This part as it stands in a job file, without the files of its keys: for who wants to run the job again. Partners show each other their
    /// reports, so nothing here says where on this machine something is: paths start at the job file's folder, and of a path from the
    /// root there is the name alone, `…/NAME`.
    pub fn without_keys(&self) -> String {
        let mut mine = self.clone();
        mine.unanchor();
        // That there is one is said: a ledger that was sealed is not begun again unsealed.
        (mine.resume_key, mine.proxy_credentials) =
            (mine.resume_key.map(|_| PathBuf::from("…").into()), mine.proxy_credentials.map(|_| "…".into()));
        mine.proxy = mine.proxy.map(|url| url.shown());
        if let Some(tls) = &mut mine.tls {
            (tls.identity, tls.key) = (PathBuf::from("…"), None);
        }
        if let Origin::Command(program) = &mut mine.input.origin {
            // Programs are given passwords as arguments.
            program.args.iter_mut().skip(1).for_each(|arg| *arg = "…".to_owned());
            program.args.iter_mut().take(1).for_each(|name| *name = shown(name));
        }
        mine.input.origin.paths().iter_mut().for_each(hide_root);
        mine.paths().into_iter().for_each(hide_root);
        mine.connect.values_mut().for_each(Connect::hide_arguments);
        in_table("mine", &mine)
    }

    /// What stands in a report of an earlier version as [`Mine::without_keys`] has it; nothing if it cannot be read.
    pub fn shown_again(text: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Part {
            mine: Mine,
        }
        toml::from_str::<Part>(text).ok().map(|part| part.mine.without_keys())
    }

    /// Fails if a path, or an argument of a program, is one that [`Mine::without_keys`] left something out of: a budget or a ledger that is not
    /// found there would begin anew, and a program that is started so may print another table.
    pub(crate) fn has_whole_paths(&self) -> Result<(), SpecError> {
        let mut mine = self.clone();
        let of_input = mine.input.origin.paths().to_vec();
        let mut all = of_input.iter().chain(mine.paths().into_iter().map(|path| &*path));
        match all.find(|path| path.components().any(|part| part.as_os_str() == "…")) {
            None => {}
            Some(path) => {
                let why = "a report left out where this is, in the place of …; write the whole path";
                return refuse("mine", format!("\"{}\": {why}", path.display()));
            }
        }
        let of_input = match &self.input.origin {
            Origin::Command(program) => Some(("mine.input.command", program.args.clone())),
            _ => None,
        };
        let of_roads = self.connect.values().filter_map(|connect| {
            let (_, road) = connect.read("mine.connect", false).ok()?;
            Some(("mine.connect", road.command?))
        });
        match of_input.into_iter().chain(of_roads).find(|(_, words)| words.iter().any(|word| word == "…")) {
            None => Ok(()),
            Some((field, _)) => {
                refuse(field, "a report left out the arguments of the program, in the place of …; write them")
            }
        }
    }
}

/// Of a path from the root its last name.
fn hide_root(path: &mut PathBuf) {
    if path.has_root() {
        *path = shown(&path.to_string_lossy()).into();
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::parse::tests::JOB;

    #[test]
    fn the_hash_covers_defaults_and_nothing_of_mine() {
        let (a, mut b) =
            (parse(JOB).unwrap(), parse(&JOB.replace("\"ecdh\"", "\"ecdh\"\ncurve = \"curve25519\"")).unwrap());
        b.mine.name = "bob".into();
        assert_eq!(a.shared.hash(), b.shared.hash());
        b.shared.learns.push("bob".into());
        assert_ne!(a.shared.hash(), b.shared.hash());
    }
}
