//! From a table to its keys: which rows have which key.

pub mod count;
pub mod feed;
pub mod groups;
pub mod hash;
pub mod keys;
pub mod ordered;
pub mod parted;
pub mod repeats;
pub mod sort;
pub mod values;
