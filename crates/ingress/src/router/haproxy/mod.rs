//! HAProxy: its configuration, its maps, its runtime socket and its process.
//!
//! [`write`](mod@write) makes the files of a generation ([`request`]: what every request goes through), [`process`] checks and starts one beside the last, [`live`] keeps what
//! the running one holds and changes it through the socket ([`servers`], [`spare`], [`certificates`]), and says when only a new generation will do.

mod backend;
mod capacity;
mod certificates;
mod jail;
mod layout;
mod live;
mod process;
mod request;
mod senders;
mod servers;
mod socket;
mod spare;
mod stat;
#[cfg(test)]
mod tests;
mod write;

pub use jail::{Jail, User};
pub use layout::{Layout, hand_over};
pub use live::{Live, Need};
pub use process::{Haproxy, HaproxyError, Process};
pub use socket::{Socket, SocketError};
pub use stat::{Row, SHOW_ALL, rows, show_backend};
pub(crate) use write::MONITOR;
pub use write::{Files, Generation, forget_keys, write};
