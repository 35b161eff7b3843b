//! The API server: one engine and a table of kinds.
//!
//! A request is read (`request`), its sender known (`authn`) and allowed (`authz`), then one of the `verbs` serves it by the
//! rules of its `api::Resource`. Objects live in `store` as bytes and leave it as bytes (`stored`).

pub mod admission;
mod aggregated_roles;
pub mod aggregation;
mod answer;
pub mod audit;
mod bootstrap;
mod call;
pub mod client;
mod definitions;
pub mod delegated;
mod discovery;
pub mod encryption;
pub mod fairness;
mod follow;
mod gzip;
pub mod handle;
pub mod inflight;
mod journal;
pub mod kinds;
mod kubeconfig;
pub mod kubelet;
pub mod launch;
mod metrics;
mod openapi;
mod paths;
mod privileged;
pub mod registry;
pub mod request;
pub mod select;
mod server;
pub mod services;
pub mod stored;
mod subresource;
mod table;
pub mod testing;
mod turn;
pub mod verbs;
pub mod warm;
pub mod webhook;

pub use runtime::http::Body;
pub use server::{ApiServer, Config};
