//! One file per intersection protocol, both parties in it; [`ideal`] says what each must compute.

#![forbid(unsafe_code)]

mod answer;
pub mod count;
pub mod ecdh;
pub mod hash;
pub mod ideal;
mod masked;
pub mod oprf;
mod ordered;
pub mod reveals;
mod same;
mod sorted;

pub use count::Count;
pub use ecdh::Ecdh;
pub use masked::FRAME;
pub use same::same;
