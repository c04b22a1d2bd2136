//! Two-party harness, fixed randomness, hostile peers, data sets; for tests only.
