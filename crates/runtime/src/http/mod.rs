//! The HTTP server of every component: admin endpoints, and the API server later.
//!
//! HTTP/1.1 and HTTP/2, plain or TLS, on several sockets, with limits, and a stop that lets requests in flight end.
//! What is served is any tower service; `tower::service_fn` makes one of a closure. There is no router here: the API
//! has one grammar, and [`crate::admin`] has five paths.

mod ask;
mod body;
mod collect;
mod connection;
mod limits;
mod outgoing;
mod pace;
mod server;
mod slots;
mod upgrade;

pub use ask::ask;
pub use body::{Body, BoxError, empty, full, holding, text};
pub use collect::{CollectError, collect};
pub use connection::Peer;
pub use limits::Limits;
pub use outgoing::Unhurried;
pub use pace::Pace;
pub use server::{Drained, Server};
pub use upgrade::{end_to_end, join, offer, upgrade};
