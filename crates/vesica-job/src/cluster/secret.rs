//! What the machines of a cluster share, and what it protects.
//!
//! **Sealed whole**: documents, units and what was found. A piece is a front of 48 bytes, with the kind and 32 random bytes, and then
//! ChaCha20-Poly1305 under a key that is derived from the secret, the kind, the random bytes and a text that says what the piece belongs to. So
//! a piece that a retried task seals again is under another key, and pieces cannot be put in each other's places.
//!
//! **Permuted**: the numbers of units, by a permutation that is drawn under the secret. A part of the shuffle is a stretch of these, and a part's
//! number is in clear.
//!
//! **Handed over sealed**: the secret itself. A process that needs it makes a key pair for this one question ([`Recipient`]), and is given
//! the secret under a key that nobody learns who only listens ([`Secret::hand`]): X25519 with a key pair that is made for this one answer,
//! BLAKE3 over the shared element, both public keys and the name of the run, ChaCha20-Poly1305. Nothing says who asks. Whoever can send to the
//! machines of a cluster can ask as well as its workers.

use crate::error::JobError;
use crate::seal::key::{self, Front, Opener, Sealer, TAG, magic};
use crate::seal::log::named;
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;
use zeroize::Zeroizing;

/// 32 bytes that the machines of a cluster share in one run, and nobody else has.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

/// The job, the salt and the number of units.
pub const START: &[u8; 15] = b"vesica start 1\n";

/// What workers need for lanes.
pub const TERMS: &[u8; 15] = b"vesica terms 2\n";

/// Rows of a part of the shuffle.
pub const CUT: &[u8; 15] = b"vesica cut 2\n\n\n";

/// The keys of a unit.
pub const PACKED: &[u8; 15] = b"vesica packed 4";

/// The numbers of a unit's rows.
pub const ROWS: &[u8; 15] = b"vesica rows 3\n\n";

/// What is settled of a unit. What the unit found stands behind it, so this is another version whenever that one is: nobody settles a run and
/// only then hears that its rows cannot be read.
pub const KEPT: &[u8; 15] = b"vesica kept 4\n\n";

/// What a unit found.
pub const FOUND: &[u8; 15] = b"vesica found 4\n";

/// Found rows of any units, on the way to their file.
pub const TAKEN: &[u8; 15] = b"vesica taken 2\n";

/// The secret itself, on its way to a process.
const HANDED: &[u8; 15] = b"vesica handed 1";

impl Secret {
    /// The secret of a run, from that which has the run's salt in it and what this party alone has: so one run's secret opens no other's.
    pub(crate) fn of_run(secret: &key::Secret) -> Self {
        Self(secret.derive("vesica 2026 secret of a run of a cluster"))
    }

    #[cfg(test)]
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The secret for the process that asks with the public key `to` and belongs to the run that the cluster calls `run`: bytes that tell
    /// nothing to whoever only sees them travel.
    ///
    /// # Errors
    /// Bytes that are no public key; if the system has no randomness.
    pub fn hand(&self, run: &str, to: &[u8]) -> Result<Vec<u8>, JobError> {
        let once = Recipient::new()?;
        let mine = once.public;
        let key = once.agree(to, (to, &mine), run)?;
        // Of one size from the start, so that no copy stays behind when it grows; sealing writes over this one.
        let mut piece = Vec::with_capacity(32 + TAG);
        piece.extend_from_slice(&*self.0);
        Ok([&mine[..], &key.seal(HANDED, run.as_bytes(), piece)?].concat())
    }

    /// Seals `piece`, of this kind, which belongs to `what`.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn seal(&self, kind: &[u8; 15], what: &[u8], mut piece: Vec<u8>) -> Result<Vec<u8>, JobError> {
        let magic = magic(kind, true);
        let (mut sealer, random) = Sealer::new(&key::Secret::of_cluster(&self.0), &magic, what, 0)?;
        sealer.seal(&mut piece).map_err(|error| JobError::Setup(error.to_string()))?;
        Ok([&Front { magic, random }.to_bytes()[..], &piece].concat())
    }

    /// The same of what stands in `piece` behind [`Front::BYTES`] of room, where it is: what is many rows is not copied once more.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn seal_behind(&self, kind: &[u8; 15], what: &[u8], mut piece: Vec<u8>) -> Result<Vec<u8>, JobError> {
        let magic = magic(kind, true);
        let (mut sealer, random) = Sealer::new(&key::Secret::of_cluster(&self.0), &magic, what, 0)?;
        sealer.seal_behind(Front::BYTES, &mut piece).map_err(|error| JobError::Setup(error.to_string()))?;
        piece[..Front::BYTES].copy_from_slice(&Front { magic, random }.to_bytes());
        Ok(piece)
    }

    /// Opens what [`Secret::seal`] sealed; `name` is what messages call it.
    ///
    /// # Errors
    /// If it was sealed under another secret, belongs to something else or is damaged; if another version made it.
    pub(crate) fn open(
        &self,
        kind: &[u8; 15],
        what: &[u8],
        name: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, JobError> {
        let mut memory = Zeroizing::default();
        let len = self.open_to(kind, what, name, sealed, &mut memory)?.len();
        memory.truncate(len);
        Ok(memory)
    }

    /// The same, opened in `memory`, which may have held another piece.
    ///
    /// # Errors
    /// Those of [`Secret::open`].
    pub(crate) fn open_to<'a>(
        &self,
        kind: &[u8; 15],
        what: &[u8],
        name: &str,
        sealed: &[u8],
        memory: &'a mut Zeroizing<Vec<u8>>,
    ) -> Result<&'a [u8], JobError> {
        if let Some(other) = of_another_version(kind, sealed) {
            return Err(JobError::Setup(format!(
                "{name} was made by another version of Vesica, as \"{other}\", and this one reads \"{}\": end the run with that version, or \
                 remove what was kept of it, and begin it anew",
                text(kind)
            )));
        }
        let mut open = || {
            let (front, piece) = sealed.split_first_chunk()?;
            let front = Front::from_bytes(front);
            if front.magic != magic(kind, true) {
                return None;
            }
            let opener = Opener::new(&key::Secret::of_cluster(&self.0), &front.magic, what, &front.random);
            if memory.capacity() < piece.len() {
                // What it held is wiped here, and would stand in memory that is given back if this one grew.
                *memory = Zeroizing::new(Vec::with_capacity(piece.len()));
            }
            memory.clear();
            memory.extend_from_slice(piece);
            Some(opener.open(0, memory)?.len())
        };
        let len = open().ok_or_else(|| damaged(name))?;
        Ok(&memory[..len])
    }

    fn derive(&self, purpose: &str, salt: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        let material = Zeroizing::new([&self.0[..], salt].concat());
        Zeroizing::new(blake3::derive_key(purpose, &material))
    }
}

/// Whoever is handed a secret: a key pair that is made for this, and used once.
pub struct Recipient {
    key: EphemeralPrivateKey,
    public: [u8; 32],
}

impl Recipient {
    /// One with a fresh key pair.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new() -> Result<Self, JobError> {
        let made = || {
            let key = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).ok()?;
            let public = key.compute_public_key().ok()?.as_ref().try_into().ok()?;
            Some(Self { key, public })
        };
        made().ok_or_else(|| JobError::Setup("the system has no randomness to give".into()))
    }

    /// What to ask with.
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// The secret of the run that the cluster calls `run`, from what [`Secret::hand`] gave for this public key.
    ///
    /// # Errors
    /// Bytes that were given for another public key or run, or are damaged.
    pub fn open(self, run: &str, handed: &[u8]) -> Result<Secret, JobError> {
        let name = "the secret of the run";
        let (theirs, sealed) = handed.split_first_chunk::<32>().ok_or_else(|| damaged(name))?;
        let mine = self.public;
        let key = self.agree(theirs, (&mine, theirs), run).map_err(|_| damaged(name))?;
        let bytes = key.open(HANDED, run.as_bytes(), name, sealed)?;
        Ok(Secret(Zeroizing::new(bytes[..].try_into().map_err(|_| damaged(name))?)))
    }

    /// A secret for one piece, which both ends of a handing over have: `asks` and `gives` are their public keys.
    fn agree(self, theirs: &[u8], (asks, gives): (&[u8], &[u8]), run: &str) -> Result<Secret, JobError> {
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        // The first three have 32 bytes each, so different arguments are never the same bytes. All zeros, which an element of small order would
        // give, are refused.
        let agreed = agree_ephemeral(self.key, &theirs, |shared| {
            let material = Zeroizing::new([shared, asks, gives, run.as_bytes()].concat());
            Secret(Zeroizing::new(blake3::derive_key("vesica 2026 secret of a cluster handed over", &material)))
        });
        agreed.map_err(|_| JobError::Setup("whoever asks for the secret of a run shows no public key".into()))
    }
}

/// What a kind is called.
fn text(kind: &[u8; 15]) -> &str {
    str::from_utf8(kind).unwrap_or_default().trim_end()
}

/// The kind of what was sealed, if it is `kind` in another version.
fn of_another_version<'a>(kind: &[u8; 15], sealed: &'a [u8]) -> Option<&'a str> {
    let found: &[u8; 15] = sealed.first_chunk()?;
    let has_number = found.iter().any(u8::is_ascii_digit);
    (has_number && found != kind && named(found) == named(kind)).then(|| text(found))
}

/// A piece that cannot be opened or read.
pub fn damaged(name: &str) -> JobError {
    JobError::Setup(format!(
        "{name} cannot be opened: it was sealed under another secret, belongs to another run or is damaged; remove what was kept \
         of this run, and begin it anew"
    ))
}

/// The numbers below `units` in an order that the seed decides.
fn permutation(seed: &[u8; 32], units: u32) -> Vec<u32> {
    // Fisher and Yates. Multiply and shift is uneven by less than 2^-47, for there are at most 2^16 units.
    let mut stream = blake3::Hasher::new_keyed(seed).finalize_xof();
    let mut order: Vec<u32> = (0..units).collect();
    for last in (1..order.len()).rev() {
        let mut bytes = [0; 8];
        stream.fill(&mut bytes);
        let place = (u128::from(u64::from_le_bytes(bytes)) * (last as u128 + 1)) >> 64;
        order.swap(last, place as usize);
    }
    order
}

/// The order in which the units of a run are joined. It is another permutation than that of a [`Veil`]: whoever brings rows together sees units by
/// their own numbers in this order, and saw them by their hidden ones before.
pub fn joining(secret: &Secret, salt: &[u8; 32], units: u32) -> Vec<u32> {
    permutation(&secret.derive("vesica 2026 order of units of a cluster", salt), units)
}

/// What is done to the numbers of units before others than this program see what follows from them.
pub struct Veil {
    /// The hidden number of each unit, and the unit of each hidden number.
    hidden: Vec<u32>,
    shown: Vec<u32>,
}

impl Veil {
    /// That of a run of `units` units under this salt.
    pub fn new(secret: &Secret, salt: &[u8; 32], units: u32) -> Self {
        let hidden = permutation(&secret.derive("vesica 2026 units of a cluster", salt), units);
        let mut shown = vec![0; hidden.len()];
        (0..units).for_each(|unit| shown[hidden[unit as usize] as usize] = unit);
        Self { hidden, shown }
    }

    /// The hidden number of a unit.
    pub fn hide(&self, unit: u32) -> u32 {
        self.hidden[unit as usize]
    }

    /// The unit with this hidden number, if there is one.
    pub fn show(&self, hidden: u32) -> Option<u32> {
        self.shown.get(hidden as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_opens_under_its_secret_kind_and_place_alone() {
        let secret = Secret::new([1; 32]);
        let sealed = secret.seal(PACKED, b"run unit 7", b"keys".to_vec()).unwrap();
        assert_eq!(**secret.open(PACKED, b"run unit 7", "unit 7", &sealed).unwrap(), b"keys"[..]);
        let other = secret.seal(PACKED, b"run unit 7", b"keys".to_vec()).unwrap();
        assert_ne!(sealed, other, "sealed twice, under two keys");
        assert!(!sealed.windows(4).any(|w| w == b"keys"));
        let mut flipped = sealed.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for result in [
            Secret::new([2; 32]).open(PACKED, b"run unit 7", "unit 7", &sealed),
            secret.open(FOUND, b"run unit 7", "unit 7", &sealed),
            secret.open(PACKED, b"run unit 8", "unit 7", &sealed),
            secret.open(PACKED, b"run unit 7", "unit 7", &flipped),
            secret.open(PACKED, b"run unit 7", "unit 7", &sealed[..60]),
            secret.open(PACKED, b"run unit 7", "unit 7", b""),
        ] {
            assert!(result.unwrap_err().to_string().starts_with("unit 7 cannot be opened"));
        }
    }

    /// As a run has it that an older version began and left, or that machines of two versions work at.
    #[test]
    fn a_piece_of_another_version_is_refused_by_its_version() {
        let secret = Secret::new([1; 32]);
        let error = |older: &[u8; 15], kind| {
            let sealed = secret.seal(older, b"unit 7", b"keys".to_vec()).unwrap();
            secret.open(kind, b"unit 7", "unit 7", &sealed).map(drop).unwrap_err().to_string()
        };
        let said = error(b"vesica packed 1", PACKED);
        assert!(said.starts_with("unit 7 was made by another version of Vesica, as \"vesica packed 1\""), "{said}");
        assert!(said.contains("this one reads \"vesica packed 4\""), "{said}");
        assert!(error(b"vesica found 2\n", FOUND).contains("\"vesica found 2\""));
        assert!(error(b"vesica kept 2\n\n", KEPT).contains("\"vesica kept 2\""));
        assert!(error(b"vesica found 9\n", FOUND).contains("\"vesica found 9\""));
        for (other, kind) in [(FOUND, PACKED), (b"vesica packed x", PACKED), (b"vesica packed \n", PACKED)] {
            assert!(error(other, kind).starts_with("unit 7 cannot be opened"));
        }
    }

    /// A listener between two machines had the secret itself: it stood in clear in the answer of whoever holds it.
    #[test]
    fn a_secret_is_handed_to_who_asked_and_shown_to_nobody_else() {
        let secret = Secret::new([0xa7; 32]);
        let asks = Recipient::new().unwrap();
        let (public, handed) = (asks.public(), secret.hand("a run", &asks.public()).unwrap());
        assert!([&public[..], &handed].iter().all(|seen| !seen.windows(4).any(|bytes| bytes == [0xa7; 4])));
        assert_ne!(handed, secret.hand("a run", &public).unwrap(), "an answer has a key of its own");
        assert!(*asks.open("a run", &handed).unwrap().0 == *secret.0);

        type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
        let opens = |change: Change<'_>, run: &str| {
            let asks = Recipient::new().unwrap();
            let mut handed = secret.hand("a run", &asks.public()).unwrap();
            change(&mut handed);
            asks.open(run, &handed).map(drop)
        };
        opens(&|_| (), "a run").unwrap();
        let another =
            |handed: &mut Vec<u8>| *handed = secret.hand("a run", &Recipient::new().unwrap().public()).unwrap();
        let changes: [Change<'_>; 6] = [
            &another,
            &|handed| handed.truncate(20),
            &|handed| handed.truncate(60),
            &|handed| handed[..32].fill(0),
            &|handed| handed[5] ^= 1,
            &|handed| *handed.last_mut().unwrap() ^= 1,
        ];
        for change in changes {
            let error = opens(change, "a run").unwrap_err();
            assert!(error.to_string().starts_with("the secret of the run cannot be opened"), "{error}");
        }
        assert!(opens(&|_| (), "another run").is_err());
        // Elements of small order, and what is no element.
        for bad in [&[0; 32][..], &[1; 31], &[]] {
            assert!(secret.hand("a run", bad).unwrap_err().to_string().contains("shows no public key"));
        }
    }

    #[test]
    fn a_veil_is_a_permutation_that_its_secret_alone_takes_off() {
        let (veil, other) =
            (Veil::new(&Secret::new([1; 32]), &[3; 32], 100), Veil::new(&Secret::new([2; 32]), &[3; 32], 100));
        let mut seen: Vec<u32> = (0..100).map(|unit| veil.hide(unit)).collect();
        assert!((0..100).all(|unit| veil.show(veil.hide(unit)) == Some(unit)));
        assert_eq!(veil.show(100), None);
        assert_ne!(seen, (0..100).map(|unit| other.hide(unit)).collect::<Vec<_>>());
        // The order in which units are joined is the run's, and tells nothing of the veil.
        let order = |secret: u8, salt: u8| joining(&Secret::new([secret; 32]), &[salt; 32], 100);
        assert_eq!(order(1, 3), order(1, 3));
        let shown: Vec<u32> = (0..100).map(|hidden| veil.show(hidden).unwrap()).collect();
        for another in [order(2, 3), order(1, 4), seen.clone(), shown] {
            assert_ne!(order(1, 3), another);
        }
        let mut all = order(1, 3);
        all.sort_unstable();
        seen.sort_unstable();
        assert_eq!(all, seen);
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }
}
