//! How a connection is secured, as events and the report tell it.

use crate::Fingerprint;
use std::fmt;

/// How a connection is secured, for the report.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Secured {
    /// `TLS 1.3`, or `none`.
    pub protocol: &'static str,
    /// The cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: Option<String>,
    /// How the peer was known: `pinned sha256:…`, or the name that an authority vouched for.
    pub trust: Option<String>,
    /// The peer's certificate.
    pub fingerprint: Option<Fingerprint>,
}

impl fmt::Display for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cipher, &self.trust) {
            (Some(cipher), Some(trust)) => write!(f, "{}, mutual, {trust}, {cipher}", self.protocol),
            _ => f.write_str("INSECURE: plaintext, and nobody is authenticated"),
        }
    }
}
