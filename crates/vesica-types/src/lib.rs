//! The nouns everyone shares; no logic.
//!
//! One module a noun. Each is a newtype: mixing a [`Digest`] with a [`Tag`], or a [`RowId`] with a [`UnitId`], does
//! not compile.

#![forbid(unsafe_code)]

mod digest;
mod party;
mod row;
mod secret;
mod tag;
mod unit;
mod words;

pub use digest::{Digest, KeyDigest};
pub use party::Party;
pub use row::RowId;
pub use secret::{Coins, Secret};
pub use tag::{TagLen, Tags};
pub use unit::UnitId;
pub use words::is_default;
