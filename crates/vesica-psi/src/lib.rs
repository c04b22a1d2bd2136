//! One file per intersection protocol, both parties in it; [`ideal`] says what each must compute.

#![forbid(unsafe_code)]

pub mod ecdh;
pub mod ideal;
pub mod reveals;

pub use ecdh::Ecdh;
