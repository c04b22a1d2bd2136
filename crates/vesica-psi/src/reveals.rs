//! What intersection protocols tell, once each, so that every protocol names the same thing by the same word.

use vesica_session::{Learner, Reveal};

/// The output itself.
pub const INTERSECTION: Reveal = Reveal {
    name: "intersection",
    to: Learner::Learners,
    what: "which of their own keys the other party holds too, and so how many",
};

/// Needed to size units; padding hides how the keys fall into them.
pub const KEY_COUNT: Reveal =
    Reveal { name: "key_count", to: Learner::Everyone, what: "how many distinct, non-empty keys each party holds" };

/// What aligned outputs cannot hide.
pub const MULTIPLICITY: Reveal = Reveal {
    name: "multiplicity",
    to: Learner::Learners,
    what: "how many rows the other party has for each matched key (only where both parties learn)",
};

/// What no encryption hides.
pub const TRAFFIC: Reveal = Reveal {
    name: "traffic",
    to: Learner::Network,
    what: "how many bytes went each way, and when; this follows from the key counts",
};
