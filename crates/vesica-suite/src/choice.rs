//! The words by which a job asks for a protocol.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vesica_psi::circuit::Products;

/// What a job says of its protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Its name.
    pub protocol: ProtocolName,
    /// What the learners get.
    pub result: ResultKind,
    /// What is saved.
    pub mode: Mode,
    /// Against whom it protects.
    pub security: Security,
    /// The group, where it works in one.
    pub curve: CurveName,
    /// Whose groups a result by group has, and how many.
    pub groups: Option<Grouping>,
    /// The sums of each of these, in the order that the circuit has them: those of the party with the groups come first.
    pub sums: Vec<Summed>,
    /// The place of the party whose values are added up, where two parties add some up.
    pub values: Option<u8>,
    /// How much noise the result has, where it has noise.
    pub dp: Option<Noise>,
    /// The least number of common keys that anything is told of.
    pub least: Option<u64>,
    /// The places of the parties that get the result.
    pub learners: Vec<u8>,
    /// How many parties there are.
    pub parties: usize,
    /// The place of the party that adds what the others send, where three and more trust it not to collude with the leader.
    pub pivot: Option<u8>,
    /// Whether the parties talk without TLS.
    pub insecure: bool,
}

impl Choice {
    /// Whether every party gets the result.
    pub fn all_learn(&self) -> bool {
        self.learners.len() == self.parties
    }

    /// Whether it protects against parties that deviate.
    pub fn malicious(&self) -> bool {
        self.security == Security::Malicious
    }
}

/// A sum of each group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summed {
    /// What it is called.
    pub name: String,
    /// The most that the rows of one key may come to, where there is a bound.
    pub largest: Option<u64>,
}

/// The groups of a job whose result is totals by group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grouping {
    /// The place of the party that has them, and the numbers that are added up.
    pub of: u8,
    /// How many groups there are at most.
    pub most: u32,
    /// Sums of each.
    pub sums: u32,
    /// How many of these are of the other party's values, alone or times the first one's.
    pub of_other: u32,
    /// And of these products of both parties' values, by the places that they have among the values of each: those that are told come first.
    pub products: Products,
    /// The number of common keys below which nothing is told of a group.
    pub least: u64,
    /// Groups that a key may be in.
    pub of_a_key: u32,
    /// Whether the parties agreed on what they are called, so that all of them are there, with keys or without.
    pub agreed: bool,
    /// Groups of the other party's, if each of the first one's is told with each of these.
    pub other: Option<OtherGrouping>,
}

/// Groups of the party that has not those of [`Grouping`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherGrouping {
    /// How many there are at most.
    pub most: u32,
    /// Whether the parties agreed on what they are called.
    pub agreed: bool,
}

impl Grouping {
    /// The most numbers that a job may have, over all groups: a count and the sums of each.
    pub const NUMBERS: u32 = 1024;

    /// The most groups of a key, as step 4 has them, for which values of the other party are multiplied.
    pub const FLAGS: u32 = 128;

    /// The most groups of the other party's.
    pub const OF_OTHER: u32 = 16;

    /// The most bits of factors for a key, over all products, and over the groups for which each is multiplied.
    pub const DIGITS: u32 = 256;

    /// The least number below which a job must accept that it tells of so few keys.
    pub const SMALL: u64 = 5;

    /// Whether there are groups like that.
    ///
    /// # Errors
    /// A refusal of the field of `shared.groups`.
    pub(crate) fn check(&self) -> Result<(), crate::Refusal> {
        let refusal = |field, why: String| Err(crate::Refusal { field, why });
        if let Some(other) = self.other.filter(|other| !(1..=Self::OF_OTHER).contains(&other.most)) {
            let why = format!(
                "{} groups of the party that shared.groups.of does not name; give 1 to {}, and name the party with more groups in shared.groups.of",
                other.most,
                Self::OF_OTHER
            );
            let field = if other.agreed { "shared.groups.other.labels" } else { "shared.groups.other.most" };
            return refusal(field, why);
        }
        let field = if self.agreed { "shared.groups.labels" } else { "shared.groups.most" };
        let of_other = self.other.map_or(1, |other| other.most);
        let numbers = (u64::from(self.most) * u64::from(of_other)).saturating_mul(u64::from(self.sums) + 1);
        if self.most == 0 || numbers > Self::NUMBERS.into() {
            let most = Self::NUMBERS / self.sums.saturating_add(1).min(Self::NUMBERS);
            let each = match self.other {
                None => String::new(),
                Some(_) => format!(", each with each of {of_other} of the other party's,"),
            };
            let most = match most / of_other {
                // One group would be too many as well.
                0 => String::new(),
                most => format!("give 1 to {most} groups, or "),
            };
            let why = format!(
                "{} groups{each} with {} sums are {numbers} numbers, and there may be from 1 to {}: {most}fewer {}",
                self.most,
                self.sums,
                Self::NUMBERS,
                if self.other.is_some() { "groups of the other party or fewer sums" } else { "sums" }
            );
            return refusal(field, why);
        }
        if self.least == 0 {
            let why = "0 keys leave no group out; the least is 1, which tells every group with a common key";
            return refusal("shared.groups.least", why.to_owned());
        }
        if !(1..=self.most).contains(&self.of_a_key) {
            let why = format!(
                "a key may be in {} groups; give 1 to {}, which is how many groups there are at most, or leave it out",
                self.of_a_key, self.most
            );
            return refusal("shared.groups.of_a_key", why);
        }
        if self.flags() > Self::FLAGS && self.other.is_some() {
            let why = format!(
                "{} groups, each with each of {of_other} of the other party's, are {}, for each of which a value of that party would be multiplied, and {} \
                 is the most: give fewer groups, or no sums of that party's values",
                self.most,
                self.flags(),
                Self::FLAGS
            );
            return refusal(field, why);
        }
        if self.flags() > Self::FLAGS {
            let why = format!(
                "with {} for {} groups, a value of the party without the groups would be multiplied {} times for each key, and {} is the most: \
                 agree on the number of groups that a key may be in, such as of_a_key = 1, or on fewer groups, or on fewer sums",
                self.of_a_key,
                self.most,
                self.flags(),
                Self::FLAGS
            );
            return refusal("shared.groups.of_a_key", why);
        }
        if self.digits() > Self::DIGITS {
            let bits = self.products.bits();
            let why = format!(
                "the products of shared.sums multiply {bits} bits of the values of the party with the groups, {} times for each key, and {} bits in \
                 all are the most: agree on of_a_key = 1, on fewer groups, on fewer products, or on a smaller largest of the factors of that party",
                self.digits() / bits.max(1),
                Self::DIGITS
            );
            return refusal("shared.groups.of_a_key", why);
        }
        Ok(())
    }
}

/// A protocol's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// Diffie-Hellman masking: the oldest and simplest; most arithmetic.
    #[default]
    Ecdh,
    /// The function of RFC 9497, which also serves many clients under one key: Diffie-Hellman, blinded by multiplication.
    #[serde(rename = "ecdh-oprf")]
    EcdhOprf,
    /// Vector OLE and an oblivious store (Raghuraman, Rindal 2022): by far the fastest, and the least traffic from some
    /// ten thousand keys on. Also for three to sixteen parties.
    Rr22,
    /// Oblivious transfer and cuckoo hashing (Kolesnikov, Kumaresan, Rosulek, Trieu 2016): fast, much traffic, and no
    /// assumption on codes.
    Kkrt,
    /// Oblivious transfer and an oblivious store (Pinkas, Rosulek, Trieu, Yanai 2020): less traffic than `kkrt`, no assumption on
    /// codes, and with `security = "malicious"` the only one that needs none against a party that cheats.
    Ot,
    /// Diffie-Hellman messages hidden in a polynomial or a store (Rosulek, Trieu 2021): less arithmetic and traffic than `ecdh` for
    /// one learner, and protects both parties from one that deviates.
    #[serde(rename = "mini-psi")]
    MiniPsi,
    /// Vector OLE and a polynomial for each bin of a table (Bui, Couteau 2022): near `rr22` in time, with twice the traffic. With
    /// `security = "malicious"` it is proven how many keys a receiver that cheats can test, whatever it computes.
    Bc22,
    /// Differentially private: some of the answers are untrue, so that no single key can be told from them. `shared.dp` says how many.
    Dp,
    /// Salted hashes, to measure what privacy costs: keys that can be guessed are readable by the other party, and the job
    /// must accept that by name.
    Hash,
}

/// What the parties that learn get.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResultKind {
    /// Their own rows whose keys all parties hold.
    #[default]
    Rows,
    /// How many keys all parties hold, and not which. With `ecdh` or `rr22`; between three to sixteen parties with `rr22` and a `pivot`.
    Count,
    /// The sum of the values (`mine.input.value`, of one party) of the rows whose keys both hold, and not which. With `rr22`.
    Sum,
    /// How many keys both hold in each group of one party's rows, and what their values add up to there (`shared.groups`, `shared.sums`); groups
    /// with few such keys are left out. With `rr22`.
    Groups,
    /// Shares of both: a file for each party, of which one alone says nothing, for whoever computes on. With `rr22`, where both learn.
    Shares,
    /// Each party's own rows, all of them, with an id beside each that is the same in both files exactly where the keys are. Nobody learns which
    /// keys are common, nor how many, before both files lie side by side. With `rr22`, where both learn.
    Ids,
}

vesica_types::words!(
    ResultKind {
        Rows = "rows",
        Count = "count",
        Sum = "sum",
        Groups = "groups",
        Shares = "shares",
        Ids = "ids",
    }
);

impl ResultKind {
    /// Whether a party may bring values for it.
    pub fn has_values(self) -> bool {
        matches!(self, ResultKind::Sum | ResultKind::Shares)
    }

    /// Whether a learner gets a table: rows of its own, or a row for each group.
    pub fn has_rows(self) -> bool {
        matches!(self, ResultKind::Rows | ResultKind::Groups | ResultKind::Ids)
    }

    /// Whether each party writes what its own units left, and nobody is told anything of what is common.
    pub fn each_has_its_own(self) -> bool {
        matches!(self, ResultKind::Shares | ResultKind::Ids)
    }
}

/// What is saved where one can choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Time.
    #[default]
    Fast,
    /// Traffic: a fifth less, for networks below some hundred megabits a second.
    LowComm,
}

vesica_types::words!(Mode { Fast = "fast", LowComm = "low-comm" });

/// Against whom a protocol protects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// A party that runs the program as it is and studies what it sees.
    #[default]
    SemiHonest,
    /// A party that does what it likes. With `rr22`, `ot`, `mini-psi` or `bc22`, and one party that learns.
    Malicious,
}

impl From<Security> for vesica_ot::Security {
    fn from(security: Security) -> Self {
        match security {
            Security::SemiHonest => Self::SemiHonest,
            Security::Malicious => Self::Malicious,
        }
    }
}

vesica_types::words!(Security { SemiHonest = "semi-honest", Malicious = "malicious" });

vesica_types::words!(
    ProtocolName {
        Ecdh = "ecdh",
        EcdhOprf = "ecdh-oprf",
        Rr22 = "rr22",
        Kkrt = "kkrt",
        Ot = "ot",
        MiniPsi = "mini-psi",
        Bc22 = "bc22",
        Dp = "dp",
        Hash = "hash",
    }
);

impl ProtocolName {
    /// Whether it works in the group of a curve that the job may choose.
    pub fn has_curve(self) -> bool {
        matches!(self, ProtocolName::Ecdh | ProtocolName::EcdhOprf | ProtocolName::Dp)
    }
}

/// How much noise a differentially private job has.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// What a run may tell about one key of either party: no outcome is more than e^epsilon times as probable with the key as without it.
    /// From 0.01 to 16. With `protocol = "dp"` an answer is untrue with probability 1/(1 + e^epsilon), which is 4.7 % for 3. A count by `rr22`
    /// with 1 is right within 3, 19 times in 20.
    pub epsilon: f64,
    /// The part of its keys that the party which learns takes, at random, as the published protocol does. That hides nothing where few
    /// keys are common. When absent, a pool of dummies hides how many are, and no key is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<f64>,
    /// For `result = "sum"`: the most that one key may add to the sum or take from it, from 1 to 2^48. A table in which the rows of a key come
    /// to more is refused. Noise grows with this number. With `result = "groups"` each of `shared.sums` has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<u64>,
}

impl Noise {
    /// Whether there is noise for this epsilon.
    ///
    /// # Errors
    /// A refusal of `shared.dp.epsilon`.
    pub(crate) fn check(&self) -> Result<(), crate::Refusal> {
        let range = vesica_params::dp::EPSILONS;
        if range.contains(&self.epsilon) {
            return Ok(());
        }
        let (least, most) = range.into_inner();
        let why =
            format!("{} is no epsilon that there is noise for; give a number from {least} to {most}", self.epsilon);
        Err(crate::Refusal { field: "shared.dp.epsilon", why })
    }
}

/// A curve's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CurveName {
    /// Curve25519: the default, and a good choice wherever no standard asks for another.
    #[default]
    Curve25519,
    /// ristretto255: the same curve as a group of prime order; the group of RFC 9497.
    Ristretto255,
    /// FourQ: the fastest, with about 122.5 bits of security instead of 125.8.
    FourQ,
    /// SM2: where Chinese standards ask for it.
    Sm2,
    /// secp256k1.
    Secp256k1,
    /// P-256: where NIST standards ask for it.
    P256,
}

vesica_types::words!(
    CurveName {
        Curve25519 = "curve25519",
        Ristretto255 = "ristretto255",
        FourQ = "fourq",
        Sm2 = "sm2",
        Secp256k1 = "secp256k1",
        P256 = "p256",
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::Schema;

    /// A name that is added to a type and not to its list would be missing where the list is shown.
    #[test]
    fn lists_of_names_are_whole() {
        let names = |of: Schema| {
            let told = serde_json::to_value(of).unwrap()["oneOf"].as_array().unwrap().clone();
            told.iter().map(|one| one["const"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let protocols: Vec<&str> = ProtocolName::ALL.iter().map(|one| one.name()).collect();
        let curves: Vec<&str> = CurveName::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names(schemars::schema_for!(ProtocolName)), protocols);
        assert_eq!(names(schemars::schema_for!(CurveName)), curves);
    }
}
