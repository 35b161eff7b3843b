//! Following a kind of object: a list, then every change, for ever. The one way in which components learn what the API holds.
//!
//! kube's watcher goes on from its last version whatever happens, which freezes it when that version is refused before
//! the stream begins, and hides changes when the server came back with an older history. So this one lists again whenever
//! it cannot be sure: when the version is gone (told by status or by event), when a watch cannot be started, when the
//! connection breaks, when the server's versions went back. It goes on from its last version only where a watch ended in
//! order and the next one was accepted.
//!
//! Every watch also keeps a [`view`]: when it was last proven to be current. `/readyz`, a metric and `doctor` tell it.

mod changes;
mod erased;
mod error;
pub mod report;
mod stream;
#[cfg(test)]
mod tests;
pub mod view;

pub use error::Error;
pub use kube::runtime::watcher::{Config, Event};
pub use stream::watch;
