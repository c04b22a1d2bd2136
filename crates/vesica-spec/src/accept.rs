//! What a job may tell beyond the intersection, and how the parties say that they accept it.

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What the parties agree to tell each other beyond the intersection: `"all"`, or a list of names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Accept {
    /// Whatever the job tells.
    All(All),
    /// These.
    Named(Vec<Extra>),
}

/// Everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum All {
    /// Everything.
    All,
}

/// Something that some jobs tell beyond the intersection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// How many rows of the left table have no partner, told to the right party.
    LeftUnmatched,
    /// How many rows of the right table have no partner, told to the left party.
    RightUnmatched,
    /// Every key that can be guessed, told to whoever learns: what `protocol = "hash"` does not hide. Must be accepted by
    /// its name.
    GuessableKeys,
    /// How many keys two of three parties have in common, told to one of them: what `ecdh` for three parties does not hide. Must
    /// be accepted by its name.
    PairCount,
    /// How many of the keys that were taken at random are common, told to the party that does not learn: what `dp` with
    /// `shared.dp.sampling` does not hide where few keys are common. Must be accepted by its name.
    CountSampled,
    /// Which of their guesses at keys each other party holds, told to the leader and the pivot of a job with `shared.pivot` if these two
    /// put together what they saw. Must be accepted by its name.
    LeaderAndPivot,
    /// The totals of groups with fewer than five common keys, told to whoever learns: what `result = "groups"` with a lower
    /// `shared.groups.least` does not hide, unless `shared.dp` has an epsilon of 2.9 or less. Must be accepted by its name.
    SmallGroups,
    /// Which of many keys of its choice the other party holds, and with which values if `shared.sums` adds up or multiplies values of that
    /// party, told to the party with the groups if it learns and makes them up: what
    /// `result = "groups"` does not hide where `learns` names `shared.groups.of`, or any party if there is `shared.groups.other`, unless `shared.dp`
    /// has an epsilon of 2.9 or less. Must be accepted by its name.
    ChosenGroups,
    /// In which of the other party's groups many keys of its choice are, told to each party that learns and makes its own groups up: what
    /// `shared.groups.other` does not hide. Must be accepted by its name.
    ChosenPairs,
    /// Which of some 62 keys of its choice all other parties hold, told to the party with the values if it learns and makes them up: what
    /// `result = "sum"` without `shared.dp` does not hide where the party with the values learns. The same by group, where `result = "groups"`
    /// adds up values of a party that learns and has not the groups, unless `shared.dp` has an epsilon of 2.9 or less. Must be accepted by its name.
    ChosenValues,
    /// What the other party's values of keys of its choice are, told to the party without the groups if it learns and makes its factors up: what
    /// products in `shared.sums` do not hide. Must be accepted by its name.
    ChosenFactors,
    /// Which of the common identifiers the other party has in one row, told to both: what `match = "pairs"` and `"once"` do not hide. Must be
    /// accepted by its name.
    Links,
}

// The reveals in plans and reports are called so too.
vesica_types::words!(
    Extra {
        LeftUnmatched = "left_unmatched",
        RightUnmatched = "right_unmatched",
        GuessableKeys = "guessable_keys",
        PairCount = "pair_count",
        CountSampled = "count_sampled",
        LeaderAndPivot = "leader_and_pivot",
        SmallGroups = "small_groups",
        ChosenGroups = "chosen_groups",
        ChosenPairs = "chosen_pairs",
        ChosenValues = "chosen_values",
        ChosenFactors = "chosen_factors",
        Links = "links",
    }
);

impl Extra {
    /// Whether it must be accepted by its name: whoever accepts whatever a join tells has not accepted what a protocol does not hide.
    pub fn by_name(self) -> bool {
        !matches!(self, Extra::LeftUnmatched | Extra::RightUnmatched)
    }
}

impl Default for Accept {
    fn default() -> Self {
        Accept::Named(Vec::new())
    }
}

impl Accept {
    /// Whether `extra` is among what is accepted.
    pub fn covers(&self, extra: Extra) -> bool {
        match self {
            Accept::All(All::All) => !extra.by_name(),
            Accept::Named(names) => names.contains(&extra),
        }
    }
}

/// By hand, because serde's own way with alternatives forgets what was wrong.
impl<'de> Deserialize<'de> for Accept {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Accept;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\" or a list of names")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Accept, E> {
                All::deserialize(word.into_deserializer()).map(Accept::All)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Accept, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Accept::Named)
            }
        }

        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::parse::tests::JOB;

    #[test]
    fn what_is_accepted_is_all_or_a_list_of_names() {
        let accept = |value: &str| {
            parse(&JOB.replace("learns =", &format!("accept = {value}\nlearns ="))).map(|s| s.shared.accept)
        };
        let by_name = [
            Extra::GuessableKeys,
            Extra::PairCount,
            Extra::CountSampled,
            Extra::LeaderAndPivot,
            Extra::SmallGroups,
            Extra::ChosenGroups,
            Extra::ChosenPairs,
            Extra::ChosenValues,
            Extra::ChosenFactors,
            Extra::Links,
        ];
        assert!(Extra::ALL.iter().all(|e| accept("\"all\"").unwrap().covers(*e) != by_name.contains(e)));
        let one = accept("[\"left_unmatched\"]").unwrap();
        assert!(one.covers(Extra::LeftUnmatched) && !one.covers(Extra::RightUnmatched));
        for (wrong, near) in [("\"al\"", "all"), ("[\"left_unmached\"]", "left_unmatched")] {
            let error = accept(wrong).unwrap_err();
            assert!(error.message.ends_with(&format!("did you mean `{near}`?")), "{error}");
        }
        assert!(accept("7").unwrap_err().message.contains("\"all\" or a list of names"));
    }
}
