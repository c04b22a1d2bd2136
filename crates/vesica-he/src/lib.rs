//! The lattice schemes that retrieval needs.

#![forbid(unsafe_code)]

pub mod lwe;
