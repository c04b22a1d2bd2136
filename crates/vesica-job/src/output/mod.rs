//! From what was found to files.

pub mod groups;
pub mod ids;
pub mod join;
pub mod part;
pub mod shares;
