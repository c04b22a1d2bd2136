//! Polynomials and matrices modulo q by the batch.

#![deny(unsafe_code)]

mod backend;
pub mod bits;
mod lanes;
pub mod matrix;
mod ntt;
mod prime;
pub mod ring_fft;
mod rns;

pub use ntt::{FEW, Grid, Line, Ntt, ROWS, TERMS};
pub use prime::{Factor, MODULUS_LIMIT, Modulus, is_prime};
pub use rns::Basis;
