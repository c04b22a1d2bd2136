//! What can be wrong with a message.

/// What can be wrong with bytes from the other side.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeError {
    /// A message of another length than its parameters say.
    #[error("{got} bytes where {expected} are due")]
    Length {
        /// How many came.
        got: usize,
        /// How many should have come.
        expected: usize,
    },
    /// A number that is no residue.
    #[error("a coefficient that is not below its modulus {modulus}")]
    Residue {
        /// The modulus.
        modulus: u64,
    },
}
