//! From what was found to files.

pub mod any;
pub mod groups;
pub mod ids;
pub mod join;
pub mod link;
pub mod part;
pub mod shares;
