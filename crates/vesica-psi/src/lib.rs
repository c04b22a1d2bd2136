//! One file per intersection protocol, both parties in it; [`ideal`] says what each must compute.

#![forbid(unsafe_code)]

mod answer;
pub mod ecdh;
pub mod hash;
pub mod ideal;
pub mod oprf;
mod ordered;
pub mod reveals;
mod same;
mod sorted;

pub use ecdh::Ecdh;
pub use same::same;
