//! An epoch: one state of a service's records, as its server describes it.
//!
//! Clients copy a hint or a table before they ask. A *base* is an epoch for which that was made as a whole. The epochs after it have a log of
//! changes beside it ([`super::changes`]), until the next base.

use super::{body_bytes, has_sums};
use crate::error::Error;
use crate::offer::{Offer, hex, unhex};
use crate::prepare::secret::Root;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use vesica_oprf::function::ServerFunction;
use vesica_pir::bucket::Buckets;
use vesica_pir::keyword::TAG;
use vesica_spec::service::{By, Preset};

/// The name of the document in a folder.
pub const NAME: &str = "epoch.json";

/// 1 had no salt in the inputs of the function, 2 no log of changes and no tags before values that are not sealed, 3 other shapes of wide
/// tables of "simple-pir", and 4 one function for all epochs.
const VERSION: u32 = 5;

/// The longest document, in bytes.
const MOST_BYTES: usize = 4 << 10;

/// Bytes of a chunk of what clients copy.
pub const CHUNK: usize = vesica_store::CHUNK;

/// The most keys of a table of "simple-pir". They are sealed in one file for later changes, 32 bytes each behind the 64 of the table's sum,
/// and the seal takes fewer than 2^32 bytes.
pub const MOST_KEYS: u64 = (u32::MAX as u64 - 64) / 32;

/// The most records of a table.
const MOST_RECORDS: u64 = 1 << 32;

/// One state of the records. All of it is public.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    version: u32,
    /// The hash of the offer, in hexadecimal.
    pub offer: String,
    /// Which state it is, from 1.
    pub number: u64,
    /// Rows that can be looked up: rows of the table, or different keys.
    pub rows: u64,
    /// Rows that the table was laid out for when its base was made.
    pub planned: u64,
    /// Records of the table, each with `width` bytes.
    pub records: u64,
    /// Bytes of a record.
    pub width: u32,
    /// The seed of the records' places, in hexadecimal.
    pub seed: String,
    /// The salt of the function's key and of tags, in hexadecimal. Where there is a function, it is a new one when the whole table is prepared.
    pub salt: String,
    /// The public key of the function, in hexadecimal; empty where no function protects the server's rows.
    pub public: String,
    /// The salt of the keys that values were sealed under in the base, in hexadecimal.
    pub sealed: String,
    /// How many rows a client is expected to look up: the shape of `simple-pir` follows from it.
    pub expected: u32,
    /// Which rings `bfv-pir` and `bgv-pir` use.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub preset: Preset,
    /// How many seeds of the matrix of `simple-pir` were drawn before this one, because their hints were rounded badly.
    pub draws: u32,
    /// The epoch that the copy is of.
    pub base: u64,
    /// Bytes of what clients copy before they ask: the table; or a hint, and behind it how many seeds failed for each group of keys.
    pub copy: u64,
    /// The hash over the sums of the copy's chunks, in hexadecimal; where nothing is copied, of the table's chunks.
    pub sums: String,
    /// The hash of the table, in hexadecimal: what a server reads is what this epoch was made of.
    pub table: String,
    /// Bytes of the log of changes since the base.
    pub log: u64,
    /// The hash over the sums of the log's chunks, in hexadecimal; empty if there is no log.
    pub log_sums: String,
    /// Who vouches for it, and how long; where clients copy masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signed: Option<Signed>,
}

/// A signature, and what stands beside it. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    /// When the epoch was made.
    made: u64,
    /// From when on clients do not take it.
    until: u64,
    /// The parameter set that its masks are of.
    set: String,
    /// The signature by the key of the offer, over the document with no signature in it; in hexadecimal.
    signature: String,
}

/// How far a client's clock may be behind the one by which an epoch was made.
pub const SKEW: Duration = Duration::from_secs(24 * 60 * 60);

/// What a signature is of, so that it is of nothing else.
const SIGNED: &[u8] = b"vesica 2026 epoch\0";

/// The last second of the year 9999, behind which dates are not written.
const LAST_SECOND: u64 = 253_402_300_799;

/// What was made of a table.
pub struct Layout {
    /// Rows that can be looked up.
    pub rows: u64,
    /// Records.
    pub records: u64,
    /// Bytes of a record.
    pub width: usize,
    /// The seed of the records' places.
    pub seed: [u8; 32],
    /// The salt of the function's key, and of tags.
    pub salt: [u8; 32],
    /// The salt of the keys that values are sealed under.
    pub sealed: [u8; 32],
    /// How many rows a client is expected to look up.
    pub expected: u32,
    /// Which rings are used.
    pub preset: Preset,
}

impl Epoch {
    /// The epoch of a table that was made as a whole, before it is known what clients copy of it, and without a function.
    pub fn new(offer: &Offer, number: u64, made: Layout) -> Self {
        let Layout { rows, records, width, seed, salt, sealed, expected, preset } = made;
        Self {
            version: VERSION,
            offer: hex(&offer.hash()),
            number,
            rows,
            planned: rows,
            records,
            width: width as u32,
            seed: hex(&seed),
            salt: hex(&salt),
            public: String::new(),
            sealed: hex(&sealed),
            expected,
            preset,
            draws: 0,
            base: number,
            copy: 0,
            sums: String::new(),
            table: String::new(),
            log: 0,
            log_sums: String::new(),
            signed: None,
        }
    }

    /// The seed of the matrix of `simple-pir`.
    pub fn matrix_seed(&self) -> [u8; 32] {
        // The seed of the places is drawn anew for every base, and the salt is not.
        let drawn = [&self.salt()[..], &self.seed(), &self.draws.to_le_bytes()].concat();
        blake3::derive_key("vesica 2026 matrix of an epoch", &drawn)
    }

    /// Writes down of which parameter set it is, when it was made and until when clients take it, since 1970, and what `sign` makes of all that it
    /// says.
    pub fn sign(&mut self, set: &str, (made, until): (Duration, Duration), sign: impl FnOnce(&[u8]) -> Vec<u8>) {
        let until = until.as_secs().min(LAST_SECOND);
        self.signed = Some(Signed { made: made.as_secs(), until, set: set.to_owned(), signature: String::new() });
        let signature = hex(&sign(&self.to_be_signed()));
        self.signed.as_mut().expect("it was set").signature = signature;
    }

    /// The document with no signature in it.
    fn to_be_signed(&self) -> Vec<u8> {
        let signed = self.signed.as_ref().map(|signed| Signed { signature: String::new(), ..signed.clone() });
        [SIGNED, &Self { signed, ..self.clone() }.encode()].concat()
    }

    /// Fails unless it is signed as its offer wants it.
    ///
    /// The offer, whose hash is signed, names the store. So an epoch of one store is none of another one, whatever key both use.
    fn check_signature(&self, offer: &Offer) -> Result<(), &'static str> {
        match (offer.signer(), &self.signed) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err("it is signed, and its offer has no key"),
            (Some(_), None) => Err("it is not signed, and its offer has a key"),
            (Some(key), Some(signed)) => {
                let key = UnparsedPublicKey::new(&ED25519, key);
                let is_right = |signature: &Vec<u8>| key.verify(&self.to_be_signed(), signature).is_ok();
                if signed.made >= signed.until || signed.until > LAST_SECOND {
                    return Err("it ends before it begins, or too late");
                }
                unhex(&signed.signature).filter(is_right).ok_or("its signature is not by the key of its offer")?;
                match offer.kind().set() == Some(&signed.set) {
                    true => Ok(()),
                    false => Err("it is signed for another parameter set than this program's"),
                }
            }
        }
    }

    /// When it was made, and from when on clients do not take it; where it is signed.
    pub fn times(&self) -> Option<(SystemTime, SystemTime)> {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        self.signed.as_ref().map(|signed| (time(signed.made), time(signed.until)))
    }

    /// From when on clients do not take it, as people read it; where it is signed.
    pub fn until_in_words(&self) -> Option<String> {
        self.times().map(|(_, until)| date(until))
    }

    /// The document. One epoch has one spelling.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data")
    }

    /// The epoch of `offer` that somebody sent or a file holds. Its numbers agree with each other and with the offer, so whatever is
    /// made from them is as large as it says.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(offer: &Offer, bytes: &[u8]) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("an epoch that cannot be: {what}"));
        if bytes.len() > MOST_BYTES {
            return wrong("it is too long");
        }
        let Ok(epoch) = serde_json::from_slice::<Self>(bytes) else { return wrong("it is no epoch") };
        if epoch.version != VERSION {
            return Err(format!(
                "an epoch of version {}, where this program knows version {VERSION}; use one version of vesica on both sides, and run `vesica prepare` with it",
                epoch.version
            ));
        }
        if epoch.encode() != bytes {
            return wrong("it is not written as epochs are");
        }
        if epoch.offer != hex(&offer.hash()) {
            return wrong("it is of another offer");
        }
        if let Err(why) = epoch.check_signature(offer) {
            return wrong(why);
        }
        let is_hash = |text: &String| epoch.bytes32(text).is_some();
        let right_sums = is_hash(&epoch.sums) && is_hash(&epoch.table) && epoch.copy <= CHUNK as u64 * MOST_CHUNKS;
        if !(1..=MOST_RECORDS).contains(&epoch.records)
            || epoch.bytes32(&epoch.seed).is_none()
            || !right_sums
            || epoch.expected == 0
        {
            return wrong("its numbers are out of range");
        }
        if epoch.bytes32(&epoch.salt).is_none() || epoch.bytes32(&epoch.sealed).is_none() {
            return wrong("its salts have not 32 bytes");
        }
        // The offer has a key where this has one, and both are elements of one group.
        let length = |key: Result<Vec<u8>, String>| key.ok().map(|key| key.len());
        if length(epoch.public()).is_none() || length(epoch.public()) != length(offer.public()) {
            return wrong("its public key is none");
        }
        let (Ok(scheme), Some(by)) = (offer.kind().scheme(), offer.retrieval.map(|retrieval| retrieval.by)) else {
            return wrong("its offer is no retrieval");
        };
        let has_log = epoch.log > 0;
        if !(1..=epoch.number).contains(&epoch.base)
            || has_log != (epoch.base < epoch.number)
            || has_log && scheme.cannot_follow().is_some()
            || epoch.log > epoch.copy
            || if has_log { !is_hash(&epoch.log_sums) } else { !epoch.log_sums.is_empty() }
        {
            return wrong("its log of changes does not belong to its base");
        }
        if !(1..=MOST_RECORDS).contains(&epoch.planned) || !has_log && epoch.planned != epoch.rows {
            return wrong("it was laid out for another number of rows");
        }
        let has_filter = has_sums(offer.kind());
        let width = match by {
            By::Index if epoch.rows != epoch.records || epoch.planned != epoch.rows => {
                return wrong("it has another number of rows than of records");
            }
            By::Index => body_bytes(offer),
            By::Key if has_filter && epoch.rows > epoch.records => return wrong("it has more keys than slots"),
            By::Key if has_filter && epoch.planned > MOST_KEYS => return wrong("it was laid out for too many keys"),
            By::Key if has_filter => TAG + body_bytes(offer),
            By::Key => match epoch.buckets(offer) {
                Err(why) => return wrong(&why.to_string()),
                Ok(buckets) if epoch.rows > vesica_pir::bucket::SLOTS as u64 * buckets.count() => {
                    return wrong("it has more keys than slots");
                }
                Ok(buckets) => buckets.width(),
            },
        };
        if epoch.width as usize != width {
            return wrong("its records are not as long as the values of its offer");
        }
        let retrieval = scheme.retrieval(by, &epoch).map_err(|error| format!("an epoch that cannot be: {error}"))?;
        if epoch.copy != retrieval.copied() {
            return wrong("what is to be copied has not the size of its scheme");
        }
        Ok(epoch)
    }

    /// The hash of the document.
    fn hash(&self) -> [u8; 32] {
        blake3::hash(&self.encode()).into()
    }

    /// What questions call the epoch: eight bytes of the document's hash. Whoever makes documents can make two of one name, so nobody compares
    /// epochs by it.
    pub fn name(&self) -> u64 {
        let hash = self.hash();
        u64::from_le_bytes(std::array::from_fn(|i| hash[i]))
    }

    /// The epoch as people call it, with the whole hash of the document, by which two of them compare what they were shown.
    pub fn spelled(&self) -> String {
        format!("epoch {} ({})", self.number, hex(&self.hash()))
    }

    /// The document in `folder`.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn load(offer: &Offer, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let bytes = std::fs::read(&path).map_err(Error::file("cannot read", &path))?;
        Self::decode(offer, &bytes).map_err(|why| Error::Damaged { path, why })
    }

    /// Whether the document in `folder` is that of another offer.
    pub fn is_foreign(offer: &Offer, folder: &Path) -> bool {
        Self::named_in(folder).is_some_and(|(named, _)| named != hex(&offer.hash()))
    }

    /// The hash of the offer that the document in `folder` is of, in hexadecimal, and the number of the epoch. Neither was checked.
    pub fn named_in(folder: &Path) -> Option<(String, u64)> {
        let read = std::fs::read(folder.join(NAME)).ok().filter(|bytes| bytes.len() <= MOST_BYTES);
        let epoch = serde_json::from_slice::<Self>(&read?).ok()?;
        Some((epoch.offer, epoch.number))
    }

    /// The table of buckets, where rows are looked up by key without a filter.
    ///
    /// # Errors
    /// If no table of buckets has these sizes.
    pub fn buckets(&self, offer: &Offer) -> Result<Buckets, vesica_pir::PirError> {
        Buckets::new(self.records, body_bytes(offer), self.seed())
    }

    /// The seed of the records' places.
    pub fn seed(&self) -> [u8; 32] {
        self.bytes32(&self.seed).unwrap_or_default()
    }

    /// The function of the epoch, of a service whose functions follow from `root`.
    ///
    /// # Errors
    /// If it is another one than the one that rows were made by: with it, clients would find none of them.
    pub fn function(&self, root: &Root) -> Result<Arc<dyn ServerFunction>, Error> {
        let function = root.of_epoch(&self.salt())?;
        match self.public() {
            Ok(public) if public == function.public() => Ok(function),
            _ => Err(Error::Setup(format!(
                "{}: its function is not that of the service's secret; run `vesica prepare` again",
                self.spelled()
            ))),
        }
    }

    /// The public key of the function; empty where there is none.
    ///
    /// # Errors
    /// If it is not written in hexadecimal.
    pub fn public(&self) -> Result<Vec<u8>, String> {
        unhex(&self.public).ok_or_else(|| "an epoch whose public key is not written in hexadecimal".to_owned())
    }

    /// The salt of the function's key, and of tags.
    pub fn salt(&self) -> [u8; 32] {
        self.bytes32(&self.salt).unwrap_or_default()
    }

    /// The salt of the keys that values were sealed under in the base.
    pub fn sealed(&self) -> [u8; 32] {
        self.bytes32(&self.sealed).unwrap_or_default()
    }

    fn bytes32(&self, text: &str) -> Option<[u8; 32]> {
        unhex(text)?.try_into().ok()
    }
}

/// Whether the folder has an epoch, or any file of one.
pub fn are_in(folder: &Path) -> bool {
    let mut names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name == NAME || name.to_str().is_some_and(|name| number_of(name).is_some()))
}

/// The number of the epoch that a service calls a file so for, to the last letter. Other programs have a log in `epoch-of-bob.log`.
pub fn number_of(name: &str) -> Option<u64> {
    let of = name.strip_prefix("epoch-")?;
    let number = [".table", ".hint", ".log", ".keys"].iter().find_map(|end| of.strip_suffix(end))?;
    number.parse().ok().filter(|read: &u64| read.to_string() == number)
}

/// A time as people read it.
pub fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// What an epoch says of its table.
pub fn table_sum(table: &[u8]) -> String {
    hex(blake3::hash(table).as_bytes())
}

/// The most chunks of a copy: their sums fit in one message.
const MOST_CHUNKS: u64 = (crate::link::WINDOW as u64 - 1024) / 32;

/// The hash of each chunk of a copy.
pub fn sums(copy: &[u8]) -> Vec<u8> {
    copy.chunks(CHUNK).flat_map(|chunk| *blake3::hash(chunk).as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_of_no_epoch() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "epoch-of-bob.log",
            "epoch-.log",
            "epoch-01.log",
            "epoch-+1.log",
            "epoch-1.txt",
            "epoch-1.log.gz",
            "epoch-1",
        ] {
            assert_eq!(number_of(name), None, "{name}");
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert!(!are_in(dir.path()));
        assert_eq!(number_of("epoch-12.keys"), Some(12));
        std::fs::write(dir.path().join("epoch-0.table"), "").unwrap();
        assert!(are_in(dir.path()));
    }
}
