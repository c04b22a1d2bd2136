//! TLS 1.3 with both sides authenticated: the configurations of the dialling side and of the listening side.

use crate::hybrid::Hybrid;
use crate::trust::{Guests, Register};
use crate::{Error, Fingerprint, Identity, Result, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use std::sync::Arc;
use vesica_types::Party;

/// The protocol name that both sides offer, so that a TLS service of another kind is told apart in the handshake.
const ALPN: &[u8] = b"vesica";

/// Lets in those only who are on the list at the moment of the handshake. That the other end holds the certificate's key is always verified, however it is trusted.
#[derive(Debug)]
struct Guard {
    register: Arc<Register>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Guard {
    fn new(register: Arc<Register>, provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self { register, algorithms: provider.signature_verification_algorithms })
    }

    fn admit(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<(), rustls::Error> {
        let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).cloned().collect();
        self.register.now().admit(&chain, now)
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

/// The cryptography of every connection: ring, with a key exchange before its own ones that quantum computers do not break, and with AES-128
/// first, since all else here aims at 128 bits and it is a quarter faster than AES-256.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.kx_groups.insert(0, &Hybrid);
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn unusable(e: rustls::Error) -> Error {
    Error::Setup(format!("TLS cannot be set up: {e}"))
}

/// What a dialling side needs to reach one peer.
#[derive(Clone)]
pub(crate) struct Client {
    pub config: Arc<ClientConfig>,
    /// The certificate that is shown.
    pub ours: Fingerprint,
    /// The name that is sent if one is, and that is not checked in any case: the guard knows the peer by its certificate.
    pub name: ServerName<'static>,
}

/// What a listening side needs to let somebody in.
#[derive(Clone)]
pub(crate) struct Server {
    pub config: Arc<ServerConfig>,
    /// The certificate that is shown.
    pub ours: Fingerprint,
}

/// What a dialling side needs to reach one peer.
pub(crate) fn client(identity: &Identity, (party, trust): (Party, Trust), sni: Option<&str>) -> Result<Client> {
    let provider = provider();
    let guard = Guard::new(Register::new(Guests::new(vec![(party, Some(trust))])), &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(guard)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    // Which party is called is nobody's business on the way, unless a gateway has to know; and every session stands alone.
    config.enable_sni = sni.is_some();
    config.resumption = rustls::client::Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let name = sni.unwrap_or("vesica.invalid").to_owned();
    let name = ServerName::try_from(name).map_err(|e| Error::Setup(format!("sni: {e}")))?;
    Ok(Client { config: Arc::new(config), ours: identity.fingerprint(), name })
}

/// What a listening side needs to let in those who are on the list.
pub(crate) fn server(identity: &Identity, register: Arc<Register>) -> Result<Server> {
    server_by(provider(), identity, register)
}

fn server_by(provider: Arc<CryptoProvider>, identity: &Identity, register: Arc<Register>) -> Result<Server> {
    let guard = Guard::new(register, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(guard)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified())));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Server { config: Arc::new(config), ours: identity.fingerprint() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring::kx_group::{SECP256R1, X25519};
    use rustls::{ClientConnection, HandshakeKind, NamedGroup, ServerConnection};

    #[test]
    fn who_knows_no_ml_kem_is_met_too_and_by_x25519_in_one_round() {
        let [alice, bob] = ["alice", "bob"].map(|name| Identity::generate(name).unwrap());
        let known = |place, name, of: &Identity| (Party::new(place, name), Trust::Pinned(vec![of.fingerprint()]));
        let dialling = client(&alice, known(1, "bob", &bob), None).unwrap();
        let all = provider().kx_groups.clone();
        for (groups, group, kind) in [
            (all, NamedGroup::X25519MLKEM768, HandshakeKind::Full),
            (vec![X25519], NamedGroup::X25519, HandshakeKind::Full),
            (vec![SECP256R1], NamedGroup::secp256r1, HandshakeKind::FullWithHelloRetryRequest),
        ] {
            let provider = Arc::new(CryptoProvider { kx_groups: groups, ..CryptoProvider::clone(&provider()) });
            let (party, trust) = known(0, "alice", &alice);
            let listening = server_by(provider, &bob, Register::new(Guests::new(vec![(party, Some(trust))]))).unwrap();
            let mut here = ClientConnection::new(dialling.config.clone(), dialling.name.clone()).unwrap();
            let mut there = ServerConnection::new(listening.config).unwrap();
            for _ in 0..4 {
                let mut sent = Vec::new();
                here.write_tls(&mut sent).unwrap();
                // A hello may come in any pieces.
                for byte in sent.chunks(1) {
                    there.read_tls(&mut &*byte).unwrap();
                    there.process_new_packets().unwrap();
                }
                let mut answer = Vec::new();
                there.write_tls(&mut answer).unwrap();
                here.read_tls(&mut &*answer).unwrap();
                here.process_new_packets().unwrap();
            }
            assert!(!here.is_handshaking() && !there.is_handshaking());
            assert_eq!(here.negotiated_key_exchange_group().unwrap().name(), group);
            assert_eq!(there.negotiated_key_exchange_group().unwrap().name(), group);
            assert_eq!(here.handshake_kind(), Some(kind));
        }
    }
}
