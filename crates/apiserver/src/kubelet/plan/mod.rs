//! Where a request for a node, Pod or Service goes. Nothing here opens a connection.

pub mod container;
pub mod log;
pub mod node;
pub mod path;
pub mod proxy;
pub mod query;
pub mod stream;
pub mod target;
