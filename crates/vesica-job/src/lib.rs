//! From a specification to a report: the only room that sees everyone.
//!
//! [`spec::load`] reads what was written, [`plan()`] says what it means, [`run`] does it and [`Report`] says what
//! happened. [`check`] finds what can be found before contact, [`forecast`] says what a run will cost. The command line
//! and the Python package call these and nothing below them.

#![forbid(unsafe_code)]

mod agree;
mod answers;
mod check;
mod clock;
mod control;
mod cost;
mod error;
mod forecast;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod join;
mod kept;
mod keys;
mod ledger;
mod local;
mod memory;
mod part;
mod peer;
mod plan;
pub mod report;
mod rules;
mod run;
pub mod sample;
pub mod schema;
pub mod secretflow;
mod settle;
mod shape;
mod sort;
pub mod spec;
mod threads;
mod trace;
mod units;

pub use agree::Difference;
pub use check::{Checked, Finding, check};
pub use control::{Control, Event, Watch};
pub use error::JobError;
pub use forecast::{Forecast, forecast};
pub use plan::{MAX_KEYS, PeerPlan, Plan, ResumePlan, TrustPlan, plan};
pub use report::Report;
pub use run::run;
pub use vesica_session::Fault;
pub use vesica_suite::Sizes;

/// The parties' certificates.
pub mod identity {
    pub use vesica_net::{Error, Fingerprint, Identity};
}

/// The instruction sets that kernels are compiled for.
pub mod cpu {
    pub use vesica_cpu::{Backend, requested};
}

/// The version of the format on the wire: both sides must have the same.
pub use vesica_net::WIRE_VERSION;
