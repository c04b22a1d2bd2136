//! The fingerprints by which a certificate is recognised: one, or several while a key is exchanged for another.

use crate::error::{SpecError, refuse};
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use vesica_net::Fingerprint;

/// Fingerprints of a certificate: `"sha256:…"`, or a list of them. With `["sha256:OLD", "sha256:NEW"]` a partner is known by either, so
/// that its certificate can be exchanged for a new one without a moment at which one side has changed and the other has not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Pins {
    /// One.
    One(String),
    /// Any of these.
    Any(Vec<String>),
}

/// The most fingerprints that one party may be known by.
const MOST: usize = 16;

impl Pins {
    /// The fingerprints that stand in `field`, one at least and each once.
    ///
    /// # Errors
    /// If there are none or too many, or one is no fingerprint or stands twice.
    pub(crate) fn read(&self, field: &str) -> Result<Vec<Fingerprint>, SpecError> {
        let texts = match self {
            Pins::One(text) => std::slice::from_ref(text),
            Pins::Any(texts) => texts.as_slice(),
        };
        if texts.is_empty() || texts.len() > MOST {
            let why = format!("{} fingerprints; give 1 to {MOST}, such as [\"sha256:…\", \"sha256:…\"]", texts.len());
            return refuse(field, why);
        }
        let mut pins = Vec::with_capacity(texts.len());
        for text in texts {
            let pin = text.parse().map_err(|error| SpecError::field(field, format!("\"{text}\": {error}")))?;
            if pins.contains(&pin) {
                return refuse(field, format!("{pin} stands there twice; take one out"));
            }
            pins.push(pin);
        }
        Ok(pins)
    }
}

impl From<String> for Pins {
    fn from(text: String) -> Self {
        Pins::One(text)
    }
}

impl From<&str> for Pins {
    fn from(text: &str) -> Self {
        Pins::One(text.to_owned())
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for Pins {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Pins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a fingerprint, \"sha256:…\", or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pins, E> {
                Ok(text.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Pins, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Pins::Any)
            }
        }

        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::parse::tests::JOB;

    #[test]
    fn a_party_is_known_by_one_fingerprint_or_by_any_of_a_list() {
        let pins = |value: &str| {
            let text = JOB.replace("\"sha256:00\"", value);
            let spec = parse(&text)?;
            let read = spec.mine.tls.as_ref().unwrap().peers["bob"].read("mine.tls.peers.bob")?;
            // As it is written again, it is read again.
            assert_eq!(parse(&spec.text())?, spec);
            Ok::<_, SpecError>(read)
        };
        let print = |c: char| format!("sha256:{}", c.to_string().repeat(64));
        let (a, b) = (print('a'), print('b'));
        assert_eq!(pins(&format!("{a:?}")).unwrap(), [a.parse().unwrap()]);
        let both: Vec<Fingerprint> = [&a, &b].map(|pin| pin.parse().unwrap()).to_vec();
        assert_eq!(pins(&format!("[{a:?}, {b:?}]")).unwrap(), both);
        for (value, words) in [
            ("[]".to_owned(), "0 fingerprints"),
            (format!("{:?}", vec![&a; 2]), "stands there twice"),
            (format!("{:?}", vec![&a; 17]), "17 fingerprints"),
            (format!("[{a:?}, \"sha256:00\"]"), "it has 2 hex digits"),
            ("7".to_owned(), "a fingerprint, \"sha256:…\", or a list of them"),
        ] {
            let error = pins(&value).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
