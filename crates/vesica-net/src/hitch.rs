//! Why there is no connection, as words and as a reason to try again or not to.

use crate::trust::Rejected;
use crate::version::WIRE_VERSION;
use rustls::{AlertDescription, CertificateError};
use std::io::{self, ErrorKind};

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
                format!("it speaks version {theirs} of the wire format, this program speaks {}", WIRE_VERSION)
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
