//! What a job's document means: its types, how it is read, and the plan that follows from it.
//!
//! [`load`] reads what was written. [`plan()`] says what it means, or which field means nothing. No table is opened here,
//! no clock read, no chance drawn and nobody talked to. Besides the job file, a plan depends on one thing: the number of
//! this machine's cores, where the job does not say `mine.workers`.

#![forbid(unsafe_code)]

mod accept;
mod checks;
mod connect;
mod error;
mod identifiers;
mod invitation;
mod join;
mod key;
mod memory;
mod parse;
mod pins;
mod plan;
mod rules;
pub mod schema;
pub mod service;
mod types;
mod words;

pub use accept::{Accept, All, Extra};
pub use checks::{LEAST_MEMORY, check_name, rules};
pub use connect::{Call, Connect, RoadPlan};
pub use error::SpecError;
pub use identifiers::{Identifier, KeyList, MOST_LISTS, Match};
pub use invitation::{Head, Invitation, OwnTable, Proposal, Reply, Terms, host_and_port, is_every_interface};
pub use join::{Half, Join, Shape};
pub use key::{KeyPlace, KeyProgram};
pub use memory::Share;
pub use parse::{Document, document, line_and_column, load, load_any, nearest, parse, parse_shared};
pub use pins::Pins;
pub use plan::{
    Added, GroupedPlan, LABEL_BYTES, MAX_KEYS, MAX_LANES, PeerPlan, Plan, ProxyPlan, ResumePlan, TrustPlan, plan,
};
pub use rules::{Rule, Rules};
pub use types::{
    Budget, Duplicates, Format, GroupLabel, Groups, Input, Limits, Matched, Mine, Order, OtherGroups, Output, ProxyUrl,
    Shared, Spec, Sum, Tls, USUAL_MEMORY, default_memory, default_patience,
};
pub use vesica_suite::{CurveName, Mode, Noise, ProtocolName, ResultKind, Security};
pub use vesica_table::{Origin, Program};
