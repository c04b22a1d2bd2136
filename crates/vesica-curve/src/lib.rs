//! Prime-order groups by the batch.
