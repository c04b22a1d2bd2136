//! The vesica command.

fn main() {}
