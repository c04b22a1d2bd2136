use std::fmt;
use vesica_types::Digest;

/// Why keys could not be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Two keys are equal: keys must be made distinct first.
    Duplicate {
        /// Where the first stands, from 0.
        first: usize,
        /// Where the second stands.
        second: usize,
    },
    /// Under this seed there is no solution. Another seed has one, except with the probability planned for; more keys than
    /// planned make it likely.
    Unsolvable {
        /// How many keys there were.
        keys: usize,
    },
}

impl Error {
    /// The error of keys that cannot be solved for, once it is known that they cannot.
    pub(crate) fn of(keys: &[Digest]) -> Self {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|&i| keys[i]);
        match order.windows(2).find(|pair| keys[pair[0]] == keys[pair[1]]) {
            Some(pair) => Error::Duplicate { first: pair[0], second: pair[1] },
            None => Error::Unsolvable { keys: keys.len() },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Duplicate { first, second } => {
                write!(f, "keys {first} and {second} are equal; remove duplicates before encoding")
            }
            Error::Unsolvable { keys } => {
                write!(f, "{keys} keys have no encoding under this seed; start again with a fresh one")
            }
        }
    }
}

impl std::error::Error for Error {}
