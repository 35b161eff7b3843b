//! The built-in kinds: the table of them, and the rules of each in a file of its own.
//!
//! The API server builds its routes from `table`. A new kind is one row there and, if it has rules, one file here.

mod address;
mod apps;
pub mod check;
pub mod columns;
mod config;
mod coordination;
pub mod definition;
pub mod edit;
mod endpoints;
mod event;
pub mod flowcontrol;
mod ingress;
pub mod meta;
pub mod names;
mod namespace;
mod node;
pub mod pod;
pub mod policy;
pub mod quantity;
mod rbac;
mod resources;
mod review;
pub mod selector;
pub mod service;
pub mod service_ips;
pub mod service_validate;
mod table;
#[cfg(test)]
mod tests;

pub mod webhook;

pub use table::table;
