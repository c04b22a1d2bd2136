//! One file per intersection protocol.
