//! `protocol = "rr22"` with `result = "count"`, `"sum"`, `"groups"` or `"shares"`: what is common, in shares that are opened once for the whole
//! job, or written.

use crate::dp::KEYS_ARE_NOT_PEOPLE;
use crate::{
    Choice, Cut, Error, Grouping, Opened, OtherGrouping, Refusal, ResultKind, Seat, Sizes, Suite, Terms, chosen,
    chosen_by_group,
};
use vesica_block::Block;
use vesica_oprf::opprf;
use vesica_oprf::vole::Field;
use vesica_params::dp::{LARGEST, Laplace};
use vesica_params::lpn::{self, BINARY, CodeSet};
use vesica_params::{Level, cuckoo, okvs};
use vesica_psi::circuit::{self, GroupsOfS, Total};
use vesica_psi::noise::{self, Draws};
use vesica_psi::reveals;
use vesica_session::{Lines, Reveal, SessionRng};

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

/// Numbers that share ε with those of other columns: one for each group, or one alone.
#[derive(Clone, Copy)]
struct Column<'a> {
    /// What a sum by group is called.
    name: Option<&'a str>,
    /// The most that a key adds or takes.
    largest: u64,
    /// And in how many groups it may do so.
    groups: u64,
}

/// The circuit.
pub struct Circuit {
    choice: Choice,
}

impl Circuit {
    /// As a job asks for it.
    ///
    /// # Errors
    /// The field of the noise that is missing, means nothing, or asks for what a total does not have.
    pub fn new(choice: &Choice) -> Result<Self, Refusal> {
        let refusal = |field, why: String| Err(Refusal { field, why });
        let suite = Self { choice: choice.clone() };
        let Some(dp) = choice.dp else { return Ok(suite) };
        dp.check()?;
        if dp.sampling.is_some() {
            let why = "is of use only with protocol = \"dp\"; remove it, for a total takes all keys";
            return refusal("shared.dp.sampling", why.to_owned());
        }
        match (choice.result, dp.largest) {
            (ResultKind::Sum, None) => {
                let why = "is missing: say how much one key may add to the sum at most, such as dp = { epsilon = 1.0, largest = 500 }";
                return refusal("shared.dp.largest", why.to_owned());
            }
            (ResultKind::Sum, _) | (_, None) => {}
            (ResultKind::Groups, Some(_)) => {
                let why =
                    "bounds the values of a plain sum, and each of shared.sums has a largest of its own; remove it";
                return refusal("shared.dp.largest", why.to_owned());
            }
            (_, Some(_)) => {
                let why = "bounds the values that a sum adds up, and a count adds up none; remove it";
                return refusal("shared.dp.largest", why.to_owned());
            }
        }
        if choice.groups.is_some_and(|groups| groups.products.count() > 0) {
            let why =
                "has no noise for products of values of both parties; remove it, or the products from shared.sums";
            return refusal("shared.dp", why.to_owned());
        }
        if choice.groups.is_some_and(|groups| groups.other.is_some()) {
            let why = "has no noise for groups of both parties; remove it, or shared.groups.other: for groups of one party there is noise";
            return refusal("shared.dp", why.to_owned());
        }
        if choice.groups.is_some_and(|groups| !groups.agreed) {
            let why = "is missing: a group that one key alone is in would be told with some chance, and what it is called with it. With noise agree on all \
                       groups that there may be, in the place of most, such as labels = [\"north\", \"south\"]";
            return refusal("shared.groups.labels", why.to_owned());
        }
        if let Some(sum) = choice.sums.iter().find(|sum| sum.largest.is_none()) {
            let why = format!(
                "is missing for {:?}: with noise, say what the rows of one key may come to at most, such as largest = 500",
                sum.name
            );
            return refusal("shared.sums.largest", why);
        }
        let columns = suite.columns();
        for Column { name, largest, groups } in &columns {
            let (least, most) = LARGEST.into_inner();
            let most = most / groups / columns.len() as u64;
            if !(least..=most).contains(largest) {
                let of = name.map_or(String::new(), |name| format!(" {name:?}"));
                let why =
                    format!("{largest} is no bound that there is noise for{of}; give a number from {least} to {most}");
                let by_group = choice.result == ResultKind::Groups;
                return refusal(if by_group { "shared.sums.largest" } else { "shared.dp.largest" }, why);
            }
        }
        Ok(suite)
    }

    /// Whether all common keys are counted.
    fn counts(&self) -> bool {
        self.choice.result == ResultKind::Count || self.choice.least.is_some()
    }

    /// What is told or compared, in the circuit's order: a group's count and its sums, or a sum; then the number of all keys.
    fn columns(&self) -> Vec<Column<'_>> {
        let Choice { result, groups, sums, dp, .. } = &self.choice;
        let one = Column { name: None, largest: 1, groups: 1 };
        let mut columns = match (result, groups) {
            (ResultKind::Groups, Some(of)) => {
                let of_a_key = of.of_a_key.into();
                // A key of the party with the groups has its values in all of them together, and one of the other party in each of them.
                let own = sums.len().saturating_sub(of.of_other as usize);
                let of_sums = sums.iter().enumerate().map(|(place, sum)| Column {
                    name: Some(&sum.name),
                    largest: sum.largest.unwrap_or(1),
                    groups: if place < own { 1 } else { of_a_key },
                });
                std::iter::once(Column { groups: of_a_key, ..one }).chain(of_sums).collect()
            }
            (ResultKind::Sum, _) => vec![Column { largest: dp.and_then(|dp| dp.largest).unwrap_or(1), ..one }],
            _ => Vec::new(),
        };
        if self.counts() {
            columns.push(one);
        }
        columns
    }

    /// The noise of each number of these columns, which have equal parts of ε: one key changes the numbers of a column by its largest for each
    /// of the groups at most, all together. A number that is told and compared is one number.
    fn noise(&self) -> Vec<Laplace> {
        let Some(dp) = self.choice.dp else { return Vec::new() };
        let columns = self.columns();
        let parts = columns.len() as u64;
        columns.iter().map(|of| Laplace::new(dp.epsilon, of.largest * of.groups * parts)).collect()
    }

    /// Whether the party at this place adds noise to what is told, and to the number of all keys: if the other one is told something that
    /// follows from it. A learner's own noise would hide nothing from itself.
    fn adds(&self, place: u8) -> [bool; 2] {
        let other_learns = self.choice.learners.iter().any(|&learner| learner != place);
        [other_learns, other_learns || self.choice.least.is_some()]
    }

    /// What the party at this place draws, for each number that the total is made of and always in their order.
    fn draw(&self, place: u8, coins: &[u8; 32]) -> Option<Draws> {
        self.choice.dp?;
        let (mut rng, noise) = (noise::chance("vesica 2026 noise of a total", coins), self.noise());
        let (told, counted) = noise.split_at(noise.len() - usize::from(self.counts()));
        let groups = self.choice.groups.map_or(1, |groups| groups.most as usize);
        let of_groups = std::iter::repeat_n(told, groups).flatten();
        let [on_told, on_count] = self.adds(place);
        let all = of_groups.map(|of| (of, on_told)).chain(counted.iter().map(|of| (of, on_count)));
        let numbers = all.map(|(of, adds)| if adds { noise::laplace(of.s, of.t, &mut rng) } else { 0 });
        Some(Draws::new(groups * told.len() + counted.len(), numbers))
    }

    /// Bins of a unit for the keys of the party at `place`.
    pub(crate) fn bins(sizes: &Sizes, place: u8) -> Option<u32> {
        cuckoo::bins(sizes.capacity(place), sizes.units, Level::STANDARD)
    }

    /// Bits of a target, whoever puts its keys into bins.
    pub(crate) fn target_bits(sizes: &Sizes) -> Option<u32> {
        let most = Self::bins(sizes, 0)?.max(Self::bins(sizes, 1)?);
        Some(vesica_params::target_bits(u64::from(most) * u64::from(sizes.units), Level::STANDARD))
    }

    /// log2 of the size of the base field: the sender evaluates each key in three bins.
    pub(crate) fn base_bits(sizes: &Sizes) -> u32 {
        let most = sizes.padded(0).max(sizes.padded(1));
        vesica_params::vole_base_bits(most.saturating_mul(3), false, Level::STANDARD)
    }

    /// The function of bins between two parties of these sizes, where the one at place `puts` puts its keys into bins.
    pub(crate) fn function(session: [u8; 32], sizes: &Sizes, puts: u8) -> Result<opprf::Params, Error> {
        let pairs = sizes.capacity(1 - puts).saturating_mul(3);
        let too_large = || Error::TooLarge { keys: sizes.capacity(puts).max(pairs / 3), protocol: "rr22" };
        Ok(opprf::Params {
            session,
            bins: Self::bins(sizes, puts).ok_or_else(too_large)?,
            shape: okvs::paxos(pairs, sizes.units, Level::STANDARD).ok_or_else(too_large)?,
            bits: Self::target_bits(sizes).ok_or_else(too_large)?,
            code: CODE,
        })
    }

    /// Groups as the circuit has them, for a job with these learners.
    fn groups(of: Grouping, learners: &[u8]) -> circuit::Groups {
        let Grouping { of: owner, most, sums, of_other, products, least, of_a_key, agreed, other } = of;
        // Who has not the groups, and does not know what they are called.
        let labels = !agreed && learners.iter().any(|&learner| learner != owner);
        let of_s = other
            .map(|OtherGrouping { most, agreed }| GroupsOfS { most, labels: !agreed && learners.contains(&owner) });
        circuit::Groups { most, sums, of_other, products, least, of_a_key, labels, of_s }
    }

    /// What the circuit is opened with at a seat, and the place of the party that puts its keys into bins.
    fn params(&self, seat: &Seat, terms: &Terms) -> Result<(circuit::Params, u8), Error> {
        let sizes = &terms.sizes;
        // Whoever has values puts its keys into bins; where nobody has any, the party with fewer keys, for bins cost most.
        let groups = self.choice.groups;
        let puts =
            groups.map(|groups| groups.of).or(terms.values).unwrap_or(u8::from(sizes.capacity(1) < sizes.capacity(0)));
        let opprf = Self::function(terms.salt, sizes, puts)?;
        let (total, values) = match self.choice.result {
            ResultKind::Sum => (Total::Sum, true),
            ResultKind::Shares => (Total::Shares, terms.values.is_some()),
            ResultKind::Groups => {
                let groups = groups.expect("a job for groups has some");
                (Total::Groups(Self::groups(groups, &self.choice.learners)), true)
            }
            _ => (Total::Count, false),
        };
        let params = circuit::Params {
            opprf,
            puts: seat.place == puts,
            values,
            total,
            least: self.choice.least,
            i_learn: seat.learns,
            peer_learns: self.choice.learners.iter().any(|&place| place != seat.place),
            fewer: sizes.keys.iter().copied().min().unwrap_or(0),
            noise: self.draw(seat.place, terms.coins.expose()),
        };
        Ok((params, puts))
    }

    fn with<B: Field + 'static>(
        params: circuit::Params,
        lines: &mut Lines,
        rng: &mut SessionRng,
    ) -> Result<Opened, Error> {
        Ok(Opened::Shares(Box::new(circuit::Circuit::<B>::open(params, lines.peer()?, rng)?)))
    }
}

impl Grouping {
    /// How many times each value of the party without the groups is multiplied, for a key.
    pub(crate) fn flags(&self) -> u32 {
        Circuit::groups(*self, &[]).flags()
    }

    /// How many values a key has, of the party with the groups and of the other one: those that are added up, and those that are factors alone.
    pub fn widths(&self) -> [u32; 2] {
        Circuit::groups(*self, &[]).widths()
    }

    /// How many bits of factors are multiplied for a key.
    pub(crate) fn digits(&self) -> u32 {
        Circuit::groups(*self, &[]).digits()
    }

    /// Whether far less would be sent if a key could be in one group alone.
    pub fn costs_by_its_groups(&self) -> bool {
        let by_trees = |of_a_key| Circuit::groups(Self { of_a_key, ..*self }, &[]).by_trees();
        by_trees(1) && !by_trees(self.of_a_key)
    }
}

impl Suite for Circuit {
    fn sets(&self) -> Vec<&'static str> {
        let noise = self.choice.dp.map(|_| "dp-laplace-v1");
        [cuckoo::CUCKOO.id, okvs::PAXOS.id, CODE.id, BINARY.id].into_iter().chain(noise).collect()
    }

    fn reveals(&self) -> Vec<Reveal> {
        let Choice { result, dp, groups, values, .. } = &self.choice;
        let total = match (result, dp) {
            (ResultKind::Sum, None) => Some(reveals::INTERSECTION_SUM),
            (ResultKind::Sum, Some(_)) => Some(reveals::INTERSECTION_SUM_NOISY),
            (ResultKind::Groups, None) if groups.is_some_and(|groups| groups.other.is_some()) => {
                Some(reveals::GROUP_TOTALS_OF_BOTH)
            }
            (ResultKind::Groups, None) => Some(reveals::GROUP_TOTALS),
            (ResultKind::Groups, Some(_)) => Some(reveals::GROUP_TOTALS_NOISY),
            (ResultKind::Shares, _) => None,
            (_, None) => Some(reveals::INTERSECTION_SIZE),
            (_, Some(_)) => Some(reveals::INTERSECTION_SIZE_NOISY),
        };
        // Noise hides each key of a small group as it does any other.
        let small = groups.filter(|groups| groups.least < Grouping::SMALL && !crate::hides(&self.choice));
        let small = small.map(|_| reveals::SMALL_GROUPS);
        let chosen = chosen(&self.choice, groups.map(|groups| groups.of).or(*values));
        let by_group = groups.map(|groups| chosen_by_group(&self.choice, &groups)).unwrap_or_default();
        total.into_iter().chain(small).chain(chosen).chain(by_group).chain([reveals::KEY_COUNT]).collect()
    }

    fn expects(&self, sizes: &Sizes) -> Vec<String> {
        let Some(dp) = self.choice.dp else { return Vec::new() };
        let (columns, noise, mut told) = (self.columns(), self.noise(), Vec::new());
        let drawn = |which: usize| [0, 1].iter().filter(|&&place| self.adds(place)[which]).count() as u32;
        let by = |draws| if draws == 1 { "the party that does not learn it" } else { "each party" };
        let is_told = columns.len() - usize::from(self.counts() && self.choice.result != ResultKind::Count);
        for (column, of) in columns.iter().zip(&noise).take(is_told) {
            let (name, draws) = match (self.choice.result, column.name) {
                (ResultKind::Groups, None) => ("number of keys of a group".to_owned(), drawn(0)),
                (ResultKind::Groups, Some(name)) => (format!("sum {name:?} of a group"), drawn(0)),
                (ResultKind::Sum, _) => ("sum".to_owned(), drawn(0)),
                _ => ("count".to_owned(), drawn(1)),
            };
            told.push(format!(
                "the {name} that is told is the true one and noise that {} adds unseen: 19 draws in 20 are no larger than {}, and the standard \
                 deviation of the noise is {:.1}",
                by(draws),
                of.width(draws),
                of.deviation(draws)
            ));
        }
        if let (Some(groups), Some(of)) = (self.choice.groups, noise.first()) {
            let none = of.reaches(groups.least, drawn(0));
            told.push(format!(
                "whether a group has {} keys or more is asked of the noisy number: of a group with fewer that is told all the same the number is too \
                 high. A group without any is told with probability {none:.1e}, and there are {} groups",
                groups.least, groups.most
            ));
            if let Some(&fewer) = sizes.keys.iter().min().filter(|&&fewer| fewer < groups.least) {
                told.push(format!(
                    "a party has {fewer} keys, so no group has {} common ones: whatever is told of a group is noise",
                    groups.least
                ));
            }
        }
        if let (Some(least), Some(of)) = (self.choice.least, noise.last()) {
            let parts = match columns.len() {
                1 => ": the one that is told".to_owned(),
                parts => format!("; of epsilon that takes one of {parts} equal parts"),
            };
            told.push(format!(
                "whether there are {least} common keys or more is asked of a noisy count too, which is right within {} 19 times in 20{parts}",
                of.width(2)
            ));
        }
        for place in [0, 1] {
            let (mine, other) = (format!("each key of {{{place}}}"), 1 - place);
            told.push(if self.adds(place)[1] {
                format!(
                    "{mine} is hidden from {{{other}}} by ({}, 0)-differential privacy, whatever else is known",
                    dp.epsilon
                )
            } else {
                format!("of the keys of {{{place}}} {{{other}}} is told nothing but how many there are")
            });
        }
        if let Some(groups) = self.choice.groups {
            let of_a_key = groups.of_a_key;
            told.push(format!("a key that is in more than {of_a_key} of the groups is refused before the run"));
        }
        let bounds = self.choice.sums.iter().map(|sum| (format!(" of {:?}", sum.name), sum.largest));
        for (of, largest) in bounds.chain([(String::new(), dp.largest)]) {
            let Some(largest) = largest else { continue };
            told.push(format!(
                "a key whose rows come to more than {largest}{of}, or to less than -{largest}, is refused before the run"
            ));
        }
        told.push(KEYS_ARE_NOT_PEOPLE.to_owned());
        told
    }

    fn assumption(&self) -> &'static str {
        "dual learning parity with noise, over bits too"
    }

    /// One bit of the offset of the transfers is known.
    fn kappa(&self) -> u32 {
        Level::STANDARD.kappa - 1
    }

    fn cut(&self) -> Cut {
        Cut::Shares
    }

    fn sized(&self, sizes: &Sizes) -> Vec<String> {
        let targets = Self::target_bits(sizes).map(|bits| format!("targets-{bits}"));
        [format!("base-field-{}", Self::base_bits(sizes))].into_iter().chain(targets).collect()
    }

    fn memory(&self) -> u64 {
        // The hint with what it is solved from, targets and bits; the noise of the transfers, 32 MiB a unit, for 2^17 keys. Groups: stretched
        // pads, and the numbers of a key in some of them. Their columns come one after the other, but for those of trees; a key has 1.3 bins.
        let of_groups = |of: Grouping| 100 + 32 * u64::from(of.sums) + Self::groups(of, &[]).memory() * 13 / 10;
        700 + self.choice.groups.map_or(0, of_groups)
    }

    fn memory_of_unit(&self, seat: &Seat, terms: &Terms, window: u64) -> Result<u64, Error> {
        let (params, puts) = self.params(seat, terms)?;
        let keys = [puts, 1 - puts].map(|place| terms.sizes.capacity(place));
        Ok(match Self::base_bits(&terms.sizes) {
            64 => params.memory::<u64>(keys, window),
            _ => params.memory::<Block>(keys, window),
        })
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
        let (params, _) = self.params(seat, terms)?;
        match Self::base_bits(&terms.sizes) {
            64 => Self::with::<u64>(params, lines, rng),
            _ => Self::with::<Block>(params, lines, rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CurveName, Mode, Noise, Product, Products, ProtocolName, Security, Summed};

    /// The most that a key adds in these tests.
    const MOST: u64 = 1000;

    /// Three groups, with a sum of values of the party at place 1, which has the groups, and one of the other party's.
    const GROUPS: Grouping = Grouping {
        of: 1,
        most: 3,
        sums: 2,
        of_other: 1,
        products: Products::NONE,
        least: 2,
        of_a_key: 2,
        agreed: true,
        other: None,
    };

    fn choice(result: ResultKind, learners: &[u8], least: Option<u64>) -> Choice {
        let by_group = result == ResultKind::Groups;
        let sum = |name: &str| Summed { name: name.to_owned(), largest: Some(MOST) };
        Choice {
            protocol: ProtocolName::Rr22,
            result,
            mode: Mode::default(),
            security: Security::default(),
            curve: CurveName::default(),
            least,
            groups: by_group.then_some(GROUPS),
            sums: if by_group { vec![sum("spend"), sum("views")] } else { Vec::new() },
            values: None,
            dp: Some(Noise { epsilon: 0.02, sampling: None, largest: (result == ResultKind::Sum).then_some(MOST) }),
            learners: learners.to_vec(),
            parties: 2,
            pivot: None,
            insecure: false,
        }
    }

    fn noisy(result: ResultKind, learners: &[u8], least: Option<u64>) -> Circuit {
        Circuit::new(&choice(result, learners, least)).expect("there is noise for it")
    }

    /// MiB of memory of a unit, of eight, at the party that puts its keys into bins and at the other one, whose keys are so many in all units.
    fn mib(suite: &Circuit, keys: [u64; 2], window: u64) -> [f64; 2] {
        let capacities = keys.map(|keys| vesica_params::unit_capacity(keys, 8, 2, Level::STANDARD)).to_vec();
        let tag_len = vesica_types::TagLen::new(10).unwrap();
        let sizes = Sizes { units: 8, in_flight: 4, keys: keys.to_vec(), capacities, tag_len };
        let (salt, coins, judge) = ([0; 32], vesica_types::Coins::new([0; 32]), crate::Judge::default());
        let terms = Terms { salt, sizes, values: Some(0), coins, judge };
        let of = |place| suite.memory_of_unit(&Seat { place, learns: place == 1 }, &terms, window).unwrap();
        [0, 1].map(|place| of(place) as f64 / f64::from(1 << 20))
    }

    /// A job of the party at place 0 with so many groups and so many sums of its values, each with so many groups of the other party's and so many sums
    /// of that party's values; a plain sum where there are no groups.
    fn of_numbers(most: u32, sums: u32, other: u32, of_other: u32) -> Circuit {
        let other = (other > 0).then_some(OtherGrouping { most: other, agreed: false });
        let groups = Grouping { of: 0, most, sums: sums + of_other, of_other, agreed: false, other, ..GROUPS };
        let (result, groups) = match most {
            0 => (ResultKind::Sum, None),
            _ => (ResultKind::Groups, Some(Grouping { of_a_key: if of_other > 0 { 1 } else { most }, ..groups })),
        };
        Circuit::new(&Choice { groups, sums: Vec::new(), dp: None, ..choice(result, &[1], None) }).unwrap()
    }

    /// 2^18 keys in all units on one side beside 2^10 on the other, and on both.
    const KEYS: [[u64; 2]; 3] = [[1 << 18, 1 << 10], [1 << 10, 1 << 18], [1 << 18, 1 << 18]];

    /// What is on its way over a line at most.
    const WAY: u64 = 50 << 20;

    /// By how much less transfers may take if there are more of them: one sparse vector makes up to 2^19 of them, and two make more that are half as long.
    const LESS: f64 = 9.0;

    /// From one number to 128 of them, of one party's groups and of both: a unit takes so many MiB, and more of anything takes no less. Six runs of
    /// such jobs held 0.52 to 0.94 of what the plan says by this.
    #[test]
    fn memory_of_a_unit_grows_with_keys_groups_and_numbers() {
        let sum = of_numbers(0, 0, 0, 0);
        // Each of these asks for what the one before it asks for, and more.
        let of_one = [of_numbers(1, 0, 0, 0), of_numbers(8, 1, 0, 0), of_numbers(64, 1, 0, 0)];
        let of_both = [of_numbers(1, 0, 1, 0), of_numbers(8, 0, 8, 0), of_numbers(8, 1, 8, 0)];
        let theirs = [of_numbers(8, 0, 0, 1), of_numbers(8, 0, 8, 1)];
        for (name, suite, want) in [
            ("a sum", &sum, [[36.3, 25.5], [6.2, 12.1], [39.4, 34.5]]),
            ("a group", &of_one[0], [[36.1, 25.5], [6.2, 12.1], [39.1, 34.5]]),
            ("64 groups with a sum", &of_one[2], [[76.7, 65.9], [6.2, 12.1], [79.8, 74.9]]),
            ("a group with one", &of_both[0], [[39.3, 27.4], [6.3, 14.3], [42.3, 38.4]]),
            ("8 groups with 8 and a sum", &of_both[2], [[94.6, 77.9], [6.7, 14.6], [97.7, 88.9]]),
            ("8 groups with a sum of the other's", &theirs[0], [[53.2, 46.6], [7.3, 15.6], [56.3, 57.9]]),
            ("8 groups with 8 and a sum of the other's", &theirs[1], [[157.2, 182.6], [9.7, 18.6], [160.3, 194.2]]),
        ] {
            let figures = KEYS.map(|keys| mib(suite, keys, WAY).map(|mib| (10.0 * mib).round() / 10.0));
            assert_eq!(figures, want, "{name}");
        }
        let no_less = |less: [f64; 2], more: [f64; 2]| {
            assert!((0..2).all(|place| less[place] <= more[place] + LESS), "{less:?} {more:?}");
        };
        let pairs = of_one.windows(2).chain(of_both.windows(2)).chain(theirs.windows(2));
        let pairs = pairs.map(|two| (&two[0], &two[1])).chain([(&of_one[0], &of_both[0]), (&of_one[1], &theirs[0])]);
        for ((less, more), keys) in pairs.flat_map(|pair| KEYS.map(|keys| (pair, keys))) {
            no_less(mib(less, keys, WAY), mib(more, keys, WAY));
        }
        for suite in [&sum].into_iter().chain(&of_one).chain(&of_both).chain(&theirs) {
            for (log, other) in (10..18).flat_map(|log| [(log, 1 << 10), (log, 1 << 18)]) {
                no_less(mib(suite, [1 << log, other], WAY), mib(suite, [2 << log, other], WAY));
                no_less(mib(suite, [other, 1 << log], WAY), mib(suite, [other, 2 << log], WAY));
            }
            let [many_bins, many_pairs, many] = KEYS.map(|keys| mib(suite, keys, WAY));
            // Most of it is for bins, on either side.
            assert!((0..2).all(|place| many_pairs[place] < many_bins[place]), "{many_pairs:?} {many_bins:?}");
            assert!((0..2).all(|place| many_bins[place] < many[place]), "{many_bins:?} {many:?}");
        }
    }

    /// Stores and what they are solved from are for the keys of the party that does not put its own into bins: so many bytes for each, whatever the other one has.
    /// A number that each of them carries takes 72 more at their party: a value, its entry, and what each pair of a key is without a target.
    #[test]
    fn what_grows_with_the_other_partys_keys_is_counted_by_these() {
        for bins in [1 << 10, 1 << 18] {
            let of_a_key = |suite: &Circuit| {
                let [few, many] = [1 << 14, 1 << 18];
                let capacity = |keys| vesica_params::unit_capacity(keys, 8, 2, Level::STANDARD) as f64;
                let [less, more] = [few, many].map(|keys| mib(suite, [bins, keys], 0));
                [0, 1].map(|place| (more[place] - less[place]) * f64::from(1 << 20) / (capacity(many) - capacity(few)))
            };
            let [own, theirs] = [of_numbers(8, 1, 0, 0), of_numbers(8, 0, 0, 1)].map(|suite| of_a_key(&suite));
            // A store has some four slots a key, of 8 bytes, in memory, in a message and on its way.
            assert!((88.0..104.0).contains(&own[0]) && (own[0] - theirs[0]).abs() < 1.0, "{own:?} {theirs:?}");
            // Three pairs: an entry, its value, both as they are stored, and a row.
            let pairs = own[1] - own[0];
            assert!((pairs - 184.0).abs() < 1.0 && (theirs[1] - own[1] - 72.0).abs() < 1.0, "{own:?} {theirs:?}");
        }
    }

    /// Units are cut by [`Suite::memory`], which is no less than what they take where they are large.
    #[test]
    fn large_units_take_no_more_than_they_are_cut_by() {
        for suite in [
            of_numbers(0, 0, 0, 0),
            of_numbers(1, 0, 0, 0),
            of_numbers(64, 1, 0, 0),
            of_numbers(64, 0, 0, 1),
            of_numbers(1, 0, 1, 0),
            of_numbers(16, 0, 16, 0),
            of_numbers(8, 1, 8, 0),
            of_numbers(8, 0, 8, 1),
        ] {
            for keys in [1u64 << 18, 1 << 19, 1 << 20] {
                let capacity = vesica_params::unit_capacity(keys, 8, 2, Level::STANDARD);
                let cut_by = (2 * capacity * suite.memory()) as f64 / f64::from(1 << 20);
                let takes = mib(&suite, [keys; 2], 0);
                assert!(takes.iter().all(|&mib| mib <= cut_by), "{:?}: {takes:?} of {cut_by}", suite.choice.groups);
            }
        }
    }

    /// Whoever is told something gets noise of the other party in it, in each of its numbers, and a learner adds none for itself alone.
    #[test]
    fn noise_is_of_those_whose_peer_is_told() {
        let (count, sum, groups) = (ResultKind::Count, ResultKind::Sum, ResultKind::Groups);
        // Of what is told, and of the number of all keys where that is something else.
        for (result, learners, least, adds) in [
            (count, &[0, 1][..], None, [[true, false]; 2]),
            (count, &[0], None, [[false, false], [true, false]]),
            (count, &[0], Some(5), [[true, false]; 2]),
            (sum, &[1], None, [[true, false], [false, false]]),
            (sum, &[1], Some(5), [[true, true], [false, true]]),
            (sum, &[0, 1], None, [[true, false]; 2]),
            (groups, &[0, 1], None, [[true, false]; 2]),
            (groups, &[0], None, [[false, false], [true, false]]),
            (groups, &[1], Some(5), [[true, true], [false, true]]),
        ] {
            let suite = noisy(result, learners, least);
            let numbers = if result == groups { 9 } else { 1 };
            let compared = usize::from(least.is_some() && result != count);
            for place in [0, 1] {
                // With so small an epsilon the chance of no noise is 2^-6 for a count, and less for a sum.
                let drawn: Vec<Draws> = (0..50).map(|i| suite.draw(place, &[i; 32]).unwrap()).collect();
                for which in 0..numbers + compared {
                    let some = drawn.iter().filter(|noise| noise[which] != 0).count();
                    let adds = adds[usize::from(place)][usize::from(which >= numbers)];
                    assert!(
                        if adds { some > 40 } else { some == 0 },
                        "{result:?} {learners:?} {least:?} {place} {which}"
                    );
                    assert_eq!(drawn[0].len(), numbers + compared);
                }
            }
        }
    }

    /// What is drawn follows from the coins alone: a second attempt adds the same.
    #[test]
    fn the_same_coins_give_the_same_noise() {
        for result in [ResultKind::Sum, ResultKind::Groups] {
            let suite = noisy(result, &[0, 1], Some(3));
            let of = |coins| suite.draw(0, &[coins; 32]).unwrap();
            assert_eq!(of(7)[..], of(7)[..]);
            assert!(of(7).iter().zip(of(8).iter()).any(|(one, other)| one != other));
            assert_eq!(format!("{:?}", of(7)), "Draws(..)");
            // One draw of each number, none of which follows from another.
            let mut drawn = of(7).to_vec();
            drawn.sort_unstable();
            assert!(drawn.windows(2).filter(|two| two[0] == two[1]).count() < 2, "{drawn:?}");
            let none = Circuit { choice: Choice { dp: None, ..suite.choice } };
            assert!(none.draw(0, &[7; 32]).is_none());
        }
    }

    /// A number that is told and compared is one number; a sum and a comparison share ε, and so do a group's count, its sums and a comparison.
    #[test]
    fn epsilon_is_spent_once() {
        let rates =
            |suite: Circuit| -> Vec<f64> { suite.noise().into_iter().map(|of| of.s as f64 / of.t as f64).collect() };
        let near = |rates: Vec<f64>, want: &[f64]| {
            assert_eq!(rates.len(), want.len());
            for (rate, want) in rates.iter().zip(want) {
                assert!(*rate <= want * (1.0 + 1e-12) && *rate > 0.999 * want, "{rate} {want}");
            }
        };
        let most = MOST as f64;
        for least in [None, Some(4)] {
            near(rates(noisy(ResultKind::Count, &[0], least)), &[0.02]);
        }
        near(rates(noisy(ResultKind::Sum, &[0], None)), &[0.02 / most]);
        near(rates(noisy(ResultKind::Sum, &[0], Some(4))), &[0.01 / most, 0.01]);
        // A key is in two groups, and adds its own values once, and the other party's in each of them.
        let of = |parts: f64| [0.02 / parts / 2.0, 0.02 / parts / most, 0.02 / parts / 2.0 / most];
        near(rates(noisy(ResultKind::Groups, &[0], None)), &of(3.0));
        near(rates(noisy(ResultKind::Groups, &[0, 1], Some(4))), &[&of(4.0)[..], &[0.02 / 4.0]].concat());
    }

    /// The largest change of what a job tells that a key may make, added up over its numbers in units of their noise, is ε: for keys in as many
    /// groups as may be and with values as large as may be, of either party, and all of their numbers changed.
    #[test]
    fn a_key_changes_all_numbers_by_epsilon_at_most() {
        let suite = noisy(ResultKind::Groups, &[0, 1], Some(4));
        let rates: Vec<f64> = suite.noise().into_iter().map(|of| of.s as f64 / of.t as f64).collect();
        let most = MOST as i64;
        // What is told with a key and without it differs by these numbers: keys, spend and views of each of three groups, and all keys.
        for (spend, views) in [([most, 0], most), ([most / 2, -most / 2], -most), ([0, 0], 0), ([1, 1 - most], most)] {
            let change = [[1, spend[0], views], [0, 0, 0], [1, spend[1], views]];
            let lost = change.iter().flat_map(|group| group.iter().zip(&rates));
            let lost: f64 = lost.chain([(&1, &rates[3])]).map(|(by, rate)| by.abs() as f64 * rate).sum();
            assert!(lost <= 0.02 * (1.0 + 1e-12), "{lost}");
            assert_eq!(lost > 0.0199, spend != [0, 0], "{lost}");
        }
    }

    /// Noise as a party draws it for each cell, against the distribution that the page says, and one that is off by a quarter or a third.
    #[test]
    fn noise_of_each_cell_has_its_distribution() {
        let of = choice(ResultKind::Groups, &[0], None);
        let sums = of.sums.iter().map(|sum| Summed { largest: Some(1), ..sum.clone() }).collect();
        let dp = Some(Noise { epsilon: 3.0, sampling: None, largest: None });
        let suite = Circuit::new(&Choice { sums, dp, ..of }).unwrap();
        const RUNS: u16 = 600;
        let drawn: Vec<Draws> = (0..RUNS)
            .map(|run| suite.draw(1, &std::array::from_fn(|byte| run.to_le_bytes()[byte % 2])).unwrap())
            .collect();
        // ε over three columns is 1; a key adds one in two groups, one in all, and one in two.
        for (column, rate) in [0.5, 1.0, 0.5].into_iter().enumerate() {
            // Every number from -3 to 3, and what is beyond, below and above, in all groups.
            let mut counted = [0f64; 9];
            for noise in &drawn {
                for cell in noise.chunks(3) {
                    counted[((cell[column] as i64).clamp(-4, 4) + 4) as usize] += 1.0;
                }
            }
            let statistic = |rate: f64| -> f64 {
                let q = f64::exp(-rate);
                let probability = |k: i32| match k.abs() {
                    4 => q.powi(4) / (1.0 + q),
                    k => (1.0 - q) / (1.0 + q) * q.powi(k),
                };
                let all = f64::from(RUNS) * 3.0;
                (-4..=4).zip(counted).map(|(k, n)| (n - all * probability(k)).powi(2) / (all * probability(k))).sum()
            };
            // 8 degrees of freedom: above 31.8 once in 10^4.
            assert!(statistic(rate) < 31.8, "{column}: {counted:?}");
            assert!(statistic(rate * 0.75) > 31.8 && statistic(rate * 1.33) > 31.8, "{column}");
        }
        // The same group's numbers, and one number of two groups, have nothing to do with each other: their product is zero on average.
        for (one, other) in [(0, 1), (0, 3), (2, 5), (1, 8)] {
            let product = |noise: &Draws| (noise[one] as i64 * noise[other] as i64) as f64;
            let square = |at: usize| drawn.iter().map(|noise| (noise[at] as i64).pow(2) as f64).sum::<f64>();
            let sum: f64 = drawn.iter().map(product).sum();
            let deviation = (square(one) * square(other) / f64::from(RUNS)).sqrt();
            assert!(sum.abs() < 5.0 * deviation, "{one} {other}: {sum}, {deviation}");
        }
    }

    /// Noise of groups takes what bounds it: agreed labels, and a largest value of each sum.
    #[test]
    fn what_noise_of_groups_needs_is_asked_for() {
        let refused = |choice: Choice, words: &str| {
            let refusal = Circuit::new(&choice).err().expect("it is refused");
            assert!(refusal.why.contains(words), "{}", refusal.why);
            refusal.field
        };
        let of = || choice(ResultKind::Groups, &[0, 1], None);
        let groups = Some(Grouping { agreed: false, ..GROUPS });
        assert_eq!(refused(Choice { groups, ..of() }, "in the place of most"), "shared.groups.labels");
        let products = Products::new(&[Product { of_r: 0, of_s: 0, bits: 11 }], [0; 2]).unwrap();
        let groups = Some(Grouping { products, ..GROUPS });
        assert_eq!(refused(Choice { groups, ..of() }, "or the products"), "shared.dp");
        let groups = Some(Grouping { other: Some(OtherGrouping { most: 2, agreed: true }), ..GROUPS });
        assert_eq!(refused(Choice { groups, ..of() }, "or shared.groups.other"), "shared.dp");
        let dp = Some(Noise { epsilon: 1.0, sampling: None, largest: Some(5) });
        assert_eq!(refused(Choice { dp, ..of() }, "remove it"), "shared.dp.largest");
        let dp = Some(Noise { epsilon: 17.0, sampling: None, largest: None });
        assert_eq!(refused(Choice { dp, ..of() }, "0.01 to 16"), "shared.dp.epsilon");
        let with = |which: usize, largest| {
            let mut choice = of();
            choice.sums[which].largest = largest;
            choice
        };
        assert_eq!(refused(with(1, None), "missing for \"views\""), "shared.sums.largest");
        // Three columns, and two groups of a key in which the other party's values are added up.
        for (which, most) in [(0, (1u64 << 48) / 3), (1, (1 << 48) / 2 / 3)] {
            assert!(Circuit::new(&with(which, Some(most))).is_ok());
            assert_eq!(refused(with(which, Some(most + 1)), &format!("from 1 to {most}")), "shared.sums.largest");
        }
        // A sum that is compared besides has half of what it has alone.
        let dp = |largest| Some(Noise { epsilon: 1.0, sampling: None, largest: Some(largest) });
        let sum = |least, largest| Choice { dp: dp(largest), ..choice(ResultKind::Sum, &[0], least) };
        assert!(Circuit::new(&sum(None, 1 << 48)).is_ok() && Circuit::new(&sum(Some(9), 1 << 47)).is_ok());
        assert_eq!(refused(sum(Some(9), 1 << 48), &format!("from 1 to {}", 1u64 << 47)), "shared.dp.largest");
    }

    /// Whoever learns may make up groups and values: of each key of the other's that tells no more than ε, and small groups tell no more either.
    #[test]
    fn noise_hides_what_groups_and_values_were_chosen_for() {
        for learners in [&[0, 1][..], &[0], &[1]] {
            let told = |epsilon: Option<f64>| -> Vec<&'static str> {
                let mut choice = choice(ResultKind::Groups, learners, None);
                choice.dp = epsilon.and_then(|epsilon| Some(Noise { epsilon, ..choice.dp? }));
                Circuit::new(&choice).unwrap().reveals().into_iter().map(|reveal| reveal.name).collect()
            };
            assert_eq!(told(Some(2.9)), ["group_totals_noisy", "key_count"]);
            let plain = told(None);
            assert!(plain.len() > 3 && plain[0] == "group_totals");
            // Too little noise hides nothing from who chose: all is to be accepted as without.
            let little = told(Some(3.0));
            assert_eq!((little[0], &little[1..]), ("group_totals_noisy", &plain[1..]));
        }
    }

    #[test]
    fn what_is_to_be_expected_of_noisy_groups_is_said() {
        let sizes = Sizes {
            units: 1,
            in_flight: 1,
            keys: vec![10, 10],
            capacities: vec![10, 10],
            tag_len: vesica_types::TagLen::new(10).unwrap(),
        };
        let told = noisy(ResultKind::Groups, &[1], Some(4)).expects(&sizes).join("\n");
        for words in [
            "the number of keys of a group that is told is the true one and noise that the party that does not learn it adds",
            "the sum \"spend\" of a group that is told",
            "whether a group has 2 keys or more is asked of the noisy number",
            "there are 3 groups",
            "one of 4 equal parts",
            "each key of {0} is hidden from {1} by (0.02, 0)",
            "each key of {1} is hidden from {0} by (0.02, 0)",
            "in more than 2 of the groups",
            "more than 1000 of \"views\"",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(!told.contains("is noise"), "{told}");
        let few = Sizes { keys: vec![10, 1], ..sizes.clone() };
        let told = noisy(ResultKind::Groups, &[1], Some(4)).expects(&few).join("\n");
        assert!(told.contains("a party has 1 keys, so no group has 2 common ones"), "{told}");
        let told = noisy(ResultKind::Groups, &[1], None).expects(&sizes).join("\n");
        assert!(told.contains("of the keys of {1} {0} is told nothing"), "{told}");
    }
}
