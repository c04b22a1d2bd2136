//! `protocol = "rr22"` with `result = "count"`, `"sum"`, `"groups"` or `"shares"`: what is common, in shares that are opened once for the whole
//! job, or written.

use crate::dp::KEYS_ARE_NOT_PEOPLE;
use crate::{
    Choice, Cut, Error, Grouping, Opened, Refusal, ResultKind, Seat, Sizes, Suite, Terms, chosen, chosen_by_group,
};
use vesica_block::Block;
use vesica_oprf::opprf;
use vesica_oprf::vole::Field;
use vesica_params::dp::{LARGEST, Laplace};
use vesica_params::lpn::{self, BINARY, CodeSet};
use vesica_params::{Level, cuckoo, okvs};
use vesica_psi::circuit::{self, Total};
use vesica_psi::{noise, reveals};
use vesica_session::{Lines, Reveal, SessionRng};

/// The code of the vector OLE.
const CODE: &CodeSet = &lpn::SETS[0];

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
        if let Some(noise) = choice.dp {
            noise.check()?;
            if noise.sampling.is_some() {
                let why = "is of use only with protocol = \"dp\"; remove it, for a total takes all keys";
                return refusal("shared.dp.sampling", why.to_owned());
            }
            match (choice.result, noise.largest) {
                (ResultKind::Sum, None) => {
                    let why = "is missing: say how much one key may add to the sum at most, such as dp = { epsilon = 1.0, largest = 500 }";
                    return refusal("shared.dp.largest", why.to_owned());
                }
                (ResultKind::Sum, Some(largest)) if !LARGEST.contains(&largest) => {
                    let (least, most) = LARGEST.into_inner();
                    let why =
                        format!("{largest} is no bound that there is noise for; give a number from {least} to {most}");
                    return refusal("shared.dp.largest", why);
                }
                (ResultKind::Sum, _) | (_, None) => {}
                (_, Some(_)) => {
                    let why = "bounds the values that a sum adds up, and a count adds up none; remove it";
                    return refusal("shared.dp.largest", why.to_owned());
                }
            }
        }
        Ok(Self { choice: choice.clone() })
    }

    /// The noise of each party that adds some: on the sum, and on the number of keys. Where a sum is told and whether the number is large
    /// enough, each gets half of ε; a number that is told and compared is one number.
    fn noise(&self) -> [Option<Laplace>; 2] {
        let Some(dp) = self.choice.dp else { return [None; 2] };
        match (self.choice.result, self.choice.least) {
            (ResultKind::Sum, least) => {
                let epsilon = if least.is_some() { dp.epsilon / 2.0 } else { dp.epsilon };
                [Some(Laplace::new(epsilon, dp.largest.unwrap_or(1))), least.map(|_| Laplace::new(epsilon, 1))]
            }
            _ => [None, Some(Laplace::new(dp.epsilon, 1))],
        }
    }

    /// Whether the party at this place adds noise to the sum, and to the number of keys: if the other one is told something that follows from
    /// it. A learner's own noise would hide nothing from itself.
    fn adds(&self, place: u8) -> [bool; 2] {
        let other_learns = self.choice.learners.iter().any(|&learner| learner != place);
        [other_learns, other_learns || self.choice.least.is_some()]
    }

    /// What the party at this place draws, in an order that is always the same.
    fn draw(&self, place: u8, coins: &[u8; 32]) -> Option<[u64; 2]> {
        self.choice.dp?;
        let (mut rng, [sum, count]) = (noise::chance("vesica 2026 noise of a total", coins), self.noise());
        let [on_sum, on_count] = self.adds(place);
        let mut of =
            |noise: Option<Laplace>, adds| noise.filter(|_| adds).map_or(0, |of| noise::laplace(of.s, of.t, &mut rng));
        Some([of(sum, on_sum), of(count, on_count)])
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

    /// Groups as the circuit has them.
    fn groups(of: Grouping) -> circuit::Groups {
        let Grouping { of: _, most, most_of_other: most_of_s, sums, of_other, products, least, of_a_key } = of;
        circuit::Groups { most, most_of_s, sums, of_other, products, least, of_a_key }
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
        Circuit::groups(*self).flags()
    }

    /// How many values a key has, of the party with the groups and of the other one: those that are added up, and those that are factors alone.
    pub fn widths(&self) -> [u32; 2] {
        Circuit::groups(*self).widths()
    }

    /// How many bits of factors are multiplied for a key.
    pub(crate) fn digits(&self) -> u32 {
        Circuit::groups(*self).digits()
    }

    /// Whether far less would be sent if a key could be in one group alone.
    pub fn costs_by_its_groups(&self) -> bool {
        let by_trees = |of_a_key| Circuit::groups(Self { of_a_key, ..*self }).by_trees();
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
            (ResultKind::Groups, _) if groups.is_some_and(|groups| groups.most_of_other > 0) => {
                Some(reveals::GROUP_TOTALS_OF_BOTH)
            }
            (ResultKind::Groups, _) => Some(reveals::GROUP_TOTALS),
            (ResultKind::Shares, _) => None,
            (_, None) => Some(reveals::INTERSECTION_SIZE),
            (_, Some(_)) => Some(reveals::INTERSECTION_SIZE_NOISY),
        };
        let small = groups.filter(|groups| groups.least < Grouping::SMALL).map(|_| reveals::SMALL_GROUPS);
        let chosen = chosen(&self.choice, groups.map(|groups| groups.of).or(*values));
        let by_group = groups.and_then(|groups| chosen_by_group(&self.choice, &groups));
        total.into_iter().chain(small).chain(chosen).chain(by_group).chain([reveals::KEY_COUNT]).collect()
    }

    fn expects(&self, _: &Sizes) -> Vec<String> {
        let Some(dp) = self.choice.dp else { return Vec::new() };
        let ([of_sum, of_count], mut told) = (self.noise(), Vec::new());
        let drawn = |which: usize| [0, 1].iter().filter(|&&place| self.adds(place)[which]).count() as u32;
        let (name, of, which) =
            if self.choice.result == ResultKind::Sum { ("sum", of_sum, 0) } else { ("count", of_count, 1) };
        if let Some(of) = of {
            let (width, deviation) = (of.width(drawn(which)), of.deviation(drawn(which)));
            let by = if drawn(which) == 1 { "the party that does not learn it" } else { "each party" };
            told.push(format!(
                "the {name} that is told is the true one and noise that {by} adds unseen: 19 times in 20 the two differ by no more than {width}, and \
                 the standard deviation of the noise is {deviation:.1}"
            ));
        }
        if let (Some(least), Some(of)) = (self.choice.least, of_count) {
            let width = of.width(2);
            told.push(format!(
                "whether there are {least} common keys or more is asked of a noisy count too, which is right within {width} 19 times in 20{}",
                if which == 0 { "; half of epsilon goes to that, and half to the sum" } else { ": the one that is told" }
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
        if let Some(largest) = dp.largest {
            told.push(format!(
                "a key whose rows come to more than {largest}, or to less than -{largest}, is refused before the run"
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
        let of_groups = |of: Grouping| 100 + 32 * u64::from(of.sums) + Self::groups(of).memory() * 13 / 10;
        700 + self.choice.groups.map_or(0, of_groups)
    }

    fn open(&self, seat: &Seat, terms: &Terms, lines: &mut Lines, rng: &mut SessionRng) -> Result<Opened, Error> {
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
                (Total::Groups(Self::groups(groups)), true)
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
        match Self::base_bits(sizes) {
            64 => Self::with::<u64>(params, lines, rng),
            _ => Self::with::<Block>(params, lines, rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CurveName, Mode, Noise, ProtocolName, Security};

    fn noisy(result: ResultKind, learners: &[u8], least: Option<u64>) -> Circuit {
        let largest = (result == ResultKind::Sum).then_some(1000);
        let choice = Choice {
            protocol: ProtocolName::Rr22,
            result,
            mode: Mode::default(),
            security: Security::default(),
            curve: CurveName::default(),
            least,
            groups: None,
            values: None,
            dp: Some(Noise { epsilon: 0.02, sampling: None, largest }),
            learners: learners.to_vec(),
            parties: 2,
            pivot: None,
            insecure: false,
        };
        Circuit::new(&choice).expect("there is noise for it")
    }

    /// Whoever is told something gets noise of the other party in it, and a learner adds none for itself alone.
    #[test]
    fn noise_is_of_those_whose_peer_is_told() {
        let (count, sum) = (ResultKind::Count, ResultKind::Sum);
        for (result, learners, least, adds) in [
            (count, &[0, 1][..], None, [[false, true], [false, true]]),
            (count, &[0], None, [[false, false], [false, true]]),
            (count, &[0], Some(5), [[false, true], [false, true]]),
            (sum, &[1], None, [[true, false], [false, false]]),
            (sum, &[1], Some(5), [[true, true], [false, true]]),
            (sum, &[0, 1], None, [[true, false], [true, false]]),
        ] {
            let suite = noisy(result, learners, least);
            for place in [0, 1] {
                // With so small an epsilon the chance of no noise is 2^-6 for a count, and less for a sum.
                let drawn: Vec<[u64; 2]> = (0..50).map(|i| suite.draw(place, &[i; 32]).unwrap()).collect();
                for which in [0, 1] {
                    let some = drawn.iter().filter(|noise| noise[which] != 0).count();
                    let adds = adds[usize::from(place)][which];
                    assert!(
                        if adds { some > 40 } else { some == 0 },
                        "{result:?} {learners:?} {least:?} {place} {which}"
                    );
                }
            }
        }
    }

    /// What is drawn follows from the coins alone: a second attempt adds the same.
    #[test]
    fn the_same_coins_give_the_same_noise() {
        let suite = noisy(ResultKind::Sum, &[0, 1], Some(3));
        assert_eq!(suite.draw(0, &[7; 32]), suite.draw(0, &[7; 32]));
        assert_ne!(suite.draw(0, &[7; 32]), suite.draw(0, &[8; 32]));
        let none = Circuit { choice: Choice { dp: None, ..suite.choice } };
        assert_eq!(none.draw(0, &[7; 32]), None);
    }

    /// A number that is told and compared is one number; a sum and a comparison share ε.
    #[test]
    fn epsilon_is_spent_once() {
        let rate = |noise: Option<Laplace>| noise.map(|of| of.s as f64 / of.t as f64);
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| a <= b && a > 0.999 * b);
        for least in [None, Some(4)] {
            let [sum, count] = noisy(ResultKind::Count, &[0], least).noise();
            assert!(sum.is_none() && near(rate(count), 0.02));
        }
        let [sum, count] = noisy(ResultKind::Sum, &[0], None).noise();
        assert!(near(rate(sum), 0.02 / 1000.0) && count.is_none());
        let [sum, count] = noisy(ResultKind::Sum, &[0], Some(4)).noise();
        assert!(near(rate(sum), 0.01 / 1000.0) && near(rate(count), 0.01));
    }
}
