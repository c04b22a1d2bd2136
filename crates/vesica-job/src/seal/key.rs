//! What the files of a run are sealed with: one secret, keys derived from it, and a number for each sealed piece.
//!
//! Every file begins with a [`Front`]: the file's kind, the number of its format, whether it takes a secret to read it,
//! and 32 random bytes. Behind the front stand pieces, each sealed with ChaCha20-Poly1305: the records of a log, or
//! blocks. A key is made in two steps.
//!
//! 1. What the user gave ([`Given`]) becomes the run's [`Secret`], with the random bytes of the ledger's front as a
//!    salt. If the user gave nothing, the secret is made of those random bytes alone. Then it hides nothing, and tags
//!    are checksums.
//! 2. A key is derived from the secret, the file's first 16 bytes, 32 random bytes that its writer draws, and a text
//!    that says what the pieces belong to. The first 16 bytes keep apart the keys of different kinds of files, and
//!    those of two formats of one kind.
//!
//! **A nonce never repeats under a key.** The nonce of a piece is its number in the file. Only a [`Sealer`] seals. It
//! draws the random bytes of its key itself, so two sealers never share a key, in whatever process they are. It counts
//! the pieces itself and never goes back. If a process is killed while it writes a piece, another process may write
//! another piece with the same number; it does so with a sealer, and hence a key, of its own.

use crate::error::JobError;
use crate::tell::control::Control;
use crate::world::random;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use std::fs;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::Path;
use vesica_spec::{KeyPlace, KeyProgram, ResumePlan};
use zeroize::Zeroizing;

/// Bytes that sealing adds to a piece.
pub const TAG: usize = MAX_TAG_LEN;

/// Where a passphrase is looked for.
pub const PASSPHRASE: &str = "VESICA_RESUME_PASSPHRASE";

/// Rounds of PBKDF2-HMAC-SHA256 over a passphrase (OWASP Password Storage Cheat Sheet, 2023).
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");

/// The fewest bytes of a key: 16 random ones.
const KEY_BYTES: usize = 16;

/// How a file begins.
pub struct Front {
    /// The file's kind and format, and whether it takes a secret to read it.
    pub magic: [u8; 16],
    /// What its writer drew.
    pub random: [u8; 32],
}

impl Front {
    /// Bytes of it.
    pub const BYTES: usize = 48;

    /// The front that was written as `bytes`.
    pub fn from_bytes(bytes: &[u8; Front::BYTES]) -> Self {
        let (magic, random) = bytes.split_at(16);
        Self { magic: magic.try_into().expect("16 bytes"), random: random.try_into().expect("32 bytes") }
    }

    /// The front as it is written.
    pub fn to_bytes(&self) -> [u8; Front::BYTES] {
        [&self.magic[..], &self.random].concat().try_into().expect("48 bytes")
    }
}

/// The first bytes of a file of this kind and format, such as `vesica ledger 5`. The last one says whether it takes a
/// secret to read the file.
pub fn magic(kind: &[u8; 15], is_secret: bool) -> [u8; 16] {
    let mut magic = [if is_secret { b's' } else { b'\n' }; 16];
    magic[..15].copy_from_slice(kind);
    magic
}

/// What is said of a ledger without a key, of a job whose result is hidden by noise.
pub const HOLDS_COINS: &str = "holds the coins of its run's noise for everybody who can read it: remove it";

/// Whether it takes a secret to read a file with these first bytes.
pub fn needs_secret(magic: &[u8; 16]) -> bool {
    magic[15] == b's'
}

/// What the user gave for files to be sealed with.
pub enum Given {
    /// Nothing.
    Nothing,
    /// The bytes of a key.
    Key(Zeroizing<Vec<u8>>),
    /// A passphrase.
    Passphrase(Zeroizing<String>),
}

impl Given {
    /// What was given for the run of `resume`: `mine.resume_key`, a passphrase in the environment, or neither.
    ///
    /// # Errors
    /// Those of [`Given::from`].
    pub fn of(resume: &ResumePlan, ctl: &Control) -> Result<Self, JobError> {
        Self::from(resume.key.as_ref(), "mine.resume_key", PASSPHRASE, ctl)
    }

    /// What was given: a key, whose place is said by `field` of a document, a passphrase in the environment variable `variable`, or
    /// neither. A program that prints the key is ended once `ctl` is cancelled.
    ///
    /// # Errors
    /// [`JobError::Setup`] if both were given or the key is too short; a key that cannot be read, or that no program prints.
    pub fn from(
        key: Option<&KeyPlace>,
        field: &'static str,
        variable: &'static str,
        ctl: &Control,
    ) -> Result<Self, JobError> {
        match (key, passphrase(variable)) {
            (None, None) => Ok(Given::Nothing),
            (None, Some(words)) => Ok(Given::Passphrase(words)),
            (Some(place), None) => Self::key(place, field, ctl),
            (Some(_), Some(_)) => {
                Err(JobError::Setup(format!("{field} and {variable} are both given; give one of them")))
            }
        }
    }

    /// The key at `place`, which `field` of a document names. A program that prints it is ended once `ctl` is cancelled.
    ///
    /// # Errors
    /// As [`Given::from`], but for what is said of a passphrase.
    pub fn key(place: &KeyPlace, field: &'static str, ctl: &Control) -> Result<Self, JobError> {
        match place {
            KeyPlace::File(path) => key_file(path, field),
            KeyPlace::By(by) => key_printed(by, field, ctl),
        }
        .map(Given::Key)
    }

    /// Whether it is anybody's secret.
    pub fn is_secret(&self) -> bool {
        !matches!(self, Given::Nothing)
    }

    /// The secret of the run whose ledger has the random bytes `salt` in its front.
    pub fn secret(&self, salt: &[u8; 32]) -> Secret {
        let mut derived = Zeroizing::new([0; 32]);
        let (how, given): (u8, &[u8]) = match self {
            Given::Nothing => (0, &[]),
            Given::Key(bytes) => (1, bytes),
            Given::Passphrase(words) => {
                ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, words.as_bytes(), &mut *derived);
                (2, &*derived)
            }
        };
        let material = Zeroizing::new([salt, &[how][..], given].concat());
        let bytes = Zeroizing::new(blake3::derive_key("vesica 2026 secret of a run's files", &material));
        Secret { bytes, is_secret: self.is_secret() }
    }
}

/// The passphrase in this environment variable, if there is one.
pub fn passphrase(variable: &str) -> Option<Zeroizing<String>> {
    std::env::var(variable).ok().filter(|words| !words.is_empty()).map(Zeroizing::new)
}

fn key_file(path: &Path, field: &'static str) -> Result<Zeroizing<Vec<u8>>, JobError> {
    let bad = |why: String| JobError::Setup(format!("{field} {}: {why}", path.display()));
    let make = || format!("make a key with `(umask 077; head -c 32 /dev/urandom > {})`", path.display());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => bad(format!("there is no such file; {}", make())),
        _ => JobError::File { what: "cannot read the key", path: path.into(), error },
    };
    let mut file = fs::File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if let Some((why, remedy)) = vesica_net::exposed(&meta, path, "key") {
        return Err(bad(format!("{why}; {remedy}")));
    }
    // Whole capacity at once: a buffer that grows leaves copies of the key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(meta.len().min(1 << 20) as usize + 1));
    file.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() < KEY_BYTES {
        return Err(bad(format!("{} bytes are too few for a key; {}", bytes.len(), make())));
    }
    Ok(bytes)
}

fn key_printed(by: &KeyProgram, field: &'static str, ctl: &Control) -> Result<Zeroizing<Vec<u8>>, JobError> {
    let bad = |why: String| JobError::Setup(format!("{field}: {why}"));
    let bytes = vesica_net::printed(&by.program, &by.folder, &|| ctl.is_cancelled());
    // A program that was ended because the run was cancelled is no fault of the job.
    ctl.check()?;
    let bytes = bytes.map_err(bad)?;
    if bytes.len() < KEY_BYTES {
        let name = by.program.first().map_or("", String::as_str);
        return Err(bad(format!(
            "the program {name:?} prints {} bytes, which are too few for a key: it has to print at least {KEY_BYTES}, all of them random",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// What the keys of a run's files are derived from.
pub struct Secret {
    bytes: Zeroizing<[u8; 32]>,
    is_secret: bool,
}

impl Secret {
    /// Of 32 random bytes that the machines of a cluster share.
    pub fn of_cluster(bytes: &[u8; 32]) -> Self {
        let bytes = Zeroizing::new(blake3::derive_key("vesica 2026 secret of a cluster", bytes));
        Self { bytes, is_secret: true }
    }

    /// 32 bytes that follow from it, for this purpose alone.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(purpose, &*self.bytes))
    }

    /// Whether it is anybody's secret.
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// The key for pieces that belong to `what`, in a file that begins with `magic`, whose writer drew `random`. All
    /// that stands before `what` has a fixed length, so different arguments are never the same bytes.
    fn key(&self, magic: &[u8; 16], random: &[u8; 32], what: &[u8]) -> LessSafeKey {
        let material = Zeroizing::new([&self.bytes[..], magic, random, what].concat());
        let bytes = Zeroizing::new(blake3::derive_key("vesica 2026 key of a run's file", &material));
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &*bytes).expect("a key of 32 bytes"))
    }
}

/// Seals pieces, one number after the other.
pub struct Sealer {
    key: LessSafeKey,
    next: u64,
}

impl Sealer {
    /// Seals the pieces from number `first` on, under a key of its own. Returns too the random bytes that an [`Opener`]
    /// needs, which are no secret.
    ///
    /// # Errors
    /// Those of [`random`].
    pub fn new(secret: &Secret, magic: &[u8; 16], what: &[u8], first: u64) -> Result<(Self, [u8; 32]), JobError> {
        let random = random()?;
        Ok((Self { key: secret.key(magic, &random, what), next: first }, random))
    }

    /// Seals `piece` under the next number.
    ///
    /// # Errors
    /// A piece of more than 256 GiB.
    pub fn seal(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        let nonce = nonce(self.next);
        self.next += 1;
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), piece);
        sealed.map_err(|_| io::Error::other("a piece of it cannot be sealed"))
    }

    /// The same of what stands in `piece` behind its first `room` bytes.
    ///
    /// # Errors
    /// A piece of more than 256 GiB.
    pub fn seal_behind(&mut self, room: usize, piece: &mut Vec<u8>) -> io::Result<()> {
        let nonce = nonce(self.next);
        self.next += 1;
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut piece[room..]);
        piece.extend_from_slice(sealed.map_err(|_| io::Error::other("a piece of it cannot be sealed"))?.as_ref());
        Ok(())
    }
}

/// Opens what a [`Sealer`] sealed.
pub struct Opener(LessSafeKey);

impl Opener {
    /// Opens what the sealer sealed that was made with the same arguments and drew `random`.
    pub fn new(secret: &Secret, magic: &[u8; 16], what: &[u8], random: &[u8; 32]) -> Self {
        Self(secret.key(magic, random, what))
    }

    /// The piece with this number; none if that is not what was sealed.
    pub fn open<'a>(&self, number: u64, sealed: &'a mut [u8]) -> Option<&'a [u8]> {
        self.0.open_in_place(nonce(number), Aad::empty(), sealed).ok().map(|piece| &*piece)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 16] = *b"vesica ledger 5s";

    fn given() -> Given {
        Given::Key(Zeroizing::new(vec![3; 32]))
    }

    fn sealed(secret: &Secret, first: u64, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, [u8; 32]) {
        let (mut sealer, random) = Sealer::new(secret, &MAGIC, b"run", first).unwrap();
        let mut seal = |piece: &&[u8]| {
            let mut piece = piece.to_vec();
            sealer.seal(&mut piece).unwrap();
            piece
        };
        (pieces.iter().map(&mut seal).collect(), random)
    }

    #[test]
    fn a_program_with_the_key_is_ended_with_the_run() {
        let program = ["sh", "-c", "exec sleep 600"].map(str::to_owned).to_vec();
        let place = KeyPlace::By(KeyProgram { program, folder: Default::default() });
        let ctl = Control::new(());
        ctl.cancel();
        let refused = Given::from(Some(&place), "mine.resume_key", "VESICA_TEST_OF_KEYS", &ctl);
        assert!(matches!(refused, Err(JobError::Session(vesica_session::Error::Cancelled))));
    }

    #[test]
    fn a_piece_opens_under_its_number_and_its_key_alone() {
        let secret = given().secret(&[1; 32]);
        let (pieces, random) = sealed(&secret, 7, &[b"first", b"second"]);
        let opens = |secret: &Secret, magic: &[u8; 16], what: &[u8], random: &[u8; 32], number| {
            let mut piece = pieces[1].clone();
            Opener::new(secret, magic, what, random).open(number, &mut piece).map(<[u8]>::to_vec)
        };
        assert_eq!(opens(&secret, &MAGIC, b"run", &random, 8).unwrap(), b"second");
        assert!(opens(&secret, &MAGIC, b"run", &random, 7).is_none(), "another number");
        assert!(opens(&secret, b"vesica ledger 6s", b"run", &random, 8).is_none(), "another format");
        assert!(opens(&secret, b"vesica units 5\ns", b"run", &random, 8).is_none(), "another kind");
        assert!(opens(&secret, &MAGIC, b"run ", &random, 8).is_none(), "another run");
        assert!(opens(&secret, &MAGIC, b"run", &[0; 32], 8).is_none(), "another sealer");
        assert!(opens(&given().secret(&[2; 32]), &MAGIC, b"run", &random, 8).is_none(), "another ledger");
        for other in [Given::Nothing, Given::Key(Zeroizing::new(vec![3; 31]))] {
            assert!(opens(&other.secret(&[1; 32]), &MAGIC, b"run", &random, 8).is_none(), "another secret");
        }
    }

    /// What is sealed twice under one nonce tells whoever sees both the difference of what they say.
    #[test]
    fn two_sealers_never_seal_alike_nor_does_one_twice() {
        let secret = given().secret(&[1; 32]);
        let (a, _) = sealed(&secret, 0, &[b"piece", b"piece"]);
        let (b, _) = sealed(&secret, 0, &[b"piece"]);
        assert!(a[0] != a[1] && a[0] != b[0] && a[1] != b[0]);
    }

    #[test]
    fn a_passphrase_is_salted_and_is_no_key_file() {
        let words = Given::Passphrase(Zeroizing::new("a passphrase of many words".into()));
        let (a, again, other) = (words.secret(&[1; 32]), words.secret(&[1; 32]), words.secret(&[2; 32]));
        assert!(a.bytes == again.bytes && a.bytes != other.bytes && a.is_secret());
        let mut derived = Zeroizing::new(vec![0; 32]);
        let algorithm = ring::pbkdf2::PBKDF2_HMAC_SHA256;
        ring::pbkdf2::derive(algorithm, ROUNDS, &[1; 32], b"a passphrase of many words", &mut derived);
        assert!(Given::Key(derived).secret(&[1; 32]).bytes != a.bytes);
        assert!(!Given::Nothing.secret(&[1; 32]).is_secret());
    }

    /// Sealed by BLAKE3 and ChaCha20-Poly1305 of Python's packages `blake3` and `cryptography`. If this fails, no file of an
    /// earlier version can be read: then the formats need new numbers.
    #[test]
    fn keys_are_derived_as_ever() {
        let mut piece = [
            0xa0, 0xeb, 0x6a, 0xea, 0xc8, 0xa9, 0x09, 0xab, 0x07, 0xec, 0xd1, 0xbc, 0x49, 0xd3, 0x1c, 0xf1, 0x55, 0xa1,
            0xf1, 0x4d, 0x14,
        ];
        let opener = Opener::new(&given().secret(&[1; 32]), &MAGIC, b"run", &[2; 32]);
        assert_eq!(opener.open(7, &mut piece), Some(&b"piece"[..]));
    }
}
