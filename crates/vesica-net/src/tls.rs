//! Who may be at the other end, and what its bytes become: TLS 1.3 with both sides authenticated, or nothing at all.

use crate::identity::in_force;
use crate::text::beginning;
use crate::{Error, Fingerprint, Identity, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, ServerConfig, ServerConnection, SignatureScheme,
};
use std::fmt;
use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vesica_types::Party;

/// The protocol name that both sides offer, so that a TLS service of another kind is told apart in the handshake.
const ALPN: &[u8] = b"vesica";

/// The first byte of every TLS record of a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// The first byte of a TLS alert.
const TLS_ALERT: u8 = 0x15;

/// A fatal TLS alert, `unexpected_message`: how a TLS side says to a plaintext one that it speaks TLS.
const ALERT: [u8; 7] = [TLS_ALERT, 3, 3, 0, 2, 2, 10];

/// How a peer is known.
#[derive(Clone)]
pub enum Trust {
    /// By its very certificate.
    Pinned(Fingerprint),
    /// By a certificate that chains to one of `roots` and names the peer.
    Ca {
        /// Who may vouch for it.
        roots: Roots,
        /// The name that the certificate must carry (a DNS name among its subject alternative names).
        name: String,
    },
}

impl Trust {
    /// Whether a peer known in this way may present `chain`, in words if not.
    fn accepts(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> std::result::Result<(), String> {
        let Some((leaf, intermediates)) = chain.split_first() else { return Err("it has no certificate".into()) };
        match self {
            Trust::Pinned(pin) if Fingerprint::of(leaf) != *pin => Err(format!("pinned is {pin}")),
            Trust::Pinned(_) => in_force(leaf, now.as_secs()),
            Trust::Ca { roots, name } => {
                let server =
                    ServerName::try_from(name.as_str()).map_err(|e| format!("{name:?} is no DNS name: {e}"))?;
                let cert =
                    webpki::EndEntityCert::try_from(leaf).map_err(|e| format!("it cannot be understood: {e}"))?;
                // The dialling side is a TLS client and the listening side a server, but who dials is a matter of
                // firewalls, not of rights; so a certificate for either use will do.
                let usage = || [webpki::KeyUsage::server_auth(), webpki::KeyUsage::client_auth()];
                let mut why = None;
                for usage in usage() {
                    match cert.verify_for_usage(
                        webpki::ALL_VERIFICATION_ALGS,
                        &roots.0,
                        intermediates,
                        now,
                        usage,
                        None,
                        None,
                    ) {
                        Ok(_) => {
                            return cert.verify_is_valid_for_subject_name(&server).map_err(|e| match e {
                                webpki::Error::CertNotValidForName(context) if !context.presented.is_empty() => {
                                    format!("the CA vouches for {}, not for {name}", context.presented.join(", "))
                                }
                                webpki::Error::CertNotValidForName(_) => {
                                    format!("the certificate names nobody (no subject alternative name), not {name}")
                                }
                                e => format!("it is not valid for {name}: {e}"),
                            });
                        }
                        Err(e) => {
                            why.get_or_insert(e);
                        }
                    }
                }
                Err(match why {
                    Some(webpki::Error::UnknownIssuer) => {
                        "no certificate authority in the job's roots signed it".into()
                    }
                    Some(webpki::Error::CertExpired { not_after, .. }) => {
                        format!("it expired on {}", crate::text::date(not_after.as_secs()))
                    }
                    Some(e) => format!("the certificate authority's chain does not hold: {e}"),
                    None => "it is for no use that fits".into(),
                })
            }
        }
    }

    /// Refuses a trust that no certificate can satisfy.
    pub(crate) fn check(&self, peer: &Party) -> Result<()> {
        match self {
            Trust::Ca { name, .. } if ServerName::try_from(name.as_str()).is_err() => Err(Error::Setup(format!(
                "{peer} is to be known by a certificate that names {name:?}, which is no DNS name; give the name in {peer}'s \
                 certificate"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Pinned(pin) => write!(f, "pinned {pin}"),
            Trust::Ca { name, .. } => write!(f, "{name:?} by a certificate authority"),
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The certificate authorities that may vouch for a peer.
#[derive(Clone)]
pub struct Roots(Arc<[TrustAnchor<'static>]>);

impl Roots {
    /// Reads the authorities' certificates from a PEM file.
    ///
    /// # Errors
    /// If there is none in it, or one cannot be used.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bad = |why: String| Error::Identity {
            what: format!("certificate authorities {}", path.display()),
            why,
            remedy: "give a PEM file with the certificates of the authorities that you trust".into(),
        };
        let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
            .and_then(|certs| certs.collect())
            .map_err(|e| bad(format!("cannot be read ({e})")))?;
        if certs.is_empty() {
            return Err(bad("no certificate in it".into()));
        }
        let anchors: std::result::Result<Vec<_>, _> =
            certs.iter().map(|cert| webpki::anchor_from_trusted_cert(cert).map(|anchor| anchor.to_owned())).collect();
        Ok(Self(anchors.map_err(|e| bad(format!("a certificate in it cannot be used ({e})")))?.into()))
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.0.len())
    }
}

/// Why a certificate was not let in.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub presented: Fingerprint,
    pub why: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its certificate {} is not accepted: {}", self.presented, self.why)
    }
}

impl std::error::Error for Rejected {}

/// The parties that may be at the other end, by what is known of them.
#[derive(Clone, Debug)]
pub(crate) struct Guests(pub Vec<(Party, Trust)>);

impl Guests {
    /// The parties that `chain` may stand for.
    pub fn identify(&self, chain: &[CertificateDer<'_>]) -> Vec<&Party> {
        let now = UnixTime::now();
        self.0.iter().filter(|(_, trust)| trust.accepts(chain, now).is_ok()).map(|(party, _)| party).collect()
    }

    fn admit(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> std::result::Result<(), rustls::Error> {
        let mut why = Vec::new();
        for (party, trust) in &self.0 {
            match trust.accepts(chain, now) {
                Ok(()) => return Ok(()),
                Err(e) => why.push(format!("for {party}, {e}")),
            }
        }
        let presented = match chain.first() {
            Some(leaf) => Fingerprint::of(leaf),
            None => return Err(rustls::Error::NoCertificatesPresented),
        };
        let rejected = Rejected { presented, why: why.join("; ") };
        Err(CertificateError::Other(rustls::OtherError(Arc::new(rejected))).into())
    }
}

/// Lets in guests only. That the other end holds the certificate's key is always verified, however it is trusted.
#[derive(Debug)]
struct Guard {
    guests: Guests,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Guard {
    fn new(guests: Guests, provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self { guests, algorithms: provider.signature_verification_algorithms })
    }

    fn admit(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<(), rustls::Error> {
        let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).cloned().collect();
        self.guests.admit(&chain, now)
    }
}

/// TLS 1.2 is switched off in the configuration, so this is never asked; if it were, the answer is no.
fn no_tls12() -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
    Err(rustls::Error::General("TLS 1.2 is not spoken here".into()))
}

impl ServerCertVerifier for Guard {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.admit(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Guard {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.admit(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The cryptography of every connection: ring, with AES-128 first, since all else here aims at 128 bits and it is a
/// quarter faster than AES-256.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn unusable(e: rustls::Error) -> Error {
    Error::Setup(format!("TLS cannot be set up: {e}"))
}

/// What a dialling side needs to reach one peer.
pub(crate) fn client(identity: &Identity, guest: (Party, Trust)) -> Result<Arc<ClientConfig>> {
    let provider = provider();
    let guard = Guard::new(Guests(vec![guest]), &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(guard)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    // Which party is called is nobody's business on the way, and every session stands alone.
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// What a listening side needs to let in its guests.
pub(crate) fn server(identity: &Identity, guests: Guests) -> Result<Arc<ServerConfig>> {
    let provider = provider();
    let guard = Guard::new(guests, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(guard)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(crate) enum Hitch {
    /// The other end went away or said nothing; it may be worth another try.
    Cut(String),
    /// It presented a certificate that we do not accept.
    Rejected(Rejected),
    /// It did not accept our certificate.
    RejectedUs(String),
    /// It does not speak as it should; trying again is pointless.
    Foreign(String),
    /// It is a peer, but its program speaks another version.
    Version { theirs: u32 },
    /// It is a peer by its certificate, but not the one it says it is, or not talking to us.
    Wrong(String),
    /// It is a peer, but it runs another job.
    Elsewhere(String),
    /// It told us to try again later.
    Later(String),
    /// It will not talk to us, for this reason.
    Refused(String),
}

impl Hitch {
    /// What the other end did, with that end as the subject.
    pub fn words(&self) -> String {
        match self {
            Hitch::Cut(why)
            | Hitch::RejectedUs(why)
            | Hitch::Foreign(why)
            | Hitch::Wrong(why)
            | Hitch::Elsewhere(why) => why.clone(),
            Hitch::Rejected(rejected) => rejected.to_string(),
            Hitch::Version { theirs } => {
                format!("it speaks version {theirs} of the wire format, this program speaks {}", crate::WIRE_VERSION)
            }
            Hitch::Later(why) | Hitch::Refused(why) => format!("it refused: {why}"),
        }
    }

    fn from_io(e: &io::Error) -> Self {
        let Some(tls) = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) else {
            return Hitch::Cut(match e.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => "it did not finish the handshake in time".into(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                    "it closed the connection during the handshake".into()
                }
                _ => e.to_string(),
            });
        };
        match tls {
            rustls::Error::InvalidCertificate(CertificateError::Other(rustls::OtherError(inner))) => {
                match inner.downcast_ref::<Rejected>() {
                    Some(rejected) => Hitch::Rejected(rejected.clone()),
                    None => Hitch::Foreign(inner.to_string()),
                }
            }
            rustls::Error::InvalidCertificate(e) => Hitch::Foreign(format!("its certificate is of no use: {e:?}")),
            rustls::Error::NoCertificatesPresented => Hitch::Foreign("it presents no certificate".into()),
            rustls::Error::AlertReceived(alert) => match alert {
                AlertDescription::CertificateUnknown
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRevoked
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::CertificateRequired => {
                    Hitch::RejectedUs(format!("it did not accept our certificate (TLS alert {alert:?})"))
                }
                // What came there is not what was sent here.
                AlertDescription::BadRecordMac | AlertDescription::DecodeError | AlertDescription::DecryptError => {
                    Hitch::Later(format!("the TLS handshake was damaged on the way (alert {alert:?})"))
                }
                _ => Hitch::Foreign(format!("it ended the TLS handshake with alert {alert:?}")),
            },
            rustls::Error::PeerIncompatible(e) => {
                Hitch::Foreign(format!("it does not speak TLS 1.3 as it is needed here ({e:?})"))
            }
            rustls::Error::DecryptError => Hitch::Later("the TLS handshake was damaged on the way".into()),
            rustls::Error::InvalidMessage(_) => Hitch::Foreign("what it sends is not TLS".into()),
            e => Hitch::Foreign(format!("the TLS handshake failed: {e}")),
        }
    }
}

impl From<io::Error> for Hitch {
    fn from(e: io::Error) -> Self {
        Self::from_io(&e)
    }
}

/// A socket whose every operation ends by one deadline, however little the other end sends at a time.
struct Timed<'a> {
    socket: &'a TcpStream,
    until: Instant,
    traffic: &'a mut (u64, u64),
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }

    fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.peek(buf).map_err(timed_out)
    }
}

/// A socket timeout reads as `WouldBlock`, which the TLS library would take for "later".
fn timed_out(e: io::Error) -> io::Error {
    if e.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { e }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        let n = self.socket.read(buf).map_err(timed_out)?;
        self.traffic.1 += n as u64;
        Ok(n)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    // The TLS library tries only once to send its last words, and they may lie in several pieces.
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        let n = self.socket.write_vectored(bufs).map_err(timed_out)?;
        self.traffic.0 += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that is being made: every operation ends by the deadline.
pub(crate) struct Wire {
    pub socket: TcpStream,
    pub crypt: Crypt,
    pub until: Instant,
    /// Bytes sent and received so far.
    pub traffic: (u64, u64),
}

impl Wire {
    pub fn new(socket: TcpStream, until: Instant) -> Self {
        Wire { socket, crypt: Crypt::Plain, until, traffic: (0, 0) }
    }

    /// The dialling side's handshake.
    pub fn dial(&mut self, tls: Option<Arc<ClientConfig>>) -> std::result::Result<(), Hitch> {
        let Some(config) = tls else { return Ok(()) };
        let broken = |e: rustls::Error| Hitch::Foreign(format!("TLS cannot begin: {e}"));
        // The name is neither sent nor checked: the guard knows the peer by its certificate.
        let name = ServerName::try_from("vesica.invalid").map_err(|e| Hitch::Foreign(e.to_string()))?;
        let mut conn = ClientConnection::new(config, name).map_err(broken)?;
        while conn.wants_write() {
            conn.write_tls(&mut self.timed())?;
        }
        let mut first = [0; 16];
        let n = self.timed().peek(&mut first)?;
        match first.get(..n).unwrap_or_default() {
            [] => return Err(Hitch::Cut("it closed the connection without a word".into())),
            [TLS_HANDSHAKE | TLS_ALERT, ..] => {}
            all if crate::hello::is_ours(all) => {
                return Err(Hitch::Foreign(
                    "it speaks plaintext (insecure = true there) where this job wants TLS; give both jobs the same"
                        .into(),
                ));
            }
            other => {
                return Err(Hitch::Foreign(format!(
                    "what answers there is not Vesica, it begins with {}; check the address",
                    beginning(other)
                )));
            }
        }
        self.handshake(conn.into())
    }

    /// The listening side's handshake.
    pub fn accept(&mut self, tls: Option<Arc<ServerConfig>>) -> std::result::Result<(), Hitch> {
        let mut first = [0; 16];
        let n = self.timed().peek(&mut first).map_err(|e| match e.kind() {
            ErrorKind::TimedOut => Hitch::Cut("it connected and said nothing".into()),
            _ => e.into(),
        })?;
        match (first.get(..n).unwrap_or_default(), tls) {
            ([], _) => Err(Hitch::Cut("it connected and went away".into())),
            ([TLS_HANDSHAKE, ..], Some(config)) => {
                let conn = ServerConnection::new(config).map_err(|e| Hitch::Foreign(e.to_string()))?;
                self.handshake(conn.into())
            }
            ([TLS_HANDSHAKE, ..], None) => {
                // The beginning of our greeting is how the other end can tell what this is.
                let _ = self.timed().write_all(&crate::hello::MAGIC);
                Err(Hitch::Foreign("it speaks TLS where this job says insecure = true; give both jobs the same".into()))
            }
            (all, Some(_)) if crate::hello::is_ours(all) => {
                let _ = self.timed().write_all(&ALERT);
                Err(Hitch::Foreign(
                    "it speaks plaintext (insecure = true there) where this job wants TLS; give both jobs the same"
                        .into(),
                ))
            }
            (all, None) if crate::hello::is_ours(all) => Ok(()),
            (other, _) => Err(Hitch::Foreign(format!("it is not Vesica, it begins with {}", beginning(other)))),
        }
    }

    fn handshake(&mut self, mut conn: Connection) -> std::result::Result<(), Hitch> {
        while conn.is_handshaking() {
            let (read, written) = conn.complete_io(&mut self.timed())?;
            if conn.is_handshaking() && read == 0 && written == 0 {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
        }
        // Frames are cut and bounded before they come here, so nothing may be left over.
        conn.set_buffer_limit(None);
        self.crypt = Crypt::Tls(Box::new(conn));
        Ok(())
    }

    fn timed(&mut self) -> Timed<'_> {
        Timed { socket: &self.socket, until: self.until, traffic: &mut self.traffic }
    }

    /// Fills `buf`.
    pub fn read_exact(&mut self, mut buf: &mut [u8]) -> std::result::Result<(), Hitch> {
        let mut timed = Timed { socket: &self.socket, until: self.until, traffic: &mut self.traffic };
        let Crypt::Tls(conn) = &mut self.crypt else { return Ok(timed.read_exact(buf)?) };
        while !buf.is_empty() {
            match conn.reader().read(buf) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(n) => buf = buf.get_mut(n..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if conn.read_tls(&mut timed)? == 0 {
                        return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
                    }
                    if let Err(e) = conn.process_new_packets() {
                        let _ = conn.write_tls(&mut timed);
                        return Err(io::Error::new(ErrorKind::InvalidData, e).into());
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Sends all of `buf`.
    pub fn write_all(&mut self, buf: &[u8]) -> std::result::Result<(), Hitch> {
        let mut wire = Vec::new();
        self.crypt.seal(&[IoSlice::new(buf)], &mut wire)?;
        Ok(self.timed().write_all(&wire)?)
    }

    /// Ends a connection that is not to be, so that our last words arrive: a socket that is closed with unread bytes in
    /// it takes back what it has sent.
    pub fn part(mut self) {
        self.until = self.until.min(Instant::now() + Duration::from_secs(1));
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        let mut rest = [0; 4096];
        while self.timed().read(&mut rest).is_ok_and(|n| n > 0) {}
    }

    /// The other end's certificate chain.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        match &self.crypt {
            Crypt::Tls(conn) => conn.peer_certificates().unwrap_or_default(),
            Crypt::Plain => &[],
        }
    }

    /// The cipher suite that was agreed.
    pub fn cipher(&self) -> Option<String> {
        match &self.crypt {
            Crypt::Tls(conn) => conn.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite())),
            Crypt::Plain => None,
        }
    }
}

/// What stands between the frames and the socket.
pub(crate) enum Crypt {
    Tls(Box<Connection>),
    Plain,
}

impl Crypt {
    /// Appends `parts`, one after the other, to `wire` as they travel.
    pub fn seal(&mut self, parts: &[IoSlice<'_>], wire: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Crypt::Plain => parts.iter().for_each(|part| wire.extend_from_slice(part)),
            Crypt::Tls(conn) => {
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                if bytes > 0 && conn.writer().write_vectored(parts)? != bytes {
                    return Err(io::Error::other("TLS took only a part of a frame"));
                }
                while conn.wants_write() {
                    conn.write_tls(wire)?;
                }
            }
        }
        Ok(())
    }

    /// Appends what `wire` brought to `plain`; says whether the other end has closed its half.
    pub fn open(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> std::result::Result<bool, rustls::Error> {
        let Crypt::Tls(conn) = self else {
            plain.extend_from_slice(wire);
            return Ok(false);
        };
        loop {
            // First what is there already: the handshake may have read further than the handshake.
            loop {
                let mut reader = conn.reader();
                match reader.fill_buf() {
                    Ok([]) => return Ok(true),
                    Ok(chunk) => {
                        plain.extend_from_slice(chunk);
                        let n = chunk.len();
                        reader.consume(n);
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return Ok(true),
                }
            }
            if wire.is_empty() {
                return Ok(false);
            }
            conn.read_tls(&mut wire).map_err(|e| rustls::Error::General(e.to_string()))?;
            conn.process_new_packets()?;
        }
    }
}
