//! AWS: load balancers of Services with their security groups, and DNS records.
//!
//! - `cloud_config`: what an administrator says about the account.
//! - `account`: what is asked of AWS, call by call; `clients` asks the real one, `memory` plays it for tests.
//! - `model`: what a Service should have; `plan`: what has to change for it; `apply`: does it.
//! - `nodes`, `routes`: what AWS knows of nodes, and routes to their pods; `route53`: DNS records.

pub mod account;
pub mod apply;
pub mod clients;
pub mod cloud_config;
pub mod memory;
pub mod model;
pub mod nodes;
pub mod plan;
pub mod preflight;
mod report;
pub mod route53;
mod routes;
