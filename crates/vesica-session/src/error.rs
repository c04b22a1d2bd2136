use std::fmt;
use vesica_types::{Party, UnitId};

/// The result of anything that talks to a peer.
pub type Result<T> = std::result::Result<T, Error>;

/// Whose fault an error is; exit codes and exception classes are this and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The job file or the command line.
    Config,
    /// The data.
    Input,
    /// The connection.
    Network,
    /// The other party.
    Peer,
    /// This program.
    Bug,
    /// Somebody pressed Ctrl-C here, or ended the command by SIGTERM or SIGHUP.
    Interrupted,
}

// These stand in reports, and travel to a peer.
vesica_types::words!(
    Fault {
        Config = "config",
        Input = "input",
        Network = "network",
        Peer = "peer",
        Bug = "bug",
        Interrupted = "interrupted",
    }
);

impl Fault {
    /// The process's exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Fault::Config => 2,
            Fault::Input => 3,
            Fault::Network => 4,
            Fault::Peer => 5,
            Fault::Bug => 70,
            Fault::Interrupted => 130,
        }
    }
}

/// What goes wrong between parties. Every variant knows whose fault it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The peer sent what the protocol does not allow.
    Peer {
        /// Who.
        peer: Party,
        /// What it did.
        fault: Misbehaviour,
    },
    /// One of two peers sent what the protocol does not allow, and nobody can tell which.
    Either {
        /// Who.
        peers: [Party; 2],
        /// What one of them did.
        fault: Misbehaviour,
    },
    /// The peer ended the run and said why.
    Stopped {
        /// Who.
        peer: Party,
        /// Whose fault it is, as the peer sees it.
        fault: Fault,
        /// The peer's words, cut to a line of printable text.
        why: String,
    },
    /// The connection failed, or the peer fell silent.
    Net {
        /// Who was at the other end.
        peer: Party,
        /// What happened.
        why: String,
    },
    /// This side was asked to stop.
    Cancelled,
    /// More keys fell into a unit than its public capacity: chance below 2^-40, so run the job again.
    Overflow {
        /// The unit.
        unit: UnitId,
        /// Its capacity, in keys.
        capacity: u64,
    },
    /// A list of this side's that does not fit in memory could not be stored or read back.
    Store {
        /// Whose fault it is: a disk's that is full is the input's.
        fault: Fault,
        /// What happened, and what to do.
        why: String,
    },
    /// This program broke a rule of its own.
    Bug(String),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Peer { .. } | Error::Either { .. } | Error::Stopped { .. } => Fault::Peer,
            Error::Net { .. } => Fault::Network,
            Error::Cancelled => Fault::Interrupted,
            Error::Store { fault, .. } => *fault,
            Error::Overflow { .. } | Error::Bug(_) => Fault::Bug,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Peer { peer, fault } => write!(f, "{peer} broke the protocol: {fault}"),
            Error::Either { peers: [one, other], fault } => {
                write!(f, "{one} or {other} broke the protocol, and it cannot be told which of them: {fault}")
            }
            Error::Stopped { peer, fault: Fault::Interrupted, .. } => {
                write!(f, "{peer} was interrupted and stopped the run")
            }
            Error::Stopped { peer, fault, why } => {
                write!(f, "{peer} stopped the run ({} fault there): {why}", fault.name())
            }
            Error::Net { peer, why } => write!(f, "connection to {peer}: {why}"),
            Error::Cancelled => f.write_str("interrupted"),
            Error::Overflow { unit, capacity } => write!(
                f,
                "unit {unit} got more than its {capacity} keys, which happens less than once in 2^40 runs; run the job again"
            ),
            Error::Store { why, .. } => f.write_str(why),
            Error::Bug(what) => write!(f, "a bug in Vesica: {what}; please report it"),
        }
    }
}

impl std::error::Error for Error {}

/// What a peer did that the protocol does not allow.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// A message of the wrong length.
    Length {
        /// Bytes that came, or that were announced.
        got: u64,
        /// Bytes that the protocol says.
        want: u64,
    },
    /// A message longer than the protocol allows at this point.
    TooLong {
        /// Bytes that came, or that were announced.
        got: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// An element of a list that is not a valid element of the group.
    Element {
        /// Its place in the list, from 0.
        index: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A list that must be in strictly ascending order is not.
    Order {
        /// The place of the first element that is not above the one before.
        index: usize,
    },
    /// More data than the peer had leave to send.
    Flood,
    /// A message that cannot be understood.
    Malformed(&'static str),
    /// A value that contradicts what was said before.
    Contradiction(&'static str),
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misbehaviour::Length { got, want } => write!(f, "a message of {got} bytes where {want} are due"),
            Misbehaviour::TooLong { got, limit } => {
                write!(f, "a message of {got} bytes where at most {limit} are allowed")
            }
            Misbehaviour::Element { index, why } => write!(f, "element {index} of a list is {why}"),
            Misbehaviour::Order { index } => write!(f, "element {index} of a list is out of order"),
            Misbehaviour::Flood => f.write_str("more data than it had leave to send"),
            Misbehaviour::Malformed(what) => write!(f, "a {what} that cannot be understood"),
            Misbehaviour::Contradiction(what) => f.write_str(what),
        }
    }
}
