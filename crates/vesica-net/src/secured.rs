//! How a connection is secured, as events and the report tell it.

use crate::Fingerprint;
use std::fmt;

/// The protocol of a connection that the caller brought, and that has no TLS of ours.
pub(crate) const CARRIED: &str = "the caller's";

/// How a connection is secured, for the report.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Secured {
    /// `TLS 1.3`, `none`, or `the caller's` on a connection that the caller brought.
    pub protocol: &'static str,
    /// The cipher suite and the key exchange, such as `TLS13_AES_128_GCM_SHA256, X25519MLKEM768`.
    pub cipher: Option<String>,
    /// How the peer was known: `pinned sha256:…`, or the name that an authority vouched for.
    pub trust: Option<String>,
    /// The peer's certificate.
    pub fingerprint: Option<Fingerprint>,
    /// This side's certificate, which the peer has seen.
    pub ours: Option<Fingerprint>,
}

impl Secured {
    /// Of a connection in plaintext, where nobody is authenticated.
    pub fn plain() -> Self {
        Self { protocol: "none", cipher: None, trust: None, fingerprint: None, ours: None }
    }
}

impl fmt::Display for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cipher, &self.trust) {
            (Some(cipher), Some(trust)) => write!(f, "{}, mutual, {trust}, {cipher}", self.protocol),
            _ if self.protocol == CARRIED => f.write_str("the caller's connection, which Vesica does not secure"),
            _ => f.write_str("INSECURE: plaintext, and nobody is authenticated"),
        }
    }
}
