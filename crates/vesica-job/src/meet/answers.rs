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

/// Attempts at a job, and the units that were answered in them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answers {
    /// Attempts that were begun.
    pub attempts: u64,
    /// Units that were finished, and those that were under way when an earlier attempt broke.
    units: u64,
    /// Those of them that a cluster began in the present run, by its own count.
    of_run: u64,
    /// The present attempt.
    now: Attempt,
}

/// What an attempt sets out to answer, in units.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attempt {
    /// Those that are missing. For a cluster: all that it may begin, so often as it may.
    pub missing: u64,
    /// Those that are under way at once, at most. For a cluster: what the attempt costs besides those that it begins.
    pub at_once: u64,
}

impl Answers {
    /// An attempt begins. What was under way in the one before it is taken to be answered.
    pub fn begin(&mut self, attempt: Attempt) {
        self.units = self.at_most();
        self.now = attempt;
        self.attempts += 1;
    }

    /// A new run begins, of which a cluster has begun no unit yet.
    pub fn start(&mut self) {
        self.of_run = 0;
    }

    /// A cluster has begun so many units of the present run, in all attempts at it. If it cannot say how many, or they are fewer than before,
    /// its files are lost: then all that the attempt might have begun counts.
    pub fn begun(&mut self, begun: Option<u64>) {
        let more = begun.and_then(|begun| begun.checked_sub(self.of_run)).unwrap_or(self.now.missing);
        self.units = self.units.saturating_add(more);
        self.now.missing = self.now.missing.saturating_sub(more);
        self.of_run = begun.unwrap_or(0);
    }

    /// How many units a cluster may begin in the present run, of `most` in the whole job.
    pub fn allowed(&self, most: u64) -> u64 {
        most.saturating_sub(self.units.saturating_sub(self.of_run))
    }

    /// A unit was finished.
    pub fn finish(&mut self) {
        self.units = self.units.saturating_add(1);
        self.now.missing = self.now.missing.saturating_sub(1);
    }

    /// Units that are missing in the present attempt.
    pub fn missing(&self) -> u64 {
        self.now.missing
    }

    /// The units that were answered, if the present attempt is over.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The units that were answered, if the present attempt breaks now.
    pub fn at_most(&self) -> u64 {
        self.units.saturating_add(self.now.missing.min(self.now.at_once))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_at_the_top() {
        let mut answers = Answers::default();
        answers.begin(Attempt { missing: 100, at_once: 4 });
        (0..30).for_each(|_| answers.finish());
        assert_eq!((answers.units(), answers.at_most()), (30, 34));
        answers.begin(Attempt { missing: 70, at_once: 4 });
        (0..70).for_each(|_| answers.finish());
        assert_eq!((answers.attempts, answers.units()), (2, 104));
        // A break after the last unit costs nothing.
        assert_eq!(answers.at_most(), 104);
    }

    /// A job of 100 units which may be answered 8 times. A new salt costs 13 units, and going on costs nothing but what is begun.
    #[test]
    fn a_cluster_counts_what_it_has_begun() {
        let (mut answers, most) = (Answers::default(), 800);
        let begin = |answers: &mut Answers, at_once| {
            answers.begin(Attempt { missing: most - answers.at_most(), at_once });
        };
        begin(&mut answers, 13);
        answers.start();
        assert_eq!((answers.at_most(), answers.allowed(most)), (13, 800));
        answers.begun(Some(33));
        begin(&mut answers, 0);
        assert_eq!((answers.attempts, answers.at_most(), answers.allowed(most)), (2, 46, 787));
        answers.begun(Some(103));
        assert_eq!(answers.at_most(), 116);
        // The peer has forgotten the run: what was begun in it stays counted, and the new run has the rest.
        begin(&mut answers, 13);
        assert_eq!(answers.at_most(), 129);
        // Nothing is counted twice if this attempt ends before its run begins.
        answers.begun(Some(103));
        begin(&mut answers, 13);
        answers.start();
        assert_eq!((answers.at_most(), answers.allowed(most)), (142, 671));
        answers.begun(Some(7));
        assert_eq!((answers.at_most(), answers.allowed(most)), (149, 671));
    }

    /// The files of a cluster are gone, or some of them: each unit may have been begun as often as was allowed.
    #[test]
    fn what_a_cluster_cannot_tell_counts_as_begun() {
        for told in [None, Some(20)] {
            let mut answers = Answers::default();
            answers.begin(Attempt { missing: 800, at_once: 13 });
            answers.start();
            answers.begun(Some(33));
            answers.begun(told);
            assert_eq!((answers.at_most(), answers.allowed(800)), (800, told.unwrap_or(0)));
        }
    }
}
