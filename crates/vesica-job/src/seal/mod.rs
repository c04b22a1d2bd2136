//! What outlives a process, sealed.

pub mod blocks;
mod file;
pub mod kept;
pub mod key;
pub mod ledger;
pub mod log;
pub mod record;
