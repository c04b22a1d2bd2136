//! Security levels and named parameter sets, each with its source.
//!
//! Code asks for a guarantee, not for numbers: [`tag_bytes`] for a bound on false matches, [`unit_capacity`] for a bound
//! on overflow. What is spent once a job (a failure probability of 2^-σ) is spread over the whole job here, by the
//! union bound, so that no caller has to think of it. Named sets ([`bch`], [`bins`], [`cuckoo`], [`curve`], [`okvs`]) are never edited: a better one is a new id.

#![forbid(unsafe_code)]

pub mod bch;
pub mod bins;
mod bounds;
pub mod cuckoo;
pub mod curve;
pub mod dp;
mod level;
pub mod lpn;
pub mod lwe;
pub mod mini;
pub mod okvs;
pub mod piano;
pub mod rlwe;
pub mod strength;

pub use bounds::{
    code_width, log2_overflow, tag_bits, tag_bytes, target_bits, unit_capacity, units, vole_base_bits, zero_test_bytes,
};
pub use level::{Level, QUERIES_A_CLIENT};
