//! From what was found to files.

pub mod join;
pub mod part;
pub mod shares;
