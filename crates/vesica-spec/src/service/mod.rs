//! What the documents of a service mean: one party prepares and serves, many ask.
//!
//! [`types`] are the documents as they are written, [`plan`] gives their meaning. The server's document has `[service]` with
//! what all clients are told, and `[mine]`. A client's has `[service]` with what it expects, and `[mine]`.

mod plan;
mod types;

pub use plan::{
    AskPlan, DayPlan, GuestPlan, KeptPlan, Secret, ServePlan, plan_ask, plan_ask_any, plan_serve, with_ending,
};
pub use types::{
    Asks, Beyond, By, Client, ClientMine, ClientSpec, Hint, KeptFile, Preset, Private, ServerMine, ServerSpec,
    ServerTls, Service, ServiceProtocol, default_cache_size, default_expected, default_requests,
};

pub(crate) use types::anchor;
