//! How a peer is known: by its very certificate, or by an authority that vouches for its name.

use crate::certificate::in_force;
use crate::{Error, Fingerprint, Result};
use rustls::CertificateError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use vesica_types::Party;

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
        Self::of(&certs).map_err(|e| bad(format!("a certificate in it cannot be used ({e})")))
    }

    /// The authorities with these certificates.
    pub(crate) fn of(certs: &[CertificateDer<'_>]) -> std::result::Result<Self, webpki::Error> {
        let anchors: std::result::Result<Vec<_>, _> =
            certs.iter().map(|cert| webpki::anchor_from_trusted_cert(cert).map(|anchor| anchor.to_owned())).collect();
        Ok(Self(anchors?.into()))
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

    pub fn admit(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> std::result::Result<(), rustls::Error> {
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
