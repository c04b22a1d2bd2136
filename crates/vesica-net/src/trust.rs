//! How a peer is known: by its very certificate, or by an authority that vouches for its name.

use crate::certificate::{distinguished, in_force, no_pem};
use crate::lock::lock;
use crate::{Error, Event, Fingerprint, Result};
use rustls::CertificateError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, TrustAnchor, UnixTime};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use vesica_types::Party;

/// How a peer is known.
#[derive(Clone)]
pub enum Trust {
    /// By its very certificate, which is one of these: two while it is exchanged for a new one.
    Pinned(Vec<Fingerprint>),
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
            Trust::Pinned(pins) if !pins.contains(&Fingerprint::of(leaf)) => Err(format!("pinned is {}", either(pins))),
            Trust::Pinned(_) => in_force(leaf, now.as_secs()),
            Trust::Ca { roots, name } => names(&roots.vouch(leaf, intermediates, now)?, name),
        }
    }

    /// Refuses a trust that no certificate can satisfy, and one in this side's `own`.
    pub(crate) fn check(&self, peer: &Party, own: Option<&Fingerprint>) -> Result<()> {
        match self {
            Trust::Pinned(pins) if own.is_some_and(|own| pins.contains(own)) => Err(Error::Setup(format!(
                "{peer} is to be known by {}, which is the fingerprint of this side's own certificate; give the fingerprint of {peer}'s, and in \
                 mine.tls.identity this side's own file",
                own.map(Fingerprint::to_string).unwrap_or_default()
            ))),
            Trust::Pinned(pins) if pins.is_empty() => {
                Err(Error::Setup(format!("{peer} is to be known by one of no fingerprints; give one at least")))
            }
            Trust::Ca { name, .. } if ServerName::try_from(name.as_str()).is_err() => Err(Error::Setup(format!(
                "{peer} is to be known by a certificate that names {name:?}, which is no DNS name; give the name in {peer}'s \
                 certificate"
            ))),
            _ => Ok(()),
        }
    }
}

/// One of these.
fn either(pins: &[Fingerprint]) -> String {
    pins.iter().map(Fingerprint::to_string).collect::<Vec<_>>().join(" or ")
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Pinned(pins) => write!(f, "pinned {}", either(pins)),
            Trust::Ca { name, .. } => write!(f, "{name:?} by a certificate authority"),
        }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The certificate authorities that may vouch for a peer, and what they have revoked.
#[derive(Clone)]
pub struct Roots(Arc<Authorities>);

struct Authorities {
    /// The file in which they stand, if it is one.
    file: PathBuf,
    anchors: Vec<TrustAnchor<'static>>,
    /// Lists of revoked certificates (RFC 5280, section 5), and the same as they stand in the file.
    revoked: Vec<webpki::CertRevocationList<'static>>,
    lists: Vec<CertificateRevocationListDer<'static>>,
}

impl PartialEq for Roots {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Authorities, b: &Authorities| a.anchors == b.anchors && a.lists == b.lists;
        Arc::ptr_eq(&self.0, &other.0) || same(&self.0, &other.0)
    }
}

impl Roots {
    /// Reads the authorities' certificates from a PEM file, and the lists of revoked certificates (CRLs) that stand there too. An authority
    /// without a list has revoked nothing; one whose list is out of date vouches for nobody.
    ///
    /// # Errors
    /// If there is no certificate in it, or something in it cannot be used; for a list of a part of an authority's certificates (RFC 5280,
    /// section 5.2.5).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bad = |why: String| Error::Identity {
            what: format!("certificate authorities {}", path.display()),
            why,
            remedy: "give a PEM file with the certificates of the authorities that you trust".into(),
        };
        let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
            .and_then(|certs| certs.collect())
            .map_err(|e| bad(format!("cannot be read ({})", no_pem(&e))))?;
        if certs.is_empty() {
            return Err(bad("no certificate in it".into()));
        }
        let anchors = anchors(&certs).map_err(|e| bad(format!("a certificate in it cannot be used ({e})")))?;
        let lists: Vec<CertificateRevocationListDer<'static>> = CertificateRevocationListDer::pem_file_iter(path)
            .and_then(|lists| lists.collect())
            .map_err(|e| bad(format!("cannot be read ({})", no_pem(&e))))?;
        let revoked = lists.iter().map(|list| webpki::OwnedCertRevocationList::from_der(list).map(Into::into));
        let revoked = revoked.collect::<std::result::Result<Vec<webpki::CertRevocationList<'static>>, _>>();
        let revoked = revoked.map_err(|e| bad(format!("a list of revoked certificates in it cannot be used ({e})")))?;
        // Such a list speaks for some certificates alone, those of one kind or those that name its address, and webpki passes over it in silence
        // where it meets others.
        if let Some(part) = revoked.iter().find(|list| list.issuing_distribution_point().is_some()) {
            return Err(bad(format!(
                "the list of revoked certificates by {:?} in it is for a part of that authority's certificates (it has an issuing distribution \
                 point), so it may cover nobody: ask the authority for its complete list without one",
                distinguished(part.issuer())
            )));
        }
        // Of two lists that may speak for one certificate, only the first would be looked at.
        let alike = |a: &webpki::CertRevocationList<'_>, b: &webpki::CertRevocationList<'_>| a.issuer() == b.issuer();
        if revoked.iter().enumerate().any(|(at, list)| revoked.iter().take(at).any(|before| alike(before, list))) {
            let why = "two lists of revoked certificates of one authority in it, of which one alone can count: keep the newest";
            return Err(bad(why.into()));
        }
        Ok(Self(Arc::new(Authorities { file: path.to_owned(), anchors, revoked, lists })))
    }

    /// Says of each list of revoked certificates whose issuer has no certificate in the file that it covers nobody.
    fn idle_lists(&self) -> impl Iterator<Item = Event> {
        let covers = |list: &&webpki::CertRevocationList<'_>| {
            self.0.anchors.iter().any(|anchor| anchor.subject.as_ref() == list.issuer())
        };
        let idle = self.0.revoked.iter().filter(move |list| !covers(list));
        idle.map(|list| Event::IdleList { file: self.0.file.clone(), issuer: distinguished(list.issuer()) })
    }

    /// The certificate `leaf`, if one of the authorities vouches for it at `now`; in words if not.
    fn vouch<'a>(
        &self,
        leaf: &'a CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<webpki::EndEntityCert<'a>, String> {
        let cert =
            webpki::EndEntityCert::try_from(leaf).map_err(|e| format!("it cannot be understood: {}", cut(&e)))?;
        // The dialling side is a TLS client and the listening side a server, but who dials is a matter of firewalls, not
        // of rights; so a certificate for either use will do.
        let lists: Vec<_> = self.0.revoked.iter().collect();
        let revocation = webpki::RevocationOptionsBuilder::new(&lists).ok().map(|lists| {
            lists
                .with_status_policy(webpki::UnknownStatusPolicy::Allow)
                .with_expiration_policy(webpki::ExpirationPolicy::Enforce)
                .build()
        });
        let mut why = None;
        for usage in [webpki::KeyUsage::server_auth(), webpki::KeyUsage::client_auth()] {
            let algorithms = webpki::ALL_VERIFICATION_ALGS;
            let verified = cert
                .verify_for_usage(algorithms, &self.0.anchors, intermediates, now, usage, revocation, None)
                .map(drop);
            match verified {
                Ok(()) => return Ok(cert),
                // That it is not for the one use says nothing, where it is for the other: then that other's reason counts.
                Err(e) => {
                    let before = why.take();
                    why = before.filter(|e| !matches!(e, webpki::Error::RequiredEkuNotFoundContext(_))).or(Some(e));
                }
            }
        }
        Err(match why {
            Some(webpki::Error::UnknownIssuer) => "no certificate authority in the job's roots signed it".into(),
            Some(webpki::Error::CertExpired { not_after, .. }) => {
                format!("it expired on {}", crate::text::date(not_after.as_secs()))
            }
            Some(webpki::Error::CertRevoked) => "its certificate authority has revoked it".into(),
            Some(webpki::Error::CrlExpired { next_update, .. }) => format!(
                "the list of certificates that its authority has revoked was to be renewed on {}: put the new one into the file of the authorities",
                crate::text::date(next_update.as_secs())
            ),
            Some(e) => format!("the certificate authority's chain does not hold: {}", cut(&e)),
            None => "it is for no use that fits".into(),
        })
    }

    /// The authorities with these certificates, who have revoked nothing.
    pub(crate) fn of(certs: &[CertificateDer<'_>]) -> std::result::Result<Self, webpki::Error> {
        let (file, revoked, lists) = (PathBuf::new(), Vec::new(), Vec::new());
        Ok(Self(Arc::new(Authorities { file, anchors: anchors(certs)?, revoked, lists })))
    }
}

/// What webpki says about a certificate, which repeats lists that somebody unknown has written into it, however long.
fn cut(error: &webpki::Error) -> String {
    crate::text::printable(&error.to_string(), 200)
}

fn anchors(certs: &[CertificateDer<'_>]) -> std::result::Result<Vec<TrustAnchor<'static>>, webpki::Error> {
    certs.iter().map(|cert| webpki::anchor_from_trusted_cert(cert).map(|anchor| anchor.to_owned())).collect()
}

/// The name in `DnsName("robert")`, which is how webpki shows a name.
fn plainly(shown: &str) -> &str {
    shown.strip_prefix("DnsName(\"").and_then(|rest| rest.strip_suffix("\")")).unwrap_or(shown)
}

/// Whether `cert` names `name`, in words if not.
fn names(cert: &webpki::EndEntityCert<'_>, name: &str) -> std::result::Result<(), String> {
    let server = ServerName::try_from(name).map_err(|e| format!("{name:?} is no DNS name: {e}"))?;
    cert.verify_is_valid_for_subject_name(&server).map_err(|e| match e {
        webpki::Error::CertNotValidForName(context) if !context.presented.is_empty() => {
            // Names that somebody else has written: quoted, and not without end.
            let presented = context.presented.iter().take(3);
            let presented = presented.map(|shown| format!("{:?}", plainly(shown).chars().take(80).collect::<String>()));
            let presented: Vec<String> = presented.collect();
            format!("the CA vouches for {}, not for {name}", presented.join(", "))
        }
        webpki::Error::CertNotValidForName(_) => {
            format!("the certificate names nobody (no subject alternative name), not {name}")
        }
        e => format!("it is not valid for {name}: {}", cut(&e)),
    })
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.0.anchors.len())
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

/// Up to how many parties a rejection says what was expected of each of them.
const FEW: usize = 4;

/// The parties that may be at the other end, by what is known of them.
///
/// A service may know thousands, and strangers must cost it little: a certificate is looked up by its fingerprint, and
/// each set of authorities verifies a chain once, however many names it may vouch for.
#[derive(Clone, Default, Debug)]
pub(crate) struct Guests {
    /// Everybody. Who is known by the name alone, in plaintext, has no trust.
    all: Vec<(Party, Option<Trust>)>,
    /// Who is known by a fingerprint, as places in `all`.
    pinned: HashMap<Fingerprint, Vec<usize>>,
    /// Who is known by an authority: each set of authorities, and for whom it may vouch.
    vouched: Vec<(Roots, Vec<usize>)>,
    /// Whether they are the clients of a service, of whom none is awaited: whose fingerprint another one's is not, says nothing.
    are_clients: bool,
}

impl Guests {
    /// These parties.
    pub fn new(all: Vec<(Party, Option<Trust>)>) -> Self {
        let mut guests = Self::default();
        for (place, (_, trust)) in all.iter().enumerate() {
            match trust {
                None => {}
                Some(Trust::Pinned(pins)) => {
                    pins.iter().for_each(|pin| guests.pinned.entry(*pin).or_default().push(place));
                }
                Some(Trust::Ca { roots, .. }) => match guests.vouched.iter_mut().find(|(known, _)| known == roots) {
                    Some((_, places)) => places.push(place),
                    None => guests.vouched.push((roots.clone(), vec![place])),
                },
            }
        }
        Self { all, ..guests }
    }

    /// The clients of a service.
    pub fn of_service(all: Vec<(Party, Option<Trust>)>) -> Self {
        Self { are_clients: true, ..Self::new(all) }
    }

    /// Everybody.
    pub fn parties(&self) -> Vec<&Party> {
        self.all.iter().map(|(party, _)| party).collect()
    }

    /// Of which lists of revoked certificates it is told that they cover nobody.
    pub fn idle_lists(&self) -> impl Iterator<Item = Event> {
        self.vouched.iter().flat_map(|(roots, _)| roots.idle_lists())
    }

    /// How `party` is known.
    pub fn trust(&self, party: &Party) -> Option<&Trust> {
        self.all.iter().find(|(known, _)| known == party).and_then(|(_, trust)| trust.as_ref())
    }

    /// The parties that `chain` may stand for at `now`.
    fn find(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Vec<&Party> {
        let Some((leaf, intermediates)) = chain.split_first() else { return Vec::new() };
        let mut found = Vec::new();
        let pinned = self.pinned.get(&Fingerprint::of(leaf)).filter(|_| in_force(leaf, now.as_secs()).is_ok());
        found.extend(pinned.into_iter().flatten().copied());
        for (roots, places) in &self.vouched {
            let Ok(cert) = roots.vouch(leaf, intermediates, now) else { continue };
            found.extend(places.iter().copied().filter(|place| {
                let trust = self.all.get(*place).and_then(|(_, trust)| trust.as_ref());
                matches!(trust, Some(Trust::Ca { name, .. }) if names(&cert, name).is_ok())
            }));
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(|place| self.all.get(place)).map(|(party, _)| party).collect()
    }

    /// The parties that `chain` may stand for.
    pub fn identify(&self, chain: &[CertificateDer<'_>]) -> Vec<&Party> {
        self.find(chain, UnixTime::now())
    }

    /// Whether `chain` stands for anybody here.
    pub fn admit(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> std::result::Result<(), rustls::Error> {
        let Some(leaf) = chain.first() else { return Err(rustls::Error::NoCertificatesPresented) };
        if !self.find(chain, now).is_empty() {
            return Ok(());
        }
        let presented = Fingerprint::of(leaf);
        let rejected = Rejected { presented, why: self.objections(&presented, chain, now) };
        Err(CertificateError::Other(rustls::OtherError(Arc::new(rejected))).into())
    }

    /// Why `chain` stands for nobody: what was expected of each party, if there are few; of many, what was expected of
    /// those whose certificate this would be.
    fn objections(&self, presented: &Fingerprint, chain: &[CertificateDer<'_>], now: UnixTime) -> String {
        let few = self.all.len() <= FEW;
        let concerned = |trust: &Trust| match trust {
            Trust::Pinned(pins) => pins.contains(presented) || (few && !self.are_clients),
            Trust::Ca { .. } => few,
        };
        let parties = self.all.iter().filter_map(|(party, trust)| trust.as_ref().map(|trust| (party, trust)));
        let why: Vec<String> = parties
            .filter(|(_, trust)| concerned(trust))
            .take(FEW)
            .filter_map(|(party, trust)| trust.accepts(chain, now).err().map(|why| format!("for {party}, {why}")))
            .collect();
        match why.as_slice() {
            [] => format!(
                "it is of none of the {} that are known here",
                if self.are_clients { "clients" } else { "parties" }
            ),
            _ => why.join("; "),
        }
    }
}

/// Who may come in now. It can be replaced while the port is open: whoever shakes hands asks for the list of that moment.
#[derive(Debug)]
pub(crate) struct Register(Mutex<Arc<Guests>>);

impl Register {
    /// These guests, until others are set.
    pub fn new(guests: Guests) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Arc::new(guests))))
    }

    /// The list of this moment.
    pub fn now(&self) -> Arc<Guests> {
        lock(&self.0).clone()
    }

    /// From now on it is these.
    pub fn set(&self, guests: Guests) {
        *lock(&self.0) = Arc::new(guests);
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};

    use super::*;

    #[test]
    fn what_a_stranger_wrote_into_a_certificate_is_told_in_few_words() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["robert".to_owned()]).unwrap();
        params.extended_key_usages = (0..5_000).map(|i| ExtendedKeyUsagePurpose::Other(vec![1, 2, i])).collect();
        let stranger = params.self_signed(&key).unwrap();
        let authority = CertificateParams::new(vec![]).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap();
        let roots = Roots::of(&[authority.der().clone()]).unwrap();
        let why = roots.vouch(stranger.der(), &[], UnixTime::now()).map(drop).unwrap_err();
        assert!(why.len() < 300, "{} bytes: {why}", why.len());
        assert!(why.starts_with("the certificate authority's chain does not hold: "), "{why}");
    }
}
