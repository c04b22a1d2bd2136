//! The rules of `shared.rules`: how they are written, named and compared. What they do to a key stands in `apply.rs`.
//!
//! A rule's id says which version of it, and of Unicode, a program has. The ids are part of what the parties compare, so
//! keys are never brought into two different forms.

mod apply;

use rlibphonenumber::PHONE_NUMBER_UTIL;
use rlibphonenumber::enums::Region;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The numbering plans that telephone numbers go by: those of one version of the crate.
const PHONES: &str = "rlibphonenumber-2.2.15";

/// What is done to keys: a list of rules for every key column, as `["trim", "lower"]`, or a list for each of them, as
/// `[["email"], []]`. Rules are applied from left to right; a key with a column that is empty then matches nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Rules {
    /// The same for every key column.
    All(Vec<Rule>),
    /// A list for each key column.
    Each(Vec<Vec<Rule>>),
}

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// No white space at either end.
    Trim,
    /// Lower case.
    Lower,
    /// Unicode's compatibility composition (NFKC): one spelling for what looks the same, such as letters of full width.
    Nfkc,
    /// Mail addresses: trimmed, in lower case; those of Gmail without dots and without what follows a plus. What is no
    /// address becomes empty.
    Email,
    /// The digits 0 to 9, and nothing else.
    Digits,
    /// Telephone numbers as E.164, such as `+41791234567`; those without a country code are of this region. What is no valid
    /// number becomes empty.
    Phone(Region),
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// By hand, because a region is part of a name.
impl JsonSchema for Rule {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let plain: Vec<String> = Rule::PLAIN.iter().map(Rule::to_string).collect();
        json_schema!({
            "description": "A rule: `trim` (no white space at either end), `lower` (lower case), `nfkc` (Unicode's compatibility \
                composition), `email` (mail addresses; what is none becomes empty), `digits` (the digits 0 to 9 and nothing else), \
                or `phone:` and the two letters of a country (telephone numbers as E.164; those without a country code are of \
                that country, what is no valid number becomes empty).",
            "type": "string",
            "anyOf": [{ "enum": plain }, { "pattern": "^phone:[A-Z]{2}$" }],
        })
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules::All(Vec::new())
    }
}

impl Rules {
    /// The lists as they stand in a job, with the rules' ids.
    pub fn ids(&self) -> serde_json::Value {
        let ids = |rules: &Vec<Rule>| rules.iter().map(|rule| rule.id()).collect::<serde_json::Value>();
        match self {
            Rules::All(rules) => ids(rules),
            Rules::Each(lists) => lists.iter().map(ids).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let lists: Vec<serde_json::Value> = Vec::deserialize(from)?;
        let each = !lists.is_empty() && lists.iter().all(serde_json::Value::is_array);
        let lists = serde_json::Value::Array(lists);
        let rules = if each {
            serde_json::from_value(lists).map(Rules::Each)
        } else {
            serde_json::from_value(lists).map(Rules::All)
        };
        rules.map_err(de::Error::custom)
    }
}

/// As it stands in a job.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Trim => f.write_str("trim"),
            Rule::Lower => f.write_str("lower"),
            Rule::Nfkc => f.write_str("nfkc"),
            Rule::Email => f.write_str("email"),
            Rule::Digits => f.write_str("digits"),
            Rule::Phone(region) => write!(f, "phone:{region}"),
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(region) = name.strip_prefix("phone:") {
            return known(region).map(Rule::Phone).ok_or_else(|| {
                format!(
                    "`{region}` is no country with a numbering plan; use the two letters of ISO 3166, as in `phone:CH`"
                )
            });
        }
        Rule::PLAIN.iter().find(|rule| rule.to_string() == name).copied().ok_or_else(|| {
            let names: Vec<String> = Rule::PLAIN.iter().map(|rule| format!("`{rule}`")).collect();
            format!("unknown rule `{name}`, expected one of {}, `phone:CH` (or another country)", names.join(", "))
        })
    }
}

/// The region of these two letters, if it has a numbering plan.
fn known(letters: &str) -> Option<Region> {
    PHONE_NUMBER_UTIL.get_supported_regions().find(|region| &*region.as_region_str() == letters)
}

impl Rule {
    /// Every rule but those that go by a country.
    pub const PLAIN: &'static [Rule] = &[Rule::Trim, Rule::Lower, Rule::Nfkc, Rule::Email, Rule::Digits];

    /// Its name, its version, and the version of Unicode or of the numbering plans that it goes by.
    pub fn id(self) -> String {
        let (a, b, c) = char::UNICODE_VERSION;
        match self {
            Rule::Trim | Rule::Lower | Rule::Email => format!("{self}-v1-unicode-{a}.{b}.{c}"),
            Rule::Nfkc => {
                let (a, b, c) = unicode_normalization::UNICODE_VERSION;
                format!("{self}-v1-unicode-{a}.{b}.{c}")
            }
            Rule::Digits => format!("{self}-v1"),
            Rule::Phone(_) => format!("{self}-v1-{PHONES}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::parse::tests::JOB;

    #[test]
    fn rules_are_a_list_or_a_list_for_each_column() {
        let rules =
            |value: &str| parse(&JOB.replace("learns =", &format!("rules = {value}\nlearns ="))).map(|s| s.shared);
        let all = rules("[\"trim\", \"lower\"]").unwrap();
        assert_eq!(all.rules, Rules::All(vec![Rule::Trim, Rule::Lower]));
        assert_eq!(rules("[[\"email\"], []]").unwrap().rules, Rules::Each(vec![vec![Rule::Email], vec![]]));
        assert_eq!(rules("[]").unwrap().rules, Rules::default());
        assert!(
            all.canonical()["rules"][1].as_str().unwrap().starts_with("lower-v1-unicode-"),
            "versions are compared"
        );
        let error = rules("[\"trimm\"]").unwrap_err();
        assert!(error.message.ends_with("did you mean `trim`?") && error.place.is_some(), "{error}");
        let phone = rules("[\"phone:CH\"]").unwrap();
        assert_eq!(serde_json::to_value(&phone.rules).unwrap()[0], "phone:CH");
        assert!(phone.canonical()["rules"][0].as_str().unwrap().starts_with("phone:CH-v1-"), "versions are compared");
        for (wrong, words) in [
            ("[\"phone\"]", "`phone:CH`"),
            ("[\"phone:ch\"]", "`phone:CH`"),
            ("[\"phone:XX\"]", "`XX` is no country"),
            ("[[\"trim\"], \"trim\"]", "string"),
            ("\"trim\"", "sequence"),
        ] {
            let error = rules(wrong).unwrap_err();
            assert!(error.message.contains(words), "{error}");
        }
    }

    #[test]
    fn ids_are_names_with_versions() {
        assert_eq!(Rule::Digits.id(), "digits-v1");
        let phone: Rule = "phone:CH".parse().unwrap();
        assert!(Rule::PLAIN.iter().chain([&phone]).all(|rule| rule.id().starts_with(&format!("{rule}-v1"))));
        assert!(Rule::PLAIN.iter().chain([&phone]).all(|rule| rule.to_string().parse() == Ok(*rule)));
    }

    #[test]
    fn the_numbering_plans_are_those_that_the_id_names() {
        let lock = include_str!("../../../../Cargo.lock").replace("\"\nversion = \"", "-");
        assert!(lock.contains(&format!("\"{PHONES}\"")), "PHONES is not the version in Cargo.lock");
    }
}
