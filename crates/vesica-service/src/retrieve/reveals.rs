//! What a retrieval tells whom. The server is at place 0, the client at place 1.

use vesica_psi::reveals;
use vesica_session::{Learner, Reveal};
use vesica_spec::service::{Private, ServiceProtocol};

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

/// The rows that were asked for.
const VALUES: Reveal = Reveal {
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

/// What a service of this kind tells.
pub fn of(protocol: ServiceProtocol, private: Private) -> Vec<Reveal> {
    let told = match private {
        Private::Both => VALUES,
        Private::Client => ALL_ROWS,
    };
    let silent = protocol == ServiceProtocol::Download && private == Private::Client;
    let lookups = (!silent).then_some(LOOKUPS);
    lookups.into_iter().chain([TABLE_SIZE, told, reveals::TRAFFIC]).collect()
}
