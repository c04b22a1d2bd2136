//! The lattice schemes that retrieval needs.
//!
//! [`lwe`] is what SimplePIR encrypts with, and [`pack`] what lets it do without a hint. [`rlwe`] is what the schemes over polynomials share: [`bfv`], [`bgv`] and
//! [`ckks`] say where each puts its message, and [`rgsw`] chooses between ciphertexts.

#![forbid(unsafe_code)]

pub mod bfv;
pub mod bgv;
pub mod ckks;
pub mod lwe;
pub mod pack;
pub mod rgsw;
pub mod rlwe;
pub mod sample;
mod wire;

pub use wire::HeError;
