//! What outlives a process, sealed.

pub mod kept;
pub mod ledger;
