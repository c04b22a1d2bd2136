//! In what two parties' shared documents differ.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use vesica_types::Party;

/// A field of the shared documents that differs.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// What differs: a field, such as `shared.learns`.
    pub field: String,
    /// This party's name and value.
    pub mine: (String, Option<Value>),
    /// The peer's.
    pub theirs: (String, Option<Value>),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or("(absent)".to_owned(), printable);
        let ((me, mine), (peer, theirs)) = (&self.mine, &self.theirs);
        write!(f, "{}: {} for {me}, {} for {peer}", self.field, show(mine), show(theirs))
    }
}

/// A peer's value on one line of printable text, cut where it is long.
fn printable(value: &Value) -> String {
    let text: String = value.to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Every field of the shared documents of two parties that differs.
pub fn differences(me: &Party, mine: &Value, peer: &Party, theirs: &Value) -> Vec<Difference> {
    let empty = serde_json::Map::new();
    let (a, b) = (mine.as_object().unwrap_or(&empty), theirs.as_object().unwrap_or(&empty));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| Difference {
            field: format!("shared.{}", printable(&Value::String(name.clone())).trim_matches('"')),
            mine: (me.to_string(), a.get(name).cloned()),
            theirs: (peer.to_string(), b.get(name).cloned()),
        })
        .collect()
}
