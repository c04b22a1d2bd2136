//! How often the peers' keys were worked on, over all attempts at a job.
//!
//! Example: a job of 100 units, 4 of them in flight at once. The connection breaks when 30 units are finished, and the other 70 are
//! done in a second attempt. Then 30 units were answered in the first attempt, up to 4 more were under way when it broke, and 70 were
//! answered in the second. For a peer that follows the protocol this changes nothing. For one that deviates, each key of an answered
//! unit is a guess at this side's keys, so `limits.answers` bounds them: over a whole job, and not over a connection. A protocol that
//! takes all keys at once has all its units under way from the first moment to the last.
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
    /// The present attempt.
    now: Attempt,
}

/// What an attempt sets out to answer, in units.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attempt {
    /// Those that are missing.
    pub missing: u64,
    /// Those that are under way at once, at most.
    pub at_once: u64,
}

impl Answers {
    /// An attempt begins. What was under way in the one before it is taken to be answered.
    pub fn begin(&mut self, attempt: Attempt) {
        self.units = self.at_most();
        self.now = attempt;
        self.attempts += 1;
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
}
