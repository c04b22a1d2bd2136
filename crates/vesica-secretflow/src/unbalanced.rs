//! What a `ub_psi_config` means: one party prepares a store and serves it, the other fetches it and asks.
//!
//! SecretFlow's cache is a folder on either side. Here the server's has the store and the file with its secret, the client's has a
//! copy of the store.

use super::What;
use super::launch::{IoConfig, IoType, JoinType, LaunchConfig, LinkConfig, LinkParty, Role, UbMode, UbPsiConfig};
use super::link::{Link, Trust, address};
use super::said::{Note, Result, refuse};
use super::translate::{csv, keys};
use std::collections::BTreeMap;
use std::path::PathBuf;
use vesica_spec::service::{
    AskPlan, Asks, By, ClientMine, ClientSpec, Private, ServePlan, ServerMine, ServerSpec, ServerTls, Service,
    ServiceProtocol, plan_ask_any, plan_serve,
};
use vesica_spec::{CurveName, Format, Input, Origin, Output, Rules, SpecError, Tls, default_memory};

/// What the service is called. The file's own name for it stands in `link_config`, which the mode that makes the cache lacks.
const ID: &str = "ub-psi";

/// Keys that may be asked for in the lifetime of a key, as where a document does not say it.
const LIFETIME_KEYS: u64 = 1 << 30;

/// The server's part of an unbalanced intersection.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// What is prepared and served.
    pub spec: ServerSpec,
    /// The file that the key of the function is derived from, with the place of the store; else each cache has a fresh key.
    pub seed: Option<PathBuf>,
    /// Whether the store is made.
    pub prepares: bool,
    /// Whether a client is served after that.
    pub serves: bool,
}

/// The client's part of an unbalanced intersection.
#[derive(Clone, PartialEq, Debug)]
pub struct Client {
    /// What is fetched and asked. It names no offer.
    pub spec: ClientSpec,
    /// Whether the store is fetched as it is now. If not, it must be there, and the server must still have the same key.
    pub fetches: bool,
    /// Whether keys are asked for after that.
    pub asks: bool,
}

impl Server {
    /// The plan of a service that ends with its client.
    ///
    /// # Errors
    /// Those of [`plan_serve`].
    pub fn plan(&self) -> std::result::Result<ServePlan, SpecError> {
        Ok(ServePlan { seed: self.seed.clone(), once: true, ..plan_serve(&self.spec)? })
    }
}

impl Client {
    /// The plan of a client that takes the server's offer as it comes.
    ///
    /// # Errors
    /// Those of [`plan_ask_any`].
    pub fn plan(&self) -> std::result::Result<AskPlan, SpecError> {
        plan_ask_any(&self.spec)
    }
}

/// What happens in a mode.
#[derive(Clone, Copy)]
struct Steps {
    prepares: bool,
    transfers: bool,
    asks: bool,
}

impl Steps {
    fn of(mode: UbMode) -> Result<Self> {
        let (prepares, transfers, asks) = match mode {
            UbMode::GenCache => (true, false, false),
            UbMode::TransferCache => (false, true, false),
            UbMode::Offline => (true, true, false),
            UbMode::Online => (false, false, true),
            UbMode::Full => (true, true, true),
            UbMode::Unspecified => return refuse("ub_psi_config.mode", "is missing: write MODE_FULL or another"),
        };
        Ok(Self { prepares, transfers, asks })
    }
}

/// What a `ub_psi_config` means.
///
/// # Errors
/// Everything that it asks for and that cannot be honoured, by its field's name.
pub fn meant(launch: &LaunchConfig, psi: &UbPsiConfig, trust: &Trust, notes: &mut Vec<Note>) -> Result<What> {
    let steps = Steps::of(psi.mode)?;
    let what = match psi.role {
        Role::Server => What::Server(Box::new(server(launch, psi, steps, trust, notes)?)),
        Role::Client => What::Client(Box::new(client(launch, psi, steps, trust, notes)?)),
        role => return refuse("ub_psi_config.role", format!("{role}: write ROLE_SERVER or ROLE_CLIENT")),
    };
    refuse_what_is_not_here(psi, steps)?;
    tell_what_has_no_meaning(psi, steps, notes);
    Ok(what)
}

fn server(
    launch: &LaunchConfig,
    psi: &UbPsiConfig,
    steps: Steps,
    trust: &Trust,
    notes: &mut Vec<Note>,
) -> Result<Server> {
    let cache = cache(psi)?;
    let serves = steps.transfers || steps.asks;
    let mut mine = ServerMine {
        name: "server".to_owned(),
        listen: None,
        proxy_protocol: Vec::new(),
        tls: None,
        input: steps.prepares.then(|| input(psi)).transpose()?,
        secret: Some(cache.join("store.secret")),
        store: cache.join("store"),
        secret_key: None,
        signer: None,
        valid_for: None,
        clients: BTreeMap::new(),
        connections: 16,
        audit: None,
        metrics: None,
        memory: default_memory(),
        scratch: None,
        workers: None,
    };
    // Whoever talks to nobody needs no identity.
    let mut insecure = true;
    if serves {
        let (link, peer) = link(launch)?;
        insecure = link.insecure(trust, notes)?;
        let tls = if insecure { None } else { Some(link.tls(trust)?) };
        let (fingerprint, ca) = match &tls {
            Some(tls) => (tls.peers.get(&peer.id).cloned(), tls.ca.clone()),
            None => (None, None),
        };
        let client = vesica_spec::service::Client {
            fingerprint,
            ca,
            keys_a_day: LIFETIME_KEYS,
            keys_at_first: 0,
            requests_a_minute: vesica_spec::service::default_requests(),
        };
        mine.name.clone_from(&link.me().id);
        mine.listen = Some(address(&link.me().host)?);
        mine.tls = tls.map(|Tls { identity, key, .. }| ServerTls { identity, key });
        mine.clients.insert(peer.id.clone(), client);
        notes.push(Note::new(
            "ub_psi_config.role",
            format!(
                "{}: the file sets no limit to what {} may ask for, so it may guess at {LIFETIME_KEYS} keys, for which the key is \
                 made; `vesica serve` has a limit for each client and day",
                psi.role, peer.id
            ),
        ));
        let waits = "no effect: the server waits for its client until it is stopped";
        for (set, field) in [
            (launch.link_config.connect_retry_times > 0, "link_config.connect_retry_times"),
            (launch.link_config.connect_retry_interval_ms > 0, "link_config.connect_retry_interval_ms"),
        ] {
            if set {
                notes.push(Note::new(field, waits));
            }
        }
        tell_of_the_link(launch, &link, trust, notes);
    } else {
        let alone = format!("no effect: {} needs nobody else", psi.mode);
        if launch.link_config != LinkConfig::default() {
            notes.push(Note::new("link_config", alone.as_str()));
        }
        if !launch.self_link_party.is_empty() {
            notes.push(Note::new("self_link_party", alone.as_str()));
        }
    }
    let secret = secret_key(psi).filter(|_| steps.prepares);
    if let Some((field, _)) = &secret {
        notes.push(Note::new(
            field,
            "the key follows from its 32 bytes and cache_path, so that no two caches have one key; SecretFlow makes another key of them",
        ));
    }
    let service = Service {
        id: ID.to_owned(),
        protocol: ServiceProtocol::EcdhOprf,
        hint: None,
        by: By::Key,
        private: Private::Both,
        accept: Vec::new(),
        preset: vesica_spec::service::Preset::default(),
        expected_queries: vesica_spec::service::default_expected(),
        curve: CurveName::FourQ,
        values: Vec::new(),
        value_bytes: None,
        verifiable: false,
        lifetime_keys: LIFETIME_KEYS,
        rules: Rules::default(),
        insecure,
    };
    let seed = secret.map(|(_, path)| path);
    Ok(Server { spec: ServerSpec { service, mine }, seed, prepares: steps.prepares, serves })
}

fn client(
    launch: &LaunchConfig,
    psi: &UbPsiConfig,
    steps: Steps,
    trust: &Trust,
    notes: &mut Vec<Note>,
) -> Result<Client> {
    if !steps.transfers && !steps.asks {
        return refuse(
            "ub_psi_config.mode",
            format!("{}: the client has no part in it; run it at the server, and then another mode here", psi.mode),
        );
    }
    let (link, peer) = link(launch)?;
    let insecure = link.insecure(trust, notes)?;
    let mine = ClientMine {
        name: link.me().id.clone(),
        connect: BTreeMap::from([(peer.id.clone(), address(&peer.host)?.into())]),
        proxy: None,
        proxy_credentials: None,
        tls: if insecure { None } else { Some(link.tls(trust)?) },
        input: steps.asks.then(|| input(psi)).transpose()?,
        cache: cache(psi)?.join("copy"),
        batch: None,
        kept: None,
        cache_size: vesica_spec::service::default_cache_size(),
        output: steps.asks.then(|| output(psi)).transpose()?,
        memory: default_memory(),
        scratch: None,
        workers: None,
        report: None,
        patience: link.patience(notes),
    };
    if steps.transfers {
        notes.push(Note::new(
            "ub_psi_config.mode",
            format!(
                "{}: the file cannot say which offer is expected, so the first one that {} sends is taken and kept in the cache; \
                 MODE_ONLINE takes no other one",
                psi.mode, peer.id
            ),
        ));
    }
    if steps.asks {
        notes.push(Note::new(
            "ub_psi_config.client_get_result",
            "a row whose key matches comes once, however often the server has the key",
        ));
    }
    tell_of_the_link(launch, &link, trust, notes);
    let service = Asks {
        id: ID.to_owned(),
        protocol: ServiceProtocol::EcdhOprf,
        hint: None,
        by: By::Key,
        curve: CurveName::FourQ,
        offer: String::new(),
        insecure,
    };
    Ok(Client { spec: ClientSpec { service, mine }, fetches: steps.transfers, asks: steps.asks })
}

/// The link of two, and the other party.
fn link(launch: &LaunchConfig) -> Result<(Link<'_>, &LinkParty)> {
    let link = Link::of(&launch.link_config, &launch.self_link_party, 2..=2, "a ub_psi_config")?;
    let peer = link.peers().next().expect("two parties have one other");
    Ok((link, peer))
}

fn tell_of_the_link(launch: &LaunchConfig, link: &Link<'_>, trust: &Trust, notes: &mut Vec<Note>) {
    if !launch.link_config.id.is_empty() {
        let what = format!("no effect: the service is called {ID}, because its cache is made without a link");
        notes.push(Note::new("link_config.id", what));
    }
    link.tell_what_has_no_meaning(trust, notes);
}

fn input(psi: &UbPsiConfig) -> Result<Input> {
    let table = Origin::Path(csv("ub_psi_config.input_config", &psi.input_config)?);
    Ok(Input { keys: keys("ub_psi_config.keys", &psi.keys)?, format: Some(Format::Csv), ..Input::of(table) })
}

fn output(psi: &UbPsiConfig) -> Result<Output> {
    Ok(Output {
        path: csv("ub_psi_config.output_config", &psi.output_config)?,
        format: Some(Format::Csv),
        ..Output::default()
    })
}

/// The folder, which early versions named in another field.
fn cache(psi: &UbPsiConfig) -> Result<PathBuf> {
    match [&psi.cache_path, &psi.cache_config.path].into_iter().find(|path| !path.is_empty()) {
        Some(path) => Ok(PathBuf::from(path)),
        None => refuse("ub_psi_config.cache_path", "is missing: name a folder for the cache"),
    }
}

/// The file with the server's key, if one is named, and the field that names it.
fn secret_key(psi: &UbPsiConfig) -> Option<(&'static str, PathBuf)> {
    let places = [
        ("ub_psi_config.server_secret_key_path", &psi.server_secret_key_path),
        ("ub_psi_config.server_secret_key_config", &psi.server_secret_key_config.path),
    ];
    places.into_iter().find(|(_, path)| !path.is_empty()).map(|(field, path)| (field, PathBuf::from(path)))
}

fn refuse_what_is_not_here(psi: &UbPsiConfig, steps: Steps) -> Result<()> {
    if psi.server_get_result {
        return refuse(
            "ub_psi_config.server_get_result",
            "true: the server would learn what the client says that it found, and a client may say anything. Where both are to \
             learn, run a psi_config with broadcast_result = true",
        );
    }
    if steps.asks && !psi.client_get_result {
        return refuse(
            "ub_psi_config.client_get_result",
            "false: with server_get_result false nobody would get a result, and a client that asks learns it in any case; write true",
        );
    }
    if !matches!(psi.advanced_join_type, JoinType::Unspecified | JoinType::Inner) {
        return refuse(
            "ub_psi_config.advanced_join_type",
            format!(
                "{}: a client learns which of its rows the server has, which is an inner join; write \
                 ADVANCED_JOIN_TYPE_INNER_JOIN, or a psi_config",
                psi.advanced_join_type
            ),
        );
    }
    if psi.intersection_threshold > 0 {
        return refuse(
            "ub_psi_config.intersection_threshold",
            format!(
                "{most}: no more than {most} common keys would be told, and a client that asks learns all of them; leave it out if \
                 it may",
                most = psi.intersection_threshold
            ),
        );
    }
    Ok(())
}

/// Fields that are set and change nothing, each with the reason.
fn tell_what_has_no_meaning(psi: &UbPsiConfig, steps: Steps, notes: &mut Vec<Note>) {
    let mut tell = |set: bool, field: &str, what: &str| {
        if set {
            notes.push(Note::new(&format!("ub_psi_config.{field}"), what));
        }
    };
    let server = psi.role == Role::Server;
    let mode = psi.mode;
    if !(if server { steps.prepares } else { steps.asks }) {
        let unread = format!("no effect: in {mode} this party reads no table");
        tell(psi.input_config != IoConfig::default(), "input_config", &unread);
        tell(!psi.keys.is_empty(), "keys", &unread);
    }
    if server || !steps.asks {
        let unwritten = if server { "the server gets no result".into() } else { format!("{mode} has no result") };
        tell(psi.output_config != IoConfig::default(), "output_config", &format!("no effect: {unwritten}"));
    }
    tell(psi.client_get_result && !steps.asks, "client_get_result", &format!("no effect: {mode} has no result"));

    let kept = match server {
        true if steps.prepares => None,
        true => Some(format!("no effect: {mode} takes the key that stands in cache_path")),
        false => Some("no effect: the key is the server's".to_owned()),
    };
    let key = &psi.server_secret_key_config;
    if let Some(kept) = kept {
        tell(!psi.server_secret_key_path.is_empty(), "server_secret_key_path", &kept);
        tell(!key.path.is_empty(), "server_secret_key_config.path", &kept);
    } else {
        let second = "no effect: server_secret_key_path comes first";
        let both = !psi.server_secret_key_path.is_empty() && !key.path.is_empty();
        tell(both, "server_secret_key_config.path", second);
    }
    tell(key.r#type != IoType::Unspecified, "server_secret_key_config.type", "no effect: the file has 32 bytes");
    let cache = &psi.cache_config;
    let both = !psi.cache_path.is_empty() && !cache.path.is_empty();
    tell(both, "cache_config.path", "no effect: cache_path comes first");
    tell(cache.r#type != IoType::Unspecified, "cache_config.type", "no effect: a cache is a folder");

    tell(psi.disable_alignment, "disable_alignment", "no effect: the client's rows come in its input's order");
    tell(psi.left_side != Role::Unspecified, "left_side", "no effect: an inner join has no sides");
    tell(
        psi.input_attr.keys_unique,
        "input_attr.keys_unique",
        "no effect: a key may stand in several rows, at no cost where none does",
    );
    let null = !psi.output_attr.csv_null_rep.is_empty();
    tell(null, "output_attr.csv_null_rep", "no effect: an inner join has no missing rows");
    tell(!psi.count_path.is_empty(), "count_path", "no effect: it belongs to intersection_threshold");
    tell(
        !psi.debug_options.logging_level.is_empty(),
        "debug_options.logging_level",
        "no effect: --log and the environment variable VESICA_LOG say what is logged",
    );
    let trace = !psi.debug_options.trace_path.is_empty();
    tell(
        trace,
        "debug_options.trace_path",
        "no effect: an unbalanced intersection writes no trace, as with SecretFlow",
    );
}
