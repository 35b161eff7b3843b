//! What every Twinstack component needs and none should write for itself.
//!
//! A component reads its settings ([`config`]), opens its sockets ([`listen`]), proves who it is ([`pki`], [`tls`]),
//! serves and is watched ([`http`], [`admin`], [`health`], [`metrics`], [`log`]), and runs and ends as named tasks
//! ([`task`], [`shutdown`]). It reaches the cluster ([`client`]), follows what is in it ([`watch`]), alone among its like ([`lease`]), makes
//! objects agree with each other ([`controller`], [`operator`]), and perhaps a cloud ([`cloud`]). `cli` joins these parts; components take the ones they need.

pub mod admin;
pub mod atomic_file;
pub mod backoff;
pub mod client;
pub mod cloud;
pub mod config;
pub mod controller;
pub mod health;
pub mod http;
pub mod kubeconfig;
pub mod lease;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod operator;
pub mod pki;
pub mod secret;
pub mod shutdown;
mod stable_hash;
pub mod suggest;
pub mod task;
pub mod tls;
pub mod version;
pub mod watch;

pub use stable_hash::stable_hash;
