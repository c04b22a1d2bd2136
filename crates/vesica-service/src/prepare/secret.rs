//! The files with the secrets of a service: of the function, and of the key that signs epochs. They stand apart from the store, which is given
//! away. Each says what it is of, and is taken for nothing else.
//!
//! ```text
//! bytes      what
//!  0.. 48    the front: kind and format, whether it takes a key or a passphrase to read it, 32 random bytes
//! 48.. 80    what the sealer drew
//! 80..128    32 bytes of the seed, sealed
//! ```

use crate::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use vesica_job::Control;
use vesica_job::rooms::key::{Front, Given, Opener, Sealer, magic};
use vesica_job::rooms::replace_privately;
use vesica_job::rooms::{fill, random};
use vesica_oprf::function::ServerFunction;
use vesica_program::on_disk::{self, Files};
use vesica_spec::CurveName;
use vesica_spec::service::{Secret as Place, ServePlan, Service, with_ending};
use vesica_types::Secret;
use zeroize::Zeroizing;

/// The variable in which a passphrase is looked for.
const PASSPHRASE: &str = "VESICA_SERVICE_PASSPHRASE";

const BYTES: usize = 128;

/// What a secret is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The functions of a service.
    Function,
    /// The signatures of its epochs.
    Signatures,
}

impl Use {
    const ALL: [Self; 2] = [Self::Function, Self::Signatures];

    /// How its file begins.
    fn kind(self) -> &'static [u8; 15] {
        match self {
            Use::Function => b"vesica secret 1",
            Use::Signatures => b"vesica signer 1",
        }
    }

    /// What the file's seal belongs to.
    fn sealed_as(self) -> &'static [u8] {
        match self {
            Use::Function => b"seed of the function",
            Use::Signatures => b"seed of the signer",
        }
    }

    /// The field of a document that names its file.
    fn field(self) -> &'static str {
        match self {
            Use::Function => "mine.secret",
            Use::Signatures => "mine.signer",
        }
    }

    /// What its file holds, in words.
    pub fn what(self) -> &'static str {
        match self {
            Use::Function => "key of the function",
            Use::Signatures => "key that signs epochs",
        }
    }

    /// What whoever reads it can do, in words.
    pub fn opens(self) -> &'static str {
        match self {
            Use::Function => "guess at every key",
            Use::Signatures => "sign epochs of their own making, which clients take",
        }
    }
}

/// The seed that the scalars of functions are derived from.
pub type Seed = Zeroizing<[u8; 32]>;

/// What the functions of a service follow from. Its id is part of that: services that share a file with a secret have different functions, so
/// what one of them is asked for opens nothing of the other, and what each grants its clients is counted for a function of its own.
pub struct Root {
    seed: Seed,
    id: String,
    curve: CurveName,
    verifiable: bool,
}

impl Root {
    /// What the functions of `service` follow from, with this seed.
    pub fn new(service: &Service, seed: Seed) -> Self {
        let Service { curve, verifiable, .. } = *service;
        Self { seed, id: service.id.clone(), curve, verifiable }
    }

    /// The same of a service that is known by its id and its function.
    pub fn of_function(seed: Seed, id: &str, curve: CurveName, verifiable: bool) -> Self {
        Self { seed, id: id.to_owned(), curve, verifiable }
    }

    /// The function whose public key stands in the offer; by it a store of tags is made.
    ///
    /// # Errors
    /// If answers are to be proved and the group has no proofs.
    pub fn function(&self) -> Result<Arc<dyn ServerFunction>, Error> {
        self.named(&[b"vesica service ", self.id.as_bytes()])
    }

    /// The function of the epoch of this salt. Under another salt it is another function: what comes of it opens rows of one epoch, and
    /// of those that were patched from it.
    ///
    /// # Errors
    /// As [`Root::function`].
    pub fn of_epoch(&self, salt: &[u8; 32]) -> Result<Arc<dyn ServerFunction>, Error> {
        self.named(&[b"vesica epoch ", salt, self.id.as_bytes()])
    }

    /// The seed, under which files are sealed that only the server reads.
    pub fn lock(&self) -> &[u8; 32] {
        &self.seed
    }

    fn named(&self, info: &[&[u8]]) -> Result<Arc<dyn ServerFunction>, Error> {
        vesica_suite::function::server(self.curve, self.verifiable, &Secret::new(*self.seed), &info.concat())
            .map(Arc::from)
            .map_err(|error| Error::Setup(error.to_string()))
    }
}

/// A fresh seed.
///
/// # Errors
/// If the system has no randomness.
pub fn fresh() -> Result<Seed, Error> {
    let mut seed = Seed::default();
    fill(&mut seed[..])?;
    Ok(seed)
}

/// The seed that a file with 32 bytes gives the store in `store`. Services of this kind have one id, so the place of the store tells them
/// apart: two stores have two functions, also if one file is named for both.
///
/// # Errors
/// If it cannot be read, or does not have 32 bytes; if other users may read it.
pub fn raw(path: &Path, store: &Path) -> Result<Seed, Error> {
    check_mode(path)?;
    let bytes = Zeroizing::new(fs::read(path).map_err(Error::file("cannot read", path))?);
    if bytes.len() != 32 {
        let why = format!("it has {} bytes, and a key has 32; make one with `openssl rand -out FILE 32`", bytes.len());
        return Err(Error::Setup(format!("{}: {why}", path.display())));
    }
    let store = std::path::absolute(store).map_err(Error::file("cannot find", store))?;
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 seed of a store");
    Ok(Zeroizing::new(*hasher.update(&bytes).update(store.as_os_str().as_encoded_bytes()).finalize().as_bytes()))
}

/// What seals the file: a key file, a passphrase, or nothing. A program that prints the key is ended once `ctl` is cancelled, here and below.
///
/// # Errors
/// Those of [`Given::from`].
pub fn given(place: &Place, ctl: &Control) -> Result<Given, Error> {
    Ok(Given::from(place.key.as_ref(), "mine.secret_key", PASSPHRASE, ctl)?)
}

/// Writes the seed. Returns whether it is sealed by anything that is secret.
///
/// # Errors
/// Those of writing, and of reading what seals it.
pub fn save(place: &Place, of: Use, seed: &Seed, ctl: &Control) -> Result<bool, Error> {
    let given = given(place, ctl)?;
    let front = Front { magic: magic(of.kind(), given.is_secret()), random: random()? };
    let (mut sealer, drawn) = Sealer::new(&given.secret(&front.random), &front.magic, of.sealed_as(), 0)?;
    let mut piece = seed.to_vec();
    sealer.seal(&mut piece).map_err(Error::file("cannot seal", &place.path))?;
    replace_privately(&place.path, &[&front.to_bytes()[..], &drawn, &piece].concat())?;
    Ok(given.is_secret())
}

/// The seed in the file; none if there is no file.
///
/// # Errors
/// If it cannot be read, is damaged, is of something else, or takes another key or passphrase.
pub fn load(place: &Place, of: Use, ctl: &Control) -> Result<Option<Seed>, Error> {
    opened(place, of, |_| given(place, ctl))
}

/// As [`load`], for whoever compares it with the store's and goes on to another one: what was written without a key is read without one,
/// whatever is given now.
fn load_before(place: &Place, of: Use, ctl: &Control) -> Result<Option<Seed>, Error> {
    let bare = magic(of.kind(), false);
    opened(place, of, |bytes| if bytes.starts_with(&bare) { Ok(Given::Nothing) } else { given(place, ctl) })
}

/// The seed in the file by what `given` says of its bytes; none if there is no file.
fn opened(place: &Place, of: Use, given: impl FnOnce(&[u8]) -> Result<Given, Error>) -> Result<Option<Seed>, Error> {
    let Some(bytes) = bytes(place)? else { return Ok(None) };
    is_no_other(place, of, &bytes)?;
    open(place, of, &bytes, &given(&bytes)?).map(Some)
}

/// What stands in the file; nothing if there is none.
fn bytes(place: &Place) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    match fs::read(&place.path) {
        Ok(bytes) => Ok(Some(Zeroizing::new(bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("cannot read", &place.path)(error)),
    }
}

fn open(place: &Place, of: Use, bytes: &[u8], given: &Given) -> Result<Seed, Error> {
    let path = &place.path;
    let damaged = |why: &str| Error::Damaged { path: path.clone(), why: why.into() };
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| damaged("it does not have 128 bytes"))?;
    let front = Front::from_bytes(bytes.first_chunk().expect("it has a front"));
    if front.magic != magic(of.kind(), given.is_secret()) {
        let why = match front.magic == magic(of.kind(), !given.is_secret()) {
            false => format!("it holds no {}", of.what()),
            true if given.is_secret() => {
                "it was written without a key; take mine.secret_key and the passphrase away, or run `vesica prepare --rotate`, \
                 which makes another one under it"
                    .to_owned()
            }
            true => format!("it is sealed: give mine.secret_key, or the passphrase in {PASSPHRASE}"),
        };
        return Err(Error::Setup(format!("{}: {why}", path.display())));
    }
    let drawn = bytes[Front::BYTES..80].try_into().expect("32 bytes");
    let mut piece = Zeroizing::new(bytes[80..].to_vec());
    let seed = Opener::new(&given.secret(&front.random), &front.magic, of.sealed_as(), drawn);
    let seed = seed.open(0, &mut piece).and_then(|seed| <[u8; 32]>::try_from(seed).ok());
    match seed {
        Some(seed) => Ok(Zeroizing::new(seed)),
        None if given.is_secret() => Err(Error::Setup(format!(
            "{} does not open: the key or the passphrase is another one, or the file is damaged. If what sealed it is lost, move the file \
             away and run `vesica prepare --rotate`",
            path.display()
        ))),
        None => {
            Err(damaged("its seal is broken; restore it from a copy, or make a new key with `vesica prepare --rotate`"))
        }
    }
}

/// Fails if these bytes are a secret of something else, in whose place nothing is to be written.
fn is_no_other(place: &Place, of: Use, bytes: &[u8]) -> Result<(), Error> {
    match Use::ALL.into_iter().find(|other| *other != of && bytes.starts_with(other.kind())) {
        Some(other) => Err(Error::Setup(format!(
            "{}: {} holds a {}, and no {}; name another file",
            of.field(),
            place.path.display(),
            other.what(),
            of.what()
        ))),
        None => Ok(()),
    }
}

/// Fails if a new secret is not to take the place of what is there: a file that does not begin as one of this use, and is not empty.
///
/// # Errors
/// The same; those of reading it.
pub fn is_replaceable(place: &Place, of: Use) -> Result<(), Error> {
    let Some(bytes) = bytes(place)? else { return Ok(()) };
    is_no_other(place, of, &bytes)?;
    if bytes.is_empty() || bytes.starts_with(of.kind()) {
        return Ok(());
    }
    Err(Error::Setup(format!(
        "{}: {} holds no {}, and a new one would take its place; name another file, or move it away",
        of.field(),
        place.path.display(),
        of.what()
    )))
}

/// The seed in the file that a new one is to replace; none if there is no file, or what is there is damaged.
///
/// # Errors
/// As [`is_replaceable`]; if it takes a key or a passphrase that is not given: whose it is cannot be told then.
pub fn replaced(place: &Place, of: Use, ctl: &Control) -> Result<Option<Seed>, Error> {
    is_replaceable(place, of)?;
    match load_before(place, of, ctl) {
        Err(Error::Damaged { .. }) => Ok(None),
        known => known,
    }
}

/// Fails if the file with the secret of this use is that of another one, which would take its place, or stands in the store, which is given
/// away; by links too.
///
/// # Errors
/// The same.
pub fn apart(plan: &ServePlan, of: Use) -> Result<(), Error> {
    let (place, other, field) = match of {
        Use::Function => (&plan.secret, &plan.signer, "mine.signer"),
        Use::Signatures => (&plan.signer, &plan.secret, "mine.secret"),
    };
    let path = &place.path;
    let refused =
        |why: &str| Err(Error::Setup(format!("{}: {} {why}; name a file of its own", of.field(), path.display())));
    let whole = std::path::absolute(path).map_err(Error::file("cannot find", path))?;
    let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else { return refused("is no file") };
    let folder = folder.canonicalize().map_err(Error::file("cannot find", folder))?;
    let real = fs::canonicalize(path).unwrap_or_else(|_| folder.join(name));
    let of = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let is_same = |other: &Path| fs::canonicalize(other).is_ok_and(|other| other == real || of(&other) == of(&real));
    if is_same(&other.path) {
        return refused(&format!("is the file of {field}"));
    }
    // Through a link, its name may be another one than the document's.
    if real.extension().is_some_and(|ending| ending == "next" || ending == "lock") {
        return refused("has the name of what stands beside another key while that is made anew");
    }
    if place.key.as_ref().and_then(vesica_spec::KeyPlace::file).is_some_and(is_same) {
        return refused("is the file of mine.secret_key");
    }
    match fs::canonicalize(&plan.store) {
        Ok(store) if real.starts_with(&store) || folder.starts_with(&store) => {
            refused("stands in mine.store, which is given away")
        }
        _ => Ok(()),
    }
}

/// The place of a key that the store is just being made with.
pub fn next(place: &Place) -> Place {
    Place { path: with_ending(&place.path, ".next"), key: place.key.clone() }
}

/// What `of` finds at this place, or else where a new key stands. If the first cannot be read, the other may be the one: it was made with the key
/// that seals both now.
///
/// # Errors
/// The first of `of`, if it finds nothing at either.
pub fn either<T>(place: &Place, of: impl Fn(&Place) -> Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match of(place) {
        Ok(Some(found)) => Ok(Some(found)),
        Ok(None) => of(&next(place)),
        Err(error) => of(&next(place)).ok().flatten().map_or(Err(error), |found| Ok(Some(found))),
    }
}

/// [`lock`] of the file with the secret of this use, in a folder that is made if it is not there, behind [`apart`].
///
/// # Errors
/// Those of both.
pub fn lock_apart(plan: &ServePlan, of: Use) -> Result<fs::File, Error> {
    let place = match of {
        Use::Function => &plan.secret,
        Use::Signatures => &plan.signer,
    };
    let folder = vesica_table::folder(&place.path);
    // The store or others may have files there too.
    on_disk::make_folder(&Files, &folder, 0o777).map_err(Error::file("cannot make the folder", &folder))?;
    apart(plan, of)?;
    lock(place)
}

/// Keeps others from preparing with this key meanwhile: a second rotation would put its key in the place of the first one's.
///
/// # Errors
/// If another `vesica prepare` is at work.
pub fn lock(place: &Place) -> Result<fs::File, Error> {
    let path = with_ending(&place.path, ".lock");
    // What stands there under a name that was chosen badly is left as it is.
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(Error::file("cannot write", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Setup(format!(
            "{}: another `vesica prepare` is at work with this key; wait for it to end",
            path.display()
        ))),
        Err(fs::TryLockError::Error(error)) => Err(Error::file("cannot lock", &path)(error)),
    }
}

/// Ends what an earlier `vesica prepare` was killed in: if the key that was saved last is the one of the store, as `is_stores` says, it becomes
/// current. If not, it stays until another one takes its place: it may be the only key of another store, of which `is_stores` does not know.
///
/// # Errors
/// Those of reading and renaming.
pub fn settle(
    place: &Place,
    of: Use,
    is_stores: impl FnOnce(Seed) -> Result<bool, Error>,
    ctl: &Control,
) -> Result<(), Error> {
    let is_stores = load_before(&next(place), of, ctl)?.map(is_stores).transpose()?;
    if is_stores == Some(true) { become_current(place) } else { Ok(()) }
}

/// [`save`] of a new key, beside the one that there is, which still is the store's. The key is the `given` one, or what stands there already, or
/// else one that is drawn. What stands there was left by a `vesica prepare` that was killed, and may be the only key of another store: so it is
/// taken, and not replaced. Gives the key, and whether it is sealed.
///
/// # Errors
/// As [`save`] and [`replaced`]; if another key stands there than the given one.
pub fn save_next(
    place: &Place,
    of: Use,
    (given, draw): (Option<Seed>, impl FnOnce() -> Result<Seed, Error>),
    ctl: &Control,
) -> Result<(Seed, bool), Error> {
    let next = next(place);
    let seed = match (replaced(&next, of, ctl)?, given) {
        (Some(left), Some(given)) if left != given => {
            return Err(Error::Setup(format!(
                "{}: {} holds another {}, which a `vesica prepare` left that was killed just before its end. It may be the only one of another \
                 store; move it away, or to {} if that store needs it",
                of.field(),
                next.path.display(),
                of.what(),
                place.path.display()
            )));
        }
        (Some(left), _) => left,
        (None, given) => given.map_or_else(draw, Ok)?,
    };
    let sealed = save(&next, of, &seed, ctl)?;
    Ok((seed, sealed))
}

/// The key that was saved last becomes the store's.
///
/// # Errors
/// Those of renaming.
pub fn become_current(place: &Place) -> Result<(), Error> {
    let renamed = fs::rename(next(place).path, &place.path);
    renamed.and_then(|()| on_disk::name(&place.path)).map_err(Error::file("cannot write", &place.path))
}

/// Whether the file is sealed by a key or a passphrase.
///
/// # Errors
/// Those of reading it.
pub fn is_sealed(place: &Place) -> Result<bool, Error> {
    let bytes = fs::read(&place.path).map_err(Error::file("cannot read", &place.path))?;
    Ok(Use::ALL.iter().any(|of| bytes.starts_with(&magic(of.kind(), true))))
}

/// What the functions follow from of which one has the public key `public`, and whether its file is sealed. A `vesica prepare` that was killed
/// just before its end may have left the key of the new store under its first name.
///
/// # Errors
/// As [`load`]; if no key is that of the store.
pub fn root(plan: &ServePlan, public: &[u8], ctl: &Control) -> Result<(Root, bool), Error> {
    let of = |place: &Place| {
        let Some(seed) = load(place, Use::Function, ctl)? else { return Ok(None) };
        let root = Root::new(&plan.service, seed);
        Ok((root.function()?.public() == public).then_some((root, is_sealed(place)?)))
    };
    if let Some(found) = either(&plan.secret, of)? {
        return Ok(found);
    }
    Err(Error::Setup(format!(
        "{} does not hold the key that {} was prepared with. Restore it. If the store was prepared by a version of vesica whose functions did \
         not depend on service.id, run `vesica prepare`; if the key is lost, `vesica prepare --rotate`. After either, tell clients the new offer",
        plan.secret.path.display(),
        plan.store.display()
    )))
}

/// Fails if other users may read the file with the key of the function, which let them guess at every key of the list.
///
/// # Errors
/// The same; if the file is not there.
pub fn check_mode(path: &Path) -> Result<(), Error> {
    let meta = fs::metadata(path).map_err(Error::file("cannot read", path))?;
    match vesica_net::exposed(&meta, path, Use::Function.what()) {
        None => Ok(()),
        Some((why, remedy)) => {
            Err(Error::Setup(format!("{}: {why}, and with it guess at every key; {remedy}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use vesica_spec::{KeyPlace, KeyProgram};

    fn place(dir: &Path, key: Option<&str>) -> Place {
        Place { path: dir.join("a.secret"), key: key.map(|name| dir.join(name).into()) }
    }

    #[test]
    fn a_seed_opens_under_its_key_alone() {
        let dir = tempfile::tempdir().unwrap();
        replace_privately(&dir.path().join("k"), &[7; 32]).unwrap();
        replace_privately(&dir.path().join("other"), &[8; 32]).unwrap();
        assert!(load(&place(dir.path(), None), Use::Function, &Control::new(())).unwrap().is_none());
        let seed = fresh().unwrap();
        assert!(save(&place(dir.path(), Some("k")), Use::Function, &seed, &Control::new(())).unwrap());
        check_mode(&dir.path().join("a.secret")).unwrap();
        assert!(*load(&place(dir.path(), Some("k")), Use::Function, &Control::new(())).unwrap().unwrap() == *seed);
        // The same bytes, from a program.
        let by = |words: &[&str]| {
            KeyPlace::By(KeyProgram {
                program: words.iter().map(|w| (*w).to_owned()).collect(),
                folder: dir.path().into(),
            })
        };
        let printed = |words: &[&str]| {
            load(&Place { key: Some(by(words)), ..place(dir.path(), None) }, Use::Function, &Control::new(()))
        };
        assert!(*printed(&["cat", "k"]).unwrap().unwrap() == *seed);
        let error = printed(&["sh", "-c", "echo 'the vault is shut' >&2; exit 3"]).unwrap_err().to_string();
        let words = "mine.secret_key: the program \"sh\" failed with exit code 3 and said: the vault is shut";
        assert!(error.starts_with(words), "{error}");
        let error = printed(&["echo", "short"]).unwrap_err().to_string();
        assert!(error.contains("the program \"echo\" prints 6 bytes, which are too few for a key"), "{error}");
        assert!(
            load(&place(dir.path(), Some("other")), Use::Function, &Control::new(()))
                .unwrap_err()
                .to_string()
                .contains("does not open")
        );
        assert!(
            load(&place(dir.path(), None), Use::Function, &Control::new(()))
                .unwrap_err()
                .to_string()
                .contains("it is sealed")
        );
        let bytes = fs::read(dir.path().join("a.secret")).unwrap();
        assert!(!bytes.windows(32).any(|window| window == &seed[..]));
        // Neither the key nor what it seals is taken from a file that others may read.
        for name in ["k", "a.secret"] {
            let path = dir.path().join(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let refused = load(&place(dir.path(), Some("k")), Use::Function, &Control::new(()))
                .and_then(|_| check_mode(&path))
                .unwrap_err()
                .to_string();
            let remedy = format!(
                "(mode 0644){}; run `chmod 600 {}`",
                if name == "k" { "" } else { ", and with it guess at every key" },
                path.display()
            );
            assert!(refused.contains("other users may read this key") && refused.ends_with(&remedy), "{refused}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    #[test]
    fn every_flipped_or_missing_byte_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path(), None);
        assert!(!save(&place, Use::Function, &fresh().unwrap(), &Control::new(())).unwrap());
        let bytes = fs::read(&place.path).unwrap();
        assert!(load(&place, Use::Function, &Control::new(())).unwrap().is_some());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            fs::write(&place.path, bad).unwrap();
            assert!(load(&place, Use::Function, &Control::new(())).is_err(), "{at}");
            fs::write(&place.path, &bytes[..at]).unwrap();
            assert!(load(&place, Use::Function, &Control::new(())).is_err(), "{at}");
        }
    }

    /// A secret of one use is none of the other, sealed or not, whichever field names its file.
    #[test]
    fn a_secret_is_of_one_use() {
        let dir = tempfile::tempdir().unwrap();
        replace_privately(&dir.path().join("k"), &[7; 32]).unwrap();
        for key in [None, Some("k")] {
            for [of, other] in [Use::ALL, [Use::Signatures, Use::Function]] {
                let place = place(dir.path(), key);
                save(&place, of, &fresh().unwrap(), &Control::new(())).unwrap();
                assert!(load(&place, of, &Control::new(())).unwrap().is_some() && is_replaceable(&place, of).is_ok());
                let why = load(&place, other, &Control::new(())).unwrap_err().to_string();
                assert!(why.starts_with(other.field()) && why.contains(of.what()), "{why}");
                assert!(why.contains("a.secret") && why.contains("name another file"), "{why}");
                assert_eq!(is_replaceable(&place, other).unwrap_err().to_string(), why);
            }
        }
    }
}
