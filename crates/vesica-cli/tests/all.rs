//! All tests of `vesica-cli` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-cli --test all NAME::` runs those of
//! the file NAME.rs.

mod agree;
mod bench;
mod command;
mod count;
mod csv;
mod demo;
mod dp;
mod ending;
mod formats;
mod groups;
mod ids;
mod invite;
mod join;
mod killed;
mod large;
mod many;
mod page;
mod protocols;
mod report;
mod resume;
mod retrieval;
mod roads;
mod secretflow;
mod service;
mod sources;
mod sum;
mod suspects;
mod three;
mod trouble;
mod tutorials;
mod two;
mod units;
