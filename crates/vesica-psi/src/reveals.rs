//! What intersection protocols tell, once each, so that every protocol names the same thing by the same word.

use vesica_session::{Learner, Reveal};

/// The output itself. A party that does not learn sees nothing of it but some milliseconds in each unit: the learner stores
/// what it found between two messages, and says its last word before it writes its output.
pub const INTERSECTION: Reveal = Reveal {
    name: "intersection",
    to: Learner::Learners,
    what: "which of their own keys every other party holds too, and so how many",
};

/// The output itself, where rows match by any of several identifiers.
pub const INTERSECTION_OF_IDENTIFIERS: Reveal = Reveal {
    name: "intersection",
    to: Learner::Learners,
    what: "which of their own identifiers the other party holds too, so by which of them each of their rows matched, and so how many",
};

/// The output itself, where nothing but a number is asked for.
pub const INTERSECTION_SIZE: Reveal =
    Reveal { name: "intersection_size", to: Learner::Learners, what: "how many keys are common, and not which" };

/// The output, where nothing but a sum of values is asked for.
pub const INTERSECTION_SUM: Reveal = Reveal {
    name: "intersection_sum",
    to: Learner::Learners,
    what: "the sum of the values of the rows of one party whose keys the other holds, and not which these are",
};

/// The same of three and more parties.
pub const INTERSECTION_SUM_OF_ALL: Reveal = Reveal {
    what: "the sum of the values of the rows of one party whose keys all others hold, and not which these are",
    ..INTERSECTION_SUM
};

/// The output, where numbers are asked for in each group of one party's rows.
pub const GROUP_TOTALS: Reveal = Reveal {
    name: "group_totals",
    to: Learner::Learners,
    what: "for each group of one party's rows with as many common keys as shared.groups.least or more: what it is called, how many keys these are \
           and what their values, or products of both parties' values, add up to, and not which they are",
};

/// The same where noise is added to each of these numbers.
pub const GROUP_TOTALS_NOISY: Reveal = Reveal {
    name: "group_totals_noisy",
    to: Learner::Learners,
    what: "for each group that the parties agreed on how many keys are common and what their values add up to, give or take as much as the job's \
           epsilon hides each key among, if that is shared.groups.least keys or more; and not which they are",
};

/// The output, where both parties have groups.
pub const GROUP_TOTALS_OF_BOTH: Reveal = Reveal {
    what: "for each group of one party's rows with each group of the other's, if as many common keys as shared.groups.least or more are in both: what the \
           two are called, how many keys these are and what their values, or products of both parties' values, add up to, and not which they are",
    ..GROUP_TOTALS
};

/// What no least number hides from a learner that has the groups: it chooses which keys are in them, and with which values.
pub fn chosen_groups(place: u8) -> Reveal {
    let what = "which of many keys of its choice the other party holds, if it makes its groups up: it can fill each of them with common keys up to \
                the least number and add one key more, or give keys values whose sum names those that are common";
    Reveal { name: "chosen_groups", to: Learner::Place(place), what }
}

/// The same where values of the other party are added up in these groups.
pub fn chosen_groups_and_values(place: u8) -> Reveal {
    let what = "which of many keys of its choice the other party holds, and with which values, if it makes its groups up: it can fill each of them \
                with common keys up to the least number and add one key more, or give keys values whose sum names those that are common";
    Reveal { what, ..chosen_groups(place) }
}

/// What is told of groups of both parties to a learner that has some: it chooses which keys are in its own.
pub fn chosen_pairs(place: u8) -> Reveal {
    let what = "in which of the other party's groups many keys of its choice are, as far as these are told with its own, if it makes its own groups up: of two \
                that differ in one key, the numbers told with a group of the other's differ if that key is in it";
    Reveal { name: "chosen_pairs", to: Learner::Place(place), what }
}

/// What the sums of groups tell a learner that has values and not the groups: it chooses what each key adds.
pub fn chosen_values_by_group(place: u8) -> Reveal {
    let what = "for some 62 keys of its choice and each of its sums in which of the groups that are told each of them is, and so that the other \
                party holds it, if it makes its values up: with powers of two, each bit of a group's sum is a key";
    Reveal { what, ..chosen_values(place) }
}

/// The same where that learner has groups too: each of them has sums of its own.
pub fn chosen_values_by_pair(place: u8) -> Reveal {
    let what = "for some 60 keys of its choice in each of its own groups, and each of its sums, in which of the groups that are told each of them is, and so \
                that the other party holds it, if it makes its values up: with powers of two, each bit of a pair's sum is a key";
    Reveal { what, ..chosen_values(place) }
}

/// And where these values are multiplied by the other party's.
pub fn chosen_factors(place: u8) -> Reveal {
    let what = "what the other party's values of keys of its choice are, for as many keys as fit into each sum of products of each group that is told, \
                if it makes its factors up, or has 0 for nearly all keys: with powers of two, such a sum is those values one beside the other";
    Reveal { name: "chosen_factors", to: Learner::Place(place), what }
}

/// What a sum tells a learner that has the values: it chooses what each key adds.
pub fn chosen_values(place: u8) -> Reveal {
    let what = "which of some 62 keys of its choice all other parties hold, if it makes its values up: with powers of two, each bit of the sum is a \
                key, and no least number of common keys hides that";
    Reveal { name: "chosen_values", to: Learner::Place(place), what }
}

/// What a least number below five does not hide.
pub const SMALL_GROUPS: Reveal = Reveal {
    name: "small_groups",
    to: Learner::Learners,
    what: "the totals of groups with fewer than five common keys too, which say much of each of them",
};

/// The output, where noise is added to a number.
pub const INTERSECTION_SIZE_NOISY: Reveal = Reveal {
    name: "intersection_size_noisy",
    to: Learner::Learners,
    what: "how many keys are common, give or take some that the job's epsilon hides each key among, and not which",
};

/// The output, where noise is added to a sum.
pub const INTERSECTION_SUM_NOISY: Reveal = Reveal {
    name: "intersection_sum_noisy",
    to: Learner::Learners,
    what: "the sum of the values of the rows of one party whose keys the other holds, give or take as much as the job's epsilon hides each key \
           among, and not which these are",
};

/// What ids are made for.
pub const IDS_TOGETHER: Reveal = Reveal {
    name: "ids_together",
    to: Learner::Together(0, 1),
    what: "if {both} put their files together, or show them to somebody: which rows of one have the key of which rows of the other",
};

/// The output of a differentially private job.
pub const INTERSECTION_NOISY: Reveal = Reveal {
    name: "intersection_noisy",
    to: Learner::Learners,
    what: "for each of their own keys whether the other party holds it, with the answers untrue as often as the job's epsilon says",
};

/// What a pool of dummies leaves of the number of common keys.
pub fn count_noisy(place: u8) -> Reveal {
    let what = "how many keys are common, give or take some that the job's epsilon hides it among";
    Reveal { name: "count_noisy", to: Learner::Place(place), what }
}

/// What leaving keys out leaves of the number of common keys.
pub fn count_sampled(place: u8) -> Reveal {
    let what =
        "how many keys are common among those that were taken at random; with few common keys this hides nothing";
    Reveal { name: "count_sampled", to: Learner::Place(place), what }
}

/// What the steps of three parties cannot hide from the party at this place, which compares its list with the next party's before the
/// third one's comes in.
pub fn pair_count(place: u8) -> Reveal {
    let what = match place {
        0 => "how many keys {0} and {1} have in common, whether or not {2} holds them",
        1 => "how many keys {1} and {2} have in common, whether or not {0} holds them",
        _ => "how many keys {2} and {0} have in common, whether or not {1} holds them",
    };
    Reveal { name: "pair_count", to: Learner::Place(place), what }
}

/// What the star of three and more parties does not hide from two of them that put together what they saw.
pub fn leader_and_pivot(leader: u8, pivot: u8) -> Reveal {
    let what = "if {both} put together what they saw: which of the keys that they guess each other party holds";
    Reveal { name: "leader_and_pivot", to: Learner::Together(leader, pivot), what }
}

/// What shares of zero do not hide from the leader and those who join it.
pub fn joined_lists(leader: u8) -> Reveal {
    let what = "if others join it and show it what they saw: which of its keys all parties outside hold, whatever the lists of those who joined";
    Reveal { name: "joined_lists", to: Learner::Place(leader), what }
}

/// Needed to size units; padding hides how the keys fall into them. A partner that comes back with another count is refused.
pub const KEY_COUNT: Reveal =
    Reveal { name: "key_count", to: Learner::Everyone, what: "how many distinct, non-empty keys each party holds" };

/// The same of several kinds of identifiers: all are one list.
pub const IDENTIFIER_COUNT: Reveal = Reveal {
    name: "key_count",
    to: Learner::Everyone,
    what: "how many distinct, non-empty identifiers each party holds, those of all kinds together",
};

/// Said in the first words, so that tables that could never match are refused.
pub const IDENTIFIERS: Reveal = Reveal {
    name: "identifiers",
    to: Learner::Everyone,
    what: "which of the kinds in shared.identifiers each party's table has; if limits.min_intersection is set, of a party that does not learn also how many identifiers a row may have",
};

/// What rows that line up by several identifiers cannot hide.
pub const LINKS: Reveal = Reveal {
    name: "links",
    to: Learner::Learners,
    what: "which of the common identifiers the other party has in one row",
};

/// What salted hashes do not hide.
pub const GUESSABLE_KEYS: Reveal = Reveal {
    name: "guessable_keys",
    to: Learner::Learners,
    what: "every key of the other party that can be guessed, whether it is common or not: the other's list of hashes can be \
           searched for guesses",
};

/// What aligned outputs cannot hide.
pub const MULTIPLICITY: Reveal = Reveal {
    name: "multiplicity",
    to: Learner::Learners,
    what: "how many rows the other party has for each matched key (only where both parties learn)",
};

/// What the right party's rows of nulls cannot hide.
pub const LEFT_UNMATCHED: Reveal = Reveal {
    name: "left_unmatched",
    to: Learner::Place(1),
    what: "how many rows of the left party have no partner, those with an empty key or a key of an earlier row included",
};

/// What the left party's rows of nulls cannot hide.
pub const RIGHT_UNMATCHED: Reveal = Reveal {
    name: "right_unmatched",
    to: Learner::Place(0),
    what: "how many rows of the right party have no partner, those with an empty key or a key of an earlier row included",
};

/// What a run that goes on, or does not, says by that.
pub const MINIMUM: Reveal = Reveal {
    name: "minimum",
    to: Learner::Everyone,
    what: "whether there are as many common keys as the job asks for at least",
};

/// The same where rows match by any of several identifiers: what is asked for is people.
pub const MINIMUM_OF_IDENTIFIERS: Reveal = Reveal {
    name: "minimum",
    to: Learner::Everyone,
    what: "for each learner, whether there are as many common identifiers, and as many of its rows with one of them, as the job asks for at least; where one party does not learn, whether as many times more are common as a row of its may have identifiers",
};

/// What no encryption hides.
pub const TRAFFIC: Reveal = Reveal {
    name: "traffic",
    to: Learner::Network,
    what: "how many bytes went each way, and when; the bytes follow from the key counts and from how the run ended",
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that organisations sign says what the program prints.
    #[test]
    fn the_page_to_sign_says_it_in_these_words() {
        let page = include_str!("../../../docs/src/security/data-protection.md");
        let told = [
            INTERSECTION,
            INTERSECTION_SIZE,
            INTERSECTION_SUM,
            INTERSECTION_SUM_OF_ALL,
            GROUP_TOTALS,
            GROUP_TOTALS_OF_BOTH,
        ];
        let of_identifiers =
            [INTERSECTION_OF_IDENTIFIERS, IDENTIFIER_COUNT, IDENTIFIERS, MINIMUM_OF_IDENTIFIERS, LINKS];
        for reveal in told
            .into_iter()
            .chain([INTERSECTION_SIZE_NOISY, GROUP_TOTALS_NOISY, KEY_COUNT, MINIMUM, MULTIPLICITY, TRAFFIC])
            .chain(of_identifiers)
            .chain([chosen_groups(0), chosen_groups_and_values(0), chosen_values(0)])
            .chain([chosen_values_by_group(0), chosen_values_by_pair(0), chosen_factors(0), chosen_pairs(0)])
        {
            let cell = format!("| {} |", reveal.what);
            assert!(page.contains(&cell), "the page lacks the words of {}: {}", reveal.name, reveal.what);
        }
    }
}
