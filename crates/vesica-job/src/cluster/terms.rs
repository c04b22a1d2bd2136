//! What a worker needs for lanes, sealed: with it, and with its units, it can be any lane of the run.

use crate::cluster::found::{self, Form, Taking};
use crate::cluster::lane::Matched;
use crate::cluster::meeting::Unit;
use crate::cluster::reading::piece;
use crate::cluster::secret::{self, KEPT, Secret, TERMS, damaged};
use crate::error::JobError;
use crate::lanes::links::{Certificates, Meeting};
use crate::meet::agree;
use crate::seal::key::{Front, TAG};
use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vesica_net::{Identity, Sockets};
use vesica_spec::{Plan, Spec};
use vesica_suite::Sizes;
use vesica_types::TagLen;
use zeroize::Zeroizing;

/// What the bytes of [`Terms`] are: it is sealed with them, and messages call them so.
const NAME: &str = "the terms of the lanes";

/// Bytes of what is settled of a unit, sealed: a digest, the numbers of keys, of rows and of rows of the join. What was kept of a unit begins with
/// them, and [`Terms::kept`] reads the unit from these alone.
pub const HEAD: usize = Front::BYTES + 56 + TAG;

/// What a worker needs for lanes.
#[derive(Clone)]
pub struct Terms(Arc<Inner>);

struct Inner {
    words: Words,
    /// The private key and certificate of this side's lanes, as PEM; none in an insecure job.
    key: Option<Zeroizing<String>>,
    plan: Plan,
    sizes: Sizes,
    certificates: Certificates,
    secret: Secret,
}

/// What travels as JSON, sealed, with the key of the lanes behind it. The key is no part of the JSON: whoever reads and writes that makes
/// copies which nobody wipes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Words {
    pub job: Spec,
    pub salt: [u8; 32],
    pub keys: Vec<u64>,
    pub capacities: Vec<u64>,
    pub units: u32,
    /// Units that may be begun in this run, each time that one is.
    pub allowed: u64,
    pub in_flight: u32,
    pub tag: usize,
    pub lanes: u32,
    pub at_once: u32,
    pub doors: Vec<String>,
    /// Whether every unit was finished when the parties met.
    pub whole: bool,
    /// The fingerprint of the certificate of the other side's lanes.
    pub theirs: Option<String>,
}

impl Terms {
    /// The terms with these words, and with the private key and certificate of this side's lanes as PEM.
    pub(crate) fn new(words: Words, key: Option<Zeroizing<String>>, secret: &Secret) -> Result<Self, JobError> {
        let plan = vesica_spec::plan(&words.job)?;
        let tag_len = TagLen::new(words.tag).ok_or_else(|| damaged(NAME))?;
        let sizes = Sizes {
            keys: words.keys.clone(),
            units: words.units,
            in_flight: words.in_flight,
            capacities: words.capacities.clone(),
            tag_len,
        };
        let mine = key.as_ref().map(|pem| Identity::from_pem("certificate of the lanes", pem.as_bytes()));
        let theirs =
            words.theirs.as_ref().map(|text| text.parse::<vesica_net::Fingerprint>().map_err(|_| damaged(NAME)));
        let certificates = Certificates { mine: mine.transpose()?, theirs: theirs.transpose()? };
        Ok(Self(Arc::new(Inner { words, key, plan, sizes, certificates, secret: secret.clone() })))
    }

    /// For the workers, sealed. The private key of the lanes' certificate is among it.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JobError> {
        let words = serde_json::to_vec(&self.0.words).expect("it is plain data");
        let key = self.0.key.as_ref().map_or(&b""[..], |pem| pem.as_bytes());
        // Of one size from the start, so that no copy of the key stays behind when it grows; sealing writes over this one.
        let mut piece = Vec::with_capacity(4 + words.len() + key.len() + TAG);
        piece.extend_from_slice(&(words.len() as u32).to_le_bytes());
        piece.extend_from_slice(&words);
        piece.extend_from_slice(key);
        self.0.secret.seal(TERMS, NAME.as_bytes(), piece)
    }

    /// What [`Terms::to_bytes`] gave.
    ///
    /// # Errors
    /// Bytes that cannot be opened under `secret`.
    pub fn from_bytes(bytes: &[u8], secret: &Secret) -> Result<Self, JobError> {
        let opened = secret.open(TERMS, NAME.as_bytes(), NAME, bytes)?;
        let read = || {
            let (len, rest) = opened.split_first_chunk()?;
            let (words, key) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            let key = match key {
                [] => None,
                pem => Some(Zeroizing::new(str::from_utf8(pem).ok()?.to_owned())),
            };
            Some((serde_json::from_slice(words).ok()?, key))
        };
        let (words, key) = read().ok_or_else(|| damaged(NAME))?;
        Self::new(words, key, secret)
    }

    /// Names the run.
    pub fn run(&self) -> String {
        agree::name(self.salt())
    }

    /// How many units there are.
    pub fn units(&self) -> u32 {
        self.0.words.units
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> u32 {
        self.0.words.lanes
    }

    /// Lanes that are under way at once: the smaller of what both sides said.
    pub fn at_once(&self) -> u32 {
        self.0.words.at_once
    }

    /// Units of a lane that are to be under way at once.
    pub fn in_lane(&self) -> u32 {
        (self.0.words.in_flight / self.0.words.at_once.max(1)).max(1)
    }

    /// Where the other side's doors are, if this side dials: lane k goes to number k modulo their number.
    pub fn addresses(&self) -> &[String] {
        &self.0.words.doors
    }

    /// Whether every unit was finished on both sides when they met: then there is nothing for lanes to do, and neither side opens one.
    pub fn is_whole(&self) -> bool {
        self.0.words.whole
    }

    /// Every unit, in the order in which the units are to be joined. It is the same in every attempt of the run, and nobody without the run's secret
    /// knows it. Of two orders, whoever sees how much each task has found could subtract the sums of two groups of units that differ by one.
    pub fn order(&self) -> Vec<u32> {
        secret::joining(&self.0.secret, self.salt(), self.units())
    }

    /// What a unit found, as a table with the columns `row`, `pair` and `times`, all UInt64. `pair` is the same number for the same key
    /// on both sides. A row stands `times` times in the join. `packed` are the unit's rows as [`Packed`](crate::cluster::Packed) has them;
    /// none if it has no keys.
    ///
    /// # Errors
    /// Bytes that cannot be opened, or belong to another unit.
    pub fn rows(&self, unit: u32, found: &[u8], packed: Option<&[u8]>) -> Result<RecordBatch, JobError> {
        // A side that does not learn has found no key.
        let packed = packed.filter(|_| self.plan().i_learn());
        found::open(&self.0.secret, self.salt(), unit, self.form(), (found, packed))
    }

    /// What is to be kept of a unit: the driver settles the run with it, after a restart too, and it holds what was found.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn keep(&self, unit: u32, matched: &Matched) -> Result<Vec<u8>, JobError> {
        let Matched { found, digest, keys, rows, times } = matched;
        let head = [&digest[..], [keys, rows, times].map(|n| n.to_le_bytes()).as_flattened()].concat();
        let head = self.0.secret.seal(KEPT, &piece(self.salt(), unit), head)?;
        Ok([&head[..], found].concat())
    }

    /// What is settled of a unit that was kept, and what was found for [`Terms::rows`], still sealed.
    ///
    /// # Errors
    /// Bytes that [`Terms::keep`] does not give for this unit.
    pub fn kept<'a>(&self, unit: u32, kept: &'a [u8]) -> Result<(Unit, &'a [u8]), JobError> {
        let name = format!("what was kept of unit {unit}");
        let (head, found) = kept.split_at_checked(HEAD).ok_or_else(|| damaged(&name))?;
        let head = self.0.secret.open(KEPT, &piece(self.salt(), unit), &name, head)?;
        let (digest, numbers) = head.split_first_chunk::<32>().ok_or_else(|| damaged(&name))?;
        let [keys, rows, times] = *numbers.as_chunks::<8>().0 else { return Err(damaged(&name)) };
        let [keys, rows, times] = [keys, rows, times].map(u64::from_le_bytes);
        Ok((Unit { id: unit, digest: *digest, keys, rows, times }, found))
    }

    /// Adds what a unit found, as for [`Terms::rows`], to what is on the way to the files.
    ///
    /// # Errors
    /// Those of [`Terms::rows`].
    pub fn take(&self, to: &mut Taking, unit: u32, found: &[u8], packed: Option<&[u8]>) -> Result<(), JobError> {
        let packed = packed.filter(|_| self.plan().i_learn());
        to.add((&self.0.secret, self.salt()), unit, self.form(), (found, packed))
    }

    /// The piece of each part, sealed, and how many rows these are.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn seal_rows(&self, rows: Taking) -> Result<(Vec<Vec<u8>>, u64), JobError> {
        rows.seal(&self.0.secret, self.salt())
    }

    /// The rows of a part, of which [`Terms::seal_rows`] gave these pieces: `row` and, where both parties learn, `pair` and `times`.
    ///
    /// # Errors
    /// Bytes that cannot be opened.
    pub fn open_rows(&self, pieces: &[&[u8]]) -> Result<RecordBatch, JobError> {
        found::taken(&self.0.secret, self.salt(), self.form(), pieces)
    }

    /// What is kept of a found row.
    pub(crate) fn form(&self) -> Form {
        if self.plan().all_learn() { Form::Joined } else { Form::Once }
    }

    pub(crate) fn salt(&self) -> &[u8; 32] {
        &self.0.words.salt
    }

    /// Whether a unit may be begun with this turn. Of all the beginnings that the run is allowed, each is one turn. The first of a unit is the
    /// turn that has the unit's number, and nobody else can take it; all others are common to the units.
    pub(crate) fn allows(&self, unit: u32, turn: u64) -> bool {
        turn < self.0.words.allowed && (turn == u64::from(unit) || turn >= u64::from(self.units()))
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    pub(crate) fn sizes(&self) -> &Sizes {
        &self.0.sizes
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0.secret
    }

    pub(crate) fn meeting(&self) -> Meeting<'_> {
        Meeting {
            plan: &self.0.plan,
            salt: &self.0.words.salt,
            certificates: &self.0.certificates,
            peer: None,
            connector: &Sockets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn words(job: &str) -> Words {
        Words {
            job: vesica_spec::parse(job).unwrap(),
            salt: [5; 32],
            keys: vec![10, 20],
            capacities: vec![4, 8],
            units: 3,
            allowed: 8,
            in_flight: 2,
            tag: 9,
            lanes: 2,
            at_once: 2,
            doors: Vec::new(),
            whole: false,
            theirs: None,
        }
    }

    const JOB: &str = "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"bob\"]\n\
                       insecure = true\n[mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = { path = \"a.csv\", keys = [\"id\"] }\n";

    /// The key of the lanes arrives whole, and only with the cluster's secret; the JSON that is made and read on the way has nothing of it.
    #[test]
    fn the_key_of_the_lanes_stands_beside_the_words() {
        let secret = Secret::new([1; 32]);
        let pem = Identity::generate("lane").unwrap().pem().unwrap();
        for key in [Some(pem.clone()), None] {
            let terms = Terms::new(words(JOB), key.clone(), &secret).unwrap();
            let sealed = terms.to_bytes().unwrap();
            let again = Terms::from_bytes(&sealed, &secret).unwrap();
            assert_eq!((again.run(), again.units(), &again.0.key), (terms.run(), 3, &key));
            assert_eq!(again.0.certificates.mine.is_some(), key.is_some());
            assert!(Terms::from_bytes(&sealed, &Secret::new([2; 32])).is_err());
            assert!(secret.open(TERMS, b"", NAME, &sealed).is_err(), "it is sealed with its name");
            let opened = secret.open(TERMS, NAME.as_bytes(), NAME, &sealed).unwrap();
            let len = u32::from_le_bytes(*opened.first_chunk().unwrap()) as usize;
            assert!(!opened[4..4 + len].windows(7).any(|bytes| bytes == b"PRIVATE"));
            let behind = key.as_ref().map_or(&b""[..], |pem| pem.as_bytes());
            assert_eq!(&opened[4 + len..], behind);
        }
    }

    #[test]
    fn units_may_be_begun_as_often_as_is_allowed_and_no_more() {
        for allowed in 0..20 {
            let terms = Terms::new(Words { allowed, ..words(JOB) }, None, &Secret::new([1; 32])).unwrap();
            let turns = |unit| (0..30).filter(|turn| terms.allows(unit, *turn)).collect::<BTreeSet<u64>>();
            let all: BTreeSet<u64> = (0..3).flat_map(turns).collect();
            assert_eq!(all, (0..allowed).collect());
            // One that nobody takes from a unit, and all that no unit has for itself.
            let common: BTreeSet<u64> = (3..allowed).collect();
            for unit in 0..3 {
                let own = Some(u64::from(unit)).filter(|unit| *unit < allowed);
                assert_eq!(turns(unit), own.into_iter().chain(common.iter().copied()).collect());
            }
        }
    }

    /// Bytes under an honest seal that no driver makes, as an older version's would be.
    #[test]
    fn terms_that_cannot_be_read_are_refused_by_name() {
        let secret = Secret::new([1; 32]);
        for piece in [&b""[..], b"{}", &[0xff; 9], &[2, 0, 0, 0, b'{', b'}'], &[3, 0, 0, 0, b'{', b'}']] {
            let sealed = secret.seal(TERMS, NAME.as_bytes(), piece.to_vec()).unwrap();
            let error = Terms::from_bytes(&sealed, &secret).map(drop).unwrap_err();
            assert!(error.to_string().starts_with("the terms of the lanes cannot be opened"), "{error}");
        }
    }
}
