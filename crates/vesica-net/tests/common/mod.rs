//! What the tests of this crate share: parties with certificates, events that are kept, and a peer that speaks the wire
//! format by hand, so that it can misspeak it.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vesica_net::{
    Control, Endpoint, Error, Event, Fingerprint, Identity, PeerLink, PeerSpec, Security, Trust, WIRE_VERSION,
};
use vesica_types::Party;

/// A connection to one peer.
pub type Link = Box<dyn PeerLink>;

pub const JOB: [u8; 32] = [7; 32];

/// Keeps what it hears.
#[derive(Default)]
pub struct Log {
    events: Mutex<Vec<String>>,
    pub cancel: AtomicBool,
}

impl Control for Log {
    fn event(&self, event: &Event) {
        self.events.lock().unwrap().push(event.to_string());
    }

    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

impl Log {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn text(&self) -> String {
        self.events.lock().unwrap().join("\n")
    }

    /// Waits until an event contains `what`.
    pub fn hears(&self, what: &str) {
        let began = Instant::now();
        while !self.text().contains(what) {
            assert!(began.elapsed() < Duration::from_secs(12), "no event says {what:?}:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A party with a key and a certificate.
pub struct Person {
    pub party: Party,
    pub identity: Identity,
    pub chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

pub struct Authority {
    pub cert: rcgen::Certificate,
    pub issuer: Issuer<'static, KeyPair>,
}

pub fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let cert = params.self_signed(&key).unwrap();
    Authority { cert, issuer: Issuer::new(params, key) }
}

impl Person {
    pub fn new(place: u8, name: &str) -> Self {
        Self::certified(place, name, CertificateParams::new(vec![name.to_owned()]).unwrap(), None)
    }

    pub fn certified(place: u8, name: &str, params: CertificateParams, by: Option<&Authority>) -> Self {
        let key = KeyPair::generate().unwrap();
        let cert = match by {
            Some(by) => params.signed_by(&key, &by.issuer).unwrap(),
            None => params.self_signed(&key).unwrap(),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.pem");
        private(&path, &format!("{}{}", key.serialize_pem(), cert.pem()));
        let identity = Identity::load(&path).unwrap();
        let chain = vec![cert.der().clone()];
        Self { party: Party::new(place, name), identity, chain, key: key.serialize_der() }
    }

    pub fn pin(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    pub fn tls(&self) -> Security {
        Security::Tls { identity: self.identity.clone() }
    }

    /// An endpoint without peers, impatient enough for tests.
    pub fn endpoint(&self) -> Endpoint {
        let mut endpoint = Endpoint::new(self.party.clone(), JOB, self.tls());
        endpoint.patience = Duration::from_secs(8);
        endpoint.listen = Some("127.0.0.1:0".into());
        endpoint
    }

    /// As a peer that connects to us.
    pub fn awaited(&self) -> PeerSpec {
        let trust = Some(Trust::Pinned(vec![self.pin()]));
        PeerSpec { party: self.party.clone(), connect: None, trust, road: Default::default() }
    }

    /// As a peer to connect to.
    pub fn at(&self, address: SocketAddr) -> PeerSpec {
        PeerSpec { connect: Some(address.to_string()), ..self.awaited() }
    }
}

pub fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

pub fn alice_and_bob() -> (Person, Person) {
    (Person::new(0, "alice"), Person::new(1, "bob"))
}

/// A port at which nobody listens, and which no other test is given while this lives: it is bound. Who names it may
/// listen there all the same (`SO_REUSEADDR`).
pub struct Unheard(socket2::Socket);

impl Unheard {
    pub fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        Self(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

/// Opens the port of `endpoint` and connects in a thread.
pub fn listen(endpoint: Endpoint, log: &Arc<Log>) -> (SocketAddr, JoinHandle<Result<Vec<Link>, Error>>) {
    let bound = endpoint.bind().unwrap();
    let address = bound.address().unwrap();
    let log = log.clone();
    (address, std::thread::spawn(move || bound.meet(log)))
}

pub fn only(links: Vec<Link>) -> Link {
    let [link] = <[Link; 1]>::try_from(links).unwrap_or_else(|links| panic!("{} links", links.len()));
    link
}

/// Two parties, connected; `adjust` is applied to both endpoints.
pub fn links(adjust: impl Fn(&mut Endpoint)) -> (Link, Link) {
    links_with(&Log::new(), adjust)
}

/// The same, where `log` is alice's.
pub fn links_with(log: &Arc<Log>, adjust: impl Fn(&mut Endpoint)) -> (Link, Link) {
    let (alice, bob) = alice_and_bob();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    adjust(&mut here);
    let (address, waiting) = listen(here, log);
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    adjust(&mut there);
    let b = only(vesica_net::connect(there, Log::new()).unwrap());
    (only(waiting.join().unwrap().unwrap()), b)
}

/// Trusts everybody.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A TLS connection to `address` that presents `who`'s certificate, or none.
pub fn raw_tls(address: SocketAddr, who: Option<&Person>) -> std::io::Result<Tls> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible));
    let config = match who {
        Some(who) => {
            builder.with_client_auth_cert(who.chain.clone(), PrivateKeyDer::Pkcs8(who.key.clone().into())).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let conn = ClientConnection::new(Arc::new(config), ServerName::try_from("x.invalid").unwrap()).unwrap();
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(12)))?;
    let mut tls = StreamOwned::new(conn, socket);
    tls.conn.complete_io(&mut tls.sock)?;
    Ok(tls)
}

/// The hello of the wire format, by hand.
pub fn hello(version: u32, job: [u8; 32], from: &str, to: &str) -> Vec<u8> {
    let mut body = job.to_vec();
    body.extend((8u32 << 20).to_le_bytes());
    for name in [from, to] {
        body.push(name.len() as u8);
        body.extend(name.as_bytes());
    }
    let mut out = b"vesica\r\n".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((body.len() as u16).to_le_bytes());
    out.extend(body);
    out
}

/// A frame, by hand; its head may lie about the length of its body.
pub fn frame(line: u32, kind: u8, len: usize, body: &[u8]) -> Vec<u8> {
    let mut out = line.to_le_bytes().to_vec();
    out.push(kind);
    out.extend(&(len as u32).to_le_bytes()[..3]);
    out.extend(body);
    out
}

/// A whole small message.
pub fn message(line: u32, body: &[u8]) -> Vec<u8> {
    let mut all = (body.len() as u32).to_le_bytes().to_vec();
    all.extend(body);
    frame(line, 2, all.len(), &all)
}

/// A peer that speaks by hand.
pub struct Raw {
    pub tls: Tls,
}

impl Raw {
    /// Connects as `me` and gets through the hellos to where frames begin.
    pub fn meet(address: SocketAddr, me: &Person, to: &str) -> Self {
        let mut raw = Self { tls: raw_tls(address, Some(me)).unwrap() };
        raw.say(&hello(WIRE_VERSION, JOB, me.party.name(), to));
        let mut head = [0; 14];
        raw.tls.read_exact(&mut head).unwrap();
        assert_eq!(head[..12], hello(WIRE_VERSION, JOB, "", "")[..12]);
        let mut body = vec![0; usize::from(u16::from_le_bytes([head[12], head[13]]))];
        raw.tls.read_exact(&mut body).unwrap();
        raw.say(&[0, 0, 0]);
        let mut verdict = [9; 3];
        raw.tls.read_exact(&mut verdict).unwrap();
        assert_eq!(verdict, [0, 0, 0]);
        raw
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.tls.write_all(bytes).unwrap();
        self.tls.flush().unwrap();
    }

    /// Says it if anybody still listens.
    pub fn try_say(&mut self, bytes: &[u8]) -> bool {
        self.tls.write_all(bytes).and_then(|()| self.tls.flush()).is_ok()
    }

    /// The next frame that is no heartbeat: kind and body; none at the end.
    pub fn hear(&mut self) -> Option<(u32, u8, Vec<u8>)> {
        loop {
            let mut head = [0; 8];
            self.tls.read_exact(&mut head).ok()?;
            let mut body = vec![0; u32::from_le_bytes([head[5], head[6], head[7], 0]) as usize];
            self.tls.read_exact(&mut body).ok()?;
            if head[4] != 6 {
                return Some((u32::from_le_bytes(head[..4].try_into().unwrap()), head[4], body));
            }
        }
    }

    /// What the stop says that comes next but for other frames.
    pub fn stop(&mut self) -> String {
        loop {
            match self.hear() {
                Some((_, 7, body)) => return String::from_utf8(body[1..].to_vec()).unwrap(),
                Some(_) => {}
                None => panic!("no stop came"),
            }
        }
    }
}

/// A link of alice's, and at its other end a hand-spoken bob.
pub fn raw_pair(adjust: impl Fn(&mut Endpoint)) -> (Link, Raw) {
    let (alice, bob) = alice_and_bob();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    adjust(&mut here);
    let (address, waiting) = listen(here, &Log::new());
    let raw = Raw::meet(address, &bob, "alice");
    (only(waiting.join().unwrap().unwrap()), raw)
}
