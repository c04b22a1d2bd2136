use std::time::Duration;

/// What a line has cost, step by step, in the order in which the steps began.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Meter {
    /// One entry a step.
    pub steps: Vec<StepMeter>,
}

/// The cost of one step.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StepMeter {
    /// The step's name.
    pub name: &'static str,
    /// Bytes of messages sent, without framing and encryption.
    pub sent: u64,
    /// Bytes of messages received.
    pub received: u64,
    /// Messages sent.
    pub messages: u64,
    /// Times that this side began to wait for the peer after having spoken: the rounds of the figure.
    pub rounds: u64,
    /// Time from the step's beginning to the next one's; zero where the transport has no clock.
    pub wall: Duration,
    /// CPU time of the line's thread in the step; zero where the transport has no clock.
    pub cpu: Duration,
    /// Time in which the line waited for the peer: for a message, or for room to send one; zero where the transport has no clock.
    pub waited: Duration,
}

impl Meter {
    /// Makes `name` the current step: the next costs are added to it.
    pub fn step(&mut self, name: &'static str) {
        if self.steps.last().is_none_or(|s| s.name != name) {
            self.steps.push(StepMeter { name, ..StepMeter::default() });
        }
    }

    /// The current step, which costs are added to.
    pub fn current(&mut self) -> &mut StepMeter {
        if self.steps.is_empty() {
            self.step("open");
        }
        self.steps.last_mut().expect("a step was just made")
    }

    /// Adds the costs of `other`, step by step of the same name.
    pub fn merge(&mut self, other: &Meter) {
        for theirs in &other.steps {
            match self.steps.iter_mut().find(|s| s.name == theirs.name) {
                Some(ours) => {
                    ours.sent += theirs.sent;
                    ours.received += theirs.received;
                    ours.messages += theirs.messages;
                    ours.rounds += theirs.rounds;
                    ours.wall += theirs.wall;
                    ours.cpu += theirs.cpu;
                    ours.waited += theirs.waited;
                }
                None => self.steps.push(theirs.clone()),
            }
        }
    }

    /// Bytes sent and received over all steps.
    pub fn bytes(&self) -> (u64, u64) {
        self.steps.iter().fold((0, 0), |(s, r), step| (s + step.sent, r + step.received))
    }
}
