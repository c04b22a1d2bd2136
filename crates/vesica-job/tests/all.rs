//! All tests of `vesica-job` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-job --test all NAME::` runs those of
//! the file NAME.rs.

mod any;
mod joins;
mod null;
