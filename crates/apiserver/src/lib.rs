//! The API server: one engine and a table of kinds.
//!
//! A request is read (`request`), its sender known (`authn`) and allowed (`authz`), then one of the `verbs` serves it by the
//! rules of its `api::Resource`. Objects live in `store` as bytes and leave it as bytes (`stored`).

pub mod admission;
pub mod aggregated_roles;
pub mod answer;
pub mod audit;
pub mod bootstrap;
pub mod call;
pub mod client;
pub mod definitions;
pub mod discovery;
pub mod encryption;
pub mod fairness;
pub mod follow;
pub mod inflight;
pub mod journal;
pub mod kinds;
pub mod kubelet;
pub mod openapi;
pub mod paths;
pub mod registry;
pub mod request;
pub mod select;
pub mod serve;
pub mod server;
pub mod service;
pub mod services;
pub mod start;
pub mod stored;
pub mod subresource;
pub mod table;
pub mod testing;
pub mod turn;
pub mod verbs;

pub use runtime::http::Body;
pub use server::{ApiServer, Config};
