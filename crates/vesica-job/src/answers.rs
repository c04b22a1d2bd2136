//! How often the peer's keys were worked on, over all attempts at a job.
//!
//! Example: a job of 100 units of 1000 keys, 4 of them in flight at once. The connection breaks when 30 units are finished, and the
//! other 70 are done in a second attempt. Then 30 000 keys were answered in the first attempt, up to 4000 more were under way when it
//! broke, and 70 000 were answered in the second. For a peer that follows the protocol this changes nothing. For one that deviates,
//! each answer is a guess at this side's keys, so `limits.answers` bounds them: over a whole job, and not over a connection.
//!
//! Keys under way count from the moment an attempt begins: before the coins are opened, so that a peer which does not like the salt
//! and drops the connection has used up an attempt too.

/// Attempts at a job, and the keys of the peer that were answered in them, padding included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answers {
    /// Attempts that were begun.
    pub attempts: u64,
    /// Keys of finished units, and those that were under way when an earlier attempt broke.
    keys: u64,
    /// The present attempt.
    now: Attempt,
}

/// What an attempt sets out to answer, in keys of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attempt {
    /// Those of units that are missing.
    pub missing: u64,
    /// Those that are under way at once, at most.
    pub at_once: u64,
}

impl Answers {
    /// An attempt begins. What was under way in the one before it is taken to be answered.
    pub fn begin(&mut self, attempt: Attempt) {
        self.keys = self.at_most();
        self.now = attempt;
        self.attempts += 1;
    }

    /// A unit was finished that has room for so many of the peer's keys.
    pub fn finish(&mut self, keys: u64) {
        self.keys = self.keys.saturating_add(keys);
        self.now.missing = self.now.missing.saturating_sub(keys);
    }

    /// The keys that were answered, if the present attempt is over.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The keys that were answered, if the present attempt breaks now.
    pub fn at_most(&self) -> u64 {
        self.keys.saturating_add(self.now.missing.min(self.now.at_once))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_at_the_top() {
        let mut answers = Answers::default();
        answers.begin(Attempt { missing: 100_000, at_once: 4000 });
        (0..30).for_each(|_| answers.finish(1000));
        assert_eq!((answers.keys(), answers.at_most()), (30_000, 34_000));
        answers.begin(Attempt { missing: 70_000, at_once: 4000 });
        (0..70).for_each(|_| answers.finish(1000));
        assert_eq!((answers.attempts, answers.keys()), (2, 104_000));
        // A break after the last unit costs nothing.
        assert_eq!(answers.at_most(), 104_000);
    }
}
