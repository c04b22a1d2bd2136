//! Security levels and named parameter sets, each with its source.
