//! Where a secret key is: in a file, or with a program that prints it, such as a vault's client.

use crate::error::{SpecError, refuse};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a secret key is: `"alice.key"`, or `{ program = ["vault", "kv", "get", "-field=key", "secret/alice"] }`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum KeyPlace {
    /// A file that no other user may read.
    File(PathBuf),
    /// A program prints it.
    By(KeyProgram),
}

/// A program that prints a secret key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyProgram {
    /// The program and its arguments. It is started as it is, without a shell, in `folder`, has a minute, and must exit with 0.
    /// All that it prints to its standard output is the key, to the last byte.
    pub program: Vec<String>,
    /// The folder that it works in; the job file's folder when absent.
    #[serde(default, skip_serializing_if = "vesica_types::is_default")]
    pub folder: PathBuf,
}

impl KeyPlace {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            KeyPlace::File(path) => Some(path),
            KeyPlace::By(_) => None,
        }
    }

    /// What starts at the folder of the document where it is not absolute.
    pub(crate) fn path(&mut self) -> &mut PathBuf {
        match self {
            KeyPlace::File(path) => path,
            KeyPlace::By(program) => &mut program.folder,
        }
    }

    /// The same, if it means anything. `field` is where it stands.
    ///
    /// # Errors
    /// A program without a name.
    pub(crate) fn read(&self, field: &str) -> Result<Self, SpecError> {
        match self {
            KeyPlace::By(KeyProgram { program, .. })
                if program.first().is_none_or(String::is_empty) || program.iter().any(|word| word.contains('\0')) =>
            {
                let why = "names no program; write the program, then its arguments, such as \
                           { program = [\"pass\", \"show\", \"vesica\"] }";
                refuse(&format!("{field}.program"), why)
            }
            place => Ok(place.clone()),
        }
    }
}

impl From<PathBuf> for KeyPlace {
    fn from(path: PathBuf) -> Self {
        KeyPlace::File(path)
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for KeyPlace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = KeyPlace;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a file, or a table with program")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<KeyPlace, E> {
                Ok(KeyPlace::File(text.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KeyPlace, A::Error> {
                KeyProgram::deserialize(MapAccessDeserializer::new(map)).map(KeyPlace::By)
            }
        }

        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::JOB;
    use crate::{Mine, parse, plan};

    fn job(key: &str) -> Result<crate::Spec, SpecError> {
        let job = JOB.replace("sha256:00", &format!("sha256:{}", "ab".repeat(32)));
        let job = job.replace("\"alice.pem\"", &format!("\"alice.cert.pem\", key = {key}"));
        parse(&format!("{job}resume = \"kept\"\nresume_key = {key}\n"))
    }

    fn key(mine: &Mine) -> KeyPlace {
        mine.tls.as_ref().unwrap().key.clone().unwrap()
    }

    #[test]
    fn a_key_is_in_a_file_or_a_program_prints_it() {
        let mut spec = job("{ program = [\"vault\", \"read\"] }").unwrap();
        assert_eq!(parse(&spec.text()).unwrap(), spec);
        spec.mine.anchor(Path::new("/jobs"));
        let program = KeyProgram { program: vec!["vault".into(), "read".into()], folder: "/jobs/".into() };
        assert_eq!(key(&spec.mine), KeyPlace::By(program.clone()));
        let planned = plan(&spec).unwrap();
        assert_eq!(planned.identity.unwrap(), ("/jobs/alice.cert.pem".into(), Some(KeyPlace::By(program.clone()))));
        assert_eq!(planned.resume.unwrap().key, Some(KeyPlace::By(program)));
        // Its arguments may be secrets, and a report shows nothing of it.
        assert!(!spec.mine.without_keys().contains("vault"), "{}", spec.mine.without_keys());

        let mut spec = job("\"alice.key\"").unwrap();
        assert_eq!(parse(&spec.text()).unwrap(), spec);
        spec.mine.anchor(Path::new("/jobs"));
        assert_eq!(key(&spec.mine), KeyPlace::File("/jobs/alice.key".into()));
        assert_eq!(key(&spec.mine).file(), Some(Path::new("/jobs/alice.key")));
    }

    #[test]
    fn what_is_no_place_of_a_key_says_what_is_wrong() {
        for (key, words) in [
            ("{ program = [] }", "mine.resume_key.program: names no program"),
            ("{ program = [\"\"] }", "mine.resume_key.program: names no program"),
            ("{ programme = [\"vault\"] }", "did you mean `program`?"),
            ("{}", "missing field `program`"),
            ("7", "the path of a file, or a table with program"),
        ] {
            let error = job(key).and_then(|spec| plan(&spec).map(drop)).unwrap_err().to_string();
            assert!(error.contains(words), "{key}: {error}");
        }
    }
}
