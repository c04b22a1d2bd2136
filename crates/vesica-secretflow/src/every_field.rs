//! The promise of `docs/src/reference/secretflow.md`: nothing is left out in silence. Every field of every message is set,
//! in every kind of job, and must change the job, or be refused, or be told of by its name. The fields come from the
//! messages themselves, so one that is added later is held to it too.

use super::What;
use super::job;
use super::json;
use super::launch::LaunchConfig;
use super::link::Trust;
use super::message::{Anything, Read};
use super::said::Note;
use std::collections::{BTreeMap, BTreeSet};
use vesica_spec::{Join, SpecError};

/// What a message is made of.
pub trait Fields: Read {
    /// Adds the fields at and below `path`, each with values to set, as JSON.
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>);
}

fn add(path: &str, values: &[&str], all: &mut Vec<(String, Vec<String>)>) {
    all.push((path.to_owned(), values.iter().map(|value| (*value).to_owned()).collect()));
}

impl Fields for String {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        add(path, &["\"x\""], all);
    }
}

impl Fields for bool {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        add(path, &["true"], all);
    }
}

impl Fields for u64 {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        add(path, &["7", "4294967296"], all);
    }
}

impl Fields for Anything {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        add(path, &["{}"], all);
    }
}

impl<T: Fields> Fields for Option<T> {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        T::fields(path, all);
    }
}

/// One element more.
impl<T: Fields> Fields for Vec<T> {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        let mut element = Vec::new();
        T::fields("", &mut element);
        match element.as_slice() {
            [(field, values)] if field.is_empty() => add(path, &[&values[0]], all),
            _ => add(path, &["{}"], all),
        }
    }
}

impl<T: Fields> Fields for BTreeMap<String, T> {
    fn fields(path: &str, all: &mut Vec<(String, Vec<String>)>) {
        add(path, &["{ \"x\": {} }"], all);
    }
}

/// Whether `value` may mean what the file meant before: a default that is written out, a curve's other name, the roles where both
/// parties learn an inner join, and modes in which a party of an unbalanced intersection does the same.
fn is_the_same(path: &str, value: &str, before: &What) -> bool {
    let shared = match before {
        What::Job(spec) => &spec.shared,
        What::Server(server) => {
            let same = match (server.prepares, server.serves) {
                (true, true) => ["\"MODE_OFFLINE\"", "\"MODE_FULL\""],
                (false, true) => ["\"MODE_OFFLINE_TRANSFER_CACHE\"", "\"MODE_ONLINE\""],
                _ => return is_inner(path, value),
            };
            return path == "ub_psi_config.mode" && same.contains(&value) || is_inner(path, value);
        }
        What::Client(client) => {
            let same = ["\"MODE_OFFLINE_TRANSFER_CACHE\"", "\"MODE_OFFLINE\""];
            return path == "ub_psi_config.mode" && !client.asks && same.contains(&value) || is_inner(path, value);
        }
    };
    match (path, value) {
        ("psi_config.protocol_config.role", "\"ROLE_RECEIVER\"" | "\"ROLE_SENDER\"") => {
            shared.learns.len() == 2 && shared.join == Join::Inner
        }
        ("psi_config.advanced_join_type", "\"ADVANCED_JOIN_TYPE_INNER_JOIN\"") => shared.join == Join::Inner,
        ("psi_config.protocol_config.ecdh_config.curve", "\"CURVE_25519_ELLIGATOR2\"") => true,
        ("legacy_psi_config.curve_type", "\"CURVE_25519\"" | "\"CURVE_25519_ELLIGATOR2\"") => true,
        _ => false,
    }
}

fn is_inner(path: &str, value: &str) -> bool {
    (path, value) == ("ub_psi_config.advanced_join_type", "\"ADVANCED_JOIN_TYPE_INNER_JOIN\"")
}

/// An unbalanced intersection in JSON.
fn text_of_unbalanced(mode: &str, role: &str, ub: &str, link: &str) -> String {
    let own = if role == "SERVER" { "b" } else { "a" };
    let link = match mode {
        "OFFLINE_GEN_CACHE" => String::new(),
        _ => format!(
            r#", "link_config": {{ "parties": [{{ "id": "a", "host": "127.0.0.1:1" }}, {{ "id": "b", "host": "127.0.0.1:2" }}], {link} }},
               "self_link_party": "{own}""#
        ),
    };
    format!(r#"{{ "ub_psi_config": {{ "mode": "MODE_{mode}", "role": "ROLE_{role}", {ub} }} {link} }}"#)
}

/// A job in JSON: `psi` and `link` are members of `psi_config` and of the link, which stands in `psi_config` if `early`.
fn text(protocol: &str, role: &str, broadcast: bool, psi: &str, link: &str, early: bool) -> String {
    let link = format!(
        r#""link_config": {{ "parties": [{{ "id": "a", "host": "127.0.0.1:1" }}, {{ "id": "b", "host": "127.0.0.1:2" }}], {link} }},
           "self_link_party": "a""#
    );
    let (inner, outer) = if early { (link.as_str(), "") } else { ("", link.as_str()) };
    format!(
        r#"{{ "psi_config": {{
            "protocol_config": {{ "protocol": "PROTOCOL_{protocol}", "role": "ROLE_{role}", "broadcast_result": {broadcast}, "ecdh_config": {{ {curve} }} }},
            "input_config": {{ "type": 1, "path": "in.csv" }}, "output_config": {{ "type": 1, "path": "out.csv" }},
            "keys": ["id"], {psi} {inner} }}, {outer} }}"#,
        curve = if protocol == "ECDH" { "\"curve\": 1" } else { "" },
    )
}

/// A job of three in JSON, of the party `own`, where `receiver` gets the result alone or first.
fn text_of_three(own: &str, receiver: u8, broadcast: bool, legacy: &str, link: &str) -> String {
    format!(
        r#"{{ "legacy_psi_config": {{ "psi_type": "ECDH_PSI_3PC", "receiver_rank": {receiver}, "broadcast_result": {broadcast},
            "input_params": {{ "path": "in.csv", "select_fields": ["id"] }}, "output_params": {{ "path": "out.csv" }}, {legacy} }},
           "link_config": {{ "parties": [{{ "id": "a", "host": "127.0.0.1:1" }}, {{ "id": "b", "host": "127.0.0.1:2" }},
            {{ "id": "c", "host": "127.0.0.1:3" }}], {link} }}, "self_link_party": "{own}" }}"#
    )
}

/// Jobs of every kind, by how they are trusted.
fn jobs() -> Vec<(String, Trust)> {
    let joins = [
        "",
        r#""advanced_join_type": 2, "left_side": 1,"#,
        r#""advanced_join_type": 3, "left_side": 1,"#,
        r#""advanced_join_type": 4, "left_side": 2,"#,
        r#""advanced_join_type": 5, "left_side": 2,"#,
    ];
    let proven = r#""enable_ssl": true, "server_ssl_opts": { "certificate_path": "me.pem", "private_key_path": "me.key" },
                    "client_ssl_opts": { "verify_depth": 1, "ca_file_path": "ca.pem" }"#;
    let one_set = r#""enable_ssl": true, "server_ssl_opts": { "certificate_path": "me.pem", "private_key_path": "me.key",
                    "verify_depth": 1, "ca_file_path": "ca.pem" }"#;
    let known = Trust::Tls { identity: "me.pem".into(), peers: vec!["ca.pem".to_owned()] };
    let mut jobs = Vec::new();
    for protocol in ["ECDH", "KKRT", "RR22"] {
        for role in ["RECEIVER", "SENDER"] {
            for (broadcast, join) in [true, false].into_iter().flat_map(|both| joins.map(|join| (both, join))) {
                jobs.push((text(protocol, role, broadcast, join, "", false), Trust::AsWritten));
            }
        }
        for (link, trust) in [
            (proven, &Trust::AsWritten),
            (one_set, &Trust::AsWritten),
            (proven, &Trust::Insecure),
            (proven, &known),
            ("", &known),
            ("\"connect_retry_times\": 9, \"connect_retry_interval_ms\": 700", &Trust::AsWritten),
        ] {
            jobs.push((text(protocol, "RECEIVER", true, "", link, false), trust.clone()));
        }
        jobs.push((text(protocol, "RECEIVER", true, "", "", true), Trust::AsWritten));
        let resumed = r#""recovery_config": { "enabled": true, "folder": "kept" },"#;
        jobs.push((text(protocol, "RECEIVER", true, resumed, "", false), Trust::AsWritten));
    }
    let files = r#""input_config": { "type": 1, "path": "in.csv" }, "keys": ["id"],"#;
    let result = r#""client_get_result": true, "output_config": { "type": 1, "path": "out.csv" },"#;
    for mode in ["OFFLINE_GEN_CACHE", "OFFLINE_TRANSFER_CACHE", "OFFLINE", "ONLINE", "FULL"] {
        for role in ["SERVER", "CLIENT"] {
            let asks = matches!(mode, "ONLINE" | "FULL");
            let reads = if role == "SERVER" { !matches!(mode, "OFFLINE_TRANSFER_CACHE" | "ONLINE") } else { asks };
            let result = match (asks, role) {
                (false, _) => "",
                (true, "SERVER") => "\"client_get_result\": true,",
                (true, _) => result,
            };
            for cache in ["\"cache_path\": \"c\"", "\"cache_config\": { \"path\": \"c\" }"] {
                let ub = format!("{} {result} {cache}", if reads { files } else { "" });
                for (link, trust) in [
                    ("", &Trust::AsWritten),
                    (proven, &Trust::AsWritten),
                    (one_set, &Trust::AsWritten),
                    (proven, &Trust::Insecure),
                    (proven, &known),
                    ("\"connect_retry_times\": 9, \"connect_retry_interval_ms\": 700", &Trust::AsWritten),
                ] {
                    jobs.push((text_of_unbalanced(mode, role, &ub, link), trust.clone()));
                }
                let key = format!("{ub}, \"server_secret_key_path\": \"k\"");
                jobs.push((text_of_unbalanced(mode, role, &key, ""), Trust::AsWritten));
            }
        }
    }
    for own in ["a", "b", "c"] {
        for (receiver, broadcast) in [(0, true), (1, true), (0, false), (2, false)] {
            jobs.push((text_of_three(own, receiver, broadcast, "", ""), Trust::AsWritten));
        }
        jobs.push((text_of_three(own, 1, true, "\"curve_type\": 3", proven), Trust::AsWritten));
        jobs.push((text_of_three(own, 1, true, "", proven), Trust::Insecure));
        jobs.push((text_of_three(own, 1, true, "", ""), known.clone()));
    }
    jobs
}

type Meant = Result<(What, Vec<Note>), SpecError>;

fn meant(launch: &LaunchConfig, trust: &Trust) -> Meant {
    let mut notes = Vec::new();
    job::job(launch, trust, &mut notes).map(|what| (what, notes))
}

fn read(into: &mut LaunchConfig, text: &str) {
    let done = json::parse(text).and_then(|value| into.read(&value));
    done.unwrap_or_else(|wrong| panic!("{}: {}\n{text}", wrong.field, wrong.message));
}

/// Whether `named` is the field at `path`, a message around it, or the same field at the place of today.
fn is_of(named: &str, path: &str) -> bool {
    let of = |path: &str| path == named || path.strip_prefix(named).is_some_and(|rest| rest.starts_with('.'));
    of(path) || path.strip_prefix("psi_config.").is_some_and(of)
}

/// Fields that need another: without that, it is the other that is told.
const NEEDS: [(&str, &str); 15] = [
    ("psi_config.protocol_config.protocol", "psi_config.protocol_config.ecdh_config.curve"),
    ("psi_config.recovery_config.enabled", "psi_config.recovery_config.folder"),
    ("psi_config.advanced_join_type", "psi_config.left_side"),
    ("link_config.enable_ssl", "link_config.server_ssl_opts.certificate_path"),
    ("psi_config.link_config.enable_ssl", "link_config.server_ssl_opts.certificate_path"),
    ("link_config.client_ssl_opts", "link_config.client_ssl_opts.verify_depth"),
    ("link_config.client_ssl_opts", "link_config.client_ssl_opts.ca_file_path"),
    ("ub_psi_config.mode", "ub_psi_config.input_config.type"),
    ("ub_psi_config.mode", "ub_psi_config.output_config.type"),
    ("ub_psi_config.mode", "ub_psi_config.client_get_result"),
    ("ub_psi_config.mode", "self_link_party"),
    ("ub_psi_config.role", "ub_psi_config.input_config.type"),
    ("ub_psi_config.role", "ub_psi_config.output_config.type"),
    ("ub_psi_config.role", "ub_psi_config.mode"),
    // A link of one's own takes the place of the one in `psi_config`.
    ("link_config", "link_config.parties"),
];

/// Whether a refusal is of the field at `path`: by its place, by its name in words, or by what it needs.
fn is_refused(error: &SpecError, path: &str) -> bool {
    let name = path.rsplit('.').next().expect("a path has a name");
    let field = error.field.as_deref().unwrap_or_default();
    let lacks =
        NEEDS.iter().any(|(of, needed)| field == *needed && (path == *of || path.starts_with(&format!("{of}."))));
    // Whatever asks for another kind of run is refused with that.
    let runs = ["psi_config", "legacy_psi_config", "ub_psi_config"];
    let other = runs.iter().any(|run| path.starts_with(&format!("{run}.")))
        && error.message.contains("a file asks for one run");
    is_of(field, path) || error.message.contains(name) || lacks || other
}

/// A job with one field set to another value.
struct Case<'a> {
    path: &'a str,
    before: &'a (What, Vec<Note>),
    after: Meant,
}

/// Shows every field's every value in every job, and returns the fields that there are.
fn every_case(mut look: impl FnMut(&Case<'_>, &str)) -> Vec<String> {
    let mut fields = Vec::new();
    LaunchConfig::fields("", &mut fields);
    for (text, trust) in jobs() {
        let mut base = LaunchConfig::default();
        read(&mut base, &text);
        // Some joins are not for one party alone.
        let Ok(before) = meant(&base, &trust) else { continue };
        for (path, value) in fields.iter().flat_map(|(path, values)| values.iter().map(move |value| (path, value))) {
            let mut launch = base.clone();
            let set = path.rsplit('.').fold(value.clone(), |inner, name| format!("{{ \"{name}\": {inner} }}"));
            read(&mut launch, &set);
            if launch != base && !is_the_same(path, value, &before.0) {
                let case = Case { path, before: &before, after: meant(&launch, &trust) };
                look(&case, &format!("{path} = {value}, {trust:?}\n{text}"));
            }
        }
    }
    fields.into_iter().map(|(path, _)| path).collect()
}

#[test]
fn no_field_is_left_out_in_silence() {
    let (mut silent, mut set) = (BTreeMap::new(), BTreeSet::new());
    let fields = every_case(|case, what| {
        set.insert(case.path.to_owned());
        let loud = match &case.after {
            Ok((what, notes)) => *what != case.before.0 || notes.iter().any(|note| is_of(&note.field, case.path)),
            Err(error) => is_refused(error, case.path),
        };
        if !loud {
            silent.insert(case.path.to_owned(), what.to_owned());
        }
    });
    assert!(silent.is_empty(), "in silence: {silent:#?}");
    let never: Vec<&String> = fields.iter().filter(|path| !set.contains(*path)).collect();
    assert!(never.is_empty(), "never set: {never:?}");
}

/// What is said to have no effect leaves the job as it is.
#[test]
fn what_is_said_to_have_no_effect_has_none() {
    every_case(|case, what| {
        let Ok((after, notes)) = &case.after else { return };
        let said = |note: &&Note| is_of(&note.field, case.path) && note.what.contains("no effect");
        if notes.iter().filter(|note| !case.before.1.contains(note)).any(|note| said(&note)) {
            assert_eq!(*after, case.before.0, "{what}");
        }
    });
}

/// The page for users names every field, or the message around it.
#[test]
fn the_page_names_every_field() {
    let page = include_str!("../../../docs/src/reference/secretflow.md");
    // A field that is named within a message does not name the message's other fields.
    let names = |code: &'static str| code.split([' ', '[', ']']).filter_map(|name| name.rsplit('.').next());
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).flat_map(names).collect();
    let mut fields = Vec::new();
    LaunchConfig::fields("", &mut fields);
    for (path, _) in fields {
        let names: Vec<&str> = path.split('.').collect();
        // The outermost messages are sections of the page.
        assert!(names.iter().skip(names.len().min(2) - 1).any(|name| named.contains(name)), "{path} is not there");
    }
}
