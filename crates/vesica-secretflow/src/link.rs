//! The link of a launch configuration: who the parties are, where each is found, and how they know each other.

use super::launch::{LinkConfig, LinkParty, SslOptions};
use super::said::{Note, Result, refuse};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use vesica_spec::{Connect, Pins, Tls, default_patience};

/// How the parties are to know each other, which SecretFlow's files seldom say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// As the file says it. Without TLS in the file that is refused, unless every address is on this machine.
    #[default]
    AsWritten,
    /// No TLS: anyone between the parties can read and forge what they say.
    Insecure,
    /// TLS with this identity; the others' certificates are known by their fingerprints or by the authorities in a file.
    Tls {
        /// This party's private key and certificate.
        identity: PathBuf,
        /// `sha256:…` where there is one other party, `NAME=sha256:…` for each of several; or one file.
        peers: Vec<String>,
    },
}

/// The shortest wait for a late party that a file can ask for.
const SHORTEST_WAIT_MS: u64 = 1000;

/// The longest one.
const LONGEST_WAIT_MS: u64 = 7 * 24 * 3600 * 1000;

/// The link, and this party's place in it.
pub struct Link<'a> {
    config: &'a LinkConfig,
    me: usize,
}

impl<'a> Link<'a> {
    /// The link of a job that is for so many parties, as `what` is.
    ///
    /// # Errors
    /// If the parties or this one cannot be.
    pub fn of(config: &'a LinkConfig, own: &str, parties: RangeInclusive<usize>, what: &str) -> Result<Self> {
        let ids: Vec<&str> = config.parties.iter().map(|p| p.id.as_str()).collect();
        if own.is_empty() {
            return refuse("self_link_party", "is missing: which of link_config.parties is this?");
        }
        if !parties.contains(&ids.len()) {
            let many = match (*parties.start(), *parties.end()) {
                (2, 2) => "two".to_owned(),
                (3, 3) => "three".to_owned(),
                (least, most) => format!("{least} to {most}"),
            };
            return refuse("link_config.parties", format!("{} parties; {what} is for {many}", ids.len()));
        }
        for (place, id) in ids.iter().enumerate() {
            vesica_spec::check_name("link_config.parties", id)?;
            if ids[..place].contains(id) {
                return refuse("link_config.parties", format!("\"{id}\" is named twice"));
            }
        }
        if !config.id.is_empty() {
            vesica_spec::check_name("link_config.id", &config.id)?;
        }
        match ids.iter().position(|id| *id == own) {
            Some(me) => Ok(Self { config, me }),
            None => {
                refuse("self_link_party", format!("\"{own}\" is not one of link_config.parties ({})", ids.join(", ")))
            }
        }
    }

    /// Everybody, by rank.
    pub fn parties(&self) -> &'a [LinkParty] {
        &self.config.parties
    }

    /// This party.
    pub fn me(&self) -> &'a LinkParty {
        &self.config.parties[self.me]
    }

    /// The others.
    pub fn peers(&self) -> impl Iterator<Item = &'a LinkParty> + use<'a> {
        let me = self.me;
        self.config.parties.iter().enumerate().filter(move |(rank, _)| *rank != me).map(|(_, party)| party)
    }

    /// The job's name.
    pub fn id(&self) -> String {
        if self.config.id.is_empty() { "root".to_owned() } else { self.config.id.clone() }
    }

    /// Where this party listens: each is called by those after it, which has nothing to do with roles.
    pub fn listen(&self) -> Result<Option<String>> {
        (self.me + 1 < self.config.parties.len()).then(|| address(&self.me().host)).transpose()
    }

    /// Whom this party calls: those before it.
    pub fn connect(&self) -> Result<BTreeMap<String, Connect>> {
        let before = &self.config.parties[..self.me];
        before.iter().map(|party| Ok((party.id.clone(), address(&party.host)?.into()))).collect()
    }

    /// Whether there is no TLS.
    pub fn insecure(&self, trust: &Trust, notes: &mut Vec<Note>) -> Result<bool> {
        match trust {
            Trust::Insecure => Ok(true),
            Trust::AsWritten => Ok(!self.config.enable_ssl && on_this_machine(self.config, notes)?),
            Trust::Tls { .. } => Ok(false),
        }
    }

    /// Who this party is and whom it trusts.
    pub fn tls(&self, trust: &Trust) -> Result<Tls> {
        if let Trust::Tls { identity, peers } = trust {
            let (peers, ca) = match peers.as_slice() {
                [file] if !file.contains("sha256:") => (BTreeMap::new(), Some(PathBuf::from(file))),
                pins => (self.pins(pins)?, None),
            };
            return Ok(Tls { identity: identity.clone(), key: None, peers, ca });
        }
        let instead = "or say who both are with --identity FILE --trust sha256:…";
        let Proof { own, authority } = Proof::of(self.config);
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
            key: Some(PathBuf::from(&own.private_key_path).into()),
            peers: BTreeMap::new(),
            ca: Some(PathBuf::from(&authority.ca_file_path)),
        })
    }

    /// Every other party's fingerprint.
    fn pins(&self, given: &[String]) -> Result<BTreeMap<String, Pins>> {
        let mut pins = BTreeMap::new();
        let peers: Vec<&str> = self.peers().map(|party| party.id.as_str()).collect();
        for pin in given {
            let (peer, print) = match (pin.split_once('='), peers.as_slice()) {
                (Some((peer, print)), _) if peers.contains(&peer) => (peer, print),
                (None, [peer]) if pin.starts_with("sha256:") => (*peer, pin.as_str()),
                _ => {
                    let ways: Vec<String> = peers.iter().map(|peer| format!("--trust {peer}=sha256:…")).collect();
                    return refuse(
                        "--trust",
                        format!("\"{pin}\": write {}, or one file of authorities", ways.join(" ")),
                    );
                }
            };
            if pins.insert(peer.to_owned(), print.into()).is_some() {
                return refuse("--trust", format!("{peer} has two fingerprints"));
            }
        }
        match peers.iter().find(|peer| !pins.contains_key(**peer)) {
            Some(peer) => refuse("--trust", format!("says nothing of {peer}: add --trust {peer}=sha256:…")),
            None => Ok(pins),
        }
    }

    /// How long SecretFlow would try to connect, where the file says it.
    pub fn patience(&self, notes: &mut Vec<Note>) -> String {
        let link = self.config;
        let given = [link.connect_retry_times, link.connect_retry_interval_ms];
        if given == [0, 0] {
            return default_patience();
        }
        let [times, ms] =
            [(given[0], 10), (given[1], 1000)].map(|(given, usual)| if given == 0 { usual } else { given });
        let asked = times.saturating_mul(ms);
        let wait = asked.clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS);
        if wait != asked {
            let field = if given[0] > 0 { "connect_retry_times" } else { "connect_retry_interval_ms" };
            let what =
                format!("{times} times {ms} ms; a late party is waited for from a second to a week, here {wait} ms");
            notes.push(Note::new(&format!("link_config.{field}"), what));
        }
        format!("{wait}ms")
    }

    /// Tells of fields of the link that are set and change nothing, each with the reason.
    pub fn tell_what_has_no_meaning(&self, trust: &Trust, notes: &mut Vec<Note>) {
        let link = self.config;
        let mut tell = |set: bool, field: &str, what: &str| {
            if set {
                notes.push(Note::new(field, what));
            }
        };
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
        tell_what_proves_nothing(link, trust, notes);
    }
}

/// `host:port` of a host that may be written as a URL.
pub fn address(host: &str) -> Result<String> {
    let plain = ["http://", "https://"].iter().find_map(|scheme| host.strip_prefix(scheme)).unwrap_or(host);
    let plain = plain.strip_suffix('/').unwrap_or(plain);
    let port = plain.rsplit_once(':').and_then(|(name, port)| (!name.is_empty()).then(|| port.parse::<u16>().ok())?);
    if plain.chars().any(|c| !c.is_ascii_graphic()) {
        return refuse("link_config.parties.host", format!("{host:?} is no address; write \"host:5300\""));
    }
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
                 --insecure on all sides to go without, as SecretFlow does",
            );
        }
    }
    notes.push(Note::new("link_config.enable_ssl", "is false: no TLS, because every address is on this machine"));
    Ok(true)
}

/// The part of each of the link's two sets of TLS options that counts: one connection joins two parties, where SecretFlow
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
            let what = format!("no effect: one connection joins two parties, and for it {used} is taken");
            tell(!given.is_empty() && given != used, &format!("{name}.{field}"), &what);
        }
        // 1 is how SecretFlow's own documentation says that the other side is to be verified.
        let what = "any number above 0 means that the other side's certificate is verified, however long its chain";
        tell(opts.verify_depth > 1, &format!("{name}.verify_depth"), what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a file is common to all parties, and one of them wrote it.
    #[test]
    fn a_host_is_an_address_and_no_command() {
        assert_eq!(address("http://1.2.3.4:5300/").unwrap(), "1.2.3.4:5300");
        assert!(address("exec:touch /tmp/x:5300").is_err() && address("a\nb:1").is_err());
        assert_ne!(Connect::from(address("exec:touch:5300").unwrap()), Connect::At("exec:touch:5300".into()));
    }
}
