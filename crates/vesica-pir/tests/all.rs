//! All tests of `vesica-pir` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-pir --test all NAME::` runs those of
//! the file NAME.rs.

mod keyword;
mod simple;
