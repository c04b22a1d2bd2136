//! From a table to its keys: which rows have which key.

pub mod feed;
pub mod groups;
pub mod hash;
pub mod keys;
pub mod sort;
pub mod values;
