//! From a plan to a report: the only room that sees everyone.
//!
//! [`run`] does what a [`vesica_spec::Plan`] says and [`Report`] says what happened. [`check`] finds what can be found
//! before contact, [`forecast`] says what a run will cost.

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
mod part;
mod peers;
pub mod report;
mod run;
pub mod sample;
pub mod schema;
mod settle;
mod sort;
mod threads;
mod trace;
mod units;
mod whole;

pub use agree::Difference;
pub use check::{Checked, Finding, check};
pub use control::{Control, Event, Watch};
pub use error::JobError;
pub use forecast::{Forecast, forecast};
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
