//! The verbs, the same for every kind: one file each.

pub mod create;
pub mod delete;
pub mod delete_collection;
pub mod get;
pub mod list;
pub mod patch;
pub mod update;
pub mod watch;
pub mod write;
