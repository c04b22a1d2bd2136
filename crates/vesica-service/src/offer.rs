//! What a service is, in one document whose hash clients pin.

use crate::error::Error;
use crate::retrieve::epoch::Epoch;
use crate::suite::{ALL, Kind};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;
use vesica_job::JobError;
use vesica_program::on_disk;
use vesica_spec::service::{AskPlan, By, Hint, Private, Service, ServiceProtocol};
use vesica_spec::{CurveName, Rules};

/// The version of the document. A client refuses another one, whose fields it might not understand.
const VERSION: u32 = 1;

/// The longest document that is taken from a server.
pub const MOST_BYTES: usize = 64 << 10;

/// What a server says of its service. It stays the same while rows are added and removed; a new key makes another offer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    version: u32,
    /// The service's name.
    pub id: String,
    /// Its protocol.
    #[serde(deserialize_with = "registered")]
    pub protocol: ServiceProtocol,
    /// What a retrieval is by, and whom it protects; none if the protocol is no retrieval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<Retrieval>,
    /// Its group.
    pub curve: CurveName,
    /// Whether answers come with proofs.
    pub verifiable: bool,
    /// How many columns make up a key.
    pub key_columns: u32,
    /// What is done to keys before they are hashed.
    pub rules: Rules,
    /// The rules with their versions.
    rule_ids: serde_json::Value,
    /// The columns that come with a key that is found.
    pub values: Vec<String>,
    /// Bytes that they are padded to, if there are any.
    pub value_bytes: Option<u32>,
    /// Keys that all clients together may ask for.
    pub lifetime_keys: u64,
    /// Bits of a tag.
    pub tag_bits: u32,
    /// The public key of the function, in hexadecimal; empty where no function protects the server's rows.
    public: String,
    /// The public key by which epochs are signed, in hexadecimal; empty where they are not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    signer: String,
    /// What tells the store of these epochs from one with the same document and the same key: 16 random bytes, in hexadecimal; empty where epochs
    /// are not signed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    store: String,
}

/// The protocol of this name, if the registry has it.
fn registered<'d, D: serde::Deserializer<'d>>(read: D) -> Result<ServiceProtocol, D::Error> {
    let name = String::deserialize(read)?;
    let known = ALL.iter().map(|(kind, _)| kind.protocol).find(|protocol| protocol.name() == name);
    known.ok_or_else(|| serde::de::Error::custom(format!("unknown protocol \"{name}\"")))
}

/// What clients must know of a retrieval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// What a row is looked up by.
    pub by: By,
    /// Whose data is protected.
    pub private: Private,
    /// [`Hint::None`] where clients of "simple-pir" copy no hint. It is absent otherwise, as in offers that were made before there was a
    /// choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<Hint>,
}

impl Offer {
    /// The offer of a service.
    ///
    /// # Errors
    /// If the service leaves it to its store whether there is a hint, which is settled before.
    pub fn new(
        service: &Service,
        key_columns: usize,
        value_bytes: Option<u32>,
        tag_bits: u32,
        public: &[u8],
    ) -> Result<Self, Error> {
        let kind = Kind::from(service);
        if kind.hint != service.hint {
            let why = format!(
                "service.hint: \"{}\" needs hint = \"none\" or hint = \"copied\" here",
                service.protocol.name()
            );
            return Err(Error::Setup(why));
        }
        Ok(Self {
            version: VERSION,
            id: service.id.clone(),
            protocol: service.protocol,
            retrieval: kind.suite().scheme().map(|_| Retrieval {
                by: service.by,
                private: service.private,
                hint: kind.hint.filter(|hint| *hint == Hint::None),
            }),
            curve: service.curve,
            verifiable: service.verifiable,
            key_columns: key_columns as u32,
            rules: service.rules.clone(),
            rule_ids: service.rules.ids(),
            values: service.values.clone(),
            value_bytes,
            lifetime_keys: service.lifetime_keys,
            tag_bits,
            public: hex(public),
            signer: String::new(),
            store: String::new(),
        })
    }

    /// The same, whose epochs are signed by the key with this public half, for the store of this name.
    pub fn signed_by(self, key: &[u8], store: [u8; 16]) -> Self {
        Self { signer: hex(key), store: hex(&store), ..self }
    }

    /// What tells its store from others, if its epochs are signed.
    pub fn store(&self) -> Option<[u8; 16]> {
        unhex(&self.store)?.try_into().ok()
    }

    /// The public key by which epochs are signed, if they are.
    pub fn signer(&self) -> Option<Vec<u8>> {
        unhex(&self.signer).filter(|key| key.len() == 32)
    }

    /// Whether a function protects the server's rows.
    pub fn has_function(&self) -> bool {
        self.retrieval.is_none_or(|retrieval| retrieval.private == Private::Both)
    }

    /// Its protocol, with or without a hint.
    pub fn kind(&self) -> Kind {
        let hint = self.retrieval.and_then(|retrieval| retrieval.hint);
        Kind::of(self.protocol, Some(hint.unwrap_or(Hint::Copied)))
    }

    /// What a client looks a row up by.
    pub fn by(&self) -> By {
        self.retrieval.map(|retrieval| retrieval.by).unwrap_or_default()
    }

    /// The document. The same offer has the same bytes: fields in one order, no spaces.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data")
    }

    /// The offer that somebody sent or a file holds. Only the one spelling of it is taken.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let outline: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| "it is no offer".to_owned())?;
        match outline.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => {
                return Err(format!(
                    "it is an offer of version {version}, and this program reads version {VERSION}; use the version of Vesica that \
                     the server has"
                ));
            }
            _ => {}
        }
        let offer: Self = serde_json::from_slice(bytes).map_err(|_| "it is no offer".to_owned())?;
        if offer.encode() != bytes {
            return Err("it is not written as offers are".to_owned());
        }
        let hint = offer.retrieval.and_then(|retrieval| retrieval.hint);
        let is_hint = hint.is_none() || (offer.protocol, hint) == (ServiceProtocol::SimplePir, Some(Hint::None));
        let is_signed = match offer.kind().signs() {
            true => offer.signer().is_some() && offer.store().is_some(),
            false => offer.signer.is_empty() && offer.store.is_empty(),
        };
        if !is_signed {
            return Err("it has no key for its epochs, or one that is not wanted".to_owned());
        }
        if offer.signer().is_some_and(|key| is_weak(&key)) {
            return Err("its key for epochs is a weak one, by which anybody could sign".to_owned());
        }
        if offer.retrieval.is_some() != offer.kind().suite().scheme().is_some() || !is_hint {
            return Err("it is no offer of its protocol".to_owned());
        }
        if offer.rule_ids != offer.rules.ids() {
            return Err(format!(
                "its rules are of other versions than this program's, which are {}; use the version of Vesica that the server has",
                offer.rules.ids()
            ));
        }
        Ok(offer)
    }

    /// The offer that the server sent, if it is the one that the plan pins, or the plan takes any.
    ///
    /// # Errors
    /// [`Error::OtherOffer`], [`Error::Contradiction`], [`Error::Sent`].
    pub fn taken(plan: &AskPlan, server: &str, bytes: &[u8]) -> Result<Self, Error> {
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let found: [u8; 32] = digest.as_ref().try_into().expect("SHA-256 has 32 bytes");
        if let Some(wanted) = plan.offer.filter(|wanted| found != *wanted) {
            let (server, wanted) = (server.to_owned(), spelled(&wanted));
            return Err(Error::OtherOffer { server, found: spelled(&found), wanted });
        }
        let offer = Self::decode(bytes).map_err(|why| Error::Sent(format!("an offer that cannot be taken: {why}")))?;
        let differ = |field, offered: &str, mine: &str| {
            Err(Error::Contradiction { field, offered: offered.to_owned(), mine: mine.to_owned() })
        };
        if offer.id != plan.id {
            // Where no offer is pinned, this is what a stranger wrote, and it is shown on a terminal.
            return differ("service.id", &format!("{:?}", offer.id), &format!("{:?}", plan.id));
        }
        if offer.protocol != plan.protocol {
            return differ("service.protocol", offer.protocol.name(), plan.protocol.name());
        }
        if let (Some(offered), Some(mine)) = (offer.kind().hint, plan.hint)
            && offered != mine
        {
            return differ("service.hint", offered.name(), mine.name());
        }
        if let Some(retrieval) = offer.retrieval
            && retrieval.by != plan.by
        {
            return differ("service.by", retrieval.by.name(), plan.by.name());
        }
        if offer.has_function() && offer.curve != plan.curve {
            return differ("service.curve", offer.curve.name(), plan.curve.name());
        }
        if let Some((_, keys)) = &plan.input
            && plan.by == By::Key
            && keys.len() != offer.key_columns as usize
        {
            return differ(
                "mine.input.keys",
                &format!("{} columns", offer.key_columns),
                &format!("{} columns", keys.len()),
            );
        }
        Ok(offer)
    }

    /// The hash that clients pin: SHA-256 of the document.
    pub fn hash(&self) -> [u8; 32] {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.encode());
        digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The public key of the function.
    ///
    /// # Errors
    /// If it is not written in hexadecimal.
    pub fn public(&self) -> Result<Vec<u8>, String> {
        unhex(&self.public).ok_or_else(|| "its public key is not written in hexadecimal".to_owned())
    }

    /// The offer of the store in `folder`. A `vesica prepare` that was killed just before its end may have left it under its first name.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn load(folder: &Path) -> Result<Self, Error> {
        if let Some(next) = Self::next(folder) {
            return Ok(next);
        }
        let path = folder.join(NAME);
        let bytes = std::fs::read(&path).map_err(Error::file("cannot read", &path))?;
        Self::decode(&bytes).map_err(|why| Error::Damaged { path, why })
    }

    /// The offer of the store in `folder`, if there is one.
    ///
    /// # Errors
    /// If what is there cannot be read. A new offer in its place would send every client away, and with it goes what tells them that a table is an
    /// older one.
    pub fn before(folder: &Path) -> Result<Option<Self>, Error> {
        match Self::load(folder) {
            Ok(offer) => Ok(Some(offer)),
            Err(Error::Job(JobError::File { error, .. })) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Setup(format!(
                "{error}. Nothing was made: if another version of vesica wrote it, prepare with that one; if it is damaged, restore it from a \
                 copy of the store; or move it away, and tell clients the new offer that `vesica prepare` makes then"
            ))),
        }
    }

    /// What stands in `folder` under the first name, if the epoch there is of it.
    fn next(folder: &Path) -> Option<Self> {
        let next = std::fs::read(folder.join(NEXT)).ok().and_then(|bytes| Self::decode(&bytes).ok())?;
        Epoch::named_in(folder).is_some_and(|(named, _)| named == hex(&next.hash())).then_some(next)
    }

    /// Ends what an earlier `vesica prepare` was killed in, before another one writes anything: what it wrote under the first name becomes the offer
    /// of the folder if the epoch there is of it, and goes if not. Whoever calls it has locked the folder. Says whether the folder's offer is another
    /// one now than it was: nobody was told of that yet.
    ///
    /// # Errors
    /// Those of renaming and removing.
    pub fn settle(folder: &Path) -> Result<bool, Error> {
        let Some(next) = Self::next(folder) else { return Self::remove_next(folder).map(|()| false) };
        let before = std::fs::read(folder.join(NAME)).ok();
        Self::become_current(folder)?;
        Ok(before.is_some_and(|before| before != next.encode()))
    }

    fn remove_next(folder: &Path) -> Result<(), Error> {
        let path = folder.join(NEXT);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("cannot remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes the offer into `folder` beside the one that is there, until the epoch that is of it stands there too.
    ///
    /// # Errors
    /// Those of writing.
    pub fn save_next(&self, folder: &Path) -> Result<(), Error> {
        vesica_job::rooms::replace(&folder.join(NEXT), &self.encode()).map_err(Error::from)
    }

    /// What was written so becomes the offer of the folder.
    ///
    /// # Errors
    /// Those of renaming.
    pub fn become_current(folder: &Path) -> Result<(), Error> {
        let path = folder.join(NAME);
        let renamed = std::fs::rename(folder.join(NEXT), &path);
        renamed.and_then(|()| on_disk::name(&path)).map_err(Error::file("cannot write", &path))
    }

    /// Writes the offer into `folder`, in the place of any that is there.
    ///
    /// # Errors
    /// Those of writing.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        vesica_job::rooms::replace(&folder.join(NAME), &self.encode())?;
        Self::remove_next(folder)
    }
}

/// The y of the points of Edwards25519 whose order divides 8, with those that are written above the field's prime: 0, 1, that of the points of
/// order 8 and its negative, -1, p and p + 1. They are what libsodium refuses (`ge25519_has_small_order`).
const SMALL_ORDER: [[u8; 32]; 7] = [
    [0; 32],
    y(1, 0, 0),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    y(0xec, 0xff, 0x7f),
    y(0xed, 0xff, 0x7f),
    y(0xee, 0xff, 0x7f),
];

/// 32 bytes that begin with one and end with another.
const fn y(first: u8, between: u8, last: u8) -> [u8; 32] {
    let mut bytes = [between; 32];
    (bytes[0], bytes[31]) = (first, last);
    bytes
}

/// Whether a public key of Ed25519 is a point of small order: then signatures that hold can be made without its private key.
fn is_weak(key: &[u8]) -> bool {
    // The highest bit is the sign of x.
    let without_sign = |key: &[u8; 32]| std::array::from_fn(|i| if i == 31 { key[i] & 0x7f } else { key[i] });
    <&[u8; 32]>::try_from(key).is_ok_and(|key| SMALL_ORDER.contains(&without_sign(key)))
}

/// A service that nobody runs: whoever measures a scheme, or feeds decoders, makes an offer of it.
pub fn sample(Kind { protocol, hint }: Kind, by: By, private: Private) -> Service {
    Service {
        id: "list".into(),
        protocol,
        hint,
        by,
        private,
        accept: Vec::new(),
        preset: vesica_spec::service::Preset::default(),
        expected_queries: 10,
        curve: CurveName::Ristretto255,
        values: vec!["name".into()],
        value_bytes: None,
        verifiable: false,
        lifetime_keys: 1 << 30,
        rules: Rules::default(),
        insecure: true,
    }
}

/// The name of the document in the folder of a store.
const NAME: &str = "offer.json";

/// The same before the epoch that is of it stands there.
const NEXT: &str = "offer.json.next";

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that [`hex`] wrote so.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).filter(|_| !c.is_ascii_uppercase());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| Some((16 * digit(pair[0])? + digit(pair[1])?) as u8);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

/// A hash as people copy it: `sha256:` and 64 digits.
pub fn spelled(hash: &[u8; 32]) -> String {
    format!("sha256:{}", hex(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        let service = Service {
            id: "list".into(),
            protocol: ServiceProtocol::EcdhOprf,
            hint: None,
            by: By::Key,
            private: Private::Both,
            accept: Vec::new(),
            preset: vesica_spec::service::Preset::default(),
            expected_queries: vesica_spec::service::default_expected(),
            curve: CurveName::Ristretto255,
            values: vec!["name".into()],
            value_bytes: None,
            verifiable: true,
            lifetime_keys: 1 << 20,
            rules: Rules::default(),
            insecure: false,
        };
        Offer::new(&service, 1, Some(40), 70, &[0xab, 0x01]).unwrap()
    }

    #[test]
    fn an_offer_is_read_as_it_is_written() {
        let offer = offer();
        assert_eq!(Offer::decode(&offer.encode()).unwrap(), offer);
        assert_eq!(offer.public().unwrap(), [0xab, 0x01]);
        let dir = tempfile::tempdir().unwrap();
        offer.save(dir.path()).unwrap();
        assert_eq!(Offer::load(dir.path()).unwrap(), offer);
    }

    /// Whether there is a hint is settled before an offer is made, and an offer has a key and the name of a store where its epochs are signed alone.
    #[test]
    fn an_offer_says_who_signs() {
        let kind = |hint| Kind { protocol: ServiceProtocol::SimplePir, hint: Some(hint) };
        let of = |hint| sample(kind(hint), By::Index, Private::Client);
        let open = Service { hint: None, ..of(Hint::None) };
        let error = Offer::new(&open, 0, Some(8), 0, &[]).unwrap_err().to_string();
        assert!(error.contains("service.hint") && error.contains("hint = \"copied\""), "{error}");
        let [bare, copied] = [Hint::None, Hint::Copied].map(|hint| Offer::new(&of(hint), 0, Some(8), 0, &[]).unwrap());
        let signed = bare.clone().signed_by(&[5; 32], [6; 16]);
        assert_eq!(Offer::decode(&signed.encode()).unwrap().store(), Some([6; 16]));
        assert_ne!(signed.hash(), bare.clone().signed_by(&[5; 32], [7; 16]).hash(), "another store");
        let short = Offer { store: "06".into(), ..signed.clone() };
        for bad in [bare, short, copied.clone().signed_by(&[5; 32], [6; 16])] {
            assert!(Offer::decode(&bad.encode()).unwrap_err().contains("no key for its epochs"));
        }
        assert_eq!(Offer::decode(&copied.encode()).unwrap(), copied);
    }

    /// With a key of small order everybody can sign: a signature with the number 0 and the neutral point holds for one message in eight at least.
    /// No offer with such a key is taken, and one that cannot be read is not taken for none.
    #[test]
    fn a_key_by_which_anybody_can_sign_is_refused() {
        let service =
            sample(Kind { protocol: ServiceProtocol::SimplePir, hint: Some(Hint::None) }, By::Index, Private::Client);
        let bare = Offer::new(&service, 0, Some(8), 0, &[]).unwrap();
        let mut forged = 0;
        for weak in SMALL_ORDER {
            for sign in [0, 0x80] {
                let mut key = weak;
                key[31] |= sign;
                let neutral = [&[1][..], &[0; 63]].concat();
                let holds = |message: u8| {
                    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, key)
                        .verify(&[message], &neutral)
                        .is_ok()
                };
                forged += u32::from((0..64).any(holds));
                let why = Offer::decode(&bare.clone().signed_by(&key, [6; 16]).encode()).unwrap_err();
                assert!(why.contains("anybody could sign"), "{why}");
            }
        }
        assert_eq!(forged, 14, "the library takes such a signature by each of them");
        let dir = tempfile::tempdir().unwrap();
        assert!(Offer::before(dir.path()).unwrap().is_none());
        std::fs::write(dir.path().join(NAME), "{").unwrap();
        let why = Offer::before(dir.path()).unwrap_err().to_string();
        assert!(why.contains("offer.json is damaged: it is no offer") && why.contains("restore it"), "{why}");
    }

    /// Where no offer is pinned, a stranger's words come to a terminal. None of them are repeated.
    #[test]
    fn what_is_no_offer_is_not_repeated() {
        let text = String::from_utf8(offer().encode()).unwrap();
        for (from, to) in [("ristretto255", "\\u001b[31mred"), ("\"values\":", "\"\\u001b[31mred\":")] {
            let bad = text.replace(from, to);
            assert_ne!(bad, text);
            assert_eq!(Offer::decode(bad.as_bytes()).unwrap_err(), "it is no offer");
        }
    }

    /// Whatever the server changes, the hash is another one.
    #[test]
    fn every_field_is_hashed() {
        let text = String::from_utf8(offer().encode()).unwrap();
        for (from, to) in [
            ("\"list\"", "\"lists\""),
            ("ristretto255", "p256"),
            ("\"verifiable\":true", "\"verifiable\":false"),
            ("\"key_columns\":1", "\"key_columns\":2"),
            ("[\"name\"]", "[\"names\"]"),
            ("\"value_bytes\":40", "\"value_bytes\":41"),
            ("1048576", "1048577"),
            ("\"tag_bits\":70", "\"tag_bits\":71"),
            ("ab01", "ab02"),
        ] {
            let other = Offer::decode(text.replace(from, to).as_bytes()).unwrap();
            assert_ne!(other.hash(), offer().hash(), "{to}");
        }
    }

    #[test]
    fn one_offer_has_one_spelling() {
        let text = String::from_utf8(offer().encode()).unwrap();
        for bad in [
            text.replace(":1,", ": 1,"),
            text.replace("{", "{ "),
            text.replace("\"id\"", "\"more\":1,\"id\""),
            String::new(),
        ] {
            assert!(Offer::decode(bad.as_bytes()).is_err(), "{bad}");
        }
        let newer = Offer::decode(text.replace("\"version\":1", "\"version\":2").as_bytes()).unwrap_err();
        assert!(newer.contains("version 2"), "{newer}");
        assert!(Offer::decode(text.replace("ab01", "AB01").as_bytes()).unwrap().public().is_err());
        assert!(Offer::decode(text.replace("ab01", "ab0").as_bytes()).unwrap().public().is_err());
    }
}
