//! One file for each scheme: all of the service that depends on it.

pub mod download;
pub mod lattice;
#[cfg(test)]
pub mod null;
pub mod piano;
pub mod simple;
