//! From what was found to files.

pub mod groups;
pub mod join;
pub mod part;
pub mod shares;
