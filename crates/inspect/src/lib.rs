//! What is wrong in a cluster, and how to mend it: pure functions over a snapshot of its objects.
//!
//! - `snapshot`: the objects, as the API or a file gives them.
//! - `families`: which families things have.
//! - `trace`: how a request of each family travels.
//! - `doctor`: what is found wrong, each with its reason and, where there is one, the command that mends it.

pub mod doctor;
mod endpoints;
mod families;
mod snapshot;
pub mod trace;

pub use snapshot::{KINDS, Kind, Snapshot};
