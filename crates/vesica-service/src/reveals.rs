//! What a service tells whom. The server is at place 0, the client at place 1.

use vesica_psi::reveals;
use vesica_session::{Learner, Reveal};

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

/// The values.
const VALUES: Reveal = Reveal {
    name: "values",
    to: Learner::Place(1),
    what: "the values of the keys that it asked for and that {0}'s list has, for good: who has asked for a key can open its value \
           in every copy of the list, older or newer, until {0} rotates the key",
};

/// What asking tells, for values too if there are any.
pub fn of_asking(with_values: bool) -> Vec<Reveal> {
    let always = [reveals::INTERSECTION, KEYS_ASKED, LIST_SIZE, reveals::TRAFFIC];
    let values = with_values.then_some(VALUES);
    always.into_iter().chain(values).collect()
}
