//! All tests of `vesica-psi` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-psi --test all NAME::` runs those of
//! the file NAME.rs.

mod answers;
mod circuit;
mod circuit_size;
mod count;
mod dp;
mod ecdh;
mod ecdh3;
mod groups;
mod hash;
mod ids;
mod job;
mod many;
mod oprf;
mod sides;
mod size;
mod tally;
mod transcripts;
mod unbalanced;
