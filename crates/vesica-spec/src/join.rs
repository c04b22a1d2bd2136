//! The joins: what each holds, and to whom it means something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vesica_suite::ResultKind;
use vesica_types::Party;

/// Which rows the output holds, as SQL has it: a party's output is its half of the joined rows. Where both parties learn,
/// the two outputs line up row by row; a key with m rows on one side and n on the other gives m·n rows, and where a row
/// has no partner, the other output has a row of nulls. Where one party learns, it gets each of its own rows that the join
/// holds once, in the input's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// Rows whose key both have.
    #[default]
    Inner,
    /// Those, and the rest of the left table. Both parties must learn.
    Left,
    /// Those of `inner`, and the rest of the right table. Both parties must learn.
    Right,
    /// Those of `inner`, and the rest of both tables. Both parties must learn.
    Full,
    /// What `full` holds beyond `inner`: the rows of either table whose key the other does not have.
    Difference,
    /// Rows of the left table whose key the right has, once each. Only the left party can learn.
    Semi,
    /// Rows of the left table whose key the right does not have. Only the left party can learn.
    Anti,
}

vesica_types::words!(
    Join {
        Inner = "inner",
        Left = "left",
        Right = "right",
        Full = "full",
        Difference = "difference",
        Semi = "semi",
        Anti = "anti",
    }
);

/// Which rows a join holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Pairs of rows that have one key.
    pub pairs: bool,
    /// The rows of the left table that are in no pair: their key is not in the right table, or is empty.
    pub left: bool,
    /// The rows of the right table that are in no pair.
    pub right: bool,
}

/// A join from one party's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Half {
    /// Rows of mine that have a partner.
    pub pairs: bool,
    /// Rows of mine that have none.
    pub mine: bool,
    /// Rows of the peer's that have none: rows of nulls here.
    pub theirs: bool,
}

impl Join {
    /// What it holds.
    pub fn shape(self) -> Shape {
        let shape = |pairs, left, right| Shape { pairs, left, right };
        match self {
            Join::Inner | Join::Semi => shape(true, false, false),
            Join::Left => shape(true, true, false),
            Join::Right => shape(true, false, true),
            Join::Full => shape(true, true, true),
            Join::Difference => shape(false, true, true),
            Join::Anti => shape(false, true, false),
        }
    }
}

impl Shape {
    /// The half of the party at `place`.
    pub fn half(self, place: u8) -> Half {
        let (mine, theirs) = if place == 0 { (self.left, self.right) } else { (self.right, self.left) };
        Half { pairs: self.pairs, mine, theirs }
    }
}

/// Why `join` means nothing to those of the `parties` that are to learn it, if so, and what would.
pub fn objection(join: Join, result: ResultKind, parties: &[Party], learners: &[Party]) -> Option<String> {
    let name = join.name();
    if result != ResultKind::Rows {
        return (join != Join::Inner).then(|| {
            let gives = if result == ResultKind::Ids { "each party all of its own" } else { "none" };
            let result = result.name();
            format!("\"{name}\" is about rows, and shared.result = \"{result}\" gives {gives}: remove shared.join")
        });
    }
    let [left, right] = parties else {
        return (join != Join::Inner).then(|| {
            format!("\"{name}\" joins two tables; more than two parties can only have \"inner\", each its own rows whose keys all parties hold")
        });
    };
    if matches!(join, Join::Semi | Join::Anti) {
        let other = if join == Join::Semi { Join::Inner } else { Join::Difference }.name();
        return learners.contains(right).then(|| {
            format!(
                "\"{name}\" holds rows of {left} alone, the first of shared.parties, so only {left} can learn it: write \
                 learns = [\"{left}\"], or join = \"{other}\", which gives {right} such rows of its own table"
            )
        });
    }
    let [alone] = learners else { return None };
    let half = join.shape().half(alone.place());
    match (half.pairs, half.mine, half.theirs) {
        (true, true, _) => Some(format!(
            "where {alone} learns alone, its half of \"{name}\" is its whole table, which tells nothing: write join = \
             \"inner\" for its rows that match, or \"difference\" for those that do not"
        )),
        (true, false, true) => Some(format!(
            "where {alone} learns alone, its half of \"{name}\" is that of \"inner\" and rows of nulls: write join = \"inner\""
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_join_is_refused_where_it_means_nothing() {
        let parties = [Party::new(0, "alice"), Party::new(1, "bob")];
        let [alice, bob] = parties.each_ref().map(std::slice::from_ref);
        // Whether alice alone, bob alone, both may learn it.
        let cases = [
            (Join::Inner, [true, true, true]),
            (Join::Left, [false, false, true]),
            (Join::Right, [false, false, true]),
            (Join::Full, [false, false, true]),
            (Join::Difference, [true, true, true]),
            (Join::Semi, [true, false, false]),
            (Join::Anti, [true, false, false]),
        ];
        assert_eq!(cases.map(|(join, _)| join), Join::ALL);
        for (join, allowed) in cases {
            for (learners, allowed) in [alice, bob, &parties].into_iter().zip(allowed) {
                assert_eq!(
                    objection(join, ResultKind::Rows, &parties, learners).is_none(),
                    allowed,
                    "{join:?} for {learners:?}"
                );
            }
        }
        let words = objection(Join::Left, ResultKind::Rows, &parties, bob).unwrap();
        assert!(words.contains("bob learns alone") && words.ends_with("write join = \"inner\""), "{words}");
    }
}
