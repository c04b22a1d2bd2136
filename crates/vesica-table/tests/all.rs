//! All tests of `vesica-table` from outside, in one program: it is compiled and linked once. `cargo test -p vesica-table --test all NAME::` runs those of
//! the file NAME.rs.

mod arrow;
mod csv;
mod dataset;
mod gather;
mod kit;
mod output;
mod parquet_out;
mod parquet_sizes;
mod parts;
mod pieces;
mod program;
mod python_csv;
mod widened;
