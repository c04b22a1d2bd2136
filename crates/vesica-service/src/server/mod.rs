//! The side that answers.

pub mod answer;
pub mod audit;
pub mod budget;
#[allow(clippy::disallowed_methods, reason = "it talks to the operator's monitor, and to no peer")]
pub mod metrics;
pub mod patience;
pub mod serve;
