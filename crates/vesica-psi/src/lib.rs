//! One file per intersection protocol, both parties in it; [`ideal`] says what each must compute.

#![forbid(unsafe_code)]

mod answer;
mod cells;
pub mod circuit;
pub mod count;
pub mod dp;
pub mod ecdh;
pub mod ecdh3;
mod entries;
mod gmw;
mod groups;
pub mod hash;
mod heard;
pub mod ideal;
pub mod ids;
pub mod kmprt17;
pub mod many;
mod marks;
mod masked;
pub mod noise;
pub mod nty21;
pub mod oprf;
mod ordered;
mod products;
pub mod reveals;
mod same;
mod scatter;
mod sorted;
mod star;
mod sums;
pub mod tally;
pub mod unbalanced;

pub use circuit::Circuit;
pub use count::Count;
pub use dp::Dp;
pub use ecdh::Ecdh;
pub use ecdh3::Ecdh3;
pub use ids::Ids;
pub use masked::FRAME;
pub use same::same;
