//! A party's private key and certificate, and the files that they stand in.

use crate::certificate::{in_force, no_pem, validity};
use crate::printed;
use crate::text::date;
use crate::{Error, Fingerprint, Result};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vesica_program::on_disk::{self, Files};
use zeroize::Zeroizing;

/// The largest identity file that is read: a key and a long chain fit many times over.
const MAX_FILE: u64 = 1 << 20;

/// How long a made certificate is good for, in days: ten years. A pinned certificate is replaced by agreement, not by age.
const VALID_DAYS: u64 = 3650;

/// A party's private key and certificate chain.
///
/// The key stays inside: it neither prints nor leaves, except into the file that [`Identity::write`] makes, and as the text that
/// [`Identity::pem`] gives of an identity which is in no file.
#[derive(Clone)]
pub struct Identity {
    what: String,
    key: Arc<CertifiedKey>,
    leaf: CertificateDer<'static>,
    /// What [`Identity::write`] writes, while it is in no file yet.
    fresh: Option<Arc<Fresh>>,
}

/// An identity as the texts of its two files.
struct Fresh {
    name: String,
    secret: Zeroizing<String>,
    public: String,
}

impl Identity {
    /// How many days before its end a certificate's age is told of.
    pub const SOON: u64 = 30;

    /// Reads the private key and the certificate chain (the party's own certificate first) from one PEM file.
    ///
    /// # Errors
    /// If the file cannot be read, lets others read it, or holds no key with its certificate.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_pem(&format!("identity {}", path.display()), &read(path, true)?)
    }

    /// Reads the certificate chain from one PEM file and the private key from another.
    ///
    /// # Errors
    /// If a file cannot be read, the key's lets others read it, or they do not belong together.
    pub fn load_pair(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        let what = format!("identity {} with {}", certificate.display(), key.display());
        Self::with_key(&what, certificate, &read(key, true)?)
    }

    /// Reads the certificate chain from a PEM file, and has a program print the private key, as PEM. The key stays in this process. The program is
    /// ended once `stop` says so.
    ///
    /// # Errors
    /// If the certificate cannot be read, the program does not print a key, or they do not belong together. The errors of [`printed`].
    pub fn load_printed(
        certificate: impl AsRef<Path>,
        words: &[String],
        folder: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let certificate = certificate.as_ref();
        let name = words.first().map_or("", String::as_str);
        let what = format!("identity {} with the key that {name:?} prints", certificate.display());
        let key = printed(words, folder, stop).map_err(|why| Error::Identity {
            what: format!("private key of identity {}", certificate.display()),
            why,
            remedy: "run the program by hand: it has to print the private key as PEM and to exit with 0".into(),
        })?;
        Self::with_key(&what, certificate, &key)
    }

    fn with_key(what: &str, certificate: &Path, key: &[u8]) -> Result<Self> {
        let chain = read(certificate, false)?;
        // Its mode was not looked at, and which of two keys counts nobody would know.
        if chain.windows(11).any(|word| word == b"PRIVATE KEY") {
            return Err(Error::Identity {
                what: format!("identity {}", certificate.display()),
                why: "a private key is in it, and `key` says that the key is elsewhere".into(),
                remedy: "name the file with the certificate alone there, such as NAME.cert.pem, or leave `key` out"
                    .into(),
            });
        }
        Self::of(what, &chain, key)
    }

    /// The identity in a PEM text; `what` names it in errors.
    ///
    /// # Errors
    /// If it holds no key with its certificate.
    pub fn from_pem(what: &str, pem: &[u8]) -> Result<Self> {
        Self::of(what, pem, pem)
    }

    /// The identity whose certificate chain is in one PEM text, and whose private key is in another or the same.
    fn of(what: &str, chain: &[u8], key: &[u8]) -> Result<Self> {
        let bad = |why: String, remedy: &str| Error::Identity { what: what.to_owned(), why, remedy: remedy.to_owned() };
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(chain).collect::<std::result::Result<_, _>>().map_err(|e| {
                bad(format!("not a PEM file ({})", no_pem(&e)), "make one with `vesica cert NAME --out DIR`")
            })?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| {
            if key.windows(21).any(|w| w == b"ENCRYPTED PRIVATE KEY") {
                return bad(
                    "the private key is encrypted".into(),
                    "decrypt it with `openssl pkey -in FILE`, and keep it in a file of mode 0600",
                );
            }
            bad(
                format!("no private key in it ({})", no_pem(&e)),
                "put the private key before the certificate, both as PEM",
            )
        })?;
        let Some(leaf) = chain.first().cloned() else {
            return Err(bad("no certificate in it".into(), "append the certificate that belongs to the key, as PEM"));
        };
        let key = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()).map_err(|e| {
            let why = match e {
                rustls::Error::InconsistentKeys(_) => "the certificate does not belong to the private key".to_owned(),
                e => format!("the private key cannot be used ({e})"),
            };
            bad(why, "make a pair with `vesica cert NAME --out DIR`, or put your certificate first, then its chain")
        })?;
        Ok(Self { what: what.to_owned(), key: Arc::new(key), leaf, fresh: None })
    }

    /// Makes a new ECDSA P-256 key with a certificate that it signs itself, for the party called `name`.
    ///
    /// # Errors
    /// If `name` cannot stand in a certificate and in a file's name, or there is no randomness.
    pub fn generate(name: &str) -> Result<Self> {
        let what = format!("identity of {name}");
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if name.len() > 63
            || !name.chars().all(fits)
            || !edge(name.chars().next())
            || !edge(name.chars().last())
            || name.contains("..")
        {
            return Err(Error::Identity {
                what: format!("identity of {:?}", crate::text::printable(name, 80)),
                why: "this name cannot stand in a certificate".into(),
                remedy: "use at most 63 letters, digits, `-`, `_` and `.`, a letter or digit first and last".into(),
            });
        }
        let failed = |e: rcgen::Error| Error::Identity {
            what: what.clone(),
            why: e.to_string(),
            remedy: "this should not happen; please report it".into(),
        };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Either side may be the one that listens.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        // From yesterday, because the partner's clock may be behind ours.
        let now = std::time::SystemTime::now();
        params.not_before = (now - Duration::from_secs(86_400)).into();
        params.not_after = (now + Duration::from_secs(VALID_DAYS * 86_400)).into();
        let cert = params.self_signed(&key).map_err(failed)?;
        let key_pem = Zeroizing::new(key.serialize_pem());
        let cert_pem = cert.pem();
        let mut both = Zeroizing::new(String::with_capacity(key_pem.len() + cert_pem.len()));
        both.push_str(&key_pem);
        both.push_str(&cert_pem);
        let mut identity = Self::from_pem(&what, both.as_bytes())?;
        identity.fresh = Some(Arc::new(Fresh { name: name.to_owned(), secret: both, public: cert_pem }));
        Ok(identity)
    }

    /// Writes `NAME.pem` (private key and certificate, mode 0600) and `NAME.cert.pem` (the part to give away) into
    /// `dir`, and says where they are. Never overwrites a file.
    ///
    /// # Errors
    /// If this identity came from a file, one of the two files exists, or they cannot be written.
    pub fn write(&self, dir: impl AsRef<Path>) -> Result<(PathBuf, PathBuf)> {
        let dir = dir.as_ref();
        let bad = |what: String, why: String, remedy: &str| Error::Identity { what, why, remedy: remedy.to_owned() };
        let Some(fresh) = self.fresh.as_deref() else {
            return Err(bad(self.what.clone(), "it is in a file already".into(), "copy that file"));
        };
        on_disk::make_folder(&Files, dir, 0o777)
            .map_err(|e| bad(format!("folder {}", dir.display()), e.to_string(), "choose a folder you may write to"))?;
        let make = |file: String, mode: u32, text: &str| {
            let path = dir.join(file);
            let failed = |e: std::io::Error| match e.kind() {
                std::io::ErrorKind::AlreadyExists => bad(
                    format!("identity file {}", path.display()),
                    "it exists, and an identity is never overwritten".into(),
                    "choose another folder, or move it away if no partner trusts it any more",
                ),
                _ => bad(format!("identity file {}", path.display()), e.to_string(), "choose another folder"),
            };
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(failed)?;
            if let Err(e) = file
                .write_all(text.as_bytes())
                .and_then(|()| on_disk::contents(&file))
                .and_then(|()| on_disk::name(&path))
            {
                // Half a key is worse than none.
                let _ = std::fs::remove_file(&path);
                return Err(failed(e));
            }
            Ok(path)
        };
        let cert = make(format!("{}.cert.pem", fresh.name), 0o644, &fresh.public)?;
        match make(format!("{}.pem", fresh.name), 0o600, &fresh.secret) {
            Ok(key) => Ok((key, cert)),
            Err(e) => {
                let _ = std::fs::remove_file(&cert);
                Err(e)
            }
        }
    }

    /// The private key and the certificate as one PEM text, of an identity that was made here and is in no file.
    pub fn pem(&self) -> Option<Zeroizing<String>> {
        self.fresh.as_deref().map(|fresh| fresh.secret.clone())
    }

    /// What partners pin: the hash of this party's certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.leaf)
    }

    /// The last day on which partners will accept the certificate, as `2036-01-31`.
    pub fn expires(&self) -> Option<String> {
        validity(&self.leaf).ok().map(|(_, end)| date(end))
    }

    /// Refuses a certificate that partners would refuse for its age; says when it expires if that is within `days`.
    ///
    /// # Errors
    /// If it has expired, is not valid yet, or cannot be understood.
    pub fn check_age(&self, days: u64) -> Result<Option<String>> {
        let bad = |why: String| Error::Identity {
            what: self.what.clone(),
            why,
            remedy: "make a new one with `vesica cert NAME --out DIR` and give its fingerprint to your partners".into(),
        };
        let now = UnixTime::now().as_secs();
        in_force(&self.leaf, now).map_err(bad)?;
        let (_, end) = validity(&self.leaf).map_err(bad)?;
        Ok((end < now + days * 86_400).then(|| date(end)))
    }

    /// What to call it: the file it came from, or the name it was made for.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.key.clone()
    }
}

/// Whether other users may read the file at `path`, which holds this user's `what`, such as a password: then why it is not used, and the
/// remedy.
pub fn exposed(meta: &Metadata, path: &Path, what: &str) -> Option<(String, String)> {
    let mode = meta.mode() & 0o7777;
    let words = || {
        (format!("other users may read this {what} (mode {mode:04o})"), format!("run `chmod 600 {}`", path.display()))
    };
    (mode & 0o077 != 0).then(words)
}

/// Reads a PEM file; one that holds a private key must be this user's alone.
fn read(path: &Path, private: bool) -> Result<Zeroizing<Vec<u8>>> {
    let bad = |why: String, remedy: &str| Error::Identity {
        what: format!("identity {}", path.display()),
        why,
        remedy: remedy.into(),
    };
    let unreadable = |e: std::io::Error| {
        bad(e.to_string(), "give the path of a file that `vesica cert` made, readable by this user")
    };
    let file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(bad("not a file".into(), "give the path of a file that `vesica cert` made"));
    }
    if private && let Some((why, remedy)) = exposed(&meta, path, "private key") {
        return Err(bad(why, &remedy));
    }
    // Whole capacity at once: a buffer that grows leaves copies of the key behind.
    let mut pem = Zeroizing::new(Vec::with_capacity(meta.len().min(MAX_FILE) as usize + 1));
    (&file).take(MAX_FILE + 1).read_to_end(&mut pem).map_err(unreadable)?;
    if pem.len() as u64 > MAX_FILE {
        return Err(bad("larger than 1 MiB".into(), "keep in it one private key and its certificate chain"));
    }
    Ok(pem)
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, {})", self.what, self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_identity_survives_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let made = Identity::generate("alice.example").unwrap();
        let (key, cert) = made.write(dir.path()).unwrap();
        assert_eq!(key, dir.path().join("alice.example.pem"));
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Identity::load(&key).unwrap().fingerprint(), made.fingerprint());
        assert_eq!(Fingerprint::of_file(&cert).unwrap(), made.fingerprint());
        assert_eq!(Fingerprint::of_file_in_force(&cert).unwrap(), made.fingerprint());
        assert!(!std::fs::read_to_string(&cert).unwrap().contains("PRIVATE"));
        assert_eq!(made.check_age(30).unwrap(), None);
        assert_eq!(made.check_age(3700).unwrap(), made.expires());
    }

    #[test]
    fn a_key_may_stand_in_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let made = Identity::generate("alice").unwrap();
        let (both, cert) = made.write(dir.path()).unwrap();
        let pem = std::fs::read_to_string(&both).unwrap();
        let key = dir.path().join("alice.key");
        std::fs::write(&key, pem.split("-----BEGIN CERT").next().unwrap()).unwrap();
        let error = Identity::load_pair(&cert, &key).unwrap_err().to_string();
        assert!(error.contains("alice.key: other users may read this private key"), "{error}");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Identity::load_pair(&cert, &key).unwrap().fingerprint(), made.fingerprint());
        assert!(Identity::load(&key).unwrap_err().to_string().contains("no certificate in it"));

        // Another key beside the certificate, in a file that is not looked at for who may read it, counts for nothing.
        let error = Identity::load_pair(&both, &key).unwrap_err().to_string();
        assert!(
            error.contains("alice.pem: a private key is in it, and `key` says that the key is elsewhere"),
            "{error}"
        );
        let words = ["cat", "alice.key"].map(str::to_owned);
        assert!(
            Identity::load_printed(&both, &words, dir.path(), &|| false).unwrap_err().to_string().contains("is in it")
        );
        // A certificate beside the key is no part of the chain.
        let other = Identity::generate("bob").unwrap().fresh.unwrap();
        std::fs::write(&key, format!("{}{}", other.public, std::fs::read_to_string(&key).unwrap())).unwrap();
        assert_eq!(Identity::load_pair(&cert, &key).unwrap().certified().cert.len(), 1);

        let by = |words: [&str; 2]| Identity::load_printed(&cert, &words.map(str::to_owned), dir.path(), &|| false);
        assert_eq!(by(["cat", "alice.key"]).unwrap().fingerprint(), made.fingerprint());
        let error = by(["cat", "none.key"]).unwrap_err().to_string();
        assert!(error.contains("the program \"cat\" failed with exit code 1 and said: cat:"), "{error}");
        let error = by(["echo", "no PEM"]).unwrap_err().to_string();
        assert!(error.contains("with the key that \"echo\" prints: no private key in it"), "{error}");
    }

    /// Partners pin it: it is not to be gone when they have.
    #[test]
    fn a_new_identity_outlives_a_failure_of_power() {
        let dir = tempfile::tempdir().unwrap();
        let witness = vesica_testkit::Witness::of(dir.path());
        let (key, cert) = Identity::generate("alice").unwrap().write(dir.path().join("new/keys")).unwrap();
        [key, cert].iter().for_each(|path| witness.is_made(path).unwrap());
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let made = Identity::generate("alice").unwrap();
        std::fs::write(dir.path().join("alice.pem"), "precious").unwrap();
        let error = made.write(dir.path()).unwrap_err().to_string();
        assert!(error.contains("alice.pem: it exists"), "{error}");
        assert_eq!(std::fs::read_to_string(dir.path().join("alice.pem")).unwrap(), "precious");
        assert!(!dir.path().join("alice.cert.pem").exists());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let (key, _) = Identity::generate("alice").unwrap().write(dir.path()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Identity::load(&key).unwrap_err();
        assert_eq!(error.fault(), vesica_session::Fault::Config);
        assert!(error.to_string().contains(&format!("(mode 0640); run `chmod 600 {}`", key.display())), "{error}");
    }

    #[test]
    fn files_that_are_no_identity_say_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let load = |text: &str| {
            let path = dir.path().join("x.pem");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            Identity::load(&path).unwrap_err().to_string()
        };
        let (a, b) = (Identity::generate("a").unwrap(), Identity::generate("b").unwrap());
        let (a, b) = (a.fresh.unwrap(), b.fresh.unwrap());
        let key = a.secret.strip_suffix(&a.public).unwrap();
        assert!(load("").contains("no private key in it"));
        assert!(load(key).contains("no certificate in it"));
        assert!(load(&a.public).contains("no private key in it"));
        assert!(load(&format!("{key}{}", b.public)).contains("the certificate does not belong to the private key"));
        let sealed = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert!(load(&format!("{sealed}{}", b.public)).contains("the private key is encrypted"));
        assert!(Identity::load(dir.path().join("none.pem")).unwrap_err().to_string().contains("none.pem"));
    }

    /// A vault may give a key without its line breaks, or with each of them as a backslash and an n.
    #[test]
    fn no_error_repeats_a_private_key() {
        let dir = tempfile::tempdir().unwrap();
        let made = Identity::generate("alice").unwrap();
        let (_, cert) = made.write(dir.path()).unwrap();
        let fresh = made.fresh.unwrap();
        let key = fresh.secret.strip_suffix(&fresh.public).unwrap();
        let middle: String = key.lines().nth(1).unwrap()[20..32].to_owned();
        let decimal = middle.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        let path = dir.path().join("key");
        let cut = key.lines().take(2).collect::<Vec<_>>().join("\n");
        let spoilt = key.replacen(&middle, &format!("{middle}!"), 1);
        for (text, why) in [
            (key.trim_end().replace('\n', "\\n"), "a BEGIN line without its END line"),
            (key.replace('\n', "\\n"), "a BEGIN line has more on it"),
            (key.replace('\n', " "), "a BEGIN line without its END line"),
            (key.replace('\n', "").replace("-----END", " -----END ").replace("KEY-----", "KEY---"), "has more on it"),
            (cut, "a BEGIN line without its END line"),
            (spoilt, "is not Base64"),
        ] {
            std::fs::write(&path, &text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let words = ["cat", "key"].map(str::to_owned);
            let errors = [
                Identity::load(&path).unwrap_err(),
                Identity::load_pair(&cert, &path).unwrap_err(),
                Identity::load_printed(&cert, &words, dir.path(), &|| false).unwrap_err(),
                Fingerprint::of_file(&path).unwrap_err(),
                crate::Roots::load(&path).unwrap_err(),
            ];
            for error in errors {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains(&middle) && !shown.contains(&decimal), "{shown}");
            }
            let error = Identity::load_printed(&cert, &words, dir.path(), &|| false).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn names_that_cannot_stand_in_a_certificate() {
        for name in ["", ".", "a b", "-a", "a/b", "a..b", "ü", &"x".repeat(64)] {
            assert!(Identity::generate(name).is_err(), "{name:?}");
        }
        Identity::generate("Bank_1.example").unwrap();
    }
}
