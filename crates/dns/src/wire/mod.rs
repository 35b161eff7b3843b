//! DNS messages as bytes: names, questions, records, replies. Pure: no I/O, no clock.

pub mod code;
mod message;
mod name;
mod query;
mod read;
mod record;
mod reply;
mod text;

pub use message::{Message, Section};
pub use name::{Name, NameError};
pub use query::{Edns, Reject, Request};
pub use read::Malformed;
pub use record::Record;
pub(crate) use record::from_reverse;
pub use reply::{Limits, Reply};
pub use text::TextError;

#[cfg(test)]
mod tests;
