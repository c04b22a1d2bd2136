//! All tests of `vesica-net` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-net --test all NAME::` runs those of
//! the file NAME.rs.

mod common;
mod connect;
mod door;
mod hostile;
mod life;
mod lines;
mod programs;
mod proxy;
mod roads;
