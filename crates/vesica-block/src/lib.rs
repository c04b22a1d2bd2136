//! 128-bit blocks by the batch.
//!
//! What protocols on oblivious transfer spend their time on: [`aes`] and what is made of it ([`prg`], [`hash`]), products
//! in binary fields ([`gf128`], [`gf64`], [`gf256`]) and the [`transpose`] of bit matrices. Every function takes as much time on one
//! block as on any other; lengths are public. Each works on slices: one call on a thousand blocks costs a tenth of a
//! thousand calls.
//!
//! ```
//! use vesica_block::{Block, gf128, hash, prg::Prg};
//!
//! let mut blocks = [Block::ZERO; 8];
//! Prg::new(Block(7)).fill(&mut blocks);
//! hash::tccr(Block(0), &mut blocks);
//! assert_eq!(gf128::mul(blocks[0], Block(2)), gf128::mul(Block(2), blocks[0]));
//! ```

pub mod aes;
mod backend;
pub mod blake;
mod block;
pub mod gf128;
pub mod gf256;
pub mod gf64;
pub mod hash;
pub mod large;
pub mod mac;
pub mod prg;
pub mod rijndael256;
mod row;
pub mod select;
pub mod sort;
pub mod transpose;

pub use backend::prefetch;
pub use block::Block;
pub use row::Row;

#[cfg(test)]
mod checks;
