//! What the documents of a service mean: complete and valid, or an error that names the field. Pure: no files, no clock.

use super::types::{
    Beyond, By, ClientMine, ClientSpec, Hint, Preset, Private, ServerMine, ServerSpec, Service, ServiceProtocol,
};
use crate::checks::{self, check_name, distinct, memory, patience, rules, table_format, workers};
use crate::connect::{RoadPlan, gateways};
use crate::error::{SpecError, refuse};
use crate::key::KeyPlace;
use crate::plan::{ProxyPlan, TrustPlan, key};
use crate::types::{Input, Order};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use vesica_net::Network;
use vesica_suite::CurveName;
use vesica_types::Party;

/// What the server does, with every field present.
#[derive(Clone, Debug)]
pub struct ServePlan {
    /// What clients are told.
    pub service: Service,
    /// The server.
    pub me: Party,
    /// Where clients connect.
    pub listen: Option<String>,
    /// Gateways that call here for clients, and nobody else does; none if clients come by themselves.
    pub gateways: Vec<Network>,
    /// The private key and certificate, and the key's own file if it has one.
    pub identity: Option<(PathBuf, Option<KeyPlace>)>,
    /// The table, without which nothing can be prepared.
    pub input: Option<vesica_table::Input>,
    /// Its key columns.
    pub keys: Vec<String>,
    /// The folder of what is served.
    pub store: PathBuf,
    /// Where the key of the function is.
    pub secret: Secret,
    /// Where the key is that signs epochs.
    pub signer: Secret,
    /// How long clients take an epoch.
    pub valid_for: Duration,
    /// A file of 32 bytes that the key of the function is derived from. No document has it; a SecretFlow configuration may.
    pub seed: Option<PathBuf>,
    /// Whether the service ends when a client has got what it came for. No document has it; a SecretFlow configuration does.
    pub once: bool,
    /// Who may ask.
    pub guests: Vec<GuestPlan>,
    /// Connections at once, at most.
    pub connections: usize,
    /// Where keys that were answered are counted.
    pub budget: PathBuf,
    /// Where requests are noted.
    pub audit: PathBuf,
    /// Where the state of the server is told.
    pub metrics: Option<String>,
    /// Bytes of memory.
    pub memory: u64,
    /// Where what is more goes.
    pub scratch: PathBuf,
    /// Threads that compute.
    pub workers: usize,
}

/// Where a key is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secret {
    /// Its file.
    pub path: PathBuf,
    /// The bytes that seal it, if there are any.
    pub key: Option<KeyPlace>,
}

/// Who may ask, and how much.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestPlan {
    /// Its name.
    pub name: String,
    /// How its certificate is recognised; absent only in an insecure service.
    pub trust: Option<TrustPlan>,
    /// Keys a day.
    pub keys_a_day: u64,
    /// Keys besides, once for each key of the function.
    pub keys_at_first: u64,
    /// Requests a minute.
    pub requests_a_minute: u32,
}

/// What a client does, with every field present.
#[derive(Clone, Debug)]
pub struct AskPlan {
    /// The service's name.
    pub id: String,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// Whether the service has a hint; what the offer says where absent.
    pub hint: Option<Hint>,
    /// What rows are looked up by.
    pub by: By,
    /// Its group.
    pub curve: CurveName,
    /// The hash of the offer that is expected. Absent only where a SecretFlow configuration was read, which cannot say it: then
    /// the server's offer is taken as it comes.
    pub offer: Option<[u8; 32]>,
    /// Whether there is no TLS.
    pub insecure: bool,
    /// The client.
    pub me: Party,
    /// The server.
    pub server: Party,
    /// Its address, or the command that leads to it as it is written.
    pub address: String,
    /// What is said of the road there.
    pub road: RoadPlan,
    /// Through which proxy it is called.
    pub proxy: ProxyPlan,
    /// The private key and certificate, and the key's own file if it has one.
    pub identity: Option<(PathBuf, Option<KeyPlace>)>,
    /// How the server's certificate is recognised.
    pub trust: Option<TrustPlan>,
    /// The table.
    pub input: Option<(vesica_table::Input, Vec<String>)>,
    /// What the table is where `input` has no more than the rows that were added to it.
    pub day: Option<DayPlan>,
    /// Where the rows go.
    pub output: Option<vesica_table::Output>,
    /// The columns of the table that go there; all where absent.
    pub columns: Option<Vec<String>>,
    /// Where the service's answers are kept from run to run.
    pub kept: Option<KeptPlan>,
    /// The number of lookups that the server sees is a multiple of this.
    pub batch: u64,
    /// The folder of what was fetched.
    pub cache: PathBuf,
    /// The most bytes that are fetched.
    pub cache_size: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Where what is more goes.
    pub scratch: PathBuf,
    /// Threads that compute.
    pub workers: usize,
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// How long to wait for the server.
    pub patience: Duration,
}

/// What changed in a client's table, besides the rows that were added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DayPlan {
    /// The rows whose keys are in it no more.
    pub removed: Option<vesica_table::Input>,
}

/// Where a client keeps what a service answered, and where it says what changed.
#[derive(Clone, Debug)]
pub struct KeptPlan {
    /// The file.
    pub path: PathBuf,
    /// What seals it.
    pub key: KeyPlace,
    /// Where rows go whose keys were not found in the run before.
    pub gained: Option<vesica_table::Output>,
    /// Where rows go whose keys were found in the run before and are not now.
    pub lost: Option<vesica_table::Output>,
}

/// The most keys that a service's lifetime may have: with 2^36 rows a tag then has 124 bits.
const MOST_KEYS: u64 = 1 << 48;

/// The most that lookups are rounded up to a multiple of.
const MOST_BATCH: u32 = 1 << 20;

/// The most bytes that the values of a row may be padded to.
const MOST_VALUE: u32 = 1 << 16;

/// The plan of a server.
///
/// # Errors
/// If a field contradicts another or means nothing; names the field, its value and the remedy.
pub fn plan_serve(spec: &ServerSpec) -> Result<ServePlan, SpecError> {
    let (service, mine) = (&spec.service, &spec.mine);
    Hint::check(service.hint, service.protocol)?;
    check_name("service.id", &service.id)?;
    check_name("mine.name", &mine.name)?;
    distinct("service.values", &service.values)?;
    if service.verifiable && !matches!(service.curve, CurveName::Ristretto255 | CurveName::P256) {
        let why = format!(
            "there are no proofs on \"{}\"; take curve = \"ristretto255\" or \"p256\", or leave verifiable out",
            service.curve.name()
        );
        return refuse("service.verifiable", why);
    }
    if !(1..=MOST_KEYS).contains(&service.lifetime_keys) {
        return refuse("service.lifetime_keys", format!("{} keys; give 1 to 2^48", service.lifetime_keys));
    }
    if service.value_bytes.is_some() && service.values.is_empty() {
        let why = "there are no values to pad; name columns in service.values, or leave it out";
        return refuse("service.value_bytes", why);
    }
    if service.value_bytes.is_some_and(|bytes| !(1..=MOST_VALUE).contains(&bytes)) {
        return refuse("service.value_bytes", format!("give 1 to {MOST_VALUE}"));
    }
    retrieval(service)?;
    if mine.input.as_ref().is_some_and(|input| input.day.is_some()) {
        let why = "is a client's; name the table in mine.input.path, and give what changed to `vesica prepare --append FILE --remove FILE`";
        return refuse("mine.input.added", why);
    }
    let (input, keys) =
        mine.input.as_ref().map(|table| input(table, service.by, mine.scratch.as_deref())).transpose()?.unzip();
    let keys = keys.unwrap_or_default();
    if input.is_some() {
        rules("service.rules", &service.rules, keys.len())?;
    }
    if let Some(both) = service.values.iter().find(|value| keys.contains(value)) {
        let why = format!("\"{both}\" is a key column, which a client that finds it has; take it out");
        return refuse("service.values", why);
    }
    let identity = match (&mine.tls, service.insecure) {
        (_, true) => None,
        (Some(tls), false) => Some((tls.identity.clone(), key(tls.key.as_ref(), "mine.tls.key")?)),
        (None, false) => {
            let why = format!(
                "is missing: make an identity with `vesica cert {0} --out DIR` and write tls = {{ identity = \"{0}.pem\" }}",
                mine.name
            );
            return refuse("mine.tls", why);
        }
    };
    check_store(&mine.store)?;
    check_signer(mine)?;
    if mine.connections == 0 {
        return refuse("mine.connections", "0 connections serve nobody; give 1 or more");
    }
    Ok(ServePlan {
        service: service.clone(),
        me: Party::new(0, &mine.name),
        listen: mine.listen.clone(),
        gateways: gateways(&mine.proxy_protocol, mine.listen.is_some())?,
        identity,
        input,
        keys,
        secret: Secret {
            path: mine.secret.clone().unwrap_or_else(|| beside(&mine.store, "secret")),
            key: key(mine.secret_key.as_ref(), "mine.secret_key")?,
        },
        signer: Secret {
            path: mine.signer.clone().unwrap_or_else(|| beside(&mine.store, "signer")),
            key: mine.secret_key.clone(),
        },
        valid_for: valid_for(mine.valid_for.as_deref().unwrap_or("90 days"))?,
        seed: None,
        once: false,
        guests: guests(spec)?,
        connections: mine.connections as usize,
        budget: beside(&mine.store, "budget"),
        audit: mine.audit.clone().unwrap_or_else(|| beside(&mine.store, "audit")),
        metrics: mine.metrics.clone(),
        // One spelling: what stands beside it is named by it.
        store: mine.store.components().collect(),
        memory: memory(&mine.memory)?,
        scratch: mine.scratch.clone().unwrap_or_else(std::env::temp_dir),
        workers: workers(mine.workers, |cores| cores)? as usize,
    })
}

/// How long clients take an epoch: a second to a hundred years.
fn valid_for(text: &str) -> Result<Duration, SpecError> {
    let wrong = |why| SpecError::field("mine.valid_for", format!("\"{text}\" {why}; write \"90 days\""));
    match humantime::parse_duration(text) {
        Err(error) => Err(wrong(format!("is not a duration ({error})"))),
        Ok(time) if !(1..=100 * 366 * 24 * 60 * 60).contains(&time.as_secs()) => {
            Err(wrong("is not from a second to a hundred years".to_owned()))
        }
        Ok(time) => Ok(time),
    }
}

/// The plan of a client.
///
/// # Errors
/// If a field contradicts another or means nothing; names the field, its value and the remedy.
pub fn plan_ask(spec: &ClientSpec) -> Result<AskPlan, SpecError> {
    let offer = offer(&spec.service.offer)?;
    Ok(AskPlan { offer: Some(offer), ..plan_ask_any(spec)? })
}

/// The plan of a client that takes the server's offer as it comes, whatever the document says of it.
///
/// # Errors
/// As [`plan_ask`].
pub fn plan_ask_any(spec: &ClientSpec) -> Result<AskPlan, SpecError> {
    let (service, mine) = (&spec.service, &spec.mine);
    check_name("service.id", &service.id)?;
    check_name("mine.name", &mine.name)?;
    Hint::check(service.hint, service.protocol)?;
    let (server, (address, road)) = match mine.connect.iter().collect::<Vec<_>>()[..] {
        [(name, connect)] => (Party::new(0, name), connect.read("mine.connect", service.insecure)?),
        _ => {
            let why = format!("{} servers; write connect = {{ NAME = \"host:port\" }}", mine.connect.len());
            return refuse("mine.connect", why);
        }
    };
    check_name("mine.connect", server.name())?;
    if server.name() == mine.name {
        return refuse("mine.connect", format!("\"{server}\" is this party itself"));
    }
    let (identity, trust) = match (&mine.tls, service.insecure) {
        (_, true) => (None, None),
        (None, false) => {
            let why = format!(
                "is missing: make an identity with `vesica cert {0} --out DIR` and write tls = {{ identity = \"{0}.pem\", peers = {{ {server} = \"sha256:…\" }} }}",
                mine.name
            );
            return refuse("mine.tls", why);
        }
        (Some(tls), false) => {
            let field = format!("mine.tls.peers.{server}");
            if let Some(other) = tls.peers.keys().find(|name| *name != server.name()) {
                let why = format!("\"{other}\" is not the server, which is {server} (mine.connect)");
                return refuse("mine.tls.peers", why);
            }
            let trust = match (&tls.ca, tls.peers.get(server.name())) {
                (Some(_), Some(_)) => {
                    let why =
                        "has both peers and ca: recognise the certificate by fingerprint or by authority, not both";
                    return refuse("mine.tls", why);
                }
                (Some(ca), None) => TrustPlan::Ca(ca.clone()),
                (None, Some(pins)) => TrustPlan::Pinned(pins.read(&field)?),
                (None, None) => {
                    let why = format!("is missing: ask {server} for the fingerprint that `vesica cert` printed");
                    return refuse(&field, why);
                }
            };
            (Some((tls.identity.clone(), key(tls.key.as_ref(), "mine.tls.key")?)), Some(trust))
        }
    };
    let columns = mine.output.as_ref().and_then(|output| output.columns.clone());
    if columns.as_ref().is_some_and(Vec::is_empty) {
        return refuse("mine.output.columns", "is empty: name columns, or leave it out for all of them");
    }
    distinct("mine.output.columns", columns.as_deref().unwrap_or_default())?;
    if mine.output.as_ref().is_some_and(|output| output.matched.is_some()) {
        return refuse("mine.output.matched", "is for a job with shared.identifiers; leave it out");
    }
    if mine.output.as_ref().is_some_and(|output| output.order != Order::default()) {
        return refuse("mine.output.order", "the rows stand in the input's order always; leave it out");
    }
    let (input, keys) =
        mine.input.as_ref().map(|table| input(table, By::Key, mine.scratch.as_deref())).transpose()?.unzip();
    if service.by == By::Index && keys.as_ref().is_some_and(|keys| keys.len() != 1) {
        return refuse("mine.input.keys", "name the one column that holds row numbers, from 0");
    }
    if service.protocol == ServiceProtocol::EcdhOprf && service.by == By::Index {
        return refuse("service.by", "is for retrieval, and \"ecdh-oprf\" is none; leave it out");
    }
    if service.protocol == ServiceProtocol::EcdhOprf && mine.batch.is_some() && mine.kept.is_none() {
        let why = "is for retrieval, and for mine.kept, which hides by it how many keys are new; leave it out";
        return refuse("mine.batch", why);
    }
    if mine.batch.is_some_and(|batch| !(1..=MOST_BATCH).contains(&batch)) {
        return refuse("mine.batch", format!("give 1 to {MOST_BATCH}"));
    }
    let parts = mine.output.as_ref().and_then(|output| output.parts.as_deref()).map(checks::parts).transpose()?;
    let kept = kept(service.protocol, mine)?;
    let day = day(mine, keys.as_deref().unwrap_or_default())?;
    // Of a key that was added on an earlier day no more is known than the key.
    let columns = columns.or_else(|| keys.clone().filter(|_| day.is_some()));
    Ok(AskPlan {
        id: service.id.clone(),
        protocol: service.protocol,
        hint: service.hint,
        by: service.by,
        kept,
        batch: mine.batch.unwrap_or(1).into(),
        curve: service.curve,
        offer: None,
        insecure: service.insecure,
        me: Party::new(1, &mine.name),
        server,
        address,
        road,
        proxy: crate::plan::proxy(mine.proxy.as_ref(), mine.proxy_credentials.as_ref())?,
        identity,
        trust,
        input: input.zip(keys),
        day,
        output: mine.output.as_ref().filter(|output| !output.path.as_os_str().is_empty()).map(|output| {
            vesica_table::Output {
                format: output.format.map(table_format),
                null: output.null.clone().unwrap_or_default(),
                parts,
                ..vesica_table::Output::new(&output.path)
            }
        }),
        columns,
        cache: mine.cache.clone(),
        cache_size: mine.cache_size.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(|_| {
            let why = format!("\"{}\" is not an amount; write \"64 GiB\"", mine.cache_size);
            SpecError::field("mine.cache_size", why)
        })?,
        memory: memory(&mine.memory)?,
        scratch: mine.scratch.clone().unwrap_or_else(std::env::temp_dir),
        workers: workers(mine.workers, |cores| cores)? as usize,
        report: mine.report.clone(),
        patience: patience(&mine.patience)?,
    })
}

/// Where answers are kept, and what says how this run differs from the last one.
fn kept(protocol: ServiceProtocol, mine: &ClientMine) -> Result<Option<KeptPlan>, SpecError> {
    let output = mine.output.as_ref();
    let places = [
        ("mine.output.gained", output.and_then(|output| output.gained.as_ref())),
        ("mine.output.lost", output.and_then(|output| output.lost.as_ref())),
    ];
    if output.is_some_and(|output| output.path.as_os_str().is_empty()) && places.iter().all(|(_, path)| path.is_none())
    {
        let why = "is missing: name the file for the rows that are found, or with mine.kept those for what changed, gained and lost";
        return refuse("mine.output.path", why);
    }
    let Some(kept) = &mine.kept else {
        return match places.iter().find(|(_, path)| path.is_some()) {
            Some((field, _)) => refuse(
                field,
                "says what changed since the last run, which nothing remembers; add kept = { path = \"…\", key = \"…\" } to [mine]",
            ),
            None => Ok(None),
        };
    };
    if protocol != ServiceProtocol::EcdhOprf {
        let why = format!(
            "keeps what the function of \"ecdh-oprf\" gives, and \"{}\" retrieves rows of one epoch; leave it out",
            protocol.name()
        );
        return refuse("mine.kept", why);
    }
    let plain = |path: &Path| path.components().filter(|part| *part != Component::CurDir).collect::<PathBuf>();
    if kept.path.file_name().is_none() {
        return refuse("mine.kept.path", format!("\"{}\" names no file", kept.path.display()));
    }
    let beside = [".log", ".new", ".part"].map(|ending| with_ending(&kept.path, ending));
    let mut taken = vec![("mine.kept.path", plain(&kept.path))];
    taken.extend(beside.iter().map(|path| ("mine.kept.path", plain(path))));
    let sinks = places.into_iter().filter_map(|(field, path)| Some((field, path?.as_path())));
    let all = output.map(|output| output.path.as_path()).filter(|path| !path.as_os_str().is_empty());
    let own = all.map(|path| ("mine.output.path", path)).into_iter().chain(sinks);
    let key = kept.key.file().map(|key| ("mine.kept.key", key));
    let report = mine.report.as_deref().map(|report| ("mine.report", report));
    // Day files that a run writes into would be other ones when its day is done again.
    let day = mine.input.iter().filter_map(|input| Some((input, input.day.as_ref()?)));
    let read = day.flat_map(|(input, day)| {
        let added = if let vesica_table::Origin::Path(path) = &input.origin { Some(path.as_path()) } else { None };
        let added = added.map(|path| ("mine.input.added", path));
        added.into_iter().chain(day.removed.as_deref().map(|path| ("mine.input.removed", path)))
    });
    for (field, path) in read.chain(key).chain(own).chain(report) {
        if path == Path::new("-") && matches!(field, "mine.output.gained" | "mine.output.lost") {
            return refuse(field, "cannot go to standard output, where the rows that were found go; name a file");
        }
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == plain(path)) {
            let why = format!("\"{}\" is the file of {other}, or stands beside it; name another one", path.display());
            return refuse(field, why);
        }
        taken.push((field, plain(path)));
    }
    let sink = |path: Option<&PathBuf>| {
        path.map(|path| vesica_table::Output {
            format: output.and_then(|output| output.format).map(table_format),
            null: output.and_then(|output| output.null.clone()).unwrap_or_default(),
            ..vesica_table::Output::new(path)
        })
    };
    Ok(Some(KeptPlan {
        path: kept.path.clone(),
        key: kept.key.read("mine.kept.key")?,
        gained: sink(places[0].1),
        lost: sink(places[1].1),
    }))
}

/// What changed in a table, where the document names day files in its place.
fn day(mine: &ClientMine, keys: &[String]) -> Result<Option<DayPlan>, SpecError> {
    let Some((input, day)) = mine.input.as_ref().and_then(|input| Some((input, input.day.as_ref()?))) else {
        return Ok(None);
    };
    if mine.kept.is_none() {
        let why = "says what changed in a table since the last run, which nothing remembers; add kept = { path = \"…\", key = \"…\" } to [mine], or \
                   name the whole table in mine.input.path";
        return refuse("mine.input.added", why);
    }
    let columns = mine.output.iter().flat_map(|output| &output.columns).flatten();
    if let Some(other) = columns.into_iter().find(|column| !keys.contains(column)) {
        let why = format!(
            "\"{other}\" is no key column, and with mine.input.added no more is kept of a row than its key; name key columns, leave it out, or read the \
             whole table with mine.input.path"
        );
        return refuse("mine.output.columns", why);
    }
    let parts = mine.output.as_ref().and_then(|output| Some((output, output.parts.as_deref()?)));
    if parts.is_some_and(|(output, parts)| parts == "files" || output.format.is_none()) {
        let why = "with mine.input.added the rows are of no file, whose number and format parts could have; write a size, such as \"256 MiB\", and \
                   format = \"csv\" beside it";
        return refuse("mine.output.parts", why);
    }
    let removed = day.removed.as_ref().map(|path| vesica_table::Input {
        format: input.format.map(table_format),
        temp: mine.scratch.clone(),
        ..vesica_table::Input::new(path)
    });
    Ok(Some(DayPlan { removed }))
}

/// The path of a file beside another one: this ending behind its name.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Fails if a service is no retrieval and its document speaks of one, or if what it says of one cannot be.
fn retrieval(service: &Service) -> Result<(), SpecError> {
    let all_rows = service.accept.contains(&Beyond::AllRows);
    let Service { protocol, by, private, preset, .. } = *service;
    if preset != Preset::Fast && !matches!(protocol, ServiceProtocol::BfvPir | ServiceProtocol::BgvPir) {
        return refuse("service.preset", "is for \"bfv-pir\" and \"bgv-pir\"; leave it out");
    }
    if protocol == ServiceProtocol::EcdhOprf {
        return match (by, private, all_rows) {
            (By::Index, ..) => {
                refuse("service.by", "\"ecdh-oprf\" is by key; leave it out, or take protocol = \"piano\"")
            }
            (_, Private::Client, _) => refuse("service.private", "\"ecdh-oprf\" protects both sides; leave it out"),
            (.., true) => refuse("service.accept", "\"ecdh-oprf\" tells no rows that were not asked for; leave it out"),
            _ => Ok(()),
        };
    }
    if by == By::Key && !protocol.takes(by, Private::Client) {
        let why = format!(
            "\"{}\" looks rows up by their number: write by = \"index\", or take protocol = \"simple-pir\" to look them up by key",
            protocol.name()
        );
        return refuse("service.by", why);
    }
    if protocol == ServiceProtocol::CkksPir && private == Private::Both {
        return refuse(
            "service.private",
            "\"ckks-pir\" gives approximate numbers, which cannot be sealed: write private = \"client\" and accept = [\"all_rows\"] if the \
             rows are public to all clients, or take protocol = \"bfv-pir\"",
        );
    }
    if protocol == ServiceProtocol::CkksPir && service.value_bytes.is_some() {
        return refuse("service.value_bytes", "the numbers of \"ckks-pir\" have one length; leave it out");
    }
    if service.expected_queries == 0 {
        return refuse("service.expected_queries", "0 queries need no service; give 1 or more");
    }
    match (private, all_rows) {
        (Private::Client, false) => refuse(
            "service.accept",
            "is missing: with private = \"client\" every client can read all rows of the table. Write accept = [\"all_rows\"] if the rows \
             are public to all clients, or leave private out to protect them",
        ),
        (Private::Client, _) if service.verifiable => {
            refuse("service.verifiable", "with private = \"client\" there is no function to prove; leave it out")
        }
        (Private::Both, true) => {
            refuse("service.accept", "private = \"both\" tells no rows that were not asked for; leave it out")
        }
        (Private::Both, _) if protocol == ServiceProtocol::Download && by == By::Key => refuse(
            "service.protocol",
            "a download of sealed values that are looked up by key is protocol = \"ecdh-oprf\": write that",
        ),
        _ if by == By::Index && service.values.is_empty() => refuse(
            "service.values",
            "is empty: a row that is looked up by its number has nothing to give but values; name columns",
        ),
        _ => Ok(()),
    }
}

/// The table that is read, and its key columns.
fn input(input: &Input, by: By, scratch: Option<&Path>) -> Result<(vesica_table::Input, Vec<String>), SpecError> {
    if input.value.is_some() {
        let why = "a service adds nothing up; leave it out, or run a job with shared.result = \"sum\"";
        return refuse("mine.input.value", why);
    }
    if !input.identifiers.is_empty() {
        let why = "names columns by identifier, and a service has one key: write keys = [\"COLUMN\"], or run a job with shared.identifiers";
        return refuse("mine.input.keys", why);
    }
    if by == By::Index && !input.keys.is_empty() {
        let why = "rows are looked up by their number, so the table has no key columns; write keys = []";
        return refuse("mine.input.keys", why);
    }
    if by == By::Key && input.keys.is_empty() {
        return refuse("mine.input.keys", "is empty: name the columns that make up the key");
    }
    distinct("mine.input.keys", &input.keys)?;
    Ok((input.table(scratch), input.keys.clone()))
}

/// The clients that the server's document names.
fn guests(spec: &ServerSpec) -> Result<Vec<GuestPlan>, SpecError> {
    let guest = |(name, client): (&String, &super::types::Client)| {
        let field = format!("mine.clients.{name}");
        check_name("mine.clients", name)?;
        if *name == spec.mine.name {
            return refuse("mine.clients", format!("\"{name}\" is the server itself"));
        }
        if client.keys_a_day == 0 || client.requests_a_minute == 0 {
            return refuse(&field, "0 allows nothing; give 1 or more, or take the client out");
        }
        let trust = match (&client.fingerprint, &client.ca) {
            _ if spec.service.insecure => None,
            (Some(_), Some(_)) => {
                return refuse(&field, "has both fingerprint and ca: recognise the certificate by one of them");
            }
            (None, Some(ca)) => Some(TrustPlan::Ca(ca.clone())),
            (Some(pins), None) => Some(TrustPlan::Pinned(pins.read(&format!("{field}.fingerprint"))?)),
            (None, None) => {
                let why = format!("is missing: ask {name} for the fingerprint that `vesica cert` printed");
                return refuse(&format!("{field}.fingerprint"), why);
            }
        };
        let (keys_a_day, requests_a_minute) = (client.keys_a_day, client.requests_a_minute);
        Ok(GuestPlan { name: name.clone(), trust, keys_a_day, keys_at_first: client.keys_at_first, requests_a_minute })
    };
    let guests: Vec<GuestPlan> = spec.mine.clients.iter().map(guest).collect::<Result<_, _>>()?;
    for (at, guest) in guests.iter().enumerate() {
        let pins = |guest: &GuestPlan| match &guest.trust {
            Some(TrustPlan::Pinned(pins)) => pins.clone(),
            _ => Vec::new(),
        };
        let own = pins(guest);
        let twin = guests[..at].iter().find(|other| pins(other).iter().any(|pin| own.contains(pin)));
        if let Some(twin) = twin {
            let why = format!("{} and {} have one certificate: nobody could tell who asks", twin.name, guest.name);
            return refuse("mine.clients", why);
        }
        // A certificate that an authority signed is one of both: names of hosts are compared without case and without a dot at the end.
        let host = |guest: &GuestPlan| {
            let is_signed = matches!(guest.trust, Some(TrustPlan::Ca(_)));
            is_signed.then(|| guest.name.trim_end_matches('.').to_ascii_lowercase())
        };
        let own = host(guest);
        let twin = own.as_ref().and_then(|_| guests[..at].iter().find(|other| host(other) == own));
        if let Some(twin) = twin {
            let why = format!(
                "a certificate that an authority signed for {} is one for {} too: nobody could tell who asks; use other names, or fingerprints",
                twin.name, guest.name
            );
            return refuse("mine.clients", why);
        }
    }
    Ok(guests)
}

/// The hash that an offer is named by: `sha256:` and 64 digits.
fn offer(text: &str) -> Result<[u8; 32], SpecError> {
    let wrong = || {
        let why = format!("\"{text}\" is no offer; copy the last line of the server's `vesica prepare`: sha256:…");
        SpecError::field("service.offer", why)
    };
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or_else(wrong)?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |c: u8| (c as char).to_digit(16);
        *byte = match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => (16 * high + low) as u8,
            _ => return Err(wrong()),
        };
    }
    Ok(hash)
}

/// Fails if the path of a store does not end in its name. The store may be given away, and what must not be stands beside it under its name:
/// beside "." that would be "..secret", in the store itself.
fn check_store(store: &Path) -> Result<(), SpecError> {
    match store.to_string_lossy().split('/').rfind(|part| !part.is_empty()) {
        None | Some("." | "..") => {
            let why = "does not end in a name, and the key of the function stands beside the store under that name; write the folder's name, \
                       for example store = \"list.store\"";
            refuse("mine.store", format!("\"{}\" {why}", store.display()))
        }
        Some(_) => Ok(()),
    }
}

/// Fails if the key that signs epochs has no file of its own, apart from the store.
fn check_signer(mine: &ServerMine) -> Result<(), SpecError> {
    let signer = mine.signer.clone().unwrap_or_else(|| beside(&mine.store, "signer"));
    let signer = signer.components().collect::<PathBuf>();
    let secret = mine.secret.clone().unwrap_or_else(|| beside(&mine.store, "secret"));
    let is = |other: &Path| signer == other.components().collect::<PathBuf>();
    let key_file = mine.secret_key.as_ref().and_then(KeyPlace::file);
    const BESIDE: [&str; 2] = [".next", ".lock"];
    let ends = |ending: &str| signer.as_os_str().as_encoded_bytes().ends_with(ending.as_bytes());
    let beside_it = |other: &Path| BESIDE.iter().any(|ending| is_beside(&signer, ending, other));
    let why = match () {
        () if BESIDE.into_iter().any(ends) => "has the name of what stands beside another key while that is made anew",
        () if beside_it(&secret) => "has mine.secret where a new key stands while it is made",
        () if key_file.is_some_and(beside_it) => "has mine.secret_key where a new key stands while it is made",
        () if is(&secret) => "is the file of mine.secret",
        () if key_file.is_some_and(is) => "is the file of mine.secret_key",
        () if signer.starts_with(&mine.store) => "stands in mine.store, which is given away",
        () => return Ok(()),
    };
    refuse("mine.signer", format!("\"{}\" {why}; name a file of its own", signer.display()))
}

/// Whether `other` is the file that is called as `path` is, with this ending behind it.
fn is_beside(path: &Path, ending: &str, other: &Path) -> bool {
    other.components().collect::<PathBuf>() == with_ending(path, ending)
}

/// The file beside `store` with this ending behind its name, whether or not that is written with a slash at its end.
fn beside(store: &Path, ending: &str) -> PathBuf {
    with_ending(&store.components().collect::<PathBuf>(), &format!(".{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Document, document};

    const SERVER: &str = r#"
[service]
id = "sanctions-2026"
protocol = "ecdh-oprf"
curve = "ristretto255"
values = ["name", "score"]

[mine]
name = "bob"
listen = "0.0.0.0:5400"
tls = { identity = "bob.pem" }
input = { path = "list.parquet", keys = ["id"] }
store = "list.store"
clients = { alice = { fingerprint = "sha256:PIN", keys_a_day = 100000 } }
"#;

    const CLIENT: &str = r#"
[service]
id = "sanctions-2026"
protocol = "ecdh-oprf"
curve = "ristretto255"
offer = "sha256:PIN"

[mine]
name = "alice"
connect = { bob = "bob.example:5400" }
tls = { identity = "alice.pem", peers = { bob = "sha256:PIN" } }
input = { path = "mine.csv", keys = ["id"] }
cache = "sanctions.cache"
output = { path = "hits.csv" }
"#;

    fn pinned(text: &str) -> String {
        text.replace("PIN", &"ab".repeat(32))
    }

    fn server(text: &str) -> Result<ServePlan, SpecError> {
        match document(&pinned(text), false)? {
            Document::Server(spec) => plan_serve(&spec),
            other => panic!("{other:?}"),
        }
    }

    fn client(text: &str) -> Result<AskPlan, SpecError> {
        match document(&pinned(text), false)? {
            Document::Client(spec) => plan_ask(&spec),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_has_defaults() {
        let plan = server(SERVER).unwrap();
        assert_eq!(plan.secret.path, Path::new("list.store.secret"));
        assert_eq!((&plan.budget, &plan.audit), (&"list.store.budget".into(), &"list.store.audit".into()));
        assert_eq!((plan.service.lifetime_keys, plan.connections), (1 << 30, 1024));
        // A slash at the end of a folder's name changes none of them.
        let slash = server(&SERVER.replace("\"list.store\"", "\"list.store/\"")).unwrap();
        assert_eq!((&slash.store, &slash.secret.path), (&plan.store, &plan.secret.path));
        assert_eq!((plan.guests[0].requests_a_minute, plan.guests[0].keys_at_first), (60, 0));
        let more = server(&SERVER.replace("keys_a_day = 100000", "keys_a_day = 9, keys_at_first = 700"));
        assert_eq!(more.unwrap().guests[0].keys_at_first, 700);
    }

    #[test]
    fn a_client_knows_what_it_expects() {
        let plan = client(CLIENT).unwrap();
        assert_eq!((plan.server.name(), plan.address.as_str()), ("bob", "bob.example:5400"));
        assert_eq!(plan.offer, Some([0xab; 32]));
    }

    #[test]
    fn what_means_nothing_is_refused_by_its_field() {
        let refused = |from: &str, to: &str| {
            let (text, of_server) = if SERVER.contains(from) { (SERVER, true) } else { (CLIENT, false) };
            let text = text.replace(from, to);
            let error = if of_server { server(&text).map(drop) } else { client(&text).map(drop) };
            error.unwrap_err().field.unwrap_or_default()
        };
        for (from, to, field) in [
            ("\"name\", \"score\"", "\"name\", \"id\"", "service.values"),
            ("values = [\"name\", \"score\"]", "value_bytes = 9", "service.value_bytes"),
            ("curve = \"ristretto255\"\nvalues", "curve = \"fourq\"\nverifiable = true\nvalues", "service.verifiable"),
            (
                "id = \"sanctions-2026\"\nprotocol = \"ecdh-oprf\"\ncurve = \"ristretto255\"\nvalues",
                "id = \"a b\"\nprotocol = \"ecdh-oprf\"\nvalues",
                "service.id",
            ),
            ("keys_a_day = 100000", "keys_a_day = 0", "mine.clients.alice"),
            ("fingerprint = \"sha256:PIN\", ", "", "mine.clients.alice.fingerprint"),
            ("clients = { alice", "clients = { bob", "mine.clients"),
            ("tls = { identity = \"bob.pem\" }", "", "mine.tls"),
            ("store = \"list.store\"", "store = \".\"", "mine.store"),
            ("store = \"list.store\"", "store = \"stores/..\"", "mine.store"),
            // As it is when "." was written in a document of this folder.
            ("store = \"list.store\"", "store = \"stores/.\"", "mine.store"),
            ("store = \"list.store\"", "store = \"/\"", "mine.store"),
            ("store = \"list.store\"", "store = \"\"", "mine.store"),
            ("offer = \"sha256:PIN\"", "offer = \"sha256:12\"", "service.offer"),
            ("connect = { bob = \"bob.example:5400\" }", "connect = { }", "mine.connect"),
            ("peers = { bob", "peers = { carol", "mine.tls.peers"),
            ("path = \"hits.csv\"", "path = \"hits.csv\", gained = \"g.csv\"", "mine.output.gained"),
            ("path = \"hits.csv\"", "path = \"hits.csv\", lost = \"l.csv\"", "mine.output.lost"),
            ("cache = \"sanctions.cache\"", "cache = \"c\"\nbatch = 8", "mine.batch"),
        ] {
            assert_eq!(refused(from, to), field, "{to}");
        }
    }

    /// What a client keeps has a file of its own, as has each output.
    #[test]
    fn a_client_that_keeps_names_files_of_their_own() {
        let with = |kept: &str, output: &str| {
            let text = CLIENT.replace("cache =", &format!("kept = {{ {kept} }}\ncache ="));
            client(&text.replace("path = \"hits.csv\"", &format!("path = \"hits.csv\"{output}")))
        };
        let (kept, changes) =
            ("path = \"bob.kept\", key = \"seal.key\"", ", gained = \"new.csv\", lost = \"gone.csv\"");
        let plan = with(kept, changes).unwrap().kept.unwrap();
        assert_eq!((plan.path.as_path(), plan.key.file()), (Path::new("bob.kept"), Some(Path::new("seal.key"))));
        assert_eq!(plan.gained.unwrap().path, Path::new("new.csv"));
        assert_eq!(plan.lost.unwrap().path, Path::new("gone.csv"));
        assert!(with(kept, "").unwrap().kept.unwrap().gained.is_none());
        // What changed may be all that is wanted.
        let text = CLIENT.replace("cache =", &format!("kept = {{ {kept} }}\ncache ="));
        let changes = client(&text.replace("path = \"hits.csv\"", "gained = \"new.csv\"")).unwrap();
        assert!(changes.output.is_none() && changes.kept.unwrap().gained.is_some());
        let none = client(&text.replace("path = \"hits.csv\"", "format = \"csv\"")).unwrap_err();
        assert_eq!(none.field.as_deref(), Some("mine.output.path"));
        for (kept, output, field) in [
            (kept, ", gained = \"hits.csv\"", "mine.output.gained"),
            (kept, ", gained = \"a.csv\", lost = \"./a.csv\"", "mine.output.lost"),
            (kept, ", lost = \"bob.kept.new\"", "mine.output.lost"),
            (kept, ", lost = \"bob.kept.part\"", "mine.output.lost"),
            (kept, ", lost = \"-\"", "mine.output.lost"),
            ("path = \"hits.csv\", key = \"seal.key\"", "", "mine.output.path"),
            ("path = \"seal.key\", key = \"seal.key\"", "", "mine.kept.key"),
            ("path = \"..\", key = \"seal.key\"", "", "mine.kept.path"),
        ] {
            assert_eq!(with(kept, output).unwrap_err().field.as_deref(), Some(field), "{kept} {output}");
        }
        assert!(with("path = \"bob.kept\"", "").unwrap_err().message.contains("key"));
        let other = CLIENT.replace("ecdh-oprf", "piano").replace("cache =", &format!("kept = {{ {kept} }}\ncache ="));
        assert_eq!(client(&other).unwrap_err().field.as_deref(), Some("mine.kept"));
    }

    /// Day files are a client's that keeps its answers, and nobody else's.
    #[test]
    fn day_files_are_of_a_client_that_keeps() {
        let kept = "kept = { path = \"bob.kept\", key = \"seal.key\" }\ncache =";
        let table = CLIENT.lines().find(|line| line.starts_with("input")).unwrap();
        let with = |input: &str, kept: &str, columns: &str| {
            let text = CLIENT.replace(table, &format!("input = {{ {input} }}")).replace("cache =", kept);
            client(&text.replace("path = \"hits.csv\"", &format!("path = \"hits.csv\"{columns}")))
        };
        let days = "added = \"new.csv\", removed = \"gone.csv\", keys = [\"id\"]";
        let plan = with(days, kept, "").unwrap();
        assert_eq!(plan.input.unwrap().0.origin, vesica_table::Origin::of("new.csv"));
        assert_eq!(plan.day.unwrap().removed.unwrap().origin, vesica_table::Origin::of("gone.csv"));
        assert_eq!(plan.columns.unwrap(), ["id"]);
        assert!(with("added = \"new.csv\", keys = [\"id\"]", kept, "").unwrap().day.unwrap().removed.is_none());
        let refused = |input: &str, kept: &str, columns: &str| with(input, kept, columns).unwrap_err();
        assert_eq!(refused(days, "cache =", "").field.as_deref(), Some("mine.input.added"));
        let columns = ", columns = [\"id\", \"name\"]";
        assert_eq!(refused(days, kept, columns).field.as_deref(), Some("mine.output.columns"));
        for (input, word) in [
            ("removed = \"gone.csv\", keys = [\"id\"]", "input.removed"),
            ("path = \"a.csv\", added = \"new.csv\", keys = [\"id\"]", "whole table"),
            ("added = \"-\", keys = [\"id\"]", "name them"),
        ] {
            assert!(refused(input, kept, "").message.contains(word), "{input}");
        }
        // None of them is a file that the run writes, and they are two.
        let same = |input: &str, columns: &str| refused(input, kept, columns).field.unwrap();
        for (field, more) in [("lost", ", lost = \"./gone.csv\""), ("gained", ", gained = \"new.csv\"")] {
            assert_eq!(same(days, more), format!("mine.output.{field}"));
        }
        for (parts, is_refused) in
            [("files\", format = \"csv", true), ("1 MiB", true), ("1 MiB\", format = \"csv", false)]
        {
            let field = with(days, kept, &format!(", parts = \"{parts}\"")).err().and_then(|error| error.field);
            assert_eq!(field.as_deref(), is_refused.then_some("mine.output.parts"), "{parts}");
        }
        assert_eq!(same(&days.replace("gone.csv", "new.csv"), ""), "mine.input.removed");
        assert_eq!(same(&days.replace("gone.csv", "bob.kept.new"), ""), "mine.input.removed");
        let served = SERVER.replace("path = \"list.parquet\"", "added = \"list.parquet\"");
        assert_eq!(server(&served).unwrap_err().field.as_deref(), Some("mine.input.added"));
    }

    #[test]
    fn a_client_is_known_by_its_fingerprint_or_by_an_authority() {
        let with = |known: &str| server(&SERVER.replace("fingerprint = \"sha256:PIN\"", known));
        let pinned = server(SERVER).unwrap().guests.remove(0).trust;
        assert!(matches!(pinned, Some(TrustPlan::Pinned(_))), "{pinned:?}");
        let signed = with("ca = \"ca.pem\"").unwrap().guests.remove(0).trust;
        assert_eq!(signed, Some(TrustPlan::Ca("ca.pem".into())));
        let both = with("ca = \"ca.pem\", fingerprint = \"sha256:PIN\"").unwrap_err();
        assert_eq!(both.field.as_deref(), Some("mine.clients.alice"));
    }

    #[test]
    fn what_a_retrieval_tells_is_accepted_by_name() {
        let with = |from: &str, to: &str| {
            let text = SERVER.replace("protocol = \"ecdh-oprf\"", "protocol = \"piano\"").replace(from, to);
            server(&text).map_err(|error| error.field.unwrap_or_default())
        };
        let curve = "curve = \"ristretto255\"";
        let index = with("keys = [\"id\"]", "keys = []");
        assert_eq!(index.unwrap_err(), "mine.input.keys");
        assert_eq!(with(curve, "private = \"client\"").unwrap_err(), "service.accept");
        assert_eq!(with(curve, "accept = [\"all_rows\"]").unwrap_err(), "service.accept");
        assert_eq!(with(curve, "by = \"index\"").unwrap_err(), "mine.input.keys");
        let open = with(curve, "private = \"client\"\naccept = [\"all_rows\"]").unwrap();
        assert!(open.service.private == Private::Client && open.service.by == By::Key);
        assert_eq!(with(curve, "").unwrap().service.private, Private::Both);
        let download = SERVER.replace("protocol = \"ecdh-oprf\"", "protocol = \"download\"");
        assert!(server(&download).unwrap_err().message.contains("ecdh-oprf"));
        for (extra, field) in [
            ("by = \"index\"", "service.by"),
            ("private = \"client\"", "service.private"),
            ("accept = [\"all_rows\"]", "service.accept"),
        ] {
            assert_eq!(server(&SERVER.replace(curve, extra)).unwrap_err().field.as_deref(), Some(field));
        }
    }

    #[test]
    fn lattice_services_are_by_index_and_real_numbers_are_not_sealed() {
        let with = |protocol: &str, more: &str| {
            let text = SERVER
                .replace("protocol = \"ecdh-oprf\"", &format!("protocol = \"{protocol}\"\n{more}"))
                .replace("keys = [\"id\"]", "keys = []");
            server(&text).map_err(|error| error.field.unwrap_or_default())
        };
        let open = "by = \"index\"\nprivate = \"client\"\naccept = [\"all_rows\"]";
        for protocol in ["bfv-pir", "bgv-pir", "ckks-pir"] {
            assert_eq!(with(protocol, open).unwrap().service.protocol.name(), protocol);
            assert_eq!(with(protocol, "").unwrap_err(), "service.by");
            assert_eq!(with(protocol, "by = \"index\"\nprivate = \"client\"").unwrap_err(), "service.accept");
            let seed = with(protocol, &format!("{open}\npreset = \"seed\""));
            assert_eq!(seed.is_ok(), protocol != "ckks-pir");
        }
        assert_eq!(with("bfv-pir", "by = \"index\"").unwrap().service.private, Private::Both);
        assert_eq!(with("ckks-pir", "by = \"index\"").unwrap_err(), "service.private");
        assert_eq!(with("ckks-pir", &format!("{open}\nvalue_bytes = 9")).unwrap_err(), "service.value_bytes");
        assert_eq!(with("piano", &format!("{open}\npreset = \"seed\"")).unwrap_err(), "service.preset");
    }

    /// A hint is a choice of "simple-pir" alone. What the choice was called before is refused with what to write.
    #[test]
    fn a_hint_is_for_simple_pir() {
        let with = |protocol: &str| server(&SERVER.replace("protocol = \"ecdh-oprf\"", protocol));
        for hint in ["none", "copied"] {
            let plan = with(&format!("protocol = \"simple-pir\"\nhint = \"{hint}\"")).unwrap();
            assert_eq!(plan.service.hint.map(Hint::name), Some(hint));
            let refused = with(&format!("protocol = \"piano\"\nhint = \"{hint}\"")).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("service.hint"));
        }
        assert_eq!(with("protocol = \"simple-pir\"").unwrap().service.hint, None);
        let before = with("protocol = \"packed-pir\"").unwrap_err().message;
        assert!(before.ends_with("write protocol = \"simple-pir\" and hint = \"none\""), "{before}");
    }

    /// The key that signs epochs has a file of its own: a new key of the function would take its place, and the store is given away.
    #[test]
    fn a_signer_has_a_file_of_its_own() {
        let with =
            |line: &str| server(&SERVER.replace("store = \"list.store\"", &format!("store = \"list.store\"\n{line}")));
        for line in [
            "signer = \"list.store.secret\"",
            "signer = \"keys/one\"\nsecret = \"keys//one\"",
            "signer = \"one.key\"\nsecret_key = \"one.key\"",
            "signer = \"list.store/signer\"",
            "signer = \"other.secret.next\"",
            "signer = \"keys/one.lock\"",
            "signer = \"one\"\nsecret = \"one.next\"",
            "signer = \"keys/one\"\nsecret = \"keys//one.lock\"",
        ] {
            assert_eq!(with(line).unwrap_err().field.as_deref(), Some("mine.signer"), "{line}");
        }
        assert_eq!(with("signer = \"keys/one\"").unwrap().signer.path, PathBuf::from("keys/one"));
    }

    /// Who only serves needs no table, and no document says what a SecretFlow configuration may.
    #[test]
    fn a_table_is_for_preparing() {
        let plan = server(&SERVER.replace("input = { path = \"list.parquet\", keys = [\"id\"] }", "")).unwrap();
        assert!(plan.input.is_none() && plan.keys.is_empty() && plan.seed.is_none() && !plan.once);
    }

    #[test]
    fn one_certificate_is_one_client() {
        let two =
            SERVER.replace("clients = { ", "clients = { carol = { fingerprint = \"sha256:PIN\", keys_a_day = 1 }, ");
        assert!(server(&two).unwrap_err().message.contains("one certificate"));
        // Names in which a certificate that an authority signed does not differ.
        let signed = SERVER.replace("fingerprint = \"sha256:PIN\"", "ca = \"ca.pem\"");
        let beside = |name: &str| {
            signed
                .replace("clients = { ", &format!("clients = {{ \"{name}\" = {{ ca = \"ca.pem\", keys_a_day = 1 }}, "))
        };
        for name in ["Alice", "alice.", "ALICE."] {
            let refused = server(&beside(name)).unwrap_err();
            assert!(
                refused.field.as_deref() == Some("mine.clients") && refused.message.contains("an authority signed"),
                "{name}"
            );
        }
        server(&beside("carol")).unwrap();
    }
}
