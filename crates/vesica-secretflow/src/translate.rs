//! What a launch configuration means as a job.
//!
//! Both parties must end with the same `[shared]`, so it follows from fields alone that SecretFlow compares or needs to be
//! the same: the link's parties, their order and id, and the protocol's settings. What differs between the two files
//! (role, addresses, files) goes into `[mine]`, after the roles have said who learns and who stands left.

use super::launch::{
    BucketConfig, Curve, EcdhConfig, IoConfig, IoType, JoinType, LaunchConfig, LinkConfig, LinkParty, Protocol,
    ProtocolConfig, PsiConfig, Role, Rr22Config, SslOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use vesica_spec::{
    Accept, CurveName, Duplicates, Extra, Format, Input, Join, Limits, Mine, Mode, Order, Output, ProtocolName,
    ResultKind, Rules, Security, Shared, Spec, SpecError, Tls, default_memory, default_patience,
};

/// How the parties are to know each other, which SecretFlow's files seldom say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// As the file says it. Without TLS in the file that is refused, unless every address is on this machine.
    #[default]
    AsWritten,
    /// No TLS: anyone between the parties can read and forge what they say.
    Insecure,
    /// TLS with this identity; the other party's certificate is known by its fingerprint (`sha256:…`) or by the
    /// authorities in this file.
    Tls {
        /// This party's private key and certificate.
        identity: PathBuf,
        /// A fingerprint or a file.
        peer: String,
    },
}

/// Something in the file that has another effect than with SecretFlow, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The field.
    pub field: String,
    /// What becomes of it.
    pub what: String,
}

impl Note {
    pub(super) fn new(field: &str, what: impl Into<String>) -> Self {
        Self { field: field.to_owned(), what: what.into() }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

/// The shortest wait for a late party that a file can ask for.
const SHORTEST_WAIT_MS: u64 = 1000;

/// The longest one.
const LONGEST_WAIT_MS: u64 = 7 * 24 * 3600 * 1000;

/// The largest `shared.unit`.
const LARGEST_UNIT: u64 = 1 << 20;

type Result<T> = std::result::Result<T, SpecError>;

fn refuse<T>(field: &str, why: impl Into<String>) -> Result<T> {
    Err(SpecError::field(field, why))
}

/// The job that `launch` means.
///
/// # Errors
/// Everything that the file asks for and that cannot be honoured, by its field's name.
pub fn job(launch: &LaunchConfig, trust: &Trust, notes: &mut Vec<Note>) -> Result<Spec> {
    let psi = runtime(launch)?;
    let (link, me) = link(launch, psi)?;
    let sides = Sides::of(link, me, psi)?;
    let insecure = match trust {
        Trust::Insecure => true,
        Trust::AsWritten => !link.enable_ssl && on_this_machine(link, notes)?,
        Trust::Tls { .. } => false,
    };
    let learns: Vec<String> = sides.order.iter().filter(|p| sides.learns(p, psi)).map(|p| p.id.clone()).collect();
    let i_learn = learns.contains(&me.id);
    let told = Told::of(psi, &sides, i_learn)?;
    let shared = Shared {
        id: if link.id.is_empty() { "root".to_owned() } else { link.id.clone() },
        parties: sides.order.iter().map(|p| p.id.clone()).collect(),
        protocol: protocol(psi)?,
        curve: curve(psi)?,
        result: ResultKind::Rows,
        mode: mode(psi),
        security: Security::SemiHonest,
        join: join(psi)?,
        duplicates: Duplicates::Join,
        rules: Rules::default(),
        accept: accept(psi)?,
        limits: Limits::default(),
        learns,
        unit: unit(psi, notes),
        insecure,
    };
    let mine = Mine {
        name: me.id.clone(),
        listen: sides.i_listen.then(|| address(&me.host)).transpose()?,
        connect: match sides.i_listen {
            true => BTreeMap::new(),
            false => BTreeMap::from([(sides.peer.id.clone(), address(&sides.peer.host)?)]),
        },
        tls: if insecure { None } else { Some(tls(link, trust, sides.peer)?) },
        input: Input {
            path: csv("psi_config.input_config", &psi.input_config)?,
            keys: keys(psi)?,
            format: Some(Format::Csv),
        },
        output: i_learn.then(|| output(psi, told)).transpose()?,
        memory: default_memory(),
        scratch: None,
        workers: None,
        report: None,
        trace: Some(&psi.debug_options.trace_path).filter(|path| !path.is_empty()).map(PathBuf::from),
        resume: resume(psi)?,
        resume_key: None,
        patience: patience(link, notes),
    };
    if psi.intersection_threshold > 0 {
        return refuse(
            "psi_config.intersection_threshold",
            format!(
                "{most}: no more than {most} common keys would be told, and there is no such cap here. Leave it out if all of \
                 them may be told; that nothing is told where there are too few is limits.min_intersection in a job file, \
                 as `vesica import secretflow` writes it",
                most = psi.intersection_threshold
            ),
        );
    }
    tell_what_has_no_meaning(launch, psi, told, notes);
    tell_what_proves_nothing(link, trust, notes);
    Ok(Spec { shared, mine })
}

/// The balanced intersection, which is the one kind of run that is here.
fn runtime(launch: &LaunchConfig) -> Result<&PsiConfig> {
    let kinds = [
        ("psi_config", launch.psi_config.is_some()),
        ("legacy_psi_config", launch.legacy_psi_config.is_some()),
        ("ub_psi_config", launch.ub_psi_config.is_some()),
        ("apsi_sender_config", launch.apsi_sender_config.is_some()),
        ("apsi_receiver_config", launch.apsi_receiver_config.is_some()),
        ("dk_pir_sender_config", launch.dk_pir_sender_config.is_some()),
        ("dk_pir_receiver_config", launch.dk_pir_receiver_config.is_some()),
        ("pir_config", launch.pir_config.is_some()),
    ];
    let given: Vec<&str> = kinds.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    match (given.as_slice(), &launch.psi_config) {
        (["psi_config"], Some(psi)) => Ok(psi),
        ([], _) => refuse("psi_config", "is missing: the file says nothing of what to run"),
        (["legacy_psi_config"], _) => refuse(
            "legacy_psi_config",
            "version 1 of SecretFlow's interface is not read; write the same as a psi_config, which is version 2",
        ),
        (["ub_psi_config"], _) => refuse("ub_psi_config", "unbalanced intersections are not here yet"),
        ([one], _) => refuse(one, "private information retrieval is not here yet"),
        (several, _) => refuse(several[1], format!("stands beside {}; a file asks for one run", several[0])),
    }
}

/// What stood in psi_config in early versions, unless it stands where it does now.
fn outer_or<'a, T: Default + PartialEq>(outer: &'a T, inner: &'a T) -> &'a T {
    if *outer == T::default() { inner } else { outer }
}

/// The link, and this party in it.
fn link<'a>(launch: &'a LaunchConfig, psi: &'a PsiConfig) -> Result<(&'a LinkConfig, &'a LinkParty)> {
    let link = outer_or(&launch.link_config, &psi.link_config);
    let own = outer_or(&launch.self_link_party, &psi.self_link_party);
    let ids: Vec<&str> = link.parties.iter().map(|p| p.id.as_str()).collect();
    if own.is_empty() {
        return refuse("self_link_party", "is missing: which of link_config.parties is this?");
    }
    if ids.len() != 2 {
        return refuse("link_config.parties", format!("{} parties; a psi_config is for two", ids.len()));
    }
    for id in &ids {
        vesica_spec::check_name("link_config.parties", id)?;
    }
    if ids[0] == ids[1] {
        return refuse("link_config.parties", format!("\"{}\" is named twice", ids[0]));
    }
    if !link.id.is_empty() {
        vesica_spec::check_name("link_config.id", &link.id)?;
    }
    match link.parties.iter().find(|p| p.id == *own) {
        Some(me) => Ok((link, me)),
        None => refuse("self_link_party", format!("\"{own}\" is not one of link_config.parties ({})", ids.join(", "))),
    }
}

/// Who stands where.
struct Sides<'a> {
    /// Left, then right: as `left_side` says where that has a meaning, else the link's order.
    order: [&'a LinkParty; 2],
    peer: &'a LinkParty,
    receiver: &'a LinkParty,
    /// The first of the link listens, the other calls; it has nothing to do with roles.
    i_listen: bool,
}

impl<'a> Sides<'a> {
    fn of(link: &'a LinkConfig, me: &'a LinkParty, psi: &PsiConfig) -> Result<Self> {
        let [first, second] = [&link.parties[0], &link.parties[1]];
        let peer = if me.id == first.id { second } else { first };
        let (receiver, sender) = match psi.protocol_config.role {
            Role::Receiver => (me, peer),
            Role::Sender => (peer, me),
            role => {
                return refuse(
                    "psi_config.protocol_config.role",
                    format!("{}: write ROLE_RECEIVER or ROLE_SENDER", role),
                );
            }
        };
        let both = psi.protocol_config.broadcast_result;
        let order = match psi.left_side {
            _ if is_inner(psi) => [first, second],
            Role::Receiver | Role::Sender if !both => [first, second],
            Role::Receiver => [receiver, sender],
            Role::Sender => [sender, receiver],
            role => {
                return refuse(
                    "psi_config.left_side",
                    format!(
                        "{}: {} needs to know whose table is the left one, ROLE_RECEIVER's or ROLE_SENDER's",
                        role, psi.advanced_join_type
                    ),
                );
            }
        };
        Ok(Self { order, peer, receiver, i_listen: me.id == first.id })
    }

    /// The receiver always, the sender if the result is broadcast.
    fn learns(&self, party: &LinkParty, psi: &PsiConfig) -> bool {
        party.id == self.receiver.id || psi.protocol_config.broadcast_result
    }
}

fn protocol(psi: &PsiConfig) -> Result<ProtocolName> {
    match psi.protocol_config.protocol {
        Protocol::Ecdh => Ok(ProtocolName::Ecdh),
        Protocol::Rr22 => Ok(ProtocolName::Rr22),
        Protocol::Kkrt => Ok(ProtocolName::Kkrt),
        Protocol::Unspecified => {
            refuse("psi_config.protocol_config.protocol", "is missing: write PROTOCOL_RR22 or another")
        }
    }
}

fn mode(psi: &PsiConfig) -> Mode {
    let rr22 = psi.protocol_config.protocol == Protocol::Rr22;
    if rr22 && psi.protocol_config.rr22_config.low_comm_mode { Mode::LowComm } else { Mode::Fast }
}

fn curve(psi: &PsiConfig) -> Result<CurveName> {
    match psi.protocol_config.ecdh_config.curve {
        _ if psi.protocol_config.protocol != Protocol::Ecdh => Ok(CurveName::default()),
        // Both are the same group, and our hash to it is RFC 9380's Elligator 2 in either case.
        Curve::Curve25519 | Curve::Elligator2 => Ok(CurveName::Curve25519),
        Curve::FourQ => Ok(CurveName::FourQ),
        Curve::Sm2 => Ok(CurveName::Sm2),
        Curve::Secp256k1 => Ok(CurveName::Secp256k1),
        Curve::Invalid => {
            refuse("psi_config.protocol_config.ecdh_config.curve", "is missing: write CURVE_25519 or another")
        }
    }
}

fn is_inner(psi: &PsiConfig) -> bool {
    matches!(psi.advanced_join_type, JoinType::Unspecified | JoinType::Inner)
}

/// Left and right are sides of the job's parties, which stand as `left_side` says.
fn join(psi: &PsiConfig) -> Result<Join> {
    let both = psi.protocol_config.broadcast_result;
    match psi.advanced_join_type {
        JoinType::Unspecified | JoinType::Inner => Ok(Join::Inner),
        JoinType::Difference => Ok(Join::Difference),
        JoinType::Left if both => Ok(Join::Left),
        JoinType::Right if both => Ok(Join::Right),
        JoinType::Full if both => Ok(Join::Full),
        join => refuse(
            "psi_config.advanced_join_type",
            format!(
                "{join} where the receiver learns alone is its whole table, or its inner join and rows of nulls: write \
                 broadcast_result = true, or ADVANCED_JOIN_TYPE_INNER_JOIN"
            ),
        ),
    }
}

/// What SecretFlow's documentation says that the join tells: who asks for the join asks for that.
fn accept(psi: &PsiConfig) -> Result<Accept> {
    let shape = join(psi)?.shape();
    let told = [(shape.left, Extra::LeftUnmatched), (shape.right, Extra::RightUnmatched)];
    let both = psi.protocol_config.broadcast_result;
    Ok(Accept::Named(told.into_iter().filter_map(|(told, extra)| (told && both).then_some(extra)).collect()))
}

/// What this party gets, on which it depends what some fields mean.
#[derive(Clone, Copy)]
struct Told {
    /// A result.
    result: bool,
    /// Rows that line up with the other party's.
    pairs: bool,
    /// Rows of nulls among them.
    nulls: bool,
}

impl Told {
    fn of(psi: &PsiConfig, sides: &Sides<'_>, result: bool) -> Result<Self> {
        let pairs = psi.protocol_config.broadcast_result;
        let place = u8::from(sides.order[0].id == sides.peer.id);
        Ok(Self { result, pairs, nulls: pairs && join(psi)?.shape().half(place).theirs })
    }
}

fn output(psi: &PsiConfig, told: Told) -> Result<Output> {
    Ok(Output {
        path: csv("psi_config.output_config", &psi.output_config)?,
        format: Some(Format::Csv),
        columns: None,
        null: Some(&psi.output_attr.csv_null_rep).filter(|null| told.nulls && !null.is_empty()).cloned(),
        order: if psi.disable_alignment && told.pairs { Order::Input } else { Order::Aligned },
    })
}

/// SecretFlow's checkpoints, which keep secret keys in the clear, are our ledgers, which keep none.
fn resume(psi: &PsiConfig) -> Result<Option<PathBuf>> {
    match (psi.recovery_config.enabled, psi.recovery_config.folder.as_str()) {
        (false, _) => Ok(None),
        (true, "") => refuse("psi_config.recovery_config.folder", "is missing: where are finished units to be kept?"),
        (true, folder) => Ok(Some(PathBuf::from(folder))),
    }
}

/// SecretFlow's buckets are our units: so many keys are worked on at once.
fn unit(psi: &PsiConfig, notes: &mut Vec<Note>) -> Option<u32> {
    let (field, size) = match psi.protocol_config.protocol {
        Protocol::Kkrt => ("kkrt_config.bucket_size", psi.protocol_config.kkrt_config.bucket_size),
        Protocol::Rr22 => ("rr22_config.bucket_size", psi.protocol_config.rr22_config.bucket_size),
        _ => return None,
    };
    if size > LARGEST_UNIT {
        notes.push(Note::new(
            &format!("psi_config.protocol_config.{field}"),
            format!("{size} keys a bucket; a unit has at most {LARGEST_UNIT}"),
        ));
    }
    (size > 0).then_some(size.min(LARGEST_UNIT) as u32)
}

fn keys(psi: &PsiConfig) -> Result<Vec<String>> {
    if psi.keys.is_empty() {
        return refuse("psi_config.keys", "is missing: name the columns that make up the key");
    }
    let mut seen = BTreeSet::new();
    match psi.keys.iter().find(|key| !seen.insert(*key)) {
        Some(twice) => refuse("psi_config.keys", format!("\"{twice}\" is named twice")),
        None => Ok(psi.keys.clone()),
    }
}

/// The path of a CSV file; relative ones start at the current folder, as with SecretFlow.
fn csv(field: &str, io: &IoConfig) -> Result<PathBuf> {
    match (io.r#type, io.path.as_str()) {
        (IoType::Unspecified, _) => refuse(&format!("{field}.type"), "is missing: write IO_TYPE_FILE_CSV"),
        (IoType::Csv, "") => refuse(&format!("{field}.path"), "is missing"),
        (IoType::Csv, path) => Ok(PathBuf::from(path)),
    }
}

/// `host:port` of a host that may be written as a URL.
fn address(host: &str) -> Result<String> {
    let plain = ["http://", "https://"].iter().find_map(|scheme| host.strip_prefix(scheme)).unwrap_or(host);
    let plain = plain.strip_suffix('/').unwrap_or(plain);
    let port = plain.rsplit_once(':').and_then(|(name, port)| (!name.is_empty()).then(|| port.parse::<u16>().ok())?);
    match port {
        Some(_) => Ok(plain.to_owned()),
        None => refuse("link_config.parties.host", format!("\"{host}\" has no port; write \"host:5300\"")),
    }
}

/// Whether no byte leaves this machine; else plaintext needs to be asked for.
fn on_this_machine(link: &LinkConfig, notes: &mut Vec<Note>) -> Result<bool> {
    for party in &link.parties {
        let address = address(&party.host)?;
        let (name, _) = address.rsplit_once(':').unwrap_or((&address, ""));
        let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if name != "localhost" && !ip.is_ok_and(|ip| ip.is_loopback()) {
            return refuse(
                "link_config.enable_ssl",
                "is false: the parties would talk in the clear, and not know who answers. Make an identity with `vesica \
                 cert NAME`, tell each other the fingerprints, and add --identity NAME.pem --trust sha256:…; or add \
                 --insecure on both sides to go without, as SecretFlow does",
            );
        }
    }
    notes.push(Note::new("link_config.enable_ssl", "is false: no TLS, because both addresses are on this machine"));
    Ok(true)
}

/// The part of each of the link's two sets of TLS options that counts: one connection joins the parties, where SecretFlow
/// has one for either direction.
struct Proof<'a> {
    /// Says who this party is.
    own: &'a SslOptions,
    /// Says whom it trusts.
    authority: &'a SslOptions,
}

impl<'a> Proof<'a> {
    fn of(link: &'a LinkConfig) -> Self {
        let (server, client) = (&link.server_ssl_opts, &link.client_ssl_opts);
        Self {
            own: if server.certificate_path.is_empty() { client } else { server },
            authority: if *client == SslOptions::default() { server } else { client },
        }
    }
}

/// Who this party is and whom it trusts.
fn tls(link: &LinkConfig, trust: &Trust, peer: &LinkParty) -> Result<Tls> {
    let pinned = |pin: &str| BTreeMap::from([(peer.id.clone(), pin.to_owned())]);
    if let Trust::Tls { identity, peer } = trust {
        let (peers, ca) = match peer.starts_with("sha256:") {
            true => (pinned(peer), None),
            false => (BTreeMap::new(), Some(PathBuf::from(peer))),
        };
        return Ok(Tls { identity: identity.clone(), key: None, peers, ca });
    }
    let instead = "or say who both are with --identity FILE --trust sha256:…";
    let Proof { own, authority } = Proof::of(link);
    if own.certificate_path.is_empty() {
        return refuse(
            "link_config.server_ssl_opts.certificate_path",
            format!("is missing: here each side proves who it is; {instead}"),
        );
    }
    if own.private_key_path.is_empty() {
        return refuse("link_config.server_ssl_opts.private_key_path", format!("is missing; give it, {instead}"));
    }
    if authority.verify_depth == 0 {
        return refuse(
            "link_config.client_ssl_opts.verify_depth",
            format!("0 would let anyone answer: give 1 or more and a ca_file_path, {instead}"),
        );
    }
    if authority.ca_file_path.is_empty() {
        return refuse(
            "link_config.client_ssl_opts.ca_file_path",
            format!("is missing: the authorities of the system sign for anyone; name the parties' own, {instead}"),
        );
    }
    Ok(Tls {
        identity: PathBuf::from(&own.certificate_path),
        key: Some(PathBuf::from(&own.private_key_path)),
        peers: BTreeMap::new(),
        ca: Some(PathBuf::from(&authority.ca_file_path)),
    })
}

/// How long SecretFlow would try to connect, where the file says it.
fn patience(link: &LinkConfig, notes: &mut Vec<Note>) -> String {
    let given = [link.connect_retry_times, link.connect_retry_interval_ms];
    if given == [0, 0] {
        return default_patience();
    }
    let [times, ms] = [(given[0], 10), (given[1], 1000)].map(|(given, usual)| if given == 0 { usual } else { given });
    let asked = times.saturating_mul(ms);
    let wait = asked.clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS);
    if wait != asked {
        let field = if given[0] > 0 { "connect_retry_times" } else { "connect_retry_interval_ms" };
        let what = format!("{times} times {ms} ms; a late party is waited for from a second to a week, here {wait} ms");
        notes.push(Note::new(&format!("link_config.{field}"), what));
    }
    format!("{wait}ms")
}

/// Fields that are set and change nothing, each with the reason.
fn tell_what_has_no_meaning(launch: &LaunchConfig, psi: &PsiConfig, told: Told, notes: &mut Vec<Note>) {
    let link = outer_or(&launch.link_config, &psi.link_config);
    let mut tell = |set: bool, field: &str, what: &str| {
        if set {
            notes.push(Note::new(field, what));
        }
    };
    let moved = "no effect: it stands in the launch configuration itself too, which comes first";
    tell(psi.link_config != LinkConfig::default() && psi.link_config != *link, "psi_config.link_config", moved);
    tell(
        !psi.self_link_party.is_empty()
            && psi.self_link_party != *outer_or(&launch.self_link_party, &psi.self_link_party),
        "psi_config.self_link_party",
        moved,
    );

    let ProtocolConfig { protocol, broadcast_result, ecdh_config, kkrt_config, rr22_config, .. } = &psi.protocol_config;
    let other = format!("no effect: the protocol is {protocol}");
    for (set, owner, field) in [
        (*ecdh_config != EcdhConfig::default(), Protocol::Ecdh, "ecdh_config"),
        (*kkrt_config != BucketConfig::default(), Protocol::Kkrt, "kkrt_config"),
        (*rr22_config != Rr22Config::default(), Protocol::Rr22, "rr22_config"),
    ] {
        tell(set && *protocol != owner, &format!("psi_config.protocol_config.{field}"), &other);
    }
    tell(
        *protocol == Protocol::Ecdh && ecdh_config.batch_size > 0,
        "psi_config.protocol_config.ecdh_config.batch_size",
        "no effect: messages are as large as units, which are chosen from the sizes",
    );

    let no_check = "SecretFlow has dropped this field; no effect: duplicate keys are allowed and joined as SQL does";
    tell(psi.skip_duplicates_check.is_some(), "psi_config.skip_duplicates_check", no_check);
    tell(psi.check_duplicates.is_some(), "psi_config.check_duplicates", no_check);
    tell(
        psi.sort_output.is_some(),
        "psi_config.sort_output",
        "SecretFlow has dropped this field; no effect: outputs line up without sorting",
    );
    tell(
        psi.input_attr.keys_unique,
        "psi_config.input_attr.keys_unique",
        "no effect: duplicate keys are found and joined, at no cost where there are none",
    );
    tell(
        psi.check_hash_digest,
        "psi_config.check_hash_digest",
        "no effect: the protocol runs even where both tables are the same, and finds the same result",
    );
    tell(
        !told.result && psi.output_config != IoConfig::default(),
        "psi_config.output_config",
        "no effect: broadcast_result is false, so this party gets no result and no file is written",
    );
    tell(
        told.result && is_inner(psi) && !broadcast_result,
        "psi_config.protocol_config.broadcast_result",
        "is false: a row whose key matches comes once, where SecretFlow repeats it for every such row of the sender's, and \
         so tells their number",
    );
    tell(
        !psi.recovery_config.enabled && !psi.recovery_config.folder.is_empty(),
        "psi_config.recovery_config.folder",
        "no effect: recovery is not enabled",
    );

    // What one field means depends on the join, and on who gets the result.
    let alone = "no effect: broadcast_result is false, and the rows of one party alone come in the input's order";
    tell(psi.disable_alignment && !told.pairs, "psi_config.disable_alignment", alone);
    let sided = psi.left_side != Role::Unspecified;
    tell(sided && is_inner(psi), "psi_config.left_side", "no effect: an inner join has no sides");
    tell(
        sided && !is_inner(psi) && !broadcast_result,
        "psi_config.left_side",
        "no effect: broadcast_result is false, and what the receiver gets does not depend on it",
    );
    tell(
        !psi.output_attr.csv_null_rep.is_empty() && !told.nulls,
        "psi_config.output_attr.csv_null_rep",
        match told {
            Told { result: false, .. } => "no effect: this party gets no result",
            _ if is_inner(psi) => "no effect: an inner join has no missing rows",
            _ => "no effect: this party's output has no missing rows",
        },
    );
    tell(!psi.count_path.is_empty(), "psi_config.count_path", "no effect: it belongs to intersection_threshold");
    tell(
        !psi.debug_options.logging_level.is_empty(),
        "psi_config.debug_options.logging_level",
        "no effect: --log and the environment variable VESICA_LOG say what is logged",
    );

    tell(
        link.recv_timeout_ms > 0,
        "link_config.recv_timeout_ms",
        "no effect: a party that works is waited for, one that has died is noticed within seconds",
    );
    let transport = "no effect: it tunes SecretFlow's transport, and there is another one here";
    for (set, field) in [
        (link.http_max_payload_size > 0, "http_max_payload_size"),
        (link.http_timeout_ms > 0, "http_timeout_ms"),
        (link.throttle_window_size > 0, "throttle_window_size"),
        (!link.brpc_channel_protocol.is_empty(), "brpc_channel_protocol"),
        (!link.brpc_channel_connection_type.is_empty(), "brpc_channel_connection_type"),
        (link.retry_opts.is_some(), "retry_opts"),
        (link.chunk_parallel_send_size > 0, "chunk_parallel_send_size"),
    ] {
        tell(set, &format!("link_config.{field}"), transport);
    }
}

/// TLS options that are set and prove nothing to anybody, each with the reason.
fn tell_what_proves_nothing(link: &LinkConfig, trust: &Trust, notes: &mut Vec<Note>) {
    let over = match trust {
        _ if !link.enable_ssl => Some("no effect: enable_ssl is false"),
        Trust::AsWritten => None,
        Trust::Insecure => Some("no effect: --insecure comes first, so there is no TLS"),
        Trust::Tls { .. } => Some("no effect: --identity and --trust come first"),
    };
    let mut tell = |set: bool, field: &str, what: &str| {
        if set {
            notes.push(Note::new(&format!("link_config.{field}"), what));
        }
    };
    let sides = [("server_ssl_opts", &link.server_ssl_opts), ("client_ssl_opts", &link.client_ssl_opts)];
    if let Some(over) = over {
        tell(link.enable_ssl, "enable_ssl", over);
        for (name, opts) in sides {
            tell(*opts != SslOptions::default(), name, over);
        }
        return;
    }
    let Proof { own, authority } = Proof::of(link);
    for (name, opts) in sides {
        for (field, given, used) in [
            ("certificate_path", &opts.certificate_path, &own.certificate_path),
            ("private_key_path", &opts.private_key_path, &own.private_key_path),
            ("ca_file_path", &opts.ca_file_path, &authority.ca_file_path),
        ] {
            let what = format!("no effect: one connection joins the parties, and for it {used} is taken");
            tell(!given.is_empty() && given != used, &format!("{name}.{field}"), &what);
        }
        // 1 is how SecretFlow's own documentation says that the other side is to be verified.
        let what = "any number above 0 means that the other side's certificate is verified, however long its chain";
        tell(opts.verify_depth > 1, &format!("{name}.verify_depth"), what);
    }
}
