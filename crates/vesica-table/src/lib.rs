//! CSV, Parquet and Arrow in and out; knows nothing of cryptography.
