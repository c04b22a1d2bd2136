//! What came of what was looked up: values, or why there are none.

use crate::values;
use vesica_store::Found;

/// The texts of a row's values, one a column; none where a value is a null.
pub type Texts = Vec<Option<String>>;

/// Something that came for a key or row number. What is not there has no hit.
pub struct Hit<'a> {
    /// Which of the different keys or numbers, from 0.
    pub want: usize,
    /// Its values, or why they cannot be had.
    pub came: Result<Value<'a>, Lost>,
}

/// Bytes of memory that a hit takes, and that it has a row.
pub const HIT: u64 = size_of::<Hit<'_>>() as u64 + 1;

/// The values of a row that was found.
pub enum Value<'a> {
    /// An entry of a store of tags, and what opens its value. It is opened again when it is written, so that not all values are in
    /// memory at once.
    Entry(Found<'a>, [u8; 32]),
    /// The values themselves.
    Texts(Texts),
}

impl Value<'_> {
    /// The values, one a column; none if they cannot be read.
    pub fn texts(&self, columns: usize) -> Option<Texts> {
        match self {
            Value::Texts(texts) => Some(texts.clone()),
            Value::Entry(_, _) if columns == 0 => Some(Vec::new()),
            Value::Entry(entry, output) => values::decode(&entry.value(output)?, columns),
        }
    }
}

/// Why a row counts as not found, although nothing says that it is not there. None of it ends a run: the server could otherwise make
/// a run fail by what is looked up, and see that it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// What the server has there cannot be read. What the client copied is what the server wrote, so the server wrote that.
    Unreadable,
    /// A window of Piano could not serve it.
    Unfetched,
    /// The number of a row that the server says it does not have.
    NoSuchRow,
}

impl Lost {
    /// All of them.
    pub const ALL: [Self; 3] = [Lost::Unreadable, Lost::Unfetched, Lost::NoSuchRow];

    /// A word and a sentence for a server's table of so many rows.
    pub fn in_words(self, rows: u64) -> (&'static str, String) {
        match self {
            Lost::Unreadable => (
                "unreadable",
                "What the server has there cannot be read. Only the server can have made it so, perhaps to learn whether these rows are looked \
                 up: let nobody see that they are, and do not repeat the run for them"
                    .to_owned(),
            ),
            Lost::Unfetched => (
                "unfetched",
                "Too many queries of one window fell into one part of the server's table, so it is not known what the server has there. A later \
                 run brings them if it has a new window; do not repeat the run for them"
                    .to_owned(),
            ),
            Lost::NoSuchRow => (
                "no_such_row",
                format!(
                    "The server says that its table has {rows} rows, which are counted from 0 and end below these numbers. Only the server \
                     says so, perhaps to learn how the numbers compare with that: do not repeat the run because of it, unless you know from \
                     elsewhere how many rows the table has"
                ),
            ),
        }
    }
}
