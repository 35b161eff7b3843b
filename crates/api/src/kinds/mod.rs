//! The built-in kinds: the table of them, and the rules of each in a file of its own.
//!
//! The API server builds its routes from `table`. A new kind is one row there and, if it has rules, one file here.

mod address;
pub mod api_service;
mod apps;
mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod check;
pub mod columns;
mod config;
mod coordination;
pub mod definition;
mod devices;
pub mod edit;
mod endpoints;
mod event;
pub mod flowcontrol;
pub mod ingress;
mod limit_range;
pub mod meta;
mod migration;
pub mod names;
mod namespace;
mod node;
pub mod pod;
pub mod policy;
pub mod quantity;
mod rbac;
mod replication_controller;
mod resource_quota;
pub(crate) mod resources;
mod review;
mod runtime_class;
pub mod selector;
pub mod service;
pub mod service_ips;
pub mod service_validate;
pub mod storage;
mod table;
#[cfg(test)]
mod tests;

pub mod webhook;

pub use table::table;
