//! Kubernetes vocabulary: the shape of every type, the table of resources with their rules, errors and field paths.
//!
//! Pure: no I/O, no async. `apiserver` is the engine that runs these rules; controllers use the same words.

pub mod bootstrap_token;
pub mod config;
pub mod cron;
pub mod error;
pub mod families;
pub mod go_duration;
pub mod go_regex;
pub mod kinds;
pub mod limits;
pub mod object;
pub mod path;
pub mod protobuf;
pub mod quota;
pub mod resource;
pub mod rights;
pub mod schema;
