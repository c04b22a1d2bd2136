//! What is known of any certificate: its fingerprint, and from when to when it is valid.

use crate::text::{date, printable};
use crate::{Error, Result};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// Whether `cert` is in force at `now`, in words if not.
pub(crate) fn in_force(cert: &CertificateDer<'_>, now: u64) -> std::result::Result<(), String> {
    let (begin, end) = validity(cert)?;
    if now > end {
        return Err(format!("the certificate expired on {}", date(end)));
    }
    if now < begin {
        return Err(format!("the certificate is not valid before {}; check this machine's clock", date(begin)));
    }
    Ok(())
}

/// The first and the last second at which `cert` is valid.
///
/// The certificate library keeps the dates to itself but names them when it refuses a certificate for its age. So it is
/// asked to verify at a time before and at a time after all others; the age is the first thing that it looks at.
pub(crate) fn validity(cert: &CertificateDer<'_>) -> std::result::Result<(u64, u64), String> {
    let unreadable = |e: webpki::Error| format!("the certificate cannot be understood ({e})");
    let entity = webpki::EndEntityCert::try_from(cert).map_err(unreadable)?;
    let at = |seconds: u64| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        entity.verify_for_usage(&[], &[], &[], time, webpki::KeyUsage::client_auth(), None, None).map(|_| ())
    };
    // A certificate without end has 9999-12-31 in it (RFC 5280, 4.1.2.5), which is as far as this looks.
    let end = match at(253_402_300_800) {
        Err(webpki::Error::CertExpired { not_after, .. }) => not_after.as_secs(),
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => not_before.as_secs(),
        Err(e @ (webpki::Error::InvalidCertValidity | webpki::Error::BadDerTime | webpki::Error::BadDer)) => {
            return Err(unreadable(e));
        }
        _ => 253_402_300_799,
    };
    let begin = match at(0) {
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => not_before.as_secs(),
        _ => 0,
    };
    Ok((begin, end))
}

/// A distinguished name (RFC 5280, section 4.1.2.4) as people write it: `CN=Our authority, O=Bank`. `der` is what stands in its sequence; what
/// cannot be read is left out.
pub(crate) fn distinguished(der: &[u8]) -> String {
    let mut parts = Vec::new();
    for set in Elements(der) {
        for pair in Elements(set) {
            let mut of = Elements(pair);
            let (Some(kind), Some(value)) = (of.next(), of.next()) else { continue };
            // Section 4.1.2.4 and its attributes in X.520: 2.5.4.3 is the common name.
            let kind = match kind {
                [0x55, 4, 3] => "CN=",
                [0x55, 4, 6] => "C=",
                [0x55, 4, 7] => "L=",
                [0x55, 4, 8] => "ST=",
                [0x55, 4, 10] => "O=",
                [0x55, 4, 11] => "OU=",
                _ => "",
            };
            parts.push(format!("{kind}{}", String::from_utf8_lossy(value)));
        }
    }
    printable(&parts.join(", "), 200)
}

/// What is in each of the DER elements that stand here one after another, up to the first that is cut or longer than 64 KiB.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&[_, first], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            ..=0x7f => (usize::from(first), rest),
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }
}

/// Why nothing can be read from a text that was to be PEM. In words of ours: the library's own repeat the line at which it stopped, and where a PEM
/// has lost its line breaks, that line is the whole private key.
pub(crate) fn no_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::IllegalSectionStart { .. } => {
            "a BEGIN line has more on it: a PEM has line breaks, and these were lost or stand there as \\n".into()
        }
        pem::Error::MissingSectionEnd { .. } => {
            "a BEGIN line without its END line: the file is cut, or its line breaks were lost".into()
        }
        pem::Error::Base64Decode(_) => "what stands between a BEGIN line and its END line is not Base64".into(),
        pem::Error::NoItemsFound => "no BEGIN line of that kind".into(),
        pem::Error::SectionTooLarge => "a part of it is too large".into(),
        _ => "it is not PEM".into(),
    }
}

/// The hash by which partners know a certificate: SHA-256 of its DER encoding, written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// The first certificate in a PEM file.
fn first_of(path: &Path) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_file(path).map_err(|e| Error::Identity {
        what: format!("certificate {}", path.display()),
        why: format!("no certificate can be read from it ({})", no_pem(&e)),
        remedy: "give a PEM file such as the NAME.cert.pem that `vesica cert` made".into(),
    })
}

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub(crate) fn of(cert: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(cert).into())
    }

    /// The fingerprint of the first certificate in a PEM file, such as a partner's `NAME.cert.pem`.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(&first_of(path.as_ref())?))
    }

    /// The same for a certificate that partners accept today. The private key is not read.
    ///
    /// # Errors
    /// If there is none, or it has expired, is not valid yet, or cannot be understood.
    pub fn of_file_in_force(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let cert = first_of(path)?;
        in_force(&cert, UnixTime::now().as_secs()).map_err(|why| Error::Identity {
            what: format!("certificate {}", path.display()),
            why,
            remedy: "make a new one with `vesica cert NAME --out DIR` and give its fingerprint to your partners".into(),
        })?;
        Ok(Self::of(&cert))
    }

    /// The hash itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Accepts upper case, and colons between bytes as `openssl x509 -fingerprint -sha256` prints them.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = |why: String| {
            format!(
                "{:?} is not a fingerprint: {why}; it is written `sha256:` and 64 hex digits, as `vesica cert` prints it",
                printable(text, 100)
            )
        };
        let hex =
            text.trim().strip_prefix("sha256:").ok_or_else(|| wrong("it does not begin with `sha256:`".into()))?;
        let digits: Vec<u8> = hex
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).map(|d| d as u8).ok_or_else(|| wrong(format!("{c:?} is not a hex digit"))))
            .collect::<std::result::Result<_, _>>()?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
        let hash = (digits.len() == 64).then(|| bytes.try_into().ok()).flatten();
        hash.map(Self).ok_or_else(|| wrong(format!("it has {} hex digits", digits.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn names_are_written_as_people_write_them() {
        let attribute = |kind: u8, value: &[u8]| {
            let inner = [&[6, 3, 0x55, 4, kind, 12, value.len() as u8][..], value].concat();
            let pair = [&[0x30, inner.len() as u8][..], &inner].concat();
            [&[0x31, pair.len() as u8][..], &pair].concat()
        };
        let name = [attribute(10, b"Bank"), attribute(3, "Å\x1b[31m".as_bytes()), attribute(99, b"x")].concat();
        assert_eq!(distinguished(&name), "O=Bank, CN=Å?[31m, x");
        // Cut anywhere, it is what stands before.
        for end in 0..name.len() {
            assert!("O=Bank, CN=Å?[31m, x".starts_with(&distinguished(&name[..end])), "{end}");
        }
        for broken in [&[0x31, 0x83, 1, 0, 0][..], &[0x31, 0x82, 0xff, 0xff], &[0x31, 0x80], &[0x31]] {
            assert_eq!(distinguished(broken), "");
        }
        let long = [&[0x31, 0x81, 134, 0x30, 0x81, 131, 6, 3, 0x55, 4, 3, 12, 124][..], &[b'a'; 124]].concat();
        assert_eq!(distinguished(&long), format!("CN={}", "a".repeat(124)));
    }

    #[test]
    fn fingerprints_are_read_as_they_are_written() {
        let made = Identity::generate("alice").unwrap().fingerprint();
        assert_eq!(made.to_string().parse(), Ok(made));
        let hex: Vec<String> = made.0.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(format!("sha256:{}", hex.join(":")).parse(), Ok(made));
        for (text, why) in [
            ("1234", "does not begin with `sha256:`"),
            ("sha256:12", "it has 2 hex digits"),
            ("sha256:xy", "'x' is not a hex digit"),
        ] {
            let error = text.parse::<Fingerprint>().unwrap_err();
            assert!(error.contains(why) && error.contains("64 hex digits"), "{error}");
        }
    }
}
