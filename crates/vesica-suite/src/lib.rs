//! All that the rest of the house must know of a protocol: its names, its parameter sets, what it reveals, what it takes, and
//! how a side of it is opened. One file a suite; [`find`] is the only place that knows all of them by name.

#![forbid(unsafe_code)]

mod bc22;
mod choice;
mod circuit;
mod count;
mod curve;
mod dp;
mod ecdh;
mod ecdh3;
mod ecdh_oprf;
pub mod function;
mod hash;
mod ids;
mod kkrt;
mod many;
mod mini;
mod oprf;
mod ot;
mod rr22;
mod tally;

pub use choice::{Choice, CurveName, Grouping, Mode, Noise, OtherGrouping, ProtocolName, ResultKind, Security, Summed};
use std::fmt;
pub use vesica_ot::Judge;
pub use vesica_psi::circuit::{Product, Products};
use vesica_psi::reveals;
use vesica_session::{Lines, Protocol, Reveal, SessionRng, Shared, Whole};
use vesica_types::{Coins, TagLen};

/// A protocol as a job may ask for it.
pub trait Suite: Send + Sync {
    /// Ids of the parameter sets that a job takes, whatever its sizes: the parties must have the same, or keys match nothing.
    fn sets(&self) -> Vec<&'static str>;

    /// What a run tells whom, beyond what the parties agree on in the open. Plan, agreement and report print these.
    fn reveals(&self) -> Vec<Reveal>;

    /// What has to be hard, in a few words; SECURITY.md says it in full.
    fn assumption(&self) -> &'static str;

    /// Bits of computational security.
    fn kappa(&self) -> u32 {
        self.curve().map_or(vesica_params::Level::STANDARD.kappa, |set| set.kappa)
    }

    /// The set of the curve, if the protocol works in the group of one.
    fn curve(&self) -> Option<&'static vesica_params::curve::CurveSet> {
        None
    }

    /// Whether it works unit by unit, or on all keys at once.
    fn cut(&self) -> Cut {
        Cut::Units
    }

    /// The length of a comparison tag for these padded keys of the whole job, by place. Every party must get the same length.
    fn tag_bytes(&self, keys: &[u64]) -> usize {
        let (more, fewer) = two_largest(keys);
        vesica_params::tag_bytes(more, fewer, vesica_params::Level::STANDARD)
    }

    /// What follows from the sizes, such as `code-width-448`: named in the report.
    fn sized(&self, _: &Sizes) -> Vec<String> {
        Vec::new()
    }

    /// How many keys a receiver that deviates can test, where the protocol protects against one and it can test more than it
    /// declared.
    fn guesses(&self, _: &Sizes) -> Vec<Guesses> {
        Vec::new()
    }

    /// What the result of a job of these sizes will be like, in sentences, where it is not simply right: how much of it is found, how much of
    /// what is found is wrong, and what that protects. Plan and report print them.
    fn expects(&self, _: &Sizes) -> Vec<String> {
        Vec::new()
    }

    /// The place of the party whose values are added up, where it must be this one.
    fn values(&self) -> Option<u8> {
        None
    }

    /// Whether all chance of a run comes from coins that are fixed when it begins, so that after a break the same noise is sent again: who
    /// saw two draws of it would see more than one hides.
    fn draws_once(&self) -> bool {
        false
    }

    /// Bytes of memory for each key, mine or the peer's, of a unit in flight: points, stores, values and their order. Measured, or
    /// added up from their sizes. Units are cut by it, so that every party must get the same number.
    fn memory(&self) -> u64;

    /// Keys of a unit on average, the most. Larger units waste less on padding and on what a unit takes whatever its size, and smaller ones
    /// stay in the second-level cache. Units are cut by it.
    fn most(&self) -> u64 {
        1 << 18
    }

    /// Bytes of memory that a unit in flight takes at a seat, where `window` bytes may be on their way over a line. Where it is not known better, it is
    /// what units are cut by.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    fn memory_of_unit(&self, _: &Seat, terms: &Terms, _window: u64) -> Result<u64, Error> {
        Ok(terms.sizes.capacities.iter().sum::<u64>() * self.memory())
    }

    /// Opens a side: the set-up that serves all units of a run.
    ///
    /// # Errors
    /// [`Error::TooLarge`] before anything is sent; those of the channel.
    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error>;
}

/// The parameter sets that it takes.
impl fmt::Debug for dyn Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Suite").field(&self.sets()).finish()
    }
}

/// How many keys a receiver that deviates can fit into a store, for each key that the unit has room for: those that it declared and their
/// padding, once in each answer.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Guesses {
    /// log2 of the keys that it hashes for one unit, in search of some that fit; nothing where the bound holds for any number.
    pub log_dictionary: Option<u32>,
    /// What fits at most, but for a chance of 2^-40; rounded up.
    pub of_a_key: f64,
}

impl Guesses {
    /// What fits into a store of so many slots of `bits` bits for `keys` keys.
    fn fitting(keys: u64, slots: u64, bits: u32) -> Vec<Self> {
        Self::of(keys, |log_d| vesica_params::okvs::most_fitting(slots as f64, bits, log_d))
    }

    /// What fits for `keys` keys, where it is a function of log2 of the keys that are hashed.
    fn of(keys: u64, most: impl Fn(f64) -> f64) -> Vec<Self> {
        if keys == 0 {
            return Vec::new();
        }
        let guesses = |log_dictionary: u32| {
            let log_d = f64::from(log_dictionary);
            let most = most(log_d).min(log_d.exp2());
            Self { log_dictionary: Some(log_dictionary), of_a_key: (most / keys as f64 * 100.0).ceil() / 100.0 }
        };
        [33, 64, 80].map(guesses).to_vec()
    }
}

/// The two largest of some numbers, the larger one first: tags of the two largest lists are those that meet most often.
pub fn two_largest(numbers: &[u64]) -> (u64, u64) {
    numbers.iter().fold((0, 0), |(more, fewer), &n| if n > more { (n, more) } else { (more, fewer.max(n)) })
}

/// Whether a protocol works unit by unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// A unit at a time, many at once, each padded to a public size: what was finished need not be done again.
    Units,
    /// On all keys at once, because a number that it tells must be one for the whole job: it begins anew after a break.
    Whole,
    /// A unit at a time, many at once, each of which leaves shares that are opened together at the end: it begins anew after a break,
    /// because shares of two attempts do not go together.
    Shares,
}

vesica_types::words!(Cut { Units = "units", Whole = "whole", Shares = "shares" });

impl Cut {
    /// Whether all that was done is done again after a break.
    pub fn begins_anew(self) -> bool {
        self != Cut::Units
    }
}

/// A side of a protocol, opened.
pub enum Opened {
    /// One that works unit by unit.
    Units(Box<dyn Protocol>),
    /// One that works on all keys at once.
    Whole(Box<dyn Whole>),
    /// One whose units leave shares.
    Shares(Box<dyn Shared>),
}

impl<P: Protocol + 'static> From<P> for Opened {
    fn from(protocol: P) -> Self {
        Opened::Units(Box::new(protocol))
    }
}

/// Who opens a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// This party's place in the job.
    pub place: u8,
    /// Whether it gets the result.
    pub learns: bool,
}

/// The sizes that follow from the parties' key counts; the same numbers on every side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Distinct keys of each party, by its place.
    pub keys: Vec<u64>,
    /// Units.
    pub units: u32,
    /// Units in flight at once.
    pub in_flight: u32,
    /// Keys of each party in a unit, padded, by its place.
    pub capacities: Vec<u64>,
    /// Length of a comparison tag.
    pub tag_len: TagLen,
}

impl Sizes {
    /// Keys in a unit of the party at `place`, padded.
    pub fn capacity(&self, place: u8) -> u64 {
        self.capacities[usize::from(place)]
    }

    /// Keys in all units of the party at `place`, padded.
    pub fn padded(&self, place: u8) -> u64 {
        self.capacity(place).saturating_mul(self.units.into())
    }
}

/// What the parties of a run agreed on.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The jointly tossed salt, which names the run.
    pub salt: [u8; 32],
    /// The sizes.
    pub sizes: Sizes,
    /// The place of the party that has values, where one has.
    pub values: Option<u8>,
    /// This party's own secret, from which noise is drawn: another in each run, and after a break the same.
    pub coins: Coins,
    /// Ends the checks of all that is opened on these terms, a lane's and another one's: a wrong guess in one of them ends them all.
    pub judge: Judge,
}

/// Why a side could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A unit with more keys than the protocol can take.
    #[error("units of {keys} keys are too large for {protocol}; give a smaller shared.unit, or leave it out")]
    TooLarge {
        /// The receiver's keys of a unit.
        keys: u64,
        /// The protocol.
        protocol: &'static str,
    },
    /// The channel, or the peer.
    #[error("{0}")]
    Session(#[from] vesica_session::Error),
}

/// Why a job cannot have the protocol that it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The field of the shared document that asks for too much.
    pub field: &'static str,
    /// Why, and what to do.
    pub why: String,
}

/// The suite that a job asks for.
///
/// # Errors
/// What the protocol does not do.
pub fn find(choice: &Choice) -> Result<Box<dyn Suite>, Refusal> {
    refuse(choice)?;
    Ok(match choice.protocol {
        ProtocolName::Ecdh if choice.result == ResultKind::Count => count::suite(choice),
        ProtocolName::Ecdh if choice.parties == 3 => ecdh3::suite(choice),
        ProtocolName::Ecdh => ecdh::suite(choice),
        ProtocolName::EcdhOprf => ecdh_oprf::suite(choice),
        ProtocolName::Rr22 if choice.parties > 2 && choice.result != ResultKind::Rows => {
            Box::new(tally::Tally::new(choice)?)
        }
        ProtocolName::Rr22 if choice.parties > 2 => Box::new(many::Many::new(choice)),
        ProtocolName::Rr22 if choice.result == ResultKind::Ids => Box::new(ids::Ids::new(choice)?),
        ProtocolName::Rr22 if choice.result != ResultKind::Rows => Box::new(circuit::Circuit::new(choice)?),
        ProtocolName::Rr22 => Box::new(rr22::Rr22::new(choice)),
        ProtocolName::Kkrt => Box::new(kkrt::Kkrt::new(choice)),
        ProtocolName::Ot => Box::new(ot::Ot::new(choice)),
        ProtocolName::MiniPsi => Box::new(mini::MiniPsi::new(choice)),
        ProtocolName::Bc22 => Box::new(bc22::Bc22::new(choice)),
        ProtocolName::Dp => dp::suite(choice, dp::noise(choice)?),
        ProtocolName::Hash => Box::new(hash::Hash::new(choice)),
    })
}

/// Every way to get what `choice` asks for: the same result for the same parties, by whichever protocol.
pub fn choices(choice: &Choice) -> Vec<Choice> {
    let mut all = Vec::new();
    for &protocol in ProtocolName::ALL {
        for &mode in Mode::ALL {
            for &security in Security::ALL {
                let curve = if protocol.has_curve() { choice.curve } else { CurveName::default() };
                for pivot in [None, many::pivot(choice)] {
                    all.push(Choice { protocol, mode, security, curve, pivot, ..choice.clone() });
                }
            }
        }
    }
    all.dedup();
    all.retain(|choice| find(choice).is_ok());
    all
}

/// Whether noise hides each key also from a learner that chose what is counted or added up. By group that is hundreds of numbers, each of which it
/// may have made about a key of its own.
pub(crate) fn hides(choice: &Choice) -> bool {
    let hides = |epsilon| choice.result != ResultKind::Groups || epsilon <= vesica_params::dp::HIDES;
    choice.dp.is_some_and(|dp| hides(dp.epsilon))
}

/// What a total tells its learner besides, if that is the party which made what is added up, or counted by group. Noise bounds it by its ε,
/// whatever is made up.
fn chosen(choice: &Choice, owner: Option<u8>) -> Option<Reveal> {
    let owner = owner.filter(|owner| choice.learners.contains(owner) && !hides(choice))?;
    match choice.result {
        ResultKind::Groups if choice.groups.is_some_and(|groups| groups.of_other > 0) => {
            Some(reveals::chosen_groups_and_values(owner))
        }
        ResultKind::Groups => Some(reveals::chosen_groups(owner)),
        ResultKind::Sum => Some(reveals::chosen_values(owner)),
        _ => None,
    }
}

/// The same of the party without the groups, or with others: if it has groups too, or if its values are added up in those of the first one. And where both
/// have groups, what each of them that learns can read of the other's.
fn chosen_by_group(choice: &Choice, groups: &Grouping) -> Vec<Reveal> {
    if hides(choice) {
        return Vec::new();
    }
    let learners = choice.learners.iter().copied();
    let of = |learner| {
        let (other, both) = (learner != groups.of, groups.other.is_some());
        let values = other && groups.of_other > 0;
        // Of the first one's values, alone or in products.
        let adds_up_theirs = groups.sums > groups.of_other || groups.products.count() > 0;
        let own = (other && both).then(|| match adds_up_theirs {
            true => reveals::chosen_groups_and_values(learner),
            false => reveals::chosen_groups(learner),
        });
        let values_of = values.then(|| match both {
            true => reveals::chosen_values_by_pair(learner),
            false => reveals::chosen_values_by_group(learner),
        });
        let factors = (values && groups.products.count() > 0).then(|| reveals::chosen_factors(learner));
        let pairs = both.then(|| reveals::chosen_pairs(learner));
        [own, values_of, factors, pairs].into_iter().flatten()
    };
    learners.flat_map(of).collect()
}

/// Refuses what a job asks for and its protocol does not have.
fn refuse(choice: &Choice) -> Result<(), Refusal> {
    let name = choice.protocol.name();
    let refusal = |field, why| Err(Refusal { field, why });
    let rr22 = choice.protocol == ProtocolName::Rr22;
    let malicious = choice.malicious();
    let against_deviation = [ProtocolName::Rr22, ProtocolName::Ot, ProtocolName::MiniPsi, ProtocolName::Bc22];
    if malicious && !against_deviation.contains(&choice.protocol) {
        let why = format!(
            "\"{name}\" is semi-honest; take protocol = \"rr22\", \"ot\", \"mini-psi\" or \"bc22\" against parties that may \
             deviate"
        );
        return refusal("shared.security", why);
    }
    if choice.mode != Mode::default() && !rr22 {
        let why = format!("\"{}\" is of use only with protocol = \"rr22\"; remove it", choice.mode.name());
        return refusal("shared.mode", why);
    }
    if choice.curve != CurveName::default() && !choice.protocol.has_curve() {
        let why = format!(
            "\"{}\" is of use only with protocol = \"ecdh\", \"ecdh-oprf\" or \"dp\"; remove it",
            choice.curve.name()
        );
        return refusal("shared.curve", why);
    }
    let totals = [ResultKind::Count, ResultKind::Sum, ResultKind::Groups];
    let noisy_total = rr22 && choice.parties == 2 && totals.contains(&choice.result);
    if choice.dp.is_some() && choice.protocol != ProtocolName::Dp && !noisy_total {
        let why = format!(
            "is of use only with protocol = \"dp\", and with protocol = \"rr22\" for a count, a sum or groups of two parties; what \"{name}\" is \
             asked for here has no noise: remove it"
        );
        return refusal("shared.dp", why);
    }
    match (choice.result == ResultKind::Groups, choice.groups) {
        (true, None) => {
            let why = "is missing: say whose groups they are, what they are called by and how many there are at most, such as groups = { of = \"alice\", \
                       by = [\"region\"], most = 16 }";
            return refusal("shared.groups", why.to_owned());
        }
        (false, Some(_)) => {
            let why = "is of use only with result = \"groups\"; remove it";
            return refusal("shared.groups", why.to_owned());
        }
        _ => {}
    }
    if choice.pivot.is_some() && !(rr22 && choice.parties > 2) {
        let why = "is of use only with protocol = \"rr22\" and three or more parties; remove it";
        return refusal("shared.pivot", why.to_owned());
    }
    if choice.parties > 2 {
        several(choice)?;
    }
    let totals = match choice.result {
        ResultKind::Rows => true,
        ResultKind::Count => rr22 || choice.protocol == ProtocolName::Ecdh,
        ResultKind::Sum | ResultKind::Groups | ResultKind::Shares | ResultKind::Ids => rr22,
    };
    if !totals {
        let (what, take) = match choice.result {
            ResultKind::Sum => ("cannot add up values", "take protocol = \"rr22\" for a sum"),
            ResultKind::Groups => ("has no totals by group", "take protocol = \"rr22\" for groups"),
            ResultKind::Shares => ("leaves no shares", "take protocol = \"rr22\" for shares"),
            ResultKind::Ids => ("gives no ids", "take protocol = \"rr22\" for ids"),
            _ => ("cannot count them only", "take protocol = \"rr22\" or protocol = \"ecdh\" to count"),
        };
        return refusal("shared.result", format!("\"{name}\" finds which keys are common, and {what}; {take}"));
    }
    if rr22 && choice.result != ResultKind::Rows {
        let result = choice.result.name();
        if malicious {
            let why = match choice.result {
                ResultKind::Ids => "nothing bounds what a party that deviates learns with the other's file in its hands: it can test any number of keys, \
                                    and it can make single keys match nothing. Agree on security = \"semi-honest\", and give your file to no \
                                    partner that you do not trust to have followed the program"
                    .to_owned(),
                _ => format!(
                    "a party that deviates can change a result of {result} and learn of single keys by it; agree on security = \"semi-honest\""
                ),
            };
            return refusal("shared.security", why);
        }
        if choice.result.each_has_its_own() && !choice.all_learn() {
            let why = format!("{result} are for both parties, each of which gets its own: name both");
            return refusal("shared.learns", why);
        }
        if choice.mode != Mode::default() && choice.result != ResultKind::Ids {
            let why = format!("with result = \"{result}\" there is one mode; remove it");
            return refusal("shared.mode", why);
        }
        choice.groups.map_or(Ok(()), |groups| groups.check())?;
        if choice.least.is_some() && choice.groups.is_some_and(|groups| groups.other.is_some()) {
            let why = "with groups of both parties keys are counted in each group of one with each of the other, and not all together; remove it, and give \
                       shared.groups.least";
            return refusal("shared.limits.min_intersection", why.to_owned());
        }
    }
    if choice.protocol == ProtocolName::MiniPsi && choice.learners.len() > 1 {
        let why = "with \"mini-psi\" only one can learn; name one, or take protocol = \"ecdh\"";
        return refusal("shared.learns", why.to_owned());
    }
    if malicious && choice.learners.len() > 1 {
        let why = "against parties that may deviate only one can learn: nothing would make the learner tell the other the \
                   truth; name one, or agree on security = \"semi-honest\"";
        return refusal("shared.learns", why.to_owned());
    }
    Ok(())
}

/// Refuses what a job of three and more parties asks for and its protocol does not have.
fn several(choice: &Choice) -> Result<(), Refusal> {
    let (name, parties) = (choice.protocol.name(), choice.parties);
    let refusal = |field, why| Err(Refusal { field, why });
    match choice.protocol {
        ProtocolName::Rr22 => many::refuse(choice)?,
        ProtocolName::Ecdh if parties == 3 => {
            if choice.learners.len() == 2 {
                let why = "of three parties one learns or all do with \"ecdh\"; name one party, or all, or take protocol = \"rr22\"";
                return refusal("shared.learns", why.to_owned());
            }
        }
        ProtocolName::Ecdh => {
            let why = format!("\"ecdh\" is for two parties or three; take protocol = \"rr22\" for {parties}");
            return refusal("shared.parties", why);
        }
        _ => {
            let why = format!("\"{name}\" is for two parties; take protocol = \"rr22\" for {parties}");
            return refusal("shared.parties", why);
        }
    }
    if choice.malicious() {
        let why = "no protocol for three and more parties protects against one that deviates; agree on security = \"semi-honest\", or \
                   take two parties";
        return refusal("shared.security", why.to_owned());
    }
    match (choice.protocol, choice.result) {
        (_, ResultKind::Rows) | (ProtocolName::Rr22, ResultKind::Count | ResultKind::Sum) => Ok(()),
        (_, ResultKind::Count | ResultKind::Sum) => {
            let why = "of three and more parties takes protocol = \"rr22\" and a shared.pivot; write these, or take result = \"rows\", or two \
                       parties";
            refusal("shared.result", format!("a {} {why}", choice.result.name()))
        }
        _ => {
            let why = "groups, shares and ids are for two parties only; take result = \"rows\", \"count\" or \"sum\", or two parties";
            refusal("shared.result", why.to_owned())
        }
    }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use vesica_session::memory::{Memories, mesh};
    use vesica_session::{Fault, Found, Learner, List};
    use vesica_testkit::{Attack, Hostile, digests, fixed_rng, two_with};
    use vesica_types::{Digest, Party};

    /// A job of `parties` parties of which these learn.
    fn choice(protocol: ProtocolName, parties: usize, learners: &[u8]) -> Choice {
        Choice {
            protocol,
            result: ResultKind::default(),
            mode: Mode::default(),
            security: Security::default(),
            curve: CurveName::default(),
            least: None,
            groups: None,
            sums: Vec::new(),
            values: None,
            dp: (protocol == ProtocolName::Dp).then_some(Noise { epsilon: 3.0, sampling: None, largest: None }),
            learners: learners.to_vec(),
            parties,
            pivot: None,
            insecure: false,
        }
    }

    /// Which field a choice is refused for, and that it says what to do.
    fn refused(choice: &Choice, remedy: &str) -> &'static str {
        let refusal = find(choice).expect_err("it is refused");
        assert!(refusal.why.contains(remedy), "{}", refusal.why);
        refusal.field
    }

    #[test]
    fn a_count_is_refused_where_the_protocol_names_keys() {
        for &protocol in ProtocolName::ALL {
            let count = Choice { result: ResultKind::Count, ..choice(protocol, 2, &[0]) };
            match protocol {
                ProtocolName::Ecdh | ProtocolName::Rr22 => assert!(find(&count).is_ok()),
                _ => assert_eq!(refused(&count, "protocol = \"ecdh\""), "shared.result"),
            }
            for result in [ResultKind::Sum, ResultKind::Shares, ResultKind::Ids] {
                let other = Choice { result, ..choice(protocol, 2, &[0, 1]) };
                match protocol {
                    ProtocolName::Rr22 => assert!(find(&other).is_ok()),
                    _ => assert_eq!(refused(&other, "protocol = \"rr22\""), "shared.result"),
                }
            }
        }
    }

    #[test]
    fn totals_of_rr22_are_semi_honest_and_have_one_mode() {
        let alone = Choice { result: ResultKind::Shares, ..choice(ProtocolName::Rr22, 2, &[1]) };
        assert_eq!(refused(&alone, "name both"), "shared.learns");
        for result in [ResultKind::Count, ResultKind::Sum, ResultKind::Shares] {
            let total = Choice { result, ..choice(ProtocolName::Rr22, 2, &[0, 1]) };
            assert_eq!(find(&total).unwrap().cut(), Cut::Shares);
            let malicious = Choice { security: Security::Malicious, ..total.clone() };
            assert_eq!(refused(&malicious, "semi-honest"), "shared.security");
            assert_eq!(refused(&Choice { mode: Mode::LowComm, ..total }, "one mode"), "shared.mode");
        }
    }

    /// Ids have both modes of the function that they are made by, and none of what would tell something of the intersection.
    #[test]
    fn ids_are_for_both_and_tell_nothing_of_what_is_common() {
        let ids = Choice { result: ResultKind::Ids, ..choice(ProtocolName::Rr22, 2, &[0, 1]) };
        for mode in [Mode::Fast, Mode::LowComm] {
            let suite = find(&Choice { mode, ..ids.clone() }).unwrap();
            let told: Vec<_> = suite.reveals().iter().map(|reveal| (reveal.name, reveal.to)).collect();
            assert_eq!(told, [("ids_together", Learner::Together(0, 1)), ("key_count", Learner::Everyone)]);
            assert_eq!(suite.cut(), Cut::Shares);
        }
        assert_eq!(refused(&Choice { learners: vec![1], ..ids.clone() }, "name both"), "shared.learns");
        let malicious = Choice { security: Security::Malicious, ..ids.clone() };
        assert_eq!(refused(&malicious, "semi-honest"), "shared.security");
        let least = Choice { least: Some(10), ..ids.clone() };
        assert_eq!(refused(&least, "remove it"), "shared.limits.min_intersection");
        let noise = Some(Noise { epsilon: 1.0, sampling: None, largest: None });
        assert_eq!(refused(&Choice { dp: noise, ..ids.clone() }, "remove it"), "shared.dp");
        let three = Choice { parties: 3, learners: vec![0, 1, 2], ..ids };
        assert_eq!(refused(&three, "two parties"), "shared.result");
    }

    #[test]
    fn groups_are_of_rr22_and_bounded() {
        let of = |groups| Choice { result: ResultKind::Groups, groups, ..choice(ProtocolName::Rr22, 2, &[0, 1]) };
        let (products, other) = (Products::NONE, None);
        let grouping =
            Grouping { of: 1, most: 64, sums: 1, of_other: 0, products, least: 50, of_a_key: 64, agreed: false, other };
        let with = |grouping| of(Some(grouping));
        assert_eq!(find(&with(grouping)).unwrap().cut(), Cut::Shares);
        assert_eq!(refused(&of(None), "by = "), "shared.groups");
        let sum = Choice { result: ResultKind::Sum, ..with(grouping) };
        assert_eq!(refused(&sum, "remove it"), "shared.groups");
        for &protocol in ProtocolName::ALL.iter().filter(|&&protocol| protocol != ProtocolName::Rr22) {
            let other = Choice { groups: Some(grouping), result: ResultKind::Groups, ..choice(protocol, 2, &[0, 1]) };
            assert_eq!(refused(&other, "protocol = \"rr22\""), "shared.result");
        }
        for (most, sums) in [(0, 1), (513, 1), (1025, 0), (1, 1024), (u32::MAX, u32::MAX)] {
            let refusal = refused(&with(Grouping { most, sums, ..grouping }), "from 1 to 1024");
            assert_eq!(refusal, "shared.groups.most", "{most} {sums}");
        }
        for (most, sums) in [(1, 0), (512, 1), (1024, 0), (1, 1023)] {
            assert!(find(&with(Grouping { most, sums, of_a_key: 1, ..grouping })).is_ok());
        }
        assert_eq!(refused(&with(Grouping { least: 0, ..grouping }), "the least is 1"), "shared.groups.least");
        for of_a_key in [0, 65] {
            assert_eq!(refused(&with(Grouping { of_a_key, ..grouping }), "give 1 to 64"), "shared.groups.of_a_key");
        }
        let noisy = Choice { dp: Some(Noise { epsilon: 1.0, sampling: None, largest: None }), ..with(grouping) };
        assert_eq!(refused(&noisy, "labels = "), "shared.groups.labels");
        let malicious = Choice { security: Security::Malicious, ..with(grouping) };
        assert_eq!(refused(&malicious, "semi-honest"), "shared.security");
        let three =
            Choice { groups: Some(grouping), result: ResultKind::Groups, ..choice(ProtocolName::Rr22, 3, &[0]) };
        assert_eq!(refused(&three, "two parties"), "shared.result");
        // Few keys say much of each of them, which must be agreed to by name.
        let small = |least| {
            let reveals = find(&with(Grouping { least, ..grouping })).unwrap().reveals();
            reveals.iter().any(|reveal| reveal.name == "small_groups")
        };
        assert!(small(1) && small(4) && !small(5) && !small(50));
        // Whoever has the groups and learns can choose them so that they say of many keys whether these are common.
        for (learners, chosen) in [(&[0, 1][..], true), (&[1], true), (&[0], false)] {
            let choice = Choice { learners: learners.to_vec(), ..with(grouping) };
            let reveals = find(&choice).unwrap().reveals();
            let told: Vec<Learner> = reveals.iter().filter(|r| r.name == "chosen_groups").map(|r| r.to).collect();
            assert!(reveals.iter().all(|reveal| reveal.name != "chosen_values"));
            assert_eq!(told, if chosen { vec![Learner::Place(1)] } else { vec![] });
        }
        // Whoever has values and not the groups can choose these.
        let both = Grouping { sums: 2, of_other: 1, ..grouping };
        let [of_groups, of_values] = [("chosen_groups", Learner::Place(1)), ("chosen_values", Learner::Place(0))];
        for (learners, want) in
            [(&[0, 1][..], vec![of_groups, of_values]), (&[1], vec![of_groups]), (&[0], vec![of_values])]
        {
            let reveals = find(&Choice { learners: learners.to_vec(), ..with(both) }).unwrap().reveals();
            let chosen = reveals.iter().filter(|reveal| reveal.name.starts_with("chosen_"));
            assert_eq!(chosen.map(|reveal| (reveal.name, reveal.to)).collect::<Vec<_>>(), want);
        }
        // Its values are not multiplied too often, which a key in one group never makes them.
        let many = Grouping { most: 129, of_a_key: 129, ..both };
        assert_eq!(refused(&with(many), "128 is the most"), "shared.groups.of_a_key");
        assert!(find(&with(Grouping { most: 128, of_a_key: 128, ..both })).is_ok());
        for (most, sums) in (1..=512).flat_map(|most| (1..1024 / most).map(move |sums| (most, sums))) {
            for of_other in [1, sums / 2, sums] {
                let one = Grouping { most, sums, of_other, of_a_key: 1, ..grouping };
                assert!(one.check().is_ok(), "{most} {sums} {of_other}");
            }
        }
    }

    /// Groups of both parties are bounded all together, and each party that learns can choose its own.
    #[test]
    fn groups_of_both_are_bounded_and_can_be_chosen() {
        let of = |most, most_of_other, [sums, of_other]: [u32; 2]| {
            let (products, other) = (Products::NONE, Some(OtherGrouping { most: most_of_other, agreed: false }));
            let grouping =
                Grouping { of: 1, most, sums, of_other, products, least: 50, of_a_key: 1, agreed: false, other };
            let rr22 = choice(ProtocolName::Rr22, 2, &[0, 1]);
            Choice { result: ResultKind::Groups, groups: Some(grouping), ..rr22 }
        };
        for (most, most_of_other, sums) in [(64, 16, [0, 0]), (512, 1, [1, 0]), (10, 10, [9, 0]), (8, 16, [7, 7])] {
            assert!(find(&of(most, most_of_other, sums)).is_ok());
        }
        for (most, most_of_other, sums) in [(65, 16, 0), (103, 10, 0), (512, 2, 1), (u32::MAX, 16, u32::MAX)] {
            assert_eq!(refused(&of(most, most_of_other, [sums, 0]), "fewer groups"), "shared.groups.most");
        }
        assert_eq!(refused(&of(2, 17, [0, 0]), "name the party with more groups"), "shared.groups.other.most");
        assert_eq!(refused(&of(2, 0, [0, 0]), "give 1 to 16"), "shared.groups.other.most");
        // A value of the other party is multiplied for each of the first one's groups with each of its own.
        assert_eq!(refused(&of(9, 16, [1, 1]), "128 is the most"), "shared.groups.most");
        let least = Choice { least: Some(10), ..of(4, 4, [1, 0]) };
        assert_eq!(refused(&least, "shared.groups.least"), "shared.limits.min_intersection");
        let (groups, and_values) = (reveals::chosen_groups, reveals::chosen_groups_and_values);
        for (sums, want) in [
            ([0, 0], [vec![groups(0), reveals::chosen_pairs(0)], vec![groups(1), reveals::chosen_pairs(1)]]),
            ([1, 0], [vec![and_values(0), reveals::chosen_pairs(0)], vec![groups(1), reveals::chosen_pairs(1)]]),
            (
                [1, 1],
                [
                    vec![groups(0), reveals::chosen_values_by_pair(0), reveals::chosen_pairs(0)],
                    vec![and_values(1), reveals::chosen_pairs(1)],
                ],
            ),
        ] {
            for learners in [&[0, 1][..], &[1], &[0]] {
                let reveals = find(&Choice { learners: learners.to_vec(), ..of(4, 4, sums) }).unwrap().reveals();
                assert!(reveals.contains(&reveals::GROUP_TOTALS_OF_BOTH));
                for place in [0, 1] {
                    let of_place = |reveal: &&Reveal| {
                        reveal.name.starts_with("chosen_") && reveal.to == Learner::Place(place as u8)
                    };
                    let told: Vec<Reveal> = reveals.iter().filter(of_place).copied().collect();
                    let want = if learners.contains(&(place as u8)) { want[place].clone() } else { Vec::new() };
                    assert_eq!(told, want, "{sums:?} {learners:?}");
                }
            }
        }
    }

    /// Whoever has one factor of a product and learns can make it up, and read the other one's.
    #[test]
    fn products_are_bounded_and_their_factors_can_be_chosen() {
        let of = |bits, most, of_a_key, count| {
            let products = Products::new(&vec![Product { of_r: 0, of_s: 0, bits }; count], [1, 1]).unwrap();
            let count = count as u32;
            let grouping = Grouping {
                of: 1,
                most,
                sums: count,
                of_other: count,
                products,
                least: 50,
                of_a_key,
                agreed: false,
                other: None,
            };
            let rr22 = choice(ProtocolName::Rr22, 2, &[0, 1]);
            Choice { result: ResultKind::Groups, groups: Some(grouping), ..rr22 }
        };
        // Of a key in one group, in any of few, and by trees.
        for (bits, most, of_a_key, count) in [(63, 100, 1, 4), (32, 8, 8, 1), (32, 8, 3, 1), (16, 100, 2, 8)] {
            assert!(find(&of(bits, most, of_a_key, count)).is_ok(), "{bits} {most} {of_a_key}");
        }
        for (bits, most, of_a_key, count) in [(33, 8, 8, 1), (52, 100, 1, 5), (16, 100, 3, 8)] {
            let refusal = refused(&of(bits, most, of_a_key, count), "256 bits in all are the most");
            assert_eq!(refusal, "shared.groups.of_a_key", "{bits} {most} {of_a_key}");
        }
        for (learners, want) in [(&[0, 1][..], &[1, 0][..]), (&[1], &[1]), (&[0], &[0])] {
            let reveals = find(&Choice { learners: learners.to_vec(), ..of(10, 4, 1, 1) }).unwrap().reveals();
            let chosen: Vec<Reveal> = reveals.into_iter().filter(|reveal| reveal.name.starts_with("chosen_")).collect();
            let of_place = |place| match place {
                1 => vec![reveals::chosen_groups_and_values(1)],
                _ => vec![reveals::chosen_values_by_group(0), reveals::chosen_factors(0)],
            };
            assert_eq!(chosen, want.iter().flat_map(|&place| of_place(place)).collect::<Vec<_>>());
        }
    }

    /// Whoever has the values of a sum and learns it can make them up, two parties or more. Noise bounds what they would say.
    #[test]
    fn values_that_their_learner_can_choose_are_accepted_by_name() {
        let chosen = |choice: &Choice| -> Vec<Learner> {
            let reveals = find(choice).unwrap().reveals();
            reveals.iter().filter(|r| r.name == "chosen_values").map(|r| r.to).collect()
        };
        for (learners, owner) in [(&[0, 1][..], 1), (&[0, 1], 0), (&[1], 1), (&[0], 1)] {
            let of = |result, dp| Choice { result, dp, values: Some(owner), ..choice(ProtocolName::Rr22, 2, learners) };
            let told = if learners.contains(&owner) { vec![Learner::Place(owner)] } else { vec![] };
            assert_eq!(chosen(&of(ResultKind::Sum, None)), told);
            let noise = Noise { epsilon: 1.0, sampling: None, largest: Some(9) };
            assert_eq!(chosen(&of(ResultKind::Sum, Some(noise))), []);
            assert_eq!(chosen(&Choice { values: None, ..of(ResultKind::Count, None) }), []);
        }
        // Of many the leader has the values, and learns.
        for (result, told) in [(ResultKind::Sum, vec![Learner::Place(2)]), (ResultKind::Count, vec![])] {
            let many = Choice { result, pivot: Some(1), ..choice(ProtocolName::Rr22, 4, &[1, 2, 3]) };
            assert_eq!(chosen(&many), told);
        }
    }

    #[test]
    fn noise_on_a_total_needs_an_epsilon_and_a_sum_a_bound() {
        let noisy = |result, epsilon, sampling, largest| Choice {
            result,
            dp: Some(Noise { epsilon, sampling, largest }),
            ..choice(ProtocolName::Rr22, 2, &[0, 1])
        };
        let (count, sum) = (ResultKind::Count, ResultKind::Sum);
        assert!(find(&noisy(count, 1.0, None, None)).is_ok() && find(&noisy(sum, 1.0, None, Some(500))).is_ok());
        assert_eq!(refused(&noisy(count, 17.0, None, None), "0.01 to 16"), "shared.dp.epsilon");
        assert_eq!(refused(&noisy(count, 1.0, Some(0.5), None), "remove it"), "shared.dp.sampling");
        assert_eq!(refused(&noisy(count, 1.0, None, Some(9)), "remove it"), "shared.dp.largest");
        assert_eq!(refused(&noisy(sum, 1.0, None, None), "largest = "), "shared.dp.largest");
        assert_eq!(refused(&noisy(sum, 1.0, None, Some(0)), "from 1 to"), "shared.dp.largest");
        assert_eq!(refused(&noisy(sum, 1.0, None, Some((1 << 48) + 1)), "from 1 to"), "shared.dp.largest");
        assert_eq!(refused(&noisy(ResultKind::Shares, 1.0, None, None), "remove it"), "shared.dp");
        assert_eq!(refused(&noisy(ResultKind::Rows, 1.0, None, None), "remove it"), "shared.dp");
        let by_points = Choice { protocol: ProtocolName::Ecdh, ..noisy(count, 1.0, None, None) };
        assert_eq!(refused(&by_points, "protocol = \"rr22\" for a count"), "shared.dp");
        let with_sum = Noise { epsilon: 1.0, sampling: None, largest: Some(3) };
        let dp = Choice { dp: Some(with_sum), ..choice(ProtocolName::Dp, 2, &[0]) };
        assert_eq!(refused(&dp, "remove it"), "shared.dp.largest");
    }

    /// Each lane of a run opens a base of its own, on a copy of the run's terms. A receiver that could guess at each sender's Δ apart would
    /// have as many tries as lanes are under way.
    #[test]
    fn a_check_that_fails_in_one_lane_fails_those_of_the_others() {
        // Which message of the receiver's has its trees. What is spoiled is the digest of the first one.
        for (protocol, trees) in [(ProtocolName::Rr22, 1), (ProtocolName::Bc22, 1), (ProtocolName::Ot, 2)] {
            let suite = find(&Choice { security: Security::Malicious, ..choice(protocol, 2, &[1]) }).unwrap();
            let tag_len = TagLen::new(16).unwrap();
            let sizes = Sizes { units: 2, in_flight: 2, keys: vec![100; 2], capacities: vec![60; 2], tag_len };
            let run = || {
                let (sizes, coins) = (sizes.clone(), Coins::new([1; 32]));
                Terms { salt: [9; 32], sizes, values: None, coins, judge: Judge::default() }
            };
            let opens = |terms: &Terms, at: usize| {
                let side = |place, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng| {
                    suite.open(&Seat { place, learns: place == 1 }, terms, lines, rng).map(drop)
                };
                // Each party has a judge of its own.
                let theirs = Terms { judge: Judge::default(), ..terms.clone() };
                let (sender, _) = two_with(
                    |lines, rng| side(0, terms, lines, rng),
                    |lines, rng| side(1, &theirs, lines, rng),
                    |channel| Box::new(Hostile::new(channel, Attack::Flip(9 * 128), at)),
                );
                match sender {
                    Ok(()) => true,
                    Err(Error::Session(error)) if error.fault() == Fault::Peer => false,
                    Err(error) => panic!("{protocol:?}: {error}"),
                }
            };
            let (first, other) = (run(), run());
            let second = Terms { salt: [8; 32], ..first.clone() };
            assert!(opens(&first, usize::MAX) && !opens(&first, trees), "{protocol:?}");
            assert!(!opens(&second, usize::MAX) && opens(&other, usize::MAX), "{protocol:?}");
        }
    }

    /// What each party of a job finds by the suite that it asks for.
    fn found(choice: &Choice, keys: &[Vec<Digest>]) -> Vec<Found> {
        let suite = find(choice).expect("it is not refused");
        assert_eq!(suite.cut(), Cut::Whole);
        let lens: Vec<u64> = keys.iter().map(|keys| keys.len() as u64).collect();
        let tag_len = TagLen::new(suite.tag_bytes(&lens)).expect("a length of tags");
        let sizes = Sizes { keys: lens.clone(), units: 1, in_flight: 1, capacities: lens, tag_len };
        let terms = Terms { salt: [9; 32], sizes, values: None, coins: Coins::new([1; 32]), judge: Judge::default() };
        let names = ["alice", "bob", "carol"];
        let parties: Vec<Party> =
            (0..).zip(&names[..keys.len()]).map(|(place, name)| Party::new(place, name)).collect();
        let side = |(place, mut lines): (u8, Lines)| {
            let seat = Seat { place, learns: choice.learners.contains(&place) };
            let mut rng = fixed_rng(place);
            let Opened::Whole(side) = suite.open(&seat, &terms, &mut lines, &mut rng).unwrap() else {
                panic!("it is opened as it is cut")
            };
            let keys = &keys[usize::from(place)];
            let list = List { keys, room: &Memories, threads: 1, advance: &|_| (), same: &|_| Ok(true) };
            side.whole(&list, &mut lines, &mut rng).unwrap()
        };
        std::thread::scope(|scope| {
            let sides: Vec<_> = (0..).zip(mesh(&parties)).map(|seat| scope.spawn(|| side(seat))).collect();
            sides.into_iter().map(|side| side.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_job_that_asks_for_a_count_gets_one() {
        for &curve in CurveName::ALL {
            let choice = Choice { result: ResultKind::Count, curve, ..choice(ProtocolName::Ecdh, 2, &[1]) };
            let found = found(&choice, &[digests(0, 40), digests(25, 75)]);
            assert!(matches!(found[..], [Found::Nothing, Found::Count(15)]));
        }
    }

    #[test]
    fn three_parties_get_what_the_protocol_for_three_does_and_no_more() {
        for &protocol in ProtocolName::ALL {
            let three = choice(protocol, 3, &[0]);
            match protocol {
                ProtocolName::Ecdh | ProtocolName::Rr22 => assert!(find(&three).is_ok()),
                _ => assert_eq!(refused(&three, "protocol = \"rr22\""), "shared.parties"),
            }
            match protocol {
                ProtocolName::Rr22 => {}
                _ => assert_eq!(refused(&choice(protocol, 4, &[0]), "protocol = \"rr22\" for 4"), "shared.parties"),
            }
        }
        assert!(find(&choice(ProtocolName::Ecdh, 3, &[0, 1, 2])).is_ok());
        assert_eq!(refused(&choice(ProtocolName::Ecdh, 3, &[0, 2]), "one party, or all"), "shared.learns");
        let count = Choice { result: ResultKind::Count, ..choice(ProtocolName::Ecdh, 3, &[0]) };
        assert_eq!(refused(&count, "protocol = \"rr22\" and a shared.pivot"), "shared.result");
    }

    /// Three to sixteen parties, whoever learns, with a pivot that is not the only one who does.
    #[test]
    fn up_to_sixteen_parties_run_by_rr22_and_what_they_cannot_have_is_refused() {
        let rr22 = |parties, learners: &[u8], pivot| Choice { pivot, ..choice(ProtocolName::Rr22, parties, learners) };
        for parties in 3..=16 {
            for (learners, pivot) in [(&[0][..], None), (&[1, 2], None), (&[0, 2], Some(0)), (&[2], Some(1))] {
                assert!(find(&rr22(parties, learners, pivot)).is_ok());
            }
        }
        assert_eq!(refused(&rr22(17, &[0], None), "the most is 16"), "shared.parties");
        assert_eq!(refused(&rr22(4, &[2], Some(2)), "does not learn"), "shared.pivot");
        assert_eq!(refused(&rr22(2, &[0], Some(1)), "three or more"), "shared.pivot");
        let ecdh = Choice { pivot: Some(1), ..choice(ProtocolName::Ecdh, 3, &[0]) };
        assert_eq!(refused(&ecdh, "\"rr22\""), "shared.pivot");
        let malicious = Choice { security: Security::Malicious, ..rr22(3, &[0], None) };
        assert_eq!(refused(&malicious, "semi-honest"), "shared.security");
        for result in [ResultKind::Groups, ResultKind::Shares, ResultKind::Ids] {
            let groups = (result == ResultKind::Groups).then_some(Grouping {
                of: 0,
                most: 4,
                sums: 1,
                of_other: 0,
                products: Products::NONE,
                least: 5,
                of_a_key: 4,
                agreed: false,
                other: None,
            });
            let other = Choice { result, groups, ..rr22(5, &[0, 1, 2, 3, 4], Some(1)) };
            assert_eq!(refused(&other, "two parties"), "shared.result");
        }
    }

    /// A count or a sum of three and more parties takes a pivot, and has what the other totals have not.
    #[test]
    fn totals_of_many_take_a_pivot_and_refuse_by_name_what_they_do_not_do() {
        for (result, name) in [(ResultKind::Count, "count"), (ResultKind::Sum, "sum")] {
            let of = |learners: &[u8], pivot| Choice { result, pivot, ..choice(ProtocolName::Rr22, 5, learners) };
            for (learners, pivot) in [(&[0][..], 1), (&[0, 1, 2, 3, 4], 0), (&[4], 2), (&[1, 3], 1)] {
                let suite = find(&of(learners, Some(pivot))).unwrap();
                let leader = learners.iter().copied().find(|&place| place != pivot).unwrap();
                assert_eq!(suite.values(), (result == ResultKind::Sum).then_some(leader));
                assert!(suite.cut() == Cut::Shares && !suite.draws_once());
                let told: Vec<_> = suite.reveals().into_iter().map(|one| (one.name, one.to)).collect();
                assert!(told.contains(&("leader_and_pivot", Learner::Together(leader, pivot))), "{told:?}");
                assert!(!told.iter().any(|(name, _)| *name == "intersection"), "{told:?}");
            }
            let none = find(&of(&[0], None)).expect_err("it is refused");
            assert!(none.field == "shared.pivot" && none.why.contains(&format!("a {name} of three")), "{}", none.why);
            assert_eq!(refused(&of(&[2], Some(2)), "does not learn"), "shared.pivot");
            let with = of(&[0], Some(1));
            let malicious = Choice { security: Security::Malicious, ..with.clone() };
            assert_eq!(refused(&malicious, "semi-honest"), "shared.security");
            let noisy = Choice { dp: Some(Noise { epsilon: 1.0, sampling: None, largest: None }), ..with.clone() };
            assert_eq!(refused(&noisy, "remove it"), "shared.dp");
            let low = Choice { mode: Mode::LowComm, ..with.clone() };
            assert_eq!(refused(&low, "one mode"), "shared.mode");
            assert_eq!(refused(&Choice { insecure: true, ..with.clone() }, "remove insecure"), "shared.insecure");
            // A comparison shows the one way there is.
            let all: Vec<_> =
                choices(&Choice { pivot: None, ..with }).into_iter().map(|of| (of.protocol, of.pivot)).collect();
            assert_eq!(all, [(ProtocolName::Rr22, Some(1))]);
        }
    }

    /// Two parties of such a job share keys that the others must not see, so their lines need TLS. A job of two, and one by `ecdh`, may
    /// go without, and a comparison then shows no way that may not.
    #[test]
    fn more_than_two_by_rr22_do_not_go_without_tls() {
        let plain = |protocol, parties, pivot| Choice { insecure: true, pivot, ..choice(protocol, parties, &[0]) };
        for (parties, pivot) in [(3, None), (3, Some(1)), (16, None)] {
            let job = plain(ProtocolName::Rr22, parties, pivot);
            assert_eq!(refused(&job, "remove insecure = true"), "shared.insecure");
        }
        assert!(find(&plain(ProtocolName::Rr22, 2, None)).is_ok());
        let of_three = plain(ProtocolName::Ecdh, 3, None);
        assert!(choices(&of_three).iter().all(|choice| choice.protocol == ProtocolName::Ecdh));
        assert!(
            choices(&Choice { insecure: false, ..of_three }).iter().any(|choice| choice.protocol != ProtocolName::Ecdh)
        );
    }

    /// The leader is the first party that learns and is not the pivot. What it and the pivot could do together must be accepted.
    #[test]
    fn what_parties_of_many_are_told_names_leader_and_pivot() {
        let told = |learners: &[u8], pivot| {
            let choice = Choice { pivot, ..choice(ProtocolName::Rr22, 5, learners) };
            find(&choice).unwrap().reveals().into_iter().map(|one| (one.name, one.to)).collect::<Vec<_>>()
        };
        assert!(told(&[1, 3], Some(1)).contains(&("leader_and_pivot", Learner::Together(3, 1))));
        assert!(told(&[4], Some(2)).contains(&("leader_and_pivot", Learner::Together(4, 2))));
        assert!(told(&[1, 3], None).contains(&("joined_lists", Learner::Place(1))));
        assert!(told(&[1, 3], None).iter().all(|(name, _)| *name != "leader_and_pivot"));
    }

    /// What decides by how much keys could be mistaken: evaluations of all clients, and the keys that leader and pivot may share.
    #[test]
    fn many_parties_have_wider_fields_and_narrower_slots_as_their_sizes_ask() {
        let sized = |parties: usize, keys: u64, pivot| {
            let choice = Choice { pivot, ..choice(ProtocolName::Rr22, parties, &[0]) };
            let suite = find(&choice).unwrap();
            let lens = vec![keys; parties];
            let tag_len = TagLen::new(suite.tag_bytes(&lens)).unwrap();
            suite.sized(&Sizes { keys: lens.clone(), units: 1, in_flight: 1, capacities: lens, tag_len }).join(" ")
        };
        assert_eq!(sized(3, 1 << 23, None), "base-field-64 zero-test-64");
        assert_eq!(sized(4, 1 << 23, None), "base-field-128 zero-test-64");
        assert_eq!(sized(16, 1 << 24, Some(1)), "base-field-64 zero-test-64");
        assert_eq!(sized(16, 1 << 25, Some(1)), "base-field-128 zero-test-72");
        assert_eq!(sized(3, 1 << 14, Some(1)), "base-field-64 zero-test-56");
    }

    #[test]
    fn a_comparison_of_many_parties_shows_both_ways() {
        let all = choices(&choice(ProtocolName::Rr22, 4, &[0]));
        let ways: Vec<(Mode, Option<u8>)> = all.iter().map(|one| (one.mode, one.pivot)).collect();
        let want = [Mode::Fast, Mode::LowComm].map(|mode| [(mode, None), (mode, Some(1))]).concat();
        assert_eq!(ways, want);
        assert!(choices(&choice(ProtocolName::Rr22, 2, &[0])).iter().all(|one| one.pivot.is_none()));
    }

    #[test]
    fn a_job_of_three_parties_finds_what_all_have() {
        let keys = [digests(0, 40), digests(25, 75), digests(30, 36)];
        let places = |found: &Found| match found {
            Found::Places(places) => Some(places.records()),
            _ => None,
        };
        for (learners, want) in [(vec![1], [None, Some(6), None]), (vec![0, 1, 2], [Some(6); 3])] {
            let found = found(&choice(ProtocolName::Ecdh, 3, &learners), &keys);
            assert_eq!(found.iter().map(places).collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn whoever_is_told_something_is_told_it_by_one_name() {
        let reveals = |choice: &Choice| find(choice).unwrap().reveals();
        let names = |choice: &Choice| reveals(choice).iter().map(|reveal| reveal.name).collect::<BTreeSet<&str>>();
        let count = Choice { result: ResultKind::Count, ..choice(ProtocolName::Ecdh, 2, &[0, 1]) };
        assert_eq!(names(&count), BTreeSet::from(["intersection_size", "key_count"]));
        for (learners, a) in [(&[0][..], 1), (&[1], 2), (&[2], 0), (&[0, 1, 2], 1)] {
            let three = choice(ProtocolName::Ecdh, 3, learners);
            assert_eq!(names(&three), BTreeSet::from(["intersection", "key_count", "pair_count"]));
            let pairs = reveals(&three).into_iter().find(|reveal| reveal.name == "pair_count").unwrap();
            assert_eq!(pairs.to, Learner::Place(a));
        }
    }

    /// Longer values leave a receiver that deviates fewer guesses; one that does not deviate makes none.
    #[test]
    fn guesses_are_counted_where_a_protocol_protects_against_them() {
        let guesses = |protocol, security, keys: u64| {
            let sizes = Sizes {
                keys: vec![keys; 2],
                units: 1,
                in_flight: 1,
                capacities: vec![keys; 2],
                tag_len: TagLen::new(16).unwrap(),
            };
            let guesses = find(&Choice { security, ..choice(protocol, 2, &[0]) }).unwrap().guesses(&sizes);
            guesses.into_iter().map(|guesses| guesses.of_a_key).collect::<Vec<_>>()
        };
        let (long, short) = (ProtocolName::Ot, ProtocolName::Rr22);
        // Slots, and no more.
        assert_eq!(guesses(ProtocolName::Bc22, Security::Malicious, 1 << 17), [1.36]);
        assert!(guesses(ProtocolName::Bc22, Security::Malicious, 0).is_empty());
        let [long, short] = [long, short].map(|protocol| guesses(protocol, Security::Malicious, 1 << 17));
        assert_eq!(long, [1.41, 1.63, 1.76]);
        assert_eq!(short[..2], [1.51, 2.08]);
        let [stored, polynomial] = [1 << 17, 1 << 8].map(|n| guesses(ProtocolName::MiniPsi, Security::Malicious, n));
        assert_eq!((stored, polynomial), (vec![1.29, 1.84, 2.35], vec![1.31, 1.90, 2.47]));
        assert!(guesses(ProtocolName::Ot, Security::Malicious, 0).is_empty());
        assert!(guesses(ProtocolName::MiniPsi, Security::Malicious, 0).is_empty());
        for protocol in
            [ProtocolName::Ot, ProtocolName::Rr22, ProtocolName::Bc22, ProtocolName::MiniPsi, ProtocolName::Ecdh]
        {
            assert!(guesses(protocol, Security::SemiHonest, 1 << 17).is_empty());
        }
    }

    /// A list is compared with itself too, whatever the other's length.
    #[test]
    fn tags_of_one_list_do_not_meet() {
        let three = find(&choice(ProtocolName::Ecdh, 3, &[0])).unwrap();
        let count = find(&Choice { result: ResultKind::Count, ..choice(ProtocolName::Ecdh, 2, &[0]) }).unwrap();
        for more in [1u64, 1 << 20, 1 << 30, 1 << 36] {
            let bits = (2 * more.ilog2() + 40) as usize;
            assert!(count.tag_bytes(&[1, more]) * 8 > bits && count.tag_bytes(&[more, 1]) <= 16);
            assert!(three.tag_bytes(&[1, more, 5]) * 8 >= bits + 2 && three.tag_bytes(&[more; 3]) <= 16);
        }
    }
}
