//! All tests of `vesica-store` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-store --test all NAME::` runs those of
//! the file NAME.rs.

mod damage;
mod incoming;
mod store;
