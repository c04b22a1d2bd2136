//! From a table to what is served: a store of tags, or an epoch of records; no network.

pub mod reading;
pub mod secret;
pub mod signer;

use crate::error::Error;
use crate::offer::Offer;
use crate::retrieve::epoch::{self, date};
use crate::retrieve::make::Made;
use crate::stock::Stock;
use crate::suite::Kind;
use secret::Use;
use std::path::PathBuf;
use vesica_job::{Control, JobError, World};
use vesica_spec::service::{Hint, ServePlan, ServiceProtocol};
use vesica_store::Built;
use vesica_table::Input;

/// What is to become of the store.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Change {
    /// Make it anew under a new key.
    pub rotate: bool,
    /// Add the rows of this table to it; keys that it has get the values of this table.
    pub append: Option<PathBuf>,
    /// Take the keys of this table out of it.
    pub remove: Option<PathBuf>,
}

/// What was prepared.
#[derive(Debug)]
pub struct Prepared {
    /// What clients pin.
    pub offer: Offer,
    /// Whether an earlier offer was another one, so that clients must be told.
    pub offer_changed: bool,
    /// Rows that were read.
    pub rows: u64,
    /// Rows without a key, which nobody can ask for.
    pub empty: u64,
    /// What was written.
    pub product: Product,
    /// Files with secrets that neither a key nor a passphrase seals, and what each is of.
    pub unsealed: Vec<(Use, PathBuf)>,
    /// What stood there before, where all of it was made anew.
    pub before: Option<Before>,
}

/// What was served before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Before {
    /// Its keys, or rows.
    pub keys: u64,
    /// Whether `--append` or `--remove` had changed it since it was made of the table: such a change does not stand in the table.
    pub changed: bool,
}

/// What `vesica prepare` makes.
#[derive(Debug)]
pub enum Product {
    /// A store of tags.
    Store(Built),
    /// An epoch of records.
    Table(Box<Made>),
}

/// Makes or changes the store of the plan.
///
/// # Errors
/// Faults of the plan, its files and the table. Then the store is what it was.
pub fn prepare(plan: &ServePlan, change: &Change, world: &World, ctl: &Control) -> Result<Prepared, Error> {
    kind(plan).suite().prepare(plan, change, world, ctl)
}

/// The plan with what its document leaves to the store: a store keeps its hint, and a new one has none.
///
/// # Errors
/// If the document says nothing of it, and the store's offer cannot be read.
pub fn settled(plan: &ServePlan) -> Result<ServePlan, Error> {
    let mut plan = plan.clone();
    if plan.service.protocol == ServiceProtocol::SimplePir && plan.service.hint.is_none() {
        let kept = match Offer::load(&plan.store) {
            Ok(offer) => Some(offer).filter(|offer| offer.protocol == ServiceProtocol::SimplePir),
            Err(Error::Job(JobError::File { error, .. }))
                if error.kind() == std::io::ErrorKind::NotFound && !epoch::are_in(&plan.store) =>
            {
                None
            }
            Err(error) => {
                return Err(Error::Setup(format!(
                    "service.hint: the document leaves it to the store, and {error}. Write hint = \"none\" or hint = \"copied\""
                )));
            }
        };
        plan.service.hint = Some(kept.and_then(|offer| offer.kind().hint).unwrap_or(Hint::None));
    }
    Ok(plan)
}

/// The protocol of the plan's service.
pub fn kind(plan: &ServePlan) -> Kind {
    Kind::from(&plan.service)
}

/// The key of the function while something is made with it. A new key is on the disk before anything is made, and the old one until
/// [`Keyed::keep`].
pub struct Keyed<'a> {
    /// What functions follow from by it.
    pub root: secret::Root,
    /// Whether the file with the key is sealed.
    pub sealed: bool,
    is_new: bool,
    plan: &'a ServePlan,
    /// Held until the end.
    _locked: std::fs::File,
}

impl<'a> Keyed<'a> {
    /// The key of the plan: the one that there is, or a new one where there is none or it is to be rotated. `before` is the offer that
    /// stands in the folder.
    ///
    /// # Errors
    /// Those of the files, and of a seed that is no key.
    pub fn take(
        plan: &'a ServePlan,
        rotate: bool,
        before: Option<&Offer>,
        world: &World,
        ctl: &Control,
    ) -> Result<Self, Error> {
        let _locked = secret::lock_apart(plan, Use::Function)?;
        let public = before.and_then(|offer| offer.public().ok());
        let is_stores = |seed| match &public {
            Some(public) => Ok(secret::Root::new(&plan.service, seed).function()?.public() == public),
            None => Ok(false),
        };
        secret::settle(&plan.secret, Use::Function, is_stores, ctl)?;
        let known = match rotate {
            true => {
                Self::is_no_others(plan, before, ctl)?;
                None
            }
            false => secret::load(&plan.secret, Use::Function, ctl)?,
        };
        let given = plan.seed.as_deref().map(|path| secret::raw(path, &plan.store)).transpose()?;
        let is_new = known.is_none() || given.as_ref().is_some_and(|given| known.as_ref() != Some(given));
        let (seed, sealed) = match known.filter(|_| !is_new) {
            None => secret::save_next(&plan.secret, Use::Function, (given, || Ok(world.chance.seed()?)), ctl)?,
            Some(known) => (known, secret::is_sealed(&plan.secret)?),
        };
        Ok(Self { root: secret::Root::new(&plan.service, seed), sealed, is_new, plan, _locked })
    }

    /// Fails if the file holds the key of another store, which could answer no more if a new one took its place, or anything that is no such key.
    fn is_no_others(plan: &ServePlan, before: Option<&Offer>, ctl: &Control) -> Result<(), Error> {
        let Some(seed) = secret::replaced(&plan.secret, Use::Function, ctl)? else { return Ok(()) };
        // By what the offer says of the service, of which the document may say something else now.
        let is_own = |offer: &Offer| -> Result<bool, Error> {
            let root = secret::Root::of_function(seed, &offer.id, offer.curve, offer.verifiable);
            Ok(offer.public().is_ok_and(|public| root.function().is_ok_and(|own| own.public() == public)))
        };
        match before.map(is_own).transpose()? {
            Some(true) => Ok(()),
            _ => {
                // A SecretFlow configuration names neither the file nor the option.
                let (field, remedy) = match plan.once {
                    true => ("ub_psi_config.cache_path", "name another folder, or move this file away"),
                    false => (
                        "mine.secret",
                        "name a file of its own, move this one away, or run without --rotate to use this key",
                    ),
                };
                Err(Error::Setup(format!(
                    "{field}: {} holds the key of another store, or of this one before its offer was moved away. Another store could answer no \
                     more if it were replaced; {remedy}",
                    plan.secret.path.display()
                )))
            }
        }
    }

    /// What was made with the key stands: the key becomes the service's.
    ///
    /// # Errors
    /// Those of renaming.
    pub fn keep(self) -> Result<(), Error> {
        if self.is_new { secret::become_current(&self.plan.secret) } else { Ok(()) }
    }
}

/// Fails if the document says something else than the offer that clients hold.
///
/// # Errors
/// Names the first field.
pub fn agrees(plan: &ServePlan, offer: &Offer) -> Result<(), Error> {
    let service = &plan.service;
    let again = "; run `vesica prepare` to make a store of what the document says now, and tell clients the new offer";
    let fields = [
        ("service.id", offer.id == service.id),
        ("service.protocol", offer.protocol == service.protocol),
        ("service.hint", service.hint.is_none() || offer.kind().hint == service.hint),
        ("service.by", offer.retrieval.is_none_or(|retrieval| retrieval.by == service.by)),
        ("service.private", offer.retrieval.is_none_or(|retrieval| retrieval.private == service.private)),
        ("service.curve", offer.curve == service.curve),
        ("service.values", offer.values == service.values),
        ("service.verifiable", offer.verifiable == service.verifiable),
        ("service.lifetime_keys", offer.lifetime_keys == service.lifetime_keys),
        ("service.rules", offer.rules == service.rules),
        ("service.value_bytes", service.value_bytes.is_none() || offer.value_bytes == service.value_bytes),
        ("mine.input.keys", plan.input.is_none() || offer.key_columns as usize == plan.keys.len()),
    ];
    match fields.iter().find(|(_, same)| !same) {
        Some((field, _)) => Err(Error::Setup(format!("{field}: the store was prepared with another one{again}"))),
        None => Ok(()),
    }
}

/// The secrets of these whose files are not sealed.
pub fn unsealed(plan: &ServePlan, sealed: [(Use, Option<bool>); 2]) -> Vec<(Use, PathBuf)> {
    let place = |of| match of {
        Use::Function => plan.secret.path.clone(),
        Use::Signatures => plan.signer.path.clone(),
    };
    sealed.into_iter().filter(|(_, sealed)| *sealed == Some(false)).map(|(of, _)| (of, place(of))).collect()
}

/// The table of the plan.
///
/// # Errors
/// If it names none.
pub fn table(plan: &ServePlan) -> Result<&Input, Error> {
    let why = "name the table that is served: input = { path = \"…\", keys = [\"…\"] }";
    plan.input.as_ref().ok_or_else(|| Error::Missing { field: "mine.input", why: why.to_owned() })
}

/// What a plan serves, with its offer and what its functions follow from: what `vesica serve` needs. A retrieval that protects the client alone has no
/// function.
///
/// # Errors
/// If they are not there, or do not belong together.
pub fn open(plan: &ServePlan, ctl: &Control) -> Result<Opened, Error> {
    let offer = Offer::load(&plan.store)?;
    agrees(plan, &offer)?;
    let stock = offer.kind().suite().open(plan, &offer)?;
    let public = offer.public().map_err(|why| Error::Damaged { path: plan.store.clone(), why })?;
    if public.is_empty() {
        return Ok(Opened { offer, stock, root: None });
    }
    let (root, _) = secret::root(plan, &public, ctl)?;
    // The key may stand under another name: see `secret::root`.
    if plan.secret.path.exists() {
        secret::check_mode(&plan.secret.path)?;
    }
    Ok(Opened { offer, stock, root: Some(root) })
}

/// Fails if the time is over in which clients take what was opened.
///
/// # Errors
/// The same.
pub fn in_time(opened: &Opened, world: &World) -> Result<(), Error> {
    match opened.stock.until().filter(|until| world.time.wall() >= *until) {
        Some(until) => Err(Error::Setup(format!(
            "clients take the epoch that is prepared until {} alone, and that is past; run `vesica prepare` again (mine.valid_for says how long)",
            date(until)
        ))),
        None => Ok(()),
    }
}

/// What a plan serves.
pub struct Opened {
    /// What clients are told.
    pub offer: Offer,
    /// What they copy and ask about.
    pub stock: Stock,
    /// What functions follow from, if they protect the server's rows.
    pub root: Option<secret::Root>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::values::digest_of_index;
    use arrow_array::{RecordBatch, StringArray};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;
    use vesica_job::rooms::digests;
    use vesica_spec::service::{Secret as Place, plan_serve};
    use vesica_spec::{Document, document};
    use vesica_store::Store;
    use vesica_types::KeyDigest;

    /// The plan of the service with this id in `folder`: its store is named after it, and its table is `list.csv` for all of them. `more` are
    /// lines of `[service]` and `[mine]`.
    pub(crate) fn plan(folder: &Path, id: &str, more: [&str; 2]) -> ServePlan {
        let at = folder.display();
        let text = format!(
            r#"
[service]
id = "{id}"
insecure = true
values = ["name"]
{}

[mine]
name = "bob"
store = "{at}/{id}.store"
clients = {{}}
{}"#,
            more[0],
            more[1].replace("FOLDER", &at.to_string())
        );
        let Document::Server(spec) = document(&text, false).unwrap() else { panic!("it is a server's") };
        plan_serve(&spec).unwrap()
    }

    /// What the function of a client that asks this service for a key or row number comes to.
    fn asked(plan: &ServePlan, stock: &Stock, digest: [u8; 32]) -> [u8; 32] {
        let public = Offer::load(&plan.store).unwrap().public().unwrap();
        let mut outputs = Vec::new();
        stock
            .function(&secret::root(plan, &public, &Control::new(())).unwrap().0)
            .unwrap()
            .eval(&[KeyDigest(digest)], &mut outputs);
        outputs[0].0
    }

    /// One file with a secret for two services. Before, they had one function: whoever was let in to one of them opened the other's list with
    /// what it was answered there, and what both had granted was bounded twice.
    #[test]
    fn what_a_service_answers_opens_nothing_of_another_with_the_same_secret() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("list.csv"), "id,name\n7,one\n").unwrap();
        let mine = "secret = \"FOLDER/both.secret\"\ninput = { path = \"FOLDER/list.csv\", keys = [\"id\"] }";
        let services = ["here", "there"].map(|id| {
            let plan = plan(dir.path(), id, ["protocol = \"ecdh-oprf\"\ncurve = \"ristretto255\"", mine]);
            let prepared = prepare(&plan, &Change::default(), &World::default(), &Control::new(())).unwrap();
            let opened = open(&plan, &Control::new(())).unwrap();
            assert_eq!(opened.offer, prepared.offer);
            let mut keys = Vec::new();
            let column: arrow_array::ArrayRef = Arc::new(StringArray::from(vec!["7"]));
            let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
            digests(&[Vec::new()], &batch, |digest, _| keys.push(*digest));
            (asked(&plan, &opened.stock, keys[0]), Store::open(&plan.store).unwrap(), opened.offer)
        });
        let seeds: Vec<_> = ["here", "there"].map(|_| std::fs::read(dir.path().join("both.secret")).unwrap()).into();
        assert_eq!(seeds[0], seeds[1]);
        assert_ne!(services[0].2.public().unwrap(), services[1].2.public().unwrap());
        for (number, (output, own, _)) in services.iter().enumerate() {
            assert!(own.find(output).unwrap().unwrap().value(output).unwrap().ends_with(b"one"));
            assert!(services[1 - number].1.find(output).unwrap().is_none());
        }
    }

    /// The same for retrievals, also if both have one id.
    #[test]
    fn what_an_epoch_answers_opens_nothing_of_another_store_with_the_same_secret() {
        let outputs = ["one", "other"].map(|folder| {
            let dir = tempfile::tempdir().unwrap();
            let secret = dir.path().join("here.store.secret");
            secret::save(
                &Place { path: secret, key: None },
                Use::Function,
                &secret::Seed::new([7; 32]),
                &Control::new(()),
            )
            .unwrap();
            std::fs::write(dir.path().join("list.csv"), format!("name\n{folder}\n")).unwrap();
            let mine = "input = { path = \"FOLDER/list.csv\", keys = [] }";
            let plan = plan(dir.path(), "here", ["protocol = \"download\"\nby = \"index\"", mine]);
            prepare(&plan, &Change::default(), &World::default(), &Control::new(())).unwrap();
            asked(&plan, &open(&plan, &Control::new(())).unwrap().stock, digest_of_index(0))
        });
        assert_ne!(outputs[0], outputs[1]);
    }

    /// One file of 32 bytes for two stores that have no id of their own.
    #[test]
    fn a_file_with_a_seed_gives_each_store_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seed");
        std::fs::write(&file, [7; 32]).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = secret::raw(&file, &dir.path().join("a")).unwrap_err().to_string();
        assert!(refused.contains("other users may read this key") && refused.contains("chmod 600"), "{refused}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let seed = |store: &str| secret::raw(&file, &dir.path().join(store)).unwrap();
        assert!(seed("a") == seed("a") && seed("a") != seed("b") && *seed("a") != [7; 32]);
        std::fs::write(&file, [8; 32]).unwrap();
        let other = seed("a");
        std::fs::write(&file, [7; 32]).unwrap();
        assert!(seed("a") != other);
    }

    /// What an older version made by a function that did not depend on the id is refused, with the remedy, and that one works.
    #[test]
    fn a_store_of_another_function_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("list.csv"), "id,name\n7,one\n").unwrap();
        let mine = "input = { path = \"FOLDER/list.csv\", keys = [\"id\"] }";
        let plan = plan(dir.path(), "here", ["protocol = \"ecdh-oprf\"\ncurve = \"ristretto255\"", mine]);
        let ctl = Control::new(());
        let offer = prepare(&plan, &Change::default(), &World::default(), &ctl).unwrap().offer;
        let seed = secret::load(&plan.secret, Use::Function, &Control::new(())).unwrap().unwrap();
        let curve = plan.service.curve;
        let before =
            vesica_suite::function::server(curve, false, &vesica_types::Secret::new(*seed), b"vesica").unwrap();
        let old = Offer::new(&plan.service, 1, offer.value_bytes, offer.tag_bits, before.public()).unwrap();
        old.save(&plan.store).unwrap();
        let append = Change { append: Some(dir.path().join("list.csv")), ..Change::default() };
        let refused = prepare(&plan, &append, &World::default(), &ctl).unwrap_err().to_string();
        assert!(
            refused.contains("here.store.secret does not hold the key") && refused.contains("service.id"),
            "{refused}"
        );
        let again = prepare(&plan, &Change::default(), &World::default(), &ctl).unwrap();
        assert!(again.offer_changed && again.offer == offer);
        open(&plan, &ctl).unwrap();
    }

    /// A rotation takes no key from another store: neither the one that a document names by mistake, nor one that a `prepare` left that was killed.
    #[test]
    fn a_rotation_takes_no_key_from_another_store() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("list.csv"), "id,name\n7,one\n").unwrap();
        let service = |id: &str| {
            let mine = "input = { path = \"FOLDER/list.csv\", keys = [\"id\"] }";
            plan(dir.path(), id, ["protocol = \"ecdh-oprf\"\ncurve = \"ristretto255\"", mine])
        };
        let ctl = Control::new(());
        let whole =
            |plan: &ServePlan, rotate| prepare(plan, &Change { rotate, ..Change::default() }, &World::default(), &ctl);
        let (here, mut there) = (service("here"), service("there"));
        whole(&here, false).unwrap();
        let own = there.secret.clone();
        there.secret = here.secret.clone();
        let key = std::fs::read(&here.secret.path).unwrap();
        // Before there is a store, and behind one that has another key.
        for _ in 0..2 {
            let refused = whole(&there, true).unwrap_err().to_string();
            assert!(refused.contains("mine.secret") && refused.contains("key of another store"), "{refused}");
            assert!(std::fs::read(&here.secret.path).unwrap() == key);
            there.secret = own.clone();
            whole(&there, true).unwrap();
            there.secret = here.secret.clone();
        }
        there.secret = own;
        // Its own is replaced, also by a document that calls the service another name now.
        let (first, mut renamed) = (whole(&here, false).unwrap().offer, here.clone());
        renamed.service.id = "elsewhere".into();
        assert!(whole(&renamed, true).unwrap().offer.public() != first.public());
        assert!(std::fs::read(&here.secret.path).unwrap() != key);
        // The only key of some store may stand where a new one is written: it becomes the new one, and no other takes its place.
        let next = secret::next(&there.secret);
        let left = secret::fresh().unwrap();
        secret::save(&next, Use::Function, &left, &ctl).unwrap();
        whole(&there, true).unwrap();
        assert!(*secret::load(&there.secret, Use::Function, &ctl).unwrap().unwrap() == *left && !next.path.exists());
        secret::save(&next, Use::Function, &secret::fresh().unwrap(), &ctl).unwrap();
        vesica_job::rooms::replace_privately(&dir.path().join("seed"), &[7; 32]).unwrap();
        there.seed = Some(dir.path().join("seed"));
        let refused = whole(&there, false).unwrap_err().to_string();
        assert!(refused.contains("there.store.secret.next") && refused.contains("move it away"), "{refused}");
        // Nor does anything else that stands there.
        std::fs::write(&next.path, "notes").unwrap();
        let refused = whole(&there, true).unwrap_err().to_string();
        assert!(refused.contains("there.store.secret.next") && refused.contains("128 bytes"), "{refused}");
        assert_eq!(std::fs::read(&next.path).unwrap(), b"notes");
    }
}
