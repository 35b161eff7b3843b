//! The Service data path. `cli` starts it through [`run`]; its README follows.
#![doc = include_str!("../README.md")]

pub mod alone;
pub mod backend;
pub mod config;
pub mod explain;
pub mod health;
mod health_ports;
pub mod metrics;
pub mod plan;
mod report;
pub mod run;
mod schedule;
pub mod settings;
pub mod stale;
pub mod track;
mod watch;
