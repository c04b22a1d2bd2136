use crate::difference::Difference;
use crate::tell::numbers::count;
use std::path::PathBuf;
use vesica_session::Fault;
use vesica_spec::{Plan, SpecError};
use vesica_types::Party;

/// Why a run ended without a result. [`JobError::fault`] says whose fault it is; exit codes are that and nothing else.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The job file.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// The parties' shared documents differ.
    #[error("{peer} holds a different job. [shared] must be the same on every side:{}", list(.differences))]
    Disagree {
        /// The peer.
        peer: String,
        /// Every field that differs.
        differences: Vec<Difference>,
    },
    /// More than two parties, of which one showed two others different things, or says wrongly what it was shown.
    #[error(
        "{others} broke the protocol, one of them: it showed different parties different {what}, or says wrongly what it was \
         shown. By its own word, {differ} was shown other {what} than this side{seen}",
        others = .others.join(" or "), differ = .differ.join(" and "),
        seen = .seen.as_ref().map(|seen| format!(". What this side was shown has this in it: {seen}")).unwrap_or_default()
    )]
    ShownApart {
        /// What should have been the same.
        what: &'static str,
        /// All other parties.
        others: Vec<String>,
        /// Those that say that they were shown something else.
        differ: Vec<String>,
        /// What else is wrong with what this side was shown.
        seen: Option<String>,
    },
    /// A sum for which no party has values, or each has.
    #[error(
        "sums and shares are of the values of one party, and {}: one of the two must name a column in mine.input.value, and the other \
         must not",
        if *.both { format!("{peer} has values, as this side has") } else { format!("neither {peer} nor this side has any") }
    )]
    Values {
        /// The peer.
        peer: String,
        /// Whether both have values, and not neither.
        both: bool,
    },
    /// Peers that came to check the job, where this side came to run it.
    #[error(
        "{who} only checked the job (`vesica check --peer`), and this side came to run it: run again when every side runs{misfit}",
        who = .peers.iter().map(Party::name).collect::<Vec<_>>().join(" and "),
        misfit = .misfit.as_ref().map(|misfit| format!(". The jobs do not fit: {misfit}")).unwrap_or_default()
    )]
    Checked {
        /// Those that came to check.
        peers: Vec<Party>,
        /// What of theirs does not go together with this side's job, if something does not.
        misfit: Option<String>,
    },
    /// An environment variable or the machine's set-up.
    #[error("{0}")]
    Setup(String),
    /// A table.
    #[error("{0}")]
    Table(#[from] vesica_table::Error),
    /// Getting in touch with a peer.
    #[error("{0}")]
    Net(#[from] vesica_net::Error),
    /// Anything between the parties after that.
    #[error("{0}")]
    Session(#[from] vesica_session::Error),
    /// A value that cannot be added up.
    #[error("{path}: row {row}: its {column} ({field}) is {why}", path = .path.display())]
    Value {
        /// The table.
        path: PathBuf,
        /// The row, from 1.
        row: u64,
        /// The column.
        column: String,
        /// What names it in the job.
        field: &'static str,
        /// What it is instead of a value, and what to do.
        why: &'static str,
    },
    /// Values whose sum may not be a number of 64 bits.
    #[error(
        "{path}: the values of {column} ({field}){times} may add up to 2^{bits} or more, which {sum} cannot be: bring them in a larger unit, or \
         fewer of them{smaller}",
        path = .path.display(), sum = if *.bits < 63 { "a sum with noise" } else { "a sum" },
        times = .times.map(|times| format!(", times up to {times} of the other party's,")).unwrap_or_default(),
        smaller = if .times.is_some() { ", or agree on a smaller largest of the other factor in shared.sums" } else { "" }
    )]
    Overflow {
        /// The table.
        path: PathBuf,
        /// The column.
        column: String,
        /// What names it in the job.
        field: &'static str,
        /// log2 of what the absolute values of a column have to be less than, all together.
        bits: u32,
        /// The most that each of them is multiplied by, if they are factors.
        times: Option<u64>,
    },
    /// A key in several rows of the input, where the job takes that for an error.
    #[error(
        "{path}: row {row} repeats {what} of an earlier row{others}, and shared.duplicates is \"error\"",
        path = .path.display(), what = if *.identifiers { "an identifier" } else { "the key" }, others = others(*.rows - 1, *.identifiers)
    )]
    Repeats {
        /// The table.
        path: PathBuf,
        /// The first such row, from 1.
        row: u64,
        /// How many there are.
        rows: u64,
        /// Whether these are identifiers, of which a row may have several.
        identifiers: bool,
    },
    /// An intersection that nobody is to learn.
    #[error(
        "fewer keys are common, or fewer rows match, than shared.limits.min_intersection asks for ({asked}); by that agreement nobody is told \
         more",
        asked = if *.noisy { format!("{least}, by a noisy count") } else { least.to_string() }
    )]
    TooSmall {
        /// How many there were to be at least.
        least: u64,
        /// Whether they were counted with noise.
        noisy: bool,
    },
    /// A connection that was lost after the last unit, when the peer may have been done.
    #[error("{0}; every unit is finished, so the others may have ended: run the same command again on every side")]
    LastWord(Box<JobError>),
    /// A peer that begins a run anew, of which this side has the result.
    #[error("{peer} has forgotten the run, and this side has ended it: run the same command again on every side")]
    Over {
        /// The peer.
        peer: String,
    },
    /// A peer that broke off, or came back, too often.
    #[error(
        "{peer} would be answered more than {limit} times for each of its keys, and shared.limits.answers = {limit} forbids that. \
         Keys are answered again after every break, and whenever {peer} has forgotten the run. If you trust {peer} and the \
         network is at fault, remove what mine.resume kept and run again on every side, or agree on a larger limit"
    )]
    Answers {
        /// The peer.
        peer: String,
        /// `shared.limits.answers`.
        limit: u32,
    },
    /// A run that would tell more than may be told.
    #[error(
        "this run tells {peer} about a key of this table by epsilon {epsilon}, and of the {most} that mine.budget allows for {peer} {spent} \
         are spent: {path} says in which runs. What was learned in them can be put together, so take a larger budget only if you want to \
         tell more, or a new file for a table of other people",
        path = .path.display()
    )]
    Budget {
        /// The peer.
        peer: String,
        /// What this run would spend.
        epsilon: f64,
        /// What runs before it did.
        spent: f64,
        /// `mine.budget.epsilon`.
        most: f64,
        /// `mine.budget.path`.
        path: PathBuf,
    },
    /// A table with more keys than the parties agreed on.
    #[error(
        "{party} brings {keys} distinct keys, and shared.limits.max_keys allows {most}: bring fewer, or agree on a larger limit",
        keys = crate::tell::numbers::count(*.keys), most = crate::tell::numbers::count(*.most)
    )]
    TooManyKeys {
        /// Who brings them.
        party: String,
        /// How many it brings.
        keys: u64,
        /// `shared.limits.max_keys`.
        most: u64,
    },
    /// A peer that came back with another table.
    #[error(
        "{peer} comes back with {now} distinct keys and had {before} when the run began, but a run is for one table of each \
         party: remove what mine.resume kept of this run, and run again on every side",
        now = crate::tell::numbers::count(*.now), before = crate::tell::numbers::count(*.before)
    )]
    OtherKeys {
        /// The peer.
        peer: String,
        /// Its keys when the run began.
        before: u64,
        /// Its keys now.
        now: u64,
    },
    /// A disk that is too small.
    #[error(
        "{folder} has {free} free, and {what} needs about {need}: make room, or name another folder",
        folder = .folder.display(), free = crate::tell::numbers::size(*.free), need = crate::tell::numbers::size(*.need)
    )]
    Space {
        /// Where it was to go.
        folder: PathBuf,
        /// What was.
        what: &'static str,
        /// Bytes that it needs.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A ledger that this run cannot go on from.
    #[error("mine.resume: {path}: {why}", path = .path.display())]
    Resume {
        /// The ledger.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// A file of ours, other than the tables.
    #[error("{what} {path}: {error}", path = .path.display())]
    File {
        /// What was tried: `cannot write the report`.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
}

impl From<vesica_suite::Error> for JobError {
    fn from(error: vesica_suite::Error) -> Self {
        match error {
            vesica_suite::Error::Session(error) => error.into(),
            error @ vesica_suite::Error::TooLarge { .. } => JobError::Setup(error.to_string()),
        }
    }
}

impl JobError {
    /// That fewer keys are common than the job asks for, by a count that has noise if the job's results have some.
    pub(crate) fn too_small(plan: &Plan, least: u64) -> Self {
        Self::TooSmall { least, noisy: plan.shared.dp.is_some() }
    }

    /// Whether this counts, of two failures of one run, where `before` came first: what the peer did wrong is not forgotten because a
    /// connection broke at the same moment.
    pub(crate) fn outweighs(&self, before: &Self) -> bool {
        before.fault() == Fault::Network && self.fault() == Fault::Peer
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            JobError::Spec(_)
            | JobError::Disagree { .. }
            | JobError::Values { .. }
            | JobError::Checked { .. }
            | JobError::Setup(_)
            | JobError::Budget { .. }
            | JobError::Resume { .. } => Fault::Config,
            JobError::Table(vesica_table::Error::Stopped { .. }) => vesica_session::Error::Cancelled.fault(),
            JobError::Table(error) => match error.fault() {
                vesica_table::Fault::Input => Fault::Input,
                vesica_table::Fault::Config => Fault::Config,
                vesica_table::Fault::Bug => Fault::Bug,
            },
            JobError::Net(error) => error.fault(),
            JobError::Session(error) => error.fault(),
            JobError::LastWord(error) => error.fault(),
            JobError::ShownApart { .. } => Fault::Peer,
            JobError::Over { .. } | JobError::Answers { .. } | JobError::OtherKeys { .. } => Fault::Peer,
            JobError::Value { .. } | JobError::Overflow { .. } => Fault::Input,
            JobError::Repeats { .. } | JobError::TooManyKeys { .. } | JobError::TooSmall { .. } => Fault::Input,
            JobError::Space { .. } | JobError::File { .. } => Fault::Input,
        }
    }

    /// Whether a peer is not to be had, or has forgotten the run, so that this side can only end without it. A peer that stops while
    /// another one is awaited has given up waiting for that one.
    pub(crate) fn is_of_a_lost_peer(&self) -> bool {
        let gave_up = matches!(self, JobError::Net(vesica_net::Error::Session(vesica_session::Error::Stopped { .. })));
        gave_up || self.is_over() || self.fault() == Fault::Network
    }

    /// Whether somebody met this side who is not the peer, or not for this job.
    pub(crate) fn is_of_another_in_its_place(&self) -> bool {
        use vesica_net::Error::{Certificate, Refused, Version};
        matches!(self, JobError::Net(Certificate { .. } | Refused { .. } | Version { .. }))
    }

    /// Whether the peer has forgotten a run that is over here.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, JobError::Over { .. })
    }

    /// The peer whose connection broke and how, if this is about that: this side's connection, or one between others.
    ///
    /// # Errors
    /// Every other error, as it is.
    pub(crate) fn broken(self) -> Result<(Party, String), Self> {
        match self {
            JobError::Session(
                vesica_session::Error::Net { peer, why }
                | vesica_session::Error::Stopped { peer, fault: Fault::Network, why },
            ) => Ok((peer, why)),
            error => Err(error),
        }
    }

    /// Whether the peer sees the same from what it was sent, and needs no word about it.
    pub(crate) fn both_see(&self) -> bool {
        matches!(
            self,
            JobError::Disagree { .. }
                | JobError::Values { .. }
                | JobError::Checked { .. }
                | JobError::TooManyKeys { .. }
                | JobError::TooSmall { .. }
        )
    }

    /// Whether this says only that another party ended the run, or is gone: where both sides are in one process, the other one knows
    /// more.
    pub fn is_an_echo(&self) -> bool {
        use vesica_session::Error::{Net, Stopped};
        matches!(
            self,
            JobError::Net(vesica_net::Error::Absent { .. } | vesica_net::Error::Session(Net { .. } | Stopped { .. }))
                | JobError::Session(Net { .. } | Stopped { .. })
        )
    }

    /// The kind of fault that a peer is told. A connection that broke elsewhere is a broken connection to everybody: all meet again.
    pub fn fault_for_peer(&self) -> Fault {
        match self {
            JobError::Session(vesica_session::Error::Stopped { fault: Fault::Network, .. }) => Fault::Network,
            error => error.fault(),
        }
    }

    /// What the peer `to` may be told of it: the kind of fault, who among the parties caused it, and nothing of this party's data or
    /// files, nor of what another peer sent.
    pub fn for_peer(&self, to: &Party) -> String {
        use vesica_session::Error;
        match self {
            JobError::Session(Error::Net { peer, .. }) => return format!("it lost {peer}"),
            JobError::Session(Error::Peer { peer, fault }) if peer == to => {
                return format!("it says that you broke the protocol: {fault}");
            }
            JobError::Session(Error::Peer { peer, .. }) => return format!("it says that {peer} broke the protocol"),
            JobError::Session(Error::Either { peers: [one, other], fault }) => {
                return match [one, other].map(|party| party == to) {
                    [true, _] => format!("it says that you or {other} broke the protocol: {fault}"),
                    [_, true] => format!("it says that you or {one} broke the protocol: {fault}"),
                    _ => format!("it says that {one} or {other} broke the protocol"),
                };
            }
            JobError::Session(Error::Stopped { peer, fault: Fault::Interrupted, .. }) => {
                return format!("{peer} was interrupted");
            }
            JobError::Session(Error::Stopped { peer, why, .. }) => return format!("{peer} stopped the run: {why}"),
            _ => {}
        }
        match self.fault() {
            Fault::Config => "its job or set-up is at fault; it shows why on its own screen".into(),
            Fault::Input => "its input or output failed; it shows why on its own screen".into(),
            Fault::Network => "its connection failed".into(),
            Fault::Peer => match self {
                JobError::Over { .. } => {
                    "it has ended the run, and this side has forgotten it: run the same command again on every side".into()
                }
                JobError::Answers { limit, .. } => format!(
                    "it has answered this side as often as shared.limits.answers = {limit} allows: remove what mine.resume kept \
                     and run again on every side, or agree on a larger limit"
                ),
                JobError::OtherKeys { peer, .. } if peer == to.name() => {
                    "this side came back with another number of keys, but a run is for one table of each party: remove what \
                     mine.resume kept of this run, and run again on every side"
                        .into()
                }
                JobError::ShownApart { what, .. } => {
                    format!("it says that one party showed different parties different {what}; it does not know which")
                }
                _ => "it says that a peer is at fault".into(),
            },
            Fault::Bug => "a bug on its side".into(),
            Fault::Interrupted => "it was interrupted".into(),
        }
    }
}

/// Differences that are told; of the others, their number. A peer may send as many fields as its first words hold.
const TOLD: usize = 10;

fn list(differences: &[Difference]) -> String {
    let mut told: String = differences.iter().take(TOLD).map(|d| format!("\n  {d}")).collect();
    if let Some(more @ 1..) = differences.len().checked_sub(TOLD) {
        told += &format!("\n  and {more} more");
    }
    told
}

/// The rows that repeat a key besides the one that is named.
fn others(more: u64, identifiers: bool) -> String {
    let (one, many) = if identifiers { ("identifier", "identifiers") } else { ("row", "rows") };
    match more {
        0 => String::new(),
        1 => format!(", as does 1 more {one}"),
        more => format!(", as do {} more {many}", count(more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::differences;
    use serde_json::Value;
    use vesica_session::{Error, Misbehaviour};

    /// A third party hears who is at fault, from one that had it from another.
    #[test]
    fn a_peer_is_told_who_among_the_parties_is_at_fault() {
        let [bob, carol] = [Party::new(1, "bob"), Party::new(2, "carol")];
        let stopped = |fault, why: &str| Error::Stopped { peer: bob.clone(), fault, why: why.into() };
        let accused = Error::Peer { peer: bob.clone(), fault: Misbehaviour::Flood };
        for (error, fault, words) in [
            (Error::Net { peer: bob.clone(), why: "silence at 10.0.0.1".into() }, Fault::Network, "it lost bob"),
            (stopped(Fault::Network, "it lost carol"), Fault::Network, "bob stopped the run: it lost carol"),
            (stopped(Fault::Interrupted, "it was interrupted"), Fault::Peer, "bob was interrupted"),
            (stopped(Fault::Input, "its disk"), Fault::Peer, "bob stopped the run: its disk"),
            (accused, Fault::Peer, "it says that bob broke the protocol"),
            (Error::Bug("x".into()), Fault::Bug, "a bug on its side"),
        ] {
            let error = JobError::Session(error);
            assert_eq!((error.fault_for_peer(), error.for_peer(&carol)), (fault, words.to_owned()));
        }
    }

    #[test]
    fn another_one_in_a_peers_place_is_whoever_was_met_there() {
        use vesica_net::Error::{Certificate, Name, Refused, Road, Version};
        let (peer, address, why) =
            (Party::new(1, "bob"), "bob.example:5300".to_owned(), "it runs another job".to_owned());
        let (expected, presented) = (String::new(), String::new());
        let others = [
            Certificate { peer: peer.clone(), address: address.clone(), expected, presented, why: why.clone() },
            Refused { peer: peer.clone(), address: address.clone(), why: why.clone() },
            Version { peer: peer.clone(), theirs: 1, ours: 2 },
        ];
        assert!(others.into_iter().all(|error| JobError::from(error).is_of_another_in_its_place()));
        let proxy = Road { peer: peer.clone(), address: address.clone(), why: why.clone() };
        let unknown = Name { peer: peer.clone(), address, why };
        // bob himself is there, and says nonsense.
        let bob = vesica_net::Error::Session(Error::Peer { peer, fault: Misbehaviour::Flood });
        assert!([proxy, unknown, bob].into_iter().all(|error| !JobError::from(error).is_of_another_in_its_place()));
    }

    /// A peer may send a megabyte of fields, again and again.
    #[test]
    fn of_many_differences_ten_are_told() {
        let [alice, bob] = [Party::new(0, "alice"), Party::new(1, "bob")];
        let document = |fields: usize| Value::Object((0..fields).map(|n| (n.to_string(), Value::Null)).collect());
        let told = |fields| {
            let differences = differences(&alice, &document(0), &bob, &document(fields));
            JobError::Disagree { peer: "bob".into(), differences }.to_string()
        };
        let many = told(20_000);
        assert!(many.len() < 4096 && many.ends_with("\n  and 19990 more"), "{many}");
        assert!(told(11).ends_with("\n  and 1 more"), "{}", told(11));
        assert!(told(10).ends_with("\n  shared.9: (absent) for alice, null for bob"), "{}", told(10));
    }

    /// An honest third party is not told that it broke the protocol, nor what another one sent.
    #[test]
    fn only_the_peer_at_fault_is_called_you() {
        let [bob, carol] = [Party::new(1, "bob"), Party::new(2, "carol")];
        let broke: JobError = Error::Peer { peer: bob.clone(), fault: Misbehaviour::Order { index: 3 } }.into();
        assert_eq!(broke.for_peer(&bob), "it says that you broke the protocol: element 3 of a list is out of order");
        assert_eq!(broke.for_peer(&carol), "it says that bob broke the protocol");
        let [alice, dave] = [Party::new(0, "alice"), Party::new(3, "dave")];
        let fault = Misbehaviour::Contradiction("of two shares one is false");
        let either: JobError = Error::Either { peers: [bob.clone(), alice.clone()], fault }.into();
        let words = "it says that you or bob broke the protocol: of two shares one is false";
        assert_eq!((either.for_peer(&alice).as_str(), either.fault()), (words, Fault::Peer));
        assert!(either.for_peer(&bob).contains("you or alice broke"));
        assert_eq!(either.for_peer(&dave), "it says that bob or alice broke the protocol");
        let other = JobError::OtherKeys { peer: "bob".into(), before: 1, now: 2 };
        assert!(other.for_peer(&bob).contains("this side came back"));
        assert_eq!(other.for_peer(&carol), "it says that a peer is at fault");
    }
}
