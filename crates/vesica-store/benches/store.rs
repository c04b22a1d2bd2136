//! The store: `cargo bench -p vesica-store`.

fn main() {}
