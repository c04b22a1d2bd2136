//! How often the peers' keys were worked on, over all attempts at a job.
//!
//! Example: a job of 100 units, 4 of them in flight at once. The connection breaks when 30 units are finished, and the other 70 are
//! done in a second attempt. Then 30 units were answered in the first attempt, up to 4 more were under way when it broke, and 70 were
//! answered in the second. For a peer that follows the protocol this changes nothing. For one that deviates, each key of an answered
//! unit is a guess at this side's keys, so `limits.answers` bounds them: over a whole job, and not over a connection. A protocol that
//! takes all keys at once has all its units under way from the first moment to the last.
//!
//! **A cluster counts exactly.** Its workers write down each unit that they begin, before they answer anything of it. When the parties meet
//! again, the driver says how many that were ([`Answers::begun`]). So what was under way when an attempt broke is not estimated. In the
//! example 30 units were finished and three more were begun: 33 units were answered in the first attempt.
//!
//! Units under way count from the moment an attempt begins: before the coins are opened, so that a peer which does not like the salt
//! and drops the connection has used up an attempt too.
//!
//! **What counts is the share of the job.** The number of units follows from what the parties say of their memory and workers, so a peer
//! may choose it anew for each run that it begins. Example: 3 of 4 units were answered, and the peer forgets the run and says that it has
//! less memory, so that the next run has 10 units. Three quarters of the job are 8 of these 10 units, rounded up. So a unit never counts
//! for less than its part of the job, and all runs together answer the job at most `limits.answers` times.

use std::num::NonZeroU32;

/// Attempts at a job, and the units that were answered in them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answers {
    /// Attempts that were begun.
    pub attempts: u64,
    /// Units that were finished, and those that were under way when an earlier attempt broke, each as a part of the job that is cut as in
    /// the present attempt.
    units: u64,
    /// What a cluster began in the present run, by its own count: units of that run, and how many the run has.
    of_run: (u64, u32),
    /// The present attempt.
    now: Attempt,
}

/// What an attempt sets out to answer, in units.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attempt {
    /// How many units the job is cut into.
    pub of: u32,
    /// Those that are missing. For a cluster: all that it may begin, so often as it may.
    pub missing: u64,
    /// Those that are under way at once, at most. For a cluster: what the attempt costs besides those that it begins.
    pub at_once: u64,
}

/// As many units of a job that is cut into `to` as cover the part of it that `units` of `from` are.
fn in_units(units: u64, from: u32, to: u32) -> u64 {
    if from == to || from == 0 {
        return units;
    }
    let covered = (u128::from(units) * u128::from(to)).div_ceil(u128::from(from));
    covered.try_into().unwrap_or(u64::MAX)
}

impl Answers {
    /// An attempt begins. What was under way in the one before it is taken to be answered.
    pub fn begin(&mut self, attempt: Attempt) {
        self.units = self.at_most(attempt.of);
        self.now = attempt;
        self.attempts += 1;
    }

    /// A new run begins, of which a cluster has begun no unit yet.
    pub fn start(&mut self) {
        self.of_run = (0, self.now.of);
    }

    /// A cluster has begun so many units of the present run, in all attempts at it. If it cannot say how many, or they are fewer than before,
    /// its files are lost: then all that the attempt might have begun counts.
    pub fn begun(&mut self, begun: Option<u64>) {
        let (before, of) = self.of_run;
        let more = begun.and_then(|begun| begun.checked_sub(before)).map(|more| in_units(more, of, self.now.of));
        let more = more.unwrap_or(self.now.missing);
        self.units = self.units.saturating_add(more);
        self.now.missing = self.now.missing.saturating_sub(more);
        self.of_run = (begun.unwrap_or(0), of);
    }

    /// How many units a cluster may begin in the present run, of `most` in the whole job.
    pub fn allowed(&self, most: u64) -> u64 {
        let (begun, of) = self.of_run;
        most.saturating_sub(self.units.saturating_sub(in_units(begun, of, self.now.of)))
    }

    /// A unit was finished.
    pub fn finish(&mut self) {
        self.units = self.units.saturating_add(1);
        self.now.missing = self.now.missing.saturating_sub(1);
    }

    /// All units that were missing in the present attempt were finished together.
    pub fn finish_all(&mut self) {
        self.units = self.units.saturating_add(self.now.missing);
        self.now.missing = 0;
    }

    /// Units that are missing in the present attempt.
    pub fn missing(&self) -> u64 {
        self.now.missing
    }

    /// The units that were answered, if the present attempt is over.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// At most so many keys were answered, if the present attempt is over: of a partner that has `padded` keys, padding included, in the run in
    /// which these are most. Padding differs from run to run, and in none is a unit's room a larger part of the keys than the unit is of the
    /// job.
    pub fn keys(&self, padded: u64) -> u64 {
        let Some(of) = NonZeroU32::new(self.now.of) else { return 0 };
        let keys = (u128::from(self.units) * u128::from(padded)).div_ceil(u128::from(of.get()));
        keys.try_into().unwrap_or(u64::MAX)
    }

    /// The part of the job that was answered if the present attempt breaks now, in units of a job that is cut into `of`.
    pub fn at_most(&self, of: u32) -> u64 {
        in_units(self.units.saturating_add(self.now.missing.min(self.now.at_once)), self.now.of, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_at_the_top() {
        let mut answers = Answers::default();
        answers.begin(Attempt { of: 100, missing: 100, at_once: 4 });
        (0..30).for_each(|_| answers.finish());
        assert_eq!((answers.units(), answers.at_most(100)), (30, 34));
        answers.begin(Attempt { of: 100, missing: 70, at_once: 4 });
        (0..70).for_each(|_| answers.finish());
        assert_eq!((answers.attempts, answers.units()), (2, 104));
        // A break after the last unit costs nothing.
        assert_eq!(answers.at_most(100), 104);
    }

    /// A job of 100 units which may be answered 8 times. A new salt costs 13 units, and going on costs nothing but what is begun.
    #[test]
    fn a_cluster_counts_what_it_has_begun() {
        let (mut answers, most) = (Answers::default(), 800);
        let begin = |answers: &mut Answers, at_once| {
            answers.begin(Attempt { of: 100, missing: most - answers.at_most(100), at_once });
        };
        begin(&mut answers, 13);
        answers.start();
        assert_eq!((answers.at_most(100), answers.allowed(most)), (13, 800));
        answers.begun(Some(33));
        begin(&mut answers, 0);
        assert_eq!((answers.attempts, answers.at_most(100), answers.allowed(most)), (2, 46, 787));
        answers.begun(Some(103));
        assert_eq!(answers.at_most(100), 116);
        // The peer has forgotten the run: what was begun in it stays counted, and the new run has the rest.
        begin(&mut answers, 13);
        assert_eq!(answers.at_most(100), 129);
        // Nothing is counted twice if this attempt ends before its run begins.
        answers.begun(Some(103));
        begin(&mut answers, 13);
        answers.start();
        assert_eq!((answers.at_most(100), answers.allowed(most)), (142, 671));
        answers.begun(Some(7));
        assert_eq!((answers.at_most(100), answers.allowed(most)), (149, 671));
    }

    /// The files of a cluster are gone, or some of them: each unit may have been begun as often as was allowed.
    #[test]
    fn what_a_cluster_cannot_tell_counts_as_begun() {
        for told in [None, Some(20)] {
            let mut answers = Answers::default();
            answers.begin(Attempt { of: 100, missing: 800, at_once: 13 });
            answers.start();
            answers.begun(Some(33));
            answers.begun(told);
            assert_eq!((answers.at_most(100), answers.allowed(800)), (800, told.unwrap_or(0)));
        }
    }

    #[test]
    fn a_unit_counts_for_its_part_of_the_job() {
        let mut answers = Answers::default();
        answers.begin(Attempt { of: 4, missing: 4, at_once: 1 });
        (0..3).for_each(|_| answers.finish());
        // The fourth was under way.
        assert_eq!((answers.at_most(4), answers.at_most(10)), (4, 10));
        answers.begin(Attempt { of: 4, missing: 0, at_once: 0 });
        assert_eq!((answers.at_most(4), answers.at_most(10), answers.at_most(1)), (4, 10, 1));
        answers.begin(Attempt { of: 10, missing: 10, at_once: 2 });
        assert_eq!((answers.units(), answers.at_most(10), answers.at_most(4)), (10, 12, 5));
    }

    /// A peer that does not follow the program, and takes as much as the count allows: it chooses how many units each run has and when it
    /// breaks off. Before units counted as parts of the job, it got more than thirty whole answers of eight: many small units of a late run
    /// were counted like the few large ones of the first.
    #[test]
    fn a_peer_that_chooses_the_number_of_units_gets_no_more_than_the_answers_that_are_allowed() {
        const ALLOWED: u64 = 8;
        let ways: [&dyn Fn(u32) -> u32; 5] =
            [&|run| 4 + run, &|run| 256 - run.min(252), &|run| 1 << (run % 9), &|_| 7, &|run| {
                if run % 2 == 0 { 255 } else { 2 }
            }];
        for (way, of) in ways.iter().enumerate() {
            // For each run, how many units it finishes before it breaks off, and how many are under way then.
            for (part, at_once) in [(1, 1), (2, 1), (2, 4), (1, 64), (4, 2)] {
                let mut answers = Answers::default();
                // In parts of the job, of which each number of units up to 256 is a divisor or nearly so: reals are exact enough here.
                let mut answered = 0.0;
                for run in 0..10_000 {
                    let of = of(run);
                    let at_once = u64::from(of).min(at_once);
                    if answers.at_most(of) + u64::from(of) > ALLOWED * u64::from(of) {
                        continue;
                    }
                    answers.begin(Attempt { of, missing: of.into(), at_once });
                    let finished = (u64::from(of) / part).min(u64::from(of) - at_once);
                    (0..finished).for_each(|_| answers.finish());
                    answered += (finished + at_once) as f64 / f64::from(of);
                }
                assert!(answered <= ALLOWED as f64 + 1e-9, "way {way}, {part}, {at_once}: {answered} answers");
                assert!(answered > 4.0, "way {way}, {part}, {at_once}: {answered} answers, and the peer wanted more");
            }
        }
    }

    /// The same for a cluster, whose driver says at each meeting what was begun, or that it cannot tell.
    #[test]
    fn a_cluster_whose_peer_chooses_the_number_of_units_counts_parts_of_the_job() {
        const ALLOWED: u64 = 8;
        for forgets in [false, true] {
            let (mut answers, mut answered) = (Answers::default(), 0.0);
            for run in 0..1_000_u32 {
                let of = 4 + run % 200;
                let most = ALLOWED * u64::from(of);
                if answers.at_most(of) + u64::from(of) > most {
                    continue;
                }
                answers.begin(Attempt { of, missing: most - answers.at_most(of), at_once: most.div_ceil(64) });
                answers.start();
                // Of what it may begin it begins a part, and then the peer has forgotten the run.
                let begins = answers.allowed(most).min(u64::from(of) * 2 / 3);
                answered += begins as f64 / f64::from(of);
                answers.begun((!forgets).then_some(begins));
            }
            assert!(answered <= ALLOWED as f64 + 1e-9, "{answered}");
        }
    }
}
