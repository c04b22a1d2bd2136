//! What a run says while it works, and when it is over.

pub mod clock;
pub mod control;
pub mod metrics;
pub mod numbers;
pub mod page;
pub mod report;
pub mod trace;
