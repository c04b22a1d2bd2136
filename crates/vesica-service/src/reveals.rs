//! What a service tells whom. The server is at place 0, the client at place 1.

use vesica_psi::reveals;
use vesica_session::{Learner, Reveal};
use vesica_spec::service::Private;

/// What the server sees of a client.
const KEYS_ASKED: Reveal = Reveal {
    name: "key_count",
    to: Learner::Place(0),
    what: "how many distinct, non-empty keys {1} asked for, when and from where; not which, and not which were found",
};

/// What the manifest says.
const LIST_SIZE: Reveal = Reveal {
    name: "list_size",
    to: Learner::Place(1),
    what: "how many keys {0}'s list has, how many were added, removed or given another value at each update, and which tags \
           those are; how long values are padded to, which is the length of the longest unless service.value_bytes says more. A tag \
           says nothing to whoever did not ask for its key",
};

/// What copies of several days say together.
const LIST_CHANGES: Reveal = Reveal {
    name: "list_changes",
    to: Learner::Place(1),
    what: "of each key that it ever asked for, when it was on {0}'s list, without asking again: a tag that comes back is recognised, and whoever keeps \
           an answer (mine.kept) can look for its key in every later copy until {0} rotates the key, also when the key has left {1}'s table",
};

/// The values.
const VALUES: Reveal = Reveal {
    name: "values",
    to: Learner::Place(1),
    what: "the values of the keys that it asked for and that {0}'s list has, for good: who has asked for a key can open its value \
           in every copy of the list, older or newer, until {0} rotates the key",
};

/// What asking tells, for values too if there are any.
pub fn of_asking(with_values: bool) -> Vec<Reveal> {
    let always = [reveals::INTERSECTION, KEYS_ASKED, LIST_SIZE, LIST_CHANGES, reveals::TRAFFIC];
    let values = with_values.then_some(VALUES);
    always.into_iter().chain(values).collect()
}

/// What the server sees of a client.
const LOOKUPS: Reveal = Reveal {
    name: "lookup_count",
    to: Learner::Place(0),
    what: "how many different rows {1} looked up, rounded up to a multiple of {1}'s mine.batch, when and from where; not which, and not \
           which were found",
};

/// What the epoch says.
const TABLE_SIZE: Reveal = Reveal {
    name: "table_size",
    to: Learner::Place(1),
    what: "how many rows {0}'s table has, how long values are padded to, when there is a new epoch of it, and which groups of keys changed if \
           clients follow by a patch",
};

/// The values of rows that were asked for.
const RECORDS: Reveal = Reveal {
    name: "values",
    to: Learner::Place(1),
    what: "the values of the rows that it looked up and that {0}'s table has, from one time when {0} prepares the whole table to the next; to \
           open what comes after that it must look them up again, and what came before stays closed",
};

/// All rows.
const ALL_ROWS: Reveal = Reveal {
    name: "all_rows",
    to: Learner::Place(1),
    what: "whatever of {0}'s table it wants: with private = \"client\" all rows are copied to it, or can be computed from what it gets",
};

/// What a retrieval tells. Nothing is `asked` where a client copies the whole table.
pub fn of_retrieving(private: Private, asked: bool) -> Vec<Reveal> {
    let (told, is_seen) = match private {
        Private::Both => (RECORDS, true),
        Private::Client => (ALL_ROWS, asked),
    };
    let lookups = is_seen.then_some(LOOKUPS);
    lookups.into_iter().chain([TABLE_SIZE, told, reveals::TRAFFIC]).collect()
}
