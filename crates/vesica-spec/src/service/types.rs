//! The documents of a service as they are written. Nothing is checked here but the form.

use crate::connect::Connect;
use crate::error::{SpecError, refuse};
use crate::key::KeyPlace;
use crate::pins::Pins;
use crate::rules::Rules;
use crate::types::{Input, Output, ProxyUrl, Tls, default_memory, default_patience};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vesica_suite::CurveName;

/// The document of who prepares and serves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Vesica service")]
pub struct ServerSpec {
    /// What every client is told of: it is hashed into the offer that clients pin.
    pub service: Service,
    /// What is only this party's.
    pub mine: ServerMine,
}

/// What a service is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Names the service: letters, digits and `.-_`, at most 64.
    pub id: String,
    /// The protocol.
    pub protocol: ServiceProtocol,
    /// For `simple-pir`: whether clients copy a hint before they ask. When absent, the store that is there keeps the one that it has, and a
    /// new store has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// What a client looks a row up by. `ecdh-oprf` is by key.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub by: By,
    /// Whose data is protected. `ecdh-oprf` protects both.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub private: Private,
    /// What clients may learn beyond the rows that they look up, each by its name. `private = "client"` needs `all_rows`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<Beyond>,
    /// For `bfv-pir` and `bgv-pir`: which rings they use.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub preset: Preset,
    /// For `simple-pir`: how many rows a client is expected to look up in one epoch. More of them make longer copies and shorter queries.
    #[serde(default = "default_expected", skip_serializing_if = "is_default_expected")]
    pub expected_queries: u32,
    /// The group that it works in. `ristretto255` and `p256` are those of RFC 9497.
    #[serde(default = "default_curve")]
    pub curve: CurveName,
    /// The columns that a client gets for a key that is found. Without any, it is told that the key is there and no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Bytes that the values of a row are padded to, so that sizes say nothing. When absent, the longest row of the first
    /// `vesica prepare` decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u32>,
    /// Whether the server proves that it answers every client by the key of the offer. With `ristretto255` and `p256`.
    #[serde(default)]
    pub verifiable: bool,
    /// The most keys that all clients together may ask for before the key is to be rotated. It decides how long tags are, so
    /// that the chance of one false match among all of them is 2^-40.
    #[serde(default = "default_lifetime")]
    pub lifetime_keys: u64,
    /// What is done to keys before they are hashed, here and at every client.
    #[serde(default)]
    pub rules: Rules,
    /// Whether server and clients talk without TLS: readable and forgeable by anyone between them. For tests only.
    #[serde(default)]
    pub insecure: bool,
}

/// A service's protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceProtocol {
    /// The oblivious function of RFC 9497: a client learns the tags of its own keys, and finds them in a store that it fetched.
    #[default]
    EcdhOprf,
    /// Retrieval: a client copies some kilobytes, or with `hint = "copied"` a hint of megabytes, and then a query costs the server one pass
    /// over the table.
    SimplePir,
    /// Retrieval: a client copies the whole table and reads its rows at home. For tables so small that nothing else pays.
    Download,
    /// Retrieval: a client reads the whole table once as it streams by, and then a query costs the server √N records.
    Piano,
    /// Retrieval: nothing is copied, and a query is an encrypted selection. Messages stand in the high bits of a ciphertext.
    BfvPir,
    /// Retrieval as by `bfv-pir`, with messages in the low bits.
    BgvPir,
    /// Retrieval as by `bfv-pir`, for rows of real numbers between -128 and 128, which come back rounded to seven decimals.
    CkksPir,
    /// A retrieval that protects nobody from anything: no document may name it, and only tests of `vesica-service` have its scheme.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    Null,
}

impl ServiceProtocol {
    /// All that a document may name.
    pub const ALL: &[Self] = &[
        ServiceProtocol::EcdhOprf,
        ServiceProtocol::SimplePir,
        ServiceProtocol::Download,
        ServiceProtocol::Piano,
        ServiceProtocol::BfvPir,
        ServiceProtocol::BgvPir,
        ServiceProtocol::CkksPir,
    ];

    /// As it stands in a document.
    pub fn name(self) -> &'static str {
        match self {
            ServiceProtocol::EcdhOprf => "ecdh-oprf",
            ServiceProtocol::SimplePir => "simple-pir",
            ServiceProtocol::Download => "download",
            ServiceProtocol::Piano => "piano",
            ServiceProtocol::BfvPir => "bfv-pir",
            ServiceProtocol::BgvPir => "bgv-pir",
            ServiceProtocol::CkksPir => "ckks-pir",
            ServiceProtocol::Null => "null",
        }
    }

    /// Whether a service may have it that looks rows up by this, and protects these.
    pub fn takes(self, by: By, private: Private) -> bool {
        match self {
            ServiceProtocol::EcdhOprf => (by, private) == (By::Key, Private::Both),
            ServiceProtocol::SimplePir | ServiceProtocol::Piano => true,
            // What is sealed and looked up by key is a store of tags.
            ServiceProtocol::Download => (by, private) != (By::Key, Private::Both),
            ServiceProtocol::BfvPir | ServiceProtocol::BgvPir => by == By::Index,
            ServiceProtocol::Null => true,
            // Approximate numbers cannot be sealed.
            ServiceProtocol::CkksPir => (by, private) == (By::Index, Private::Client),
        }
    }
}

/// Whether clients of `simple-pir` copy a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hint {
    /// They copy a hint of some 2 to 10 % of the table, once an epoch. For clients that ask very often, or who do not want to assume that a key
    /// may encrypt a function of itself.
    Copied,
    /// They copy a few kilobytes, and each query holds a key.
    None,
}

vesica_types::words!(Hint { Copied = "copied", None = "none" });

impl Hint {
    /// Fails if a document speaks of a hint whose protocol has none.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn check(hint: Option<Self>, protocol: ServiceProtocol) -> Result<(), SpecError> {
        if hint.is_none() || protocol == ServiceProtocol::SimplePir {
            return Ok(());
        }
        let why = format!("is for \"simple-pir\", and the protocol is \"{}\"; leave it out", protocol.name());
        refuse("service.hint", why)
    }
}

/// What a client looks a row up by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Its key: the key columns of the client's table.
    #[default]
    Key,
    /// Its number in the server's table, from 0: one column of the client's table. The server's `mine.input.keys` is `[]`.
    Index,
}

vesica_types::words!(By { Key = "key", Index = "index" });

/// Whose data a retrieval protects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Private {
    /// The client's, and the server's: values are sealed, and the oblivious function opens those of the rows that a client asks for.
    #[default]
    Both,
    /// The client's alone: every client can read all rows of the table. Needs `accept = ["all_rows"]`.
    Client,
}

vesica_types::words!(Private { Both = "both", Client = "client" });

/// Which rings `bfv-pir` and `bgv-pir` use. Both reach the same security.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The smallest that holds the table.
    #[default]
    Fast,
    /// Polynomials of 8192 coefficients modulo up to three primes of 50 bits, and plaintexts modulo 65537.
    Seed,
}

/// What a service may tell its clients beyond the rows that they look up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// All rows of the table.
    AllRows,
}

/// The default of `service.curve`.
fn default_curve() -> CurveName {
    CurveName::Ristretto255
}

/// The default of `service.expected_queries`.
pub fn default_expected() -> u32 {
    100
}

fn is_default_expected(queries: &u32) -> bool {
    *queries == default_expected()
}

/// The default of `service.lifetime_keys`.
fn default_lifetime() -> u64 {
    1 << 30
}

/// What is only the server's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerMine {
    /// The server's name; clients call it so.
    pub name: String,
    /// Where clients connect: `host:port`. For `vesica serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Gateways in front of this machine that speak the PROXY protocol, version 1 or 2, as addresses or networks: `["10.0.0.7", "10.1.0.0/16"]`. Each
    /// connection must come from one of them and begin with such a header, and counts as one from the address in it. When absent, no
    /// header is expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proxy_protocol: Vec<String>,
    /// Who the server is. Needed to serve, unless `service.insecure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// The table. For `vesica prepare`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// The folder of what is served: tags, and values sealed under keys that only the function opens.
    pub store: PathBuf,
    /// The file with the key of the function; beside the store, with the ending `.secret`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<PathBuf>,
    /// A file of at least 16 random bytes that seals the file with the key, or a program that prints them; or give a passphrase in the environment
    /// variable `VESICA_SERVICE_PASSPHRASE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<KeyPlace>,
    /// For `simple-pir` without a hint: the file with the key that signs epochs, which `vesica prepare` makes and `vesica serve` does not need;
    /// beside the store, with the ending `.signer`, when absent. It is sealed as the file with the key of the function is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<PathBuf>,
    /// For `simple-pir` without a hint: how long clients take an epoch after it was prepared, such as `"30 days"`; 90 days when absent.
    /// Prepare the table again before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<String>,
    /// Who may ask, by name. Read again while the server runs whenever this file changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, Client>,
    /// Connections at once, at most.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Where each request is noted, a line each: who, when, how many keys. Beside the store, with the ending `.audit`, when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<PathBuf>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served, as `host:port`, or as a port of 127.0.0.1 alone; nowhere when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Memory that `vesica prepare` may take, besides some 100 MiB. What is more is spilled to disk. With `bfv-pir`, `bgv-pir` and
    /// `ckks-pir` also what clients' keys may take together while `vesica serve` runs. What is served comes on top of that, up to twice: the
    /// state of the store that is served, and the one before it or the one that is being loaded.
    #[serde(default = "default_memory")]
    pub memory: String,
    /// A folder for what does not fit in memory; the system's temporary folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<PathBuf>,
    /// Threads that compute; as many as there are cores when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
}

/// The default of `mine.connections`.
fn default_connections() -> u32 {
    1024
}

/// Who the server is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// The private key and certificate, as `vesica cert` makes them.
    pub identity: PathBuf,
    /// The private key, where it stands in a file of its own or a program prints it, as PEM, and `identity` holds the certificate alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyPlace>,
}

/// Who may ask, and how much.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The fingerprint of its certificate, or a list of them, of which it may show any. This or `ca` is needed unless `service.insecure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Pins>,
    /// A file of authorities: any certificate that one of them signed for the client's name is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Keys that it may ask for a day (UTC). Each is a guess at the table, if the client is dishonest.
    pub keys_a_day: u64,
    /// Keys that it may ask for besides those of its days, once, until the key of the function is rotated: for a client that keeps answers
    /// (`mine.kept`), whose first run asks for all of its keys.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub keys_at_first: u64,
    /// Requests that it may make a minute.
    #[serde(default = "default_requests")]
    pub requests_a_minute: u32,
}

/// The default of `requests_a_minute`.
pub fn default_requests() -> u32 {
    60
}

/// The document of who asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Vesica client")]
pub struct ClientSpec {
    /// What is expected of the service.
    pub service: Asks,
    /// What is only this party's.
    pub mine: ClientMine,
}

/// What a client expects of a service.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Asks {
    /// Its name.
    pub id: String,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// For `simple-pir`: whether the service has a hint. When absent, what the offer says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// What rows are looked up by.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub by: By,
    /// Its group.
    #[serde(default = "default_curve")]
    pub curve: CurveName,
    /// What the server published, as the last line of `vesica prepare` says it. It stands for everything that the server says
    /// of the service, its public key included.
    pub offer: String,
    /// Whether the parties talk without TLS. For tests only.
    #[serde(default)]
    pub insecure: bool,
}

/// What is only the client's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientMine {
    /// The client's name, as the server's list has it.
    pub name: String,
    /// Where the server is: `{ bob = "host:port" }`; or a command whose standard input and output are the connection,
    /// `{ bob = "exec:ssh -W bob:5400 bastion" }`; or a table.
    pub connect: BTreeMap<String, Connect>,
    /// A proxy that the server is called through: `http://host:port`, which is asked to CONNECT, or `socks5://host:port`, each with `user:password@`
    /// before the host if it wants that. The proxy resolves the names of those who are called. `"none"` takes no proxy. When absent, the
    /// environment variables `HTTPS_PROXY` and `ALL_PROXY` name one; `NO_PROXY` lists hosts that are called without one in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyUrl>,
    /// A file with `user:password` for `proxy` on its first line, which no other user may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_credentials: Option<PathBuf>,
    /// Who this party is and whom it trusts. Needed unless `service.insecure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The table whose keys are asked for. For `vesica ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// The folder of what was fetched.
    pub cache: PathBuf,
    /// For retrieval, and with `kept`: how many different keys or numbers are looked up is rounded up to a multiple of this before the server sees
    /// it. 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// For `ecdh-oprf`: remembers what the service answered, so that the next run asks only for keys that are new in the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptFile>,
    /// The most that may be fetched: an amount, such as `"64 GiB"`. A server that offers more is refused.
    #[serde(default = "default_cache_size")]
    pub cache_size: String,
    /// Where the rows go whose keys were found, with their values behind them. For `vesica ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Memory that the run may take, besides some 100 MiB. What is more is spilled to disk.
    #[serde(default = "default_memory")]
    pub memory: String,
    /// A folder for what does not fit in memory; the system's temporary folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<PathBuf>,
    /// Threads that compute; as many as there are cores when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// Where the report goes: as a page if the name ends in `.html`, as the same page in Markdown if it ends in `.md`, otherwise as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<PathBuf>,
    /// How long to wait for a server that is late or was lost: a duration, such as `"10m"`.
    #[serde(default = "default_patience")]
    pub patience: String,
}

/// Where a client keeps what a service answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptFile {
    /// The file. The first run makes it; each run writes it anew, and meanwhile `.log` and `.new` stand beside it under its name.
    pub path: PathBuf,
    /// A file of at least 16 random bytes that seals it, or a program that prints them.
    pub key: KeyPlace,
}

/// What `mine.cache_size` is where the document does not say it.
pub fn default_cache_size() -> String {
    "64 GiB".to_owned()
}

impl ServerSpec {
    /// The document as it is written in a file, in TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("plain data without maps of odd keys")
    }

    /// Makes relative paths start at `folder`.
    pub fn anchor(&mut self, folder: &Path) {
        let mine = &mut self.mine;
        let mut paths = vec![&mut mine.store];
        mine.input.iter_mut().for_each(|input| input.origin.anchor(folder));
        if let Some(tls) = &mut mine.tls {
            paths.push(&mut tls.identity);
            paths.extend(tls.key.as_mut().map(KeyPlace::path));
        }
        paths.extend(mine.secret_key.as_mut().map(KeyPlace::path));
        paths.extend(mine.clients.values_mut().filter_map(|client| client.ca.as_mut()));
        for path in [&mut mine.secret, &mut mine.signer, &mut mine.audit, &mut mine.scratch] {
            paths.extend(path);
        }
        anchor(folder, paths);
    }
}

impl ClientSpec {
    /// The document as it is written in a file, in TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("plain data without maps of odd keys")
    }

    /// Makes relative paths start at `folder`.
    pub fn anchor(&mut self, folder: &Path) {
        let mine = &mut self.mine;
        let mut paths = vec![&mut mine.cache];
        mine.input.iter_mut().for_each(|input| input.origin.anchor(folder));
        paths.extend(mine.input.iter_mut().flat_map(|input| &mut input.day).flat_map(|day| &mut day.removed));
        if let Some(output) = &mut mine.output {
            // Where it is left out, it is nowhere.
            paths.extend(Some(&mut output.path).filter(|path| !path.as_os_str().is_empty()));
            paths.extend(&mut output.gained);
            paths.extend(&mut output.lost);
        }
        if let Some(kept) = &mut mine.kept {
            paths.extend([&mut kept.path, kept.key.path()]);
        }
        if let Some(tls) = &mut mine.tls {
            paths.push(&mut tls.identity);
            paths.extend(tls.key.as_mut().map(KeyPlace::path));
            paths.extend(&mut tls.ca);
        }
        paths.extend(&mut mine.proxy_credentials);
        paths.extend(&mut mine.scratch);
        paths.extend(&mut mine.report);
        anchor(folder, paths);
    }
}

/// Makes those of `paths` that are relative start at `folder`; `-` is no path but standard output.
pub(crate) fn anchor(folder: &Path, paths: Vec<&mut PathBuf>) {
    for path in paths.into_iter().filter(|path| path.as_os_str() != "-") {
        *path = folder.join(&*path);
    }
}
