//! Keys of several kinds: a row matches by any of them.

use crate::checks::{check_name, distinct};
use crate::error::{SpecError, refuse};
use crate::join::Join;
use crate::parse::nearest;
use crate::rules::{Rule, Rules};
use crate::types::{Duplicates, Mine, Shared};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vesica_suite::{ProtocolName, ResultKind};
use vesica_types::Party;

/// A kind of identifier that rows are matched by, such as mail addresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identifier {
    /// What it is called: letters, digits and `.-_`, at most 64. An identifier is only ever equal to one of the same name.
    pub name: String,
    /// What is done to it before it is compared. One list, as `["email"]`, is for an identifier of one column. One of several columns has a list for
    /// each of them, as `[["nfkc", "lower"], ["digits"]]`.
    #[serde(default)]
    pub rules: Rules,
}

impl Identifier {
    /// The rules of each of its columns.
    pub(crate) fn columns(&self) -> Vec<Vec<Rule>> {
        match &self.rules {
            Rules::All(rules) => vec![rules.clone()],
            Rules::Each(lists) => lists.clone(),
        }
    }
}

/// What the output holds where rows have identifiers of several kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// Each of a learner's own rows, once, of which the other party holds an identifier of any kind; in the input's order.
    Any,
    /// A line for each pair of rows of both tables that agree in anything; both parties learn, and their outputs line up. A row may come in several
    /// lines.
    Pairs,
    /// The same, and every row once at most: pairs that agree in the first of `identifiers` go before those that agree in the second, and so
    /// on.
    Once,
}

vesica_types::words!(Match { Any = "any", Pairs = "pairs", Once = "once" });

/// The columns of a table that hold each identifier, by its name, as they are written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a list of columns, or a table such as { email = \"mail\", person = [[\"name\", \"born\"]] }"
)]
pub(crate) enum KeyColumns {
    /// The columns that make up the one key.
    Columns(Vec<String>),
    /// Those of each identifier.
    Identifiers(BTreeMap<String, OfIdentifier>),
}

/// The columns of one identifier.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a column, or a list of columns, each of which may be a list of the columns that make up one identifier"
)]
pub(crate) enum OfIdentifier {
    /// One column.
    Column(String),
    /// Several of the kind in each row.
    Several(Vec<Value>),
}

/// What makes up one identifier of a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a column, or a list of columns")]
pub(crate) enum Value {
    /// One column.
    Column(String),
    /// Several columns together.
    Columns(Vec<String>),
}

impl KeyColumns {
    /// The columns of the one key, and the lists of columns of each identifier: one of them is empty.
    pub(crate) fn parts(self) -> (Vec<String>, BTreeMap<String, Vec<Vec<String>>>) {
        let of = |value| match value {
            Value::Column(column) => vec![column],
            Value::Columns(columns) => columns,
        };
        let several = |of_one| match of_one {
            OfIdentifier::Column(column) => vec![vec![column]],
            OfIdentifier::Several(values) => values.into_iter().map(of).collect(),
        };
        match self {
            KeyColumns::Columns(columns) => (columns, BTreeMap::new()),
            KeyColumns::Identifiers(all) => {
                (Vec::new(), all.into_iter().map(|(name, of_one)| (name, several(of_one))).collect())
            }
        }
    }

    /// The same from its parts.
    pub(crate) fn of(columns: Vec<String>, identifiers: BTreeMap<String, Vec<Vec<String>>>) -> Self {
        if identifiers.is_empty() {
            return KeyColumns::Columns(columns);
        }
        let value = |mut columns: Vec<String>| match columns.len() {
            1 => Value::Column(columns.remove(0)),
            _ => Value::Columns(columns),
        };
        let of_one = |lists: Vec<Vec<String>>| OfIdentifier::Several(lists.into_iter().map(value).collect());
        KeyColumns::Identifiers(identifiers.into_iter().map(|(name, lists)| (name, of_one(lists))).collect())
    }
}

/// The columns that make up one identifier of each row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyList {
    /// Which of `shared.identifiers` it is.
    pub kind: usize,
    /// What that is called.
    pub name: String,
    /// Its columns, by their places among those that are read.
    pub columns: Vec<usize>,
    /// What is done to each of them.
    pub rules: Vec<Vec<Rule>>,
}

/// The most kinds of identifiers.
pub const MOST_KINDS: usize = 8;

/// The most identifiers that a row of a table may have.
pub const MOST_LISTS: usize = 32;

/// Fails if the job's identifiers contradict the rest of it.
pub(crate) fn check(shared: &Shared, parties: &[Party], learners: &[Party]) -> Result<(), SpecError> {
    let Some(matching) = shared.matching else {
        return match shared.identifiers.is_empty() {
            true => Ok(()),
            false => refuse(
                "shared.match",
                "is missing: write match = \"any\" for rows that match by any of shared.identifiers",
            ),
        };
    };
    let name = matching.name();
    let kinds = shared.identifiers.len();
    if kinds == 0 {
        let why =
            format!("\"{name}\" is of use only with shared.identifiers, and there are none; name some, or remove it");
        return refuse("shared.match", why);
    }
    if kinds > MOST_KINDS {
        return refuse("shared.identifiers", format!("has {kinds} identifiers; the most is {MOST_KINDS}"));
    }
    shared.identifiers.iter().try_for_each(|of| check_name("shared.identifiers.name", &of.name))?;
    let names: Vec<String> = shared.identifiers.iter().map(|of| of.name.clone()).collect();
    distinct("shared.identifiers", &names)?;
    if shared.rules != Rules::default() {
        return refuse(
            "shared.rules",
            "each of shared.identifiers has rules of its own; write them there, and remove this",
        );
    }
    if parties.len() > 2 {
        let why = "are for two parties, and this job has more: between three, \"one that all hold\" and \"linked in a chain\" are different \
                   wishes; name one key in mine.input.keys";
        return refuse("shared.identifiers", why);
    }
    if shared.result != ResultKind::Rows {
        let why = format!(
            "\"{}\" is over keys, and a person with several identifiers would count several times: take result = \"rows\", or name one key in \
             mine.input.keys",
            shared.result.name()
        );
        return refuse("shared.result", why);
    }
    if shared.protocol == ProtocolName::Dp || shared.dp.is_some() {
        let why = "hides each key, and a person with several identifiers would be hidden less than shared.dp says: name one key in \
                   mine.input.keys";
        return refuse(if shared.dp.is_some() { "shared.dp" } else { "shared.protocol" }, why);
    }
    let (joins, several) = match matching {
        Match::Any => (&[Join::Inner, Join::Difference, Join::Semi, Join::Anti][..], false),
        Match::Pairs | Match::Once => (&[Join::Inner][..], true),
    };
    if !joins.contains(&shared.join) {
        let joins: Vec<String> = joins.iter().map(|join| format!("\"{}\"", join.name())).collect();
        let holds = if several { "holds rows that agree" } else { "gives each learner rows of its own" };
        let why = format!(
            "\"{}\" holds other rows than match = \"{name}\", which {holds}; take {}",
            shared.join.name(),
            joins.join(" or ")
        );
        return refuse("shared.join", why);
    }
    if shared.duplicates == Duplicates::First && matches!(shared.join, Join::Difference | Join::Anti) {
        let why = format!(
            "with \"first\" a row would stand among those of join = \"{}\" though the other party holds an identifier of it, because an earlier \
             row has that too: take \"join\", or \"error\"",
            shared.join.name()
        );
        return refuse("shared.duplicates", why);
    }
    if several && learners.len() < 2 {
        return refuse(
            "shared.learns",
            format!("match = \"{name}\" lines up the rows of both: both learn, or take match = \"any\""),
        );
    }
    if several && shared.duplicates == Duplicates::Join {
        let why =
            format!("\"join\" gives a key several rows, and match = \"{name}\" needs one: take \"first\" or \"error\"");
        return refuse("shared.duplicates", why);
    }
    Ok(())
}

/// The columns that this party's table is read by, and the identifiers that are made of them, in the order of `shared.identifiers`. Without
/// such, the columns of the one key and no lists.
pub(crate) fn lists(shared: &Shared, mine: &Mine) -> Result<(Vec<String>, Vec<KeyList>), SpecError> {
    let given = &mine.input.identifiers;
    if shared.identifiers.is_empty() {
        if !given.is_empty() {
            return refuse(
                "mine.input.keys",
                "names columns by identifier, and the job has no shared.identifiers: write keys = [\"COLUMN\"], or agree on identifiers",
            );
        }
        if mine.input.keys.is_empty() {
            return refuse("mine.input.keys", "is empty: name the columns that make up the key");
        }
        distinct("mine.input.keys", &mine.input.keys)?;
        return Ok((mine.input.keys.clone(), Vec::new()));
    }
    let names: Vec<&str> = shared.identifiers.iter().map(|of| of.name.as_str()).collect();
    if given.is_empty() {
        let first = names.first().copied().unwrap_or_default();
        return refuse(
            "mine.input.keys",
            format!(
                "names no columns by identifier, and the job has {}: write keys = {{ {first} = \"COLUMN\" }}",
                names.join(", ")
            ),
        );
    }
    if let Some(unknown) = given.keys().find(|name| !names.contains(&name.as_str())) {
        let near = nearest(unknown, &names).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        return refuse(
            "mine.input.keys",
            format!("{unknown:?} is not the name of one of shared.identifiers ({}){near}", names.join(", ")),
        );
    }
    let (mut columns, mut lists) = (Vec::<String>::new(), Vec::new());
    for (kind, of) in shared.identifiers.iter().enumerate() {
        let Some(values) = given.get(&of.name) else { continue };
        let (name, rules) = (&of.name, of.columns());
        if rules.is_empty() {
            return refuse(
                "shared.identifiers",
                format!("{name} has rules of no column, and would be made up of none"),
            );
        }
        if values.is_empty() {
            return refuse("mine.input.keys", format!("{name} names no column; name one, or leave {name} out"));
        }
        for (place, value) in values.iter().enumerate() {
            if value.len() != rules.len() {
                let why = match rules.len() {
                    1 => format!(
                        "{name} has one column (shared.identifiers), and is given {}: write {name} = \"COLUMN\", or {name} = [\"A\", \"B\"] for \
                         two that a row may have",
                        value.len()
                    ),
                    n => format!(
                        "{name} is made up of {n} columns (shared.identifiers has rules for so many), and is given {}: write {name} = [[\"A\", \
                         \"B\"]]",
                        value.len()
                    ),
                };
                return refuse("mine.input.keys", why);
            }
            distinct("mine.input.keys", value)?;
            if values[..place].contains(value) {
                return refuse("mine.input.keys", format!("{name} is given {} twice", value.join(", ")));
            }
            let mut place_of = |column: &String| {
                columns.iter().position(|known| known == column).unwrap_or_else(|| {
                    columns.push(column.clone());
                    columns.len() - 1
                })
            };
            let columns = value.iter().map(&mut place_of).collect();
            lists.push(KeyList { kind, name: name.clone(), columns, rules: rules.clone() });
        }
    }
    if lists.len() > MOST_LISTS {
        return refuse("mine.input.keys", format!("gives a row {} identifiers; the most is {MOST_LISTS}", lists.len()));
    }
    Ok((columns, lists))
}
